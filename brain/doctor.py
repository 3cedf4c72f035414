"""``daapu doctor``: checks everything that a start needs and says what to do about what it finds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import httpx2
import msgspec
import psycopg

from brain.catalog import Catalog, build_catalog
from brain.db.migrate import MigrationError, pending_migrations
from brain.local.plan import LOOPBACK
from brain.probes import queries
from brain.probes.probe import Measurement, probe_chat_model, probe_client, probe_embedding_model
from brain.probes.verdict import chat_disagreements, embedding_disagreements, weak_roles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from brain.config.models import Config

State = Literal["ok", "note", "fail"]
_NEEDED_SERVER = 180000  # uuidv7() came with PostgreSQL 18


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    state: State
    what: str
    detail: str


async def examine(config: Config, database_url: str, *, is_running: bool, local_provider: str | None) -> AsyncIterator[Finding]:
    """Yield findings as they are made: database, pgvector, schema, hand, every model. Stores what was measured.

    ``is_running`` tells whether ``daapu up`` runs here; what it would start is not missed otherwise. ``local_provider`` is the
    id of the bundled models' provider, if they are used.
    """
    count = len(config.providers)
    yield Finding("ok", "configuration", "1 provider" if count == 1 else f"{count} providers")
    database_works = True
    for finding in await asyncio.to_thread(_examine_database, database_url):
        database_works = database_works and finding.state != "fail"
        yield finding
    yield await _examine_hand(config, is_running=is_running)
    skipped = None if is_running else local_provider
    if skipped is not None:
        yield Finding("note", "bundled models", "not running; `daapu up` starts them")
    others = {name: provider for name, provider in config.providers.items() if name != skipped}
    catalog = build_catalog(others) if others else Catalog([], [])
    measurements: dict[str, Measurement] = {}
    async with probe_client() as client:
        async for finding in _examine_models(client, catalog, measurements):
            yield finding
    for key, text in weak_roles(config, build_catalog(config.providers)).items():
        yield Finding("note", key, text)
    if database_works:
        await _store(database_url, measurements)


def _examine_database(url: str) -> list[Finding]:
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as conn:
            version = conn.info.server_version
            vector = conn.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
            available = conn.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'").fetchone()
        pending = pending_migrations(url)
    except psycopg.OperationalError as error:
        reason = str(error).strip().partition("\n")[0]
        return [Finding("fail", "database", f"does not answer: {reason}; check database.url, user and password")]
    except MigrationError as error:
        return [Finding("fail", "database", str(error))]
    name = f"PostgreSQL {version // 10000}.{version % 10000}"
    findings = [
        Finding("ok", "database", name)
        if version >= _NEEDED_SERVER
        else Finding("fail", "database", f"{name} is too old: daapu needs PostgreSQL 18"),
    ]
    if vector is not None:
        findings.append(Finding("ok", "pgvector", str(vector[0])))
    elif available is not None:
        findings.append(Finding("note", "pgvector", f"{available[0]} is installed; `daapu migrate` will switch it on"))
    else:
        findings.append(Finding("fail", "pgvector", "is not installed on the database server: install the extension vector"))
    if pending:
        findings.append(
            Finding("note", "schema", f"{len(pending)} migrations to apply; `daapu migrate` or the next start does it")
        )
    else:
        findings.append(Finding("ok", "schema", "up to date"))
    return findings


async def _examine_hand(config: Config, *, is_running: bool) -> Finding:
    url = f"{config.hand.base_url}/v1/health"
    try:
        async with httpx2.AsyncClient(timeout=5.0, trust_env=False) as client:
            answer = await client.get(url, headers={"x-daapu-token": config.hand.token})
    except httpx2.HTTPError as error:
        if not is_running and urlsplit(config.hand.base_url).hostname in LOOPBACK:
            return Finding("note", "hand", "not running; `daapu up` starts it")
        reason = str(error) or type(error).__name__
        return Finding(
            "fail", "hand", f"{config.hand.base_url} does not answer ({reason}); `daapu up` starts it, or run python -m hand"
        )
    if answer.status_code != 200:
        return Finding("fail", "hand", f"answers {answer.status_code}; is hand.token the HAND_TOKEN of that process?")
    return Finding("ok", "hand", config.hand.base_url)


async def _examine_models(
    client: httpx2.AsyncClient, catalog: Catalog, measurements: dict[str, Measurement]
) -> AsyncIterator[Finding]:
    for model in catalog.chat_models:
        measured = measurements[model.id] = await probe_chat_model(client, model)
        for finding in _model_findings(model.id, measured, chat_disagreements(model, measured)):
            yield finding
    for model in catalog.embedding_models:
        measured = measurements[model.id] = await probe_embedding_model(client, model)
        for finding in _model_findings(model.id, measured, embedding_disagreements(model, measured)):
            yield finding


def _model_findings(model_id: str, measured: Measurement, disagreements: list[str]) -> list[Finding]:
    if not measured.reachable:
        return [Finding("fail", model_id, text) for text in disagreements]
    return [Finding("ok", model_id, _describe(measured)), *(Finding("note", model_id, text) for text in disagreements)]


def _describe(measured: Measurement) -> str:
    words: list[str] = []
    if measured.context_length is not None:
        words.append(f"window {measured.context_length}")
    if measured.dimensions is not None:
        words.append(f"{measured.dimensions} dimensions")
    for value, name in ((measured.tool_calls, "tools"), (measured.structured_output, "JSON"), (measured.image, "images")):
        if value is not None:
            words.append(f"{name} {'yes' if value else 'no'}")
    return ", ".join(words) or "answers"


async def _store(url: str, measurements: dict[str, Measurement]) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=15) as conn:
        cursor = await conn.execute("SELECT to_regclass('model_measurements') IS NOT NULL")
        row = await cursor.fetchone()
        if row is None or not row[0]:
            return  # the schema has not been migrated yet, which the report says
        for model_id, measured in measurements.items():
            await queries.store_measurement(conn, model_id, measured)
