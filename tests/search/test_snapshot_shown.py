"""What is brought back never costs more than allowed, says what is missing, and how to ask for it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.errors import InvalidOption
from turnfold.text import search_terms
from turnfold.tokens import cautious_counter
from turnfold.workspace_snapshots import (
    RecallRequest,
    SnapshotPart,
    best_line,
    parse_request,
    show_parts,
)
from turnfold.workspace_snapshots import recall as rendering

count = cautious_counter().count_text

some_text = st.text(
    st.sampled_from("abc 中文字。\n\nx=1{}\t🙂"), max_size=3_000
)  # newlines often: lines are what is asked for
some_parts = st.lists(
    st.builds(
        lambda heading, text, first: SnapshotPart(
            heading,
            text,
            first,
            first + text.count("\n"),
            (("turn_numbers", [2]),),
            starts_late=True,
        ),
        st.text(st.sampled_from("ab 头"), min_size=1, max_size=60),
        some_text,
        st.integers(1, 50),
    ),
    max_size=12,
)


@given(some_parts, st.integers(64, 3_000), st.lists(st.text(max_size=200), max_size=3))
@examples(200)
def test_the_limit_holds_for_anything(
    parts: list[SnapshotPart], tokens: int, remarks: list[str]
) -> None:
    text, cut = show_parts(parts, tokens=tokens, count=count, remarks=remarks)
    assert count(text) <= tokens
    if not cut:
        assert all(part.text.strip() in text for part in parts)


def test_a_limit_that_is_not_counted_at_the_end_would_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [SnapshotPart(f"头 {number}", "字" * 500) for number in range(9)]

    def careless(
        parts: list[SnapshotPart], remarks: list[str], tokens: int, count: object
    ) -> tuple[str, bool]:
        del tokens, count
        return "\n".join([*(part.text for part in parts), *remarks]), False

    monkeypatch.setattr(rendering, "_shown", careless)
    text, cut = show_parts(parts, tokens=200, count=count)
    assert count(text) <= 200  # what was made too long is thrown away
    assert cut


def test_a_cut_names_the_lines_and_the_question_that_shows_them() -> None:
    text = "\n".join(f"line {number} of the file" for number in range(1, 401))
    shown, cut = show_parts(
        [SnapshotPart("src/a.py", text, 1, 400, (("turn_numbers", [7]), ("path", "src/a.py")))],
        tokens=300,
        count=count,
    )
    asked = re.search(r"recall_context\((\{.*\})\)", shown)
    assert cut
    assert asked
    question = json.loads(asked[1])
    first = question["lines"][0]
    assert question == {"turn_numbers": [7], "path": "src/a.py", "lines": [first, 400]}
    assert f"line {first - 1} of" in shown
    assert f"line {first} of" not in shown
    assert parse_request(question).lines == (first, 400)


def test_short_parts_leave_their_room_to_long_ones() -> None:
    parts = [SnapshotPart(name, "x") for name in "abcdefgh"] + [SnapshotPart("long", "词 " * 400)]
    shown, cut = show_parts(parts, tokens=1_000, count=count)
    assert not cut
    assert shown.count("词") == 400


def test_more_parts_than_can_be_named_are_counted() -> None:
    parts = [SnapshotPart(f"part {number}", "many words of text " * 20) for number in range(50)]
    shown, cut = show_parts(parts, tokens=200, count=count)
    assert cut
    assert re.search(r"\d+ more are not shown", shown)


def test_too_few_tokens_are_refused() -> None:
    with pytest.raises(InvalidOption, match="64"):
        show_parts([], tokens=63, count=count)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("timeout", 120),
        ("Timeouts", 120),
        ("超时时间", 250),
        ("超時", 250),
        ("retry-after", 330),
        ("ｒｅｔｒｙ-after", 330),
    ],
)
def test_the_line_that_matches_is_found(words: str, line: int) -> None:
    lines = [f"nothing here {number}" for number in range(1, 401)]
    lines[119] = "the timeout is 40 s"
    lines[249] = "请求的超时时间为四十秒"
    lines[329] = "send the Retry-After header"
    first, held = best_line("\n".join(lines), search_terms(words))
    assert held
    assert first == line - 3


def test_no_line_matching_is_said() -> None:
    assert best_line("one\ntwo", search_terms("nowhere")) == (1, False)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"turnNumbers": [2]}, RecallRequest(turn_numbers=(2,))),
        ({"turn_numbers": 2}, RecallRequest(turn_numbers=(2,))),
        ({"turn_numbers": [2, 3], "keywords": None}, RecallRequest(turn_numbers=(2, 3))),
        ({"keywords": "性能"}, RecallRequest(keywords=("性能",))),
        ({"contextIds": ["ctx_1_x"]}, RecallRequest(context_ids=("ctx_1_x",))),
        ({"path": "a.py", "lines": [3, 9]}, RecallRequest(path="a.py", lines=(3, 9))),
        ({"path": "a.py", "lines": 3}, RecallRequest(path="a.py", lines=(3, 3))),
    ],
)
def test_what_can_be_understood_is(given: dict[str, object], wanted: RecallRequest) -> None:
    assert parse_request(given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"turn_numbers": []},
        {"turn_numbers": [0]},
        {"turn_numbers": [-1]},
        {"turn_numbers": [True]},
        {"turn_numbers": ["2"]},
        {"turn_numbers": [2.5]},
        {"turn_numbers": [10**12]},
        {"turn_numbers": list(range(1, 52))},
        {"turn_numbers": [1], "turnNumbers": [2]},
        {"keywords": [""]},
        {"keywords": ["x" * 501]},
        {"keywords": [3]},
        {"lines": [1, 2]},
        {"path": "a", "lines": [3, 2]},
        {"path": "a", "lines": [0, 2]},
        {"path": "a", "lines": [1, 2, 3]},
        {"path": 3},
        {"query": "x"},
        "turn 2",
        [2],
    ],
)
def test_what_cannot_is_refused_with_the_reason(given: object) -> None:
    with pytest.raises(InvalidOption):
        parse_request(given)  # pyright: ignore[reportArgumentType]
