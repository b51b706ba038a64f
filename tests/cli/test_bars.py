"""A bar is as wide as it should be, and what is there is seen."""

from __future__ import annotations

import io
import itertools
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from turnfold.cli.demo.charts import Bar, BarPart, Legend, share_cells
from turnfold.cli.demo.texts import TEXTS
from turnfold.text import language_of

AMOUNTS = st.lists(st.integers(0, 10_000), min_size=1, max_size=9)


@given(amounts=AMOUNTS, width=st.integers(0, 200))
def test_the_cells_add_up_and_nothing_vanishes(amounts: list[int], width: int) -> None:
    cells = share_cells(amounts, width)
    present = sum(amount > 0 for amount in amounts)
    assert len(cells) == len(amounts)
    assert sum(cells) == (width if present else 0)
    assert all(count == 0 for count, amount in zip(cells, amounts, strict=True) if amount == 0)
    if width >= present:
        assert all(count >= 1 for count, amount in zip(cells, amounts, strict=True) if amount)


@given(amounts=AMOUNTS, width=st.integers(50, 200))
def test_more_gets_no_fewer_cells(amounts: list[int], width: int) -> None:
    cells = share_cells(amounts, width)
    in_order = sorted(zip(amounts, cells, strict=True))
    for (less, few), (more, many) in itertools.pairwise(in_order):
        assert less == more or few <= many


def test_cells_are_in_proportion() -> None:
    assert share_cells([10, 30, 60], 10) == [1, 3, 6]
    assert share_cells([1, 0, 999], 10) == [1, 0, 9]


PARTS = (BarPart("系统", 20, "s", "blue"), BarPart("free", 80, ".", "bright_black", solid=False))


def printed(thing: Bar | Legend, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(thing)
    return out.getvalue()


def test_without_colour_the_parts_are_letters() -> None:
    assert printed(Bar(PARTS, plain=True), 10) == "ss........\n"
    assert printed(Bar(PARTS, plain=False), 10) == "██········\n"


def test_a_legend_breaks_between_parts_only() -> None:
    assert printed(Legend(PARTS, plain=True), 40) == "s 系统 20  . free 80\n"
    assert printed(Legend(PARTS, plain=True), 12) == "s 系统 20\n. free 80\n"


def test_both_languages_fill_in_the_same_figures() -> None:
    english, chinese = TEXTS["en"], TEXTS["zh"]
    for name in type(english).__dataclass_fields__:
        ours, theirs = getattr(english, name), getattr(chinese, name)
        assert names_in(ours) == names_in(theirs), name


def names_in(template: str | tuple[str, ...]) -> set[str | None]:
    text = template if isinstance(template, str) else "".join(template)
    return {field for _, field, _, _ in string.Formatter().parse(text)} - {None}


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "de_DE.UTF-8"}, "en"),
        ({"LANG": "en_GB.UTF-8", "LC_MESSAGES": "zh_TW.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh"),
    ],
)
def test_the_locale_chooses_the_language(environment: dict[str, str], language: str) -> None:
    assert language_of(environment) == language
