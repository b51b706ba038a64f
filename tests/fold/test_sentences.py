"""Sentences end where a reader would say so, in both languages and in what tools print."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnfold.text import Sentence, clean_text, single_line, split_sentences
from turnfold.text.sentences import LONGEST_SENTENCE


def texts_of(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pi is 3.14. Use v1.2. Done", ["Pi is 3.14.", "Use v1.2.", "Done"]),
        ("Dr. Weiss, e.g. the owner, left.", ["Dr. Weiss, e.g. the owner, left."]),
        ("Room No. 5 is free. No. I refuse.", ["Room No. 5 is free.", "No.", "I refuse."]),
        ("We met at 3 p.m. yesterday.", ["We met at 3 p.m. yesterday."]),
        ("We met at 3 p.m. Then we left.", ["We met at 3 p.m.", "Then we left."]),
        ('She said "stop!" Then left.', ['She said "stop!"', "Then left."]),
        ("1. First item. 2. Second", ["1. First item.", "2. Second"]),
        ("价格是3.14元。版本v2.0！可以吗？好", ["价格是3.14元。", "版本v2.0！", "可以吗？", "好"]),
        ("要点：1. 多喝水；2. 早睡。", ["要点：1. 多喝水；", "2. 早睡。"]),
        ("他说：“好的。”然后走了。", ["他说：“好的。”", "然后走了。"]),
        ("关于“运费谁出？”，我已经记下。好。", ["关于“运费谁出？”，我已经记下。", "好。"]),
        ("“真的吗？”的回答是对的。", ["“真的吗？”的回答是对的。"]),
        ("等一下……我想想", ["等一下……", "我想想"]),
        ("好!走吧?行", ["好!", "走吧?", "行"]),
        (
            "Set `a ? b : c` first. Then run `x! y. z` again.",
            ["Set `a ? b : c` first.", "Then run `x! y. z` again."],
        ),
        (
            "The form sum(a, ...) is gone. Why ? Ask",
            ["The form sum(a, ...) is gone.", "Why ?", "Ask"],
        ),
        ("It is day ? open : shut there.", ["It is day ? open : shut there."]),
        ("Well ... I see", ["Well ...", "I see"]),
    ],
)
def test_prose_ends_at_its_own_stops(text: str, expected: list[str]) -> None:
    assert texts_of(text) == expected


def test_a_line_wrapped_at_a_column_is_one_sentence() -> None:
    text = (
        "The parcel was handed to the courier on Monday and is\nexpected within two days.\nThanks"
    )
    assert texts_of(text) == [
        "The parcel was handed to the courier on Monday and is expected within two days.",
        "Thanks",
    ]


def test_tables_and_code_are_cut_at_line_ends() -> None:
    text = "| item | price |\n|---|---|\n| lamp | 4.50. Yes |\n```py\ntotal = a.b. c\n```\n- Bullet. Two"
    assert split_sentences(text) == [
        Sentence("| item | price |", "row"),
        Sentence("| lamp | 4.50. Yes |", "row"),
        Sentence("total = a.b. c", "code"),
        Sentence("Bullet.", "prose"),
        Sentence("Two", "prose"),
    ]


def test_the_line_numbers_of_a_listing_are_no_content() -> None:
    assert split_sentences("    12→    return total") == [Sentence("return total", "code")]


def test_numbers_before_a_colon_are_line_numbers_where_they_rise() -> None:
    listing = "   118:    if day in table:\n   119:        total += 4200\n120:"
    assert split_sentences(listing) == [
        Sentence("if day in table:", "code"),
        Sentence("total += 4200", "code"),
    ]
    assert texts_of("2023: we moved to Porto.\n10:30 is lunch.") == [
        "2023: we moved to Porto.",
        "10:30 is lunch.",
    ]


def test_json_is_cut_between_leaves_and_keys_stay_with_values() -> None:
    text = (
        '{"customer": {"name": "Ana Ruiz", "mail": "ana@example.org", "tier": "gold"},'
        ' "orders": [{"id": "A-1", "total": 12.5}]}'
    )
    rows = split_sentences(text)
    assert [row.text for row in rows] == [
        '"customer": {"name": "Ana Ruiz", "mail": "ana@example.org", "tier": "gold"',
        '"orders": [{"id": "A-1", "total": 12.5',
    ]
    assert {row.kind for row in rows} == {"json"}


def test_an_item_of_json_is_one_row_with_the_price_that_belongs_to_it() -> None:
    small = '{"id": "A", "options": {"size": "S", "colour": "moss green"}, "available": true, "price": 61.07'
    large = '{"id": "B", "options": {"size": "L", "colour": "slate grey"}, "available": false, "price": 58.93'
    text = f'{{"name": "Rain Jacket", "variants": {{"7310-A": {small}}}, "7310-B": {large}}}}}}}'
    expected = [
        f'"name": "Rain Jacket", "variants": {{"7310-A": {small}',
        f'"7310-B": {large}',
    ]
    assert texts_of(text) == expected
    indented = texts_of(json.dumps(json.loads(text), indent=4))
    assert [row.replace("{ ", "{").replace(" }", "}") for row in indented] == expected


def test_what_is_left_of_a_large_item_ends_with_the_item() -> None:
    first = {"id": "A-1"} | {f"note_{at}": "the left valve drips a little" for at in range(12)}
    rows = texts_of(json.dumps([first | {"price": 53.5}, {"id": "B-2", "price": 12.5}]))
    assert rows[-1] == '"id": "B-2", "price": 12.5'
    assert rows[-2].endswith('"price": 53.5')


def test_json_nested_or_broken_without_end_is_read_once() -> None:
    deep = "[" * 50_000 + '{"a": 1' + ", [2" * 50_000
    for text in (deep, deep + "}" * 100_000, '{"a"' + ": {" * 50_000 + "}" * 30_000):
        assert sum(map(len, texts_of(text))) <= len(text)


def test_a_text_inside_json_is_cut_into_its_sentences() -> None:
    story = "The pump failed at 3.5 bar. " * 20
    rows = texts_of('{"log": "' + story + '"}')
    assert rows[0] == '"log": "The pump failed at 3.5 bar.'
    assert rows[1] == "The pump failed at 3.5 bar."


def test_a_long_run_is_cut_at_commas_and_never_inside_a_number() -> None:
    parts = texts_of("部件" * 90 + "，编号12345678" * 60)
    assert max(map(len, parts)) <= LONGEST_SENTENCE
    assert all(part.endswith(("，", "12345678")) for part in parts)
    digits = "7" * (3 * LONGEST_SENTENCE)
    assert texts_of(digits) == [digits]


@pytest.mark.parametrize("text", ["。", "```", "...", "|---|", "-", "﹏", "\u200ba"])
def test_no_text_is_too_odd_to_have_a_sentence(text: str) -> None:
    assert texts_of(text)


def test_what_cannot_be_seen_is_removed() -> None:
    hidden = "a\x00b\x1b[31mc\x1b[0m\u202ed\U000e0041e\ud800f\r\ng\u2028h"
    assert clean_text(hidden) == "abcdef\ng\nh"


@settings(deadline=None)
@given(st.text())
def test_every_piece_is_a_slice_of_the_cleaned_source_in_order(text: str) -> None:
    source = single_line(clean_text(text))
    at = 0
    for sentence in split_sentences(text):
        at = source.find(sentence.text, at)
        assert at >= 0
        at += len(sentence.text)
    assert bool(split_sentences(text)) == bool(source)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("0123456789.,")))
def test_no_cut_falls_between_two_digits(text: str) -> None:
    pieces = texts_of(f"第{text}章")
    for before, after in pairwise(pieces):
        assert not (before[-1].isdigit() and after[0].isdigit())
