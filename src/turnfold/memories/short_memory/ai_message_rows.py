"""Convert a log to rows of the documented table `ai_message`, and imported rows of such a table to a log.

A turn is one row with its question and last answer; a checkpoint is a row with the query `[MEMORY_CHECKPOINT]`, after
the last turn it covers completely. turnfold stores checkpoints apart from messages, so that no user can forge one by
typing this marker; in an imported table the marker and the label of the summary are the only signs of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import groupby
from typing import Final

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.memories.short_memory.render import SUMMARY_LABEL
from turnfold.records import Checkpoint, Entry, Message, check_text, encode_message
from turnfold.stores import ConversationOpening, Piece

__all__ = ("CHECKPOINT_QUERY", "AIMessage", "ImportedMessages", "conversation_pieces", "make_rows")


CHECKPOINT_QUERY: Final = "[MEMORY_CHECKPOINT]"
CHECKPOINT_AUTHOR: Final = "turnfold:checkpoint"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_USER: Final = "user"
_ASSISTANT: Final = "assistant"


class AIMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the documented table `ai_message`: one turn, or one checkpoint (stored summary)."""

    message_id: str
    conversation_id: str
    query: str = ""
    answer: str = ""
    create_time: datetime = _EPOCH
    create_by: str = _USER
    """Id of the user, if given with the turn; `turnfold:checkpoint` in the row of a checkpoint (summary)."""
    update_time: datetime = _EPOCH
    update_by: str = _ASSISTANT
    """Code of the agent, if given with the turn."""

    @property
    def is_checkpoint(self) -> bool:
        """True if the row is a checkpoint: by its author, or in a table of another program by its query and label."""
        if self.create_by == CHECKPOINT_AUTHOR:
            return True
        marked = self.query == CHECKPOINT_QUERY and "#" not in self.message_id
        return marked and self.answer.startswith(SUMMARY_LABEL.rstrip(": "))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMessages:
    """Numbers of conversations, turns and checkpoints that an import added, and of conversations that existed."""

    conversations: int = 0
    turns: int = 0
    checkpoints: int = 0
    already: int = 0


def make_rows(
    conversation: str, entries: Sequence[Entry], checkpoints: Sequence[Checkpoint]
) -> Iterator[AIMessage]:
    """Yield turns as rows of the table `ai_message`, with each checkpoint after the last turn that it covers."""
    waiting = list(checkpoints)
    for _, group in groupby(entries, key=lambda entry: entry.turn):
        turn = list(group)
        while waiting and waiting[0].upto < turn[-1].seq:
            yield _checkpoint_row(conversation, waiting.pop(0))
        row = _turn_row(conversation, turn)
        if row is not None:
            yield row
    for checkpoint in waiting:
        yield _checkpoint_row(conversation, checkpoint)


def _turn_row(conversation: str, turn: Sequence[Entry]) -> AIMessage | None:
    asked = next((each for each in turn if each.message.role == "user"), None)
    answers = [each for each in turn if each.message.role == "assistant" and each.message.text]
    if asked is None and not answers:
        return None
    return AIMessage(
        message_id=f"{conversation}#{turn[0].seq}",
        conversation_id=conversation,
        query=asked.message.text if asked else "",
        answer=answers[-1].message.text if answers else "",
        create_time=_time(turn[0].created),
        create_by=_author(turn, "user_id", _USER),
        update_time=_time(turn[-1].created),
        update_by=_author(turn, "agent_code", _ASSISTANT),
    )


def _author(turn: Sequence[Entry], label: str, default: str) -> str:
    named = next(
        (str(found) for each in turn if (found := each.message.metadata.get(label))), default
    )
    # "turnfold:" marks the author of a checkpoint, so a user id that begins like it is prefixed.
    return f"user:{named}" if named.startswith("turnfold:") else named


def _checkpoint_row(conversation: str, checkpoint: Checkpoint) -> AIMessage:
    return AIMessage(
        message_id=checkpoint.id,
        conversation_id=conversation,
        query=CHECKPOINT_QUERY,
        answer=checkpoint.text,
        create_time=_time(checkpoint.created),
        create_by=CHECKPOINT_AUTHOR,
        update_time=_time(checkpoint.created),
        update_by=CHECKPOINT_AUTHOR,
    )


def _time(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND


def _microseconds(time: datetime) -> int:
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def conversation_pieces(rows: Iterable[object]) -> list[tuple[list[Piece], int, int]]:
    """Return each conversation of a table as pieces for `Store.restore`, with its numbers of turns and checkpoints.

    The rows may come in any order; they are sorted by time, and rows of the same time keep their order. The documented
    checkpoint text contains the newest turns, so a checkpoint covers every turn before it.
    """
    read = [_read_row(row, at) for at, row in enumerate(rows)]
    read.sort(key=lambda row: (row.conversation_id, _microseconds(row.create_time)))
    found: list[tuple[list[Piece], int, int]] = []
    for name, group in groupby(read, key=lambda row: row.conversation_id):
        found.append(_pieces(name, list(group)))
    return found


def _read_row(row: object, at: int) -> AIMessage:
    path = f"rows[{at}]"
    if isinstance(row, AIMessage):
        return row
    if not isinstance(row, Mapping):
        raise InvalidRecord(
            f"a row must be a dict of column names and values, got {type(row).__name__}", path=path
        )
    try:
        given = {name: value for name, value in row.items() if value is not None}  # pyright: ignore[reportUnknownVariableType] (a row of any driver)
        read = msgspec.convert(given, AIMessage, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRecord(
            f"the row does not fit the columns of the table ai_message: {error}", path=path
        ) from None
    if not read.conversation_id or not (read.query or read.answer):
        raise InvalidRecord(
            "the row cannot be imported: it needs a conversation_id, and a query or an answer",
            path=path,
        )
    for text in (read.message_id, read.query, read.answer):
        check_text(text, path=path)
    return read


def _pieces(conversation: str, rows: Sequence[AIMessage]) -> tuple[list[Piece], int, int]:
    times = [_microseconds(row.create_time) for row in rows]
    entries: list[Entry] = []
    checkpoints: list[Checkpoint] = []
    turn = 0
    for row, created in zip(rows, times, strict=True):
        if row.is_checkpoint:
            last = checkpoints[-1] if checkpoints else None
            covered = entries[last.upto if last else 0 :]
            if covered:
                digest = _digest(last, covered)
                name, upto = last.id if last else "", covered[-1].seq
                checkpoints.append(
                    Checkpoint(row.message_id, name, upto, row.answer, digest, created=created)
                )
            continue
        turn += bool(row.query)
        for role, text, label, author, default in (
            ("user", row.query, "user_id", row.create_by, _USER),
            ("assistant", row.answer, "agent_code", row.update_by, _ASSISTANT),
        ):
            if text:
                labels = {label: author} if author not in ("", default) else {}
                message = Message(role, text, metadata=labels)
                name = f"ai_message:{row.message_id}.{role}"
                entries.append(Entry(len(entries) + 1, message, name, created, turn, 0, 0))
    opening = ConversationOpening(conversation, min(times), max(times))
    return [opening, *entries, *checkpoints], turn, len(checkpoints)


def _digest(previous: Checkpoint | None, entries: Sequence[Entry]) -> str:
    """Return the digest of a checkpoint over these entries, the same that a fold (compaction) would have stored."""
    digest = blake2b((previous.digest if previous else "").encode(), digest_size=16)
    for entry in entries:
        digest.update(b"%d:" % entry.seq + encode_message(entry.message))
    return digest.hexdigest()
