"""The JSON Schema of the configuration, made from the structs: for editors, for the documentation and for the loader."""

from __future__ import annotations

import ast
import inspect
import json
from functools import cache
from typing import TypeAlias, cast

import msgspec

from brain.config import models

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
JsonObject: TypeAlias = dict[str, Json]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def config_schema() -> JsonObject:
    """Return the schema, draft 2020-12; the prose below a field of a struct becomes its description."""
    schema = cast("JsonObject", msgspec.json.schema(models.Config))
    definitions = cast("dict[str, JsonObject]", schema["$defs"])
    for name, fields in _field_prose().items():
        properties = cast("dict[str, JsonObject]", definitions.get(name, {}).get("properties", {}))
        for key, prose in fields.items():
            if key in properties:
                properties[key] = {**properties[key], "description": prose}
    return {"$schema": _DIALECT, "title": "Configuration of daapu", **schema}


def schema_text() -> str:
    """Return the schema as the text of ``config.schema.json``."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


def resolve(node: JsonObject) -> JsonObject:
    """Follow the ``$ref`` of a schema node."""
    while isinstance(reference := node.get("$ref"), str):
        definitions = cast("dict[str, JsonObject]", config_schema()["$defs"])
        node = definitions[reference.removeprefix("#/$defs/")]
    return node


def forms(node: JsonObject) -> list[JsonObject]:
    """Return every form that a node may take: itself, or the members of its (nested) choices."""
    node = resolve(node)
    if "anyOf" not in node:
        return [node]
    return [form for branch in cast("list[JsonObject]", node["anyOf"]) for form in forms(branch)]


def _field_prose() -> dict[str, dict[str, str]]:
    """Return ``{struct: {wire key: prose}}`` from the string that follows a field in the source."""
    found: dict[str, dict[str, str]] = {}
    for statement in ast.parse(inspect.getsource(models)).body:
        if isinstance(statement, ast.ClassDef):
            struct = getattr(models, statement.name)
            wire_names = dict(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))
            found[statement.name] = {wire_names[name]: prose for name, prose in _documented(statement) if name in wire_names}
    return found


def _documented(statement: ast.ClassDef) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for field, following in zip(statement.body, statement.body[1:], strict=False):
        match field, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(prose))),
            ):
                pairs.append((name, " ".join(prose.split())))
            case _:
                continue
    return pairs
