"""Reads the configuration: file, environment, checks; either a ``Config`` or every mistake at once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import jsonyx
import msgspec
from jsonyx import allow
from psycopg.pq import Conninfo

from brain.config.environment import apply_environment
from brain.config.models import Config, DatabaseConfig
from brain.config.problems import ConfigError, Problem, schema_problems
from brain.config.rules import drop_disabled_tools, rule_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brain.config.schema import Json, JsonObject

DEFAULT_FILE: Final = Path("config.jsonc")
_decode = msgspec.json.Decoder(Config).decode


def read_file(path: Path) -> JsonObject:
    """Return the content of a JSONC file: JSON, ``//`` and ``/* */`` comments, trailing commas.

    Raises:
        ConfigError: the file is missing, unreadable, not UTF-8, not JSONC (with line and column) or not an object.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        hint = "copy config.example.jsonc, or run `daapu up`, which needs no file"
        raise ConfigError(str(path), [Problem("file", "does not exist", hint)]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [Problem("file", f"cannot be read: {error}")]) from error
    try:
        data: object = jsonyx.loads(text, allow=allow.COMMENTS | allow.TRAILING_COMMA, filename=str(path))
    except jsonyx.JSONSyntaxError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(str(path), [Problem(where, error.msg)]) from error
    if not isinstance(data, dict):
        raise ConfigError(str(path), [Problem("(top level)", "must be an object: { ... }")])
    return cast("JsonObject", data)


def check(data: JsonObject, environ: Mapping[str, str], *, source: str) -> Config:
    """Turn plain data, overridden by the environment, into a configuration.

    Raises:
        ConfigError: listing every mistake.
    """
    data = copy.deepcopy(data)
    problems = apply_environment(data, environ)
    _make_whole(data)
    drop_disabled_tools(data)
    problems += schema_problems(data)
    problems += rule_problems(data)
    if problems:
        raise ConfigError(source, sorted(set(problems)))
    return _with_plain_url(_decode(msgspec.json.encode(data)))


def _make_whole(node: Json) -> None:
    """Turn numbers such as ``8080.0`` and ``1e5`` into the whole numbers that they are to JSON Schema, in place.

    What is sent on as it stands (``additionalProperties``) keeps its spelling.
    """
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(entries):
        if isinstance(value, float) and value.is_integer():
            cast("dict[str | int, Json]", node)[key] = int(value)
        elif key != "additionalProperties":
            _make_whole(value)


def load_config(path: Path, environ: Mapping[str, str]) -> Config:
    """Read, override and check the file.

    Raises:
        ConfigError: listing every mistake.
    """
    return check(read_file(path), environ, source=str(path))


def _with_plain_url(config: Config) -> Config:
    return msgspec.structs.replace(config, database=_plain_database(config.database))


def _plain_database(database: DatabaseConfig) -> DatabaseConfig:
    """Put user and password into the address and make a JDBC address one that libpq reads."""
    if database.url == "embedded":
        return database
    url = database.url
    if url.startswith("jdbc:"):
        url = _without_foreign_parameters(url.removeprefix("jdbc:"))
    if urlsplit(url).username is None and database.user is not None:
        scheme, _, rest = url.partition("://")
        password = "" if database.password is None else f":{quote(database.password, safe='')}"
        url = f"{scheme}://{quote(database.user, safe='')}{password}@{rest}"
    return msgspec.structs.replace(database, url=url)


def _without_foreign_parameters(url: str) -> str:
    address, _, query = url.partition("?")
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    kept = [(key, value) for key, value in parse_qsl(query) if key in known]
    return f"{address}?{urlencode(kept)}" if kept else address
