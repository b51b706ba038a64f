"""The short-term memory: what its calls promise, beyond the programs of the document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.short_faults import Faulty
from tests.memory.short_places import Place, opener, short, talk
from tests.sizes import examples
from turnfold import BudgetTooSmall, InvalidOption, ShortMemory, SummaryFailed
from turnfold.errors import IdReused, StoreUnavailable
from turnfold.stores import MemoryStore, open_store
from turnfold.tokens import cautious_counter, counter_for

__all__ = ("opener", "short")

C = "conv-123"
LONG = "dizzy " * 100


@pytest.fixture
def here() -> ShortMemory:
    return ShortMemory("sqlite://")


# --------------------------------------------------------------------------------- queries and writes


def test_a_query_waits_for_its_answer_in_any_process(opener: Place) -> None:
    opener().query_memory_context(C, query="我还有高血压")
    opener().write_turn(C, agent_response="注意饮食")
    here = opener()
    assert "user: 我还有高血压\nassistant: 注意饮食" in here.query_memory_context(C).history
    here.write_turn(C, agent_response="再见")
    assert here.query_memory_context(C).history.count("我还有高血压") == 1, "used once"


def test_of_two_queries_the_newer_is_answered(here: ShortMemory) -> None:
    here.query_memory_context(C, query="first")
    here.query_memory_context(C, query="second")
    here.query_memory_context(C)  # asks nothing: the second waits on
    here.write_turn(C, agent_response="answer")
    history = here.query_memory_context(C).history
    assert "user: second\nassistant: answer" in history
    assert "first" not in history


def test_a_question_given_outright_leaves_another_waiting(here: ShortMemory) -> None:
    here.query_memory_context(C, query="asked elsewhere")
    here.write_turn(C, user_query="mine", agent_response="to mine")
    here.write_turn(C, agent_response="to the other")
    history = here.query_memory_context(C).history
    assert (
        "user: mine\nassistant: to mine\nuser: asked elsewhere\nassistant: to the other" in history
    )


def test_the_same_words_twice_are_two_turns(here: ShortMemory) -> None:
    for _ in range(2):
        here.query_memory_context(C, query="继续")
        here.write_turn(C, user_query="继续", agent_response="好的")
    assert here.get_short_memory(C).flow_context.turn_count == 2


def test_a_query_whose_writer_died_is_not_used_again(tmp_path: Path) -> None:
    """The turn is in the log, word that its query is used is not."""
    store = Faulty(open_store(f"sqlite:///{tmp_path}/a.db", blocking=True))
    here = store.memory()
    here.query_memory_context(C, query="<q>")
    store.fail("read", after=True)  # the first thing after the append
    with pytest.raises(StoreUnavailable):
        here.write_turn(C, agent_response="<a>")
    here.write_turn(C, agent_response="<another>")
    history = here.query_memory_context(C).history
    assert history.count("<q>") == 1
    assert "user: <q>\nassistant: <a>\nassistant: <another>" in history


def test_a_client_id_names_one_turn(here: ShortMemory) -> None:
    first = here.write_turn(C, user_query="q", agent_response="a", client_id="1")
    assert here.write_turn(C, user_query="q", agent_response="a", client_id="1") == first
    assert here.write_turn(C, agent_response="a", client_id="1") == first
    for other in ({"agent_response": "b"}, {"user_query": "p", "agent_response": "a"}):
        with pytest.raises(IdReused, match="another turn"):
            here.write_turn(C, client_id="1", **other)
    assert here.get_short_memory(C).flow_context.turn_count == 1


def test_a_write_of_nothing_is_refused(here: ShortMemory) -> None:
    with pytest.raises(InvalidOption, match="nothing to write"):
        here.write_turn(C)
    here.write_turn(C, user_query="only a question")
    here.write_turn(C, agent_response="only an answer")
    assert here.get_short_memory(C).flow_context.turn_count == 1


Call = Callable[[ShortMemory], object]
CALLS: dict[str, tuple[Call, Call]] = {
    "write": (
        lambda m: m.query_memory_context(C, query="<new>"),
        lambda m: m.write_turn(C, agent_response="<answer>", agent_code="x"),
    ),
    "write with id": (
        lambda m: m.query_memory_context(C, query="<new>"),
        lambda m: m.write_turn(C, agent_response="<answer>", client_id="1"),
    ),
    "checkpoint": (
        lambda m: m.query_memory_context(C, model_context_window=700),
        lambda m: m.checkpoint_short_memory(C, "<summary>", 2),
    ),
    "reset": (lambda m: m.query_memory_context(C), lambda m: m.reset_short_memory(C)),
}


def state_of(memory: ShortMemory) -> tuple[object, ...]:
    ctx = memory.query_memory_context(C, model_context_window=10**6)
    session = replace(ctx.session)
    session.meta.updated_at = 0
    return ctx.history, ctx.mode, session.to_json(), len(memory.checkpoint_history(C))


def world(prepare: Call) -> tuple[ShortMemory, Faulty]:
    store = Faulty(MemoryStore())
    memory = store.memory()
    talk(memory, C, range(8), pad=LONG)
    prepare(memory)
    return memory, store


@pytest.mark.parametrize("after", [False, True], ids=["refused", "reply lost"])
@pytest.mark.parametrize("name", CALLS)
def test_whichever_step_fails_a_retry_ends_as_if_none_had(name: str, *, after: bool) -> None:
    prepare, call = CALLS[name]
    undisturbed, _ = world(prepare)
    call(undisturbed)
    expected = state_of(undisturbed)
    for number in range(60):
        memory, store = world(prepare)
        store.fail_at(number, after=after)
        try:
            call(memory)
        except StoreUnavailable:
            call(memory)
        if not store.failed:
            assert number > 3, "every step was tried"
            return
        assert state_of(memory) == expected, f"{name}, step {number}"
    pytest.fail("more steps than expected")


# ----------------------------------------------------------------------------------------- checkpoints


def summarised(memory: ShortMemory, *, window: int = 1500) -> tuple[str, int]:
    """A summary that names every turn it has seen, and how far that was."""
    ctx = memory.query_memory_context(C, model_context_window=window)
    assert ctx.should_checkpoint_summary
    seen = [n for n in range(200) if f"<q{n}>" in ctx.full_history]
    return "seen " + " ".join(f"<q{n}>" for n in seen), ctx.upto


def test_without_upto_the_first_who_was_offered_counts(here: ShortMemory) -> None:
    talk(here, C, range(8), pad=LONG)
    summary, upto = summarised(here, window=2900)
    talk(here, C, range(8, 30))
    here.query_memory_context(C, model_context_window=4000)  # another reader, who has seen more
    landed = here.checkpoint_short_memory(C, summary, 2)
    assert landed.upto == upto == 16
    history = here.query_memory_context(C, model_context_window=10**5).history
    assert all(f"<q{n}>" in history for n in range(30))


def test_a_summary_that_comes_late_covers_nothing_it_has_not_seen(here: ShortMemory) -> None:
    talk(here, C, range(8), pad=LONG)
    first, _ = summarised(here, window=2900)
    talk(here, C, range(8, 10), pad=LONG)
    second, _ = summarised(here, window=3600)
    here.checkpoint_short_memory(C, first, 2)
    talk(here, C, range(10, 40))
    here.checkpoint_short_memory(C, second, 2)
    history = here.query_memory_context(C, model_context_window=10**5).history
    assert [n for n in range(40) if f"<q{n}>" not in history] == []


def test_more_than_a_window_is_summarised_in_pieces(here: ShortMemory) -> None:
    """What a summariser is given fits its window; what it was not given stays verbatim."""
    talk(here, C, range(60), pad=LONG)
    told: list[int] = []
    for _ in range(60):
        ctx = here.query_memory_context(C, model_context_window=1500)
        if not ctx.should_checkpoint_summary:
            break
        assert cautious_counter().count_text(ctx.full_history) <= 1500
        assert f"<q{ctx.upto // 2 - 1}>" in ctx.full_history
        assert f"<q{ctx.upto // 2}>" not in ctx.full_history
        here.checkpoint_short_memory(C, f"up to {ctx.upto}", 2, upto=ctx.upto)
        told.append(ctx.upto)
    assert told == sorted(set(told))
    assert here.checkpoint_history(C)[-1].upto >= 2 * 54
    assert not here.query_memory_context(C, model_context_window=1500).should_checkpoint_summary


def test_a_short_conversation_is_folded_from_its_oldest_turn(here: ShortMemory) -> None:
    talk(here, C, range(3))
    assert here.checkpoint_short_memory(C, "s", 8).upto == 2
    assert here.checkpoint_short_memory(C, "t", 8).upto == 4
    assert here.checkpoint_short_memory(C, "u", 0).upto == 6
    assert here.checkpoint_short_memory(C, "v", 0).text == "历史摘要: u", "nothing is left to cover"


def test_the_same_text_is_a_new_summary_where_a_query_asked_for_one(here: ShortMemory) -> None:
    for turns in (range(8), range(8, 16)):
        talk(here, C, turns, pad=LONG)
        _, upto = summarised(here)
        here.checkpoint_short_memory(C, "the same words", 2)
        here.checkpoint_short_memory(C, "the same words", 2)
        here.checkpoint_short_memory(C, "the same words", 2, upto=upto)
    assert len(here.checkpoint_history(C)) == 2


@pytest.mark.parametrize("summary", ["", " \n"])
def test_an_empty_summary_is_refused(here: ShortMemory, summary: str) -> None:
    talk(here, C, range(3))
    with pytest.raises(SummaryFailed, match="empty"):
        here.checkpoint_short_memory(C, summary)


def test_what_cannot_be_is_refused(here: ShortMemory) -> None:
    with pytest.raises(InvalidOption, match="cannot cover any turn"):
        here.checkpoint_short_memory(C, "s")
    talk(here, C, range(3))
    for upto in (-1, 7):
        with pytest.raises(InvalidOption, match="entries 1 to 6"):
            here.checkpoint_short_memory(C, "s", upto=upto)
    with pytest.raises(InvalidOption, match="recent_turns=-1"):
        here.checkpoint_short_memory(C, "s", -1)
    senseless: list[dict[str, Any]] = [
        {"token_threshold_ratio": 0.0},
        {"recent_turns": -1},
        {"model_context_window": 0},
    ]
    for options in senseless:
        with pytest.raises(InvalidOption):
            here.query_memory_context(C, **options)
    with pytest.raises(BudgetTooSmall, match="model_context_window"):
        here.query_memory_context(C, model_context_window=20)


def test_a_summary_may_be_left_to_the_memory(tmp_path: Path) -> None:
    asked: list[str] = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        return f"summary {len(asked)}"

    with ShortMemory(f"sqlite:///{tmp_path}/a.db", summarizer=model) as here:
        talk(here, C, range(12))
        here.checkpoint_short_memory(C)
        assert here.get_short_memory(C).message_context.summary.startswith("summary 1")
        here.checkpoint_short_memory(C, recent_turns=0)
        here.reset_short_memory(C)
        talk(here, C, range(20, 32))
        here.checkpoint_short_memory(C, recent_turns=0)
    assert "<q3>" in asked[0]
    assert "<q4>" not in asked[0]
    assert "summary 1" in asked[1]
    assert "<q20>" in asked[2]
    assert "summary 2" not in asked[2], "what was started over does not come back through a summary"


# --------------------------------------------------------------------------------------------- bounds

TEXTS = st.text(st.sampled_from("a \n:用户助手头晕0<>/|\u2028"), max_size=80)


@examples(60)
@given(
    st.lists(st.tuples(TEXTS, TEXTS), max_size=12), st.integers(150, 900), TEXTS, st.integers(0, 4)
)
def test_any_history_fits_any_window(
    turns: list[tuple[str, str]], window: int, summary: str, recent: int
) -> None:
    count = counter_for("gpt-4o").count_text
    with ShortMemory("sqlite://", counter=counter_for("gpt-4o")) as here:
        written = 0
        for query, answer in turns:
            if query or answer:
                here.write_turn(C, user_query=query, agent_response=answer)
                written += bool(query)
            if summary.strip() and written == 5:
                here.checkpoint_short_memory(C, summary * 20, recent)
        ctx = here.query_memory_context(C, model_context_window=window)
        assert count(ctx.history) <= window
        assert ctx.token_ratio == ctx.estimated_tokens / window
        assert ctx.session.flow_context.turn_count == written
        labels = (
            "user:",
            "assistant:",
            "历史摘要:",
            "最近对话:",
            "（另有",
            "<history",
            "</history",
            "以下",
            "[… ",  # where some of a turn is left out
            "对话中先前",
            "Laid down",
            "<rules",
            "</rules",
            "- [",
        )
        lines = [line for line in ctx.history.splitlines() if line and not line.startswith(" ")]
        assert all(line.startswith(labels) for line in lines), lines
