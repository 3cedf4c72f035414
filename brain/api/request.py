"""The request of the API: its body is decoded straight into the struct that the route declares.

The framework would build plain values first and convert them: number literals and deep structures would not survive, and a large
body would be held twice.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from litestar import Request

from brain.errors import InvalidInputError


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


class ApiRequest(Request[Any, Any, Any]):
    """A request whose JSON is checked while it is read."""

    async def json(self) -> Any:
        """Return the body as the handler's declared type.

        Raises:
            InvalidInputError: the body is no JSON, nested too deeply, or breaks a rule of the type.
        """
        field = self.route_handler.parsed_data_field
        kind = Any if field is None else field.annotation
        try:
            return _decoder(kind).decode(await self.body())
        except msgspec.ValidationError as problem:
            raise InvalidInputError(str(problem)) from problem
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise InvalidInputError(f"the body is no valid JSON: {problem}") from problem
        except RecursionError as problem:
            raise InvalidInputError("the JSON is nested too deeply") from problem
