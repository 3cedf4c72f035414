"""``/api/login``: exchanges the server's token for a cookie, so that a browser can use a guarded server."""

from __future__ import annotations

import hmac
from typing import Any

from litestar import Controller, Request, Response, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.params import JSONBody

from brain.api.errors import error_answers
from brain.api.middleware import SESSION_COOKIE, session_value, shows_token
from brain.api.wire import LoginBody, LoginState
from brain.config.models import Config
from brain.errors import UnauthorizedError

YEAR_SECONDS = 365 * 24 * 3600


class LoginController(Controller):
    """The login of a guarded server."""

    path = "/api"
    tags = ("login",)

    @get("/login", operation_id="getLogin", summary="Ask whether a login is needed")
    async def state(self, request: Request[Any, Any, Any], config: NamedDependency[Config]) -> LoginState:
        """Say whether this server asks for a token, and whether this client has shown it."""
        token = config.server.token
        if token is None:
            return LoginState(required=False, logged_in=True)
        return LoginState(required=True, logged_in=shows_token(request.scope, token))

    @post("/login", operation_id="logIn", summary="Log in", status_code=204, responses=error_answers(400, 401, 413, 415))
    async def log_in(
        self,
        request: Request[Any, Any, Any],
        data: JSONBody[LoginBody],
        config: NamedDependency[Config],
    ) -> Response[None]:
        """Set the session cookie if the token is right."""
        token = config.server.token
        if token is None:
            return Response(None, status_code=204)
        if not hmac.compare_digest(data.token.encode(), token.encode()):
            raise UnauthorizedError("the token is wrong")
        return Response(None, status_code=204, cookies=[_cookie(request, session_value(token), YEAR_SECONDS)])

    @post("/logout", operation_id="logOut", summary="Log out", status_code=204)
    async def log_out(self, request: Request[Any, Any, Any]) -> Response[None]:
        """Remove the session cookie."""
        return Response(None, status_code=204, cookies=[_cookie(request, "", 0)])


def _cookie(request: Request[Any, Any, Any], value: str, max_age: int) -> Cookie:
    return Cookie(
        key=SESSION_COOKIE,
        value=value,
        max_age=max_age,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
