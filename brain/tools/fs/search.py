"""Search for names below a directory (chat-domain 16.3)."""

from __future__ import annotations

import os
from typing import Final

from brain.tools.fs.access import AccessControl
from brain.tools.fs.entries import Entry, iterate_entries, printable
from brain.tools.fs.globs import GlobSet
from brain.tools.fs.limits import FsError, FsLimits, Watch

NO_MATCHES: Final = "No matches found"
OUT_OF_TIME: Final = "the time limit was reached; search a deeper path"


def search_files(path: str, pattern: str, excluded: list[str], access: AccessControl, limits: FsLimits, watch: Watch) -> str:
    """Return the absolute paths below ``path`` that match, one per line; links by their own path.

    Subdirectories that cannot be read are skipped. A search that reaches a limit returns what it has and says so.

    Raises:
        FsError: ``path`` itself cannot be read.
    """
    search = _Search(path, GlobSet([pattern]), GlobSet(excluded), access, limits, watch)
    search.run()
    lines = search.matches or [NO_MATCHES]
    return "\n".join([*lines, f"[Incomplete: {search.stopped}]"] if search.stopped else lines)


class _Search:
    def __init__(
        self, root: str, wanted: GlobSet, excludes: GlobSet, access: AccessControl, limits: FsLimits, watch: Watch
    ) -> None:
        self.matches: list[str] = []
        self.stopped: str | None = None
        self._root = root
        self._wanted = wanted
        self._excludes = excludes
        self._access = access
        self._limits = limits
        self._watch = watch
        self._visited = 0

    def run(self) -> None:
        waiting = [""]
        while waiting and self.stopped is None:
            relative = waiting.pop()
            try:
                waiting.extend(self._scan(relative))
            except FsError:
                if self._watch.is_over:
                    self.stopped = OUT_OF_TIME
                elif not relative:
                    raise  # the directory that was asked for; those below it are skipped
        self.matches.sort()

    def _scan(self, relative: str) -> list[str]:
        """Visit one directory and return those in it, as prefixes of what they hold."""
        subdirectories: list[str] = []
        for entry in iterate_entries(os.path.join(self._root, relative), self._access, self._watch):
            if self._visit(f"{relative}{entry.name}", entry):
                subdirectories.append(f"{relative}{entry.name}/")
            if self.stopped is not None:
                break
        return subdirectories

    def _visit(self, relative: str, entry: Entry) -> bool:
        """Note a match; tell whether to descend."""
        self._visited += 1
        if self._visited >= self._limits.visited_entries:
            self.stopped = f"stopped after {self._visited} entries; search a deeper path"
        if entry.escapes or self._excludes.matches(relative):
            return False
        if self._wanted.matches(relative):
            self.matches.append(printable(os.path.join(self._root, relative)))
            if len(self.matches) >= self._limits.matches:
                self.stopped = f"stopped after {self._limits.matches} matches"
        return entry.is_directory
