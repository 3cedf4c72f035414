"""Facts for models too small to word them: sentences of the person as they stand, so that nothing unsaid can be stored.

What is said but not meant stays out as well: fiction, suppositions and jokes with the sentences that hang on them, words of
others (quoted or pasted in), and what the person asks not to be remembered.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from brain.memory.event_days import find_event_day
from brain.memory.facts import MAX_ITEMS, RawFact, RawFacts

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
MAX_RETRACTION_CHARS: Final = 40
"""Up to this length a retraction says nothing of its own, so it takes back what was said before it."""

_CODE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED_LINE: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_SPLIT: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'“(\[]?[A-ZÀ-ÞА-Я0-9])|(?<=[。！？])(?![」』”])|\n+")
_ABBREVIATED: Final = re.compile(r"(?:^|[\s(])(?:mr|mrs|ms|dr|prof|st|mt|vs|nr|approx|dept|[a-z])\.$", re.IGNORECASE)
_OPENING: Final = re.compile(r"[“«「『]")
_CLOSING: Final = re.compile(r"[”»」』]")
_EDGES: Final = " \t\r\n-*•>#"
_DENSE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")

_QUESTION: Final = re.compile(
    r"[?？]\s*[\"'”’)]*$|(?:吗|嗎|呢|か)[。.]?$"
    r"|^(?:and |but |so )?(?:(?:what|which|how)(?: (?!i\b|we\b|you\b|he\b|she\b|it\b|they\b|my\b|our\b|the\b)\w+)?|who"
    r"|whom|whose|where"
    r"|when|why)(?:['’]s|['’]re)? (?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|am)\b"
    r"|^(?:do|does|did|can|could|should|would|will|is|are|was|were|am|may|have|has)(?:n['’]t)? (?:i|you|he|she|it|we"
    r"|they|there|this"
    r"|that|my|your|the)\b",
    re.IGNORECASE,
)
_REQUEST: Final = re.compile(
    r"^(?:please|can you|could you|would you|will you|help me|show me|tell me|give me|write|explain|describe|translate|list|"
    r"make|find|summari[sz]e|create|search|suggest|remind|thanks|thank you|hello|hi\b|hey\b|okay\b|ok\b|sure\b|yes\b|no\b|"
    r"请|請|帮我|幫我|告诉我|告訴我|谢谢|謝謝|你好|こんにちは|ありがとう)",
    re.IGNORECASE,
)
_REQUEST_END: Final = re.compile(r"(?:ください|下さい|お願いします|教えて)[。.!！]?$")
_MATERIAL: Final = re.compile(
    r"^(?:please |can you |could you |would you |will you |help me )*(?:translate|proofread|rewrite|rephrase"
    r"|paraphrase|summari[sz]e"
    r"|correct|polish|edit|improve|fix|explain|analy[sz]e|review|check|continue|complete)\b[^:\n]{0,120}:"
    r"|^(?:here(?:['’]s| is| are)|this is|below is|see) [^:\n]{0,60}\b(?:e-?mail|letter|article|text|log|error|output"
    r"|message|essay|story"
    r"|poem|code|transcript|review|quote|paragraph|draft|conversation|chat)\b[^:\n]{0,60}:"
    r"|^[^:：\n]{0,12}(?:翻译|翻譯|润色|潤色|改写|改寫|校对|校對|总结|總結|解释|解釋|续写|續寫|分析)[^:：\n]{0,40}[:：]"
    r"|(?:英訳|和訳|翻訳|[にを]訳|添削|要約|校正|書き直|解説)[^:：\n]{0,24}[:：]",
    re.IGNORECASE,
)
"""From here on the message is something to work on, not something the person says."""
_CODE_LINE: Final = re.compile(
    r"^(?:def \w+\("
    r"|class \w+\s*[:({]|import [\w.]+(?:$|;|,| as )|return\b.*[;(]|(?:const|let|var) \w+\s*=|function\b.*\(|#include"
    r"|(?:public|private|protected|static|void) \w.*[({=;]|from \S+ import |for \w+ in \S+:|>>> |\$ )"
    r"|[;{}]\s*$|\)\s*[{;]|=>|==|!=|&&|\|\|"
    r"|^\[?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}|^(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|Traceback|SELECT|INSERT INTO"
    r"|UPDATE)\b|^at \S+\("
)

_ASIDE: Final = re.compile(
    r"\b(?:for example|for instance|e\.g\.|just an example|joking|joke|would have|lorem ipsum|as the saying goes"
    r"|in the quote)\b"
    r"|比如说|比如說|例えば|冗談",
    re.IGNORECASE,
)
_SUPPOSED: Final = re.compile(
    r"\b(?:what if|imagine|suppose|pretend|hypothetical(?:ly)?|let['’]?s say|if (?:i|we) (?:were|was|had)"
    r"|once upon|role-?play\w*|in (?:the|my|this|that) (?:novel|story|movie|film|book|play|script|dream)"
    r"|dream(?:t|ed) (?:that|i|we|about))\b"
    r"|假设|假設|如果我|要是我|假如|想象|想像|小说里|小說裡|小说中|故事里|故事中|电影里|梦里|夢裡|梦见|夢見|假装|假裝|扮演"
    r"|もし|仮に|小説の中|物語の中|映画の中|夢の中|夢を見|ごっこ|ロールプレイ|なりきり",
    re.IGNORECASE,
)
_WOULD: Final = re.compile(
    r"\bif\b.*\bwould\b|\bwould\b.*\bif\b|たら.*(?:のに|だろう|でしょう|たかった)", re.IGNORECASE | re.DOTALL
)
_STAYS_SUPPOSED: Final = re.compile(r"\b(?:would|could|might)\b|['’]d\b|就|だろう|でしょう|たら", re.IGNORECASE)
_ROLE: Final = re.compile(r"\brole-?play\w*\b|角色扮演|ロールプレイ|なりきり", re.IGNORECASE)
_BACK: Final = re.compile(
    r"^(?:seriously|anyway|anyhow|in reality|in real life|in truth|actually|by the way|btw|back to|on another note"
    r"|but really|ooc\b"
    r"|out of character|(?:stop|end|enough of) (?:the |this )?role-?play|话说回来|話說回來|说正经的|說正經的|其实|其實"
    r"|顺便|順便|真面目な話|実は"
    r"|ところで|さて)",
    re.IGNORECASE,
)
_RETRACTED: Final = re.compile(
    r"\b(?:(?<!no )kidding|april fools?|i(?: was| am|['’]m) joking|(?:only|just) joking|jk|gotcha|i made (?:that|it"
    r"|all of it) up)\b|/s$"
    r"|^(?:well,? )?not really[.!]*$"
    r"|开玩笑|開玩笑|骗你的|騙你的|逗你|冗談です|冗談だ|なんちゃって|嘘です|うそです",
    re.IGNORECASE,
)
_PRIVATE: Final = re.compile(
    r"(?:^|\bplease |\band |\bbut |, )(?:don['’]?t|do not) (?:ever )?(?:remember|save|store|note|record|memori[sz]e|keep) "
    r"(?:this|that|it|any|what|anything)\b"
    r"|(?:^|\bplease |\band |\bbut |, )forget (?:this|that|it|what i)\b|\boff the record\b|\b(?:just|keep (?:this|that"
    r"|it)|stays?) between (?:you and me|us)\b"
    r"|(?:不要|别|別|不用)(?:记|記|保存)|(?<![别別])忘了(?:这|這|它|吧)|忘掉(?:这|這|它|吧)|(?:覚え|記憶し|記録し"
    r"|保存し)ないで|忘れて(?:ください|下さい|ね|くれ)",
    re.IGNORECASE,
)
_ME: Final = re.compile(
    r"\b(?:i|i'm|i’m|i've|i’ve|i'll|i’ll|i'd|my|mine|me|we|we're|we've|we'll|our|ours|us|myself)\b|我|咱|私|僕|俺|うち"
    r"|わたし|ぼく",
    re.IGNORECASE,
)
_SOMEONE: Final = re.compile(r"[他她它]|彼")
_TELLING: Final = re.compile(
    r"\d|(?<=\S )[A-Z][a-zà-ÿ]+|\b(?:is|are|was|were|has|have|had|will|works?|lives?|uses?|prefers?|likes?|hates?"
    r"|needs?|wants?|"
    r"decided|moved|started|stopped|called|named)\b|[A-Za-z]+[_./:@-][A-Za-z0-9]|"
    r"[是有在叫住去做学學要用能每]|喜欢|喜歡|负责|です|ます|した|だ。",
)


class _Sentence(msgspec.Struct):
    """A sentence at its place in a message; ``opens``: it begins a line."""

    start: int
    end: int
    text: str
    opens: bool
    kept: bool = True


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
            in_role = _drop_unmeant(sentences, in_role)
            if by_message and sentences and _takes_back_all(sentences[0].text):
                by_message[-1] = []
        for sentence in sentences:
            sentence.kept = sentence.kept and _is_kept(sentence.text, flavour)
        said_on = None if source.sent_at is None else source.sent_at.astimezone().date()
        by_message.append([RawFact(passage, source.number, passage) for passage in _passages(source.text, sentences, said_on)])
    items = [item for message in by_message for item in message]
    distinct = list({item.text.casefold(): item for item in items}.values())
    return RawFacts(tuple(distinct[:MAX_ITEMS]), excess=len(items) - len(distinct[:MAX_ITEMS]))


def _passages(text: str, sentences: Sequence[_Sentence], said_on: date | None) -> Iterator[str]:
    """Yield runs of neighbouring sentences that are all kept, as they stand in the text, up to a length, of one day each."""
    run: list[_Sentence] = []
    for sentence in sentences:
        if run and not (sentence.kept and _belongs(text, run, sentence, said_on)):
            yield text[run[0].start : run[-1].end]
            run = []
        if sentence.kept:
            run.append(sentence)
    if run:
        yield text[run[0].start : run[-1].end]


def _belongs(text: str, run: Sequence[_Sentence], sentence: _Sentence, said_on: date | None) -> bool:
    if len(run) >= MAX_SENTENCES or sentence.end - run[0].start > MAX_PASSAGE_CHARS or text[run[-1].end : sentence.start].strip():
        return False
    days = {day for each in (*run, sentence) if (day := find_event_day(each.text, said_on)) is not None}
    return len(days) <= 1


def _sentences(text: str) -> Iterator[_Sentence]:
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
            yield _Sentence(first, first + len(inner), inner, opens)
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


def _drop_unmeant(sentences: Sequence[_Sentence], in_role: bool) -> bool:
    """Mark what the person says without meaning it; return whether a role that is played goes on in the next message."""
    if any(_PRIVATE.search(sentence.text) for sentence in sentences):
        for sentence in sentences:
            sentence.kept = False
    _drop_material_and_jokes(sentences)
    supposing = in_role
    for sentence in sentences:
        if sentence.opens:
            supposing = in_role
        if _BACK.search(sentence.text):
            supposing = in_role = False
        elif _ROLE.search(sentence.text):
            in_role = True
        if in_role or _SUPPOSED.search(sentence.text) or _WOULD.search(sentence.text):
            supposing = True
        elif supposing:
            supposing = _ME.search(sentence.text) is None or _STAYS_SUPPOSED.search(sentence.text) is not None
        sentence.kept = sentence.kept and not supposing
    return in_role


def _drop_material_and_jokes(sentences: Sequence[_Sentence]) -> None:
    line_start = 0
    for at, sentence in enumerate(sentences):
        if sentence.opens:
            line_start = at
        if _MATERIAL.search(sentence.text):
            for each in sentences[at:]:
                each.kept = False
            return
        if _RETRACTED.search(sentence.text):
            for each in sentences[line_start : at + 1]:
                each.kept = False


def _takes_back_all(opening: str) -> bool:
    """Whether a message opens with nothing but a retraction, so that it is about the message before."""
    return len(opening) <= MAX_RETRACTION_CHARS and (_RETRACTED.search(opening) or _PRIVATE.search(opening)) is not None


def _is_kept(sentence: str, flavour: Flavour) -> bool:
    dense = len(_DENSE.findall(sentence))
    enough = len(sentence) >= MIN_CHARS or dense >= MIN_DENSE_CHARS
    if not enough or len(sentence) > MAX_CHARS or not (dense or _WORD.search(sentence)):
        return False
    if _QUESTION.search(sentence) or _is_not_meant(sentence):
        return False
    if flavour == "digest":
        return True
    if _REQUEST.search(sentence) or _REQUEST_END.search(sentence) or _CODE_LINE.search(sentence) or _is_all_quoted(sentence):
        return False
    return bool(_ME.search(sentence)) or bool(_SOMEONE.search(sentence)) or bool(_TELLING.search(sentence))


def _is_not_meant(sentence: str) -> bool:
    return any(pattern.search(sentence) for pattern in (_ASIDE, _SUPPOSED, _WOULD, _RETRACTED))


def _is_all_quoted(sentence: str) -> bool:
    return sentence[0] in '"“«「『' and sentence.rstrip(".。!！")[-1:] in '"”»」』'
