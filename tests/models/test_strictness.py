"""The strict server is only worth something if it refuses: every rule of it is broken here once."""

from __future__ import annotations

import copy
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.models.providers import TOOLS, Client, Provider, every_provider
from tests.models.strict_messages import check_messages
from tests.models.strict_rules import Refused, check_chat, check_responses, seal
from tests.models.strict_server import Say, StrictServer
from turnfold import wire
from turnfold.errors import ModelFailed
from turnfold.models import Answer
from turnfold.records import assistant, tool, user

Body = dict[str, Any]
Break = Callable[[Body], object]


def chat_body() -> Body:
    calls = [
        {"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for one in ("a", "b")
    ]
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u", "name": "dana"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "b", "content": "1"},
            {"role": "tool", "tool_call_id": "a", "content": "2"},
            {"role": "assistant", "content": "so"},
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
        ],
        "tools": copy.deepcopy(TOOLS),
    }


def responses_body() -> Body:
    return {
        "model": "m",
        "instructions": "s",
        "input": [
            {"role": "user", "content": "u"},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "t"}],
                "encrypted_content": seal("m", "t"),
            },
            {
                "type": "function_call",
                "id": "fc_reasoned",
                "call_id": "a",
                "name": "look",
                "arguments": "{}",
            },
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "so"}],
            },
            {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        ],
        "tools": [{"type": "function", **TOOLS[0]["function"]}],
    }


def messages_body() -> Body:
    function = TOOLS[0]["function"]
    return {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": "u"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": seal("m", "t")},
                    {"type": "redacted_thinking", "data": f"x.{seal('m', 'x')}"},
                    {"type": "tool_use", "id": "a", "name": "look", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "look", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "b", "content": "1"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "a",
                        "content": [{"type": "text", "text": "2"}],
                    },
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "tools": [
            {"name": "look", "description": "d", "input_schema": function["parameters"]},
        ],
    }


def put(*path: Any) -> Break:
    """Set what is at the path to its last element."""
    *way, key, value = path

    def change(body: Body) -> None:
        inner: Any = body
        for step in way:
            inner = inner[step]
        inner[key] = value

    return change


def drop(*path: Any) -> Break:
    *way, key = path

    def change(body: Body) -> None:
        inner: Any = body
        for step in way:
            inner = inner[step]
        del inner[key]

    return change


CHAT_BREAKS = {
    "no model": drop("model"),
    "no messages": put("messages", []),
    "unknown argument": put("cache_control", {}),
    "two limits": lambda body: body.update(max_tokens=1, max_completion_tokens=1),
    "stream options without a stream": put("stream_options", {"include_usage": True}),
    "unknown role": put("messages", 1, "role", "human"),
    "unknown field": put("messages", 1, "id", "x"),
    "name with a blank": put("messages", 1, "name", "Dana Doe"),
    "empty text": put("messages", 1, "content", ""),
    "null content": put("messages", 1, "content", None),
    "null answer": put("messages", 5, "content", None),
    "no content blocks": put("messages", 6, "content", []),
    "foreign block": put("messages", 6, "content", 0, "type", "tool_result"),
    "picture in a system message": put(
        "messages", 0, "content", [{"type": "image_url", "image_url": {}}]
    ),
    "no calls in the list of calls": put("messages", 2, "tool_calls", []),
    "long call id": put("messages", 2, "tool_calls", 0, "id", "x" * 41),
    "the same call id twice": put("messages", 2, "tool_calls", 1, "id", "a"),
    "call name with a dot": put("messages", 2, "tool_calls", 0, "function", "name", "a.b"),
    "arguments as an object": put("messages", 2, "tool_calls", 0, "function", "arguments", {}),
    "a result missing": drop("messages", 4),
    "all results missing": lambda body: body["messages"].__delitem__(slice(3, 5)),
    "a result too many": lambda body: body["messages"].insert(5, dict(body["messages"][4])),
    "a result without a call": drop("messages", 2),
    "results after something else": lambda body: body["messages"].insert(
        3, {"role": "user", "content": "x"}
    ),
    "open call at the end": lambda body: body["messages"].__delitem__(slice(4, None)),
    "no tools in the list of tools": put("tools", []),
    "flat tool": put("tools", 0, dict(TOOLS[0]["function"])),
    "tool without a schema": put("tools", 0, "function", "parameters", {"type": "string"}),
}
RESPONSES_BREAKS = {
    "no model": drop("model"),
    "no input": put("input", []),
    "unknown argument": put("messages", []),
    "unknown role": put("input", 0, "role", "tool"),
    "empty text": put("input", 0, "content", ""),
    "input text from the assistant": put("input", 4, "content", 0, "type", "input_text"),
    "output text from the user": put("input", 5, "content", 0, "type", "output_text"),
    "result missing": drop("input", 3),
    "call missing": drop("input", 2),
    "result before its call": lambda body: body["input"].insert(1, body["input"].pop(3)),
    "result twice": lambda body: body["input"].insert(4, dict(body["input"][3])),
    "call twice": lambda body: body["input"].insert(3, dict(body["input"][2])),
    "reasoning without what follows": put("input", 2, {"role": "user", "content": "x"}),
    "call without its reasoning": lambda body: (drop("input", 1)(body), drop("input", 0)(body)),
    "reasoning of another model": put("input", 1, "encrypted_content", seal("other", "t")),
    "foreign item id": put("input", 2, "id", "call_1"),
    "long item id": put("input", 2, "id", "fc_" + "x" * 64),
    "long call id": lambda body: (
        put("input", 2, "call_id", "x" * 65)(body),
        put("input", 3, "call_id", "x" * 65)(body),
    ),
    "arguments as an object": put("input", 2, "arguments", {}),
    "nested tool": put("tools", 0, copy.deepcopy(TOOLS[0])),
    "unknown item": put("input", 4, {"type": "thinking"}),
}
MESSAGES_BREAKS = {
    "no model": drop("model"),
    "no limit": drop("max_tokens"),
    "no messages": put("messages", []),
    "unknown argument": put("stream_options", {}),
    "empty system": put("system", [{"type": "text", "text": ""}]),
    "assistant first": drop("messages", 0),
    "assistant last": drop("messages", 2),
    "system among the messages": put("messages", 0, "role", "tool"),
    "empty content": put("messages", 0, "content", ""),
    "no blocks": put("messages", 0, "content", []),
    "blank text": put("messages", 2, "content", 2, "text", "  \n"),
    "unknown field of a message": put("messages", 0, "name", "dana"),
    "unknown field of a block": put("messages", 2, "content", 2, "id", "x"),
    "foreign block": put("messages", 2, "content", 2, {"type": "image_url"}),
    "call id with a dot": lambda body: (
        put("messages", 1, "content", 2, "id", "a.b")(body),
        put("messages", 2, "content", 1, "tool_use_id", "a.b")(body),
    ),
    "the same call id twice": put("messages", 1, "content", 3, "id", "a"),
    "arguments as text": put("messages", 1, "content", 2, "input", "{}"),
    "a result missing": drop("messages", 2, "content", 0),
    "a result without a call": put("messages", 2, "content", 0, "tool_use_id", "c"),
    "a result twice": lambda body: body["messages"][2]["content"].insert(
        0, dict(body["messages"][2]["content"][0])
    ),
    "text before the results": lambda body: body["messages"][2]["content"].insert(
        0, body["messages"][2]["content"].pop()
    ),
    "result from the assistant": put(
        "messages", 1, "content", 0, {"type": "tool_result", "tool_use_id": "z"}
    ),
    "call from the user": put(
        "messages", 0, "content", [{"type": "tool_use", "id": "z", "name": "n", "input": {}}]
    ),
    "changed thought": put("messages", 1, "content", 0, "thinking", "T"),
    "unsigned thought": drop("messages", 1, "content", 0, "signature"),
    "thought of another model": put("messages", 1, "content", 0, "signature", seal("other", "t")),
    "hidden thought of another model": put(
        "messages", 1, "content", 1, "data", f"x.{seal('other', 'x')}"
    ),
    "thoughts left out": lambda body: body["messages"][1]["content"].__delitem__(slice(0, 2)),
    "five cache marks": lambda body: [
        block.update(cache_control={})
        for block in [*body["messages"][1]["content"][2:], *body["messages"][2]["content"]]
    ],
    "nested tool": put("tools", 0, copy.deepcopy(TOOLS[0])),
    "two tools of one name": lambda body: body["tools"].append(dict(body["tools"][0])),
    "tool without a schema": drop("tools", 0, "input_schema"),
}
CASES = [
    *((check_chat, chat_body, name, broken) for name, broken in CHAT_BREAKS.items()),
    *((check_responses, responses_body, name, broken) for name, broken in RESPONSES_BREAKS.items()),
    *((check_messages, messages_body, name, broken) for name, broken in MESSAGES_BREAKS.items()),
]


@pytest.mark.parametrize(
    ("check", "good", "name", "broken"), CASES, ids=[f"{c[0].__name__}: {c[2]}" for c in CASES]
)
def test_every_violation_is_refused(
    check: Callable[[Body], None], good: Callable[[], Body], name: str, broken: Break
) -> None:
    del name
    body = good()
    check(body)
    broken(body)
    with pytest.raises(Refused):
        check(body)


@pytest.mark.parametrize(
    ("path", "good", "broken", "shape"),
    [
        ("/v1/chat/completions", chat_body, CHAT_BREAKS["a result missing"], {"error"}),
        ("/v1/responses", responses_body, RESPONSES_BREAKS["result missing"], {"error"}),
        ("/v1/messages", messages_body, MESSAGES_BREAKS["a result missing"], {"type", "error"}),
    ],
)
def test_a_refusal_has_the_provider_s_form(
    path: str, good: Callable[[], Body], broken: Break, shape: set[str]
) -> None:
    def post(body: Body) -> tuple[int, Body]:
        headers = {
            "authorization": "Bearer k",
            "anthropic-version": "1",
            "content-type": "application/json",
        }
        request = urllib.request.Request(server.url + path, json.dumps(body).encode(), headers)  # noqa: S310 - ours
        try:
            with urllib.request.urlopen(request) as response:  # noqa: S310 - as above
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    with StrictServer([Say("ok")]) as server:
        assert post(good())[0] == 200
        body = good()
        broken(body)
        status, answer = post(body)
        assert (status, answer.keys()) == (400, shape)
        assert len(server.rejected) == 1


BROKEN_LOG = [
    user("Look at both."),
    assistant(
        tool_calls=[
            {"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}}
            for one in ("call_1", "call_2")
        ]
    ),
    tool("roses", tool_call_id="call_2"),
    user("And now?"),
]


@every_provider
@pytest.mark.parametrize("repairing", [True, False], ids=["repaired", "sabotaged"])
def test_without_repair_a_broken_log_is_refused(
    provider: Provider, *, repairing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not repairing:
        written = getattr(wire, provider.name).request
        monkeypatch.setattr(
            f"turnfold.wire.{provider.name}.request", partial(written, repair=False)
        )

    def ask(client: Client) -> Any:
        return client.complete(BROKEN_LOG, tools=TOOLS)

    with StrictServer([Say("ok")]) as server:
        if repairing:
            answer: Answer = provider.run(server, ask)
            assert answer.changes
            assert server.rejected == []
        else:
            with pytest.raises(ModelFailed, match=r"call_1"):
                provider.run(server, ask)
            assert len(server.rejected) == 1
