"""All sessions of the tenant, those that changed last first: where somebody who looks begins."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.memory.inspecting import CallPoint, call_point
from turnfold.memory.recent_calls import recent_calls
from turnfold.service.inspector.asked import Shown, Viewing, screen
from turnfold.service.inspector.drawing import sparks
from turnfold.service.inspector.markup import Element, Node, address, tag
from turnfold.service.inspector.pieces import moment, table
from turnfold.stores.protocol import ConversationInfo

__all__ = ("sessions",)

_READ_MOST: Final = 5_000
"""Sessions looked at to find the newest: a list in order of names is all a store keeps."""
_PAGE: Final = 500
_CALLS: Final = 24


class _Choice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=512)] = ""
    most: Annotated[int, Meta(ge=1, le=500)] = 40


@screen("", choice=_Choice)
async def sessions(view: Viewing[_Choice]) -> Shown:
    """The list."""
    words, wanted = view.words, view.choice
    now = view.state.setting.clock()
    known, all_read = await _known(view)
    newest = sorted(known, key=lambda info: (-info.updated, info.conversation))[: wanted.most]
    rows = [await _row(view, info) for info in newest]
    heads = ("session", "turns", "entries", "tokens", "calls", "checkpoint", "changed")
    more: Node = None
    if len(known) > len(rows):
        href = address(name=wanted.name or None, most=min(wanted.most * 2, 500))
        counted = words("{shown:,} of {total:,}", shown=len(rows), total=len(known))
        more = tag("p", f"{counted} ", tag("a", words("show more"), href=href))
    capped = words(
        "only the first {read:,} sessions by name were looked at; search by the beginning of a name",
        read=len(known),
    )
    return Shown(
        title=words("sessions"),
        body=(
            _search(view),
            None if all_read else tag("p", capped, class_="note"),
            table([words(head) for head in heads], rows)
            if rows
            else tag("p", words("no sessions yet")),
            more,
        ),
        live=address("events", after=now),
    )


async def _known(view: Viewing[_Choice]) -> tuple[list[ConversationInfo], bool]:
    """Sessions whose name begins as wanted, and whether these are all."""
    prefix, found = view.choice.name, list[ConversationInfo]()
    after = _before(prefix)
    while len(found) < _READ_MOST:
        page = await view.memory.conversations(after=after, limit=_PAGE)
        found += [each for each in page if each.conversation.startswith(prefix)]
        past = bool(page) and bool(prefix) and not page[-1].conversation.startswith(prefix)
        if len(page) < _PAGE or (past and page[-1].conversation > prefix):
            return found, True
        after = page[-1].conversation
    return found, False


def _before(prefix: str) -> str:
    """A name that sorts before every one that begins so, and close to them."""
    return prefix[:-1] if prefix else ""


async def _row(view: Viewing[_Choice], info: ConversationInfo) -> list[Node]:
    head = info.head
    session = view.memory.session(info.conversation)
    calls: list[CallPoint] = [call_point(each) for each in await recent_calls(session, most=_CALLS)]
    link = tag(
        "a",
        info.conversation,
        href=address("sessions", info.conversation),
        class_="row",
        dir="auto",
    )
    return [
        link,
        f"{head.turns:,}",
        f"{head.seq:,}",
        f"{head.tokens:,}",
        sparks(calls, view.words),
        tag("code", head.checkpoint or "-"),
        moment(info.updated),
    ]


def _search(view: Viewing[_Choice]) -> Element:
    said = view.words("the beginning of a session's name")
    return tag(
        "form",
        tag("input", type="search", name="name", value=view.choice.name, placeholder=said, aria_label=said,
            maxlength=512),
        tag("button", view.words("search"), type="submit"),
        method="get",
        action=address(),
        class_="search",
    )  # fmt: skip
