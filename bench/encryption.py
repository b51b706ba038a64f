"""What does encryption at rest cost?

The same work on two SQLite files, one with a key: ratios of processor time, because seconds are those of the machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.report import Report, Table
from bench.timing import Samples, ratio, take_turns
from turnfold import Budget, Memory
from turnfold.memory import Session

__all__ = ("QUESTION", "run")

QUESTION = "what encryption at rest costs: append, context, read, search"
_KEY = bytes(range(32))
_TURNS = 400
_APPENDS = 200
_SAID = (
    "The order {0} was shipped on 12 May and should arrive within three working days, to hall 7.",
    "请帮我查一下订单 {0}，收货地址改成杭州市西湖区文三路 90 号，谢谢。",
)


def run(*, quick: bool) -> Report:
    """Time each kind of work with and without a key, in turns."""
    rounds, turns = (3, _TURNS // 4) if quick else (9, _TURNS)
    report = Report("encryption", QUESTION)
    with tempfile.TemporaryDirectory() as folder:
        rows: list[list[str]] = []
        for name, work in WORKS.items():
            plain, sealed = _compare(Path(folder) / name.replace(" ", "-"), work, turns, rounds)
            found = ratio(sealed, plain)
            rows.append([name, plain.shown(), sealed.shown(), str(found)])
            report.figures[name] = {
                "plain": plain.figures(),
                "encrypted": sealed.figures(),
                "ratio": found.middle,
            }
    columns = ("work", "without a key", "with a key", "ratio")
    notes = (
        f"SQLite, a conversation of {2 * turns} entries in both languages; processor time of the process.",
    )
    report.tables.append(Table("Encryption at rest", columns, rows, notes))
    return report


def _compare(
    place: Path, work: Callable[[Path, bytes | None], object], turns: int, rounds: int
) -> tuple[Samples, Samples]:
    files = {key: place.with_name(f"{place.name}-{bool(key)}.db") for key in (None, _KEY)}
    for key, file in files.items():
        with _opened(file, key) as memory:
            _talk(memory.session("talk"), turns)
            memory.session("talk").recall("order 7")
    found = take_turns(
        {str(bool(key)): lambda key=key, file=file: work(file, key) for key, file in files.items()},
        rounds=rounds,
    )
    return found["False"], found["True"]


def _opened(file: Path, key: bytes | None) -> Memory:
    return Memory(f"sqlite:///{file}", budget=Budget(max_tokens=4_000), encryption_key=key)


def _talk(session: Session, turns: int) -> None:
    for number in range(turns):
        session.user(_SAID[number % 2].format(number))
        session.assistant(f"Noted: {number}. 已记录。")


def _append(file: Path, key: bytes | None) -> None:
    with _opened(file, key) as memory:
        _talk(memory.session("talk"), _APPENDS // 2)


def _contexts(file: Path, key: bytes | None) -> None:
    """Contexts of a handle that knows the conversation, each after a new turn."""
    with _opened(file, key) as memory:
        session = memory.session("talk")
        for number in range(40):
            session.user(f"Where is order {number}? 订单 {number} 在哪里？")
            session.context()
            session.assistant("On its way. 在路上。")


def _first_context(file: Path, key: bytes | None) -> None:
    """The first context of a process: the conversation is opened and, for recall, indexed."""
    with _opened(file, key) as memory:
        memory.session("talk").context()


def _read(file: Path, key: bytes | None) -> None:
    with _opened(file, key) as memory:
        memory.session("talk").history()


def _searches(file: Path, key: bytes | None) -> None:
    with _opened(file, key) as memory:
        session = memory.session("talk")
        for number in range(40):
            session.recall(f"order {number} 收货地址")


WORKS: dict[str, Callable[[Path, bytes | None], object]] = {
    f"{_APPENDS} appends": _append,
    "40 turns with a context each": _contexts,
    "first context of a process": _first_context,
    "reading the whole log": _read,
    "40 searches of a process": _searches,
}
