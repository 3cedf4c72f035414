"""Rules for namespaces and advertised names (chat-domain 14.1)."""

from __future__ import annotations

import re
from typing import Final

from brain.tools.provider import SEPARATOR

RESERVED_NAMESPACES: Final = frozenset({"system", "inner", "internal", "gsg", "eltm", "harness", "exa"})
"""Not usable by configured tool servers; ``exa`` belongs to the dedicated one."""

_ALLOWED: Final = re.compile(r"[0-9a-z_-]+")
_SEPARATOR_RUN: Final = re.compile(r"_{2,}")


def advertised_name(namespace: str, bare_name: str) -> str:
    """Return the name under which the model sees a tool."""
    return f"{namespace}{SEPARATOR}{bare_name}"


def namespace_problem(namespace: str) -> str | None:
    """Return why ``namespace`` is not valid, or ``None`` if it is."""
    if not _ALLOWED.fullmatch(namespace):
        return "only lower-case letters, digits, '_' and '-' are allowed, at least one"
    if SEPARATOR in namespace:
        return f"'{SEPARATOR}' separates namespace and tool name and must not occur inside"
    if namespace.startswith("_") or namespace.endswith("_"):
        return "it must not begin or end with '_'"
    return None


def server_namespace_problem(namespace: str) -> str | None:
    """Return why a configured tool server may not have this namespace, or ``None`` if it may."""
    if namespace in RESERVED_NAMESPACES:
        return f"it is reserved (as are {', '.join(sorted(RESERVED_NAMESPACES - {namespace}))})"
    return namespace_problem(namespace)


def collapse_separators(server_name: str) -> str:
    """Return a server's own tool name without any ``__``: runs of underscores become one."""
    return _SEPARATOR_RUN.sub("_", server_name)
