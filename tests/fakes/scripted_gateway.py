"""An OpenAI-compatible gateway whose model follows a script: streamed chat completions with text, tool calls and usage."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Completion:
    """One request as the gateway got it."""

    body: dict

    @property
    def system(self) -> str:
        first = self.body["messages"][0]
        return first["content"] if first["role"] in {"system", "developer"} else ""

    @property
    def tool_results(self) -> list[str]:
        return [str(message["content"]) for message in self.body["messages"] if message["role"] == "tool"]

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", [])]


Answer = str | list[tuple[str, dict]]
"""A text, or tool calls."""


@dataclass
class ScriptedGateway:
    """Answers by ``script`` and remembers what it was asked."""

    script: Callable[[Completion], Answer]
    requests: list[Completion] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        completion = Completion(await request.json())
        self.requests.append(completion)
        answer = self.script(completion)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for chunk in _chunks(answer, len(self.requests)):
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[ScriptedGateway]:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            yield self
        finally:
            await runner.cleanup()


def _chunks(answer: Answer, number: int) -> list[dict]:
    def chunk(delta: dict, finish: str | None = None) -> dict:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]}

    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    end = {**chunk({}, None), "choices": [], "usage": usage}
    if isinstance(answer, str):
        half = len(answer) // 2
        return [chunk({"role": "assistant", "content": answer[:half]}), chunk({"content": answer[half:]}), chunk({}, "stop"), end]
    calls = [
        {
            "index": place,
            "id": f"call-{number}-{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(args)},
        }
        for place, (name, args) in enumerate(answer)
    ]
    return [chunk({"role": "assistant", "tool_calls": calls}), chunk({}, "tool_calls"), end]
