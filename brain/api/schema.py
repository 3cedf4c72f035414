"""``python -m brain.api.schema``: writes the OpenAPI document, or with ``--markdown`` the reference page made from it."""

from __future__ import annotations

import sys

import msgspec

from brain.api.openapi import build_openapi
from brain.api.reference import render_reference
from brain.api.routes import described_routes


def openapi_text() -> str:
    """Return the document as indented JSON with sorted keys, so that two builds of the same routes are equal."""
    document = msgspec.json.decode(build_openapi(described_routes()))
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2).decode() + "\n"


def reference_text() -> str:
    """Return the reference page."""
    return render_reference(build_openapi(described_routes()))


if __name__ == "__main__":
    sys.stdout.write(reference_text() if "--markdown" in sys.argv[1:] else openapi_text())
