"""The figures of the recipe on budgets are those of its command; the prices of the recipe on costs are known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.seeded import invoke, invoke_json
from turnfold.inspect import known_price
from turnfold.tokens import load_prices, shipped_prices

RECIPES = {
    language: Path(__file__).parents[2] / "docs" / language / "recipes" / "budget.md"
    for language in ("en", "zh")
}
BUDGETS = (2_000, 4_000, 8_000, 16_000, 32_000)
ROW = re.compile(
    r"^\| ([\d,]+)[^|]*\| ([\d.]+ USD) \| (\d+) % \| ([\d,]+) \| (\d+) \|$", re.MULTILINE
)


def _row(found: dict) -> tuple[str, ...]:
    cost = found["cost"]
    prompt = cost["read"] + cost["written"] + cost["fresh"]
    return (
        f"{found['budget']:,}",
        f"{cost['total']:.2f} USD",
        f"{cost['read'] / prompt * 100:.0f}",
        f"{found['tokens_sent']:,}",
        f"{found['folds']}",
    )


@pytest.mark.slow  # five replays of a long conversation
@pytest.mark.timeout(300)
def test_the_table_is_what_its_command_gives(tmp_path: Path) -> None:
    kept = tmp_path / "demo.db"
    assert invoke(["demo", "--fast", "--keep", str(kept)]).exit_code == 0
    budgets = [word for each in BUDGETS for word in ("--budget", str(each))]
    run = ["replay", "warehouse", "--store", str(kept), "--model", "gpt-4o", "--strategy", "fold"]
    measured = [_row(row) for row in invoke_json([*run, *budgets])["rows"]]
    for page in RECIPES.values():
        told = ROW.findall(page.read_text(encoding="utf-8"))
        assert told == measured, f"write these rows into {page.name} (en and zh): {measured}"


@pytest.mark.parametrize("language", RECIPES)
def test_the_price_tables_can_be_read(language: str, tmp_path: Path) -> None:
    page = RECIPES[language].with_name("costs.md").read_text("utf-8")
    blocks = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    tables = []
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.json").write_text(block, encoding="utf-8")
        tables.append(load_prices(tmp_path / f"{number}.json"))
    dollars, table = tables
    assert dollars.models
    for name in ("qwen-flash", "deepseek-flash", "glm-4.6", "kimi-k2-thinking"):
        assert table.price(name).input > 0
    assert table.currency == "CNY"


@pytest.mark.parametrize("language", RECIPES)
def test_the_models_that_the_recipe_lists_have_a_price_and_the_others_have_none(
    language: str,
) -> None:
    page = RECIPES[language].with_name("costs.md").read_text("utf-8")
    listed = [
        name
        for row in re.findall(r"^\| [^|`]+\| (`[^|]*) \|$", page, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    ]
    assert len(listed) >= 40
    for name in [*listed, "gpt-4o-2024-08-06", "qwen-plus-latest"]:
        assert f"`{name}`" in page
        assert known_price(name, shipped_prices()) is not None, name
    for name in ("gpt-5-pro", "glm-4.5-flash", "claude-sonnet-5:free"):
        assert f"`{name}`" in page
        assert known_price(name, shipped_prices()) is None, name


def test_both_languages_have_the_same_figures() -> None:
    rows = [ROW.findall(page.read_text(encoding="utf-8")) for page in RECIPES.values()]
    assert rows[0] == rows[1]
    assert len(rows[0]) == len(BUDGETS)
