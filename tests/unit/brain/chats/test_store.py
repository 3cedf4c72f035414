"""Loading and storing histories against a real database."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec
import pytest

from brain.chats.store import ChatStore
from brain.chats.validation import InvalidHistoryError
from brain.errors import ConflictError, CorruptChatError, NotFoundError
from shared_protocol.codec import decode_messages, encode_messages

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

    from shared_protocol.messages import Message

    Pool = AsyncConnectionPool[AsyncConnection]

GOLDEN = (
    '[{"role":"user","parts":[{"type":"text","text":"Roll a die 🎲 /"}],"createdAt":"2026-03-01T08:00:00.123456789Z"},'
    '{"role":"assistant","parts":[{"type":"reasoning","content":"use the tool"},'
    '{"type":"tool_call","id":"c1","tool":"dice__roll","args":{"z":1.0,"a":123456789012345678901234567890}}],'
    '"meta":{"inputTokens":310,"outputTokens":20,"totalTokens":330,"modelId":"acme/large-1"},"finishReason":"tool_calls"},'
    '{"role":"tool_result","parts":[{"type":"tool_result","id":"c1","tool":"dice__roll",'
    '"parts":[{"type":"text","text":"4"}],"isError":false}]},'
    '{"role":"assistant","parts":[{"type":"text","text":"You got a 4."}],'
    '"meta":{"inputTokens":345,"outputTokens":6,"totalTokens":351},"finishReason":"stop"}]'
)


def picture_chat(content: bytes = b"picture" * 10, text: str = "look") -> tuple[Message, ...]:
    encoded = base64.b64encode(content).decode()
    return decode_messages(
        '[{"role":"user","parts":[{"type":"text","text":'
        + msgspec.json.encode(text).decode()
        + '},{"type":"attachment","kind":"image","content":{"type":"base64","base64":"'
        + encoded
        + '"},"mimeType":"image/png"}],"createdAt":"2026-03-01T08:00:00Z"},'
        '{"role":"assistant","parts":[{"type":"text","text":"nice"}],'
        '"meta":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"finishReason":"stop"}]',
    )


async def insert(pool: Pool, chat_id: str, messages: tuple[Message, ...] = ()) -> None:
    async with pool.connection() as conn, conn.transaction():
        await ChatStore().insert(conn, chat_id, title="T", messages=messages)


async def scalar(pool: Pool, statement: bytes) -> object:
    async with pool.connection() as conn:
        row = await (await conn.execute(statement)).fetchone()
        return None if row is None else row[0]


async def test_a_history_comes_back_byte_for_byte(pool: Pool) -> None:
    await insert(pool, "1-1")
    store = ChatStore()
    async with pool.connection() as conn, conn.transaction():
        await store.store(conn, "1-1", messages=decode_messages(GOLDEN), eltm_version="7", persona_id=3)
    async with pool.connection() as conn:
        chat = await store.load(conn, "1-1")
    assert chat is not None
    assert encode_messages(chat.messages).decode() == GOLDEN
    assert (chat.eltm_version, chat.persona_id, chat.title) == ("7", 3, "T")
    assert await scalar(pool, b"SELECT chat_json FROM chats") == GOLDEN


async def test_an_unknown_chat_loads_as_nothing_and_cannot_be_stored(pool: Pool) -> None:
    async with pool.connection() as conn, conn.transaction():
        assert await ChatStore().load(conn, "1-1") is None
        with pytest.raises(NotFoundError):
            await ChatStore().store(conn, "1-1", messages=(), eltm_version="", persona_id=0)


async def test_a_corrupt_row_is_named_and_never_reset(pool: Pool) -> None:
    await insert(pool, "1-1")
    async with pool.connection() as conn:
        for broken in ("{", '[{"role":"user","parts":[]}]', GOLDEN.replace('"finishReason":"stop"', '"finishReason":"length"')):
            await conn.execute("UPDATE chats SET chat_json = %s", (broken,))
            with pytest.raises(CorruptChatError, match="1-1"):
                await ChatStore().load(conn, "1-1")
            assert await scalar(pool, b"SELECT chat_json FROM chats") == broken


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"tool":"dice__roll","parts"', '"tool":"other__tool","parts"'),
        ('"parts":[{"type":"text","text":"4"}]', '"parts":[]'),
        ('"text":"You got a 4."', '"text":" "'),
        ('[{"type":"text","text":"You got a 4."}]', "[]"),
        (
            '{"type":"text","text":"4"}',
            '{"type":"attachment","kind":"file","content":{"type":"base64","base64":"!"},"mimeType":"a/b"}',
        ),
        ('"finishReason":"stop"', '"finishReason":"STOP"'),
        ('{"role":"tool_result"', '{"role":"user","parts":[],"createdAt":"2026-03-01T08:00:01Z"},{"role":"tool_result"'),
    ],
)
async def test_old_rows_that_an_import_would_refuse_still_load(pool: Pool, old: str, new: str) -> None:
    assert old in GOLDEN
    await insert(pool, "1-1")
    stored = GOLDEN.replace(old, new)
    async with pool.connection() as conn:
        await conn.execute("UPDATE chats SET chat_json = %s", (stored,))
        chat = await ChatStore().load(conn, "1-1")
    assert chat is not None
    assert encode_messages(chat.messages).decode() == stored


async def test_an_incomplete_history_is_not_stored(pool: Pool) -> None:
    await insert(pool, "1-1")
    async with pool.connection() as conn, conn.transaction():
        with pytest.raises(InvalidHistoryError):
            await ChatStore().store(conn, "1-1", messages=decode_messages(GOLDEN)[:1], eltm_version="", persona_id=0)


async def test_a_change_made_meanwhile_is_not_overwritten(pool: Pool) -> None:
    await insert(pool, "1-1")
    store = ChatStore()
    messages = decode_messages(GOLDEN)
    async with pool.connection() as conn, conn.transaction():
        await store.store(conn, "1-1", messages=messages, eltm_version="", persona_id=0, expected_revision=0)
    async with pool.connection() as conn, conn.transaction():
        with pytest.raises(ConflictError):
            await store.store(conn, "1-1", messages=(), eltm_version="", persona_id=0, expected_revision=0)


async def test_an_image_is_kept_once_and_joined_on_reading(pool: Pool) -> None:
    messages = picture_chat()
    await insert(pool, "1-1", messages)
    await insert(pool, "1-2", messages)
    assert await scalar(pool, b"SELECT count(*) FROM attachments") == 1
    stored = await scalar(pool, b"SELECT chat_json FROM chats LIMIT 1")
    assert isinstance(stored, str)
    assert base64.b64encode(b"picture" * 10).decode() not in stored
    async with pool.connection() as conn:
        chat = await ChatStore().load(conn, "1-1")
    assert chat is not None
    assert chat.messages == messages


async def test_an_image_goes_with_the_last_chat_that_uses_it(pool: Pool) -> None:
    store = ChatStore()
    for chat_id in ("1-1", "1-2"):
        await insert(pool, chat_id, picture_chat())
    async with pool.connection() as conn, conn.transaction():
        assert await store.delete(conn, "1-1")
    assert await scalar(pool, b"SELECT count(*) FROM attachments") == 1
    async with pool.connection() as conn, conn.transaction():
        await store.store(conn, "1-2", messages=(), eltm_version="", persona_id=0)
    assert await scalar(pool, b"SELECT count(*) FROM attachments") == 0


async def test_text_that_looks_like_a_mark_stays_text(pool: Pool) -> None:
    await insert(pool, "1-1", picture_chat(b"secret" * 9))
    digest = await scalar(pool, b"SELECT encode(sha256, 'hex') FROM attachments")
    text = f'"base64": "sha256:{digest}"'
    messages = decode_messages(
        encode_messages(picture_chat(text=text)).replace(
            b'"nice"}]',
            b'"nice"},{"type":"tool_call","id":"x","tool":"t","args":{"base64": "sha256:' + str(digest).encode() + b'"}}]',
            1,
        )[:-1]
        + b',{"role":"tool_result","parts":[{"type":"tool_result","id":"x","tool":"t","parts":[{"type":"attachment","kind":"file",'
        b'"content":{"type":"base64","base64":"sha256:' + str(digest).encode() + b'"},"mimeType":"a/b"}],"isError":false}]},'
        b'{"role":"assistant","parts":[],"meta":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"finishReason":"stop"}]',
    )
    await insert(pool, "1-2", messages)
    async with pool.connection() as conn:
        chat = await ChatStore().load(conn, "1-2")
    assert chat is not None
    assert chat.messages == messages


async def test_base64_that_is_not_canonical_survives_to_the_letter(pool: Pool) -> None:
    messages = decode_messages(encode_messages(picture_chat(b"abcd")).replace(b'"YWJjZA=="', b'"YWJjZB=="'))
    await insert(pool, "1-1", messages)
    async with pool.connection() as conn:
        chat = await ChatStore().load(conn, "1-1")
    assert chat is not None
    assert chat.messages == messages


async def test_a_dropped_region_keeps_its_images_until_the_chat_goes(pool: Pool) -> None:
    store = ChatStore()
    messages = picture_chat()
    await insert(pool, "1-1", messages)
    async with pool.connection() as conn, conn.transaction():
        assert await store.add_drop(conn, "1-1", messages) == 1
        assert await store.add_drop(conn, "1-1", messages[:1]) == 2
        await store.store(conn, "1-1", messages=(), eltm_version="", persona_id=0)
        text = await store.read_drop(conn, "1-1", 1)
        assert text is not None
        assert decode_messages(text) == messages
        assert await store.read_drop(conn, "1-1", 3) is None
        await store.delete(conn, "1-1")
    assert await scalar(pool, b"SELECT count(*) FROM attachments") == 0
