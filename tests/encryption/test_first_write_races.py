"""A process without the key and one with it write to a new store at the same time, in every order of their store calls.

Each call of the store is one step, as a transaction is. What the process without the key is told must be true: a write
that is acknowledged came before the store was encrypted, and of a write that is refused nothing is left to read.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from types import coroutine
from typing import Any

import pytest

from turnfold.errors import Conflict, InvalidRecord, WrongKey
from turnfold.records import Document, NewEntry, assistant, erased_message, user
from turnfold.runtime import drive
from turnfold.stores import EncryptedStore, MemoryStore, Scope, Store, refuse_encrypted
from turnfold.stores.encryption.keys import is_marked
from turnfold.stores.encryption.records import document_is_sealed, message_is_sealed

KEY = "01" * 32
SCOPE = Scope("default")
Write = Callable[[Store, str, str], Coroutine[Any, Any, object]]


@coroutine
def _step() -> Generator[None]:
    yield


class Stepped:
    """A store in memory of which every call is one step of whoever makes it."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.blocking, self.abilities = True, inner.abilities

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)

        async def stepped(*args: Any, **options: Any) -> Any:
            await _step()
            return await call(*args, **options)

        return stepped


WRITES: dict[str, Write] = {
    "append": lambda store, name, text: store.append(SCOPE, name, [NewEntry(user(text), text)]),
    "document": lambda store, name, text: store.put_document(
        SCOPE, name, Document("kind", text, text.encode(), 0)
    ),
    "note": lambda store, name, text: store.note(
        SCOPE, name, Document("kind", text, text.encode(), 0), state=(0, 0)
    ),
}


def in_every_order(
    begin: Callable[[], tuple[MemoryStore, list[Coroutine[Any, Any, object]]]],
) -> Iterator[tuple[MemoryStore, list[object], list[int]]]:
    """Run two programs in every order of their steps; yield the store, what each returned or raised, and the order."""
    order: list[int] = []
    while True:
        store, programs = begin()
        results: list[Any] = [None, None]
        running, taken = {0, 1}, list[int]()
        open_choices: list[int] = []
        while running:
            at = len(taken)
            who = order[at] if at < len(order) else min(running)
            if who == 0 and 1 in running:
                open_choices.append(at)
            taken.append(who)
            try:
                programs[who].send(None)
            except StopIteration as done:
                running.discard(who)
                results[who] = done.value
            except (WrongKey, Conflict) as error:
                running.discard(who)
                results[who] = error
        yield store, results, taken
        if not open_choices:
            return
        order = [*taken[: open_choices[-1]], 1]


def contents(store: MemoryStore, conversation: str) -> tuple[list[str], list[bool]]:
    """Everything that a conversation holds as text, and whether each part of it is encrypted."""
    found: list[Document] = []
    drive(store.capture(SCOPE, conversation, found.append))
    entries = drive(store.read(SCOPE, conversation))
    texts = [each.body.decode(errors="replace") for each in found] + [
        each.message.text for each in entries
    ]
    sealed = [*map(document_is_sealed, found), *(message_is_sealed(e.message) for e in entries)]
    return texts, sealed


@pytest.mark.parametrize("with_key", WRITES)
@pytest.mark.parametrize("without_key", WRITES)
@pytest.mark.parametrize("name", ["same", "other"])
def test_nothing_plain_is_left_of_a_write_that_is_refused(
    without_key: str, with_key: str, name: str
) -> None:
    def begin() -> tuple[MemoryStore, list[Coroutine[Any, Any, object]]]:
        inner = MemoryStore()
        plain: Any = refuse_encrypted(Stepped(inner))  # pyright: ignore[reportArgumentType] (forwards all calls)
        encrypted: Any = EncryptedStore(lambda _: Stepped(inner), KEY)  # pyright: ignore[reportArgumentType]
        return inner, [
            WRITES[without_key](plain, name, "plain"),
            WRITES[with_key](encrypted, "same", "secret"),
        ]

    orders, refused = 0, 0
    for store, (plain, secret), order in in_every_order(begin):
        orders += 1
        texts, sealed = contents(store, name)
        assert drive(is_marked(store)), order
        if isinstance(plain, Exception):
            refused += 1
            assert not any("plain" in text for text in texts), (order, texts)
        else:
            assert any("plain" in text for text in texts), (order, texts)
            assert not any(sealed), (order, texts)
        assert not any("secret" in text for text in contents(store, "same")[0]), order
        if not isinstance(secret, Exception):
            again: Any = EncryptedStore(lambda _, store=store: store, KEY)
            if with_key == "append":
                read = drive(again.read(SCOPE, "same"))
                assert [each.message.text for each in read] == ["secret"], order
            else:
                assert drive(again.get_document(SCOPE, "same", "kind", "secret")).body == b"secret"
    assert orders > 20
    assert 0 < refused < orders


@pytest.mark.parametrize("with_key", ["document", "note"])
def test_what_a_plain_write_leaves_after_an_encrypted_document_hides_nothing(with_key: str) -> None:
    """The placeholder of the entry that was taken back is told as such, and what follows it can be read."""

    def begin() -> tuple[MemoryStore, list[Coroutine[Any, Any, object]]]:
        inner = MemoryStore()
        plain: Any = refuse_encrypted(Stepped(inner))  # pyright: ignore[reportArgumentType] (forwards all calls)
        encrypted: Any = EncryptedStore(lambda _: Stepped(inner), KEY)  # pyright: ignore[reportArgumentType]
        batch = [NewEntry(user("plain"), "1"), NewEntry(assistant("plain too"), "2")]
        return inner, [
            plain.append(SCOPE, "same", batch),
            WRITES[with_key](encrypted, "same", "secret"),
        ]

    left = 0
    for store, (_, secret), order in in_every_order(begin):
        entries = drive(store.read(SCOPE, "same"))
        if isinstance(secret, Exception) or not entries:
            continue
        left += 1
        again: Any = EncryptedStore(lambda _, store=store: store, KEY)
        drive(again.append(SCOPE, "same", [NewEntry(user("later"), "3")]))
        told = [each.message.text for each in drive(again.read(SCOPE, "same"))]
        taken_back = "[erased: written without the encryption key]"
        assert told == [taken_back, taken_back, "later"], order
        assert [each.seq for each in drive(again.read(SCOPE, "same", after=1))] == [2, 3]
        assert [each.seq for each in drive(again.tail(SCOPE, "same", tokens=10_000))] == [1, 2, 3]
        [hit] = drive(again.search(SCOPE, ["later"], conversation="same"))
        assert hit.seq == 3
        assert drive(again.get_document(SCOPE, "same", "kind", "secret")).body == b"secret"
    assert left > 0


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_such_a_placeholder_cannot_stand_for_a_later_entry(seq: int) -> None:
    """Whoever can write to the disk could hide an entry behind it otherwise."""
    inner = MemoryStore()
    encrypted: Any = EncryptedStore(lambda _: inner, KEY)
    batch = [NewEntry(user(f"number {n}"), str(n)) for n in (1, 2, 3)]
    drive(encrypted.append(SCOPE, "talk", batch))
    stored = drive(inner.read(SCOPE, "talk"))[seq - 1]
    gone = erased_message(user("x"), "written without the encryption key")
    drive(inner.erase(SCOPE, "talk", stored.seq, gone))
    again: Any = EncryptedStore(lambda _: inner, KEY)
    if seq == 1:  # as a log may be cut, its beginning may be hidden
        assert [each.message.text for each in drive(again.read(SCOPE, "talk"))][1:] == [
            "number 2",
            "number 3",
        ]
    else:
        with pytest.raises(InvalidRecord, match="is not encrypted"):
            drive(again.read(SCOPE, "talk"))


@pytest.mark.parametrize("reason", ["", "Pay 4,200 yuan to account 4711."])
def test_no_other_plain_entry_is_shown(reason: str) -> None:
    inner = MemoryStore()
    encrypted: Any = EncryptedStore(lambda _: inner, KEY)
    drive(encrypted.append(SCOPE, "talk", [NewEntry(user("secret"), "1")]))
    drive(inner.erase(SCOPE, "talk", 1, erased_message(user("x"), reason)))
    with pytest.raises(InvalidRecord, match="is not encrypted"):
        drive(encrypted.read(SCOPE, "talk"))
