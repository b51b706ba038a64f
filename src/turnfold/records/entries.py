"""Log entries, checkpoints (summaries), documents and token usage as a store keeps them; messages of any shape.

A message is a value; an entry is a message stored in a conversation, with seq, time and token count. The store alone
assigns `seq`, without gaps, from 1; ordering never depends on a clock.

`decode_message(encode_message(m)) == m` for every message. Old versions of the JSON form are upgraded in `_upgrade`
alone. Decoding builds only the structs of this module, so stored data never runs code.

Callers may pass a `Message`, an OpenAI- or Anthropic-style dictionary, or an object with `role` and `content`
attributes (an SDK's response message, a Pydantic model). Fields turnfold does not model are kept. A message that cannot
be kept whole is rejected with its index, never skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records.block_conversion import accept_content, as_fields, get_field, is_modelled
from turnfold.records.frozen_json import freeze_object, plain_text
from turnfold.records.messages import Message, Origin, Role
from turnfold.records.parts import Part, ToolResult

__all__ = (
    "SCHEMA_VERSION",
    "Checkpoint",
    "Document",
    "Entry",
    "NewEntry",
    "Usage",
    "as_message",
    "as_messages",
    "decode_message",
    "encode_message",
    "entries_of",
)


_INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount")
_OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount")
_WITHIN = ("usage", "usage_metadata", "usageMetadata")
_MODEL = ("model", "model_version", "modelVersion")
_DETAILS = ("input_tokens_details", "prompt_tokens_details")
_GEMINI_CACHED = ("cached_content_token_count", "cachedContentTokenCount")
_CACHE_INPUT = ("cache_read_input_tokens", "cache_creation_input_tokens")


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Token usage of one model call, as the provider counted it."""

    input: int
    """Tokens of the whole prompt, whether cached or not."""
    output: int = 0
    cached: int = 0
    """Tokens of the prompt that came from the provider's cache."""
    model: str = ""
    """The model that answered, if the response names it."""
    cleared: int | msgspec.UnsetType = msgspec.UNSET
    """Tokens that the provider removed from the prompt before the model read it (Anthropic's context edits); they are
    not in `input`, and not stored."""

    @classmethod
    def of(cls, reported: object) -> Usage:
        """Read the usage from an SDK's response, from its `usage` object, or from a dictionary of either."""
        if isinstance(reported, Usage):
            return reported
        source = next(filter(None, (get_field(reported, name) for name in _WITHIN)), reported)
        prompt = _first(source, _INPUT)
        if prompt is None:
            raise InvalidOption(
                f"{type(reported).__name__} has no prompt tokens; pass a response's usage, or "
                "Usage(input=..., output=..., cached=...)"
            )
        read, created = (_number(get_field(source, name)) or 0 for name in _CACHE_INPUT)
        within = [_number(get_field(get_field(source, name), "cached_tokens")) for name in _DETAILS]
        within += [_number(get_field(source, name)) for name in _GEMINI_CACHED]
        cached = read or next((number for number in within if number), 0)
        output = _first(source, _OUTPUT) or 0
        named = next(filter(None, (get_field(reported, name) for name in _MODEL)), "")
        model = named if isinstance(named, str) else ""
        return cls(
            input=prompt + read + created,
            output=output,
            cached=cached,
            model=model,
            cleared=_cleared(reported) or msgspec.UNSET,
        )


def _cleared(response: object) -> int:
    """Return the tokens that the context edits of a response removed from its prompt."""
    edits = get_field(get_field(response, "context_management"), "applied_edits")
    if not isinstance(edits, list | tuple):
        return 0
    numbers = (
        _number(get_field(one, "cleared_input_tokens")) for one in cast("list[object]", edits)
    )
    return sum(number or 0 for number in numbers)


def _first(source: object, names: tuple[str, ...]) -> int | None:
    found = (_number(get_field(source, name)) for name in names)
    return next((number for number in found if number is not None), None)


def _number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


_FIELDS = ("content", "name", "tool_calls", "tool_call_id", "metadata")
_KNOWN = frozenset({"role", *_FIELDS})


def as_message(value: object) -> Message:
    """Convert `value` to a `Message`; raises `InvalidRecord` if any content would be lost."""
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        raise InvalidRecord(
            "a bare string has no role", remedy="Use user(...), assistant(...) or tool(...)"
        )
    fields = as_fields(value)
    role = fields.pop("role", None)
    if not isinstance(role, str):
        raise InvalidRecord("the message has no role", path="role", remedy='Add "role"')
    modelled = {
        key: fields.pop(key, None) for key in _FIELDS if is_modelled(role, key, fields.get(key))
    }
    found = accept_content(
        role,
        modelled.get("content"),
        tool_calls=modelled.get("tool_calls"),
        tool_call_id=cast("str | None", modelled.get("tool_call_id")),
    )
    if found.written_role:
        fields["role"] = found.written_role
    name = modelled.get("name")
    return Message.of(
        found.role,
        found.parts,
        name=None if name is None else plain_text(name, path="name"),
        extra=freeze_object(fields, path=""),
        labels=freeze_object(modelled.get("metadata"), path="metadata"),
    )


def as_messages(
    values: Iterable[object],
    *,
    path: str = "messages",
    on_unreadable: Callable[[InvalidRecord], None] | None = None,
) -> list[Message]:
    """Convert each of `values` to a `Message`.

    Raises `InvalidRecord`, with the index of the wrong value and `path` before it, if one is invalid. With
    `on_unreadable` a value that cannot be converted is left out, and the function gets the error.
    """
    if isinstance(values, Mapping | str | Message):
        raise InvalidRecord(
            f"expected a list of messages, not one {type(cast('object', values)).__name__}",
            remedy="Put it in a list",
        )
    messages: list[Message] = []
    for index, value in enumerate(values):
        try:
            messages.append(as_message(value))
        except InvalidRecord as error:
            placed = error.within(f"{path}[{index}]")
            if on_unreadable is None:
                raise placed from None
            on_unreadable(placed)
    return messages


def entries_of(messages: object, client_id: str) -> list[NewEntry]:
    """Convert one message or several to entries, each with a client id; `NewEntry` values are returned unchanged."""
    if isinstance(messages, Message):  # by far the most common case
        return [NewEntry(messages, client_id)]
    if isinstance(messages, list | tuple) and messages:
        items = cast("Sequence[object]", messages)
        if all(isinstance(item, NewEntry) for item in items):
            return list(cast("Sequence[NewEntry]", items))
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        accepted = [as_message(cast("object", messages))]
        _require_content(cast("object", messages), accepted[0], "")
    else:
        items = list(cast("Iterable[object]", messages))
        accepted = as_messages(items)
        for at, (item, message) in enumerate(zip(items, accepted, strict=True)):
            _require_content(item, message, f"messages[{at}]")
    numbered = client_id and len(accepted) > 1
    return [
        NewEntry(message, f"{client_id}.{at}" if numbered else client_id)
        for at, message in enumerate(accepted, 1)
    ]


_OTHER_KEYS = frozenset(
    {"body", "contents", "message", "messages", "msg", "output", "result", "text"}
)
"""Keys under which programs put the content of a message by mistake."""


def _require_content(given: object, message: Message, path: str) -> None:
    """Raise `InvalidRecord` for a dictionary whose content is under a key that is not read as content.

    A model's answer may consist of fields that turnfold stores without reading them, such as `audio`; a tool result may
    be empty.
    """
    if not isinstance(given, Mapping) or "content" in given:
        return
    if any(not isinstance(part, ToolResult) or part.content for part in message.parts):
        return
    unknown = [str(key) for key in cast("Mapping[object, object]", given) if key not in _KNOWN]
    if message.role in ("assistant", "tool"):
        unknown = [key for key in unknown if key.lower() in _OTHER_KEYS]
    if unknown:
        raise InvalidRecord(
            f"the message has no content, only {', '.join(map(repr, unknown))}",
            path=path,
            remedy=f'Write the text under "content": {{"role": {given["role"]!r}, "content": "..."}}',
        )


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A message to append to a conversation's log, with an id that makes retries safe."""

    message: Message
    client_id: str = ""
    """Idempotency key: a retry with the same id and body returns the first result. If empty, a retry appends again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A message stored in the log of a conversation, with its position, time and token count."""

    seq: int
    """Position of the entry in the conversation: 1, 2, 3 ... without gaps."""
    message: Message
    client_id: str
    created: int
    """Time at which the entry was stored, in microseconds since 1970, UTC; for display, never for ordering."""
    turn: int
    """Number of user messages up to and including this entry."""
    tokens: int
    """Tokens of the message, by the token counter of the conversation."""
    running: int
    """Tokens of all entries up to and including this one."""
    epoch: int = field(default=0, compare=False, repr=False)
    """Random number of the write that stored the entry; 0 if unknown. If seq and epoch of two entries are equal, the
    entries and everything before them are the same, also after a failover or a restored backup."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A summary that replaces the entries up to `upto` in contexts; made by a fold (compaction)."""

    id: str
    previous: str
    """Id of the checkpoint that this one replaces; empty for the first."""
    upto: int
    """Seq (log position) of the last entry that the summary covers."""
    text: str
    """Text of the summary."""
    digest: str
    """Digest of the entries that the summary covers, to prove what was summarised."""
    model: str = ""
    """Name of the model that wrote the summary; empty for the extractive summariser."""
    trust: str = "mixed"
    """The least trusted role among the entries that the summary covers."""
    fidelity: float = 1.0
    """Share of the hard facts in the covered entries that the summary states, 0 to 1."""
    created: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A named value of a conversation.

    For example session state, a call's manifest (report), a finding (remembered tool result), a workspace snapshot.
    """

    kind: str
    key: str
    body: bytes
    version: int
    """Number that each change of the document increments. It starts at 1, or higher after documents were dropped: no
    version is used twice."""
    created: int = 0
    text: str = ""
    """Text that is indexed for search; empty if the document should not be found."""


SCHEMA_VERSION = 1
"""Version of the JSON form of messages that this release writes."""


class _Form(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A message as it is stored in JSON."""

    v: int
    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    extra: str = ""
    labels: str = ""
    origin: Origin | None = None


class _Version(msgspec.Struct):
    v: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Form)
_version_decoder = msgspec.json.Decoder(_Version)


def encode_message(message: Message) -> bytes:
    """Return the canonical JSON of a message: equal messages give equal bytes."""
    return _encoder.encode(
        _Form(
            SCHEMA_VERSION,
            message.role,
            message.parts,
            message.name,
            message.extra,
            message.labels,
            message.origin,
        )
    )


def decode_message(data: bytes | str) -> Message:
    """Decode a message from its canonical JSON; raises `InvalidRecord` for anything else."""
    try:
        form = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        form = _upgrade(data, error)
    if form.v != SCHEMA_VERSION:
        form = _upgrade(data, None)
    return Message.of(
        form.role,
        form.parts,
        name=form.name,
        extra=form.extra,
        labels=form.labels,
        origin=form.origin,
    )


def _upgrade(data: bytes | str, error: Exception | None) -> _Form:
    """Upgrade a record of an older version. Version 1 is the first, so this always raises `InvalidRecord`."""
    try:
        version = _version_decoder.decode(data).v
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        version = SCHEMA_VERSION
    if version <= SCHEMA_VERSION:
        raise InvalidRecord(f"not a stored message: {error or f'version {version}'}") from None
    raise InvalidRecord(
        f"the message has schema version {version}; this release reads version {SCHEMA_VERSION}",
        path="v",
        remedy="Upgrade turnfold",
    )
