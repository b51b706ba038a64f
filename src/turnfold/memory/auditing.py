"""Nothing vanishes: every entry of a log accounted for, by somebody who does not believe the session.

The auditor reads the whole log, every checkpoint and one context, and asks of each entry where it went: sent as it was
logged, behind the live checkpoint or an extract that stands in for one, or listed in the receipt with a reason, and
never in two of these places. It computes the digests of what was folded again. It shares no code with what it judges;
what it finds, it returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import takewhile
from typing import cast, overload

import msgspec

from turnfold.memory.blocking import Session
from turnfold.memory.drive import drive
from turnfold.memory.session import AsyncSession
from turnfold.records import Checkpoint, Entry, Message, encode_message
from turnfold.window import Context, Outcome, Section, check

__all__ = ("AuditFault", "AuditRule", "audit")

_PAGE = 500
_LEADING = 8


class AuditRule(StrEnum):
    """What must hold."""

    DENSE = "dense"
    """The log is 1, 2, 3 ... without gaps."""
    FOUND = "found"
    """Every entry is found by its seq and by its client id, and only there."""
    TILED = "tiled"
    """The checkpoints follow one another without gap or overlap."""
    PROVED = "proved"
    """The digest of a checkpoint is that of the entries it covers."""
    SOUND = "sound"
    """The context breaks none of the rules of `turnfold.check`."""
    ACCOUNTED = "accounted"
    """An entry is sent, or folded, or listed with a reason, and only one of these."""
    VERBATIM = "verbatim"
    """What is sent is what was logged, unless the receipt says otherwise."""
    SUMMARISED = "summarised"
    """The summary that is sent is the live checkpoint's, or the extract that stands in for a later one."""


@dataclass(frozen=True, slots=True)
class AuditFault:
    """A rule that is broken, where, and how."""

    rule: AuditRule
    seq: int
    """Seq of the entry; 0 when it is about no single one."""
    detail: str

    def __str__(self) -> str:
        where = f" at entry {self.seq}" if self.seq else ""
        return f"{self.rule}{where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class _Books:
    """What the store holds of a conversation."""

    entries: Sequence[Entry]
    checkpoints: Sequence[Checkpoint]
    cleared: int
    system: frozenset[int]
    """Seqs of the system messages that are current: they head every context, wherever they stand in the log."""
    stand_in: tuple[int, str] = (0, "")
    """The last seq an extract stands in for, and its text."""

    @property
    def covered(self) -> int:
        """The last seq that a summary, or an extract in its place, stands for."""
        live = self.shown
        stood_in = self.stand_in[0] if self.stand_in[0] > self.cleared else 0
        return max(live.upto if live else 0, stood_in)

    @property
    def summary(self) -> str | None:
        """The text that stands for it; None where nothing does."""
        live = self.shown
        if self.stand_in[0] and self.stand_in[0] == self.covered > (live.upto if live else 0):
            return self.stand_in[1]
        return live.text if live else None

    @property
    def shown(self) -> Checkpoint | None:
        """The checkpoint whose summary a context has to show."""
        live = self.checkpoints[-1] if self.checkpoints else None
        return live if live is not None and live.upto > self.cleared else None


@overload
def audit(session: Session, *, context: Context | None = None) -> list[AuditFault]: ...
@overload
def audit(
    session: AsyncSession, *, context: Context | None = None
) -> Coroutine[object, None, list[AuditFault]]: ...
def audit(
    session: Session | AsyncSession, *, context: Context | None = None
) -> list[AuditFault] | Coroutine[object, None, list[AuditFault]]:
    """Every entry that is not accounted for, and every checkpoint that proves nothing; await it for an `AsyncSession`.

    `context` is the context to judge, made after the newest entry and checkpoint; without it one is asked for, which
    is a call like any other. Reads the whole log.
    """
    if isinstance(session, AsyncSession):
        return _audited(session, context)
    return drive(_audited(session._awaiting, context))  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 (the same session, as coroutines)


async def _audited(session: AsyncSession, context: Context | None) -> list[AuditFault]:
    judged = await session.context() if context is None else context
    books = await _books(session)
    return [
        *_numbers(books.entries),
        *await _lookups(session, books.entries),
        *_chain(books),
        *(AuditFault(AuditRule.SOUND, 0, str(fault)) for fault in check(judged)),
        *_summary(books, judged),
        *_accounts(books, judged),
        *_wording(books, judged),
    ]


async def _log(session: AsyncSession) -> list[Entry]:
    entries: list[Entry] = []
    while page := await session.history(after=len(entries), limit=_PAGE):
        entries.extend(page)
    return entries


async def _books(session: AsyncSession) -> _Books:
    entries = await _log(session)
    cleared = await _note(session, "cleared")
    noted = await _note(session, "system")
    heading = [entry.seq for entry in _leading(entries)] if noted is None else noted["seqs"]
    return _Books(
        entries,
        await session.checkpoints(),
        cast("int", cleared["upto"]) if cleared else 0,
        frozenset(cast("list[int]", heading)),
        await _stand_in(session),
    )


async def _stand_in(session: AsyncSession) -> tuple[int, str]:
    note = await _note(session, "stand-in")
    if note is None:
        return 0, ""
    store, scope = session._store, session._scope  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 (the books themselves)
    document = await store.get_document(scope, session.id, "stand-in", cast("str", note["key"]))
    if document is None:
        return 0, ""
    text = msgspec.json.decode(document.body, type=dict[str, object])["text"]
    return cast("int", note["upto"]), cast("str", text)


def _leading(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The system messages a log begins with: those are meant where none were named."""
    return takewhile(lambda entry: entry.message.role == "system", entries[:_LEADING])


async def _note(session: AsyncSession, key: str) -> dict[str, object] | None:
    store, scope = session._store, session._scope  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 (the books themselves)
    document = await store.get_document(scope, session.id, "session", key)
    return msgspec.json.decode(document.body, type=dict[str, object]) if document else None


def _numbers(entries: Sequence[Entry]) -> Iterator[AuditFault]:
    for expected, entry in enumerate(entries, 1):
        if entry.seq != expected:
            yield AuditFault(AuditRule.DENSE, entry.seq, f"stands where {expected} should")


async def _lookups(session: AsyncSession, entries: Sequence[Entry]) -> list[AuditFault]:
    store, scope = session._store, session._scope  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 (the books themselves)
    faults: list[AuditFault] = []
    for entry in entries:
        alone = await session.history(after=entry.seq - 1, limit=1)
        if [(one.seq, one.message) for one in alone] != [(entry.seq, entry.message)]:
            faults.append(AuditFault(AuditRule.FOUND, entry.seq, "not found by its seq"))
    named = {entry.client_id: entry.seq for entry in entries if entry.client_id}
    found = await store.find(scope, session.id, list(named)) if named else []
    for name, seq in named.items():
        places = [one.seq for one in found if one.client_id == name]
        if places != [seq]:
            detail = f"its client id leads to {places}"
            faults.append(AuditFault(AuditRule.FOUND, seq, detail))
    times = Counter(entry.client_id for entry in entries if entry.client_id)
    faults += [
        AuditFault(AuditRule.FOUND, named[name], f"{number} entries have its client id")
        for name, number in times.items()
        if number > 1
    ]
    return faults


def _chain(books: _Books) -> Iterator[AuditFault]:
    before: Checkpoint | None = None
    for each in books.checkpoints:
        name, upto = (before.id, before.upto) if before else ("", 0)
        if each.previous != name:
            detail = f"checkpoint {each.id} follows {each.previous!r}, not {name!r}"
            yield AuditFault(AuditRule.TILED, each.upto, detail)
        if not upto < each.upto <= len(books.entries):
            detail = f"checkpoint {each.id} covers up to {each.upto} after {upto}, of {len(books.entries)}"
            yield AuditFault(AuditRule.TILED, each.upto, detail)
        elif not _proved(books, before, each):
            detail = f"checkpoint {each.id} was not made from entries {upto + 1} to {each.upto}"
            yield AuditFault(AuditRule.PROVED, each.upto, detail)
        before = each


def _proved(books: _Books, before: Checkpoint | None, checkpoint: Checkpoint) -> bool:
    """Whether a digest is that of (previous, upto]; what was cleared before the fold is not in it."""
    upto = before.upto if before else 0
    starts = range(upto, max(upto, min(books.cleared, checkpoint.upto - 1)) + 1)
    for start in starts:
        digest = blake2b((before.digest if before else "").encode(), digest_size=16)
        for entry in books.entries[start : checkpoint.upto]:
            digest.update(b"%d:" % entry.seq + encode_message(entry.message))
        if digest.hexdigest() == checkpoint.digest:
            return True
    return False


def _summary(books: _Books, context: Context) -> Iterator[AuditFault]:
    sent = "\n".join(message.text for message in context.section(Section.SUMMARY))
    due = books.summary
    if due is None and sent:
        yield AuditFault(AuditRule.SUMMARISED, 0, "a summary is sent, and nothing was folded")
    elif due and due not in sent and not (_shortened(context) and sent):
        detail = f"the summary of the entries up to {books.covered} is not sent"
        yield AuditFault(AuditRule.SUMMARISED, books.covered, detail)


def _accounts(books: _Books, context: Context) -> Iterator[AuditFault]:
    """Each entry in exactly one place."""
    sent = {seq for seq in context.positions if seq >= 0}
    listed = _listed(context, Outcome.DROPPED)
    folded = _listed(context, Outcome.FOLDED)
    for entry in books.entries:
        seq, places = entry.seq, list[str]()
        if not entry.message.parts and (seq in listed or seq in folded):
            continue  # it says nothing: no provider takes it, and nothing can be lost of it
        if seq in sent or seq in books.system:
            places.append("sent")
        covered = books.cleared < seq <= books.covered
        if seq in folded or (covered and not places):
            places.append("folded")
            if not covered:
                detail = f"said to be folded, covered up to {books.covered}"
                yield AuditFault(AuditRule.ACCOUNTED, seq, detail)
            elif seq not in folded:
                yield AuditFault(AuditRule.ACCOUNTED, seq, "covered, and the receipt is silent")
        if seq in listed:
            places.append("dropped")
            if not listed[seq].strip():
                yield AuditFault(AuditRule.ACCOUNTED, seq, "dropped without a reason")
        if len(places) != 1:
            yield AuditFault(AuditRule.ACCOUNTED, seq, " and ".join(places) or "vanished")


def _wording(books: _Books, context: Context) -> Iterator[AuditFault]:
    yield from _headed(books, context)
    changed = {**_listed(context, Outcome.SHRUNK), **_listed(context, Outcome.MOVED)}
    _, opening, window, tail = context.ends
    shown: list[Message] = [*context.messages[opening:window], *context.messages[tail:]]
    if len(shown) != len(context.positions):
        detail = f"{len(shown)} messages sent, {len(context.positions)} places named"
        yield AuditFault(AuditRule.VERBATIM, 0, detail)
    times = Counter(seq for seq in context.positions if seq >= 0)
    for seq, message in zip(context.positions, shown, strict=False):
        if seq < 0 or seq in changed:
            continue
        if not 0 < seq <= len(books.entries):
            yield AuditFault(AuditRule.VERBATIM, seq, "sent, and not in the log")
        elif message != books.entries[seq - 1].message:
            yield AuditFault(AuditRule.VERBATIM, seq, "sent otherwise than it was logged")
        elif times[seq] > 1:
            yield AuditFault(AuditRule.VERBATIM, seq, f"sent {times[seq]} times")


def _headed(books: _Books, context: Context) -> Iterator[AuditFault]:
    """The current system messages stand at the head, as they were logged unless the receipt says otherwise."""
    heading = context.section(Section.SYSTEM)
    if len(heading) != len(books.system):
        detail = f"{len(heading)} system messages sent, {len(books.system)} are current"
        yield AuditFault(AuditRule.VERBATIM, 0, detail)
    if _shortened(context):
        return
    for seq, message in zip(sorted(books.system), heading, strict=False):
        if seq > len(books.entries) or message != books.entries[seq - 1].message:
            yield AuditFault(AuditRule.VERBATIM, seq, "a system message sent otherwise than logged")


def _shortened(context: Context) -> bool:
    """Whether the receipt says that system, summary or tail were shortened."""
    return any(fate.start < 0 and fate.outcome is Outcome.SHRUNK for fate in context.fates)


def _listed(context: Context, outcome: Outcome) -> dict[int, str]:
    """Seq -> reason of everything with this fate."""
    return {
        seq: fate.reason
        for fate in context.fates
        if fate.outcome is outcome
        for seq in range(max(fate.start, 0), fate.stop)
    }
