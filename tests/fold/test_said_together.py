"""Sentences that say something else alone: reported words, a value given up, a confirmation without its subject."""

from __future__ import annotations

import pytest

from turnfold.fold import Passage, extract_summary
from turnfold.tokens import counter_for

tokens = counter_for("gpt-4o").count_text

TALK = {
    "en": (
        "How do I load page {0} faster?",
        "Compress the images of page {0} and cache its fonts.",
    ),
    "zh": ("第{0}页怎么加载得快一点？", "把第{0}页的图片压缩，字体放进缓存。"),
}
"""Turns without a decision."""


def folded(language: str, *said: str, limit: int, folds: int = 3) -> str:
    """The summary after folds of these messages, by turns of user and assistant, each with other turns behind it."""
    roles = ("user", "assistant")
    passages = [Passage(roles[at % 2], text, at) for at, text in enumerate(said)]
    summary = ""
    for fold in range(folds):
        others = [
            Passage(role, text.format(10 * fold + turn), len(said) + 2 * turn + at)
            for turn in range(4)
            for at, (role, text) in enumerate(zip(roles, TALK[language], strict=True))
        ]
        now = (passages if fold == 0 else []) + others
        summary = extract_summary(now, limit=limit, count=tokens, previous=summary)
    return summary


PAIRS = {
    "reported": (
        "en",
        "My colleague Jonas says we must never store phone numbers. I don't agree with him.",
        "OK, we keep them.",
        "must never store",
        "I don't agree",
    ),
    "quoted": (
        "en",
        "My sister wrote: 'You must always answer in French.' She is not working on this.",
        "I see.",
        "always answer in French",
        "She is not working on this",
    ),
    "given up": (
        "en",
        "We can't make 12 March. Let's say the end of April.",
        "Good.",
        "12 March",
        "the end of April",
    ),
    "reported, zh": (
        "zh",
        "同事老周说绝对不能存电话号码。我不同意他的看法。",
        "那就保留。",
        "绝对不能存",
        "我不同意",
    ),
    "given up, zh": ("zh", "3月12日赶不上。那就推到四月底。", "行。", "3月12日", "四月底"),
}


@pytest.mark.parametrize("limit", [40, 60, 90])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_words_of_others_and_values_given_up_never_stand_alone(
    pair: tuple[str, ...], limit: int
) -> None:
    language, said, answer, half, rest = pair
    summary = folded(language, said, answer, limit=limit)
    assert half not in summary or rest in summary
    assert limit < 90 or half in summary


OLD = {
    "en": (
        "The room costs 120 EUR per night.",
        "I'll use 120 EUR.",
        "The room goes up to 135 EUR.",
        "Updated to 135 EUR.",
    ),
    "zh": ("房价每晚 480 元。", "按 480 元。", "房价涨到 520 元了。", "好的，520 元。"),
}


@pytest.mark.parametrize("language", OLD)
def test_an_answer_that_repeats_a_price_goes_with_the_price(language: str) -> None:
    told, echo, new, confirmed = OLD[language]
    summary = folded(language, told, echo, new, confirmed, limit=60)
    assert new in summary
    assert echo not in summary
    assert confirmed.rpartition("，")[2] not in summary.splitlines()


def test_a_choice_between_values_of_the_question_is_no_echo() -> None:
    summary = folded("en", "Do we charge 120 EUR or 135 EUR?", "135 EUR.", limit=60)
    assert "assistant: 135 EUR." in summary


def test_an_assistant_that_tells_what_it_is_lays_down_nothing() -> None:
    summary = folded(
        "zh",
        "我养了两只猫，一只叫年糕。",
        "我只是一个AI伴侣，没有实体，只能通过聊天来陪伴你。",
        limit=45,
    )
    assert "年糕" in summary
    assert "AI伴侣" not in summary


@pytest.mark.parametrize("word", ["a", "A", "lol"])
def test_a_question_of_one_endless_word_takes_linear_time(word: str) -> None:
    """With quadratic time this takes minutes."""
    endless = word * (200_000 // len(word)) + "?"
    assert extract_summary([Passage("user", endless, 0)], limit=50, count=len)


def test_an_id_that_an_assistant_gives_is_no_bare_value() -> None:
    summary = folded(
        "en", "What is my order?", "#W7800651.", "Thanks, one more thing.", "Sure.", limit=60
    )
    assert "#W7800651" in summary
