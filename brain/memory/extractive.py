"""Facts for models too small to word them: sentences of the person as they stand, so that nothing unsaid can be stored."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from brain.memory.facts import MAX_ITEMS, RawFact, RawFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from brain.memory.extraction import Flavour
    from brain.memory.regions import Source

EXTRACTIVE_VERSION: Final = "extractive-1"

MIN_CHARS: Final = 12
MIN_DENSE_CHARS: Final = 6
"""Chinese and Japanese say in six characters what takes a dozen letters."""
MAX_CHARS: Final = 600
MAX_SENTENCES: Final = 3
MAX_PASSAGE_CHARS: Final = 320
"""Longer passages are two notes: a note that says many things is found by none of them."""

_CODE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
_SPLIT: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[]?[A-ZÀ-ÞА-Я0-9])|(?<=[。！？])|\n+")
_EDGES: Final = " \t\r\n-*•>#"
_DENSE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")

_QUESTION: Final = re.compile(r"[?？]\s*[\"'”’)]*$|(?:吗|嗎|呢|か)[。.]?$")
_REQUEST: Final = re.compile(
    r"^(?:please|can you|could you|would you|will you|help me|show me|tell me|give me|write|explain|describe|translate|list|"
    r"make|find|summari[sz]e|create|search|suggest|remind|thanks|thank you|hello|hi\b|hey\b|okay\b|ok\b|sure\b|yes\b|no\b|"
    r"请|請|帮我|幫我|告诉我|告訴我|谢谢|謝謝|你好|こんにちは|ありがとう)",
    re.IGNORECASE,
)
_REQUEST_END: Final = re.compile(r"(?:ください|下さい|お願いします|教えて)[。.!！]?$")
_NOT_MEANT: Final = re.compile(
    r"\b(?:what if|imagine|suppose|pretend|hypothetical(?:ly)?|let'?s say|for example|for instance|e\.g\.|kidding|joking|joke|"
    r"if i (?:were|was|had)|would have|lorem ipsum|role-?play|in the (?:novel|story|movie|film|book|quote)|as the saying goes|"
    r"once upon)\b"
    r"|假设|假設|如果我|要是我|假如|比如说|开玩笑|開玩笑|想象|もし|仮に|例えば|冗談",
    re.IGNORECASE,
)
_WOULD: Final = re.compile(r"\bif\b.*\bwould\b|\bwould\b.*\bif\b", re.IGNORECASE | re.DOTALL)
_ABOUT_SOMEONE: Final = re.compile(
    r"\b(?:i|i'm|i've|i'll|i'd|my|mine|me|we|we're|we've|we'll|our|ours|us|myself)\b|我|咱|[他她它]|私|僕|彼|俺|うち|わたし|ぼく",
    re.IGNORECASE,
)
_TELLING: Final = re.compile(
    r"\d|(?<=\S )[A-Z][a-zà-ÿ]+|\b(?:is|are|was|were|has|have|had|will|works?|lives?|uses?|prefers?|likes?|hates?|needs?|wants?|"
    r"decided|moved|started|stopped|called|named)\b|[A-Za-z]+[_./:@-][A-Za-z0-9]|"
    r"[是有在叫住去做学學要用能每]|喜欢|喜歡|负责|です|ます|した|だ。",
)


def extract_quotes(sources: Sequence[Source], flavour: Flavour) -> RawFacts:
    """Return the sentences worth keeping, each with itself as the quote that proves it.

    Of a conversation only what the person says, and of that neither questions nor requests nor what is openly not meant; of a
    submission every sentence that tells something. Neighbours stay together: "she" is often named one sentence before.
    """
    items: list[RawFact] = []
    for source in sources:
        if source.speaker != "user" or source.recalled:
            continue
        items.extend(RawFact(passage, source.number, passage) for passage in _passages(source.text, flavour))
    distinct = list({item.text.casefold(): item for item in items}.values())
    return RawFacts(tuple(distinct[:MAX_ITEMS]), excess=len(items) - len(distinct[:MAX_ITEMS]))


def _passages(text: str, flavour: Flavour) -> Iterator[str]:
    """Yield runs of neighbouring sentences that are all kept, as they stand in the text, up to a length."""
    start, end, count = 0, 0, 0
    for first, last in _sentences(text):
        kept = _is_kept(text[first:last], flavour)
        joined = kept and 0 < count < MAX_SENTENCES and last - start <= MAX_PASSAGE_CHARS and not text[end:first].strip()
        if count and not joined:
            yield text[start:end]
            count = 0
        if kept:
            start, end, count = (start if joined else first), last, count + 1
    if count:
        yield text[start:end]


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield where sentences begin and end; code is no sentence, and neither is a summary that stands for dropped messages."""
    if text.startswith("CONTEXT COMPACTION: "):
        return
    # Code is blanked, not cut, so that places stay right.
    plain = _CODE.sub(lambda code: "\n" * len(code.group()), text)
    position = 0
    for mark in [*_SPLIT.finditer(plain), None]:
        end = len(plain) if mark is None else mark.start()
        piece = plain[position:end]
        inner = piece.strip(_EDGES)
        if inner:
            first = position + piece.index(inner)
            yield first, first + len(inner)
        position = len(plain) if mark is None else mark.end()


def _is_kept(sentence: str, flavour: Flavour) -> bool:
    dense = len(_DENSE.findall(sentence))
    enough = len(sentence) >= MIN_CHARS or dense >= MIN_DENSE_CHARS
    if not enough or len(sentence) > MAX_CHARS or not (dense or _WORD.search(sentence)):
        return False
    if _QUESTION.search(sentence) or _NOT_MEANT.search(sentence) or _WOULD.search(sentence):
        return False
    if flavour == "digest":
        return True
    if _REQUEST.search(sentence) or _REQUEST_END.search(sentence):
        return False
    return bool(_ABOUT_SOMEONE.search(sentence)) or bool(_TELLING.search(sentence))
