"""Screen of the rules: what the user laid down, with its kind and the entry it was said in; ended ones last."""

from __future__ import annotations

from turnfold.rules import StandingRule
from turnfold.service.inspector.html import Node, address, session_trail, table, tag
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen import NoQuery, RenderedScreen, ScreenRequest, screen

__all__ = ("rules",)


@screen("/sessions/{session}/rules")
async def rules(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render the rules of a session, the active ones first."""
    words, view = request.words, await request.open()
    name = view.session.id
    found = await view.session.rules(ended=True)
    ordered = sorted(found, key=lambda rule: rule.state != "active")
    heads = ("entry", "kind", "state", "text")
    rows = [_row(rule, name, words) for rule in ordered]
    return RenderedScreen(
        title=f"{words('rules')} · {name}",
        session=name,
        tab="rules",
        trail=session_trail(words, name),
        body=(
            table([words(head) for head in heads], rows)
            if rows
            else tag("p", words("no rules yet")),
        ),
        live=await view.live(),
    )


def _row(rule: StandingRule, name: str, words: PageLabels) -> list[Node]:
    said = tag("a", str(rule.seq), href=_entry(name, rule.seq)) if rule.seq else "-"
    state: list[Node] = [words(rule.state)]
    if rule.ended:
        state += [" ", tag("a", str(rule.ended), href=_entry(name, rule.ended))]
    return [said, words(rule.kind), tag("span", *state), rule.text]


def _entry(name: str, seq: int) -> str:
    return address("sessions", name, "log", after=seq - 1, upto=seq)
