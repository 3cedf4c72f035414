"""Measures what the memory remembers: ``python -m tests.eval``, see docs/reference/evaluation.md."""
