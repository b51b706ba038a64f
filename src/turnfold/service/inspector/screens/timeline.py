"""The home of a session: every call as a bar, so that folds, cuts and lost caches are seen before they are read of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.memory.inspecting import CallPoint, call_point
from turnfold.memory.manifests import Manifest
from turnfold.memory.recent_calls import recent_calls
from turnfold.service.inspector.asked import Looked, Shown, Viewing, screen
from turnfold.service.inspector.drawing import (
    breaks,
    budget_bar,
    landed,
    legend,
    parts_of,
    timeline,
)
from turnfold.service.inspector.markup import Node, address, tag
from turnfold.service.inspector.pieces import facts, moment, session_trail, table
from turnfold.service.inspector.words import Words

__all__ = ("session",)

_HEADS: Final = (
    "call",
    "tokens",
    "used",
    "prefix",
    "folded",
    "dropped",
    "shrunk",
    "change",
    "created",
    "compare",
)


class _Choice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    most: Annotated[int, Meta(ge=1, le=2000)] = 60
    after: Annotated[str, Meta(max_length=512)] | None = None
    """Calls after this one, instead of the newest; empty for the first."""


@screen("/sessions/{session}", choice=_Choice)
async def session(view: Viewing[_Choice]) -> Shown:
    """The timeline."""
    words, looked = view.words, await view.look()
    name, live = looked.session.id, await looked.live()
    calls = [call_point(each) for each in await _calls(looked, view.choice)]
    links = {call.call: address("sessions", name, "calls", call.call) for call in calls}
    status = await looked.session.status()
    return Shown(
        title=name,
        session=name,
        tab="timeline",
        trail=session_trail(words, name)[:1],
        live=live if view.choice.after is None else "",
        body=(
            facts(
                [
                    (words("turns"), f"{status.turns:,}"),
                    (words("entries"), f"{status.entries:,}"),
                    (words("tokens"), f"{status.tokens:,}"),
                    (words("checkpoint"), tag("code", status.checkpoint or "-")),
                    (words("counter"), tag("code", looked.head.counter or "-")),
                ]
            ),
            *(_drawn(view, name, calls, links) if calls else [tag("p", words("no calls yet"))]),
        ),
    )


async def _calls(looked: Looked, choice: _Choice) -> list[Manifest]:
    if choice.after is None:
        return await recent_calls(looked.session, most=choice.most)
    return await looked.session.calls(after=choice.after, limit=choice.most)


def _drawn(
    view: Viewing[_Choice], name: str, calls: Sequence[CallPoint], links: dict[str, str]
) -> Iterator[Node]:
    words, last = view.words, calls[-1]
    parts = parts_of(last)
    yield tag(
        "section",
        budget_bar(parts, last.allowed, words),
        legend(parts, words, free=max(last.allowed - last.tokens, 0)),
        aria_label=words("newest"),
    )
    yield tag("div", timeline(calls, words, links), class_="scroll", tabindex=0)
    yield _paging(view, name, calls)
    before: CallPoint | None = None
    rows: list[list[Node]] = []
    for call in calls:
        rows.append(_row(call, before, name, words, links[call.call]))
        before = call
    yield table([words(head) for head in _HEADS], reversed(rows), class_="calls")


def _paging(view: Viewing[_Choice], name: str, calls: Sequence[CallPoint]) -> Node:
    words, choice = view.words, view.choice
    newest = choice.after is None
    said = (
        words("the newest {shown:,} calls", shown=len(calls))
        if newest
        else words("calls from {first} on", first=calls[0].call)
    )
    links = [
        (words("from the first"), address("sessions", name, after="", most=choice.most)),
        (words("newest"), address("sessions", name, most=choice.most)),
    ]
    if len(calls) == choice.most:
        if newest:
            more = address("sessions", name, most=min(choice.most * 4, 2000))
            links.append((words("show more"), more))
        else:
            after = address("sessions", name, after=calls[-1].call, most=choice.most)
            links.append((words("next"), after))
    return tag(
        "p",
        f"{said} · ",
        [n for label, href in links for n in (tag("a", label, href=href), " · ")][:-1],
    )


def _row(
    call: CallPoint, before: CallPoint | None, name: str, words: Words, href: str
) -> list[Node]:
    changed: list[str] = []
    if landed(before, call):
        changed.append(f"{words('checkpoint')} {call.checkpoint}")
    elif breaks(before, call):
        changed.append(words("cut"))
    if before is not None and call.kept_prefix < 1.0:
        changed.append(words("cache break"))
    compare: Node = None
    if before is not None:
        query = address("sessions", name, "diff", before=before.call, after=call.call)
        compare = tag("a", words("compare"), href=query)
    return [
        tag("a", call.call, href=href, class_="row"),
        f"{call.tokens:,}",
        f"{call.tokens / call.allowed:.0%}" if call.allowed else "-",
        f"{call.kept_prefix:.0%}",
        f"{call.folded:,}",
        f"{call.dropped:,}",
        f"{call.shrunk:,}",
        ", ".join(changed),
        moment(call.created),
        compare,
    ]
