"""Start screen: the sessions of the tenant, most recently changed first."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.inspect import CallPoint, call_point, recent_calls
from turnfold.service.inspector.charts import sparks
from turnfold.service.inspector.html import Element, Node, address, moment, table, tag
from turnfold.service.inspector.screen import RenderedScreen, ScreenRequest, screen
from turnfold.stores import ConversationInfo

__all__ = ("sessions",)


_READ_MOST: Final = 5_000
"""Sessions read to find the newest; a store lists them by name only."""
_PAGE: Final = 500
_CALLS: Final = 24


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=512)] = ""
    most: Annotated[int, Meta(ge=1, le=500)] = 40


@screen("", query=_Query)
async def sessions(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the list of sessions."""
    words, query = request.words, request.query
    now = request.state.config.clock()
    found, all_read = await _matching(request)
    newest = sorted(found, key=lambda info: (-info.updated, info.conversation))[: query.most]
    rows = [await _row(request, info) for info in newest]
    heads = ("session", "turns", "entries", "tokens", "calls", "checkpoint", "changed")
    more: Node = None
    if len(found) > len(rows):
        href = address(name=query.name or None, most=min(query.most * 2, 500))
        counted = words("{shown:,} of {total:,}", shown=len(rows), total=len(found))
        more = tag("p", f"{counted} ", tag("a", words("show more"), href=href))
    capped = words(
        "only the first {read:,} sessions by name were read; search by name prefix",
        read=len(found),
    )
    return RenderedScreen(
        title=words("sessions"),
        body=(
            _search(request),
            None if all_read else tag("p", capped, class_="note"),
            table([words(head) for head in heads], rows)
            if rows
            else tag("p", words("no sessions yet")),
            more,
        ),
        live=address("events", after=now),
    )


async def _matching(request: ScreenRequest[_Query]) -> tuple[list[ConversationInfo], bool]:
    """Return the sessions whose name starts with the prefix, and True if these are all."""
    prefix, found = request.query.name, list[ConversationInfo]()
    after = _before(prefix)
    while len(found) < _READ_MOST:
        page = await request.memory.conversations(after=after, limit=_PAGE)
        found += [each for each in page if each.conversation.startswith(prefix)]
        past = bool(page) and bool(prefix) and not page[-1].conversation.startswith(prefix)
        if len(page) < _PAGE or (past and page[-1].conversation > prefix):
            return found, True
        after = page[-1].conversation
    return found, False


def _before(prefix: str) -> str:
    """Return a name that sorts before every name with this prefix, and close to them."""
    return prefix[:-1] if prefix else ""


async def _row(request: ScreenRequest[_Query], info: ConversationInfo) -> list[Node]:
    head = info.head
    session = request.memory.session(info.conversation)
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
        sparks(calls, request.words),
        tag("code", head.checkpoint or "-"),
        moment(info.updated),
    ]


def _search(request: ScreenRequest[_Query]) -> Element:
    hint = request.words("prefix of the session name")
    return tag(
        "form",
        tag("input", type="search", name="name", value=request.query.name, placeholder=hint, aria_label=hint,
            maxlength=512),
        tag("button", request.words("search"), type="submit"),
        method="get",
        action=address(),
        class_="search",
    )  # fmt: skip
