"""The estimate errs upward, but not far; the documented formula gives the documented figures."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from splintr import AnyTokenizer, Tokenizer

from bench.fit_estimate import data_folder, figures, messages_by_class
from tests.tokens.invented_texts import BY_CLASS, OTHER_LANGUAGES, STRANGE
from turnfold.errors import InvalidOption
from turnfold.tokens import (
    CL100K_LIKE,
    ENVELOPE,
    MODERN,
    SINGLE_DIGITS,
    Certainty,
    EstimateProfile,
    TextEstimator,
    estimate_text,
    formula_tokens,
)
from turnfold.tokens.estimate_profile import (
    HAN_CHARACTERS,
    HAN_CORE,
    HAN_WORDS,
    CharacterKind,
    kind_of,
)

DATA = data_folder()
MOST_UNDER = 0.01
MOST_ABOVE = 1.25
SAMPLE = 300
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="no conversations: name their folder in TURNFOLD_DATA"
)


@cache
def tokenizer(name: str) -> AnyTokenizer:
    return Tokenizer.from_pretrained(name)


def true_count(text: str, *, vocabulary: str = "o200k_base") -> int:
    return len(tokenizer(vocabulary).encode_ordinary(text))


# ------------------------------------------------------------------------------- the formula


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 4),
        ("abc", 4),
        ("abcd", 5),
        ("hello world", 6),
        ("你", 5),
        ("你好", 7),
        ("你好世界", 10),
        ("你好，world", 9),  # three of them are CJK
        ("「全角」１２", 13),
        ("カタカナ", 10),
        ("한국어", 8),
        ("\U00020000\uf900\u3400", 8),  # Han outside the main block
        ("😀😀😀😀", 5),  # four characters, not sixteen bytes
        ("привет, мир", 6),
        ("naïve café", 6),
    ],
)
def test_formula_gives_the_documented_figures(text: str, tokens: int) -> None:
    assert formula_tokens(text) == tokens


@given(
    st.text(alphabet="汉字かなカナ한글，。！（）ＡＢ１２　〇々㐀"),
    st.text(alphabet="abc XYZ 019 .,!?\n éüß жщ αβ 😀🎉 שלום"),
    st.randoms(use_true_random=False),
)
def test_formula_counts_characters_by_class_in_any_order(
    cjk: str, other: str, order: random.Random
) -> None:
    mixed = list(cjk + other)
    order.shuffle(mixed)
    assert formula_tokens("".join(mixed)) == len(cjk) * 3 // 2 + len(other) // 4 + 4


# ----------------------------------------------------------------- the target, on real messages


@needs_data
@pytest.mark.parametrize(
    ("profile", "vocabulary"), [(MODERN, "o200k_base"), (CL100K_LIKE, "cl100k_base")]
)
def test_every_class_of_real_messages_meets_the_target(
    profile: EstimateProfile, vocabulary: str
) -> None:
    missed: list[str] = []
    for name, texts in messages_by_class(DATA).items():
        drawn = random.Random(name).sample(texts, min(SAMPLE, len(texts)))  # noqa: S311
        under, mean, sums, _ = figures(drawn, vocabulary=vocabulary, profile=profile)
        if not (under < MOST_UNDER and 1 <= mean <= MOST_ABOVE and 1 <= sums <= MOST_ABOVE):
            missed.append(f"{name}: {under:.2%} under, mean {mean:.3f}, sum {sums:.3f}")
    assert missed == []


@needs_data
def test_the_target_is_missed_without_the_margin() -> None:
    """Otherwise the test above would prove nothing about it."""
    bare = replace(MODERN, spread=0.0)
    results = messages_by_class(DATA)["coding result"]
    under, *_ = figures(results, vocabulary="o200k_base", profile=bare)
    assert under > MOST_UNDER


# ------------------------------------------------------------- the same ground, on invented texts


@pytest.mark.parametrize("name", BY_CLASS)
@pytest.mark.parametrize(
    ("profile", "vocabulary"), [(MODERN, "o200k_base"), (CL100K_LIKE, "cl100k_base")]
)
def test_every_class_of_invented_messages_meets_the_target(
    name: str, profile: EstimateProfile, vocabulary: str
) -> None:
    under, mean, sums, _ = figures(BY_CLASS[name], vocabulary=vocabulary, profile=profile)
    assert under == 0
    assert mean <= MOST_ABOVE
    assert sums <= MOST_ABOVE


@pytest.mark.parametrize("name", BY_CLASS)
def test_the_margin_shrinks_as_a_text_grows(name: str) -> None:
    short = BY_CLASS[name]
    long = ["\n".join(short * 20)]
    _, above_short, *_ = figures(short, vocabulary="o200k_base", profile=MODERN)
    _, above_long, *_ = figures(long, vocabulary="o200k_base", profile=MODERN)
    assert above_long < above_short


@pytest.mark.parametrize("language", OTHER_LANGUAGES)
def test_other_languages_are_never_grossly_under(language: str) -> None:
    text = OTHER_LANGUAGES[language]
    assert estimate_text(text, profile=MODERN) >= 0.85 * true_count(text)
    assert estimate_text(text, profile=MODERN) <= 2 * true_count(text)


def test_other_languages_together_are_above() -> None:
    estimates = sum(estimate_text(text, profile=MODERN) for text in OTHER_LANGUAGES.values())
    assert estimates >= 1.1 * sum(map(true_count, OTHER_LANGUAGES.values()))


@pytest.mark.parametrize("name", STRANGE)
def test_keys_and_noise_are_never_grossly_under(name: str) -> None:
    text = STRANGE[name]
    assert estimate_text(text, profile=MODERN) >= 0.9 * true_count(text)
    assert estimate_text(text, profile=CL100K_LIKE) >= 0.9 * true_count(
        text, vocabulary="cl100k_base"
    )


# --------------------------------------------------------------------------- bounds and edges


def test_nothing_costs_nothing() -> None:
    assert estimate_text("") == 0
    assert estimate_text("a") == 1
    assert estimate_text("ok") == 1
    assert estimate_text("好") == 1


def unpriced(character: str) -> bool:
    code = ord(character)
    return code > 0x2FF and kind_of(code) is None and not character.isspace()


@given(
    st.text(
        alphabet=st.characters(exclude_categories=["Cs"], min_codepoint=0x300).filter(
            lambda c: (
                unpriced(c) and not "\u4e00" <= c <= "\u9fff" and not "\u1e00" <= c <= "\u1eff"
            )
        )
    )
)
def test_a_character_of_no_known_kind_is_bounded_by_its_bytes(text: str) -> None:
    assert estimate_text(text) >= len(text.encode()) >= true_count(text)


def test_random_code_points_are_not_under() -> None:
    draw = random.Random(7)  # noqa: S311
    for _ in range(200):
        points = (draw.randrange(0x110000) for _ in range(60))
        text = "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)
        assert estimate_text(text) >= true_count(text)


@given(st.text())
def test_any_text_has_an_estimate(text: str) -> None:
    tokens = estimate_text(text)
    assert isinstance(tokens, int)
    assert (tokens == 0) == (text == "")
    assert tokens <= 4 * len(text.encode("utf-8", "surrogatepass"))


def test_a_lone_surrogate_is_counted_by_its_bytes() -> None:
    assert estimate_text("\ud800\udfff") >= 6


@pytest.mark.parametrize(
    "unit", ["A", "a", " ", "\n", " \n", "!", "!?", "0", "é", "Ж", "字", "😀", "'"]
)
def test_long_runs_are_read_once(unit: str) -> None:
    """A quadratic pattern would run into the time limit of the test run."""
    assert estimate_text(unit * 200_000) >= 200_000 * len(unit) // 600


def test_digits_cost_by_profile() -> None:
    numbers = "1234567 89 0123"
    assert estimate_text(numbers, profile=MODERN) == true_count(numbers)
    assert estimate_text(numbers, profile=SINGLE_DIGITS) >= true_count(numbers, vocabulary="qwen3")
    assert estimate_text(numbers, profile=MODERN) < true_count(numbers, vocabulary="qwen3")


def test_chinese_is_dearer_in_an_older_vocabulary() -> None:
    text = "窗外下着小雨，我们决定明天再去公园散步。"
    assert estimate_text(text, profile=CL100K_LIKE) > 1.2 * estimate_text(text, profile=MODERN)


@pytest.mark.parametrize("vocabulary", ["o200k_base", "llama3", "deepseek_v3"])
def test_listed_chinese_is_one_token(vocabulary: str) -> None:
    listed = HAN_WORDS if vocabulary == "deepseek_v3" else HAN_WORDS | HAN_CHARACTERS
    assert [entry for entry in listed if true_count(entry, vocabulary=vocabulary) != 1] == []


def test_core_characters_are_one_token_even_there() -> None:
    assert [entry for entry in HAN_CORE if true_count(entry, vocabulary="cl100k_base") != 1] == []


def test_a_profile_prices_every_kind() -> None:
    prices = MODERN.script[:-1]
    with pytest.raises(
        InvalidOption,
        match=f"prices {len(CharacterKind) - 1} kinds .* there are {len(CharacterKind)}",
    ):
        replace(MODERN, script=prices)


def test_the_estimator_is_a_text_counter() -> None:
    unknown, older = TextEstimator(), TextEstimator(profile=CL100K_LIKE)
    assert unknown.name == f"estimate-{ENVELOPE.name}" != older.name
    assert unknown.certainty is Certainty.ESTIMATE
    assert unknown.count("今天天气不错") == estimate_text("今天天气不错")
    assert older.count("今天天气不错") == estimate_text("今天天气不错", profile=CL100K_LIKE)
