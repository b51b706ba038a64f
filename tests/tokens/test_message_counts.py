"""What a call costs: the published rule for plain messages, and every other part priced and labelled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.made_messages import messages, untimed
from tests.tokens.reference_tokenizers import tiktoken_count
from turnfold.errors import InvalidRecord
from turnfold.records import (
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    as_message,
    assistant,
    system,
    tool,
    user,
)
from turnfold.tokens import (
    Certainty,
    Count,
    Encoding,
    Framing,
    TextCounter,
    TokenCounter,
    counter_for,
    weakest,
)
from turnfold.tokens import counter as framing

EXACT, BOUND, ESTIMATE = Certainty.EXACT, Certainty.BOUND, Certainty.ESTIMATE
FRAMINGS = [value for value in vars(framing).values() if isinstance(value, Framing)]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "查询天气",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


class Letters:
    """One token per character: sums can be done by hand."""

    name = "letters"
    certainty = EXACT

    def count(self, text: str) -> int:
        return len(text)


COUNTER = TokenCounter(Letters(), framing=framing.OPENAI)


def published_rule(raw: list[dict[str, str]], encoding: str) -> int:
    """OpenAI's cookbook: 3 per message, every value as text, 1 more per name, 3 for the reply."""
    count = tiktoken_count(encoding)
    total = 3
    for message in raw:
        total += 3 + sum(map(count, message.values())) + ("name" in message)
    return total


plain_messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant"]), "content": st.text(max_size=40)},
        optional={"name": st.text(min_size=1, max_size=8)},
    ),
    max_size=6,
)


@pytest.mark.parametrize(
    ("model", "encoding"),
    [("gpt-4o", "o200k_base"), ("gpt-4", "cl100k_base"), ("gpt-3.5-turbo", "cl100k_base")],
)
@untimed
@given(raw=plain_messages)
def test_plain_openai_messages_follow_the_published_rule(
    model: str, encoding: str, raw: list[dict[str, str]]
) -> None:
    counted = counter_for(model).count([as_message(message) for message in raw])
    assert counted == Count(published_rule(raw, encoding), EXACT)


def test_the_published_example() -> None:
    """The cookbook's own messages and its figure for gpt-4 and gpt-4o."""
    raw = [
        {"role": "system", "content": "You are a helpful, pattern-following assistant that translates corporate jargon "
         "into plain English."},
        {"role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth."},
        {"role": "system", "name": "example_assistant", "content": "Things working well together will increase "
         "revenue."},
        {"role": "system", "name": "example_user", "content": "Let's circle back when we have more bandwidth to touch "
         "base on opportunities for increased leverage."},
        {"role": "system", "name": "example_assistant", "content": "Let's talk later when we're less busy about how to "
         "do better."},
        {"role": "user", "content": "This late pivot means we don't have time to boil the ocean for the client "
         "deliverable."},
    ]  # fmt: skip
    for model, tokens in (("gpt-4", 129), ("gpt-4o", 124)):
        assert counter_for(model).count(map(as_message, raw)) == Count(tokens, EXACT)


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_every_openai_role_is_one_token(role: str) -> None:
    assert Encoding("o200k_base").count(role) == 1


def test_an_empty_call_costs_its_reply() -> None:
    assert COUNTER.count([]) == Count(3, EXACT)
    assert COUNTER.reply == 3
    assert COUNTER.count_message(assistant()) == COUNTER.count_message(assistant("")) == 4


def test_a_name_costs_its_text_and_one() -> None:
    assert COUNTER.count_message(user("hello")) == 4 + 5
    assert COUNTER.count_message(user("hello", name="dana")) == 4 + 5 + 4 + 1


def test_a_call_costs_its_id_name_and_arguments() -> None:
    call = ToolCall("call_1", "get", '{"a":1}')
    assert (
        COUNTER.count_message(assistant("ok", tool_calls=[call]))
        == 4 + 2 + 6 + 3 + 7 + framing.OPENAI.call
    )
    assert COUNTER.count_part(call) == 6 + 3 + 7 + 12


def test_a_result_costs_its_id_and_content() -> None:
    assert (
        COUNTER.count_message(tool("18°C", tool_call_id="call_1"))
        == 4 + 6 + 4 + framing.OPENAI.result
    )
    several = Message.of(
        "tool", [ToolResult("a", (TextPart("bb"), TextPart("ccc"))), ToolResult("d", ())]
    )
    assert COUNTER.count_message(several) == 4 + (1 + 5 + 10) + (1 + 10)


def test_schemas_cost_their_compact_json() -> None:
    compact = json.dumps(TOOL, ensure_ascii=False, separators=(",", ":"))
    assert COUNTER.count_tools([TOOL]) == len(compact) + 16 + 16
    assert COUNTER.count_tools([TOOL, TOOL]) == 2 * len(compact) + 2 * 16 + 16
    assert COUNTER.count_tools([]) == 0
    assert COUNTER.count([user("hi")], tools=[TOOL]) == Count(
        3 + 6 + COUNTER.count_tools([TOOL]), BOUND
    )


def test_a_schema_that_is_no_json_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidRecord, match=r"tools\[1\]\.bad: set has no JSON form"):
        COUNTER.count_tools([TOOL, {"bad": {1}}])


def test_thoughts_and_unknown_blocks_cost_their_text() -> None:
    assert COUNTER.count_part(ThinkingPart("hmm", "signature")) == 3
    assert COUNTER.count_part(ThinkingPart("", redacted="abcd")) == 4
    assert COUNTER.count_part(OpaquePart('{"type":"x"}')) == 12


def test_fields_beside_a_message_are_sent_and_so_they_are_counted() -> None:
    plain = assistant("ok")
    thought = as_message(
        {"role": "assistant", "content": "ok", "reasoning_content": "x" * 1000, "refusal": None}
    )
    assert (
        COUNTER.count_message(thought) - COUNTER.count_message(plain)
        == len('{"reasoning_content":""}') + 1000
    )
    assert COUNTER.certainty_of(thought) is ESTIMATE
    cited = user([{"type": "text", "text": "ok", "citations": ["a"]}])
    assert COUNTER.count_message(cited) - COUNTER.count_message(user("ok")) == len(
        '{"citations":["a"]}'
    )
    assert COUNTER.certainty_of(cited) is ESTIMATE


@pytest.mark.parametrize(
    "raw",
    [
        {"role": "assistant", "content": "ok", "tool_calls": None, "function_call": None, "annotations": []},
        {"role": "developer", "content": "ok"},
        {"role": "user", "content": "ok", "metadata": {"note": "x" * 1000}},
        {"role": "user", "content": [{"type": "text", "text": "ok", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [{"type": "input_text", "text": "ok"}]},
    ],
    ids=["empty fields", "developer", "notes", "cache mark", "type"],
)  # fmt: skip
def test_what_the_model_does_not_see_costs_nothing(raw: dict[str, Any]) -> None:
    assert COUNTER.count([as_message(raw)]) == Count(3 + 4 + 2, EXACT)


CERTAINTIES: list[tuple[Message, Certainty]] = [
    (user("hi"), EXACT),
    (user("hi", name="dana"), EXACT),
    (assistant(), EXACT),
    (assistant("hi", tool_calls=[ToolCall("a", "f")]), BOUND),
    (assistant(tool_calls=[ToolCall("a", "f")]), BOUND),
    (tool("18°C", tool_call_id="a"), BOUND),
    (user(["a", "b"]), ESTIMATE),
    (tool(["a", "b"], tool_call_id="a"), ESTIMATE),
    (assistant([{"type": "thinking", "thinking": "hm"}]), ESTIMATE),
    (user([{"type": "image_url", "image_url": "https://example.org/a.png"}]), ESTIMATE),
    (user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]), ESTIMATE),
    (user([{"type": "file", "file": {"file_id": "f"}}]), ESTIMATE),
    (user([{"type": "video", "video": "x"}]), ESTIMATE),
    (tool([{"type": "image_url", "image_url": "u"}], tool_call_id="a"), ESTIMATE),
]


@pytest.mark.parametrize(("message", "certainty"), CERTAINTIES, ids=lambda value: repr(value)[:50])
def test_each_count_says_how_far_it_can_be_trusted(message: Message, certainty: Certainty) -> None:
    assert COUNTER.certainty_of(message) is certainty
    assert COUNTER.count([user("plain"), message]).certainty is certainty
    assert COUNTER.count([message], tools=[TOOL]).certainty is weakest(certainty, BOUND)
    assert counter_for("claude-sonnet-4").certainty_of(message) is ESTIMATE
    assert counter_for("unheard-of").count([message]).certainty is ESTIMATE


def test_two_texts_can_cost_more_together_than_alone() -> None:
    """Why several texts in one message are an estimate: how a provider joins them is not published."""
    count = Encoding("o200k_base").count
    assert count("the") + count("refore") > count("therefore")
    joints = [
        ("hel", "lothere"),
        ("ab", "cdefgh"),
        ("un", "der stand"),
        ("x=", "=y"),
        ("...", ".."),
    ]
    assert any(count(a + b) != count(a) + count(b) for a, b in joints)


def test_the_weakest_term_decides() -> None:
    assert weakest() is EXACT
    assert weakest(EXACT, EXACT) is EXACT
    assert weakest(EXACT, BOUND) is BOUND
    assert weakest(BOUND, ESTIMATE, EXACT) is ESTIMATE
    assert [certainty.value for certainty in Certainty] == ["exact", "bound", "estimate"]


def test_a_count_reads_as_a_sentence() -> None:
    assert str(Count(1234, EXACT)) == "1,234 tokens"
    assert str(Count(1234, BOUND)) == "at most 1,234 tokens"
    assert str(Count(1234, ESTIMATE)) == "about 1,234 tokens"


@untimed
@given(st.lists(messages, max_size=4))
def test_a_context_costs_the_sum_of_its_messages(listed: list[Message]) -> None:
    each = COUNTER.count_messages(listed)
    assert each == [COUNTER.count_message(message) for message in listed]
    assert COUNTER.count(listed).tokens == sum(each) + COUNTER.reply
    assert all(tokens >= framing.OPENAI.message for tokens in each)
    assert COUNTER.count(iter(listed)).certainty is weakest(*map(COUNTER.certainty_of, listed))


def test_the_name_tells_counters_apart() -> None:
    class Other(Letters):
        name = "other"

    def name(text: TextCounter = COUNTER.text, frame: Framing = framing.OPENAI) -> str:
        return TokenCounter(text, framing=frame).name

    names = {name(), name(Other()), name(frame=framing.LLAMA), counter_for("gpt-4o").name}
    assert len(names) == 4
    assert repr(COUNTER) == f"TokenCounter({COUNTER.name!r})"


def prices(frame: Framing) -> Mapping[str, int]:
    return {
        field.name: value
        for field in fields(frame)
        if isinstance(value := getattr(frame, field.name), int)
    }


@pytest.mark.parametrize("frame", FRAMINGS, ids=lambda frame: frame.name)
def test_every_framing_names_its_origin_and_none_exceeds_the_generic_one(frame: Framing) -> None:
    assert len(frame.origin) > 30
    assert {
        price for price, tokens in prices(frame).items() if tokens > prices(framing.GENERIC)[price]
    } == set()
    assert min(prices(frame).values()) > 0


def test_framings_have_names_of_their_own() -> None:
    assert len({frame.name for frame in FRAMINGS}) == len(FRAMINGS) == 10


TEMPLATES = [
    ("llama3", framing.LLAMA, {"user": 5, "assistant": 5, "system": 5}, 5),
    ("qwen3", framing.QWEN, {"user": 5, "assistant": 5, "system": 5}, 3),
    ("deepseek_v3", framing.DEEPSEEK, {"user": 1, "assistant": 3, "system": 0}, 3),
    ("mistral_v3", framing.MISTRAL, {"user": 2, "assistant": 1, "system": 2}, 1),
    ("gemma3", framing.GEMMA, {"user": 5, "assistant": 5, "system": 1}, 4),
    ("glm4", framing.GLM, {"user": 2, "assistant": 5, "system": 2}, 7),
    ("kimi_k2", framing.KIMI, {"user": 4, "assistant": 6, "system": 4}, 5),
]


@pytest.mark.parametrize(
    ("encoding", "frame", "marks", "reply"), TEMPLATES, ids=[row[0] for row in TEMPLATES]
)
def test_open_families_are_framed_by_their_templates(
    encoding: str, frame: Framing, marks: dict[str, int], reply: int
) -> None:
    """The marks each role's template has: exact where all roles have the same, a bound where they differ."""
    assert frame.message == max(marks.values())
    assert frame.reply == reply
    assert frame.certainty is (EXACT if len(set(marks.values())) == 1 else BOUND)
    counter = TokenCounter(Encoding(encoding), framing=frame)
    call = [system("be brief"), user("hello"), assistant("hi")]
    spelt = (
        sum(Encoding(encoding).count(message.text) + marks[message.role] for message in call)
        + reply
    )
    counted = counter.count(call)
    assert counted.tokens == spelt if counted.certainty is EXACT else counted.tokens >= spelt
