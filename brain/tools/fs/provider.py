"""The ``fs`` namespace: reads arguments, runs the blocking work in a thread, turns failures into results (chat-domain 16)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, TypeAlias

from msgspec import Raw

from brain.tools.arguments import ArgumentError, StrictArguments
from brain.tools.fs import listing, reading
from brain.tools.fs.access import AccessControl
from brain.tools.fs.limits import FsError, FsLimits, Watch
from brain.tools.fs.search import search_files
from brain.tools.fs.specs import NAMESPACE, SPECS
from brain.tools.names import advertised_name
from brain.tools.provider import ToolOutcome, error_outcome, text_outcome
from shared_protocol.tools import ToolSpec

GRACE_SECONDS: Final = 2
"""How much longer than its own limit a call may hang in the operating system (a dead network mount) before it is left alone."""

Tool: TypeAlias = Callable[[StrictArguments, Watch], ToolOutcome]


class FsTools:
    """Nine read-only tools. Work runs in ``executor``; the owner of that closes it."""

    def __init__(self, access: AccessControl, executor: Executor, limits: FsLimits | None = None) -> None:
        self._access = access
        self._executor = executor
        self._limits = limits or FsLimits()
        tools: dict[str, Tool] = {
            "read_text_file": self._read_text_file,
            "read_media_file": self._read_media_file,
            "read_multiple_files": self._read_multiple_files,
            "list_directory": self._list_directory,
            "list_directory_with_sizes": self._list_directory_with_sizes,
            "directory_tree": self._directory_tree,
            "search_files": self._search_files,
            "get_file_info": self._get_file_info,
            "list_allowed_directories": self._list_allowed_directories,
        }
        self._tools = {advertised_name(NAMESPACE, bare): tool for bare, tool in tools.items()}

    @property
    def namespaces(self) -> Sequence[str]:
        """``fs``."""
        return (NAMESPACE,)

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the nine tools."""
        return SPECS

    def budget_seconds(self, name: str) -> int:  # noqa: ARG002 - the interface; these tools bound themselves
        """No budget: every call has its own time limit."""
        return 0

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:  # noqa: ARG002 - the interface
        """Run one call."""
        tool = self._tools.get(name)
        if tool is None:
            return error_outcome(f"there is no tool named '{name}'")
        watch = Watch(self._limits.seconds)
        try:
            arguments = StrictArguments(args)
            async with asyncio.timeout(self._limits.seconds + GRACE_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._executor, tool, arguments, watch)
        except (ArgumentError, FsError) as problem:
            return error_outcome(str(problem))
        except TimeoutError:
            return error_outcome("the file system did not answer in time")
        finally:
            watch.cancel()

    def _read_text_file(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:
        requested = arguments.required_text("path")
        head = arguments.integer("head", minimum=1)
        tail = arguments.integer("tail", minimum=1)
        if head is not None and tail is not None:
            raise ArgumentError("give either 'head' or 'tail', not both")
        path = self._access.resolve(requested)
        limit = self._limits.text_bytes
        if head is not None:
            return text_outcome(reading.read_head(path, head, limit, watch))
        if tail is not None:
            return text_outcome(reading.read_tail(path, tail, limit, watch))
        return text_outcome(reading.read_text(path, limit, watch))

    def _read_media_file(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:
        path = self._access.resolve(arguments.required_text("path"))
        return ToolOutcome((reading.read_media(path, self._limits.media_bytes, watch),))

    def _read_multiple_files(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:
        pieces: list[str] = []
        left = self._limits.text_bytes
        for requested in arguments.required_texts("paths"):
            if left <= 0:
                pieces.append(f"{requested}: Error - the files before it have reached {self._limits.text_bytes} bytes, the limit")
                continue
            try:
                content = reading.read_text(self._access.resolve(requested), left, watch)
            except FsError as problem:
                pieces.append(f"{requested}: Error - {problem}")
            else:
                left -= len(content.encode())
                pieces.append(f"{requested}:\n{content}\n")
        return text_outcome("\n---\n".join(pieces))

    def _list_directory(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:
        path = self._access.resolve(arguments.required_text("path"))
        return text_outcome(listing.list_directory(path, self._access, self._limits, watch))

    def _list_directory_with_sizes(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:
        requested = arguments.required_text("path")
        order = arguments.text("sortBy") or "name"
        if order not in {"name", "size"}:
            raise ArgumentError("the argument 'sortBy' must be 'name' or 'size'")
        path = self._access.resolve(requested)
        return text_outcome(listing.list_with_sizes(path, self._access, self._limits, watch, by_size=order == "size"))

    def _directory_tree(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:
        requested = arguments.required_text("path")
        excluded = arguments.texts("excludePatterns") or []
        return text_outcome(listing.directory_tree(self._access.resolve(requested), excluded, self._access, self._limits, watch))

    def _search_files(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:
        requested = arguments.required_text("path")
        pattern = arguments.required_text("pattern")
        excluded = arguments.texts("excludePatterns") or []
        path = self._access.resolve(requested)
        return text_outcome(search_files(path, pattern, excluded, self._access, self._limits, watch))

    def _get_file_info(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:
        watch.check()
        return text_outcome(listing.file_info(self._access.resolve(arguments.required_text("path"))))

    def _list_allowed_directories(self, arguments: StrictArguments, watch: Watch) -> ToolOutcome:  # noqa: ARG002 - no arguments
        watch.check()
        return text_outcome("\n".join(["Allowed directories:", *map(str, self._access.directories)]))
