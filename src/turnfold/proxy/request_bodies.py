"""Reads and writes request bodies of the providers' interfaces; parts that need no change keep their bytes.

A body is split into its top-level fields, whose values stay the bytes that the client sent. Only the list of messages,
and the system prompt if it must be shortened, are written anew; in the list, a message that is sent unchanged keeps the
bytes of the client as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, NamedTuple, TypedDict, cast

import msgspec

from turnfold import wire
from turnfold._caches import SizedCache
from turnfold.errors import InvalidRecord
from turnfold.models import (
    ChatStream,
    GeminiStream,
    MessageStream,
    ResponsesStream,
    checked_response,
    normalized_chat,
    normalized_message,
)
from turnfold.records import Message, Part, TextPart, content_key
from turnfold.stores import Redaction
from turnfold.tokens import TokenCounter
from turnfold.wire import JsonObject, object_at, object_of, objects_of

__all__ = (
    "FORMATS",
    "HELD_BY_PROVIDER",
    "BodyFormat",
    "ClientBody",
    "GivenMessage",
    "MessageKey",
    "ReadMessages",
    "format_of",
    "key_function",
    "message_key",
)


_REMINDER: Final = re.compile(r"\s*<system-reminder>.*</system-reminder>\s*", re.DOTALL)
"""Text that Claude Code adds to a message in one request and leaves out of the same message in the next."""
_BILLING: Final = "x-anthropic-billing-header:"
"""Beginning of a system block of Claude Code that differs in every request."""
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_MOST_CACHED: Final = 64
"""Most sets of tool schemas that are cached, and most parts of system prompts; the ones used least recently are dropped
first."""
HELD_BY_PROVIDER: Final = ("previous_response_id", "conversation")
"""Fields that refer to a history stored at the provider: the body of such a request holds only new messages."""


MessageKey = Callable[[Message], str]
"""Function that returns the digest by which a message is recognised; see `key_function`."""


def key_function(redaction: Redaction | None) -> MessageKey:
    """Return the function from a message to its key.

    With redaction, a message has the same key before and after it is redacted.
    """
    if redaction is None:
        return message_key
    return lambda message: message_key(redaction.unnumbered(message))


def message_key(message: Message) -> str:
    """Return a digest by which a message is recognised in later requests.

    Texts added for one request only are ignored.
    """
    kept = [part for part in message.parts if not _is_reminder(part)]
    if kept and len(kept) < len(message.parts):
        message = Message.of(message.role, kept)
    return content_key(message)


def _is_ephemeral(message: Message) -> bool:
    """Return True if a message consists only of reminders, which the client adds for one request."""
    return all(map(_is_reminder, message.parts))


def _is_reminder(part: object) -> bool:
    return isinstance(part, TextPart) and bool(_REMINDER.fullmatch(part.text))


class GivenTools(NamedTuple):
    """The tool schemas of a request."""

    schemas: tuple[JsonObject, ...]
    counts: dict[str, int]
    """Name of a token counter -> tokens of the tool schemas; filled when the schemas are counted."""

    def tokens(self, counter: TokenCounter) -> int:
        """Return the tokens of the schemas; they are counted once for each counter."""
        if counter.name not in self.counts:
            self.counts[counter.name] = counter.count_tools(self.schemas)
        return self.counts[counter.name]


class GivenMessage(NamedTuple):
    """A message of a client's history, with the JSON that the client sent."""

    record: Message
    key: str
    """Digest by which the message is recognised; see `message_key`."""
    items: tuple[bytes, ...]
    """The client's JSON of the message: one item of the list of messages, or several."""
    counts: dict[str, int]
    """Name of a token counter -> tokens of the record; filled when the record is counted."""
    pieces: int = 1
    """Number of messages in the provider's form that make up this message."""
    riders: tuple[Message, ...] = ()
    """System messages after this message that hold for one request only: they are sent with the message and not
    stored."""
    rider_items: tuple[bytes, ...] = ()
    """The client's JSON of all system messages that are sent together with this message."""

    def tokens(self, counter: TokenCounter) -> int:
        """Return the tokens of the message as the client sends it; the record is counted once for each counter."""
        own = self.counts.get(counter.name)
        if own is None:
            own = self.counts[counter.name] = counter.count_message(self.record)
        if self.pieces > 1:
            own += (self.pieces - 1) * counter.count_message(_EMPTY)
        return own + sum(map(counter.count_message, self.riders)) if self.riders else own


_EMPTY: Final = Message.of("assistant", ())
_Place = tuple[str, str, tuple[bytes, ...]]
"""Provider, model and JSON items of a message."""


class ReadMessages:
    """Cache of parsed messages by their JSON, because a client sends nearly all of them again with its next request."""

    def __init__(self, key: MessageKey = message_key, *, most_bytes: int = 64 << 20) -> None:
        self.key = key
        self._most_bytes = most_bytes
        # Two generations instead of an order of use: looking up a thousand messages must not move a thousand of them.
        self._young: dict[_Place, GivenMessage] = {}
        self._old: dict[_Place, GivenMessage] = {}
        self._size = 0
        """Bytes of the JSON of the messages cached last (the young generation of the cache)."""
        self._tools: SizedCache[bytes, GivenTools] = SizedCache(limit=_MOST_CACHED)
        self._system: SizedCache[tuple[str, Part], int] = SizedCache(limit=_MOST_CACHED)

    def system_tokens(self, message: Message, counter: TokenCounter) -> int:
        """Return the tokens of a system message; each of its parts is counted once, as some differ in every request."""
        if message.name or message.extra or not counter.is_additive:
            return counter.count_message(message)
        return counter.count_message(_EMPTY) + sum(
            self._part_tokens(part, counter) for part in message.parts
        )

    def _part_tokens(self, part: Part, counter: TokenCounter) -> int:
        key = counter.name, part
        tokens = self._system.get(key)
        if tokens is None:
            tokens = counter.count_part(part)
            self._system.put(key, tokens)
        return tokens

    def tools(self, raw: msgspec.Raw) -> GivenTools:
        """Return the tool schemas of a request, from the cache if the client has sent the same ones before."""
        key = bytes(raw)
        found = self._tools.get(key)
        if found is None:
            schemas = [] if raw == _NULL else msgspec.json.decode(raw, type=list[object])
            found = GivenTools(tuple(objects_of(schemas)), {})
            self._tools.put(key, found)
        return found

    def get(self, form: BodyFormat, model: str, items: tuple[bytes, ...]) -> GivenMessage:
        """Return the message of these JSON items, from the cache or parsed."""
        place = form.provider, model, items
        found = self._young.get(place)
        if found is not None:
            return found
        found = self._old.get(place)
        if found is None:
            record = form.record(items, model)
            pieces = len(items) if form.provider == "gemini" else 1
            found = GivenMessage(record, self.key(record), items, {}, pieces)
        self._young[place] = found
        self._size += sum(map(len, items))
        if self._size > self._most_bytes // 2:
            self._old, self._young, self._size = self._young, {}, 0
        return found


@dataclass(frozen=True, slots=True)
class ClientBody:
    """A client's request body, split into its top-level fields."""

    fields: Mapping[str, msgspec.Raw]
    model: str
    system: tuple[Message, ...]
    """Texts of the system prompt, and of system messages before all other messages."""
    system_items: tuple[bytes, ...]
    """The client's JSON of the system messages that are items of the list of messages."""
    early_items: tuple[bytes, ...]
    """The client's JSON of system messages between the first message and the first answer; these are always sent."""
    messages: tuple[GivenMessage, ...]
    tools: GivenTools

    def tokens(self, counter: TokenCounter, known: ReadMessages) -> int:
        """Return the tokens of the whole request."""
        own = counter.reply + self.tools.tokens(counter)
        own += sum(known.system_tokens(one, counter) for one in self.system)
        return own + sum(one.tokens(counter) for one in self.messages)

    @property
    def system_texts(self) -> list[str]:
        """The texts of the system prompt to store: all except texts that differ in every request."""
        parts = (part for message in self.system for part in message.parts)
        texts = (part.text for part in parts if isinstance(part, TextPart) and part.text.strip())
        return [text for text in texts if not text.startswith(_BILLING)]


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """One interface of a provider: which body fields hold the messages, and how answers are assembled."""

    provider: str
    path: re.Pattern[str]
    """Matches the end of the path of a request; the pattern's group is the model, if the path names it."""
    list_key: str
    """Name of the field with the list of messages."""
    system_key: str
    """Name of the field with the system prompt; empty if system prompts are items of the list of messages."""
    new_stream: Callable[[], Any]
    normalize: Callable[[JsonObject], JsonObject]

    @property
    def wire(self) -> Any:  # noqa: ANN401 (a module of turnfold.wire)
        """The codec (module of `turnfold.wire`) of this interface."""
        return cast("ModuleType", getattr(wire, self.provider))

    def read(self, content: bytes, known: ReadMessages, *, model: str = "") -> ClientBody:
        """Split a client's body into fields and messages; raise `InvalidRecord` if its history cannot be read."""
        try:
            fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
            model = model or _decoded(fields, "model", str, "")
            for name in HELD_BY_PROVIDER if self.provider == "openai_responses" else ():
                if fields.get(name, _NULL) != _NULL:
                    raise InvalidRecord(
                        f"the provider holds the history ({name}), so the proxy cannot read it",
                        path=name,
                    )
            listed = self._listed(fields)
            items = msgspec.json.decode(listed, type=list[msgspec.Raw])
            outlines = cast("list[JsonObject]", _read_outlines(listed))
            tools = known.tools(fields.get("tools", _NULL))
            system = self._system(fields, model)
        except msgspec.MsgspecError as error:
            raise InvalidRecord(f"the body cannot be read: {error}") from None
        lead = next((n for n, one in enumerate(outlines) if not _is_system(one)), len(items))
        answer = next((n for n, one in enumerate(outlines) if _is_answer(one)), len(items))
        early = [n for n in range(lead, answer) if _is_system(outlines[n])]
        leading = [self.wire.accept(_object(items[n])) for n in (*range(lead), *early)]
        messages = self._messages(outlines[lead:], items[lead:], known, model, answer - lead)
        return ClientBody(
            fields,
            model,
            (*system, *leading),
            tuple(bytes(item) for item in items[:lead]),
            tuple(bytes(items[n]) for n in early),
            tuple(messages),
            tools,
        )

    def _messages(
        self,
        outlines: list[JsonObject],
        items: list[msgspec.Raw],
        known: ReadMessages,
        model: str,
        answer: int,
    ) -> list[GivenMessage]:
        """Return the messages after the system prompt; `answer` is the index of the first item written by a model."""
        found: list[GivenMessage] = []
        at = 0
        for group in _grouped(self.provider, outlines):
            raw = tuple(map(bytes, items[at : at + len(group)]))
            one = known.get(self, model, raw)
            if found and _is_system(group[0]) and (at < answer or _is_ephemeral(one.record)):
                riders = () if at < answer else (one.record,)  # early ones are in the system prompt
                last = found[-1]
                found[-1] = last._replace(
                    riders=(*last.riders, *riders), rider_items=(*last.rider_items, *raw)
                )
            else:
                found.append(one)
            at += len(group)
        return found

    def write(
        self,
        body: ClientBody,
        messages: Sequence[GivenMessage | Message],
        *,
        system: Sequence[Message] | None = None,
        bare: Collection[str] = (),
        key: MessageKey = message_key,
    ) -> bytes:
        """Return the body with other messages; `system` replaces the system prompt, None leaves it unchanged.

        Messages whose `key` is in `bare` are written without the parts that only the provider can read.
        """
        replaced: dict[str, bytes] = {}
        items = list(body.system_items)
        if system is not None:
            items.clear()
            shortened = self.wire.request(system, model=body.model, cache=False, repair=False)
            if self.system_key:
                config = object_at(shortened.kwargs, "config")
                value = shortened.kwargs.get(self.system_key, config.get(self.system_key))
                replaced[self._system_name(body.fields)] = _encoded(value)
            items += map(_encoded, objects_of(shortened.kwargs[self.list_key]))
        given = [one for one in messages if isinstance(one, GivenMessage)]
        in_place = {item for one in given for item in one.rider_items}
        early = [item for item in body.early_items if item not in in_place]
        for number, message in enumerate(messages):
            items += self._written(message, body.model, bare, key)
            if number == 0 and system is None:  # otherwise they are in the system prompt
                items += early
        items = self._repaired(items, body.model)
        if bare and self.provider == "anthropic" and "thinking" in body.fields:
            # With thinking switched on, Anthropic refuses a tool loop whose thinking blocks were left out.
            thinking = msgspec.json.decode(body.fields["thinking"])
            payload = {"messages": [_object(item) for item in items], "thinking": thinking}
            fixed = object_of(wire.repair(payload, self.provider).payload) or payload
            replaced["thinking"] = _encoded(fixed["thinking"])
        replaced[self.list_key] = b"[" + b",".join(items) + b"]"
        values = {name: bytes(value) for name, value in body.fields.items()} | replaced
        members = (_encoded(name) + b":" + value for name, value in values.items())
        return b"{" + b",".join(members) + b"}"

    def _written(
        self,
        message: GivenMessage | Message,
        model: str,
        bare: Collection[str],
        key: MessageKey,
    ) -> list[bytes]:
        """Return the JSON items of a message: the client's own, unless the message is not the client's or is `bare`."""
        given = message if isinstance(message, GivenMessage) else None
        if given is not None and given.key not in bare:
            return [*given.items, *given.rider_items]
        record = message.record if isinstance(message, GivenMessage) else message
        refused = {wire.item_key(record)} if bare and key(record) in bare else ()
        written = self.wire.request(
            [record], model=model, cache=False, repair=False, refused=refused
        )
        found = [_encoded(item) for item in objects_of(written.kwargs[self.list_key])]
        return [*found, *given.rider_items] if given is not None else found

    def _system_name(self, fields: Mapping[str, msgspec.Raw]) -> str:
        """Return the field of the system prompt as this body spells it."""
        snake = "system_instruction"
        return snake if self.provider == "gemini" and snake in fields else self.system_key

    def _listed(self, fields: Mapping[str, msgspec.Raw]) -> msgspec.Raw | bytes:
        """Return the JSON list of messages."""
        given = fields.get(self.list_key, _NULL)
        if self.provider != "openai_responses" or bytes(memoryview(given)[:1]) != b'"':
            return given
        return _encoded([{"role": "user", "content": msgspec.json.decode(given, type=str)}])

    def _system(self, fields: Mapping[str, msgspec.Raw], model: str) -> tuple[Message, ...]:
        given = fields.get(self._system_name(fields), _NULL)
        if given == _NULL:
            return ()
        empty: list[object] = []
        arguments = {self.system_key: msgspec.json.decode(given), self.list_key: empty}
        return tuple(self.wire.accept_all(arguments, model=model))

    def record(self, items: Sequence[bytes], model: str) -> Message:
        """Return the message of these JSON items."""
        group = list(map(_object, items))
        if len(group) == 1 and _is_system(group[0]):
            # A system message in the middle of a conversation is stored as a user message, which keeps its place.
            return self.wire.accept({**group[0], "role": "user"})
        if self.provider == "gemini" and len(group) > 1:
            parts = [part for content in group for part in objects_of(content.get("parts"))]
            return self.wire.accept({"role": "model", "parts": parts}, model=model)
        [record] = self.wire.accept_all(group, model=model)
        return record

    def _repaired(self, items: list[bytes], model: str) -> list[bytes]:
        """Return the items; those that the provider would refuse are repaired, the others keep their bytes.

        Some rules depend on the model: Gemini 3 refuses calls without a signature.
        """
        parsed = [_object(item) for item in items]
        payload = {"model": model, self.list_key: parsed}
        repaired = wire.repair(payload, self.provider)
        if repaired.payload is payload:
            return items
        fixed = objects_of((object_of(repaired.payload) or {}).get(self.list_key))
        known = {_encoded(one): item for one, item in zip(parsed, items, strict=True)}
        return [known.get(text, text) for text in map(_encoded, fixed)]


_NULL: Final = msgspec.Raw(b"null")


def _decoded(fields: Mapping[str, msgspec.Raw], name: str, kind: Any, default: Any) -> Any:  # noqa: ANN401
    """Return a field of a body decoded as `kind`; `default` if it is missing or null."""
    given = fields.get(name, _NULL)
    return default if given == _NULL else msgspec.json.decode(given, type=kind)


def _object(item: msgspec.Raw | bytes) -> JsonObject:
    return object_of(msgspec.json.decode(item)) or {}


class _Outline(TypedDict, total=False):
    """The fields of an item that say which message it belongs to; the others are skipped."""

    role: Any
    type: Any
    id: Any
    call_id: Any


_read_outlines: Final = msgspec.json.Decoder(list[_Outline]).decode


def _encoded(value: object) -> bytes:
    return b"".join(wire.chunks(value))


def _is_system(item: JsonObject) -> bool:
    return item.get("role") in _SYSTEM_ROLES and item.get("type") in (None, "message")


def _is_answer(item: JsonObject) -> bool:
    """Return True if a model wrote this item of the message list."""
    kind = item.get("type")
    own = item.get("role") in ("assistant", "model")
    return own or (kind not in (None, "message") and not str(kind).endswith("_output"))


def _grouped(provider: str, items: list[JsonObject]) -> Iterable[list[JsonObject]]:
    """Yield the items of a message list by message: the items of one model answer together, other items alone."""
    if provider == "openai_responses":
        yield from wire.openai_responses.runs(items)
        return
    if provider != "gemini":
        yield from ([item] for item in items)
        return
    run: list[JsonObject] = []
    for item in items:  # a client may send each chunk of a streamed answer as a content of its own
        if run and (item.get("role") != "model" or run[-1].get("role") != "model"):
            yield run
            run = []
        run.append(item)
    if run:
        yield run


def _checked_candidates(response: JsonObject) -> JsonObject:
    if not objects_of(response.get("candidates")):
        raise InvalidRecord("the provider's response has no candidates", path="candidates")
    return response


FORMATS: Final = (
    BodyFormat(
        "openai_chat",
        re.compile(r"/chat/completions"),
        "messages",
        "",
        ChatStream,
        normalized_chat,
    ),
    BodyFormat(
        "openai_responses",
        re.compile(r"/responses"),
        "input",
        "instructions",
        ResponsesStream,
        checked_response,
    ),
    BodyFormat(
        "anthropic",
        re.compile(r"/messages"),
        "messages",
        "system",
        MessageStream,
        normalized_message,
    ),
    BodyFormat(
        "gemini",
        re.compile(r"/models/([^/:]+):(?:streamG|g)enerateContent"),
        "contents",
        "systemInstruction",
        GeminiStream,
        _checked_candidates,
    ),
)


def format_of(path: str) -> tuple[BodyFormat, str] | None:
    """Return the provider's interface that a URL path belongs to, and the model in it; None for any other path."""
    for each in FORMATS:
        found = re.fullmatch(rf"(?:/[^/]+)*?{each.path.pattern}", path)
        if found:
            return each, found[1] if found.groups() else ""
    return None
