"""The shell around the application: request ids, security headers, ``HEAD``, and who may talk to it at all.

Order: request id and headers, Host (DNS rebinding), Origin (cross-site writes), token. All of it before any routing.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import msgspec
import structlog

from brain.api.errors import ErrorBody, describe
from brain.errors import BrainError, ForbiddenOriginError, InvalidInputError, UnauthorizedError
from shared_protocol.headers import REQUEST_ID_HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from litestar.types import (
        ASGIApp,
        HTTPReceiveMessage,
        HTTPScope,
        Message,
        Receive,
        Scope,
        Send,
        WebSocketReceiveMessage,
    )

    from brain.config.models import Config

SESSION_COOKIE: Final = "daapu_session"
READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS: Final = frozenset({"/api/health/live", "/api/health/ready", "/api/login", "/api/logout"})
"""Reachable without the server's token. The hand's callbacks have a token of their own."""

PAGE_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
DATA_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; sandbox"

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LOOPBACK: Final = frozenset({"localhost"})


def is_api_path(path: str) -> bool:
    """Whether a path belongs to the programs' side of the server."""
    return path in {"/api", "/metrics"} or path.startswith("/api/")


def session_value(token: str) -> str:
    """Return what the login cookie holds: proof of the token, not the token."""
    return hmac.new(token.encode(), b"daapu session", hashlib.sha256).hexdigest()


class RequestShell:
    """Gives every request an id, every answer its headers, and ``HEAD`` the head of ``GET``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wrap one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        extra = _headers(scope["path"], request_id)
        is_head = scope["method"] == "HEAD"
        ended = False

        async def send_with_headers(message: Message) -> None:
            nonlocal ended
            if ended:
                return
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in extra if pair[0] not in present)]
            await send(message)
            if is_head and message["type"] == "http.response.start":
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        async def receive_until_end() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            # A stream that was asked for its head only must not go on: to it the client is gone.
            return {"type": "http.disconnect"} if ended else await receive()

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(_for_application(cast("HTTPScope", scope), request_id), receive_until_end, send_with_headers)


class AccessGate:
    """Refuses strangers: a foreign Host, a write from a foreign Origin, a missing token."""

    def __init__(self, app: ASGIApp, config: Config) -> None:
        self._app = app
        own = urlsplit(config.hand.self_base_url).hostname
        self._hosts = {host.lower() for host in config.server.allowed_hosts} | ({own.lower()} if own else set[str]())
        self._origins = {origin.lower().rstrip("/") for origin in config.server.allowed_origins}
        self._token = config.server.token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer strangers, pass others on."""
        if scope["type"] == "http":
            try:
                self.check(cast("HTTPScope", scope))
            except BrainError as refusal:
                await send_error(send, refusal)
                return
        await self._app(scope, receive, send)

    def check(self, scope: HTTPScope) -> None:
        """Check one request.

        Raises:
            InvalidInputError: its Host is not one of ours.
            ForbiddenOriginError: it is a write from another origin.
            UnauthorizedError: it lacks the token.
        """
        host = _single(scope, b"host")
        self._check_host(host)
        if scope["method"] not in READING_METHODS:
            self._check_origin(_single(scope, b"origin"), host)
        if self._token is not None and needs_token(scope["path"]) and not shows_token(scope, self._token):
            raise UnauthorizedError("log in, or send the server's token as 'Authorization: Bearer ...'")

    def _check_host(self, host: str) -> None:
        name = host.lower()
        bare = _host_name(name)
        if bare and (bare in _LOOPBACK or bare.endswith(".localhost") or _is_address(bare)):
            return
        if bare and (bare in self._hosts or name in self._hosts):
            return
        raise InvalidInputError(f"the Host {host!r} is not known: add its name to server.allowedHosts to allow it")

    def _check_origin(self, origin: str, host: str) -> None:
        if not origin or origin.lower() in self._origins:
            return
        scheme, _, address = origin.lower().partition("://")
        default = {"http": ":80", "https": ":443"}.get(scheme)
        if address and default and _with_port(address, default) == _with_port(host.lower(), default):
            return
        raise ForbiddenOriginError(f"a write from the origin {origin!r} is refused: add it to server.allowedOrigins to allow it")


def shows_token(scope: HTTPScope, token: str) -> bool:
    """Whether a request carries the server's token, as a bearer or by the cookie of a login."""
    scheme, _, given = _single(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer" and _same(given.strip(), token):
        return True
    expected = session_value(token)
    return any(_same(value, expected) for value in _session_cookies(scope))


def needs_token(path: str) -> bool:
    """Whether a path is guarded by the server's token. Anything but exactly an open path is."""
    return is_api_path(path) and path not in OPEN_PATHS and not path.startswith("/api/hand/")


async def send_error(send: Send, error: BrainError) -> None:
    """Answer with a domain error outside the application."""
    status, message = describe(error)
    body = msgspec.json.encode(ErrorBody(message))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _for_application(scope: HTTPScope, request_id: str) -> HTTPScope:
    """Return the request as the application sees it: ``HEAD`` as ``GET``, its id in the header.

    A copy: the server looks at its own scope to know that the answer to a ``HEAD`` has no body.
    """
    name = REQUEST_ID_HEADER.encode()
    headers = [pair for pair in scope["headers"] if pair[0].lower() != name]
    path = scope["path"]
    if is_api_path(path):
        # The router would skip an empty segment and read the next one as the id: a blank id has to stay a blank id.
        path = path.replace("//", "/ /")
    return cast(
        "HTTPScope",
        {
            **scope,
            "method": "GET" if scope["method"] == "HEAD" else scope["method"],
            "path": path,
            "headers": [*headers, (name, request_id.encode())],
        },
    )


def _request_id(scope: Scope) -> str:
    given = _single(scope, REQUEST_ID_HEADER.encode())
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _headers(path: str, request_id: str) -> list[tuple[bytes, bytes]]:
    is_api = is_api_path(path)
    pairs = {
        REQUEST_ID_HEADER: request_id,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "content-security-policy": DATA_POLICY if is_api else PAGE_POLICY,
        "cache-control": "no-store" if is_api else "no-cache",
    }
    return [(name.encode(), value.encode()) for name, value in pairs.items()]


def _single(scope: HTTPScope | Scope, name: bytes) -> str:
    """Return a header's value; several of a name are as good as a wrong one."""
    values = [value for key, value in scope["headers"] if key.lower() == name]
    return values[0].decode("latin-1").strip() if len(values) == 1 else ("\x00" if values else "")


def _host_name(host: str) -> str:
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name if bracket and (not rest or re.fullmatch(r":[0-9]{1,5}", rest)) else ""
    match = re.fullmatch(r"([a-z0-9_.-]+?)\.?(:[0-9]{1,5})?", host)
    return match.group(1) if match else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _with_port(netloc: str, default: str) -> str:
    return netloc if re.search(r":[0-9]+$", netloc) else netloc + default


def _same(given: str, expected: str) -> bool:
    # A header's bytes were read as Latin-1; a token beyond ASCII travels as UTF-8.
    return hmac.compare_digest(given.encode("latin-1"), expected.encode())


def _session_cookies(scope: HTTPScope) -> Iterator[str]:
    """Yield the values of our cookie. By hand: the library gives up at the first odd cookie of another program on this host."""
    for header, value in scope["headers"]:
        if header.lower() == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                name, _, text = pair.partition("=")
                if name.strip() == SESSION_COOKIE:
                    yield text.strip().strip('"')
