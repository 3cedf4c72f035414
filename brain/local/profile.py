"""The local profile: what ``daapu up`` assumes where the configuration says nothing."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final, cast

from brain.local.chat_engine import CHAT_MODEL, CONTEXT_LENGTH
from brain.local.embedding_engine import DIMENSIONS, EMBEDDING_MODEL

if TYPE_CHECKING:
    from brain.config.schema import Json, JsonObject

PROVIDER: Final = "local"
_CHAT_ID: Final = f"{PROVIDER}/{CHAT_MODEL}"
_EMBEDDING_ID: Final = f"{PROVIDER}/{EMBEDDING_MODEL}"


def needs_local_models(data: JsonObject) -> bool:
    """Whether the file names no provider."""
    return not data.get("providers")


def complete(data: JsonObject, *, token: str, hand_port: int, models_port: int) -> JsonObject:
    """Return the configuration with everything filled in that may be left out under ``daapu up``.

    A file that names providers chooses its models itself; database and hand are filled in for both.
    """
    server = data.get("server")
    port = server.get("port", 8080) if isinstance(server, dict) else 8080
    defaults: JsonObject = {
        "database": {"url": "embedded"},
        "hand": {
            "baseUrl": f"http://127.0.0.1:{hand_port}",
            "selfBaseUrl": f"http://127.0.0.1:{port}",
            "token": token,
        },
    }
    if needs_local_models(data):
        defaults |= _models(models_port)
    return cast("JsonObject", _merged(defaults, data))


def _models(port: int) -> JsonObject:
    return {
        "providers": {
            PROVIDER: {
                "apiKey": "local",
                "baseUrl": f"http://127.0.0.1:{port}/v1",
                "llm": [
                    {
                        "modelId": CHAT_MODEL,
                        "contextLength": CONTEXT_LENGTH,
                        "maxOutputTokens": 1024,
                        "capabilities": ["structured_output"],
                        "compactionTriggerFraction": 0.7,
                        "compactionKeepRounds": 2,
                        "demo": True,
                    },
                ],
                "embedding": [
                    {
                        "modelId": EMBEDDING_MODEL,
                        "dimensions": DIMENSIONS,
                        # The model embeds questions and stored texts differently; this key says that its server takes which.
                        "additionalProperties": {"input_type": "passage"},
                    },
                ],
            },
        },
        "memory": {
            "compactModel": _CHAT_ID,
            "eltm": {
                "extractionModel": _CHAT_ID,
                "embeddingModel": _EMBEDDING_ID,
                "writerModel": _CHAT_ID,
                "rewriteModel": _CHAT_ID,
                "rewriteRounds": 2,
                "relatedEntitiesLimit": 5,
                "relatedNotesLimit": 8,
            },
        },
        "agent": {"investigator": {"model": _CHAT_ID, "allowedNamespaces": ["eltm"]}},
        "title": {"model": _CHAT_ID, "lastNRound": 1},
    }


def _merged(defaults: Json, given: Json) -> Json:
    if not isinstance(defaults, dict) or not isinstance(given, dict):
        return copy.deepcopy(given)
    keys = [*defaults, *(key for key in given if key not in defaults)]
    return {
        key: _merged(defaults[key], given[key]) if key in defaults and key in given else copy.deepcopy({**defaults, **given}[key])
        for key in keys
    }
