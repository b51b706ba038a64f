"""The estimate for a model nobody knows is above every vocabulary at hand, on every class of text; how far, is told."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fit_estimate import data_folder, messages_by_class
from tests.sizes import examples
from tests.tokens.text_classes import BY_NAME, any_text
from turnfold.records import user
from turnfold.tokens import (
    CL100K_LIKE,
    ENCODINGS,
    ENVELOPE,
    MODERN,
    Calibration,
    Encoding,
    EstimateProfile,
    ModelInfo,
    calibrated,
    counter_for,
    counter_named,
    estimate_text,
)
from turnfold.tokens.estimate_profile import PROFILES

DATA = data_folder()
SAMPLE = 60
MOST_ABOVE = 1.35
"""Times the dearest vocabulary of a class of messages; of others it is up to twice (Chinese beside o200k_base)."""
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="no conversations: name their folder in TURNFOLD_DATA"
)


@cache
def vocabularies() -> list[Encoding]:
    return [Encoding(name) for name in ENCODINGS]


def true_counts(text: str) -> dict[str, int]:
    return {each.name: each.count(text) for each in vocabularies()}


def too_low(text: str, profile: EstimateProfile = ENVELOPE) -> dict[str, int]:
    """The vocabularies whose true count the estimate does not reach."""
    estimate = estimate_text(text, profile=profile)
    return {name: count for name, count in true_counts(text).items() if count > estimate}


# ------------------------------------------------------------------------- above all of them


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "base64"])
def test_it_is_above_every_vocabulary(name: str) -> None:
    @examples(25)
    @given(BY_NAME[name])
    def check(text: str) -> None:
        assert too_low(text) == {}

    check()


@examples(60)
@given(st.binary(min_size=24, max_size=300).map(lambda data: data.hex()), BY_NAME["base64"])
def test_random_keys_are_never_far_above_it(hexadecimal: str, base64: str) -> None:
    """Chance decides which letters of a key join: a short one may cost a few tokens more than the estimate."""
    assert too_low(hexadecimal) == {}
    assert max(true_counts(base64).values()) <= 1.08 * estimate_text(base64) + 2


@examples(60)
@given(any_text)
def test_it_is_above_them_where_classes_are_mixed(text: str) -> None:
    assert too_low(text) == {}


@needs_data
def test_it_is_above_them_on_real_messages() -> None:
    missed: list[str] = []
    for name, texts in messages_by_class(DATA).items():
        drawn = random.Random(name).sample(texts, min(SAMPLE, len(texts)))  # noqa: S311
        below = [text for text in drawn if too_low(text)]
        estimate = sum(map(estimate_text, drawn))
        totals = [sum(map(each.count, drawn)) for each in vocabularies()]
        if len(below) > len(drawn) * 0.02 or not 1 <= estimate / max(totals) <= MOST_ABOVE:
            missed.append(f"{name}: {len(below)} below, {estimate / max(totals):.2f} times dearest")
    assert missed == []


# ------------------------------------------------- without any one of its prices it would not be

WITHOUT = {
    "han_familiar": ("窗外刚刚停雨，她牵着孩子沿河岸慢慢散步，谁都没带伞。" * 3, "cl100k_base"),
    "digit": ("订单 4579334072 与 1656367028", "qwen3"),
    "tight_sign": ("a.b.c.d(e.f(g.h)).i.j(k.l.m)\n" * 3, "gemma3"),
    "sign_line_end": ("{\n(\n[\n{\n", "gemma3"),
    "contraction": ("I'm sure they're glad you've come and it's fine", "gemma2"),
    "first_blank_change": ("a\r\nb\r\nc\r\nd\r\n", "deepseek_v3"),
    "vietnamese": ("vui lòng góp ý trước thứ Sáu, tối nay tôi sẽ ngủ sớm", "kimi_k2"),
    "foreign_ending": (
        "Domani devo alzarmi presto e quindi stasera dormo prima del solito",
        "kimi_k2",
    ),
    "blank_bytes": ("\u3000\u3000好\n\u3000\u3000是", "gemma3"),
    "script": ("🎉🔥✨🙏😊🥳🚀", "mistral_v3"),
}


@pytest.mark.parametrize("price", WITHOUT)
def test_each_price_is_needed_by_some_vocabulary(price: str) -> None:
    text, vocabulary = WITHOUT[price]
    cheaper = replace(ENVELOPE, **{price: getattr(MODERN, price)})
    assert too_low(text) == {}
    assert vocabulary in too_low(text, cheaper)


@pytest.mark.parametrize("former", [MODERN, CL100K_LIKE], ids=lambda profile: profile.name)
def test_a_nearer_profile_is_not_above_them(former: EstimateProfile) -> None:
    """The test of all classes would fail with it."""
    text = "订单 4579334072 已发货，预计三天内送达。🎉\nreturn self.lines.get(product, 0)\n"
    assert too_low(text, former) != {}
    assert too_low(text) == {}


# --------------------------------------------------------------------------- sums and lengths


@examples(60)
@given(any_text, any_text)
def test_texts_put_together_cost_about_what_they_cost_alone(one: str, other: str) -> None:
    """The margin is a root, so a whole is never dearer than its parts, but for what rounding spares small ones."""
    alone = estimate_text(one), estimate_text(other)
    together = estimate_text(f"{one}\n\n{other}")
    assert max(alone) <= together <= sum(alone) + 4


@examples(60)
@given(any_text, st.integers(2, 6))
def test_it_grows_with_a_text(text: str, times: int) -> None:
    estimates = [estimate_text("\n\n".join([text] * number)) for number in range(1, times + 1)]
    assert estimates == sorted(estimates)
    assert estimates[-1] >= estimates[0] * times * 0.6


# ------------------------------------------------------------------------ who is counted with it


def test_an_unknown_model_is_counted_with_it() -> None:
    for name in ("unheard-of", "hunyuan-large", "mistral-7b-instruct"):
        assert counter_for(name).text.name == "estimate-envelope"


def test_a_nearer_profile_can_be_given_by_name() -> None:
    near = ModelInfo(context_window=32_768, profile=MODERN).counter()
    text = "窗外下着小雨，我们决定明天再去公园散步。"
    assert near.text.name == "estimate-modern"
    assert near.count_text(text) < counter_for("unheard-of").count_text(text)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_a_stored_count_is_traced_to_its_profile(profile: EstimateProfile) -> None:
    counter = ModelInfo(context_window=8_192, profile=profile).counter()
    found = counter_named(counter.name)
    assert found is not None
    assert found.count_text("定金 4471.50 EUR") == counter.count_text("定金 4471.50 EUR")


def test_reports_of_a_provider_bring_it_down() -> None:
    """The way from the safe count to the provider's own numbers."""
    counter, truth = counter_for("unheard-of"), counter_for("gpt-4o")
    talk = [user(f"第 {turn} 天：窗外下着小雨，我们决定明天再去公园散步。") for turn in range(40)]
    counted, reported = counter.count(talk).tokens, truth.count(talk).tokens
    assert counted > 1.3 * reported
    learned = Calibration()
    for _ in range(3):
        learned = learned.observe(counted=counted, reported=reported)
    corrected = calibrated(counter, learned).count(talk).tokens
    assert reported * 0.95 <= corrected <= reported * 1.1
