"""The local profile: complete by itself, and never in the way of what a file says."""

from __future__ import annotations

from typing import Any

from brain.config.load import check
from brain.local.profile import complete, needs_local_models


def build(data: dict[str, Any]) -> Any:
    return check(complete(data, token="t", hand_port=3100, models_port=3180), {}, source="test")


def test_without_any_configuration_the_profile_is_complete() -> None:
    config = build({})
    assert config.database.url == "embedded"
    assert config.hand.self_base_url == "http://127.0.0.1:8080"
    assert [model.demo for model in config.providers["local"].llm] == [True]
    assert config.server.host == "127.0.0.1"


def test_what_a_file_says_holds() -> None:
    config = build({"server": {"port": 9000}, "title": {"model": "local/smollm2-135m-instruct", "lastNRound": 4}})
    assert config.hand.self_base_url == "http://127.0.0.1:9000"
    assert config.title.last_n_round == 4


def test_a_file_with_providers_gets_no_bundled_model() -> None:
    llm = {
        "modelId": "m",
        "contextLength": 9,
        "maxOutputTokens": 9,
        "capabilities": [],
        "compactionTriggerFraction": 0,
        "compactionKeepRounds": 1,
    }
    data = {
        "providers": {
            "x": {"apiKey": "k", "baseUrl": "http://h/v1", "llm": [llm], "embedding": [{"modelId": "e", "dimensions": 3}]}
        },
        "memory": {
            "compactModel": "x/m",
            "eltm": {
                "extractionModel": "x/m",
                "embeddingModel": "x/e",
                "writerModel": "x/m",
                "rewriteModel": "x/m",
                "rewriteRounds": 1,
                "relatedEntitiesLimit": 0,
                "relatedNotesLimit": 0,
            },
        },
        "agent": {"investigator": {"model": "x/m", "allowedNamespaces": ["eltm"]}},
        "title": {"model": "x/m"},
    }
    assert not needs_local_models(data)
    config = build(data)
    assert list(config.providers) == ["x"]
    assert config.database.url == "embedded"
    assert config.hand.token == "t"
