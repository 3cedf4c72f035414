"""The sentences by which a model says that there is nothing to do, in the exact form and in other words."""

from __future__ import annotations

import re
from typing import Final

NOTHING_TO_REMEMBER: Final = "Nothing worth remember."
NOTHING_TO_QUERY: Final = "Nothing worth query."

MAX_REFUSAL_CHARS: Final = 300

_REFUSALS: Final = re.compile(
    r"^(?:(?:i|we|it|this|the (?:conversation|chat|text|material|input|message))\b[\w' ]{0,20} )?"
    r"(?:there (?:is|are|was|were) |there's )?(?:nothing|no)\b[^.\n]{0,60}"
    r"\b(?:remember(?:ed|ing)?|keep(?:ing)?|kept|sav(?:e|ed|ing)|not(?:e|ed|ing|able)|record(?:ed|ing)?"
    r"|extract(?:ed|ing)?|stor(?:e|ed|ing)|retain(?:ed|ing)?|facts?|information|memor(?:y|ies|able))\b"
    r"|^(?:none|n/?a|nil|null|nothing|no facts|empty|\[\]|\{\})$"
    r"|没有[^。\n]{0,20}(?:记住|记忆|记录|保存|保留|事实|信息|内容)|沒有[^。\n]{0,20}(?:記住|記憶|記錄|保存|保留|事實|資訊|內容)"
    r"|(?:覚え|記憶|記録|保存|残)[^。\n]{0,30}(?:ありません|ない|なし)|特にありません"
    r"|\brien\b[^.\n]{0,40}\b(?:retenir|noter|m[ée]moriser)\b|\bnada\b[^.\n]{0,40}\b(?:recordar|guardar|que)\b"
    r"|\bnichts\b[^.\n]{0,40}\b(?:merken|behalten|erinnern|speichern)\w*|нечего\s+\w+",
    re.IGNORECASE,
)


def _folded(text: str) -> str:
    return " ".join(text.split()).rstrip(".!?").rstrip().casefold()


def is_nothing_to_remember(text: str) -> bool:
    """Whether a text is the sentinel of extraction: any case and spacing, with or without a final mark (memory §8)."""
    return _folded(text.strip().strip("\"'`*_“”")) == _folded(NOTHING_TO_REMEMBER)


def is_nothing_to_query(text: str) -> bool:
    """Whether a text is the sentinel of the query rewrite."""
    return _folded(text.strip().strip("\"'`*_“”")) == _folded(NOTHING_TO_QUERY)


def is_refusal_to_list(text: str) -> bool:
    """Whether a short answer says in other words that there is nothing to list; never true for a line that cites a message."""
    clean = text.strip()
    if len(clean) > MAX_REFUSAL_CHARS or "\n" in clean or re.search(r"[\[【]\s*\w*\s*\d+\s*[\]】]", clean):
        return False
    return _REFUSALS.search(clean.rstrip(".!?。！？")) is not None
