"""Test data of the store cases: helpers that make records, and strings that faulty stores fail on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from turnfold.records import Checkpoint, Document, Entry, NewEntry, assistant, user
from turnfold.search import Hit
from turnfold.stores import (
    Appended,
    Captured,
    ConversationInfo,
    Head,
    Piece,
    Scope,
    Store,
    View,
    Written,
)
from turnfold.tokens import Certainty, Framing, TokenCounter

__all__ = (
    "ALICE",
    "BAD_NAMES",
    "BOB",
    "HOSTILE_NAMES",
    "HOSTILE_TEXTS",
    "TALK",
    "VERBS",
    "WRITING_VERBS",
    "Verb",
    "character_counter",
    "checkpoint",
    "comparable",
    "digest",
    "document",
    "entries_with_ids",
    "exchange",
    "note_now",
    "pieces_of",
    "seqs",
    "texts",
    "user_entries",
)


ALICE = Scope("alice")
BOB = Scope("bob")
TALK = "talk"

BAD_NAMES: Mapping[str, str] = {
    "empty": "",
    "nul": "a\x00b",
    "too long": "x" * 513,
    "lone surrogate": "a\ud800",
}
"""Names that every method must reject."""

HOSTILE_NAMES: Mapping[str, str] = {
    "quotes": 'it\'s "quoted" `here`',
    "sql": "x'); DROP TABLE entry; --",
    "sql or": "' OR '1'='1",
    "like": "%_[a-z]\\%",
    "percent format": "%s %(name)s {} {0}",
    "placeholder": "$1 ?1 :name @name",
    "path": "../../etc/passwd",
    "backslashes": "\\x00\\u0000\\'",
    "separators": "a:b/c|d,e\x1fg",
    "newlines": "a\r\nb\tc",
    "spaces": "  padded  ",
    "chinese": "会话：第一个（测试）",
    "right to left": "\u202eשלום مرحبا\u202c",
    "emoji": "👩🏽‍💻🏳️‍🌈",
    "decomposed": "e\u0301",
    "not a character": "\uffff\U0010ffff",
    "longest": "长" * 512,
    "json": '{"$ne": null}',
    "cache key": "*\r\nFLUSHALL\r\n",
}
"""Names that are allowed and must be returned exactly."""

HOSTILE_TEXTS: Mapping[str, str] = {
    **HOSTILE_NAMES,
    "empty": "",
    "nul": "before\x00after",
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "checkpoint marker": "[MEMORY_CHECKPOINT]",
    "byte order marks": "\ufeffa\ufeff",
    "line separators": "a\u2028b\u2029c\x85d",
}
"""Texts that a message or a summary may have and that must be returned exactly."""


def user_entries(*words: str) -> list[NewEntry]:
    """Return user messages with these texts, without client ids, to append."""
    return [NewEntry(user(word)) for word in words]


def entries_with_ids(*words: str) -> list[NewEntry]:
    """Return user messages with these texts, each with its text as client id, to append."""
    return [NewEntry(user(word), client_id=word) for word in words]


def exchange(question: str, answer: str) -> list[NewEntry]:
    """Return one turn to append: a user message and its answer."""
    return [NewEntry(user(question)), NewEntry(assistant(answer))]


def checkpoint(name: str, upto: int, *, previous: str = "", text: str = "summary") -> Checkpoint:
    """Return a checkpoint that covers the entries up to a seq."""
    return Checkpoint(name, previous, upto, text, digest=f"digest of {upto}")


def document(key: str, body: bytes = b"body", *, kind: str = "note") -> Document:
    """Return a document as a caller passes it; the store assigns the version."""
    return Document(kind, key, body, version=0)


def texts(entries: Iterable[Entry]) -> list[str]:
    """Return the texts of log entries."""
    return [entry.message.text for entry in entries]


def seqs(entries: Iterable[Entry]) -> list[int]:
    """Return the seqs (numbers) of log entries."""
    return [entry.seq for entry in entries]


class _Characters:
    certainty = Certainty.EXACT

    def __init__(self, price: int) -> None:
        self.name = f"characters*{price}"
        self._price = price

    def count(self, text: str) -> int:
        return len(text) * self._price


def character_counter(price: int = 1) -> TokenCounter:
    """Return a simple counter: a message of plain text costs its length times `price`."""
    bare = Framing(name="bare", origin="made for tests", message=0, reply=0, author=0)
    return TokenCounter(_Characters(price), framing=bare)


Verb: TypeAlias = Callable[[Store, Scope, str], Awaitable[object]]


async def note_now(store: Store, scope: Scope, name: str, given: Document) -> None:
    """Write a note that expects the current version of the conversation, so that it is accepted."""
    head = await store.head(scope, name)
    await store.note(scope, name, given, state=head.state)


async def _view_documents(store: Store, scope: Scope, name: str) -> tuple[Document, ...]:
    return (await store.view(scope, name, ["note"])).documents


WRITING_VERBS: Mapping[str, Verb] = {
    "append": lambda store, scope, name: store.append(scope, name, user_entries("late")),
    "add_checkpoint": lambda store, scope, name: store.add_checkpoint(
        scope, name, checkpoint("late", 1)
    ),
    "put_document": lambda store, scope, name: store.put_document(scope, name, document("late")),
    "note": lambda store, scope, name: note_now(store, scope, name, document("late")),
    "drop_document": lambda store, scope, name: store.drop_document(scope, name, "note", "key"),
}
VERBS: Mapping[str, Verb] = {
    **WRITING_VERBS,
    "head": lambda store, scope, name: store.head(scope, name),
    "view": _view_documents,
    "read": lambda store, scope, name: store.read(scope, name),
    "read_ranges": lambda store, scope, name: store.read_ranges(scope, name, [(1, 1), (3, 5)]),
    "read_turn": lambda store, scope, name: store.read_turn(scope, name, 1),
    "find": lambda store, scope, name: store.find(scope, name, ["one"]),
    "tail": lambda store, scope, name: store.tail(scope, name, tokens=1000),
    "checkpoints": lambda store, scope, name: store.checkpoints(scope, name),
    "get_document": lambda store, scope, name: store.get_document(scope, name, "note", "key"),
    "documents": lambda store, scope, name: store.documents(scope, name, "note"),
    "capture": lambda store, scope, name: store.capture(scope, name, lambda _: None),
    "search": lambda store, scope, name: store.search(scope, ["one"], conversation=name),
    "delete": lambda store, scope, name: store.delete(scope, name),
}
"""Every method that takes a conversation, with arguments that are valid for any conversation."""


def comparable(answer: object) -> object:
    """Return a result without epochs, which are random, to compare the results of two stores."""
    match answer:
        case Head():
            return replace(answer, epoch=0)
        case ConversationInfo() | Captured() | View():
            return replace(answer, head=replace(answer.head, epoch=0))
        case Appended():
            head = replace(answer.head, epoch=0)
            return replace(answer, head=head, before=(answer.before[0], 0))
        case Written():
            return replace(answer, before=(answer.before[0], 0), after=(answer.after[0], 0))
        case list() | tuple():
            return [comparable(each) for each in cast("Sequence[object]", answer)]
        case _:
            return answer


_QUERIES = ("one", "two three", "alpha", "a b c", "北京")


async def digest(
    store: Store, scope: Scope, *, kinds: tuple[str, ...] = ("note", "state")
) -> tuple[
    list[ConversationInfo],
    list[list[Entry]],
    list[list[Entry]],
    list[list[Checkpoint]],
    list[list[Document]],
    list[list[Hit]],
]:
    """Return all data that a scope can read, as one value: its conversations, and the results of a few searches.

    Epochs, which are random, are left out, so that the digests of two stores can be compared.
    """
    listed = await store.conversations(scope, limit=10_000)
    names = [info.conversation for info in listed]
    return (
        [replace(info, head=replace(info.head, epoch=0)) for info in listed],
        [await store.read(scope, name, limit=10_000) for name in names],
        [await store.tail(scope, name, tokens=5) for name in names],
        [await store.checkpoints(scope, name) for name in names],
        [await store.documents(scope, name, kind) for name in names for kind in kinds],
        [await store.search(scope, [query], limit=10_000) for query in _QUERIES],
    )


async def pieces_of(store: Store, scope: Scope, name: str = TALK) -> list[Piece]:
    """Return a conversation as the list of records (pieces) that `Store.restore` takes."""
    documents: list[Document] = []
    captured = await store.capture(scope, name, documents.append)
    assert captured is not None  # noqa: S101 (the conversation was just written)
    entries = await store.read(scope, name, upto=captured.head.seq, limit=10_000)
    return [captured.opening, *documents, *entries, *captured.checkpoints]
