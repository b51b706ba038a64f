"""Screens of the workspace snapshots: the list, one snapshot, one file, and the difference of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.errors import InvalidOption, NotFound
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    facts,
    json_block,
    moment,
    session_trail,
    sized,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import NoQuery, RenderedScreen, ScreenRequest, screen
from turnfold.workspace_snapshots import ItemChange, SnapshotDiff

__all__ = (
    "snapshot",
    "snapshot_diff",
    "snapshot_file",
    "snapshots",
)


_LONGEST: Final = 200_000
"""Most characters of a file that one page shows; the rest is on further pages."""
_Turn = Annotated[int, Meta(ge=0, le=(1 << 62))]


class _PageQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: _Turn = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class _DiffQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    before: _Turn
    after: _Turn


class _FileQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    begin: _Turn = 0


@screen("/sessions/{session}/snapshots", query=_PageQuery)
async def snapshots(request: ScreenRequest[_PageQuery]) -> RenderedScreen:
    """Render the page that lists a session's workspace snapshots."""
    words, query, view = request.words, request.query, await request.open()
    name = view.session.id
    heads = await view.session.snapshots.heads(after=query.after, limit=query.limit)
    rows: list[list[Node]] = []
    before = 0
    for head in heads:
        diff = address("sessions", name, "snapshots", "diff", before=before, after=head.turn)
        rows.append(
            [
                tag(
                    "a",
                    f"{head.turn}",
                    href=address("sessions", name, "snapshots", head.turn),
                    class_="row",
                ),
                tag("span", head.summary, dir="auto"),
                tag("a", words("compare"), href=diff) if before else None,
                moment(head.created),
            ]
        )
        before = head.turn
    titles = [words(head) for head in ("turn", "summary", "compare", "created")]
    more = address("sessions", name, "snapshots", after=before, limit=query.limit)
    return RenderedScreen(
        title=f"{words('snapshots')} · {name}",
        session=name,
        tab="snapshots",
        trail=session_trail(words, name),
        about="Workspaces as they were at a turn: files, state and context.",
        body=(
            table(titles, rows) if rows else tag("p", words("no snapshots yet")),
            tag("a", words("next"), href=more) if len(heads) == query.limit else None,
        ),
    )


@screen("/sessions/{session}/snapshots/{turn}")
async def snapshot(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render the page of one workspace snapshot: its context, files and state."""
    words, view = request.words, await request.open()
    name, turn = view.session.id, _turn(request.params["turn"])
    found = await view.session.snapshots.get(turn)
    if found is None:
        raise NotFound(f"there is no snapshot of turn {turn:,}")
    files: list[list[Node]] = []
    for path, content in found.files.items():
        href = address("sessions", name, "snapshots", turn, "file", path=path)
        size = len(content.encode()) if isinstance(content, str) else len(content)
        files.append([tag("a", path, href=href, class_="row", dir="auto"), f"{size:,}"])
    return RenderedScreen(
        title=f"{words('snapshot')} {turn} · {name}",
        session=name,
        tab="snapshots",
        trail=_trail(words, name),
        body=(
            facts(
                [
                    (words("created"), moment(found.created)),
                    (words("summary"), tag("span", found.summary or "-", dir="auto")),
                    *(
                        (words(label), tag("ul", [tag("li", each) for each in listed]))
                        for label, listed in (("insights", found.insights), ("links", found.links))
                        if listed
                    ),
                ]
            ),
            tag("h2", words("files")),
            table([words("file"), words("bytes")], files) if files else tag("p", "-"),
            tag("h2", words("state")),
            json_block(dict(found.state), words),
            tag("h2", words("context")),
            tag("pre", found.context, dir="auto"),
        ),
    )


@screen("/sessions/{session}/snapshots/{turn}/file", query=_FileQuery)
async def snapshot_file(request: ScreenRequest[_FileQuery]) -> RenderedScreen:
    """Render one file of a workspace snapshot, a page at a time."""
    words, query, view = request.words, request.query, await request.open()
    name, turn = view.session.id, _turn(request.params["turn"])
    content = await view.session.snapshots.read(turn, query.path)
    if isinstance(content, bytes):
        note = words("{size} of {kind}, not loaded", size=sized(len(content)), kind=words("bytes"))
        body: tuple[Node, ...] = (tag("p", note, class_="media"),)
    else:
        end = min(query.begin + _LONGEST, len(content))
        part = words(
            "characters {first:,} to {last:,} of {all:,}",
            first=query.begin,
            last=end,
            all=len(content),
        )
        on = address("sessions", name, "snapshots", turn, "file", path=query.path, begin=end)
        body = (
            tag("p", part, " ", tag("a", words("next"), href=on) if end < len(content) else None),
            tag("pre", content[query.begin : end], dir="auto", class_="file"),
        )
    here = (f"{words('snapshot')} {turn}", address("sessions", name, "snapshots", turn))
    return RenderedScreen(
        title=query.path,
        session=name,
        tab="snapshots",
        trail=(*_trail(words, name), here),
        body=body,
    )


@screen("/sessions/{session}/snapshots/diff", query=_DiffQuery)
async def snapshot_diff(request: ScreenRequest[_DiffQuery]) -> RenderedScreen:
    """Render the page that compares two workspace snapshots."""
    words, query, view = request.words, request.query, await request.open()
    name = view.session.id
    found = await view.session.snapshots.diff(query.before, query.after)
    return RenderedScreen(
        title=f"{words('compare')} {words('snapshots')} {query.before} → {query.after}",
        session=name,
        tab="snapshots",
        trail=_trail(words, name),
        body=_changes(found, words),
    )


def _changes(found: SnapshotDiff, words: PageLabels) -> Iterator[Node]:
    if not (found.context or found.files or found.state):
        yield tag("p", words("nothing changed"))
    if found.context is not None:
        yield _change(found.context, words("context"), words)
    for each in found.files:
        yield _change(each, each.path, words)
    if found.state:
        rows: list[list[Node]] = [
            [name, tag("del", _value(was)), tag("ins", _value(now))]
            for name, (was, now) in found.state.items()
        ]
        yield tag("h2", words("state"))
        yield table([words(each) for each in ("name", "before", "after")], rows)


def _change(change: ItemChange, label: str, words: PageLabels) -> Element:
    before, after = change.sizes
    lines: list[Node] = []
    for line in change.patch.splitlines(keepends=True):
        kind = {"+": "ins", "-": "del"}.get(line[:1], "span")
        lines.append(tag(kind, line))
    return tag(
        "section",
        tag(
            "h2",
            label,
            " ",
            tag("span", words(change.change), class_=f"chip change-{change.change}"),
        ),
        tag("p", f"{before:,} → {after:,} {words('bytes')}", class_="quiet"),
        tag("pre", lines, class_="patch") if lines else None,
        data_path=change.path,
        data_change=change.change,
    )


def _value(value: object) -> str:
    return "-" if value is ... else msgspec.json.encode(value).decode()


def _trail(words: PageLabels, name: str) -> tuple[tuple[str, str], ...]:
    return session_trail(words, name, (words("snapshots"), address("sessions", name, "snapshots")))


def _turn(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidOption(f"turn {text[:40]!r} is not a whole number: give 0 or more")
    return int(text)
