"""A limit in bytes holds for the body the provider gets: a context over it is built smaller, or refused unsent."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.window.transcripts import random_counter, random_log, random_tail, random_tools
from tests.wire.formats import FORMATS
from turnfold import Budget, Memory, user, wire
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.memories import MessageMemory
from turnfold.records import ImagePart, Message, TextPart, ThinkingPart, ToolCall
from turnfold.testing import ScriptedModel
from turnfold.tokens import counter_for
from turnfold.window import Context, Transcript, assemble, check
from turnfold.wire import Action, Change
from turnfold.wire import request as size_guard
from turnfold.wire.request import by_rule

LOGS = 160
TOOL: dict[str, object] = {
    "type": "function",
    "function": {"name": "look", "description": "Look. " * 100, "parameters": {"type": "object"}},
}


def body_of(context: Context, name: str, tools: Sequence[Any] = ()) -> int:
    """The size of what is sent, measured the plain way."""
    kwargs = FORMATS[name].request(context, tools=tools, max_bytes=0).kwargs
    return len(json.dumps(kwargs, ensure_ascii=False, separators=(",", ":")).encode())


def picture(size: int) -> ImagePart:
    data = base64.b64encode(b"\x89PNG" + b"x" * size).decode()
    return ImagePart(f"data:image/png;base64,{data}", "low")


def case(seed: int) -> tuple[str, Callable[..., Context], Callable[[], Context], list[Any]]:
    """A provider, how its context is built without looking at the body, and how it is with it."""
    rng = random.Random(seed)  # noqa: S311 (the same logs each time)
    log = random_log(rng)
    for _ in range(rng.choice((0, 0, 1, 3))):
        at = rng.randrange(len(log) + 1)
        log.insert(at, Message.of("user", [TextPart("看"), picture(rng.randrange(4_000))]))
    counter, tools, tail = random_counter(rng), random_tools(rng), random_tail(rng)
    transcript = Transcript(counter, log)
    budget = Budget(max_tokens=400_000, max_bytes=int(300 * 1.8 ** rng.uniform(0, 10)))
    name = rng.choice(sorted(FORMATS))

    def build(held: Budget = budget) -> Context:
        return assemble(transcript, held, tail=tail, tools=tools)

    def fit() -> Context:
        return size_guard.fitted(build(), FORMATS[name], tools=tools, rebuild=build)

    return name, build, fit, tools


def outcome(seed: int) -> tuple[int, str]:
    """How often the context of a log was rebuilt, or -1 where nothing fits; and what is wrong with it."""
    name, _, fit, tools = case(seed)
    try:
        context = fit()
    except BudgetTooSmall as error:
        sound = error.unit in ("bytes", "tokens") and sum(error.parts.values()) == error.needed
        return -1, "" if sound and error.needed > error.allowed else f"the sum is wrong: {error}"
    size, limit = body_of(context, name, tools), context.budget.max_bytes
    if size > limit:
        return 0, f"{size:,} bytes for {name}, allowed {limit:,}"
    if faults := check(context):
        return 0, str(faults)
    wired = context.receipt.wired
    if wired is None or (wired.provider, wired.size) != (name, size):
        return 0, f"the receipt says {wired}, the body has {size:,}"
    return wired.rebuilt, ""


def test_what_is_sent_is_within_the_limit_or_refused() -> None:
    found = [outcome(seed) for seed in range(LOGS)]
    assert [fault for _, fault in found if fault] == []
    rebuilt = [times for times, _ in found]
    assert rebuilt.count(-1) < LOGS // 2
    assert sum(times > 0 for times in rebuilt) > LOGS // 20  # the guard had something to do
    assert max(rebuilt) <= 8


def test_without_the_guard_the_same_logs_are_over_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(size_guard, "fitted", lambda context, *_, **__: context)
    found = [outcome(seed)[1] for seed in range(LOGS)]
    assert sum("allowed" in fault for fault in found) > LOGS // 20


def smallest(seed: int) -> tuple[int, int]:
    """The smallest body among contexts of the same log held to ever fewer bytes, and the limit."""
    name, build, _, tools = case(seed)
    budget = build().budget
    found = budget.max_bytes * 1_000
    for held in range(budget.max_bytes, 0, -max(budget.max_bytes // 60, 1)):
        try:
            context = build(replace(budget, max_bytes=held))
        except BudgetTooSmall:
            break
        found = min(found, body_of(context, name, tools))
    return found, budget.max_bytes


def test_what_is_refused_really_does_not_fit() -> None:
    refused = [seed for seed in range(LOGS) if outcome(seed)[0] < 0]
    looked = 0
    for seed in refused:
        try:
            size, limit = smallest(seed)
        except BudgetTooSmall:
            continue  # the messages alone are too large, whoever gets them
        looked += 1
        assert size > limit, seed
    assert looked > 0


@pytest.mark.parametrize("name", FORMATS)
def test_a_request_over_the_limit_is_refused_with_the_arithmetic(name: str) -> None:
    request = FORMATS[name].request
    said = [user("花园里有什么？" * 50)]
    size = wire.body_bytes(request(said, tools=[TOOL]).kwargs)
    assert request(said, tools=[TOOL], max_bytes=size).provider == name
    with pytest.raises(BudgetTooSmall, match=r"bytes .*names and commas") as caught:
        request(said, tools=[TOOL], max_bytes=size - 1)
    error = caught.value
    assert (error.needed, error.allowed, error.unit) == (size, size - 1, "bytes")
    assert sum(error.parts.values()) == size
    assert f"to=wire.{name}" in error.remedy
    with pytest.raises(InvalidOption, match="max_bytes=-1"):
        request(said, max_bytes=-1)


@pytest.mark.parametrize("name", FORMATS)
def test_a_context_brings_its_own_limit(name: str) -> None:
    transcript = Transcript(counter_for("gpt-4o"), [user("x" * 400)])
    context = assemble(transcript, Budget(max_tokens=4_000, max_bytes=500))
    assert FORMATS[name].request(context).provider == name
    with pytest.raises(BudgetTooSmall):
        FORMATS[name].request(context, tools=[TOOL])
    assert FORMATS[name].request(context, tools=[TOOL], max_bytes=0).provider == name


@pytest.mark.parametrize("name", FORMATS)
def test_a_session_builds_a_context_that_fits_and_says_so(name: str) -> None:
    with Memory("sqlite://", budget=Budget(max_tokens=50_000, max_bytes=6_000)) as memory:
        session = memory.session("one")
        session.system("Be brief. 请简短。")
        for number in range(12):
            session.user(f"question {number}: " + "花园里的玫瑰 " * 12)
            session.assistant(f"answer {number}: " + "red roses " * 12)
        session.user("and now?")
        plain = session.context(tools=[TOOL] * 4)
        assert body_of(plain, name, [TOOL] * 4) > 6_000
        context = session.context(tools=[TOOL] * 4, to=FORMATS[name])
        wired = context.receipt.wired
        assert wired is not None
        assert wired.size == body_of(context, name, [TOOL] * 4) <= 6_000
        assert wired.rebuilt > 0
        assert context.moved
        assert f"bytes for {name}, rebuilt smaller to fit" in str(context.receipt)
        assert context.budget.max_bytes == 6_000
        assert check(context) == ()
        explained = session.explain()
        assert explained.exact
        assert explained.manifest.wired == wired
        again = session.context(tools=[TOOL] * 4, to=FORMATS[name])
        assert again.messages == context.messages  # the window stays where it was moved to
        assert again.receipt.wired is not None
        assert again.receipt.wired.rebuilt == 0
        with pytest.raises(BudgetTooSmall, match="tools"):
            session.context(tools=[TOOL] * 12, to=FORMATS[name])
        after = session.context(tools=[TOOL] * 4, to=FORMATS[name])
        assert after.messages == context.messages  # a refusal moved nothing


def test_a_picture_too_large_for_the_body_gives_way_to_a_note() -> None:
    with Memory("sqlite://", budget=Budget(max_tokens=50_000, max_bytes=9_000)) as memory:
        session = memory.session("one")
        session.add(Message.of("user", [TextPart("What is this?"), picture(60_000)]))
        context = session.context(to=wire.anthropic)
        [sent] = context.messages
        assert "left out to fit the budget" in sent.text
        assert body_of(context, "anthropic") <= 9_000


def test_the_receipt_counts_what_is_changed_by_rule() -> None:
    thought = ThinkingPart("let me see", "sig", provider="anthropic", model="claude")
    with Memory("sqlite://", budget=Budget(max_tokens=50_000)) as memory:
        session = memory.session("one")
        for number in range(3):
            session.user(f"question {number}")
            call = ToolCall(f"c{number}", "look", "not json")
            session.add(Message.of("assistant", [thought, call]))
            session.tool("roses", tool_call_id=f"c{number}")
        assert session.context().receipt.changes == ()
        context = session.context(to=wire.openai_chat)
        [left_out] = context.receipt.changes
        assert left_out[:3] == ("left out", "Chat Completions accepts no thinking", 3)
        assert left_out.first == "messages[1].parts[0]"
        assert "3 changed for openai_chat" in str(context.receipt)
        manifest = session.explain().manifest
        assert manifest.wired is not None
        assert manifest.wired.changes == context.receipt.changes
        assert session.explain(session.calls()[0].call).manifest.wired is None


def test_the_account_of_changes_stays_small() -> None:
    changes = [
        Change(f"messages[{at}]", Action.LEFT_OUT, f"reason {at % 90}") for at in range(9_000)
    ]
    rules = by_rule(changes)
    assert len(rules) == 33
    assert sum(rule.times for rule in rules) == 9_000
    assert rules[0] == ("left out", "reason 0", 100, "messages[0]")
    assert rules[-1] == ("changed", "for 58 other reasons", 5_800, "messages[32]")
    assert by_rule(()) == ()


@pytest.mark.parametrize("to", [ScriptedModel(["hi"]), object(), ScriptedModel, "openai", 7])
def test_what_writes_no_request_is_refused_with_what_does(to: Any) -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        session.user("hello")
        for build in (session.context, session.preview):
            with pytest.raises(
                InvalidOption, match=r"to=\w+ cannot write the request.*turnfold\.wire"
            ):
                build(to=to)
        assert session.calls() == []
    own = MessageMemory()
    own.add({"role": "user", "content": "hello"})
    with pytest.raises(InvalidOption, match="cannot write the request"):
        own.context(to=to)
