"""Shapes of the chat, persona and model routes, and how domain values become them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from shared_protocol.instants import instant_from_datetime
from shared_protocol.messages import AssistantMessage, AttachmentKind, Base64Content, Message, TextPart

if TYPE_CHECKING:
    from brain.catalog import ChatModel
    from brain.chats.queries import ChatHead
    from brain.chats.queries_drops import DropHead
    from brain.chats.search.service import Hit
    from brain.personas.service import Persona

Flag: TypeAlias = Literal["true", "false"]
"""A flag in a query: exactly one of the two words."""


class WireStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all shapes: camel-case keys, unknown keys are ignored."""


class CreatedChat(WireStruct, frozen=True):
    """A new chat."""

    id: str


class ChatInfo(WireStruct, frozen=True, kw_only=True):
    """A chat without its history. ``personaId`` records the last successful run; instants are UTC."""

    id: str
    title: str
    persona_id: int
    created_at: str
    updated_at: str
    pinned: bool
    archived: bool
    temporary: bool
    remember: bool


class ListedChat(ChatInfo, frozen=True, kw_only=True):
    """A chat in the list; ``live``: it is being answered now."""

    live: bool


class ChatList(WireStruct, frozen=True):
    """A page of chats, newest first; ``nextCursor`` is absent on the last page."""

    chats: list[ListedChat]
    next_cursor: str | UnsetType = UNSET


class ChatEdit(WireStruct, frozen=True):
    """Properties to set; at least one."""

    title: str | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    remember: bool | UnsetType = UNSET


class ChatExport(WireStruct, frozen=True):
    """The export file of a chat."""

    title: str
    messages: tuple[Message, ...]


class MessagePageBody(WireStruct, frozen=True):
    """A page of messages as it is sent: the messages are JSON already. ``MessagePage`` describes it."""

    messages: list[Raw]
    first_index: int
    total: int


class ContentRef(WireStruct, frozen=True, tag="ref", tag_field="type"):
    """The content of an attachment by reference: fetch it at ``url``, it never changes."""

    sha256: str
    url: str
    bytes: int


class PagedAttachment(WireStruct, frozen=True, tag="attachment", tag_field="type"):
    """A file by reference; by value only if its base64 is unusual."""

    kind: AttachmentKind
    content: ContentRef | Base64Content
    mime_type: str


class PagedUserMessage(WireStruct, frozen=True, tag="user", tag_field="role"):
    """What a person said, attachments by reference."""

    parts: tuple[TextPart | PagedAttachment, ...]
    created_at: str


class PagedToolResultPart(WireStruct, frozen=True, tag="tool_result", tag_field="type"):
    """The answer to one tool call, attachments by reference."""

    id: str
    tool: str
    parts: tuple[TextPart | PagedAttachment, ...]
    is_error: bool


class PagedToolResult(WireStruct, frozen=True, tag="tool_result", tag_field="role"):
    """The message around one tool result."""

    parts: tuple[PagedToolResultPart]


class MessagePage(WireStruct, frozen=True):
    """Consecutive messages of a history, and where they lie in it."""

    messages: list[PagedUserMessage | AssistantMessage | PagedToolResult]
    first_index: int
    total: int


class CompactionInfo(WireStruct, frozen=True):
    """What a compaction dropped, without the messages."""

    id: int
    created_at: str
    dropped_messages: int
    rounds: int


class SearchHit(WireStruct, frozen=True):
    """A text that was found, its hits between U+E000 and U+E001. A title has null ``messageIndex``, ``role``, ``createdAt``."""

    chat_id: str
    title: str
    message_index: int | None
    role: str | None
    created_at: str | None
    snippet: str


class SearchPage(WireStruct, frozen=True):
    """Hits, newest chat first; ``nextCursor`` is absent on the last page."""

    hits: list[SearchHit]
    next_cursor: str | UnsetType = UNSET


class PersonaBody(WireStruct, frozen=True):
    """A persona; ``staleNamespaces`` are entries of the whitelist that this server does not offer any more."""

    id: int
    name: str
    system_prompt: str
    allowed_namespaces: tuple[str, ...]
    remember: bool
    stale_namespaces: list[str]


class PersonaEdit(WireStruct, frozen=True):
    """What a person says about a persona."""

    name: str
    system_prompt: str
    allowed_namespaces: tuple[str, ...] = ()
    remember: bool | UnsetType = UNSET


class PersonaFileEntry(WireStruct, frozen=True, omit_defaults=True):
    """A persona in a file; ``remember`` is written only if it is false."""

    name: str
    system_prompt: str
    allowed_namespaces: tuple[str, ...]
    remember: bool = True


class PersonaImport(WireStruct, frozen=True):
    """The names of an imported file by what became of them."""

    created: list[str]
    skipped: list[str]


class ModelInfo(WireStruct, frozen=True, kw_only=True):
    """A chat model. ``measured`` is what the server of the model reported, null before a measurement."""

    id: str
    vision: bool
    context_length: int
    max_output_tokens: int
    capabilities: list[str]
    embedding: bool
    demo: bool
    measured: dict[str, object] | None


class LoginBody(WireStruct, frozen=True):
    """The server's token."""

    token: Annotated[str, Meta(max_length=1000)]


class LoginState(WireStruct, frozen=True):
    """Whether a token is asked for, and whether this client has shown it."""

    required: bool
    logged_in: bool


def chat_info(head: ChatHead) -> ChatInfo:
    """Return the wire form of a chat."""
    return ChatInfo(
        id=head.id,
        title=head.title,
        persona_id=head.persona_id,
        created_at=instant_from_datetime(head.created_at),
        updated_at=instant_from_datetime(head.updated_at),
        pinned=head.pinned,
        archived=head.archived,
        temporary=head.temporary,
        remember=head.remember,
    )


def listed_chat(head: ChatHead, *, live: bool) -> ListedChat:
    """Return the wire form of a chat in the list."""
    return ListedChat(
        id=head.id,
        title=head.title,
        persona_id=head.persona_id,
        created_at=instant_from_datetime(head.created_at),
        updated_at=instant_from_datetime(head.updated_at),
        pinned=head.pinned,
        archived=head.archived,
        temporary=head.temporary,
        remember=head.remember,
        live=live,
    )


def compaction_info(drop: DropHead) -> CompactionInfo:
    """Return the wire form of a dropped region."""
    return CompactionInfo(drop.n, instant_from_datetime(drop.created_at), drop.dropped_messages, drop.rounds)


def search_hit(hit: Hit) -> SearchHit:
    """Return the wire form of a hit."""
    return SearchHit(hit.chat_id, hit.title, hit.message_index, hit.role, hit.created_at, hit.snippet)


def persona_body(persona: Persona, stale: list[str]) -> PersonaBody:
    """Return the wire form of a persona."""
    return PersonaBody(
        persona.id,
        persona.name,
        persona.system_prompt,
        persona.allowed_namespaces,
        persona.remember,
        stale,
    )


def model_info(model: ChatModel, measured: dict[str, object] | None) -> ModelInfo:
    """Return the wire form of a chat model."""
    return ModelInfo(
        id=model.id,
        vision=model.can("image"),
        context_length=model.context_length,
        max_output_tokens=model.max_output_tokens,
        capabilities=list(model.config.capabilities),
        embedding=False,
        demo=model.config.demo,
        measured=measured,
    )
