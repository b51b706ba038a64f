"""A store that holds encrypted conversations, opened without the key, shows nothing of them and writes nothing to them.

A worker that lacks its environment variable would otherwise write plain text into a conversation that the right key
then refuses to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isfunction
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.cli.seeded import invoke, invoke_json
from tests.inspector.reading import read_page
from tests.inspector.seeded import inspected
from tests.memory.talking import SMALL
from tests.service.running import running
from tests.stores.redis_server import shared_url
from tests.stores.servers import fresh_database
from turnfold import AsyncMemory, Memory, ShortMemory
from turnfold.errors import InvalidOption, WrongKey
from turnfold.memory import Session
from turnfold.records import Document, NewEntry, user
from turnfold.redaction import find_secrets
from turnfold.runtime import drive
from turnfold.service import ServiceOptions
from turnfold.service.inspector.labels import PageLabels
from turnfold.stores import (
    Ability,
    ConversationInfo,
    EncryptedStore,
    MemoryStore,
    Piece,
    Scope,
    SqliteStore,
    Store,
    refuse_encrypted,
)
from turnfold.stores.encryption.keys import ConversationKeys, KeyRing
from turnfold.tokens import counter_for

KEY = "01" * 32
SCOPE = Scope("default")


@pytest.fixture(autouse=True)
def no_key_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNFOLD_ENCRYPTION_KEY_FILE", "")  # restored after the test


def postgres_url() -> str:
    parts = conninfo_to_dict(fresh_database())
    user = f"{parts['user']}:{parts['password']}" if parts.get("password") else parts["user"]
    where = {key: parts[key] for key in ("host", "port") if parts.get(key)}
    return f"postgresql://{user}@/{parts['dbname']}?{urlencode(where)}"


def write(url: str) -> str:
    """Write an encrypted conversation with entries, a summary and documents."""
    with Memory(url, encryption_key=KEY, budget=SMALL) as memory:
        session = memory.session("talk")
        for number in range(6):
            session.user(f"The zxqzebra {number}. 斑马。")
            session.assistant("Noted. 已记录。")
        session.state.set("a", "zxqstate")
        session.fold(summary="zxqsummary 摘要", keep_turns=2)
        memory.session("short").user("only one entry")
        memory.session("documents").state.set("a", "zxqstate")
    return url


@pytest.fixture
def url(tmp_path: Path) -> str:
    return write(f"sqlite:///{tmp_path}/chat.db")


def contents(url: str) -> list[object]:
    """Everything that is stored, as the right key reads it."""
    with Memory(url, encryption_key=KEY, budget=SMALL) as memory:
        return [
            (session.history(), session.checkpoints(), session.state.get("a"))
            for session in map(memory.session, ("talk", "short", "documents"))
        ]


USES: dict[str, Callable[[Session], object]] = {
    "history": lambda session: session.history(),
    "context": lambda session: session.context("zebra 斑马"),
    "user": lambda session: session.user("two plain 明文"),
    "system": lambda session: session.system("two plain 明文"),
    "fold": lambda session: session.fold(summary="plain 明文", keep_turns=1),
    "recall": lambda session: session.recall("zebra"),
    "set state": lambda session: session.state.set("a", "plain"),
    "pin": lambda session: session.pin("plain 明文"),
    "rule": lambda session: session.add_rule("Never do that. 不要这样做。"),
    "erase": lambda session: session.erase(1),
}


@pytest.mark.parametrize("conversation", ["talk", "short", "documents"])
def test_sessions_refuse_without_a_key(url: str, conversation: str) -> None:
    before = contents(url)
    for name, use in USES.items():
        if conversation == "documents" and name in ("history", "fold", "erase"):
            continue  # there is nothing to read, and nothing is written
        with Memory(url, budget=SMALL) as memory, pytest.raises(WrongKey, match="encryption_key="):
            use(memory.session(conversation))
    assert contents(url) == before


@pytest.mark.parametrize("place", ["redis", "postgres", "open store", "redact", "other counter"])
def test_every_kind_of_store_refuses(tmp_path: Path, place: str) -> None:
    url = write(postgres_url() if place == "postgres" else f"sqlite:///{tmp_path}/chat.db")
    before = contents(url)
    options: dict[str, Any] = {
        "redis": {"cache": shared_url()},
        "redact": {"redact": find_secrets},
        "other counter": {"counter": counter_for("gpt-4o")},
    }.get(place, {})
    store: str | Store = url
    if place == "open store":
        store = SqliteStore(tmp_path / "chat.db", blocking=True)
    with Memory(store, budget=SMALL, **options) as memory:
        for use in USES.values():
            with pytest.raises(WrongKey, match="encryption_key="):
                use(memory.session("talk"))
    if isinstance(store, SqliteStore):
        drive(store.close())
    assert contents(url) == before


def test_async_memories_refuse(url: str) -> None:
    async def use() -> None:
        async with AsyncMemory(url) as memory:
            session = memory.session("talk")
            with pytest.raises(WrongKey):
                await session.user("two plain")
            with pytest.raises(WrongKey):
                await session.history()

    before = contents(url)
    asyncio.run(use())
    assert contents(url) == before


@pytest.mark.parametrize("cached", [False, True])
def test_short_memories_refuse(url: str, *, cached: bool) -> None:
    with (
        ShortMemory(url, cache=shared_url() if cached else None) as memory,
        pytest.raises(WrongKey),
    ):
        memory.write_turn("talk", user_query="two plain", agent_response="明文")


def test_documents_that_are_written_directly_are_refused(url: str) -> None:
    with Memory(url) as memory:
        store = memory.store
        for name in ("talk", "documents"):
            with pytest.raises(WrongKey):
                drive(store.put_document(SCOPE, name, Document("kind", "key", b"plain", 0)))
            with pytest.raises(WrongKey):
                drive(store.drop_document(SCOPE, name, "session", "state"))
            with pytest.raises(WrongKey):
                drive(store.get_document(SCOPE, name, "session", "state"))
            with pytest.raises(WrongKey):
                drive(store.capture(SCOPE, name, lambda _: None))


def test_plain_documents_keep_a_conversation_plain(tmp_path: Path) -> None:
    """Otherwise a program without the key would go on writing to a conversation that was encrypted meanwhile."""
    url = f"sqlite:///{tmp_path}/plain.db"
    with Memory(url) as memory, Memory(url, encryption_key=KEY) as encrypted:
        memory.session("new").state.set("a", "plain")
        with pytest.raises(WrongKey, match="without encryption"):
            encrypted.session("new").user("hello")
        memory.session("new").user("你好")
        assert [entry.message.text for entry in memory.session("new").history()] == ["你好"]


def test_listings_hide_keys_and_searches_say_that_they_see_nothing(url: str) -> None:
    with Memory(url) as memory:
        names = ["documents", "short", "talk"]
        assert [info.conversation for info in memory.conversations()] == names
        pages = [memory.conversations(after=after, limit=1) for after in ("", *names)]
        assert [info.conversation for page in pages for info in page] == names
        with pytest.raises(WrongKey, match="search"):
            memory.search("zxqzebra")
        with pytest.raises(WrongKey):
            memory.search("encrypted")
        key = drive(SqliteStore(url[len("sqlite:///") :], blocking=True).conversations(SCOPE))[-1]
        assert key.conversation.startswith("turnfold-key:")
        with pytest.raises(InvalidOption, match="reserved"):
            memory.delete(key.conversation)
        with pytest.raises(InvalidOption, match="reserved"):
            memory.session(key.conversation).user("hello")


@pytest.mark.parametrize("key", [None, "02" * 32])
def test_erasing_needs_no_key_and_destroys_the_stored_one(url: str, key: str | None) -> None:
    with Memory(url, encryption_key=key) as memory:
        receipt = memory.erase_session("talk")
        [erased] = receipt.conversations
        assert (erased.entries, erased.content_digest) == (12, "")
        assert set(erased.documents) == {"encrypted"}
        assert memory.verify_erasure(receipt).ok
        with pytest.raises(WrongKey):  # whose it is cannot be read
            memory.erase_user("somebody")
        memory.delete("short")
        memory.erase_tenant("default")
    store = SqliteStore(url[len("sqlite:///") :], blocking=True)
    assert drive(store.conversations(SCOPE)) == []
    drive(store.close())


def test_commands_refuse_and_hide_keys(url: str, tmp_path: Path) -> None:
    at = ["--store", url]
    listed = invoke(["sessions", *at])
    assert (listed.exit_code, "talk" in listed.stdout) == (0, True)
    assert "turnfold-key" not in listed.stdout
    chat = tmp_path / "more.json"
    chat.write_text('[{"role": "user", "content": "two plain"}]', encoding="utf-8")
    for command in (
        ["show", "talk"],
        ["search", "zxqzebra"],
        ["context", "talk"],
        ["audit", "talk"],
        ["export", "talk", "--format", "openai"],
        ["import", str(chat), "--session", "talk"],
        ["rules", "talk"],
        ["top", "talk"],
    ):
        found = invoke([*command, *at])
        assert (command, found.exit_code != 0) == (command, True)
        assert "[encrypted]" not in found.stdout
        assert "--encryption-key-file" in found.stderr, (command, found.stderr)
    assert invoke(["db", "backup", str(tmp_path / "copy.db"), *at]).exit_code == 0
    assert contents(f"sqlite:///{tmp_path}/copy.db") == contents(url)
    assert invoke_json(["db", "status", *at])["conversations"] == 3
    assert invoke(["doctor", *at]).exit_code == 0
    exact = tmp_path / "exact.jsonl"
    assert invoke(["export", "--all", "-o", str(exact), *at]).exit_code == 0
    assert b"zxqzebra" not in exact.read_bytes()
    restored = f"sqlite:///{tmp_path}/restored.db"
    assert invoke(["import", str(exact), "--store", restored]).exit_code == 0
    with Memory(restored, encryption_key=KEY) as memory:
        assert "zxqzebra" in memory.session("talk").history()[0].message.text
    assert invoke(["delete", "talk", "--yes", *at]).exit_code == 0


def test_a_service_refuses(url: str) -> None:
    before = contents(url)
    with running(ServiceOptions(store=url)) as service, service.client() as client:
        message = {"messages": [{"role": "user", "content": "two plain"}]}
        answers = [
            client.get("/v1/sessions/talk/messages"),
            client.post("/v1/sessions/talk/messages", json=message),
            client.post("/v1/sessions/talk/context", json={}),
        ]
        assert [each.json()["type"][-9:] for each in answers] == ["wrong-key"] * 3
        assert "turnfold-key" not in client.get("/v1/sessions").text
    assert contents(url) == before


def test_a_plain_conversation_is_looked_up_once() -> None:
    """The store is not asked before every write if it is encrypted, and appends stay in the order of their calls."""
    asked: list[str] = []

    class Counted(MemoryStore):
        blocking = False

        async def get_document(
            self, scope: Scope, conversation: str, kind: str, key: str
        ) -> Document | None:
            asked.append(conversation)
            await asyncio.sleep(0)
            return await super().get_document(scope, conversation, kind, key)

        async def conversations(self, scope: Scope, **options: Any) -> list[ConversationInfo]:
            asked.append("conversations")
            await asyncio.sleep(0)
            return await super().conversations(scope, **options)

    async def use() -> list[str]:
        store = refuse_encrypted(Counted())
        assert Ability.IN_ORDER in store.abilities
        words = [str(number) for number in range(40)]
        jobs: list[asyncio.Task[object]] = []
        for word in words:  # some are called while the first ones wait, some later
            entries = [NewEntry(user(word), word)]
            jobs.append(asyncio.create_task(store.append(SCOPE, "talk", entries)))
            if len(jobs) % 7 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*jobs)
        assert [entry.message.text for entry in await store.read(SCOPE, "talk")] == words
        await store.put_document(SCOPE, "talk", Document("kind", "key", b"body", 0))
        return asked

    assert len(asyncio.run(use())) == 1


@pytest.mark.parametrize(
    ("key", "unreadable", "mark"),
    [
        (None, {"documents", "short", "talk"}, "encrypted; no key was given"),
        (
            "02" * 32,
            {"documents", "open", "short", "talk"},
            "cannot be read with this encryption key",
        ),
        (KEY, {"open"}, "cannot be read with this encryption key"),
    ],
    ids=["no key", "wrong key", "right key"],
)
def test_the_inspector_lists_what_it_cannot_read(
    tmp_path: Path, key: str | None, unreadable: set[str], mark: str
) -> None:
    """With a mark, beside what it can read; with the right key, that is a session which was written without it."""
    url = f"sqlite:///{tmp_path}/mixed.db"
    with Memory(url) as memory:
        memory.session("open").user("plain 明文")
    write(url)
    with (
        inspected(ServiceOptions(store=url, encryption_key=key)) as service,
        service.client() as client,
    ):
        for language, there in (("en", mark), ("zh", PageLabels("zh")(mark))):
            answer = client.get(f"/ui?lang={language}")
            assert answer.status_code == 200
            rows = [row.all("td") for row in read_page(answer.text).one("tbody").all("tr")]
            titles = {row[0].text: row[1].text for row in rows}
            assert set(titles) == {"documents", "open", "short", "talk"}
            assert {name for name, title in titles.items() if title == there} == unreadable
            assert ("talk", "6", "12") in {(row[0].text, row[2].text, row[3].text) for row in rows}
            assert "turnfold-key" not in answer.text
        assert ("plain 明文" in answer.text) is (key is None)
        assert ("only one entry" in answer.text) is (key == KEY)


UNCHECKED = {"close", "head", "health"}
"""Methods of a store that neither show nor write content."""


def unchecked_methods(wrapper: type) -> set[str]:
    """Return the methods of the protocol that a wrapper passes on as they are."""
    methods = {name for name, value in vars(Store).items() if isfunction(value)}
    return {name for name in methods if not name.startswith("_")} - set(vars(wrapper))


def test_a_store_without_a_key_checks_every_method_of_the_protocol() -> None:
    assert unchecked_methods(type(refuse_encrypted(MemoryStore()))) == UNCHECKED

    class Careless:
        async def head(self, scope: Scope, conversation: str) -> None: ...

    assert {"append", "restore", "erase"} <= unchecked_methods(Careless)


def pieces_of(store: Store, name: str) -> list[Piece]:
    documents: list[Document] = []
    captured = drive(store.capture(SCOPE, name, documents.append))
    assert captured is not None
    return [captured.opening, *documents, *drive(store.read(SCOPE, name)), *captured.checkpoints]


def test_a_conversation_that_has_a_key_is_not_restored_in_plain_text(tmp_path: Path) -> None:
    """A process with the key made it, and was stopped before its first write."""
    places = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("plain", "target")}
    with Memory(places["plain"]) as memory:
        for name in ("new", "other"):
            memory.session(name).user("plain 明文")
        pieces = {name: pieces_of(memory.store, name) for name in ("new", "other")}
    inner = SqliteStore(tmp_path / "target.db", blocking=True)
    keys = ConversationKeys(inner, KeyRing(KEY))
    drive(keys.make(SCOPE, "new"))
    store = refuse_encrypted(inner)
    for names in (["other", "new"], ["new"], ["other"]):
        with pytest.raises(WrongKey, match="encryption_key="):
            drive(store.restore(SCOPE, [piece for name in names for piece in pieces[name]]))
    assert drive(store.conversations(SCOPE)) == [], "nothing plain"
    drive(inner.close())
    with Memory(places["target"], encryption_key=KEY) as memory:
        memory.session("new").user("secret 秘密")
        sealed = SqliteStore(tmp_path / "target.db", blocking=True)
        copy = refuse_encrypted(MemoryStore())
        for name in [each.conversation for each in drive(sealed.conversations(SCOPE))]:
            drive(copy.restore(SCOPE, pieces_of(sealed, name)))  # encrypted ones need no key
        for name in [each.conversation for each in drive(sealed.conversations(SCOPE))]:
            assert drive(copy.restore(SCOPE, pieces_of(sealed, name))).already == 1
        drive(sealed.close())


PLAIN: dict[str, Callable[[Store], Any]] = {
    "entry": lambda store: store.append(SCOPE, "talk", [NewEntry(user("plain 明文"), "")]),
    "document": lambda store: store.put_document(
        SCOPE, "talk", Document("kind", "plain", b"body", 0)
    ),
}


@pytest.mark.parametrize(
    ("plain", "write"), [("entry", "entry"), ("entry", "document"), ("document", "document")]
)
def test_a_conversation_that_got_plain_text_meanwhile_is_not_encrypted(
    plain: str, write: str
) -> None:
    """A process without the key had looked for a key just before another one made it, and wrote first."""

    class Raced(MemoryStore):
        async def put_document(
            self, scope: Scope, conversation: str, *args: Any, **more: Any
        ) -> Any:
            done = await super().put_document(scope, conversation, *args, **more)
            if conversation.startswith("turnfold-key:"):
                await PLAIN[plain](self)
            return done

    inner = Raced()
    store = EncryptedStore(lambda _: inner, KEY)
    for _ in range(2):
        with pytest.raises(WrongKey, match="without encryption"):
            drive(PLAIN[write](store))
    assert drive(inner.head(SCOPE, "talk")).generation == 1, "only the plain write"


def test_two_processes_with_the_key_write_first_to_one_conversation() -> None:
    inner = MemoryStore()
    one, other = (EncryptedStore(lambda _: inner, KEY) for _ in range(2))
    drive(one._keys.make(SCOPE, "talk"))
    for write in PLAIN.values():
        drive(write(other))
        drive(write(one))
    assert len(drive(one.read(SCOPE, "talk"))) == 2
    found = drive(other.get_document(SCOPE, "talk", "kind", "plain"))
    assert found is not None
    assert found.version == 2
