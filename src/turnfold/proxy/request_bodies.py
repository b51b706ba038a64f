"""Reads and writes request bodies of the providers' interfaces; parts that need no change keep their bytes.

A body is split into its top-level fields, whose values stay the bytes that the client sent. Only the list of messages,
and the system prompt if it must be shortened, are written anew; in the list, a message that is sent unchanged keeps the
bytes of the client as well.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple, cast

import msgspec

from turnfold import wire
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
from turnfold.records import Message, TextPart, content_key
from turnfold.wire import JsonObject, object_at, object_of, objects_of

__all__ = (
    "FORMATS",
    "HELD_BY_PROVIDER",
    "BodyFormat",
    "ClientBody",
    "GivenMessage",
    "ReadMessages",
    "format_of",
    "message_key",
)


_REMINDER: Final = re.compile(r"\s*<system-reminder>.*</system-reminder>\s*", re.DOTALL)
"""Text that Claude Code adds to a message in one request and leaves out of the same message in the next."""
_BILLING: Final = "x-anthropic-billing-header:"
"""Beginning of a system block of Claude Code that differs in every request."""
_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
HELD_BY_PROVIDER: Final = ("previous_response_id", "conversation")
"""Fields that refer to a history stored at the provider: the body of such a request holds only new messages."""


def message_key(message: Message) -> str:
    """Return a digest by which a message is recognised in later requests; ignores texts added for one request only."""
    kept = [part for part in message.parts if not _is_reminder(part)]
    if kept and len(kept) < len(message.parts):
        message = Message.of(message.role, kept)
    return content_key(message)


def _is_ephemeral(message: Message) -> bool:
    """Return True if a message consists only of reminders, which the client adds for one request."""
    return all(map(_is_reminder, message.parts))


def _is_reminder(part: object) -> bool:
    return isinstance(part, TextPart) and bool(_REMINDER.fullmatch(part.text))


class GivenMessage(NamedTuple):
    """A message of a client's history, with the JSON that the client sent."""

    record: Message
    key: str
    """Digest by which it is recognised; see `message_key`."""
    items: tuple[bytes, ...]
    """The client's JSON of the message: one item of the list of messages, or several."""
    pieces: int = 1
    """Number of messages that it is for the provider."""
    riders: tuple[Message, ...] = ()
    """System messages after it that hold for one request only: sent together with it, and not stored."""


class ReadMessages:
    """Cache of parsed messages by their JSON; a client sends nearly all of them again with its next request."""

    def __init__(self, *, most_bytes: int = 64 << 20) -> None:
        self._most_bytes = most_bytes
        self._known: OrderedDict[tuple[str, str, tuple[bytes, ...]], GivenMessage] = OrderedDict()
        self._size = 0

    def get(
        self,
        place: tuple[str, str, tuple[bytes, ...]],
        read: Callable[[], Message],
    ) -> GivenMessage:
        """Return the message at `place` (provider, model, JSON items), cached or parsed by `read`."""
        found = self._known.get(place)
        if found is not None:
            self._known.move_to_end(place)
            return found
        record = read()
        provider, _, items = place
        pieces = len(items) if provider == "gemini" else 1
        found = self._known[place] = GivenMessage(record, message_key(record), items, pieces)
        self._size += sum(map(len, found.items))
        while self._size > self._most_bytes:
            _, old = self._known.popitem(last=False)
            self._size -= sum(map(len, old.items))
        return found


@dataclass(frozen=True, slots=True)
class ClientBody:
    """A client's request body, split into its top-level fields."""

    fields: Mapping[str, msgspec.Raw]
    model: str
    system: tuple[Message, ...]
    """The system prompt, and system messages before all others."""
    system_items: tuple[bytes, ...]
    """The client's JSON of the system messages that are items of the list of messages."""
    early_items: tuple[bytes, ...]
    """The client's JSON of system messages between the first message and the first answer, which are always sent."""
    messages: tuple[GivenMessage, ...]
    tools: tuple[JsonObject, ...]

    @property
    def system_texts(self) -> list[str]:
        """The texts of the system prompt to store: all except those that differ in every request."""
        parts = (part for message in self.system for part in message.parts)
        texts = (part.text for part in parts if isinstance(part, TextPart) and part.text.strip())
        return [text for text in texts if not text.startswith(_BILLING)]


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """One interface of a provider: which body fields hold the messages, and how answers are assembled."""

    provider: str
    path: re.Pattern[str]
    """Matches the end of the path of a request; its group is the model, if the path names it."""
    list_key: str
    """Field of the list of messages."""
    system_key: str
    """Field of the system prompt; empty if system prompts are items of the list."""
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
                        f"the request refers to a history that is stored at the provider ({name}), so it has only new "
                        "messages",
                        path=name,
                    )
            items = self._items(fields)
            tools = objects_of(_decoded(fields, "tools", list[object], []))
            system = self._system(fields, model)
        except msgspec.MsgspecError as error:
            raise InvalidRecord(f"the request body cannot be read: {error}") from None
        parsed = [_object(item) for item in items]
        lead = next((n for n, one in enumerate(parsed) if not _is_system(one)), len(parsed))
        answer = next((n for n, one in enumerate(parsed) if _is_answer(one)), len(parsed))
        early = {n for n in range(lead, answer) if _is_system(parsed[n])}
        leading = [self.wire.accept(parsed[n]) for n in (*range(lead), *sorted(early))]
        messages = self._messages(parsed[lead:], items[lead:], known, model, answer - lead)
        return ClientBody(
            fields,
            model,
            (*system, *leading),
            tuple(bytes(item) for item in items[:lead]),
            tuple(bytes(items[n]) for n in sorted(early)),
            tuple(messages),
            tuple(tools),
        )

    def _messages(
        self,
        parsed: list[JsonObject],
        items: list[msgspec.Raw],
        known: ReadMessages,
        model: str,
        answer: int,
    ) -> list[GivenMessage]:
        """Return the messages after the system prompt; `answer` is the index of the first item written by a model."""
        found: list[GivenMessage] = []
        at = 0
        for group in _grouped(self.provider, parsed):
            raw = tuple(bytes(item) for item in items[at : at + len(group)])
            one = known.get((self.provider, model, raw), partial(self._record, group, model))
            if found and _is_system(group[0]) and (at < answer or _is_ephemeral(one.record)):
                riders = () if at < answer else (one.record,)  # early ones are in the system prompt
                last = found[-1]
                found[-1] = last._replace(items=(*last.items, *raw), riders=(*last.riders, *riders))
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
    ) -> bytes:
        """Return the body's bytes with other messages; `system` replaces the system prompt, None leaves it as it is."""
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
        shown = [one.items for one in messages if isinstance(one, GivenMessage)]
        in_place = {item for some in shown for item in some}
        early = [item for item in body.early_items if item not in in_place]
        for number, message in enumerate(messages):
            if isinstance(message, GivenMessage):
                items += message.items
            else:
                written = self.wire.request([message], model=body.model, cache=False, repair=False)
                items += map(_encoded, objects_of(written.kwargs[self.list_key]))
            if number == 0 and system is None:  # otherwise they are in the system prompt
                items += early
        replaced[self.list_key] = b"[" + b",".join(self._repaired(items)) + b"]"
        values = {name: bytes(value) for name, value in body.fields.items()} | replaced
        members = (_encoded(name) + b":" + value for name, value in values.items())
        return b"{" + b",".join(members) + b"}"

    def _system_name(self, fields: Mapping[str, msgspec.Raw]) -> str:
        """Return the field of the system prompt as this body spells it."""
        snake = "system_instruction"
        return snake if self.provider == "gemini" and snake in fields else self.system_key

    def _items(self, fields: Mapping[str, msgspec.Raw]) -> list[msgspec.Raw]:
        given = fields.get(self.list_key, msgspec.Raw(b"null"))
        if bytes(given)[:1] == b'"' and self.provider == "openai_responses":
            text = msgspec.json.decode(given, type=str)
            return [msgspec.Raw(_encoded({"role": "user", "content": text}))]
        return msgspec.json.decode(given, type=list[msgspec.Raw])

    def _system(self, fields: Mapping[str, msgspec.Raw], model: str) -> tuple[Message, ...]:
        given = fields.get(self._system_name(fields), _NULL)
        if given == _NULL:
            return ()
        empty: list[object] = []
        arguments = {self.system_key: msgspec.json.decode(given), self.list_key: empty}
        return tuple(self.wire.accept_all(arguments, model=model))

    def _record(self, group: list[JsonObject], model: str) -> Message:
        if len(group) == 1 and _is_system(group[0]):
            # A system message in the middle of a conversation is stored as a user message, which keeps its place.
            return self.wire.accept({**group[0], "role": "user"})
        if self.provider == "gemini" and len(group) > 1:
            parts = [part for content in group for part in objects_of(content.get("parts"))]
            return self.wire.accept({"role": "model", "parts": parts}, model=model)
        [record] = self.wire.accept_all(group, model=model)
        return record

    def _repaired(self, items: list[bytes]) -> list[bytes]:
        """Return the items with those repaired that the provider would refuse; others keep their bytes."""
        parsed = [_object(item) for item in items]
        repaired = wire.repair(parsed, self.provider)
        if repaired.payload is parsed:
            return items
        known = {_encoded(one): item for one, item in zip(parsed, items, strict=True)}
        return [known.get(text, text) for text in map(_encoded, objects_of(repaired.payload))]


_NULL: Final = msgspec.Raw(b"null")


def _decoded(fields: Mapping[str, msgspec.Raw], name: str, kind: Any, default: Any) -> Any:  # noqa: ANN401
    """Return a field of a body decoded as `kind`; `default` if it is missing or null."""
    given = fields.get(name, _NULL)
    return default if given == _NULL else msgspec.json.decode(given, type=kind)


def _object(item: msgspec.Raw | bytes) -> JsonObject:
    return object_of(msgspec.json.decode(item)) or {}


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
    """Group the items of a message list into messages: items of one model answer together, any other item alone."""
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
