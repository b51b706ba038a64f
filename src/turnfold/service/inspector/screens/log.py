"""What was said, entry by entry, folded or not: the originals behind every summary and every cut."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from turnfold.errors import InvalidOption
from turnfold.memory.inspecting import excerpt
from turnfold.records import Entry
from turnfold.service.inspector.asked import Looked, Shown, Viewing, screen
from turnfold.service.inspector.markup import Element, Node, address, tag
from turnfold.service.inspector.pieces import message_block, moment, session_trail
from turnfold.service.inspector.words import Words

__all__ = ("log",)

_Seq = Annotated[int, Meta(ge=0, le=(1 << 62))]


class _Choice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: _Seq | None = None
    """Entries after this one; the newest where it is not given."""
    upto: _Seq | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


@screen("/sessions/{session}/log", choice=_Choice)
async def log(view: Viewing[_Choice]) -> Shown:
    """A page of the log."""
    words, choice, looked = view.words, view.choice, await view.look()
    name, last, live = looked.session.id, looked.head.seq, await looked.live()
    upto = last if choice.upto is None else min(choice.upto, last)
    start = max(upto - choice.limit, 0) if choice.after is None else choice.after
    if start > last:
        raise InvalidOption(f"after={start:,}, and the log ends at {last:,}")
    wanted = min(choice.limit, upto - start)
    entries = await looked.session.history(after=start, limit=wanted) if wanted > 0 else []
    return Shown(
        title=f"{words('log')} · {name}",
        session=name,
        tab="log",
        trail=session_trail(words, name),
        body=(
            _paging(looked, start, entries, choice.limit, words),
            tag("ol", [_entry(each, words) for each in entries], class_="items"),
        ),
        live=live if choice.after is None else "",
    )


def _paging(looked: Looked, start: int, entries: list[Entry], limit: int, words: Words) -> Element:
    name, last = looked.session.id, looked.head.seq
    links: list[Node] = []
    if entries:
        first, end = entries[0].seq, entries[-1].seq
        said = words("entries {first:,} to {last:,}", first=first, last=end)
        links.append(f"{said} / {last:,} · ")
    if start > 0:
        back = address("sessions", name, "log", after=max(start - limit, 0), limit=limit)
        links += [tag("a", words("before"), href=back, rel="prev"), " · "]
    if entries and entries[-1].seq < last:
        on = address("sessions", name, "log", after=entries[-1].seq, limit=limit)
        links.append(tag("a", words("next"), href=on, rel="next"))
    return tag("p", links)


def _entry(entry: Entry, words: Words) -> Element:
    message = entry.message
    return tag(
        "li",
        tag(
            "details",
            tag(
                "summary",
                tag("span", f"#{entry.seq}", class_="quiet number"),
                tag("span", f"{words('turn')} {entry.turn}", class_="quiet"),
                tag("strong", words.known(message.role)),
                tag("span", f"{entry.tokens:,}", class_="number"),
                tag("span", excerpt(message), class_="excerpt", dir="auto"),
                class_="row",
            ),
            message_block(message, words),
            tag("p", moment(entry.created), " ", tag("code", entry.client_id), class_="quiet"),
        ),
        class_=f"item role-{message.role}",
        id=f"entry-{entry.seq}",
        data_seq=entry.seq,
    )
