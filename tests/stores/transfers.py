"""What the tests of export and import stand on: stores filled at random, and short ways to move them about."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from turnfold.records import Document, Message, NewEntry
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, Store, Transferred, export_to, import_from
from turnfold.testing.stores.random_operations import messages, storable_texts
from turnfold.testing.stores.sample_values import HOSTILE_NAMES, checkpoint

__all__ = (
    "ALICE",
    "Contents",
    "Deed",
    "any_contents",
    "exported",
    "filled",
    "imported",
    "sealed",
)

ALICE = Scope("alice")

names = st.sampled_from(("a", "b", "c", *HOSTILE_NAMES.values()))


@dataclass(frozen=True)
class Deed:
    """Something done to a conversation."""

    conversation: str
    messages: tuple[Message, ...]
    client_id: str
    document: tuple[str, str, bytes] | None
    dropped: bool
    summary: str | None


Contents = list[Deed]

any_contents: st.SearchStrategy[Contents] = st.lists(
    st.builds(
        Deed,
        conversation=st.sampled_from(("a", "b")) | names,
        messages=st.lists(messages, max_size=1).map(tuple),
        client_id=st.just("") | names,
        document=st.none() | st.tuples(names, names, st.binary(max_size=20)),
        dropped=st.booleans(),
        summary=st.none() | storable_texts,
    ),
    max_size=3,
)
"""What may have been done to a scope."""


def filled(contents: Contents, *, clock: Callable[[], int] | None = None) -> MemoryStore:
    """A store in which all that was done."""
    store = MemoryStore(clock=clock)
    for number, deed in enumerate(contents):
        drive(_do(store, deed, number))
    return store


async def _do(store: Store, deed: Deed, number: int) -> None:
    name = deed.conversation
    if deed.messages:
        entries = [
            NewEntry(message, f"{number}.{place}{deed.client_id}"[:512] if deed.client_id else "")
            for place, message in enumerate(deed.messages)
        ]
        head = (await store.append(ALICE, name, entries)).head
        if deed.summary is not None:
            given = checkpoint(str(number), head.seq, previous=head.checkpoint, text=deed.summary)
            await store.add_checkpoint(ALICE, name, given)
    if deed.document is not None:
        kind, key, body = deed.document
        await store.put_document(ALICE, name, Document(kind, key, body, 0))
        if deed.dropped:
            await store.drop_document(ALICE, name, kind, key)


def exported(store: Store, scope: Scope = ALICE) -> bytes:
    """The export of a blocking store."""
    file = io.BytesIO()
    drive(export_to(store, scope, file))
    return file.getvalue()


def imported(data: bytes, store: Store | None = None, scope: Scope = ALICE) -> Transferred:
    """The import into a blocking store; into a new one unless one is given."""
    return drive(import_from(store or MemoryStore(), scope, io.BytesIO(data)))


def sealed(lines: list[bytes]) -> bytes:
    """The lines with all counts and digests right again, as somebody would write them who means harm."""
    done: list[bytes] = []
    content, created, part, total = hashlib.sha256(), b"", [0, 0, 0], [0, 0, 0, 0]
    for line in lines:
        kind = _kind(line)
        if kind == b"conversation":
            content, part = hashlib.sha256(), [0, 0, 0]
            created = line.partition(b'"created":')[2].partition(b",")[0]
            total[0] += 1
        elif kind in _COUNTED:
            content.update(line)
            part[_COUNTED.index(kind)] += 1
            total[_COUNTED.index(kind) + 1] += 1
        if kind == b"end":
            content.update(created)
            done.append(_END % (*part, content.hexdigest().encode()))
        elif kind == b"footer":
            whole = hashlib.sha256(b"".join(done)).hexdigest().encode()
            done.append(_FOOTER % (*total, whole))
        else:
            done.append(line)
    return b"".join(done)


_END = b'{"line":"end","documents":%d,"entries":%d,"checkpoints":%d,"digest":"%s"}\n'
_FOOTER = b'{"line":"footer","conversations":%d,"documents":%d,"entries":%d,"checkpoints":%d,"digest":"%s"}\n'
_COUNTED = (b"document", b"entry", b"checkpoint")


def _kind(line: bytes) -> bytes:
    return line.removeprefix(b'{"line":"').partition(b'"')[0]
