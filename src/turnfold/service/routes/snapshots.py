"""The workspaces of a session, turn by turn: kept, looked into, compared and brought back."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.errors import InvalidOption
from turnfold.memory.snapshots.history import TakenSnapshot
from turnfold.memory.snapshots.recalling import RecalledContext
from turnfold.service.bodies import Count, Limit, Nothing
from turnfold.service.operations import Asked, NoQuery, Operation, operation
from turnfold.service.snapshot_bodies import (
    DiffForm,
    FileAnswer,
    FilesAnswer,
    HeadsPage,
    HitsAnswer,
    SnapshotAnswer,
    SnapshotDiffBody,
    SnapshotForm,
    SnapshotRecallBody,
    SnapshotSearchBody,
    content_form,
    diff_form,
    snapshot_form,
    snapshot_value,
)
from turnfold.service.tokens import Right

__all__ = ("OPERATIONS",)

_SNAPSHOTS: Final = "/v1/sessions/{session}/snapshots"
_READ: Final = Right.READ


class _PageQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: Count = 0
    limit: Limit = 100


class _TurnQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    earlier: bool = False
    """The newest one before this turn, in place of that of the turn."""


class _FileQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, max_length=4096)]


@operation(
    "POST",
    _SNAPSHOTS,
    right=Right.WRITE,
    body=SnapshotForm,
    answer=TakenSnapshot,
    grows=True,
    keyed=True,
)
async def take_snapshot(asked: Asked[SnapshotForm, NoQuery]) -> TakenSnapshot:
    """Keep a snapshot, durable when it is answered. Without a turn it gets the one after the newest."""
    return await asked.session.snapshots.take(snapshot_value(asked.body))


@operation("GET", _SNAPSHOTS, right=_READ, query=_PageQuery, answer=HeadsPage)
async def snapshots(asked: Asked[Nothing, _PageQuery]) -> HeadsPage:
    """Read what is said of the snapshots of a page of turns, oldest first."""
    query, kept = asked.query, asked.session.snapshots
    heads = await kept.heads(after=query.after, limit=query.limit)
    following = heads[-1].turn if len(heads) == query.limit else None
    return HeadsPage(heads=heads, newest=await kept.newest(), next=following)


@operation("GET", f"{_SNAPSHOTS}/{{turn}}", right=_READ, query=_TurnQuery, answer=SnapshotAnswer)
async def snapshot(asked: Asked[Nothing, _TurnQuery]) -> SnapshotAnswer:
    """Read the snapshot of a turn, whole; null where none was taken."""
    kept, turn = asked.session.snapshots, _turn(asked.names["turn"])
    found = await (kept.before(turn) if asked.query.earlier else kept.get(turn))
    return SnapshotAnswer(snapshot=None if found is None else snapshot_form(found))


@operation("GET", f"{_SNAPSHOTS}/{{turn}}/files", right=_READ, answer=FilesAnswer)
async def snapshot_files(asked: Asked[Nothing, NoQuery]) -> FilesAnswer:
    """List the files of a snapshot and their bytes, without reading them."""
    return FilesAnswer(files=await asked.session.snapshots.files(_turn(asked.names["turn"])))


@operation("GET", f"{_SNAPSHOTS}/{{turn}}/file", right=_READ, query=_FileQuery, answer=FileAnswer)
async def snapshot_file(asked: Asked[Nothing, _FileQuery]) -> FileAnswer:
    """Read one file as it was at a turn."""
    turn = _turn(asked.names["turn"])
    found = await asked.session.snapshots.read(turn, asked.query.path)
    return FileAnswer(content=content_form(found))


@operation("POST", f"{_SNAPSHOTS}/diff", right=_READ, body=SnapshotDiffBody, answer=DiffForm)
async def diff_snapshots(asked: Asked[SnapshotDiffBody, NoQuery]) -> DiffForm:
    """See what changed from one turn to another, in one file if `path` names it."""
    body = asked.body
    return diff_form(
        await asked.session.snapshots.diff(
            body.before, body.after, path=body.path, tokens=body.tokens
        )
    )


@operation("POST", f"{_SNAPSHOTS}/search", right=_READ, body=SnapshotSearchBody, answer=HitsAnswer)
async def search_snapshots(asked: Asked[SnapshotSearchBody, NoQuery]) -> HitsAnswer:
    """Find the turns whose snapshot brought the words, best first."""
    body = asked.body
    return HitsAnswer(hits=await asked.session.snapshots.search(body.keyword, limit=body.limit))


@operation(
    "POST", f"{_SNAPSHOTS}/recall", right=_READ, body=SnapshotRecallBody, answer=RecalledContext
)
async def recall_snapshots(asked: Asked[SnapshotRecallBody, NoQuery]) -> RecalledContext:
    """Bring back what is asked for by turn, id, path and lines, or keywords, as text of at most `tokens`."""
    body = asked.body
    return await asked.session.snapshots.recall(body.request, tokens=body.tokens)


def _turn(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidOption(f"turn {text[:40]!r} is not a whole number from 0")
    return int(text)


OPERATIONS: tuple[Operation, ...] = (
    take_snapshot,
    snapshots,
    snapshot,
    snapshot_files,
    snapshot_file,
    diff_snapshots,
    search_snapshots,
    recall_snapshots,
)
