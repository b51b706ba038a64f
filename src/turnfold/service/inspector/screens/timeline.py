"""Start screen of a session: a bar per call, and marks for folds (compactions), cuts and prompt cache breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.inspect import CallPoint, call_numbers, call_point, recent_calls
from turnfold.memory import Manifest
from turnfold.service.inspector.charts import (
    breaks_cache,
    budget_bar,
    has_new_checkpoint,
    legend,
    lost_from_cache,
    mark_legend,
    parts_of,
    timeline,
)
from turnfold.service.inspector.html import (
    Node,
    address,
    checkpoint_link,
    facts,
    moment,
    session_trail,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import (
    OpenedConversation,
    RenderedScreen,
    ScreenRequest,
    screen,
)

__all__ = ("session",)


_HEADS: Final = (
    "call",
    "tokens",
    "used",
    "prefix",
    "folded",
    "dropped",
    "shortened",
    "change",
    "created",
    "compare",
)


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    most: Annotated[int, Meta(ge=1, le=2000)] = 60
    after: Annotated[str, Meta(max_length=512)] | None = None
    """Id of the call after which calls are shown, instead of the newest; empty to start with the first call."""


@screen("/sessions/{session}", query=_Query)
async def session(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the timeline of a session: one bar per call, marks for folds (compactions), cuts and cache breaks."""
    words, view = request.words, await request.open()
    name, live = view.session.id, await view.live()
    numbers = await call_numbers(view.session)
    made = await _calls(view, request.query)
    calls = [call_point(each, numbers.get(each.call, 0)) for each in made]
    links = {call.call: address("sessions", name, "calls", call.call) for call in calls}
    status = await view.session.status()
    return RenderedScreen(
        title=name,
        session=name,
        tab="timeline",
        about="One bar per model call, by section; click a bar or a number to see what the model saw.",
        trail=session_trail(words, name)[:1],
        live=live if request.query.after is None else "",
        body=(
            facts(
                [
                    (words("calls"), f"{len(numbers):,}"),
                    (words("turns"), f"{status.turns:,}"),
                    (words("entries"), f"{status.entries:,}"),
                    (words("tokens"), f"{status.tokens:,}"),
                    (words("checkpoint"), checkpoint_link(name, status.checkpoint, words)),
                    (words("counter"), tag("code", view.head.counter or "-")),
                ]
            ),
            *(
                _sections(request, name, calls, links)
                if calls
                else [tag("p", words("no calls yet"))]
            ),
        ),
    )


async def _calls(view: OpenedConversation, query: _Query) -> list[Manifest]:
    if query.after is None:
        return await recent_calls(view.session, most=query.most)
    return await view.session.calls(after=query.after, limit=query.most)


def _sections(
    request: ScreenRequest[_Query], name: str, calls: Sequence[CallPoint], links: dict[str, str]
) -> Iterator[Node]:
    words, last = request.words, calls[-1]
    parts = parts_of(last)
    yield tag(
        "section",
        budget_bar(parts, last.allowed, words),
        legend(parts, words, free=max(last.allowed - last.tokens, 0)),
        aria_label=words("newest"),
    )
    yield tag("div", timeline(calls, words, links), class_="scroll", tabindex=0)
    yield mark_legend(words)
    yield _paging(request, name, calls)
    before: CallPoint | None = None
    rows: list[list[Node]] = []
    for call in calls:
        rows.append(_row(call, before, name, words, links[call.call]))
        before = call
    yield table([words(head) for head in _HEADS], reversed(rows), class_="calls")
    yield tag(
        "p",
        words(
            "call: its number in this session. used: share of the budget. prefix: share of the previous call that this "
            "one repeats at its beginning. folded, dropped, shortened: entries; a shortened one keeps its beginning "
            "and its end."
        ),
        class_="quiet",
    )


def _paging(request: ScreenRequest[_Query], name: str, calls: Sequence[CallPoint]) -> Node:
    words, query = request.words, request.query
    newest = query.after is None
    label = (
        words("the newest {shown:,} calls", shown=len(calls))
        if newest
        else words("calls from {first:,} on", first=calls[0].number)
    )
    links = [
        (words("from the first"), address("sessions", name, after="", most=query.most)),
        (words("newest"), address("sessions", name, most=query.most)),
    ]
    if len(calls) == query.most:
        if newest:
            more = address("sessions", name, most=min(query.most * 4, 2000))
            links.append((words("show more"), more))
        else:
            after = address("sessions", name, after=calls[-1].call, most=query.most)
            links.append((words("next"), after))
    return tag(
        "p",
        f"{label} · ",
        [n for label, href in links for n in (tag("a", label, href=href), " · ")][:-1],
    )


def _row(
    call: CallPoint, before: CallPoint | None, name: str, words: PageLabels, href: str
) -> list[Node]:
    changed: list[Node] = []
    if has_new_checkpoint(before, call):
        changed += [words("fold"), " ", checkpoint_link(name, call.checkpoint, words), "; "]
    elif breaks_cache(before, call):
        changed += [words("cut"), "; "]
    if lost := lost_from_cache(before, call):
        changed.append(words("cache break: {tokens:,} tokens are paid for again", tokens=lost))
    elif changed:
        changed.pop()
    compare: Node = None
    if before is not None:
        query = address("sessions", name, "diff", before=before.call, after=call.call)
        compare = tag("a", words("compare"), href=query)
    return [
        tag("a", f"{call.number:,}", href=href, class_="row", title=call.call),
        f"{call.tokens:,}",
        f"{call.tokens / call.allowed:.0%}" if call.allowed else "-",
        f"{call.kept_prefix:.0%}",
        f"{call.folded:,}",
        f"{call.dropped:,}",
        f"{call.shrunk:,}",
        tag("span", changed) if changed else None,
        moment(call.created),
        compare,
    ]
