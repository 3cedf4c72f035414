"""The command line as a person uses it: one clear line instead of a stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from brain.config.schema import schema_text


def daapu(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DAAPU_HOME": str(folder / "home"), **environ}
    command = [sys.executable, "-m", "brain", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)


def config(folder: Path, url: str, **more: object) -> None:
    (folder / "config.jsonc").write_text(json.dumps({"database": {"url": url}, **more}))


def test_the_schema_is_printed(tmp_path: Path) -> None:
    assert daapu(tmp_path, "schema").stdout == schema_text()


def test_migrate_says_what_it_did(tmp_path: Path, empty_database_url: str) -> None:
    config(tmp_path, empty_database_url)
    first = daapu(tmp_path, "migrate")
    assert first.returncode == 0, first.stderr
    assert "applied 0001_extensions" in first.stdout
    assert daapu(tmp_path, "migrate").stdout == "the schema is up to date\n"


def test_backup_and_restore_by_command(tmp_path: Path, database_url: str) -> None:
    config(tmp_path, database_url)
    written = daapu(tmp_path, "backup", "a.daapu")
    assert written.returncode == 0, written.stderr
    restored = daapu(tmp_path, "restore", "a.daapu", "--replace")
    assert restored.returncode == 0, restored.stderr


def test_serve_refuses_the_embedded_database(tmp_path: Path) -> None:
    result = daapu(tmp_path, "serve")
    assert result.returncode == 1
    assert "does not exist" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_named_file_that_is_missing_is_never_replaced_by_defaults(tmp_path: Path) -> None:
    for command in ("up", "doctor", "migrate", "serve"):
        result = daapu(tmp_path, command, "--config", "mine.jsonc")
        assert result.returncode == 1
        assert "mine.jsonc" in result.stderr
        assert "does not exist" in result.stderr
    assert not (tmp_path / "home" / "postgres").exists()


def test_a_secret_of_a_wrong_configuration_is_not_printed(tmp_path: Path) -> None:
    config(tmp_path, "embedded", hand={"token": ["s3cret-value"]})
    result = daapu(tmp_path, "doctor", PROVIDERS__MAIN__API_KEY='{"a": "s3cret-value"}')
    assert result.returncode == 1
    assert "hand.token" in result.stderr
    assert "s3cret-value" not in result.stderr + result.stdout


def test_a_mistyped_command_is_named(tmp_path: Path) -> None:
    result = daapu(tmp_path, "statr")
    assert result.returncode != 0
    assert "statr" in result.stderr + result.stdout
