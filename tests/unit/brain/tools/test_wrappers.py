from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from brain.errors import InvalidInputError
from brain.tools.combined import CombinedTools
from brain.tools.limit import ATTACHMENT_LIMIT_BYTES, ERROR_LIMIT_CHARS, LimitedTools, cap_text
from brain.tools.names import collapse_separators, namespace_problem, server_namespace_problem
from brain.tools.provider import ToolOutcome, ToolSetupError, ToolTransportError, error_outcome, split_name
from brain.tools.whitelist import WhitelistedTools
from shared_protocol.messages import AttachmentPart, Base64Content, TextPart
from shared_protocol.tools import ToolSpec
from tests.fakes.tools import FakeTools

ARGS = Raw(b"{}")


def attachment(size: int) -> AttachmentPart:
    return AttachmentPart("image", Base64Content(base64.b64encode(b"x" * size).decode()), "image/png")


def text_of(outcome: ToolOutcome) -> str:
    return "\n".join(part.text for part in outcome.parts if isinstance(part, TextPart))


@pytest.mark.parametrize("namespace", ["fs", "my-server", "a_b", "0", "-", "a-_-b"])
def test_namespace_is_accepted(namespace: str) -> None:
    assert namespace_problem(namespace) is None


@pytest.mark.parametrize("namespace", ["", "A", "a b", "a__b", "_a", "a_", "_", "ä", "a.b", "a\n", "٣"])
def test_namespace_is_refused(namespace: str) -> None:
    assert namespace_problem(namespace) is not None


@pytest.mark.parametrize("namespace", ["system", "inner", "internal", "gsg", "eltm", "harness", "exa"])
def test_reserved_namespace_is_refused_for_servers(namespace: str) -> None:
    assert server_namespace_problem(namespace) is not None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fs__read", ("fs", "read")),
        ("a__b__c", ("a", "b__c")),
        ("a___b", ("a", "_b")),
        ("bare", None),
        ("__x", None),
        ("x__", None),
    ],
)
def test_names_are_split_at_the_first_separator(name: str, expected: tuple[str, str] | None) -> None:
    assert split_name(name) == expected


@given(st.text(alphabet="a_", max_size=12))
def test_collapsed_names_hold_no_separator(name: str) -> None:
    collapsed = collapse_separators(name)
    assert "__" not in collapsed
    assert collapse_separators(collapsed) == collapsed
    assert collapsed.replace("_", "") == name.replace("_", "")


async def test_combined_keeps_the_order_of_its_children_and_routes_by_namespace() -> None:
    first, second = FakeTools("one"), FakeTools("two")
    tools = CombinedTools([first, second])
    assert tools.namespaces == ("one", "two")
    assert [spec.name for spec in await tools.list_tools()] == ["one__run", "two__run"]
    await tools.execute("c", "two__run", ARGS)
    assert (first.calls, second.calls) == ([], [("c", "two__run")])
    assert (tools.budget_seconds("two__run"), tools.budget_seconds("two__nope"), tools.budget_seconds("x__run")) == (7, 0, 0)


@pytest.mark.parametrize("name", ["three__run", "run", ""])
async def test_unroutable_name_is_an_error_result(name: str) -> None:
    outcome = await CombinedTools([FakeTools("one")]).execute("c", name, ARGS)
    assert outcome.is_error
    assert text_of(outcome).startswith("Error: ")


@pytest.mark.parametrize("namespaces", [["one", "one"], ["a__b"], ["Upper"], [""]])
def test_combined_refuses_what_it_could_not_route(namespaces: list[str]) -> None:
    with pytest.raises(ToolSetupError):
        CombinedTools([FakeTools(namespace) for namespace in namespaces])


async def test_listing_fails_when_one_child_is_down_and_lists_the_others_to_their_end() -> None:
    up, down = FakeTools("up"), FakeTools("down")
    down.is_down = True
    with pytest.raises(ToolTransportError, match="down is down"):
        await CombinedTools([down, up]).list_tools()
    assert up.lists == 1


async def test_children_are_listed_at_the_same_time() -> None:
    class Meeting(FakeTools):
        async def list_tools(self) -> Sequence[ToolSpec]:
            await together.wait()
            return await super().list_tools()

    together = asyncio.Barrier(3)
    async with asyncio.timeout(5):
        specs = await CombinedTools([Meeting("c"), Meeting("a"), Meeting("b")]).list_tools()
    assert [spec.name for spec in specs] == ["c__run", "a__run", "b__run"]


def test_the_caps_beside_the_configured_one() -> None:
    assert (ERROR_LIMIT_CHARS, ATTACHMENT_LIMIT_BYTES) == (100_000, 16 * 2**20)


async def test_whitelist_shows_and_runs_only_what_is_allowed() -> None:
    inner = CombinedTools([FakeTools("one"), FakeTools("two")])
    tools = WhitelistedTools(inner, ["two"])
    assert tools.namespaces == ("two",)
    assert [spec.name for spec in await tools.list_tools()] == ["two__run"]
    assert not (await tools.execute("c", "two__run", ARGS)).is_error
    for name in ("one__run", "run", "three__run"):
        assert (await tools.execute("c", name, ARGS)).is_error
        assert tools.budget_seconds(name) == 0
    assert tools.budget_seconds("two__run") == 7


@pytest.mark.parametrize("allowed", [[], ["three"], ["one", "three"]])
def test_whitelist_must_name_served_namespaces(allowed: list[str]) -> None:
    with pytest.raises(InvalidInputError):
        WhitelistedTools(CombinedTools([FakeTools("one")]), allowed)


def test_result_within_the_cap_is_untouched() -> None:
    parts = (TextPart("ab"), attachment(3), TextPart("cd"))
    assert cap_text(parts, 5) is parts


def test_result_over_the_cap_is_cut_with_the_marker_inside() -> None:
    parts = (TextPart("a" * 150), attachment(3), TextPart("b" * 150))
    image, text = cap_text(parts, 200)
    assert image == parts[1]
    assert isinstance(text, TextPart)
    assert len(text.text) == 200
    assert text.text.startswith("a" * 100)
    assert "\n\n[" in text.text
    assert "301" in text.text
    assert "200" in text.text


def test_cap_below_the_marker_leaves_the_marker_alone() -> None:
    (text,) = cap_text((TextPart("a" * 50),), 3)
    assert isinstance(text, TextPart)
    assert text.text.startswith("\n\n[")
    assert "a" * 5 not in text.text


@given(st.lists(st.text(max_size=80), max_size=5), st.integers(min_value=1, max_value=300))
def test_capped_text_is_never_longer_than_cap_or_marker(texts: list[str], limit: int) -> None:
    result = cap_text(tuple(map(TextPart, texts)), limit)
    length = len("\n".join(part.text for part in result if isinstance(part, TextPart)))
    assert length <= max(limit, 80)
    for part in result:
        assert isinstance(part, TextPart)
        part.text.encode()


async def test_errors_are_cut_only_at_the_generous_limit() -> None:
    inner = FakeTools("one", short=error_outcome("x" * 500), long=error_outcome("x" * 5000))
    tools = LimitedTools(inner, 100, error_limit_chars=1000)
    short = await tools.execute("c", "one__short", ARGS)
    assert (len(text_of(short)), short.is_error) == (507, True)
    long = await tools.execute("c", "one__long", ARGS)
    assert (len(text_of(long)), long.is_error) == (1000, True)


async def test_attachments_over_the_byte_cap_become_a_note() -> None:
    inner = FakeTools("one", run=ToolOutcome((attachment(60), attachment(60), attachment(30))))
    outcome = await LimitedTools(inner, 1000, attachment_limit_bytes=100).execute("c", "one__run", ARGS)
    assert [type(part) for part in outcome.parts] == [AttachmentPart, TextPart, AttachmentPart]
    assert "60 bytes" in text_of(outcome)
