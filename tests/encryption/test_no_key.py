"""A store that holds encrypted conversations, opened without the key, shows nothing of them and writes nothing to them.

A worker that lacks its environment variable would otherwise write plain text into a conversation that the right key
then refuses to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.cli.seeded import invoke, invoke_json
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
from turnfold.stores import Ability, MemoryStore, Scope, SqliteStore, Store, refuse_encrypted
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


def test_plain_documents_keep_a_conversation_plain(url: str) -> None:
    """Otherwise a program without the key would go on writing to a conversation that was encrypted meanwhile."""
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
    """Its wrapped key is not asked for before every write, and appends stay in the order of their calls."""
    asked: list[str] = []

    class Counted(MemoryStore):
        blocking = False

        async def get_document(
            self, scope: Scope, conversation: str, kind: str, key: str
        ) -> Document | None:
            asked.append(conversation)
            await asyncio.sleep(0)
            return await super().get_document(scope, conversation, kind, key)

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
