"""Similarity floors per embedding model: what unrelated texts score, and what the same statement in other words scores.

Absolute floors mean nothing across models (one model gives unrelated texts 0.1, another 0.75), so both are measured once for each
generation of vectors, with the fixed texts below, and stored beside it.
"""

from __future__ import annotations

import math
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brain.memory.embeddings import Embedder

UNRELATED: Final = (
    ("Which port does the staging database listen on?", "Grandmother baked plum cake for the village fair."),
    ("When is the dentist appointment?", "The glacier lost four metres of ice in a decade."),
    ("Who plays the cello in the orchestra?", "The parser rejects a trailing comma in strict mode."),
    ("How much does the new bicycle weigh?", "She signed the lease for the flat in Porto."),
    ("昨天的会议讨论了什么?", "这只猫喜欢睡在窗台上。"),
    ("東京への出張はいつですか。", "庭のトマトが赤くなりました。"),
    ("¿Dónde trabaja la hermana de Luis?", "El volcán lleva dos siglos dormido."),
    ("What does the function parse_header return?", "He is allergic to peanuts and shellfish."),
    ("Which medicine does the dog take?", "The committee postponed the vote on parking fees."),
    ("What was the score of the match?", "Her thesis describes moss on northern roofs."),
)
"""Questions and stored texts that have nothing to do with each other."""

SAME_SUBJECT: Final = (
    ("Ada moved to London in March.", "Ada started to learn the violin in March."),
    ("The service listens on port 8080.", "The service writes its logs to standard output."),
    ("She prefers tea without sugar.", "She prefers trains to flights for short trips."),
    ("The release was moved to Friday.", "The release notes are written by Tom."),
    ("他上周买了一辆自行车。", "他上周搬到了上海。"),
)
"""Different statements about one subject: what must never be taken for a repetition."""

FLOOR_DEVIATIONS: Final = 2.0
NEAR_FLOOR_LEAST: Final = 0.9
NEAR_MARGIN: Final = 0.5
"""A repetition has to be closer than other statements about its subject by half of what is left up to identity."""


class Floors(msgspec.Struct, frozen=True):
    """``floor``: below it a hit means nothing. ``near_floor``: from it on two notes say the same."""

    floor: float
    near_floor: float


async def calibrate_floors(embedder: Embedder) -> Floors:
    """Measure the floors of a model in two small calls.

    Raises:
        EmbeddingError: the model cannot be asked now.
    """
    questions = await embedder.embed_texts([question for question, _ in UNRELATED], "query")
    flat = [text for _, text in UNRELATED] + [text for pair in SAME_SUBJECT for text in pair]
    passages = await embedder.embed_texts(flat, "passage")
    # Every question against every text: the pairs are all unrelated, and a hundred give a steadier figure than ten.
    unrelated = [cosine(question, passage) for question in questions for passage in passages[: len(UNRELATED)]]
    related = [cosine(passages[at], passages[at + 1]) for at in range(len(UNRELATED), len(flat), 2)]
    return floors_of(unrelated, related)


def floors_of(unrelated: Sequence[float], related: Sequence[float]) -> Floors:
    """Return the floors for measured similarities, both within 0 and 1."""
    floor = fmean(unrelated) + FLOOR_DEVIATIONS * pstdev(unrelated)
    closest = max(related)
    near = max(NEAR_FLOOR_LEAST, closest + NEAR_MARGIN * (1 - closest))
    return Floors(min(max(floor, 0.0), 1.0), min(near, 1.0))


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine similarity; 0 when either vector is all zeros."""
    norm = math.sqrt(math.fsum(x * x for x in left) * math.fsum(y * y for y in right))
    return math.fsum(x * y for x, y in zip(left, right, strict=True)) / norm if norm else 0.0
