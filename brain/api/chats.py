"""Routes under ``/api/chats`` that need no model run, and the attachments."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from litestar import Controller, Response, delete, get, post, put
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import UNSET

from brain.api.errors import error_answers
from brain.api.wire import (
    ChatEdit,
    ChatExport,
    ChatInfo,
    ChatList,
    CompactionInfo,
    CreatedChat,
    Flag,
    MessagePage,
    MessagePageBody,
    chat_info,
    compaction_info,
    listed_chat,
)
from brain.chats.attachments import sniff
from brain.chats.queries import ChatChanges
from brain.chats.service import ChatService, Include
from brain.chats.titles import TitleGenerator
from brain.chats.transfer import MAX_PAGE, ChatReader
from shared_protocol.messages import Message

MAX_INDEX: Final = 2**31 - 1
JSON: Final = "application/json"
IMMUTABLE: Final = "private, max-age=31536000, immutable"
_SHOWN_INLINE: Final = ("image/png", "image/jpeg", "image/gif", "image/webp", "audio/", "video/")
_HISTORY: Final = {200: ResponseSpec(tuple[Message, ...], generate_examples=False, description="Messages in the neutral format")}
_PAGE: Final = {200: ResponseSpec(MessagePage, generate_examples=False, description="Messages, attachments by reference")}
_EXPORT: Final = {200: ResponseSpec(ChatExport, generate_examples=False, description="The export file")}

ExpectedLength: TypeAlias = Annotated[
    int | None,
    QueryParameter(name="expectedLength", description="How many messages the client believes there are; 409 if there are not"),
]


class ChatController(Controller):
    """Chats."""

    path = "/api/chats"
    tags = ("chats",)

    @get("/", operation_id="listChats", summary="List chats, newest first", responses=error_answers(400))
    async def list_chats(
        self,
        chats: NamedDependency[ChatService],
        cursor: FromQuery[str | None] = None,
        include: FromQuery[Include | None] = None,
    ) -> ChatList:
        """Return a page of at most 200 chats; archived and temporary ones only with ``include``."""
        page = await chats.list_page(cursor, include)
        listed = [listed_chat(head, live=head.id in page.live) for head in page.chats]
        return ChatList(listed, UNSET if page.next_cursor is None else page.next_cursor)

    @post("/", operation_id="createChat", summary="Create an empty chat", responses=error_answers(400))
    async def create(self, chats: NamedDependency[ChatService], temporary: FromQuery[Flag] = "false") -> CreatedChat:
        """Create an empty chat. A temporary one is not listed, not searched and not remembered."""
        return CreatedChat(await chats.create(temporary=temporary == "true"))

    @post(
        "/import",
        operation_id="importChat",
        summary="Create a chat from an export file",
        opt={"body_limit": "chat_import_bytes"},
        responses=error_answers(400, 413, 415),
    )
    async def take_in(self, data: JSONBody[ChatExport], reader: NamedDependency[ChatReader]) -> ChatInfo:
        """Create a chat from an export file; the same file twice makes two chats."""
        return chat_info(await reader.take_in(data.title, data.messages))

    @put(
        "/{chat_id:str}",
        operation_id="changeChat",
        summary="Rename a chat, or set its flags",
        responses=error_answers(400, 404, 413, 415),
    )
    async def change(
        self,
        chat_id: FromPath[str],
        data: JSONBody[ChatEdit],
        chats: NamedDependency[ChatService],
    ) -> ChatInfo:
        """Set any of title, pinned, archived and remember."""
        changes = ChatChanges(
            title=None if data.title is UNSET else data.title,
            pinned=None if data.pinned is UNSET else data.pinned,
            archived=None if data.archived is UNSET else data.archived,
            remember=None if data.remember is UNSET else data.remember,
        )
        return chat_info(await chats.change(chat_id, changes))

    @delete(
        "/{chat_id:str}",
        operation_id="deleteChat",
        summary="Delete a chat",
        opt={"maintenance": True},
        responses=error_answers(400, 404, 409, 503),
    )
    async def remove(
        self,
        chat_id: FromPath[str],
        chats: NamedDependency[ChatService],
        remember: FromQuery[Flag] = "true",
    ) -> None:
        """Delete a chat; what it holds is extracted into the memory later, unless ``remember=false``."""
        await chats.delete(chat_id, remember=remember == "true")

    @post(
        "/{chat_id:str}/title",
        operation_id="generateTitle",
        summary="Let a model name the chat",
        status_code=200,
        responses=error_answers(400, 404, 500, 502),
    )
    async def title(self, chat_id: FromPath[str], titles: NamedDependency[TitleGenerator]) -> ChatInfo:
        """Generate and store a title. An empty chat keeps its title."""
        return chat_info(await titles.generate(chat_id))

    @delete(
        "/{chat_id:str}/messages/{index:str}",
        operation_id="truncateChat",
        summary="Cut the history",
        responses=error_answers(400, 404, 409, 500, 503),
    )
    async def truncate(
        self,
        chat_id: FromPath[str],
        index: FromPath[int],
        chats: NamedDependency[ChatService],
        expected_length: ExpectedLength = None,
    ) -> None:
        """Remove the user message at ``index`` and all later messages, without extraction."""
        await chats.truncate(chat_id, index, expected_length=expected_length)

    @post(
        "/{chat_id:str}/fork/{index:str}",
        operation_id="forkChat",
        summary="Copy a history up to a message into a new chat",
        responses=error_answers(400, 404, 409, 500),
    )
    async def fork(
        self,
        chat_id: FromPath[str],
        index: FromPath[int],
        chats: NamedDependency[ChatService],
        expected_length: ExpectedLength = None,
    ) -> ChatInfo:
        """Create a chat with the messages up to and including the assistant message at ``index``."""
        return chat_info(await chats.fork(chat_id, index, expected_length=expected_length))

    @get(
        "/{chat_id:str}/chat",
        operation_id="readChat",
        summary="Read the whole history",
        responses={**_HISTORY, **error_answers(400, 500)},
    )
    async def read(self, chat_id: FromPath[str], reader: NamedDependency[ChatReader]) -> Response[bytes]:
        """Return all messages, byte for byte as stored; an unknown chat has none."""
        return Response(await reader.read_history(chat_id), media_type=JSON)

    @get(
        "/{chat_id:str}/export",
        operation_id="exportChat",
        summary="Download a chat",
        responses={**_EXPORT, **error_answers(400, 404)},
    )
    async def export(self, chat_id: FromPath[str], reader: NamedDependency[ChatReader]) -> Response[bytes]:
        """Return title and messages as a file; a history that breaks the rules is given as it is."""
        return download(await reader.export(chat_id), f"{chat_id}.json")

    @get(
        "/{chat_id:str}/compactions",
        operation_id="listCompactions",
        summary="List what compactions dropped",
        responses=error_answers(400, 404),
    )
    async def list_compactions(
        self,
        chat_id: FromPath[str],
        reader: NamedDependency[ChatReader],
    ) -> list[CompactionInfo]:
        """Return the dropped regions of a chat, oldest first."""
        return [compaction_info(drop) for drop in await reader.list_drops(chat_id)]

    @get(
        "/{chat_id:str}/compactions/{n:str}",
        operation_id="readCompaction",
        summary="Read what one compaction dropped",
        responses={**_HISTORY, **error_answers(400, 404, 500)},
    )
    async def read_compaction(
        self,
        chat_id: FromPath[str],
        n: FromPath[int],
        reader: NamedDependency[ChatReader],
    ) -> Response[bytes]:
        """Return the messages of a dropped region."""
        return Response(await reader.read_drop(chat_id, n), media_type=JSON)


class MessagePages(Controller):
    """Histories in parts. Inherited by the controller of turns: the framework wants all methods of a path in one controller."""

    path = "/api/chats/{chat_id:str}"

    @get(
        "/messages",
        operation_id="readMessages",
        summary="Read a part of the history",
        responses={**_PAGE, **error_answers(400, 404, 500)},
    )
    async def read_messages(
        self,
        chat_id: FromPath[str],
        reader: NamedDependency[ChatReader],
        before: Annotated[int | None, QueryParameter(ge=0, le=MAX_INDEX)] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=MAX_PAGE)] = 100,
    ) -> Response[bytes]:
        """Return up to ``limit`` messages before index ``before``, from the end if not given; attachments by reference."""
        page = await reader.read_page(chat_id, before, limit)
        body = MessagePageBody(page.messages, page.first_index, page.total)
        return Response(msgspec.json.encode(body), media_type=JSON)


class AttachmentController(Controller):
    """Contents of attachments."""

    path = "/api/attachments"
    tags = ("chats",)

    @get(
        "/{sha256:str}",
        operation_id="readAttachment",
        summary="Read the content of an attachment",
        media_type="application/octet-stream",
        responses=error_answers(400, 404),
    )
    async def read(self, sha256: FromPath[str], reader: NamedDependency[ChatReader]) -> Response[bytes]:
        """Return the content. It never changes under its name; only pictures, sound and film are shown in place."""
        content = await reader.read_attachment(sha256)
        media_type = sniff(content) or "application/octet-stream"
        headers = {"cache-control": IMMUTABLE, "etag": f'"{sha256}"'}
        if not media_type.startswith(_SHOWN_INLINE):
            headers["content-disposition"] = f'attachment; filename="{sha256}"'
        return Response(content, media_type=media_type, headers=headers)


def download(body: bytes, filename: str) -> Response[bytes]:
    """Return JSON as a file to be saved."""
    safe = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in filename)
    return Response(body, media_type=JSON, headers={"content-disposition": f'attachment; filename="{safe}"'})
