"""The workspaces of a session, kept by a service: the same snapshots under the same ids as in an embedded memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from turnfold.client.asking import Asker, check_positive, new_key
from turnfold.errors import InvalidOption
from turnfold.memory.snapshots.history import TakenSnapshot
from turnfold.memory.snapshots.recalling import RecalledContext, SnapshotHit
from turnfold.recall.snapshots import RecallRequest, SnapshotDiff, SnapshotHead
from turnfold.records.snapshots import Snapshot
from turnfold.service import snapshot_bodies as forms

__all__ = ("AsyncRemoteSnapshots",)

_MOST: Final = 1_000


class AsyncRemoteSnapshots:
    """The workspace of one conversation, turn by turn."""

    def __init__(self, asker: Asker, conversation: str) -> None:
        self._asker = asker
        self._path = "sessions", conversation, "snapshots"

    async def take(self, snapshot: Snapshot) -> TakenSnapshot:
        """Keep a snapshot, durable on return. Without a turn it gets the one after the newest.

        Of a turn that has one already, the same is a repetition and another is a `Conflict`.
        """
        body = forms.snapshot_form(snapshot)
        return await self._asker.ask(
            "POST", *self._path, answer=TakenSnapshot, body=body, key=new_key()
        )

    async def get(self, turn: int) -> Snapshot | None:
        """The snapshot of a turn, whole; None where none was taken."""
        return await self._one(turn, earlier=False)

    async def before(self, turn: int) -> Snapshot | None:
        """The newest snapshot of the turns before one, whole."""
        return await self._one(turn, earlier=True)

    async def heads(self, *, after: int = 0, limit: int = 100) -> list[SnapshotHead]:
        """What is said of the snapshots of a page of turns, oldest first."""
        if after < 0 or limit < 1:
            raise InvalidOption(f"after={after} must not be negative, limit={limit} at least 1")
        found: list[SnapshotHead] = []
        following: int | None = after
        while following is not None and len(found) < limit:
            page = await self._page(following, min(limit - len(found), _MOST))
            found += page.heads
            following = page.next
        return found

    async def newest(self) -> int:
        """The newest turn that has a snapshot; 0 before the first."""
        return (await self._page(0, 1)).newest

    async def files(self, turn: int) -> dict[str, int]:
        """The files of a snapshot, path -> bytes, without reading them."""
        path = *self._path, str(turn), "files"
        return (await self._asker.ask("GET", *path, answer=forms.FilesAnswer)).files

    async def read(self, turn: int, path: str) -> str | bytes:
        """One file as it was at a turn; no other is read."""
        found = await self._asker.ask(
            "GET", *self._path, str(turn), "file", answer=forms.FileAnswer, query={"path": path}
        )
        return forms.content_value(found.content)

    async def diff(
        self, before: int, after: int, *, path: str = "", tokens: int = 2000
    ) -> SnapshotDiff:
        """What changed from one turn to another, in one file if `path` names it; `text` costs at most `tokens`.

        What did not change is not read.
        """
        body = {"before": before, "after": after, "path": path, "tokens": tokens}
        where = *self._path, "diff"
        return forms.diff_value(
            await self._asker.ask("POST", *where, answer=forms.DiffForm, body=body)
        )

    async def search(self, keyword: str, *, limit: int = 10) -> list[SnapshotHit]:
        """The turns whose snapshot brought the words, best first: what was new in it, and what was said of it."""
        check_positive("limit", limit)
        body = {"keyword": keyword, "limit": limit}
        path = *self._path, "search"
        return (await self._asker.ask("POST", *path, answer=forms.HitsAnswer, body=body)).hits

    async def recall(
        self, request: RecallRequest | Mapping[str, object], *, tokens: int = 4000
    ) -> RecalledContext:
        """What was asked for by turn, id, path and lines, or keywords, as text of at most `tokens`."""
        wanted: object = request
        if isinstance(request, RecallRequest):
            fields = msgspec.to_builtins(request)
            wanted = {name: value for name, value in fields.items() if value}
        body = {"request": wanted, "tokens": tokens}
        path = *self._path, "recall"
        return await self._asker.ask("POST", *path, answer=RecalledContext, body=body)

    async def _one(self, turn: int, *, earlier: bool) -> Snapshot | None:
        if turn < 0:
            return None
        query = {"earlier": "true"} if earlier else None
        path = *self._path, str(turn)
        form = await self._asker.ask("GET", *path, answer=forms.SnapshotAnswer, query=query)
        return None if form.snapshot is None else forms.snapshot_value(form.snapshot)

    async def _page(self, after: int, limit: int) -> forms.HeadsPage:
        query = {"after": after, "limit": limit}
        return await self._asker.ask("GET", *self._path, answer=forms.HeadsPage, query=query)
