"""Operations that store, list, read, compare, search and recall the workspace snapshots of a session."""

from __future__ import annotations

from turnfold import api
from turnfold.api import (
    DiffForm,
    FileAnswer,
    FileQuery,
    FilesAnswer,
    HeadsPage,
    HitsAnswer,
    NoQuery,
    Nothing,
    NumberPageQuery,
    SnapshotAnswer,
    SnapshotDiffBody,
    SnapshotForm,
    SnapshotQuery,
    SnapshotRecallBody,
    SnapshotSearchBody,
    content_form,
    diff_form,
    snapshot_form,
    snapshot_value,
)
from turnfold.service.operation_table import OperationRequest, OperationTable
from turnfold.workspace_snapshots import RecalledContext, TakenSnapshot

__all__ = ("TABLE",)

TABLE = OperationTable()


@TABLE.bind(api.operations.TAKE_SNAPSHOT)
async def take_snapshot(request: OperationRequest[SnapshotForm, NoQuery]) -> TakenSnapshot:
    snapshot = await request.compute(lambda: snapshot_value(request.body))
    return await request.session.snapshots.take(snapshot)


@TABLE.bind(api.operations.SNAPSHOTS)
async def snapshots(request: OperationRequest[Nothing, NumberPageQuery]) -> HeadsPage:
    query, stored = request.query, request.session.snapshots
    heads = await stored.heads(after=query.after, limit=query.limit)
    following = heads[-1].turn if len(heads) == query.limit else None
    return HeadsPage(heads=heads, newest=await stored.newest(), next=following)


@TABLE.bind(api.operations.SNAPSHOT)
async def snapshot(request: OperationRequest[Nothing, SnapshotQuery]) -> SnapshotAnswer:
    stored, turn = request.session.snapshots, request.number("turn")
    found = await (stored.before(turn) if request.query.earlier else stored.get(turn))
    return SnapshotAnswer(snapshot=None if found is None else snapshot_form(found))


@TABLE.bind(api.operations.SNAPSHOT_FILES)
async def snapshot_files(request: OperationRequest[Nothing, NoQuery]) -> FilesAnswer:
    return FilesAnswer(files=await request.session.snapshots.files(request.number("turn")))


@TABLE.bind(api.operations.SNAPSHOT_FILE)
async def snapshot_file(request: OperationRequest[Nothing, FileQuery]) -> FileAnswer:
    found = await request.session.snapshots.read(request.number("turn"), request.query.path)
    return FileAnswer(content=content_form(found))


@TABLE.bind(api.operations.DIFF_SNAPSHOTS)
async def diff_snapshots(request: OperationRequest[SnapshotDiffBody, NoQuery]) -> DiffForm:
    body, stored = request.body, request.session.snapshots
    found = await stored.diff(body.before, body.after, path=body.path, tokens=body.tokens)
    return diff_form(found)


@TABLE.bind(api.operations.SEARCH_SNAPSHOTS)
async def search_snapshots(request: OperationRequest[SnapshotSearchBody, NoQuery]) -> HitsAnswer:
    body = request.body
    return HitsAnswer(hits=await request.session.snapshots.search(body.keyword, limit=body.limit))


@TABLE.bind(api.operations.RECALL_SNAPSHOTS)
async def recall_snapshots(
    request: OperationRequest[SnapshotRecallBody, NoQuery],
) -> RecalledContext:
    body = request.body
    return await request.session.snapshots.recall(body.request, tokens=body.tokens)
