"""Reading the configuration: every mistake at once, each with its place, never with a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.config.load import check, load_config
from brain.config.problems import ConfigError
from brain.config.schema import schema_text

ROOT = Path(__file__).parents[4]


def valid() -> dict[str, Any]:
    return {
        "database": {"url": "jdbc:postgresql://db:5432/daapu", "user": "u", "password": "p"},
        "providers": {
            "main": {
                "apiKey": "k",
                "baseUrl": "http://127.0.0.1:8000/v1",
                "llm": [
                    {
                        "modelId": "qwen",
                        "contextLength": 32000,
                        "maxOutputTokens": 4000,
                        "capabilities": ["tool_calls"],
                        "compactionTriggerFraction": 0.8,
                        "compactionKeepRounds": 2,
                    },
                ],
                "embedding": [{"modelId": "e5", "dimensions": 384}],
            },
        },
        "mcp": {"exa": {"type": "http", "url": "https://mcp.exa.ai/mcp", "toolExecutionTimeoutSeconds": 30}},
        "memory": {
            "compactModel": "main/qwen",
            "eltm": {
                "extractionModel": "main/qwen",
                "embeddingModel": "main/e5",
                "writerModel": "main/qwen",
                "rewriteModel": "main/qwen",
                "rewriteRounds": 2,
                "relatedEntitiesLimit": 5,
                "relatedNotesLimit": 5,
                "queueWorkers": 1,
                "jobTimeoutMinutes": 30,
                "retryDelayMinutes": 5,
            },
        },
        "agent": {"investigator": {"model": "main/qwen", "allowedNamespaces": ["eltm"]}},
        "title": {"model": "main/qwen"},
        "hand": {"baseUrl": "http://127.0.0.1:3100", "selfBaseUrl": "http://127.0.0.1:8080", "token": "t"},
    }


def problems(data: Any, environ: dict[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        check(data, environ or {}, source="test")
    return {problem.path: problem.message for problem in caught.value.problems}


def change(path: str, value: Any) -> dict[str, Any]:
    data = valid()
    node: Any = data
    *parents, last = path.split("/")
    for step in parents:
        node = node[int(step)] if isinstance(node, list) else node.setdefault(step, {})
    if value is ...:
        del node[last]
    elif isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value
    return data


def test_a_reference_configuration_is_accepted() -> None:
    config = check(valid(), {}, source="test")
    assert config.database.url == "postgresql://u:p@db:5432/daapu"
    assert config.server.port == 8080
    assert config.hand.max_rounds == 64
    assert config.memory.eltm.max_writer_rounds == 150


def test_exa_and_mcp_are_optional() -> None:
    assert check(change("mcp", ...), {}, source="test").mcp.exa is None


def test_all_mistakes_are_reported_at_once_with_their_paths() -> None:
    data = valid()
    data["database"]["url"] = 7
    data["providers"]["main"]["llm"][0]["contextLength"] = 0
    data["providers"]["main"]["llm"][0]["compactionTriggerFraction"] = 1.5
    data["hand"]["token"] = "  "
    data["hand"]["baseUrl"] = "http://h:1/"
    data["titel"] = data.pop("title")
    data["memory"]["eltm"]["writerModel"] = "main/qwenn"
    data["mcp"]["exa"] = {"type": "http", "url": "ftp://x", "toolExecutionTimeoutSeconds": -1, "extra": 1}
    data["mcp"]["customs"] = {"a__b": {"type": "stdio", "command": [], "toolExecutionTimeoutSeconds": 0}}
    assert problems(data) == {
        "database.url": "must be a string",
        "providers.main.llm[0].contextLength": "must be at least 1",
        "providers.main.llm[0].compactionTriggerFraction": "must be at most 1",
        "hand.token": "must not be blank",
        "hand.baseUrl": "must be an http(s):// address without trailing slash, query or fragment",
        "title": "is missing",
        "titel": "unknown key",
        "memory.eltm.writerModel": "no chat model 'main/qwenn' in providers",
        "mcp.exa.url": "must be an http:// or https:// address",
        "mcp.exa.toolExecutionTimeoutSeconds": "must be at least 0",
        "mcp.exa.extra": "unknown key",
        "mcp.customs.a__b": "a namespace has lower-case letters, digits, '-' and single '_' inside only",
        "mcp.customs.a__b.command": "must not be empty",
    }


def test_hints_name_what_was_probably_meant() -> None:
    data = change("server", {"prot": 1})
    data["title"]["model"] = "main/qven"
    with pytest.raises(ConfigError) as caught:
        check(data, {}, source="my.jsonc")
    text = str(caught.value)
    assert text.startswith("my.jsonc: 2 mistakes\n")
    assert "server.prot: unknown key (did you mean 'port'?)" in text
    assert "did you mean 'main/qwen'?" in text


def test_a_missing_section_is_said_to_be_in_the_example() -> None:
    data = valid()
    del data["title"]
    with pytest.raises(ConfigError, match=r"title: is missing \(config\.example\.jsonc shows it"):
        check(data, {}, source="my.jsonc")


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("database/url", "mysql://x/y", "database.url"),
        ("database/user", ..., "database.user"),
        ("database/password", ..., "database.password"),
        ("database/lockPoolSize", 0, "database.lockPoolSize"),
        ("providers/Main", {"apiKey": "k", "baseUrl": "http://x/v1"}, "providers.Main"),
        ("providers/main/baseUrl", "localhost:8000", "providers.main.baseUrl"),
        ("providers/main/llm/0/capabilities", ["tool_calls", "fly"], "providers.main.llm[0].capabilities"),
        ("providers/main/llm/0/capabilities", ["tool_calls", "tool_calls"], "providers.main.llm[0].capabilities"),
        ("providers/main/llm/0/capabilities", ["reasoning:low", "reasoning:high"], "providers.main.llm[0].capabilities"),
        ("providers/main/llm/0/capabilities", [" "], "providers.main.llm[0].capabilities[0]"),
        ("providers/main/llm/0/additionalProperties", {"stream": False}, "providers.main.llm[0].additionalProperties.stream"),
        ("providers/main/embedding/0/dimensions", 2001, "providers.main.embedding[0].dimensions"),
        (
            "providers/main/embedding/0/additionalProperties",
            {"input": 1},
            "providers.main.embedding[0].additionalProperties.input",
        ),
        ("server/port", 65536, "server.port"),
        ("server/port", 8080.5, "server.port"),
        ("mcp/customs", {"eltm": {"type": "stdio", "command": ["x"], "toolExecutionTimeoutSeconds": 1}}, "mcp.customs.eltm"),
        ("mcp/customs", {"exa": {"type": "stdio", "command": ["x"], "toolExecutionTimeoutSeconds": 1}}, "mcp.customs.exa"),
        ("mcp/customs", {"a": {"type": "sse", "url": "http://x"}}, "mcp.customs.a.type"),
        ("mcp/customs", {"a": {"type": "stdio", "command": ["x"]}}, "mcp.customs.a.toolExecutionTimeoutSeconds"),
        ("mcp/proxy", {"host": " ", "port": 1}, "mcp.proxy.host"),
        ("tool/fs", {"enabled": True}, "tool.fs.allowedDirs"),
        ("tool/fs", {"enabled": True, "allowedDirs": ["/x", " "]}, "tool.fs.allowedDirs[1]"),
        ("memory/eltm/entityMatchThreshold", "high", "memory.eltm.entityMatchThreshold"),
        ("memory/eltm/embeddingModel", "main/qwen", "memory.eltm.embeddingModel"),
        ("agent/investigator/allowedNamespaces", [], "agent.investigator.allowedNamespaces"),
        ("agent/main", {"toolResultLimit": 0}, "agent.main.toolResultLimit"),
        ("hand/selfBaseUrl", "http://h/x?y=1", "hand.selfBaseUrl"),
        ("approvals/unattended", "maybe", "approvals.unattended"),
    ],
)
def test_a_broken_rule_is_named_by_its_path(path: str, value: Any, where: str) -> None:
    assert list(problems(change(path, value))) == [where]


def test_a_model_id_used_twice_is_refused() -> None:
    data = valid()
    data["providers"]["main"]["embedding"].append({"modelId": "qwen", "dimensions": 3})
    assert problems(data) == {"providers.main.embedding[1].modelId": "the id 'main/qwen' is used twice"}


def test_settings_of_a_disabled_tool_are_ignored_but_unknown_keys_are_not() -> None:
    data = change("tool", {"bash": {"enabled": False, "timeoutSeconds": 0, "shellPath": ""}, "fs": {"allowedDirs": [" "]}})
    assert check(data, {}, source="test").tool.bash.timeout_seconds == 120
    data["tool"]["bash"]["timeout"] = 3
    assert problems(data) == {"tool.bash.timeout": "unknown key"}


def test_a_secret_never_stands_in_a_message() -> None:
    data = change("hand/token", ["s3cret-value"])
    data["providers"]["main"]["apiKey"] = {"s3cret-value": 1}
    data["database"]["password"] = ["s3cret-value"]
    with pytest.raises(ConfigError) as caught:
        check(data, {}, source="test")
    assert "s3cret-value" not in str(caught.value)
    assert len(caught.value.problems) == 3


def test_an_embedded_database_needs_no_account() -> None:
    config = check(change("database", {"url": "embedded"}), {}, source="test")
    assert config.database.url == "embedded"


def test_passwords_are_escaped_into_the_address() -> None:
    config = check(change("database/password", "p@ss/w:rd"), {}, source="test")
    assert config.database.url == "postgresql://u:p%40ss%2Fw%3Ard@db:5432/daapu"


def test_jdbc_parameters_that_libpq_does_not_know_are_left_out() -> None:
    config = check(change("database/url", "jdbc:postgresql://db/x?currentSchema=a&sslmode=require"), {}, source="test")
    assert config.database.url == "postgresql://u:p@db/x?sslmode=require"


def test_the_environment_overrides_keys_at_any_depth() -> None:
    config = check(
        valid(),
        {
            "SERVER__PORT": "9000",
            "HAND__SELF_BASE_URL": "http://h:1",
            "DATABASE__PASSWORD": "12345",
            "MEMORY__ELTM__NOTE_SEARCH_THRESHOLD": "0.25",
            "SERVER__ALLOWED_HOSTS": '["a.example", "b.example"]',
            "PROVIDERS__MAIN__LLM__0__CONTEXT_LENGTH": "1000",
            "PROVIDERS__MAIN__API_KEY": "777",
            "TOOL__BASH__ENABLED": "true",
            "MCP__EXA__URL": "https://other.example/mcp",
            "OBSERVABILITY__ONE_SHOT_TRACE": "true",
            "PATH": "/bin",
            "SOME__THING": "else",
        },
        source="test",
    )
    assert config.server.port == 9000
    assert config.hand.self_base_url == "http://h:1"
    assert config.database.url == "postgresql://u:12345@db:5432/daapu"
    assert config.memory.eltm.note_search_threshold == 0.25
    assert config.server.allowed_hosts == ["a.example", "b.example"]
    assert config.providers["main"].llm[0].context_length == 1000
    assert config.providers["main"].api_key == "777"
    assert config.tool.bash.enabled
    assert config.mcp.exa is not None
    assert config.observability.one_shot_trace


def test_mistakes_in_the_environment_are_reported_with_the_rest() -> None:
    found = problems(
        valid(), {"SERVER__PROT": "1", "SERVER__PORT": "many", "PROVIDERS__MAIN__LLM__7__MODEL_ID": "x", "SERVER__PORT__X": "1"}
    )
    assert set(found) == {"SERVER__PROT", "server.port", "PROVIDERS__MAIN__LLM__7__MODEL_ID", "SERVER__PORT__X"}


def test_comments_and_trailing_commas_are_read(tmp_path: Path) -> None:
    text = json.dumps(valid())
    (tmp_path / "c.jsonc").write_text(f"// head\n{text[:-1]}, /* tail */ }}\n")
    assert load_config(tmp_path / "c.jsonc", {}).hand.token == "t"


def test_broken_jsonc_is_reported_with_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "c.jsonc").write_text('{\n  // fine\n  "a": tru\n}')
    with pytest.raises(ConfigError, match=r"line 3, column 8"):
        load_config(tmp_path / "c.jsonc", {})


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[]", b"{'a': 1}", b'{"a": 1} x', b"nul"])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.jsonc").write_bytes(content)
    with pytest.raises(ConfigError):
        load_config(tmp_path / "c.jsonc", {})


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.example\.jsonc.*daapu up"):
        load_config(tmp_path / "none.jsonc", {})


def test_the_schema_file_is_up_to_date() -> None:
    assert (ROOT / "config.schema.json").read_text() == schema_text(), "run `make schema`"


def test_the_example_loads() -> None:
    config = load_config(ROOT / "config.example.jsonc", {})
    assert config.mcp.exa is not None


def test_the_example_shows_every_key() -> None:
    text = (ROOT / "config.example.jsonc").read_text()
    definitions = json.loads(schema_text())["$defs"]
    keys = {key for definition in definitions.values() for key in definition.get("properties", {})}
    assert {key for key in keys if f'"{key}"' not in text} == set()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", " ", "embedded", "http", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["url", "type", "llm", "modelId", "customs", "exa", "eltm", "enabled"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(list(valid())), json_values, max_size=6))
def test_any_shape_of_data_ends_in_a_list_of_mistakes(data: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        check({**data, "title": None}, {}, source="test")
