"""What does the way over HTTP cost? Fifty clients write a turn and take a context, embedded and served.

The service is `turnfold serve` in a process of its own, on SQLite, durable on every answer. Three lanes do the same
work: the memory in this process, bare keep-alive connections (what the service itself can do), and the Python client
(what a program gets). A fourth asks a served peer over the same bare connections. Whoever asks shares the processors
with who answers, so served figures are those of both.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import quote

from bench.bare_http import BareConnections
from bench.report import Report, Table, Target, duration
from bench.service_peer import NAME as PEER
from bench.service_peer import PeerAbsent, served_peer
from bench.service_tenants import measure_quiet
from bench.stores_turns import scratch, turns
from bench.timing import percentile
from turnfold.budget import Budget
from turnfold.client import AsyncRemoteMemory, AsyncRemoteShortMemory
from turnfold.memories import AsyncShortMemory
from turnfold.memory import AsyncMemory

__all__ = ("QUESTION", "run")

QUESTION = "What does the way over HTTP cost?"
CLIENTS = 50
BUDGET = 4_000
_NOTES = (
    "Ours: SQLite on disk, every write synced; one service process; the asker is on the same machine.",
    "The peer: one process; its Redis keeps nothing on disk; no model is called.",
    "Its PUT replaces the working memory, so a write sends the whole talk again; it reads by its prompt endpoint.",
)
Step = Callable[[str, str, str], Awaitable[object]]


@dataclass(slots=True)
class Lane:
    """One way to ask: seconds of each request, and of all together."""

    name: str
    write: list[float] = field(default_factory=list[float])
    context: list[float] = field(default_factory=list[float])
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Requests a second."""
        return (len(self.write) + len(self.context)) / self.seconds

    @property
    def figures(self) -> dict[str, float]:
        """For machines."""
        return {
            "requests_per_second": self.rate,
            "write_p99": percentile(self.write, 0.99),
            "context_p99": percentile(self.context, 0.99),
        }

    def row(self, embedded: Lane) -> list[str]:
        """Its figures, and how they stand to those of the embedded memory."""
        return [
            self.name,
            f"{self.rate:,.0f}",
            f"{self.rate / embedded.rate:.2f}",
            *(duration(percentile(self.write, share)) for share in (0.5, 0.99)),
            *(duration(percentile(self.context, share)) for share in (0.5, 0.99)),
        ]


def run(*, quick: bool) -> Report:
    """Measure the lanes, round by round, each time on a fresh file."""
    report = Report("service", QUESTION)
    many, rounds = (10, 1) if quick else (20, 5)
    lanes = [
        Lane("embedded"),
        Lane("served, bare connections"),
        Lane("served, Python client"),
        Lane(f"{PEER}, bare connections"),
    ]
    absent = ""
    for _ in range(rounds):
        for lane, measure in zip(lanes, (_embedded, _bare, _client), strict=False):
            measure(lane, many)
        if not absent:
            absent = _asked_peer(lanes[-1], many)
    measured = lanes[:-1] if absent else lanes
    report.tables.append(_table(measured, many, rounds))
    report.targets.append(_beside(lanes[1], lanes[3], absent))
    report.targets.append(_quiet_beside_hostile(rounds=1 if quick else 4))
    report.figures = {lane.name: lane.figures for lane in measured}
    return report


def _table(lanes: list[Lane], many: int, rounds: int) -> Table:
    return Table(
        f"{CLIENTS} clients, {rounds} x {many} turns each: write_turn, then context ({BUDGET:,} tokens)",
        (
            "lane", "requests/s", "of embedded", "write p50", "write p99", "context p50",
            "context p99",
        ),
        [lane.row(lanes[0]) for lane in lanes],
        _NOTES if len(lanes) > 3 else _NOTES[:1],
    )  # fmt: skip


def _beside(ours: Lane, peer: Lane, absent: str) -> Target:
    claim = "a served peer beside it, the same connections in the same run"
    if absent:
        return Target(claim, f"{PEER} {absent}", None)
    times = ours.rate / peer.rate
    return Target(claim, f"{times:.1f} x the requests/s of {PEER}", times >= 1)


def _quiet_beside_hostile(*, rounds: int) -> Target:
    measured = measure_quiet(rounds=rounds, turns=250)
    before, now = measured.p99(measured.alone), measured.p99(measured.beside)
    return Target(
        "p99 of a quiet tenant beside a hostile one, within 3 x of alone",
        f"{measured.ratio:.1f} x: {duration(now)} beside, {duration(before)} alone; {measured.noise:.1f} x without it",
        measured.ratio <= 3,
    )


async def _timed(lane: Lane, many: int, write: Step, context: Step) -> None:
    said = turns(500)

    async def work(client: int) -> None:
        talk = f"talk {client}"
        for number in range(many):
            asked, answered = said[(client * many + number) % len(said)]
            begin = perf_counter()
            await write(talk, asked.text, answered.text)
            middle = perf_counter()
            await context(talk, "", "")
            lane.write.append(middle - begin)
            lane.context.append(perf_counter() - middle)

    begin = perf_counter()
    await asyncio.gather(*map(work, range(CLIENTS)))
    lane.seconds += perf_counter() - begin


def _embedded(lane: Lane, many: int) -> None:
    async def measure(store: str) -> None:
        async with AsyncMemory(store, budget=Budget(max_tokens=BUDGET)) as memory:
            short = AsyncShortMemory(memory.store)
            await _timed(
                lane,
                many,
                lambda talk, asked, answered: short.write_turn(
                    talk, user_query=asked, agent_response=answered
                ),
                lambda talk, _, __: memory.session(talk).context(),
            )

    with scratch() as folder:
        asyncio.run(measure(f"sqlite:///{folder / 'chat.db'}"))


@contextmanager
def _service() -> Iterator[str]:
    with scratch() as folder:
        words = [
            "serve",
            "--store",
            f"sqlite:///{folder / 'chat.db'}",
            "--port",
            "0",
            "--no-secret",
        ]
        process = subprocess.Popen(  # noqa: S603 (words written here)
            [sys.executable, "-m", "turnfold", *words, "--budget", str(BUDGET)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "listening on " in line)
            yield line.split("listening on ")[1].strip()
        finally:
            process.terminate()
            process.communicate()


def _client(lane: Lane, many: int) -> None:
    async def measure(url: str) -> None:
        async with AsyncRemoteMemory(url) as memory, AsyncRemoteShortMemory(url) as short:
            await _timed(
                lane,
                many,
                lambda talk, asked, answered: short.write_turn(
                    talk, user_query=asked, agent_response=answered
                ),
                lambda talk, _, __: memory.session(talk).context(),
            )

    with _service() as url:
        asyncio.run(measure(url))


def _bare(lane: Lane, many: int) -> None:
    async def measure(url: str) -> None:
        links = BareConnections(url)

        def write(talk: str, asked: str, answered: str) -> Awaitable[object]:
            body = {"user_query": asked, "agent_response": answered}
            return links.ask(talk, "POST", f"/v1/short-memories/{quote(talk)}/turns", body)

        def context(talk: str, _: str, __: str) -> Awaitable[object]:
            return links.ask(talk, "POST", f"/v1/sessions/{quote(talk)}/context?form=record", {})

        await _timed(lane, many, write, context)
        links.close()

    with _service() as url:
        asyncio.run(measure(url))


def _asked_peer(lane: Lane, many: int) -> str:
    """Ask the peer, once more; why that did not work, where it did not."""
    try:
        _peer(lane, many)
    except PeerAbsent as error:
        return str(error)
    except (AssertionError, EOFError, OSError) as error:
        return f"failed while it was asked: {error or type(error).__name__}"
    return ""


def _peer(lane: Lane, many: int) -> None:
    async def measure(url: str) -> None:
        links = BareConnections(url)
        said: dict[str, list[dict[str, str]]] = {}

        def write(talk: str, asked: str, answered: str) -> Awaitable[object]:
            all_of_it = said.setdefault(talk, [])
            all_of_it += [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": answered},
            ]
            # A window so large that the server never calls a model to summarise.
            path = f"/v1/working-memory/{quote(talk)}?context_window_max=100000000"
            return links.ask(talk, "PUT", path, {"messages": all_of_it})

        def context(talk: str, _: str, __: str) -> Awaitable[object]:
            session = {"session_id": talk, "context_window_max": BUDGET}
            return links.ask(talk, "POST", "/v1/memory/prompt", {"query": "?", "session": session})

        await _timed(lane, many, write, context)
        links.close()

    with served_peer() as url:
        asyncio.run(measure(url))
