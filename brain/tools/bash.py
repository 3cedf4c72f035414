"""The shell tool ``bash__run`` (chat-domain 17): a fresh shell per call, no sandbox, a scrubbed environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog
from msgspec import Raw

from brain.config.models import BashToolConfig
from brain.tools.arguments import ArgumentError, StrictArguments
from brain.tools.bash_process import CommandResult, run_command
from brain.tools.names import advertised_name
from brain.tools.provider import ToolOutcome, ToolSetupError, error_outcome, text_outcome
from shared_protocol.tools import ToolSpec

NAMESPACE: Final = "bash"
TOOL_NAME: Final = advertised_name(NAMESPACE, "run")

BUDGET_MARGIN_SECONDS: Final = 30
"""The advertised budget is only a backstop behind the tool's own timeout."""
TIMEOUT_OUTPUT_CHARS: Final = 4000

INHERITED_VARIABLES: Final = frozenset({
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER",
})  # fmt: skip
"""All that a command sees of the brain's environment, with ``LC_*``: a list of what is harmless cannot miss a secret."""

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "Shell command, run as `shell -c command` without input"},
        "workdir": {"type": "string", "description": "Existing directory to run in"},
    },
    "required": ["command"],
    "additionalProperties": False,
}

logger = structlog.get_logger(__name__)


class BashTool:
    """Runs shell commands with the rights of the brain."""

    def __init__(self, config: BashToolConfig, environment: Mapping[str, str] | None = None) -> None:
        """Check the configuration. ``environment`` is the one to scrub, by default the process's.

        Raises:
            ToolSetupError: the shell cannot be executed, or the working directory does not exist.
        """
        if not os.access(config.shell_path, os.X_OK) or Path(config.shell_path).is_dir():
            raise ToolSetupError(f"tool.bash.shellPath: {config.shell_path!r} is not an executable file")
        self._config = config
        self._workdir = None if config.workdir is None else _existing_directory(config.workdir)
        if config.workdir is not None and self._workdir is None:
            raise ToolSetupError(f"tool.bash.workdir: {config.workdir!r} is not an existing directory")
        self._environment = scrub(os.environ if environment is None else environment)
        description = (
            f"Run a shell command. Each call is a fresh shell; nothing is kept but files. Output and errors come back together; "
            f"after {config.timeout_seconds} seconds the command is ended."
        )
        self._specs = (ToolSpec(TOOL_NAME, description, Raw(msgspec.json.encode(_SCHEMA))),)

    @property
    def namespaces(self) -> Sequence[str]:
        """``bash``."""
        return (NAMESPACE,)

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the one tool."""
        return self._specs

    def budget_seconds(self, name: str) -> int:
        """Return the backstop for the tool, 0 for other names."""
        return self._config.timeout_seconds + BUDGET_MARGIN_SECONDS if name == TOOL_NAME else 0

    async def execute(self, call_id: str, name: str, args: Raw) -> ToolOutcome:
        """Run one command. A non-zero exit code is a result, not a failure of the tool."""
        if name != TOOL_NAME:
            return error_outcome(f"there is no tool named '{name}'")
        try:
            arguments = StrictArguments(args)
            command = arguments.required_text("command")
            directory = self._directory(arguments.text("workdir"))
        except ArgumentError as problem:
            return error_outcome(str(problem))
        # Its length only: commands carry secrets.
        logger.info("shell command", call_id=call_id, command_chars=len(command))
        try:
            result = await run_command(
                [self._config.shell_path, "-c", command],
                directory=directory,
                environment=self._environment,
                timeout_seconds=self._config.timeout_seconds,
                max_bytes=self._config.max_capture_bytes,
            )
        except (OSError, ValueError) as problem:
            return error_outcome(f"the command could not be started: {problem}")
        return self._timeout_outcome(result) if result.exit_code is None else text_outcome(self._result_text(result))

    def _directory(self, requested: str | None) -> str | None:
        if requested is None:
            return self._workdir
        directory = _existing_directory(os.path.join(self._workdir or "", os.path.expanduser(requested)))  # noqa: PTH111, PTH118 - `~user` and empty parts
        if directory is None:
            raise ArgumentError(f"the argument 'workdir' must be an existing directory, '{requested}' is not")
        return directory

    def _result_text(self, result: CommandResult) -> str:
        pieces: list[str] = []
        output = _decoded(result)
        if output.strip():
            pieces.append(output)
        if result.is_cut:
            pieces.append(self._cut_note())
        if result.exit_code:
            pieces.append(f"[exit code: {result.exit_code}]")
        return "\n".join(pieces) or "(no output)"

    def _timeout_outcome(self, result: CommandResult) -> ToolOutcome:
        pieces = [f"the command timed out after {self._config.timeout_seconds} seconds and was ended"]
        output = _decoded(result)
        if output.strip():
            pieces.append(output[:TIMEOUT_OUTPUT_CHARS])
        if len(output) > TIMEOUT_OUTPUT_CHARS:
            pieces.append(f"[Truncated: only the first {TIMEOUT_OUTPUT_CHARS} characters of the output are shown]")
        elif result.is_cut:
            pieces.append(self._cut_note())
        return error_outcome("\n".join(pieces))

    def _cut_note(self) -> str:
        return f"[Truncated: only the first {self._config.max_capture_bytes} bytes of the output were kept]"


def scrub(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment a command may see."""
    kept = {name: value for name, value in environment.items() if name in INHERITED_VARIABLES or name.startswith("LC_")}
    kept.setdefault("PATH", os.defpath)
    return kept


def _existing_directory(path: str) -> str | None:
    try:
        directory = Path(path).expanduser()
        return str(directory.resolve()) if directory.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # unknown user, loop of links, NUL: not a directory either way
        return None


def _decoded(result: CommandResult) -> str:
    return result.output.decode(errors="replace").removesuffix("\n")
