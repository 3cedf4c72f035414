"""One extraction worker as a process of its own; with a step named, it says when it is there and waits to be killed.

Usage: ``python -m tests.faults.worker_program DATABASE_URL STEP LEASE_SECONDS``; ``none`` works the queue until it is empty.
"""

from __future__ import annotations

import asyncio
import sys

from brain.db.pools import open_pool
from brain.jobs.queries import JobRow
from brain.jobs.queue import JobQueue, QueuePolicy
from brain.jobs.worker import JobWorker
from brain.memory.store import EltmStore
from tests.fakes.embedder import open_fake_embedder
from tests.fakes.scripted_model import Prompt, Reply
from tests.integration.memory.pipelines import FACTS, open_memory
from tests.integration.memory.test_pipeline import ToolWriter

STEPS = ("claimed", "extracted", "half written", "written")


async def main(url: str, step: str, lease_seconds: float) -> None:
    async with open_pool(url) as pool, open_fake_embedder() as (embedder, _):
        store = EltmStore(pool, embedder)
        await store.spaces.prepare()
        async with open_memory(store, "tool_calls") as memory:
            at = {"step": ""}
            write = ToolWriter()

            def script(prompt: Prompt) -> Reply:
                if prompt.stage == "extraction":
                    at["step"] = "claimed"
                    return FACTS
                at["step"] = "half written" if len(prompt.results) >= 5 else "extracted"
                return write(prompt)

            memory.model.script = script
            pause_before(memory.model, at, step)

            async def work(job: JobRow) -> None:
                await memory.pipeline.work(job)
                if step == "written":
                    await wait_to_be_killed(step)

            async def never() -> bool:
                return False

            worker = JobWorker(JobQueue(pool, QueuePolicy(lease_seconds, 300)), work, is_paused=never, workers=1)
            while await worker.work_one():
                pass
    print("DONE", flush=True)


def pause_before(model, at, step) -> None:
    """Make the scripted hand stop at the step, after it has decided on its reply and before it is carried out."""
    play = model._play

    async def stopping(request, reply):
        if at["step"] == step:
            await wait_to_be_killed(step)
        return await play(request, reply)

    model._play = stopping


async def wait_to_be_killed(step: str) -> None:
    print(f"AT {step}", flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
