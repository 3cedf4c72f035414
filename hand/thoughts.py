"""Text filters of one round: inline thought tags (section 10.5), U+0000 and surrogate halves (10.6)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Literal

from hand.textio import without_surrogates

Channel = Literal["reasoning", "text"]

TAGS = ("think", "thinking", "thought", "reasoning")
"""Names of inline thought tags, as DeepSeek-R1, Qwen3 and their relatives write them; exact lower case."""

_OPENING = {f"<{name}>": f"</{name}>" for name in TAGS}
_CLOSING = tuple(_OPENING.values())
_MARKS = (*_OPENING, *_CLOSING)


class _Stage(Enum):
    START = auto()
    THOUGHT_START = auto()
    THOUGHT = auto()
    AFTER = auto()
    TEXT = auto()


class ThoughtFilter:
    """Sends the answer text of a round to its channels; holds back only what may still be a tag."""

    def __init__(self) -> None:
        self._stage = _Stage.START
        self._held = ""
        self._closing = ""

    @property
    def is_settled(self) -> bool:
        """Whether everything that follows is plain text."""
        return self._stage is _Stage.TEXT

    def feed(self, text: str) -> Iterator[tuple[Channel, str]]:
        """Yield what is decided now; pieces may be empty."""
        while text or self._held:
            stage = self._stage
            if stage is _Stage.TEXT:
                yield "text", text
                return
            text, self._held = self._held + text, ""
            if stage is _Stage.START:
                rest = self._decide_start(text)
            elif stage is _Stage.AFTER:
                rest = text.lstrip()
                self._stage = _Stage.TEXT if rest else stage
            elif stage is _Stage.THOUGHT_START:
                rest = text.lstrip()
                self._stage = _Stage.THOUGHT if rest else stage
            else:
                thought, rest = self._take_thought(text)
                yield "reasoning", thought
            if self._stage is stage:
                return
            text = rest

    def finish(self) -> tuple[Channel, str]:
        """Return what was held back, now that nothing follows."""
        held, self._held = self._held, ""
        channel: Channel = "reasoning" if self._stage is _Stage.THOUGHT else "text"
        if self._stage is _Stage.START:
            self._stage = _Stage.TEXT
        return channel, held

    def _decide_start(self, text: str) -> str:
        body = text.lstrip()
        for mark in _MARKS:
            if body.startswith(mark):
                closing = _OPENING.get(mark)
                self._closing = closing or ""
                self._stage = _Stage.THOUGHT_START if closing else _Stage.AFTER
                return body[len(mark) :]
        if not body or any(mark.startswith(body) for mark in _MARKS):
            self._held = text
            return ""
        self._stage = _Stage.TEXT
        return text

    def _take_thought(self, text: str) -> tuple[str, str]:
        end = text.find(self._closing)
        if end >= 0:
            self._stage = _Stage.AFTER
            return text[:end], text[end + len(self._closing) :]
        held = _overlap(text, self._closing)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], ""


def _overlap(text: str, mark: str) -> int:
    """Return how many characters at the end of ``text`` may be the beginning of ``mark``."""
    for length in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:length]):
            return length
    return 0


class CharacterFilter:
    """Drops U+0000 and unpaired surrogates of one channel; joins a pair that was cut between two deltas."""

    def __init__(self) -> None:
        self._high = ""

    def clean(self, text: str) -> str:
        """Return the text as it may be shown."""
        if text.isascii() and not self._high:
            return text if "\0" not in text else text.replace("\0", "")
        text = (self._high + text).replace("\0", "")
        self._high = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._high = text[-1]
            text = text[:-1]
        return without_surrogates(text)
