"""What frameworks stored is imported whole: messages of LangChain, sessions of OpenAI Agents, memories of mem0."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from typer.testing import CliRunner

from tests.memory.importing.samples import write_json, write_lines
from turnfold import Memory, Message
from turnfold.cli.app import app
from turnfold.errors import InvalidExport, InvalidOption
from turnfold.importers import (
    ConversationStart,
    IgnoredItem,
    ImportedMessage,
    UnreadableItem,
    detect,
    import_file,
    read_histories,
)
from turnfold.records import ThinkingPart
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope
from turnfold.wire import lint, openai_chat

CALL = {"id": "c1", "name": "weather", "args": {"city": "北京"}}
TALK: list[BaseMessage] = [
    SystemMessage("Be kind."),
    HumanMessage("查天气", id="u1"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("sunny", tool_call_id="c1"),
    AIMessage([{"type": "text", "text": "晴天"}]),
]


def talks(path: Path) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    at = ""
    for piece in read_histories(path, detect(path), branches=False):
        assert not isinstance(piece, UnreadableItem), piece
        if isinstance(piece, ConversationStart):
            at = piece.conversation
            found[at] = []
        elif isinstance(piece, ImportedMessage):
            found[at].append(piece.message)
    return found


def check_talk(messages: list[Message]) -> None:
    assert [one.role for one in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert [one.text for one in messages] == ["Be kind.", "查天气", "", "sunny", "晴天"]
    [call] = messages[2].calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("c1", "weather", {"city": "北京"})
    assert messages[3].results[0].call_id == "c1"
    assert lint(openai_chat.request(messages, repair=False).kwargs, "openai_chat") == ()


@pytest.mark.parametrize("form", ["dicts", "lines", "dumps", "threads"])
def test_messages_of_langchain_in_every_form(form: str, tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    dicts = messages_to_dict(TALK)
    match form:
        case "dicts":
            write_json(path, dicts)
        case "lines":
            write_lines(path, list[object](dicts))
        case "dumps":
            write_json(path, [dumpd(one) for one in TALK])
        case _:
            write_json(path, [{"thread_id": f"t{n}", "messages": dicts} for n in (1, 2)])
    assert detect(path) == "langchain"
    found = talks(path)
    assert list(found) == (["t1", "t2"] if form == "threads" else ["talk"])
    for messages in found.values():
        check_talk(messages)


def test_blocks_of_anthropic_keep_their_signature_and_calls_are_not_doubled(tmp_path: Path) -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "北京"}},
    ]
    answer = AIMessage(blocks, tool_calls=[CALL])
    path = write_json(tmp_path / "talk.json", messages_to_dict([HumanMessage("查"), answer]))
    [_, said] = talks(path)["talk"]
    assert [call.id for call in said.calls] == ["c1"]
    thought = said.parts[0]
    assert isinstance(thought, ThinkingPart)
    assert thought.signature == "s"


def test_what_is_no_message_of_langchain_is_told(tmp_path: Path) -> None:
    removed = dumpd(RemoveMessage(id="u1"))
    path = write_json(
        tmp_path / "t.json", [*messages_to_dict(TALK), removed, {"type": "x", "data": {"a": 1}}]
    )
    pieces = list(read_histories(path, "langchain", branches=False))
    assert IgnoredItem("message of type remove") in pieces
    assert [one.problem for one in pieces if isinstance(one, UnreadableItem)] == [
        "expected a message of LangChain, got type 'x'"
    ]


def test_a_table_of_langchain(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as file, file:  # as SQLChatMessageHistory makes it
        file.execute(
            "CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)"
        )
        for name in ("b", "a"):
            rows = [(name, json.dumps(one)) for one in messages_to_dict(TALK)]
            file.executemany("INSERT INTO message_store (session_id, message) VALUES (?, ?)", rows)
    assert detect(path) == "langchain"
    found = talks(path)
    assert list(found) == ["a", "b"]
    for messages in found.values():
        check_talk(messages)


ITEMS: list[Any] = [
    {"role": "user", "content": "查天气"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}", "id": "f1"},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "晴天", "annotations": []}],
    },
]


def test_sessions_of_openai_agents_are_imported_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"

    async def write(name: str, items: list[Any]) -> None:
        session = SQLiteSession(name, path)
        await session.add_items(items)
        session.close()

    for name in ("user-1", "user-2"):
        asyncio.run(write(name, ITEMS))
    store, scope = MemoryStore(), Scope("default")
    done = drive(import_file(store, scope, path))
    assert (done.format, done.conversations, done.entries) == (
        "openai-agents",
        ("user-1", "user-2"),
        8,
    )
    asyncio.run(write("user-2", [{"role": "user", "content": "谢谢"}]))
    again = drive(import_file(store, scope, path))
    assert (again.continued, again.entries, again.already) == (("user-2",), 1, 1)
    with Memory(store) as memory:
        entries = memory.session("user-2").history()
        assert [
            entry.message.role for entry in entries
        ] == "user assistant tool assistant user".split()
        assert [entry.message.text for entry in entries][2:] == ["sunny", "晴天", "谢谢"]


MEMORIES = {
    "results": [
        {
            "id": "m2",
            "memory": "Budget 4,200 yuan",
            "user_id": "user-42",
            "created_at": "2026-05-02T08:00:00+00:00",
        },
        {"id": "m1", "memory": "不吃辣", "user_id": "user-42", "created_at": "2026-05-01T08:00:00"},
        {"id": "m3", "memory": "Vegetarian", "user_id": "user-7"},
    ],
    "relations": [],
}


@pytest.mark.parametrize("form", ["get_all", "list"])
def test_memories_of_mem0_are_one_session_per_person_and_no_rules(
    form: str, tmp_path: Path
) -> None:
    value = MEMORIES if form == "get_all" else MEMORIES["results"]
    path = write_json(tmp_path / "memories.json", value)
    assert detect(path) == "mem0"
    store = MemoryStore()
    done = drive(import_file(store, Scope("default"), path))
    assert (done.conversations, done.entries) == (("user-42/mem0", "user-7/mem0"), 3)
    with Memory(store) as memory:
        session = memory.session("user-42/mem0")
        told = [(one.client_id, one.message.role, one.message.text) for one in session.history()]
        assert told == [("m1", "assistant", "不吃辣"), ("m2", "assistant", "Budget 4,200 yuan")]
        assert session.history()[0].message.metadata["source"] == "mem0"
        assert session.history()[0].created == 1_777_622_400_000_000
        assert session.rules() == []
        assert [hit.conversation for hit in memory.search("不吃辣")] == ["user-42/mem0"]


def test_a_memory_without_a_text_is_told(tmp_path: Path) -> None:
    path = write_json(tmp_path / "m.json", [{"memory": "a"}, {"memory": ""}, {"x": 1}])
    with pytest.raises(InvalidExport, match=r"2 items .* a text in `memory`"):
        drive(import_file(MemoryStore(), Scope("default"), path))


def test_other_sqlite_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE something (a)")
    with pytest.raises(InvalidExport, match="SQLiteSession") as caught:
        detect(path)
    assert str(caught.value).startswith("other.db is a SQLite file")  # which has no lines to name
    own = tmp_path / "own.db"
    with Memory(f"sqlite:///{own}") as memory:
        memory.session("a").user("hello")
    with pytest.raises(InvalidExport, match="store of turnfold"):
        detect(own)
    with pytest.raises(InvalidOption, match="not a SQLite file"):
        list(read_histories(write_json(tmp_path / "a.json", []), "openai-agents", branches=False))


def test_a_damaged_sqlite_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 4_000)
    with pytest.raises(InvalidExport, match=r"damaged\.db cannot be read as SQLite"):
        detect(path)


def test_the_command_imports_and_replays_such_a_file(tmp_path: Path) -> None:
    path = write_json(tmp_path / "talk.json", messages_to_dict(TALK))
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    for line in (
        ["import", str(path), "--store", store, "--session", "user-42"],
        ["replay", str(path), "--budget", "4000"],
        ["lint", str(path)],
    ):
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, (line, done.output)
    with Memory(store) as memory:
        check_talk([entry.message for entry in memory.session("user-42").history()])
