"""The model catalog: which models there are, in configuration order, and what each can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

import msgspec

from brain.config.capabilities import PLAIN_CAPABILITIES, REASONING_EFFORTS, REASONING_PREFIX
from brain.errors import CapabilityError, InvalidInputError
from shared_protocol.embed import EmbedModel
from shared_protocol.messages import AttachmentKind, AttachmentPart, ContentPart, Message, ToolResultMessage, UserMessage
from shared_protocol.run import RunModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from brain.config.models import ChatModelConfig, EmbeddingModelConfig, ProviderConfig

ModelId = NewType("ModelId", str)
"""Catalog id ``{providerId}/{modelId}``; the model part may contain slashes."""

KIND_CAPABILITY: dict[AttachmentKind, str] = {"image": "image", "video": "video", "audio": "audio", "file": "document"}


class CatalogError(Exception):
    """The configured models contradict themselves; the start-up ends with this message."""


class ChatModel(msgspec.Struct, frozen=True):
    """A chat model, ready to be sent to."""

    id: ModelId
    provider: ProviderConfig
    config: ChatModelConfig
    reasoning_effort: str | None

    @property
    def context_length(self) -> int:
        """Window in tokens."""
        return self.config.context_length

    @property
    def max_output_tokens(self) -> int:
        """Output budget of one LLM call, in tokens."""
        return self.config.max_output_tokens

    def can(self, capability: str) -> bool:
        """Whether the model is configured with a plain capability token."""
        return capability in self.config.capabilities

    def run_model(self) -> RunModel:
        """Return the model as the hand wants it."""
        return RunModel(
            base_url=self.provider.base_url,
            api_key=self.provider.api_key,
            model_id=self.config.model_id,
            context_window=self.config.context_length,
            max_output_tokens=self.config.max_output_tokens,
            reasoning=self.reasoning_effort is not None,
            reasoning_effort=self.reasoning_effort,
            input=("text", "image") if self.can("image") else ("text",),
            max_tokens_field=self.config.max_tokens_field,
            additional_properties=self.config.additional_properties,
        )


class EmbeddingModel(msgspec.Struct, frozen=True):
    """An embedding model."""

    id: ModelId
    provider: ProviderConfig
    config: EmbeddingModelConfig

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self.config.dimensions

    def embed_model(self) -> EmbedModel:
        """Return the model as the hand wants it."""
        return EmbedModel(base_url=self.provider.base_url, api_key=self.provider.api_key, model_id=self.config.model_id)


class Catalog:
    """All configured models by id; iteration keeps the order of the configuration."""

    def __init__(self, chat_models: Iterable[ChatModel], embedding_models: Iterable[EmbeddingModel]) -> None:
        self._chat = {model.id: model for model in chat_models}
        self._embedding = {model.id: model for model in embedding_models}

    @property
    def chat_models(self) -> list[ChatModel]:
        """Chat models in configuration order."""
        return list(self._chat.values())

    @property
    def embedding_models(self) -> list[EmbeddingModel]:
        """Embedding models in configuration order."""
        return list(self._embedding.values())

    def find_chat_model(self, model_id: str) -> ChatModel | None:
        """Look a chat model up."""
        return self._chat.get(ModelId(model_id))

    def get_chat_model(self, model_id: str) -> ChatModel:
        """Return a chat model.

        Raises:
            InvalidInputError: the catalog has no chat model of that id.
        """
        model = self.find_chat_model(model_id)
        if model is None:
            raise InvalidInputError(f"unknown model {model_id!r}; configured are: {', '.join(self._chat)}")
        return model

    def find_embedding_model(self, model_id: str) -> EmbeddingModel | None:
        """Look an embedding model up."""
        return self._embedding.get(ModelId(model_id))


def build_catalog(providers: Mapping[str, ProviderConfig]) -> Catalog:
    """Return the catalog of a configuration.

    Raises:
        CatalogError: no chat model at all, an id twice, an unknown capability, two reasoning tokens.
    """
    chat: list[ChatModel] = []
    embedding: list[EmbeddingModel] = []
    seen: set[str] = set()
    for provider_id, provider in providers.items():
        for config in provider.llm:
            model_id = _claim_id(seen, provider_id, config.model_id)
            chat.append(ChatModel(model_id, provider, config, _reasoning_effort(model_id, config.capabilities)))
        embedding.extend(
            EmbeddingModel(_claim_id(seen, provider_id, config.model_id), provider, config) for config in provider.embedding
        )
    if not chat:
        raise CatalogError("no chat model is configured: add an entry to providers.<id>.llm")
    return Catalog(chat, embedding)


def check_content(model: ChatModel, messages: Iterable[Message]) -> None:
    """Refuse a prompt with attachments that the model cannot read, those inside tool results included.

    Raises:
        CapabilityError: naming the model and the first unsupported kind.
    """
    for message in messages:
        if isinstance(message, UserMessage):
            check_parts(model, message.parts)
        elif isinstance(message, ToolResultMessage):
            check_parts(model, message.result.parts)


def check_parts(model: ChatModel, parts: Iterable[ContentPart]) -> None:
    """Refuse parts whose attachments the model cannot read.

    Raises:
        CapabilityError: naming the model and the first unsupported kind.
    """
    for part in parts:
        if isinstance(part, AttachmentPart) and not model.can(KIND_CAPABILITY[part.kind]):
            raise CapabilityError(f"model {model.id!r} cannot process content of kind {part.kind!r}")


def _claim_id(seen: set[str], provider_id: str, model_id: str) -> ModelId:
    full = f"{provider_id}/{model_id}"
    if full in seen:
        raise CatalogError(f"model id {full!r} is configured twice")
    seen.add(full)
    return ModelId(full)


def _reasoning_effort(model_id: ModelId, capabilities: list[str]) -> str | None:
    efforts: list[str] = []
    for token in capabilities:
        if token.startswith(REASONING_PREFIX) and token.removeprefix(REASONING_PREFIX) in REASONING_EFFORTS:
            efforts.append(token.removeprefix(REASONING_PREFIX))
        elif token not in PLAIN_CAPABILITIES:
            raise CatalogError(f"model {model_id!r}: unknown capability {token!r}")
    if len(set(capabilities)) != len(capabilities) or len(efforts) > 1:
        raise CatalogError(f"model {model_id!r}: a capability is given twice, or more than one reasoning effort")
    return efforts[0] if efforts else None
