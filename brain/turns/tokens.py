"""Token counts of text: by a real vocabulary where it can be loaded, otherwise estimated from the bytes.

The models are not OpenAI's, so every count here is an estimate that decides early, never exactly.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Final, Protocol, cast

import structlog

logger = structlog.get_logger(__name__)

_ENCODING: Final = "cl100k_base"
_BYTES_PER_TOKEN: Final = 4
MAX_COUNTED_CHARS: Final = 200_000
"""Of one text: counting megabytes would hold up every other turn, and the rest is like the beginning."""
IMAGE_TOKENS: Final = 1000
"""What an image costs, roughly, whatever its size: vision models scale it down first."""


class _Counter(Protocol):
    def count(self, text: str) -> int: ...


def estimate_tokens(text: str) -> int:
    """Return the estimate that needs no vocabulary: a quarter of the UTF-8 bytes, at least 1 for any text."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text; of a very long one as many as its beginning lets expect."""
    counter = _load_counter()
    if counter is None:
        return estimate_tokens(text)
    if len(text) <= MAX_COUNTED_CHARS:
        return counter.count(text)
    return counter.count(text[:MAX_COUNTED_CHARS]) * len(text) // MAX_COUNTED_CHARS


def load_vocabulary() -> None:
    """Load the vocabulary now (a tenth of a second, 35 MB): in a thread at the start, so that no turn waits for it."""
    _load_counter()


@lru_cache(maxsize=256)
def count_tokens_cached(text: str) -> int:
    """Return the number of tokens of a text that comes again and again: a system prompt, a tool list."""
    return count_tokens(text)


@cache
def _load_counter() -> _Counter | None:
    # The package's own front doubles the memory with Python tables that only decoding needs, hence the extension alone.
    try:
        package = find_spec("bpe_openai")
        folder = Path((package.submodule_search_locations or [""])[0]) if package else Path()
        path = next(iter(sorted(folder.glob("_bindings*.so")) or sorted(folder.glob("_bindings*.pyd"))))
        spec = spec_from_file_location("_bindings", path, loader=ExtensionFileLoader("_bindings", str(path)))
        if spec is None or spec.loader is None:
            return None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return cast("_Counter", module.tokenizer_for_encoding(_ENCODING))
    except (ImportError, StopIteration, AttributeError, ValueError, OSError) as problem:
        logger.warning("token counts are estimated: the vocabulary cannot be loaded", reason=str(problem))
        return None
