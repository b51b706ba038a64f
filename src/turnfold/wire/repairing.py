"""Makes any payload one that its provider takes, and lists what that took.

Conversations break in the middle: a tool that never answered, a message edited by hand, an id another provider made.
A provider refuses all of it from then on. Repair changes only what a rule forbids, and nothing at all where no rule
does; text that can be said at no place is listed as lost, never dropped in silence.
"""

from __future__ import annotations

from typing import NamedTuple

from turnfold.wire.linting import lint
from turnfold.wire.ownership import Writing
from turnfold.wire.repair_anthropic import repair_anthropic
from turnfold.wire.repair_gemini import repair_gemini
from turnfold.wire.repair_openai_chat import repair_openai_chat
from turnfold.wire.repair_openai_responses import repair_openai_responses
from turnfold.wire.request import Change, Notes, Request
from turnfold.wire.rules import KEYS, opened
from turnfold.wire.values import JsonObject

__all__ = ("Repaired", "finished", "repair")

_REPAIRS = {
    "anthropic": repair_anthropic,
    "gemini": repair_gemini,
    "openai_chat": repair_openai_chat,
    "openai_responses": repair_openai_responses,
}


class Repaired(NamedTuple):
    """A payload without faults, and what was changed for it."""

    payload: object
    """The very payload that was given, when nothing was wrong with it."""
    changes: tuple[Change, ...]


def repair(payload: object, provider: str) -> Repaired:
    """The payload with every fault that `lint` finds repaired; the given one is not changed."""
    if not lint(payload, provider):
        return Repaired(payload, ())
    listing = opened(payload, provider)
    notes = Notes()
    fields = _REPAIRS[provider](listing, notes)
    fixed: object = fields[KEYS[provider]] if listing.bare else fields
    return Repaired(fixed, tuple(notes.changes))


def finished(kwargs: JsonObject, writing: Writing, *, repair: bool) -> Request:
    """The finished request: what was written, repaired where the conversation itself was broken."""
    provider = writing.provider
    if repair and lint(kwargs, provider):
        kwargs = _REPAIRS[provider](opened(kwargs, provider), writing)
    return Request(provider, kwargs, tuple(writing.changes))
