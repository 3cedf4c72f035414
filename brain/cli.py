"""The command line: ``daapu up | serve | migrate | doctor | schema | serve-local | backup | restore``."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import psycopg
from cyclopts import App, Parameter
from psycopg_pool import PoolTimeout

from brain.catalog import CatalogError
from brain.config.load import DEFAULT_FILE, load_config
from brain.config.problems import ConfigError
from brain.db.backup import BackupError
from brain.db.migrate import MigrationError
from brain.errors import BrainError
from brain.local import data_folder
from brain.local.chat_engine import MissingModelsError
from brain.local.data_folder import DataFolderError
from brain.local.plan import Plan, UpError, make_plan
from brain.local.postgres import EmbeddedPostgres, PostgresFailedError, programs_folder
from brain.local.profile import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

_EXPECTED: Final = (
    ConfigError,
    DataFolderError,
    UpError,
    MigrationError,
    BackupError,
    PostgresFailedError,
    MissingModelsError,
    CatalogError,
    BrainError,
    PoolTimeout,
    psycopg.OperationalError,
)
_MARKS: Final = {"ok": "ok  ", "note": "note", "fail": "FAIL"}

app: Final = App(name="daapu", help="Self-hosted LLM chat with a long-term memory.", help_format="plaintext")
ConfigOption = Annotated[Path | None, Parameter(help="Configuration file; default: DAAPU_CONFIG, then ./config.jsonc.")]

VerboseOption = Annotated[
    bool, Parameter(negative=(), help="Show the logs of all parts; they are kept in the data folder anyway.")
]
HostOption = Annotated[str, Parameter(help="Address to listen on.")]
PortOption = Annotated[int, Parameter(help="Port to listen on.")]
TargetArgument = Annotated[Path, Parameter(help="The file to create.")]
SourceArgument = Annotated[Path, Parameter(help="A file that `daapu backup` wrote.")]
ReplaceOption = Annotated[bool, Parameter(negative=(), help="Do it although the database holds chats, which are lost.")]


def main() -> None:
    """Run the command line and end the process; expected failures are one clear message, not a stack."""
    try:
        app()
    except _EXPECTED as error:
        print(f"daapu: {str(error).strip()}", file=sys.stderr, flush=True)
        sys.exit(1)


@app.command
def up(*, config: ConfigOption = None, verbose: VerboseOption = False) -> None:
    """Start everything on this machine and print the address to open."""
    from brain import supervisor

    if config is not None and not config.exists():
        load_config(config, os.environ)  # says that it is missing
    supervisor.up(_config_file(config), os.environ, verbose=verbose, out=sys.stdout, messages=sys.stderr)


@app.command
def serve(*, config: ConfigOption = None) -> None:
    """Run the brain alone: migrate the database, then listen. Needs a database and a hand."""
    from brain.db.migrate import migrate as migrate_database
    from brain.observability.logs import configure_logs
    from brain.server import serve as serve_brain

    loaded = load_config(_config_file(config), os.environ)
    if loaded.database.url == "embedded":
        raise UpError("database.url is 'embedded': only `daapu up` starts that database; name a PostgreSQL for `daapu serve`")
    configure_logs()
    migrate_database(loaded.database.url)
    try:
        _run(serve_brain(loaded))
    except OSError as error:  # the address is taken, or not one of this machine
        raise UpError(error.strerror or str(error)) from error


@app.command
def migrate(*, config: ConfigOption = None) -> None:
    """Bring the database schema up to date."""
    from brain.db.migrate import migrate as migrate_database

    with _target(config) as target:
        applied = migrate_database(target.database_url)
    print("\n".join(f"applied {name}" for name in applied) or "the schema is up to date")


@app.command
def doctor(*, config: ConfigOption = None) -> None:
    """Check configuration, database, hand and every model, and say what to do. Ends with 1 when something must be repaired."""
    with _target(config) as target:
        sys.exit(asyncio.run(_report(target)))


@app.command
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    from brain.config.schema import schema_text

    sys.stdout.write(schema_text())


@app.command
def serve_local(*, host: HostOption = "127.0.0.1", port: PortOption = 3180) -> None:
    """Serve the bundled demonstration models as an OpenAI-compatible server."""
    from brain.local.models_server import serve as serve_models

    asyncio.run(serve_models(host, port))


@app.command
def backup(file: TargetArgument, *, config: ConfigOption = None) -> None:
    """Write the whole database into one file. Works while daapu runs."""
    from brain.db.backup import backup as write_backup

    with _target(config) as target:
        write_backup(target.database_url, file, programs=_programs())
    print(f"written: {file}")


@app.command
def restore(file: SourceArgument, *, replace: ReplaceOption = False, config: ConfigOption = None) -> None:
    """Put a backup in place of the database's content. daapu must be stopped."""
    from brain.db.backup import restore as read_backup

    with _target(config) as target:
        read_backup(target.database_url, file, programs=_programs(), replace=replace)
    print(f"restored: {file}")


def _config_file(given: Path | None) -> Path:
    return given or Path(os.environ.get("DAAPU_CONFIG") or DEFAULT_FILE)


class _Target(NamedTuple):
    """The system that a command works on."""

    plan: Plan
    database_url: str
    is_running: bool


@contextmanager
def _target(given: Path | None) -> Generator[_Target]:
    """Yield the configuration and the address of its database; an embedded one is started unless it runs already."""
    if given is not None and not given.exists():
        load_config(given, os.environ)  # says that it is missing
    plan = make_plan(_config_file(given), os.environ)
    url = plan.config.database.url
    folder = data_folder.data_folder(os.environ)
    if (folder / "run" / "lock").exists() and data_folder.is_held(folder):
        running = load_config(folder / "run" / "config.json", {})
        # What runs may have been started from another file: it is meant only if both use the embedded database.
        if url in {"embedded", running.database.url}:
            yield _Target(plan._replace(config=running), running.database.url, is_running=True)
            return
    if url != "embedded":
        yield _Target(plan, url, is_running=False)
        return
    data_folder.prepare(folder)
    with data_folder.hold(folder):
        server = EmbeddedPostgres(folder / "postgres")
        server.start()
        try:
            yield _Target(plan, server.url(), is_running=False)
        finally:
            server.stop()


async def _report(target: _Target) -> int:
    from brain.doctor import examine

    failed = False
    local = PROVIDER if target.plan.local_models else None
    async for finding in examine(target.plan.config, target.database_url, is_running=target.is_running, local_provider=local):
        failed = failed or finding.state == "fail"
        print(f"{_MARKS[finding.state]}  {finding.what}: {finding.detail}", flush=True)
    return 1 if failed else 0


def _programs() -> Path | None:
    try:
        return programs_folder()
    except PostgresFailedError:
        return None  # the system's own client programs are looked for then


def _run(work: Coroutine[object, object, None]) -> None:
    if sys.platform == "win32":
        asyncio.run(work)
        return
    import uvloop

    uvloop.run(work)
