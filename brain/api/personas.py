"""Routes under ``/api/personas``."""

from __future__ import annotations

import msgspec
from litestar import Controller, Response, delete, get, post, put
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody
from msgspec import UNSET

from brain.api.chats import download
from brain.api.errors import error_answers
from brain.api.wire import PersonaBody, PersonaEdit, PersonaFileEntry, PersonaImport, persona_body
from brain.personas.service import Persona, PersonaDraft, PersonaService

_FILE = {200: ResponseSpec(list[PersonaFileEntry], generate_examples=False, description="The file")}


class PersonaController(Controller):
    """Personas."""

    path = "/api/personas"
    tags = ("personas",)

    @get("/", operation_id="listPersonas", summary="List personas")
    async def list_personas(self, personas: NamedDependency[PersonaService]) -> list[PersonaBody]:
        """Return the default persona (id 0), then the stored ones by id."""
        return [_body(personas, persona) for persona in await personas.list_all()]

    @post("/", operation_id="createPersona", summary="Create a persona", responses=error_answers(400, 413, 415))
    async def create(self, data: JSONBody[PersonaEdit], personas: NamedDependency[PersonaService]) -> PersonaBody:
        """Create a persona."""
        return _body(personas, await personas.create(_draft(data)))

    @put(
        "/{persona_id:str}",
        operation_id="replacePersona",
        summary="Replace a persona",
        responses=error_answers(400, 404, 413, 415),
    )
    async def replace(
        self,
        persona_id: FromPath[int],
        data: JSONBody[PersonaEdit],
        personas: NamedDependency[PersonaService],
    ) -> PersonaBody:
        """Replace a stored persona; the default one cannot be changed."""
        return _body(personas, await personas.replace(persona_id, _draft(data)))

    @delete("/{persona_id:str}", operation_id="deletePersona", summary="Delete a persona", responses=error_answers(400, 404))
    async def remove(self, persona_id: FromPath[int], personas: NamedDependency[PersonaService]) -> None:
        """Delete a stored persona; chats keep its id as their record."""
        await personas.delete(persona_id)

    @get("/export", operation_id="exportPersonas", summary="Download all stored personas", responses=_FILE)
    async def export(self, personas: NamedDependency[PersonaService]) -> Response[bytes]:
        """Return the stored personas as a file, without the default one."""
        entries = [
            PersonaFileEntry(persona.name, persona.system_prompt, persona.allowed_namespaces, persona.remember)
            for persona in await personas.list_stored()
        ]
        return download(msgspec.json.encode(entries), "personas.json")

    @post(
        "/import",
        operation_id="importPersonas",
        summary="Create personas from a file",
        status_code=200,
        opt={"body_limit": "bulk_import_bytes"},
        responses=error_answers(400, 413, 415),
    )
    async def take_in(
        self,
        data: JSONBody[list[PersonaFileEntry]],
        personas: NamedDependency[PersonaService],
    ) -> PersonaImport:
        """Create the personas of a file that do not exist yet; the first invalid entry ends it, earlier ones stay."""
        drafts = [PersonaDraft(entry.name, entry.system_prompt, entry.allowed_namespaces, entry.remember) for entry in data]
        result = await personas.take_in(drafts)
        return PersonaImport(result.created, result.skipped)


def _draft(edit: PersonaEdit) -> PersonaDraft:
    remember = None if edit.remember is UNSET else edit.remember
    return PersonaDraft(edit.name, edit.system_prompt, edit.allowed_namespaces, remember)


def _body(personas: PersonaService, persona: Persona) -> PersonaBody:
    return persona_body(persona, personas.stale_namespaces(persona))
