"""Facts for models too small to word them: sentences of the person as they stand, so that nothing unsaid can be stored.

What is said but not meant stays out as well: fiction, suppositions and jokes with the sentences that hang on them, words of
others (quoted or pasted in), and what the person asks not to be remembered.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from brain.memory.event_days import find_event_day
from brain.memory.facts import MAX_ITEMS, RawFact, RawFacts
from brain.memory.unmeant import Sentence, drop_unmeant, is_unmeant, speaks_of_oneself, takes_back_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from brain.memory.extraction import Flavour
    from brain.memory.regions import Source

EXTRACTIVE_VERSION: Final = "extractive-2"

MIN_CHARS: Final = 12
MIN_DENSE_CHARS: Final = 6
"""Chinese and Japanese say in six characters what takes a dozen letters."""
MAX_CHARS: Final = 600
MAX_SENTENCES: Final = 3
MAX_PASSAGE_CHARS: Final = 320
"""Longer passages are two notes: a note that says many things is found by none of them."""
_CODE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED_LINE: Final = re.compile(
    r"^[ \t]*(?:>|(?:user|assistant|system|human|ai|bot|用户|用戶|助手|ユーザー|アシスタント)\s*[:：]).*$",
    re.MULTILINE | re.IGNORECASE,
)
_SPLIT: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[]?[A-ZÀ-ÞА-Я0-9])|(?<=[。！？])(?![」』”])|\n+")
_ABBREVIATED: Final = re.compile(r"(?:^|[\s(])(?:mr|mrs|ms|dr|prof|st|mt|vs|nr|approx|dept|[a-z])\.$", re.IGNORECASE)
_OPENING: Final = re.compile(r"[“«「『]")
_CLOSING: Final = re.compile(r"[”»」』]")
_EDGES: Final = " \t\r\n-*•>#"
_DENSE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")

_QUESTION: Final = re.compile(
    r"[?？]\s*[\"'”’)]*$|(?:吗|嗎|呢|か)[。.]?$"
    r"|^(?:and |but |so )?(?:(?:what|which|how)(?: (?!(?:i|we|you|he|she|it|they|my|our|the)\b)\w+)?|whom?|whose|where|when|why)"
    r"(?:['’]s|['’]re)? (?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|am)\b"
    r"|^(?:do|does|did|can|could|should|would|will|is|are|was|were|am|may|have|has)(?:n['’]t)? "
    r"(?:i|you|he|she|it|we|they|there|this|that|my|your|the)\b",
    re.IGNORECASE,
)
_REQUEST: Final = re.compile(
    r"^(?:please|can you|could you|would you|will you|help me|show me|tell me|give me|write|explain|describe|translate|list|"
    r"make|find|summari[sz]e|create|search|suggest|remind|thanks|thank you|hello|hi\b|hey\b|okay\b|ok\b|sure\b|yes\b|no\b|"
    r"请|請|帮我|幫我|告诉我|告訴我|谢谢|謝謝|你好|こんにちは|ありがとう)",
    re.IGNORECASE,
)
_REQUEST_END: Final = re.compile(r"(?:ください|下さい|お願いします|教えて)[。.!！]?$")
_CODE_LINE: Final = re.compile(
    r"^(?:def \w+\(|class \w+\s*[:({]|import [\w.]+(?:$|;|,| as )|return\b.*[;(]|(?:const|let|var) \w+\s*=|function\b.*\()"
    r"|^(?:#include|(?:public|private|protected|static|void) \w.*[({=;]|from \S+ import |for \w+ in \S+:|>>> |\$ )"
    r"|[;{}]\s*$|\)\s*[{;]|=>|==|!=|&&|\|\||^at \S+\("
    r"|^\[?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}|^(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|Traceback|SELECT|INSERT INTO|UPDATE)\b"
)
_SOMEONE: Final = re.compile(r"[他她它]|彼")
_TELLING: Final = re.compile(
    r"\d|(?<=\S )[A-Z][a-zà-ÿ]+|\b(?:is|are|was|were|has|have|had|will|works?|lives?|uses?|prefers?|likes?|hates?"
    r"|needs?|wants?|"
    r"decided|moved|started|stopped|called|named)\b|[A-Za-z]+[_./:@-][A-Za-z0-9]|"
    r"[是有在叫住去做学學要用能每]|喜欢|喜歡|负责|です|ます|した|だ。",
)


def extract_quotes(sources: Sequence[Source], flavour: Flavour) -> RawFacts:
    """Return the sentences worth keeping, each with itself as the quote that proves it.

    Of a conversation only what the person says and means, and of that neither questions nor requests; of a submission every
    sentence that tells something. Neighbours stay together: "she" is often named one sentence before.
    """
    by_message: list[list[RawFact]] = []
    in_role = False
    for source in sources:
        if source.speaker != "user" or source.recalled:
            continue
        sentences = list(_sentences(source.text))
        if flavour == "conversation":
            in_role = drop_unmeant(sentences, in_role)
            if by_message and sentences and takes_back_all(sentences[0].text):
                by_message[-1] = []
        for sentence in sentences:
            sentence.kept = sentence.kept and _is_kept(sentence.text, flavour)
        said_on = None if source.sent_at is None else source.sent_at.astimezone().date()
        by_message.append([RawFact(passage, source.number, passage) for passage in _passages(source.text, sentences, said_on)])
    items = [item for message in by_message for item in message]
    distinct = list({item.text.casefold(): item for item in items}.values())
    return RawFacts(tuple(distinct[:MAX_ITEMS]), excess=len(items) - len(distinct[:MAX_ITEMS]))


def _passages(text: str, sentences: Sequence[Sentence], said_on: date | None) -> Iterator[str]:
    """Yield runs of neighbouring sentences that are all kept, as they stand in the text, up to a length, of one day each."""
    run: list[Sentence] = []
    for sentence in sentences:
        if run and not (sentence.kept and _belongs(text, run, sentence, said_on)):
            yield text[run[0].start : run[-1].end]
            run = []
        if sentence.kept:
            run.append(sentence)
    if run:
        yield text[run[0].start : run[-1].end]


def _belongs(text: str, run: Sequence[Sentence], sentence: Sentence, said_on: date | None) -> bool:
    if len(run) >= MAX_SENTENCES or sentence.end - run[0].start > MAX_PASSAGE_CHARS or text[run[-1].end : sentence.start].strip():
        return False
    days = {day for each in (*run, sentence) if (day := find_event_day(each.text, said_on)) is not None}
    return len(days) <= 1


def _sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences; code and lines that quote others are none, nor is a summary that stands for dropped messages."""
    if text.startswith("CONTEXT COMPACTION: "):
        return
    # Blanked, not cut, so that places stay right.
    plain = _QUOTED_LINE.sub(_blank, _CODE.sub(_blank, text))
    position, opens = 0, True
    for mark in [*(mark for mark in _SPLIT.finditer(plain) if not _is_inside_sentence(plain, mark)), None]:
        end = len(plain) if mark is None else mark.start()
        piece = plain[position:end]
        inner = piece.strip(_EDGES)
        if inner:
            first = position + piece.index(inner)
            yield Sentence(first, first + len(inner), inner, opens)
        opens = (mark is not None and "\n" in mark.group()) or (opens and not inner)
        position = len(plain) if mark is None else mark.end()


def _blank(found: re.Match[str]) -> str:
    return "\n" * len(found.group())


def _is_inside_sentence(text: str, mark: re.Match[str]) -> bool:
    """Whether a full stop is part of a name, or stands in a quotation: alone, the rest would look like the person's own."""
    if "\n" in mark.group():
        return False
    line = text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()]
    if _ABBREVIATED.search(line):
        return True
    return line.count('"') % 2 == 1 or len(_OPENING.findall(line)) > len(_CLOSING.findall(line))


def _is_kept(sentence: str, flavour: Flavour) -> bool:
    dense = len(_DENSE.findall(sentence))
    enough = len(sentence) >= MIN_CHARS or dense >= MIN_DENSE_CHARS
    if not enough or len(sentence) > MAX_CHARS or not (dense or _WORD.search(sentence)):
        return False
    if _QUESTION.search(sentence) or is_unmeant(sentence):
        return False
    if flavour == "digest":
        return True
    if _REQUEST.search(sentence) or _REQUEST_END.search(sentence) or _CODE_LINE.search(sentence) or _is_all_quoted(sentence):
        return False
    return speaks_of_oneself(sentence) or bool(_SOMEONE.search(sentence)) or bool(_TELLING.search(sentence))


def _is_all_quoted(sentence: str) -> bool:
    return sentence[0] in '"“«「『' and sentence.rstrip(".。!！")[-1:] in '"”»」』'
