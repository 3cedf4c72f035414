"""Routes that move the whole memory out and in as one file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Controller, Request, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter
from litestar.response import Stream

from brain.api.errors import error_answers
from brain.api.memory import ROOT
from brain.memory.assembly import MemoryParts
from brain.memory.transfer import ImportSummary

Flag = Literal["true", "false"]
OverwriteAttr = Annotated[Flag, QueryParameter(name="overwriteAttr")]


class MemoryTransfer(Controller):
    """The memory as a file."""

    path = ROOT
    tags = ("memory",)

    @get("/export", operation_id="exportMemory", summary="Download the memory")
    async def export_memory(self, memory: NamedDependency[MemoryParts]) -> Stream:
        """Return everything that is not forgotten as one JSON file, all of one moment."""
        return Stream(
            memory.transfer.export(),
            media_type="application/json",
            headers={"content-disposition": 'attachment; filename="eltm.json"'},
        )

    @post(
        "/import",
        operation_id="importMemory",
        summary="Merge a memory file",
        status_code=200,
        opt={"maintenance": True, "json_body": True, "body_limit": "bulk_import_bytes"},
        responses=error_answers(400, 413, 415, 502, 503),
    )
    async def import_memory(
        self,
        request: Request[Any, Any, Any],
        memory: NamedDependency[MemoryParts],
        overwrite_attr: OverwriteAttr = "false",
    ) -> ImportSummary:
        """Check the whole file, then merge it; running it again resumes an import that failed midway."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
        return await memory.transfer.take_in(body, overwrite_attributes=overwrite_attr == "true")
