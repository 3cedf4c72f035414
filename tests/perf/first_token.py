"""Time to the first token with the bundled model: through brain and hand, and from the model server directly.

    python -m tests.perf.first_token

A recording proxy stands before the model server, so that the direct request is the very one that the hand makes, with another
question in it: what the server has cached is the same for both.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from brain.db.migrate import migrate
from brain.local.chat_engine import CHAT_MODEL
from brain.local.postgres import EmbeddedPostgres
from tests.perf.brain_load import config, free_port, program, wait_ready
from tests.perf.table import Row

PAIRS = 9
QUESTIONS = ("Name one river.", "Name one fruit.", "Name one metal.", "Name one bird.", "Name one city.")


@dataclass
class Recorder:
    """Passes chat requests on and keeps the last one."""

    upstream: str
    last: dict[str, Any] | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.path.endswith("/chat/completions"):
            self.last = json.loads(body)
        session = request.app["session"]
        async with session.request(
            request.method, f"{self.upstream}{request.path}", data=body, headers={"content-type": "application/json"}
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers={"content-type": answer.headers["content-type"]})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


@asynccontextmanager
async def recording(upstream: str, port: int) -> AsyncGenerator[Recorder]:
    recorder = Recorder(upstream)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", recorder.handle)
    async with aiohttp.ClientSession() as session:
        app["session"] = session
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield recorder
        finally:
            await runner.cleanup()


async def first_bytes(session: aiohttp.ClientSession, url: str, body: dict[str, Any], mark: bytes) -> float:
    """Return the seconds until the stream holds the mark; the rest of the answer is read too, so that nothing overlaps."""
    begun = time.perf_counter()
    found = 0.0
    seen = b""
    async with session.post(url, json=body) as answer:
        async for chunk in answer.content.iter_any():
            seen += chunk
            if not found and mark in seen:
                found = time.perf_counter() - begun
    if not found:
        raise SystemExit(f"no token from {url}: {seen[-500:]!r}")
    return found


def asked_anew(body: dict[str, Any], asked: str, question: str, number: int) -> dict[str, Any]:
    """Return a request with another time and question: the server must not have more of it cached than of the first one."""
    text = re.sub(r"<localtime>\d{4}", f"<localtime>{3000 + number}", json.dumps(body).replace(asked, question))
    return json.loads(text)


async def compare(brain: str, models: str, recorder: Recorder) -> Row:
    through: list[float] = []
    direct: list[float] = []
    async with aiohttp.ClientSession() as session:
        for number in range(PAIRS + 2):
            async with session.post(f"{brain}/api/chats") as answer:
                chat_id = (await answer.json())["id"]
            question = QUESTIONS[number % len(QUESTIONS)]
            message = {"text": f"{secrets.token_hex(3)}: {question}", "model": f"gw/{CHAT_MODEL}", "personaId": 0}
            ours = await first_bytes(session, f"{brain}/api/chats/{chat_id}/messages", message, b"event: text")
            assert recorder.last is not None
            body = asked_anew(recorder.last, message["text"], f"{secrets.token_hex(3)}: {question}", number)
            bare = await first_bytes(session, f"{models}/v1/chat/completions", body, b'"content":"')
            if number >= 2:
                through.append(ours * 1000)
                direct.append(bare * 1000)
    one, other = statistics.median(through), statistics.median(direct)
    return Row(
        "time to the first token of the bundled model, through brain and hand",
        f"the model server directly, same request: {other:.0f} ms",
        "none set",
        f"{one:.0f} ms: {one - other:+.0f} ms, {one / other:.2f}x",
        True,
    )


def measure() -> list[Row]:
    """Start database, models, hand and brain, measure, stop all."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="daapu-first-")))
        folder.chmod(0o755)
        database = EmbeddedPostgres(folder / "pg", settings={})
        database.start()
        stack.callback(database.stop)
        migrate(database.url())
        models, proxy, hand, brain = (free_port() for _ in range(4))
        token = secrets.token_hex(16)
        log = folder / "log"
        serve = [sys.executable, "-m", "brain", "serve-local", "--port", str(models)]
        stack.enter_context(program("0,1", *serve, port=models, log=log))
        _wait_models(models)
        environment = {"HAND_TOKEN": token, "HAND_PORT": str(hand)}
        stack.enter_context(program("0,1", sys.executable, "-m", "hand", port=hand, log=log, env=environment))
        settings = config(database.url(), f"http://127.0.0.1:{proxy}/v1", f"http://127.0.0.1:{hand}", brain, token)
        file = folder / "config.json"
        text = (
            json.dumps(settings).replace('"modelId": "fake"', f'"modelId": "{CHAT_MODEL}"').replace("gw/fake", f"gw/{CHAT_MODEL}")
        )
        file.write_text(text.replace('"contextLength": 128000', '"contextLength": 8192').replace("4096", "16"))

        async def run() -> Row:
            async with recording(f"http://127.0.0.1:{models}", proxy) as recorder:
                argv = [sys.executable, "-m", "brain", "serve", "--config", str(file)]
                with program("0,1", *argv, port=brain, log=log):
                    await asyncio.to_thread(wait_ready, brain)
                    return await compare(f"http://127.0.0.1:{brain}", f"http://127.0.0.1:{models}", recorder)

        return [asyncio.run(run())]


def _wait_models(port: int) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=60) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the model server does not answer")


if __name__ == "__main__":
    for row in measure():
        print(row)
