"""Backup and restore of a real database."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from brain.db.backup import BackupError, backup, restore
from brain.local.postgres import programs_folder


def _marker(url: str) -> str | None:
    with psycopg.connect(url) as conn:
        row = conn.execute("SELECT measurement::text FROM model_measurements WHERE model_id = 'x'").fetchone()
    return None if row is None else str(row[0])


def _write(url: str, text: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO model_measurements (model_id, measurement) VALUES ('x', %(m)s::jsonb)"
            " ON CONFLICT (model_id) DO UPDATE SET measurement = excluded.measurement",
            {"m": text},
        )


def test_a_restore_brings_back_what_was_there(database_url: str, tmp_path: Path) -> None:
    _write(database_url, '"before"')
    backup(database_url, tmp_path / "a.daapu", programs=programs_folder())
    assert (tmp_path / "a.daapu").stat().st_mode & 0o077 == 0
    _write(database_url, '"after"')
    restore(database_url, tmp_path / "a.daapu", programs=programs_folder(), replace=True)
    assert _marker(database_url) == '"before"'


def test_an_existing_file_is_not_overwritten(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("precious")
    with pytest.raises(BackupError, match="exists already"):
        backup(database_url, tmp_path / "a", programs=programs_folder())
    assert (tmp_path / "a").read_text() == "precious"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match=r"cannot be written: No such file or directory; name a file"):
        backup("postgresql://127.0.0.1:1/none", tmp_path / "missing" / "b.daapu", programs=None)


def test_a_failed_backup_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="pg_dump failed"):
        backup("postgresql://nobody@127.0.0.1:1/none", tmp_path / "a", programs=programs_folder())
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_backup_changes_nothing(database_url: str, tmp_path: Path) -> None:
    _write(database_url, '"before"')
    backup(database_url, tmp_path / "a", programs=programs_folder())
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BackupError, match="pg_restore failed"):
        restore(database_url, tmp_path / "half", programs=programs_folder(), replace=True)
    assert _marker(database_url) == '"before"'


def test_a_database_in_use_is_not_replaced(database_url: str, tmp_path: Path) -> None:
    backup(database_url, tmp_path / "a", programs=programs_folder())
    with (
        psycopg.connect(database_url, application_name="daapu-brain"),
        pytest.raises(BackupError, match="stop it first"),
    ):
        restore(database_url, tmp_path / "a", programs=programs_folder(), replace=True)


def test_a_missing_file_is_named(database_url: str, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="no file"):
        restore(database_url, tmp_path / "none", programs=programs_folder(), replace=True)
