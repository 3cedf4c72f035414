"""The one secret between a brain and its hand."""

from __future__ import annotations

import hmac

from aiohttp import web

from hand.callbacks import TOKEN_HEADER


def is_authorised(request: web.BaseRequest, token: str) -> bool:
    """Whether the request carries the token; compared in constant time."""
    given = request.headers.get(TOKEN_HEADER, "")
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())
