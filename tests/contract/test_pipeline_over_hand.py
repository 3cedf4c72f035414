"""The memory pipeline over the real hand: a gateway that streams, tool calls that come back over HTTP, records in PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from litestar import Litestar
from litestar.di import Provide

from brain.api.errors import exception_handlers
from brain.api.guards import RequestGuard
from brain.api.hand_callback import hand_callback_router
from brain.catalog import build_catalog
from brain.config.models import ChatModelConfig, HandConfig, LimitsConfig, ProviderConfig
from brain.memory.extraction import Extractor
from brain.memory.investigator import Investigator
from brain.memory.pipeline import MemoryPipeline, Origin
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.tools import EltmTools
from brain.memory.writer import Writer
from brain.runs.client import HandClient, open_hand_client
from brain.runs.oneshot import RunCollector
from brain.runs.registry import RunRegistry
from brain.runs.trace import RunTrace
from shared_protocol.messages import text_of
from tests.fakes.embedder import open_fake_embedder
from tests.fakes.scripted_gateway import Answer, Completion, ScriptedGateway
from tests.integration.memory.pipelines import CHAT, FACTS, TODAY

TOKEN = "contract-token"
ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def real_hand() -> AsyncGenerator[str]:
    port = free_port()
    environment = {**os.environ, "HAND_TOKEN": TOKEN, "HAND_PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hand",
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        async with open_hand_client(url, TOKEN) as client:
            await until_healthy(client)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def until_healthy(client: HandClient) -> None:
    async with asyncio.timeout(30):
        while not await client.is_healthy():
            await asyncio.sleep(0.05)


def always(value):
    return lambda: value


@asynccontextmanager
async def callbacks(registry: RunRegistry) -> AsyncGenerator[str]:
    app = Litestar(
        [hand_callback_router(TOKEN)],
        dependencies={"registry": Provide(always(registry), sync_to_thread=False)},
        guards=[RequestGuard(LimitsConfig(), None)],
        exception_handlers=exception_handlers(),
        openapi_config=None,
        logging_config=None,
    )
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(10):
            while not server.started:
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def everything(pool, script) -> AsyncGenerator[tuple[EltmStore, EltmSearch, RunCollector, ScriptedGateway]]:
    registry = RunRegistry()
    async with (
        ScriptedGateway(script).serve() as gateway,
        real_hand() as hand_url,
        callbacks(registry) as brain_url,
        open_hand_client(hand_url, TOKEN) as client,
        open_fake_embedder() as (embedder, _),
    ):
        config = HandConfig(base_url=hand_url, self_base_url=brain_url, token=TOKEN, max_retries=1)
        store = EltmStore(pool, embedder)
        await store.spaces.prepare()
        yield store, EltmSearch(pool, store.spaces), RunCollector(client, registry, config, RunTrace(enabled=False)), gateway


def model_at(gateway: ScriptedGateway, *capabilities: str):
    config = ChatModelConfig(
        model_id="scripted",
        context_length=32_000,
        max_output_tokens=1000,
        capabilities=list(capabilities),
        compaction_trigger_fraction=0.8,
        compaction_keep_rounds=2,
    )
    return build_catalog({"gw": ProviderConfig(api_key="key", base_url=gateway.url, llm=[config])}).chat_models[0]


def write(completion: Completion) -> Answer:
    if completion.system.startswith("You prepare the long-term memory"):
        return FACTS
    done = completion.tool_results
    if not done:
        return [("search_entities", {"query": "user"}), ("create_entity", {"name": "user", "category": "person"})]
    if len(done) == 2:
        entity_id = int(done[1].split("Entity ")[1].split(" ")[0])
        note = "The user moved to Lisbon on 2026-03-01."
        return [("add_entity_note", {"entity_id": entity_id, "event_date": "2026-03-01", "note": note, "fact": 1})]
    return "Done."


@pytest.mark.slow
async def test_writer_records_through_callbacks_of_the_real_hand(pool):
    async with everything(pool, write) as (store, search, collector, gateway):
        model = model_at(gateway, "tool_calls")
        writer = Writer(store, search, collector, model, max_rounds=10)
        pipeline = MemoryPipeline(pool, Extractor(collector, model), writer, search, today=lambda: TODAY)
        await pipeline.remember(CHAT, Origin("chat", None, "1755500000000-42", "Moves", 0))
        async with pool.connection() as conn:
            rows = await (
                await conn.execute(
                    "SELECT n.note, s.fact, s.message_index FROM eltm_notes AS n JOIN eltm_note_sources AS s ON s.note_id = n.id"
                )
            ).fetchall()
        assert rows == [("The user moved to Lisbon on 2026-03-01.", 1, 0)]
        extraction, first, *_ = gateway.requests
        assert extraction.tool_names == []
        assert len(first.tool_names) == 14
        assert [message["role"] for message in extraction.body["messages"]] == ["system", "user", "assistant", "user"]


@pytest.mark.slow
async def test_strict_schema_reaches_the_gateway(pool):
    async with everything(pool, lambda _: '{"facts": []}') as (_, _, collector, gateway):
        extraction = await Extractor(collector, model_at(gateway, "structured_output")).extract(CHAT)
        assert (extraction.facts, extraction.rung) == ((), "schema")
        sent = gateway.requests[0].body["response_format"]
        assert (sent["type"], sent["json_schema"]["strict"], sent["json_schema"]["name"]) == ("json_schema", True, "facts")


@pytest.mark.slow
async def test_sub_agent_searches_the_memory_and_reports(pool):
    def script(completion: Completion) -> Answer:
        return "Nothing is recorded about Ada." if completion.tool_results else [("eltm__search_notes", {"query": "Ada"})]

    async with everything(pool, script) as (store, search, collector, gateway):
        tools = EltmTools(store, search, read_only=True, namespace="eltm")
        agent = Investigator(collector, model_at(gateway, "tool_calls"), tools, max_rounds=3)
        outcome = await agent.execute("c", "gsg__investigate", b'{"query":"Who is Ada?"}')
        assert (text_of(outcome.parts), outcome.is_error) == ("Nothing is recorded about Ada.", False)
        assert gateway.requests[0].tool_names == [
            f"eltm__{name}"
            for name in (
                "search_entities",
                "ls_entities",
                "get_relationships",
                "get_entity_notes",
                "get_relationship_notes",
                "search_notes",
            )
        ]
