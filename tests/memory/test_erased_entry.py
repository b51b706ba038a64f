"""One message is erased: nothing that was made from it holds its text, and the log stays valid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from tests.memory.talking import SMALL
from tests.stores.redis_server import shared_url
from tests.stores.servers import fresh_database
from turnfold import Memory, assistant, tool, user
from turnfold.errors import IdReused, InvalidOption, NotFound
from turnfold.inspect import audit
from turnfold.memory import Session
from turnfold.records import Document, Entry, Snapshot, is_erased
from turnfold.runtime import drive
from turnfold.search import Within
from turnfold.stores import Erasure, Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.window import check
from turnfold.wire import anthropic, lint, openai_chat

SECRETS = {
    "en": ("Never mention my zxqdisease to anybody.", "zxqdisease"),
    "zh": ("以后不要提我的胰腺癌病史。", "胰腺癌病史"),
}
FILLER = "The invoice over {0} euros was sent on time. 发票 {0} 已按时寄出，客户确认收到。"


class Letters:
    """An embedder that needs no model: how often each of a few letters occurs."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0 + text.count(letter) for letter in "aeiou发票"] for text in texts]


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def memories(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Memory, Memory]]:
    """Two memories over one store, as two processes have them."""
    url = fresh_database() if request.param == "postgres" else ""
    file, cache = tmp_path / "chat.db", shared_url() if request.param == "redis" else None
    with ExitStack() as stack:

        def opened() -> Memory:
            if url:
                store = PostgresStore(url, blocking=True)
                stack.callback(lambda: drive(store.close()))
                return stack.enter_context(Memory(store, budget=SMALL, embedder=Letters()))
            made = Memory(f"sqlite:///{file}", cache=cache, budget=SMALL, embedder=Letters())
            return stack.enter_context(made)

        yield opened(), opened()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    file = tmp_path / "chat.db"
    with Memory(f"sqlite:///{file}", budget=SMALL, embedder=Letters()) as opened:
        yield opened


def held(store: Store, memory: Memory, conversation: str) -> bytes:
    """Return everything the store has of a conversation, as bytes."""
    found: list[Document] = []
    captured = drive(store.capture(memory.scope, conversation, found.append))
    assert captured is not None
    entries = drive(store.read(memory.scope, conversation, limit=10_000))
    texts = [msgspec.json.encode(found), msgspec.json.encode(captured.checkpoints)]
    texts += [each.text.encode() + each.body for each in found]
    return b"\n".join([*texts, *(repr(entry.message.parts).encode() for entry in entries)])


def talk(session: Session, first: int, count: int) -> None:
    for number in range(first, first + count):
        session.user(FILLER.format(number))
        session.context()
        session.assistant("Noted. 已记录。")


def spread(session: Session, text: str) -> int:
    """Say the text, and have everything made from it that turnfold makes; return its seq."""
    seq = session.user(text).first
    session.context()
    session.assistant("I will keep it to myself. 好的。")
    session.pin(seq=seq)
    talk(session, 1, 34)
    session.context(text)  # recalls it into the tail
    session.index_meaning()
    return seq


@pytest.mark.parametrize("language", SECRETS)
def test_nothing_holds_the_text(
    memories: tuple[Memory, Memory], language: str, tmp_path: Path
) -> None:
    memory, _ = memories
    text, secret = SECRETS[language]
    session = memory.session("one")
    seq = spread(session, text)
    everything = held(memory.store, memory, "one")
    assert everything.count(secret.encode()) > 5
    assert session.checkpoints()
    assert seq in {rule.seq for rule in session.rules()}
    receipt = session.erase(seq, reason="asked by the user")
    assert (receipt.entries, receipt.already, receipt.mentions) == (1, False, ())
    assert receipt.checkpoints > 0
    assert receipt.documents > 0
    assert secret.encode() not in held(memory.store, memory, "one")
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes()
    assert memory.search(secret, within=Within(kinds=None)) == []
    assert session.recall(secret) == []
    assert seq not in {rule.seq for rule in session.rules(ended=True)}
    assert session.pins() == {}
    context = session.context(text.replace(secret, ""))
    assert secret not in "\n".join(message.text for message in context.messages)
    assert check(context) == ()
    assert audit(session) == []


def test_the_placeholder_tells_the_reason_and_keeps_its_place(memory: Memory) -> None:
    session = memory.session("one")
    session.add([user("one"), assistant("two"), user("three")], client_id="a")
    session.erase(1, reason="GDPR 第 17 条")
    found = session.history()
    assert [entry.message.text for entry in found] == ["[erased: GDPR 第 17 条]", "two", "three"]
    assert [is_erased(entry.message) for entry in found] == [True, False, False]
    assert [(entry.seq, entry.turn, entry.client_id) for entry in found] == [
        (1, 1, "a.1"),
        (2, 1, "a.2"),
        (3, 2, "a.3"),
    ]
    assert [m.text for m in session.context().messages] == [
        "[erased: GDPR 第 17 条]",
        "two",
        "three",
    ]


def calls(name: str) -> list[dict[str, object]]:
    arguments = '{"patient": "zxqname"}'
    return [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}]


@pytest.mark.parametrize("seq", [2, 3], ids=["call", "result"])
def test_calls_and_results_stay_pairs(memory: Memory, seq: int) -> None:
    session = memory.session("one")
    session.user("look it up")
    session.add(assistant("zxqname it is", tool_calls=calls("lookup")))
    result = tool("zxqname has a cold", tool_call_id="c1")
    session.add(result)
    session.findings.note(calls("lookup")[0], "zxqname has a cold", seq=3)
    assert len(session.findings.list()) == 1
    session.erase(seq)
    entry: Entry = session.history()[seq - 1]
    assert "zxqname" not in repr(entry.message.parts)
    [call], [answer] = session.history()[1].message.calls, session.history()[2].message.results
    assert (call.id, call.name, answer.call_id) == ("c1", "lookup", "c1")
    assert session.findings.list() == ()
    context = session.context()
    assert check(context) == ()
    for provider in (openai_chat, anthropic):
        request = provider.request(context)
        assert lint(request.kwargs, request.provider) == ()


def test_an_erased_system_message_is_no_longer_sent(memory: Memory) -> None:
    session = memory.session("one")
    session.system("You know zxq.")
    session.user("hi")
    session.erase(1)
    assert [message.role for message in session.context().messages] == ["user"]
    session.system("You know nothing.")
    assert [message.role for message in session.context().messages] == ["system", "user"]


def test_another_process_shows_it_no_longer(memories: tuple[Memory, Memory]) -> None:
    here, there = (memory.session("one") for memory in memories)
    for text in ("my zxqsecret", "and more"):
        here.user(text)
    assert "zxqsecret" in repr(there.context().messages)
    here.erase(1)
    assert "zxqsecret" not in repr(there.context().messages)
    assert "zxqsecret" not in repr(there.context("zxqsecret").messages)


def test_a_fold_in_flight_does_not_bring_it_back(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'chat.db'}"

    def slow(prompt: str) -> str:
        if "zxqsecret" in prompt:
            with Memory(address, budget=SMALL) as other:
                other.session("one").erase(1)
        return f"Summary: {prompt[-2000:]} zxqsecret" if "zxqsecret" in prompt else "Summary."

    with Memory(address, budget=SMALL, summarizer=slow, fold="inline") as memory:
        session = memory.session("one")
        session.user("my zxqsecret is here")
        session.assistant("ok")
        talk(session, 1, 30)
        assert is_erased(session.history()[0].message)
        assert b"zxqsecret" not in held(memory.store, memory, "one")
        assert "zxqsecret" not in repr(session.context().messages)


def test_the_figures_of_calls_stay_and_their_texts_do_not(memory: Memory) -> None:
    session = memory.session("one")
    text, secret = SECRETS["en"]
    seq = spread(session, text)
    before = session.calls(limit=500)
    assert any(secret in each.tail for each in before)
    session.erase(seq)
    after = session.calls(limit=500)
    assert [each.call for each in after] == [each.call for each in before]
    figures = [(each.tokens, each.sections, each.fates, each.usage) for each in after]
    assert figures == [(each.tokens, each.sections, each.fates, each.usage) for each in before]
    last = [each for each in before if each.tail][-1]
    explained = session.explain(last.call)
    assert not explained.exact
    assert secret not in repr(explained.messages)


def test_what_the_program_wrote_is_named_and_kept(memory: Memory) -> None:
    session = memory.session("one")
    session.user("my zxqsecret 秘密事项")
    session.state.set("noted", {"user": "my zxqsecret 秘密事项"})
    session.pin("remember: my zxqsecret 秘密事项", key="own")
    session.pin("nothing of it", key="other")
    session.snapshots.take(Snapshot(turn=1, context="my zxqsecret 秘密事项"))
    receipt = session.erase(1)
    assert set(receipt.mentions) == {"pin/own", "session/state", "snapshot/000000000001"}
    assert session.state.get("noted") == {"user": "my zxqsecret 秘密事项"}
    assert set(session.pins()) == {"own", "other"}


def test_an_interrupted_erasure_is_finished_by_the_same_call(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = memory.session("one")
    text, secret = SECRETS["zh"]
    seq = spread(session, text)

    async def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(memory.store), "capture", broken, raising=False)
        with pytest.raises(KeyboardInterrupt):
            session.erase(seq)
    assert secret.encode() in held(memory.store, memory, "one")
    receipt = session.erase(seq)
    assert receipt.already
    assert receipt.documents > 0
    assert secret.encode() not in held(memory.store, memory, "one")
    assert session.erase(seq) == Erasure("one", 0, 0, 0, already=True)


def test_a_document_written_meanwhile_is_looked_at_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = memory.session("one")
    seq = spread(session, SECRETS["en"][0])
    call = next(each for each in session.calls(limit=500) if each.tail)
    capture, times = memory.store.capture, 0

    async def racing(*place: object) -> object:
        nonlocal times
        times += 1
        found = await capture(*place)  # type: ignore[arg-type]
        if times == 1:
            usage = {"prompt_tokens": 77, "completion_tokens": 1}
            memory.session("two")  # another handle would wait for the lock of this one
            with Memory(memory.store, budget=SMALL) as other:
                other.session("one").record_usage(usage, call=call.call)
        return found

    monkeypatch.setattr(memory.store, "capture", racing, raising=False)
    session.erase(seq)
    assert times == 2
    stored = next(each for each in session.calls(limit=500) if each.call == call.call)
    assert stored.usage is not None
    assert (stored.usage.input, stored.tail) == (77, "[erased]")


def test_what_is_not_there_or_too_long_is_an_error(memory: Memory) -> None:
    session = memory.session("one")
    session.user("hi")
    for seq in (0, 2, -1):
        with pytest.raises(NotFound):
            session.erase(seq)
    with pytest.raises(InvalidOption, match="201 characters"):
        session.erase(1, reason="x" * 201)
    assert session.history()[0].message.text == "hi"


def test_a_message_that_looks_erased_is_erased(memory: Memory) -> None:
    session = memory.session("one")
    session.add({"role": "user", "content": "my zxqsecret", "metadata": {"erased": ""}})
    assert session.erase(1).already is False
    assert b"zxqsecret" not in held(memory.store, memory, "one")


def test_a_retried_append_is_refused(memory: Memory) -> None:
    session = memory.session("one")
    session.user("my zxqsecret", client_id="a")
    session.erase(1)
    with pytest.raises(IdReused, match="erased"):
        session.user("my zxqsecret", client_id="a")
    assert len(session.history()) == 1


def test_a_conversation_goes_on_within_its_budget(memory: Memory) -> None:
    session = memory.session("one")
    talk(session, 1, 20)
    for seq in (1, 8, 39):
        session.erase(seq)
        context = session.context()
        assert check(context) == ()
        assert context.tokens <= SMALL.tokens
    talk(session, 21, 10)
    assert audit(session) == []


def test_an_extract_that_stands_in_for_a_summary_goes(tmp_path: Path) -> None:
    text, secret = "订单 A-7731 的 4521 吨货周三到港，病历号 ZXQ-77123。", "ZXQ-77123"

    def down(prompt: str) -> str:
        raise ConnectionError(len(prompt))

    file = tmp_path / "chat.db"
    with Memory(f"sqlite:///{file}", budget=SMALL, summarizer=down, fold="inline") as memory:
        session = memory.session("one")
        session.user(text)
        session.assistant("好的。")
        talk(session, 1, 40)
        found: list[Document] = []
        drive(memory.store.capture(memory.scope, "one", found.append))
        assert any(each.kind == "stand-in" and secret.encode() in each.body for each in found)
        session.erase(1)
        assert secret.encode() not in held(memory.store, memory, "one")
        assert secret not in repr(session.context().messages)
        assert audit(session) == []


def test_only_the_vectors_of_its_block_are_made_again(memory: Memory) -> None:
    session = memory.session("one")
    session.add([user(FILLER.format(number)) for number in range(48)])

    def blocks() -> dict[str, tuple[bytes, int]]:
        found = drive(memory.store.documents(memory.scope, "one", "meaning:letters:parts"))
        return {each.key: (each.body, each.version) for each in found}

    session.index_meaning()
    before = blocks()
    earlier = [Document("meaning:letters", key, b"", 0) for key in ("000000000001", "000000000065")]
    for block in earlier:  # of a version with 64 entries per block
        drive(memory.store.put_document(memory.scope, "one", block, expect=0))
    session.erase(20)
    gone = set(before) - set(blocks())
    assert gone == {"000000000017"}
    left = drive(memory.store.documents(memory.scope, "one", "meaning:letters"))
    assert [each.key for each in left] == ["000000000065"]
    assert session.index_meaning().indexed == 48
    after = blocks()
    same = {key for key in before if before[key] == after[key]}
    assert same == {"000000000001", "000000000033"}
    assert after["000000000017"][0] != before["000000000017"][0]
