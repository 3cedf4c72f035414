"""A table of goals: what was measured, beside what, and whether the goal is met."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import NamedTuple

ROOT_COMMAND = "make bench"


class Row(NamedTuple):
    """One goal; ``beside`` is what the figure is compared with in the same run."""

    case: str
    beside: str
    goal: str
    measured: str
    met: bool


def render(title: str, command: str, frame: str, rows: Sequence[Row], notes: str) -> str:
    """Return the page."""
    lines = [
        f"# {title}",
        "",
        f"Made by `{command}` (`{ROOT_COMMAND}`) on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, {_libraries()}.",
        frame,
        "",
        "| Case | Beside it | Goal | Measured | Met |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.case} | {row.beside} | {row.goal} | **{row.measured}** | {'yes' if row.met else '**no**'} |" for row in rows
    ]
    return "\n".join([*lines, "", notes.strip(), ""])


def _libraries() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("litestar", "uvicorn", "psycopg", "pgvector", "msgspec", "uvloop"))
