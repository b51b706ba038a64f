"""Texts end where a sentence or a row ends, tables of contents lose their deepest levels first, and both say so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnfold.findings import (
    chapter_titles,
    cut_text,
    pick_excerpt,
    shorten_outline,
    split_json_rows,
)
from turnfold.text import search_terms
from turnfold.tokens import counter_for

COUNT = counter_for("gpt-4o").count_text
MARK = "(cut)"

ROWS = "\n".join(f"| {at} | {at * 37}.25 kV | 合格 |" for at in range(60))
CHINESE = "".join(f"第 {at} 条：电压不得超过 {at}.5 kV；否则停电。" for at in range(60))
ENGLISH = " ".join(f"Rule No. {at} limits lines to {at}.75 kV, e.g. at noon." for at in range(60))
HTML = "".join(f"<tr>\n<td>{at}</td>\n<td>{at * 3}.5</td>\n</tr>\n" for at in range(60))


def whole_rows(text: str) -> set[str]:
    return {line for line in text.splitlines() if line.startswith("|")}


@pytest.mark.parametrize("limit", [24, 33, 50, 100, 401])
@pytest.mark.parametrize("text", [ROWS, CHINESE, ENGLISH, HTML], ids=["rows", "zh", "en", "html"])
def test_a_cut_falls_on_a_boundary_and_is_told(text: str, limit: int) -> None:
    short = cut_text(text, limit, COUNT, mark=MARK)
    assert COUNT(short) <= limit
    assert short.endswith(MARK)
    kept = short.removesuffix(MARK).rstrip("\n")
    assert text.startswith(kept)
    if text is ROWS:
        assert whole_rows(kept) <= whole_rows(ROWS)
    elif text is HTML:
        assert kept.count("<tr>") == kept.count("</tr>")
    elif text is CHINESE:
        assert not kept or kept[-1] in "。；"
    else:
        assert not kept or kept.endswith("noon.")
    if limit >= 100:
        assert len(kept) > 60


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=400), st.integers(-3, 120))
def test_never_over_the_limit_and_never_another_text(text: str, limit: int) -> None:
    short = cut_text(text, limit, COUNT, mark=MARK)
    assert COUNT(short) <= max(limit, 0)
    if short and short != text:
        assert short.endswith(MARK)
        assert text.startswith(short.removesuffix(MARK).removesuffix("\n"))
    if COUNT(text) <= limit // 2:
        assert short == text


def test_a_row_too_long_by_itself_is_left_out_a_sentence_ends_between_words() -> None:
    assert cut_text("| " + "1234 " * 200 + "|", 30, COUNT, mark=MARK) == MARK
    words = cut_text("word " * 200, 30, COUNT, mark=MARK)
    assert words.startswith("word word")
    assert words.removesuffix(MARK).split() == ["word"] * words.count("word")
    assert len(cut_text("绝缘电阻" * 200, 40, COUNT, mark=MARK)) > 20


def test_the_naive_cut_breaks_a_number() -> None:
    """What 300 characters do to a table: the check above would see it."""
    kept = ROWS[:300]
    assert not whole_rows(kept) <= whole_rows(ROWS)


def test_a_list_on_one_line_gets_a_line_for_each_element() -> None:
    hits = [{"text": "甲"}, {"text": "乙"}]
    rows = '{"text": "甲"}\n{"text": "乙"}'
    assert split_json_rows(json.dumps(hits)) == rows
    assert (
        split_json_rows(json.dumps({"results": hits, "total": 2}))
        == f'{{"total": 2}}\nresults:\n{rows}'
    )
    for text in ("plain", "[not json", '{"a": 1}', '{"a": [1], "b": [2]}', "", "{}"):
        assert split_json_rows(text) == text


TOC = {
    "reg_id": "angui_2024",
    "title": "安规 2024",
    "children": [
        {
            "title": f"第 {chapter} 章",
            "page_start": chapter * 10,
            "children": [{"title": f"{chapter}.{part} 节", "pages": [1, 2]} for part in range(6)],
        }
        for chapter in range(1, 9)
    ],
}


def test_a_table_of_contents_is_an_outline() -> None:
    text, whole = shorten_outline(json.dumps(TOC), 5_000, COUNT, language="zh")
    assert whole
    assert text.splitlines()[:4] == [
        "安规 2024 (reg_id angui_2024)",
        "  第 1 章 (page_start 10)",
        "    1.0 节",
        "      pages: [1, 2]",
    ]
    assert COUNT(text) < COUNT(json.dumps(TOC, ensure_ascii=False))
    assert shorten_outline(TOC, 5_000, COUNT, language="zh").text == text
    assert chapter_titles(TOC) == [f"第 {chapter} 章" for chapter in range(1, 9)]


def test_the_deepest_levels_go_first() -> None:
    titles = [f"第 {chapter} 章" for chapter in range(1, 9)]
    text, whole = shorten_outline(TOC, 170, COUNT, language="zh")
    assert not whole
    assert all(title in text for title in titles)
    assert "1.0 节" in text
    assert "8.5 节" not in text
    assert text.endswith("（共 4 级，此处完整列出前 2 级）")
    assert "levels are whole" in shorten_outline(TOC, 170, COUNT, language="en").text


@settings(deadline=None)
@given(
    st.recursive(
        st.text(max_size=5) | st.integers() | st.none(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["title", "children", "page", "x"]), inner, max_size=4
            )
        ),
        max_leaves=20,
    ),
    st.integers(0, 80),
)
def test_any_json_is_an_outline_within_its_tokens(toc: object, limit: int) -> None:
    text, whole = shorten_outline(json.dumps(toc), limit, COUNT, language="en")
    assert COUNT(text) <= limit or not text
    every, _ = shorten_outline(json.dumps(toc), 10**6, COUNT, language="en")
    assert whole is (text == every)


def test_an_outline_deeper_than_any_stack() -> None:
    deep: object = "leaf"
    for _ in range(60):
        deep = {"title": "x", "children": [deep]}
    assert "leaf" in shorten_outline(deep, 5_000, COUNT, language="en").text


# ------------------------------------------------------------------------------- what a question is about


def terms(question: str) -> list[str]:
    return search_terms(question)


@pytest.mark.parametrize(
    ("text", "question", "wanted"),
    [
        (
            CHINESE.replace("电压", "流量").replace("第 47 条：流量", "第 47 条：电压"),
            "电压",
            "电压不得超过 47.5 kV；",
        ),
        (
            "| no | limit | state |\n|---|---|---|\n" + ROWS.replace("| 47 |", "| busbar |"),
            "busbar?",
            "| busbar | 1739.25 kV | 合格 |",
        ),
        (
            ENGLISH.replace("Rule No. 47 limits lines", "Rule No. 47 limits cables"),
            "What about cables?",
            "Rule No. 47 limits cables to 47.75 kV, e.g. at noon.",
        ),
    ],
    ids=["zh", "rows", "en"],
)
def test_what_is_asked_about_is_kept_whole(text: str, question: str, wanted: str) -> None:
    short = pick_excerpt(text, 80, COUNT, mark=MARK, terms=terms(question))
    assert wanted in short
    assert wanted not in cut_text(text, 80, COUNT, mark=MARK)
    assert COUNT(short) <= 80
    assert short.endswith(f"\n{MARK}")
    assert "…\n" in short
    if "|---" in text:
        assert short.startswith("| no | limit | state |\n|---|---|---|\n")
        assert whole_rows(short) <= whole_rows(text)


def test_without_a_match_it_is_the_beginning() -> None:
    for text in (CHINESE, ENGLISH, ROWS):
        assert pick_excerpt(text, 80, COUNT, mark=MARK, terms=terms("zzz")) == cut_text(
            text, 80, COUNT, mark=MARK
        )
        assert pick_excerpt(text, 10_000, COUNT, mark=MARK, terms=terms("电压")) == text


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["甲。", "乙 b。", "c d. E", "\n", "| x | 乙 |\n", "<tr>"]), max_size=60
    ),
    st.integers(-2, 60),
)
def test_what_is_picked_never_costs_more(parts: list[str], limit: int) -> None:
    text = "".join(parts)
    short = pick_excerpt(text, limit, COUNT, mark=MARK, terms=terms("乙 b"))
    assert COUNT(short) <= max(limit, 0)


def test_of_a_table_of_contents_the_rows_asked_about_come_first() -> None:
    text, _ = shorten_outline(TOC, 150, COUNT, language="zh", terms=terms("7.4 节"))
    assert "7.4 节" in text
    assert text.index("第 7 章") < text.index("7.4 节") < text.index("第 8 章")
    assert COUNT(text) <= 150
    assert "7.4 节" not in shorten_outline(TOC, 150, COUNT, language="zh").text
