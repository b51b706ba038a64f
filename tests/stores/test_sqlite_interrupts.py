"""Ctrl-C, `signal.alarm` and soft time limits raise between any two instructions of the main thread.

Whichever verb of a blocking store is interrupted wherever: no other caller hangs or fails, no lock stays on the file,
and what was asked was done once or not at all. The default run takes a sample of the instructions, the slow run all.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from tests.stores.interrupts import HUNG, count_instructions, elsewhere, interrupted_at
from tests.stores.sqlite_file import ALICE, held_writer, integrity, settled
from turnfold.records import Checkpoint, Document, NewEntry, user
from turnfold.stores import SqliteStore
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.write_queue import WriterTurn, notify

pytestmark = [
    # An interrupt between making a coroutine and awaiting it leaves it unawaited.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Seen = TypeVar("Seen")
SAMPLE = 30
"""Interrupts of a verb in the default run."""


class Talk:
    """A store that is interrupted, and what must be true of it afterwards."""

    def __init__(self, path: Path, *, patience: float = 30.0) -> None:
        self.path, self.patience = path, patience
        self.store = SqliteStore(path, blocking=True)
        self.told: list[tuple[int, str]] = []
        self.asked: set[str] = set()
        self.turn = 0
        self.say("first 第一")
        settled(self.store.put_document(ALICE, "talk", Document("state", "kept", b"0", 0)))

    def say(self, text: str, talk: str = "talk") -> int:
        self.asked.add(text)
        batch = [NewEntry(user(text)), NewEntry(user(f"{text} 回答"))]
        first = settled(self.store.append(ALICE, talk, batch)).first
        if talk == "talk":
            self.told.append((first, text))
        return first

    def check(self) -> None:
        """Another thread, this thread and another program go on; the log is what was told."""
        self.turn += 1
        other = elsewhere(lambda: self.say(f"other {self.turn}"), patience=self.patience)
        assert other != HUNG, "another thread waits for ever"
        assert isinstance(other, int), other
        last = self.say(f"same {self.turn}")
        newest = settled(self.store.read(ALICE, "talk", after=max(0, last - 20)))
        assert len({entry.message.text for entry in newest}) == len(newest), "stored twice"
        program = apsw.Connection(str(self.path))
        program.set_busy_timeout(0)
        program.execute("BEGIN IMMEDIATE; ROLLBACK")
        program.close()

    def check_log(self) -> None:
        entries = settled(self.store.read(ALICE, "talk", limit=1_000_000))
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        texts = [entry.message.text for entry in entries]
        assert all(texts[first - 1] == text for first, text in self.told)
        stored = Counter(texts)
        assert set(stored.values()) == {1}
        halves = {text for text in texts if not text.endswith(" 回答")}
        assert halves <= self.asked
        assert len(texts) == 2 * len(halves), "half a batch is stored"
        assert settled(self.store.head(ALICE, "talk")).seq == len(entries)
        # No statement or snapshot is left open: the log can be emptied.
        settled(self.store._engine.scrub())
        settled(self.store.close())
        with apsw.Connection(str(self.path)) as program:
            assert integrity(program) == "ok"
        program.close()


Prepared = Callable[[Talk, int], Callable[[], object]]


def _append(talk: Talk, turn: int) -> Callable[[], object]:
    return lambda: talk.say(f"interrupted {turn}")


def _head(talk: Talk, _turn: int) -> Callable[[], object]:
    return lambda: settled(talk.store.head(ALICE, "talk"))


def _read(talk: Talk, _turn: int) -> Callable[[], object]:
    return lambda: settled(talk.store.read(ALICE, "talk", limit=5))


def _note(talk: Talk, turn: int) -> Callable[[], object]:
    state = settled(talk.store.head(ALICE, "talk")).state
    noted = Document("note", str(turn), b"x", 0)
    return lambda: settled(talk.store.note(ALICE, "talk", noted, state=state))


def _put_document(talk: Talk, turn: int) -> Callable[[], object]:
    document = Document("state", "kept", str(turn).encode(), 0, text=f"状态 {turn}")
    return lambda: settled(talk.store.put_document(ALICE, "talk", document))


def _add_checkpoint(talk: Talk, turn: int) -> Callable[[], object]:
    talk.say(f"covered {turn}")
    live = settled(talk.store.live_checkpoint(ALICE, "talk"))
    upto = settled(talk.store.head(ALICE, "talk")).seq
    new = Checkpoint(f"c{turn}", live.id if live else "", upto, f"摘要 summary {turn}", "digest")
    return lambda: settled(talk.store.add_checkpoint(ALICE, "talk", new))


def _delete(talk: Talk, turn: int) -> Callable[[], object]:
    talk.say(f"gone {turn}", f"gone {turn}")
    settled(talk.store.search(ALICE, ["gone"], conversation=f"gone {turn}"))
    return lambda: settled(talk.store.delete(ALICE, f"gone {turn}"))


def _search(talk: Talk, turn: int) -> Callable[[], object]:
    talk.say(f"searched {turn} 查找")
    return lambda: settled(talk.store.search(ALICE, ["searched", "查找"], conversation="talk"))


VERBS: dict[str, Prepared] = {
    "append": _append,
    "head": _head,
    "read": _read,
    "note": _note,
    "put_document": _put_document,
    "add_checkpoint": _add_checkpoint,
    "delete": _delete,
    "search": _search,
}


def points(many: int, *, sample: int | None) -> Iterator[int]:
    """Instructions to interrupt at: all, or a sample spread over them."""
    step = 1 if sample is None else max(1, many // sample)
    return iter(range(1, many + 1, step))


def interrupt_everywhere(path: Path, verb: str, *, sample: int | None) -> int:
    talk = Talk(path)
    VERBS[verb](talk, -1)()  # so that what is counted has its connections, as all that follow
    many = count_instructions(VERBS[verb](talk, 0))
    hit = 0
    for point in points(many, sample=sample):
        call = VERBS[verb](talk, point)
        hit += interrupted_at(call, point)
        talk.check()
        if verb == "delete":
            settled(talk.store.delete(ALICE, f"gone {point}"))
            assert settled(talk.store.read(ALICE, f"gone {point}")) == []
    found = settled(talk.store.search(ALICE, ["same"], conversation="talk", limit=5))
    assert len(found) == min(talk.turn, 5)
    talk.check_log()
    return hit


@pytest.mark.parametrize("verb", VERBS)
def test_an_interrupt_at_a_sample_of_instructions(tmp_path: Path, verb: str) -> None:
    assert interrupt_everywhere(tmp_path / "chat.db", verb, sample=SAMPLE) >= SAMPLE * 3 // 4


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_an_interrupt_at_every_instruction(tmp_path: Path, verb: str) -> None:
    assert interrupt_everywhere(tmp_path / "chat.db", verb, sample=None) > 100


# ------------------------------------------------------------------------ others wait for the one who is interrupted


def beside_others(talk: Talk, point: int, lead: Callable[[Callable[[], object]], Seen]) -> Seen:
    """Have an append lead for two other threads, whose appends wait in the queue before it."""
    engine = talk.store._engine
    outcomes: list[object] = []

    def other(text: str) -> threading.Thread:
        thread = threading.Thread(
            target=lambda: outcomes.append(
                elsewhere(lambda: talk.say(text), patience=talk.patience)
            )
        )
        waiting = len(engine._jobs)
        thread.start()
        while len(engine._jobs) == waiting:
            time.sleep(0.0002)
        return thread

    with held_writer(talk.store):
        threads = [other(f"waiting {point} a"), other(f"waiting {point} b")]
    seen = lead(lambda: talk.say(f"leading {point}"))
    for thread in threads:
        thread.join()
    assert HUNG not in outcomes, "another thread waits for ever"
    assert all(isinstance(each, int) for each in outcomes), outcomes
    return seen


def interrupt_leader(
    path: Path, *, sample: int | None, patience: float = 30.0, backwards: bool = False
) -> int:
    talk = Talk(path, patience=patience)
    many = beside_others(talk, 0, count_instructions)
    chosen = list(points(many, sample=sample))
    hit = 0
    for point in reversed(chosen) if backwards else chosen:
        hit += beside_others(talk, point, partial(interrupted_at, instruction=point))
        talk.check()
    talk.check_log()
    return hit


def test_those_who_wait_for_an_interrupted_leader_are_served(tmp_path: Path) -> None:
    assert interrupt_leader(tmp_path / "chat.db", sample=SAMPLE) > SAMPLE // 2


@pytest.mark.slow
def test_those_who_wait_for_a_leader_interrupted_anywhere_are_served(tmp_path: Path) -> None:
    assert interrupt_leader(tmp_path / "chat.db", sample=None) > 100


# ------------------------------------------------------------------------------------------------------ sabotage


def _deaf_settle(engine: SqliteEngine) -> None:
    """Forget those whom an interrupted leader was serving."""
    engine._group.clear()
    engine._decided.clear()


def _eager_settle(engine: SqliteEngine) -> None:
    """Do again what an interrupted leader was doing, committed or not."""
    engine._decided.clear()
    settle(engine)


def _telling_first(engine: SqliteEngine) -> None:
    """Forget that a group is decided before it has been told."""
    engine._decided.clear()
    notify(engine._group)
    engine._group.clear()


settle = SqliteEngine._recover


@pytest.mark.parametrize(
    ("owner", "name", "broken", "sample"),
    [
        pytest.param(SqliteEngine, "_recover", _deaf_settle, 150, id="the group is forgotten"),
        pytest.param(SqliteEngine, "_recover", _eager_settle, 150, id="a commit is done again"),
        pytest.param(
            SqliteEngine, "_notify_group", _telling_first, 150, id="decided is forgotten first"
        ),
        pytest.param(
            WriterTurn, "is_lost", lambda _turn: False, None, id="a lost turn is kept for ever"
        ),
    ],
)
@pytest.mark.slow  # shows that the tests above can fail
def test_without_each_part_somebody_hangs_or_something_is_stored_twice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    broken: object,
    *,
    sample: int | None,
) -> None:
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises((AssertionError, apsw.BusyError)):
        interrupt_leader(tmp_path / "chat.db", sample=sample, patience=1.0, backwards=True)


# ----------------------------------------------------------------------------------------------- real signals


@pytest.mark.slow
def test_real_signals_while_threads_write(tmp_path: Path) -> None:
    """An interval timer whose handler raises in the main thread, for ten seconds, beside three writers."""
    talk = Talk(tmp_path / "chat.db")
    stop, failures = threading.Event(), list[BaseException]()

    def write(name: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            try:
                talk.say(f"thread {name} {turn}")
            except BaseException as error:
                failures.append(error)

    def raise_interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raise_interrupt)
    threads = [threading.Thread(target=write, args=(name,), daemon=True) for name in range(3)]
    for thread in threads:
        thread.start()
    interrupts = turn = 0
    until = time.monotonic() + 10
    try:
        while time.monotonic() < until:
            turn += 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00003 * (1 + turn * 7919 % 97))
                talk.say(f"main {turn}")
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a writer hangs"
    assert not failures
    assert interrupts > 50
    talk.check()
    talk.check_log()
