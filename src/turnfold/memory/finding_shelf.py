"""Findings in the store: one document each, and one note for all.

Every change is a compare-and-swap against what this process last saw. Who loses reads what the other wrote and decides
again, so that two processes that find the same thing at once keep the same one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from turnfold.errors import Conflict
from turnfold.memory.known_findings import KnownFindings
from turnfold.memory.notes import FINDING, FINDINGS, SESSION, FindingsNote, read_note, write_note
from turnfold.recall.findings import merged, surplus
from turnfold.records import Document
from turnfold.records.findings import Finding, decode_finding, encode_finding
from turnfold.stores.protocol import Head, Scope, Store, Written
from turnfold.tokens import TokenCounter

__all__ = ("FindingOwner", "FindingShelf")

_TRIES = 64
"""Contests with other writers that one change may lose."""


class FindingOwner(Protocol):
    """What findings need of the conversation they belong to."""

    store: Store
    scope: Scope
    conversation: str
    counter: TokenCounter
    head: Head
    findings: KnownFindings

    async def refresh(self) -> None:
        """Look whether anything changed; read what did."""
        ...

    def wrote(self, written: Written | None) -> None:
        """Take in a write; None where it is not known what it led to."""
        ...


@dataclass(frozen=True, slots=True)
class FindingShelf:
    """Writes findings, and keeps what the follower knows of them level with what was written."""

    follower: FindingOwner

    async def keep(self, finding: Finding) -> Finding:
        """Put it in the place of what the same call answered before, unless that is newer; what is kept."""
        key = finding.key
        await self.mark({})
        for _ in range(_TRIES - 1):
            try:
                return await self._swap(key, finding)
            except Conflict:
                await self._read_again(key)
        return await self._swap(key, finding)

    async def mark(self, ran: Mapping[str, int]) -> None:
        """Note at which seq tools ran, and that there are findings at all, where that is not known."""
        for _ in range(_TRIES - 1):
            try:
                return await self._swap_note(ran)
            except Conflict:
                await self._read_note_again()
        return await self._swap_note(ran)

    async def make_room(self, *, most: int, now: int) -> None:
        """Forget what holds no more, and the least useful beyond `most`."""
        known = self.follower.findings
        for finding in surplus(known.all(), most=most, now=now, ran=known.ran):
            await self.forget(finding.key)

    async def outdate(self, key: str, content: str) -> None:
        """The call answered something else that is not kept: what it answered before is no longer so."""
        known, _ = self.follower.findings.kept.get(key, (None, 0))
        if known is not None and known.content != content:
            await self.forget(key)

    async def forget(self, key: str) -> bool:
        """Remove a finding as it was last seen; whether that was done."""
        follower = self.follower
        _, version = follower.findings.kept.pop(key)
        try:
            gone = await follower.store.drop_document(
                follower.scope, follower.conversation, FINDING, key, expect=version
            )
        except Conflict:
            return False  # another process has just found it anew; the next look reads it
        if gone:
            follower.wrote(None)
        return gone

    async def _swap(self, key: str, finding: Finding) -> Finding:
        follower = self.follower
        known, version = follower.findings.kept.get(key, (None, 0))
        kept = merged(known, finding)
        if kept is known:
            return kept
        done = await follower.store.put_document(
            follower.scope,
            follower.conversation,
            Document(FINDING, key, encode_finding(kept), 0, text=f"{kept.tool} {kept.content}"),
            expect=version,
        )
        follower.wrote(done)
        follower.findings.kept[key] = (kept, done.document.version)
        return kept

    async def _read_again(self, key: str) -> None:
        follower = self.follower
        found = await follower.store.get_document(
            follower.scope, follower.conversation, FINDING, key
        )
        follower.findings.kept.pop(key, None)
        if found is not None:
            finding = decode_finding(found.body, path=f"finding/{key}")
            follower.findings.kept[key] = (finding, found.version)

    async def _swap_note(self, ran: Mapping[str, int]) -> None:
        follower, known = self.follower, self.follower.findings
        newer = {tool: seq for tool, seq in ran.items() if known.ran.get(tool, -1) < seq}
        if known.version and not newer:
            return
        both = {**known.ran, **newer}
        done = await follower.store.put_document(
            follower.scope,
            follower.conversation,
            write_note(SESSION, FINDINGS, FindingsNote(ran=both)),
            expect=known.version,
        )
        follower.wrote(done)
        known.version, known.ran = done.document.version, both

    async def _read_note_again(self) -> None:
        follower, known = self.follower, self.follower.findings
        found = await follower.store.get_document(
            follower.scope, follower.conversation, SESSION, FINDINGS
        )
        known.version = found.version if found else 0
        known.ran = dict(read_note(found, FindingsNote).ran)
