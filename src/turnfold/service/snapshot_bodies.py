"""Workspace snapshots on the wire: text as it is, other bytes in base64, and nothing that JSON would change."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from turnfold.errors import InvalidRecord
from turnfold.memory.snapshots.recalling import RecalledContext, SnapshotHit
from turnfold.recall.snapshots import SnapshotDiff, SnapshotHead
from turnfold.recall.snapshots.diffing import ItemChange
from turnfold.records.snapshots import Snapshot
from turnfold.service.bodies import Count, Limit

__all__ = (
    "Bytes",
    "Content",
    "DiffForm",
    "FileAnswer",
    "FilesAnswer",
    "HeadsPage",
    "HitsAnswer",
    "RecalledContext",
    "SnapshotAnswer",
    "SnapshotDiffBody",
    "SnapshotForm",
    "SnapshotRecallBody",
    "SnapshotSearchBody",
    "content_form",
    "content_value",
    "diff_form",
    "diff_value",
    "snapshot_form",
    "snapshot_value",
)

_Tokens = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]


class _Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class Bytes(_Body):
    """Content that is not text."""

    base64: str


Content: TypeAlias = str | Bytes


class SnapshotForm(_Body):
    """The workspace at a turn."""

    turn: Count = 0
    """0 for the one after the newest snapshot."""
    context: str = ""
    files: dict[str, Content] = {}
    state: dict[str, object] = {}
    summary: str = ""
    insights: list[str] = []
    links: list[str] = []
    created: Count = 0


class SnapshotAnswer(msgspec.Struct, kw_only=True):
    """A snapshot, or null where none was taken."""

    snapshot: SnapshotForm | None


class HeadsPage(msgspec.Struct, kw_only=True):
    """What is said of a page of snapshots."""

    heads: list[SnapshotHead]
    newest: int
    """The newest turn that has one; 0 before the first."""
    next: int | None


class FilesAnswer(msgspec.Struct, kw_only=True):
    """Bytes of each file, by path."""

    files: dict[str, int]


class FileAnswer(msgspec.Struct, kw_only=True):
    """One file."""

    content: Content


class SnapshotDiffBody(_Body):
    """Which turns to compare."""

    before: Count
    after: Count
    path: str = ""
    tokens: _Tokens = 2000


class Sides(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A value before and after; a side that is not there is left out."""

    before: object = msgspec.UNSET
    after: object = msgspec.UNSET


class DiffForm(msgspec.Struct, kw_only=True):
    """What changed from one turn to another."""

    before: int
    after: int
    context: ItemChange | None
    files: tuple[ItemChange, ...]
    state: dict[str, Sides]
    text: str
    cut: bool


class SnapshotSearchBody(_Body):
    """Words to find snapshots by."""

    keyword: str
    limit: Limit = 10


class HitsAnswer(msgspec.Struct, kw_only=True):
    """Snapshots found, best first."""

    hits: list[SnapshotHit]


class SnapshotRecallBody(_Body):
    """What to bring back: turn_numbers, keywords, context_ids, path, lines."""

    request: dict[str, object]
    tokens: _Tokens = 4000


def content_form(content: str | bytes) -> Content:
    """A content as it is sent."""
    return content if isinstance(content, str) else Bytes(base64=b64encode(content).decode())


def content_value(form: Content) -> str | bytes:
    """A content as it was sent."""
    if isinstance(form, str):
        return form
    try:
        return b64decode(form.base64, validate=True)
    except (NotBase64, ValueError):
        raise InvalidRecord("not base64", path="files") from None


def snapshot_form(snapshot: Snapshot) -> SnapshotForm:
    """A snapshot as it is sent."""
    return SnapshotForm(
        turn=snapshot.turn,
        context=snapshot.context,
        files={path: content_form(content) for path, content in snapshot.files.items()},
        state=dict(snapshot.state),
        summary=snapshot.summary,
        insights=list(snapshot.insights),
        links=list(snapshot.links),
        created=snapshot.created,
    )


def snapshot_value(form: SnapshotForm) -> Snapshot:
    """A snapshot as it was sent."""
    return Snapshot(
        turn=form.turn,
        context=form.context,
        files={path: content_value(content) for path, content in form.files.items()},
        state=form.state,
        summary=form.summary,
        insights=tuple(form.insights),
        links=tuple(form.links),
        created=form.created,
    )


def diff_form(found: SnapshotDiff) -> DiffForm:
    """A difference as it is answered."""
    return DiffForm(
        before=found.before,
        after=found.after,
        context=found.context,
        files=found.files,
        state={
            name: Sides(before=_sent(a), after=_sent(b)) for name, (a, b) in found.state.items()
        },
        text=found.text,
        cut=found.cut,
    )


def diff_value(form: DiffForm) -> SnapshotDiff:
    """A difference as it was answered."""
    state: Mapping[str, tuple[object, object]] = {
        name: (_there(each.before), _there(each.after)) for name, each in form.state.items()
    }
    return SnapshotDiff(
        form.before, form.after, form.context, form.files, state, form.text, form.cut
    )


def _sent(value: object) -> object:
    return msgspec.UNSET if value is ... else value


def _there(value: object) -> object:
    return ... if value is msgspec.UNSET else value
