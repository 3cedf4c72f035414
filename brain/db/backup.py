"""Backup and restore of the whole database with PostgreSQL's own programs, as one file."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from pathlib import Path


class BackupError(Exception):
    """The backup or the restore did not happen; the message says why. Nothing half done remains."""


def backup(url: str, target: Path, *, programs: Path | None) -> None:
    """Write the database into ``target`` (PostgreSQL's custom format), readable by its owner only.

    Raises:
        BackupError: the file exists or cannot be written, or pg_dump failed.
    """
    if target.exists():
        raise BackupError(f"{str(target)!r} exists already; choose another name")
    unfinished = target.with_name(target.name + ".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        unfinished.touch(mode=0o600)
    except OSError as error:
        raise BackupError(f"{str(target)!r} cannot be written: {error.strerror}; name a file in a folder that can") from error
    try:
        _run([*_program("pg_dump", programs), "--format=custom", "--no-owner", f"--file={unfinished}"], url)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def restore(url: str, source: Path, *, programs: Path | None, replace: bool) -> None:
    """Put a backup in place of the database's content, as one transaction.

    Raises:
        BackupError: no such file, daapu still uses the database, it holds chats and ``replace`` is false, pg_restore failed.
    """
    if not source.is_file():
        raise BackupError(f"there is no file {str(source)!r}")
    _refuse_unless_idle(url, replace=replace)
    _run(
        [
            *_program("pg_restore", programs),
            "--clean",
            "--if-exists",
            "--no-owner",
            "--single-transaction",
            "--exit-on-error",
            f"--dbname={_database(url)}",
            str(source),
        ],
        url,
    )


def _refuse_unless_idle(url: str, *, replace: bool) -> None:
    with psycopg.connect(url, autocommit=True, connect_timeout=15) as conn:
        others = conn.execute(
            """
            SELECT count(*)
              FROM pg_stat_activity
             WHERE datname = current_database()
               AND application_name LIKE 'daapu-%'
               AND pid <> pg_backend_pid()
            """,
        ).fetchone()
        if others is not None and others[0]:
            raise BackupError("daapu is using this database; stop it first")
        has_chats = conn.execute("SELECT to_regclass('chats') IS NOT NULL").fetchone()
        if replace or has_chats is None or not has_chats[0]:
            return
        filled = conn.execute("SELECT EXISTS (SELECT 1 FROM chats)").fetchone()
        if filled is not None and filled[0]:
            raise BackupError("the database holds chats, which the restore would replace; say --replace if that is meant")


def _program(name: str, programs: Path | None) -> list[str]:
    if programs is not None and (programs / name).exists():
        return [str(programs / name)]
    found = shutil.which(name)
    if found is None:
        raise BackupError(f"the program {name} is not installed; install the PostgreSQL 18 client programs")
    return [found]


def _database(url: str) -> str:
    return str(conninfo_to_dict(url).get("dbname") or "postgres")


def _run(command: list[str], url: str) -> None:
    parts = conninfo_to_dict(url)
    # The password travels in the environment: arguments are visible to every user of the machine.
    names = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "password": "PGPASSWORD",
        "dbname": "PGDATABASE",
        "sslmode": "PGSSLMODE",
    }
    env = {**os.environ, **{names[key]: str(value) for key, value in parts.items() if key in names and value is not None}}
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
        raise BackupError(f"{os.path.basename(command[0])} failed: {lines[0]}")  # noqa: PTH119 - a name, not a path to open
