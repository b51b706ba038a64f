"""The table of prices: dated, complete, found by the names models really have, and replaceable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnfold.errors import InvalidOption, UnknownModel
from turnfold.tokens import (
    Charge,
    cautious_counter,
    context_window_for,
    counter_for,
    counter_named,
    load_prices,
    shipped_prices,
)


def write(path: Path, *, per: int = 1_000_000, **model: object) -> Path:
    table = {
        "currency": "EUR",
        "date": "2027-01-01",
        "per": per,
        "models": {"m": {"input": 1, "output": 2, **model}},
        "caches": {"none": {}},
    }
    path.write_text(json.dumps(table))
    return path


def test_every_row_is_sane_and_says_when_it_was_seen() -> None:
    table = shipped_prices()
    assert table.currency == "USD"
    assert table.date.startswith("20")
    assert len(table.models) > 20
    for name, price in table.models.items():
        assert 0 < price.cached <= price.input < price.output, name
        assert (price.cached == price.input) == (price.cache == "none"), name
        assert price.seen.startswith("20"), name
        assert bool(price.written) == table.rule(price).marks, name
        assert price.written == 0 or price.written > price.input, name


@pytest.mark.parametrize("name", shipped_prices().models)
def test_every_model_with_a_price_has_a_window(name: str) -> None:
    assert context_window_for(name) > 0  # so that Memory(model=name) needs no budget


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-5-mini-2026-01-01", "gpt-5-mini"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4"),
        ("Claude-Opus-4-5", "claude-opus-4-5"),
        ("anthropic/claude-haiku-4-5", "claude-haiku-4-5"),
        ("gpt-5-chat-latest", "gpt-5-chat"),
        ("gemini-2.5-pro-preview-06-05", "gemini-2.5-pro"),
        ("zai/glm-4.6", "glm-4.6"),
        ("glm-4.5-air", "glm-4.5-air"),
        ("kimi-k2-0905-preview", "kimi-k2"),
        ("moonshot/kimi-k2-turbo-preview", "kimi-k2-turbo"),
        ("kimi-k2.6", "kimi-k2.6"),
        ("moonshot-v1-8k", "moonshot-v1-8k"),
        ("qwen-plus-2025-07-28", "qwen-plus"),
        ("dashscope/qwen3-max-preview", "qwen3-max"),
    ],
)
def test_models_are_found_by_the_names_they_have(name: str, row: str) -> None:
    assert shipped_prices().price(name) == shipped_prices().models[row]


@pytest.mark.parametrize(
    "name",
    [
        *("gpt-5.9", "gpt-4o3", "gpt", "llama-3", "", "gpt-4.10", "gpt-5-pro", "gpt-4o-audio"),
        *("glm-4.5-flash", "glm-4.5-airx", "glm-9", "kimi-k2.6-new", "qwen3-8b", "qwen-plus-us"),
        "claude-sonnet-5:free",
    ],
)
def test_a_name_that_only_looks_like_one_has_no_price(name: str) -> None:
    with pytest.raises(UnknownModel):
        shipped_prices().price(name)


@pytest.mark.parametrize(
    ("prompt", "dollars"),
    [(32_000, 1.2), (32_001, 2.4), (128_000, 2.4), (128_001, 3.0), (250_000, 3.0)],
)
def test_the_length_of_a_prompt_decides_which_price_it_has(prompt: int, dollars: float) -> None:
    charge = Charge(read=0, written=0, fresh=prompt, output=0)
    cost = shipped_prices().price("qwen3-max").of(charge)
    assert cost * 1_000_000 == pytest.approx(dollars * prompt)


def test_another_table_takes_its_place(tmp_path: Path) -> None:
    table = load_prices(write(tmp_path / "own.json"))
    assert (table.currency, table.date, table.price("m").output) == ("EUR", "2027-01-01", 2.0)
    for broken in (
        write(tmp_path / "per.json", per=1000),
        write(tmp_path / "cache.json", cache="warm"),
        write(tmp_path / "field.json", discount=9),
        tmp_path / "missing.json",
    ):
        with pytest.raises(InvalidOption):
            load_prices(broken)


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-4", "claude-sonnet-4-5", "gemini-2.5-pro", "qwen3", "unknown-model"]
)
def test_a_counter_is_found_by_its_name(model: str) -> None:
    counter = counter_for(model)
    found = counter_named(counter.name)
    assert found is not None
    assert found.name == counter.name
    assert found.count_text("定金 4471.50 EUR") == counter.count_text("定金 4471.50 EUR")


def test_a_counter_nobody_has_is_none() -> None:
    assert counter_named("somebody's own") is None
    cautious = counter_named(cautious_counter().name)
    assert cautious is not None
    assert cautious.name == cautious_counter().name
