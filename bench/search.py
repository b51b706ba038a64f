"""How long does a search take as the log grows, and what does being searchable cost?

One SQLite file, one scope, conversations of a hundred turns. Searches ask for three words of an entry drawn at random,
in its own conversation (what a recall does) and in the whole scope. They are timed once everything is indexed.

Nothing is indexed while it is written: the first search after it does that. What the index costs is measured beside the
writing it follows, turns appended one by one and each of them durable, by the clock.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

from bench.report import Report, Table, Target, duration
from bench.stores_turns import SCOPE, counter, fill, named, scratch, turns
from bench.timing import Samples
from turnfold import Message
from turnfold.runtime import drive
from turnfold.stores import SqliteStore
from turnfold.text import search_terms

__all__ = ("QUESTION", "run")

QUESTION = "time of a search from 10,000 to 1,000,000 messages on SQLite, and what the index costs"
SIZES = (10_000, 100_000, 1_000_000)
QUICK = (10_000, 50_000)
SEARCHES = 200
_IN_ONE = 200
"""Messages of a conversation."""
_MOST_SLOWDOWN, _MOST_SECONDS, _MOST_OVERHEAD = 3.0, 0.050, 0.40
_WORDS = 3


@dataclass(slots=True)
class _Size:
    """What was measured with so many messages."""

    messages: int
    indexing: float = 0.0
    before: int = 0
    after: int = 0
    """Bytes of the file without and with the index."""
    inside: Samples = field(default_factory=lambda: Samples([[]]))
    everywhere: Samples = field(default_factory=lambda: Samples([[]]))


def run(*, quick: bool) -> Report:
    """Measure each size in a file of its own."""
    report = Report("search", QUESTION)
    sizes = [_measured(size) for size in (QUICK if quick else SIZES)]
    report.tables = [_table(sizes)]
    first, last = sizes[0], sizes[-1]
    for name, few, many in (
        ("in one conversation", first.inside, last.inside),
        ("in the whole scope", first.everywhere, last.everywhere),
    ):
        slower = many.median / few.median
        report.targets += [
            Target(
                f"{name}, {last.messages:,} messages <= {_MOST_SLOWDOWN:g} x {first.messages:,}",
                f"{slower:.2f} x",
                slower <= _MOST_SLOWDOWN,
            ),
            Target(
                f"{name}, {last.messages:,} messages <= {duration(_MOST_SECONDS)}",
                duration(many.median),
                many.median <= _MOST_SECONDS,
            ),
        ]
    written, indexed = _overhead(1_000 if quick else 5_000)
    overhead = indexed / written
    report.targets.append(
        Target(
            f"indexing <= {_MOST_OVERHEAD:.0%} of appending",
            f"{overhead:.0%}: {duration(indexed)} after {duration(written)} a turn",
            overhead <= _MOST_OVERHEAD,
        )
    )
    report.figures = {
        str(size.messages): {
            "inside": size.inside.figures(),
            "everywhere": size.everywhere.figures(),
            "indexing": size.indexing,
            "bytes": [size.before, size.after],
        }
        for size in sizes
    }
    return report


def _measured(messages: int) -> _Size:
    size = _Size(messages)
    said = [message for turn in turns(20_000) for message in turn]
    chance = random.Random(11)  # noqa: S311 (drawing words, not secrets)
    with scratch() as folder:
        path = folder / "search.db"
        store = SqliteStore(path, counter=counter(), blocking=True)
        for number in range(messages // _IN_ONE):
            start = number * _IN_ONE % (len(said) - _IN_ONE)
            fill(store, said[start : start + _IN_ONE], talk=f"talk{number:06}")
        size.before = _bytes(path)
        begin = process_time()
        drive(store.reindex())  # a search alone would index some of a long log and answer
        size.indexing, size.after = process_time() - begin, _bytes(path)
        for _ in range(SEARCHES):
            _search(store, size, said, chance)
        drive(store.close())
    return size


def _overhead(many: int) -> tuple[float, float]:
    """Seconds to append a turn, and to index it."""
    with scratch() as folder:
        store = SqliteStore(folder / "turns.db", counter=counter(), blocking=True)
        begin = perf_counter()
        for number, turn in enumerate(turns(many)):
            drive(store.append(SCOPE, "talk", named(turn, str(number))))
        written = perf_counter() - begin
        begin = perf_counter()
        drive(store.reindex())
        indexed = perf_counter() - begin
        drive(store.close())
    return written / many, indexed / many


def _search(store: SqliteStore, size: _Size, said: list[Message], chance: random.Random) -> None:
    number = chance.randrange(size.messages // _IN_ONE)
    start = number * _IN_ONE % (len(said) - _IN_ONE)
    words = search_terms(said[start + chance.randrange(_IN_ONE)].text)
    terms = chance.sample(words, min(_WORDS, len(words)))
    for name, samples in ((f"talk{number:06}", size.inside), (None, size.everywhere)):
        begin = perf_counter()
        drive(store.search(SCOPE, terms, conversation=name, limit=20))
        samples.rounds[0].append(perf_counter() - begin)


def _bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


def _table(sizes: list[_Size]) -> Table:
    rows = [
        [
            f"{size.messages:,}",
            size.inside.shown(),
            size.everywhere.shown(),
            duration(size.indexing),
            f"{size.before / 1e6:,.0f} → {size.after / 1e6:,.0f} MB",
        ]
        for size in sizes
    ]
    columns = ["messages", "in one conversation", "in the scope", "index", "file"]
    notes = [
        f"Searches: median of {SEARCHES} (10th to 90th percentile), by the clock.",
        "Indexing: everything at once, processor time.",
    ]
    return Table("Searches for three words", columns, rows, notes)
