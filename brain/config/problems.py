"""Mistakes in a configuration: found by the schema, told in words, never with the value, which may be a secret."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, cast

import jsonschema_rs
import msgspec

from brain.config.schema import Json, JsonObject, config_schema, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Path = tuple[str | int, ...]


class Problem(msgspec.Struct, frozen=True, order=True):
    """One mistake: where, what, and what to do about it."""

    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.path}: {self.message}{hint}"


class ConfigError(Exception):
    """The configuration cannot be used; ``problems`` lists every mistake found."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        super().__init__("\n".join([f"{source}: {count}", *(f"  {problem}" for problem in problems)]))
        self.problems = tuple(problems)


def dotted(path: Path) -> str:
    """Return a path as people write it: ``providers.main.llm[0].modelId``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "(top level)"


def schema_problems(data: Json) -> list[Problem]:
    """Return what the schema finds wrong, every mistake of the whole file."""
    return list(_problems(config_schema(), data, ()))


def accepts(node: JsonObject, value: Json) -> bool:
    """Whether a node of the configuration schema takes a value."""
    return not any(True for _ in _errors(node, value))


def _errors(node: JsonObject, value: Json) -> Iterator[jsonschema_rs.ValidationError]:
    schema = {**node, "$defs": config_schema()["$defs"]}
    return jsonschema_rs.validator_for(schema).iter_errors(value)


def _problems(node: JsonObject, value: Json, base: Path) -> Iterator[Problem]:
    for error in _errors(node, value):
        path = (*base, *error.instance_path)
        schema = {**node, "$defs": config_schema()["$defs"]}
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.AnyOf():
                branches = cast("list[JsonObject]", _node_at(schema, error.schema_path))
                yield from _choice_problems(branches, _value_at(value, error.instance_path), path)
            case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names):
                known = list(cast("JsonObject", resolve(_node_at(schema, error.schema_path[:-1])).get("properties", {})))
                yield from (_unknown_key((*path, name), known) for name in names)
            case _:
                yield _one_problem(error, path)


def _choice_problems(branches: list[JsonObject], value: Json, path: Path) -> Iterator[Problem]:
    """Say what is wrong with a value that may take several forms: by its ``type`` key when the forms have one."""
    tagged: dict[str, JsonObject] = {}
    for branch in branches:
        properties = cast("dict[str, JsonObject]", resolve(branch).get("properties", {}))
        tags = cast("list[str]", properties.get("type", {}).get("enum", []))
        tagged.update(dict.fromkeys(tags, branch))
    if tagged and isinstance(value, dict):
        branch = tagged.get(str(value.get("type")))
        if branch is None:
            yield Problem(dotted((*path, "type")), f"must be one of {_quoted(tagged)}")
        else:
            yield from _problems(branch, value, path)
        return
    not_null = [branch for branch in branches if branch.get("type") != "null"]
    typed = [branch for branch in not_null if _type_fits(resolve(branch), value)]
    if len(typed) == 1:
        yield from _problems(typed[0], value, path)
    elif len(not_null) == 1:
        yield from _problems(not_null[0], value, path)
    else:
        yield Problem(dotted(path), f"must be {' or '.join(_describe(resolve(branch)) for branch in not_null)}")


def _type_fits(node: JsonObject, value: Json) -> bool:
    return "type" in node and accepts({"type": node["type"]}, value)


def _describe(node: JsonObject) -> str:
    if "enum" in node:
        return f"one of {_quoted(cast('list[str]', node['enum']))}"
    low, high = node.get("minimum"), node.get("maximum")
    bounds = f" from {low} to {high}" if low is not None and high is not None else ""
    return f"{_ARTICLE.get(str(node.get('type')), 'a value')}{bounds}"


_ARTICLE: Final = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_PATTERN_WORDS: Final = {
    r"\S": ("must not be blank", ""),
    r"^https?://\S+$": ("must be an http:// or https:// address", ""),
}
_ROOT_WORDS: Final = (
    "must be an http(s):// address without trailing slash, query or fragment",
    "for example http://127.0.0.1:3100",
)


def _one_problem(error: jsonschema_rs.ValidationError, path: Path) -> Problem:
    kinds = jsonschema_rs.ValidationErrorKind
    hint = ""
    match error.kind:
        case kinds.Required(property=name):
            path, words = (*path, name), "is missing"
            hint = "" if len(path) > 1 else "config.example.jsonc shows it, docs/how-to/connect-a-model.md explains it"
        case kinds.Type(types=types):
            words = f"must be {' or '.join(_ARTICLE.get(str(kind), str(kind)) for kind in types)}"
        case kinds.Pattern(pattern=pattern):
            words, hint = _PATTERN_WORDS.get(pattern, _ROOT_WORDS)
        case kinds.Minimum(limit=limit):
            words = f"must be at least {limit}"
        case kinds.Maximum(limit=limit):
            words = f"must be at most {limit}"
        case kinds.MinItems():
            words = "must not be empty"
        case kinds.Enum(options=options):
            words = f"must be one of {_quoted(options)}"
        case _:
            words, hint = "does not fit the schema", "see config.schema.json"
    return Problem(dotted(path), words, hint)


def _unknown_key(path: Path, known: list[str]) -> Problem:
    close = difflib.get_close_matches(str(path[-1]), known, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
    return Problem(dotted(path), "unknown key", hint)


def _node_at(schema: JsonObject, path: Sequence[str | int]) -> JsonObject:
    return cast("JsonObject", _value_at(schema, path))


def _value_at(value: Json, path: Sequence[str | int]) -> Json:
    for step in path:
        value = value[step] if isinstance(value, list) and isinstance(step, int) else cast("JsonObject", value)[str(step)]
    return value


def _quoted(words: object) -> str:
    return ", ".join(repr(word) for word in cast("list[str]", words))
