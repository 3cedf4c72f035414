"""The scripted conversations: several sessions each, with the facts to be remembered and the traps not to be.

A line ``U:`` is the person, ``A:`` the assistant, ``R:`` a report that ``gsg__investigate`` gave; ``@`` starts a session on that day.
``FACT:`` has the statement and, after bars, ``quote`` (verbatim), ``about``, ``edge`` (verb, other end, and ``ended``), ``date``,
``keys`` (all of them in one note mean that the fact was kept), ``ask`` and ``kind``. ``TRAP:`` is text no note may contain.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import Raw

from shared_protocol.instants import Instant
from shared_protocol.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
    UserMessage,
)

FOLDER = Path(__file__).parent / "corpus"
USAGE = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
_SUBJECT = re.compile(r"(.+?) \((\w+)\)")
_EDGE = re.compile(r"(\w+) (.+?) \((\w+)\)( ended)?")


class Gold(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that should be remembered, and a question that should find it."""

    chat: str
    text: str
    quote: str
    name: str = "user"
    category: str = "person"
    verb: str | None = None
    other: str | None = None
    other_category: str = ""
    ended: bool = False
    date: str | None = None
    keys: tuple[str, ...]
    ask: str
    kind: str

    def is_in(self, note: str) -> bool:
        """Whether a note keeps the fact."""
        return all(key.casefold() in note.casefold() for key in self.keys)


class Session(msgspec.Struct, frozen=True):
    """What was said on one day, and what of it should be remembered."""

    day: str
    messages: tuple[Message, ...]
    first_index: int
    gold: tuple[Gold, ...]


class Chat(msgspec.Struct, frozen=True):
    """One conversation over several days."""

    id: str
    sessions: tuple[Session, ...]
    traps: tuple[str, ...]

    @property
    def language(self) -> str:
        """``en``, ``zh``, ``ja`` or ``code``."""
        return self.id.partition("-")[0]

    @property
    def gold(self) -> list[Gold]:
        """All facts."""
        return [fact for session in self.sessions for fact in session.gold]


def load_corpus() -> list[Chat]:
    """Return all conversations, in order of file and place."""
    chats: list[Chat] = []
    for path in sorted(FOLDER.glob("*.txt")):
        for block in re.split(r"^# ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            head, *lines = block.strip().splitlines()
            chats.append(_read_chat(head.strip(), lines))
    return chats


def _read_chat(chat_id: str, lines: list[str]) -> Chat:
    days: list[tuple[str, list[Message]]] = []
    facts: list[Gold] = []
    traps: list[str] = []
    for line in lines:
        if line.startswith("@ "):
            days.append((line[2:].strip(), []))
            continue
        mark, _, text = line.partition(": ")
        if mark == "FACT":
            facts.append(_read_fact(chat_id, text))
        elif mark == "TRAP":
            traps.append(text)
        elif mark:
            days[-1][1].extend(_read_message(mark, text, days[-1][0], len(days[-1][1])))
    sessions: list[Session] = []
    first = 0
    for day, messages in days:
        gold = tuple(fact for fact in facts if any(_says(message, fact.quote) for message in messages))
        sessions.append(Session(day, tuple(messages), first, gold))
        first += len(messages)
    placed = [fact for session in sessions for fact in session.gold]
    if lost := [fact.quote for fact in facts if fact not in placed]:
        raise ValueError(f"{chat_id}: nobody says {lost}")
    return Chat(chat_id, tuple(sessions), tuple(traps))


def _read_message(mark: str, text: str, day: str, place: int) -> list[Message]:
    at = Instant(f"{day}T{10 + place // 2:02}:00:00Z")
    if mark == "U":
        return [UserMessage((TextPart(text),), at)]
    if mark == "A":
        return [AssistantMessage(parts=(TextPart(text),), meta=USAGE, finish_reason="stop")]
    call = ToolCallPart(f"call-{place}", "gsg__investigate", Raw(b'{"query":"see the question"}'))
    asked = AssistantMessage(parts=(call,), meta=USAGE, finish_reason="tool_calls")
    return [asked, ToolResultMessage((ToolResultPart(call.id, call.tool, (TextPart(text),)),))]


def _read_fact(chat_id: str, line: str) -> Gold:
    text, *fields = line.split(" | ")
    values = dict(field.split(": ", 1) for field in fields)
    about = _SUBJECT.fullmatch(values.get("about", "user (person)"))
    edge = _EDGE.fullmatch(values.get("edge", ""))
    if about is None:
        raise ValueError(f"{chat_id}: {values['about']!r} is no subject")
    return Gold(
        chat=chat_id,
        text=text,
        quote=values["quote"],
        name=about.group(1),
        category=about.group(2),
        verb=edge and edge.group(1),
        other=edge and edge.group(2),
        other_category=edge.group(3) if edge else "",
        ended=bool(edge and edge.group(4)),
        date=values.get("date"),
        keys=tuple(values["keys"].split(", ")),
        ask=values["ask"],
        kind=values["kind"],
    )


def _says(message: Message, quote: str) -> bool:
    return isinstance(message, UserMessage) and any(isinstance(part, TextPart) and quote in part.text for part in message.parts)
