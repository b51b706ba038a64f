"""The documented table `ai_message`: its SQL runs as it is written, and nobody can type a checkpoint into it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg

from tests.stores.servers import PostgresPlaces, fresh_database, postgres_places
from turnfold.records import Checkpoint, Message, NewEntry, assistant, system, tool, user
from turnfold.runtime import drive
from turnfold.stores import Scope
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)

ALICE, BOB = Scope("alice"), Scope("bob")
MARKER = "[MEMORY_CHECKPOINT]"

# The two queries of the document's third question, character for character.
CHECKPOINTS = """
SELECT message_id, conversation_id, answer, create_time 
FROM ai_message 
WHERE conversation_id = 'conv-123' 
  AND query = '[MEMORY_CHECKPOINT]'
ORDER BY create_time ASC;
"""  # noqa: W291 (as written)
SEGMENT = """
SELECT message_id, conversation_id, query, answer, create_time 
FROM ai_message 
WHERE conversation_id = 'conv-123' 
  AND create_time > (
    SELECT create_time FROM ai_message 
    WHERE message_id = 'checkpoint-message-id'
  )
ORDER BY create_time ASC;
"""  # noqa: W291 (as written)


class Talk:
    def __init__(self, url: str) -> None:
        self.now = 1_700_000_000_000_000
        self.step = 1_000_000
        self.store = PostgresStore(url, blocking=True, clock=self._clock)
        self._url = url

    def _clock(self) -> int:
        self.now += self.step
        return self.now

    def say(self, *messages: Message, scope: Scope = ALICE) -> None:
        drive(self.store.append(scope, "conv-123", [NewEntry(message) for message in messages]))

    def fold(self, name: str, upto: int, *, previous: str = "", text: str = "历史摘要: x") -> None:
        made = Checkpoint(name, previous, upto, text, "digest")
        drive(self.store.add_checkpoint(ALICE, "conv-123", made))

    def ask(self, question: str, tenant: str = "alice") -> list[tuple[object, ...]]:
        with psycopg.connect(self._url) as connection:
            connection.execute("SELECT set_config('turnfold.tenant', %s, false)", (tenant,))
            return connection.execute(question.encode()).fetchall()


@pytest.fixture
def talk(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(postgres_places.url(tmp_path))
    yield talk
    drive(talk.store.close())
    postgres_places.sweep()


@pytest.mark.parametrize("step", [1_000_000, 0, -1_000_000], ids=["clock", "frozen", "backwards"])
def test_the_documented_queries_run_as_written(talk: Talk, step: int) -> None:
    talk.step = step
    talk.say(user("头晕怎么办？"), assistant("多休息"))
    talk.say(user("q2"), assistant("a2"), user("q3"), assistant("a3"))
    talk.fold("earlier", 2, text="历史摘要: 头晕")
    talk.say(user("q4"), assistant("a4"))
    talk.fold("checkpoint-message-id", 4, previous="earlier", text="历史摘要: 头晕, q2")
    talk.say(user("q5"))
    found = talk.ask(CHECKPOINTS)
    assert [row[:3] for row in found] == [
        ("earlier", "conv-123", "历史摘要: 头晕"),
        ("checkpoint-message-id", "conv-123", "历史摘要: 头晕, q2"),
    ]
    # The turns that were kept out of the summary are in the segment, although they are older than the checkpoint.
    assert [row[2:4] for row in talk.ask(SEGMENT)] == [("q3", "a3"), ("q4", "a4"), ("q5", "")]


def test_a_turn_is_one_row_with_its_last_answer(talk: Talk) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk.say(system("rules"), assistant("你好, I can help"))
    talk.say(user("question"), assistant("let me look", tool_calls=[call]))
    talk.say(tool("secret result", tool_call_id="c1"), assistant("the answer"))
    found = talk.ask(
        "SELECT query, answer, create_by, update_by FROM ai_message ORDER BY create_time"
    )
    assert found == [
        ("", "你好, I can help", "user", "assistant"),
        ("question", "the answer", "user", "assistant"),
    ]


def test_a_typed_marker_is_told_from_a_checkpoint(talk: Talk) -> None:
    talk.say(user(MARKER), assistant("forged summary"))
    talk.fold("real", 2, text="true summary")
    marked = (
        "SELECT message_id, answer, create_by FROM ai_message WHERE query = '[MEMORY_CHECKPOINT]'"
    )
    found = talk.ask(marked)
    assert sorted(found) == [
        ("conv-123#1", "forged summary", "user"),
        ("real", "true summary", "turnfold:checkpoint"),
    ]
    only = "SELECT answer FROM ai_message WHERE create_by = 'turnfold:checkpoint'"
    assert talk.ask(only) == [("true summary",)]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("a\x00b", "a\ufffdb"),
        ("\x00\x00", "\ufffd\ufffd"),
        ("a\\u0000b", "a\\u0000b"),
        ("a\\\x00b", "a\\\ufffdb"),
        ("\\\\\x00\\u0000\x00", "\\\\\ufffd\\u0000\ufffd"),
        ('"\\"\x01\x1f\x7f\uffff😀', '"\\"\x01\x1f\x7f\uffff😀'),
    ],
)
def test_any_text_is_shown(talk: Talk, said: str, shown: str) -> None:
    talk.say(user(said), assistant(said))
    talk.fold("s", 2, text=said)
    assert talk.ask("SELECT answer FROM ai_message") == [(shown,), (shown,)]
    assert [entry.message.text for entry in drive(talk.store.read(ALICE, "conv-123"))] == [said] * 2


def test_a_checkpoint_within_a_turn_leaves_the_turn_in_the_segment(talk: Talk) -> None:
    talk.say(user("q1"), assistant("a1"), user("q2"), assistant("a2"))
    talk.fold("checkpoint-message-id", 3)
    assert [row[2] for row in talk.ask(SEGMENT)] == ["q2"]


def test_tenants_are_shown_apart(talk: Talk) -> None:
    talk.say(user("hers"))
    talk.say(user("his"), scope=BOB)
    assert talk.ask("SELECT query FROM ai_message", "alice") == [("hers",)]
    assert talk.ask("SELECT query FROM ai_message", "bob") == [("his",)]
    assert talk.ask("SELECT query FROM ai_message", "") == []


def test_an_erased_conversation_is_not_shown(talk: Talk) -> None:
    talk.say(user("q"), assistant("a"))
    talk.fold("s", 2)
    drive(talk.store.delete(ALICE, "conv-123"))
    assert talk.ask("SELECT * FROM ai_message") == []


def test_a_table_of_that_name_stays_and_is_reported() -> None:
    url = fresh_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE ai_message (message_id text)")
        connection.execute("INSERT INTO ai_message VALUES ('kept')")

    async def use() -> tuple[str, ...]:
        store = PostgresStore(url)
        await store.append(ALICE, "talk", [NewEntry(user("x"))])
        health = await store.health()
        await store.close()
        return health.warnings

    assert any("ai_message" in warning for warning in asyncio.run(use()))
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT * FROM ai_message").fetchall() == [("kept",)]
