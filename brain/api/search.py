"""``GET /api/search``: chats and messages by words."""

from __future__ import annotations

from typing import Annotated

from litestar import Controller, get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter
from msgspec import UNSET

from brain.api.errors import error_answers
from brain.api.wire import SearchPage, search_hit
from brain.chats.search.service import ChatSearch


class SearchController(Controller):
    """The search."""

    path = "/api/search"
    tags = ("chats",)

    @get("/", operation_id="search", summary="Find chats and messages", responses=error_answers(400))
    async def find(
        self,
        search: NamedDependency[ChatSearch],
        q: FromQuery[str],
        limit: Annotated[int, QueryParameter(ge=1, le=100)] = 20,
        cursor: FromQuery[str | None] = None,
    ) -> SearchPage:
        """Return titles and messages that contain every word of ``q``, newest chat first."""
        page = await search.find(q, limit=limit, cursor=cursor)
        return SearchPage([search_hit(hit) for hit in page.hits], UNSET if page.next_cursor is None else page.next_cursor)
