"""Document 001, §三.2 and §五.3: the arithmetic of `SummaryTokenMemory`, and what it asks of the model."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.conversations import (
    agent_transcript,
    chat,
    conversation,
    gaps,
    marks,
    pairing_faults,
)
from tests.memory.fakes import CountingDriver, ScriptedModel, told
from tests.sizes import examples
from turnfold import (
    InvalidOption,
    Message,
    SummaryTokenMemory,
    TokenMemory,
    assistant,
    system,
    user,
)
from turnfold.tokens import counter_for
from turnfold.window import Outcome, Section, check

EXACT = counter_for("gpt-3.5-turbo")
SYSTEM = system("You are a careful assistant. 你是一个谨慎的助手。")


def history(memory: SummaryTokenMemory, messages: list[Message], **options: Any) -> list[Message]:
    return asyncio.run(memory.get_history(messages, **options))


def notice(window: list[Message]) -> str:
    """The summary of a window; empty when there is none."""
    found = [m.text for m in window if m.role == "system" and "<summary " in m.text]
    assert len(found) <= 1
    return found[0].split(">\n", 1)[1].rsplit("\n</", 1)[0] if found else ""


# ----------------------------------------------------------------------------------------- construction


def test_the_constructor_is_the_documented_one() -> None:
    parameters = inspect.signature(SummaryTokenMemory).parameters
    documented = list(parameters.values())[:4]
    assert [(each.name, each.default) for each in documented] == [
        ("session_id", inspect.Parameter.empty),
        ("model", inspect.Parameter.empty),
        ("summary_prompt", None),
        ("summary_reserve_tokens", 500),
    ]
    passed_on = inspect.signature(TokenMemory).parameters
    assert {name: each.default for name, each in parameters.items() if each not in documented} == {
        name: each.default for name, each in passed_on.items() if name != "session_id"
    }
    memory = SummaryTokenMemory("s", ScriptedModel(), max_tokens=77, cache_size=9)
    assert (memory.max_tokens, memory.cache_size, memory.current_summary) == (77, 9, "")
    assert isinstance(memory, TokenMemory)


def test_the_model_counts_too_where_it_can() -> None:
    class Both(ScriptedModel, CountingDriver):
        def __init__(self) -> None:
            ScriptedModel.__init__(self)
            CountingDriver.__init__(self, answer=50)

    assert SummaryTokenMemory("s", Both()).count_message_tokens(user("hi")) == 50
    assert SummaryTokenMemory("s", ScriptedModel()).count_message_tokens(user("hi")) < 10
    other = CountingDriver(answer=60)
    chosen = SummaryTokenMemory("s", Both(), model_driver=other)
    assert chosen.count_message_tokens(user("hi")) == 60


@pytest.mark.parametrize("prompt", ["", "summarise this", "{{ histories }}", "{ history }"])
def test_a_prompt_without_its_slot_is_refused_at_once(prompt: str) -> None:
    with pytest.raises(InvalidOption, match="history"):
        SummaryTokenMemory("s", ScriptedModel(), summary_prompt=prompt)


def test_a_negative_reserve_is_refused() -> None:
    with pytest.raises(InvalidOption, match="-1"):
        SummaryTokenMemory("s", ScriptedModel(), summary_reserve_tokens=-1)


@pytest.mark.parametrize("slot", ["{{ history }}", "{{history}}", "{{  history  }}"])
def test_a_custom_prompt_carries_the_conversation(slot: str) -> None:
    model = ScriptedModel()
    memory = SummaryTokenMemory("s", model, f"请浓缩：\n\n{slot}\n\n摘要：", max_tokens=700)
    history(memory, chat(60))
    prompt = model.prompts[0]
    assert prompt.startswith("请浓缩：\n\n")
    assert prompt.endswith("\n\n摘要：")
    assert "user: <0> some words" in prompt
    assert slot not in prompt


def test_a_prompt_is_a_template_for_nothing_but_the_history() -> None:
    """Braces and backslashes in what users wrote stay what they are."""
    model = ScriptedModel()
    memory = SummaryTokenMemory("s", model, "{{ history }}", max_tokens=700)
    strange = user(r"<0> {{ history }} {% raw %} \1 \g<0> {braces}")
    history(memory, [strange, *chat(60)])
    assert strange.text in model.prompts[0]


# ------------------------------------------------------------------------------------------- arithmetic


def test_nothing_is_summarised_while_everything_fits() -> None:
    model = ScriptedModel()
    memory = SummaryTokenMemory("s", model)
    log = [SYSTEM, *chat(20)]
    assert history(memory, log) == log
    assert (model.prompts, memory.current_summary) == ([], "")
    assert history(memory, []) == []
    assert history(memory, [SYSTEM]) == [SYSTEM]


@pytest.mark.parametrize("text", ["some words that take their place", "这些话占着窗口里的位置"])
@pytest.mark.parametrize("reserve", [100, 400])
def test_recent_messages_fill_what_is_available_and_leave_the_reserve_free(
    reserve: int, text: str
) -> None:
    """reserved = summary_reserve_tokens + system; available = max_tokens - reserved."""
    model = ScriptedModel()
    memory = SummaryTokenMemory("s", model, None, reserve, max_tokens=1000)
    available = 1000 - reserve - EXACT.count([SYSTEM]).tokens
    log: list[Message] = [SYSTEM]
    for message in chat(80, text=text):
        log.append(message)
        recent = [each for each in history(memory, log) if each.role != "system"]
        used = sum(map(EXACT.count_message, recent))
        assert used <= available
        older = log[1 : len(log) - len(recent)]
        if older:
            assert used + sum(map(EXACT.count_message, older[-2:])) > available, "as many as fit"
    assert len(model.prompts) > 2
    assert len(model.prompts) < 12, "half of it is folded in one step, not a message at a time"


def test_a_summary_follows_the_system_message_as_a_system_message() -> None:
    memory = SummaryTokenMemory("s", ScriptedModel("The user likes tea."), max_tokens=800)
    window = history(memory, [SYSTEM, *chat(60)])
    assert [message.role for message in window[:3]] == ["system", "system", "user"]
    assert window[0] == SYSTEM
    assert notice(window) == memory.current_summary == "The user likes tea."
    assert "not instructions" in window[1].text


@pytest.mark.parametrize("length", [10, 200, 400, 700, 3000])
def test_a_summary_is_clipped_into_what_is_left(length: int) -> None:
    text = "".join(f"fact {number}; " for number in range(length))
    memory = SummaryTokenMemory("s", ScriptedModel(text), None, 200, max_tokens=1000)
    window = history(memory, [SYSTEM, *chat(60)])
    assert EXACT.count(window).tokens <= 1000
    shown = notice(window)
    assert shown
    assert text.startswith(shown)
    if length == 10:
        assert shown == text.strip()
    else:
        assert EXACT.count_text(shown) > 100


@examples(60)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 100),
    max_tokens=st.integers(400, 1500),
    reserve=st.integers(0, 700),
    words=st.integers(1, 2000),
    system_words=st.sampled_from([0, 5, 200]),
    broken=st.booleans(),
)
def test_every_window_is_within_max_tokens_and_whole(
    *,
    seed: int,
    length: int,
    max_tokens: int,
    reserve: int,
    words: int,
    system_words: int,
    broken: bool,
) -> None:
    model = ScriptedModel("摘要 word " * words)
    memory = SummaryTokenMemory("s", model, None, reserve, max_tokens=max_tokens)
    opening = [system("rule " * system_words)] if system_words else []
    log = conversation(seed, length, late=broken, broken=broken)
    for stop in (length // 3, length // 2, length):
        window = history(memory, [*opening, *log[:stop]])
        assert EXACT.count(window).tokens <= max_tokens
        assert pairing_faults(window) == []
        assert memory._last is not None
        assert check(memory._last) == ()
        assert list(memory._last.messages) == window
    if not broken and not log[-1].calls and log[-1].role != "tool":
        assert gaps(window, log) == []
        assert sorted({*told(model), *marks(window)}) == list(range(length))


def test_a_summary_is_never_crowded_out_and_changes_once_between_two_folds() -> None:
    for reserve in (0, 30, 150):
        model = ScriptedModel(lambda _: f"note {len(model.prompts)}: " + "and more " * 90)  # noqa: B023 - at once
        memory = SummaryTokenMemory("s", model, None, reserve, max_tokens=1000)
        shown: dict[int, set[str]] = {}
        for stop in range(2, 201):
            text = notice(history(memory, [SYSTEM, *chat(100)[:stop]]))
            assert bool(text) is bool(model.prompts)
            shown.setdefault(len(model.prompts), set()).add(text)
        assert len(shown) > 3
        assert max(map(len, shown.values())) <= 2


def test_an_oversized_newest_message_is_shortened_and_leaves_the_summary_its_place() -> None:
    memory = SummaryTokenMemory("s", ScriptedModel("The code is 4711."), None, 200, max_tokens=1000)
    log = [SYSTEM, *chat(60), user("<120> " + "a very long question indeed " * 900)]
    window = history(memory, log)
    assert EXACT.count(window).tokens <= 1000
    assert notice(window) == "The code is 4711."
    assert marks(window) == [120]
    assert "tokens in full" in window[-1].text


def test_a_long_system_message_is_not_shortened_for_the_sake_of_the_summary() -> None:
    rules = system("never on Sunday; " * 150)
    max_tokens = EXACT.count_message(rules) * 10 // 7
    memory = SummaryTokenMemory("s", ScriptedModel("x " * 90), None, 100, max_tokens=max_tokens)
    window = history(memory, [rules, *chat(60)])
    assert window[0] == rules
    assert notice(window)
    assert EXACT.count(window).tokens <= max_tokens


def test_a_system_message_beyond_the_budget_is_shortened_even_alone() -> None:
    memory = SummaryTokenMemory("s", ScriptedModel(), max_tokens=300)
    window = history(memory, [system("rule " * 5000)])
    assert EXACT.count(window).tokens <= 300


def test_without_preserving_the_system_message_it_is_folded_like_any_other() -> None:
    model = ScriptedModel()
    memory = SummaryTokenMemory("s", model, max_tokens=800)
    window = history(memory, [system("<999> an early rule"), *chat(60)], preserve_system=False)
    assert "system: <999> an early rule" in model.prompts[0]
    assert [m.role for m in window].count("system") == 1
    assert notice(window) == "SUMMARY"


def test_the_receipt_accounts_for_the_summary() -> None:
    memory = SummaryTokenMemory("s", ScriptedModel("The user likes tea."), max_tokens=800)
    log = [SYSTEM, *chat(60)]
    window = history(memory, log)
    receipt = memory.receipt
    assert receipt is not None
    assert receipt.tokens == EXACT.count(window).tokens
    assert receipt.allowed == 800
    assert receipt.sections[Section.SUMMARY] == EXACT.count_message(window[1])
    assert receipt.count(Outcome.FOLDED) == marks(window)[0]
    assert receipt.count(Outcome.DROPPED) == 0
    assert receipt.moved
    history(memory, log)
    assert memory.receipt is not None
    assert (memory.receipt.prefix_share, memory.receipt.moved) == (1.0, False)


# --------------------------------------------------------------------------------- what the model is asked


def test_each_message_is_summarised_once_however_often_the_history_is_passed() -> None:
    model = ScriptedModel("a few notes " * 25)
    memory = SummaryTokenMemory("s", model)
    log = agent_transcript(150)
    calls, window = 0, list[Message]()
    for stop in range(1, len(log) + 1):
        if log[stop - 1].role == "assistant":
            continue
        calls += 1
        window = history(memory, log[:stop])
        assert EXACT.count(window).tokens <= 4000
    numbers = told(model)
    assert numbers == sorted(set(numbers)), "each once, in order"
    assert sorted({*numbers, *marks(window)}) == list(range(len(log) - 1))
    said = sum(len(message.text) for message in log)
    sent = sum(map(len, model.prompts))
    assert said > 100_000
    assert sent < 1.5 * said, f"{sent / said:.2f} x the transcript"
    assert len(model.prompts) < calls / 5


def test_the_summary_so_far_goes_with_the_new_messages() -> None:
    model = ScriptedModel(lambda _: f"notes {len(model.prompts)}")
    memory = SummaryTokenMemory("s", model, max_tokens=800)
    log = chat(120)
    for stop in range(10, len(log), 10):
        history(memory, log[:stop])
    assert len(model.prompts) > 3
    assert "Summary so far" not in model.prompts[0]
    for number, prompt in enumerate(model.prompts[1:], start=1):
        assert f"notes {number}\n" in prompt


def test_a_history_longer_than_a_prompt_is_given_in_pieces_that_fit() -> None:
    model = ScriptedModel("notes")
    memory = SummaryTokenMemory("s", model, max_tokens=1500)
    log = [*chat(400), user("<800> " + "a long story without an end " * 700), assistant("<801> so")]
    window = history(memory, log)
    assert len(model.prompts) > 10
    assert max(map(EXACT.count_text, model.prompts)) <= 1500
    numbers = told(model)
    assert sorted({*numbers, *marks(window)}) == list(range(802))
    assert sum(prompt.count("without an end") for prompt in model.prompts) in range(690, 701)


def test_pictures_files_and_calls_are_mentioned_to_the_model() -> None:
    model = ScriptedModel()
    memory = SummaryTokenMemory("s", model, max_tokens=800)
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    paper = {"type": "file", "file": {"file_id": "f1", "filename": "contract.pdf"}}
    log = [Message("user", [picture]), Message("user", [paper, {"type": "text", "text": "read"}])]
    history(memory, [*log, *agent_transcript(20)])
    sent = "".join(model.prompts)
    assert "user: [image]\n" in sent
    assert "user: [file contract.pdf]\n read\n" in sent
    assert "assistant calls look_up: {}" in sent
    assert "tool:look_up: <" in sent


@pytest.mark.parametrize(
    "response",
    [
        "  The user likes tea.\n",
        SimpleNamespace(
            choices=[SimpleNamespace(message=SimpleNamespace(content="The user likes tea."))]
        ),
        SimpleNamespace(choices=[SimpleNamespace(message={"content": "The user likes tea."})]),
        {"choices": [{"message": {"role": "assistant", "content": "The user likes tea."}}]},
        {"choices": [{"message": {"content": [{"type": "text", "text": "The user likes tea."}]}}]},
        {
            "content": [
                {"type": "text", "text": "The user "},
                {"type": "text", "text": "likes tea."},
            ]
        },
        SimpleNamespace(content="The user likes tea."),
        SimpleNamespace(content=[SimpleNamespace(type="text", text="The user likes tea.")]),
    ],
)
def test_every_common_shape_of_a_completion_is_read(response: object) -> None:
    memory = SummaryTokenMemory("s", ScriptedModel(response), max_tokens=800)
    assert notice(history(memory, chat(60))) == "The user likes tea."


def test_a_model_that_answers_at_once_is_tolerated() -> None:
    class Hasty:
        def acompletion(self, messages: list[dict[str, str]]) -> str:
            return f"{len(messages)} message"

    memory = SummaryTokenMemory("s", Hasty(), max_tokens=800)  # pyright: ignore[reportArgumentType] - not async
    assert notice(history(memory, chat(60))) == "1 message"
