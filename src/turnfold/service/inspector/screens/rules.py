"""Screen of the rules (standing instructions of the user), with their kinds and entries; ended rules come last."""

from __future__ import annotations

from turnfold.rules import StandingRule
from turnfold.service.inspector.html import Node, address, session_trail, table, tag
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import NoQuery, RenderedScreen, ScreenRequest, screen

__all__ = ("rules",)


@screen("/sessions/{session}/rules")
async def rules(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render the page with a session's rules (standing instructions of the user), active rules first."""
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
        about="Instructions of the user, word for word; calls show active ones once their messages left the window.",
        trail=session_trail(words, name),
        body=(
            table([words(head) for head in heads], rows)
            if rows
            else tag("p", words("no rules yet")),
        ),
        live=await view.live(),
    )


def _row(rule: StandingRule, name: str, words: PageLabels) -> list[Node]:
    said = tag("a", f"#{rule.seq}", href=_entry(name, rule.seq), class_="row") if rule.seq else "-"
    state: list[Node] = [tag("span", words(rule.state), class_=f"chip rule-{rule.state}")]
    if rule.ended:
        state += [
            f" {words('by entry')} ",
            tag("a", f"#{rule.ended}", href=_entry(name, rule.ended)),
        ]
    return [said, words(rule.kind), tag("span", *state), tag("span", rule.text, dir="auto")]


def _entry(name: str, seq: int) -> str:
    return address("sessions", name, "log", after=seq - 1, upto=seq)
