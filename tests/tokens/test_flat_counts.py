"""The faster way to count serves no text that it would count otherwise: whatever is spelled, it is ordinary text."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from splintr import AnyTokenizer, Tokenizer

from tests.sizes import examples
from turnfold.tokens import ENCODINGS, Encoding

NAMES = sorted(ENCODINGS)


@cache
def tokenizer(name: str) -> AnyTokenizer:
    return Tokenizer.from_pretrained(name)


def ordinary(name: str, text: str) -> int:
    """Tokens of a text, control tokens in it encoded as the plain text they are."""
    return len(tokenizer(name).encode_ordinary(text))


@cache
def spelled(name: str) -> list[str]:
    return sorted(tokenizer(name).special_tokens())


@pytest.mark.parametrize("name", NAMES)
def test_whatever_spells_a_control_token_is_counted_as_text(name: str) -> None:
    counter = Encoding(name)
    for token in spelled(name):
        for text in (token, f"say {token} twice {token}", token[1:], token[:-1], f"＜{token[1:]}"):
            assert counter.count(text) == ordinary(name, text), text


@pytest.mark.parametrize("name", [name for name in NAMES if name != "qwen3"])
@examples(60)
@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=40), at=st.integers(0, 99))
def test_any_text_is_counted_alike(name: str, text: str, at: int) -> None:
    tokens = spelled(name) if at % 2 else ["", "<", "</", "[", "<|", "/no"]
    told = f"{text}{tokens[at % len(tokens)]}{text}"
    assert Encoding(name).count(told) == ordinary(name, told)


@pytest.mark.parametrize("name", ["gemma2", "gemma3"])
def test_a_vocabulary_with_control_tokens_it_does_not_list_is_not_counted_that_way(
    name: str,
) -> None:
    hidden = {"gemma2": "[toxicity=0]", "gemma3": "[multimodal]"}[name]
    assert hidden not in spelled(name)
    assert len(tokenizer(name).encode_flat(hidden)) // 4 == 1
    assert Encoding(name).count(hidden) == ordinary(name, hidden) > 1


def test_without_its_look_at_the_text_it_would_count_control_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter = Encoding("o200k_base")
    assert counter.count("<|endoftext|>") == ordinary("o200k_base", "<|endoftext|>") > 1
    monkeypatch.setattr(counter, "_openings", ())
    assert counter.count("<|endoftext|>") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("gemma")])
def test_every_token_of_every_vocabulary_is_counted_alike(name: str) -> None:
    spell, counter, chance = tokenizer(name).decode_lossy, Encoding(name), random.Random(1)  # noqa: S311
    texts = [spell([number]) for number in range(tokenizer(name).vocab_size)]
    if name == "qwen3":  # it composes characters first
        texts = [text for text in texts if text.isascii()]
    texts += ["".join(chance.choices(texts, k=chance.randint(2, 9))) for _ in range(20_000)]
    assert len(texts) > 100_000
    assert [text for text in texts if counter.count(text) != ordinary(name, text)] == []
