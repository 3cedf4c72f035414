"""Personas: the built-in one, stored ones, their rules, and their transfer (chat-domain.md section 8)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from brain.errors import InvalidInputError, NotFoundError
from brain.personas import queries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

DEFAULT_PERSONA_ID: Final = 0
DEFAULT_PERSONA_NAME: Final = "Default (GSG)"
GSG_NAMESPACE: Final = "gsg"

_NAMESPACE: Final = re.compile(r"[0-9a-z_-]+")
_namespaces_decoder = msgspec.json.Decoder(tuple[str, ...])


class Persona(msgspec.Struct, frozen=True):
    """A persona. An empty ``allowed_namespaces`` means every namespace of the chat loop."""

    id: int
    name: str
    system_prompt: str
    allowed_namespaces: tuple[str, ...] = ()
    remember: bool = True

    def serves(self, namespace: str) -> bool:
        """Whether the persona may use a namespace."""
        return not self.allowed_namespaces or namespace in self.allowed_namespaces


class PersonaDraft(msgspec.Struct, frozen=True):
    """What a person may say about a persona. ``remember`` ``None``: as it was, true for a new one."""

    name: str
    system_prompt: str
    allowed_namespaces: tuple[str, ...] = ()
    remember: bool | None = None


class ImportResult(msgspec.Struct, frozen=True):
    """The names of an imported file, in its order, by what became of them."""

    created: list[str]
    skipped: list[str]


class PersonaService:
    """The operations on personas. ``served`` are the namespaces of the chat loop, as they were at the start."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], served: Sequence[str]) -> None:
        self._pool = pool
        self._served = tuple(served)
        self._default = Persona(DEFAULT_PERSONA_ID, DEFAULT_PERSONA_NAME, _read_default_prompt())

    @property
    def served(self) -> tuple[str, ...]:
        """The namespaces that a persona may name."""
        return self._served

    async def list_all(self) -> list[Persona]:
        """Return the default persona, then the stored ones by id."""
        return [self._default, *await self.list_stored()]

    async def list_stored(self) -> list[Persona]:
        """Return the stored personas by id."""
        async with self._pool.connection() as conn:
            return [_persona(row) for row in await queries.list_personas(conn)]

    async def find(self, persona_id: int) -> Persona | None:
        """Look a persona up; 0 is the default one."""
        if persona_id == DEFAULT_PERSONA_ID:
            return self._default
        if not -(2**63) <= persona_id < 2**63:
            return None
        async with self._pool.connection() as conn:
            row = await queries.find_persona(conn, persona_id)
        return None if row is None else _persona(row)

    async def get_for_run(self, persona_id: int) -> Persona:
        """Return the persona of a run.

        Raises:
            InvalidInputError: unknown, or its whitelist names a namespace that is not served any more.
        """
        persona = await self.find(persona_id)
        if persona is None:
            raise InvalidInputError(f"personaId: there is no persona {persona_id}")
        self.check_served(persona)
        return persona

    def check_served(self, persona: Persona) -> None:
        """Refuse a persona whose whitelist has become stale.

        Raises:
            InvalidInputError: it names a namespace that is not served any more.
        """
        if stale := self.stale_namespaces(persona):
            raise InvalidInputError(
                f"persona {persona.name!r} allows {', '.join(map(repr, stale))}, which this server does not offer any more: "
                "edit the persona or restore the tool server",
            )

    def stale_namespaces(self, persona: Persona) -> list[str]:
        """Return the entries of a whitelist that are not served."""
        return [namespace for namespace in persona.allowed_namespaces if namespace not in self._served]

    async def create(self, draft: PersonaDraft) -> Persona:
        """Add a persona.

        Raises:
            InvalidInputError: a rule is broken.
        """
        clean = self._clean(draft)
        async with self._pool.connection() as conn:
            return await _insert(conn, clean)

    async def replace(self, persona_id: int, draft: PersonaDraft) -> Persona:
        """Replace a stored persona.

        Raises:
            InvalidInputError: the default persona, or a rule is broken.
            NotFoundError: there is no such persona.
        """
        _refuse_default(persona_id)
        clean = self._clean(draft)
        async with self._pool.connection() as conn:
            row = await queries.update_persona(
                conn,
                persona_id,
                name=clean.name,
                system_prompt=clean.system_prompt,
                allowed_namespaces=_encode(clean.allowed_namespaces),
                remember=clean.remember,
            )
        if row is None:
            raise NotFoundError("persona", persona_id)
        return _persona(row)

    async def delete(self, persona_id: int) -> None:
        """Delete a stored persona; chats keep its id as their record.

        Raises:
            InvalidInputError: the default persona.
            NotFoundError: there is no such persona.
        """
        _refuse_default(persona_id)
        async with self._pool.connection() as conn:
            if not await queries.delete_persona(conn, persona_id):
                raise NotFoundError("persona", persona_id)

    async def take_in(self, drafts: Sequence[PersonaDraft]) -> ImportResult:
        """Create the personas of a file, entry by entry; those that exist are skipped.

        Raises:
            InvalidInputError: an entry breaks a rule; the entries created before it stay.
        """
        created: list[str] = []
        skipped: list[str] = []
        async with self._pool.connection() as conn:
            known = {_identity(_persona(row)) for row in await queries.list_personas(conn)}
            for number, draft in enumerate(drafts, start=1):
                trimmed = _trim(draft)
                if _identity(trimmed) in known:
                    skipped.append(trimmed.name)
                    continue
                try:
                    clean = self._clean(trimmed)
                except InvalidInputError as problem:
                    raise InvalidInputError(f"entry {number}: {problem}") from problem
                await _insert(conn, clean)
                known.add(_identity(clean))
                created.append(clean.name)
        return ImportResult(created, skipped)

    def _clean(self, draft: PersonaDraft) -> PersonaDraft:
        clean = _trim(draft)
        for field, text in (("name", clean.name), ("systemPrompt", clean.system_prompt)):
            if not text:
                raise InvalidInputError(f"{field}: must not be blank")
            if "\x00" in text:
                raise InvalidInputError(f"{field}: must not contain the character U+0000")
        for namespace in clean.allowed_namespaces:
            self._check_namespace(namespace)
        if len(set(clean.allowed_namespaces)) != len(clean.allowed_namespaces):
            raise InvalidInputError("allowedNamespaces: a namespace is named twice")
        return clean

    def _check_namespace(self, namespace: str) -> None:
        if not is_namespace(namespace):
            raise InvalidInputError(f"allowedNamespaces: {namespace!r} is not a namespace such as 'my-server'")
        if namespace not in self._served:
            raise InvalidInputError(
                f"allowedNamespaces: {namespace!r} is not served; there are: {', '.join(self._served) or 'none'}",
            )


def is_namespace(text: str) -> bool:
    """Whether a text has the form of a namespace (chat-domain.md section 14.1)."""
    return bool(_NAMESPACE.fullmatch(text)) and "__" not in text and not text.startswith("_") and not text.endswith("_")


def _trim(draft: PersonaDraft) -> PersonaDraft:
    return msgspec.structs.replace(
        draft,
        name=draft.name.strip(),
        system_prompt=draft.system_prompt.strip(),
        allowed_namespaces=tuple(namespace.strip() for namespace in draft.allowed_namespaces),
    )


def _identity(persona: Persona | PersonaDraft) -> tuple[str, str, frozenset[str]]:
    return persona.name, persona.system_prompt, frozenset(persona.allowed_namespaces)


async def _insert(conn: AsyncConnection, clean: PersonaDraft) -> Persona:
    row = await queries.insert_persona(
        conn,
        name=clean.name,
        system_prompt=clean.system_prompt,
        allowed_namespaces=_encode(clean.allowed_namespaces),
        remember=clean.remember is not False,
    )
    return _persona(row)


def _persona(row: queries.PersonaRow) -> Persona:
    return Persona(row.id, row.name, row.system_prompt, _namespaces_decoder.decode(row.allowed_namespaces), row.remember)


def _encode(namespaces: Sequence[str]) -> str:
    return msgspec.json.encode(namespaces).decode()


def _refuse_default(persona_id: int) -> None:
    if persona_id == DEFAULT_PERSONA_ID:
        raise InvalidInputError("the default persona cannot be changed or deleted: create another one")


def _read_default_prompt() -> str:
    text = (Path(__file__).parent / "prompts" / "default.en.md").read_text(encoding="utf-8")
    return text.partition("\n")[2].strip()
