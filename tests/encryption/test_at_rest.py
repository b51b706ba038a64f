"""Nothing that is written to a disk or a cache can be read without the key, or moved, or brought back after erasure."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.memory.talking import SMALL
from tests.stores.redis_server import RedisServer
from tests.stores.servers import fresh_database
from turnfold import Memory, assistant, tool, user
from turnfold.errors import ConversationDeleted, InvalidOption, InvalidRecord, WrongKey
from turnfold.memory import Session
from turnfold.records import Checkpoint, Document, NewEntry, Snapshot
from turnfold.redaction import find_secrets
from turnfold.runtime import drive
from turnfold.search import Within
from turnfold.stores import EncryptedStore, Head, Scope, SqliteStore, Store, open_store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.tokens import TokenCounter, counter_for

KEY, OTHER, THIRD = (bytes([number] * 32) for number in (1, 2, 3))
WORDS = (
    "zxqinvoice",
    "斑马账户",
    "zxqtool",
    "胰腺癌",
    "zxqstate",
    "长颈鹿",
    "zxqsummary",
    "考拉摘要",
)
SCOPE = Scope("default")


def spread(session: Session) -> None:
    """Put the words everywhere a conversation can have some."""
    session.system("Talk about the zxqinvoice. 谈斑马账户。")
    for number in range(12):
        session.user(f"The zxqinvoice {number} of 斑马账户, again and again. 再次核对。")
        call = {
            "id": f"c{number}",
            "function": {"name": "look", "arguments": '{"q": "zxqtool 胰腺癌"}'},
        }
        session.assistant(tool_calls=[call])
        session.tool("zxqtool 胰腺癌", tool_call_id=f"c{number}")
        session.findings.note(call, "zxqtool 胰腺癌")
        session.assistant("Noted. 已记录。")
        session.context("zxqinvoice 斑马账户")
    session.state.set("a", "zxqstate 长颈鹿")
    session.pin("zxqstate 长颈鹿")
    session.add_rule("Never name the zxqinvoice. 不要提斑马账户。")
    session.snapshots.take(
        Snapshot(context="zxqstate 长颈鹿", files={"a.txt": "zxqtool 胰腺癌"}, summary="zxqsummary")
    )
    made = session.fold(summary="zxqsummary 考拉摘要", keep_turns=2)
    assert made is not None
    session.drop_checkpoint(made.id)
    session.fold(summary="zxqsummary 考拉摘要", keep_turns=2)
    session.context("zxqinvoice")
    assert session.recall("zxqtool")
    assert session.recall("斑马账户")
    session.erase(session.history()[-1].seq)


def holding(folder: Path) -> list[tuple[str, str]]:
    """The words that are in the files of a folder, as text or as JSON writes it."""
    found: list[tuple[str, str]] = []
    for file in sorted(folder.rglob("*")):
        data = file.read_bytes() if file.is_file() else b""
        for word in WORDS:
            forms = (word.encode(), word.encode("unicode-escape"), word.encode("utf-16-le"))
            found += [(file.name, word) for form in forms if form in data]
    return found


@pytest.mark.parametrize("encrypted", [True, False])
def test_no_file_holds_a_word(tmp_path: Path, *, encrypted: bool) -> None:
    """The same without a key finds them: the scan looks in the right places."""
    folder = tmp_path / "store"
    folder.mkdir()
    key = KEY if encrypted else None
    with Memory(f"sqlite:///{folder}/chat.db", budget=SMALL, encryption_key=key) as memory:
        spread(memory.session("one"))
        assert "chat.db-wal" in {path.name for path in folder.iterdir()}
        while_open = holding(folder)
    after = holding(folder)
    assert (while_open == [], after == []) == (encrypted, encrypted)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


@pytest.mark.parametrize("encrypted", [True, False])
def test_no_cache_holds_a_word(tmp_path: Path, server: RedisServer, *, encrypted: bool) -> None:
    server.ask("FLUSHALL")
    url, key = f"sqlite:///{tmp_path}/chat.db", KEY if encrypted else None
    with Memory(url, cache=server.url, budget=SMALL, encryption_key=key) as memory:
        session, store = memory.session("one"), memory.store
        for number in range(4):
            session.user(f"The zxqinvoice {number} of 斑马账户.")
        session.state.set("a", "zxqstate 长颈鹿")
        session.fold(summary="zxqsummary 考拉摘要", keep_turns=1)
        for _ in range(2):
            assert drive(store.tail(SCOPE, "one", tokens=10_000))
            assert drive(store.checkpoints(SCOPE, "one"))
            assert drive(store.get_document(SCOPE, "one", "session", "state"))
        values = server.values()
        assert len(values) > 2
    everything = b"".join(values)
    found = {word for word in WORDS if word.encode() in everything}
    assert found == (set() if encrypted else {*WORDS} - {"zxqtool", "胰腺癌"})


def test_postgres_holds_no_word() -> None:
    import psycopg

    url = fresh_database()

    def inner(counter: TokenCounter) -> Store:
        return PostgresStore(url, counter=counter, blocking=True)

    store = EncryptedStore(inner, KEY)
    with Memory(store, budget=SMALL) as memory:
        spread(memory.session("one"))
        assert memory.session("one").recall("斑马账户")
    drive(store.close())
    with psycopg.connect(url) as link:
        link.execute("SELECT set_config('turnfold.tenant', 'default', false)")
        for table in ("entry", "checkpoint", "document", "conversation"):
            rows = link.execute(f"SELECT * FROM turnfold_{table}").fetchall()  # noqa: S608 (its own)
            assert rows or table == "checkpoint"
            text = repr(rows).encode() + b"".join(
                bytes(value)
                for row in rows
                for value in row
                if isinstance(value, bytes | memoryview)
            )
            assert [word for word in WORDS if word.encode() in text] == []


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A store with two conversations that say the same."""
    file = tmp_path / "chat.db"
    with Memory(f"sqlite:///{file}", encryption_key=KEY) as memory:
        for name in ("one", "two"):
            session = memory.session(name)
            session.user("hello 你好", client_id="a")
            session.assistant("hello 你好", client_id="b")
            session.state.set("a", f"of {name}")
            session.fold(summary="They said hello. 问好。", keep_turns=0)
    return file


def opened(file: Path, *keys: bytes) -> EncryptedStore:
    store = open_store(f"sqlite:///{file}", blocking=True, encryption_key=list(keys or (KEY,)))
    assert isinstance(store, EncryptedStore)
    return store


def test_equal_texts_look_different_wherever_they_are(stored: Path) -> None:
    with sqlite3.connect(stored) as link:
        bodies = [row[0] for row in link.execute("SELECT body FROM entry")]
    assert len(bodies) == len(set(bodies)) == 4


_STATE = "kind = 'session' AND key = 'state' AND conversation ="
ROWS = {
    "entry": (
        "UPDATE entry SET body = (SELECT body FROM entry WHERE id = :from) WHERE id = :to",
        "entry 1",
    ),
    "document": (
        f"UPDATE document SET body = (SELECT body FROM document WHERE {_STATE} :c) WHERE {_STATE} :d",  # noqa: S608
        "document session/state",
    ),
    "checkpoint": (
        (
            "UPDATE checkpoint SET digest = (SELECT digest FROM checkpoint WHERE conversation = :c) "
            "WHERE conversation = :d"
        ),
        "checkpoint",
    ),
}


@pytest.mark.parametrize("table", ROWS)
def test_rows_swapped_between_conversations_are_found(stored: Path, table: str) -> None:
    statement, told = ROWS[table]
    with sqlite3.connect(stored) as link:
        keys = dict(link.execute("SELECT name, key FROM conversation WHERE name IN ('one', 'two')"))
        place = {
            "c": keys["one"],
            "d": keys["two"],
            "from": keys["one"] << 32 | 1,
            "to": keys["two"] << 32 | 1,
        }
        changed = link.execute(
            statement, {name: place[name] for name in place if f":{name}" in statement}
        )
        assert changed.rowcount == 1
        # As somebody would who knows how rows are checked for damage: no checksum is compared.
        for each in ("document", "checkpoint"):
            link.execute(f"UPDATE {each} SET checksum = NULL")  # noqa: S608 (its own)
        link.execute("UPDATE entry SET checksum = 0")
    with Memory(f"sqlite:///{stored}", encryption_key=KEY) as memory:
        texts = [entry.message.text for entry in memory.session("one").history()]
        assert texts == ["hello 你好"] * 2
        session = memory.session("two")
        read = {
            "entry": session.history,
            "document": session.state.all,
            "checkpoint": session.checkpoints,
        }
        for name, act in read.items():
            if name != table:
                assert act()
        with pytest.raises(InvalidRecord, match=f"{told}.* was changed after it was written"):
            read[table]()


@pytest.mark.parametrize("change", ["order", "role", "client id", "plain"])
def test_entries_that_were_changed_in_their_place_are_found(stored: Path, change: str) -> None:
    with sqlite3.connect(stored) as link:
        [key] = link.execute("SELECT key FROM conversation WHERE name = 'one'").fetchone()
        first, second = key << 32 | 1, key << 32 | 2
        bodies = dict(link.execute("SELECT id, body FROM entry"))
        if change == "order":
            link.execute("UPDATE entry SET body = ? WHERE id = ?", (bodies[second], first))
            link.execute("UPDATE entry SET body = ? WHERE id = ?", (bodies[first], second))
        elif change == "role":
            body = bytes(bodies[second]).replace(b'"role":"assistant"', b'"role":"user"')
            assert body != bodies[second]
            link.execute("UPDATE entry SET body = ? WHERE id = ?", (body, second))
        elif change == "client id":
            link.execute("UPDATE entry SET client_id = 'x' WHERE id = ?", (first,))
        else:
            body = b'{"v":1,"role":"user","parts":[{"kind":"text","text":"injected"}]}'
            link.execute("UPDATE entry SET body = ? WHERE id = ?", (body, first))
        link.execute("UPDATE entry SET checksum = 0")
    store = opened(stored)
    with pytest.raises(InvalidRecord, match=r"entry \d of conversation"):
        drive(store.read(SCOPE, "one"))
    assert len(drive(store.read(SCOPE, "two"))) == 2
    drive(store.close())


def test_a_wrong_key_is_told_before_anything_is_read(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(stored)
    needed = drive(store.health()).details["encryption"].split()[-1]
    drive(store.close())
    read: list[str] = []
    plain = SqliteStore.read

    async def counted(self: SqliteStore, *args: Any, **options: Any) -> Any:
        read.append("entries")
        return await plain(self, *args, **options)

    monkeypatch.setattr(SqliteStore, "read", counted)
    with Memory(f"sqlite:///{stored}", encryption_key=OTHER) as memory:
        session = memory.session("one")
        for act in (
            session.context,
            lambda: session.user("more"),
            lambda: session.state.set("a", 1),
            lambda: session.recall("hello"),
            lambda: session.fold(summary="x", keep_turns=0),
            session.checkpoints,
        ):
            with pytest.raises(WrongKey, match=f"needs the encryption key with the id {needed}"):
                act()
        assert read == []
        assert [info.conversation for info in memory.conversations()] == ["one", "two"]
        assert session.delete().entries == 2  # what nobody can read any more can still be erased
    with Memory(f"sqlite:///{stored}", encryption_key=KEY) as memory:
        assert memory.session("one").history() == []
        assert len(memory.session("two").history()) == 2


def test_secrets_are_redacted_before_they_are_encrypted(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    with Memory(f"sqlite:///{file}", encryption_key=KEY, redact=find_secrets) as memory:
        assert memory.session("one").user("mail li@example.com 电话 13912345678").redacted == 2
    with Memory(f"sqlite:///{file}", encryption_key=KEY) as memory:
        text = memory.session("one").history()[0].message.text
        assert text == "mail [redacted: email 1] 电话 [redacted: phone 1]"


@pytest.mark.parametrize(
    "given", [b"short", "short", "z" * 64, "", b"", [], [KEY, b"x"], "\u5bc6" * 32], ids=repr
)
def test_a_key_that_is_none_is_refused_and_not_shown(tmp_path: Path, given: Any) -> None:
    file = tmp_path / "chat.db"
    with pytest.raises(InvalidOption, match=r"openssl rand -hex 32") as refused:
        Memory(f"sqlite:///{file}", encryption_key=given)
    assert not file.exists()
    assert "short" not in str(refused.value).replace("short for", "")


def test_keys_are_written_in_three_ways(stored: Path) -> None:
    import base64

    for key in (KEY, KEY.hex(), KEY.hex().upper(), base64.b64encode(KEY).decode()):
        with Memory(f"sqlite:///{stored}", encryption_key=key) as memory:
            assert memory.session("one").history()[0].message.text == "hello 你好"
            assert KEY.hex() not in repr(memory)


def test_erasing_destroys_the_key(stored: Path, tmp_path: Path) -> None:
    """A backup of the data without its key cannot be read; the key is in no file after the erasure."""
    with sqlite3.connect(stored) as link:
        [wrapped] = link.execute(
            "SELECT body FROM document WHERE kind = 'encryption-key' ORDER BY conversation"
        ).fetchmany(1)
        rows = link.execute("SELECT id, body FROM entry").fetchall()
    backup = tmp_path / "backup.db"
    shutil.copy(stored, backup)
    with Memory(f"sqlite:///{stored}", encryption_key=KEY) as memory:
        assert memory.session("one").delete().documents == 1
        with pytest.raises(ConversationDeleted):
            memory.session("one").user("again")
        assert memory.session("two").history()
        for file in (stored, stored.with_name("chat.db-wal")):
            assert wrapped[0] not in file.read_bytes()
    with sqlite3.connect(backup) as link:  # old pages of the data, without those of the key
        assert link.execute("SELECT id, body FROM entry").fetchall() == rows
        link.execute("DELETE FROM document WHERE kind = 'encryption-key'")
    with Memory(f"sqlite:///{backup}", encryption_key=KEY) as memory, pytest.raises(InvalidRecord):
        memory.session("one").history()


def test_a_rotation_beside_readers_and_writers(stored: Path) -> None:
    """Both keys are given while it lasts; afterwards the old one opens nothing, and the new one everything."""
    stop = threading.Event()
    failures: list[BaseException] = []
    said: dict[str, int] = {}

    def work(name: str) -> None:
        try:
            while not stop.is_set():
                with Memory(
                    f"sqlite:///{stored}", budget=SMALL, encryption_key=[OTHER, KEY]
                ) as memory:
                    for conversation in (name, f"new {name} {said.get(name, 0)}"):
                        session = memory.session(conversation)
                        session.user(f"word {said.get(name, 0)} 词")
                        session.context()
                    said[name] = said.get(name, 0) + 1
        except BaseException as error:  # told in the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    rotating = opened(stored, OTHER, KEY)
    rotated = 0
    while rotated < 2 or min(said.get(name, 0) for name in ("one", "two")) < 3:
        rotated += drive(rotating.rotate_keys(SCOPE))
        assert not failures
    stop.set()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert drive(rotating.rotate_keys(SCOPE)) == 0
    assert drive(rotating.rotate_keys(Scope("nobody"))) == 0
    drive(rotating.close())
    assert rotated == 2
    with Memory(f"sqlite:///{stored}", encryption_key=OTHER) as memory:
        for name in ("one", "two"):
            session = memory.session(name)
            assert len(session.history()) == 2 + said[name]
            assert session.state.all() == {"a": f"of {name}"}
    with Memory(f"sqlite:///{stored}", encryption_key=[THIRD, KEY]) as memory:
        for name in ("one", "two", "new one 0"):
            with pytest.raises(WrongKey):
                memory.session(name).history()


def test_one_conversation_is_searched_and_all_of_them_are_not(tmp_path: Path) -> None:
    plain, sealed = f"sqlite:///{tmp_path / 'plain.db'}", f"sqlite:///{tmp_path / 'sealed.db'}"
    with Memory(plain) as one, Memory(sealed, encryption_key=KEY) as two:
        for memory in (one, two):
            session = memory.session("talk")
            session.add(
                [user("the zebra 斑马"), assistant("a horse 马"), user("zebra again 又是斑马")]
            )
        for number in range(4):
            for words in ("zebra", "斑马", "horse 马", "nothing"):
                searched, recalled = zip(*(_found(each, words) for each in (one, two)), strict=True)
                assert searched[0] == searched[1]
                assert recalled[0] == recalled[1]
                assert bool(searched[0]) == (words != "nothing")
            for memory in (one, two):
                session = memory.session("talk")
                session.user(f"round {number} zebra 斑马")
                session.fold(summary=f"zebra summary {number} 斑马", keep_turns=1)
                if number == 2:
                    session.erase(1)
        with pytest.raises(InvalidOption, match="one conversation at a time"):
            two.search("zebra")
        assert one.search("zebra")


def _found(memory: Memory, words: str) -> tuple[list[tuple[int, str]], list[int]]:
    within = Within(kinds=None)
    hits = drive(memory.store.search(SCOPE, words.split(), conversation="talk", within=within))
    recalled = [each.seq for each in memory.session("talk").recall(words)]
    return [(hit.seq, hit.kind) for hit in hits], recalled


def test_a_store_that_was_not_encrypted_is_not_mixed_with_one_that_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(url) as memory:
        memory.session("plain").user("hello")
    with Memory(url, encryption_key=KEY) as memory:
        for act in (lambda: memory.session("plain").user("more"), memory.session("plain").history):
            with pytest.raises(
                (WrongKey, InvalidRecord), match=r"without encryption|not encrypted"
            ):
                act()
        memory.session("new").user("secret 秘密")
        with pytest.raises(InvalidOption, match="reserved"):
            memory.session("turnfold-key:x").user("hello")
    with Memory(url) as memory, pytest.raises(WrongKey, match="no key was given"):
        memory.session("new").history()


def test_tokens_are_those_of_the_text_whatever_counts_them(tmp_path: Path) -> None:
    file = tmp_path / "chat.db"
    messages = [user("one two three 一二三"), assistant("four"), tool("5", tool_call_id="c")]

    def sums(model: str) -> tuple[list[int], int]:
        counter = counter_for(model)
        store = open_store(f"sqlite:///{file}", counter=counter, blocking=True, encryption_key=KEY)
        if not drive(store.head(SCOPE, "one")).seq:
            drive(store.append(SCOPE, "one", [NewEntry(each) for each in messages]))
        found = drive(store.tail(SCOPE, "one", tokens=100_000))
        head = drive(store.head(SCOPE, "one"))
        drive(store.close())
        assert [entry.message for entry in found] == messages
        assert head.counter == counter.name
        return [entry.tokens for entry in found], head.tokens

    for model in ("gpt-4o", "claude-opus-4-8", "gpt-4o"):
        counts = [counter_for(model).count_message(each) for each in messages]
        assert sums(model) == (counts, sum(counts))


def test_a_key_that_a_failover_lost_is_stored_again(tmp_path: Path) -> None:
    """The store forgot the first writes of a conversation; this process goes on with the key it knows."""
    file = tmp_path / "chat.db"
    SqliteStore(file, blocking=True)
    shutil.copy(file, tmp_path / "early.db")
    made: list[SqliteStore] = []

    def inner(counter: TokenCounter) -> Any:
        made.append(SqliteStore(file, counter=counter, blocking=True))
        return made[-1]

    store = EncryptedStore(inner, KEY)
    drive(store.append(SCOPE, "one", [NewEntry(user("lost"))]))
    with sqlite3.connect(file) as link:
        for table in ("entry", "document", "checkpoint", "conversation"):
            link.execute(f"DELETE FROM {table}")  # noqa: S608 (its own)
    drive(store.append(SCOPE, "one", [NewEntry(user("kept 保留"))]))
    drive(store.close())
    again = opened(file)
    assert [entry.message.text for entry in drive(again.read(SCOPE, "one"))] == ["kept 保留"]
    drive(again.close())


def test_exports_are_plain_and_come_back_encrypted(stored: Path, tmp_path: Path) -> None:
    """A conversation that is restored twice is the same, whatever counts its tokens."""
    store = opened(stored)
    documents: list[Document] = []
    captured = drive(store.capture(SCOPE, "one", documents.append))
    assert captured is not None
    pieces = [captured.opening, *documents, *drive(store.read(SCOPE, "one")), *captured.checkpoints]
    target = opened(tmp_path / "other.db", OTHER)
    assert drive(target.restore(SCOPE, pieces)).conversations == 1
    again = open_store(
        f"sqlite:///{tmp_path / 'other.db'}",
        blocking=True,
        encryption_key=OTHER,
        counter=counter_for("gpt-4o"),
    )
    assert drive(again.restore(SCOPE, pieces)).already == 1
    assert [type(each) for each in drive(again.checkpoints(SCOPE, "one"))] == [Checkpoint]
    assert holding(tmp_path) == []
    for each in (store, target, again):
        drive(each.close())


class _Overtaken:
    """A SQLite store before whose first `head` of a conversation another writer makes the key and writes."""

    def __init__(self, store: SqliteStore, other: EncryptedStore) -> None:
        self._store, self._other = store, other
        self._waiting = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def head(self, scope: Scope, conversation: str) -> Head:
        if self._waiting and conversation == "one":
            self._waiting = False
            await self._other.append(scope, conversation, [NewEntry(user("first"))])
        return await self._store.head(scope, conversation)


def test_two_first_writers_use_one_key(tmp_path: Path) -> None:
    def opened(counter: TokenCounter) -> SqliteStore:
        return SqliteStore(tmp_path / "one.db", blocking=True, counter=counter)

    faster = EncryptedStore(opened, KEY)
    slower = EncryptedStore(lambda counter: cast("Store", _Overtaken(opened(counter), faster)), KEY)
    assert drive(slower.append(SCOPE, "one", [NewEntry(user("second"))])).head.seq == 2
    for store in (faster, slower):
        found = [entry.message.text for entry in drive(store.read(SCOPE, "one"))]
        assert found == ["first", "second"]
        drive(store.close())
