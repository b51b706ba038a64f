"""How the store and the service do; details are for who may see them."""

from __future__ import annotations

from collections.abc import Iterator

from turnfold.service.inspector.asked import NoChoice, Shown, Viewing, screen
from turnfold.service.inspector.markup import Node, tag
from turnfold.service.inspector.pieces import facts, table
from turnfold.service.tokens import Right
from turnfold.stores.protocol import Health

__all__ = ("health",)


@screen("/health")
async def health(view: Viewing[NoChoice]) -> Shown:
    """Whether everything is well."""
    words = view.words
    found = await view.memory.health()
    rows: list[tuple[str, Node]] = [
        (words("backend"), found.backend),
        (words("all is well"), words("yes") if found.ok else words("no")),
    ]
    body: list[Node] = [facts(rows)]
    if Right.ADMIN in view.caller.rights:
        body += _details(view, found)
    else:
        body.append(tag("p", words("details are for tokens with the right admin"), class_="note"))
    return Shown(title=words("health"), body=tuple(body))


def _details(view: Viewing[NoChoice], found: Health) -> Iterator[Node]:
    words, state = view.words, view.state
    if found.warnings:
        yield tag("h2", words("warnings"))
        yield tag("ul", [tag("li", each) for each in found.warnings], class_="refused")
    yield tag("h2", words("details"))
    yield table([words("name"), words("text")], sorted(found.details.items()))
    figures = state.setting.meter.snapshot()
    counted: list[list[Node]] = [
        [tag("code", name), f"{times:,}"] for name, times in sorted(figures.counts.items()) if times
    ]
    counted.append([words("streams open"), f"{sum(state.streams.values()):,}"])
    yield tag("h2", words("figures"))
    yield table([words("name"), words("how many")], counted)
    answered: list[list[Node]] = [
        [tag("code", name or "-"), str(status), f"{times:,}"]
        for (name, status), times in sorted(state.answered.items())
    ]
    yield tag("h2", words("answered requests"))
    yield table([words("name"), words("outcome"), words("how many")], answered)
