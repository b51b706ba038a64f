"""Appends that share a commit, and heads that are remembered: faster, and nobody can tell the difference otherwise.

Who holds the writer's lock lets callers gather; what they then get must be what each would have got alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from tests.stores.sqlite_faults import Faulty
from tests.stores.sqlite_file import ALICE, held_writer, settled
from turnfold.errors import Conflict, ConversationDeleted, IdReused, StoreUnavailable
from turnfold.records import Document, NewEntry, user
from turnfold.stores import Appended, SqliteStore
from turnfold.stores.log_semantics import prepare
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.grouped_writes import AppendJob, SqliteAppends
from turnfold.stores.sqlite.write_queue import SINGLE, Connection, Job

PATIENCE = 60.0


def said(*texts: str) -> list[NewEntry]:
    return [NewEntry(user(text), text) for text in texts]


def texts(store: SqliteStore, talk: str = "talk") -> list[str]:
    entries = settled(store.read(ALICE, talk, limit=100_000))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    return [entry.message.text for entry in entries]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Two stores on one file, each with a writer of its own."""
    stores = [SqliteStore(tmp_path / "chat.db", blocking=True) for _ in range(2)]
    yield stores[0], stores[1]
    for store in stores:
        settled(store.close())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "chat.db", blocking=True)
    yield opened
    settled(opened.close())


@contextmanager
def gathered(store: SqliteStore, many: int) -> Iterator[None]:
    """Callers who come within the block wait until there are so many of them, and are then served."""
    engine = store._engine
    with held_writer(store):
        yield
        pause = threading.Event()
        while len(engine._jobs) < many:
            pause.wait(0.001)
    engine._lead()


def together(store: SqliteStore, calls: list[Callable[[], object]]) -> list[object]:
    """The outcomes of calls that wait at the same time, in their order."""
    outcomes: list[object] = [None] * len(calls)

    def call(place: int) -> None:
        try:
            outcomes[place] = calls[place]()
        except Exception as error:
            outcomes[place] = error

    with gathered(store, len(calls)):
        threads = [threading.Thread(target=call, args=(place,)) for place in range(len(calls))]
        for place, thread in enumerate(threads):
            thread.start()
            while len(store._engine._jobs) <= place:
                threading.Event().wait(0.001)
    for thread in threads:
        thread.join(PATIENCE)
    return outcomes


def test_those_who_wait_together_share_one_commit(store: SqliteStore) -> None:
    settled(store.append(ALICE, "talk", said("first")))
    before = store._engine.commits
    done = together(
        store,
        [
            lambda number=number: settled(
                store.append(ALICE, f"talk-{number % 3}", said(f"{number} a", f"{number} b"))
            )
            for number in range(30)
        ],
    )
    assert store._engine.commits == before + 1
    for talk in range(3):
        mine = [done[number] for number in range(talk, 30, 3)]
        assert [each.last for each in mine if isinstance(each, Appended)] == list(range(2, 21, 2))
        assert texts(store, f"talk-{talk}") == [
            f"{number} {part}" for number in range(talk, 30, 3) for part in "ab"
        ]
        head = settled(store.head(ALICE, f"talk-{talk}"))
        assert isinstance(mine[-1], Appended)
        assert (head, head.generation) == (mine[-1].head, 10)


def _mixed(store: SqliteStore, ran: list[int]) -> list[Callable[[], object]]:
    def once(connection: Connection) -> None:
        ran.append(connection.total_changes())

    return [
        lambda: settled(store.append(ALICE, "talk", said("two"))),
        lambda: settled(store.append(ALICE, "talk", said("one"))),
        lambda: settled(store.append(ALICE, "talk", [NewEntry(user("other"), "one")])),
        lambda: settled(store.append(ALICE, "talk", said("stale"), expect=1)),
        lambda: settled(store._engine.write(once)),
        lambda: settled(store.append(ALICE, "talk", said("three"), expect=2)),
        lambda: settled(store.append(ALICE, "gone", said("late"))),
        lambda: settled(store.append(ALICE, "talk", said("four"))),
    ]


def test_each_gets_its_own_outcome_and_nobody_suffers_for_another(store: SqliteStore) -> None:
    settled(store.append(ALICE, "talk", said("one")))
    settled(store.append(ALICE, "gone", said("x")))
    settled(store.delete(ALICE, "gone"))
    ran: list[int] = []
    done: list[Any] = together(store, _mixed(store, ran))
    kinds = [type(each) for each in done]
    nothing = type(None)
    assert kinds == [
        Appended,
        Appended,
        IdReused,
        Conflict,
        nothing,
        Appended,
        ConversationDeleted,
        Appended,
    ]
    assert [done[place].repeated for place in (0, 1, 5, 7)] == [False, True, False, False]
    assert texts(store) == ["one", "two", "three", "four"]
    assert len(ran) == 1, "what is no append is begun once: it may not be repeatable"


def test_without_the_second_try_one_bad_append_spoils_its_neighbours(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(engine: SqliteEngine, group: list[Any]) -> None:
        for job in group:
            [job.result] = job.kind.together(engine._writer, [job.item])

    monkeypatch.setattr(SqliteEngine, "_run", run)
    with pytest.raises(AssertionError):
        test_each_gets_its_own_outcome_and_nobody_suffers_for_another(store)


def test_a_batch_sent_twice_at_once_is_stored_once(store: SqliteStore) -> None:
    done: list[Any] = together(
        store, [lambda: settled(store.append(ALICE, "talk", said("a", "b")))] * 4
    )
    assert [(each.first, each.last) for each in done] == [(1, 2)] * 4
    assert sorted(each.repeated for each in done) == [False, True, True, True]
    assert texts(store) == ["a", "b"]


def test_what_another_connection_wrote_is_seen(two: tuple[SqliteStore, SqliteStore]) -> None:
    for number in range(12):
        writer, other = two[number % 2], two[1 - number % 2]
        done = settled(writer.append(ALICE, "talk", said(f"{number}")))
        assert (done.last, done.head.generation) == (number * 2 + 1, number * 3 + 1)
        settled(other.put_document(ALICE, "talk", Document("state", "s", b"x", 0)))
        assert settled(other.search(ALICE, [str(number)], conversation="talk"))
        done = settled(writer.append(ALICE, "talk", said(f"{number} again")))
        assert (done.last, done.head.generation) == (number * 2 + 2, number * 3 + 3)
        assert settled(other.search(ALICE, ["again"], conversation="talk"))[0].seq == done.last
    assert settled(two[0].head(ALICE, "talk")) == settled(two[1].head(ALICE, "talk"))


def test_nothing_is_appended_to_what_another_connection_erased(
    two: tuple[SqliteStore, SqliteStore],
) -> None:
    settled(two[0].append(ALICE, "talk", said("one")))
    settled(two[0].append(ALICE, "talk", said("two")))
    settled(two[1].delete(ALICE, "talk"))
    with pytest.raises(ConversationDeleted):
        settled(two[0].append(ALICE, "talk", said("three")))
    assert texts(two[0]) == []


@pytest.mark.parametrize(
    "proof",
    [
        test_what_another_connection_wrote_is_seen,
        test_nothing_is_appended_to_what_another_connection_erased,
    ],
)
def test_a_memory_that_never_doubts_is_wrong(
    two: tuple[SqliteStore, SqliteStore],
    monkeypatch: pytest.MonkeyPatch,
    proof: Callable[[tuple[SqliteStore, SqliteStore]], None],
) -> None:
    def begin(engine: SqliteEngine) -> None:
        engine._writer.execute("BEGIN IMMEDIATE")

    monkeypatch.setattr(SqliteEngine, "_begin", begin)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        proof(two)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("statement", ["INSERT", "COMMIT"])
def test_what_was_undone_is_not_remembered(
    store: SqliteStore, statement: str, *, late: bool
) -> None:
    settled(store.append(ALICE, "talk", said("one")))
    settled(store.append(ALICE, "talk", said("two")))
    with (
        Faulty(store, statement, error=apsw.IOError, late=late),
        pytest.raises(StoreUnavailable),
    ):
        settled(store.append(ALICE, "talk", said("lost")))
    there = texts(store)
    done = settled(store.append(ALICE, "talk", said("three")))
    assert done.last == len(there) + 1
    assert texts(store) == [*there, "three"]


def test_who_remembers_what_was_undone_leaves_a_gap(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undo(engine: SqliteEngine) -> None:
        engine._roll_back()

    def append(appends: SqliteAppends, connection: Connection, items: Any) -> list[Appended]:
        done = original(appends, connection, items)
        appends._heads.end(connection)
        return done

    original = SqliteAppends.together
    monkeypatch.setattr(SqliteEngine, "_undo", undo)
    monkeypatch.setattr(SqliteAppends, "together", append)
    with pytest.raises(AssertionError):
        test_what_was_undone_is_not_remembered(store, "COMMIT", late=False)


def _crowded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many commits a caller leads for others when somebody new waits whenever it is done."""
    engine, here = store._engine, threading.get_ident()
    led: list[int] = []
    commit = SqliteEngine._commit

    def busy(self: SqliteEngine) -> None:
        commit(self)
        led.append(threading.get_ident())
        if len(led) < 50:
            self._jobs.append(Job(SINGLE, lambda _: None, None))

    monkeypatch.setattr(SqliteEngine, "_commit", busy)
    settled(store.append(ALICE, "talk", said("mine")))
    others = led.count(here) - 1
    engine._lead()  # those who wait have no threads of their own here
    assert len(led) == 50
    return others


def test_who_has_its_answer_leads_no_longer(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _crowded(store, monkeypatch) == 0


def test_otherwise_it_would_serve_the_others_for_ever(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = SqliteEngine._lead
    monkeypatch.setattr(SqliteEngine, "_lead", lambda engine, _own=None, **_: lead(engine))
    assert _crowded(store, monkeypatch) == 49


def test_more_conversations_than_are_remembered(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnfold.stores.sqlite.grouped_writes._MAX_CACHED", 3)
    for number in range(40):
        settled(store.append(ALICE, f"talk-{number % 7}", said(f"{number}")))
        assert len(store._appends._heads._records) <= 3
    assert [len(texts(store, f"talk-{talk}")) for talk in range(7)] == [6, 6, 6, 6, 6, 5, 5]


def test_a_batch_larger_than_a_statement(store: SqliteStore) -> None:
    names = [f"m{number}" for number in range(1_000)]
    assert settled(store.append(ALICE, "talk", said(*names))).last == 1_000
    assert texts(store) == names


def test_tasks_are_served_in_one_commit_and_a_cancelled_one_is_left_out(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "chat.db")
        engine = store._engine
        with held_writer(store):
            tasks = [
                asyncio.create_task(store.append(ALICE, "talk", said(f"{number}")))
                for number in range(20)
            ]
            while len(engine._jobs) < 20:  # noqa: ASYNC110 (nobody announces it)
                await asyncio.sleep(0)
            tasks[7].cancel()
            await asyncio.wait([tasks[7]])
        with engine._queue_lock:
            engine._start_leader()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(done[7], asyncio.CancelledError)
        assert [each.first for each in done if isinstance(each, Appended)] == list(range(1, 20))
        assert (engine.commits, engine.jobs_done) == (1, 19)
        await store.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_caller_whose_loop_is_gone_holds_nobody_up(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "chat.db")
    engine = store._engine
    gone = asyncio.new_event_loop()
    gone.set_exception_handler(lambda _loop, _context: None)  # its task is never finished

    async def leave(verb: Any) -> None:
        asyncio.ensure_future(verb)  # noqa: RUF006 (nobody waits for it)
        while not engine._jobs:  # noqa: ASYNC110 (nobody announces it)
            await asyncio.sleep(0)

    with held_writer(store):
        gone.run_until_complete(leave(store.append(ALICE, "talk", said("left"))))
        gone.close()

    async def stay() -> None:
        assert (await store.append(ALICE, "talk", said("stayed"))).last == 2
        await store.close()

    asyncio.run(asyncio.wait_for(stay(), PATIENCE))


# ------------------------------------------------------------------------------------------------ notes


def levels(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> set[tuple[object, bool]]:
    """The sync level of each commit and whether its jobs must last, where an append comes while a note is written."""
    late = AppendJob(ALICE.tenant, "talk", prepare(said("late"), store._counter), None)
    found: set[tuple[object, bool]] = set()
    begin, run = SqliteEngine._begin, SqliteEngine._run
    came: list[Job] = []

    def begun(self: SqliteEngine) -> None:
        begin(self)
        if not self._durable and not came:
            came.append(Job(cast("Any", store._appends), late, None))
            self._jobs.append(came[0])

    def watched(self: SqliteEngine, group: list[Job]) -> None:
        row = self._writer.execute("PRAGMA synchronous").fetchone()
        assert row is not None
        found.update((row[0], job.kind.durable) for job in group)
        run(self, group)

    done = settled(store.append(ALICE, "talk", said("first")))
    with monkeypatch.context() as patched:
        patched.setattr(SqliteEngine, "_begin", begun)
        patched.setattr(SqliteEngine, "_run", watched)
        noted = Document("note", "key", b"x", 0)
        settled(store.note(ALICE, "talk", noted, state=done.head.state))
        store._engine._lead()
        assert came[0].notified
    assert texts(store) == ["first", "late"]
    return found


def test_what_must_last_is_in_no_commit_that_is_not_waited_for(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert levels(store, monkeypatch) == {(1, False), (2, True)}


def test_an_append_taken_along_with_a_note_would_not_be_waited_for(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_all(self: SqliteEngine) -> None:
        self._group.extend(self._jobs.popleft() for _ in range(len(self._jobs)))

    monkeypatch.setattr(SqliteEngine, "_take", take_all)
    assert levels(store, monkeypatch) == {(1, False), (1, True)}


def test_a_note_leaves_the_head_remembered(store: SqliteStore) -> None:
    done = settled(store.append(ALICE, "talk", said("first")))
    looked: list[str] = []
    trace = store._engine._writer
    trace.set_exec_trace(lambda _cursor, statement, _bindings: looked.append(statement) or True)  # type: ignore[attr-defined]
    settled(store.note(ALICE, "talk", Document("note", "a", b"", 0), state=done.head.state))
    settled(store.append(ALICE, "talk", said("second")))
    trace.set_exec_trace(None)  # type: ignore[attr-defined]
    assert not [statement for statement in looked if statement.lstrip().startswith("SELECT")]


@pytest.mark.parametrize("background", [True, False])
def test_no_caller_waits_in_a_transaction_of_background_work(
    tmp_path: Path, *, background: bool
) -> None:
    order = list[tuple[str, int]]()

    async def run() -> None:
        engine = SqliteEngine(str(tmp_path / "chat.db"), blocking=False)
        go, held = threading.Event(), threading.Event()

        def job(name: str) -> Callable[[Connection], None]:
            return lambda _: order.append((name, engine.commits))

        def hold(_: Connection) -> None:
            held.set()
            go.wait(PATIENCE)

        first = asyncio.create_task(engine.write(hold))
        await asyncio.to_thread(held.wait)
        before = asyncio.create_task(engine.write(job("before")))
        await asyncio.sleep(0)
        indexing = threading.Thread(
            target=lambda: engine.write_here(job("index"), background=background)
        )
        indexing.start()
        while len(engine._jobs) < 2:  # noqa: ASYNC110 (a thread queues it)
            await asyncio.sleep(0.001)
        after = asyncio.create_task(engine.write(job("after")))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, before, after)
        await asyncio.to_thread(indexing.join)
        await engine.close()

    asyncio.run(run())
    assert [name for name, _ in order] == ["before", "index", "after"]
    start = order[0][1]
    assert [commits - start for _, commits in order] == ([0, 1, 2] if background else [0, 0, 0])
