"""Screen of the log: all entries in order, including those that calls leave out or summarise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from turnfold.errors import InvalidOption
from turnfold.inspect import excerpt
from turnfold.records import Entry, encode_message
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    entry_range,
    message_block,
    moment,
    session_trail,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import (
    OpenedConversation,
    RenderedScreen,
    ScreenRequest,
    screen,
)
from turnfold.service.routes.sessions import bounded_page

__all__ = ("log",)


_Seq = Annotated[int, Meta(ge=0, le=(1 << 62))]


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: _Seq | None = None
    """Seq (log position) after which entries are shown; without it, the newest entries are shown."""
    upto: _Seq | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


@screen("/sessions/{session}/log", query=_Query)
async def log(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render a page of the session's log; raises `InvalidOption` if `after` is beyond its end."""
    words, query, view = request.words, request.query, await request.open()
    name, last, live = view.session.id, view.head.seq, await view.live()
    upto = last if query.upto is None else min(query.upto, last)
    start = max(upto - query.limit, 0) if query.after is None else query.after
    if start > last:
        raise InvalidOption(
            f"after={start:,} is beyond the end of the log, entry {last:,}; give a smaller number"
        )
    wanted = min(query.limit, upto - start)
    entries = await _read(view, start, wanted)
    return RenderedScreen(
        title=f"{words('log')} · {name}",
        session=name,
        tab="log",
        about="Everything that was said, called and seen, in order; nothing is removed by a fold.",
        trail=session_trail(words, name),
        body=_body(view, start, entries, query.limit, words),
        live=live if query.after is None else "",
    )


async def _read(view: OpenedConversation, start: int, wanted: int) -> list[Entry]:
    """Return at most `wanted` entries after `start`, fewer if they are large."""

    async def read(after: int, limit: int) -> list[Entry]:
        return await view.session.history(after=after, limit=limit)

    found, _ = await bounded_page(
        read,
        start,
        wanted,
        place=lambda each: each.seq,
        size=lambda each: len(encode_message(each.message)),
    )
    return found


def _body(
    view: OpenedConversation, start: int, entries: list[Entry], limit: int, words: PageLabels
) -> Iterator[Node]:
    yield _paging(view, start, entries, limit, words)
    yield tag("ol", [_entry(each, words) for each in entries], class_="items logged")


def _paging(
    view: OpenedConversation, start: int, entries: list[Entry], limit: int, words: PageLabels
) -> Element:
    name, last = view.session.id, view.head.seq
    links: list[Node] = []
    if entries:
        first, end = entries[0].seq, entries[-1].seq
        links.append(f"{entry_range(first, end, words)} / {last:,}")
    if start > 0:
        back = address("sessions", name, "log", after=max(start - limit, 0), limit=limit)
        links += [" · ", tag("a", words("previous"), href=back, rel="prev")]
    if entries and entries[-1].seq < last:
        on = address("sessions", name, "log", after=entries[-1].seq, limit=limit)
        links += [" · ", tag("a", words("next"), href=on, rel="next")]
    return tag("p", links)


def _entry(entry: Entry, words: PageLabels) -> Element:
    message = entry.message
    return tag(
        "li",
        tag(
            "details",
            tag(
                "summary",
                tag("span", f"#{entry.seq}", class_="quiet number"),
                tag("span", words("turn {turn}", turn=entry.turn), class_="quiet"),
                tag("strong", words.known(message.role)),
                tag("span", f"{entry.tokens:,}", class_="number"),
                tag(
                    "span", excerpt(message, language=words.language), class_="excerpt", dir="auto"
                ),
                moment(entry.created),
                class_="row",
            ),
            message_block(message, words),
            tag("p", "client_id ", tag("code", entry.client_id), class_="quiet")
            if entry.client_id
            else None,
        ),
        class_=f"item role-{message.role}",
        id=f"entry-{entry.seq}",
        data_seq=entry.seq,
    )
