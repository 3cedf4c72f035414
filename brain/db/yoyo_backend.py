"""The only module that knows yoyo: reading and ordering SQL files, and applying one of them together with its mark."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from psycopg import sql


class _YoyoMigration(Protocol):
    id: str
    path: str
    use_transactions: bool

    def load(self) -> None: ...
    def process_steps(self, backend: _YoyoBackend, direction: str) -> None: ...


class _YoyoBackend(Protocol):
    connection: psycopg.Connection

    def transaction(self) -> AbstractContextManager[object]: ...


@dataclass(frozen=True, slots=True)
class SqlMigration:
    """One SQL file, in the order in which it is applied."""

    id: str
    path: Path
    yoyo: _YoyoMigration


def read_sql_migrations(folder: Path) -> list[SqlMigration]:
    """Return the files of the folder, dependencies first, otherwise by name."""
    yoyo = importlib.import_module("yoyo.migrations")
    found = cast("Iterable[_YoyoMigration]", yoyo.topological_sort(yoyo.read_migrations(str(folder))))
    return [SqlMigration(id=migration.id, path=folder / f"{migration.id}.sql", yoyo=migration) for migration in found]


class Backend:
    """One connection in autocommit mode with yoyo's way of running files on it."""

    def __init__(self, backend: _YoyoBackend) -> None:
        self._backend = backend

    def run(self, statement: sql.Composed | bytes | str) -> None:
        """Run one statement that was written in this package."""
        self._backend.connection.execute(_as_query(statement))

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Run one query and return all rows."""
        return self._backend.connection.execute(_as_query(statement)).fetchall()

    def apply(self, migration: SqlMigration, mark: sql.Composed) -> None:
        """Run the file and the statement that marks it as applied, as one transaction where the file allows it.

        yoyo itself commits the two separately: a process killed in between would apply the file twice.

        Raises:
            psycopg.Error: a statement failed; nothing of a transactional file remains.
        """
        migration.yoyo.load()
        if migration.yoyo.use_transactions:
            with self._backend.transaction():
                migration.yoyo.process_steps(self._backend, "apply")
                self.run(mark)
        else:
            migration.yoyo.process_steps(self._backend, "apply")
            self.run(mark)


def _as_query(statement: sql.Composed | bytes | str) -> sql.Composed | bytes:
    # psycopg's types want a literal string; the callers of this module pass constants of theirs.
    return statement.encode() if isinstance(statement, str) else statement


@contextmanager
def open_backend(url: str) -> Generator[Backend]:
    """Yield a backend on a connection of its own.

    yoyo parses URLs itself and knows less than libpq (sockets, service files), so it is handed a ready connection.
    """
    module = importlib.import_module("yoyo.backends.core.postgresql")
    connections = importlib.import_module("yoyo.connections")

    def connect(_self: object, _uri: object) -> psycopg.Connection:
        return psycopg.connect(url, autocommit=True, application_name="daapu-migrate", connect_timeout=15)

    backend_class = type("_Backend", (module.PostgresqlPsycopgBackend,), {"connect": connect, "schema": None})
    uri: Any = connections.DatabaseURI("postgresql+psycopg", None, None, None, None, "", {})
    backend = cast("_YoyoBackend", backend_class(uri, "_unused"))
    try:
        yield Backend(backend)
    finally:
        backend.connection.close()
