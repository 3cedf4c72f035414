"""The data folder: where it is, and the reasons for which it is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from brain.local.data_folder import DataFolderError, data_folder, hold, is_held, prepare


def test_the_folder_follows_the_environment(tmp_path: Path) -> None:
    assert data_folder({"DAAPU_HOME": str(tmp_path)}) == tmp_path
    if sys.platform == "linux":
        assert data_folder({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "daapu"
        assert data_folder({"DAAPU_HOME": " "}) == Path("~/.local/share/daapu").expanduser()


def test_a_folder_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFolderError, match=r"cannot be written.*set DAAPU_HOME"):
        prepare(tmp_path / "file" / "data")


def test_a_disk_without_room_is_refused_with_figures(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match=r"MiB are free.*needs 1048576000000 MiB"):
        prepare(tmp_path, needed_bytes=1048576000000 * 2**20)


def test_a_second_holder_is_told_who_the_first_is(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert not is_held(tmp_path)
    code = (
        "import sys, pathlib; from brain.local.data_folder import hold\n"
        f"with hold(pathlib.Path({str(tmp_path)!r})): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        assert is_held(tmp_path)
        with pytest.raises(DataFolderError, match=rf"already running.*process {owner.pid}"), hold(tmp_path):
            pass
        owner.kill()
    assert not is_held(tmp_path)
    with hold(tmp_path):
        pass


def test_logs_and_run_files_are_for_the_owner_only(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert (tmp_path / "run").stat().st_mode & 0o077 == 0
    assert (tmp_path / "logs").stat().st_mode & 0o077 == 0
