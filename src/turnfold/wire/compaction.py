"""Compaction by the provider: requests it, and sends its encrypted summaries in place of the messages they cover.

Anthropic and OpenAI can replace the beginning of a conversation by a compaction item that only the same provider and
model can read. The item is part of a response and covers everything before it. A context holds both the item and the
messages that turnfold would send without it, so a request to the item's provider and model begins at the item, and a
request to any other leaves the item out. A bare list of messages is written as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from turnfold.errors import InvalidOption
from turnfold.records import Message, OpaquePart, has_compaction, is_compaction
from turnfold.window import Context, Section
from turnfold.wire.codec import Recipient, leading_system
from turnfold.wire.json_values import (
    JsonObject,
    object_at,
    object_of,
    objects_of,
    plain_object,
    text_at,
)

__all__ = (
    "COMPACTION_REFUSED",
    "anthropic_fields",
    "asks_to_compact",
    "compaction_trigger",
    "context_edits",
    "recipient_of",
    "without_covered",
)


COMPACTION_REFUSED: Final = b"compaction"
"""Key in `refused` that means: the provider refused the request to compact or to edit the prompt, so do not ask for it.
"""
_LEAST: Final = {"anthropic": 50_000, "openai_responses": 1_000}
"""Provider with compaction -> the smallest threshold in input tokens that it accepts."""
_COMPACTING: Final = re.compile(
    r"claude-(?:fable|mythos|opus-4-[6-9]|sonnet-4-[6-9]|(?:opus|sonnet)-[5-9]|haiku-5-[5-9]|haiku-[6-9])\b.*"
    r"|gpt-[5-9]\b.*"
)
"""Matches models that support compaction according to the providers' documentation."""


_EDITS: Final = {
    "clear_thinking": "clear_thinking_20251015",
    "clear_tool_uses": "clear_tool_uses_20250919",
}
"""Short name -> type of each context edit of Anthropic, in the order in which the interface wants them."""
_COMPACT: Final = "compact_20260112"
_BETA_OF_EDITS: Final = "context-management-2025-06-27"
_BETA_OF_COMPACTION: Final = "compact-2026-01-12"


def context_edits(edits: Sequence[str | Mapping[str, object]]) -> tuple[JsonObject, ...]:
    """Return Anthropic's context edits as the interface wants them, in its order.

    An edit is a short name ("clear_tool_uses", "clear_thinking") or the interface's own object. Raises `InvalidOption`
    for anything else, and for two edits of one kind.
    """
    found: dict[str, JsonObject] = {}
    for edit in edits:
        given = {"type": _EDITS.get(edit, edit)} if isinstance(edit, str) else edit
        fields = plain_object(given)
        own = text_at(fields, "type")
        name = next((each for each in _EDITS if own.startswith(f"{each}_")), "")
        if not name:
            known = " or ".join(map(repr, _EDITS))
            raise InvalidOption(
                f"context_edits= has {own or edit!r}: give {known}, or such an object of Anthropic's interface; "
                "Memory(compaction=...) asks for compaction"
            )
        if name in found:
            raise InvalidOption(f"context_edits= has two edits of the kind {name!r}: give one")
        found[name] = fields
    return tuple(found[name] for name in _EDITS if name in found)


def recipient_of(
    context: Context | Sequence[Message], provider: str, model: str, refused: Collection[bytes]
) -> Recipient:
    """Return the provider and model that a request goes to, which decide what content may be sent.

    For example, only the provider and model that wrote a compaction item (encrypted summary) may receive it.
    """
    repeated = False
    if isinstance(context, Context):
        first = leading_system(context.messages)
        repeated = not any(map(has_compaction, context.messages[first : first + 1]))
    return Recipient(provider, model, refused=refused, repeated=repeated)


def without_covered(
    context: Context | Sequence[Message], recipient: Recipient, lead: int
) -> tuple[Sequence[Message], int]:
    """Return the messages after the first `lead`, without those that the provider's compaction item covers.

    Also returns the index of the first of them. They begin with the newest compaction item that the recipient may
    receive. If that item is in the newest turn, the tail (pins, rules, recalled passages) is moved from before that
    turn to the end.
    """
    if not isinstance(context, Context):
        return context[lead:], lead
    messages = context.messages
    for start in range(len(messages) - 1, lead, -1):
        message = messages[start]
        if message.role == "assistant" and any(
            is_compaction(part) and recipient.may_receive(part, message)
            for part in message.parts
            if isinstance(part, OpaquePart)
        ):
            reason = (
                f"{start - lead} messages that a compaction item of {recipient.provider} covers"
            )
            recipient.left_out(f"messages[{lead}]", reason)
            tail = context.section(Section.TAIL) if start >= context.ends[3] else ()
            return (*messages[start:], *tail), start
    return messages[lead:], lead


def compaction_trigger(context: Context | Sequence[Message], recipient: Recipient) -> int:
    """Return the number of input tokens at which the provider is asked to compact; 0 to ask for no compaction.

    It is 0 after the provider has refused such a request (`COMPACTION_REFUSED`). `InvalidOption` is raised if the
    memory has `compaction="native"` and the provider cannot compact, or only above the requested number of tokens.
    """
    native = context.native if isinstance(context, Context) else None
    if native is None or COMPACTION_REFUSED in recipient.refused:
        return 0
    provider = recipient.provider
    least = _LEAST.get(provider)
    if least is not None and native.tokens >= least:
        known = native.required or _COMPACTING.fullmatch(recipient.model.rsplit("/", 1)[-1])
        return native.tokens if known else 0
    if not native.required:
        return 0
    if least is None:
        why = f"{provider} has no compaction of its own. Use compaction='auto'"
    else:
        why = (
            f"{provider} compacts at {least:,} input tokens or more, this budget asks for {native.tokens:,}. "
            "Use compaction='auto', or a larger budget"
        )
    raise InvalidOption(f"compaction='native' is not possible: {why}")


def asks_to_compact(request: JsonObject) -> bool:
    """Return True if the arguments of a call ask the provider to compact the prompt."""
    asked = request.get("context_management")
    asked = asked or object_at(request, "extra_body").get("context_management")
    edits = objects_of((object_of(asked) or {}).get("edits") or asked)
    return any(text_at(edit, "type").startswith("compact") for edit in edits)


def anthropic_fields(
    items: Sequence[JsonObject], trigger: int, edits: Sequence[JsonObject] = ()
) -> JsonObject:
    """Return the additional arguments of a call to Anthropic that edits the prompt, or has or requests a compaction.

    A block that was made on demand is signed; a call with such a block cannot request compaction at a threshold. The
    interface wants the compaction after other `edits`.
    """
    blocks = (block for item in items for block in objects_of(item.get("content")))
    found = [block for block in blocks if block.get("type") == "compaction"]
    betas = [_BETA_OF_EDITS] if edits else []
    asked = list(edits)
    if any(text_at(each, "signature") and not each.get("encrypted_content") for each in found):
        betas.append("compact-2026-09-04")
    elif found or trigger:
        edit: JsonObject = {"type": _COMPACT}
        if trigger:
            edit["trigger"] = {"type": "input_tokens", "value": trigger}
        betas.append(_BETA_OF_COMPACTION)
        asked.append(edit)
    fields: JsonObject = {"extra_headers": {"anthropic-beta": ",".join(betas)}} if betas else {}
    return {**fields, "extra_body": {"context_management": {"edits": asked}}} if asked else fields
