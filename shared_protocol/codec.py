"""Ready encoders and decoders: compact JSON, nulls omitted, ``isError`` written, ``type`` and ``role`` first."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shared_protocol.embed import EmbedAnswer
from shared_protocol.errors import ErrorBody
from shared_protocol.messages import Message
from shared_protocol.run import EVENT_NAMES, EVENT_TYPES, RunEvent
from shared_protocol.sse import ServerSentEvent, encode_event
from shared_protocol.tools import ToolListing, ToolRequest

_encoder = msgspec.json.Encoder()
_messages_decoder = msgspec.json.Decoder(tuple[Message, ...])
_event_decoders = {name: msgspec.json.Decoder(struct) for name, struct in EVENT_TYPES.items()}

embed_answer_decoder = msgspec.json.Decoder(EmbedAnswer)
error_body_decoder = msgspec.json.Decoder(ErrorBody)
tool_request_decoder = msgspec.json.Decoder(ToolRequest)
tool_listing_decoder = msgspec.json.Decoder(ToolListing)


def encode_json(value: object) -> bytes:
    """Return any struct of this package as compact JSON."""
    return _encoder.encode(value)


def encode_messages(messages: Sequence[Message]) -> bytes:
    """Return a message list as it is stored, served, exported and sent."""
    return _encoder.encode(messages)


def decode_messages(data: bytes | str) -> tuple[Message, ...]:
    """Read a message list; unknown keys are dropped.

    Raises:
        msgspec.DecodeError: the text is no JSON; its subclass ``ValidationError`` names the place of a broken rule.
    """
    return _messages_decoder.decode(data)


def encode_run_event(event: RunEvent) -> bytes:
    """Return an event of a run as the bytes of one server-sent event."""
    return encode_event(EVENT_NAMES[type(event)], _encoder.encode(event))


def decode_run_event(event: ServerSentEvent) -> RunEvent | None:
    """Read an event of a run; ``None`` for a name this version does not know.

    Raises:
        msgspec.DecodeError: the data does not fit the event.
    """
    decoder = _event_decoders.get(event.name)
    return None if decoder is None else decoder.decode(event.data)
