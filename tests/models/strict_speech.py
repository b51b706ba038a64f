"""What the strict server says, in each provider's form: whole, and as the events of a stream.

A test writes an answer once (`Say`) and gets it from all three interfaces, so that it can compare them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.models.strict_rules import Body, seal

Event = tuple[str, Body]
"""Its name (empty where the interface has none) and its data."""
CREATED = 1_700_000_000


@dataclass(frozen=True)
class Call:
    """A tool the model asks for."""

    id: str
    name: str
    arguments: Body = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Say:
    """An answer: thoughts, text, calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thought: str = ""
    hidden: str = ""
    """A thought that is only shown encrypted."""
    cut_short: bool = False
    """Whether the limit of the answer was reached."""


@dataclass(frozen=True)
class Cost:
    """What the call cost."""

    fresh: int
    read: int
    written: int
    output: int


def pieces(text: str, size: int = 5) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def name_of(body: Body) -> str:
    """The same prompt gets the same id, however it is asked."""
    asked = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


# --------------------------------------------------------------------------------------- OpenAI Chat


def chat_whole(say: Say, body: Body, cost: Cost) -> Body:
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
        "id": f"chatcmpl-{name_of(body)}",
        "object": "chat.completion",
        "created": CREATED,
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


def chat_events(whole: Body, body: Body) -> Iterator[Event]:
    [choice] = whole["choices"]
    around = {key: whole[key] for key in ("id", "created", "model")}
    with_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    def chunk(delta: Body, stop: str | None = None) -> Event:
        one = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        made = {**around, "object": "chat.completion.chunk", "choices": [one]}
        return "", {**made, "usage": None} if with_usage else made

    message = choice["message"]
    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for text in pieces(message.get("reasoning_content", "")):
        yield chunk({"reasoning_content": text})
    for text in pieces(message["content"] or ""):
        yield chunk({"content": text})
    calls = message.get("tool_calls", [])
    for at, call in enumerate(calls):
        begun = {**call, "index": at, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
    rest = [(at, list(pieces(call["function"]["arguments"]))) for at, call in enumerate(calls)]
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


# ---------------------------------------------------------------------------------- OpenAI Responses


def responses_whole(say: Say, body: Body, cost: Cost) -> Body:
    name, output = name_of(body), list[Body]()
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
        content = [{"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}]
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
        "created_at": CREATED,
        "model": body["model"],
        "status": "incomplete" if say.cut_short else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if say.cut_short else None,
        "error": None,
        "output": output,
        "usage": usage,
    }


def responses_events(whole: Body) -> Iterator[Event]:
    order = iter(range(1_000_000))

    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, "sequence_number": next(order), **data}

    yield event("response.created", response={**whole, "status": "in_progress", "output": []})
    for at, item in enumerate(whole["output"]):
        yield event(
            "response.output_item.added", output_index=at, item={**item, "status": "in_progress"}
        )
        for part in item.get("content", []):
            for text in pieces(part["text"]):
                yield event(
                    "response.output_text.delta",
                    output_index=at,
                    content_index=0,
                    item_id=item["id"],
                    delta=text,
                    logprobs=[],
                )
        for text in pieces(item.get("arguments", "")):
            yield event(
                "response.function_call_arguments.delta",
                output_index=at,
                item_id=item["id"],
                delta=text,
            )
        yield event("response.output_item.done", output_index=at, item=item)
    yield event(f"response.{whole['status']}", response=whole)


# -------------------------------------------------------------------------------- Anthropic Messages


def message_whole(say: Say, body: Body, cost: Cost) -> Body:
    content: list[Body] = []
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
    return {
        "id": f"msg_{name_of(body)}",
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


def message_events(whole: Body) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}

    usage = {**whole["usage"], "output_tokens": 1}
    started = {**whole, "content": [], "stop_reason": None, "usage": usage}
    yield event("message_start", message=started)
    yield "ping", {"type": "ping"}
    for at, block in enumerate(whole["content"]):
        empty, deltas = _fragments(block)
        yield event("content_block_start", index=at, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=at, delta=delta)
        yield event("content_block_stop", index=at)
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event(
        "message_delta", delta=ending, usage={"output_tokens": whole["usage"]["output_tokens"]}
    )
    yield event("message_stop")


def _fragments(block: Body) -> tuple[Body, list[Body]]:
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": text} for text in pieces(block["text"])]
            return {"type": "text", "text": ""}, deltas
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": text} for text in pieces(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use":
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas = [
                {"type": "input_json_delta", "partial_json": text}
                for text in ("", *pieces(written))
            ]
            return {**block, "input": {}}, deltas
        case _:
            return block, []
