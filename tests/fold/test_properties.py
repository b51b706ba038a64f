"""What holds for any text, any counter and any limit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.fold import Passage, check_fidelity, extract_summary, with_annex
from turnfold.text import best_that_fit, clean_text, cut_to_fit, single_line, split_sentences

Counter = Callable[[str], int]
untimed = examples(60)


def characters(text: str) -> int:
    return len(text)


def octets(text: str) -> int:
    return len(text.encode())


def words(text: str) -> int:
    return len(text.split())


def quarters(text: str) -> int:
    return (len(text) + 3) // 4


def dear_line_breaks(text: str) -> int:
    """A counter for which lines cost more together than alone."""
    return len(text) // 3 + 7 * text.count("\n")


def cheap_pairs(text: str) -> int:
    """A counter that does not grow with every character, as merges make tokenizers do."""
    return len(text) - 2 * text.count("ab") - text.count("的了")


def crowding(text: str) -> int:
    """A counter for which each further line costs more than the one before it."""
    return len(text) // 4 + 3 * text.count("\n") ** 2


COUNTERS: list[Counter] = [
    crowding,
    characters,
    octets,
    words,
    quarters,
    dear_line_breaks,
    cheap_pairs,
]
FRAGMENTS = [
    "The budget is 4,200 EUR. ", "订单号 A-10293，", "不要发邮件。", "Never call! ", "abababab ", "的了的了",
    "see src/app/main.py\n", '{"a_key": "v-12", "n": [1, 22]}', "| a | b |\n", "2024-05-20 ", "下午3点半",
    "he said “Blue Heron” ", "v1.2.3 ", "e.g. this. ", "\n", " ", "、", "https://example.org/x ", "```\n",
    "We agreed on 30 mg; ", "12 ", "三次 ", "a@b.io ", "10-20 days ", "\u202e", "Hello! ", "谢谢。", "x" * 90,
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=12)), max_size=12).map(
    "".join
)
speakers = st.one_of(
    st.sampled_from(["user", "assistant", "tool:get_order", "assistant calls find", "Ana", ""]),
    st.text(max_size=9),
)
conversations = st.lists(st.tuples(speakers, texts), max_size=8).map(
    lambda said: [Passage(who, text, at) for at, (who, text) in enumerate(said)]
)
numbered = st.lists(texts, max_size=8).map(
    lambda said: [Passage(f"p{at}", text, at) for at, text in enumerate(said)]
)
limits = st.integers(1, 400)


@pytest.mark.parametrize("count", COUNTERS)
@untimed
@given(passages=conversations, previous=texts, limit=limits)
def test_the_limit_is_never_exceeded(
    count: Counter, passages: list[Passage], previous: str, limit: int
) -> None:
    assert count(extract_summary(passages, limit=limit, count=count, previous=previous)) <= limit


@pytest.mark.parametrize("count", COUNTERS)
@untimed
@given(passages=conversations, limit=st.integers(16, 60))
def test_what_was_said_leaves_a_trace(count: Counter, passages: list[Passage], limit: int) -> None:
    spoken = any(clean_text(passage.text).strip() for passage in passages)
    assert bool(extract_summary(passages, limit=limit, count=count)) == spoken


@untimed
@given(passages=numbered, limit=limits)
def test_lines_are_source_text_in_log_order_and_never_twice(
    passages: list[Passage], limit: int
) -> None:
    summary = extract_summary(passages, limit=limit, count=quarters, language="en")
    seen: list[int] = []
    sentences: list[str] = []
    for line in summary.splitlines():
        name, colon, body = line.partition(": ")
        if not colon or not name.removeprefix("p").isdigit():
            # A limit too small even for one line: its head is all there is.
            assert summary == line
            assert any(f"p{p.position}: {flat(p)}".find(line) >= 0 for p in passages)
            return
        seen.append(int(name.removeprefix("p")))
        said = [sentence.text for sentence in split_sentences(body)]
        assert all(sentence in flat(passages[seen[-1]]) for sentence in said)
        sentences.extend(said if body not in flat(passages[seen[-1]]) else [body])
    assert seen == sorted(seen)
    assert len(set(sentences)) == len(sentences)


def flat(passage: Passage) -> str:
    return single_line(clean_text(passage.text))


@untimed
@given(passages=conversations, previous=texts, limit=limits, seed=st.integers(0, 9))
def test_the_same_input_gives_the_same_summary_in_whatever_order_it_comes(
    passages: list[Passage], previous: str, limit: int, seed: int
) -> None:
    shuffled = passages.copy()
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - an order, not a secret
    first = extract_summary(passages, limit=limit, count=quarters, previous=previous)
    assert extract_summary(shuffled, limit=limit, count=quarters, previous=previous) == first


@pytest.mark.parametrize("count", COUNTERS)
@untimed
@given(passages=conversations, limit=limits)
@example(passages=[Passage("", "0\x1e00000", 0)], limit=3)
@example(
    passages=[Passage("assistant calls find", "Never!  \n\x1bA! ", at) for at in range(3)], limit=13
)
def test_folding_a_summary_alone_gives_it_back(
    count: Counter, passages: list[Passage], limit: int
) -> None:
    summary = extract_summary(passages, limit=limit, count=count)
    again = extract_summary([], limit=max(1, count(summary)), count=count, previous=summary)
    assert again == summary


@untimed
@given(passages=conversations)
def test_a_text_states_all_of_its_own_facts(passages: list[Passage]) -> None:
    whole = "\n".join(passage.text for passage in passages)
    assert check_fidelity(passages, whole).missing == ()
    everything = extract_summary(passages, limit=10**6, count=quarters)
    assert check_fidelity(passages, everything).missing == ()


@pytest.mark.parametrize("count", COUNTERS)
@untimed
@given(passages=conversations, summary=texts, room=st.integers(1, 300))
def test_an_annex_keeps_the_summary_and_the_limit(
    count: Counter, passages: list[Passage], summary: str, room: int
) -> None:
    limit = max(1, count(summary)) + room
    fidelity = check_fidelity(passages, summary)
    annexed = with_annex(summary, fidelity, limit=limit, count=count)
    assert annexed.startswith(summary)
    assert count(annexed) <= limit
    assert check_fidelity(passages, annexed).score >= fidelity.score


@untimed
@given(passages=conversations, summary=texts)
def test_an_annex_with_room_enough_restores_every_fact(
    passages: list[Passage], summary: str
) -> None:
    fidelity = check_fidelity(passages, summary)
    annexed = with_annex(summary, fidelity, limit=10**6, count=quarters)
    assert check_fidelity(passages, annexed).missing == ()


@pytest.mark.parametrize("count", COUNTERS)
@untimed
@given(text=texts, limit=st.integers(1, 40))
def test_a_cut_is_a_head_that_fits(count: Counter, text: str, limit: int) -> None:
    head = cut_to_fit(text, limit=limit, count=count)
    assert count(head) <= limit
    assert text.startswith(head)


@pytest.mark.parametrize("count", COUNTERS)
@untimed
@given(lines=st.lists(texts.map(single_line), max_size=9), limit=st.integers(1, 90))
def test_the_best_lines_that_fit_are_a_head_of_the_ranking(
    count: Counter, lines: list[str], limit: int
) -> None:
    def render(indexes: Sequence[int]) -> str:
        return "\n".join(lines[at] for at in indexes)

    ranked = list(range(len(lines)))
    kept = best_that_fit(ranked, render, limit=limit, count=count)
    assert count(kept) <= limit
    heads = [render(ranked[:size]) for size in range(len(lines) + 1)]
    assert kept in heads
    if count in (characters, octets, quarters, crowding, dear_line_breaks):
        assert kept == max((head for head in heads if count(head) <= limit), key=len)
