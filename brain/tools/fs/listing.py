"""Listings of one directory, trees, and what is known of one path (chat-domain 16.3)."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime

import msgspec

from brain.tools.fs.access import AccessControl
from brain.tools.fs.entries import Entry, printable, read_entries
from brain.tools.fs.globs import GlobSet
from brain.tools.fs.limits import FsError, FsLimits, Watch, reason_of
from brain.tools.fs.opening import open_parent


def list_directory(path: str, access: AccessControl, limits: FsLimits, watch: Watch) -> str:
    """Return one line per entry, sorted by name.

    Raises:
        FsError: the directory cannot be read.
    """
    entries, has_more = read_entries(path, access, limits.listed_entries, watch)
    lines = [f"{_prefix(entry)} {printable(entry.name)}" for entry in entries if not entry.escapes]
    return "\n".join([*lines, *_more_note(limits, has_more=has_more)])


def list_with_sizes(path: str, access: AccessControl, limits: FsLimits, watch: Watch, *, by_size: bool) -> str:
    """Return one line per entry with its size, then counts and the combined size of the files.

    Raises:
        FsError: the directory cannot be read.
    """
    entries, has_more = read_entries(path, access, limits.listed_entries, watch)
    sized = [
        (entry, 0 if entry.is_directory else _size_of(os.path.join(path, entry.name))) for entry in entries if not entry.escapes
    ]
    if by_size:
        sized.sort(key=lambda pair: (-pair[1], pair[0].name))
    lines = [_sized_line(entry, size) for entry, size in sized]
    directories = sum(entry.is_directory for entry, _ in sized)
    totals = f"Total: {len(sized) - directories} files, {directories} directories"
    combined = f"Combined size: {format_size(sum(size for _, size in sized))}"
    return "\n".join([*lines, *_more_note(limits, has_more=has_more), "", totals, combined])


def format_size(size: int) -> str:
    """Return ``n B`` below 1024, else two decimals of the largest fitting unit up to TB."""
    if size < 1024:
        return f"{size} B"
    amount, unit = size / 1024, "KB"
    for larger in ("MB", "GB", "TB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.2f} {unit}"


class TreeNode(msgspec.Struct, omit_defaults=True):
    """One entry of a tree; ``children`` only for directories."""

    name: str
    type: str
    children: list[TreeNode] | None = None


def directory_tree(path: str, excluded: list[str], access: AccessControl, limits: FsLimits, watch: Watch) -> str:
    """Return everything below a directory as JSON.

    An exclude without ``*`` also matches as ``**/p`` and ``**/p/**``.

    Raises:
        FsError: something below leaves the allowed directories or cannot be read, or the tree is over a limit.
    """
    patterns = [variant for pattern in excluded for variant in _tree_variants(pattern)]
    tree = _TreeBuilder(path, GlobSet(patterns), access, limits, watch).build()
    return msgspec.json.format(msgspec.json.encode(tree), indent=2).decode()


class _TreeBuilder:
    def __init__(self, root: str, excludes: GlobSet, access: AccessControl, limits: FsLimits, watch: Watch) -> None:
        self._root = root
        self._excludes = excludes
        self._access = access
        self._limits = limits
        self._watch = watch
        self._count = 0

    def build(self) -> list[TreeNode]:
        tree: list[TreeNode] = []
        waiting: list[tuple[str, list[TreeNode], int]] = [("", tree, 1)]
        while waiting:
            relative, children, depth = waiting.pop()
            if depth > self._limits.tree_depth:
                raise FsError(f"the tree is deeper than {self._limits.tree_depth} directories: ask for a part of it")
            for entry in self._entries(relative):
                entry_relative = f"{relative}{entry.name}"
                if self._excludes.matches(entry_relative):
                    continue
                if entry.escapes:
                    raise FsError(f"access denied to '{printable(entry_relative)}', which leads outside the allowed directories")
                node = _node(entry)
                children.append(node)
                if node.children is not None:
                    waiting.append((f"{entry_relative}/", node.children, depth + 1))
        return tree

    def _entries(self, relative: str) -> list[Entry]:
        entries, has_more = read_entries(os.path.join(self._root, relative), self._access, self._limits.tree_entries, self._watch)
        self._count += len(entries)
        if has_more or self._count > self._limits.tree_entries:
            raise FsError(f"the tree has more than {self._limits.tree_entries} entries: use excludePatterns or a deeper path")
        return entries


def file_info(path: str) -> str:
    """Return size, times, kind and permissions of a path, one per line.

    Raises:
        FsError: it does not exist or cannot be looked at.
    """
    try:
        # The path is canonical: a link that is still there is part of a loop, or was put there meanwhile.
        with open_parent(path) as (parent, name):
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError as problem:
        raise FsError("the path does not exist") from problem
    except OSError as problem:
        raise FsError(f"the path cannot be read: {reason_of(problem)}") from problem
    if stat.S_ISLNK(status.st_mode):
        raise FsError("it is a link that cannot be followed")
    # Linux does not tell the time of birth through this call; the change time is the closest it has.
    created: float = getattr(status, "st_birthtime", status.st_ctime)
    facts = {
        "size": status.st_size,
        "created": _instant(created),
        "modified": _instant(status.st_mtime),
        "accessed": _instant(status.st_atime),
        "isDirectory": str(stat.S_ISDIR(status.st_mode)).lower(),
        "isFile": str(stat.S_ISREG(status.st_mode)).lower(),
        "permissions": f"{stat.S_IMODE(status.st_mode) & 0o777:03o}",
    }
    return "\n".join(f"{name}: {value}" for name, value in facts.items())


def _node(entry: Entry) -> TreeNode:
    name = printable(entry.name)
    return TreeNode(name, "directory", []) if entry.is_directory else TreeNode(name, "file")


def _sized_line(entry: Entry, size: int) -> str:
    line = f"{_prefix(entry)} {printable(entry.name):<30}"
    return line if entry.is_directory else f"{line} {format_size(size):>10}"


def _size_of(path: str) -> int:
    """Return the size in bytes of what a name stands for; of the link itself if its target is gone."""
    for follow in (True, False):
        try:
            return os.stat(path, follow_symlinks=follow).st_size
        except OSError:  # a dangling link, or deleted meanwhile
            continue
    return 0


def _tree_variants(pattern: str) -> list[str]:
    return [pattern] if "*" in pattern else [pattern, f"**/{pattern}", f"**/{pattern}/**"]


def _prefix(entry: Entry) -> str:
    return "[DIR]" if entry.is_directory else "[FILE]"


def _more_note(limits: FsLimits, *, has_more: bool) -> list[str]:
    return [f"[Truncated: the directory has more than {limits.listed_entries} entries]"] if has_more else []


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
