"""What the prompts have to say (chat-domain sections 7.3, 8, 9, 12.3), and that every prompt file can be read."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

import brain
from brain.chats import titles
from brain.personas.service import _read_default_prompt
from brain.prompts import Prompt, read_prompt
from brain.turns.system_prompt import render_system_prompt

FULL = render_system_prompt("You are a parrot.\n  Inner indentation stays.", with_memory=True)
REDUCED = render_system_prompt("You are a parrot.", with_memory=False)


def prompt_files() -> list[Path]:
    return sorted(Path(str(files(brain))).glob("**/prompts/*.en.md"))


@pytest.mark.parametrize("path", prompt_files(), ids=lambda path: path.stem)
def test_every_prompt_file_names_its_version(path: Path) -> None:
    head, _, text = path.read_text(encoding="utf-8").partition("\n")
    assert re.fullmatch(r"version: [a-z0-9-]+", head)
    assert text.strip()


def test_the_persona_comes_first_and_unchanged() -> None:
    assert FULL.startswith("You are a parrot.\n  Inner indentation stays.\n\n")
    assert REDUCED.startswith("You are a parrot.\n\n")
    assert render_system_prompt("x", with_memory=True) == render_system_prompt("x", with_memory=True)


@pytest.mark.parametrize(
    "words",
    [
        "session context",
        "external long-term memory",
        "ELTM",
        "CONTEXT COMPACTION:",
        "diary",
        "fed to it directly",
        "gsg__investigate",
        "temporary sub-agent",
        "sees nothing of this conversation",
        "single report",
        "changes slowly",
        "<meta>",
        "<sent-at>",
        "server's present time zone",
        "relative dates",
        "<injection>",
        "Only the newest user message",
        "always comes first",
        "must not be trusted",
        "<real-time-info>",
        "<localtime>",
        "<eltm-updated>",
        "disappears",
        "restate it",
        "<memories>",
        "<related-entities>",
        "<related-notes>",
        "`id`",
        "`name`",
        "`category`",
        "`date`",
        "`subject-type`",
        "`src-name`",
        "`verb`",
        "`dst-name`",
        "not all that is known",
        "may well exist",
    ],
)
def test_the_full_introduction_explains(words: str) -> None:
    assert words in " ".join(FULL.split())


@pytest.mark.parametrize(
    "words",
    [
        "CONTEXT COMPACTION:",
        "<meta>",
        "<sent-at>",
        "<injection>",
        "<localtime>",
        "always comes first",
        "must not be trusted",
        "restate it",
    ],
)
def test_the_reduced_introduction_explains(words: str) -> None:
    assert words in " ".join(REDUCED.split())


@pytest.mark.parametrize(
    "words", ["ELTM", "long-term", "investigate", "eltm-updated", "memories", "memory", "gsg", "GSG", "diary", "sub-agent"]
)
def test_the_reduced_introduction_is_silent_about_the_memory(words: str) -> None:
    assert words not in REDUCED


@pytest.mark.parametrize(
    "words",
    [
        "latest goal",
        "earlier goals",
        "Decisions",
        "constraints and preferences",
        "verbatim",
        "Names, numbers, dates, identifiers",
        "file names",
        "Errors",
        "what fixed them",
        "still open",
        "Findings from tools",
        "its source",
        "Not the raw output",
        "earlier summary",
        "language of the conversation",
        "plain text",
        "about 500 words",
        "invent nothing",
        "never the words `CONTEXT COMPACTION:`",
    ],
)
def test_the_summary_is_asked_for(words: str) -> None:
    assert words in " ".join(read_prompt("brain.context", "compact").text.split())


@pytest.mark.parametrize(
    "words", ["one line", "at most 15 words", "language in which the conversation is held", "core topic", "latest one"]
)
def test_the_title_is_asked_for(words: str) -> None:
    assert words in " ".join(titles.read_prompt().split())
    assert titles.MAX_TITLE_CHARS == 200


@pytest.mark.parametrize(
    "words", ["personal assistant", "GSG harness", "hand over", "look up with your tools", "Do not end an answer with a question"]
)
def test_the_default_persona_says(words: str) -> None:
    assert words in " ".join(_read_default_prompt().split())


def test_a_prompt_is_filled_in_one_pass_and_a_missing_field_is_an_error() -> None:
    class Fields(msgspec.Struct, frozen=True):
        first: str
        second: int

    assert Prompt("v", "{{first}} and {{second}}").fill(Fields("{{second}}", 7)) == "{{second}} and 7"
    for text in ("{{first}} alone", "{{first}}, {{second}} and {{third}}"):
        with pytest.raises(KeyError):
            Prompt("v", text).fill(Fields("x", 7))
