"""Puts what is not Python into the wheel: the SQL migrations and the built web page."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Adds ``migrations`` as ``brain/_migrations`` and ``web/dist`` as ``brain/_web``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Refuse to build a wheel without the page; an editable install uses both from the source tree."""
        if version == "editable":
            return
        root = Path(self.root)
        page = root / "web" / "dist"
        if not (page / "index.html").is_file():
            raise FileNotFoundError("web/dist is missing: run `make web` before building the wheel")
        build_data["force_include"][str(root / "migrations")] = "brain/_migrations"
        build_data["force_include"][str(page)] = "brain/_web"
