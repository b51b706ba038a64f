"""How many turns do 200 sessions at once sustain on PostgreSQL with Redis in front, and how long does one wait?

Each session is a task of one event loop: what the user said, the context, what the assistant answered, and again, with
nobody thinking in between. So all 200 always want something, and the times are those of a process that does as much as
it can. Servers and clients share the processors of this machine; there are no targets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time

from bench.report import Report, Table, Target, duration
from bench.stores_turns import SCOPE, scratch, turns
from bench.timing import Samples
from turnfold import AsyncMemory, Budget, Message
from turnfold.memory import AsyncSession

__all__ = ("QUESTION", "run")

QUESTION = "turns of 200 concurrent sessions on PostgreSQL with Redis in front"
BUDGET = Budget(max_tokens=8_000)
MODEL = "gpt-4o"
SESSIONS = 200
_STEPS = ("user", "context", "assistant", "whole turn")


@dataclass(frozen=True, slots=True)
class _Plan:
    warm: int
    """Turns of each session before the clock starts."""
    each: int
    """Turns of each session that count."""


FULL = _Plan(warm=6, each=25)
QUICK = _Plan(warm=2, each=6)


@dataclass(slots=True)
class _Outcome:
    """What 200 sessions did."""

    name: str
    seconds: float = 0.0
    worked: float = 0.0
    made: int = 0
    times: dict[str, Samples] = field(
        default_factory=lambda: {step: Samples([[]]) for step in _STEPS}
    )
    verbs: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """Calls and mean seconds, by what was asked."""


def run(*, quick: bool) -> Report:
    """Measure PostgreSQL alone, with Redis, and a SQLite file for comparison; without the servers, say so."""
    report = Report("sessions", QUESTION)
    try:
        from bench.stores_hosts import postgres_url, redis_url
    except ModuleNotFoundError as missing:
        why = f"left out: the package {missing.name} is not installed"
        report.targets.append(Target("PostgreSQL and Redis", why, None))
        return report
    plan = QUICK if quick else FULL
    outcomes: list[_Outcome] = []
    with postgres_url() as url, redis_url() as cache:
        places: list[tuple[str, str, str | None]] = [
            ("PostgreSQL + Redis", url, cache),
            ("PostgreSQL", url, None),
        ]
        outcomes += [
            asyncio.run(_sessions(name, _address(place), redis, plan, prefix=name))
            for name, place, redis in places
        ]
    with scratch() as folder:
        address = f"sqlite:///{folder / 'sessions.db'}"
        outcomes.append(asyncio.run(_sessions("SQLite", address, None, plan, prefix="sqlite")))
    report.tables = [_table(outcomes), _verbs_table(outcomes)]
    for outcome in outcomes:
        claim = f"{SESSIONS} sessions on {outcome.name}"
        rate, slow = outcome.made / outcome.seconds, outcome.times["whole turn"].percentile(0.99)
        report.targets.append(Target(claim, f"{rate:,.0f} turns/s, p99 {duration(slow)}", None))
        report.figures[outcome.name] = {
            "turns per second": rate,
            **{step: _figures(each) for step, each in outcome.times.items()},
        }
    return report


def _address(conninfo: str) -> str:
    """The server's address as a URL, which is what a memory takes."""
    from urllib.parse import quote, urlencode

    from psycopg.conninfo import conninfo_to_dict

    parts = {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
    user, database = parts.pop("user"), parts.pop("dbname")
    return f"postgresql://{quote(user)}@/{quote(database)}?{urlencode(parts)}"


async def _sessions(
    name: str, address: str, cache: str | None, plan: _Plan, *, prefix: str
) -> _Outcome:
    outcome = _Outcome(name)
    async with AsyncMemory(address, cache=cache, scope=SCOPE, model=MODEL, budget=BUDGET) as memory:
        held = [memory.session(f"{prefix} {number:03}") for number in range(SESSIONS)]
        said = turns(2_000)
        await asyncio.gather(*(_talk(each, said[: plan.warm], None) for each in held))
        before = {metric: (each.count, each.total) for metric, each in memory.meter.values.items()}
        begin, worked = perf_counter(), process_time()
        spans = [said[plan.warm + at :][: plan.each] for at in range(SESSIONS)]
        await asyncio.gather(
            *(_talk(each, span, outcome) for each, span in zip(held, spans, strict=True))
        )
        outcome.seconds, outcome.worked = perf_counter() - begin, process_time() - worked
        for metric, (count, total) in before.items():
            now = memory.meter.values[metric]
            if metric.endswith("_seconds") and now.count > count:
                asked = now.count - count
                outcome.verbs[metric] = asked, (now.total - total) / asked
    return outcome


async def _talk(
    session: AsyncSession, span: Sequence[tuple[Message, Message]], outcome: _Outcome | None
) -> None:
    for asked, answered in span:
        begin = perf_counter()
        await session.add(asked)
        said = perf_counter()
        await session.context()
        built = perf_counter()
        await session.add(answered)
        end = perf_counter()
        if outcome is not None:
            outcome.made += 1
            for step, seconds in zip(
                _STEPS, (said - begin, built - said, end - built, end - begin), strict=True
            ):
                outcome.times[step].rounds[0].append(seconds)


def _figures(samples: Samples) -> dict[str, float]:
    return {**samples.figures(), "p99": samples.percentile(0.99)}


def _table(outcomes: Sequence[_Outcome]) -> Table:
    rows = [
        [
            outcome.name,
            f"{outcome.made / outcome.seconds:,.0f}",
            duration(outcome.worked / outcome.made),
            *(
                f"{duration(each.median)} ({duration(each.percentile(0.99))})"
                for each in outcome.times.values()
            ),
        ]
        for outcome in outcomes
    ]
    columns = [f"{SESSIONS} sessions", "turns/s", "processor of a turn", *_STEPS]
    notes = [
        "by the clock, 50th (99th) percentile; a turn: what the user said, the context with its manifest, the answer",
        f"one process, one event loop; {outcomes[0].made:,} turns each; the processor is that of the client",
    ]
    return Table("Turns, all sessions at once", columns, rows, notes)


def _verbs_table(outcomes: Sequence[_Outcome]) -> Table:
    rows = [
        [f"{outcome.name}: {verb}", f"{count / outcome.made:.2f}", duration(mean)]
        for outcome in outcomes
        for verb, (count, mean) in outcome.verbs.items()
    ]
    return Table(
        "What a turn asks", ["asked", "calls of a turn", "mean time, waiting included"], rows
    )
