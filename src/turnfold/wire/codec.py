"""Code shared by all four wire formats: exact round trips, which parts a provider may receive, texts in their place.

Round trip: a reader converts the fields it knows of a provider's message to parts. The parts are then written again and
compared with the original, which finds every field that the reader does not know. Only the difference (content as text
or as a list of one block, an id of a call, an unmodelled field) is stored, as a residue. So the original can be
restored completely without storing everything twice.

A residue is an object with one or more of:

    {"=": value}            the original is this value
    {"text": true}          the original is the text of the only block, without the block
    {"wrap": {fields}}      the original is a list of one block with these fields and the text
    {"at": {key: residue}}  the original differs under these keys, or at these indexes of a list
    {"add": {key: value}}   the original has these fields too
    {"del": [keys]}         the original does not have these fields

Signatures, encrypted thinking and a provider's own blocks are valid only for the provider and the model that wrote
them. One rule for all formats: they are sent back unchanged to the same provider and the same model. If one of the two
models is unknown, it is enough that the provider is the same.

For another provider, the text of such blocks is kept: documents, search results, code and its output become text; so do
compaction summaries, unless the prompt has the messages they cover. Other content that cannot be sent (an image for a
model without vision, a file kept at another provider) is replaced by a short note, so that the model knows that
something was there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Origin,
    Part,
    ThinkingPart,
    freeze_object,
    message_digest,
    thaw_object,
)
from turnfold.window import Context
from turnfold.wire.json_values import (
    JsonObject,
    list_at,
    list_of,
    object_at,
    object_of,
    plain,
    plain_object,
    text_at,
    texts_in,
)
from turnfold.wire.request import ChangeNotes, check_messages, check_tools

__all__ = (
    "RESTORE_FAULTS",
    "Recipient",
    "arguments_object",
    "as_items",
    "as_object",
    "bare_content",
    "block_text",
    "data_of",
    "difference",
    "in_original_form",
    "item_key",
    "leading_system",
    "media_note",
    "messages_of",
    "restored",
    "same_model",
    "tools_of",
    "unreadable_form",
    "with_form",
    "with_origin",
    "with_provider",
)


RESTORE_FAULTS: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    StopIteration,
    RecursionError,
)
"""Errors that a framework or Python raises for a stored form that turnfold did not write."""


def unreadable_form(framework: str, error: BaseException) -> InvalidRecord:
    """Return the error for a message whose stored original form the framework cannot read."""
    if isinstance(error, InvalidRecord):
        return error
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return InvalidRecord(
        f"the original form of a message, stored with it, is not valid for {framework}: {reason}",
        path="origin.form",
        remedy="It is damaged or forged. Read the parts of the message with session.history(), or restore a backup",
    )


def difference(base: object, raw: object) -> JsonObject:
    """Return the residue (stored difference) that turns `base` into `raw`; empty if they are equal."""
    if _same(base, raw):
        return {}
    if isinstance(raw, str) and _only_text(base) == raw:
        return {"text": True}
    if isinstance(base, str):
        block = _only_block(raw)
        if block.get("text") == base:
            return {"wrap": {key: value for key, value in block.items() if key != "text"}}
    ours, theirs = object_of(base), object_of(raw)
    if ours is not None and theirs is not None:
        return _object_difference(ours, theirs)
    mine, other = list_of(base), list_of(raw)
    if mine is not None and other is not None and len(mine) == len(other):
        pairs = enumerate(zip(mine, other, strict=True))
        found = {str(index): difference(a, b) for index, (a, b) in pairs}
        return {"at": {index: residue for index, residue in found.items() if residue}}
    return {"=": raw}


def restored(base: object, residue: JsonObject) -> object:
    """Apply a residue (stored difference) to `base` and return the original value; ValueError if they do not match."""
    if not residue:
        return base
    if "=" in residue:
        return residue["="]
    if "text" in residue:
        text = _only_text(base)
        if text is None:
            raise ValueError(
                "the original form of a message cannot be rebuilt: its stored difference is for a list with one text "
                f"block, but its parts are written as {_shape(base)}"
            )
        return text
    if "wrap" in residue:
        return [{**object_at(residue, "wrap"), "text": base}]
    mine = list_of(base)
    if mine is not None:
        return _restored_list(mine, object_at(residue, "at"))
    ours = object_of(base)
    if ours is None:
        raise ValueError(
            "the original form of a message cannot be rebuilt: its stored difference is for a list or an object, but "
            f"its parts are written as {_shape(base)}. It is damaged or forged: restore the store from a backup"
        )
    inner = object_at(residue, "at")
    if not inner.keys() <= ours.keys():
        raise ValueError(
            "the original form of a message cannot be rebuilt: its stored difference changes the fields "
            f"{', '.join(inner)}, but its parts are written as {_shape(base)}"
        )
    gone = list_at(residue, "del")
    kept = {
        key: restored(value, object_at(inner, key)) if key in inner else value
        for key, value in ours.items()
        if key not in gone
    }
    return {**kept, **object_at(residue, "add")}


def _shape(value: object) -> str:
    """Describe a JSON value for an error without showing its content: its type, and its length or field names."""
    if isinstance(value, list):
        return f"a list of length {len(cast('list[object]', value))}"
    if isinstance(value, dict):
        return f"an object with the fields {', '.join(cast('JsonObject', value)) or '(none)'}"
    return f"a {type(value).__name__}"


def _object_difference(base: JsonObject, raw: JsonObject) -> JsonObject:
    inner = {key: difference(base[key], raw[key]) for key in base if key in raw}
    found: JsonObject = {
        "at": {key: residue for key, residue in inner.items() if residue},
        "add": {key: value for key, value in raw.items() if key not in base},
        "del": [key for key in base if key not in raw],
    }
    return {key: value for key, value in found.items() if value}


def _restored_list(base: list[object], inner: JsonObject) -> list[object]:
    result = list(base)
    for key in inner:
        index = int(key)
        if index >= len(result):
            raise ValueError(
                f"the original form of a message cannot be rebuilt: its stored difference changes item {index}, but "
                f"its parts are written as {_shape(base)}. It is damaged or forged: restore the store from a backup"
            )
        result[index] = restored(result[index], object_at(inner, key))
    return result


def _same(one: object, other: object) -> bool:
    """Return True if both are equal as JSON, where 1, 1.0 and true are different values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        ours, theirs = cast("JsonObject", one), cast("JsonObject", other)
        return ours.keys() == theirs.keys() and all(_same(ours[key], theirs[key]) for key in ours)
    if isinstance(one, list):
        mine, others = cast("list[object]", one), cast("list[object]", other)
        return len(mine) == len(others) and all(map(_same, mine, others))
    return one == other


def _only_block(value: object) -> JsonObject:
    blocks = list_of(value)
    return (object_of(blocks[0]) or {}) if blocks is not None and len(blocks) == 1 else {}


def _only_text(value: object) -> object:
    """Return the text of a list with one block, or of an object with one part; None for anything else."""
    fields = object_of(value)
    return _only_block(fields.get("parts") if fields is not None else value).get("text")


_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{3,8})$")
_SHAPE = frozenset({"type"})
"""Names of fields that describe the type of a block and not its content."""
_ANTHROPIC_BLOCKS = re.compile(
    r"document|search_result|compaction|container_upload|server_tool_use|mcp_tool_use|tool_reference|\w+_tool_result"
)


def same_model(one: str, other: str) -> bool:
    """Return True if two names may mean the same model: an alias equals its dated snapshot, an empty name any name."""
    one, other = _bare(one), _bare(other)
    if not one or not other or one == other:
        return True
    return _SNAPSHOT.sub("", one) == other or _SNAPSHOT.sub("", other) == one


def _bare(model: str) -> str:
    return model.rsplit("/", 1)[-1].removesuffix("-latest")


def item_key(message: Message) -> bytes:
    """Return a digest of a message, to remember that a provider refused its signed or encrypted parts."""
    return message_digest(message, size=16)


class Recipient(ChangeNotes):
    """The provider and model that a request is written for; collects the changes made for them."""

    __slots__ = ("_own", "_repeated", "model", "provider", "refused")

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        own: bool = False,
        refused: Collection[bytes] = (),
        repeated: bool = False,
    ) -> None:
        super().__init__()
        self.provider = provider
        self.model = model
        self._own = own
        """True to write every message as if this provider and model had written it, to compare the result with the
        original."""
        self.refused = refused
        """`item_key` of messages whose opaque parts the provider refused; they are written like another provider's."""
        self._repeated = repeated
        """True if the prompt also has the messages, or their summary, which the provider's own compaction item
        replaces."""

    def owns(self, message: Message) -> bool:
        """Return True if the message was read from this provider's format and its model, if known, is this model."""
        origin = message.origin
        return self._own or (
            origin is not None
            and origin.provider == self.provider
            and same_model(origin.model, self.model)
            and not self._is_refused(message)
        )

    def _is_refused(self, message: Message) -> bool:
        return bool(self.refused) and item_key(message) in self.refused

    def may_receive(self, part: ThinkingPart | OpaquePart, message: Message) -> bool:
        """Return True if this recipient may be sent a signed, encrypted or unmodelled part.

        Only the provider and model it came from may get it. Whether such a part has expired or belongs to another API
        key is known only after the provider has refused it.
        """
        if self._own:
            return True
        origin = message.origin
        provider = part.provider or (origin.provider if origin else _guess_provider(part))
        model = part.model or (origin.model if origin else _response_model(message))
        same = provider == self.provider and same_model(model, self.model)
        return same and not self._is_refused(message)

    def foreign_text(self, block: JsonObject, path: str) -> str:
        """Return the text of another provider's block and record the conversion; empty if the block has no text."""
        if self._repeated and block.get("type") == "compaction":
            self.left_out(path, "a compaction item: the prompt has the messages that it covers")
            return ""
        text = block_text(block)
        if text:
            self.converted(path, f"a {block.get('type')} block of another provider, sent as text")
        else:
            self.left_out(path, f"a {block.get('type')} block that only its own provider accepts")
        return text

    def media_note(self, part: ImagePart | AudioPart | FilePart, why: str, path: str) -> str:
        """Return the text that replaces an image, audio or file that cannot be sent, and record the conversion."""
        self.converted(path, f"not sent, replaced by a note: {why}")
        return media_note(part, why)

    def has_no_owner(self, part: OpaquePart, message: Message) -> bool:
        """Return True if the provider of the block is unknown and cannot be guessed from its type."""
        return not part.provider and message.origin is None and not _guess_provider(part)

    def extra_fields(
        self, extra: str, *, message: Message, known: frozenset[str] | None, path: str
    ) -> JsonObject:
        """Return the unmodelled fields that may be sent.

        For a message without an origin, these are the fields in `known`; if `known` is None, all fields.

        Dropped fields are recorded as a change, except for those that are null, false or empty.
        """
        fields = thaw_object(extra)
        if not fields or self.owns(message):
            return fields
        if message.origin is not None:
            known = frozenset()
        kept = fields if known is None else {key: fields[key] for key in fields if key in known}
        dropped = sorted(key for key in fields.keys() - kept.keys() - _SHAPE if fields[key])
        if dropped:
            self.left_out(path, f"{self.provider} does not accept the fields {', '.join(dropped)}")
        return kept


def _guess_provider(part: ThinkingPart | OpaquePart) -> str:
    """Guess the provider of a block from its type; empty if several providers have this type.

    A block with a signature is Anthropic's, because no other provider signs thinking.
    """
    if isinstance(part, ThinkingPart):
        return "anthropic"
    kind = text_at(thaw_object(part.json), "type")
    if kind == "refusal":
        return "openai_chat"
    return "anthropic" if _ANTHROPIC_BLOCKS.fullmatch(kind) else ""


def _response_model(message: Message) -> str:
    """Return the model that wrote the message, if its unmodelled fields name it; else empty."""
    return text_at(thaw_object(message.extra), "model")


Write = Callable[[Message, Recipient, str], object]


def with_provider(parts: Iterable[Part], provider: str, model: str) -> tuple[Part, ...]:
    """Return the parts with their provider and model noted on thinking and unmodelled parts.

    Only that provider and model accept such parts.
    """
    return tuple(
        msgspec.structs.replace(part, provider=provider, model=model)
        if isinstance(part, ThinkingPart | OpaquePart)
        else part
        for part in parts
    )


def with_origin(
    message: Message, raw: object, write: Write, *, origin: Origin, envelope: JsonObject
) -> Message:
    """Return the message with the data that restores the provider's original message `raw` from it.

    The data is stored in the `origin` of the message: the difference (residue) between `raw` and `write(message)`, the
    message as this provider's writer makes it from the parts, and the `envelope`, the fields around the message.
    """
    base = write(message, Recipient(origin.provider, origin.model, own=True), "")
    form = freeze_object(difference(base, raw), path="origin.form")
    whole = freeze_object(envelope, path="origin.envelope")
    return _replaced(message, msgspec.structs.replace(origin, form=form, envelope=whole))


def with_form(message: Message, form: JsonObject) -> Message:
    """Return the message with `form` as its stored difference to the provider's original."""
    if message.origin is None:
        return message
    text = freeze_object(form, path="origin.form")
    return _replaced(message, msgspec.structs.replace(message.origin, form=text))


def in_original_form(message: Message, base: object, recipient: Recipient) -> object:
    """Return a message exactly as its provider wrote it, for a request to the same provider and model.

    It is restored from `base`, the message as it is written from its parts; for any other provider or model, `base`
    itself is returned.
    """
    origin = message.origin
    if origin is None or not origin.form or not recipient.owns(message):
        return base
    try:
        return restored(base, thaw_object(origin.form))
    except ValueError:  # the parts were changed since they were read: the residue no longer fits
        return base


def bare_content(blocks: list[JsonObject]) -> object:
    """Return the blocks as a `content` field: a string if there is only one plain text block, otherwise the list."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    return blocks


def leading_system(messages: Sequence[Message]) -> int:
    """Return the number of system messages at the beginning of a list of messages."""
    others = (index for index, message in enumerate(messages) if message.role != "system")
    return next(others, len(messages))


def as_object(given: object) -> JsonObject | None:
    """Return tool arguments as an object: parsed if they are JSON text of an object, otherwise wrapped in one.

    Returns None for None.
    """
    if isinstance(given, str):
        found, sound = arguments_object(given)
        if sound and given:
            return found
    return None if given is None else {"input": given}


def as_items(history: object, *keys: str) -> list[object]:
    """Return the list of messages of a history: the history itself, or the list in a call's arguments or a response.

    An object without such a list is returned as the only item.
    """
    if isinstance(history, list | tuple):
        elements = enumerate(cast("Sequence[object]", history))
        return [plain(item, f"[{index}]") for index, item in elements]
    if isinstance(history, str):
        raise InvalidRecord("the history is a text, not a list", remedy="Give a list of messages")
    found = plain_object(history)
    for key in keys:
        if key in found:
            return as_items(found[key])
    return [found]


def tools_of(
    context: Context | Sequence[Message], tools: Sequence[Mapping[str, object]]
) -> Sequence[Mapping[str, object]]:
    """Return the tool schemas to send: `tools`, or if there are none, those that the context was built with."""
    if tools:
        check_tools(tools)
    return tools or (context.tool_schemas if isinstance(context, Context) else ())


def messages_of(context: Context | Sequence[Message]) -> Sequence[Message]:
    """Return the messages of a context or of a list; raises `InvalidRecord` if an item is not a `Message`."""
    messages = context.messages if isinstance(context, Context) else context
    check_messages(messages)
    for index, message in enumerate(cast("Sequence[object]", messages)):
        if not isinstance(message, Message):
            raise InvalidRecord(
                f"got {type(message).__name__}, expected a Message",
                path=f"messages[{index}]",
                remedy="Convert it with accept_all(...) or as_messages(...) first",
            )
    return messages


def _replaced(message: Message, origin: Origin) -> Message:
    return Message.of(
        message.role,
        message.parts,
        name=message.name,
        extra=message.extra,
        labels=message.labels,
        origin=origin,
    )


class MediaData(NamedTuple):
    """The media type and the base64 text of a `data:` URL."""

    media_type: str
    base64: str


def data_of(url: str) -> MediaData | None:
    """Return the content of a base64 `data:` URL; None for any other URL."""
    head, comma, body = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return MediaData(head.removeprefix("data:").removesuffix(";base64").split(";", 1)[0], body)


def media_note(part: ImagePart | AudioPart | FilePart, why: str) -> str:
    """Return the text that replaces an image, audio or file that cannot be sent, with the reason."""
    kind = type(part).__name__.removesuffix("Part").lower()
    name = getattr(part, "filename", "") or getattr(part, "url", "")
    named = f" {name}" if name and not name.startswith("data:") else ""
    return f"[{kind}{named} not shown: {why}]"


def arguments_object(arguments: str) -> tuple[JsonObject, bool]:
    """Parse tool arguments to an object; return it, and True if the text was empty or the JSON of an object."""
    if not arguments:
        return {}, True
    try:
        found = object_of(json.loads(arguments, parse_constant=_refuse))
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, RecursionError):
        found = None
    return (found, True) if found is not None else ({"input": arguments}, False)


def block_text(block: JsonObject) -> str:
    """Return the readable text of a block that only its own provider accepts; empty if it has no text."""
    match text_at(block, "type"):
        case "refusal":
            return text_at(block, "refusal")
        case "document":
            return "\n".join(
                [*_title(block), *texts_in(_document_text(object_at(block, "source")))]
            )
        case "search_result":
            blocks = (object_of(each) or {} for each in list_at(block, "content"))
            return "\n".join([*_title(block), *(text_at(each, "text") for each in blocks)])
        case "compaction":
            return text_at(block, "content")
        case "gemini":
            return _gemini_text(object_at(block, "part"))
        case kind if kind.endswith("_output"):
            return _output_text(block)
        case _:
            return ""


def _title(block: JsonObject) -> list[str]:
    return [text for key in ("title", "source", "context") if (text := text_at(block, key))]


def _document_text(source: JsonObject) -> object:
    if source.get("type") == "text":
        return source.get("data")
    content = source.get("content")
    if isinstance(content, str):
        return content
    return [(object_of(each) or {}).get("text") for each in list_at(source, "content")]


def _output_text(item: JsonObject) -> str:
    """Return the output of a shell, a patch or a program as text; empty for a screenshot."""
    said: list[str] = []
    for key in ("output", "result"):
        given = item.get(key)
        said += [given] if isinstance(given, str) else []
        for each in map(object_of, list_at(item, key)):
            said += [text_at(each or {}, name) for name in ("stdout", "stderr", "text")]
    return "\n".join(text for text in said if text)


def _gemini_text(part: JsonObject) -> str:
    code = object_at(part, "executableCode") or object_at(part, "executable_code")
    result = object_at(part, "codeExecutionResult") or object_at(part, "code_execution_result")
    return text_at(code, "code") or text_at(result, "output")


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} has no JSON form")
