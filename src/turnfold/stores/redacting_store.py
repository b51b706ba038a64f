"""A store that replaces secrets and personal data with labels before another store sees them.

`RedactingStore` rewrites messages, checkpoints (summaries), documents and restored conversations before they are
written, so that no database, index, cache or export behind it ever contains a secret that was found. In a JSON document
every string is redacted. A document in a binary form cannot be rewritten and is refused, unless its kind is one that is
made from redacted texts.

A label has a number, `[redacted: email 2]`, that is the same for the same value within a conversation. The numbers are
stored in a document of the conversation, which contains keyed hashes of the values and never a value. They are assigned
by compare-and-swap, so two processes never give one number to two values. In a restored conversation, values are
numbered in the order in which they occur, because a restore is one write that cannot wait for another.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final, TypeVar, cast

import msgspec

from turnfold._caches import SizedCache
from turnfold.errors import Conflict, IdReused, InvalidRecord, StoreError
from turnfold.records import (
    FOLDING,
    RUN,
    SESSION,
    STAND_IN,
    WINDOW,
    Checkpoint,
    Document,
    Entry,
    Message,
    NewEntry,
    Snapshot,
    decode_struct,
    encode_message,
    freeze_object,
    thaw_object,
)
from turnfold.redaction import (
    NumberOf,
    Redact,
    Redactor,
    Secret,
    highest_numbers,
    redact_message,
    redact_value,
    redacted_text,
)
from turnfold.stores.paged_reads import all_entries
from turnfold.stores.protocol import (
    Ability,
    Appended,
    ConversationOpening,
    Erasure,
    Piece,
    Restored,
    Scope,
    State,
    Store,
    Written,
)

__all__ = (
    "RedactingStore",
    "Redaction",
    "redaction_of",
)


_T = TypeVar("_T")
_KIND: Final = "redaction"
_KEY: Final = "labels"
_TRIES: Final = 64
_MAX_LEDGERS: Final = 1_024
_MAX_SNAPSHOT: Final = 256 << 20
_METADATA: Final = "redacted"
"""Field of a message's metadata with the number of redacted values, by kind."""
_SNAPSHOT: Final = "snapshot"
_DERIVED: Final = frozenset({"call", "fold-call", WINDOW, STAND_IN, _KIND})
"""Kinds of documents that are made from texts that are already redacted, and need not be redacted again."""
_PASSED: Final = frozenset(
    """blocking head view read read_ranges read_turn find tail live_checkpoint checkpoints get_document documents
    drop_document conversations search capture health close
    content_digest""".split()
)
"""Names of attributes that are passed on unchanged to the store behind this one, because they write nothing."""
_VECTORS: Final = "meaning:"
_NUMBERED: Final = re.compile(r"(\[redacted: [a-z][a-z -]{0,39}?) \d{1,9}\]")


class _Labels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of the labels that replace a conversation's secrets, in the form in which they are stored."""

    salt: str
    first: dict[str, int] = {}
    """Kind of secret -> the number of the last label whose value is forgotten. The values in `hashes` have the numbers
    after it."""
    hashes: dict[str, list[str]] = {}
    """Kind of secret -> the keyed hashes of the redacted values, in the order of the numbers in their labels."""
    v: int = 1


@dataclass(slots=True)
class _Ledger:
    """The numbers of the labels that replace a conversation's secrets, as last read or written."""

    labels: _Labels
    version: int = 0
    numbers: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """(kind, hash of the value) -> number of the label that replaces the value."""

    def __post_init__(self) -> None:
        for kind, hashes in self.labels.hashes.items():
            before = self.labels.first.get(kind, 0)
            for at, digest in enumerate(hashes, before + 1):
                self.numbers[kind, digest] = at


def redaction_of(store: Store) -> Redaction | None:
    """Return the `Redaction` of a store; None if the store does not redact."""
    # Stores that wrap a redacting store pass its attribute on.
    found: object = getattr(store, "redaction", None)
    return found if isinstance(found, Redaction) else None


class Redaction:
    """Replaces secrets in texts, messages and JSON values with labels, numbered for each conversation."""

    def __init__(self, store: Store, redactor: Redactor) -> None:
        self._store = store
        self._redactor = redactor
        self._key = blake2b(redactor.key or secrets.token_bytes(32)).digest()
        self._ledgers: SizedCache[tuple[str, str], _Ledger] = SizedCache(limit=_MAX_LEDGERS)
        self.on_stored: Callable[[Scope, str, Document], None] | None = None
        """Called with each stored version of the numbers: a wrapper of the redacting store does not see them."""

    async def apply(
        self, scope: Scope, conversation: str, change: Callable[[Redact], _T]
    ) -> tuple[_T, Counter[str]]:
        """Call `change` with a function that redacts a text; return its result and how much was redacted, by kind.

        `change` is called a second time if anything was found: the first call collects the values, which then get their
        numbers.
        """
        found: dict[tuple[str, str], None] = {}

        def collect(kind: str, value: str) -> int:
            found[kind, value] = None
            return 0

        made = await self._run(change, self._redact(collect, Counter()))
        if not found:
            return made, Counter()
        numbers = await self._numbers(scope, conversation, found)
        counts: Counter[str] = Counter()
        redact = self._redact(lambda kind, value: numbers[kind, value], counts)
        return await self._run(change, redact), counts

    async def _run(self, change: Callable[[Redact], _T], redact: Redact) -> _T:
        # Searching a long text takes a second: with an event loop, that is done in a thread.
        if self._store.blocking:
            return change(redact)
        return await asyncio.to_thread(change, redact)

    async def text(self, scope: Scope, conversation: str, text: str) -> str:
        """Return a text with labels in place of the secrets found in it."""
        return (await self.apply(scope, conversation, lambda redact: redact(text)))[0]

    async def value(self, scope: Scope, conversation: str, value: _T) -> _T:
        """Return a JSON value with labels in place of the secrets found in its texts and long integers."""
        made, _ = await self.apply(scope, conversation, lambda redact: redact_value(value, redact))
        return cast("_T", made)

    async def messages(
        self, scope: Scope, conversation: str, messages: Sequence[Message]
    ) -> tuple[list[Message], int]:
        """Return messages with labels in place of secrets, and the number of replaced secrets.

        The metadata of each message gets the numbers of that message.
        """
        made: list[Message] = []
        total = 0
        for message in messages:
            new, counts = await self._message(scope, conversation, message)
            made.append(new)
            total += counts.total()
        return made, total

    async def snapshot(self, scope: Scope, conversation: str, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with labels in place of secrets; files that are not UTF-8 are not searched."""

        def change(redact: Redact) -> Snapshot:
            return _redact_snapshot(snapshot, redact)

        return (await self.apply(scope, conversation, change))[0]

    def unnumbered(self, message: Message) -> Message:
        """Return a message whose labels have no numbers (`[redacted: email]`), to compare it with another."""
        counts: Counter[str] = Counter()
        made = redact_message(message, self._redact(_without_number, counts))
        made = redact_message(made, lambda text: _NUMBERED.sub(r"\1]", text))
        return _with_counts(made, counts)

    def unnumbered_value(self, value: object) -> object:
        """Return a JSON value whose labels have no numbers; it is the same in every process, and nothing is stored."""
        return redact_value(value, self._redact(_without_number, Counter()))

    def numbered(self, numbers: dict[tuple[str, str], int] | None) -> Callable[[_T], _T]:
        """Return a function that redacts the parts of a restored conversation: entries, documents, checkpoints.

        `numbers` collects the numbers of the values, in the order in which they occur; if it is None, labels get no
        numbers.
        """
        highest: Counter[str] = Counter()

        def number_of(kind: str, value: str) -> int:
            if numbers is None:
                return 0
            known = numbers.get((kind, _same_value(kind, value)))
            if known is None:
                highest[kind] += 1
                known = numbers[kind, _same_value(kind, value)] = highest[kind]
            return known

        return lambda piece: cast("_T", self._piece(cast("Piece", piece), number_of))

    async def document(self, scope: Scope, conversation: str, document: Document) -> Document:
        """Return a document with labels in place of secrets; raises `InvalidRecord` if it is not JSON."""
        if _is_derived(document):
            return document
        made, _ = await self.apply(
            scope, conversation, lambda redact: _redact_document(document, redact)
        )
        return made

    def forget(self, scope: Scope, conversation: str) -> None:
        """Drop the cached label numbers of a conversation; the stored numbers are not changed."""
        self._ledgers.drop((scope.tenant, conversation))

    async def _message(
        self, scope: Scope, conversation: str, message: Message
    ) -> tuple[Message, Counter[str]]:
        made, counts = await self.apply(
            scope, conversation, lambda redact: redact_message(message, redact)
        )
        return _with_counts(made, counts), counts

    def _redact(self, number_of: NumberOf, counts: Counter[str]) -> Redact:
        find = self._redactor.secrets

        def redact(text: str) -> str:
            return redacted_text(text, find(text), number_of, counts)

        return redact

    def _piece(self, piece: Piece, number_of: NumberOf) -> Piece:
        counts: Counter[str] = Counter()
        redact = self._redact(number_of, counts)
        match piece:
            case Entry():
                message = _with_counts(redact_message(piece.message, redact), counts)
                return piece if message == piece.message else replace(piece, message=message)
            case Checkpoint():
                return replace(piece, text=redact(piece.text))
            case Document():
                if piece.kind == _SNAPSHOT:
                    _refuse_packed(piece, self._redactor.secrets)
                    return piece
                if piece.kind == _KIND or piece.kind.startswith(_VECTORS):
                    return piece
                return _redact_document(
                    piece, redact
                )  # derived from texts that nobody has redacted
            case ConversationOpening():
                return piece

    async def _numbers(
        self, scope: Scope, conversation: str, found: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], int]:
        """Return the label numbers of these values; new values get new numbers, which are stored."""
        place = scope.tenant, conversation
        for _ in range(_TRIES):
            ledger = self._ledgers.get(place) or await self._load(scope, conversation)
            hashes = {
                (kind, value): self._hash(ledger.labels.salt, kind, value) for kind, value in found
            }
            missing = {
                (kind, digest): None
                for (kind, _), digest in hashes.items()
                if (kind, digest) not in ledger.numbers
            }
            if not missing or (ledger := await self._add(scope, conversation, ledger, missing)):
                self._ledgers.put(place, ledger)
                return {
                    (kind, value): ledger.numbers[kind, digest]
                    for (kind, value), digest in hashes.items()
                }
            self._ledgers.drop(place)
        raise Conflict(
            f"other writers changed the numbers of the redaction labels {_TRIES} times in a row, and nothing was "
            "written: try again"
        )

    async def _load(self, scope: Scope, conversation: str) -> _Ledger:
        stored = await self._store.get_document(scope, conversation, _KIND, _KEY)
        if stored is not None:
            path = f"{_KIND}/{_KEY}"
            labels = decode_struct(stored.body, _Labels, name="numbers of labels", path=path)
            return _Ledger(labels, stored.version)
        # The values of the labels in a copied or restored conversation are not known: their numbers are not used again.
        highest: dict[str, int] = {}
        async for entry in all_entries(self._store, scope, conversation):
            for kind, number in highest_numbers(encode_message(entry.message).decode()).items():
                highest[kind] = max(highest.get(kind, 0), number)
        return _Ledger(_Labels(secrets.token_hex(16), highest))

    async def _add(
        self,
        scope: Scope,
        conversation: str,
        ledger: _Ledger,
        missing: Iterable[tuple[str, str]],
    ) -> _Ledger | None:
        """Store the hashes of new values; the place of a hash in the list is the number of its label.

        Returns None if another writer stored some first.
        """
        hashes = {kind: list(known) for kind, known in ledger.labels.hashes.items()}
        for kind, digest in missing:
            hashes.setdefault(kind, []).append(digest)
        labels = msgspec.structs.replace(ledger.labels, hashes=hashes)
        document = Document(_KIND, _KEY, msgspec.json.encode(labels), 0)
        try:
            written = await self._store.put_document(
                scope, conversation, document, expect=ledger.version
            )
        except Conflict:
            return None
        if self.on_stored is not None:
            self.on_stored(scope, conversation, written.document)
        return _Ledger(labels, written.document.version)

    def _hash(self, salt: str, kind: str, value: str) -> str:
        same = f"{salt}\0{kind}\0{_same_value(kind, value)}"
        return blake2b(
            same.encode("utf-8", "surrogatepass"), key=self._key, digest_size=12
        ).hexdigest()


def _without_number(kind: str, value: str) -> int:  # noqa: ARG001 (the signature of NumberOf)
    return 0


def _same_value(kind: str, value: str) -> str:
    """Return a value without differences of spelling, such as spaces in a card number or capitals in an email."""
    if kind in ("card number", "id number", "phone"):
        return re.sub(r"[\s().+-]", "", value).upper()
    return value.casefold() if kind == "email" else value


def _with_counts(message: Message, counts: Mapping[str, int]) -> Message:
    """Return the message with the numbers of redacted values, by kind, added to its metadata."""
    if not counts:
        return message
    metadata = thaw_object(message.labels) if message.labels else {}
    before = metadata.get(_METADATA)
    known = cast("dict[str, object]", before) if isinstance(before, dict) else {}
    total = Counter({kind: n for kind, n in known.items() if isinstance(n, int)})
    total.update(counts)
    labels = freeze_object({**metadata, _METADATA: dict(sorted(total.items()))}, path="metadata")
    return Message.of(
        message.role,
        message.parts,
        name=message.name,
        extra=message.extra,
        labels=labels,
        origin=message.origin,
    )


def _is_derived(document: Document) -> bool:
    """Return True if a document contains no text of a user: redacting the random id of a lease would lose the lease."""
    if document.kind == SESSION:
        return document.key in (FOLDING, RUN)
    return document.kind in _DERIVED or document.kind.startswith(_VECTORS)


def _redact_document(document: Document, redact: Redact) -> Document:
    text = redact(document.text)
    body = document.body
    if document.kind != _SNAPSHOT:  # redacted before it was packed
        try:
            value = msgspec.json.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            raise InvalidRecord(
                f"the document has {len(body):,} bytes in a binary form, in which secrets cannot be found or replaced",
                path=f"{document.kind}/{document.key}",
                remedy="Store it with a memory that has no redact=",
            ) from None
        made = redact_value(value, redact, numbers=False)  # its integers are positions and times
        body = body if made is value or made == value else msgspec.json.encode(made)
    same = body == document.body and text == document.text
    return document if same else replace(document, body=body, text=text)


def _refuse_packed(document: Document, find: Callable[[str], Sequence[Secret]]) -> None:
    """Raise `InvalidRecord` if a stored snapshot, which cannot be redacted, contains a secret or cannot be decoded."""
    try:
        head, chunks = cast("tuple[object, bytes]", msgspec.msgpack.decode(document.body))
        data = zlib.decompressobj().decompress(chunks, _MAX_SNAPSHOT)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError, TypeError, zlib.error):
        raise InvalidRecord(
            "a document of this kind must be a stored snapshot, and this one cannot be decoded as one",
            path=f"{document.kind}/{document.key}",
        ) from None
    kinds: set[str] = set()

    def note(text: str) -> str:
        kinds.update(secret.kind for secret in find(text))
        return text

    redact_value(head, note, numbers=False)
    note(data.decode("utf-8", "replace"))
    note(document.text)
    if kinds:
        raise InvalidRecord(
            f"the snapshot contains {', '.join(sorted(kinds))} and cannot be changed: its id depends on its content",
            path=f"{document.kind}/{document.key}",
            remedy="Take the snapshot again in a memory with redact=, or import it into one without",
        )


def _redact_snapshot(snapshot: Snapshot, redact: Redact) -> Snapshot:
    files: dict[str, str | bytes] = {}
    for path, content in snapshot.files.items():
        name = redact(path)
        while name in files:
            name += "'"
        files[name] = _redact_content(content, redact)
    return replace(
        snapshot,
        context=redact(snapshot.context),
        files=files,
        state=cast("Mapping[str, object]", redact_value(dict(snapshot.state), redact)),
        summary=redact(snapshot.summary),
        insights=tuple(map(redact, snapshot.insights)),
        links=tuple(map(redact, snapshot.links)),
    )


def _redact_content(content: str | bytes, redact: Redact) -> str | bytes:
    if isinstance(content, str):
        return redact(content)
    try:
        return redact(content.decode()).encode()
    except UnicodeDecodeError:
        return content


class RedactingStore:
    """A store in front of another one that replaces secrets with labels in everything that is written."""

    def __init__(self, inner: Store, redactor: Redactor) -> None:
        self._inner = inner
        self.redaction = Redaction(inner, redactor)
        # Labels are numbered before an entry is stored, so two appends that a caller did not await could change places.
        self.abilities = inner.abilities - {Ability.IN_ORDER}

    def __getattr__(self, name: str) -> object:
        # Only listed names: any other attribute, such as the session values of a cache, might write without redaction.
        if name not in _PASSED:
            raise AttributeError(f"RedactingStore has no attribute {name!r}")
        return getattr(self._inner, name)

    async def append(
        self,
        scope: Scope,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        expect: int | None = None,
    ) -> Appended:
        """Redact and append a batch; a retry is recognised even if its labels would get other numbers now."""
        redaction = self.redaction
        messages = [one.message for one in entries]
        made, count = await redaction.messages(scope, conversation, messages)
        redacted = [
            NewEntry(message, one.client_id) for message, one in zip(made, entries, strict=True)
        ]
        try:
            done = await self._inner.append(scope, conversation, redacted, expect=expect)
        except IdReused:
            known = await self._same_stored(scope, conversation, redacted)
            if known is None:
                raise
            done = await self._inner.append(scope, conversation, known, expect=expect)
        return replace(done, redacted=count) if count else done

    async def _same_stored(
        self, scope: Scope, conversation: str, entries: Sequence[NewEntry]
    ) -> list[NewEntry] | None:
        """Return the stored entries with these client ids if only the numbers in their labels differ.

        Returns None otherwise.
        """
        ids = [one.client_id for one in entries if one.client_id]
        stored = {one.client_id: one for one in await self._inner.find(scope, conversation, ids)}
        known: list[NewEntry] = []
        for one in entries:
            there = stored.get(one.client_id)
            if there is not None:
                same = map(self.redaction.unnumbered, (there.message, one.message))
                if len(set(map(encode_message, same))) > 1:
                    return None
            known.append(NewEntry(there.message, one.client_id) if there else one)
        return known

    async def add_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: Checkpoint,
        *,
        seen: tuple[int, int] | None = None,
    ) -> Checkpoint:
        """Redact the text of a checkpoint (summary), and add the checkpoint."""
        text = await self.redaction.text(scope, conversation, checkpoint.text)
        return await self._inner.add_checkpoint(
            scope, conversation, replace(checkpoint, text=text), seen=seen
        )

    async def drop_checkpoint(
        self,
        scope: Scope,
        conversation: str,
        checkpoint: str,
        *,
        put: Sequence[Document] = (),
        drop: Sequence[Document] = (),
        state: State | None = None,
    ) -> list[Checkpoint]:
        """Remove a checkpoint and all later ones; the documents in `put` are redacted before they are written."""
        redacted = [await self.redaction.document(scope, conversation, each) for each in put]
        return await self._inner.drop_checkpoint(
            scope, conversation, checkpoint, put=redacted, drop=drop, state=state
        )

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        state: State | None = None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        """Redact a document and write it; raise `InvalidRecord` if its body is binary and cannot be redacted."""
        document = await self.redaction.document(scope, conversation, document)
        return await self._inner.put_document(
            scope, conversation, document, expect=expect, state=state, seen=seen
        )

    async def note(
        self, scope: Scope, conversation: str, document: Document, *, state: State
    ) -> State:
        """Redact a new document and write it, if the conversation still has the version `state`."""
        document = await self.redaction.document(scope, conversation, document)
        return await self._inner.note(scope, conversation, document, state=state)

    async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
        """Redact whole conversations and write them, all or none.

        Raises an error if a binary body cannot be redacted.
        """
        refusal: InvalidRecord | None = None

        def redacted() -> Iterator[Piece]:
            nonlocal refusal
            change = self.redaction.numbered({})
            for piece in pieces:
                if isinstance(piece, ConversationOpening):
                    change = self.redaction.numbered({})
                elif isinstance(piece, Document) and piece.kind == _KIND:
                    change = self.redaction.numbered(None)  # its numbers belong to other values
                try:
                    made = change(piece)
                except InvalidRecord as error:
                    refusal = error
                    raise
                yield made

        try:
            return await self._inner.restore(scope, redacted())
        except StoreError:  # a store may wrap an error raised by the iterator
            if refusal is not None:
                raise refusal from None
            raise

    async def erase(
        self,
        scope: Scope,
        conversation: str,
        seq: int,
        message: Message,
        *,
        replace: Sequence[Document] = (),
        drop: Sequence[Document] = (),
    ) -> Erasure:
        """Erase an entry; the message that replaces it and the documents in `replace` are redacted."""
        redaction = self.redaction
        [placeholder], _ = await redaction.messages(scope, conversation, [message])
        documents = [await redaction.document(scope, conversation, each) for each in replace]
        return await self._inner.erase(
            scope, conversation, seq, placeholder, replace=documents, drop=drop
        )

    async def delete(self, scope: Scope, conversation: str) -> Erasure:
        """Delete a conversation and the numbers of its labels."""
        self.redaction.forget(scope, conversation)
        return await self._inner.delete(scope, conversation)
