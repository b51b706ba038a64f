"""Erasing a session, a user and a tenant: what the receipt says, that it can be checked, and that nothing is left."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service.running import running
from tests.stores.redis_server import shared_url
from turnfold.client import RemoteMemory
from turnfold.errors import ConversationDeleted, InvalidOption, InvalidRecord, NotFound
from turnfold.memory import AsyncMemory, ErasureReceipt, Memory
from turnfold.memory import erasure as erasure_module
from turnfold.records import SESSION, Document, Entry, Message, NewEntry, user
from turnfold.runtime import drive
from turnfold.service import ServiceOptions
from turnfold.stores import (
    CLAUDE_HOMES,
    ConversationOpening,
    MemoryStore,
    Scope,
    SqliteStore,
    new_home,
)

USER = "patient-8841"
WORDS = "diagnosis 诊断"


def said(text: str, user: str = "") -> Message:
    return Message("user", text, metadata={"user_id": user} if user else None)


@pytest.fixture(params=["sqlite", "memory"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    store = f"sqlite:///{tmp_path / 'chat.db'}" if request.param == "sqlite" else MemoryStore()
    with Memory(store, scope=Scope("clinic-17")) as memory:
        yield memory


def filled(memory: Memory) -> None:
    """Two conversations of a user, one of them forked, and one of somebody else."""
    for name in ("visit-1", "visit-2"):
        session = memory.session(name)
        session.add(said(f"{WORDS} {name}", USER))
        session.assistant("noted 记下了")
        session.pin(f"pin {WORDS}")
        session.context()
    memory.session("visit-1").fork(conversation="visit-1 copy")
    memory.session("other").add(said("hello 你好", "somebody"))


def names(memory: Memory) -> list[str]:
    return [info.conversation for info in memory.conversations(internal=True)]


def test_the_receipt_of_a_session_counts_what_was_erased_and_names_its_forks(
    memory: Memory,
) -> None:
    filled(memory)
    receipt = memory.erase_session("visit-1")
    [erased] = receipt.conversations
    assert (receipt.kind, erased.entries, erased.already) == ("session", 2, False)
    assert erased.documents["pin"] == 1
    assert len(erased.content_digest) == 64
    assert receipt.forks == ("visit-1 copy",)
    assert names(memory) == ["other", "visit-1 copy", "visit-2"]
    check = memory.verify_erasure(receipt)
    assert (check.ok, check.intact, check.searched, check.found) == (True, True, 3, ())
    again = memory.erase_session("visit-1")
    assert [each.already for each in again.conversations] == [True]
    with pytest.raises(ConversationDeleted):
        memory.session("visit-1").user("late")


def test_a_whole_user_is_erased_with_forks(memory: Memory) -> None:
    filled(memory)
    receipt = memory.erase_user(USER)
    assert len(receipt.conversations) == 3
    assert names(memory) == ["other"]
    assert memory.verify_erasure(receipt).ok
    memory.session("visit-3").add(said("back again", USER))
    check = memory.verify_erasure(receipt)
    assert (check.ok, check.intact, check.found) == (False, True, ("visit-3",))


@pytest.mark.parametrize("user", ["user-42", "用户-42", "org/user-42"])
def test_ids_that_begin_with_the_user_are_the_users(memory: Memory, user: str) -> None:
    for name in (user, f"{user}/trip", f"{user}/trip/agent-1", f"{user}1/trip", f"x/{user}/trip"):
        memory.session(name).user(f"{WORDS} of {name}")
    memory.session(f"{user}/trip").fork(conversation="copy of a trip")
    memory.session("labelled").add(said(WORDS, user))
    memory.session("labelled").fork(1, conversation="a copy")
    memory.session("labelled/agent").user("looked up")
    receipt = memory.erase_user(user)
    assert set(names(memory)) == {"labelled/agent", f"{user}1/trip", f"x/{user}/trip"}
    assert [each.entries for each in receipt.conversations] == [1] * 6
    assert receipt.forks == ("labelled/agent",), "not erased, but named"
    found = {hit.conversation for hit in memory.search("诊断")}
    assert found == {f"{user}1/trip", f"x/{user}/trip"}
    check = memory.verify_erasure(receipt)
    assert (check.ok, check.named, check.found) == (True, 6, ())
    memory.session(f"{user}/later").user("back again")
    assert memory.verify_erasure(receipt).found == (f"{user}/later",)


def test_an_interrupted_erasure_of_a_user_still_finds_the_forks(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.session("user-42/trip").user(WORDS)
    memory.session("user-42/trip").fork(conversation="copy")
    erase_one, calls = erasure_module._erase_one, list[object]()

    async def once(*args: object) -> object:
        if calls:
            raise KeyboardInterrupt
        calls.append(args)
        return await erase_one(*args)  # pyright: ignore[reportArgumentType] (as they were given)

    monkeypatch.setattr(erasure_module, "_erase_one", once)
    with pytest.raises(KeyboardInterrupt):
        memory.erase_user("user-42")
    monkeypatch.undo()
    memory.erase_user("user-42")
    assert names(memory) == []


def test_an_equal_first_message_without_a_time_is_named_and_not_erased(memory: Memory) -> None:
    for name in ("user-42/import", "user-7/import"):
        pieces = [
            ConversationOpening(name, 0, 0),
            Entry(1, Message("user", "你好"), "", 0, 1, 0, 0),
        ]
        drive(memory.store.restore(memory.scope, pieces))
    receipt = memory.erase_user("user-42")
    assert (names(memory), receipt.forks) == (["user-7/import"], ("user-7/import",))


@pytest.mark.parametrize("user", ["ann", "安"])
def test_there_is_no_receipt_for_nothing(memory: Memory, user: str) -> None:
    with pytest.raises(NotFound, match="tenant 'clinic-17' has no sessions"):
        memory.erase_tenant("clinic-17")
    filled(memory)
    with pytest.raises(NotFound, match=f"no session of user '{user}'"):
        memory.erase_user(user)
    with pytest.raises(NotFound, match=f"no session '{user}'"):
        memory.erase_session(user)
    assert len(names(memory)) == 4


def test_a_receipt_that_names_nothing_does_not_hold(memory: Memory) -> None:
    filled(memory)
    receipt = replace(memory.erase_user(USER), conversations=())
    empty = replace(receipt, digest=erasure_module._receipt_digest(receipt))
    check = memory.verify_erasure(empty)
    assert (check.ok, check.intact, check.named, check.found) == (False, True, 0, ())


def test_handles_of_the_erased_are_dropped() -> None:
    async def erased() -> None:
        async with AsyncMemory(MemoryStore(), scope=Scope("clinic-17")) as memory:
            ann, bob = memory.session("ann/1"), memory.session("bob/1")
            await ann.user(WORDS)
            await bob.user(WORDS)
            await memory.erase_user("ann")
            assert memory.session("ann/1") is not ann
            assert memory.session("bob/1") is bob
            await memory.erase_tenant("clinic-17")
            assert memory.session("bob/1") is not bob

    asyncio.run(erased())


def test_a_whole_tenant_is_erased_and_no_other(memory: Memory) -> None:
    filled(memory)
    neighbour = Memory(memory.store, scope=Scope("clinic-18"))
    neighbour.session("visit-1").add(said("mine"))
    with pytest.raises(
        InvalidOption, match="this memory belongs to another tenant than 'clinic-18'"
    ):
        memory.erase_tenant("clinic-18")
    receipt = memory.erase_tenant("clinic-17")
    assert len(receipt.conversations) == 4
    assert names(memory) == []
    assert memory.verify_erasure(receipt).ok
    assert names(neighbour) == ["visit-1"]
    assert neighbour.verify_erasure(receipt).ok, (
        "another tenant's conversations are not its concern"
    )


def test_a_receipt_has_no_ids_and_no_text(memory: Memory) -> None:
    filled(memory)
    for receipt in (
        memory.erase_session("visit-2"),
        memory.erase_user(USER),
        memory.erase_tenant("clinic-17"),
    ):
        shown = repr(replace(receipt, forks=()))
        for word in (USER, "visit", "clinic", "diagnosis", "诊断", "other"):
            assert word not in shown


def test_an_altered_receipt_is_not_intact(memory: Memory) -> None:
    filled(memory)
    receipt = memory.erase_user(USER)
    first = replace(receipt.conversations[0], entries=99)
    altered = replace(receipt, conversations=(first, *receipt.conversations[1:]))
    check = memory.verify_erasure(altered)
    assert (check.ok, check.intact) == (False, False)
    with pytest.raises(InvalidRecord, match="32 hexadecimal digits"):
        memory.verify_erasure(replace(receipt, salt="zz"))


def test_what_was_not_erased_is_found(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(memory)

    async def kept(*_: object) -> object:
        return erasure_module.ErasedConversation(
            id_digest=erasure_module._conversation_digest(str(_[3]), memory.scope, str(_[2])),
            entries=2,
            checkpoints=0,
            documents={},
            content_digest="",
            already=False,
        )

    monkeypatch.setattr(erasure_module, "_erase_one", kept)
    receipt = memory.erase_user(USER)
    check = memory.verify_erasure(receipt)
    assert (check.ok, check.found) == (False, ("visit-1", "visit-1 copy", "visit-2"))


def test_equal_contents_have_equal_digests(memory: Memory) -> None:
    for name, text in (("a", WORDS), ("b", WORDS), ("c", "else")):
        memory.session(name).user(text)
    found = [memory.erase_session(name).conversations[0].content_digest for name in "abc"]
    assert found[0] == found[1] != found[2]


def test_the_file_has_no_id_of_the_erased(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with Memory(f"sqlite:///{path}", scope=Scope("clinic-17")) as memory:
        filled(memory)
        memory.search("诊断")
        memory.erase_tenant("clinic-17")
        with pytest.raises(ConversationDeleted):
            memory.session("visit-2").user("late")
    files = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for word in (USER, "visit-", "clinic-17", "diagnosis", "诊断"):
        assert word.encode() not in files
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT count(*) FROM conversation WHERE deleted").fetchone() == (4,)
    raw.close()


def test_redis_has_nothing_of_the_erased(tmp_path: Path) -> None:
    redis = pytest.importorskip("redis")
    url, address = shared_url(), f"sqlite:///{tmp_path / 'chat.db'}"
    client = redis.Redis.from_url(url)

    def values() -> dict[bytes, dict[bytes, bytes]]:
        found = [key for key in client.keys("*") if b"visit-r-" in key]
        return {key: client.hgetall(key) for key in found if client.type(key) == b"hash"}

    with Memory(address, cache=url, scope=Scope(f"clinic-{tmp_path.name}")) as memory:
        for name in ("visit-r-1", "visit-r-2"):
            memory.session(name).add(said(WORDS, USER))
            memory.session(name).context()
        with Memory(address, cache=url, scope=memory.scope) as other:  # reads, and fills the cache
            other.session("visit-r-1").context()
            other.session("visit-r-2").context()
        assert any(len(value) > 2 for value in values().values()), "the cache is used"
        memory.erase_user(USER)
        # What refuses a late writer: which store, and a generation that nothing exceeds; it expires.
        for key, value in values().items():
            assert set(value) == {b"store", b"generation"}
            assert 0 < client.pttl(key) <= 60_000
    client.close()


def test_a_receipt_of_an_earlier_release_is_still_intact() -> None:
    conversation = erasure_module.ErasedConversation(
        id_digest="b" * 32,
        entries=2,
        checkpoints=1,
        documents={"pin": 1},
        content_digest="c" * 64,
        already=False,
    )
    receipt = erasure_module.ErasureReceipt(
        kind="session",
        subject="a" * 32,
        salt="0" * 32,
        at=1,
        conversations=(conversation,),
        forks=("copy 副本",),
        digest="d0475a13052274bfe86f73335caf2b288c4347f6d2836f25f125747ce646ebe4",
    )
    assert receipt.is_intact
    altered = replace(receipt, conversations=(replace(conversation, derived=True),))
    assert not altered.is_intact


def test_transcripts_of_all_projects_go_with_their_session_and_no_index_is_taken_for_one(
    memory: Memory,
) -> None:
    store, scope = memory.awaiting.store, memory.awaiting.scope
    indexes = [f"claude-agent-sdk:project:{project}" for project in ("0" * 32, "项目")]
    for name in ("project", "会话", "会话2"):
        for index in indexes:
            for key in (name, f"{name}\x1fagents/1"):
                home = new_home(CLAUDE_HOMES.prefix(name))
                memory.session(home).user(WORDS)
                document = Document(CLAUDE_HOMES.kind, key, home.encode(), 0)
                drive(store.put_document(scope, index, document))
    for name in ("project", "会话"):  # the first index looks like a home of session "project"
        receipt = memory.erase_session(name)
        assert [each.derived for each in receipt.conversations] == [False, *[True] * 4]
        assert memory.verify_erasure(receipt).ok
        drive(store.put_document(scope, indexes[1], Document(CLAUDE_HOMES.kind, name, b"", 0)))
        assert memory.verify_erasure(receipt).found == (indexes[1],)
        memory.delete(name)
        assert memory.verify_erasure(receipt).ok
    assert len(names(memory)) == len(indexes) + 4


@pytest.mark.parametrize("digest", ["", "伪造", "f" * 64])
def test_a_receipt_with_another_digest_is_not_intact(memory: Memory, digest: str) -> None:
    memory.session("one").user("hello 你好")
    receipt = replace(memory.erase_session("one"), digest=digest)
    assert not memory.verify_erasure(receipt).intact


def test_a_receipt_is_stored_as_json_and_read_back(memory: Memory) -> None:
    filled(memory)
    receipt = memory.erase_user(USER)
    read = ErasureReceipt.from_json(receipt.to_json())
    assert read == receipt
    assert memory.verify_erasure(read).ok


@pytest.mark.parametrize("text", ["", "[]", '{"kind": "user"}', "\ud800", "[" * 100_000, b"\xff"])
def test_other_text_is_no_receipt(text: str | bytes) -> None:
    with pytest.raises(InvalidRecord, match="not a receipt of an erasure"):
        ErasureReceipt.from_json(text)


@pytest.mark.parametrize("given", [{"kind": "user"}, "{}", None])
def test_something_else_than_a_receipt_is_refused_with_the_right_call(
    memory: Memory, given: object
) -> None:
    refused = "verify_erasure needs an ErasureReceipt, got .*ErasureReceipt.from_json\\(text\\)"
    with pytest.raises(InvalidOption, match=refused):
        memory.verify_erasure(given)  # pyright: ignore[reportArgumentType] (refused)
    with (
        RemoteMemory("http://127.0.0.1:9") as remote,
        pytest.raises(InvalidOption, match=refused),
    ):
        remote.verify_erasure(given)  # pyright: ignore[reportArgumentType] (refused)


@pytest.mark.parametrize("said", ["Hello", "你好"])
def test_people_who_began_in_the_same_moment_with_the_same_words_stay(said: str) -> None:
    """A service gives all conversations one system message, and may store several in one commit."""
    with Memory(SqliteStore(clock=lambda: 1_000, blocking=True)) as memory:
        for user in ("ann", "bob", "小明"):
            session = memory.session(f"{user}/chat")
            session.system("You are a careful travel agent. 你是旅行助手。")
            session.user(said, client_id="t1")
        receipt = memory.erase_user("ann")
        assert names(memory) == ["bob/chat", "小明/chat"]
        assert (len(receipt.conversations), receipt.forks) == (1, ("bob/chat", "小明/chat"))
        assert memory.erase_session("bob/chat").forks == ("小明/chat",)
        assert [entry.message.text for entry in memory.session("小明/chat").history()][-1] == said


def test_a_fork_of_a_fork_is_found_after_the_one_between_is_gone(memory: Memory) -> None:
    memory.session("user-42/trip").user("我的病历号是 20931")
    memory.session("user-42/trip").fork(conversation="draft")
    memory.session("draft").fork(conversation="final")
    memory.session("draft").delete()
    drive(memory.store.append(memory.scope, "final", [NewEntry(user("more"))]))
    notes = drive(memory.store.documents(memory.scope, "final", SESSION))
    assert not any(b"user-42" in note.body or b"draft" in note.body for note in notes)
    receipt = memory.erase_user("user-42")
    assert (names(memory), len(receipt.conversations)) == ([], 2)


def never_there(memory: Memory | RemoteMemory) -> None:
    """Delete what does not exist in both ways; its id stays open, and a deletion that is repeated says so."""
    for delete in (lambda: memory.session("never").delete(), lambda: memory.delete("never")):
        with pytest.raises(NotFound, match="no session 'never'"):
            delete()
    memory.session("never").user("still open 仍可使用")
    assert (memory.delete("never").entries, memory.session("never").delete().already) == (1, True)


def test_a_conversation_that_never_was_is_not_deleted(memory: Memory) -> None:
    never_there(memory)
    assert names(memory) == []


def test_a_served_conversation_that_never_was_is_not_deleted() -> None:
    with running(ServiceOptions(store="sqlite://")) as service:
        with RemoteMemory(service.url) as remote:
            never_there(remote)
        with service.client() as client:
            answer = client.delete("/v1/sessions/never-served")
            assert (answer.status_code, answer.json()["type"][-9:]) == (404, "not-found")
            assert client.delete("/v1/sessions/never").json()["already"]


def test_an_awaited_conversation_that_never_was_is_not_deleted() -> None:
    async def use() -> None:
        async with AsyncMemory("sqlite://") as memory:
            with pytest.raises(NotFound, match="no session 'never'"):
                await memory.session("never").delete()
            with pytest.raises(NotFound, match="no session 'never'"):
                await memory.delete("never")
            assert (await memory.session("never").user("still open")).first == 1

    asyncio.run(use())
