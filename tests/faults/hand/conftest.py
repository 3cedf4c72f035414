"""A started hand and a tool host for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.fakes.hand_client import HandClient, running_hand
from tests.fakes.tool_host import ToolHost, running_tool_host


@pytest.fixture
async def hand() -> AsyncGenerator[HandClient]:
    async with running_hand() as client:
        yield client


@pytest.fixture
async def tool_host() -> AsyncGenerator[ToolHost]:
    async with running_tool_host() as host:
        yield host
