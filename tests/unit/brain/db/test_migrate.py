"""The migration runner: order, once only, atomic, checksums."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest

from brain.db.migrate import MigrationError, migrate, migrations_folder, pending_migrations


def _write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.sql").write_text(text)


def _names(url: str) -> list[str]:
    with psycopg.connect(url) as conn:
        rows = conn.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 't\\_%' ORDER BY relname"
        ).fetchall()
    return [row[0] for row in rows]


def test_real_files_apply_to_an_empty_database(empty_database_url: str) -> None:
    applied = migrate(empty_database_url)
    assert applied == sorted(path.stem for path in migrations_folder().glob("*.sql"))
    assert migrate(empty_database_url) == []
    assert pending_migrations(empty_database_url) == []


def test_files_are_applied_once_and_in_order(empty_database_url: str, tmp_path: Path) -> None:
    _write(tmp_path, "0001_one", "CREATE TABLE t_one (x int);")
    assert pending_migrations(empty_database_url, folder=tmp_path) == ["0001_one"]
    assert migrate(empty_database_url, folder=tmp_path) == ["0001_one"]
    _write(tmp_path, "0002_two", "-- depends: 0001_one\nALTER TABLE t_one ADD COLUMN y int;\nCREATE TABLE t_two (x int);")
    assert migrate(empty_database_url, folder=tmp_path) == ["0002_two"]
    assert _names(empty_database_url) == ["t_one", "t_two"]


def test_a_failing_file_leaves_nothing_behind_and_names_itself(empty_database_url: str, tmp_path: Path) -> None:
    _write(tmp_path, "0001_bad", "CREATE TABLE t_half (x int);\nSELECT no_such_function();")
    with pytest.raises(MigrationError, match=r"0001_bad.*no_such_function"):
        migrate(empty_database_url, folder=tmp_path)
    assert _names(empty_database_url) == []
    assert pending_migrations(empty_database_url, folder=tmp_path) == ["0001_bad"]


def test_a_file_changed_after_it_was_applied_is_refused(empty_database_url: str, tmp_path: Path) -> None:
    _write(tmp_path, "0001_one", "CREATE TABLE t_one (x int);")
    migrate(empty_database_url, folder=tmp_path)
    _write(tmp_path, "0001_one", "CREATE TABLE t_one (x bigint);")
    with pytest.raises(MigrationError, match=r"0001_one.*changed after"):
        migrate(empty_database_url, folder=tmp_path)


def test_other_line_endings_are_no_change(empty_database_url: str, tmp_path: Path) -> None:
    (tmp_path / "0001_one.sql").write_bytes(b"-- why\nCREATE TABLE t_one (x int);\n")
    migrate(empty_database_url, folder=tmp_path)
    (tmp_path / "0001_one.sql").write_bytes(b"-- why\r\nCREATE TABLE t_one (x int);\r\n")
    assert migrate(empty_database_url, folder=tmp_path) == []


def test_a_database_of_a_newer_version_is_refused(empty_database_url: str, tmp_path: Path) -> None:
    _write(tmp_path, "0001_one", "CREATE TABLE t_one (x int);")
    _write(tmp_path, "0002_two", "CREATE TABLE t_two (x int);")
    migrate(empty_database_url, folder=tmp_path)
    (tmp_path / "0002_two.sql").unlink()
    with pytest.raises(MigrationError, match=r"newer daapu.*0002_two"):
        migrate(empty_database_url, folder=tmp_path)


def test_function_bodies_and_percent_signs_survive(empty_database_url: str, tmp_path: Path) -> None:
    _write(
        tmp_path,
        "0001_function",
        "CREATE FUNCTION half(x int) RETURNS int LANGUAGE plpgsql AS $$\nBEGIN\n  IF x % 2 = 0 THEN RETURN x / 2; END IF;\n"
        "  RETURN NULL;\nEND;\n$$;\nCREATE TABLE t_one (x text CHECK (x LIKE 'a%'));",
    )
    migrate(empty_database_url, folder=tmp_path)
    with psycopg.connect(empty_database_url) as conn:
        assert conn.execute("SELECT half(8)").fetchone() == (4,)


def test_an_index_may_be_built_outside_a_transaction(empty_database_url: str, tmp_path: Path) -> None:
    _write(tmp_path, "0001_one", "CREATE TABLE t_one (x int);")
    _write(tmp_path, "0002_index", "-- transactional: false\nCREATE INDEX CONCURRENTLY IF NOT EXISTS t_one_x ON t_one (x);")
    assert migrate(empty_database_url, folder=tmp_path) == ["0001_one", "0002_index"]


def test_of_several_at_once_one_works_and_the_others_wait(empty_database_url: str, tmp_path: Path) -> None:
    _write(tmp_path, "0001_slow", "SELECT pg_sleep(0.3);\nCREATE TABLE t_one (x int);")
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(migrate(empty_database_url, folder=tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[], [], [], ["0001_slow"]]


def test_a_database_that_does_not_answer_is_named_by_its_setting(tmp_path: Path) -> None:
    _write(tmp_path, "0001_one", "CREATE TABLE t_one (x int);")
    with pytest.raises(MigrationError, match=r"does not answer.*database\.url"):
        migrate("postgresql://nobody@127.0.0.1:1/none", folder=tmp_path)
