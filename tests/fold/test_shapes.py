"""The shortcut past places where no shape begins hides no shape."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.fold import facts as shapes

_WHOLE = re.compile(shapes._SHAPES.pattern.replace(shapes._MAY_BEGIN, ""), shapes._SHAPES.flags)
_FRAGMENTS = [
    "2024-05-20", "T12:30", "US$ 5", "rmb 7", "RMB 7", "x", "1T10:00", "a.b", "v1.2", "May 3", "mar 2024", "Sept. 4",
    "3rd of june", "晚上8点半", "三次", "/a/b", "a/b/c", "--flag", "_x_", "snake_case", "fooBar", "iPhone", "f()",
    "Monday", "sundays", "day", "1st", "9 pm", "12:30pm", "$4.5k", "-3", "−4 kg", "#A-12", "10/12/2024", "see ",
    "the order ", "a@b.io", "main.py", "C:\\x", "www.a.b", " ", "\t", "\n", ".", ",", "-", "_", "年", "周三", "第二章",
]  # fmt: skip
texts = st.lists(
    st.one_of(st.sampled_from(_FRAGMENTS), st.text(alphabet="aZ_9 .-/:@$T月点二\n", max_size=5)),
    max_size=8,
).map("".join)


def _found(shape: re.Pattern[str], text: str) -> list[tuple[str | None, int, int]]:
    return [(match.lastgroup, *match.span()) for match in shape.finditer(text)]


@examples(600)
@given(text=texts)
def test_the_shortcut_hides_no_shape(text: str) -> None:
    assert _found(shapes._SHAPES, text) == _found(_WHOLE, text)


@pytest.mark.parametrize("left_out", [r"rmb\b|", r"|[a-z]+days?\b", r"(?-i:"])
def test_a_shortcut_that_knows_less_would_hide_some(left_out: str) -> None:
    hasty = shapes._MAY_BEGIN.replace(left_out, "(?:" if left_out == "(?-i:" else "", 1)
    assert hasty != shapes._MAY_BEGIN
    pattern = shapes._SHAPES.pattern.replace(shapes._MAY_BEGIN, hasty)
    shape = re.compile(pattern, shapes._SHAPES.flags)
    said = ["rmb 7 a head", "on Monday it rains", "the fooBar is open"]
    assert any(_found(shape, text) != _found(_WHOLE, text) for text in said)
