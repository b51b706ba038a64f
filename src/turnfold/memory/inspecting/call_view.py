"""One call: as a point of a timeline, and as the list of what the model saw."""

from __future__ import annotations

from dataclasses import dataclass

from turnfold.memory.inspecting.items import Item, LeftOut, left_out, sent_items
from turnfold.memory.manifests import Explanation, Manifest
from turnfold.window import Outcome

__all__ = ("CallPoint", "CallView", "call_point", "call_view")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPoint:
    """A call as one bar: everything but the messages."""

    call: str
    seq: int
    """The newest entry when it was made."""
    created: int
    """Microseconds since 1970."""
    tokens: int
    allowed: int
    certainty: str
    counter: str
    sections: dict[str, int]
    tools: int
    """Tokens of the tool schemas."""
    messages: int
    kept_prefix: float
    """How much of the previous prompt it begins with."""
    shared: int
    """Tokens at its beginning that the previous call sent too."""
    moved: bool
    """Whether it moved the window: the provider's cache is lost from there on."""
    checkpoint: str
    folded: int
    dropped: int
    shrunk: int
    reported_input: int | None
    """What the provider counted; None where nobody recorded it."""
    reported_cached: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """What the model saw in a call, and what it did not."""

    point: CallPoint
    exact: bool
    """Whether the messages are proved to be the very ones that were sent."""
    window: int
    """The model's window; 0 where only a number of tokens was given."""
    reserve: float
    items: tuple[Item, ...]
    left_out: tuple[LeftOut, ...]
    recalled: tuple[tuple[int, float], ...]
    """(seq, score) of what was brought back into the tail."""


def call_point(manifest: Manifest) -> CallPoint:
    """The point of a call."""
    usage = manifest.usage
    return CallPoint(
        call=manifest.call,
        seq=manifest.seq,
        created=manifest.created,
        tokens=manifest.tokens,
        allowed=manifest.allowed,
        certainty=manifest.certainty,
        counter=manifest.counter,
        sections=dict(manifest.sections),
        tools=manifest.tools,
        messages=manifest.messages,
        kept_prefix=manifest.prefix_share,
        shared=manifest.shared,
        moved=manifest.moved,
        checkpoint=manifest.checkpoint,
        folded=manifest.count(Outcome.FOLDED),
        dropped=manifest.count(Outcome.DROPPED),
        shrunk=manifest.count(Outcome.SHRUNK),
        reported_input=usage.input if usage else None,
        reported_cached=usage.cached if usage else None,
    )


def call_view(explained: Explanation) -> CallView:
    """What the model saw in a call."""
    manifest = explained.manifest
    return CallView(
        point=call_point(manifest),
        exact=explained.exact,
        window=int(manifest.budget["context_window"]),
        reserve=manifest.budget["reserve_ratio"],
        items=sent_items(explained),
        left_out=left_out(manifest.fates),
        recalled=manifest.recalled,
    )
