"""What a model can be declared to do: the closed set of capability tokens (chat-domain §13.1)."""

from typing import Final

REASONING_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
REASONING_PREFIX: Final = "reasoning:"
PLAIN_CAPABILITIES: Final = frozenset({"image", "video", "audio", "document", "tool_calls", "structured_output"})
