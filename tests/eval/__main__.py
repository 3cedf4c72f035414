"""``python -m tests.eval``: measures the tiers that need no network, prints the report and writes its page.

``--config FILE`` also measures the models of a configuration whose hand is running. ``--no-page`` only prints.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

import structlog

from brain.config.load import load_config
from tests.eval.corpus import load_corpus
from tests.eval.remembering import Remembered, remember_corpus
from tests.eval.report import render
from tests.eval.retrieval import Retrieval, Way, insert_gold, measure
from tests.eval.setups import (
    RecordedModel,
    bundled_pipeline,
    open_bundled_embedder,
    open_configured,
    open_database,
    open_store,
    recorded_pipeline,
)
from tests.fakes.embedder import open_fake_embedder

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "evaluation.md"


async def main(config: Path | None) -> str:
    """Return the report."""
    chats = load_corpus()
    tiers: dict[str, Remembered] = {}
    retrieval: dict[str, dict[tuple[Way, str], Retrieval]] = {}
    async with open_database() as pool, open_fake_embedder() as (embedder, _):
        store, search = await open_store(pool, embedder)
        model = RecordedModel()
        tiers["recorded"] = await remember_corpus(chats, store, search, recorded_pipeline(store, search, model), model.prepare)
    async with open_bundled_embedder() as bundled:
        async with open_database() as pool:
            store, search = await open_store(pool, bundled)
            tiers["bundled"] = await remember_corpus(chats, store, search, bundled_pipeline(store, search))
        async with open_database() as pool:
            store, search = await open_store(pool, bundled)
            retrieval["the bundled multilingual-e5-small"] = await measure(await insert_gold(chats, store), store, search)
    if config is not None:
        loaded = load_config(config, os.environ)
        async with open_database() as pool, open_configured(loaded, pool) as (store, search, pipeline):
            tiers["configured"] = await remember_corpus(chats, store, search, pipeline)
    counts = {
        "chats": len(chats),
        "facts": sum(len(chat.gold) for chat in chats),
        "traps": sum(len(chat.traps) for chat in chats),
    }
    return render(counts, tiers, retrieval)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.eval", description=__doc__)
    parser.add_argument("--config", type=Path, default=None)
    parser.add_argument("--no-page", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    arguments = parse()
    report = asyncio.run(main(arguments.config))
    print(report)
    if not arguments.no_page:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(report, "utf-8")
