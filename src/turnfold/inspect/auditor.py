"""Audit of a conversation: checks that a context accounts for every entry of the log, and returns the faults.

The audit reads the whole log, every checkpoint (summary of folded entries) and one context. Exactly one of these must
be true for each entry: it is sent as it was logged; it is covered by the newest checkpoint, or by an extract shown
until the next checkpoint; or it is listed in the receipt (context report) with a reason. The digests of folded
(compacted) entries are computed again. The audit shares no code with the session, so it does not repeat its faults.
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

from turnfold.memory import AsyncSession, Session
from turnfold.records import Checkpoint, Entry, Message, encode_message
from turnfold.runtime import drive
from turnfold.window import Context, Outcome, Section, check

__all__ = (
    "AuditFault",
    "AuditRule",
    "audit",
)


_MAX_LEADING = 8


class AuditRule(StrEnum):
    """Rules that `audit` checks."""

    DENSE = "dense"
    """The seqs of the log are 1, 2, 3 ... without gaps."""
    FOUND = "found"
    """Looking up an entry by its seq (log position) or by its client id finds this entry and no other."""
    TILED = "tiled"
    """Each checkpoint (summary) covers the range of entries right after the previous checkpoint's, without gap or
    overlap."""
    PROVED = "proved"
    """The digest in a checkpoint (summary) matches the entries that the checkpoint covers."""
    SOUND = "sound"
    """The context passes all checks of `turnfold.window.check`."""
    ACCOUNTED = "accounted"
    """Every log entry is either sent, or folded into the summary, or listed with a reason."""
    VERBATIM = "verbatim"
    """Messages are sent as they were logged, unless the receipt lists a change."""
    SUMMARISED = "summarised"
    """The summary sent is that of the live (newest) checkpoint, or an extract shown until the next checkpoint."""


@dataclass(frozen=True, slots=True)
class AuditFault:
    """A fault that an audit found: which rule is broken, at which entry, and how."""

    rule: AuditRule
    seq: int
    """Seq of the entry; 0 if the fault does not concern a single entry."""
    detail: str

    def __str__(self) -> str:
        where = f" at entry {self.seq}" if self.seq else ""
        return f"{self.rule}{where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class _StoredState:
    """Log, checkpoints (summaries) and session notes (stored state) of a conversation, as read from the store."""

    entries: Sequence[Entry]
    checkpoints: Sequence[Checkpoint]
    cleared: int
    """Seq (log position) of the last entry hidden by `clear()`; 0 if `clear()` was never called."""
    system: frozenset[int]
    """Seqs of the current system messages, which are first in every context."""
    stand_in: tuple[int, str] = (0, "")
    """The extract that is shown until the next checkpoint: seq of the last entry it covers, and its text; 0 and "" for
    none."""

    @property
    def covered(self) -> int:
        """Last log position that the summary, or the extract shown instead of it, covers; 0 if there is none."""
        live = self.shown
        stood_in = self.stand_in[0] if self.stand_in[0] > self.cleared else 0
        return max(live.upto if live else 0, stood_in)

    @property
    def summary(self) -> str | None:
        """The text of the summary, or of the extract shown instead of it; None if there is none."""
        live = self.shown
        if self.stand_in[0] and self.stand_in[0] == self.covered > (live.upto if live else 0):
            return self.stand_in[1]
        return live.text if live else None

    @property
    def shown(self) -> Checkpoint | None:
        """The checkpoint whose summary a context must show; None if none was stored since the last `clear()`."""
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
    """Check that a context accounts for every entry of the log, and return the faults; await it for `AsyncSession`.

    `context` is the context to check, built after the newest entry and checkpoint; without it a context is built, which
    counts as a call. The whole log is read.
    """
    if isinstance(session, AsyncSession):
        return _audit(session, context)
    return drive(_audit(session._awaiting, context))  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 (the same session with coroutines)


async def _audit(session: AsyncSession, context: Context | None) -> list[AuditFault]:
    judged = await session.context() if context is None else context
    stored = await _read_state(session)
    return [
        *_check_seqs(stored.entries),
        *await _check_lookups(session, stored.entries),
        *_check_checkpoints(stored),
        *(AuditFault(AuditRule.SOUND, 0, str(fault)) for fault in check(judged)),
        *_check_summary(stored, judged),
        *_check_accounting(stored, judged),
        *_check_text(stored, judged),
    ]


async def _read_state(session: AsyncSession) -> _StoredState:
    entries = await session.history()
    cleared = await _note(session, "cleared")
    system = await _note(session, "system")
    heading = (
        [entry.seq for entry in _leading_system(entries)] if system is None else system["seqs"]
    )
    return _StoredState(
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
    extract = await _note(session, cast("str", note["key"]), kind="stand-in")
    return (cast("int", note["upto"]), cast("str", extract["text"])) if extract else (0, "")


def _leading_system(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Return the system messages at the start of the log; they are used if no session note names others."""
    return takewhile(lambda entry: entry.message.role == "system", entries[:_MAX_LEADING])


async def _note(
    session: AsyncSession, key: str, *, kind: str = "session"
) -> dict[str, object] | None:
    store, scope = session._store, session._scope  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 (reads the stored documents)
    document = await store.get_document(scope, session.id, kind, key)
    return msgspec.json.decode(document.body, type=dict[str, object]) if document else None


def _check_seqs(entries: Sequence[Entry]) -> Iterator[AuditFault]:
    for expected, entry in enumerate(entries, 1):
        if entry.seq != expected:
            yield AuditFault(
                AuditRule.DENSE, entry.seq, f"found where entry {expected} was expected"
            )


async def _check_lookups(session: AsyncSession, entries: Sequence[Entry]) -> list[AuditFault]:
    store, scope = session._store, session._scope  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 (reads the stored documents)
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
            detail = f"looking up its client id finds the seqs {places}, not {seq} alone"
            faults.append(AuditFault(AuditRule.FOUND, seq, detail))
    times = Counter(entry.client_id for entry in entries if entry.client_id)
    faults += [
        AuditFault(AuditRule.FOUND, named[name], f"{number} entries have its client id")
        for name, number in times.items()
        if number > 1
    ]
    return faults


def _check_checkpoints(stored: _StoredState) -> Iterator[AuditFault]:
    before: Checkpoint | None = None
    for each in stored.checkpoints:
        name, upto = (before.id, before.upto) if before else ("", 0)
        if each.previous != name:
            detail = f"checkpoint {each.id} follows {each.previous!r}, not {name!r}"
            yield AuditFault(AuditRule.TILED, each.upto, detail)
        if not upto < each.upto <= len(stored.entries):
            last = len(stored.entries)
            detail = f"checkpoint {each.id} ends at {each.upto}, but must end after {upto} and not after {last}"
            yield AuditFault(AuditRule.TILED, each.upto, detail)
        elif not _digest_matches(stored, before, each):
            detail = f"checkpoint {each.id} was not made from entries {upto + 1} to {each.upto}"
            yield AuditFault(AuditRule.PROVED, each.upto, detail)
        before = each


def _digest_matches(
    stored: _StoredState, before: Checkpoint | None, checkpoint: Checkpoint
) -> bool:
    """Return True if a checkpoint (summary) has the digest of its entries, except those cleared before it was made."""
    upto = before.upto if before else 0
    starts = range(upto, max(upto, min(stored.cleared, checkpoint.upto - 1)) + 1)
    for start in starts:
        digest = blake2b((before.digest if before else "").encode(), digest_size=16)
        for entry in stored.entries[start : checkpoint.upto]:
            digest.update(b"%d:" % entry.seq + encode_message(entry.message))
        if digest.hexdigest() == checkpoint.digest:
            return True
    return False


def _check_summary(stored: _StoredState, context: Context) -> Iterator[AuditFault]:
    sent = "\n".join(message.text for message in context.section(Section.SUMMARY))
    expected_summary = stored.summary
    if expected_summary is None and sent:
        yield AuditFault(AuditRule.SUMMARISED, 0, "a summary is sent although nothing was folded")
    elif (
        expected_summary and expected_summary not in sent and not (_is_shortened(context) and sent)
    ):
        detail = f"the summary of the entries up to {stored.covered} is not sent"
        yield AuditFault(AuditRule.SUMMARISED, stored.covered, detail)


def _check_accounting(stored: _StoredState, context: Context) -> Iterator[AuditFault]:
    """Yield a fault for each entry that is not exactly one of these: sent, folded, listed as dropped.

    Also yields one for an entry that is listed as folded but covered by no summary, that is covered but not listed, or
    that is listed as dropped without a reason. An empty message need only be listed, because no provider accepts it.
    """
    sent = {seq for seq in context.positions if seq >= 0}
    listed = _with_outcome(context, Outcome.DROPPED)
    folded = _with_outcome(context, Outcome.FOLDED)
    for entry in stored.entries:
        seq, places = entry.seq, list[str]()
        if not entry.message.parts and (seq in listed or seq in folded):
            continue  # an empty message: no provider accepts it, and nothing is lost
        if seq in sent or seq in stored.system:
            places.append("sent")
        covered = stored.cleared < seq <= stored.covered
        if seq in folded or (covered and not places):
            places.append("folded")
            if not covered:
                detail = f"listed as folded, but only entries up to {stored.covered} are covered"
                yield AuditFault(AuditRule.ACCOUNTED, seq, detail)
            elif seq not in folded:
                yield AuditFault(
                    AuditRule.ACCOUNTED, seq, "covered by a summary, but not in the receipt"
                )
        if seq in listed:
            places.append("dropped")
            if not listed[seq].strip():
                yield AuditFault(AuditRule.ACCOUNTED, seq, "dropped without a reason")
        if len(places) != 1:
            problem = " and also ".join(places) or "missing: neither sent, folded nor dropped"
            yield AuditFault(AuditRule.ACCOUNTED, seq, problem)


def _check_text(stored: _StoredState, context: Context) -> Iterator[AuditFault]:
    yield from _check_system(stored, context)
    changed = {**_with_outcome(context, Outcome.SHRUNK), **_with_outcome(context, Outcome.MOVED)}
    _, opening, window, tail = context.ends
    shown: list[Message] = [*context.messages[opening:window], *context.messages[tail:]]
    if len(shown) != len(context.positions):
        detail = f"{len(shown)} messages sent, {len(context.positions)} positions given"
        yield AuditFault(AuditRule.VERBATIM, 0, detail)
    times = Counter(seq for seq in context.positions if seq >= 0)
    for seq, message in zip(context.positions, shown, strict=False):
        if seq < 0 or seq in changed:
            continue
        if not 0 < seq <= len(stored.entries):
            yield AuditFault(AuditRule.VERBATIM, seq, "sent, but not in the log")
        elif message != stored.entries[seq - 1].message:
            yield AuditFault(AuditRule.VERBATIM, seq, "sent differently from the log")
        elif times[seq] > 1:
            yield AuditFault(AuditRule.VERBATIM, seq, f"sent {times[seq]} times")


def _check_system(stored: _StoredState, context: Context) -> Iterator[AuditFault]:
    """Yield faults of the system messages: they must come first and, unless a change is listed, as logged."""
    heading = context.section(Section.SYSTEM)
    if len(heading) != len(stored.system):
        detail = f"{len(heading)} system messages sent, {len(stored.system)} are current"
        yield AuditFault(AuditRule.VERBATIM, 0, detail)
    if _is_shortened(context):
        return
    for seq, message in zip(sorted(stored.system), heading, strict=False):
        if seq > len(stored.entries) or message != stored.entries[seq - 1].message:
            yield AuditFault(
                AuditRule.VERBATIM, seq, "a system message sent differently from the log"
            )


def _is_shortened(context: Context) -> bool:
    """Return True if the receipt says that system, summary or tail (pins, rules, recalled passages) were shortened."""
    return any(fate.start < 0 and fate.outcome is Outcome.SHRUNK for fate in context.fates)


def _with_outcome(context: Context, outcome: Outcome) -> dict[int, str]:
    """Return {seq: reason} of all entries that the receipt lists with this outcome."""
    return {
        seq: fate.reason
        for fate in context.fates
        if fate.outcome is outcome
        for seq in range(max(fate.start, 0), fate.stop)
    }
