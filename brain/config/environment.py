"""Environment overrides: ``SECTION__KEY=value`` replaces one key of the file, whatever its depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import jsonyx

from brain.config.problems import Problem, accepts
from brain.config.schema import Json, JsonObject, config_schema, forms, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping


def apply_environment(data: JsonObject, environ: Mapping[str, str]) -> list[Problem]:
    """Change ``data`` in place by every variable whose first word is a section; return what could not be placed.

    ``HAND__SELF_BASE_URL`` is ``hand.selfBaseUrl``, ``PROVIDERS__MAIN__LLM__0__CONTEXT_LENGTH`` a key of a list entry.
    A value is taken as text where the key wants text, as JSON elsewhere.
    """
    root = resolve(config_schema())
    problems: list[Problem] = []
    for name, text in sorted(environ.items()):
        first, *rest = name.split("__")
        if rest and _find_property(root, first) is not None:
            problem = _place(data, root, [first, *rest], name, text)
            if problem:
                problems.append(problem)
    return problems


def without_overrides(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that ``apply_environment`` reads."""
    root = resolve(config_schema())
    return {
        name: text for name, text in environ.items() if "__" not in name or _find_property(root, name.partition("__")[0]) is None
    }


def _place(target: JsonObject, node: JsonObject, words: list[str], name: str, text: str) -> Problem | None:
    current: Json = target
    for position, word in enumerate(words):
        if isinstance(current, list):
            if not word.isdecimal() or int(word) >= len(current):
                return Problem(name, f"the list at {'__'.join(words[:position])} has no entry {word!r}")
            key: str | int = int(word)
            node = resolve(cast("JsonObject", node.get("items", {})))
        else:
            found = _find_key(node, cast("JsonObject", current), word)
            if found is None:
                return Problem(name, f"unknown key {word!r}", "environment overrides name keys of the configuration")
            key, node = found
        node = _object_form(node)
        if position == len(words) - 1:
            _assign(current, key, _value(node, text))
            return None
        current = _descend(current, key)
        if not isinstance(current, dict | list):
            return Problem(name, f"{'__'.join(words[: position + 1])} is a single value, it has no keys")
    return None


def _assign(container: Json, key: str | int, value: Json) -> None:
    if isinstance(container, list) and isinstance(key, int):
        container[key] = value
    else:
        cast("JsonObject", container)[str(key)] = value


def _descend(container: Json, key: str | int) -> Json:
    if isinstance(container, list):
        return container[cast("int", key)]
    return cast("JsonObject", container).setdefault(str(key), {})


def _find_key(node: JsonObject, present: JsonObject, word: str) -> tuple[str, JsonObject] | None:
    if (found := _find_property(node, word)) is not None:
        return found
    if isinstance(extra := node.get("additionalProperties"), dict):
        # Keys of a map are the person's own words: take the spelling of the file, else lower case.
        same = [key for key in present if _plain(key) == _plain(word)]
        return (same[0] if same else word.lower()), resolve(extra)
    return None


def _find_property(node: JsonObject, word: str) -> tuple[str, JsonObject] | None:
    for key, child in cast("dict[str, JsonObject]", node.get("properties", {})).items():
        if _plain(key) == _plain(word):
            return key, resolve(child)
    return None


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def _object_form(node: JsonObject) -> JsonObject:
    """Return all keys of all forms of a node that may take several (a tool server is ``http`` or ``stdio``)."""
    if "anyOf" not in node:
        return node
    properties: JsonObject = {}
    for form in forms(node):
        properties |= cast("JsonObject", form.get("properties", {}))
    return {**node, "properties": properties} if properties else node


def _value(node: JsonObject, text: str) -> Json:
    without_keys: JsonObject = {key: value for key, value in node.items() if key != "properties" or "anyOf" not in node}
    if accepts(without_keys, text):
        return text
    try:
        return cast("Json", jsonyx.loads(text))
    except jsonyx.JSONSyntaxError:
        return text  # the schema will say what is expected
