"""Names, descriptions and argument schemas of the memory's tools (memory.md section 7)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from shared_protocol.tools import ToolSpec

Kind: TypeAlias = Literal["integer", "boolean", "string"]


class Argument(msgspec.Struct, frozen=True):
    """One argument as the model is told."""

    name: str
    kind: Kind
    description: str
    required: bool = False


class Tool(msgspec.Struct, frozen=True):
    """One tool as the model is told; ``writes`` tools are left out of the read-only set."""

    name: str
    description: str
    arguments: tuple[Argument, ...]
    writes: bool = False


def _entity_id(description: str = "Id of the entity.") -> Argument:
    return Argument("entity_id", "integer", description, required=True)


_FROM: Final = Argument("from", "string", "Earliest event date, YYYY-MM-DD, inclusive.")
_TO: Final = Argument("to", "string", "Latest event date, YYYY-MM-DD, inclusive.")
_LIMIT: Final = Argument("limit", "integer", "How many to return at most; default 5.")
_OFFSET: Final = Argument("offset", "integer", "How many to pass over first; default 0.")
_EVENT_DATE: Final = Argument("event_date", "string", "The day it happened, YYYY-MM-DD; today if unknown.", required=True)
_NOTE: Final = Argument("note", "string", "Self-contained text, three to five sentences at most, values verbatim.", required=True)
_FORCE: Final = Argument(
    "force",
    "boolean",
    "Set to true only after being shown notes that say nearly the same, when yours says something new.",
)
FACT: Final = Argument("fact", "integer", "Number of the fact that this note records.")
NOTE_TOOLS: Final = ("add_entity_note", "add_relationship_note")

TOOLS: Final = (
    Tool(
        "search_entities",
        "Find entities by meaning and by name, the best first. Use it before creating one; to look for a spelling use "
        "ls_entities.",
        (Argument("query", "string", "What to look for, in plain words.", required=True), _LIMIT),
    ),
    Tool(
        "ls_entities",
        "List entities by spelling: regular expressions without regard to case, all of which must match. Without any filter it "
        "lists everything. Use search_entities to look by meaning.",
        (
            Argument("name", "string", "Pattern for the name."),
            Argument("category", "string", "Pattern for the category."),
            Argument("attr", "string", "Pattern for an attribute written as key=value (results print it as key: value)."),
            _LIMIT,
            _OFFSET,
        ),
    ),
    Tool(
        "get_relationships",
        "List the relationships of an entity in both directions. Ended ones are left out unless include_invalid is true.",
        (_entity_id(), Argument("include_invalid", "boolean", "Whether to list ended ones too; default false.")),
    ),
    Tool(
        "get_entity_notes",
        "Read an entity's own notes, newest first, optionally within a range of event dates.",
        (_entity_id(), _FROM, _TO, _LIMIT, _OFFSET),
    ),
    Tool(
        "get_relationship_notes",
        "Read a relationship's notes, newest first, optionally within a range of event dates.",
        (Argument("relationship_id", "integer", "Id of the relationship.", required=True), _FROM, _TO, _LIMIT, _OFFSET),
    ),
    Tool(
        "search_notes",
        "Find notes by meaning and by words, the best first. May be narrowed to one subject (an entity or a relationship, not "
        "both) and to a range of event dates.",
        (
            Argument("query", "string", "What to look for, in plain words.", required=True),
            Argument("entity_id", "integer", "Only notes of this entity."),
            Argument("relationship_id", "integer", "Only notes of this relationship."),
            _FROM,
            _TO,
            _LIMIT,
        ),
    ),
    Tool(
        "create_entity",
        "Create an entity, or return the one that has this name and category. Search first (search_entities and ls_entities). If "
        "the answer shows a near match that is the same thing, use that id instead of the new one.",
        (
            Argument("name", "string", "Canonical name.", required=True),
            Argument("category", "string", "One general word such as person, company, place; default general."),
        ),
        writes=True,
    ),
    Tool(
        "refine_entity",
        "Rename or recategorise an entity, for instance once an unknown person is identified. Its id, notes, attributes and "
        "relationships stay. Give at least one of the two.",
        (
            _entity_id(),
            Argument("new_name", "string", "New canonical name."),
            Argument("new_category", "string", "New category."),
        ),
        writes=True,
    ),
    Tool(
        "create_relationship",
        "Connect two entities with a verb, or return the connection that exists. Verbs are general and timeless (works_at, "
        "knows, lives_in); what happened and when belongs into notes. An ended relationship is returned still ended: revive it "
        "with a note and valid=true.",
        (
            Argument("src_id", "integer", "Id of the entity that the verb starts from.", required=True),
            Argument("dst_id", "integer", "Id of the entity that the verb points to.", required=True),
            Argument("verb", "string", "General verb, for example works_at.", required=True),
        ),
        writes=True,
    ),
    Tool(
        "merge_entities",
        "Fold a duplicate into the entity it duplicates; everything known about it moves along. Only for true duplicates; the "
        "winner is the one with the better name.",
        (
            Argument("winner_id", "integer", "Id of the entity that stays.", required=True),
            Argument("loser_id", "integer", "Id of the duplicate that disappears.", required=True),
        ),
        writes=True,
    ),
    Tool(
        "add_entity_note",
        "Add a note to an entity. Notes are never changed or removed: correct one by adding a newer one. Read the recent notes "
        "of the entity first and skip what is recorded already.",
        (_entity_id(), _EVENT_DATE, _NOTE, _FORCE),
        writes=True,
    ),
    Tool(
        "add_relationship_note",
        "Add a note to a relationship, if the event concerns both ends and the verb. Notes are never changed or removed; read "
        "the recent ones first and skip what is recorded already. valid=false says that this event ended the relationship, "
        "valid=true that it began or began again; leave it out otherwise.",
        (
            Argument("relationship_id", "integer", "Id of the relationship.", required=True),
            _EVENT_DATE,
            _NOTE,
            Argument("valid", "boolean", "Whether the relationship holds since this event; leave out if it says nothing of it."),
            _FORCE,
        ),
        writes=True,
    ),
    Tool(
        "set_entity_attribute",
        "Set an attribute: a timeless fact that is true now, on a single line. It overwrites the value of that key; read the "
        "present attributes first.",
        (
            _entity_id(),
            Argument("key", "string", "Short key, for example city.", required=True),
            Argument("value", "string", "Single-line value.", required=True),
        ),
        writes=True,
    ),
    Tool(
        "delete_entity_attribute",
        "Delete an attribute that is not true any more and has no new value.",
        (_entity_id(), Argument("key", "string", "Key of the attribute.", required=True)),
        writes=True,
    ),
)


def tool_spec(tool: Tool, name: str, *, with_fact: bool = False) -> ToolSpec:
    """Return a tool as it is advertised under ``name``."""
    arguments = (*tool.arguments, FACT) if with_fact and tool.name in NOTE_TOOLS else tool.arguments
    schema = {
        "type": "object",
        "properties": {argument.name: {"type": argument.kind, "description": argument.description} for argument in arguments},
        "required": [argument.name for argument in arguments if argument.required],
    }
    return ToolSpec(name, tool.description, Raw(msgspec.json.encode(schema)))
