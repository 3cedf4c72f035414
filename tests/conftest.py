"""Fixtures of every suite: a real PostgreSQL, one for the whole run, and a fresh migrated database for each test.

``DATABASE_URL`` names a server to use instead of the embedded one; its account must be allowed to create databases.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import socketserver
import tempfile
import threading
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import pytest_asyncio
from hypothesis import settings
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from brain.db.migrate import migrate
from brain.db.pools import open_pool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

# How long an example takes says more about the machine than about the code.
settings.register_profile("daapu", deadline=None)
settings.load_profile("daapu")

_BROKER_VARIABLE = "DAAPU_TEST_DATABASE_BROKER"
_NO_DURABILITY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300"}


class _DatabaseBroker:
    """Starts PostgreSQL when the first test asks for it; all workers of a parallel run ask the same broker.

    It lives in the process that the person started, so that the server outlives no run and no worker owns it.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="daapu-test-"))
        self._folder.chmod(0o711)
        self._answer: dict[str, str] | None = None
        self._server = None
        self._lock = threading.Lock()
        broker = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(json.dumps(broker.answer()).encode())

        # One thread serves every request: the server process dies with the thread that started it.
        self._listener = socketserver.UnixStreamServer(str(self._folder / "broker"), Handler)
        self._thread = threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return str(self._folder / "broker")

    def answer(self) -> dict[str, str]:
        with self._lock:
            if self._answer is None:
                try:
                    self._answer = self._prepare()
                except Exception as error:
                    self._answer = {"error": f"{type(error).__name__}: {error}"}
            return self._answer

    def _prepare(self) -> dict[str, str]:
        admin = os.environ.get("DATABASE_URL")
        if not admin:
            from brain.local.postgres import EmbeddedPostgres

            self._server = EmbeddedPostgres(self._folder / "pg", settings=_NO_DURABILITY)
            self._server.start()
            admin = self._server.url()
        template = f"daapu_template_{uuid.uuid4().hex[:12]}"
        _run_admin(admin, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(template)))
        migrate(_with_database(admin, template))
        return {"admin": admin, "template": template}

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()
        if self._server is not None:
            self._server.stop()
        elif self._answer and "template" in self._answer:
            _drop(self._answer["admin"], self._answer["template"])
        shutil.rmtree(self._folder, ignore_errors=True)


_BROKER = pytest.StashKey[_DatabaseBroker]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_BROKER] = broker = _DatabaseBroker()
        os.environ[_BROKER_VARIABLE] = broker.address


def pytest_unconfigure(config: pytest.Config) -> None:
    if broker := config.stash.get(_BROKER, None):
        broker.close()


def _with_database(url: str, database: str) -> str:
    return make_conninfo(url, dbname=database)


def _as_url(url: str, database: str) -> str:
    """Return the URL form, which programs that are started by tests take in their configuration."""
    parts = conninfo_to_dict(url)
    user = parts.get("user") or ""
    password = f":{parts['password']}" if parts.get("password") else ""
    host = str(parts.get("host") or "")
    if host.startswith("/"):
        return f"postgresql://{user}{password}@/{database}?host={host}"
    return f"postgresql://{user}{password}@{host}:{parts.get('port') or 5432}/{database}"


def _run_admin(admin: str, statement: sql.Composed) -> None:
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute(statement)


def _drop(admin: str, database: str) -> None:
    _run_admin(admin, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))


@pytest.fixture(scope="session")
def database_server() -> dict[str, str]:
    """The running server: ``admin`` URL and the name of the migrated ``template`` database."""
    with closing(socket.socket(socket.AF_UNIX)) as client:
        client.connect(os.environ[_BROKER_VARIABLE])
        with client.makefile("rb") as stream:
            answer: dict[str, str] = json.loads(stream.read())
    if "error" in answer:
        pytest.fail(f"no PostgreSQL for the tests: {answer['error']}", pytrace=False)
    return answer


@pytest.fixture
def data_home() -> Generator[Path]:
    """A folder for the data of a whole system, with a short path that other accounts may pass through.

    Not below ``tmp_path``: every pytest closes that tree to other accounts when it starts, and under root the database runs as another one.
    """
    folder = Path(tempfile.mkdtemp(prefix="daapu-home-"))
    folder.chmod(0o711)
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def empty_database_url(database_server: dict[str, str]) -> Generator[str]:
    """A database without any table, for tests of the migrations themselves."""
    yield from _fresh(database_server["admin"], "template1")


@pytest.fixture
def database_url(database_server: dict[str, str]) -> Generator[str]:
    """A migrated database that belongs to this test alone, as a ``postgresql://`` URL."""
    yield from _fresh(database_server["admin"], database_server["template"])


def _fresh(admin: str, template: str) -> Generator[str]:
    name = f"daapu_test_{uuid.uuid4().hex[:16]}"
    _run_admin(admin, sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield _as_url(admin, name)
    finally:
        _drop(admin, name)


@pytest_asyncio.fixture
async def pool(database_url: str) -> AsyncGenerator[AsyncConnectionPool[AsyncConnection]]:
    """An open pool on ``database_url``."""
    async with open_pool(database_url, min_size=1, max_size=8, name="test") as opened:
        yield opened
