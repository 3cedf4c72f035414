"""Opens canonical paths component by component, so that a link put in after the check cannot lead out (chat-domain 16.1).

A canonical path has no links. Whoever replaces one of its directories by a link meanwhile gets an error, not another file.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_DIRECTORY: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STEP: Final = _DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
"""On the way only search permission is needed; where there is no ``O_PATH``, reading too."""


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
    """Yield a readable descriptor of a directory given by its canonical path.

    Raises:
        OSError: as ``open_parent``, or it cannot be read.
    """
    with open_parent(path) as (parent, name):
        descriptor = os.open(name, _DIRECTORY | os.O_RDONLY, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
