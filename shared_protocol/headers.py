"""Names of the HTTP headers that brain and hand use between them."""

from typing import Final

AUTH_HEADER: Final = "x-daapu-token"
"""Carries the shared secret, in both directions."""
REQUEST_ID_HEADER: Final = "x-request-id"
"""Carries the id under which a request is logged on both sides."""
