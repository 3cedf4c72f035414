"""An application in which several controllers may have routes at one path.

Litestar 2.25 gives each controller an OPTIONS handler of its own for every path and then refuses the second one at a path
(``Handler already registered``). Here the generated handlers are left out while routes are joined, so that each joined route
makes one that names all its methods. Waits for a release in which controllers can share paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import Litestar
from typing_extensions import override

if TYPE_CHECKING:
    from litestar import Router
    from litestar.types import RouteHandlerMapItem, RouteHandlerType

_GENERATED = "options_handler"


class SharedPathsLitestar(Litestar):
    """Litestar, with paths that controllers may share."""

    @property
    @override
    def route_handler_method_map(self) -> dict[str, RouteHandlerMapItem]:
        """Return the handlers by path and method, without the generated ones."""
        return _without_generated(super().route_handler_method_map)

    @classmethod
    @override
    def get_route_handler_map(cls, value: RouteHandlerType | Router) -> dict[str, RouteHandlerMapItem]:
        """Return the handlers of what is being registered, without the generated ones."""
        return _without_generated(super().get_route_handler_map(value))


def _without_generated(found: dict[str, RouteHandlerMapItem]) -> dict[str, RouteHandlerMapItem]:
    return {
        path: {method: handler for method, handler in handlers.items() if handler.handler_name != _GENERATED}
        for path, handlers in found.items()
    }
