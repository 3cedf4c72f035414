"""The wheel carries what is not Python: the page and the migrations; without the page it is not built."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
UV = Path(sys.executable).parent / "uv"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not UV.exists(), reason="uv is not in the environment: make install")]


def source_tree(folder: Path, *, with_page: bool) -> Path:
    for name in ("brain", "hand", "shared_protocol", "migrations"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "build_hook.py"):
        shutil.copy(ROOT / name, folder / name)
    if with_page:
        (folder / "web" / "dist" / "assets").mkdir(parents=True)
        (folder / "web" / "dist" / "index.html").write_text("<!doctype html>")
        (folder / "web" / "dist" / "assets" / "app.js").write_text("1")
    return folder


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(UV), "build", "--wheel", "--out-dir", str(folder / "out"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)


def test_the_wheel_carries_page_migrations_and_prompts(tmp_path: Path) -> None:
    result = build(source_tree(tmp_path, with_page=True))
    assert result.returncode == 0, result.stderr
    [wheel] = (tmp_path / "out").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"brain/_web/index.html", "brain/_web/assets/app.js", "brain/_migrations/0001_extensions.sql"} <= names
    assert any(name.startswith("brain/") and name.endswith(".en.md") for name in names)
    assert not any("__pycache__" in name or name.startswith("tests/") for name in names)


def test_a_wheel_without_the_page_is_refused(tmp_path: Path) -> None:
    result = build(source_tree(tmp_path, with_page=False))
    assert result.returncode != 0
    assert "make web" in result.stderr + result.stdout
