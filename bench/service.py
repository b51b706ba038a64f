"""What does the way over HTTP cost? Fifty clients write a turn and take a context, embedded and served.

The service is `turnfold serve` in a process of its own, on SQLite, durable on every answer. Three lanes do the same
work: the memory in this process, bare keep-alive connections (what the service itself can do), and the Python client
(what a program gets). Whoever asks shares the processors with who answers, so served figures are those of both.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import urlsplit

from bench.report import Report, Table, Target, duration
from bench.stores_turns import scratch, turns
from turnfold.budget import Budget
from turnfold.client import AsyncRemoteMemory, AsyncRemoteShortMemory
from turnfold.memory import AsyncMemory, AsyncShortMemory

__all__ = ("QUESTION", "run")

QUESTION = "What does the way over HTTP cost?"
CLIENTS = 50
BUDGET = 4_000
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

    def row(self, embedded: Lane) -> list[str]:
        """Its figures, and how they stand to those of the embedded memory."""
        return [
            self.name,
            f"{self.rate:,.0f}",
            f"{self.rate / embedded.rate:.2f}",
            *(duration(_percentile(self.write, share)) for share in (0.5, 0.99)),
            *(duration(_percentile(self.context, share)) for share in (0.5, 0.99)),
        ]


def run(*, quick: bool) -> Report:
    """Measure the three lanes, round by round, each time on a fresh file."""
    report = Report("service", QUESTION)
    many, rounds = (10, 1) if quick else (20, 5)
    lanes = [Lane("embedded"), Lane("served, bare connections"), Lane("served, Python client")]
    for _ in range(rounds):
        for lane, measure in zip(lanes, (_embedded, _bare, _client), strict=True):
            measure(lane, many)
    report.tables.append(
        Table(
            f"{CLIENTS} clients, {rounds} x {many} turns each: write_turn, then context ({BUDGET:,} tokens)",
            (
                "lane", "requests/s", "of embedded", "write p50", "write p99", "context p50",
                "context p99",
            ),
            [lane.row(lanes[0]) for lane in lanes],
            ["SQLite on disk, every write synced; one service process; the asker is on the same machine."],
        )
    )  # fmt: skip
    report.targets.append(
        Target("a served peer beside it", "none was installed here: left out", None)
    )
    report.figures = {
        lane.name: {
            "requests_per_second": lane.rate,
            "write_p99": _percentile(lane.write, 0.99),
            "context_p99": _percentile(lane.context, 0.99),
        }
        for lane in lanes
    }
    return report


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
        words = ["serve", "--store", f"sqlite:///{folder / 'chat.db'}", "--port", "0"]
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
        parts = urlsplit(url)
        links: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

        async def post(talk: str, path: str, body: dict[str, str]) -> None:
            if talk not in links:
                links[talk] = await asyncio.open_connection(parts.hostname, parts.port)
            reader, writer = links[talk]
            content = json.dumps(body).encode()
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            size = next(
                line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length")
            )
            await reader.readexactly(int(size.split(b":")[1]))

        def write(talk: str, asked: str, answered: str) -> Awaitable[object]:
            body = {"user_query": asked, "agent_response": answered}
            return post(talk, f"/v1/short-memories/{talk.replace(' ', '%20')}/turns", body)

        def context(talk: str, _: str, __: str) -> Awaitable[object]:
            return post(talk, f"/v1/sessions/{talk.replace(' ', '%20')}/context?form=record", {})

        await _timed(lane, many, write, context)
        for _, writer in links.values():
            writer.close()

    with _service() as url:
        asyncio.run(measure(url))


def _percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
