"""The built page: files read once, strong ETags, long cache for hashed names, no path that leaves the folder."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from brain.api.middleware import is_api_path, send_error
from brain.errors import NotFoundError

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

ASSET_CACHE: Final = b"max-age=604800"
PAGE_CACHE: Final = b"no-cache"
_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".webmanifest": "application/manifest+json"}


class PageFile(msgspec.Struct, frozen=True):
    """One file, ready to be sent."""

    body: bytes
    media_type: bytes
    etag: bytes
    cache_control: bytes


def find_web_folder() -> Path | None:
    """Return the folder of the built page: inside the installed package, else in the source tree."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_web", package.parent / "web" / "dist"):
        if (folder / "index.html").is_file():
            return folder
    return None


def read_web_files(folder: Path | None) -> dict[str, PageFile]:
    """Return all files of the page by URL path, so that a request can never name one outside; empty without a folder."""
    if folder is None:
        return {}
    files = {
        "/" + path.relative_to(folder).as_posix(): _read(path, path.relative_to(folder).parts[0])
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    if (index := files.get("/index.html")) is not None:
        files["/"] = index
    return files


class WebUi:
    """Answers what is not the API's: files of the page, 404 for all else."""

    def __init__(self, app: ASGIApp, files: dict[str, PageFile]) -> None:
        self._app = app
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the page, pass the API's on."""
        if scope["type"] != "http" or is_api_path(scope["path"]):
            await self._app(scope, receive, send)
            return
        file = self._files.get(scope["path"])
        if file is None:
            await send_error(send, NotFoundError("page", scope["path"]))
            return
        if scope["method"] != "GET":
            await _send_plain(send, 405, b'{"error":"only GET is possible here"}')
            return
        await _send_file(scope, send, file)


async def _send_file(scope: Scope, send: Send, file: PageFile) -> None:
    headers = [(b"etag", file.etag), (b"cache-control", file.cache_control)]
    if _matches(scope, file.etag):
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    headers += [(b"content-type", file.media_type), (b"content-length", str(len(file.body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": file.body, "more_body": False})


async def _send_plain(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"allow", b"GET, HEAD")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _matches(scope: Scope, etag: bytes) -> bool:
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            # A weak comparison, as for every conditional GET: a proxy that compressed the file made the tag weak.
            tags = {tag.strip().removeprefix(b"W/") for tag in value.split(b",")}
            return etag in tags or b"*" in tags
    return False


def _read(path: Path, top: str) -> PageFile:
    body = path.read_bytes()
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    is_text = kind.startswith("text/") or kind in {"application/json", "application/manifest+json", "image/svg+xml"}
    return PageFile(
        body=body,
        media_type=(f"{kind}; charset=utf-8" if is_text else kind).encode(),
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode(),
        cache_control=ASSET_CACHE if top == "assets" else PAGE_CACHE,
    )
