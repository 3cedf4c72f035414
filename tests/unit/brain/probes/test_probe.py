"""What the probe finds out about a model server, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from brain.catalog import Catalog, ChatModel, EmbeddingModel, build_catalog
from brain.config.models import ChatModelConfig, EmbeddingModelConfig, ProviderConfig
from brain.probes.probe import Measurement, probe_chat_model, probe_client, probe_embedding_model
from brain.probes.queries import find_measurements, store_measurement
from brain.probes.verdict import boot_warnings, chat_disagreements, embedding_disagreements
from tests.fakes.model_server import model_server
from tests.integration.api.conftest import open_api
from tests.integration.tools.test_assembly import make_config


def catalog(address: str, *capabilities: str, window: int = 4096) -> Catalog:
    chat = ChatModelConfig(
        model_id="m",
        context_length=window,
        max_output_tokens=100,
        capabilities=list(capabilities),
        compaction_trigger_fraction=0.5,
        compaction_keep_rounds=1,
    )
    provider = ProviderConfig(
        api_key="k", base_url=address, llm=[chat], embedding=[EmbeddingModelConfig(model_id="e", dimensions=3)]
    )
    return build_catalog({"p": provider})


def chat_model(address: str, *capabilities: str, window: int = 4096) -> ChatModel:
    return catalog(address, *capabilities, window=window).chat_models[0]


def embedding_model(address: str) -> EmbeddingModel:
    return catalog(address).embedding_models[0]


async def probe(model: ChatModel) -> Measurement:
    async with probe_client() as client:
        return await probe_chat_model(client, model)


async def test_a_capable_server_is_measured_as_such() -> None:
    async with model_server() as server:
        measured = await probe(chat_model(server.address))
    assert measured == Measurement(reachable=True, context_length=4096, tool_calls=True, structured_output=True, image=True)


async def test_a_plain_server_is_measured_as_such() -> None:
    async with model_server(tools=False, structured=False, colour=None, window={}) as server:
        measured = await probe(chat_model(server.address))
    assert measured == Measurement(reachable=True, tool_calls=False, structured_output=False, image=False)


async def test_a_picture_that_was_dropped_silently_proves_nothing() -> None:
    async with model_server(colour="I cannot see any picture.") as server:
        assert (await probe(chat_model(server.address))).image is None


@pytest.mark.parametrize(
    "window",
    [
        {"max_model_len": 777},
        {"context_length": 777},
        {"loaded_context_length": 777, "max_context_length": 9999},
        {"meta": {"n_ctx": 777}},
    ],
)
async def test_the_window_is_read_in_the_words_of_each_server(window: dict[str, Any]) -> None:
    async with model_server(window=window) as server:
        assert (await probe(chat_model(server.address))).context_length == 777


async def test_a_refusal_is_a_finding_with_the_servers_words() -> None:
    async with model_server(status=401) as server:
        measured = await probe(chat_model(server.address))
    assert not measured.reachable
    assert measured.error == "HTTP 401: no such key"


async def test_a_dead_address_is_a_finding() -> None:
    async with model_server() as server:
        address = server.address
    assert not (await probe(chat_model(address))).reachable


async def test_vectors_are_counted() -> None:
    async with model_server(dimensions=5) as server, probe_client() as client:
        model = embedding_model(server.address)
        measured = await probe_embedding_model(client, model)
    assert measured == Measurement(reachable=True, dimensions=5)
    assert embedding_disagreements(model, measured) == ["dimensions is 3, the vectors have 5: correct the configuration"]


def test_disagreements_say_what_to_change() -> None:
    model = chat_model("http://x/v1", "tool_calls", "image", window=8000)
    measured = Measurement(reachable=True, context_length=4096, tool_calls=False, structured_output=True)
    assert chat_disagreements(model, measured) == [
        "contextLength is 8000, the server was started with 4096: lower it or start it with more",
        "tool calls do not work: remove 'tool_calls' from capabilities, or switch them on in the server",
        "JSON by schema work: add 'structured_output' to capabilities",
    ]


def test_agreement_is_silent() -> None:
    model = chat_model("http://x/v1", "tool_calls")
    assert (
        chat_disagreements(model, Measurement(reachable=True, context_length=9000, tool_calls=True, structured_output=False))
        == []
    )


def test_the_start_warns_of_weak_roles_and_of_disagreements() -> None:
    config = make_config()
    models = build_catalog(config.providers)
    weak = [
        "memory.eltm.writerModel: p/m has no tool_calls: memories are written from a plan instead of by tools",
        "agent.investigator.model: p/m has no tool_calls: the tool gsg__investigate is not offered",
    ]
    assert boot_warnings(config, models, {}) == weak
    assert boot_warnings(config, models, {"p/m": Measurement(reachable=False, error="down then")}) == weak
    assert boot_warnings(config, models, {"p/m": Measurement(reachable=True, context_length=500, tool_calls=True)}) == [
        *weak,
        "p/m: contextLength is 1000, the server was started with 500: lower it or start it with more",
        "p/m: tool calls work: add 'tool_calls' to capabilities",
    ]


async def test_the_start_says_its_warnings_in_the_log(database_url: str) -> None:
    async with await AsyncConnection.connect(database_url, autocommit=True) as conn:
        await store_measurement(conn, "gw/e", Measurement(reachable=True, dimensions=3))
    with structlog.testing.capture_logs() as logs:
        async with open_api(database_url):
            pass
    told = [entry["detail"] for entry in logs if entry["log_level"] == "warning" and "detail" in entry]
    assert [text.partition(":")[0] for text in told] == ["memory.eltm.writerModel", "agent.investigator.model", "gw/e"]


async def test_the_newest_measurement_of_a_model_is_kept(pool: AsyncConnectionPool[AsyncConnection]) -> None:
    async with pool.connection() as conn:
        await store_measurement(conn, "p/m", Measurement(reachable=False, error="down"))
        await store_measurement(conn, "p/m", Measurement(reachable=True, context_length=5))
        await store_measurement(conn, "p/e", Measurement(reachable=True, dimensions=3))
        assert await find_measurements(conn) == {
            "p/m": Measurement(reachable=True, context_length=5),
            "p/e": Measurement(reachable=True, dimensions=3),
        }
