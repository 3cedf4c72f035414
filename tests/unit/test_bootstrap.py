"""``make`` on a machine that lacks something: everything that is missing is said at once, before anything is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bootstrap.sh"
NOTHING_MISSING = 2  # the word "check" is no part that can be installed, so the script ends with its usage


def bootstrap(folder: Path, *, python: str = "", node: str | None = None) -> subprocess.CompletedProcess[str]:
    dirname, bash = shutil.which("dirname"), shutil.which("bash")
    assert dirname is not None
    assert bash is not None
    (folder / "dirname").symlink_to(dirname)
    if node is not None:
        (folder / "node").write_text(f"#!/bin/sh\necho {node}\n")
        (folder / "node").chmod(0o755)
    environ = {"PATH": str(folder), "PYTHON": python}
    return subprocess.run([bash, SCRIPT, "check"], env=environ, capture_output=True, text=True, check=False, timeout=20)


def stub(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    result = bootstrap(tmp_path)
    assert result.returncode == 1
    for name in ("Python 3.11", "git", "Node 20.19", "npm"):
        assert f"- {name}" in result.stderr


@pytest.mark.parametrize("version", ["v18.20.4", "v20.18.0", "v21.7.3", "v22.11.0"])
def test_a_node_that_cannot_build_the_page_is_refused(tmp_path: Path, version: str) -> None:
    stub(tmp_path, "git", "npm")
    result = bootstrap(tmp_path, python=sys.executable, node=version)
    assert result.returncode == 1
    assert f"(found: {version})" in result.stderr
    assert result.stderr.count("  - ") == 1


@pytest.mark.parametrize("version", ["v20.19.0", "v22.12.0", "v23.0.0", "v24.1.0"])
def test_a_node_that_can_build_the_page_is_taken(tmp_path: Path, version: str) -> None:
    stub(tmp_path, "git", "npm")
    assert bootstrap(tmp_path, python=sys.executable, node=version).returncode == NOTHING_MISSING
