from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from brain.tools.fs import opening, search
from brain.tools.fs.access import AccessControl, open_access
from brain.tools.fs.limits import FsLimits
from brain.tools.fs.listing import format_size
from brain.tools.fs.provider import FsTools
from brain.tools.provider import ToolSetupError
from shared_protocol.messages import AttachmentPart, TextPart


class Fs:
    def __init__(self, tools: FsTools) -> None:
        self.tools = tools

    async def raw(self, tool: str, **args: Any) -> Any:
        return await self.tools.execute("c", f"fs__{tool}", Raw(msgspec.json.encode(args)))

    async def ok(self, tool: str, **args: Any) -> str:
        outcome = await self.raw(tool, **args)
        (part,) = outcome.parts
        assert isinstance(part, TextPart)
        assert not outcome.is_error, part.text
        return part.text

    async def error(self, tool: str, **args: Any) -> str:
        outcome = await self.raw(tool, **args)
        (part,) = outcome.parts
        assert isinstance(part, TextPart)
        assert outcome.is_error, part.text
        assert part.text.startswith("Error: ")
        return part.text


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def root(tmp_path: Path) -> Path:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    return allowed


@pytest.fixture
def make(root: Path, executor: ThreadPoolExecutor) -> Any:
    def build(*blacklist: str, limits: FsLimits | None = None, dirs: list[Path] | None = None) -> Fs:
        return Fs(FsTools(open_access([str(entry) for entry in dirs or [root]], blacklist), executor, limits))

    return build


@pytest.fixture
def fs(make: Any) -> Fs:
    return make()


# access


async def test_relative_paths_begin_in_the_first_allowed_directory(root: Path, fs: Fs) -> None:
    (root / "a.txt").write_text("hello")
    assert await fs.ok("read_text_file", path="a.txt") == "hello"
    assert await fs.ok("read_text_file", path=str(root / "a.txt")) == "hello"
    assert await fs.ok("read_text_file", path="./x/../a.txt") == "hello"


async def test_home_is_expanded(make: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root))
    (root / "a.txt").write_text("hello")
    assert await make(dirs=[Path("~")]).ok("read_text_file", path="~/a.txt") == "hello"


@pytest.mark.parametrize(
    "path", ["../outside/secret.txt", "/etc/passwd", "link.txt", "dirlink/secret.txt", "~", "..", "a/../../outside"]
)
@pytest.mark.parametrize("tool", ["read_text_file", "read_media_file", "list_directory", "get_file_info", "directory_tree"])
async def test_what_lies_outside_is_denied(root: Path, fs: Fs, path: str, tool: str) -> None:
    (root / "link.txt").symlink_to(root.parent / "outside" / "secret.txt")
    (root / "dirlink").symlink_to(root.parent / "outside")
    assert "access denied" in await fs.error(tool, path=path)


async def test_sibling_with_the_same_prefix_is_outside(root: Path, fs: Fs) -> None:
    (root.parent / "allowed2").mkdir()
    assert "access denied" in await fs.error("list_directory", path=str(root.parent / "allowed2"))


async def test_link_inside_is_followed(root: Path, fs: Fs) -> None:
    (root / "real.txt").write_text("hello")
    (root / "link.txt").symlink_to("real.txt")
    assert await fs.ok("read_text_file", path="link.txt") == "hello"


@pytest.mark.parametrize(
    ("pattern", "path", "denied"),
    [
        ("*.pem", "a/b/key.pem", True),
        ("secret", "x/secret", True),
        ("secret", "secret/inner.txt", True),
        ("secret/", "secret/inner.txt", True),
        ("/top.txt", "top.txt", True),
        ("/top.txt", "a/top.txt", False),
        ("a/b", "a/b/c.txt", True),
        ("**/*.{pem,key}", "a/x.key", True),
        ("*.pem", "a/key.txt", False),
    ],
)
async def test_blacklist_denies_targets(make: Any, root: Path, pattern: str, path: str, denied: bool) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("x")
    fs = make(pattern)
    assert ("access denied" in (await fs.raw("read_text_file", path=path)).parts[0].text) is denied


async def test_directory_pattern_denies_the_directory_itself(make: Any, root: Path) -> None:
    (root / "secret").mkdir()
    assert "access denied" in await make("secret/").error("list_directory", path="secret")


async def test_blacklisted_names_are_still_listed(make: Any, root: Path) -> None:
    (root / "key.pem").write_text("x")
    fs = make("*.pem")
    assert await fs.ok("list_directory", path=".") == "[FILE] key.pem"
    assert await fs.ok("search_files", path=".", pattern="*.pem") == str(root / "key.pem")


async def test_blacklist_cannot_be_passed_through_a_link(make: Any, root: Path) -> None:
    (root / "key.pem").write_text("x")
    (root / "harmless.txt").symlink_to("key.pem")
    assert "access denied" in await make("*.pem").error("read_text_file", path="harmless.txt")


@pytest.mark.parametrize("blacklist", ["", "  ", "[", "{a", "!", "#comment"])
def test_useless_blacklist_entry_aborts_the_start(root: Path, blacklist: str) -> None:
    with pytest.raises(ToolSetupError, match="blacklists"):
        open_access([str(root)], [blacklist])


@pytest.mark.parametrize("dirs", [[], [""], ["/nowhere/at/all"], [__file__]])
def test_bad_allowed_directories_abort_the_start(dirs: list[str]) -> None:
    with pytest.raises(ToolSetupError, match="allowedDirs"):
        open_access(dirs, [])


async def test_allowed_directories_are_canonical_and_listed_once(root: Path, make: Any) -> None:
    (root.parent / "alias").symlink_to(root)
    text = await make(dirs=[root, root.parent / "alias", root / ".." / "allowed"]).ok("list_allowed_directories")
    assert text.splitlines()[1:] == [str(root)]


class Swapping(AccessControl):
    """Puts a link to the outside in place of a directory right after a path was checked."""

    directory: Path
    target: Path

    def resolve(self, path: str) -> str:
        resolved = super().resolve(path)
        self.directory.rename(self.directory.with_name("moved"))
        self.directory.symlink_to(self.target)
        return resolved


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize(
    "tool", ["read_text_file", "read_media_file", "get_file_info", "list_directory", "list_directory_with_sizes"]
)
async def test_link_put_in_after_the_check_leads_nowhere(root: Path, executor: ThreadPoolExecutor, tool: str, depth: int) -> None:
    inner = root / "sub" / "/".join("x" * depth)
    inner.mkdir(parents=True)
    (inner / "secret.txt").write_text("mine")
    outside = root.parent / "outside"
    (outside / "/".join("x" * depth)).mkdir(parents=True, exist_ok=True)
    (outside / "/".join("x" * depth) / "secret.txt").write_text("secret")
    allowed = open_access([str(root)], [])
    access = Swapping(allowed.directories, allowed._blacklist)
    access.directory, access.target = root / "sub", outside
    path = inner if "list" in tool else inner / "secret.txt"
    text = await Fs(FsTools(access, executor)).error(tool, path=str(path))
    assert "secret" not in text


async def test_directory_swapped_during_a_search_leads_nowhere(root: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "sub").mkdir()
    visit = search._Search._visit

    def swap(self: Any, relative: str, entry: Any) -> bool:
        descends = visit(self, relative, entry)
        if relative == "sub":
            (root / "sub").rmdir()
            (root / "sub").symlink_to(root.parent / "outside")
        return descends

    monkeypatch.setattr(search._Search, "_visit", swap)
    assert await make().ok("search_files", path=".", pattern="**/*.txt") == "No matches found"


@pytest.mark.parametrize("can_compare", [True, False])
def test_both_ways_to_open_a_directory_agree(root: Path, monkeypatch: pytest.MonkeyPatch, can_compare: bool) -> None:
    monkeypatch.setattr(opening, "_CAN_COMPARE", can_compare)
    (root / "sub").mkdir()
    (root / "sub" / "deep").mkdir()
    (root / "file").write_text("x")
    (root / "link").symlink_to("sub")
    for path in ("/", str(root), f"{root}/sub", f"{root}/sub/deep/"):
        with opening.open_directory(path) as descriptor:
            assert os.path.samestat(os.fstat(descriptor), Path(path).stat())
    for path in (f"{root}/link", f"{root}/link/deep", f"{root}/file", f"{root}/gone", f"{root}/sub/../sub"):
        before = len(list(Path("/proc/self/fd").iterdir()))
        if path.endswith("../sub") and not can_compare:
            continue  # not canonical, but harmless
        with pytest.raises(OSError, match="Errno"), opening.open_directory(path):
            pass
        assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_the_root_of_the_system_can_be_allowed(make: Any) -> None:
    fs = make(dirs=[Path("/")])
    assert "[DIR] etc" in (await fs.ok("list_directory", path="/")).splitlines()
    assert "isDirectory: true" in await fs.ok("get_file_info", path="/")
    assert "a directory" in await fs.error("read_text_file", path="/")


def test_the_limits_of_one_call() -> None:
    limits = FsLimits()
    assert (limits.text_bytes, limits.media_bytes) == (10 * 2**20, 16 * 2**20)
    assert (limits.listed_entries, limits.tree_entries, limits.visited_entries) == (100_000, 20_000, 2_000_000)
    assert (limits.tree_depth, limits.matches, limits.seconds) == (100, 10_000, 30)


# reading


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, "one\ntwo\nthree\n"),
        ({"head": 2}, "one\ntwo"),
        ({"head": 3}, "one\ntwo\nthree"),
        ({"head": 9}, "one\ntwo\nthree"),
        ({"tail": 1}, ""),
        ({"tail": 2}, "three\n"),
        ({"tail": 9}, "one\ntwo\nthree\n"),
    ],
)
async def test_lines_are_counted_from_either_end(root: Path, fs: Fs, args: dict[str, int], expected: str) -> None:
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    assert await fs.ok("read_text_file", path="a.txt", **args) == expected


async def test_tail_without_a_last_line_end_and_over_many_blocks(root: Path, fs: Fs) -> None:
    (root / "a.txt").write_text("\n".join(f"line {n}" for n in range(100_000)))
    assert await fs.ok("read_text_file", path="a.txt", tail=2) == "line 99998\nline 99999"
    assert (await fs.ok("read_text_file", path="a.txt", tail=30_000)).startswith("line 70000\n")
    assert (await fs.ok("read_text_file", path="a.txt", head=30_000)).endswith("\nline 29999")


async def test_bytes_that_are_no_text_are_replaced(root: Path, fs: Fs) -> None:
    (root / "a.bin").write_bytes(b"a\xff\xfeb")
    assert await fs.ok("read_text_file", path="a.bin") == "a\ufffd\ufffdb"


@pytest.mark.parametrize(
    "args",
    [{"head": 1, "tail": 1}, {"head": 0}, {"tail": -1}, {"head": "1"}, {"head": 1.0}, {"head": True}],
)
async def test_bad_line_counts_are_refused(root: Path, fs: Fs, args: dict[str, Any]) -> None:
    (root / "a.txt").write_text("x")
    await fs.error("read_text_file", path="a.txt", **args)


async def test_long_file_is_cut_at_the_byte_limit_and_says_so(root: Path, make: Any) -> None:
    (root / "a.txt").write_text("x" * 5000)
    text = await make(limits=FsLimits(text_bytes=1000)).ok("read_text_file", path="a.txt")
    assert text.startswith("x" * 1000 + "\n\n[Truncated")
    assert "5000" in text


async def test_endless_line_ends_at_the_byte_limit(root: Path, make: Any) -> None:
    (root / "a.txt").write_text("x" * 300_000)
    fs = make(limits=FsLimits(text_bytes=100_000))
    assert len(await fs.ok("read_text_file", path="a.txt", head=1)) == 100_000
    assert len(await fs.ok("read_text_file", path="a.txt", tail=1)) == 100_000


@pytest.mark.parametrize(
    ("name", "kind", "mime"),
    [
        ("a.png", "image", "image/png"),
        ("a.JPG", "image", "image/jpeg"),
        ("a.jpeg", "image", "image/jpeg"),
        ("a.gif", "image", "image/gif"),
        ("a.webp", "image", "image/webp"),
        ("a.bmp", "image", "image/bmp"),
        ("a.svg", "image", "image/svg+xml"),
        ("a.mp3", "audio", "audio/mpeg"),
        ("a.wav", "audio", "audio/wav"),
        ("a.ogg", "audio", "audio/ogg"),
        ("a.flac", "audio", "audio/flac"),
        ("a.pdf", "file", "application/octet-stream"),
        ("png", "file", "application/octet-stream"),
    ],
)
async def test_media_type_follows_the_extension(root: Path, fs: Fs, name: str, kind: str, mime: str) -> None:
    (root / name).write_bytes(b"\x00\x01")
    outcome = await fs.raw("read_media_file", path=name)
    (part,) = outcome.parts
    assert isinstance(part, AttachmentPart)
    assert (part.kind, part.mime_type, base64.b64decode(part.content.base64)) == (kind, mime, b"\x00\x01")


async def test_large_media_file_is_refused(root: Path, make: Any) -> None:
    (root / "a.png").write_bytes(b"x" * 101)
    fs = make(limits=FsLimits(media_bytes=100))
    assert "101 bytes" in await fs.error("read_media_file", path="a.png")


async def test_several_files_are_read_and_single_failures_told(root: Path, fs: Fs) -> None:
    (root / "a.txt").write_text("A")
    (root / "b.txt").write_text("B\n")
    text = await fs.ok("read_multiple_files", paths=["a.txt", "nope.txt", " b.txt ", "/etc/passwd"])
    first, missing, second, denied = text.split("\n---\n")
    assert first == "a.txt:\nA\n"
    assert missing.startswith("nope.txt: Error - ")
    assert second == "b.txt:\nB\n\n"
    assert denied.startswith("/etc/passwd: Error - access denied")


@pytest.mark.parametrize("paths", [None, [], ["", " "], "a.txt", [1]])
async def test_several_files_need_an_array_of_paths(fs: Fs, paths: object) -> None:
    await fs.error("read_multiple_files", paths=paths)


async def test_several_files_share_one_byte_limit(root: Path, make: Any) -> None:
    for name in "abc":
        (root / name).write_text("x" * 60)
    text = await make(limits=FsLimits(text_bytes=100)).ok("read_multiple_files", paths=["a", "b", "c"])
    assert text.count("x") < 110
    assert "c: Error - " in text


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


def _make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize("make_special", [_make_fifo, _make_socket, Path.mkdir])
@pytest.mark.parametrize("tool", ["read_text_file", "read_media_file"])
async def test_what_is_no_regular_file_is_refused_without_waiting(
    root: Path, fs: Fs, make_special: Any, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)  # socket names are short
    make_special(Path("special"))
    async with asyncio.timeout(5):
        await fs.error(tool, path="special")
        assert "special: Error - " in await fs.ok("read_multiple_files", paths=["special"])


async def test_device_is_refused(make: Any) -> None:
    fs = make(dirs=[Path("/dev")])
    assert "not a regular file" in await fs.error("read_text_file", path="/dev/zero")
    assert "not a regular file" in await fs.error("read_media_file", path="/dev/null")


@pytest.mark.parametrize("path", ["nope.txt", "a.txt/x", "a" * 5000, "x\0y", "loop"])
async def test_missing_path_is_an_error_result(root: Path, fs: Fs, path: str) -> None:
    (root / "a.txt").write_text("x")
    (root / "loop").symlink_to("loop")
    for tool in ("read_text_file", "read_media_file", "list_directory", "directory_tree", "get_file_info"):
        await fs.error(tool, path=path)


# listings


@pytest.fixture
def tree(root: Path) -> Path:
    (root / "b").mkdir()
    (root / "b" / "inner.txt").write_text("12345")
    (root / "a.txt").write_text("x" * 1536)
    (root / "c.log").write_text("")
    (root / "dangling").symlink_to("nowhere")
    (root / "dir-link").symlink_to("b")
    return root


async def test_listing_is_sorted_and_links_are_files(tree: Path, fs: Fs) -> None:
    assert (await fs.ok("list_directory", path=".")).splitlines() == [
        "[FILE] a.txt",
        "[DIR] b",
        "[FILE] c.log",
        "[FILE] dangling",
        "[FILE] dir-link",
    ]


async def test_link_out_is_left_out_of_listing_and_search(tree: Path, fs: Fs) -> None:
    (tree / "escape").symlink_to(tree.parent / "outside")
    assert "escape" not in await fs.ok("list_directory", path=".")
    assert "escape" not in await fs.ok("list_directory_with_sizes", path=".")
    assert "escape" not in await fs.ok("search_files", path=".", pattern="**")


async def test_link_out_makes_the_tree_fail_unless_excluded(tree: Path, fs: Fs) -> None:
    (tree / "b" / "escape").symlink_to(tree.parent / "outside")
    assert "outside" in await fs.error("directory_tree", path=".")
    assert "escape" not in await fs.ok("directory_tree", path=".", excludePatterns=["escape"])


async def test_listing_with_sizes(root: Path, fs: Fs) -> None:
    (root / "b").mkdir()
    (root / "a.txt").write_text("x" * 1536)
    (root / "c.log").write_text("x")
    text = await fs.ok("list_directory_with_sizes", path=".")
    assert [line.rstrip() for line in text.splitlines()] == [
        f"[FILE] {'a.txt':<30} {'1.50 KB':>10}",
        "[DIR] b",
        f"[FILE] {'c.log':<30} {'1 B':>10}",
        "",
        "Total: 2 files, 1 directories",
        "Combined size: 1.50 KB",
    ]


async def test_listing_by_size_is_descending_then_by_name(root: Path, fs: Fs) -> None:
    for name, size in (("b", 5), ("a", 5), ("big", 9)):
        (root / name).write_text("x" * size)
    lines = (await fs.ok("list_directory_with_sizes", path=".", sortBy="size")).splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["big", "a", "b"]
    await fs.error("list_directory_with_sizes", path=".", sortBy="date")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KB"), (1024**2, "1.00 MB"), (1024**3, "1.00 GB"), (5 * 1024**5, "5120.00 TB")],
)
def test_sizes_are_readable(size: int, text: str) -> None:
    assert format_size(size) == text


async def test_tree_is_json_with_two_spaces(tree: Path, fs: Fs) -> None:
    (tree / "empty").mkdir()
    text = await fs.ok("directory_tree", path=".")
    assert text.startswith('[\n  {\n    "name": "a.txt",\n    "type": "file"\n  },')
    assert json.loads(text) == [
        {"name": "a.txt", "type": "file"},
        {"name": "b", "type": "directory", "children": [{"name": "inner.txt", "type": "file"}]},
        {"name": "c.log", "type": "file"},
        {"name": "dangling", "type": "file"},
        {"name": "dir-link", "type": "file"},
        {"name": "empty", "type": "directory", "children": []},
    ]


@pytest.mark.parametrize(
    ("excluded", "names"),
    [("inner.txt", {"a.txt", "b", "c.log"}), ("b", {"a.txt", "c.log"}), ("*.txt", {"b", "inner.txt", "c.log"}), ("[", None)],
)
async def test_tree_excludes(root: Path, fs: Fs, excluded: str, names: set[str] | None) -> None:
    (root / "b").mkdir()
    for name in ("b/inner.txt", "a.txt", "c.log"):
        (root / name).write_text("")
    everything = json.loads(await fs.ok("directory_tree", path=".", excludePatterns=[excluded]))
    found = {node["name"] for node in everything} | {child["name"] for node in everything for child in node.get("children", [])}
    assert found == (names or {"a.txt", "b", "inner.txt", "c.log"})


async def test_tree_over_a_limit_fails_with_advice(root: Path, make: Any) -> None:
    for n in range(11):
        (root / f"f{n}").touch()
    assert "excludePatterns" in await make(limits=FsLimits(tree_entries=10)).error("directory_tree", path=".")
    assert "11" not in await make(limits=FsLimits(tree_entries=11)).ok("list_directory", path=str(root.parent / "allowed"))
    deep = root / "/".join("d" * 1 for _ in range(30))
    deep.mkdir(parents=True)
    assert "deeper" in await make(limits=FsLimits(tree_depth=20)).error("directory_tree", path=".")


async def test_search_matches_relative_paths(tree: Path, fs: Fs) -> None:
    assert await fs.ok("search_files", path=".", pattern="*.txt") == str(tree / "a.txt")
    assert (await fs.ok("search_files", path=".", pattern="**/*.txt")).splitlines() == [
        str(tree / "a.txt"),
        str(tree / "b/inner.txt"),
    ]
    assert await fs.ok("search_files", path="b", pattern="inner.*") == str(tree / "b/inner.txt")
    assert await fs.ok("search_files", path=".", pattern="dir-*") == str(tree / "dir-link")
    assert await fs.ok("search_files", path=".", pattern="b") == str(tree / "b")
    assert await fs.ok("search_files", path=".", pattern="**/*.txt", excludePatterns=["b"]) == str(tree / "a.txt")


@pytest.mark.parametrize("pattern", ["nope", "[", "dir-link/*"])
async def test_search_without_matches_says_so(tree: Path, fs: Fs, pattern: str) -> None:
    assert await fs.ok("search_files", path=".", pattern=pattern) == "No matches found"


async def test_search_stops_at_its_limits_and_says_so(root: Path, make: Any) -> None:
    for n in range(20):
        (root / f"f{n:02}").touch()
    text = await make(limits=FsLimits(matches=5)).ok("search_files", path=".", pattern="*")
    assert len(text.splitlines()) == 6
    assert "[Incomplete" in text
    assert "[Incomplete" in await make(limits=FsLimits(visited_entries=5)).ok("search_files", path=".", pattern="zzz")
    assert "[Incomplete" in await make(limits=FsLimits(seconds=0)).ok("search_files", path=".", pattern="*")


async def test_listing_of_too_many_entries_says_so(root: Path, make: Any) -> None:
    for n in range(20):
        (root / f"f{n:02}").touch()
    text = await make(limits=FsLimits(listed_entries=5)).ok("list_directory", path=".")
    assert len(text.splitlines()) == 6
    assert "[Truncated" in text


async def test_names_that_are_no_text_are_shown_and_their_directories_entered(root: Path, fs: Fs) -> None:
    directory = os.fsencode(root) + b"/\xff"
    os.mkdir(directory)  # noqa: PTH102 - a name in bytes
    os.close(os.open(directory + b"/in.txt", os.O_CREAT | os.O_WRONLY))
    assert await fs.ok("list_directory", path=".") == "[DIR] \ufffd"
    assert "in.txt" in await fs.ok("directory_tree", path=".")
    assert "in.txt" in await fs.ok("search_files", path=".", pattern="**/in.txt")


async def test_file_info(root: Path, fs: Fs) -> None:
    target = root / "a.txt"
    target.write_text("hello")
    target.chmod(0o640)
    os.utime(target, (1_700_000_000, 1_700_000_000.5))
    info = dict(line.split(": ", 1) for line in (await fs.ok("get_file_info", path="a.txt")).splitlines())
    assert list(info) == ["size", "created", "modified", "accessed", "isDirectory", "isFile", "permissions"]
    assert (info["size"], info["isFile"], info["isDirectory"], info["permissions"]) == ("5", "true", "false", "640")
    assert info["modified"] == "2023-11-14T22:13:20.500000Z"
    assert info["accessed"] == "2023-11-14T22:13:20Z"


# the provider


async def test_nine_tools_are_listed_with_schemas(fs: Fs) -> None:
    specs = await fs.tools.list_tools()
    assert len(specs) == 9
    for spec in specs:
        assert spec.name.startswith("fs__")
        assert json.loads(bytes(spec.schema))["type"] == "object"
        assert fs.tools.budget_seconds(spec.name) == 0


async def test_unknown_tool_and_missing_argument_are_error_results(fs: Fs) -> None:
    await fs.error("nope")
    for spec in await fs.tools.list_tools():
        if json.loads(bytes(spec.schema))["required"]:
            await fs.error(spec.name.removeprefix("fs__"))


async def test_cancelled_search_frees_its_thread(root: Path, make: Any) -> None:
    for n in range(3000):
        (root / f"f{n}").touch()
    fs = make()
    before = threading.active_count()
    search = asyncio.create_task(fs.raw("search_files", path=".", pattern="**"))
    await asyncio.sleep(0)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert await fs.ok("list_allowed_directories")
    assert threading.active_count() <= before + 2
