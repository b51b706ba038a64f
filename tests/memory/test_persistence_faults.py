"""Document 000's persistence: a crash loses nothing, two writers see each other, a foreign file is a typed error."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.source_tree import SOURCE
from tests.memory.conversations import chat
from tests.memory.saved import (
    SCOPE,
    kept_in,
    kept_in_config,
    seen,
    stored,
)
from turnfold import (
    InvalidRecord,
    Message,
    MessageMemory,
    MessageMemoryConfig,
    TruncateStrategy,
    assistant,
    system,
    user,
)
from turnfold.errors import Conflict, StoreError, StoreUnavailable, UnsafeStore
from turnfold.memories.message_memory_storage import MessageFile
from turnfold.memories.message_memory_transcript import KeptMessages
from turnfold.records import Document
from turnfold.runtime import drive
from turnfold.stores import SqliteStore

# ------------------------------------------------------------------------------------- several at once


def test_sessions_in_one_file_know_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path, "one") as one, kept_in(path, "two") as two:
        one.add(user("in one"))
        two.add(user("in two"))
        one.set_system("first")
        two.clear()
        one.add(assistant("still in one"))
    with kept_in(path, "one") as one, kept_in(path, "two") as two:
        assert one.get_messages() == [system("first"), user("in one"), assistant("still in one")]
        assert two.get_messages() == []


CHANGES: dict[str, Callable[[MessageMemory], object]] = {
    "add": lambda memory: memory.add(user("again")),
    "set_system": lambda memory: memory.set_system("other"),
    "clear": lambda memory: memory.clear(),
    "truncate": lambda memory: memory.truncate(40),
    "window": lambda memory: memory.get_messages_within_budget(300),
}


@pytest.mark.parametrize("first", CHANGES)
@pytest.mark.parametrize("second", CHANGES)
def test_two_handles_on_one_session_see_what_the_other_did(
    tmp_path: Path, first: str, second: str
) -> None:
    path = tmp_path / "chat.db"
    twin = MessageMemory()
    with kept_in(path) as memory:
        for message in chat(5):
            memory.add(message)
            twin.add(message)
    with kept_in(path) as early, kept_in(path) as late:
        for change, memory in ((first, early), (second, late), ("add", early)):
            CHANGES[change](memory)
            CHANGES[change](twin)
            assert seen(early) == seen(late) == seen(twin)
    with kept_in(path) as again:
        assert seen(again) == seen(twin)


def test_a_message_that_came_in_between_is_kept_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path) as early, kept_in(path) as late:
        late.add(user("first"))
        append = MessageFile.append

        def overtaken(file: MessageFile, message: Message) -> None:
            monkeypatch.setattr(MessageFile, "append", append)
            early.add(user("不丢"))
            append(file, message)

        monkeypatch.setattr(MessageFile, "append", overtaken)
        late.add(user("second"))
        assert late.get_messages() == [user("first"), user("不丢"), user("second")]
        assert seen(early) == seen(late)


def test_of_two_that_truncate_at_once_one_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path) as early, kept_in(path) as late:
        for message in chat(20):
            late.add(message)
        save = MessageFile.save

        def overtaken(file: MessageFile, log: KeptMessages) -> None:
            monkeypatch.setattr(MessageFile, "save", save)
            early.truncate(300)
            save(file, log)

        monkeypatch.setattr(MessageFile, "save", overtaken)
        with pytest.raises(Conflict):
            late.truncate(200)
        assert 200 < late.get_token_count() <= 300
        assert late.truncate(200) > 0
        assert late.get_token_count() <= 200
        assert seen(early) == seen(late)


def test_racing_writers_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"

    def write(name: int) -> None:
        with kept_in(path) as memory:
            for number in range(15):
                memory.add(user(f"{name}-{number}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with kept_in(path) as memory:
        texts = [message.text for message in memory.get_messages()]
    assert sorted(texts) == sorted(f"{name}-{number}" for name in range(3) for number in range(15))
    for name in range(3):
        own = [text for text in texts if text.startswith(f"{name}-")]
        assert own == [f"{name}-{number}" for number in range(15)]


# ------------------------------------------------------------------------------------- crashes, faults

WRITER = """
import sys
from turnfold import MessageMemory, MessageMemoryConfig, user
memory = MessageMemory(MessageMemoryConfig(
    session_id="s", db_path=sys.argv[1], enable_persistence=True, max_messages=int(sys.argv[2])))
number = 0
while True:
    memory.add(user(f"<{number}> 不丢"))
    print(number, flush=True)
    number += 1
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("limit", [0, 10])
def test_every_add_that_returned_survives_a_kill(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "chat.db"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(limit)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        encoding="utf-8",
    ) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(150)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    returned = [int(line) for line in lines if line.endswith("\n")]
    log = stored(path)
    assert log == [user(f"<{number}> 不丢") for number in range(len(log))]
    assert len(log) >= len(returned) >= 150
    twin = MessageMemory(MessageMemoryConfig(max_messages=limit))
    for message in log:
        twin.add(message)
    with kept_in(path, max_messages=limit) as memory:
        assert seen(memory) == seen(twin)
        memory.add(user("on it goes"))


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    path.write_bytes(b"These are my notes, not a database. " * 200)
    with pytest.raises(StoreUnavailable, match=r"chat\.db"):
        kept_in(path)
    assert path.read_bytes().startswith(b"These are my notes")


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE entry (mine TEXT)")
    other.close()
    with pytest.raises(StoreError):
        kept_in(path)
    with sqlite3.connect(path) as other:
        names = [row[0] for row in other.execute("SELECT name FROM sqlite_master")]
    other.close()
    assert names == ["entry"]


def test_a_damaged_file_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path) as memory:
        for message in chat(60):
            memory.add(message)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises((StoreError, InvalidRecord)):
        kept_in(path)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"not json", "not a saved"),
        (b'{"v":1,"other":1}', "not a saved"),
        (b'{"v":99}', "Upgrade"),
        (b'{"v":1,"seq":9,"held":[[7,9]]}', "backup"),
    ],
)
def test_a_state_that_cannot_be_read_is_a_typed_error(
    tmp_path: Path, body: bytes, says: str
) -> None:
    path = tmp_path / "chat.db"
    with kept_in(path) as memory:
        memory.add(user("hello"))
        memory.set_system("short")
    store = SqliteStore(path, blocking=True)
    drive(store.put_document(SCOPE, "s", Document("message-memory", "state", body, 0)))
    drive(store.close())
    with pytest.raises(InvalidRecord, match=says):
        kept_in(path)


def test_a_folder_that_is_not_there_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises((StoreUnavailable, UnsafeStore), match=r"chat\.db"):
        kept_in(tmp_path / "nowhere" / "chat.db")


def test_a_message_in_the_log_is_never_reported_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object, **__: object) -> Document:
        raise StoreUnavailable("disk full")

    path = tmp_path / "chat.db"
    options: dict[str, object] = {"max_tokens": 300, "strategy": TruncateStrategy.SUMMARIZE}
    memory = MessageMemory(kept_in_config(path, options))
    with monkeypatch.context() as broken:
        broken.setattr(SqliteStore, "put_document", full)
        broken.setattr(SqliteStore, "add_checkpoint", full)
        for message in chat(12):
            memory.add(message)  # its summary cannot be saved, and it is kept all the same
            assert memory.get_token_count() <= 300
        assert stored(path) == chat(12)
        with pytest.raises(StoreUnavailable, match="disk full"):
            memory.truncate(100)
    memory.add(user("goes through"))
    with MessageMemory(kept_in_config(path, options)) as again:
        assert seen(again) == seen(memory)
    memory.close()


def test_after_closing_it_can_be_read_but_not_changed(tmp_path: Path) -> None:
    memory = kept_in(tmp_path / "chat.db")
    memory.add(user("hello"))
    memory.close()
    memory.close()
    assert memory.get_messages() == [user("hello")]
    with pytest.raises(StoreUnavailable, match="closed"):
        memory.add(user("too late"))
    assert memory.get_messages() == [user("hello")]
    MessageMemory().close()


def test_it_works_inside_a_running_loop(tmp_path: Path) -> None:
    async def program() -> list[Message]:
        with kept_in(tmp_path / "chat.db") as memory:
            memory.add(user("from a coroutine"))
        with kept_in(tmp_path / "chat.db") as again:
            return again.get_messages_within_budget()

    assert asyncio.run(program()) == [user("from a coroutine")]


def test_the_stores_are_loaded_only_when_used() -> None:
    program = (
        "import sys; from turnfold import MessageMemory; MessageMemory().add({'role': 'user', 'content': 'x'}); "
        "print('apsw' in sys.modules or 'turnfold.stores' in sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        encoding="utf-8",
    )
    assert finished.stdout.strip() == "False"
