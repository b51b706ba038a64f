"""Payloads for Hypothesis: conversations that are nearly right, broken in every way, down to any JSON at all."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

__all__ = ("PROVIDERS", "json_values", "payloads")

PROVIDERS = ("anthropic", "gemini", "openai_chat", "openai_responses")

words = st.sampled_from(
    ["", " ", "\n\n", "hello", "你好，世界", "👩‍👩‍👧 e\u0301", '"quoted"\\', "{}", "[]", "\x00"]
)
ids = st.sampled_from(["a", "b", "call_1", "call.2", "", "长", "x" * 41, "x" * 70, "a_2"])
names = st.sampled_from(["read", "write_file", "", "a.b", "查询", "n" * 130, "9lives"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-1, 1) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
arguments = st.sampled_from(["{}", '{"a":1}', "not json", "[1]", ""])


def sometimes(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Mostly what is asked for; now and then anything."""
    return st.integers(0, 11).flatmap(lambda die: json_values if die == 0 else strategy)


def fields(
    required: Mapping[str, st.SearchStrategy[object]],
    optional: Mapping[str, st.SearchStrategy[object]] | None = None,
) -> st.SearchStrategy[object]:
    """An object with these fields, each sometimes anything, and now and then one missing."""
    loose = {key: sometimes(value) for key, value in (optional or {}).items()}
    strict = {key: sometimes(value) for key, value in required.items()}
    whole = st.fixed_dictionaries(strict, optional=loose)
    return st.integers(0, 11).flatmap(
        lambda die: st.fixed_dictionaries({}, optional={**strict, **loose}) if die == 0 else whole
    )


def kind(name: str) -> st.SearchStrategy[object]:
    return st.just(name)


def lists(*choices: st.SearchStrategy[object], least: int = 0) -> st.SearchStrategy[object]:
    return st.lists(st.one_of(*map(sometimes, choices)), min_size=least, max_size=4)


texts = fields({"type": kind("text"), "text": words})
mark = {"cache_control": st.just({"type": "ephemeral"})}
marked_texts = fields({"type": kind("text"), "text": words}, mark)
sources = fields(
    {"type": st.sampled_from(["url", "base64", "text"])}, {"url": words, "data": words}
)
anthropic_blocks = (
    marked_texts,
    fields({"type": kind("tool_use"), "id": ids, "name": names, "input": json_values}, mark),
    fields({"type": kind("tool_use"), "id": ids, "name": kind("read"), "input": st.just({"a": 1})}),
    fields({"type": kind("tool_result"), "tool_use_id": ids}, {"content": words | lists(texts)}),
    fields({"type": kind("thinking"), "thinking": words, "signature": words}, mark),
    fields({"type": kind("redacted_thinking"), "data": words}),
    fields({"type": st.sampled_from(["image", "document"]), "source": sources}),
    fields({"type": st.sampled_from(["server_tool_use", "new"]), "id": ids}),
)
anthropic_messages = fields(
    {
        "role": st.sampled_from(["user", "assistant", "user", "assistant", "system", "tool"]),
        "content": words | lists(*anthropic_blocks),
    }
)
chat_calls = st.one_of(
    fields(
        {
            "id": ids,
            "type": st.sampled_from(["function", "custom", "new"]),
            "function": fields({"name": names, "arguments": arguments}),
            "custom": fields({"name": names, "input": arguments}),
        }
    ),
    fields(
        {"id": ids, "type": kind("function"), "function": st.just({"name": "f", "arguments": "{}"})}
    ),
)
chat_blocks = (
    texts,
    fields({"type": kind("image_url"), "image_url": fields({"url": words})}),
    fields({"type": kind("input_audio"), "input_audio": fields({"data": words, "format": words})}),
    fields({"type": kind("file"), "file": fields({}, {"file_id": words, "file_data": words})}),
    fields({"type": kind("refusal"), "refusal": words}),
)
chat_messages = st.one_of(
    fields(
        {
            "role": st.sampled_from(["user", "system", "developer", "function", "wizard"]),
            "content": words | lists(*chat_blocks),
        },
        {"name": words | names},
    ),
    fields(
        {"role": kind("assistant"), "content": words | st.none() | lists(*chat_blocks)},
        {"tool_calls": lists(chat_calls), "refusal": words, "function_call": st.none()},
    ),
    fields({"role": kind("tool"), "tool_call_id": ids, "content": words | lists(*chat_blocks)}),
)
responses_blocks = (
    fields({"type": st.sampled_from(["input_text", "output_text", "text"]), "text": words}),
    fields({"type": kind("input_image")}, {"image_url": words, "file_id": words}),
    fields({"type": kind("refusal"), "refusal": words}),
)
responses_items = st.one_of(
    fields(
        {
            "role": st.sampled_from(["user", "assistant", "system", "developer", "wizard"]),
            "content": words | lists(*responses_blocks),
        },
        {"type": kind("message"), "id": words},
    ),
    fields(
        {"type": kind("function_call"), "call_id": ids, "name": names, "arguments": arguments},
        {"id": st.sampled_from(["fc_1", "msg_1"])},
    ),
    fields(
        {
            "type": kind("function_call_output"),
            "call_id": ids,
            "output": words | lists(*responses_blocks),
        }
    ),
    fields({"type": kind("custom_tool_call"), "call_id": ids, "name": names, "input": words}),
    fields({"type": kind("custom_tool_call_output"), "call_id": ids, "output": words}),
    fields({"type": kind("reasoning"), "summary": lists(texts)}, {"id": kind("rs_1")}),
    fields(
        {"type": st.sampled_from(["shell_call", "shell_call_output", "web_search_call"])},
        {"call_id": ids},
    ),
    fields({}, {"id": words, "type": words}),
)
gemini_calls = fields({"name": names, "args": json_values}, {"id": ids})
gemini_parts = (
    fields({"text": words}, {"thought": st.booleans(), "thoughtSignature": words}),
    fields({"functionCall": gemini_calls}, {"thoughtSignature": words}),
    fields({"functionCall": st.just({"name": "read", "args": {}})}),
    fields({"function_call": gemini_calls}),
    fields({"functionResponse": fields({"name": names, "response": json_values}, {"id": ids})}),
    fields({"functionResponse": st.just({"name": "read", "response": {"output": "ok"}})}),
    fields({"inlineData": fields({"mimeType": words, "data": words})}, {"text": words}),
    fields({"executableCode": fields({"code": words})}),
)
contents = fields(
    {
        "role": st.sampled_from(["user", "model", "user", "model", "function", "system"]),
        "parts": lists(*gemini_parts),
    }
)
_MODELS = st.sampled_from(["", "gemini-2.5-pro", "gemini-3-pro-preview"])


def _payload(
    key: str, item: st.SearchStrategy[object], around: Mapping[str, st.SearchStrategy[object]]
) -> st.SearchStrategy[object]:
    conversation = sometimes(st.lists(sometimes(item), max_size=8))
    whole = st.fixed_dictionaries({key: conversation}, optional=dict(around))
    return whole | st.lists(sometimes(item), max_size=8) | st.dictionaries(words, json_values)


payloads: dict[str, st.SearchStrategy[object]] = {
    "anthropic": _payload(
        "messages",
        anthropic_messages,
        {
            "system": sometimes(words | lists(marked_texts)),
            "thinking": st.just({"type": "enabled", "budget_tokens": 1024}),
        },
    ),
    "openai_chat": _payload("messages", chat_messages, {"tools": st.just([])}),
    "openai_responses": _payload("input", responses_items, {"instructions": words}),
    "gemini": _payload("contents", contents, {"model": _MODELS}),
}
