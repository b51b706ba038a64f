"""A quiet tenant of a service, alone and beside a hostile one that sends what costs the most to search and to count.

The hostile tenant asks from a process of its own, over six connections: long messages of words that no vocabulary has,
never the same twice, and searches for as many words as the service takes. It takes turns with quiet in the same run:
alone and beside are measured in short windows, one after the other, on the same file. A window alone begins when the
service has nothing left to do.

`python -m bench.service_tenants ROUNDS TURNS` prints the figures with what the service did during the slowest turns,
and the figures of each round as soon as it has ended.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter

from bench.bare_http import BareConnections
from bench.service_causes import KINDS, Interval, overlapping, read_intervals
from bench.stores_turns import scratch
from bench.timing import percentile
from turnfold.service import TokenFile, new_token

__all__ = ("QuietTurns", "measure_quiet")

CONNECTIONS = 6
_LETTERS = "abcdefghijklmnop"
_SLOWEST = 0.05
"""The share of turns whose causes are told."""
Turn = tuple[float, float]
"""When a turn began and when it ended."""


@dataclass
class QuietTurns:
    """The turns of the quiet tenant, by round, and what the service did meanwhile."""

    alone: list[list[Turn]] = field(default_factory=list[list[Turn]])
    beside: list[list[Turn]] = field(default_factory=list[list[Turn]])
    intervals: list[Interval] = field(default_factory=list[Interval])

    def p99(self, windows: Sequence[Sequence[Turn]]) -> float:
        """The 99th percentile of the seconds of all turns of these windows."""
        return percentile([end - begin for turns in windows for begin, end in turns], 0.99)

    @property
    def ratio(self) -> float:
        """The p99 beside the hostile tenant, in that of alone."""
        return self.p99(self.beside) / self.p99(self.alone)

    @property
    def noise(self) -> float:
        """What the ratio would be without a hostile tenant: odd rounds alone against even ones, the larger first."""
        halves = self.p99(self.alone[::2]), self.p99(self.alone[1::2] or self.alone)
        return max(halves) / min(halves)

    def causes(self, windows: Sequence[Sequence[Turn]]) -> dict[str, float]:
        """The share of the time of the slowest turns that overlaps with each kind of work of the service."""
        turns = sorted(
            (turn for each in windows for turn in each), key=lambda turn: turn[0] - turn[1]
        )
        slow = turns[: max(1, int(len(turns) * _SLOWEST))]
        whole = sum(end - begin for begin, end in slow)
        found = overlapping(self.intervals, slow)
        return {kind: found[kind] / whole for kind in KINDS}


def measure_quiet(
    *, rounds: int, turns: int, causes: bool = False, note: Callable[[str], None] = lambda _: None
) -> QuietTurns:
    """Measure `turns` turns alone, then as many beside the hostile tenant, and so on for some rounds.

    `note` is called with a line about each part that has ended.
    """
    measured, tokens = QuietTurns(), dict[str, str]()
    with scratch() as folder:
        for name in ("quiet", "hostile"):
            tokens[name], line = new_token(name, name, ["read", "write"], now=time.time())
            TokenFile(folder / "tokens.json").add(line)
        record = folder / "causes.json"
        with _service(folder, record if causes else None) as (url, service):
            asyncio.run(_turns(url, tokens["quiet"], turns))  # until everything is warm
            with _hostile(url, tokens["hostile"]) as hostile:
                for number in range(1, rounds + 1):
                    waited = _wait_until_idle(service)
                    measured.alone.append(asyncio.run(_turns(url, tokens["quiet"], turns)))
                    _tell(hostile, "go")
                    time.sleep(1.0)
                    measured.beside.append(asyncio.run(_turns(url, tokens["quiet"], turns)))
                    begin = perf_counter()
                    sent = _tell(hostile, "rest")
                    note(
                        f"round {number}: alone {_shown(measured.alone[-1])}; "
                        f"beside {_shown(measured.beside[-1])}; idle after {waited:.0f} s, "
                        f"the hostile tenant has sent {sent} requests, the last ended after "
                        f"{perf_counter() - begin:.0f} s"
                    )
        if causes:
            measured.intervals = read_intervals(record)
    return measured


@contextmanager
def _service(folder: Path, record: Path | None) -> Iterator[tuple[str, int]]:
    store, tokens = f"sqlite:///{folder / 'chat.db'}", str(folder / "tokens.json")
    words = ["serve", "--store", store, "--port", "0", "--tokens-file", tokens]
    program = ["bench.service_causes", str(record)] if record else ["turnfold"]
    log = folder / "service.log"  # a pipe that nobody reads would stop the service when it is full
    with log.open("w") as written:
        process = subprocess.Popen(  # noqa: S603 (words written here)
            [sys.executable, "-m", *program, *words], stderr=written
        )
    try:
        while "listening on " not in log.read_text():
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield log.read_text().split("listening on ")[1].split()[0], process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _hostile(url: str, token: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(  # noqa: S603 (words written here)
        [sys.executable, "-m", "bench.service_tenants", url, token],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _tell(hostile: subprocess.Popen[str], word: str) -> int:
    """Tell the hostile tenant to go on or to rest, wait until it does, and return how many requests it has sent."""
    assert hostile.stdin is not None
    assert hostile.stdout is not None
    hostile.stdin.write(f"{word}\n")
    hostile.stdin.flush()
    told, _, sent = hostile.stdout.readline().strip().partition(" ")
    assert told == word, "the hostile tenant has ended"
    return int(sent)


def _wait_until_idle(process: int) -> float:
    """Wait until a process and its children use no processor: what was written is indexed, queues are empty.

    Returns how many seconds that took.
    """
    before, begin = -1.0, perf_counter()
    for _ in range(240):
        used = sum(map(_processor_time, [process, *_children(process)]))
        if used - before < 0.03:
            break
        before = used
        time.sleep(0.5)
    return perf_counter() - begin


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(each) for task in tasks for each in task.read_text().split()]


def _processor_time(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _shown(turns: Sequence[Turn]) -> str:
    seconds = [end - begin for begin, end in turns]
    return " / ".join(f"{percentile(seconds, share) * 1e3:.0f}" for share in (0.5, 0.9, 0.99))


async def _turns(url: str, token: str, many: int) -> list[Turn]:
    links, found = BareConnections(url, token=token), list[Turn]()
    for _ in range(many):
        begin = perf_counter()
        await links.ask("q", "POST", "/v1/sessions/q/user", {"content": "Where is the parcel?"})
        await links.ask("q", "POST", "/v1/sessions/q/assistant", {"content": "包裹在路上。"})
        await links.ask("q", "POST", "/v1/sessions/q/context", {})
        found.append((begin, perf_counter()))
        await asyncio.sleep(0.01)
    links.close()
    return found


async def _attack(url: str, token: str) -> None:
    # 429 answers what waited when the service moved this tenant to its second process.
    links = BareConnections(url, token=token, accepted=(200, 429))
    chance, numbers = random.Random(7), count()  # noqa: S311 (no secret)
    going, busy = asyncio.Event(), Counter[str]()

    def words(many: int) -> str:
        return " ".join("".join(chance.choices(_LETTERS, k=6)) for _ in range(many))

    said = words(100_000)

    async def ask(asker: int) -> None:
        path = f"/v1/sessions/h{asker}"
        requests = (
            (f"{path}/user", lambda: {"content": f"{next(numbers)} {said}"}),
            ("/v1/search", lambda: {"query": words(1_400)}),
            (f"{path}/context", lambda: {"query": words(1_400)}),
            (f"{path}/user", lambda: {"content": "1%" * 450_000}),
        )
        while True:
            for where, body in requests:
                await going.wait()
                busy["requests"] += 1
                await links.ask(f"h{asker}", "POST", where, body())
                busy["requests"] -= 1
                busy["sent"] += 1

    async def listen() -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        # No thread reads it: one that waits for a line would keep this process from ending when a request fails.
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while word := (await reader.readline()).decode().strip():
            if word == "go":
                going.set()
            else:
                going.clear()
                while busy["requests"]:  # noqa: ASYNC110 (until all of them have ended)
                    await asyncio.sleep(0.05)
                links.close()
            print(word, busy["sent"], flush=True)

    await asyncio.gather(listen(), *map(ask, range(CONNECTIONS)))


def _show(rounds: int, turns: int) -> None:
    measured = measure_quiet(
        rounds=rounds, turns=turns, causes=True, note=partial(print, flush=True)
    )
    for name, windows in (("alone", measured.alone), ("beside", measured.beside)):
        seconds = [end - begin for each in windows for begin, end in each]
        figures = ", ".join(
            f"p{share} {percentile(seconds, share / 100) * 1e3:.0f}" for share in (50, 90, 99)
        )
        shares = ", ".join(
            f"{kind} {share:.0%}" for kind, share in measured.causes(windows).items()
        )
        print(f"{name}: {len(seconds)} turns, {figures} ms; during the slowest 5%: {shares}")
    each = [
        measured.p99([b]) / measured.p99([a])
        for a, b in zip(measured.alone, measured.beside, strict=True)
    ]
    rounds_shown = ", ".join(f"{one:.1f}" for one in each)
    print(f"ratio of p99: {measured.ratio:.1f} (rounds {rounds_shown}), noise {measured.noise:.1f}")
    spans = [(window[0][0], window[-1][1]) for window in measured.beside]
    inside = [one for one in measured.intervals if any(b <= one.begin <= e for b, e in spans)]
    whole = sum(end - begin for begin, end in spans)
    for kind in KINDS:
        mine = [one for one in inside if one.kind == kind]
        lengths = [one.end - one.begin for one in mine] or [0.0]
        busy = sum(one.busy for one in mine)
        print(
            f"{kind}: {len(mine)} of 2 ms or more, {sum(lengths) / whole:.0%} of the time, "
            f"processor {busy / whole:.0%}, p99 {percentile(lengths, 0.99) * 1e3:.0f} ms, "
            f"longest {max(lengths) * 1e3:.0f} ms"
        )
        most = Counter[str]()
        for one in mine:
            most[one.what] += int((one.end - one.begin) * 1e6)
        for what, spent in most.most_common(12):
            print(f"   {spent / 1e6:.2f} s  {what[:230]}")
        for one in sorted(mine, key=lambda one: one.begin - one.end)[: 8 * (kind == "lock")]:
            print(f"   {(one.end - one.begin) * 1e3:.0f} ms at once  {one.what[:230]}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].startswith("http"):
        asyncio.run(_attack(*sys.argv[1:]))
    else:
        _show(*(int(word) for word in sys.argv[1:] or ("4", "250")))
