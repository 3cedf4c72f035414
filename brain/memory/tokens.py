"""Words and n-grams of any script: what the lexical half of the search compares.

Alphabetic scripts give folded words, English ones also without their commonest endings; Chinese, Japanese, Korean and Thai, which
write no spaces or glue particles on, give pairs of neighbouring characters. Codes such as ``HTTP-404`` give their whole and their
parts.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

# Script extensions, not scripts: the long vowel mark of タワー belongs to no script and would split the word.
_DENSE: Final = (
    r"\p{Script_Extensions=Han}\p{Script_Extensions=Hiragana}\p{Script_Extensions=Katakana}"
    r"\p{Script_Extensions=Hangul}\p{Script_Extensions=Thai}\p{Script_Extensions=Lao}\p{Script_Extensions=Khmer}"
)
_PIECE: Final = regex.compile(
    rf"(?P<dense>[{_DENSE}--[\p{{P}}\p{{S}}]]+)|(?P<word>[\p{{L}}\p{{M}}\p{{N}}--[{_DENSE}]]+)", regex.V1
)
_COMPOUND: Final = regex.compile(r"[\p{L}\p{N}]+(?:[-_./:@+#'’][\p{L}\p{N}]+)+", regex.V1)

MAX_TERM_CHARS: Final = 64
"""Longer runs (keys, base64) are cut: the beginning tells them apart."""

_STOP_LIST: Final = """
a about above after again all also am an and any are as at be because been before being both but by can could did do does
doing done during each few for from further get gets getting go goes going got had has have having he her here hers him his
how i if in into is it its itself just kind let like me more most much my no nor not now of off on once only or other our out
over own same she should so some such than that the their them then there these they thing things this those through to too
under until up use used very was we were what when where which while who whom whose why will with would you your s t re ve ll
d m
"""
STOPWORDS: Final = frozenset(_STOP_LIST.split())
"""English words that carry no content; other languages rely on the frequency weighting alone."""


def words_of(text: str) -> list[str]:
    """Return the terms of a text in reading order, repetitions included."""
    folded = fold(text)
    terms: list[str] = [
        compound.group()[:MAX_TERM_CHARS] for compound in _COMPOUND.finditer(folded) if _is_code(compound.group())
    ]
    for piece in _PIECE.finditer(folded):
        dense = piece.group("dense")
        if dense is not None:
            terms.extend(_bigrams(dense))
        else:
            terms.append(stem(piece.group("word")[:MAX_TERM_CHARS]))
    return terms


def terms_of(text: str) -> tuple[list[str], int]:
    """Return the distinct terms worth indexing, sorted, and how many terms the text has in all."""
    words = words_of(text)
    kept = {word for word in words if word not in STOPWORDS}
    return sorted(kept or set(words)), len(words)


def query_terms(text: str) -> list[str]:
    """Return the distinct terms to search for, in reading order; stopwords only when there is nothing else."""
    words = list(dict.fromkeys(words_of(text)))
    return [word for word in words if word not in STOPWORDS] or words


def fold(text: str) -> str:
    """Return the text as it is compared: compatibility forms and case folded, accents of Latin letters dropped."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    if plain.isascii():
        return plain
    decomposed = unicodedata.normalize("NFD", plain)
    return unicodedata.normalize("NFC", _LATIN_ACCENT.sub(r"\1", decomposed))


def name_candidates(text: str, *, max_words: int = 5, max_chars: int = 12, limit: int = 400) -> list[str]:
    """Return every stretch of a text that could be a stored name: runs of words, and substrings of unspaced scripts."""
    cleaned = regex.sub(r"[^\p{L}\p{M}\p{N}\s\-_./@+#&']+", " ", text.lower(), flags=regex.V1)
    found: dict[str, None] = {}
    tokens = [token for raw in cleaned.split() if (token := _bare(raw))]
    for size in range(min(max_words, len(tokens)), 0, -1):
        for start in range(len(tokens) - size + 1):
            found.setdefault(" ".join(tokens[start : start + size]))
    for run in regex.findall(rf"[{_DENSE}]+", cleaned, flags=regex.V1):
        for size in range(min(max_chars, len(run)), 1, -1):
            for start in range(len(run) - size + 1):
                found.setdefault(run[start : start + size])
    return [name for name in found if name not in STOPWORDS][:limit]


def stem(word: str) -> str:
    """Return an ASCII word without the commonest English endings; any other word as it is."""
    if len(word) < 4 or not word.isascii() or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    for ending, rest in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return _tidy(word.removesuffix(ending) + rest)
    return _tidy(word)


_LATIN_ACCENT: Final = regex.compile(r"(\p{Script=Latin})\p{M}+", regex.V1)
_ENDINGS: Final = (
    ("ational", "ate"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("ations", "ate"),
    ("ation", "ate"),
    ("ments", ""),
    ("ment", ""),
    ("ingly", ""),
    ("edly", ""),
    ("sses", "ss"),
    ("iest", "y"),
    ("ier", "y"),
    ("ies", "y"),
    ("ied", "y"),
    ("ings", ""),
    ("ing", ""),
    ("ers", ""),
    ("er", ""),
    ("ed", ""),
    ("ly", ""),
    ("es", ""),
    ("'s", ""),
    ("s", ""),
)


def _tidy(root: str) -> str:
    if root.endswith("ss"):
        return root
    if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "aeiou":
        root = root[:-1]
    if len(root) > 3 and root.endswith("e"):
        root = root[:-1]
    return f"{root[:-1]}i" if len(root) > 3 and root.endswith("y") else root


def _is_code(compound: str) -> bool:
    # Whole compounds are kept where their parts alone would lose them: versions, paths, addresses, identifiers.
    return any(mark in compound for mark in "._/:@+#") or any(character.isdigit() for character in compound)


def _bare(token: str) -> str:
    stripped = token.strip("-_./@+#&'’")
    return stripped.removesuffix("'s").removesuffix("’s")


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] if len(run) > 1 else [run]
