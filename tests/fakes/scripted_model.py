"""Models that follow a script, behind a fake hand over real HTTP: what a pipeline asks is recorded, what it gets is given.

Tool calls go to the tools that the run was registered with, as a brain would execute them for a hand that calls back.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from brain.catalog import ChatModel, build_catalog
from brain.config.models import ChatModelConfig, HandConfig, ProviderConfig
from brain.runs.client import open_hand_client
from brain.runs.oneshot import RunCollector
from brain.runs.registry import RunRegistry
from brain.runs.trace import RunTrace
from brain.tools.provider import ToolTransportError
from shared_protocol.codec import encode_run_event
from shared_protocol.messages import (
    AssistantMessage,
    AssistantPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
    text_of,
)
from shared_protocol.run import AssistantMessageEvent, DoneEvent, ErrorEvent, RunEvent, RunRequest, ToolCallEvent, ToolResultEvent

_request_decoder = msgspec.json.Decoder(RunRequest)


@dataclass
class Say:
    """A final answer."""

    text: str
    reasoning: str = ""
    finish_reason: str = "stop"


@dataclass
class Call:
    """A round of tool calls: (name, arguments)."""

    calls: list[tuple[str, dict[str, object]]]
    text: str = ""


@dataclass
class Fail:
    """An error of the run."""

    type: str
    message: str = "it failed"


Reply = Say | Call | Fail | str


@dataclass
class Prompt:
    """One LLM call as the script sees it."""

    request: RunRequest
    messages: tuple[Message, ...]

    @property
    def system(self) -> str:
        return self.request.system_prompt or ""

    @property
    def stage(self) -> str:
        """Which pipeline asks, told by the first words of its instructions."""
        for stage, start in STAGES.items():
            if self.system.startswith(start):
                return stage
        return "other"

    @property
    def last_text(self) -> str:
        message = self.messages[-1]
        parts = message.result.parts if isinstance(message, ToolResultMessage) else message.parts
        return text_of(parts)

    @property
    def user_text(self) -> str:
        """All that user messages say."""
        return "\n".join(text_of(message.parts) for message in self.messages if isinstance(message, UserMessage))

    @property
    def results(self) -> list[ToolResultPart]:
        return [message.result for message in self.messages if isinstance(message, ToolResultMessage)]


STAGES = {
    "extraction": "You prepare the long-term memory of an assistant. The conversation",
    "digest": "You prepare the long-term memory of an assistant. A person",
    "writer": "You keep the long-term memory",
    "plan": "You file facts",
    "rewrite": "You prepare a search",
    "investigator": "You are an investigator",
    "summary": "You are finishing the work of an investigator",
    "compaction": "You maintain the working memory",
}

Script = Callable[[Prompt], Reply]


@dataclass
class ScriptedModel:
    """The script and what was asked. ``answers`` go first, by stage, in order; then ``script``."""

    script: Script = lambda _: "Nothing worth remember."
    answers: dict[str, list[Reply]] = field(default_factory=dict)
    prompts: list[Prompt] = field(default_factory=list)
    is_down: bool = False
    registry: RunRegistry = field(default_factory=RunRegistry)
    url: str = ""

    def asked(self, stage: str) -> list[Prompt]:
        return [prompt for prompt in self.prompts if prompt.stage == stage]

    def reply(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        waiting = self.answers.get(prompt.stage)
        return waiting.pop(0) if waiting else self.script(prompt)

    async def handle_run(self, http: web.Request) -> web.StreamResponse:
        request = _request_decoder.decode(await http.read())
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        if self.is_down:
            return web.json_response({"ok": False, "error": {"type": "upstream", "message": "the gateway is away"}}, status=502)
        await response.prepare(http)
        transcript: list[Message] = list(request.messages)
        rounds = 0
        while True:
            reply = self.reply(Prompt(request, tuple(transcript)))
            events, messages = await self._play(request, reply if not isinstance(reply, str) else Say(reply))
            transcript.extend(messages)
            rounds += 1
            is_over = isinstance(events[-1], DoneEvent | ErrorEvent)
            if not is_over and request.max_rounds and rounds >= request.max_rounds:
                events.append(ErrorEvent("round_limit", f"more than {request.max_rounds} rounds"))
                is_over = True
            await response.write(b"".join(encode_run_event(event) for event in events))
            if is_over:
                return response

    async def _play(self, request: RunRequest, reply: Say | Call | Fail) -> tuple[list[RunEvent], list[Message]]:
        usage = Usage(input_tokens=10, output_tokens=10, total_tokens=20, model_id="scripted")
        if isinstance(reply, Fail):
            return [ErrorEvent(reply.type, reply.message)], []  # type: ignore[arg-type]
        if isinstance(reply, Say):
            parts: tuple[AssistantPart, ...] = (TextPart(reply.text),) if reply.text else ()
            if reply.reasoning:
                parts = (ReasoningPart(reply.reasoning), *parts)
            if not reply.text.strip():
                return [ErrorEvent("empty_response", "the model answered nothing")], []
            message = AssistantMessage(parts=parts, meta=usage, finish_reason=reply.finish_reason)
            if reply.finish_reason == "length":
                return [AssistantMessageEvent(message), ErrorEvent("output_budget_exhausted", "cut off")], [message]
            return [AssistantMessageEvent(message), DoneEvent()], [message]
        return await self._call(request, reply, usage)

    async def _call(self, request: RunRequest, reply: Call, usage: Usage) -> tuple[list[RunEvent], list[Message]]:
        run = self.registry.find(request.run_id)
        number = len(self.prompts)
        calls = [
            ToolCallPart(f"call-{number}-{place}", name, msgspec.Raw(json.dumps(args).encode()))
            for place, (name, args) in enumerate(reply.calls)
        ]
        texts: tuple[AssistantPart, ...] = (TextPart(reply.text),) if reply.text else ()
        message = AssistantMessage(parts=(*texts, *calls), meta=usage, finish_reason="tool_calls")
        events: list[RunEvent] = [AssistantMessageEvent(message)]
        events.extend(ToolCallEvent(call.id, call.tool, call.args) for call in calls)
        messages: list[Message] = [message]
        for call in calls:
            if run is None:
                return [*events, ErrorEvent("tool_transport", "the run is not live")], messages
            try:
                outcome = await run.tools.execute(call.id, call.tool, call.args)
            except ToolTransportError as problem:
                return [*events, ErrorEvent("tool_transport", str(problem))], messages
            events.append(ToolResultEvent(call.id, call.tool, outcome.parts, outcome.is_error))
            messages.append(ToolResultMessage((ToolResultPart(call.id, call.tool, outcome.parts, outcome.is_error),)))
        return events, messages

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[RunCollector]:
        """Serve on a free port and yield a collector that asks here."""
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/run", self.handle_run)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            config = HandConfig(base_url=self.url, self_base_url=self.url, token="token", max_retries=1)
            async with open_hand_client(self.url, "token") as client:
                yield RunCollector(client, self.registry, config, RunTrace(enabled=False))
        finally:
            await runner.cleanup()


def chat_model(*capabilities: str, model_id: str = "scripted", demo: bool = False, context_length: int = 32_000) -> ChatModel:
    """Return a catalog entry with the given capabilities."""
    config = ChatModelConfig(
        model_id=model_id,
        context_length=context_length,
        max_output_tokens=min(4000, context_length // 4),
        capabilities=list(capabilities),
        compaction_trigger_fraction=0.8,
        compaction_keep_rounds=2,
        demo=demo,
    )
    provider = ProviderConfig(api_key="none", base_url="http://127.0.0.1:1/v1", llm=[config])
    return build_catalog({"local": provider}).chat_models[0]
