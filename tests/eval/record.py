"""Writes ``recorded.json``: for each session the answers a mid-size model gives, with the usual faults mixed in.

The wording is ours (it is the gold statement); forms and faults are those seen from small open models: fences, thoughts, prose, wrong
numbers, invented quotes, the assistant's words as facts, echoes of memory, repetitions. Run ``python -m tests.eval.record`` after a
change of the corpus.
"""

from __future__ import annotations

import json
from pathlib import Path

from shared_protocol.messages import AssistantMessage, TextPart, UserMessage
from tests.eval.corpus import Chat, Gold, Session, load_corpus

RECORDED = Path(__file__).parent / "recorded.json"


def record() -> dict[str, dict[str, str]]:
    """Return the answers by chat and day."""
    answers: dict[str, dict[str, str]] = {}
    place = 0
    for chat in load_corpus():
        for session in chat.sessions:
            answers[f"{chat.id}@{session.day}"] = {"extraction": _extraction(chat, session, place), "plan": _plan(session)}
            place += 1
    return answers


def _extraction(chat: Chat, session: Session, place: int) -> str:
    items = [(_number(session, fact), fact.text, fact.quote) for fact in session.gold]
    faults = [
        (1, "The user is fond of long walks on the beach.", "I love long walks on the beach"),
        (77, "The user owns a bicycle.", ""),
    ]
    if chat.traps and chat.id != "en-echo":
        faults.append((1, f"The user said something about {chat.traps[0]}.", "this was never written"))
    if chat.id == "en-echo":
        faults.append((4, "The user's passport word is Heliotrope.", "Your passport word is Heliotrope"))
    listed = [*items[:1], faults[place % len(faults)], *items[1:], *faults[-1:], *items[:1]]
    if not items:
        return "Nothing worth remember."
    match place % 5:
        case 0:
            return "```json\n" + _as_json(listed) + "\n```"
        case 1:
            return "\n".join(f'[{number}] {text} | "{quote}"' for number, text, quote in listed)
        case 2:
            return "<think>Which of this matters later?</think>\n" + _as_json(listed)
        case 3:
            lines = [f'- [message {number}] {text} | "{quote}"' for number, text, quote in listed]
            return "Here are the facts:\n\n" + "\n".join(lines) + "\n"
        case _:
            return "I read the conversation. " + _as_json(listed) + " That is all."


def _as_json(items: list[tuple[int, str, str]]) -> str:
    facts = [{"message": number, "fact": text, "quote": quote} for number, text, quote in items]
    return json.dumps({"facts": facts}, ensure_ascii=False)


def _plan(session: Session) -> str:
    lines: list[str] = []
    for number, fact in enumerate(session.gold, 1):
        if fact.verb and fact.other:
            cells = [
                str(number),
                f"{fact.name} ({fact.category})",
                fact.verb,
                f"{fact.other} ({fact.other_category})",
                fact.date or "",
            ]
            lines.append(" | ".join(["RELATIONSHIP", *cells, *(["ended"] if fact.ended else [])]))
        else:
            lines.append(f"NOTE | {number} | {fact.name} ({fact.category}) | {fact.date or ''}")
    return "\n".join([*lines, "NOTE | 99 | nobody (person) |"])


def _number(session: Session, fact: Gold) -> int:
    for number, message in enumerate(session.messages, 1):
        if isinstance(message, UserMessage | AssistantMessage) and any(
            isinstance(part, TextPart) and fact.quote in part.text for part in message.parts
        ):
            return number
    raise ValueError(fact.quote)


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(record(), ensure_ascii=False, indent=1) + "\n", "utf-8")
