"""The page's files: cache rules, conditional requests, no way out of the folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2
import pytest

from brain.api.middleware import RequestShell
from brain.api.web_ui import WebUi, read_web_files

if TYPE_CHECKING:
    from pathlib import Path

    from litestar.types import Receive, Scope, Send


async def _api(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"api", "more_body": False})


@pytest.fixture
def client(tmp_path: Path) -> httpx2.AsyncClient:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<html>page</html>")
    (folder / "favicon.svg").write_text("<svg/>")
    (folder / "assets" / "main-a1b2.js").write_text("run()")
    (tmp_path / "secret.txt").write_text("secret")
    app = RequestShell(WebUi(_api, read_web_files(folder)))
    return httpx2.AsyncClient(base_url="http://localhost", transport=httpx2.ASGITransport(app=app))


async def test_the_page_is_at_the_root_with_a_tag_and_no_date(client: httpx2.AsyncClient) -> None:
    for path in ("/", "/index.html"):
        answer = await client.get(path)
        assert answer.text == "<html>page</html>"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["etag"].startswith('"')
        assert "last-modified" not in answer.headers
        assert "script-src 'self'" in answer.headers["content-security-policy"]


async def test_a_matching_tag_is_304(client: httpx2.AsyncClient) -> None:
    tag = (await client.get("/")).headers["etag"]
    for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        answer = await client.get("/", headers={"if-none-match": given})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
    assert (await client.get("/", headers={"if-none-match": '"x"'})).status_code == 200


async def test_hashed_names_are_kept_for_a_week(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/assets/main-a1b2.js")
    assert answer.headers["cache-control"] == "max-age=604800"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/chats/1",
        "/assets",
        "/assets/",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/assets/../index.html/",
        "/%252e%252e/secret.txt",
    ],
)
async def test_what_is_no_file_is_404(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 404
    assert list(answer.json()) == ["error"]


async def test_the_api_wins_and_head_has_no_body(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/api/chats")).text == "api"
    assert (await client.get("/metrics")).text == "api"
    head = await client.head("/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == "17"
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = await client.request(method, "/")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
        assert (await client.request(method, "/nope")).status_code == 404


def test_without_a_page_there_are_no_files(tmp_path: Path) -> None:
    assert read_web_files(None) == {}
    (tmp_path / "x").write_text("x")
    assert "/" not in read_web_files(tmp_path)
