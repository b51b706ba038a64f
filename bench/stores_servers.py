"""What do PostgreSQL, and Redis in front of it, cost beside a bare INSERT on the same server?

The server runs on this machine and syncs every commit. The raw loop sends one prepared INSERT of two rows per turn.
There are no targets: a server on the same machine competes for the processors that are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from time import perf_counter

from bench.appends_runs import opened, take_turns
from bench.hosts import Guests
from bench.report import Report, Table, Target, duration
from bench.stores_turns import SCOPE, TALK, Lane, counter, fill, named, turns
from bench.timing import Samples, growth, ratio, shown_sizes
from turnfold import Message, ShortMemory
from turnfold.records import encode_message
from turnfold.runtime import drive
from turnfold.stores import Store

__all__ = ("QUESTION", "run")

QUESTION = "PostgreSQL beside a bare INSERT, and what Redis in front of it saves"
BUDGET = 8_000
WRITERS = 64
SHORT_TURNS = 60
PATIENCE = 12.0
"""Seconds of turns of one contender."""


@dataclass(frozen=True, slots=True)
class _Plan:
    sizes: Sequence[int]
    rounds: int
    turns: int
    calls: int


FULL = _Plan(sizes=(1_000, 10_000, 100_000), rounds=15, turns=200, calls=40)
QUICK = _Plan(sizes=(1_000, 10_000), rounds=3, turns=60, calls=10)


def run(guests: Guests, *, quick: bool) -> Report:
    """Measure appends, alone and beside peers, tails by size, and reads with a cache; without the servers, say so."""
    report = Report("stores_servers", QUESTION)
    try:
        from bench.stores_hosts import postgres_url, redis_url
    except ModuleNotFoundError as missing:
        return _left_out(report, f"the package {missing.name} is not installed")
    plan = QUICK if quick else FULL
    with postgres_url() as url:
        _appends(report, plan, url)
        for writers in (1, WRITERS):
            _beside_peers(report, plan, guests, url, writers)
        _tails(report, plan, url)
        with redis_url() as cache:
            _cached(report, plan, url, cache)
            _short_memory(report, plan, url, cache)
    return report


def _left_out(report: Report, why: str) -> Report:
    report.targets.append(Target("PostgreSQL and Redis", f"left out: {why}", None))
    return report


def _opened(url: str) -> Store:
    from turnfold.stores.postgres.store import PostgresStore

    return PostgresStore(url, blocking=True, counter=counter())


def _history(size: int) -> list[Message]:
    """So many messages; the newest are the same for every size."""
    said = turns(10_000)
    return [message for number in range(-size // 2, 0) for message in said[number % len(said)]]


def _raw(url: str) -> tuple[Callable[[int], None], Callable[[], None]]:
    """The loop, and what ends it."""
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE TABLE raw_log (id bigserial PRIMARY KEY, body bytea NOT NULL)")
    bodies = [tuple(map(encode_message, turn)) for turn in turns(2_000)]
    numbers = count()

    def append(many: int) -> None:
        for _ in range(many):
            body = bodies[next(numbers) % len(bodies)]
            connection.execute("INSERT INTO raw_log (body) VALUES (%b), (%b)", body, prepare=True)

    return append, connection.close


def _appends(report: Report, plan: _Plan, url: str) -> None:
    store = _opened(url)
    said = turns(2_000)
    numbers = count()

    def append(many: int) -> None:
        for _ in range(many):
            number = next(numbers)
            entries = named(said[number % len(said)], f"turn-{number:08}")
            drive(store.append(SCOPE, TALK, entries))

    raw_append, end = _raw(url)
    raw, ours = Lane("raw INSERT", raw_append), Lane("turnfold PostgresStore", append)
    for lane in (raw, ours):
        lane.append(plan.turns)
    for _ in range(plan.rounds):
        for lane in (raw, ours):
            lane.round(plan.turns)
    end()
    drive(store.close())
    rows = [
        [lane.name, lane.clock.shown(), duration(lane.processor.median), f"{share:.2f}"]
        for lane, share in ((raw, 1.0), (ours, ratio(raw.clock, ours.clock).middle))
    ]
    columns = ["one durable turn", "time", "processor of the client", "of the raw speed"]
    report.tables.append(Table("Append on PostgreSQL, one writer", columns, rows))
    report.figures["append"] = {lane.name: lane.figures() for lane in (raw, ours)}


def _beside_peers(report: Report, plan: _Plan, guests: Guests, url: str, writers: int) -> None:
    """Turns of one writer or of many, a conversation each, in one database."""
    everybody = [each for each in guests.offered("appended") if each.facts["served"]]
    if not everybody:
        return  # none of the peers that were chosen has a store of its own
    runs = opened(guests, everybody, url, f"w{writers}", writers=writers)
    take_turns(runs, rounds=plan.rounds, each=max(plan.turns // writers, 3), patience=PATIENCE)
    rows = [
        [
            run.name,
            run.clock.shown(),
            f"{1 / run.clock.median:,.0f}",
            duration(run.waits.percentile(0.99)),
        ]
        if run.clock.rounds
        else [run.name, f"failed: {run.failure[:80]}", "", ""]
        for run in runs
    ]
    for run in runs:
        run.attempt(lambda lane: lane.close())
    columns = [f"{writers} writers", "time per turn", "turns/s", "p99 of a writer"]
    notes = [f"{each.name}: {each.facts['note']}" for each in everybody] + guests.notes()
    report.tables.append(Table(f"Turns on PostgreSQL, {writers} writers", columns, rows, notes))
    report.figures[f"{writers} writers"] = {run.name: run.figures() for run in runs}


def _timed(works: dict[str, Callable[[], object]], plan: _Plan) -> dict[str, Samples]:
    """Calls that take turns, by the clock, after a round that is not counted."""
    samples = {name: Samples() for name in works}
    for number in range(plan.rounds + 1):
        for name, work in works.items():
            taken: list[float] = []
            for _ in range(plan.calls):
                begin = perf_counter()
                work()
                taken.append(perf_counter() - begin)
            if number:
                samples[name].rounds.append(taken)
    return samples


def _tails(report: Report, plan: _Plan, url: str) -> None:
    store = _opened(url)
    for size in plan.sizes:
        fill(store, _history(size), ids=False, talk=f"{TALK}-{size}")
    samples = _timed(
        {
            str(size): lambda size=size: drive(store.tail(SCOPE, f"{TALK}-{size}", tokens=BUDGET))
            for size in plan.sizes
        },
        plan,
    )
    drive(store.close())
    exponent = growth({int(size): each.median for size, each in samples.items()})
    rows = [["tail(8,000)", *(each.shown() for each in samples.values()), f"{exponent:+.2f}"]]
    columns = ["warm", *shown_sizes(plan.sizes), "exponent"]
    report.tables.append(
        Table("The newest messages on PostgreSQL, by messages held", columns, rows)
    )
    report.figures["tail"] = {size: each.figures() for size, each in samples.items()}


def _cached(report: Report, plan: _Plan, url: str, cache: str) -> None:
    import redis

    from turnfold.stores.redis.cache import CachedStore

    plain = _opened(url)
    cached = CachedStore(_opened(url), cache, blocking=True, timeout_seconds=1.0)
    talk = f"{TALK}-{max(plan.sizes)}"
    server = redis.Redis.from_url(cache, protocol=2)

    def read(store: Store) -> Callable[[], object]:
        return lambda: drive(store.tail(SCOPE, talk, tokens=BUDGET))

    samples = _timed({"PostgreSQL alone": read(plain), "with Redis, hit": read(cached)}, plan)
    missed = Samples()
    for number in range(plan.rounds + 1):
        taken: list[float] = []
        for _ in range(plan.calls):
            server.flushall()
            begin = perf_counter()
            read(cached)()
            taken.append(perf_counter() - begin)
        if number:
            missed.rounds.append(taken)
    samples["with Redis, miss"] = missed
    server.close()
    drive(plain.close())
    drive(cached.close())
    alone = samples["PostgreSQL alone"]
    rows = [[name, each.shown(), str(ratio(alone, each))] for name, each in samples.items()]
    columns = ["tail(8,000)", "time", "times as fast as PostgreSQL alone"]
    notes = [
        "a hit reads the head from PostgreSQL and the messages from Redis; a miss fills it again"
    ]
    title = f"Redis in front of PostgreSQL, {max(plan.sizes):,} messages held"
    report.tables.append(Table(title, columns, rows, notes))
    report.figures["cache"] = {name: each.figures() for name, each in samples.items()}


def _short_memory(report: Report, plan: _Plan, url: str, cache: str) -> None:
    """Read a session and query a conversation of document 003, without Redis and with it, in turns."""
    from turnfold.stores.redis.cache import CachedStore

    plain = _opened(url)
    cached = CachedStore(_opened(url), cache, blocking=True, timeout_seconds=1.0)
    without, behind = ShortMemory(plain), ShortMemory(cached)
    whole = f"{TALK}-whole"
    for talk in (TALK, whole):
        behind.create_short_memory(talk, "user")
        for asked, answered in turns(SHORT_TURNS):
            behind.write_turn(talk, user_query=asked.text, agent_response=answered.text)
    behind.checkpoint_short_memory(TALK, "a summary of the turns before")
    reads: dict[str, Callable[[ShortMemory], object]] = {
        "get_short_memory": lambda memory: memory.get_short_memory(TALK),
        "query_memory_context": lambda memory: memory.query_memory_context(TALK),
        "query_memory_context, no summary": lambda memory: memory.query_memory_context(whole),
    }
    rows: list[list[str]] = []
    figures: dict[str, object] = {}
    for name, read in reads.items():
        works = {"alone": partial(read, without), "with Redis": partial(read, behind)}
        samples = _timed(works, plan)
        alone, both = samples["alone"], samples["with Redis"]
        rows.append([name, alone.shown(), both.shown(), str(ratio(alone, both))])
        figures[name] = {place: each.figures() for place, each in samples.items()}
    drive(plain.close())
    drive(cached.close())
    columns = ["read", "PostgreSQL alone", "with Redis", "times as fast with Redis"]
    notes = [
        "with Redis, each is one row of PostgreSQL and one request to Redis; nothing is written meanwhile"
    ]
    title = f"Short-term memory of {SHORT_TURNS} turns"
    report.tables.append(Table(title, columns, rows, notes))
    report.figures["short memory"] = figures
