"""Load driver for the brain: how much brain and hand together add to a bare gateway (spec README, section Speed, frame for the brain).

Builds nothing and needs no network: the folder ``--bin`` holds ``upstream`` and ``load`` of the bench beside the repository.
Gateway, this client and PostgreSQL run on the first CPU, brain and hand together on the second. Every stream has its own chat
with a history of 40 messages, which each turn loads, extends (replacing the last answer of the driver) and stores.

    python -m tests.perf.brain_load --bin BIN [--cases paced:50,paced:200,max:64] [--seconds 6] [--profile]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import uvloop

from brain.db.migrate import migrate
from brain.local.postgres import EmbeddedPostgres
from shared_protocol.codec import encode_messages
from shared_protocol.instants import Instant
from shared_protocol.messages import AssistantMessage, Message, TextPart, Usage, UserMessage

STAMP = re.compile(rb"@([0-9a-f]{12})@([0-9a-f]{12})")
HISTORY = 40
ROOT = Path(__file__).parents[2]


@dataclass
class Measured:
    """What one case counted inside its window."""

    begin: float
    end: float
    chunks: int = 0
    turns: int = 0
    errors: int = 0
    ttft_ms: list[float] = field(default_factory=list)
    last_error: str = ""


class Stream(asyncio.Protocol):
    """One chat that is asked again and again over one connection."""

    def __init__(self, request: bytes, measured: Measured) -> None:
        self._request = request
        self._measured = measured
        self._transport: Any = None
        self._rest = b""
        self._sent_at = 0.0
        self._waits_for_first = True

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._sent_at = time.monotonic()
        self._waits_for_first = True
        self._rest = b""
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        measured = self._measured
        block = self._rest + data
        if self._waits_for_first and (found := STAMP.search(block)):
            self._waits_for_first = False
            held = (int(found[2], 16) - int(found[1], 16)) / 1e6
            if measured.begin <= self._sent_at and now < measured.end:
                measured.ttft_ms.append(max(now - self._sent_at - held, 0) * 1000)
        if measured.begin <= now < measured.end:
            measured.chunks += count_stamps(self._rest, block)
        # Longer than a stamp, and than the lines that end a stream.
        self._rest = block[-60:]
        if b"event: done" in block or b"event: error" in block or block.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")):
            self._finish(block, now)

    def _finish(self, block: bytes, now: float) -> None:
        failed = b"event: done" not in block
        if self._measured.begin <= now < self._measured.end:
            self._measured.turns += 1
            self._measured.errors += failed
        if failed:
            self._measured.last_error = block[-500:].decode("utf-8", "replace")
        asyncio.get_running_loop().call_soon(self._ask_again)

    def _ask_again(self) -> None:
        if not self._transport.is_closing() and time.monotonic() < self._measured.end:
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc


def count_stamps(rest: bytes, block: bytes) -> int:
    """Count the stamps that end behind ``rest``, with which ``block`` begins."""
    return len(STAMP.findall(block)) - len(STAMP.findall(rest))


def history() -> list[Message]:
    messages: list[Message] = []
    filler = "some earlier words of the conversation, kept short. " * 6
    for number in range(HISTORY // 2):
        messages.append(UserMessage((TextPart(f"Message {number}: {filler}"[:300]),), created_at=Instant("2026-03-01T08:00:00Z")))
        usage = Usage(input_tokens=1500, output_tokens=80, total_tokens=1580, model_id="fake")
        messages.append(AssistantMessage(parts=(TextPart(f"Answer {number}: {filler}"[:300]),), meta=usage, finish_reason="stop"))
    return messages


def chat_ids(count: int) -> list[str]:
    return [f"17555{number:08d}-{number}" for number in range(count)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def config(database_url: str, gateway: str, hand: str, port: int, token: str) -> dict[str, Any]:
    model = "gw/fake"
    chat = {
        "modelId": "fake", "contextLength": 128000, "maxOutputTokens": 4096, "capabilities": [],
        "compactionTriggerFraction": 0.8, "compactionKeepRounds": 4,
    }  # fmt: skip
    return {
        "database": {"url": database_url, "user": "x", "password": "x", "lockPoolSize": 1000},
        "providers": {"gw": {"apiKey": "k", "baseUrl": gateway, "llm": [chat], "embedding": [{"modelId": "emb", "dimensions": 384}]}},
        "server": {"port": port},
        "memory": {
            "compactModel": model,
            "eltm": {
                "extractionModel": model, "embeddingModel": "gw/emb", "writerModel": model, "rewriteModel": model,
                "rewriteRounds": 2, "relatedEntitiesLimit": 0, "relatedNotesLimit": 0,
                "queueWorkers": 1, "jobTimeoutMinutes": 30, "retryDelayMinutes": 5,
            },
        },
        "agent": {"investigator": {"model": model, "allowedNamespaces": ["eltm"]}},
        "title": {"model": model},
        "hand": {"baseUrl": hand, "selfBaseUrl": f"http://127.0.0.1:{port}", "token": token},
    }  # fmt: skip


def wait_port(port: int, process: subprocess.Popen[bytes]) -> float:
    begin = time.monotonic()
    while time.monotonic() - begin < 60:
        if process.poll() is not None:
            raise SystemExit(f"a program ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return time.monotonic() - begin
        time.sleep(0.02)
    raise SystemExit("a program does not listen")


def wait_ready(port: int) -> None:
    """The port is taken before the services are open: ready is when it answers."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health/live", timeout=60) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the brain does not answer")


@contextmanager
def program(cpu: str, *argv: str, port: int, log: Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*(["nice", "-n", "-19"] if os.geteuid() == 0 else []), "taskset", "-c", cpu, *argv],
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
        )
        try:
            wait_port(port, process)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def rss_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")


def set_gateway(port: int, mode: str) -> int:
    count, delay = {"max": (200, 0), "paced": (100, 20000), "turns": (1, 0)}[mode]
    url = f"http://127.0.0.1:{port}/_config?n={count}&size=220&delay_us={delay}&first_us={delay}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        answer.read()
    return count


async def drive(port: int, streams: int, seconds: float, warm: float) -> Measured:
    begin = time.monotonic() + warm
    measured = Measured(begin, begin + seconds)
    loop = asyncio.get_running_loop()
    transports: list[Any] = []
    for number, chat_id in enumerate(chat_ids(streams)):
        body = json.dumps({"text": "And what about today?", "model": "gw/fake", "personaId": 0, "replaceFrom": HISTORY}).encode()
        head = (
            f"POST /api/chats/{chat_id}/messages HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        transport, _ = await loop.create_connection(
            lambda head=head, body=body: Stream(head.encode() + body, measured), "127.0.0.1", port
        )
        transports.append(transport)
        await asyncio.sleep(min(warm / 2, 2) / streams if number else 0)
    await asyncio.sleep(max(measured.end - time.monotonic(), 0))
    for transport in transports:
        transport.abort()
    return measured


def measure_gateway(binary: Path, port: int, streams: int, count: int, body: Path, cpu: str) -> dict[str, Any]:
    argv = [
        "taskset", "-c", cpu, str(binary / "load"), f"port={port}", "path=/v1/chat/completions", f"body={body}",
        f"c={streams}", f"n={count}", "warm_ms=1000", "run_ms=3000", "ramp_ms=500",
    ]  # fmt: skip
    return json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)


def fill(url: str, streams: int) -> None:
    text = encode_messages([*history(), *history()[:2]]).decode()
    with psycopg.connect(url, autocommit=True) as conn:
        for chat_id in chat_ids(streams):
            conn.execute("INSERT INTO chats (id, chat_json) VALUES (%s, %s)", (chat_id, text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--cases", default="paced:50,paced:200,max:64")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--cpus", default="0,1")
    parser.add_argument("--profile", action="store_true", help="write cProfile figures of the brain to brain.prof")
    options = parser.parse_args()
    load_cpu, target_cpu = options.cpus.split(",")
    os.sched_setaffinity(0, {int(load_cpu)})
    cases = [(mode, int(count)) for mode, _, count in (case.partition(":") for case in options.cases.split(","))]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="daapu-bench-")))
        folder.chmod(0o755)
        database = EmbeddedPostgres(folder / "pg", settings={"max_connections": "300"})
        database.start()
        stack.callback(database.stop)
        migrate(database.url())
        fill(database.url(), max(count for _, count in cases))
        gateway_port, hand_port, brain_port = free_port(), free_port(), free_port()
        token = secrets.token_hex(16)
        logs = folder / "log"
        if os.environ.get("BENCH_LOG"):
            stack.callback(lambda: print(logs.read_text()[-8000:]))
        stack.enter_context(
            program(load_cpu, str(options.bin.resolve() / "upstream"), str(gateway_port), port=gateway_port, log=logs)
        )
        hand_env = {"HAND_TOKEN": token, "HAND_PORT": str(hand_port)}
        hand = stack.enter_context(program(target_cpu, sys.executable, "-m", "hand", port=hand_port, log=logs, env=hand_env))
        file = folder / "config.json"
        gateway = f"http://127.0.0.1:{gateway_port}/v1"
        file.write_text(json.dumps(config(database.url(), gateway, f"http://127.0.0.1:{hand_port}", brain_port, token)))
        launcher = ["-m", "cProfile", "-o", str(ROOT / "brain.prof")] if options.profile else []
        begin = time.monotonic()
        argv = [
            sys.executable,
            *launcher,
            *(os.environ["BENCH_LAUNCH"].split() if "BENCH_LAUNCH" in os.environ else ["-m", "brain"]),
            "serve",
            "--config",
            str(file),
        ]
        brain = stack.enter_context(program(target_cpu, *argv, port=brain_port, log=logs))
        wait_ready(brain_port)
        print(json.dumps({"start_s": round(time.monotonic() - begin, 2), "idle_rss_mb": rss_kb(brain.pid) // 1024}), flush=True)
        body = folder / "body.json"
        body.write_text(json.dumps({"model": "fake", "stream": True, "messages": [{"role": "user", "content": "x" * 5000}]}))
        for mode, streams in cases:
            count = set_gateway(gateway_port, mode)
            bare = measure_gateway(options.bin.resolve(), gateway_port, streams, count, body, load_cpu)
            before = cpu_s(brain.pid), cpu_s(hand.pid)
            if os.environ.get("BENCH_SIGNALS"):
                brain.send_signal(signal.SIGUSR1)
            measured = uvloop.run(drive(brain_port, streams, options.seconds, 4))
            used = cpu_s(brain.pid) - before[0], cpu_s(hand.pid) - before[1]
            if os.environ.get("BENCH_SIGNALS"):
                brain.send_signal(signal.SIGUSR2)
            rate = measured.chunks / options.seconds
            print(
                json.dumps(
                    {
                        "case": f"{mode}:{streams}",
                        "chunks_s": round(rate),
                        "bare_chunks_s": round(bare["chunks_s"]),
                        "share": round(rate / bare["chunks_s"], 4),
                        "ttft_ms_p50": round(percentile(measured.ttft_ms, 0.5), 1),
                        "ttft_ms_p99": round(percentile(measured.ttft_ms, 0.99), 1),
                        "turns": measured.turns,
                        "errors": measured.errors,
                        "brain_cpu_s": round(used[0], 2),
                        "hand_cpu_s": round(used[1], 2),
                        "brain_rss_mb": rss_kb(brain.pid) // 1024,
                        **({"last_error": measured.last_error} if measured.last_error else {}),
                    }
                ),
                flush=True,
            )
            time.sleep(1)


if __name__ == "__main__":
    main()
