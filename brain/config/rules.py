"""What a schema cannot say about a configuration: references between sections, names, combinations.

The rules read the plain data, so that they speak also when another part of the file does not fit the schema.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from brain.config.capabilities import PLAIN_CAPABILITIES, REASONING_EFFORTS, REASONING_PREFIX
from brain.config.problems import Path, Problem, dotted
from brain.config.schema import Json, JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME: Final = re.compile(r"[0-9a-z_-]+")
_RESERVED_NAMESPACES: Final = {"system", "inner", "internal", "gsg", "eltm", "harness"}  # chat-domain §14.1
_CHAT_ROLES: Final[tuple[Path, ...]] = (
    ("memory", "compactModel"),
    ("memory", "eltm", "extractionModel"),
    ("memory", "eltm", "writerModel"),
    ("memory", "eltm", "rewriteModel"),
    ("agent", "investigator", "model"),
    ("title", "model"),
)
_EMBEDDING_ROLE: Final[Path] = ("memory", "eltm", "embeddingModel")
_EMBEDDING_OWN: Final = ("model", "input", "dimensions")  # hand-protocol §12: the hand refuses these
_CHAT_OWN: Final = (
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
)


def rule_problems(data: JsonObject) -> list[Problem]:
    """Return every broken rule."""
    return [
        *_database(_object(data, "database")),
        *_providers(_object(data, "providers")),
        *_model_roles(data),
        *_tool_servers(data),
        *_filesystem(_object(data, "tool", "fs")),
    ]


def drop_disabled_tools(data: JsonObject) -> None:
    """Remove the settings of a built-in tool that is off: they are ignored, right or wrong (chat-domain §20)."""
    for name, keys in (
        ("fs", ("allowedDirs", "blacklists")),
        ("bash", ("shellPath", "workdir", "timeoutSeconds", "maxCaptureBytes")),
    ):
        section = _object(data, "tool", name)
        if section.get("enabled", False) is False:
            for key in keys:
                section.pop(key, None)


def _database(section: JsonObject) -> Iterator[Problem]:
    url = section.get("url")
    if not isinstance(url, str) or not url.strip() or url == "embedded":
        return
    parts = urlsplit(url.removeprefix("jdbc:"))
    if parts.scheme not in {"postgresql", "postgres"}:
        yield Problem("database.url", "must be 'embedded' or a postgresql:// address", "jdbc:postgresql:// is accepted too")
        return
    if parts.username is None:
        for key in ("user", "password"):
            if section.get(key) is None:
                yield Problem(f"database.{key}", "is missing", "or write user and password into database.url")


def _providers(providers: JsonObject) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, provider in providers.items():
        path: Path = ("providers", name)
        if not _NAME.fullmatch(name):
            yield Problem(dotted(path), "a provider id has lower-case letters, digits, '-' and '_' only")
        if not isinstance(provider, dict):
            continue
        base_url = provider.get("baseUrl")
        if isinstance(base_url, str) and base_url.strip() and not re.match(r"https?://[^\s/?#]+", base_url):
            yield Problem(dotted((*path, "baseUrl")), "must be an http:// or https:// address", "it includes the /v1 root")
        for kind, own in (("llm", _CHAT_OWN), ("embedding", _EMBEDDING_OWN)):
            for index, model in enumerate(_objects(provider.get(kind))):
                at: Path = (*path, kind, index)
                yield from _duplicate(seen, f"{name}/{model.get('modelId')}", at)
                yield from _extra_properties(model, own, at)
                if kind == "llm":
                    yield from _capabilities(model, at)
    if not any(_objects(provider.get("llm")) for provider in _objects(list(providers.values()))):
        yield Problem("providers", "no chat model is configured", "add one to providers.<id>.llm")


def _duplicate(seen: dict[str, str], model_id: str, at: Path) -> Iterator[Problem]:
    if model_id in seen:
        yield Problem(dotted((*at, "modelId")), f"the id {model_id!r} is used twice", f"also at {seen[model_id]}")
    seen[model_id] = dotted(at)


def _extra_properties(model: JsonObject, own: tuple[str, ...], at: Path) -> Iterator[Problem]:
    extra = model.get("additionalProperties")
    for key in extra if isinstance(extra, dict) else ():
        if key in own:
            yield Problem(dotted((*at, "additionalProperties", key)), "is set by daapu itself and cannot be overridden")


def _capabilities(model: JsonObject, at: Path) -> Iterator[Problem]:
    tokens = model.get("capabilities")
    if not isinstance(tokens, list):
        return
    path = dotted((*at, "capabilities"))
    known = [*sorted(PLAIN_CAPABILITIES), *(f"{REASONING_PREFIX}{effort}" for effort in REASONING_EFFORTS)]
    words = [token for token in tokens if isinstance(token, str) and token.strip()]
    for token in words:
        if token not in known:
            yield Problem(path, f"unknown capability {token!r}", f"known: {', '.join(known)}")
    if len(set(words)) != len(words):
        yield Problem(path, "a capability is given twice")
    if sum(token.startswith(REASONING_PREFIX) for token in set(words)) > 1:
        yield Problem(path, "more than one reasoning effort")


def _model_roles(data: JsonObject) -> Iterator[Problem]:
    chat: list[str] = []
    embedding: list[str] = []
    for name, provider in _object(data, "providers").items():
        if isinstance(provider, dict):
            chat += [f"{name}/{model.get('modelId')}" for model in _objects(provider.get("llm"))]
            embedding += [f"{name}/{model.get('modelId')}" for model in _objects(provider.get("embedding"))]
    for path in _CHAT_ROLES:
        yield from _known_model(data, path, chat, "chat")
    yield from _known_model(data, _EMBEDDING_ROLE, embedding, "embedding")


def _known_model(data: JsonObject, path: Path, known: list[str], kind: str) -> Iterator[Problem]:
    value = _object(data, *path[:-1]).get(str(path[-1]))
    if not isinstance(value, str) or not value.strip() or value in known:
        return
    close = difflib.get_close_matches(value, known, 1, 0.5)
    names = f"did you mean {close[0]!r}?" if close else f"{kind} models: {', '.join(known) or 'none'}"
    yield Problem(dotted(path), f"no {kind} model {value!r} in providers", names)


def _tool_servers(data: JsonObject) -> Iterator[Problem]:
    servers = {("mcp", "customs", name): server for name, server in _object(data, "mcp", "customs").items()}
    built_in = {name for name in ("fs", "bash") if _object(data, "tool", name).get("enabled") is True}
    for path in servers:
        if problem := _namespace_problem(path[-1], built_in):
            yield Problem(dotted(path), problem)
    for at, server in {("mcp", "exa"): _object(data, "mcp").get("exa"), **servers}.items():
        command = server.get("command") if isinstance(server, dict) else None
        if isinstance(command, list) and command and isinstance(command[0], str) and not command[0].strip():
            yield Problem(dotted((*at, "command", 0)), "must name a program")


def _namespace_problem(name: str, built_in: set[str]) -> str:
    if not _NAME.fullmatch(name) or "__" in name or name.startswith("_") or name.endswith("_"):
        return "a namespace has lower-case letters, digits, '-' and single '_' inside only"
    if name == "exa":
        return "the namespace 'exa' belongs to mcp.exa"
    if name in _RESERVED_NAMESPACES:
        return f"the namespace {name!r} is reserved"
    if name in built_in:
        return f"the namespace {name!r} belongs to the built-in tool, which is enabled"
    return ""


def _filesystem(section: JsonObject) -> Iterator[Problem]:
    if section.get("enabled") is not True:
        return
    if section.get("allowedDirs", []) == []:
        yield Problem("tool.fs.allowedDirs", "must name at least one directory", "or switch tool.fs off")
    for key in ("allowedDirs", "blacklists"):
        entries = section.get(key)
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, str) and not entry.strip():
                yield Problem(f"tool.fs.{key}[{index}]", "must not be blank")


def _object(data: Json, *keys: str | int) -> JsonObject:
    """Return the object at a path, empty when there is none."""
    for key in keys:
        data = data.get(str(key)) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _objects(value: Json) -> list[JsonObject]:
    return [cast("JsonObject", entry) for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
