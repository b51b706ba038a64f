"""What a service does while a request waits: `python -m bench.service_causes FILE serve ...` records it into FILE.

The service is the usual one. Four things are recorded with their times, on the clock that all processes of the machine
share: collections of garbage, steps of the event loop, transactions of the SQLite writer, and moments at which no other
thread could run (a thread that wants to run every millisecond comes late). For each, the processor time of the thread
or process is recorded too, which tells work from waiting for a processor.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
from asyncio import events
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time, thread_time
from types import FrameType
from typing import Any, NamedTuple, cast

__all__ = ("KINDS", "Interval", "overlapping", "read_intervals")

KINDS = ("loop", "lock", "writer", "garbage")
_SHORTEST = 0.002
_EVERY = 0.001
_IDLE = frozenset(
    "wait _wait_for_tstate_lock get select _worker poll acquire _recv_msg sleep result".split()
)


class Interval(NamedTuple):
    """One thing that the service did."""

    kind: str
    begin: float
    end: float
    busy: float
    """Seconds of processor time."""
    what: str


def read_intervals(file: Path) -> list[Interval]:
    """Return what a service has recorded."""
    return [Interval(*each) for each in json.loads(file.read_text())]


def overlapping(
    intervals: Sequence[Interval], spans: Sequence[tuple[float, float]]
) -> Mapping[str, float]:
    """Return the seconds of each kind of interval within the spans."""
    found: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    for begin, end in spans:
        for each in intervals:
            shared = min(end, each.end) - max(begin, each.begin)
            if shared > 0:
                found[each.kind] += shared
    return found


class _Recorder:
    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        self._collecting = 0.0, 0.0

    def note(self, kind: str, begin: float, busy: float, what: str) -> None:
        end = perf_counter()
        if end - begin >= _SHORTEST:
            self.intervals.append(Interval(kind, begin, end, busy, what))

    def garbage(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting = perf_counter(), thread_time()
        else:
            begin, busy = self._collecting
            self.note("garbage", begin, thread_time() - busy, f"generation {info['generation']}")

    def timed(self, kind: str, call: Callable[..., Any], name: Callable[[Any], str]) -> Any:  # noqa: ANN401
        def run(itself: Any) -> Any:  # noqa: ANN401
            begin, busy = perf_counter(), thread_time()
            try:
                return call(itself)
            finally:
                self.note(kind, begin, thread_time() - busy, name(itself))

        return run

    def watch_lock(self) -> None:
        """Note when this thread could not run, and what the others were at then."""
        own = threading.get_ident()
        while True:
            due, busy = perf_counter() + _EVERY, process_time()
            time.sleep(_EVERY)
            if perf_counter() - due >= _SHORTEST:
                frames = sys._current_frames()  # noqa: SLF001
                at = sorted(
                    place
                    for ident, frame in frames.items()
                    if ident != own and (place := _place(frame)) is not None
                )
                self.note("lock", due, process_time() - busy, " + ".join(at) or "-")


def _place(frame: FrameType) -> str | None:
    if frame.f_code.co_name in _IDLE:
        return None
    inner = f"{Path(frame.f_code.co_filename).stem}:{frame.f_lineno} {frame.f_code.co_name}"
    caller: FrameType | None = frame
    while caller is not None and "turnfold" not in caller.f_code.co_filename:
        caller = caller.f_back
    if caller is None or caller is frame:
        return inner
    return f"{inner} < {Path(caller.f_code.co_filename).stem}:{caller.f_lineno}"


def _step_name(handle: Any) -> str:  # noqa: ANN401
    call = getattr(handle, "_callback", None)
    task = getattr(call, "__self__", None)
    if isinstance(task, asyncio.Task):
        coroutine = cast("Any", task.get_coro())
        return str(getattr(coroutine, "__qualname__", coroutine))
    return str(getattr(call, "__qualname__", call))


def _main(file: str, *words: str) -> None:
    from turnfold.cli import main
    from turnfold.stores.sqlite.engine import SqliteEngine

    recorder = _Recorder()
    gc.callbacks.append(recorder.garbage)
    handle, engine, ran = cast("Any", events.Handle), cast("Any", SqliteEngine), [""]
    run_group = engine._run  # noqa: SLF001

    def run_named(itself: Any, group: list[Any]) -> None:  # noqa: ANN401
        ran[0] = "+".join(sorted({_job_name(job) for job in group}))
        run_group(itself, group)

    engine._run = run_named  # noqa: SLF001
    engine._commit = recorder.timed("writer", engine._commit, lambda _: ran[0])  # noqa: SLF001
    handle._run = recorder.timed("loop", handle._run, _step_name)  # noqa: SLF001
    threading.Thread(target=recorder.watch_lock, daemon=True).start()
    sys.argv = ["turnfold", *words]
    try:
        main()
    finally:
        Path(file).write_text(json.dumps(recorder.intervals))
        os._exit(0)


def _job_name(job: Any) -> str:  # noqa: ANN401
    item = job.item
    return str(getattr(getattr(item, "func", item), "__name__", type(item).__name__))


if __name__ == "__main__":
    _main(*sys.argv[1:])
