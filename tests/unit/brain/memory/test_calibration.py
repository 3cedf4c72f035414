"""Floors per model."""

from __future__ import annotations

from brain.memory.calibration import calibrate_floors, floors_of
from tests.fakes.embedder import fake_vector


class _Fake:
    model_id = "x"
    dimensions = 64

    async def embed_texts(self, texts: list[str], kind: str = "passage") -> list[list[float]]:
        return [fake_vector(text, 64) for text in texts]


def test_the_floor_lies_above_what_unrelated_texts_score() -> None:
    floors = floors_of([0.70, 0.72, 0.74], [0.85, 0.9])
    assert 0.74 < floors.floor < 0.78
    assert floors.near_floor == 0.95


def test_a_model_that_keeps_texts_apart_still_needs_a_close_repetition() -> None:
    assert floors_of([0.0, 0.1], [0.2]).near_floor == 0.9


async def test_measuring_a_model_gives_shares() -> None:
    floors = await calibrate_floors(_Fake())
    assert 0 <= floors.floor < floors.near_floor <= 1
