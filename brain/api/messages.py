"""Routes of turns: send a message, follow or find the live turn, stop it, answer its approvals (brain-api §6, additions §1)."""

from __future__ import annotations

import asyncio
from typing import Final, Literal, cast

import msgspec
from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from brain.api.chats import MessagePages
from brain.api.events import EventStream
from brain.api.forwarding import TurnForwarder
from brain.catalog import Catalog
from brain.chats.attachments import read_data_urls
from brain.config.models import LimitsConfig
from brain.errors import ConflictError, InvalidInputError, NotFoundError
from brain.personas.service import PersonaService
from brain.tools.approval import ApprovalRequest, Decision, Scope
from brain.turns.live import LiveTurn, TurnRequest
from brain.turns.run_log import Subscription, number_of_event
from brain.turns.service import TurnService
from brain.turns.subscribers import ClientStream
from shared_protocol.headers import REQUEST_ID_HEADER
from shared_protocol.instants import Instant
from shared_protocol.messages import ContentPart, TextPart, UserMessage

_THREAD_FROM_CHARS: Final = 2**18

ApiRequest = Request[object, object, State]


class ImageInput(msgspec.Struct, frozen=True, rename="camel"):
    """An image that the person attached."""

    data_url: str


class SendRequest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Body of a send. ``text`` or at least one image is needed; model and persona have no default."""

    text: str | None = None
    images: tuple[ImageInput, ...] = ()
    model: str | None = None
    persona_id: int | None = None
    detach: bool = False
    approvals: bool = False
    remember: bool = True
    replace_from: int | None = None


class StopRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Body of a stop, which may be left out; ``keepPartial`` stores what was said so far."""

    keep_partial: bool = False


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """Body of a decision on a tool call; scope ``chat`` holds for all further calls of the tool in this chat."""

    decision: Decision
    scope: Scope = "once"


class Stopping(msgspec.Struct, frozen=True):
    """Answer of a stop that was accepted."""

    state: Literal["stopping"] = "stopping"


class IdleRun(msgspec.Struct, frozen=True):
    """No turn is live."""

    state: Literal["idle"] = "idle"


class RunningRun(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The live turn of a chat. ``message`` is what it answers: it is stored only with its answer, and who joins has not seen it.

    ``replaceFrom`` is the index of the stored user message whose place it takes, null for a new one.
    """

    state: Literal["running"] = "running"
    turn_id: str
    started_at: Instant
    message: UserMessage
    replace_from: int | None
    last_event_id: str
    pending_approvals: tuple[ApprovalRequest, ...]


class MessagesController(MessagePages):
    """Routes under ``/api/chats/{id}`` that concern a turn."""

    path = "/api/chats/{chat_id:str}"
    opt = {"strict_chat_id": True}  # noqa: RUF012 - the framework reads it, nothing writes it
    tags = ("turns",)

    @post(
        "/messages",
        operation_id="sendMessage",
        status_code=200,
        summary="Send a message and stream the answer",
        maintenance=True,
        body_limit="message_body_bytes",
    )
    async def send(
        self,
        request: ApiRequest,
        chat_id: FromPath[str],
        data: JSONBody[SendRequest],
        turns: NamedDependency[TurnService],
        catalog: NamedDependency[Catalog],
        personas: NamedDependency[PersonaService],
        limits: NamedDependency[LimitsConfig],
    ) -> EventStream:
        """Everything is checked before the first byte; what fails later is an ``error`` event."""
        text = (data.text or "").strip()
        if not text and not data.images:
            raise InvalidInputError("a message needs text or at least one image")
        if not (data.model or "").strip():
            raise InvalidInputError("model is missing")
        model = catalog.get_chat_model((data.model or "").strip())
        if data.persona_id is None:
            raise InvalidInputError("personaId is missing")
        persona = await personas.get_for_run(data.persona_id)
        turn = await turns.start(
            TurnRequest(
                chat_id=chat_id,
                parts=await _read_parts(text, data.images, limits),
                model=model,
                persona=persona,
                replace_from=data.replace_from,
                detach=data.detach,
                approvals=data.approvals,
                remember=data.remember,
                request_id=request.headers.get(REQUEST_ID_HEADER, ""),
            )
        )
        subscription = Subscription(turn.log, with_ids=data.detach)
        return EventStream(ClientStream(subscription, on_close=lambda: turns.release_client(turn)))

    @get("/run", operation_id="getRun", summary="The live turn: its state, or its events from the start")
    async def run(
        self,
        request: ApiRequest,
        chat_id: FromPath[str],
        turns: NamedDependency[TurnService],
        forwarder: NamedDependency[TurnForwarder],
    ) -> Response[object]:
        """JSON by default; with ``Accept: text/event-stream`` the events after ``Last-Event-ID``, or 204 without a turn."""
        wants_events = "text/event-stream" in request.headers.get("accept", "")
        turn = turns.find(chat_id)
        if turn is None and (owner := await forwarder.find_owner(request, chat_id)) is not None:
            forwarded = await forwarder.forward_run(request, owner, chat_id, wants_events=wants_events)
            if forwarded is not None:
                return forwarded
        if wants_events:
            if turn is None:
                return Response(None, status_code=204)
            after = number_of_event(turn.log, request.headers.get("last-event-id"))
            return EventStream(ClientStream(Subscription(turn.log, after=after, with_ids=True)))
        return Response(IdleRun() if turn is None else _describe(turn))

    @post("/stop", operation_id="stopRun", status_code=202, summary="End the live turn", optional_body=True)
    async def stop(
        self,
        request: ApiRequest,
        chat_id: FromPath[str],
        turns: NamedDependency[TurnService],
        forwarder: NamedDependency[TurnForwarder],
        data: JSONBody[StopRequest] = StopRequest(),  # noqa: B008 - frozen, so it can be shared
    ) -> Response[object]:
        """The upstream connection is closed within a second; the stream ends with ``stopped`` and ``done`` or ``error``."""
        turn = turns.find(chat_id)
        if turn is None:
            owner = await forwarder.find_owner(request, chat_id)
            if owner is not None and (answer := await forwarder.forward_post(request, owner, f"{chat_id}/stop", data)):
                return answer
            if data.keep_partial and await turns.keep_leftover(chat_id):
                return Response(Stopping(), status_code=202)
            raise ConflictError(f"nothing runs in chat {chat_id!r}")
        turn.stop(keep_partial=data.keep_partial)
        return Response(Stopping(), status_code=202)

    @post("/approvals/{call_id:str}", operation_id="answerApproval", status_code=204, summary="Approve or deny a tool call")
    async def approve(
        self,
        request: ApiRequest,
        chat_id: FromPath[str],
        call_id: FromPath[str],
        data: JSONBody[ApprovalAnswer],
        turns: NamedDependency[TurnService],
        forwarder: NamedDependency[TurnForwarder],
    ) -> Response[None]:
        """404 for a call that was never asked about, 409 for one that has been decided."""
        turn = turns.find(chat_id)
        if turn is None:
            owner = await forwarder.find_owner(request, chat_id)
            path = f"{chat_id}/approvals/{call_id}"
            if owner is not None and (answer := await forwarder.forward_post(request, owner, path, data)):
                return cast("Response[None]", answer)
            raise NotFoundError("tool call waiting for approval", call_id)
        await turn.decide(call_id, data.decision, data.scope)
        return Response(None, status_code=204)


async def _read_parts(text: str, images: tuple[ImageInput, ...], limits: LimitsConfig) -> tuple[ContentPart, ...]:
    urls = [image.data_url for image in images]
    if sum(map(len, urls)) < _THREAD_FROM_CHARS:
        attachments = read_data_urls(urls, limits)
    else:
        attachments = await asyncio.to_thread(read_data_urls, urls, limits)
    return (TextPart(text), *attachments) if text else attachments


def _describe(turn: LiveTurn) -> RunningRun:
    return RunningRun(
        turn_id=turn.turn_id,
        started_at=turn.started_at,
        message=UserMessage(turn.request.parts, turn.started_at),
        replace_from=turn.request.replace_from,
        last_event_id=f"{turn.turn_id}-{turn.log.last_number}",
        pending_approvals=turn.pending_approvals,
    )
