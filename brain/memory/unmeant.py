"""What a person says without meaning it: fiction, suppositions, roles, jokes, words of others, and what is not to be remembered.

Told by words of English, Chinese and Japanese. Where it is in doubt, a sentence is lost rather than a wrong one kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_RETRACTION_CHARS: Final = 40
"""Up to this length a retraction says nothing of its own, so it takes back what was said before it."""


class Sentence(msgspec.Struct):
    """A sentence at its place in a message; ``opens``: it begins a line."""

    start: int
    end: int
    text: str
    opens: bool
    kept: bool = True


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)


_ASK: Final = r"^(?:please |can you |could you |would you |will you |help me )*"
_HERE: Final = r"^(?:here(?:['’]s| is| are)|this is|below is|see) [^:\n]{0,60}\b"
_MATERIAL: Final = _any(
    _ASK + r"(?:translate|proofread|rewrite|rephrase|paraphrase|summari[sz]e|correct|polish|edit|improve)\b[^:\n]{0,120}:",
    _ASK + r"(?:fix|explain|analy[sz]e|review|check|continue|complete)\b[^:\n]{0,120}:",
    _HERE + r"(?:e-?mail|letter|article|text|log|error|output|message|essay|story)\b[^:\n]{0,60}:",
    _HERE + r"(?:poem|code|transcript|chat|review|quote|paragraph|draft|conversation)\b[^:\n]{0,60}:",
    r"^(?:question|problem|exercise|example|task|q)\s*\d*\s*:",
    r"^[^:：\n]{0,12}(?:翻译|翻譯|润色|潤色|改写|改寫|校对|校對|总结|總結|解释|解釋|续写|續寫|分析)[^:：\n]{0,40}[:：]",
    r"^(?:例题|例題|题目|題目|問題|例文)\s*\d*\s*[:：]",
    r"(?:英訳|和訳|翻訳|[にを]訳|添削|要約|校正|書き直|解説)[^:：\n]{0,24}[:：]",
)
"""From here on the message is something to work on, not something the person says."""
_ASIDE: Final = _any(
    r"\b(?:for example|for instance|e\.g\.|just an example|joking|joke|lorem ipsum|as the saying goes|in the quote)\b",
    r"\b(?:would have|would['’]ve|could have|['’]d have)\b",
    r"\b(?:quote|proverb|lyrics?|slogan|headline|sticker|t-?shirt|character) (?:reads|says|goes|(?:would|might|will) say)\b",
    r"\b(?:(?:ha){2,}h?|hehe|lol|lmao|rofl)\b|😂|🤣|😜|😉|😆|;-?\)",
    r"比如说|比如說|哈哈|嘿嘿|呵呵",
    r"例えば|冗談|[(（]笑[)）]|w{3,}$",
)
_SUPPOSED: Final = _any(
    r"\b(?:what if|imagine|suppose|pretend|hypothetical(?:ly)?|once upon|role-?play\w*)\b",
    r"^(?:let['’]?s |please |just )?(?:assume|assuming|say)\b (?:that )?(?:an?|the|i|we|you|he|she|it|they|my|our|there)\b",
    r"^given an?\b",
    r"\blet['’]?s say\b|\bif (?:i|we) (?:were|was|had)\b|\b(?:i|we) wish (?:i|we|you|he|she|it|they|there|my|our|the)\b",
    r"\bin (?:the|my|this|that|a) (?:novel|story|movie|film|book|play|script|screenplay|poem|dream)\b",
    r"\b(?:had|have) an? (?:\w+ )?dream (?:that|in which|where|about)\b|\bdream(?:t|ed) (?:that|of|i|we|about)\b",
    r"\b(?:hero(?:ine)?|protagonist|antagonist|main character|(?:my|the) characters?|the villain|the plot)\b",
    r"假设|假設|如果我|要是我|假如|想象|想像|就好了|该多好|該多好|小说里|小說裡|小说中|故事里|故事中|电影里",
    r"梦里|夢裡|梦见|夢見|梦到|夢到|假装|假裝|扮演|主角|男主|女主|反派",
    r"もし|仮に|小説の中|物語の中|映画の中|夢の中|夢を見|夢で|ふりをし|ごっこ|ロールプレイ|なりきり|主人公|登場人物|ばいいのに|たらいいな",
)
_WOULD: Final = _any(
    r"\bif\b.*\b(?:would|could|might)\b", r"\b(?:would|could|might)\b.*\bif\b", r"たら.*(?:のに|だろう|でしょう|たかった)"
)
_STAYS_SUPPOSED: Final = _any(r"\b(?:would|could|might)\b", r"['’]d\b", r"^(?:call|name) me\b", "就", "だろう|でしょう|たら")
_AT_A: Final = r"\b(?:writing|write|wrote|reading|read|watching|watched|drafting) (?:an?|my|the|another) (?:\w+ )?"
_TELLS_A_STORY: Final = _any(
    _AT_A + r"(?:novel|story|play|screenplay|script|poem|fairy tale|book|movie|film|series|manga|comic)\b",
    r"写(?:一部|一篇|一本)?[^。]{0,6}(?:小说|小說|故事|剧本|劇本)",
    r"(?:小説|物語|脚本|漫画|童話)を(?:書|描|読)",
)
"""True by itself; what follows is told in the story."""
_ROLE: Final = _any(
    r"\brole-?play\w*\b|\bpretend (?:that )?(?:i|we|you|to be)\b", "角色扮演|假装我|假裝我", "ロールプレイ|なりきり"
)
_BACK: Final = _any(
    r"^(?:seriously|anyway|anyhow|in reality|in real life|in truth|actually|by the way|btw|back to|on another note|but really)\b",
    r"^(?:ooc\b|out of character|(?:stop|end|enough of) (?:the |this )?(?:role-?play|pretending|game))",
    r"^(?:话说回来|話說回來|说正经的|說正經的|其实|其實|顺便|順便)",
    r"^(?:真面目な話|実は|ところで|さて)",
)
_RETRACTED: Final = _any(
    r"\b(?:(?<!no )kidding|april fools?|i(?: was| am|['’]m) joking|(?:only|just) joking|jk|gotcha)\b|/s$",
    r"\bi made (?:that|it|all of it) up\b|^(?:well,? )?not really[.!]*$",
    r"开玩笑|開玩笑|骗你的|騙你的|逗你",
    r"冗談です|冗談だ|なんちゃって|嘘です|うそです",
)
_IMPERATIVE: Final = r"(?:^|\bplease |\band |\bbut |, )"
_PRIVATE: Final = _any(
    _IMPERATIVE
    + r"(?:don['’]?t|do not) (?:ever )?(?:remember|save|store|note|record|memori[sz]e|keep) (?:this|that|it|any|what)\b",
    _IMPERATIVE + r"forget (?:this|that|it|what i)\b",
    r"\boff the record\b|\b(?:just|keep (?:this|that|it)|stays?) between (?:you and me|us)\b",
    r"(?:不要|别|別|不用)(?:记|記|保存)|(?<![别別])忘了(?:这|這|它|吧)|忘掉(?:这|這|它|吧)",
    r"(?:覚え|記憶し|記録し|保存し)ないで|忘れて(?:ください|下さい|ね|くれ)",
)
_ME: Final = _any(r"\b(?:i|me|my|mine|myself|we|us|our|ours)\b", "我|咱", "私|僕|俺|うち|わたし|ぼく")


def drop_unmeant(sentences: Sequence[Sentence], in_role: bool) -> bool:
    """Mark what the person says without meaning it; return whether a role that is played goes on in the next message.

    What hangs on a supposition is what follows on the same line, until the person speaks of themselves as a matter of fact.
    """
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
        supposing = supposing or _TELLS_A_STORY.search(sentence.text) is not None
    return in_role


def takes_back_all(opening: str) -> bool:
    """Whether a message opens with nothing but a retraction, so that it is about the message before."""
    return len(opening) <= MAX_RETRACTION_CHARS and (_RETRACTED.search(opening) or _PRIVATE.search(opening)) is not None


def is_unmeant(sentence: str) -> bool:
    """Whether a sentence by itself says that it is not meant."""
    return any(pattern.search(sentence) for pattern in (_ASIDE, _SUPPOSED, _WOULD, _RETRACTED))


def speaks_of_oneself(sentence: str) -> bool:
    """Whether a sentence has the person in it."""
    return _ME.search(sentence) is not None


def _drop_material_and_jokes(sentences: Sequence[Sentence]) -> None:
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
