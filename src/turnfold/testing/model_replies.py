"""The replies of a model server for tests, in each provider's form: whole, and as the events of a stream.

A reply is written once (`ModelReply`) and sent as Chat Completions, Responses or Messages send it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

__all__ = (
    "Body",
    "ModelReply",
    "ReplyCall",
    "ReplyCost",
    "ReplyEvent",
    "chat_events",
    "chat_whole",
    "message_events",
    "message_whole",
    "responses_events",
    "responses_whole",
    "seal",
    "sealed_item",
)

Body: TypeAlias = dict[str, Any]

ReplyEvent: TypeAlias = tuple[str, Body]
"""The name of an event (empty if the interface names no events) and the data of the event."""
_CREATED = 1_700_000_000


@dataclass(frozen=True)
class ReplyCall:
    """A tool call in a scripted model's reply."""

    id: str
    name: str
    arguments: Body = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class ModelReply:
    """A scripted reply of a model server: text, tool calls, thoughts."""

    text: str = ""
    calls: tuple[ReplyCall, ...] = ()
    thought: str = ""
    hidden: str = ""
    """A thought that is sent encrypted only; only the Messages interface has such thoughts."""
    compaction: str = ""
    """Text of a native compaction of everything before this reply, in an item that only the provider can read."""
    cut_short: bool = False
    """True if the reply ended because it reached the limit of its tokens."""
    applied_edits: tuple[Mapping[str, object], ...] = ()
    """What the provider reports to have cleared from the prompt; only the Messages interface reports this."""


@dataclass(frozen=True)
class ReplyCost:
    """Tokens that a reply reports: new input, input read from the cache and written to it, output."""

    fresh: int
    read: int
    written: int
    output: int


def seal(model: str, text: str) -> str:
    """Return a signature of a text for one model: a digest of both."""
    digest = hashlib.sha256(f"{model}\0{text}".encode()).digest()
    return base64.b64encode(digest).decode()


def sealed_item(model: str, text: str) -> str:
    """Return a text with a signature for one model, in the form of an item that only the provider can read."""
    hidden = base64.b64encode(text.encode()).decode()
    return f"{hidden}.{seal(model, hidden)}"


def _pieces(text: str, size: int = 5) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _name_of(body: Body) -> str:
    """Return the id of a reply, made of the prompt: equal prompts get equal ids, streamed or not."""
    asked = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def chat_whole(say: ModelReply, body: Body, cost: ReplyCost) -> Body:
    """Return a scripted reply as the body of a Chat Completion."""
    message: Body = {
        "role": "assistant",
        "content": say.text or None,
        "refusal": None,
        "annotations": [],
    }
    if say.thought:
        message["reasoning_content"] = say.thought
    if say.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in say.calls
        ]
    stop = "length" if say.cut_short else "tool_calls" if say.calls else "stop"
    prompt = cost.fresh + cost.read + cost.written
    return {
        "id": f"chatcmpl-{_name_of(body)}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": stop}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": cost.output,
            "total_tokens": prompt + cost.output,
            "prompt_tokens_details": {"cached_tokens": cost.read},
        },
        "system_fingerprint": None,
    }


def chat_events(whole: Body, body: Body) -> Iterator[ReplyEvent]:
    """Return a Chat Completion as the chunks of a stream."""
    [choice] = whole["choices"]
    around = {key: whole[key] for key in ("id", "created", "model")}
    with_usage = bool(cast("Body", body.get("stream_options") or {}).get("include_usage"))

    def chunk(delta: Body, stop: str | None = None) -> ReplyEvent:
        one = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        made = {**around, "object": "chat.completion.chunk", "choices": [one]}
        return "", {**made, "usage": None} if with_usage else made

    message = choice["message"]
    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for text in _pieces(message.get("reasoning_content", "")):
        yield chunk({"reasoning_content": text})
    for text in _pieces(message["content"] or ""):
        yield chunk({"content": text})
    calls = message.get("tool_calls", [])
    for at, call in enumerate(calls):
        begun = {**call, "index": at, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
    rest = [(at, list(_pieces(call["function"]["arguments"]))) for at, call in enumerate(calls)]
    while any(left for _, left in rest):  # the arguments of parallel calls take turns
        for at, left in rest:
            if left:
                yield chunk({"tool_calls": [{"index": at, "function": {"arguments": left.pop(0)}}]})
    yield chunk({}, choice["finish_reason"])
    if with_usage:
        yield (
            "",
            {**around, "object": "chat.completion.chunk", "choices": [], "usage": whole["usage"]},
        )


def responses_whole(say: ModelReply, body: Body, cost: ReplyCost) -> Body:
    """Return a scripted reply as the body of a Response (Responses API)."""
    name, output = _name_of(body), list[Body]()
    if say.compaction:
        output.append(
            {
                "type": "compaction",
                "id": f"cmp_{name}",
                "encrypted_content": sealed_item(body["model"], say.compaction),
            }
        )
    if say.thought:
        summary = [{"type": "summary_text", "text": say.thought}]
        sealed = seal(body["model"], say.thought)
        output.append(
            {
                "type": "reasoning",
                "id": f"rs_{name}",
                "summary": summary,
                "encrypted_content": sealed,
            }
        )
    if say.text:
        content: list[Body] = [
            {"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}
        ]
        message: Body = {
            "type": "message",
            "id": f"msg_{name}",
            "role": "assistant",
            "status": "completed",
        }
        output.append({**message, "content": content})
    for at, call in enumerate(say.calls):
        own = f"fc_reasoned_{at}_{name}" if say.thought else f"fc_{at}_{name}"
        written = json.dumps(call.arguments)
        item: Body = {"type": "function_call", "id": own, "call_id": call.id, "name": call.name}
        output.append({**item, "arguments": written, "status": "completed"})
    prompt = cost.fresh + cost.read + cost.written
    usage: Body = {
        "input_tokens": prompt,
        "output_tokens": cost.output,
        "total_tokens": prompt + cost.output,
    }
    usage["input_tokens_details"] = {"cached_tokens": cost.read}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": _CREATED,
        "model": body["model"],
        "status": "incomplete" if say.cut_short else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if say.cut_short else None,
        "error": None,
        "output": output,
        "usage": usage,
    }


def responses_events(whole: Body) -> Iterator[ReplyEvent]:
    """Return a Response (Responses API) as the events of a stream."""
    order = iter(range(1_000_000))

    def event(kind: str, **data: object) -> ReplyEvent:
        return kind, {"type": kind, "sequence_number": next(order), **data}

    yield event("response.created", response={**whole, "status": "in_progress", "output": []})
    for at, item in enumerate(whole["output"]):
        # Text and arguments come in the events that follow: clients add these to what an item begins with.
        empty = {name: type(item[name])() for name in ("content", "arguments") if name in item}
        begun = {**item, **empty, "status": "in_progress"}
        yield event("response.output_item.added", output_index=at, item=begun)
        place = {"output_index": at, "item_id": item.get("id")}
        for number, part in enumerate(item.get("content", [])):
            where = {**place, "content_index": number}
            yield event("response.content_part.added", **where, part={**part, "text": ""})
            for text in _pieces(part["text"]):
                yield event("response.output_text.delta", **where, delta=text, logprobs=[])
            yield event("response.content_part.done", **where, part=part)
        for text in _pieces(item.get("arguments", "")):
            yield event("response.function_call_arguments.delta", **place, delta=text)
        yield event("response.output_item.done", output_index=at, item=item)
    yield event(f"response.{whole['status']}", response=whole)


def message_whole(say: ModelReply, body: Body, cost: ReplyCost) -> Body:
    """Return a scripted reply as the body of a Message (Anthropic)."""
    content: list[Body] = []
    if say.compaction:
        sealed = seal(body["model"], say.compaction)
        content.append(
            {"type": "compaction", "content": say.compaction, "encrypted_content": sealed}
        )
    if say.thought:
        content.append(
            {
                "type": "thinking",
                "thinking": say.thought,
                "signature": seal(body["model"], say.thought),
            }
        )
    if say.hidden:
        name = hashlib.sha256(say.hidden.encode()).hexdigest()
        content.append({"type": "redacted_thinking", "data": f"{name}.{seal(body['model'], name)}"})
    if say.text:
        content.append({"type": "text", "text": say.text, "citations": None})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in say.calls
    ]
    edited = {"context_management": {"applied_edits": [*say.applied_edits]}}
    return {
        **(edited if say.applied_edits else {}),
        "id": f"msg_{_name_of(body)}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "max_tokens" if say.cut_short else "tool_use" if say.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": cost.fresh,
            "cache_read_input_tokens": cost.read,
            "cache_creation_input_tokens": cost.written,
            "output_tokens": cost.output,
        },
    }


def message_events(whole: Body) -> Iterator[ReplyEvent]:
    """Return a Message (Anthropic) as the events of a stream."""

    def event(kind: str, **data: object) -> ReplyEvent:
        return kind, {"type": kind, **data}

    usage = {**whole["usage"], "output_tokens": 1}
    edited = {key: whole[key] for key in ("context_management",) if key in whole}
    rest = {key: value for key, value in whole.items() if key not in edited}
    started: Body = {**rest, "content": [], "stop_reason": None, "usage": usage}
    yield event("message_start", message=started)
    yield "ping", {"type": "ping"}
    for at, block in enumerate(whole["content"]):
        empty, deltas = _fragments(block)
        yield event("content_block_start", index=at, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    used = {"output_tokens": whole["usage"]["output_tokens"]}
    yield event("message_delta", delta=ending, usage=used, **edited)
    yield event("message_stop")


def _fragments(block: Body) -> tuple[Body, list[Body]]:
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": text} for text in _pieces(block["text"])]
            return {"type": "text", "text": ""}, deltas
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": text} for text in _pieces(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use":
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas = [
                {"type": "input_json_delta", "partial_json": text}
                for text in ("", *_pieces(written))
            ]
            return {**block, "input": {}}, deltas
        case "compaction":
            fields = {key: block[key] for key in ("content", "encrypted_content")}
            empty = {"type": "compaction", "content": None, "encrypted_content": None}
            return empty, [{"type": "compaction_delta", **fields}]
        case _:
            return block, []
