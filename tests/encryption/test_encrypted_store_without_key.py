"""A store that holds anything encrypted takes no plain text from a program that was started without the key.

Whatever the conversation and the tenant: a forgotten key would otherwise be found out when the texts are on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.seeded import invoke, invoke_json
from tests.encryption.test_no_key import KEY, SCOPE, postgres_url
from tests.stores.redis_server import shared_url
from turnfold import Memory, ShortMemory
from turnfold.errors import WrongKey
from turnfold.records import Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import EncryptedStore, MemoryStore, Scope, Store, refuse_encrypted
from turnfold.stores.encryption import keys

REFUSED = "the store is encrypted.*encryption_key=.*--encryption-key-file"


@pytest.fixture(autouse=True)
def no_key_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNFOLD_ENCRYPTION_KEY_FILE", "")
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)


WRITES: dict[str, Callable[[Memory], object]] = {
    "user": lambda memory: memory.session("new").user("my secret is 4711"),
    "system": lambda memory: memory.session("new").system("密码是 4711"),
    "state": lambda memory: memory.session("new").state.set("a", "4711"),
    "pin": lambda memory: memory.session("new").pin("4711"),
    "rule": lambda memory: memory.session("new").add_rule("Never say 4711. 不要说 4711。"),
    "short": lambda memory: ShortMemory(memory.store).write_turn(
        "new", user_query="4711", agent_response="noted"
    ),
    "document": lambda memory: drive(
        memory.store.put_document(SCOPE, "new", Document("kind", "key", b"4711", 0))
    ),
    "another tenant": lambda memory: (
        Memory(memory.store, scope="other").session("new").user("4711")
    ),
}


@pytest.mark.parametrize("place", ["sqlite", "redis", "postgres"])
@pytest.mark.parametrize("deleted", [False, True], ids=["there", "deleted"])
def test_nothing_plain_is_written_to_any_conversation(
    tmp_path: Path, place: str, *, deleted: bool
) -> None:
    """Also when everything encrypted has been deleted since: the store stays encrypted."""
    url = postgres_url() if place == "postgres" else f"sqlite:///{tmp_path}/chat.db"
    cache: dict[str, Any] = {"cache": shared_url()} if place == "redis" else {}
    with Memory(url, encryption_key=KEY, **cache) as memory:
        memory.session("talk").user("secret 秘密")
        if deleted:
            memory.session("talk").delete()
    with Memory(url, **cache) as memory:
        for write in WRITES.values():
            with pytest.raises(WrongKey, match=REFUSED):
                write(memory)
        names = [info.conversation for info in memory.conversations()]
        assert names == ([] if deleted else ["talk"])
        assert memory.session("new").history() == []
    for scope in ("default", "other"):
        with Memory(url, scope=scope, encryption_key=KEY, **cache) as memory:
            memory.session("new").user("now with the key 有密钥")
            assert len(memory.session("new").history()) == 1


def test_a_store_in_memory_refuses_too() -> None:
    inner = MemoryStore()
    drive(
        EncryptedStore(lambda _: inner, KEY).append(SCOPE, "talk", [NewEntry(user("secret"), "1")])
    )
    memory = Memory(inner)
    for write in WRITES.values():
        with pytest.raises(WrongKey, match=REFUSED):
            write(memory)


def test_commands_take_no_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, keyfile, chat = tmp_path / "enc.db", tmp_path / "keys", tmp_path / "chat.json"
    keyfile.write_text(KEY, encoding="ascii")
    chat.write_text('[{"role": "user", "content": "imported 4711"}]', encoding="utf-8")
    at, key = ["--store", str(file)], ["--encryption-key-file", str(keyfile)]
    assert invoke(["import", str(chat), "--session", "e1", *at, *key]).exit_code == 0
    monkeypatch.setenv("TURNFOLD_ENCRYPTION_KEY_FILE", "")  # the option sets it for the process
    for command in (
        ["chat", "e1", "--once", "my secret is 4711"],
        ["chat", "e2", "--once", "my secret is 4711"],
        ["import", str(chat), "--session", "e3"],
        ["import", str(chat), "--session", "e3", "--tenant", "other"],
    ):
        done = invoke([*command, *at])
        assert done.exit_code != 0, command
        assert "--encryption-key-file" in done.stderr, command
    assert b"4711" not in file.read_bytes()
    listed = invoke_json(["sessions", *at])["sessions"]
    assert [each["session"] for each in listed] == ["e1"]


@pytest.fixture
def earlier_release(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Return a function that runs a program as an earlier release would: it does not mark the store."""

    async def no_mark(store: Store) -> None:
        del store

    def run(program: Callable[[], None]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(keys, "mark_store", no_mark)
            program()

    return run


def test_a_store_of_an_earlier_release_is_recognised(
    tmp_path: Path, earlier_release: Callable[[Callable[[], None]], None]
) -> None:
    """By its tenants that have keys; the next write with a key, also to an old conversation, marks it for all."""
    url = f"sqlite:///{tmp_path}/chat.db"

    def write() -> None:
        with Memory(url, encryption_key=KEY) as memory:
            memory.session("talk").user("secret 秘密")

    earlier_release(write)
    with Memory(url) as memory, pytest.raises(WrongKey, match=REFUSED):
        memory.session("new").user("plain")
    with Memory(url, scope="third") as memory:
        memory.session("new").user("no key was ever seen here 从未见过密钥")
    write()
    for scope in ("other", "third"):
        with Memory(url, scope=scope) as memory, pytest.raises(WrongKey, match=REFUSED):
            memory.session("new").user("plain")


def test_a_plain_store_that_gets_a_key_keeps_its_conversations_readable(tmp_path: Path) -> None:
    """The key is allowed and encrypts new conversations; the plain ones are read, exported, deleted, not written to."""
    url = f"sqlite:///{tmp_path}/chat.db"
    with Memory(url) as memory:
        for name in ("old", "gone"):
            memory.session(name).user("plain 明文")
            memory.session(name).assistant("noted 已记录")
    with Memory(url, encryption_key=KEY) as memory:
        memory.session("new").user("secret 秘密")
        with pytest.raises(WrongKey, match="without encryption"):
            memory.session("old").user("more")
    with Memory(url) as memory:
        assert [each.message.text for each in memory.session("old").history()] == [
            "plain 明文",
            "noted 已记录",
        ]
        for session in (memory.session("old"), memory.session("new")):
            with pytest.raises(WrongKey, match="encryption_key="):
                session.user("more")
        memory.session("old").erase(1)
        memory.session("gone").delete()
    exported = tmp_path / "old.json"
    at = ["--store", str(tmp_path / "chat.db")]
    done = invoke(["export", "old", "--format", "openai", "-o", str(exported), *at])
    assert done.exit_code == 0, done.output
    assert "已记录" in exported.read_text("utf-8")


RACED: dict[str, Callable[[Store], Any]] = {
    "append": lambda store: store.append(SCOPE, "plain", [NewEntry(user("plain"), "1")]),
    "document": lambda store: store.put_document(
        SCOPE, "plain", Document("kind", "key", b"plain", 0)
    ),
    "note": lambda store: store.note(
        SCOPE, "plain", Document("kind", "key", b"plain", 0), state=(0, 0)
    ),
}


@pytest.mark.parametrize("write", RACED)
def test_a_plain_write_that_loses_a_race_is_not_acknowledged(write: str) -> None:
    """The process without the key had found no mark; one with a key wrote before the plain write arrived."""

    class Raced(MemoryStore):
        encrypting = True

        async def encrypt_first(self, scope: Scope, conversation: str) -> None:
            if self.encrypting and scope == SCOPE and conversation == "plain":
                self.encrypting = False
                encrypted = EncryptedStore(lambda _: self, KEY)
                await encrypted.append(SCOPE, "talk", [NewEntry(user("secret"), "1")])

        async def append(self, scope: Scope, conversation: str, *args: Any, **more: Any) -> Any:
            await self.encrypt_first(scope, conversation)
            return await super().append(scope, conversation, *args, **more)

        async def put_document(
            self, scope: Scope, conversation: str, *args: Any, **more: Any
        ) -> Any:
            await self.encrypt_first(scope, conversation)
            return await super().put_document(scope, conversation, *args, **more)

        async def note(self, scope: Scope, conversation: str, *args: Any, **more: Any) -> Any:
            await self.encrypt_first(scope, conversation)
            return await super().note(scope, conversation, *args, **more)

    store = refuse_encrypted(Raced())
    with pytest.raises(WrongKey, match="plain text while another process encrypted the store"):
        drive(RACED[write](store))
    with pytest.raises(WrongKey, match=REFUSED):
        drive(RACED[write](store))
    drive(store.delete(SCOPE, "plain"))


def test_a_command_names_the_session_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library names it by a pseudonym, because its errors are logged; the error has the id."""
    with Memory(f"sqlite:///{tmp_path}/chat.db", encryption_key=KEY) as memory:
        memory.session("ward-7").user("secret 秘密")
    at = ["--store", str(tmp_path / "chat.db")]
    assert (
        "conversation 'ward-7' is encrypted with the key" in invoke(["show", "ward-7", *at]).stderr
    )
    new = invoke(["chat", "new-1", "--once", "hi", *at]).stderr
    assert "no key was given to write to conversation 'new-1'" in new
    other = tmp_path / "other.key"
    other.write_text("02" * 32, encoding="ascii")
    wrong = invoke(["show", "ward-7", *at, "--encryption-key-file", str(other)]).stderr
    assert "conversation 'ward-7' needs the encryption key" in wrong
    monkeypatch.setenv("TURNFOLD_ENCRYPTION_KEY_FILE", "")
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    assert "会话 'ward-7' 用密钥" in invoke(["show", "ward-7", *at]).stderr
    with Memory(f"sqlite:///{tmp_path}/chat.db") as memory:
        with pytest.raises(WrongKey) as caught:
            memory.session("ward-7").history()
        assert caught.value.conversation == "ward-7"
        assert "ward-7" not in str(caught.value)
