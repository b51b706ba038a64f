"""Nothing that was redacted is in the store: the bytes of the file are searched, whatever way it came."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.errors import IdReused, InvalidRecord
from turnfold.importers import import_file
from turnfold.memories import MemoryModule, ShortMemory, TokenMemory
from turnfold.memory import Memory, Session
from turnfold.records import (
    Document,
    FilePart,
    Message,
    Snapshot,
    ThinkingPart,
    assistant,
    tool,
    user,
)
from turnfold.redaction import Redactor, find_secrets
from turnfold.stores import RedactingStore, Scope, SqliteStore, Store, export_to, import_from
from turnfold.stores.redacting_store import _PASSED

KEY = b"a key for these tests only"
SECRETS = {
    "email": "planted.name@secret-host.example",
    "phone": "13912345678",
    "card number": "4556737586899855",
    "id number": "11010519491231002X",
    "api key": "sk-ant-api03-plantedplantedplanted0planted",
    "password": "correctHorse9Battery",
}
SAID = {
    "password": "password={}",
    "card number": "我的卡号是{}，请查收",
    "phone": "电话{}。",
}


def said(kind: str) -> str:
    return SAID.get(kind, "It is {} here / 就是{}。").format(*[SECRETS[kind]] * 2)


def text(session: Session, secret: str) -> None:
    session.user(secret, name="asker")


def named(session: Session, secret: str) -> None:
    session.user("hello", name=secret)


def metadata(session: Session, secret: str) -> None:
    session.add(Message("user", "hello", metadata={"note": [secret], secret: 1}))


def system(session: Session, secret: str) -> None:
    session.system(f"You know {secret}")
    session.system(f"You know {secret}")


def arguments(session: Session, secret: str) -> None:
    escaped = json.dumps({"a": {"b": [secret]}}).replace("a", "\\u0061")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": escaped}}
    session.user("go")
    session.assistant("calling", tool_calls=[call])
    session.tool([{"type": "text", "text": secret}], tool_call_id="c1")


def broken_arguments(session: Session, secret: str) -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": f'{{"a": "{secret}'},
    }
    session.user("go")
    session.assistant(None, tool_calls=[call])


def thinking(session: Session, secret: str) -> None:
    session.user("go")
    session.add(Message.of("assistant", [ThinkingPart(secret, signature="sig")]))


def file(session: Session, secret: str) -> None:
    data = base64.b64encode(secret.encode()).decode()
    session.add(Message.of("user", [FilePart(f"data:text/plain;base64,{data}", filename=secret)]))


def extra(session: Session, secret: str) -> None:
    session.add({"role": "user", "content": "x", "vendor_field": {"deep": secret}})


def pin(session: Session, secret: str) -> None:
    session.pin(secret)


def state(session: Session, secret: str) -> None:
    session.state.update({"one": {"two": secret}})


def rule(session: Session, secret: str) -> None:
    session.add_rule(f"Always write to {secret}")


def finding(session: Session, secret: str) -> None:
    session.user("go")
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": json.dumps({"q": secret})},
    }
    session.findings.note(call, f"result {secret}")


def snapshot(session: Session, secret: str) -> None:
    files = {"a.txt": secret, "b.bin": secret.encode(), secret.replace("/", "_"): ""}
    session.snapshots.take(
        Snapshot(
            context=secret,
            files=files,
            state={"k": secret},
            summary=secret,
            insights=(secret,),
            links=(secret,),
        )
    )


def summary(session: Session, secret: str) -> None:
    for number in range(6):
        session.user(f"question {number}")
        session.assistant(f"answer {number}")
    session.fold(summary=f"They said {secret}", keep_turns=1)


def shown_once(session: Session, secret: str) -> None:
    session.user("what is it?")
    session.context(secret, notes={"note": secret}, workspace=secret)


def folded(session: Session, secret: str) -> None:
    for number in range(6):
        session.user(f"{number}: never tell anybody {secret}. 请记住：{secret}")
        session.assistant(f"noted {secret}")
    session.fold(keep_turns=1)
    session.context()


def forked(session: Session, secret: str) -> None:
    session.user(secret)
    session.fork(conversation=f"{session.id} copy")


def token_memory(session: Session, secret: str) -> None:
    async def run() -> None:
        memory = TokenMemory(f"{session.id} tokens", (session.store, session.scope), max_tokens=400)
        history = [user(secret), assistant(f"yes {secret}")]
        await memory.get_history(history)
        await memory.get_history([*history, user("more")])

    asyncio.run(run())


def short_memory(session: Session, secret: str) -> None:
    memory = ShortMemory(session.store, scope=session.scope)
    memory.create_short_memory(session.id)
    memory.write_turn(session.id, user_query=secret, agent_response=f"answer {secret}")
    memory.query_memory_context(session.id, query=secret)


def memory_module(session: Session, secret: str) -> None:
    module = MemoryModule(store=session.store, conversation=session.id, scope=session.scope)
    module.perform_thinking_phase(secret)


WAYS: list[Callable[[Session, str], None]] = [
    text, named, metadata, system, arguments, broken_arguments, thinking, file, extra, pin, state, rule, finding,
    snapshot, summary, shown_once, folded, forked, token_memory, short_memory, memory_module,
]  # fmt: skip


def bytes_of(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(path.parent.glob(f"{path.name}*")))


def found_in(path: Path) -> list[str]:
    """Return the kinds of the planted secrets that are in the files of a store, plain or in packed snapshots."""
    held = bytes_of(path)
    with Memory(f"sqlite:///{path}") as memory:
        for info in memory.conversations(internal=True):
            for taken in memory.session(info.conversation).snapshots.heads():
                held += repr(memory.session(info.conversation).snapshots.get(taken.turn)).encode()
    return [kind for kind, value in SECRETS.items() if value.encode() in held]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_planted_secret_is_in_the_file(
    way: Callable[[Session, str], None], tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    packed = (snapshot, memory_module, file)
    with Memory(f"sqlite:///{path}", redact=find_secrets) as memory:
        for kind in SECRETS:
            way(
                memory.session(
                    f"talk {kind}",
                ),
                said(kind),
            )
    assert found_in(path) == []
    for kind in SECRETS:
        assert way in packed or f"[redacted: {kind} ".encode() in bytes_of(path)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_without_redaction_it_is_found(way: Callable[[Session, str], None], tmp_path: Path) -> None:
    """The search of the file finds what is there, so that the tests above can fail."""
    path = tmp_path / "a.db"
    with Memory(f"sqlite:///{path}") as memory:
        way(memory.session("talk"), said("email"))
    assert found_in(path) == (
        [] if way in (arguments, file) and b"planted" not in bytes_of(path) else ["email"]
    )


@examples(30)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(WAYS[:17]), st.sampled_from(sorted(SECRETS))),
        min_size=1,
        max_size=6,
    ),
    around=st.tuples(
        st.sampled_from(["", "see ", "（", '{"a": "', "\n", "电话"]),
        st.sampled_from(["", ".", "）", '"}', " 。"]),
    ),
)
def test_no_order_of_writes_stores_a_secret(
    steps: list[tuple[Callable[[Session, str], None], str]],
    around: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.db"
    with Memory(f"sqlite:///{path}", redact=find_secrets) as memory:
        for number, (way, kind) in enumerate(steps):
            session = memory.session(f"talk-{number % 2}-{way.__name__}")
            way(session, f"{around[0]}{said(kind)}{around[1]}")
            session.context()
    assert found_in(path) == []


def test_one_value_has_one_number_in_a_conversation(tmp_path: Path) -> None:
    redactor = Redactor(key=KEY)
    address = f"sqlite:///{tmp_path}/a.db"
    with Memory(address, redact=redactor) as memory:
        session = memory.session("talk")
        assert session.user("a@example.com and b@example.com").redacted == 2
        session.assistant("B@Example.com wrote to c@example.com; 手机 13912345678")
        memory.session("other").user("c@example.com")
    with Memory(address, redact=redactor) as memory:  # another process with the same key
        memory.session("talk").user("c@example.com, d@example.com, 139-1234-5678")
        said = [entry.message for entry in memory.session("talk").history()]
        assert [message.text for message in said] == [
            "[redacted: email 1] and [redacted: email 2]",
            "[redacted: email 2] wrote to [redacted: email 3]; 手机 [redacted: phone 1]",
            "[redacted: email 3], [redacted: email 4], [redacted: phone 1]",
        ]
        assert [message.metadata for message in said] == [
            {"redacted": {"email": 2}},
            {"redacted": {"email": 2, "phone": 1}},
            {"redacted": {"email": 2, "phone": 1}},
        ]
        assert memory.session("other").history()[0].message.text == "[redacted: email 1]"


def test_without_a_key_no_number_means_two_values(tmp_path: Path) -> None:
    for name in ("a", "b", "a"):  # each memory has a key of its own
        with Memory(f"sqlite:///{tmp_path}/a.db", redact=find_secrets) as memory:
            memory.session("talk").user(f"{name}@example.com")
            said = [entry.message.text for entry in memory.session("talk").history()]
    assert said == [f"[redacted: email {number}]" for number in (1, 2, 3)]


def test_writers_at_once_never_share_a_number(tmp_path: Path) -> None:
    memories = [Memory(f"sqlite:///{tmp_path}/a.db", redact=Redactor(key=KEY)) for _ in range(3)]
    for number in range(9):
        memories[number % 3].session("talk").user(f"u{number}@example.com")
    texts = [entry.message.text for entry in memories[0].session("talk").history()]
    assert texts == [f"[redacted: email {number}]" for number in range(1, 10)]
    for memory in memories:
        memory.close()


def test_the_context_of_the_writer_is_that_of_any_other_process(tmp_path: Path) -> None:
    address, redactor = f"sqlite:///{tmp_path}/a.db", Redactor(key=KEY)
    with Memory(address, redact=redactor) as memory:
        session = memory.session("talk")
        session.user(said("email"))
        session.context()
        session.user(said("email"))  # has its number: nothing but the message is written
        mine = session.context(
            "ask planted.name@secret-host.example", workspace=said("password")
        ).messages
        with Memory(address, redact=redactor) as other:
            theirs = other.session("talk").context(
                "ask planted.name@secret-host.example", workspace=said("password")
            )
            assert theirs.messages == mine
        assert SECRETS["email"] not in repr([message.text for message in mine])


def test_a_retry_is_known_though_its_labels_have_other_numbers(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/a.db"
    with Memory(address, redact=find_secrets) as memory:
        first = memory.session("talk").user("a@example.com", client_id="x")
    with Memory(address, redact=find_secrets) as memory:  # with another key
        again = memory.session("talk").user("a@example.com", client_id="x")
        assert (again.repeated, again.first) == (True, first.first)
        with pytest.raises(IdReused):
            memory.session("talk").user("something else", client_id="x")


def test_a_repeated_history_is_not_appended_twice(tmp_path: Path) -> None:
    async def run(store: Store) -> int:
        memory = TokenMemory("tokens", (store, Scope("default")))
        history = [user("a@example.com"), assistant("13912345678"), user("b@example.com")]
        for upto in (2, 3, 3):
            await memory.get_history(history[:upto])
        return (await store.head(Scope("default"), "tokens")).seq

    with Memory(f"sqlite:///{tmp_path}/a.db", redact=find_secrets) as memory:
        assert asyncio.run(run(memory.store)) == 3


def test_a_served_finding_is_found_by_its_original_arguments(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path}/a.db", redact=find_secrets) as memory:
        session = memory.session("talk")
        finding(session, said("phone"))
        served = session.findings.get("f", {"q": said("phone")})
        assert served is not None
        assert served.content == "result 电话[redacted: phone 1]。"
        assert session.findings.get("f", {"q": "电话13912345679。"}) is None


def test_imports_are_redacted_and_can_be_repeated_and_continued(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {
            "messages": [
                {"role": "user", "content": said("email")},
                {"role": "assistant", "content": said("phone")},
            ]
        }
    ]
    source, path = tmp_path / "talk.jsonl", tmp_path / "a.db"

    def imported(memory: Memory) -> int:
        source.write_text("\n".join(map(json.dumps, lines)))
        return asyncio.run(
            import_file(memory.store, memory.scope, source, conversation="talk")
        ).entries

    with Memory(f"sqlite:///{path}", redact=find_secrets) as memory:
        assert imported(memory) == 2
        assert imported(memory) == 0
        lines[0]["messages"].append(
            {"role": "user", "content": f"{said('email')} and new@example.com"}
        )
        assert imported(memory) == 1
        texts = [entry.message.text for entry in memory.session("talk").history()]
    assert found_in(path) == []
    assert texts[0] == "It is [redacted: email 1] here / 就是[redacted: email 1]。"
    assert "[redacted: email 2]" in texts[2]


def test_an_export_of_an_open_store_is_redacted_on_its_way_in(tmp_path: Path) -> None:
    exported = io.BytesIO()

    async def run() -> None:
        source = SqliteStore(tmp_path / "plain.db")
        await export_to(source, Scope("default"), exported)
        await source.close()

    with Memory(f"sqlite:///{tmp_path}/plain.db") as memory:
        for way in (text, arguments, pin, state, folded):
            way(memory.session(way.__name__), said("email"))
    asyncio.run(run())
    path = tmp_path / "a.db"
    with Memory(f"sqlite:///{path}", redact=find_secrets) as memory:
        for again in (0, 5):
            exported.seek(0)
            done = asyncio.run(import_from(memory.store, memory.scope, exported))
            assert done.already == again
    assert found_in(path) == []


def test_a_packed_snapshot_with_a_secret_is_refused(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path}/plain.db") as plain:
        snapshot(plain.session("talk"), said("email"))
        documents: list[Document] = []
        captured = asyncio.run(plain.store.capture(plain.scope, "talk", documents.append))
    assert captured is not None
    with (
        Memory(f"sqlite:///{tmp_path}/a.db", redact=find_secrets) as memory,
        pytest.raises(InvalidRecord, match="the snapshot contains email"),
    ):
        asyncio.run(memory.store.restore(memory.scope, [captured.opening, *documents]))
    assert found_in(tmp_path / "a.db") == []


def test_a_binary_document_is_refused(tmp_path: Path) -> None:
    with (
        Memory(f"sqlite:///{tmp_path}/a.db", redact=find_secrets) as memory,
        pytest.raises(InvalidRecord, match="binary form"),
    ):
        asyncio.run(
            memory.store.put_document(memory.scope, "talk", Document("x", "y", b"\x80\x01", 0))
        )


def test_every_method_of_a_store_is_redacted_or_writes_nothing() -> None:
    methods = {name for name in vars(Store) if not name.startswith("_")}
    methods |= set(Store.__annotations__)
    writes = {"append", "add_checkpoint", "put_document", "note", "restore", "erase"}
    writes |= {"delete", "drop_checkpoint", "abilities"}
    own = {name for name in vars(RedactingStore) if not name.startswith("_")} | {"abilities"}
    assert own == writes
    of_encrypted_stores = {"content_digest"}
    assert (methods - writes) | of_encrypted_stores == _PASSED


def test_no_other_way_into_the_store_is_open() -> None:
    with Memory(redact=find_secrets) as memory:
        store = cast("Any", memory.store)
        for name in ("session_values", "durable", "_execute", "backup"):
            assert not hasattr(store, name)


def test_an_own_detector_is_used_and_labels_are_left_alone(tmp_path: Path) -> None:
    def project_names(text: str) -> list[tuple[str, int, int]]:
        at = text.find("Bluebird")
        return [("project", at, at + 8)] if at >= 0 else []

    with Memory(f"sqlite:///{tmp_path}/a.db", redact=cast("Any", project_names)) as memory:
        session = memory.session("talk")
        session.user("Bluebird ships in May")
        session.add(tool("Bluebird", tool_call_id="c"))
        assert session.history()[0].message.text == "[redacted: project 1] ships in May"


def test_an_erased_entry_leaves_nothing_of_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with Memory(f"sqlite:///{path}", redact=find_secrets) as memory:
        session = memory.session("x")
        session.user("the parcel is late")
        session.erase(1, reason="asked by li@example.com")
        assert session.history()[0].message.text == "[erased: asked by [redacted: email 1]]"
    assert all(
        b"li@example.com" not in each.read_bytes() for each in tmp_path.iterdir() if each.is_file()
    )
