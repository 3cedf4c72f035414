"""Names, descriptions and argument schemas of the filesystem tools."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from brain.tools.names import advertised_name
from shared_protocol.tools import ToolSpec

NAMESPACE: Final = "fs"

Schema: TypeAlias = dict[str, object]

_PATH: Final[Schema] = {
    "type": "string",
    "description": "Absolute path, or relative to the first allowed directory",
}
_EXCLUDES: Final[Schema] = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Globs of what to leave out, relative to path",
}


def _spec(name: str, description: str, properties: dict[str, Schema], required: list[str]) -> ToolSpec:
    schema: Schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSpec(advertised_name(NAMESPACE, name), description, msgspec.Raw(msgspec.json.encode(schema)))


SPECS: Final = (
    _spec(
        "read_text_file",
        "Read a text file. With head only its first lines, with tail only its last lines (not both).",
        {
            "path": _PATH,
            "head": {"type": "integer", "minimum": 1, "description": "Number of lines from the start"},
            "tail": {"type": "integer", "minimum": 1, "description": "Number of lines from the end"},
        },
        ["path"],
    ),
    _spec("read_media_file", "Read an image, audio or other binary file as an attachment.", {"path": _PATH}, ["path"]),
    _spec(
        "read_multiple_files",
        "Read several text files at once. A file that cannot be read does not make the others fail.",
        {"paths": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Paths of the files"}},
        ["paths"],
    ),
    _spec("list_directory", "List what is directly in a directory, marked [DIR] or [FILE].", {"path": _PATH}, ["path"]),
    _spec(
        "list_directory_with_sizes",
        "List what is directly in a directory with file sizes and totals.",
        {"path": _PATH, "sortBy": {"type": "string", "enum": ["name", "size"], "description": "Order, by default name"}},
        ["path"],
    ),
    _spec(
        "directory_tree",
        "Show everything below a directory as a JSON tree of name, type and children.",
        {"path": _PATH, "excludePatterns": _EXCLUDES},
        ["path"],
    ),
    _spec(
        "search_files",
        "Find files and directories below a directory by glob. '*.txt' matches directly in it, '**/*.txt' at any depth.",
        {
            "path": _PATH,
            "pattern": {"type": "string", "description": "Glob, relative to path"},
            "excludePatterns": _EXCLUDES,
        },
        ["path", "pattern"],
    ),
    _spec("get_file_info", "Tell size, times, kind and permissions of a file or directory.", {"path": _PATH}, ["path"]),
    _spec("list_allowed_directories", "List the directories that these tools may read.", {}, []),
)
