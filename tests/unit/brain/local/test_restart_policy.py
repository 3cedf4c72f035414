"""How often a dying part is started again."""

from __future__ import annotations

from brain.local.children import RestartPolicy


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_three_restarts_with_growing_pauses_then_no_more() -> None:
    policy = RestartPolicy(Clock())
    assert [policy.pause_after_death() for _ in range(4)] == [1.0, 5.0, 15.0, None]


def test_deaths_of_more_than_five_minutes_ago_do_not_count() -> None:
    clock = Clock()
    policy = RestartPolicy(clock)
    for _ in range(3):
        policy.pause_after_death()
    clock.now = 301.0
    assert policy.pause_after_death() == 1.0
