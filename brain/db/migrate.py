"""Brings the schema up to date: plain SQL files, applied once each, in order, never changed afterwards."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from brain.db.advisory import MIGRATION_KEY, hold_advisory_lock
from brain.db.yoyo_backend import SqlMigration, open_backend, read_sql_migrations

LOCK_WAIT_S: Final = 300.0
"""Another replica may be migrating: wait for it rather than fail."""

_CHECKSUMS: Final = """
CREATE TABLE IF NOT EXISTS migration_checksums (
    migration_id text PRIMARY KEY,
    sha256       text NOT NULL,
    applied_at   timestamptz NOT NULL DEFAULT now()
)
"""


class MigrationError(Exception):
    """The schema cannot be brought to this program's version; the message says why and what to do."""


def migrations_folder() -> Path:
    """Return the folder of the SQL files: inside the installed package, else in the source tree.

    Raises:
        MigrationError: neither exists; the installation is broken.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_migrations", package.parent / "migrations"):
        if any(folder.glob("*.sql")):
            return folder
    raise MigrationError(f"no migration files beside {str(package)!r}: the installation is incomplete, install daapu again")


def migrate(url: str, *, folder: Path | None = None, lock_wait_s: float = LOCK_WAIT_S) -> list[str]:
    """Apply what is missing and return the ids of the files applied, oldest first.

    Blocking: call it before the loop starts or in a thread. Any number of processes may call it at once; one of them works.
    A file and the mark that it was applied are one transaction, unless the file says ``-- transactional: false``.

    Raises:
        MigrationError: no connection, a changed or unknown applied file, a failing statement.
    """
    migrations = read_sql_migrations(folder or migrations_folder())
    try:
        with hold_advisory_lock(url, MIGRATION_KEY, wait_s=lock_wait_s):
            return _apply_missing(url, migrations)
    except psycopg.errors.LockNotAvailable as error:
        raise MigrationError(
            f"another process has been migrating this database for over {lock_wait_s:.0f} s; wait for it or end it",
        ) from error
    except psycopg.OperationalError as error:
        raise MigrationError(f"the database does not answer: {_first_line(error)}; check database.url") from error


def pending_migrations(url: str, *, folder: Path | None = None) -> list[str]:
    """Return the ids of files that ``migrate`` would apply. Reads only; needs no lock.

    Raises:
        psycopg.Error: no connection.
    """
    migrations = read_sql_migrations(folder or migrations_folder())
    with psycopg.connect(url, autocommit=True, connect_timeout=15) as conn:
        row = conn.execute("SELECT to_regclass('migration_checksums') IS NOT NULL").fetchone()
        if row is None or not row[0]:
            return [migration.id for migration in migrations]
        applied = {str(found[0]) for found in conn.execute("SELECT migration_id FROM migration_checksums")}
    return [migration.id for migration in migrations if migration.id not in applied]


def _apply_missing(url: str, migrations: list[SqlMigration]) -> list[str]:
    applied_now: list[str] = []
    with open_backend(url) as backend:
        backend.run(_CHECKSUMS)
        known = {str(row[0]): str(row[1]) for row in backend.rows("SELECT migration_id, sha256 FROM migration_checksums")}
        _refuse_strangers(known, migrations)
        for migration in migrations:
            checksum = _checksum(migration.path)
            if migration.id in known:
                _refuse_change(migration, known[migration.id], checksum)
                continue
            mark = sql.SQL("INSERT INTO migration_checksums (migration_id, sha256) VALUES ({}, {})").format(
                sql.Literal(migration.id),
                sql.Literal(checksum),
            )
            try:
                backend.apply(migration, mark)
            except psycopg.Error as error:
                raise MigrationError(_explain(migration, error)) from error
            applied_now.append(migration.id)
    return applied_now


def _checksum(path: Path) -> str:
    # Line endings are made equal: git may have checked the file out with others.
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def _refuse_strangers(known: dict[str, str], migrations: list[SqlMigration]) -> None:
    if strangers := sorted(known.keys() - {migration.id for migration in migrations}):
        raise MigrationError(
            f"the database has been migrated by a newer daapu (it knows {', '.join(strangers)}); install that version",
        )


def _refuse_change(migration: SqlMigration, applied: str, found: str) -> None:
    if applied != found:
        raise MigrationError(
            f"migration {migration.id!r} was changed after it had been applied ({migration.path.name}: applied {applied[:12]}, "
            f"found {found[:12]}); restore the file and put the change into a new one",
        )


def _explain(migration: SqlMigration, error: psycopg.Error) -> str:
    text = _first_line(error)
    if isinstance(error, psycopg.errors.FeatureNotSupported | psycopg.errors.UndefinedFile) and "extension" in text:
        return f"{text}: daapu needs the extensions vector (pgvector) and pg_trgm; install them on the database server"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return (
            f"migration {migration.id!r}: {text}; let a superuser run CREATE EXTENSION vector and pg_trgm once, then start again"
        )
    return f"migration {migration.id!r} failed: {text}"


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().partition("\n")[0]
