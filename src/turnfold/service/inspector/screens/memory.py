"""Screen of the pins, the state and the findings (remembered tool results) of a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from turnfold.records import Finding
from turnfold.service.inspector.html import (
    Node,
    address,
    json_block,
    moment,
    session_trail,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import NoQuery, RenderedScreen, ScreenRequest, screen

__all__ = ("memory",)


@screen("/sessions/{session}/memory")
async def memory(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render the page with a session's pins, state and valid findings (remembered tool results)."""
    words, view = request.words, await request.open()
    name = view.session.id
    pins = await view.session.pins()
    state = await view.session.state.all()
    findings = await view.session.findings.list()
    return RenderedScreen(
        title=f"{words('pins & findings')} · {name}",
        session=name,
        tab="memory",
        trail=session_trail(words, name),
        about="Pins, state and findings, which calls show in their tail beside rules and recalled entries.",
        body=(
            tag("h2", words("pins")),
            _pins(pins, words),
            tag("h2", words("state")),
            json_block(state, words) if state else tag("p", words("none")),
            tag("h2", words("findings (remembered tool results)")),
            *_findings(findings, name, words),
        ),
        live=await view.live(),
    )


def _pins(pins: Mapping[str, str], words: PageLabels) -> Node:
    if not pins:
        return tag("p", words("none"))
    rows: list[list[Node]] = [
        [tag("code", key), tag("span", text, dir="auto")] for key, text in pins.items()
    ]
    return table([words("name"), words("text")], rows, class_="pins")


def _findings(findings: tuple[Finding, ...], name: str, words: PageLabels) -> Iterator[Node]:
    if not findings:
        yield tag("p", words("none"))
        return
    rows: list[list[Node]] = []
    for each in findings:
        href = f"{address('sessions', name, 'log', after=each.seq - 1, upto=each.seq)}#entry-{each.seq}"
        rows.append(
            [
                tag("a", f"#{each.seq}", href=href, class_="row") if each.seq else "-",
                tag("code", f"{each.tool}({each.arguments})"),
                f"{each.score:.2f}",
                tag("span", each.content[:400], class_="excerpt", dir="auto"),
                moment(each.created),
                moment(each.expires) if each.expires else words("never"),
            ]
        )
    heads = ("entry", "tool", "score", "text", "created", "expires")
    yield table([words(head) for head in heads], rows, class_="findings")
