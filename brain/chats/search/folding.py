"""Text prepared for comparison: case and compatibility forms folded, and pairs of characters for scripts without spaces."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

import regex

_CLUSTER: Final = regex.compile(r".[\p{M}\uFF9E\uFF9F]*", regex.DOTALL)
"""A character with its marks; the half-width voicing marks of katakana are no combining marks, but belong to their letter."""

_UNSPACED: Final = regex.compile(
    r"[\p{Script_Extensions=Han}\p{Script_Extensions=Hiragana}\p{Script_Extensions=Katakana}"
    r"\p{Script_Extensions=Hangul}\p{Script_Extensions=Thai}\p{Script_Extensions=Lao}"
    r"\p{Script_Extensions=Khmer}\p{Script_Extensions=Myanmar}&&\p{L}]+",
    regex.VERSION1,
)


@lru_cache(maxsize=65_536)
def _fold_cluster(cluster: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", cluster).casefold())


def fold(text: str) -> str:
    """Return the text with case and compatibility forms folded, so that equal meanings compare equal."""
    if text.isascii():
        return text.lower()
    return "".join(_fold_cluster(cluster) for cluster in _CLUSTER.findall(text))


def fold_with_positions(text: str) -> tuple[str, list[int]]:
    """Return the folded text, and for each of its characters (and its end) the position in ``text`` it came from."""
    pieces: list[str] = []
    positions: list[int] = []
    for match in _CLUSTER.finditer(text):
        folded = _fold_cluster(match.group())
        pieces.append(folded)
        positions.extend([match.start()] * len(folded))
    positions.append(len(text))
    return "".join(pieces), positions


def grams(folded: str) -> list[str]:
    """Return the single characters and pairs of all runs of scripts that are written without spaces, each once, sorted."""
    if folded.isascii():
        return []
    found: set[str] = set()
    for match in _UNSPACED.finditer(folded):
        run = match.group()
        found.update(run)
        found.update(run[start : start + 2] for start in range(len(run) - 1))
    return sorted(found)


def query_grams(term: str) -> list[str]:
    """Return the grams that every text with ``term`` in it has: pairs, or the character itself where a run has only one."""
    found: set[str] = set()
    for match in _UNSPACED.finditer(term):
        run = match.group()
        found.update(run[start : start + 2] for start in range(len(run) - 1))
        if len(run) == 1:
            found.add(run)
    return sorted(found)
