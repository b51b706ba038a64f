"""Items that the provider does not accept any more: the request is built from the log and sent once without them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.proxy.running import Arrived, Told, log_of, served
from turnfold import wire

RESPONSES, MESSAGES = "/s/one/v1/responses", "/s/one/v1/messages"
EVENTS = {"content-type": "text/event-stream"}
ROTATED = {
    "message": "The encrypted content gAAA... could not be verified.",
    "type": "invalid_request_error",
    "code": "invalid_encrypted_content",
}
SIGNED = {
    "type": "invalid_request_error",
    "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
}
SWITCHED = {
    "type": "invalid_request_error",
    "message": "messages.0.content.0: Input tag 'compaction' does not match any of the expected tags",
}

BY_GEMINI = {
    "code": 400,
    "message": "Unable to submit request because Thought signature is not valid.",
    "status": "INVALID_ARGUMENT",
}


def refusing(
    error: dict[str, Any], mark: str, answer: Callable[[], Told]
) -> Callable[[Arrived], Told]:
    """A provider that refuses every request with a mark in it."""

    def say(arrived: Arrived) -> Told:
        if mark not in arrived.raw.decode():
            return answer()
        return Told(json.dumps({"error": error}).encode(), 400)

    return say


def text(words: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": words}],
    }


def response(*items: dict[str, Any]) -> Told:
    whole = {"id": "r", "object": "response", "model": "gpt-5.1", "status": "completed"}
    return Told(json.dumps({**whole, "output": list(items)}).encode())


def message(*blocks: dict[str, Any]) -> Told:
    whole = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5"}
    return Told(json.dumps({**whole, "content": list(blocks), "stop_reason": "end_turn"}).encode())


def said(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


def test_reasoning_of_another_key_is_left_out_and_not_sent_again(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "look",
        "arguments": "{}",
    }
    output = {"type": "function_call_output", "call_id": "c1", "output": "三朵玫瑰"}
    history = [said("How many roses?"), thought, call, output]
    say = refusing(ROTATED, "gAAA", lambda: response(text("three 三")))
    with served(say, store=store) as (provider, http):
        body = {"model": "gpt-5.1", "input": history, "store": False, "x_new": 1.0}
        answer = http.post(RESPONSES, json=body)
        assert answer.status_code == 200
        assert answer.json()["output"] == [text("three 三")]
        assert answer.headers["x-turnfold"].endswith("; without refused items")
        later = {**body, "input": [*history, text("three 三"), said("and now?")]}
        assert http.post(RESPONSES, json=later).status_code == 200
    refused, again, next_one = [one.body for one in provider.seen]
    assert refused["input"] == history
    kinds = [item.get("type", "message") for item in again["input"]]
    assert kinds == ["message", "function_call", "function_call_output"]
    assert again["input"][1]["call_id"] == "c1"
    assert "id" not in again["input"][1]  # it belongs to the reasoning
    assert {**again, "input": 0} == {**body, "input": 0}
    assert "gAAA" not in json.dumps(next_one)
    assert [
        fault for one in (again, next_one) for fault in wire.lint(one, "openai_responses")
    ] == []
    assert "gAAA" in str(log_of(store, "one")[1].message.parts)  # the log keeps it


def test_a_compaction_item_is_replaced_by_what_it_stands_for(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
    answers = [response(item, text("noted")), response(text("red"))]
    say = refusing(ROTATED, "gAAA", lambda: answers.pop(0))
    with served(say, store=store) as (provider, http):
        first = {"model": "gpt-5.1", "input": [said("The gate 大门 is red.")]}
        assert http.post(RESPONSES, json=first).status_code == 200
        # The client keeps the item and drops what it stands for.
        short = {"model": "gpt-5.1", "input": [item, text("noted"), said("Which colour?")]}
        answer = http.post(RESPONSES, json=short)
        assert answer.status_code == 200
    assert answer.headers["x-turnfold"].split("; ")[1] == "conversation=one"
    assert len(provider.seen) == 3
    sent = provider.seen[2].body["input"]
    assert "The gate 大门 is red." in json.dumps(sent, ensure_ascii=False)
    assert sent[-1] == said("Which colour?")


@pytest.mark.parametrize("stream", [False, True])
def test_a_signature_that_anthropic_refuses(tmp_path: Path, *, stream: bool) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    thought = {"type": "thinking", "thinking": "Let me look.", "signature": "c2ln"}
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "三朵玫瑰"}
    history = [
        said("How many roses?"),
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [result]},
    ]
    told = message({"type": "text", "text": "three 三"})
    told = replace(told, headers=EVENTS) if stream else told
    with served(refusing(SIGNED, "c2ln", lambda: told), store=store) as (provider, http):
        body = {
            "model": "claude-sonnet-5",
            "messages": history,
            "max_tokens": 2_000,
            "stream": stream,
        }
        body["thinking"] = {"type": "enabled", "budget_tokens": 1_024}
        answer = http.post(MESSAGES, json=body)
    assert answer.status_code == 200
    again = provider.seen[1].body
    assert [block["type"] for block in again["messages"][1]["content"]] == ["tool_use"]
    assert again["thinking"] == {"type": "disabled"}  # or it would be refused once more
    assert again["messages"][0] == history[0]
    assert wire.lint(again, "anthropic") == ()


@pytest.mark.parametrize("stream", [False, True])
def test_a_signature_that_gemini_refuses_is_replaced_and_not_sent_again(
    tmp_path: Path, *, stream: bool
) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    call = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "U0lHTkVE"}
    found = {"functionResponse": {"name": "look", "response": {"result": "三朵玫瑰"}}}
    history = [
        {"role": "user", "parts": [{"text": "How many roses?"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [found]},
    ]
    answer = {"role": "model", "parts": [{"text": "three 三"}]}
    candidate = {"content": answer, "finishReason": "STOP", "index": 0}
    whole = json.dumps({"candidates": [candidate], "modelVersion": "gemini-3-pro"}).encode()
    told = Told([b"data: %s\r\n\r\n" % whole], headers=EVENTS) if stream else Told(whole)
    where = f"/s/one/v1beta/models/gemini-3-pro:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"
    with served(refusing(BY_GEMINI, "U0lHTkVE", lambda: told), store=store) as (provider, http):
        assert http.post(where, json={"contents": history}).status_code == 200
        later = [*history, answer, {"role": "user", "parts": [{"text": "And now? 现在呢？"}]}]
        assert http.post(where, json={"contents": later}).status_code == 200
    refused, again, next_one = [one.body["contents"] for one in provider.seen]
    assert refused == history
    unsigned = [{**call, "thoughtSignature": "skip_thought_signature_validator"}]
    assert again == [history[0], {"role": "model", "parts": unsigned}, history[2]]
    # Signatures are needed in the current turn only.
    bare = [{"functionCall": call["functionCall"]}]
    assert next_one == [history[0], {"role": "model", "parts": bare}, *later[2:]]
    checked = [{"model": "gemini-3-pro", "contents": one} for one in (again, next_one)]
    assert [fault for one in checked for fault in wire.lint(one, "gemini")] == []
    log = log_of(store, "one")
    assert [entry.message.text for entry in log][3:] == [
        "three 三",
        "And now? 现在呢？",
        "three 三",
    ]
    # The log keeps the signature, for the day the provider takes it again.
    written = wire.gemini.request([log[1].message], model="gemini-3-pro", repair=False).kwargs
    assert written["contents"] == [history[1]]


def test_a_compaction_block_at_a_provider_without_compaction(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    block = {"type": "compaction", "content": "The gate is red."}
    words = {"type": "text", "text": "noted"}
    answers = [message(block, words), message({"type": "text", "text": "red"})]
    say = refusing(SWITCHED, '"compaction"', lambda: answers.pop(0))
    with served(say, store=store) as (provider, http):
        fields = {"model": "claude-sonnet-5", "max_tokens": 99}
        assert http.post(MESSAGES, json={**fields, "messages": [said("大门 is red")]}).is_success
        short = [{"role": "assistant", "content": [block, words]}, said("Which colour?")]
        assert http.post(MESSAGES, json={**fields, "messages": short}).is_success
    assert len(provider.seen) == 3
    assert "大门 is red" in json.dumps(provider.seen[2].body, ensure_ascii=False)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "roses are not allowed", "type": "invalid_request_error"}),
        (429, ROTATED),
        (500, ROTATED),
    ],
)
def test_other_errors_are_passed_on_at_once(status: int, error: dict[str, Any]) -> None:
    told = Told([b'{"error": ', json.dumps(error).encode(), b"}"], status, {"retry-after": "7"})
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    with served(lambda _: told) as (provider, http):
        body = {"model": "gpt-5.1", "input": [said("hi"), thought, text("yes"), said("and?")]}
        answer = http.post(RESPONSES, json=body)
    assert (answer.status_code, answer.json()) == (status, {"error": error})
    assert answer.headers["retry-after"] == "7"
    assert len(provider.seen) == 1


def test_a_second_refusal_is_passed_on() -> None:
    with served(lambda _: Told(json.dumps({"error": ROTATED}).encode(), 400)) as (provider, http):
        thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
        body = {"model": "gpt-5.1", "input": [said("hi"), thought, text("yes"), said("and?")]}
        first = http.post(RESPONSES, json=body)
        plain = {"model": "gpt-5.1", "input": [said("hello")]}
        second = http.post("/s/two/v1/responses", json=plain)
    assert first.status_code == second.status_code == 400
    assert first.json() == {"error": ROTATED}
    assert len(provider.seen) == 3  # twice, and once for the one that had nothing to leave out
