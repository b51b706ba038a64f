"""The workspaces of a session, turn by turn: what was said of each, its files, and what changed between two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.errors import InvalidOption, NotFound
from turnfold.recall.snapshots import SnapshotDiff
from turnfold.recall.snapshots.diffing import ItemChange
from turnfold.service.inspector.asked import NoChoice, Shown, Viewing, screen
from turnfold.service.inspector.markup import Element, Node, address, tag
from turnfold.service.inspector.pieces import facts, json_block, moment, session_trail, sized, table
from turnfold.service.inspector.words import Words

__all__ = ("snapshot", "snapshot_diff", "snapshot_file", "snapshots")

_LONGEST: Final = 200_000
"""Characters of a file on one page."""
_Turn = Annotated[int, Meta(ge=0, le=(1 << 62))]


class _PageChoice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: _Turn = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class _DiffChoice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    before: _Turn
    after: _Turn


class _FileChoice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    begin: _Turn = 0


@screen("/sessions/{session}/snapshots", choice=_PageChoice)
async def snapshots(view: Viewing[_PageChoice]) -> Shown:
    """The list."""
    words, choice, looked = view.words, view.choice, await view.look()
    name = looked.session.id
    heads = await looked.session.snapshots.heads(after=choice.after, limit=choice.limit)
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
    more = address("sessions", name, "snapshots", after=before, limit=choice.limit)
    return Shown(
        title=f"{words('snapshots')} · {name}",
        session=name,
        tab="snapshots",
        trail=session_trail(words, name),
        body=(
            table(titles, rows) if rows else tag("p", words("no snapshots yet")),
            tag("a", words("next"), href=more) if len(heads) == choice.limit else None,
        ),
    )


@screen("/sessions/{session}/snapshots/{turn}")
async def snapshot(view: Viewing[NoChoice]) -> Shown:
    """One of them."""
    words, looked = view.words, await view.look()
    name, turn = looked.session.id, _turn(view.names["turn"])
    found = await looked.session.snapshots.get(turn)
    if found is None:
        raise NotFound(f"no snapshot was taken at turn {turn:,}")
    files: list[list[Node]] = []
    for path, content in found.files.items():
        href = address("sessions", name, "snapshots", turn, "file", path=path)
        size = len(content.encode()) if isinstance(content, str) else len(content)
        files.append([tag("a", path, href=href, class_="row", dir="auto"), f"{size:,}"])
    return Shown(
        title=f"{words('snapshot')} {turn} · {name}",
        session=name,
        tab="snapshots",
        trail=_trail(words, name),
        body=(
            facts(
                [
                    (words("created"), moment(found.created)),
                    (words("summary"), tag("span", found.summary or "-", dir="auto")),
                    (words("insights"), tag("ul", [tag("li", each) for each in found.insights])),
                    (words("links"), tag("ul", [tag("li", each) for each in found.links])),
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


@screen("/sessions/{session}/snapshots/{turn}/file", choice=_FileChoice)
async def snapshot_file(view: Viewing[_FileChoice]) -> Shown:
    """One file as it was, a page of it at a time."""
    words, choice, looked = view.words, view.choice, await view.look()
    name, turn = looked.session.id, _turn(view.names["turn"])
    content = await looked.session.snapshots.read(turn, choice.path)
    if isinstance(content, bytes):
        said = words("{size} of {kind}, not loaded", size=sized(len(content)), kind=words("bytes"))
        body: tuple[Node, ...] = (tag("p", said, class_="media"),)
    else:
        end = min(choice.begin + _LONGEST, len(content))
        part = words(
            "characters {first:,} to {last:,} of {all:,}",
            first=choice.begin,
            last=end,
            all=len(content),
        )
        on = address("sessions", name, "snapshots", turn, "file", path=choice.path, begin=end)
        body = (
            tag("p", part, " ", tag("a", words("next"), href=on) if end < len(content) else None),
            tag("pre", content[choice.begin : end], dir="auto", class_="file"),
        )
    here = (f"{words('snapshot')} {turn}", address("sessions", name, "snapshots", turn))
    return Shown(
        title=choice.path,
        session=name,
        tab="snapshots",
        trail=(*_trail(words, name), here),
        body=body,
    )


@screen("/sessions/{session}/snapshots/diff", choice=_DiffChoice)
async def snapshot_diff(view: Viewing[_DiffChoice]) -> Shown:
    """Two of them."""
    words, choice, looked = view.words, view.choice, await view.look()
    name = looked.session.id
    found = await looked.session.snapshots.diff(choice.before, choice.after)
    return Shown(
        title=f"{words('compare')} {words('snapshots')} {choice.before} → {choice.after}",
        session=name,
        tab="snapshots",
        trail=_trail(words, name),
        body=tuple(_changes(found, words)) or (tag("p", words("nothing changed")),),
    )


def _changes(found: SnapshotDiff, words: Words) -> Iterator[Node]:
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


def _change(change: ItemChange, label: str, words: Words) -> Element:
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


def _trail(words: Words, name: str) -> tuple[tuple[str, str], ...]:
    return session_trail(words, name, (words("snapshots"), address("sessions", name, "snapshots")))


def _turn(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidOption(f"turn {text[:40]!r} is not a whole number from 0")
    return int(text)
