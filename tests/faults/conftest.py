"""The faults suite uses the brain and the scripted hand of the turn tests."""

from tests.integration.turns.conftest import brain, hand, prefix_contract

__all__ = ["brain", "hand", "prefix_contract"]
