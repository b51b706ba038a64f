"""The rules that each provider has for payloads, checked by `lint`, each with the document it is known from.

Providers document only some of their rules; the others are known from errors that people reported. So every fault names
the document or the issue thread of its rule. Rules of single models (for example about a prompt that ends with an
assistant message) are not here, because a payload alone does not show whether they apply.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from turnfold.errors import InvalidOption
from turnfold.wire.json_values import JsonObject, list_of, object_of

__all__ = (
    "KEYS",
    "RULES",
    "Fault",
    "FaultCollector",
    "IdRule",
    "OpenedPayload",
    "id_rule",
    "open_payload",
)


_MESSAGES = "Anthropic API reference, Create a Message, `messages`"
_ANTHROPIC_TOOLS = "Anthropic docs, Handle tool calls"
_CACHING = "Anthropic docs, Prompt caching"
_THINKING = "Anthropic docs, Extended thinking"
_CHAT = "OpenAI API reference, Create chat completion, `messages`"
_RESPONSES = "OpenAI API reference, Create a model response, `input`"
_GEMINI = "Gemini API reference, GenerateContentRequest.contents"
_CALLING = "Gemini API docs, Function calling"

RULES: dict[str, dict[str, str]] = {
    "anthropic": {
        "shape": _MESSAGES,
        "role": _MESSAGES,
        "some-message": _MESSAGES,
        "first-role": "github.com/lobehub/lobehub/issues/1601",
        "system-place": "Anthropic docs, Mid-conversation system messages",
        "empty-content": "github.com/glowingjade/obsidian-smart-composer/pull/156",
        "blank-text": "github.com/home-assistant/core/issues/175637",
        "call-id": "Anthropic API reference, tool_use.id must match ^[a-zA-Z0-9_-]+$",
        "call-unique": "github.com/BerriAI/litellm/issues/23510",
        "call-name": "Anthropic API reference, tool name ^[a-zA-Z0-9_-]{1,128}$",
        "call-input": "Anthropic API reference, tool_use.input is an object",
        "call-answered": _ANTHROPIC_TOOLS,
        "result-called": _ANTHROPIC_TOOLS,
        "result-once": _ANTHROPIC_TOOLS,
        "results-first": _ANTHROPIC_TOOLS,
        "thinking-signed": "Anthropic API reference, thinking.signature",
        "thinking-last": "github.com/tailcallhq/forgecode/issues/2107",
        "thinking-order": _THINKING,
        "thinking-first": _THINKING,
        "cache-marks": _CACHING,
        "cache-place": _CACHING,
        "media-source": "Anthropic API reference, image.source and document.source",
    },
    "openai_chat": {
        "shape": _CHAT,
        "role": _CHAT,
        "some-message": "github.com/CopilotKit/CopilotKit/issues/529",
        "empty-content": _CHAT,
        "empty-calls": "github.com/openai/openai-node/pull/1341",
        "name": "OpenAI API reference, message name ^[^\\s<|\\\\/>]+$, at most 64 characters",
        "call-id": "github.com/agno-agi/agno/issues/5382 (at most 40 characters)",
        "call-unique": _CHAT,
        "call-name": "OpenAI API reference, function name ^[a-zA-Z0-9_-]{1,64}$",
        "call-input": "OpenAI API reference, function.arguments is a string",
        "call-answered": "OpenAI docs, Function calling; error 'tool_call_ids did not have response messages'",
        "result-called": "OpenAI docs, Function calling; error 'must be a response to a preceeding message'",
        "media-place": f"{_CHAT}: content parts of each role",
        "media-source": "OpenAI API reference, content parts image_url, input_audio, file",
    },
    "openai_responses": {
        "shape": _RESPONSES,
        "role": _RESPONSES,
        "some-message": _RESPONSES,
        "empty-content": _RESPONSES,
        "content-type": "OpenAI error 'Supported values are: output_text and refusal' for assistant messages",
        "call-id": "github.com/decolua/9router/issues/393 (at most 64 characters)",
        "call-unique": _RESPONSES,
        "call-name": "OpenAI API reference, function name ^[a-zA-Z0-9_-]{1,64}$",
        "call-input": "OpenAI API reference, function_call.arguments is a string",
        "call-answered": "OpenAI docs, Function calling; error 'No tool output found for function call'",
        "result-called": "github.com/leookun/cursor-byok/issues/307",
        "result-once": _RESPONSES,
        "reasoning-followed": "github.com/vercel/ai/issues/7099",
        "item-id": "github.com/continuedev/continue/pull/11785",
        "media-source": "OpenAI API reference, input_image and input_file",
    },
    "gemini": {
        "shape": _GEMINI,
        "role": "Gemini API reference, Content.role",
        "some-message": "github.com/vercel/ai/issues/3775",
        "first-role": "github.com/NousResearch/hermes-agent/pull/97644",
        "empty-content": "github.com/vercel/ai/issues/3775",
        "part-data": "Gemini API reference, Part: exactly one field of data",
        "call-name": "Gemini API reference, FunctionDeclaration.name",
        "call-input": "Gemini API reference, FunctionCall.args is an object",
        "call-place": _CALLING,
        "call-answered": "github.com/google-gemini/gemini-cli/issues/3814",
        "result-called": "github.com/google-gemini/gemini-cli/issues/3814",
        "result-alone": "github.com/envoyproxy/ai-gateway/pull/2686",
        "result-object": "Gemini API reference, FunctionResponse.response is an object",
        "signature": "Gemini API docs, Thought signatures",
        "media-source": "Gemini API reference, Blob and FileData",
    },
}
KEYS = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
}
"""Provider -> the key under which its payload has the conversation."""


class Fault(NamedTuple):
    """A rule of a provider that a payload breaks: the rule, the place in the payload, and the rule's source."""

    rule: str
    path: str
    """Place of the fault in the payload, such as `messages[3].content[0]`."""
    detail: str
    reference: str
    """The document or thread the rule is known from."""

    def __str__(self) -> str:
        return f"{self.rule} at {self.path}: {self.detail} ({self.reference})"


class FaultCollector:
    """Collects the faults (broken rules) of a payload for one provider."""

    __slots__ = ("_references", "found")

    def __init__(self, provider: str) -> None:
        self._references = RULES[provider]
        self.found: list[Fault] = []

    def add_fault(self, rule: str, path: str, detail: str) -> None:
        """Record that the payload breaks `rule` at `path`; `detail` says how.

        `rule` must be a rule of this provider in `RULES`.
        """
        self.found.append(Fault(rule, path, detail, self._references[rule]))


class IdRule(NamedTuple):
    """A provider's rule for call ids and function names."""

    pattern: re.Pattern[str]
    longest: int
    unique: bool
    """True if no two calls of a request may have the same id."""
    name: re.Pattern[str]

    def allows(self, call_id: object) -> bool:
        """Return True if the provider accepts this call id."""
        return (
            isinstance(call_id, str)
            and len(call_id) <= self.longest
            and self.pattern.fullmatch(call_id) is not None
        )


_ANY = re.compile(r"(?s).+")
_WORD = re.compile(r"[a-zA-Z0-9_-]+")
_WORD_64 = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IDS = {
    "anthropic": IdRule(_WORD, 1 << 16, unique=True, name=re.compile(r"[a-zA-Z0-9_-]{1,128}")),
    "openai_chat": IdRule(_ANY, 40, unique=False, name=_WORD_64),
    "openai_responses": IdRule(_ANY, 64, unique=True, name=_WORD_64),
    "gemini": IdRule(
        _ANY, 1 << 16, unique=False, name=re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
    ),
}


def id_rule(provider: str) -> IdRule:
    """Return which call ids and function names a provider accepts."""
    return _IDS[provider]


class OpenedPayload(NamedTuple):
    """A payload split into its conversation and the other arguments of the call."""

    items: list[object] | None
    """The list of messages (Gemini: contents, Responses: items); None if the payload has no such list."""
    fields: JsonObject
    bare: bool
    """True if the payload was only the list of messages, without other arguments."""


def open_payload(payload: object, provider: str) -> OpenedPayload:
    """Split a payload: the arguments of a call, or only its list of messages; anything else raises `InvalidOption`."""
    if provider not in KEYS:
        names = ", ".join(sorted(KEYS))
        raise InvalidOption(f"unknown provider {provider!r}: use one of {names}")
    items = list_of(payload)
    if items is not None:
        return OpenedPayload(items, {}, bare=True)
    fields = object_of(payload)
    if fields is None:
        raise InvalidOption(
            f"the payload is {type(payload).__name__}: give a call's arguments or its list of messages"
        )
    return OpenedPayload(list_of(fields.get(KEYS[provider])), fields, bare=False)
