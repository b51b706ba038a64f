"""What repair does to the faults people meet: little, visibly, and the same every time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.formats import FORMATS
from turnfold import wire
from turnfold.errors import InvalidOption
from turnfold.wire import Action


class Mended:
    """A repaired payload, open to look into."""

    def __init__(self, payload: Any, changes: tuple[wire.Change, ...]) -> None:
        self.payload = payload
        self.changes = changes


def repair(payload: Any, provider: str) -> Mended:
    return Mended(*wire.repair(payload, provider))


def actions(fixed: Mended) -> list[str]:
    return [str(change.action) for change in fixed.changes]


def test_the_list_alone_comes_back_as_a_list() -> None:
    fixed = repair([{"role": "assistant", "content": "hi"}], "anthropic")
    assert fixed.payload == [
        {"role": "user", "content": "…"},
        {"role": "assistant", "content": "hi"},
    ]
    assert (
        str(fixed.changes[0])
        == "messages[0] added: a user message before the first assistant message"
    )


def asked(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": each, "name": "find", "input": {}} for each in ids]
    return {"role": "assistant", "content": blocks}


def answered(*ids: str, text: str = "") -> dict[str, Any]:
    blocks: list[Any] = [
        {"type": "tool_result", "tool_use_id": each, "content": f"of {each}"} for each in ids
    ]
    return {"role": "user", "content": blocks + ([{"type": "text", "text": text}] if text else [])}


def test_results_of_one_batch_are_brought_together() -> None:
    messages = [{"role": "user", "content": "go"}, asked("a", "b"), answered("b"), answered("a")]
    fixed = repair(messages, "anthropic")
    assert fixed.payload == [*messages[:2], answered("b", "a")]
    assert actions(fixed) == ["moved"]


def test_a_late_result_moves_to_its_call_and_the_rest_stays() -> None:
    talk = {"role": "user", "content": "still there?"}
    messages = [{"role": "user", "content": "go"}, asked("a"), talk, answered("a", text="here")]
    fixed = repair(messages, "anthropic")
    assert fixed.payload == [
        *messages[:2],
        answered("a"),
        talk,
        {"role": "user", "content": [{"type": "text", "text": "here"}]},
    ]
    assert actions(fixed) == ["moved"]


def test_a_call_that_was_never_answered_gets_a_stand_in() -> None:
    talk = {"role": "user", "content": "stop"}
    fixed = repair(
        [{"role": "user", "content": "go"}, asked("a", "b"), answered("a", text="no"), talk],
        "anthropic",
    )
    [_, _, results, last] = fixed.payload
    assert [block["type"] for block in results["content"]] == ["tool_result", "tool_result", "text"]
    assert results["content"][1]["tool_use_id"] == "b"
    assert last is talk
    assert actions(fixed) == ["added"]


def test_a_second_result_becomes_data_not_orders() -> None:
    messages = [{"role": "user", "content": "go"}, asked("a"), answered("a"), answered("a")]
    fixed = repair(messages, "anthropic")
    [*before, after] = fixed.payload
    assert before == messages[:3]
    [block] = after["content"]
    assert block["text"].startswith("Result of a tool call that is not shown")
    assert "\nof a\n</tool-result " in block["text"]
    assert actions(fixed) == ["converted"]


def test_ids_that_cannot_be_sent_are_replaced_on_both_sides_and_always_alike() -> None:
    messages = [
        {"role": "user", "content": "go"},
        asked("call.1"),
        answered("call.1"),
        asked("call.1"),
        answered("call.1"),
    ]
    one, other = repair(messages, "anthropic"), repair(messages, "anthropic")
    assert (one.payload, one.changes) == (other.payload, other.changes)
    ids = [
        block.get("id") or block["tool_use_id"]
        for each in one.payload[1:]
        for block in each["content"]
    ]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    longer = [*messages, {"role": "user", "content": "more"}]
    assert repair(longer, "anthropic").payload[:5] == one.payload, "a cached prefix changed"


def test_thoughts_stay_before_calls_and_never_last() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    call = asked("a")["content"][0]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call, thought]},
        answered("a"),
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}, thought]},
    ]
    fixed = repair(messages, "anthropic")
    assert [message["content"] for message in fixed.payload[1::2]] == [
        [thought, call],
        [{"type": "text", "text": "ok"}],
    ]
    assert actions(fixed) == ["moved", "left out"]


def test_thinking_is_turned_off_where_the_running_turn_has_no_thought() -> None:
    payload = {
        "messages": [{"role": "user", "content": "go"}, asked("a"), answered("a")],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    fixed = repair(payload, "anthropic")
    assert fixed.payload == {**payload, "thinking": {"type": "disabled"}}


def test_the_last_four_cache_marks_stay() -> None:
    blocks = [
        {"type": "text", "text": str(n), "cache_control": {"type": "ephemeral"}} for n in range(6)
    ]
    fixed = repair({"messages": [{"role": "user", "content": blocks}]}, "anthropic")
    [message] = fixed.payload["messages"]
    assert ["cache_control" in block for block in message["content"]] == [False] * 2 + [True] * 4


def test_pictures_in_a_tool_message_give_way_to_a_note() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": [picture]},
    ]
    fixed = repair(messages, "openai_chat")
    assert fixed.payload[1]["content"] == [
        {"type": "text", "text": "[image_url not shown: only user messages may hold it]"}
    ]
    assert fixed.changes[0].action is Action.LEFT_OUT
    assert "https://example.org/a.png" in fixed.changes[0].lost


def test_reasoning_that_led_nowhere_goes_and_its_words_are_listed() -> None:
    items = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
    ]
    fixed = repair(items, "openai_responses")
    assert fixed.payload == items[:1]
    assert '"hm"' in fixed.changes[0].lost


def test_outputs_far_from_their_calls_may_stay_there() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "ok"}
    items = [call, {"role": "user", "content": "meanwhile"}, output]
    assert repair(items, "openai_responses").changes == ()


def test_gemini_results_are_told_apart_by_name_and_place() -> None:
    def called(*names: str) -> dict[str, Any]:
        return {
            "role": "model",
            "parts": [{"functionCall": {"name": name, "args": {}}} for name in names],
        }

    def result(name: str, text: str) -> dict[str, Any]:
        return {"functionResponse": {"name": name, "response": {"output": text}}}

    start = {"role": "user", "parts": [{"text": "go"}]}
    contents = [
        start,
        called("a", "a", "b"),
        {"role": "user", "parts": [result("a", "1"), result("b", "3"), {"text": "and?"}]},
    ]
    fixed = repair(contents, "gemini")
    [_, _, results, said] = fixed.payload
    assert [part["functionResponse"]["name"] for part in results["parts"]] == ["a", "b", "a"]
    assert said == {"role": "user", "parts": [{"text": "and?"}]}


@pytest.mark.parametrize("provider", FORMATS)
def test_nothing_at_all_becomes_something_that_can_be_sent(provider: str) -> None:
    assert wire.lint(repair({}, provider).payload, provider) == ()
    assert wire.lint(repair([], provider).payload, provider) == ()


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(InvalidOption, match="anthropic, gemini, openai_chat, openai_responses"):
        repair([], "somebody")
    with pytest.raises(InvalidOption, match="the payload is str"):
        wire.lint("text", "anthropic")
