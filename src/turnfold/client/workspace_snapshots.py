"""HTTP client with the methods of `AsyncSnapshots`: the same snapshots under the same ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from turnfold import api
from turnfold.api import (
    FileQuery,
    HeadsPage,
    NumberPageQuery,
    SnapshotDiffBody,
    SnapshotQuery,
    SnapshotRecallBody,
    SnapshotSearchBody,
    content_value,
    diff_value,
    snapshot_form,
    snapshot_value,
)
from turnfold.client.transport import RequestSender, check_positive, read_pages
from turnfold.records import Snapshot
from turnfold.workspace_snapshots import (
    RecalledContext,
    RecallRequest,
    SnapshotDiff,
    SnapshotHead,
    SnapshotHit,
    TakenSnapshot,
    check_snapshot_page,
)

__all__ = ("AsyncRemoteSnapshots",)


class AsyncRemoteSnapshots:
    """Workspace snapshots of one conversation, by turn."""

    def __init__(self, sender: RequestSender, conversation: str) -> None:
        self._sender = sender
        self._conversation = conversation

    async def take(self, snapshot: Snapshot) -> TakenSnapshot:
        """Store a snapshot, durable on return. Without a turn it gets the turn after the newest snapshot.

        Storing the same snapshot of a turn again changes nothing; storing a different one raises `Conflict`.
        """
        body = snapshot_form(snapshot)
        return await self._sender.call(api.operations.TAKE_SNAPSHOT, self._conversation, body=body)

    async def get(self, turn: int) -> Snapshot | None:
        """Return the whole snapshot of a turn; None if the turn has no snapshot."""
        return await self._read(turn, earlier=False)

    async def before(self, turn: int) -> Snapshot | None:
        """Return the newest snapshot before a turn, with all its contents; None if there is none."""
        return await self._read(turn, earlier=True)

    async def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """List snapshots of turns after `after` without their content, oldest first."""
        check_snapshot_page(after, limit)

        async def page(after: int, limit: int) -> tuple[list[SnapshotHead], int | None]:
            found = await self._page(after, limit)
            return found.heads, found.next

        return await read_pages(page, after, limit)

    async def newest(self) -> int:
        """Return the newest turn that has a snapshot; 0 if there is none."""
        return (await self._page(0, 1)).newest

    async def files(self, turn: int) -> dict[str, int]:
        """Return the files of a snapshot with their sizes in bytes, without reading them."""
        found = await self._sender.call(
            api.operations.SNAPSHOT_FILES, self._conversation, str(turn)
        )
        return found.files

    async def read(self, turn: int, path: str) -> str | bytes:
        """Read one file of a turn's snapshot; raises `InvalidOption` if there is no such snapshot or file."""
        found = await self._sender.call(
            api.operations.SNAPSHOT_FILE, self._conversation, str(turn), query=FileQuery(path=path)
        )
        return content_value(found.content)

    async def diff(
        self, before: int, after: int, *, path: str = "", tokens: int = 2000
    ) -> SnapshotDiff:
        """Compare the workspaces of two turns, or one file if `path` names it; `text` has at most `tokens`.

        Unchanged files are not read.
        """
        body = SnapshotDiffBody(before=before, after=after, path=path, tokens=tokens)
        return diff_value(
            await self._sender.call(api.operations.DIFF_SNAPSHOTS, self._conversation, body=body)
        )

    async def search(self, keyword: str, *, limit: int = 10) -> list[SnapshotHit]:
        """Find the turns whose new content or summary contains the words, best first."""
        check_positive("limit", limit)
        body = SnapshotSearchBody(keyword=keyword, limit=limit)
        return (
            await self._sender.call(api.operations.SEARCH_SNAPSHOTS, self._conversation, body=body)
        ).hits

    async def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int = 4000
    ) -> RecalledContext:
        """Recall snapshots by turn, id, path and lines, or keywords, as text of at most `tokens`."""
        wanted = request
        if isinstance(request, RecallRequest):
            fields = msgspec.to_builtins(request)
            wanted = {name: value for name, value in fields.items() if value}
        body = SnapshotRecallBody(request=cast("dict[str, object]", wanted), tokens=tokens)
        return await self._sender.call(
            api.operations.RECALL_SNAPSHOTS, self._conversation, body=body
        )

    async def _read(self, turn: int, *, earlier: bool) -> Snapshot | None:
        if turn < 0:
            return None
        query = SnapshotQuery(earlier=earlier)
        form = await self._sender.call(
            api.operations.SNAPSHOT, self._conversation, str(turn), query=query
        )
        return None if form.snapshot is None else snapshot_value(form.snapshot)

    async def _page(self, after: int, limit: int) -> HeadsPage:
        query = NumberPageQuery(after=after, limit=limit)
        return await self._sender.call(api.operations.SNAPSHOTS, self._conversation, query=query)
