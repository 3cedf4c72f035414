"""A message from request to stored answer, against a scripted hand."""

from __future__ import annotations

from shared_protocol.messages import AssistantMessage, TextPart, UserMessage
from tests.integration.turns.conftest import Brain, names, text_of_events


async def test_an_answer_is_streamed_and_stored_before_done(brain: Brain) -> None:
    await brain.create_chat()
    events = await brain.send("What is up?")
    assert names(events) == ["comment", "memory", "context", "text", "usage", "done"]
    assert events[0].raw == b"connected"
    assert text_of_events(events) == "Hello there."
    chat = await brain.load()
    question, answer = chat.messages
    assert isinstance(question, UserMessage)
    assert question.parts == (TextPart("What is up?"),)
    assert question.created_at is not None
    assert isinstance(answer, AssistantMessage)
    assert answer.parts == (TextPart("Hello there."),)
    assert answer.created_at is not None
    assert chat.eltm_version == "0"
