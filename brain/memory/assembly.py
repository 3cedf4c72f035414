"""Puts the parts of the memory together: store, search, recall, sub-agent, pipeline and the workers of the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from brain.errors import InvalidInputError
from brain.jobs.queue import JobQueue, queue_policy
from brain.jobs.service import JobService
from brain.jobs.worker import JobWorker
from brain.memory.digest import DigestService
from brain.memory.embeddings import Embedder, HandEmbedder
from brain.memory.erase import ChatErasure, Eraser
from brain.memory.extraction import Extractor
from brain.memory.forget import Corrections
from brain.memory.generations import VectorSpaces
from brain.memory.health import HealthFigures
from brain.memory.investigator import Investigator
from brain.memory.maintenance import Maintenance
from brain.memory.pipeline import MemoryPipeline
from brain.memory.provenance import Provenance
from brain.memory.recall import Recaller
from brain.memory.reembed import Reembedding
from brain.memory.replay import ReplayService
from brain.memory.rewrite import Rewriter
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.tools import EltmTools
from brain.memory.transfer import Transfer
from brain.memory.writer import Writer

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from brain.catalog import Catalog, EmbeddingModel
    from brain.config.models import Config
    from brain.runs.client import HandClient
    from brain.runs.oneshot import RunCollector
    from brain.tools.assembly import ToolSets

ELTM_NAMESPACE = "eltm"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryParts:
    """The finished parts of the memory."""

    maintenance: Maintenance
    spaces: VectorSpaces
    store: EltmStore
    search: EltmSearch
    recaller: Recaller
    investigator: Investigator | None
    """``None`` when its model cannot call tools: the tool is then not offered."""
    pipeline: MemoryPipeline
    queue: JobQueue
    worker: JobWorker
    corrections: Corrections
    eraser: Eraser
    provenance: Provenance
    transfer: Transfer
    figures: HealthFigures
    reembedding: Reembedding
    jobs: JobService
    digests: DigestService
    replays: ReplayService


def build_memory(
    config: Config,
    catalog: Catalog,
    pool: AsyncConnectionPool[AsyncConnection],
    hand: HandClient,
    collector: RunCollector,
    tool_sets: ToolSets,
    chats: ChatErasure | None = None,
) -> MemoryParts:
    """Return the memory of a configuration; nothing is opened or started here. ``chats`` lets an erasure reach chats.

    Raises:
        InvalidInputError: a configured model is not in the catalog.
        ToolSetupError: the sub-agent's whitelist names what is not served.
    """
    eltm = config.memory.eltm
    current = get_embedding_model(catalog, eltm.embedding_model)
    others: dict[str, Embedder] = {
        model.id: HandEmbedder(hand, model) for model in catalog.embedding_models if model.id != current.id
    }
    spaces = VectorSpaces(pool, HandEmbedder(hand, current), others)
    match_floor = _fixed(eltm.entity_match_threshold)
    store = EltmStore(pool, spaces, match_floor)
    search = EltmSearch(pool, spaces, match_floor, _fixed(eltm.note_search_threshold))
    maintenance = Maintenance(pool)
    extractor = Extractor(collector, catalog.get_chat_model(eltm.extraction_model))
    writer = Writer(store, search, collector, catalog.get_chat_model(eltm.writer_model), max_rounds=eltm.max_writer_rounds)
    pipeline = MemoryPipeline(pool, extractor, writer, search)
    queue = JobQueue(pool, queue_policy(eltm))
    worker = JobWorker(queue, pipeline.work, is_paused=maintenance.is_enabled, workers=eltm.queue_workers)
    return MemoryParts(
        maintenance=maintenance,
        spaces=spaces,
        store=store,
        search=search,
        recaller=Recaller(
            Rewriter(collector, catalog.get_chat_model(eltm.rewrite_model), eltm.rewrite_rounds),
            search,
            entity_limit=eltm.related_entities_limit,
            note_limit=eltm.related_notes_limit,
        ),
        investigator=_build_investigator(
            config,
            catalog,
            collector,
            tool_sets,
            EltmTools(
                store,
                search,
                read_only=True,
                namespace=ELTM_NAMESPACE,
            ),
        ),
        pipeline=pipeline,
        queue=queue,
        corrections=Corrections(pool, spaces),
        eraser=Eraser(pool, spaces, chats),
        provenance=Provenance(pool),
        transfer=Transfer(store),
        figures=HealthFigures(pool, spaces),
        reembedding=Reembedding(pool, spaces, maintenance),
        worker=worker,
        jobs=JobService(pool, worker.wake),
        digests=DigestService(pipeline, limits=config.limits),
        replays=ReplayService(pool, collector, catalog.get_chat_model(config.memory.compact_model), extractor.model),
    )


def get_embedding_model(catalog: Catalog, model_id: str) -> EmbeddingModel:
    """Return a configured embedding model.

    Raises:
        InvalidInputError: the catalog has none of that id.
    """
    model = catalog.find_embedding_model(model_id)
    if model is None:
        known = ", ".join(candidate.id for candidate in catalog.embedding_models) or "none"
        raise InvalidInputError(f"unknown embedding model {model_id!r}; configured are: {known}")
    return model


def _build_investigator(
    config: Config,
    catalog: Catalog,
    collector: RunCollector,
    tool_sets: ToolSets,
    eltm_tools: EltmTools,
) -> Investigator | None:
    settings = config.agent.investigator
    # Built in any case: a mistake in the whitelist has to end the start, whatever the model can do.
    tools = tool_sets.for_investigator(eltm_tools)
    model = catalog.get_chat_model(settings.model)
    if not model.can("tool_calls"):
        return None
    return Investigator(collector, model, tools, max_rounds=settings.max_rounds)


def _fixed(threshold: float | Literal["auto"]) -> float | None:
    return None if threshold == "auto" else threshold
