"""What the model saw, call by call.

A manifest is the stored account of one context: small however long the prompt, because it names stretches of the log
instead of repeating them. Together with the log it gives the very messages back, and a digest proves that it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import InvalidRecord
from turnfold.records import Document, Message, Usage, encode_message
from turnfold.window import Context, Outcome, Wired
from turnfold.window.context import shared_messages

__all__ = (
    "CALL",
    "Difference",
    "Explanation",
    "Fingerprints",
    "Manifest",
    "budget_of",
    "call_key",
    "compare",
    "describe",
    "read_manifest",
    "write_manifest",
)

_SPARE_FINGERPRINTS = 32
_MARK = 16
"""Bytes a message is recognised by."""
CALL: Final = "call"
"""Kind of the documents there is one of per call."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The account of one call."""

    v: int = 1
    call: str
    """Names the call within its conversation; calls sort by it in the order of the log."""
    seq: int
    """The newest entry when the context was built."""
    created: int
    """Microseconds since 1970, for people."""
    anchor: int
    head: int
    caps: tuple[tuple[int, int], ...]
    system: tuple[int, ...]
    checkpoint: str
    cleared: int
    tail: str
    budget: dict[str, float]
    counter: str
    tools: int
    """Tokens of the tool schemas."""
    tokens: int
    allowed: int
    certainty: str
    sections: dict[str, int]
    messages: int
    fates: tuple[tuple[int, int, str, str], ...]
    """(first seq, seq after the last, outcome, reason) of everything not sent as it was logged."""
    shared: int
    previous: int
    moved: bool
    digest: str
    """Of the messages sent."""
    usage: Usage | None = None
    """What the provider reported, once it was recorded."""
    recalled: tuple[tuple[int, float], ...] = ()
    """(seq, score) of the entries brought back into the tail because they match what was asked, or stand beside one."""
    wired: Wired | None = None
    """How it looked to the provider it was built for: what was changed, how large the body was."""
    stand_in: str = ""
    """The extract that was shown in the checkpoint's place, because a fold had not landed; empty for none."""

    @property
    def prefix_share(self) -> float:
        """How much of the previous prompt this one begins with; 1.0 for the first call."""
        return self.shared / self.previous if self.previous else 1.0

    def count(self, *outcomes: Outcome) -> int:
        """How many entries met one of these fates."""
        return sum(stop - start for start, stop, outcome, _ in self.fates if outcome in outcomes)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A call, with the messages it sent."""

    manifest: Manifest
    messages: tuple[Message, ...]
    exact: bool
    """Whether these are proved to be the very messages: their digest is that of the call."""
    costs: tuple[int, ...] = ()
    """Tokens of each message."""
    seqs: tuple[int, ...] = ()
    """Seq of the entry each message of window and newest turn shows, in order; -1 for a placeholder."""
    ends: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Index in `messages` where system, summary, window and tail end."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed between two calls."""

    shared_messages: int
    """How many messages at the beginning are the same in both."""
    gone: tuple[Message, ...]
    """Sent by the first call and not by the second."""
    new: tuple[Message, ...]
    """Sent by the second call and not by the first."""
    sections: dict[str, int]
    """Tokens each section grew by."""
    reasons: tuple[str, ...]
    """Why the beginning changed, where it did."""


def call_key(seq: int, number: int) -> str:
    """The name of the `number`-th call made when `seq` was the newest entry."""
    return f"{seq:012d}-{number:04d}"


class Fingerprints:
    """What messages are recognised by, worked out once for each: a window sends the same ones call after call.

    Only messages of the last calls are held: what has left the window must not stay in memory because of this.
    """

    __slots__ = ("_known", "_last", "_marks")

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, bytes]] = {}
        self._last: tuple[Message, ...] = ()
        self._marks = b""

    def of(self, messages: tuple[Message, ...]) -> str:
        """What messages are recognised by, one after the other."""
        same = shared_messages(messages, self._last)
        self._marks = self._marks[: same * _MARK] + b"".join(map(self._of, messages[same:]))
        self._last = messages
        if len(self._known) > 2 * len(messages) + _SPARE_FINGERPRINTS:
            sent = {id(message) for message in messages}
            self._known = {key: known for key, known in self._known.items() if key in sent}
        return blake2b(self._marks, digest_size=16).hexdigest()

    def _of(self, message: Message) -> bytes:
        known = self._known.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        mark = blake2b(encode_message(message), digest_size=_MARK).digest()
        self._known[id(message)] = (
            message,
            mark,
        )  # the message with it: its id is then nobody else's
        return mark


def describe(
    context: Context,
    *,
    call: str,
    seq: int,
    created: int,
    system: Sequence[int],
    checkpoint: str,
    cleared: int,
    tail: str,
    digest: str,
    stand_in: str = "",
    recalled: tuple[tuple[int, float], ...] = (),
) -> Manifest:
    """The manifest of a context."""
    receipt = context.receipt
    budget = context.budget
    return Manifest(
        call=call,
        seq=seq,
        created=created,
        anchor=context.anchor.position,
        head=max(context.head, 0),
        caps=context.anchor.caps,
        system=tuple(system),
        checkpoint=checkpoint,
        stand_in=stand_in,
        cleared=cleared,
        tail=tail,
        budget={
            "context_window": budget.context_window,
            "reserve_ratio": budget.reserve_ratio,
            "max_tokens": budget.max_tokens,
            "max_messages": budget.max_messages,
            "max_bytes": budget.max_bytes,
            "low": budget.marks.low,
            "snap": budget.marks.snap,
            "system": budget.shares.system,
            "summary": budget.shares.summary,
            "tail": budget.shares.tail,
        },
        counter=context.counter.name,
        tools=receipt.tools,
        tokens=receipt.tokens,
        allowed=receipt.allowed,
        certainty=str(receipt.certainty),
        sections={str(name): tokens for name, tokens in receipt.sections.items()},
        messages=receipt.messages,
        fates=tuple((f.start, f.stop, str(f.outcome), f.reason) for f in receipt.fates),
        shared=receipt.shared,
        previous=receipt.previous,
        moved=receipt.moved,
        digest=digest,
        recalled=recalled,
        wired=context.wired,
    )


def budget_of(manifest: Manifest) -> Budget:
    """The budget a call was held to."""
    numbers = manifest.budget
    held = manifest.wired.held if manifest.wired else 0
    return Budget(
        context_window=int(numbers["context_window"]),
        reserve_ratio=numbers["reserve_ratio"],
        max_tokens=int(numbers["max_tokens"]),
        max_messages=int(numbers["max_messages"]),
        max_bytes=held or int(numbers["max_bytes"]),
        shares=Shares(system=numbers["system"], summary=numbers["summary"], tail=numbers["tail"]),
        marks=WaterMarks(low=numbers["low"], snap=numbers["snap"]),
    )


def write_manifest(manifest: Manifest) -> Document:
    """The document of a manifest."""
    return Document(CALL, manifest.call, msgspec.json.encode(manifest), 0)


def read_manifest(document: Document) -> Manifest:
    """A manifest from its document."""
    try:
        manifest = msgspec.json.decode(document.body, type=Manifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a call's manifest: {error}", path=document.key) from None
    if manifest.v != 1:
        raise InvalidRecord(
            f"manifest version {manifest.v}; this release reads version 1",
            path=document.key,
            remedy="Upgrade turnfold",
        )
    return manifest


def compare(before: Explanation, after: Explanation) -> Difference:
    """What changed from one call to another."""
    shared = 0
    for ours, theirs in zip(before.messages, after.messages, strict=False):
        if ours != theirs:
            break
        shared += 1
    old, new = list(before.messages[shared:]), list(after.messages[shared:])
    gone = tuple(message for message in old if message not in new)
    added = tuple(message for message in new if message not in old)
    first, second = before.manifest, after.manifest
    sections = {
        name: second.sections.get(name, 0) - first.sections.get(name, 0)
        for name in (*first.sections, *second.sections)
    }
    return Difference(shared, gone, added, sections, tuple(_reasons(first, second)))


def _reasons(first: Manifest, second: Manifest) -> Iterable[str]:
    if first.system != second.system:
        yield "the system messages were replaced"
    if first.checkpoint != second.checkpoint:
        yield f"checkpoint {second.checkpoint or 'none'} took the place of {first.checkpoint or 'none'}"
    if first.anchor != second.anchor:
        yield f"the window begins at {second.anchor} instead of {first.anchor}"
    if first.caps != second.caps:
        yield "other entries are shown shortened"
    if first.tail != second.tail:
        yield "the tail changed"
    if first.budget != second.budget:
        yield "the budget is another"
