"""Statements that were erased stay out: they are recognised by a keyed hash of their words, so the text itself is gone."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

import regex

from brain.memory import queries_history as queries
from brain.memory.tokens import fold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import AsyncConnection

KEY_BYTES: Final = 32
_SEPARATOR: Final = "\x1f"
_MEANING: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+[+#]*|[\p{Sc}%°<>=&]|(?<![\p{L}\p{N}])-(?=\p{N})", regex.V1)
"""What is left of a text when form does not matter: words, and the signs that tell C from C++, 5 from -5, $5 from 5 %."""


def same_text_hash(text: str) -> bytes:
    """Return what two notes have in common that say the same with other spacing, case or punctuation."""
    return hashlib.sha256(_canonical(text).encode()).digest()[:16]


def note_statement(text: str) -> str:
    """Return a note as a statement, whatever its subject and day."""
    return _SEPARATOR.join(("note", _canonical(text)))


def attribute_statement(entity_name: str, key: str, value: str) -> str:
    """Return an attribute as a statement."""
    return _SEPARATOR.join(("attribute", entity_name, key, _canonical(value)))


def relationship_statement(src_name: str, verb: str, dst_name: str) -> str:
    """Return a relationship as a statement."""
    return _SEPARATOR.join(("relationship", src_name, verb, dst_name))


async def find_kept_out(conn: AsyncConnection, statements: Iterable[str]) -> set[str]:
    """Return which statements were erased and must not come back."""
    wanted = list(dict.fromkeys(statements))
    if not wanted or not await queries.has_kept_out(conn):
        return set()
    key = await queries.get_keep_out_key(conn, secrets.token_bytes(KEY_BYTES))
    hashes = {_hash(key, statement): statement for statement in wanted}
    return {hashes[found] for found in await queries.find_kept_out(conn, list(hashes))}


async def keep_out(conn: AsyncConnection, statements: Iterable[str]) -> None:
    """Keep statements out from now on."""
    wanted = list(dict.fromkeys(statements))
    if wanted:
        key = await queries.get_keep_out_key(conn, secrets.token_bytes(KEY_BYTES))
        await queries.insert_kept_out(conn, [_hash(key, statement) for statement in wanted])


def _canonical(text: str) -> str:
    return " ".join(_MEANING.findall(fold(text))) or fold(text).strip()


def _hash(key: bytes, statement: str) -> bytes:
    return hmac.digest(key, statement.encode(), "sha256")
