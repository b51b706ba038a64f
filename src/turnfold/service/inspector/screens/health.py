"""Screen of the health of the store and the service; details need the right `admin`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from turnfold.api import Right
from turnfold.service.inspector.html import Node, facts, table, tag
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import NoQuery, RenderedScreen, ScreenRequest, screen
from turnfold.stores import Health

__all__ = ("health",)


_MEANINGS: Final[Mapping[str, str]] = {
    "cache_misses": "calls whose prompt was not read from the provider's cache although it could have been",
    "checkpoints": "checkpoints (summaries) stored",
    "commits": "transactions committed",
    "contexts": "contexts assembled for a model call",
    "database_errors": "calls of the store that failed",
    "encryption": "encryption at rest",
    "entries": "entries appended to a log",
    "fold_failures": "attempts to fold that failed",
    "fold_requests": "requests to a model that writes summaries",
    "folds_lost": "folds dropped because another fold was first",
    "jobs": "reads and writes done",
    "meaning_entries": "entries whose vectors were computed",
    "meaning_failures": "recalls by meaning that failed",
    "path": "file of the store",
    "redis": "state of the cache",
    "redis.calls": "requests to the cache",
    "redis.crowded": "requests not sent because too many were running",
    "redis.failures": "requests to the cache that failed",
    "redis.outages": "outages of the cache",
    "redis.owed-erasures": "erasures that the cache still owes",
    "redis_failures": "requests to the cache that failed",
    "round_trips": "round trips to the server",
    "sqlite": "version of SQLite",
    "transactions": "transactions committed",
}
"""Name of a detail or metric of the store -> what it says; a test checks that no metric is missing."""


@screen("/health")
async def health(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render the page with the health of the store and the service."""
    words = request.words
    found = await request.memory.health()
    rows: list[tuple[str, Node]] = [
        (words("backend"), found.backend),
        (words("healthy"), words("yes") if found.ok else words("no")),
    ]
    body: list[Node] = [facts(rows)]
    if Right.ADMIN in request.caller.rights:
        body += _details(request, found)
    else:
        body.append(tag("p", words("details need a token with the right admin"), class_="note"))
    return RenderedScreen(title=words("health"), body=tuple(body))


def _details(request: ScreenRequest[NoQuery], found: Health) -> Iterator[Node]:
    words, state = request.words, request.state
    if found.warnings:
        yield tag("h2", words("warnings"))
        yield tag("ul", [tag("li", each) for each in found.warnings], class_="refused")
    yield tag("h2", words("details"))
    rows: list[list[Node]] = [
        [*_named(name, words), value] for name, value in sorted(found.details.items())
    ]
    yield table([words("meaning"), words("name"), words("text")], rows)
    counts = state.config.meter.snapshot().counts
    rows = [
        [*_named(name, words), f"{number:,}"] for name, number in sorted(counts.items()) if number
    ]
    rows.append([words("streams open"), "-", f"{sum(state.streams.values()):,}"])
    yield tag("h2", words("metrics"))
    yield table([words("meaning"), words("name"), words("number")], rows)
    requests: list[list[Node]] = [
        [_part_of_service(name, words), tag("code", name or "-"), str(status), f"{number:,}"]
        for (name, status), number in sorted(state.answered.items())
    ]
    yield tag("h2", words("requests"))
    yield table([words(head) for head in ("meaning", "name", "outcome", "number")], requests)


def _named(name: str, words: PageLabels) -> list[Node]:
    """Return two cells: what a figure counts, in the reader's language, and its name in metrics and logs."""
    return [words(_MEANINGS[name]) if name in _MEANINGS else "-", tag("code", name)]


def _part_of_service(name: str, words: PageLabels) -> str:
    """Return the part of the service that an operation belongs to."""
    if name.startswith("inspector"):
        return words("a page of the inspector")
    return words("an operation of the HTTP interface") if name else words("no known operation")
