"""Who may be read: allowed directories, blacklist, canonical paths (chat-domain 16.1)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

from brain.tools.fs.globs import GlobError, expand_braces
from brain.tools.fs.limits import FsError
from brain.tools.provider import ToolSetupError


class AccessControl:
    """Decides which canonical paths may be read."""

    def __init__(self, directories: Sequence[Path], blacklist: GitIgnoreSpec) -> None:
        self.directories = tuple(directories)
        self._roots = tuple(os.fspath(directory) for directory in directories)
        self._blacklist = blacklist

    def resolve(self, path: str) -> str:
        """Return the canonical path of a target.

        ``~`` is expanded, relative paths begin in the first allowed directory.

        Raises:
            FsError: it lies outside the allowed directories or is blacklisted.
        """
        if "\0" in path:
            raise FsError("the path contains a NUL character")
        try:
            canonical = os.path.realpath(os.path.join(self._roots[0], os.path.expanduser(path)))
        except (OSError, ValueError) as problem:
            raise FsError(f"the path '{path}' cannot be resolved") from problem
        roots = [root for root in self._roots if _is_within(canonical, root)]
        if not roots or any(self._is_blacklisted(canonical, root) for root in roots):
            raise FsError(f"access denied to '{path}': see fs__list_allowed_directories")
        return canonical

    def contains(self, path: str) -> bool:
        """Whether the canonical form of an existing path stays inside the allowed directories."""
        canonical = os.path.realpath(path)
        return any(_is_within(canonical, root) for root in self._roots)

    def _is_blacklisted(self, canonical: str, root: str) -> bool:
        if canonical == root:
            return False
        relative = os.path.relpath(canonical, root)
        # A pattern with a trailing slash speaks of directories only.
        return self._blacklist.match_file(f"{relative}/" if os.path.isdir(canonical) else relative)


def open_access(allowed_dirs: Sequence[str], blacklists: Sequence[str]) -> AccessControl:
    """Check the configuration of ``tool.fs`` and return the access control.

    Raises:
        ToolSetupError: no directory, one that does not exist, or a pattern that is blank or not valid.
    """
    directories: list[Path] = []
    for entry in allowed_dirs:
        if not entry.strip():
            raise ToolSetupError("tool.fs.allowedDirs has a blank entry")
        directory = Path(os.path.realpath(os.path.expanduser(entry)))
        if not directory.is_dir():
            raise ToolSetupError(f"tool.fs.allowedDirs: {entry!r} is not an existing directory")
        if directory not in directories:
            directories.append(directory)
    if not directories:
        raise ToolSetupError("tool.fs.allowedDirs is empty: name at least one directory, or set tool.fs.enabled to false")
    return AccessControl(directories, _compile_blacklist(blacklists))


def _compile_blacklist(patterns: Sequence[str]) -> GitIgnoreSpec:
    lines: list[str] = []
    for pattern in patterns:
        if not pattern.strip():
            raise ToolSetupError("tool.fs.blacklists has a blank entry")
        try:
            # Git knows no braces; a list written with them must not silently protect nothing.
            alternatives = expand_braces(pattern)
            spec = GitIgnoreSpec.from_lines(alternatives)
        except (GlobError, ValueError) as problem:
            raise ToolSetupError(f"tool.fs.blacklists: the pattern {pattern!r} is not valid: {problem}") from problem
        if any(compiled.include is None for compiled in spec.patterns):
            raise ToolSetupError(f"tool.fs.blacklists: the pattern {pattern!r} would match nothing")
        lines.extend(alternatives)
    return GitIgnoreSpec.from_lines(lines)


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)
