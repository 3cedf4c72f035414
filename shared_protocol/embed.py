"""Request and answer of ``POST /v1/embed``."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from shared_protocol.messages import NonBlank
from shared_protocol.run import NotNegative, Positive


class EmbedModel(msgspec.Struct, frozen=True, rename="camel"):
    """Which embedding model at which gateway."""

    base_url: NonBlank
    api_key: NonBlank
    model_id: NonBlank


class EmbedRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Texts to embed; ``timeoutMs`` bounds one attempt (0 = off), ``maxRetries`` counts all attempts (0 = unlimited)."""

    model: EmbedModel
    dimensions: Positive
    input: Annotated[tuple[NonBlank, ...], Meta(min_length=1)]
    max_retries: NotNegative
    timeout_ms: NotNegative
    additional_properties: dict[str, Raw] | None = None


class EmbedUsage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens as the gateway counted them."""

    prompt_tokens: int
    total_tokens: int


class EmbedAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One vector per input, in input order; ``dimensions`` is the length of the first."""

    vectors: list[list[float]]
    dimensions: int
    usage: EmbedUsage | None = None
