"""Document 003: its program, its requests, its SQL and its Redis key, on SQLite and on PostgreSQL with Redis."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")
pytest.importorskip("redis", reason="needs redis")

import psycopg
from psycopg.rows import dict_row

from tests.memory.short_places import Place, as_url, talk
from tests.stores.redis_server import PATIENCE, RedisServer
from tests.stores.servers import PostgresPlaces, fresh_database
from tests.stores.test_postgres_view import CHECKPOINTS, SEGMENT
from turnfold import ShortMemory
from turnfold.errors import Conflict, InvalidOption, InvalidRecord, NotFound
from turnfold.memories import (
    MEMORY_MODE_FULL_HISTORY,
    MEMORY_MODE_SUMMARY_N,
    AgentRequest,
    MemoryQueryRequest,
    MemoryWriteRequest,
    SessionValue,
)
from turnfold.runtime import drive
from turnfold.stores import SqliteStore
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.telemetry import Meter

C = "conv-123"
KEY = f"short_term_memory:session:{C}"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A server that may be emptied: nobody else uses it."""
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        place = Place(f"sqlite:///{tmp_path}/short.db", None)
        yield place
        place.close()
        return
    places = PostgresPlaces()
    place = Place(as_url(places.url(tmp_path)), None)
    yield place
    place.close()
    places.sweep()
    places.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    places = PostgresPlaces()
    yield as_url(places.url(tmp_path))
    places.sweep()
    places.close()


def behind_redis(database: str, server: RedisServer, **options: Any) -> CachedStore:
    """Open the database with Redis in front; patient, because the machine may be busy."""
    durable = PostgresStore(database, blocking=True, **options)
    return CachedStore(durable, server.url, blocking=True, timeout_seconds=PATIENCE)


@pytest.fixture
def cached(database: str, server: RedisServer) -> Iterator[ShortMemory]:
    """PostgreSQL with Redis in front, as the document draws it."""
    server.ask("FLUSHALL")
    store = behind_redis(database, server)
    yield ShortMemory(store)
    drive(store.close())


def select(place: Place, question: str) -> list[tuple[Any, ...]]:
    """Ask as any program would, which has never heard of tenants."""
    if place.url.startswith("sqlite"):
        with sqlite3.connect(place.url.removeprefix("sqlite:///")) as file:
            return file.execute(question).fetchall()
    with psycopg.connect(place.url) as connection:
        return connection.execute(question.encode()).fetchall()


def handle_user_message(app: ShortMemory, conversation_id: str, user_message: str) -> str:
    """使用流程：handleUserMessage"""
    # 1. 查询记忆上下文
    ctx = app.query_memory_context(
        MemoryQueryRequest(conversation_id=conversation_id, query=user_message)
    )
    # 2. 构建prompt
    prompt = f"历史对话:\n{ctx.history}\n\n用户问题: {user_message}"
    # 4. 检查是否需要生成摘要
    if ctx.should_checkpoint_summary:
        app.checkpoint_short_memory(ctx.conversation_id, "这是对话摘要", 8)
    # 5. 写入对话记录
    app.write_turn(
        MemoryWriteRequest(conversation_id=conversation_id, agent_response="这是AI的回复")
    )
    return prompt


def test_the_program_of_the_document(place: Place) -> None:
    app = place(model_context_window=1500)
    conversation_id, user_id = "conv-123", "user-456"
    app.create_short_memory(AgentRequest(conversation_id=conversation_id, user_id=user_id))
    first = handle_user_message(app, conversation_id, "我最近感觉头晕，应该怎么办？")
    second = handle_user_message(app, conversation_id, "我还有高血压，需要注意什么？")
    assert "头晕" not in first.split("用户问题")[0]
    assert "我最近感觉头晕，应该怎么办？" in second
    assert "这是AI的回复" in second
    for number in range(40):
        handle_user_message(app, conversation_id, f"第{number}个问题：我还有高血压，需要注意什么？")
    session = app.get_short_memory(conversation_id)
    assert session.message_context.mode == MEMORY_MODE_SUMMARY_N
    assert session.message_context.summary == "这是对话摘要"
    assert session.flow_context.turn_count == 42
    assert session.meta.user_id == user_id


def test_defaults_are_set_once_in_the_constructor(place: Place) -> None:
    """自定义参数：0.8, 10, 32000"""
    app = place(token_threshold_ratio=0.8, recent_turns=3, model_context_window=32000)
    talk(app, C, range(6))
    ctx = app.query_memory_context(C)
    assert len(ctx.session.message_context.window_messages) == 6
    assert ctx.token_ratio == ctx.estimated_tokens / 32000
    one = MemoryQueryRequest(
        C, token_threshold_ratio=0.001, recent_turns=1, model_context_window=900
    )
    other = app.query_memory_context(one)
    assert len(other.session.message_context.window_messages) == 2
    assert other.token_ratio == other.estimated_tokens / 900
    assert other.should_checkpoint_summary
    assert not ctx.should_checkpoint_summary
    assert app.checkpoint_short_memory(C, "s").upto == 6, "all but the newest three turns"
    with pytest.raises(InvalidOption, match="model_context_window=0"):
        place(model_context_window=0)
    with pytest.raises(InvalidOption, match="not both"):
        app.query_memory_context(one, query="and this")


def test_what_a_query_shows(place: Place) -> None:
    """FULL_HISTORY：返回所有历史对话; SUMMARY_N：返回"历史摘要 + 最近N轮"; FullHistory：当前段的完整历史"""
    app = place()
    talk(app, C, range(30))
    ctx = app.query_memory_context(C)
    assert ctx.mode == MEMORY_MODE_FULL_HISTORY
    for text in (ctx.history, ctx.full_history):
        assert all(f"<q{number}>" in text and f"<a{number}>" in text for number in range(30))
    small = app.query_memory_context(C, model_context_window=300)
    assert "更早的" in small.history
    assert "<q29>" in small.history
    assert "<q0>" not in small.history, "the newest that fit the window"
    assert "<q0>" in small.full_history
    assert "<q29>" not in small.full_history, "the oldest that fit it: what a summary may cover"
    live = app.checkpoint_short_memory(C, "头晕", 8)
    assert live.text == "历史摘要: 头晕", "and not the newest turns, which stay rows of their own"
    talk(app, C, range(30, 33))
    ctx = app.query_memory_context(C, recent_turns=2)
    assert ctx.mode == MEMORY_MODE_SUMMARY_N
    assert "历史摘要: 头晕" in ctx.history
    assert "<q21>" not in ctx.history
    assert all(f"<q{number}>" in ctx.history for number in range(22, 33)), "in neither is none"
    shown = [message.text for message in ctx.session.message_context.window_messages]
    assert shown == ["<q31>", "<a31>", "<q32>", "<a32>"]


def test_an_answer_without_a_question_belongs_to_the_turn_before(place: Place) -> None:
    """WriteTurn: UserQuery 可选"""
    app = place()
    for query, answer in (("", "欢迎！"), ("头晕", "多久了？"), ("", "还在吗？"), ("在", "好")):
        app.write_turn(C, user_query=query, agent_response=answer)
    ctx = app.query_memory_context(C)
    assert all(text in ctx.history for text in ("欢迎！", "多久了？", "还在吗？", "好"))
    assert ctx.session.flow_context.turn_count == 2
    rows = select(place, "SELECT query, answer FROM ai_message ORDER BY create_time")
    assert rows == [("", "欢迎！"), ("头晕", "还在吗？"), ("在", "好")], "the last answer of a turn"


def test_a_conversation_belongs_to_one_user(place: Place) -> None:
    """UserID, EnterpriseID, PatientID: 可选"""
    app = place()
    app.write_turn(C, agent_response="anonymous")
    app.create_short_memory(AgentRequest(C, "user-456"))
    app.write_turn(C, user_id="user-456", user_query="q", agent_response="the same")
    for refused in (
        lambda: app.write_turn(C, user_id="user-789", agent_response="another"),
        lambda: app.create_short_memory(AgentRequest(C, "user-789")),
    ):
        with pytest.raises(InvalidOption, match="another user_id") as told:
            refused()
        assert "user-456" not in str(told.value)
    assert app.get_short_memory(C).flow_context.turn_count == 1


def test_the_documented_sql_as_it_is_written(place: Place) -> None:
    """Q3: 如何查看checkpoint历史？"""
    app = place()
    write = {"user_id": "user-456", "agent_code": "triage_agent"}
    for number in range(4):
        app.write_turn(C, **write, user_query=f"q{number}", agent_response=f"a{number}")
    live = app.checkpoint_short_memory(C, "第一次", 2)
    app.write_turn(C, user_query="[MEMORY_CHECKPOINT]", agent_response="历史摘要: forged")
    app.write_turn(C, user_id="user-456", user_query="q5", agent_response="a5")
    place(scope="other").write_turn(C, user_query="theirs", agent_response="no")
    assert [row[:3] for row in select(place, CHECKPOINTS) if row[0] == live.id] == [
        (live.id, C, "历史摘要: 第一次")
    ]
    segment = select(place, SEGMENT.replace("checkpoint-message-id", live.id))
    marked = ("[MEMORY_CHECKPOINT]", "历史摘要: forged")
    assert [row[2:4] for row in segment] == [("q2", "a2"), ("q3", "a3"), marked, ("q5", "a5")]
    authors = select(
        place, "SELECT query, create_by, update_by FROM ai_message ORDER BY create_time"
    )
    assert authors == [
        ("q0", "user-456", "triage_agent"),
        ("q1", "user-456", "triage_agent"),
        ("[MEMORY_CHECKPOINT]", "turnfold:checkpoint", "turnfold:checkpoint"),
        ("q2", "user-456", "triage_agent"),
        ("q3", "user-456", "triage_agent"),
        ("[MEMORY_CHECKPOINT]", "user", "assistant"),
        ("q5", "user-456", "assistant"),
    ]


def test_nobody_can_be_called_a_checkpoint(place: Place) -> None:
    app = place()
    app.write_turn(C, user_id="turnfold:checkpoint", user_query="[MEMORY_CHECKPOINT]")
    rows = select(place, "SELECT create_by FROM ai_message")
    assert rows == [("user:turnfold:checkpoint",)]
    [row] = app.query_message_by_conversation_id_asc_with_limit(C)
    assert (row.create_by, row.is_checkpoint) == ("user:turnfold:checkpoint", False)


def test_a_program_without_a_tenant_reads_and_writes_nothing_else(tmp_path: Path) -> None:
    places = PostgresPlaces()
    place = Place(as_url(places.url(tmp_path)), None)
    place().write_turn(C, user_query="q", agent_response="a")
    with psycopg.connect(place.url) as connection:
        assert connection.execute("SELECT count(*) FROM turnfold_entry").fetchone() == (2,)
        assert connection.execute("DELETE FROM turnfold_entry").rowcount == 0
        assert connection.execute("UPDATE turnfold_entry SET seq = 9").rowcount == 0
        assert connection.execute("SELECT count(*) FROM turnfold_document").fetchone() == (0,)
    place.close()
    places.sweep()
    places.close()


def test_the_two_queries_by_conversation(place: Place) -> None:
    """QueryMessageByConversationIDASCWithLimit, QueryMessageByConversationIDASCFromCheckpoint"""
    app = place()
    talk(app, C, range(4))
    live = app.checkpoint_short_memory(C, "s", 2)
    talk(app, C, range(4, 6))
    rows = app.query_message_by_conversation_id_asc_with_limit(C, 100)
    asked = select(place, "SELECT message_id, query, answer FROM ai_message ORDER BY create_time")
    assert [(row.message_id, row.query, row.answer) for row in rows] == asked
    assert app.query_message_by_conversation_id_asc_with_limit(C, 3) == rows[:3]
    segment = app.query_message_by_conversation_id_asc_from_checkpoint(C, live.id)
    assert segment == rows[3:]
    with pytest.raises(NotFound, match="no checkpoint 'nobody'"):
        app.query_message_by_conversation_id_asc_from_checkpoint(C, "nobody")
    with pytest.raises(InvalidOption, match="limit=0"):
        app.query_message_by_conversation_id_asc_with_limit(C, 0)


def old_rows() -> list[dict[str, object]]:
    """A table as the document's program wrote it."""
    began = datetime(2026, 2, 9, 8, tzinfo=UTC)
    texts = [("q1", "a1"), ("q2", "a2"), ("[MEMORY_CHECKPOINT]", "历史摘要: 头晕"), ("q3", "a3")]
    return [
        {
            "message_id": f"m-{number}",
            "conversation_id": C,
            "query": query,
            "answer": answer,
            "create_time": began + timedelta(minutes=number),
            "create_by": "user-456",
            "update_time": began + timedelta(minutes=number),
            "update_by": None,
        }
        for number, (query, answer) in enumerate(texts)
    ]


def test_an_existing_table_is_imported(place: Place) -> None:
    app = place()
    rows = old_rows()
    done = app.import_messages([*reversed(rows), {**rows[0], "conversation_id": "other"}])
    assert (done.conversations, done.turns, done.checkpoints, done.already) == (2, 4, 1, 0)
    ctx = app.query_memory_context(C)
    assert ctx.mode == MEMORY_MODE_SUMMARY_N
    assert "头晕" in ctx.history
    assert "q3" in ctx.history
    assert "q2" not in ctx.history
    kept = app.query_message_by_conversation_id_asc_with_limit(C)
    assert [(row.query, row.answer) for row in kept] == [
        (row["query"], row["answer"]) for row in rows
    ]
    assert [row.create_time for row in kept] == [row["create_time"] for row in rows]
    assert [row.create_by for row in kept if not row.is_checkpoint] == ["user-456"] * 3
    again = app.import_messages(rows)
    assert (again.conversations, again.turns, again.already) == (0, 0, 1)
    talk(app, C, range(1))
    assert app.get_short_memory(C).flow_context.turn_count == 4


def test_the_documented_sql_answers_once_the_old_table_is_renamed() -> None:
    """ai_message表: a database that has one already"""
    database = fresh_database()
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE ai_message (message_id varchar PRIMARY KEY, conversation_id varchar, query text, answer text,"
            " create_time timestamp, create_by varchar, update_time timestamp, update_by varchar)"
        )
        insert = "INSERT INTO ai_message VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        for row in old_rows():
            connection.execute(insert, tuple(row.values()))
        rows = (
            connection.cursor(row_factory=dict_row).execute("SELECT * FROM ai_message").fetchall()
        )
    with ShortMemory(as_url(database)) as app:
        assert app.import_messages(rows).turns == 3
        talk(app, C, range(1))
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM ai_message").fetchone() == (4,), "as it was"
        connection.execute("ALTER TABLE ai_message RENAME TO ai_message_old")
    with ShortMemory(as_url(database)) as app:
        assert app.get_short_memory(C).flow_context.turn_count == 4
    with psycopg.connect(database) as connection:
        found = connection.execute(CHECKPOINTS.encode()).fetchall()
        assert [row[2] for row in found] == ["历史摘要: 头晕"]
        segment = SEGMENT.replace("checkpoint-message-id", found[0][0])
        assert [row[2] for row in connection.execute(segment.encode())] == ["q3", "<q0>"]


@pytest.mark.parametrize(
    "fault",
    [{"query": 5}, {"conversation_id": ""}, {"create_time": "soon"}, {"query": "", "answer": ""}],
)
def test_a_row_that_cannot_be_read_refuses_the_import(fault: dict[str, object]) -> None:
    app, rows = ShortMemory(), old_rows()
    with pytest.raises(InvalidRecord, match=r"rows\[3\]"):
        app.import_messages([*rows[:3], {**rows[3], **fault}])
    assert app.query_message_by_conversation_id_asc_with_limit(C) == []


def go_value(updated_at: int, **changes: Any) -> dict[str, Any]:
    """A session value as the document's Go program writes it."""
    value: dict[str, Any] = {
        "meta": {"conversation_id": C, "user_id": "user-456", "updated_at": updated_at},
        "flow_context": {"current_agent_key": "triage", "last_bot_message": "旧", "turn_count": 99},
        "message_context": {
            "summary": "trust me",
            "window_messages": None,
            "mode": "FULL_HISTORY",
            "checkpoint_message_id": "",
        },
        "global_state": {
            "shared": None,
            "entities": None,
            "agent_slots": {"dept": "心内科"},
            "current_intent": "挂号",
            "pending_action": None,
        },
        "user_snapshot": {
            "user_id": "user-456",
            "name": "张三",
            "allergies": ["青霉素"],
            "history": None,
            "surgery_history": None,
            "preferences": None,
        },
    }
    return {**value, **changes}


def test_an_old_session_value_is_imported(place: Place) -> None:
    """兼容性处理：旧数据"""
    app = place()
    talk(app, C, range(2))
    session = app.import_session_value(json.dumps(go_value(1)))
    assert session.user_snapshot.allergies == ["青霉素"]
    assert session.global_state.current_intent == "挂号"
    assert session.flow_context.turn_count == 2, "counted in the log"
    assert session.message_context.mode == MEMORY_MODE_FULL_HISTORY
    session.global_state.current_intent = "new"
    app.set_short_memory(C, session)
    assert app.import_session_value(json.dumps(go_value(1))).global_state.current_intent == "new"
    with pytest.raises(InvalidRecord):
        app.import_session_value("{}")


def value_of(server: RedisServer) -> dict[str, Any]:
    return json.loads(server.ask("GET", KEY))


def test_redis_holds_the_documented_session_value(cached: ShortMemory, server: RedisServer) -> None:
    """SessionValue（Redis存储），过期时间：30分钟"""
    cached.create_short_memory(C, "user-456")
    assert list(value_of(server)) == [
        *("meta", "flow_context", "message_context", "global_state", "user_snapshot")
    ]
    assert 1790 < server.ask("TTL", KEY) <= 1800
    talk(cached, C, range(12))
    found = value_of(server)
    assert found["flow_context"]["turn_count"] == 12
    assert found["flow_context"]["last_bot_message"] == "<a11>"
    assert found["message_context"]["window_messages"][0] == {"role": "user", "content": "<q4>"}
    assert found["message_context"]["mode"] == "FULL_HISTORY"
    live = cached.checkpoint_short_memory(C, "头晕", 2)
    found = value_of(server)["message_context"]
    assert (found["summary"], found["mode"]) == ("头晕", "SUMMARY_N")
    assert found["checkpoint_message_id"] == live.id
    cached.query_memory_context(C, query="next")
    assert SessionValue.from_json(server.ask("GET", KEY)) == cached.get_short_memory(C)
    cached.delete_short_memory(C)
    assert server.ask("GET", KEY) is None
    assert [name for name in server.ask("KEYS", "*") if b"written" in name] == []


def test_the_five_figures_to_watch(database: str, server: RedisServer) -> None:
    """监控指标：checkpoint创建频率, 摘要长度分布, token占用率分布, DB查询耗时, Redis读取耗时"""
    meter = Meter()
    with ShortMemory(database, cache=server.url, meter=meter) as app:
        talk(app, C, range(12))
        app.query_memory_context(C)
        app.checkpoint_short_memory(C, "头晕")
    assert meter.counts["checkpoints"] == 1
    for name in ("summary_tokens", "token_ratio", "database_read_seconds", "redis_seconds"):
        assert meter.values[name].count, name


def test_a_value_of_another_program_is_taken_over_when_it_is_newer(
    cached: ShortMemory, server: RedisServer
) -> None:
    cached.create_short_memory(C, "user-456")
    talk(cached, C, range(2))
    server.ask(
        "SET", KEY, json.dumps(go_value(int(time.time()) + 5), ensure_ascii=False), "EX", 1800
    )
    session = cached.query_memory_context(C).session
    assert session.global_state.current_intent == "挂号"
    assert session.global_state.agent_slots == {"dept": "心内科"}
    assert session.user_snapshot.name == "张三"
    assert session.flow_context.current_agent_key == "triage"
    assert session.flow_context.turn_count == 2, "the log's, whatever the value says"
    assert session.message_context.summary == ""
    assert len(session.message_context.window_messages) == 4
    server.ask("FLUSHALL")
    assert cached.get_short_memory(C) == session, "it is durable"


@pytest.mark.parametrize(
    "value",
    [
        b"not json",
        b"\xff\xfe",
        b"[]",
        json.dumps(go_value(1)).encode(),
        json.dumps(
            go_value(1 << 40, meta={"conversation_id": "x", "updated_at": 1 << 40})
        ).encode(),
        json.dumps(go_value(1 << 40, user_snapshot={"allergies": "all"})).encode(),
        json.dumps(go_value(1 << 40, unknown={})).encode(),
        json.dumps(
            go_value(1 << 40, meta={"conversation_id": C, "user_id": "eve", "updated_at": 1 << 40})
        ).encode(),
    ],
    ids=["text", "bytes", "list", "older", "other", "invalid", "unknown", "other owner"],
)
def test_a_value_that_is_not_valid_or_not_newer_is_never_trusted(
    cached: ShortMemory, server: RedisServer, value: bytes
) -> None:
    cached.create_short_memory(C, "user-456")
    talk(cached, C, range(2))
    before = cached.get_short_memory(C)
    server.ask("SET", KEY, value)
    assert cached.get_short_memory(C) == before
    assert value_of(server) == json.loads(before.to_json()), "written over"


def test_a_late_copy_of_ours_takes_nothing_back(database: str, server: RedisServer) -> None:
    """Fencing: of two writers in one second the durable one wins."""
    server.ask("FLUSHALL")
    store = behind_redis(database, server, clock=lambda: 1_800_000_000_000_000)
    memory = ShortMemory(store)
    memory.create_short_memory(C, "user-456")
    talk(memory, C, range(1))
    late = server.ask("GET", KEY)
    session = memory.get_short_memory(C)
    session.global_state.current_intent = "newer"
    memory.set_short_memory(C, session)
    server.ask("DEL", f"{{{KEY}}}:written")
    server.ask("SET", KEY, late)
    assert memory.get_short_memory(C).global_state.current_intent == "newer"
    drive(store.close())


def test_a_copy_that_is_no_longer_true_is_not_served(cached: ShortMemory, database: str) -> None:
    """Another process writes without Redis."""
    cached.create_short_memory(C, "user-456")
    talk(cached, C, range(1))
    with ShortMemory(database) as other:
        talk(other, C, range(1, 3))
    session = cached.get_short_memory(C)
    assert session.flow_context.turn_count == 3
    assert session.flow_context.last_bot_message == "<a2>"


def test_both_documented_ways_to_start_over(cached: ShortMemory, server: RedisServer) -> None:
    """Q7: 如何重置对话历史？"""
    cached.create_short_memory(C, "user-456")
    talk(cached, C, range(3))
    assert "<q2>" in cached.query_memory_context(C).history
    # 方式1：删除Redis key
    server.ask("DEL", KEY)
    assert cached.query_memory_context(C).history == ""
    talk(cached, C, range(3, 5))
    assert cached.get_short_memory(C).flow_context.turn_count == 2
    # 方式2：重新创建
    cached.create_short_memory(AgentRequest(C, "user-456"))
    assert cached.query_memory_context(C).history == ""
    assert cached.get_short_memory(C).flow_context.turn_count == 0
    assert len(cached.query_message_by_conversation_id_asc_with_limit(C)) == 5, "nothing is lost"


def test_what_redis_loses_by_itself_starts_nothing_over(
    cached: ShortMemory, server: RedisServer
) -> None:
    """Expired, emptied, evicted: only a deleted key is a wish."""
    cached.create_short_memory(C, "user-456")
    talk(cached, C, range(3))
    mark = f"{{{KEY}}}:written"
    for lose in (
        [("PEXPIRE", KEY, 1), ("PEXPIRE", mark, 900)],
        [("FLUSHALL",)],
        [("DEL", KEY), ("SET", mark, server.ask("GET", mark)[:-1] + b"7", "EX", 1800)],
        [("DEL", KEY), ("SET", mark, b"rubbish")],
    ):
        for command in lose:
            server.ask(*command)
        time.sleep(0.01)
        assert cached.get_short_memory(C).flow_context.turn_count == 3, lose
        assert server.ask("GET", KEY)


def test_with_redis_in_front_a_read_asks_the_database_less(
    cached: ShortMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q1: 每次都要读数据库吗？"""
    asked: list[str] = []
    for name in "head view read read_ranges tail read_turn get_document checkpoints".split():
        method = getattr(PostgresStore, name)

        def counted(
            store: Any, *args: Any, _method: Any = method, _name: str = name, **more: Any
        ) -> Any:
            asked.append(_name)
            return _method(store, *args, **more)

        monkeypatch.setattr(PostgresStore, name, counted)
    places = PostgresPlaces()
    place = Place(as_url(places.url(tmp_path / "plain")), None)
    plain = place()
    reads: dict[str, list[str]] = {}
    for label, app in (("plain", plain), ("cached", cached)):
        talk(app, C, range(20))
        app.get_short_memory(C)
        asked.clear()
        app.get_short_memory(C)
        reads[label] = list(asked)
        asked.clear()
        app.query_memory_context(C)
        reads[f"{label}, query"] = list(asked)
    assert reads == {
        "plain": ["view", "read"],
        "plain, query": ["view", "tail"],
        "cached": ["head"],
        "cached, query": ["head"],
    }
    place.close()
    places.sweep()
    places.close()


def test_a_query_reads_one_segment_and_writes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """性能优化 2: 每次只读取当前段的消息"""
    asked: list[str] = []
    for name in ("view", "read", "tail", "get_document", "put_document", "append"):
        method = getattr(SqliteStore, name)

        def counted(
            store: Any, *args: Any, _method: Any = method, _name: str = name, **more: Any
        ) -> Any:
            asked.append(_name)
            return _method(store, *args, **more)

        monkeypatch.setattr(SqliteStore, name, counted)
    with ShortMemory() as app:
        talk(app, C, range(20))
        asked.clear()
        app.query_memory_context(C, query="next")
        assert asked == ["view", "tail", "put_document"]
        asked.clear()
        app.query_memory_context(C, query="next")
        assert asked == ["view", "tail"], "the same query waits already"


def test_of_two_programs_that_set_the_same_field_the_second_is_told(cached: ShortMemory) -> None:
    """注意事项 4: 并发控制"""
    cached.create_short_memory(C, "user-456")
    one, other = cached.get_short_memory(C), cached.get_short_memory(C)
    one.global_state.current_intent, other.global_state.current_intent = "a", "b"
    cached.set_short_memory(C, one)
    with pytest.raises(Conflict, match="current_intent"):
        cached.set_short_memory(C, other)
