"""Several controllers at one path."""

from __future__ import annotations

import httpx2
from litestar import Controller, get, post

from brain.api.shared_paths import SharedPathsLitestar


class Reading(Controller):
    path = "/things"

    @get("/{name:str}/parts", sync_to_thread=False)
    def read(self) -> str:
        return "read"


class Writing(Controller):
    path = "/things/{name:str}"

    @post("/parts", sync_to_thread=False, status_code=200)
    def write(self) -> str:
        return "written"


async def test_two_controllers_share_a_path_and_options_names_both_methods() -> None:
    app = SharedPathsLitestar([Reading, Writing], openapi_config=None)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://local") as client:
        assert (await client.get("/things/x/parts")).text == "read"
        assert (await client.post("/things/x/parts")).text == "written"
        assert (await client.options("/things/x/parts")).headers["allow"] == "GET, OPTIONS, POST"
