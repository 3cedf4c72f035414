"""Routes that start work on the memory: digest, replay, and the queue behind both (brain-api §8.1-8.2, additions §4)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec
from litestar import Controller, Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from brain.api.errors import error_answers
from brain.jobs.queries import JobState, JobSummaryRow
from brain.jobs.service import JobService
from brain.memory.digest import DigestService
from brain.memory.replay import DEFAULT_COMPACTION_ROUNDS, DEFAULT_CONTEXT_ROUNDS, ReplayService, ReplayStatus
from shared_protocol.instants import instant_from_datetime
from shared_protocol.messages import ContentPart, Message

MAX_PAGE: Final = 500


class DigestBody(msgspec.Struct, frozen=True):
    """What is to be remembered, and the day it is about (the server's today without one)."""

    parts: tuple[ContentPart, ...]
    date: str | None = None


class ReplayBody(msgspec.Struct, frozen=True):
    """An exported chat; the title only names its sources."""

    title: str
    messages: tuple[Message, ...]


class JobInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A queued extraction without its content; instants are UTC. ``nextAttemptAt`` is null while it runs or is parked."""

    id: int
    state: JobState
    chat_id: str | None
    chat_title: str
    messages: int
    attempts: int
    last_error: str | None
    next_attempt_at: str | None
    created_at: str


class DigestController(Controller):
    """Submissions."""

    path = "/api/eltm/digest"
    tags = ("memory",)

    @post(
        "/",
        operation_id="digest",
        summary="Remember a text or pictures",
        opt={"maintenance": True, "body_limit": "message_body_bytes"},
        responses=error_answers(400, 413, 415, 502, 503),
    )
    async def digest(self, data: JSONBody[DigestBody], digests: NamedDependency[DigestService]) -> Response[bytes]:
        """Return when everything is recorded, which takes minutes; also when there was nothing to record."""
        await digests.digest(data.parts, data.date)
        return _nothing(201)


class ReplayController(Controller):
    """Replays."""

    path = "/api/eltm/replay"
    tags = ("memory",)

    @get("/", operation_id="getReplay", summary="How the latest replay stands")
    async def status(self, replays: NamedDependency[ReplayService]) -> ReplayStatus:
        """Never blocked."""
        return await replays.status()

    @post(
        "/",
        operation_id="startReplay",
        summary="Put an exported chat through the memory",
        status_code=202,
        opt={"maintenance": True, "body_limit": "bulk_import_bytes"},
        responses=error_answers(400, 409, 413, 415, 503),
    )
    async def start(
        self,
        data: JSONBody[ReplayBody],
        replays: NamedDependency[ReplayService],
        compaction_rounds: Annotated[int, QueryParameter(name="compactionRounds")] = DEFAULT_COMPACTION_ROUNDS,
        context_rounds: Annotated[int, QueryParameter(name="contextRounds")] = DEFAULT_CONTEXT_ROUNDS,
    ) -> ReplayStatus:
        """Check the chat and start; the walk goes on by itself, also over a restart."""
        return await replays.start(
            data.messages, title=data.title, compaction_rounds=compaction_rounds, context_rounds=context_rounds
        )


class JobController(Controller):
    """The queue of extractions."""

    path = "/api/eltm/jobs"
    tags = ("memory",)

    @get("/", operation_id="listJobs", summary="List queued extractions, oldest first", responses=error_answers(400))
    async def list_jobs(
        self,
        jobs: NamedDependency[JobService],
        # The framework keeps the name "state" for itself.
        job_state: Annotated[JobState | None, QueryParameter(name="state")] = None,
        limit: FromQuery[int] = MAX_PAGE,
        offset: FromQuery[int] = 0,
    ) -> list[JobInfo]:
        """Return jobs, optionally of one state."""
        return [_job_info(row) for row in await jobs.list_page(job_state, limit=limit, offset=offset)]

    @post(
        "/{job_id:str}/retry",
        operation_id="retryJob",
        summary="Try a job again at once",
        status_code=202,
        opt={"maintenance": True},
        responses=error_answers(400, 404, 503),
    )
    async def retry(self, job_id: FromPath[int], jobs: NamedDependency[JobService]) -> Response[bytes]:
        """Forget the failures of a job; a parked one is taken up again."""
        await jobs.retry(job_id)
        return _nothing(202)

    @delete("/{job_id:str}", operation_id="dropJob", summary="Drop a job and its content", responses=error_answers(400, 404))
    async def drop(self, job_id: FromPath[int], jobs: NamedDependency[JobService]) -> None:
        """Delete a job: what it holds is never remembered."""
        await jobs.drop(job_id)


def _job_info(row: JobSummaryRow) -> JobInfo:
    waits = row.state in {"waiting", "retrying"}
    return JobInfo(
        id=row.id,
        state=row.state,
        chat_id=row.chat_id,
        chat_title=row.chat_title,
        messages=row.message_count,
        attempts=row.attempts,
        last_error=row.last_error,
        next_attempt_at=_instant(row.visible_after) if waits else None,
        created_at=_instant(row.created_at),
    )


def _nothing(status: int) -> Response[bytes]:
    return Response(b"", status_code=status, media_type="text/plain")


def _instant(moment: datetime) -> str:
    return instant_from_datetime(moment)
