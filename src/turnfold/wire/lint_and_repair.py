"""Lint (check) and repair payloads of any of the four providers, and guess which provider's format a history has.

A conversation can become invalid: a tool call has no result, a message was edited by hand, an id came from another
provider. From then on the provider refuses every call. `repair` changes only parts that break a rule; text that can no
longer be sent is listed in the changes (`Change.lost`), never dropped silently.
"""

from __future__ import annotations

from typing import NamedTuple

from turnfold.wire.anthropic_lint_and_repair import lint_anthropic, repair_anthropic
from turnfold.wire.codec import Recipient
from turnfold.wire.gemini_lint_and_repair import lint_gemini, repair_gemini
from turnfold.wire.json_values import JsonObject, object_of, objects_of
from turnfold.wire.openai_chat_lint_and_repair import lint_openai_chat, repair_openai_chat
from turnfold.wire.openai_responses_lint_and_repair import (
    lint_openai_responses,
    repair_openai_responses,
)
from turnfold.wire.provider_rules import KEYS, Fault, FaultCollector, open_payload
from turnfold.wire.request import Change, ChangeNotes, Request

__all__ = (
    "Repaired",
    "finish_request",
    "guess_provider",
    "lint",
    "repair",
)


_LINTS = {
    "anthropic": lint_anthropic,
    "gemini": lint_gemini,
    "openai_chat": lint_openai_chat,
    "openai_responses": lint_openai_responses,
}


def lint(payload: object, provider: str) -> tuple[Fault, ...]:
    """Return a fault for each rule of `provider` that the payload breaks.

    A payload is the arguments of a call, or only its list of messages. Without faults, the provider may still refuse it
    for a reason that only the provider can check (a forged signature, a model's own limits).
    """
    opened = open_payload(payload, provider)
    faults = FaultCollector(provider)
    _LINTS[provider](opened, faults)
    return tuple(faults.found)


_REPAIRS = {
    "anthropic": repair_anthropic,
    "gemini": repair_gemini,
    "openai_chat": repair_openai_chat,
    "openai_responses": repair_openai_responses,
}


class Repaired(NamedTuple):
    """A payload without faults, and the changes that were made."""

    payload: object
    """The repaired payload; the given object itself if it had no faults."""
    changes: tuple[Change, ...]


def repair(payload: object, provider: str) -> Repaired:
    """Return the payload with every fault that `lint` finds repaired; the `payload` that was passed is not changed."""
    if not lint(payload, provider):
        return Repaired(payload, ())
    opened = open_payload(payload, provider)
    notes = ChangeNotes()
    fields = _REPAIRS[provider](opened, notes)
    fixed: object = fields[KEYS[provider]] if opened.bare else fields
    return Repaired(fixed, tuple(notes.changes))


def finish_request(kwargs: JsonObject, recipient: Recipient, *, repair: bool) -> Request:
    """Return the request with these arguments and the changes made so far.

    If `repair` is True, faults in the arguments are mended, which adds changes.
    """
    provider = recipient.provider
    if repair and lint(kwargs, provider):
        kwargs = _REPAIRS[provider](open_payload(kwargs, provider), recipient)
    return Request(provider, kwargs, tuple(recipient.changes))


def guess_provider(payload: object) -> str:
    """Guess the provider of a payload by fields that only one provider uses.

    Without such fields, the guess is OpenAI's chat format.
    """
    if (fields := object_of(payload)) is not None:
        if "contents" in fields:
            return "gemini"
        if "input" in fields:
            return "openai_responses"
        if "system" in fields:
            return "anthropic"
        payload = fields.get("messages", ())
    items = objects_of(payload)
    kinds = {str(item.get("type", "")) for item in items}
    if kinds & {"function_call", "function_call_output", "reasoning", "message"}:
        return "openai_responses"
    if any("parts" in item for item in items):
        return "gemini"
    blocks = [block for item in items for block in objects_of(item.get("content"))]
    if {str(block.get("type", "")) for block in blocks} & {"tool_use", "tool_result", "thinking"}:
        return "anthropic"
    return "openai_chat"
