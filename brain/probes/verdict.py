"""Where the configuration of a model and its measurement disagree, in words that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from brain.catalog import ChatModel, EmbeddingModel
    from brain.probes.probe import Measurement

_CAPABILITIES: Final = (("tool_calls", "tool calls"), ("structured_output", "JSON by schema"), ("image", "images"))


def chat_disagreements(model: ChatModel, measured: Measurement) -> list[str]:
    """Return what should be changed; empty when all agrees or nothing can be said."""
    if not measured.reachable:
        return [f"the server does not answer for this model ({measured.error}): check baseUrl, apiKey and modelId"]
    found: list[str] = []
    window = measured.context_length
    if window is not None and window < model.context_length:
        found.append(
            f"contextLength is {model.context_length}, the server was started with {window}: lower it or start it with more"
        )
    for token, words in _CAPABILITIES:
        value: bool | None = getattr(measured, token)
        if model.can(token) and value is False:
            found.append(f"{words} do not work: remove {token!r} from capabilities, or switch them on in the server")
        if not model.can(token) and value is True:
            found.append(f"{words} work: add {token!r} to capabilities")
    return found


def embedding_disagreements(model: EmbeddingModel, measured: Measurement) -> list[str]:
    """Return what should be changed."""
    if not measured.reachable:
        return [f"the server does not answer for this model ({measured.error}): check baseUrl, apiKey and modelId"]
    if measured.dimensions != model.dimensions:
        return [f"dimensions is {model.dimensions}, the vectors have {measured.dimensions}: correct the configuration"]
    return []
