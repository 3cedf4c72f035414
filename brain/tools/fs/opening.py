"""Opens canonical paths without following links, so that one put in after the check cannot lead out (chat-domain 16.1).

A canonical path has no links. Whoever replaces one of its directories by a link meanwhile gets an error, not another file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_DIRECTORY: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEP: Final = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""On the way only search permission is needed; where there is no ``O_PATH``, reading too."""

_DESCRIPTORS: Final = "/proc/self/fd"
"""Links that tell where an open descriptor really leads (Linux)."""
_CAN_COMPARE: Final = os.path.isdir(_DESCRIPTORS)


@contextmanager
def open_parent(path: str) -> Generator[tuple[int, str]]:
    """Yield a descriptor of the directory that holds a canonical path, and the name in it.

    Raises:
        OSError: a component is missing, or is no directory (any more).
    """
    *directories, name = path.strip(os.sep).split(os.sep)
    descriptor = os.open(os.sep, _STEP)
    try:
        for directory in directories:
            inner = os.open(directory, _STEP, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, name or os.curdir
    finally:
        os.close(descriptor)


@contextmanager
def open_directory(path: str) -> Generator[int]:
    """Yield a readable descriptor of a directory given by its canonical path (a separator at its end is ignored).

    Raises:
        OSError: it is missing, is no directory, cannot be read, or the path leads elsewhere (any more).
    """
    path = path.rstrip(os.sep) or os.sep
    descriptor = _open_and_compare(path) if _CAN_COMPARE else _open_step_by_step(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_and_compare(path: str) -> int:
    # A search opens many directories: two calls for each instead of one per component. Opening a directory has no effects, so
    # it may come before the check.
    descriptor = os.open(path, _DIRECTORY | os.O_RDONLY)
    if os.readlink(f"{_DESCRIPTORS}/{descriptor}") != path:
        os.close(descriptor)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return descriptor


def _open_step_by_step(path: str) -> int:
    with open_parent(path) as (parent, name):
        return os.open(name, _DIRECTORY | os.O_RDONLY, dir_fd=parent)
