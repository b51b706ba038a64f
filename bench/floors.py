"""How far are an append, a context and a count from what they cannot do without?

A floor is the sum of parts that no design could leave out: the SQL with the very columns and indexes, run by the bare
driver; the tokenizer on the same text; the encoder on the same message; the step into a coroutine. Everything takes
turns in one process. A synced commit waits for the disk, so each figure is given by the processor and by the clock;
after a wait the processor's caches hold something else, and Python pays more for that than the bare driver does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import apsw
import msgspec
from splintr import Tokenizer

from bench.contender import Item
from bench.peers.turnfold_itself import STORED, SessionOnDisk, as_turnfold
from bench.report import Report, Table, duration
from bench.stores_turns import SCOPE, TALK, counter, scratch
from bench.timing import Samples, frozen_heap
from bench.workload import stretch
from turnfold import Message, Session
from turnfold.memory import Manifest
from turnfold.memory.call_log import write_manifest
from turnfold.records import NewEntry, Part, encode_message
from turnfold.runtime import drive
from turnfold.stores import SqliteStore

__all__ = ("QUESTION", "run")

QUESTION = "an append, a context and a count beside what they cannot do without"
BUDGET = 8_000
_SMALL = 50
"""Repetitions of what takes about a microsecond, so that the clock's own time does not count."""
_SETTINGS = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON")
_ENTRY = (
    "INSERT OR FAIL INTO entry (id, revision, client_id, created, turn, tokens, running, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_DOCUMENT = "INSERT INTO document (conversation, kind, key, version, created, body) VALUES (?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class _Plan:
    rounds: int
    calls: int
    warm: int
    """Calls that do not count: enough for the logs to be written once around."""


FULL = _Plan(rounds=100, calls=10, warm=1_200)
QUICK = _Plan(rounds=30, calls=8, warm=300)


@dataclass(slots=True, eq=False)
class _Lane:
    """Something that is done again and again; `before` it something may be done that is not timed."""

    name: str
    work: Callable[[], object]
    before: Callable[[], object] = lambda: None
    times: int = 1
    clock: Samples = field(default_factory=Samples)
    processor: Samples = field(default_factory=Samples)

    def round(self, calls: int) -> None:
        """So many samples of each kind."""
        clock: list[float] = []
        worked: list[float] = []
        for _ in range(calls):
            self.before()
            used, begin = process_time(), perf_counter()
            for _ in range(self.times):
                self.work()
            clock.append((perf_counter() - begin) / self.times)
            worked.append((process_time() - used) / self.times)
        self.clock.rounds.append(clock)
        self.processor.rounds.append(worked)


@dataclass(frozen=True, slots=True)
class _Operation:
    """One of ours, and the parts it cannot do without."""

    lane: _Lane
    floor: Sequence[_Lane]

    def row(self) -> list[str]:
        """Ours, the floor, and how many times the floor ours is, by the processor and by the clock."""
        worked = [part.processor for part in self.floor]
        waited = [part.clock for part in self.floor]
        cells = [*_times(self.lane.processor, worked), *_times(self.lane.clock, waited)]
        return [self.lane.name, *cells, " + ".join(part.name for part in self.floor)]


def _times(ours: Samples, parts: Sequence[Samples]) -> list[str]:
    """The median of ours, that of the sum of the parts, and the median of what their rounds give."""
    floors = [
        sum(map(median, rounds)) for rounds in zip(*(part.rounds for part in parts), strict=True)
    ]
    ratios = [median(round_) / floor for round_, floor in zip(ours.rounds, floors, strict=True)]
    return [duration(ours.median), duration(median(floors)), f"{median(ratios):.2f}x"]


def run(*, quick: bool) -> Report:
    """Measure all of them in turns."""
    plan = QUICK if quick else FULL
    report = Report("floors", QUESTION)
    talk = stretch(1_000, tail=2 * (plan.warm + plan.rounds * plan.calls), longest=5_000)
    with scratch() as folder:
        operations = list(_operations(folder, talk.history, talk.tail))
        parts = list(dict.fromkeys(part for each in operations for part in each.floor))
        lanes = list(dict.fromkeys([*(each.lane for each in operations), *parts]))
        for lane in lanes:
            lane.round(plan.warm)
            lane.clock.rounds.clear()
            lane.processor.rounds.clear()
        with frozen_heap():
            for _ in range(plan.rounds):
                for lane in lanes:
                    lane.round(plan.calls)
    report.tables = [_beside(operations), _made_of(parts)]
    report.figures = {
        lane.name: {"clock": lane.clock.figures(), "processor": lane.processor.figures()}
        for lane in lanes
    }
    return report


def _beside(operations: Sequence[_Operation]) -> Table:
    columns = [
        "operation", "processor", "floor", "times it", "clock", "floor", "times it", "what the floor is",
    ]  # fmt: skip
    notes = [
        "medians over the rounds; every log was written once around before, so no commit makes its file longer",
        "whoever wants a message to be durable waits for the raw commit; the rest is what can be saved",
    ]
    return Table("Ours beside the floor", columns, [each.row() for each in operations], notes)


def _made_of(parts: Sequence[_Lane]) -> Table:
    rows = [[part.name, part.processor.shown(), part.clock.shown()] for part in parts]
    notes = ["median (10th to 90th percentile)"]
    return Table("What the floors are made of", ["part", "processor", "clock"], rows, notes)


def _operations(
    folder: Path, history: Sequence[Item], tail: Sequence[Item]
) -> Iterator[_Operation]:
    said = as_turnfold(tail)
    sql, pure = _sql_lanes(folder, said), _pure_lanes(said)
    drives = _Lane("coroutine", lambda: drive(_nothing()), times=_SMALL)
    STORED[0].seed(folder / "session.db", history)
    session = SessionOnDisk(folder / "session.db", BUDGET).session
    manifest = _manifest(session)
    encodes = _Lane("manifest encoded", lambda: write_manifest(manifest), times=_SMALL)
    saying = iter(said)  # as in a conversation: what is said and what is asked for take turns
    fixed = [pure["tokenizer"], pure["encoder"], drives]
    yield _Operation(
        _Lane(
            "session.add, one message",
            lambda: session.add(next(saying)),
            before=session.context,
        ),
        [sql["our row"], *fixed],
    )
    yield _Operation(
        _Lane(
            "session.context, about 100 messages",
            session.context,
            before=lambda: session.add(next(saying)),
        ),
        [sql["note"], encodes, drives],
    )
    yield _Operation(_store_append(folder, said, ids=False), [sql["our row"], *fixed])
    yield _Operation(_store_append(folder, said, ids=True), [sql["our row, with id"], *fixed])
    yield _Operation(sql["our row, with id"], [sql["one row"]])
    yield _Operation(pure["count_message"], [pure["tokenizer"]])
    yield _Operation(pure["encode_message"], [pure["encoder"]])


def _store_append(folder: Path, said: Sequence[Message], *, ids: bool) -> _Lane:
    store = SqliteStore(folder / f"store-{ids:d}.db", blocking=True, counter=counter())
    messages, numbers = cycle(said), count()

    def append() -> None:
        entry = NewEntry(next(messages), f"entry-{next(numbers):08}" if ids else "")
        drive(store.append(SCOPE, TALK, [entry]))

    return _Lane(f"store.append, one message{', client id' if ids else ''}", append)


async def _nothing() -> None:
    return None


def _manifest(session: Session) -> Manifest:
    session.context()
    [manifest] = session.calls(limit=1)
    return manifest


# ------------------------------------------------------------------------------------------------ bare SQL


def _connection(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    for setting in _SETTINGS:
        connection.execute(f"PRAGMA {setting}").fetchall()
    return connection


def _our_tables(path: Path, said: Sequence[Message]) -> apsw.Connection:
    """A file with the tables of the store and one conversation, in the hands of the bare driver."""
    store = SqliteStore(path, blocking=True, counter=counter())
    drive(store.append(SCOPE, TALK, [NewEntry(said[0])]))
    drive(store.close())
    return _connection(path)


def _sql_lanes(folder: Path, said: Sequence[Message]) -> dict[str, _Lane]:
    bodies = [encode_message(message) for message in said]
    bare = _connection(folder / "bare.db")
    bare.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    row, with_id, note = (
        _our_tables(folder / f"raw-{name}.db", said) for name in ("row", "id", "note")
    )
    return {
        "one row": _Lane("raw commit of one row", _one_row(bare, bodies)),
        "our row": _Lane("raw commit with our columns", _our_row(row, bodies, ids=False)),
        "our row, with id": _Lane(
            "raw commit with our columns and a client id", _our_row(with_id, bodies, ids=True)
        ),
        "note": _note_lane(note, bodies),
    }


def _one_row(connection: apsw.Connection, bodies: Sequence[bytes]) -> Callable[[], None]:
    each = cycle(bodies)

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO log (body) VALUES (?)", (next(each),))
        connection.execute("COMMIT")

    return commit


def _our_row(
    connection: apsw.Connection, bodies: Sequence[bytes], *, ids: bool
) -> Callable[[], None]:
    each, numbers = cycle(bodies), count(2)

    def commit() -> None:
        seq = next(numbers)
        name = f"entry-{seq:08}" if ids else None
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_ENTRY, (1 << 32 | seq, seq, name, seq, seq, 65, seq, next(each)))
        connection.execute("COMMIT")

    return commit


def _note_lane(connection: apsw.Connection, bodies: Sequence[bytes]) -> _Lane:
    """A note after each synced row, as there is one after each message: by then the processor has slept."""
    numbers, body = count(2), bytes(range(240)) * 3
    row = _our_row(connection, bodies, ids=False)

    def before() -> None:
        connection.execute("PRAGMA synchronous=FULL").fetchall()
        row()
        connection.execute("PRAGMA synchronous=NORMAL").fetchall()

    def commit() -> None:
        number = next(numbers)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE conversation SET revision = ?, updated = ? WHERE key = ?", (number, number, 1)
        )
        connection.execute(_DOCUMENT, (1, "call", f"{number:012d}-0000", 1, number, body))
        connection.execute("COMMIT")

    return _Lane("raw note, not waited for", commit, before=before)


# --------------------------------------------------------------------------------------- tokenizer, encoder


class _Plain(msgspec.Struct, frozen=True, omit_defaults=True):
    v: int
    role: str
    parts: tuple[Part, ...]


def _pure_lanes(said: Sequence[Message]) -> dict[str, _Lane]:
    tokenizer, counts = Tokenizer.from_pretrained("o200k_base"), counter()
    texts = cycle([message.text for message in said if message.text])
    plain = cycle([message for message in said if message.text])
    forms = cycle([_Plain(1, message.role, message.parts) for message in said])
    messages = cycle(said)
    encode = msgspec.json.Encoder().encode
    works: dict[str, tuple[str, Callable[[], object]]] = {
        "tokenizer": ("raw tokenizer", lambda: len(tokenizer.encode_ordinary(next(texts)))),
        "encoder": ("raw encoder", lambda: encode(next(forms))),
        "count_message": ("count_message", lambda: counts.count_message(next(plain))),
        "encode_message": ("encode_message", lambda: encode_message(next(messages))),
    }
    return {key: _Lane(name, work, times=_SMALL) for key, (name, work) in works.items()}
