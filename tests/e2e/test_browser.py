"""The web page's own browser tests against a real system, and once more after all processes were restarted."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.system import running_system

WEB = Path(__file__).resolve().parents[2] / "web"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason=f"no browser on this machine ({', '.join(BROWSERS)})"),
    pytest.mark.skipif(not (WEB / "node_modules").is_dir(), reason="the packages of the web page are not installed: make web"),
]


def run_browser_tests(url: str, *files: str, **environ: str) -> None:
    command = ["npm", "run", "--silent", "e2e", "--", *files]
    environment = {**os.environ, "DAAPU_URL": url, **environ}
    result = subprocess.run(command, cwd=WEB, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert result.returncode == 0, f"{result.stdout[-8000:]}\n{result.stderr[-4000:]}"


def test_the_page_copes_with_everything_a_brain_can_do_to_it() -> None:
    command = ["npm", "run", "--silent", "e2e:fake"]
    result = subprocess.run(command, cwd=WEB, capture_output=True, text=True, check=False, timeout=500)
    assert result.returncode == 0, f"{result.stdout[-8000:]}\n{result.stderr[-4000:]}"


def test_the_page_works_and_everything_is_there_after_a_restart(data_home: Path, tmp_path: Path) -> None:
    state = {"DAAPU_E2E_STATE": str(tmp_path / "state.json")}
    with running_system(data_home) as system:
        run_browser_tests(system.url, DAAPU_E2E_PHASE="before", **state)
    with running_system(data_home) as system:
        run_browser_tests(system.url, "restart", DAAPU_E2E_PHASE="after", **state)
