#!/usr/bin/env python3
"""A complete small brain: a conversation on the terminal, with one tool, over a running hand. Standard library only.

    HAND_TOKEN=secret python -m hand &
    HAND_TOKEN=secret GATEWAY_URL=http://127.0.0.1:8081/v1 MODEL=my-model python docs/how-to/small-brain.py

A brain has two jobs at this seam: it posts a run and reads its events, and it serves two routes on which the hand asks which
tools there are and runs them. Everything else (prompts, memory, storage, limits) is the brain's own business.
"""
# ruff: noqa: T201  # a program to read and to copy, not a module of the package

from __future__ import annotations

import http.client
import json
import os
import random
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HAND_URL = os.environ.get("HAND_URL", "http://127.0.0.1:3100")
HAND_TOKEN = os.environ["HAND_TOKEN"]
MODEL = {
    "baseUrl": os.environ.get("GATEWAY_URL", "http://127.0.0.1:8081/v1"),
    "apiKey": os.environ.get("GATEWAY_KEY", "none"),
    "modelId": os.environ.get("MODEL", "default"),
    "contextWindow": 8192,
    "maxOutputTokens": 1024,
    "reasoning": False,
    "input": ["text"],
}

ROLL = {
    "name": "roll",
    "description": "Roll a die and return the number.",
    "schema": {"type": "object", "properties": {"sides": {"type": "integer", "minimum": 2}}, "required": ["sides"]},
}


class Tools(BaseHTTPRequestHandler):
    """The two routes that the hand calls."""

    def do_GET(self) -> None:  # the name that http.server wants
        """List the tools; asked before every request to the model."""
        self.answer({"tools": [ROLL]})

    def do_POST(self) -> None:  # the name that http.server wants
        """Run one call. What the model can repair is a result with ``isError``, never a failed request."""
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            text, failed = str(random.randint(1, int(call["args"]["sides"]))), False  # noqa: S311  # a game
        except (KeyError, TypeError, ValueError) as problem:
            text, failed = f"roll needs a number of sides of at least 1: {problem!r}", True
        self.answer({"parts": [{"type": "text", "text": text}], "isError": failed})

    def answer(self, document: object) -> None:
        """Send a JSON document, or 401 to anyone but the hand."""
        known = self.headers.get("x-daapu-token") == HAND_TOKEN
        body = json.dumps(document if known else {"error": "unauthorised"}).encode()
        self.send_response(200 if known else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the signature of http.server
        """Keep the terminal for the conversation."""


def events_of(request: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Post a run and yield its events; comments are skipped."""
    headers = {"x-daapu-token": HAND_TOKEN, "Content-Type": "application/json"}
    post = urllib.request.Request(f"{HAND_URL}/v1/run", json.dumps(request).encode(), headers)  # noqa: S310  # our own address
    with urllib.request.urlopen(post) as response:  # noqa: S310  # our own address
        name = ""
        for raw in response:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def take_turn(history: list[dict[str, Any]], tools_url: str, number: int) -> None:
    """Run one turn and add to the history what it produced; a failed turn leaves no trace."""
    produced: list[dict[str, Any]] = []
    request = {
        "model": MODEL,
        "messages": history,
        "systemPrompt": "You are a friendly game master.",
        "maxTokens": 1024,
        "runId": f"turn-{number}",
        "toolListUrl": f"{tools_url}/tools",
        "toolCallbackUrl": f"{tools_url}/tool",
        "maxRounds": 8,
        "maxRetries": 3,
        "streamIdleTimeoutMs": 120_000,
    }
    for name, data in events_of(request):
        if name == "text_delta":
            print(data["text"], end="", flush=True)
        elif name == "retry":
            # Deltas since the last message are void: they will come again.
            print(f"\n[{data['message']}; again in {data['delayMs']} ms]")
        elif name == "assistant_message":
            produced.append(data["message"])
        elif name == "tool_result":
            print(f"\n[{data['name']}: {data['parts'][0]['text']}]")
            part = {
                "type": "tool_result",
                "id": data["id"],
                "tool": data["name"],
                "parts": data["parts"],
                "isError": data["isError"],
            }
            produced.append({"role": "tool_result", "parts": [part]})
        elif name == "done":
            history.extend(produced)
            print()
            return
        elif name == "error":
            print(f"\n[{data['type']}: {data['message']}]")
            break
    else:
        print("\n[the hand has gone in the middle of its answer]")
    history.pop()


def main() -> None:
    """Talk until the input ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Tools)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    history: list[dict[str, Any]] = []
    for number, line in enumerate(sys.stdin):
        history.append({"role": "user", "parts": [{"type": "text", "text": line.strip()}]})
        try:
            take_turn(history, f"http://127.0.0.1:{server.server_port}", number)
        except (OSError, http.client.HTTPException) as problem:
            history.pop()
            print(f"[the hand cannot be reached: {problem}]")
    server.shutdown()


if __name__ == "__main__":
    main()
