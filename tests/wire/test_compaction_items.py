"""Requests for contexts with a compaction item: where they begin, what they carry, and what others get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire.formats import FORMATS
from turnfold import Budget, InvalidOption, Memory, tool, user, wire
from turnfold.records import Message, OpaquePart
from turnfold.window import Context, NativeCompaction

CLAUDE, GPT = "claude-opus-5", "gpt-5.4"
BLOCK = {"type": "compaction", "content": "SUMMED UP 摘要", "encrypted_content": "RW5j"}
SIGNED = {"type": "compaction", "content": "SUMMED UP 摘要", "signature": "U2ln"}
FAILED = {"type": "compaction", "content": None}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "Q29tcA=="}
CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}


def said_by_claude(*blocks: dict[str, Any], model: str = CLAUDE) -> Message:
    """An answer of Claude with these blocks."""
    answer = {"type": "message", "role": "assistant", "model": model, "content": list(blocks)}
    return wire.anthropic.accept(answer)


def said_by_gpt(*items: dict[str, Any]) -> Message:
    """An answer of OpenAI with these items."""
    return wire.openai_responses.accept({"model": GPT, "output": list(items)})


def text(written: str) -> dict[str, Any]:
    return {"type": "text", "text": written}


def context_of(*messages: Message, pin: str = "") -> Context:
    """The context of a session that holds these messages."""
    with Memory("sqlite://", budget=Budget(max_tokens=4_000)) as memory:
        session = memory.session("s")
        session.system("Be brief. 简短。")
        if pin:
            session.pin(pin)
        for message in messages:
            session.add(message)
        return session.context()


def written(request: wire.Request) -> str:
    return json.dumps(request.kwargs, ensure_ascii=False)


def test_a_request_to_claude_begins_with_its_newest_block() -> None:
    context = context_of(
        user("first 一"),
        said_by_claude({**BLOCK, "content": "OLD"}, text("a")),
        user("second 二"),
        said_by_claude(BLOCK, text("b")),
        user("third 三"),
    )
    request = wire.anthropic.request(context, model=CLAUDE)
    kwargs = request.kwargs
    assert kwargs["system"][0]["text"] == "Be brief. 简短。"
    assert kwargs["messages"][0]["content"][0] == BLOCK
    assert len(kwargs["messages"]) == 2
    assert kwargs["extra_headers"] == {"anthropic-beta": "compact-2026-01-12"}
    edits = kwargs["extra_body"]["context_management"]["edits"]
    assert edits == [{"type": "compact_20260112"}]
    assert [str(change) for change in request.changes] == [
        "messages[1] left out: 3 messages that a compaction item of anthropic covers"
    ]
    assert wire.lint(kwargs, "anthropic") == ()


def test_a_signed_block_has_the_other_header_and_no_edit() -> None:
    context = context_of(user("first"), said_by_claude(SIGNED), user("second"))
    context.native = NativeCompaction(60_000, required=True)
    kwargs = wire.anthropic.request(context, model=CLAUDE).kwargs
    assert kwargs["messages"][0]["content"] == [SIGNED]
    assert kwargs["extra_headers"] == {"anthropic-beta": "compact-2026-09-04"}
    assert "extra_body" not in kwargs


def test_a_failed_attempt_stands_for_nothing() -> None:
    context = context_of(user("first"), said_by_claude(FAILED, text("a")), user("second"))
    request = wire.anthropic.request(context, model=CLAUDE)
    assert "first" in written(request)
    assert request.kwargs["messages"][1]["content"][0] == FAILED


def test_a_request_to_openai_begins_with_its_newest_item() -> None:
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "a"}],
    }
    context = context_of(user("first 一"), said_by_gpt(ITEM, message), user("second 二"))
    request = wire.openai_responses.request(context, model=GPT)
    assert request.kwargs["instructions"] == "Be brief. 简短。"
    assert request.kwargs["input"][:2] == [ITEM, message]
    assert "first" not in written(request)
    assert "context_management" not in request.kwargs


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("item", ["block", "item"])
def test_anybody_else_gets_the_messages_and_nothing_of_the_item(target: str, item: str) -> None:
    answer = said_by_claude(BLOCK, text("a")) if item == "block" else said_by_gpt(ITEM)
    context = context_of(user("first 一"), answer, user("second 二"))
    request = FORMATS[target].request(context, model="another-model")
    assert "first 一" in written(request)
    for secret in ("compaction", "SUMMED UP", "RW5j", "Q29tcA"):
        assert secret not in json.dumps(
            request.kwargs.get("messages") or request.kwargs, ensure_ascii=False
        )
    assert any("compaction item" in str(change) for change in request.changes)


@pytest.mark.parametrize("target", ["openai_chat", "gemini"])
def test_the_text_is_kept_if_the_log_begins_with_it(target: str) -> None:
    context = context_of(said_by_claude(BLOCK, text("a")), user("second 二"))
    assert "SUMMED UP 摘要" in written(FORMATS[target].request(context, model="m"))


def test_a_refused_item_is_left_out_and_the_messages_are_sent() -> None:
    context = context_of(user("first 一"), said_by_claude(BLOCK, text("a")), user("second 二"))
    refused = {wire.item_key(message) for message in context.messages}
    request = wire.anthropic.request(context, model=CLAUDE, refused=refused)
    assert "first 一" in written(request)
    assert "compaction" not in written(request)


def test_an_item_inside_the_newest_turn_does_not_hide_the_tail() -> None:
    context = context_of(
        user("look"),
        said_by_claude(BLOCK, CALL),
        tool("seen 看到", tool_call_id="c1"),
        pin="Never use red. 不要用红色。",
    )
    request = wire.anthropic.request(context, model=CLAUDE)
    messages = request.kwargs["messages"]
    assert [message["role"] for message in messages] == ["assistant", "user", "user"]
    assert messages[0]["content"] == [BLOCK, CALL]
    assert messages[1]["content"][0]["type"] == "tool_result"
    assert messages[1]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert "Never use red. 不要用红色。" in json.dumps(messages[2], ensure_ascii=False)
    assert wire.lint(request.kwargs, "anthropic") == ()


def test_a_list_of_messages_is_written_as_it_is() -> None:
    history = [user("before"), said_by_claude(BLOCK, text("a")), user("after")]
    request = wire.anthropic.request(history, model=CLAUDE, cache=False)
    assert [each["role"] for each in request.kwargs["messages"]] == ["user", "assistant", "user"]
    assert request.kwargs.keys() == {"model", "messages"}
    assert request.changes == ()


ASKING = [("anthropic", CLAUDE, 50_000), ("openai_responses", GPT, 1_000)]


@pytest.mark.parametrize(("target", "model", "least"), ASKING)
def test_a_provider_is_asked_to_compact(target: str, model: str, least: int) -> None:
    context = context_of(user("first"))
    for required in (True, False):
        context.native = NativeCompaction(least, required=required)
        kwargs = FORMATS[target].request(context, model=model).kwargs
        if target == "anthropic":
            trigger = {"type": "input_tokens", "value": least}
            edits = [{"type": "compact_20260112", "trigger": trigger}]
            assert kwargs["extra_body"] == {"context_management": {"edits": edits}}
            assert kwargs["extra_headers"] == {"anthropic-beta": "compact-2026-01-12"}
        else:
            asked = [{"type": "compaction", "compact_threshold": least}]
            assert kwargs["context_management"] == asked
    refused = {wire.COMPACTION_REFUSED}
    assert "context_management" not in written(
        FORMATS[target].request(context, model=model, refused=refused)
    )


@pytest.mark.parametrize(
    ("target", "model", "least"), [*ASKING, ("gemini", "g", 0), ("openai_chat", GPT, 0)]
)
def test_a_provider_that_cannot_is_refused_or_not_asked(
    target: str, model: str, least: int
) -> None:
    context = context_of(user("first"))
    context.native = NativeCompaction(max(least - 1, 1), required=True)
    with pytest.raises(
        InvalidOption, match=r"compaction='native' is not possible: .* Use compaction='auto'"
    ):
        FORMATS[target].request(context, model=model)
    context.native = NativeCompaction(max(least - 1, 1))
    assert "context_management" not in written(FORMATS[target].request(context, model=model))


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("claude-opus-4-6", True),
        ("claude-opus-4-5", False),
        ("claude-sonnet-5-5-20260901", True),
        ("claude-haiku-5-5", True),
        ("claude-haiku-4-5", False),
        ("claude-mythos-preview", True),
        ("anthropic/claude-opus-5", True),
        ("deepseek-chat", False),
        ("", False),
    ],
)
def test_with_auto_only_models_that_are_known_to_compact_are_asked(model: str, known: bool) -> None:  # noqa: FBT001 (a column of the table)
    context = context_of(user("first"))
    context.native = NativeCompaction(60_000)
    asked = "context_management" in written(wire.anthropic.request(context, model=model))
    assert asked is known
    context.native = NativeCompaction(60_000, required=True)
    assert "context_management" in written(wire.anthropic.request(context, model=model))


def test_an_item_without_an_owner_is_guessed_as_before() -> None:
    part = OpaquePart(json.dumps(BLOCK))
    context = context_of(user("first"), Message.of("assistant", [part]), user("second"))
    assert "first" not in written(wire.anthropic.request(context, model=CLAUDE))
