"""Screen of the health of the store and the service; details need the right `admin`."""

from __future__ import annotations

from collections.abc import Iterator

from turnfold.api import Right
from turnfold.service.inspector.html import Node, facts, table, tag
from turnfold.service.inspector.screen_types import NoQuery, RenderedScreen, ScreenRequest, screen
from turnfold.stores import Health

__all__ = ("health",)


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
        [tag("code", name), value] for name, value in sorted(found.details.items())
    ]
    yield table([words("name"), words("text")], rows)
    counts = state.config.meter.snapshot().counts
    rows = [[tag("code", name), f"{number:,}"] for name, number in sorted(counts.items()) if number]
    rows.append([words("streams open"), f"{sum(state.streams.values()):,}"])
    yield tag("h2", words("metrics"))
    yield table([words("name"), words("number")], rows)
    requests: list[list[Node]] = [
        [tag("code", name or "-"), str(status), f"{number:,}"]
        for (name, status), number in sorted(state.answered.items())
    ]
    yield tag("h2", words("requests"))
    yield table([words("name"), words("outcome"), words("number")], requests)
