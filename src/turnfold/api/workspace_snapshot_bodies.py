"""Request and response bodies of workspace snapshots.

Files that are text are sent as strings, others as base64, so that their bytes arrive unchanged.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from turnfold.api.request_bodies import Body, Count, Limit
from turnfold.errors import InvalidRecord
from turnfold.records import Snapshot
from turnfold.workspace_snapshots import ItemChange, SnapshotDiff, SnapshotHead, SnapshotHit

__all__ = (
    "DiffForm",
    "FileAnswer",
    "FilesAnswer",
    "HeadsPage",
    "HitsAnswer",
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


class BinaryContent(Body):
    """Content of a binary file, in base64."""

    base64: str


_Content: TypeAlias = str | BinaryContent


class SnapshotForm(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Snapshot of the workspace at a turn."""

    turn: Count = 0
    """Turn of the snapshot; 0 for the turn after that of the newest snapshot."""
    context: str = ""
    files: dict[str, _Content] = {}
    state: dict[str, object] = {}
    summary: str = ""
    insights: list[str] = []
    links: list[str] = []
    created: Count = 0


class SnapshotAnswer(msgspec.Struct, kw_only=True):
    """A workspace snapshot; null if there is none."""

    snapshot: SnapshotForm | None


class HeadsPage(msgspec.Struct, kw_only=True):
    """A page of snapshot heads (metadata without content)."""

    heads: list[SnapshotHead]
    newest: int
    """Newest turn that has a snapshot; 0 if there is none."""
    next: int | None


class FilesAnswer(msgspec.Struct, kw_only=True):
    """Size of each file of a workspace snapshot in bytes, by path."""

    files: dict[str, int]


class FileAnswer(msgspec.Struct, kw_only=True):
    """Content of one file of a workspace snapshot."""

    content: _Content


class SnapshotDiffBody(Body):
    """Request body: the two turns whose workspace snapshots are compared."""

    before: Count
    after: Count
    path: str = ""
    tokens: _Tokens = 2000


class Sides(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Value of one state name in the earlier and the later snapshot; a side is missing if the snapshot has no value."""

    before: object = msgspec.UNSET
    after: object = msgspec.UNSET


class DiffForm(msgspec.Struct, kw_only=True):
    """Difference between the workspace snapshots of two turns."""

    before: int
    after: int
    context: ItemChange | None
    files: tuple[ItemChange, ...]
    state: dict[str, Sides]
    text: str
    cut: bool


class SnapshotSearchBody(Body):
    """Request body: the words to search for in workspace snapshots."""

    keyword: str
    limit: Limit = 10


class HitsAnswer(msgspec.Struct, kw_only=True):
    """Workspace snapshots that a search found, best first."""

    hits: list[SnapshotHit]


class SnapshotRecallBody(Body):
    """Request body: which snapshots to recall, by turn_numbers, keywords, context_ids, path or lines."""

    request: dict[str, object]
    tokens: _Tokens = 4000


def content_form(content: str | bytes) -> _Content:
    """Return a file's content as JSON: text as a string, other bytes as base64."""
    return (
        content if isinstance(content, str) else BinaryContent(base64=b64encode(content).decode())
    )


def content_value(form: _Content) -> str | bytes:
    """Read a file's content from JSON: a string, or an object with base64; raises `InvalidRecord` if invalid."""
    if isinstance(form, str):
        return form
    try:
        return b64decode(form.base64, validate=True)
    except (NotBase64, ValueError):
        raise InvalidRecord(
            "the base64 of a file is not valid: encode its bytes again", path="files"
        ) from None


def snapshot_form(snapshot: Snapshot) -> SnapshotForm:
    """Return a workspace snapshot in the JSON form of a request or response."""
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
    """Read a workspace snapshot from the JSON form of a request or response."""
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
    """Return the difference of two workspace snapshots in its JSON form."""
    return DiffForm(
        before=found.before,
        after=found.after,
        context=found.context,
        files=found.files,
        state={
            name: Sides(before=_or_unset(a), after=_or_unset(b))
            for name, (a, b) in found.state.items()
        },
        text=found.text,
        cut=found.cut,
    )


def diff_value(form: DiffForm) -> SnapshotDiff:
    """Read the difference of two workspace snapshots from its JSON form."""
    state: Mapping[str, tuple[object, object]] = {
        name: (_or_missing(each.before), _or_missing(each.after))
        for name, each in form.state.items()
    }
    return SnapshotDiff(
        form.before, form.after, form.context, form.files, state, form.text, form.cut
    )


def _or_unset(value: object) -> object:
    return msgspec.UNSET if value is ... else value


def _or_missing(value: object) -> object:
    return ... if value is msgspec.UNSET else value
