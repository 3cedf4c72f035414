"""The prefix contract (issue 4 item 4): model servers reuse a prompt only up to its first changed byte.

A prompt is its system prompt, its tools and its messages, each as the bytes that travel. Within a turn every prompt begins with the
whole of the one before. Between two turns nothing before the previous turn's newest user message changes. What moves it on purpose
is a marked operation, and each has a part that it must leave alone too.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from shared_protocol.codec import encode_json
from shared_protocol.run import RunRequest
from shared_protocol.tools import ToolSpec

MarkedOperation = Literal["compaction", "truncation", "persona", "tools", "model"]


class Prompt(NamedTuple):
    """The elements of one model call, serialised."""

    system: bytes
    tools: tuple[bytes, ...]
    messages: tuple[bytes, ...]

    @property
    def elements(self) -> tuple[bytes, ...]:
        return (self.system, *self.tools, *self.messages)

    @property
    def question(self) -> int:
        """Index of the newest user message among the messages."""
        return max(index for index, message in enumerate(self.messages) if b'"role":"user"' in message[:40])

    @property
    def fixed(self) -> tuple[bytes, ...]:
        """What the next turn must not change."""
        return (self.system, *self.tools, *self.messages[: self.question])


class _GatewayBody(msgspec.Struct):
    messages: list[msgspec.Raw]
    tools: list[msgspec.Raw] = []


def prompt_of_run(request: RunRequest, tools: Sequence[ToolSpec] = ()) -> Prompt:
    """The prompt that a run starts with."""
    messages = tuple(encode_json(message) for message in request.messages)
    return Prompt((request.system_prompt or "").encode(), tuple(map(encode_json, tools)), messages)


def prompt_of_gateway(raw: bytes) -> Prompt:
    """The prompt of a request to a gateway, from the bytes of its body."""
    body = msgspec.json.decode(raw, type=_GatewayBody)
    system, *messages = (bytes(message) for message in body.messages)
    assert b'"role":"system"' in system[:40]
    return Prompt(system, tuple(bytes(tool) for tool in body.tools), tuple(messages))


def check_within_turn(prompts: Sequence[Prompt]) -> None:
    """Every call of a turn begins with the whole of the call before."""
    for earlier, later in itertools.pairwise(prompts):
        assert later.system == earlier.system
        assert later.tools == earlier.tools
        assert later.messages[: len(earlier.messages)] == earlier.messages


def check_between_turns(earlier: Prompt, later: Prompt) -> None:
    """``earlier`` is any call of a turn, ``later`` the first of the next one."""
    fixed = earlier.fixed
    same = next((index for index, (a, b) in enumerate(zip(fixed, later.elements, strict=False)) if a != b), len(fixed))
    assert later.elements[: len(fixed)] == fixed, f"the prefix moved at element {same} of {len(fixed)}"


def check_marked(operation: MarkedOperation, earlier: Prompt, later: Prompt, *, kept_messages: int = 0) -> None:
    """What a marked operation between two calls leaves alone, and that it really moved something."""
    match operation:
        case "compaction" | "truncation":
            assert (later.system, later.tools) == (earlier.system, earlier.tools)
            assert later.messages[:kept_messages] == earlier.messages[:kept_messages]
        case "persona":
            assert later.system != earlier.system
        case "tools":
            assert later.system == earlier.system
            assert later.tools != earlier.tools
        case "model":
            assert later.fixed[: len(earlier.fixed)] == earlier.fixed


class Recording:
    """The runs of turns in the order they were sent, by chat; filled by the brain of the turn tests."""

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[str, Prompt]]] = {}

    def add(self, chat_id: str, turn_id: str, request: RunRequest) -> None:
        self._runs.setdefault(chat_id, []).append((turn_id, prompt_of_run(request)))

    def clear(self) -> None:
        self._runs.clear()

    def check(self) -> None:
        """Compare all neighbouring runs of each chat."""
        for runs in self._runs.values():
            for (turn, earlier), (next_turn, later) in itertools.pairwise(runs):
                if turn == next_turn:
                    check_within_turn([earlier, later])
                else:
                    check_between_turns(earlier, later)


RECORDING = Recording()


def record(client: Any, turns: Any) -> None:
    """Note every run that a turn of this service sends through this client of the hand."""
    send = client.run_batches
    decode = msgspec.json.Decoder(RunRequest).decode

    def run_batches(body: bytes, *, request_id: str = "") -> Any:
        turn = next((turn for turn, task in turns._turns.items() if task is asyncio.current_task()), None)
        request = decode(body)
        if turn is not None and request.run_id in turns._parts.registry._runs:
            RECORDING.add(turn.request.chat_id, turn.turn_id, request)
        return send(body, request_id=request_id)

    client.run_batches = run_batches
