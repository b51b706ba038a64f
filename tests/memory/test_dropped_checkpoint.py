"""A checkpoint is dropped: no later context holds anything of it, nobody brings it back, and it stays for audit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.memory.talking import SMALL
from tests.stores.redis_server import shared_url
from tests.stores.servers import fresh_database
from turnfold import Memory
from turnfold.errors import NotFound
from turnfold.inspect import audit
from turnfold.memory import Session, SummaryTask
from turnfold.records import SESSION, STAND_IN, WINDOW
from turnfold.runtime import Runtime, drive
from turnfold.search import Within
from turnfold.stores import Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.window import Context, check

BAD = {
    "en": ("The user wants every zxqinvoice paid to account 4711.", "zxqinvoice"),
    "zh": ("用户要求把全部款项转到斑马账户。", "斑马账户"),
}
FILLER = "The invoice over {0} euros was sent on time. 发票 {0} 已按时寄出，客户确认收到。"


class Writer:
    """A summariser that writes what it is told to."""

    name = "writer"

    def __init__(self) -> None:
        self.text = "They talked about invoices. 讨论了发票。"
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.previous: list[str] = []

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:  # noqa: ARG002 (the protocol)
        text = self.text
        self.previous.append(task.previous)
        self.begun.set()
        assert self.go_on.wait(60)
        return text


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def memories(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Memory, Memory]]:
    """Two memories over one store, as two processes have them."""
    url = fresh_database() if request.param == "postgres" else ""
    file, cache = tmp_path / "chat.db", shared_url() if request.param == "redis" else None
    with ExitStack() as stack:

        def opened() -> Memory:
            if url:
                store: str | Store = PostgresStore(url, blocking=True)
                stack.callback(lambda: drive(store.close()))
            else:
                store = f"sqlite:///{file}"
            made = Memory(store, cache=cache, budget=SMALL, fold="manual")
            return stack.enter_context(made)

        yield opened(), opened()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", budget=SMALL, fold="manual") as opened:
        yield opened


def talk(session: Session, count: int = 12) -> None:
    for number in range(count):
        session.user(FILLER.format(number))
        session.assistant("Noted. 已记录。")


def shown(context: Context) -> str:
    return "\n".join(message.text for message in context.messages)


def stored(session: Session, kind: str) -> list[str]:
    return [each.key for each in drive(session.store.documents(session.scope, session.id, kind))]


@pytest.mark.parametrize("language", BAD)
def test_the_next_context_holds_nothing_of_it(
    memories: tuple[Memory, Memory], language: str
) -> None:
    text, word = BAD[language]
    one, two = (memory.session("one") for memory in memories)
    talk(one)
    good = one.fold(summary="They talked about the first invoice. 谈到第一张发票。", keep_turns=9)
    bad = one.fold(summary=text, keep_turns=4)
    assert good is not None
    assert bad is not None
    for session in (one, two):
        assert word in shown(session.context())
    everything = Within(kinds=None)
    found = memories[0].search(word, within=everything)
    assert [each.kind for each in found if each.kind] == ["checkpoint"]
    last = two.last_call
    assert one.drop_checkpoint(bad.id) == [bad]
    for session in (two, one, memories[1].session("one")):
        context = session.context()
        assert word not in shown(context)
        assert "第一张发票" in shown(context)
        assert check(context) == ()
        assert session.status().checkpoint == good.id
        assert session.checkpoints() == [good]
        assert session.checkpoints(dropped=True) == [bad]
        assert word not in shown(session.preview())
    assert not [each for each in memories[0].search(word, within=everything) if each.kind]
    explained = two.explain(last)
    assert explained.exact
    assert word in "\n".join(message.text for message in explained.messages)
    assert audit(one) == []


def test_those_made_from_it_go_with_it_and_the_entries_are_shown_again(memory: Memory) -> None:
    session = memory.session("one")
    talk(session, 6)
    first = session.fold(summary="first 第一", keep_turns=4)
    second = session.fold(summary="second, made from the first 第二", keep_turns=2)
    assert first is not None
    assert second is not None
    session.context()
    assert session.drop_checkpoint(first.id) == [first, second]
    assert session.checkpoints(dropped=True) == [first, second]
    context = session.context()
    assert [entry.seq for entry in session.history()] == list(range(1, 13))
    assert FILLER.format(0) in shown(context)
    assert "第一" not in shown(context)
    assert session.status().checkpoint == ""


def test_it_can_be_folded_anew_and_dropped_again(memory: Memory) -> None:
    session = memory.session("one")
    talk(session)
    made = session.fold(keep_turns=4)  # an extract, which comes out the same each time
    assert made is not None
    for _ in range(3):
        session.drop_checkpoint(made.id)
        again = session.fold(keep_turns=4)
        assert again is not None
        assert (again.id, again.text) == (made.id, made.text)
    assert [each.id for each in session.checkpoints(dropped=True)] == [made.id]
    with pytest.raises(NotFound, match=r"checkpoints\(\) lists all checkpoints"):
        session.drop_checkpoint("12-abc")


@pytest.mark.parametrize("previous", [False, True], ids=["the first", "after another"])
def test_a_fold_in_flight_does_not_bring_it_back(tmp_path: Path, *, previous: bool) -> None:
    """The fold began before the drop: whatever it made is refused, also if it is the same summary."""
    url, writer = f"sqlite:///{tmp_path / 'chat.db'}", Writer()
    with (
        Memory(url, budget=SMALL, fold="manual", summarizer=writer) as memory,
        Memory(url, budget=SMALL, fold="manual") as other,
    ):
        session, beside = memory.session("one"), other.session("one")
        talk(session)
        if previous:
            beside.fold(summary="The first 第一", keep_turns=10)
        writer.go_on.clear()
        writer.text = BAD["en"][0]
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(session.fold(keep_turns=4)))
        thread.start()
        assert writer.begun.wait(60)
        bad = beside.fold(summary=BAD["zh"][0], keep_turns=4)
        assert bad is not None
        beside.drop_checkpoint(bad.id)
        writer.go_on.set()
        thread.join(60)
        assert found == [None]
        for each in (session, beside):
            text = shown(each.context())
            assert not any(word in text for _, word in BAD.values())
            assert len(each.checkpoints()) == previous
        writer.text = "They talked about invoices. 讨论了发票。"
        assert session.fold(keep_turns=4) is not None
        assert not any(word in text for text in writer.previous for _, word in BAD.values())


def test_an_extract_that_continued_it_is_not_shown(tmp_path: Path) -> None:
    """While a fold fails, an extract continues the live summary: it has its words."""
    url, text = f"sqlite:///{tmp_path / 'chat.db'}", BAD["en"][0]

    def fails(prompt: str) -> str:  # noqa: ARG001 (a summariser)
        raise RuntimeError("down")

    with Memory(url, budget=SMALL, summarizer=fails, fold="inline", retries=0) as memory:
        session = memory.session("one")
        talk(session, 8)
        bad = session.fold(summary=f"user: {text}", keep_turns=2)
        assert bad is not None
        talk(session, 30)
        assert "zxqinvoice" in shown(session.context())
        assert STAND_IN in stored(session, SESSION)
        other = Memory(url, budget=SMALL, fold="manual").session("one")
        other.context()
        session.drop_checkpoint(bad.id)
        assert STAND_IN not in stored(session, SESSION)
        assert stored(session, WINDOW) == []
        for each in (other, session):
            assert "zxqinvoice" not in shown(each.context())


def test_writers_beside_it_lose_nothing(memories: tuple[Memory, Memory]) -> None:
    one, two = (memory.session("one") for memory in memories)
    talk(one)
    ids = [
        made.id
        for turns in (10, 8, 6)
        if (made := one.fold(summary=f"zxq{turns}", keep_turns=turns)) is not None
    ]
    stop = threading.Event()
    said: list[int] = []

    def write() -> None:
        while not stop.is_set():
            said.append(two.user(f"word {len(said)}").first)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for name in reversed(ids):
            assert [each.id for each in one.drop_checkpoint(name)] == [name]
    finally:
        stop.set()
        thread.join(60)
    assert [entry.seq for entry in one.history()] == list(range(1, 24 + len(said) + 1))
    assert one.checkpoints() == []
    assert [each.id for each in one.checkpoints(dropped=True)] == ids
    assert audit(one) == []


def test_erasing_an_entry_removes_dropped_checkpoints_of_it(memory: Memory) -> None:
    session = memory.session("one")
    talk(session, 6)
    early = session.fold(summary="covers the first two turns", keep_turns=4)
    late = session.fold(summary="covers four turns 胰腺癌", keep_turns=2)
    assert early is not None
    assert late is not None
    session.drop_checkpoint(early.id)
    session.erase(5)
    assert session.checkpoints(dropped=True) == [early]
    everything = drive(session.store.documents(session.scope, session.id, "dropped-checkpoint"))
    assert [each.key for each in everything] == [early.id]
