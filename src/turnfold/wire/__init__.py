"""Wire formats of the providers: write requests, read responses and histories, check (lint) and repair payloads.

A wire format is the JSON of one provider's API: `openai_chat`, `openai_responses`, `anthropic` or `gemini`.
"""

from __future__ import annotations

from turnfold.wire import anthropic, gemini, openai_chat, openai_responses
from turnfold.wire.codec import (
    RESTORE_FAULTS,
    arguments_object,
    block_text,
    data_of,
    difference,
    item_key,
    media_note,
    restored,
    unreadable_form,
)
from turnfold.wire.compaction import COMPACTION_REFUSED, asks_to_compact, context_edits
from turnfold.wire.json_values import (
    JsonObject,
    list_at,
    list_of,
    object_at,
    object_of,
    objects_of,
    packed,
    plain_object,
    text_at,
    unpacked,
    with_numbers,
    writable,
)
from turnfold.wire.lint_and_repair import Repaired, guess_provider, lint, repair
from turnfold.wire.provider_rules import RULES, Fault
from turnfold.wire.request import (
    Action,
    Change,
    Request,
    WireFormat,
    body_bytes,
    check_tools,
    chunks,
    fitted,
    require_size,
)
from turnfold.wire.sdk_objects import SdkMessages, read_sdk_objects
from turnfold.wire.tools import (
    ENDING,
    ToolOutcome,
    described,
    encodable,
    outcome_of,
    outcome_of_blocks,
)

__all__ = (
    "COMPACTION_REFUSED",
    "ENDING",
    "RESTORE_FAULTS",
    "RULES",
    "Action",
    "Change",
    "Fault",
    "JsonObject",
    "Repaired",
    "Request",
    "SdkMessages",
    "ToolOutcome",
    "WireFormat",
    "anthropic",
    "arguments_object",
    "asks_to_compact",
    "block_text",
    "body_bytes",
    "check_tools",
    "chunks",
    "context_edits",
    "data_of",
    "described",
    "difference",
    "encodable",
    "fitted",
    "gemini",
    "guess_provider",
    "item_key",
    "lint",
    "list_at",
    "list_of",
    "media_note",
    "object_at",
    "object_of",
    "objects_of",
    "openai_chat",
    "openai_responses",
    "outcome_of",
    "outcome_of_blocks",
    "packed",
    "plain_object",
    "read_sdk_objects",
    "repair",
    "require_size",
    "restored",
    "text_at",
    "unpacked",
    "unreadable_form",
    "with_numbers",
    "writable",
)
