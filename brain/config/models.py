"""The configuration as structs: every key, its bounds and its default. Files and environment are read in ``load``."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

NonBlank: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
HttpRoot: TypeAlias = Annotated[str, Meta(pattern=r"^https?://[^\s/?#]+(/[^\s?#]*[^\s?#/])?$")]
"""``http(s)://host...``, path prefix allowed, no trailing slash, query or fragment."""
HttpUrl: TypeAlias = Annotated[str, Meta(pattern=r"^https?://\S+$")]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65535)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
NotNegative: TypeAlias = Annotated[int, Meta(ge=0)]
Fraction: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Approval: TypeAlias = Literal["never", "ask"]
MaxTokensField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]

MEBIBYTE = 1024 * 1024


class ConfigStruct(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Base of all sections: camel-case keys, unknown keys are an error."""


class DatabaseConfig(ConfigStruct, frozen=True):
    """Where the data lives. ``url`` may be ``embedded``: a PostgreSQL that daapu starts itself."""

    url: NonBlank
    user: NonBlank | None = None
    password: NonBlank | None = None
    lock_pool_size: Positive = 100
    """How many chats may run at once in one brain."""
    lock_connection_timeout: Positive = 3000
    """Milliseconds to wait for a free place."""


class ChatModelConfig(ConfigStruct, frozen=True):
    """One chat model of a provider."""

    model_id: NonBlank
    context_length: Positive
    max_output_tokens: Positive
    capabilities: list[NonBlank]
    compaction_trigger_fraction: Fraction
    compaction_keep_rounds: Positive
    max_tokens_field: MaxTokensField | None = None
    additional_properties: dict[str, Raw] | None = None
    demo: bool = False
    """Marks the bundled demonstration model, so that the page can say so."""


class EmbeddingModelConfig(ConfigStruct, frozen=True):
    """One embedding model of a provider."""

    model_id: NonBlank
    dimensions: Annotated[int, Meta(ge=1, le=2000)]
    additional_properties: dict[str, Raw] | None = None


class ProviderConfig(ConfigStruct, frozen=True):
    """An OpenAI-compatible gateway; ``baseUrl`` includes the ``/v1`` root and is used as is."""

    api_key: NonBlank
    base_url: NonBlank
    llm: list[ChatModelConfig] = []
    embedding: list[EmbeddingModelConfig] = []


class ServerConfig(ConfigStruct, frozen=True):
    """The public listener."""

    host: NonBlank = "127.0.0.1"
    port: Port = 8080
    allowed_hosts: list[NonBlank] = []
    allowed_origins: list[NonBlank] = []
    token: NonBlank | None = None
    """When set, the whole public API asks for it."""


class McpHttpServerConfig(ConfigStruct, frozen=True, kw_only=True, tag="http", tag_field="type"):
    """A tool server over Streamable HTTP."""

    url: HttpUrl
    headers: dict[str, str] = {}
    tool_execution_timeout_seconds: NotNegative
    initialization_timeout_seconds: Positive | None = None
    reconnect_attempts: Positive = 3
    reconnect_delay_ms: NotNegative = 1000
    approval: Approval = "never"


class McpStdioServerConfig(ConfigStruct, frozen=True, kw_only=True, tag="stdio", tag_field="type"):
    """A tool server as a child process."""

    command: Annotated[list[str], Meta(min_length=1)]
    environment: dict[str, str] = {}
    tool_execution_timeout_seconds: NotNegative
    initialization_timeout_seconds: Positive | None = None
    reconnect_attempts: Positive = 3
    reconnect_delay_ms: NotNegative = 1000
    approval: Approval = "never"


McpServerConfig: TypeAlias = McpHttpServerConfig | McpStdioServerConfig


class ProxyConfig(ConfigStruct, frozen=True):
    """An HTTP proxy for every ``http`` tool server."""

    host: NonBlank
    port: Port


class McpConfig(ConfigStruct, frozen=True):
    """Tool servers; ``exa`` has the namespace of that name, the others theirs by key."""

    exa: McpServerConfig | None = None
    customs: dict[str, McpServerConfig] = {}
    proxy: ProxyConfig | None = None


class FsToolConfig(ConfigStruct, frozen=True):
    """The read-only filesystem tools; the rest is ignored unless enabled."""

    enabled: bool = False
    allowed_dirs: list[str] = []
    blacklists: list[str] = []
    approval: Approval = "never"


class BashToolConfig(ConfigStruct, frozen=True):
    """The shell tool. It has no sandbox: only for isolated deployments."""

    enabled: bool = False
    shell_path: NonBlank = "/bin/bash"
    workdir: str | None = None
    timeout_seconds: Positive = 120
    max_capture_bytes: Annotated[int, Meta(ge=10_000, le=2_147_483_647)] = 1_000_000
    approval: Approval = "ask"


class ToolConfig(ConfigStruct, frozen=True):
    """Built-in tools."""

    fs: FsToolConfig = FsToolConfig()
    bash: BashToolConfig = BashToolConfig()


class EltmConfig(ConfigStruct, frozen=True):
    """The long-term memory. All models are catalog ids ``provider/model``. A floor of ``auto`` is calibrated per model."""

    extraction_model: NonBlank
    embedding_model: NonBlank
    writer_model: NonBlank
    rewrite_model: NonBlank
    rewrite_rounds: Positive
    related_entities_limit: NotNegative
    related_notes_limit: NotNegative
    entity_match_threshold: Fraction | Literal["auto"] = "auto"
    note_search_threshold: Fraction | Literal["auto"] = "auto"
    max_writer_rounds: NotNegative = 150
    queue_workers: Positive = 1
    job_timeout_minutes: Positive = 30
    retry_delay_minutes: Positive = 5


class MemoryConfig(ConfigStruct, frozen=True):
    """Compaction and long-term memory."""

    compact_model: NonBlank
    eltm: EltmConfig


class InvestigatorConfig(ConfigStruct, frozen=True):
    """The sub-agent behind ``gsg__investigate``."""

    model: NonBlank
    allowed_namespaces: Annotated[list[NonBlank], Meta(min_length=1)]
    max_rounds: NotNegative = 150
    tool_result_limit: Positive = 40_000


class MainAgentConfig(ConfigStruct, frozen=True):
    """The chat loop."""

    tool_result_limit: Positive = 40_000


class AgentConfig(ConfigStruct, frozen=True):
    """Agents."""

    investigator: InvestigatorConfig
    main: MainAgentConfig = MainAgentConfig()


class TitleConfig(ConfigStruct, frozen=True):
    """Generated titles; ``lastNRound`` 0 = the whole chat."""

    model: NonBlank
    last_n_round: NotNegative = 0


class HandConfig(ConfigStruct, frozen=True):
    """The hand, and the address under which it reaches this brain."""

    base_url: HttpRoot
    self_base_url: HttpRoot
    token: NonBlank
    max_rounds: NotNegative = 64
    max_retries: NotNegative = 0
    stream_idle_timeout_ms: NotNegative = 300_000
    run_timeout_minutes: NotNegative = 120


class ObservabilityConfig(ConfigStruct, frozen=True):
    """Logs beyond the ordinary."""

    one_shot_trace: bool = False


class LimitsConfig(ConfigStruct, frozen=True):
    """Caps on what comes in, in bytes unless the name says otherwise; over a cap the answer is 413 and names it."""

    json_body_bytes: Positive = MEBIBYTE
    message_body_bytes: Positive = 64 * MEBIBYTE
    images_per_message: Positive = 20
    image_bytes: Positive = 8 * MEBIBYTE
    chat_import_bytes: Positive = 64 * MEBIBYTE
    bulk_import_bytes: Positive = 512 * MEBIBYTE
    run_request_bytes: Positive = 48 * MEBIBYTE


class ImagesConfig(ConfigStruct, frozen=True):
    """How images go to the model; storage keeps the original."""

    downscale_to: Positive | None = None
    """Longest edge in pixels."""


class ApprovalsConfig(ConfigStruct, frozen=True):
    """What happens to tools marked ``ask``."""

    unattended: Literal["allow", "deny"] = "allow"
    """For clients that cannot answer approvals."""
    timeout_seconds: Positive = 300


class Config(ConfigStruct, frozen=True):
    """The whole file."""

    database: DatabaseConfig
    providers: dict[str, ProviderConfig]
    memory: MemoryConfig
    agent: AgentConfig
    title: TitleConfig
    hand: HandConfig
    server: ServerConfig = ServerConfig()
    mcp: McpConfig = McpConfig()
    tool: ToolConfig = ToolConfig()
    observability: ObservabilityConfig = ObservabilityConfig()
    limits: LimitsConfig = LimitsConfig()
    images: ImagesConfig = ImagesConfig()
    approvals: ApprovalsConfig = ApprovalsConfig()
    schema: str | UnsetType = msgspec.field(name="$schema", default=UNSET)
