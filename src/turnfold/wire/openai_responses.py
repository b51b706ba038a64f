"""Write requests for OpenAI's Responses API, and read its items and responses.

It is used without server-side state: the whole conversation is in `input`. Reasoning, compaction and all other items
are sent back unchanged to the model they came from. Another model gets none of them and no ids of items, because an
item with an id is refused if the reasoning it refers to is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from turnfold.errors import InvalidRecord
from turnfold.records import Message, Origin, Part, TextPart, freeze, thaw_object
from turnfold.window import Context
from turnfold.wire.codec import (
    Recipient,
    as_items,
    bare_content,
    in_original_form,
    messages_of,
    tools_of,
    with_origin,
    with_provider,
)
from turnfold.wire.compaction import compaction_trigger, recipient_of, without_covered
from turnfold.wire.json_values import JsonObject, list_of, object_of, plain, plain_object, text_at
from turnfold.wire.lint_and_repair import finish_request
from turnfold.wire.openai_responses_items import (
    answered_call,
    called_id,
    is_output,
    is_produced,
    read_item,
    speaker,
    write_content,
    write_parts,
)
from turnfold.wire.request import Request, require_size
from turnfold.wire.tools import write_tools

__all__ = (
    "PROVIDER",
    "accept",
    "accept_all",
    "request",
    "runs",
)


PROVIDER = "openai_responses"
_INSTRUCTIONS = freeze({"at": "instructions"}, path="")


def request(
    context: Context | Sequence[Message],
    *,
    model: str = "",
    tools: Sequence[Mapping[str, object]] = (),
    cache: bool = True,
    repair: bool = True,
    max_bytes: int | None = None,
    refused: Collection[bytes] = (),
) -> Request:
    """Return the arguments of `client.responses.create`.

    `tools` replaces the tool schemas with which the context was built. OpenAI caches prefixes by itself: `cache` is
    ignored. With `repair=False` a history is written unchanged, with its faults. Raises `BudgetTooSmall` if the body
    has more than `max_bytes`; None means the limit of the context's own budget, 0 means no limit. `refused` has the
    `item_key` of messages that the provider refused before: they are sent without their signed, encrypted and other
    opaque parts.
    """
    del cache
    recipient = recipient_of(context, PROVIDER, model, refused)
    messages = messages_of(context)
    lead = _leading(messages)
    items: list[object] = []
    restated: set[str] = set()
    sent, start = without_covered(context, recipient, lead)
    for index, given in enumerate(sent, start=start):
        path = f"messages[{index}]"
        message = _answering(given, restated)
        if not recipient.owns(message):
            restated |= {call.id for call in message.calls}
        if message.name is not None and message.role != "tool":
            recipient.left_out(
                path, f"the Responses API has no field for an author's name: {message.name}"
            )
        base = _write_message(message, recipient, path)
        items += list_of(in_original_form(message, base, recipient)) or []
    kwargs: JsonObject = {"model": model} if model else {}
    if lead:
        kwargs["instructions"] = _write_instructions(messages[:lead], recipient)
    kwargs["input"] = items
    if schemas := tools_of(context, tools):
        kwargs["tools"] = write_tools(schemas, PROVIDER, recipient)
    if trigger := compaction_trigger(context, recipient):
        kwargs["context_management"] = [{"type": "compaction", "compact_threshold": trigger}]
    return require_size(finish_request(kwargs, recipient, repair=repair), context, max_bytes)


def accept(value: object, *, model: str = "") -> Message:
    """Convert an item or response of OpenAI's Responses API, a dictionary or SDK object, to a `Message`."""
    fields = plain_object(value)
    output = list_of(fields.get("output"))
    if output is None or is_output(fields):
        return _grouped([fields], model=model, envelope={})
    envelope = {key: fields[key] for key in fields if key != "output"}
    items = [plain_object(item, f"output[{index}]") for index, item in enumerate(output)]
    return _grouped(items, model=text_at(fields, "model") or model, envelope=envelope)


def accept_all(history: object, *, model: str = "") -> list[Message]:
    """Convert a history of OpenAI's Responses API: a list of items, a call's arguments, or a response."""
    arguments = object_of(history) or {}
    messages: list[Message] = []
    instructions = plain(arguments.get("instructions"))
    if isinstance(instructions, str) and "output" not in arguments:
        origin = Origin(PROVIDER, envelope=_INSTRUCTIONS)
        messages.append(Message.of("system", Message("system", instructions).parts, origin=origin))
    if isinstance(arguments.get("input"), str):
        found: list[object] = [{"role": "user", "content": arguments["input"]}]
    else:
        found = as_items(history, "input", "output")
    items = (plain_object(item, f"[{index}]") for index, item in enumerate(found))
    groups = (_grouped(group, model=model, envelope={}) for group in runs(items))
    return [*messages, *groups]


def runs(items: Iterable[JsonObject]) -> Iterator[list[JsonObject]]:
    """Yield the items of each message: consecutive items of the model form one message, any other item is one alone."""
    run: list[JsonObject] = []
    for item in items:
        if is_produced(item):
            run.append(item)
            continue
        if run:
            yield run
            run = []
        yield [item]
    if run:
        yield run


def _grouped(items: list[JsonObject], *, model: str, envelope: JsonObject) -> Message:
    answered = {answered_call(item) for item in items} - {""}
    served = answered if len(items) > 1 else set[str]()  # calls the provider answered itself
    parts: list[Part] = []
    for item in items:
        parts += read_item(item, whole=(answered_call(item) or called_id(item)) in served)
    role = _role(items, served)
    if role != "assistant":
        model = ""
    message = Message.of(role, with_provider(parts, PROVIDER, model))
    origin = Origin(PROVIDER, model)
    return with_origin(message, items, _write_message, origin=origin, envelope=envelope)


def _role(items: list[JsonObject], served: set[str]) -> str:
    if len(items) == 1 and is_output(items[0]) and not served:
        return "tool"
    speaks = speaker(items[0]) if len(items) == 1 else ""
    if speaks in ("system", "developer"):
        return "system"
    if speaks not in ("", "user", "assistant"):
        raise InvalidRecord(
            f"unknown role {speaks!r}",
            path="role",
            remedy="Use user, assistant, system or developer",
        )
    return speaks or "assistant"


def _leading(messages: Sequence[Message]) -> int:
    """Return how many messages are sent as `instructions`: the first system messages, unless they came from items."""
    for index, message in enumerate(messages):
        origin = message.origin or Origin("")
        item = origin.provider == PROVIDER and origin.envelope != _INSTRUCTIONS
        if message.role != "system" or item:
            return index
    return len(messages)


def _answering(message: Message, restated: set[str]) -> Message:
    """Return a message without its stored original form if it answers a call whose id is in `restated`.

    These are calls that are written anew, so the original form of their answers no longer fits them.
    """
    if not any(result.call_id in restated for result in message.results):
        return message
    return Message.of(message.role, message.parts, name=message.name)


def _write_instructions(messages: Sequence[Message], recipient: Recipient) -> str:
    for index, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if not isinstance(part, TextPart):
                path = f"messages[{index}].parts[{place}]"
                recipient.left_out(path, "instructions may only hold text")
    return "\n\n".join(message.text for message in messages)


def _write_message(message: Message, recipient: Recipient, path: str) -> object:
    if message.extra:
        recipient.extra_fields(message.extra, message=message, known=frozenset({"role"}), path=path)
    if message.role in ("assistant", "tool"):
        return write_parts(message, recipient, path)
    role = "developer" if thaw_object(message.extra).get("role") == "developer" else message.role
    blocks = write_content(message.parts, message, recipient, f"{path}.parts")
    return [{"role": role, "content": bare_content(blocks)}]
