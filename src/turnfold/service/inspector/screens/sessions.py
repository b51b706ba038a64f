"""Start screen: the sessions of the tenant, and a search for words in all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from turnfold.errors import InvalidRecord, WrongKey
from turnfold.inspect import CallPoint, call_point, recent_calls, session_title
from turnfold.memory import SearchResult
from turnfold.service.inspector.charts import sparks
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    checkpoint_link,
    marked,
    moment,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import RenderedScreen, ScreenRequest, screen
from turnfold.stores import Ability, ConversationInfo

__all__ = ("sessions",)


_READ_MOST: Final = 5_000
"""Most sessions that are read to find the newest, since a store lists sessions by name only."""
_PAGE: Final = 500
_CALLS: Final = 24


_HITS: Final = 50
_Sort: TypeAlias = Literal["changed", "session", "turns", "entries", "tokens"]
_KEYS: Final[Mapping[_Sort, Callable[[ConversationInfo], tuple[object, ...]]]] = {
    "changed": lambda info: (-info.updated, info.conversation),
    "session": lambda info: (info.conversation,),
    "turns": lambda info: (-info.head.turns, info.conversation),
    "entries": lambda info: (-info.head.seq, info.conversation),
    "tokens": lambda info: (-info.head.tokens, info.conversation),
}


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=512)] = ""
    most: Annotated[int, Meta(ge=1, le=500)] = 40
    sort: _Sort = "changed"
    text: Annotated[str, Meta(max_length=4000)] = ""
    """Words to search for in all sessions; empty lists the sessions."""


@screen("", query=_Query)
async def sessions(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the list of sessions; if the user searched for words, the entries of all sessions that contain them."""
    words, query = request.words, request.query
    if query.text.strip():
        results = await request.memory.search(query.text, limit=_HITS)
        # As the command `turnfold search`: without a marked word only single Chinese characters match.
        found = [each for each in results if each.snippet.marks]
        body: tuple[Node, ...] = (_search(request), _hits(found, words))
        return RenderedScreen(title=words("search in all sessions"), body=body)
    now = request.state.config.clock()
    return RenderedScreen(
        title=words("sessions"),
        body=(_search(request), *await _list(request)),
        live=address("events", after=now),
    )


async def _list(request: ScreenRequest[_Query]) -> list[Node]:
    words, query = request.words, request.query
    found, all_read = await _matching(request)
    chosen = sorted(found, key=_KEYS[query.sort])[: query.most]
    rows = [await _row(request, info) for info in chosen]
    more: Node = None
    if len(found) > len(rows):
        href = address(name=query.name or None, most=min(query.most * 2, 500), sort=query.sort)
        counted = words("{shown:,} of {total:,}", shown=len(rows), total=len(found))
        more = tag("p", f"{counted} ", tag("a", words("show more"), href=href))
    capped = words(
        "only the first {read:,} sessions by name were read; search by name prefix",
        read=len(found),
    )
    return [
        None if all_read else tag("p", capped, class_="note"),
        table(_heads(request), rows, class_="sessions")
        if rows
        else tag(
            "p", words("no session has such a name") if query.name else words("no sessions yet")
        ),
        tag(
            "p",
            words("calls: share of the budget that the newest calls used; purple: after a fold"),
            class_="quiet",
        )
        if rows
        else None,
        more,
    ]


def _heads(request: ScreenRequest[_Query]) -> list[Node]:
    """Return the column headings of the list of sessions; most headings are links that sort the list."""
    words, query = request.words, request.query
    heads: list[Node] = []
    for name in (
        "session", "first message", "turns", "entries", "tokens", "calls", "checkpoint", "changed",
    ):  # fmt: skip
        if name == query.sort:
            heads.append(f"{words(name)} {'↑' if name == 'session' else '↓'}")
        elif name in _KEYS:
            most = query.most if query.most != 40 else None
            href = address(name=query.name or None, most=most, sort=name)
            heads.append(tag("a", words(name), href=href))
        else:
            heads.append(words(name))
    return heads


def _hits(found: Sequence[SearchResult], words: PageLabels) -> Element:
    if not found:
        return tag("p", words("nothing found"))
    rows: list[list[Node]] = [
        [
            tag("a", hit.conversation, href=address("sessions", hit.conversation), dir="auto"),
            tag("a", f"#{hit.seq}", class_="row",
                href=f"{address('sessions', hit.conversation, 'log', after=hit.seq - 1, upto=hit.seq)}"
                     f"#entry-{hit.seq}"),
            words.known(hit.role),
            tag("span", list(marked(hit.snippet)), dir="auto"),
            moment(hit.created),
        ]
        for hit in found
    ]  # fmt: skip
    heads = [words(head) for head in ("session", "entry", "role", "text", "created")]
    return table(heads, rows, class_="hits")


async def _matching(request: ScreenRequest[_Query]) -> tuple[list[ConversationInfo], bool]:
    """Return the sessions whose name starts with the prefix, and True if these are all.

    Conversations of adapters are listed only if the prefix has a colon.
    """
    prefix, found = request.query.name, list[ConversationInfo]()
    after, read = _before(prefix), 0
    while read < _READ_MOST:
        page = await request.memory.conversations(after=after, limit=_PAGE, internal=":" in prefix)
        read += len(page)
        found += [each for each in page if each.conversation.startswith(prefix)]
        past = bool(page) and bool(prefix) and not page[-1].conversation.startswith(prefix)
        if len(page) < _PAGE or (past and page[-1].conversation > prefix):
            return found, True
        after = page[-1].conversation
    return found, False


def _before(prefix: str) -> str:
    """Return a name that sorts before every session name with this prefix, after which a listing starts."""
    return prefix[:-1] if prefix else ""


async def _row(request: ScreenRequest[_Query], info: ConversationInfo) -> list[Node]:
    head = info.head
    session = request.memory.session(info.conversation)
    calls: list[CallPoint] = []
    try:
        calls = [call_point(each) for each in await recent_calls(session, most=_CALLS)]
        title: Node = tag("span", await session_title(session), class_="excerpt", dir="auto")
    except (WrongKey, InvalidRecord) as error:  # the rest of the row is never encrypted
        title = tag("em", _unreadable(request, error))
    link = tag(
        "a",
        info.conversation,
        href=address("sessions", info.conversation),
        class_="row",
        dir="auto",
    )
    return [
        link,
        title,
        f"{head.turns:,}",
        f"{head.seq:,}",
        f"{head.tokens:,}",
        sparks(calls, request.words),
        checkpoint_link(info.conversation, head.checkpoint, request.words),
        moment(info.updated),
    ]


def _unreadable(request: ScreenRequest[_Query], error: WrongKey | InvalidRecord) -> str:
    """Return the text shown instead of a message that cannot be decrypted; other errors are raised again."""
    words = request.words
    if Ability.ENCRYPTED in request.state.config.store.abilities:
        return words("cannot be read with this encryption key")
    if isinstance(error, WrongKey):
        return words("encrypted; no key was given")
    raise error


def _search(request: ScreenRequest[_Query]) -> Element:
    words, query = request.words, request.query
    name, text = words("prefix of the session name"), words("words in all sessions")
    return tag(
        "form",
        tag("input", type="search", name="name", value=query.name, placeholder=name, aria_label=name,
            maxlength=512),
        tag("input", type="search", name="text", value=query.text, placeholder=text, aria_label=text,
            maxlength=4000),
        tag("button", words("search"), type="submit"),
        method="get",
        action=address(),
        class_="search",
    )  # fmt: skip
