"""Makes the visible log agree with the history that a framework passes to a run.

A framework that passes a history says what the conversation is now: a user may have gone back, edited a message or
asked for another answer, and a front end sends messages with new ids and times. Messages are therefore recognised by
content and order. If the history only continues the log, the new messages are appended. If it differs from the log,
everything so far is cleared (it stays in the log, but no model sees it again, in a summary or by recall), and the
history is appended anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from turnfold.adapters._common.visible_history import VisibleEntry, VisibleHistory
from turnfold.memory import AsyncSession
from turnfold.records import Message, NewEntry, content_key, longest_overlap

__all__ = ("GivenRecord", "LoggedRecord", "follow_history")


_SLACK = 64
"""To recognise a history, twice its length plus this many entries of the log are read."""
_AGAIN = ":again:"
"""Separator between the name of a record and a number, if the record is stored a second time."""
_BATCH = 500
"""The most entries of one append."""


class GivenRecord(NamedTuple):
    """A message of a framework's history, converted to turnfold's form (a record), and its client id ("" for none)."""

    record: Message
    name: str


class LoggedRecord(NamedTuple):
    """A message of a framework's history as it is in the log, where it may have more content than the one passed."""

    seq: int
    record: Message


async def follow_history(
    session: AsyncSession,
    given: Sequence[GivenRecord],
    *,
    key: Callable[[Message], str] = content_key,
    whole: bool = False,
) -> list[LoggedRecord]:
    """Make the visible part of the log end with the framework's messages `given`.

    Returns the log entry of each message.

    Records with the same `key` are the same message. `whole`: the records are the whole log, and not only its end.
    """
    visible = VisibleHistory(session)
    reach = sys.maxsize if whole else 2 * len(given) + _SLACK
    entries = await visible.newest(reach, _is_message)
    keys = _keys(entries, given, key)
    start, length = (0, _common_prefix(*keys)) if whole else longest_overlap(*keys)
    known = [LoggedRecord(one.entry.seq, one.entry.message) for one in entries[start:][:length]]
    if start + length == len(entries) and (length or not entries):
        return known + await _append(session, given[length:])
    before = entries[:start] if length else []
    if length and len(entries) >= reach:
        first = entries[start].entry.seq
        all_of_it = await visible.entries()
        before = [one for one in all_of_it if _is_message(one) and one.entry.seq < first]
    await session.clear()
    kept = [GivenRecord(one.entry.message, one.entry.client_id) for one in before]
    richer = [
        GivenRecord(old.record, new.name) for old, new in zip(known, given[:length], strict=True)
    ]
    placed = await _append(session, [*kept, *richer, *given[length:]])
    return placed[len(kept) :]


def _common_prefix(log: Sequence[str], given: Sequence[str]) -> int:
    pairs = enumerate(zip(log, given, strict=False))
    return next((at for at, (old, new) in pairs if old != new), min(len(log), len(given)))


def _keys(
    entries: Sequence[VisibleEntry], given: Sequence[GivenRecord], key: Callable[[Message], str]
) -> tuple[list[str], list[str]]:
    """Return keys to compare log entries with messages: client ids that both have, otherwise `key(message)`."""
    names = [shown.entry.client_id.partition(_AGAIN)[0] for shown in entries]
    both = set(names) & {one.name for one in given} - {""}
    return (
        [
            name if name in both else key(shown.entry.message)
            for name, shown in zip(names, entries, strict=True)
        ],
        [one.name if one.name in both else key(one.record) for one in given],
    )


async def _append(session: AsyncSession, given: Sequence[GivenRecord]) -> list[LoggedRecord]:
    """Append messages to the log; a client id that a hidden entry already has is replaced by a new one."""
    placed: list[LoggedRecord] = []
    for at in range(0, len(given), _BATCH):
        batch = given[at : at + _BATCH]
        names = [one.name for one in batch if one.name]
        taken = (
            {entry.client_id for entry in await session.by_client_id(names)}
            if names
            else set[str]()
        )
        head = (await session.store.head(session.scope, session.id)).seq
        new: list[NewEntry] = []
        for number, one in enumerate(batch):
            if one.name and one.name not in taken:
                taken.add(one.name)
                new.append(NewEntry(one.record, one.name))
            else:
                name = one.name.partition(_AGAIN)[0]
                new.append(NewEntry(one.record, f"{name}{_AGAIN}{head + number}"))
        done = await session.add(new)
        placed += [LoggedRecord(done.first + n, entry.message) for n, entry in enumerate(new)]
    return placed


def _is_message(shown: VisibleEntry) -> int:
    return int(shown.entry.message.role != "system")
