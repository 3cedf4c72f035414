"""Reading lists and histories over HTTP beside bare queries of the same rows, and deleting beside a bare delete.

python -m tests.perf.reads
"""

from __future__ import annotations

import http.client
import json
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg

from brain.db.migrate import migrate
from brain.local.postgres import EmbeddedPostgres
from shared_protocol.codec import encode_messages
from tests.perf.brain_load import config, free_port, history, program, wait_ready
from tests.perf.table import Row

CHATS = 10_000
PAGE = 200
MESSAGES = 2_000
REPEATS = 60
DELETES = 40
LONG_CHAT = "1765000000000-1"


def measure() -> list[Row]:
    """Start a database and a brain, measure, stop both."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="daapu-reads-")))
        folder.chmod(0o755)
        database = EmbeddedPostgres(folder / "pg", settings={})
        database.start()
        stack.callback(database.stop)
        migrate(database.url())
        conn = stack.enter_context(psycopg.connect(database.url(), autocommit=True))
        _fill(conn)
        port = free_port()
        file = folder / "config.json"
        nowhere = f"http://127.0.0.1:{free_port()}"
        file.write_text(json.dumps(config(database.url(), f"{nowhere}/v1", nowhere, port, secrets.token_hex(16))))
        argv = [sys.executable, "-m", "brain", "serve", "--config", str(file)]
        stack.enter_context(program("0,1", *argv, port=port, log=folder / "log"))
        wait_ready(port)
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        stack.callback(client.close)
        return [
            _compare(
                f"`GET /api/chats` ({CHATS:,} chats, page of {PAGE})",
                lambda: _get(client, f"/api/chats?limit={PAGE}"),
                lambda: conn.execute(
                    "SELECT id, title, persona_id, created_at, updated_at, pinned, archived, temporary, remember"
                    " FROM chats ORDER BY id DESC LIMIT %s",
                    (PAGE,),
                ).fetchall(),
            ),
            _compare(
                f"`GET /api/chats/{{id}}/chat` ({MESSAGES:,} messages)",
                lambda: _get(client, f"/api/chats/{LONG_CHAT}/chat"),
                lambda: conn.execute("SELECT chat_json FROM chats WHERE id = %s", (LONG_CHAT,)).fetchall(),
            ),
            *(_compare_deletes(client, conn, size) for size in (40, MESSAGES)),
        ]


def _fill(conn: psycopg.Connection) -> None:
    short = encode_messages(history()[:2]).decode()
    with conn.cursor() as cur, cur.copy("COPY chats (id, title, chat_json) FROM STDIN") as copy:
        for number in range(CHATS):
            copy.write_row((f"17555{number:08d}-{number}", f"A chat about topic {number}", short))
    conn.execute("INSERT INTO chats (id, chat_json) VALUES (%s, %s)", (LONG_CHAT, _history_of(MESSAGES)))
    conn.execute("VACUUM ANALYZE chats")


def _history_of(size: int) -> str:
    return encode_messages(history() * (size // 40)).decode()


def _get(client: http.client.HTTPConnection, path: str, method: str = "GET", body: str | None = None) -> bytes:
    client.request(method, path, body, {"content-type": "application/json"} if body else {})
    answer = client.getresponse()
    body = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"{method} {path}: {answer.status} {body[:200]!r}")
    return body


def _compare(case: str, ours: Callable[[], object], bare: Callable[[], object]) -> Row:
    mine: list[float] = []
    base: list[float] = []
    for turn in range(REPEATS + 5):
        for work, times in ((bare, base), (ours, mine)):
            begun = time.perf_counter()
            work()
            if turn >= 5:
                times.append((time.perf_counter() - begun) * 1000)
    one, other = statistics.median(mine), statistics.median(base)
    return Row(
        case, f"one bare psycopg query: {other:.2f} ms", "<= 3x its time", f"{one:.2f} ms, {one / other:.1f}x", one <= 3 * other
    )


def _compare_deletes(client: http.client.HTTPConnection, conn: psycopg.Connection, size: int) -> Row:
    """Delete chats with memory (snapshot enqueued) and without, in turns: the enqueueing is the difference."""
    body = json.dumps({"title": "A chat", "messages": json.loads(_history_of(size))})
    with_memory: list[float] = []
    without: list[float] = []
    for _ in range(DELETES):
        for remember, times in ((False, without), (True, with_memory)):
            chat_id = json.loads(_get(client, "/api/chats/import", "POST", body))["id"]
            conn.execute("UPDATE chats SET remember = %s WHERE id = %s", (remember, chat_id))
            begun = time.perf_counter()
            _get(client, f"/api/chats/{chat_id}", "DELETE")
            times.append((time.perf_counter() - begun) * 1000)
    one, other = statistics.median(with_memory), statistics.median(without)
    return Row(
        f"`DELETE /api/chats/{{id}}` with its snapshot enqueued ({size:,} messages)",
        f"the delete without: {other:.2f} ms",
        "<= 2x its time",
        f"{one:.2f} ms, {one / other:.1f}x",
        one <= 2 * other,
    )


if __name__ == "__main__":
    for row in measure():
        print(row)
