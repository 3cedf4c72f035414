"""Where the configuration of a model and its measurement disagree, in words that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brain.catalog import Catalog, ChatModel, EmbeddingModel
    from brain.config.models import Config
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


def weak_roles(config: Config, catalog: Catalog) -> dict[str, str]:
    """Return, by key of the configuration, what a model without tool calls means for the work it is given."""
    effects = {
        "memory.eltm.writerModel": (config.memory.eltm.writer_model, "memories are written from a plan instead of by tools"),
        "agent.investigator.model": (config.agent.investigator.model, "the tool gsg__investigate is not offered"),
    }
    return {
        key: f"{model_id} has no tool_calls: {effect}"
        for key, (model_id, effect) in effects.items()
        if (model := catalog.find_chat_model(model_id)) is not None and not model.can("tool_calls")
    }


def boot_warnings(config: Config, catalog: Catalog, measured: Mapping[str, Measurement]) -> list[str]:
    """Return what a person should know at the start: weak roles, and where configuration and measurement disagree.

    Whether a server was reachable when it was measured says nothing about now.
    """
    found = [f"{key}: {text}" for key, text in weak_roles(config, catalog).items()]
    for model in catalog.chat_models:
        if (known := measured.get(model.id)) is not None and known.reachable:
            found += [f"{model.id}: {text}" for text in chat_disagreements(model, known)]
    for embedding in catalog.embedding_models:
        if (known := measured.get(embedding.id)) is not None and known.reachable:
            found += [f"{embedding.id}: {text}" for text in embedding_disagreements(embedding, known)]
    return found
