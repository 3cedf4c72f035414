"""The eltm tools: the memory as a tool provider, six tools for readers and fourteen for the writer (memory.md section 7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from brain.errors import InvalidInputError, NotFoundError
from brain.memory import tool_results as results
from brain.memory.embeddings import EmbeddingError
from brain.memory.notes import NoteRules
from brain.memory.queries_search import NoteFilter
from brain.memory.reads import EntityPatterns
from brain.memory.tool_arguments import ToolArguments
from brain.memory.tool_specs import FACT, TOOLS, tool_spec
from brain.memory.views import NewNote, NoteSource
from brain.tools.provider import SEPARATOR, ToolOutcome, error_outcome, text_outcome

if TYPE_CHECKING:
    from msgspec import Raw

    from brain.memory.search import EltmSearch
    from brain.memory.store import EltmStore
    from shared_protocol.tools import ToolSpec

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

Run: TypeAlias = Callable[[ToolArguments], Awaitable[str]]

DEFAULT_LIMIT: Final = 5
MAX_ROWS: Final = 10_000
"""The contract sets no bound; beyond this a page would only fill memory."""

SHORTEN: Final[dict[str, str]] = {
    "set_entity_attribute": "shorten the value",
    "delete_entity_attribute": "shorten the other attributes",
    "merge_entities": "shorten or delete an attribute first",
    "create_entity": "shorten the name",
    "refine_entity": "shorten the name or drop an attribute",
    "add_entity_note": "split it into smaller notes",
    "add_relationship_note": "split it into smaller notes",
}
"""What the model can do when the content is too large to embed."""


class EltmTools:
    """Serves the memory's tools under bare names, or under ``<namespace>__<name>`` only.

    ``facts`` are the numbered facts that a writer works on: the note tools then take an optional ``fact`` and link the note to
    its place in the chat; ``source`` is the link of notes without a number. Calls may run in parallel.
    """

    def __init__(
        self,
        store: EltmStore,
        search: EltmSearch,
        *,
        read_only: bool,
        namespace: str | None = None,
        facts: Mapping[int, NoteSource] | None = None,
        source: NoteSource | None = None,
    ) -> None:
        self._store = store
        self._search = search
        self._namespace = namespace
        self._facts = facts or {}
        self._source = source
        self._served = [tool for tool in TOOLS if not (read_only and tool.writes)]
        self._runs: dict[str, Run] = {tool.name: self._run_of(tool.name) for tool in self._served}

    @property
    def namespaces(self) -> Sequence[str]:
        """The namespace, if there is one."""
        return [self._namespace] if self._namespace else []

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools in the order of the specification."""
        return [tool_spec(tool, self._advertised(tool.name), with_fact=bool(self._facts)) for tool in self._served]

    def budget_seconds(self, name: str) -> int:  # noqa: ARG002 - the interface
        """Return 0: the database bounds what can take long."""
        return 0

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run one call; whatever goes wrong is a result that the model sees."""
        run = self._find(name)
        if run is None:
            return error_outcome(f"there is no tool {name!r} here")
        bare = self._bare(name)
        try:
            return text_outcome(await run(ToolArguments(args)))
        except (InvalidInputError, NotFoundError) as problem:
            return error_outcome(str(problem))
        except EmbeddingError as problem:
            if problem.is_refused:
                return error_outcome(f"the content is too large to be remembered: {SHORTEN.get(bare, 'shorten it')}")
            return error_outcome(str(problem))
        except Exception as problem:
            log.warning("memory_tool_failed", tool=bare, call_id=call_id, exc_info=problem)
            return error_outcome(f"{bare} failed: {type(problem).__name__}")

    def _run_of(self, name: str) -> Run:
        runs: dict[str, Run] = {
            "search_entities": self._search_entities,
            "ls_entities": self._list_entities,
            "get_relationships": self._get_relationships,
            "get_entity_notes": self._get_entity_notes,
            "get_relationship_notes": self._get_relationship_notes,
            "search_notes": self._search_notes,
            "create_entity": self._create_entity,
            "refine_entity": self._refine_entity,
            "create_relationship": self._create_relationship,
            "merge_entities": self._merge_entities,
            "add_entity_note": self._add_entity_note,
            "add_relationship_note": self._add_relationship_note,
            "set_entity_attribute": self._set_attribute,
            "delete_entity_attribute": self._delete_attribute,
        }
        return runs[name]

    def _advertised(self, bare: str) -> str:
        return f"{self._namespace}{SEPARATOR}{bare}" if self._namespace else bare

    def _bare(self, name: str) -> str:
        return name.removeprefix(f"{self._namespace}{SEPARATOR}") if self._namespace else name

    def _find(self, name: str) -> Run | None:
        bare = self._bare(name)
        return self._runs.get(bare) if name == self._advertised(bare) else None

    async def _search_entities(self, args: ToolArguments) -> str:
        query, limit = args.required_text("query"), _limit(args)
        found = await self._search.search_entities(query, limit)
        return results.entity_blocks(found.entities, found.degraded)

    async def _list_entities(self, args: ToolArguments) -> str:
        limit, offset = _limit(args), _offset(args)
        patterns = {"name": args.pattern("name"), "category": args.pattern("category"), "attr": args.pattern("attr")}
        for name, pattern in patterns.items():
            if pattern is not None:
                await self._check_pattern(name, pattern)
        chosen = EntityPatterns(patterns["name"], patterns["category"], patterns["attr"])
        return results.listed_entities(await self._store.reads.match_entities(chosen, limit, offset))

    async def _check_pattern(self, name: str, pattern: str) -> None:
        try:
            await self._store.reads.check_pattern(pattern)
        except InvalidInputError as problem:
            raise InvalidInputError(f"{name}: {problem}") from problem

    async def _get_relationships(self, args: ToolArguments) -> str:
        entity_id = args.required_id("entity_id")
        include_invalid = args.flag("include_invalid") or False
        views = await self._store.reads.list_relationships_of(entity_id, include_invalid=include_invalid)
        return results.relationship_blocks(views)

    async def _get_entity_notes(self, args: ToolArguments) -> str:
        entity_id = args.required_id("entity_id")
        start, end = args.days()
        notes = await self._store.reads.list_entity_notes(entity_id, start, end, _limit(args), _offset(args))
        return results.note_blocks(notes)

    async def _get_relationship_notes(self, args: ToolArguments) -> str:
        relationship_id = args.required_id("relationship_id")
        start, end = args.days()
        notes = await self._store.reads.list_relationship_notes(relationship_id, start, end, _limit(args), _offset(args))
        return results.note_blocks(notes)

    async def _search_notes(self, args: ToolArguments) -> str:
        query = args.required_text("query")
        entity_id, relationship_id = args.optional_id("entity_id"), args.optional_id("relationship_id")
        if entity_id is not None and relationship_id is not None:
            raise InvalidInputError("give entity_id or relationship_id, not both")
        start, end = args.days()
        limit = _limit(args)
        if entity_id is not None:
            await self._store.reads.get_entity(entity_id)
        if relationship_id is not None:
            await self._store.reads.get_relationship(relationship_id)
        note_filter = NoteFilter(entity_id, relationship_id, start, end)
        found = await self._search.search_notes(query, limit, note_filter)
        return results.found_notes(found.notes, found.degraded)

    async def _create_entity(self, args: ToolArguments) -> str:
        name, category = args.required_text("name"), args.text("category") or "general"
        return results.created_entity(await self._store.entities.create(name, category))

    async def _refine_entity(self, args: ToolArguments) -> str:
        entity_id = args.required_id("entity_id")
        name, category = args.text("new_name"), args.text("new_category")
        if name is None and category is None:
            raise InvalidInputError("give new_name or new_category")
        return results.entity_summary(await self._store.entities.refine(entity_id, name, category))

    async def _create_relationship(self, args: ToolArguments) -> str:
        src_id, dst_id = args.required_id("src_id"), args.required_id("dst_id")
        view = await self._store.relationships.create(src_id, dst_id, args.required_text("verb"))
        return results.relationship_header(view)

    async def _merge_entities(self, args: ToolArguments) -> str:
        winner_id, loser_id = args.required_id("winner_id"), args.required_id("loser_id")
        return results.merged_entities(await self._store.merge(winner_id, loser_id), loser_id)

    async def _add_entity_note(self, args: ToolArguments) -> str:
        entity_id = args.required_id("entity_id")
        if args.has("valid"):
            raise InvalidInputError("valid applies to relationships: use add_relationship_note")
        note = NewNote(args.required_day("event_date"), args.required_text("note"))
        attached = await self._store.notes.attach_to_entity(entity_id, [note], self._note_rules(args))
        return results.attached_note(attached, f"entity {entity_id}")

    async def _add_relationship_note(self, args: ToolArguments) -> str:
        relationship_id = args.required_id("relationship_id")
        note = NewNote(args.required_day("event_date"), args.required_text("note"))
        rules = self._note_rules(args)
        attached = await self._store.notes.attach_to_relationship(relationship_id, [note], args.flag("valid"), rules)
        return results.attached_note(attached, f"relationship {relationship_id}")

    async def _set_attribute(self, args: ToolArguments) -> str:
        entity_id = args.required_id("entity_id")
        key, value = args.required_text("key"), args.required_text("value")
        change = await self._store.entities.set_attribute(entity_id, key, value)
        if change.erased:
            return f"Not set: a person erased this value of {change.key!r} and it must not come back. Skip it."
        if not change.changed:
            return f"Attribute {change.key!r} of entity {entity_id} already has this value; nothing was written."
        return f"Set attribute {change.key!r} of entity {entity_id}."

    async def _delete_attribute(self, args: ToolArguments) -> str:
        entity_id = args.required_id("entity_id")
        key = await self._store.entities.delete_attribute(entity_id, args.required_text("key"))
        return f"Deleted attribute {key!r} of entity {entity_id}."

    def _note_rules(self, args: ToolArguments) -> NoteRules:
        number = args.optional_id(FACT.name) if self._facts else None
        if number is not None and number not in self._facts:
            raise InvalidInputError(f"there is no fact {number}: leave fact out or give one of the numbers in the input")
        source = self._source if number is None else self._facts[number]
        force = args.flag("force") or False
        return NoteRules(skip_same=True, refuse_near=not force, sources=() if source is None else (source,))


def _limit(args: ToolArguments) -> int:
    return min(args.number("limit", DEFAULT_LIMIT, 1), MAX_ROWS)


def _offset(args: ToolArguments) -> int:
    return args.number("offset", 0, 0)
