"""Writes, or checks, the files that are derived from the program: configuration schema, reference pages, OpenAPI document."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from brain.config.schema import config_schema, forms, schema_text

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "config.schema.json"
CONFIGURATION = ROOT / "docs" / "reference" / "configuration.md"
COMMANDS = ROOT / "docs" / "reference" / "cli.md"
OPENAPI = ROOT / "web" / "openapi.json"
API = ROOT / "docs" / "reference" / "api.md"
NOTICE = "<!-- Written by `make docs`. Do not edit. -->\n\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    parser.add_argument("--schema", action="store_true", help="only config.schema.json")
    parser.add_argument("--openapi", action="store_true", help="only web/openapi.json")
    options = parser.parse_args()
    if options.openapi:
        from brain.api.schema import openapi_text

        OPENAPI.write_text(openapi_text())
        return 0
    wanted = {SCHEMA: schema_text()}
    if not options.schema:
        from brain.api.schema import openapi_text, reference_text  # imported on use: building the routes takes a second

        wanted |= {CONFIGURATION: configuration_page(), COMMANDS: command_page(), API: reference_text(), OPENAPI: openapi_text()}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if options.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path])
        print(f"written: {path.relative_to(ROOT)}")
    return 0


def command_page() -> str:
    commands = ["up", "serve", "migrate", "doctor", "backup", "restore", "schema", "serve-local"]
    parts = [NOTICE + "# Commands\n", _help([])]
    parts += [f"## daapu {command}\n\n{_help([command])}" for command in commands]
    return "\n".join(parts)


def _help(arguments: list[str]) -> str:
    command = [sys.executable, "-m", "brain", *arguments, "--help"]
    environment = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8"}
    output = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    body = "\n".join(line.rstrip() for line in output.strip().splitlines()).replace("python -m brain", "daapu")
    return f"```text\n{body}\n```\n"


def configuration_page() -> str:
    lines = [
        NOTICE + "# Configuration\n",
        "`config.jsonc` in the working directory, or the file named by `--config` or `DAAPU_CONFIG`: JSON with `//` and `/* */`",
        "comments and trailing commas. Unknown keys are an error. Every key can be overridden by an environment variable: words",
        "in capitals joined by `_`, levels joined by `__` (`hand.selfBaseUrl` is `HAND__SELF_BASE_URL`).",
        "`config.example.jsonc` shows every key with a comment; `config.schema.json` is for editors.\n",
        "Under `daapu up` all sections may be left out: the database is then embedded, the hand is started for you, and without",
        "`providers` the bundled demonstration models are used.\n",
        "| Key | Type | Default | |",
        "|---|---|---|---|",
    ]
    lines += list(_rows("", config_schema()))
    return "\n".join(lines) + "\n"


def _rows(prefix: str, node: dict[str, Any]) -> list[str]:
    rows: list[str] = []
    for form in forms(node):
        required = form.get("required", [])
        for key, child in form.get("properties", {}).items():
            if key == "$schema":
                continue
            path = f"{prefix}{key}"
            row, inner = _row(path, child, required=key in required)
            if row not in rows:
                rows.append(row)
            rows += [line for line in inner if line not in rows]
    return rows


def _row(path: str, child: dict[str, Any], *, required: bool) -> tuple[str, list[str]]:
    kinds, inner = [], []
    for form in forms(child):
        if form.get("properties"):
            inner += _rows(f"{path}.", form)
        elif isinstance(extra := form.get("additionalProperties"), dict) and extra:
            inner += _rows(f"{path}.<name>.", extra)
        elif isinstance(items := form.get("items"), dict) and any(entry.get("properties") for entry in forms(items)):
            inner += _rows(f"{path}[].", items)
        kinds.append(_kind(form))
    default = "required" if required else _default(child)
    kind = " or ".join(dict.fromkeys(word for word in kinds if word))
    return f"| `{path}` | {kind} | {default} | {child.get('description', '')} |", inner


def _kind(form: dict[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(f"`{word}`" for word in form["enum"])
    words = {"integer": "whole number", "object": "section", "array": "list", "boolean": "true, false"}
    kind = words.get(str(form.get("type")), str(form.get("type", "anything")))
    low, high = form.get("minimum"), form.get("maximum")
    if low is not None:
        kind += f" {low} to {high}" if high is not None else f" from {low}"
    return kind


def _default(child: dict[str, Any]) -> str:
    if "default" not in child or isinstance(child["default"], dict):
        return ""
    return f"`{json.dumps(child['default'])}`"


if __name__ == "__main__":
    sys.exit(main())
