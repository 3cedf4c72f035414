"""Every default and every bound of the configuration (chat-domain section 20), and the spec README where it says otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brain.config.load import check, load_config
from brain.config.problems import ConfigError
from tests.unit.brain.config.test_load import change, problems, valid

HTTP = {"type": "http", "url": "https://tools.example/mcp", "toolExecutionTimeoutSeconds": 0}
STDIO = {"type": "stdio", "command": ["x"], "toolExecutionTimeoutSeconds": 0}
BASH = {"enabled": True}

DEFAULTS: dict[str, Any] = {
    "database.lock_pool_size": 100,
    "database.lock_connection_timeout": 3000,
    "server.host": "127.0.0.1",
    "server.port": 8080,
    "server.allowed_hosts": [],
    "server.allowed_origins": [],
    "server.token": None,
    "mcp.proxy": None,
    "mcp.customs.http.headers": {},
    "mcp.customs.http.initialization_timeout_seconds": None,
    "mcp.customs.http.reconnect_attempts": 3,
    "mcp.customs.http.reconnect_delay_ms": 1000,
    "mcp.customs.http.approval": "never",
    "mcp.customs.stdio.environment": {},
    "mcp.customs.stdio.initialization_timeout_seconds": None,
    "mcp.customs.stdio.reconnect_attempts": 3,
    "mcp.customs.stdio.reconnect_delay_ms": 1000,
    "mcp.customs.stdio.approval": "never",
    "tool.fs.enabled": False,
    "tool.fs.allowed_dirs": [],
    "tool.fs.blacklists": [],
    "tool.fs.approval": "never",
    "tool.bash.enabled": False,
    "tool.bash.shell_path": "/bin/bash",
    "tool.bash.workdir": None,
    "tool.bash.timeout_seconds": 120,
    "tool.bash.max_capture_bytes": 1_000_000,
    "tool.bash.approval": "ask",
    "memory.eltm.entity_match_threshold": "auto",
    "memory.eltm.note_search_threshold": "auto",
    "memory.eltm.max_writer_rounds": 150,
    "memory.eltm.queue_workers": 1,
    "memory.eltm.job_timeout_minutes": 30,
    "memory.eltm.retry_delay_minutes": 5,
    "agent.investigator.max_rounds": 150,
    "agent.investigator.tool_result_limit": 40_000,
    "agent.main.tool_result_limit": 40_000,
    "title.last_n_round": 0,
    "hand.max_rounds": 64,
    "hand.max_retries": 0,
    "hand.stream_idle_timeout_ms": 300_000,
    "hand.run_timeout_minutes": 120,
    "observability.one_shot_trace": False,
    "limits.json_body_bytes": 2**20,
    "limits.message_body_bytes": 64 * 2**20,
    "limits.images_per_message": 20,
    "limits.image_bytes": 8 * 2**20,
    "limits.chat_import_bytes": 64 * 2**20,
    "limits.bulk_import_bytes": 512 * 2**20,
    "limits.run_request_bytes": 48 * 2**20,
    "images.downscale_to": None,
    "approvals.unattended": "allow",
    "approvals.timeout_seconds": 300,
    "providers.main.llm.0.max_tokens_field": None,
    "providers.main.llm.0.additional_properties": None,
    "providers.main.embedding.0.additional_properties": None,
}

BOUNDS: list[tuple[str, Any, Any]] = [
    ("database/lockPoolSize", 1, None),
    ("database/lockConnectionTimeout", 1, None),
    ("providers/main/llm/0/contextLength", 1, None),
    ("providers/main/llm/0/maxOutputTokens", 1, None),
    ("providers/main/llm/0/compactionTriggerFraction", 0, 1),
    ("providers/main/llm/0/compactionKeepRounds", 1, None),
    ("providers/main/embedding/0/dimensions", 1, 2000),
    ("server/port", 1, 65535),
    ("mcp/proxy/port", 1, 65535),
    *(
        (f"mcp/customs/{kind}/{key}", low, None)
        for kind in ("http", "stdio")
        for key, low in (
            ("toolExecutionTimeoutSeconds", 0),
            ("initializationTimeoutSeconds", 1),
            ("reconnectAttempts", 1),
            ("reconnectDelayMs", 0),
        )
    ),
    ("tool/bash/timeoutSeconds", 1, None),
    ("tool/bash/maxCaptureBytes", 10_000, 2_147_483_647),
    ("memory/eltm/rewriteRounds", 1, None),
    ("memory/eltm/relatedEntitiesLimit", 0, None),
    ("memory/eltm/relatedNotesLimit", 0, None),
    ("memory/eltm/entityMatchThreshold", 0, 1),
    ("memory/eltm/noteSearchThreshold", 0, 1),
    ("memory/eltm/maxWriterRounds", 0, None),
    ("memory/eltm/queueWorkers", 1, None),
    ("memory/eltm/jobTimeoutMinutes", 1, None),
    ("memory/eltm/retryDelayMinutes", 1, None),
    ("agent/investigator/maxRounds", 0, None),
    ("agent/investigator/toolResultLimit", 1, None),
    ("agent/main/toolResultLimit", 1, None),
    ("title/lastNRound", 0, None),
    ("hand/maxRounds", 0, None),
    ("hand/maxRetries", 0, None),
    ("hand/streamIdleTimeoutMs", 0, None),
    ("hand/runTimeoutMinutes", 0, None),
    ("approvals/timeoutSeconds", 1, None),
    ("images/downscaleTo", 1, None),
]

REQUIRED = [
    "database",
    "database/url",
    "providers",
    "providers/main/apiKey",
    "providers/main/baseUrl",
    "providers/main/llm/0/modelId",
    "providers/main/llm/0/contextLength",
    "providers/main/llm/0/maxOutputTokens",
    "providers/main/llm/0/capabilities",
    "providers/main/llm/0/compactionTriggerFraction",
    "providers/main/llm/0/compactionKeepRounds",
    "providers/main/embedding/0/modelId",
    "providers/main/embedding/0/dimensions",
    "mcp/exa/toolExecutionTimeoutSeconds",
    "memory",
    "memory/compactModel",
    "memory/eltm",
    "memory/eltm/extractionModel",
    "memory/eltm/embeddingModel",
    "memory/eltm/writerModel",
    "memory/eltm/rewriteModel",
    "memory/eltm/rewriteRounds",
    "memory/eltm/relatedEntitiesLimit",
    "memory/eltm/relatedNotesLimit",
    "agent",
    "agent/investigator",
    "agent/investigator/model",
    "agent/investigator/allowedNamespaces",
    "title",
    "title/model",
    "hand",
    "hand/baseUrl",
    "hand/selfBaseUrl",
    "hand/token",
]


def minimal() -> dict[str, Any]:
    data = valid()
    for key in ("queueWorkers", "jobTimeoutMinutes", "retryDelayMinutes"):
        del data["memory"]["eltm"][key]
    data["mcp"] = {"customs": {"http": HTTP, "stdio": STDIO}}
    return data


def look_up(config: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(config, dict):
            config = config[step]
        elif isinstance(config, list):
            config = config[int(step)]
        else:
            config = getattr(config, step)
    return config


def with_value(path: str, value: Any) -> dict[str, Any]:
    data = change(path, value)
    if path.startswith("mcp/customs/"):
        kind = path.split("/")[2]
        data["mcp"]["customs"][kind] = {**(HTTP if kind == "http" else STDIO), **data["mcp"]["customs"][kind]}
    if path.startswith("mcp/proxy/"):
        data["mcp"]["proxy"].setdefault("host", "proxy")
    if path.startswith("tool/bash/"):
        data["tool"]["bash"]["enabled"] = True
    return data


def dotted(path: str) -> str:
    return path.replace("/0/", "[0].").replace("/", ".")


@pytest.mark.parametrize("path", DEFAULTS)
def test_a_default_is_the_documented_one(path: str) -> None:
    assert look_up(check(minimal(), {}, source="test"), path) == DEFAULTS[path]


@pytest.mark.parametrize(("path", "low", "high"), BOUNDS)
def test_a_bound_is_the_documented_one(path: str, low: float, high: float | None) -> None:
    step = 0.01 if "Fraction" in path or "Threshold" in path else 1
    for value in (low, low + step) if high is None else (low, high):
        check(with_value(path, value), {}, source="test")
    for value in (low - step,) if high is None else (low - step, high + step):
        assert list(problems(with_value(path, value))) == [dotted(path)]


@pytest.mark.parametrize("path", REQUIRED)
def test_a_required_key_that_is_missing_is_named(path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(change(path, ...), {}, source="test")
    assert (dotted(path), "is missing") in {(problem.path, problem.message) for problem in caught.value.problems}


@pytest.mark.parametrize("text", ["8080.0", "8.08e3"])
def test_a_whole_number_may_be_written_with_a_fraction_or_an_exponent(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.jsonc"
    data = change("server/port", "PORT")
    data["providers"]["main"]["llm"][0]["additionalProperties"] = {"temperature": 1.0}
    file.write_text(json.dumps(data).replace('"PORT"', text))
    config = load_config(file, {"LIMITS__IMAGE_BYTES": "1e6"})
    assert (config.server.port, config.limits.image_bytes) == (8080, 1_000_000)
    assert bytes((config.providers["main"].llm[0].additional_properties or {})["temperature"]) == b"1.0"


@pytest.mark.parametrize("value", [8080.5, 1e400, -0.5])
def test_other_numbers_are_not_whole(value: float) -> None:
    assert list(problems(change("server/port", value))) == ["server.port"]


def test_the_thresholds_are_fractions_or_auto() -> None:
    for key in ("entityMatchThreshold", "noteSearchThreshold"):
        for value in (0.5, "auto"):
            check(change(f"memory/eltm/{key}", value), {}, source="test")


@pytest.mark.parametrize("address", ["http://h", "https://h:1/prefix", "http://[::1]:8080/a/b"])
def test_addresses_of_the_hand_may_have_a_prefix(address: str) -> None:
    for key in ("baseUrl", "selfBaseUrl"):
        check(change(f"hand/{key}", address), {}, source="test")


@pytest.mark.parametrize("address", ["http://h/", "http://h?a=b", "http://h#x", "http://h/a b", "ftp://h", "h:1", "http://", ""])
def test_addresses_of_the_hand_have_nothing_behind_the_path(address: str) -> None:
    for key in ("baseUrl", "selfBaseUrl"):
        assert list(problems(change(f"hand/{key}", address))) == [f"hand.{key}"]


@pytest.mark.parametrize(
    "where", ["", "server", "memory", "memory/eltm", "hand", "tool/bash", "providers/main", "providers/main/llm/0"]
)
def test_an_unknown_key_is_an_error_everywhere(where: str) -> None:
    path = f"{where}/whatever" if where else "whatever"
    assert problems(change(path, 1)) == {dotted(path): "unknown key"}


def test_a_schema_key_is_allowed_at_the_top_as_a_text_only() -> None:
    check(change("$schema", "./config.schema.json"), {}, source="test")
    assert list(problems(change("$schema", 1))) == ["$schema"]
