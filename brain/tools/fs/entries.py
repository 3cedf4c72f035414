"""Entries of a directory as the tools show them: links are files, what leaves the allowed directories is marked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from brain.tools.fs.access import AccessControl
from brain.tools.fs.limits import FsError, Watch, reason_of
from brain.tools.fs.opening import open_directory

CHECK_EVERY: Final = 1024
"""Entries between two looks at the watch."""


class Entry(msgspec.Struct, frozen=True):
    """One name in a directory, as the system has it. A link counts as a file, whatever it points to."""

    name: str
    is_directory: bool
    escapes: bool
    """It is a link whose existing target lies outside the allowed directories."""


def iterate_entries(directory: str, access: AccessControl, watch: Watch) -> Iterator[Entry]:
    """Yield the entries of a canonical path in the order of the system, without holding them all.

    Raises:
        FsError: it is missing, no directory, or unreadable.
    """
    try:
        with open_directory(directory) as descriptor, os.scandir(descriptor) as found:
            for index, entry in enumerate(found):
                if index % CHECK_EVERY == 0:
                    watch.check()
                yield _read_entry(directory, entry, access)
    except FileNotFoundError as problem:
        raise FsError("the directory does not exist") from problem
    except NotADirectoryError as problem:
        raise FsError("it is a file, not a directory") from problem
    except OSError as problem:
        raise FsError(f"the directory cannot be read: {reason_of(problem)}") from problem


def read_entries(directory: str, access: AccessControl, limit: int, watch: Watch) -> tuple[list[Entry], bool]:
    """Return the entries sorted by name, at most ``limit``, and whether there are more.

    Raises:
        FsError: as ``iterate_entries``.
    """
    found = iterate_entries(directory, access, watch)
    entries = list(islice(found, limit))
    has_more = next(found, None) is not None
    entries.sort(key=lambda entry: entry.name)
    return entries, has_more


def printable(name: str) -> str:
    """Return a name that can be encoded: bytes that are no UTF-8 become replacement characters."""
    return os.fsencode(name).decode(errors="replace")


def _read_entry(directory: str, entry: os.DirEntry[str], access: AccessControl) -> Entry:
    escapes = False
    if entry.is_symlink():
        path = os.path.join(directory, entry.name)
        # A dangling link is shown as a file; only an existing target can lead out.
        escapes = os.path.exists(path) and not access.contains(path)
    return Entry(entry.name, entry.is_dir(follow_symlinks=False), escapes)
