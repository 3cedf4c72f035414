"""Fixtures that live in the shared folder beside the repository are copied here; a copy must not drift."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"

COPIES = {
    "fixtures/dialects": "tests/fixtures/dialects",
    "bench/bench.py": "tests/perf/programs/bench.py",
    "bench/report.py": "tests/perf/programs/report.py",
    "bench/footprint.py": "tests/perf/programs/footprint.py",
    "bench/upstream.c": "tests/perf/programs/upstream.c",
    "bench/load.c": "tests/perf/programs/load.c",
    "bench/README.md": "tests/perf/programs/README.md",
}


def files_under(folder: Path) -> dict[str, bytes]:
    if folder.is_file():
        return {"": folder.read_bytes()}
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(("original", "copy"), COPIES.items())
def test_copy_equals_the_shared_original(original: str, copy: str) -> None:
    if not (SHARED / original).exists():
        pytest.skip("no shared folder beside this clone")
    ours, theirs = files_under(ROOT / copy), files_under(SHARED / original)
    assert sorted(ours) == sorted(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
