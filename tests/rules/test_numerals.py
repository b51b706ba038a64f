"""Chinese numerals and digits are the same amount."""

from __future__ import annotations

import pytest

from turnfold.rules.numerals import with_digits


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("四百块", "400块"),
        ("两千字", "2000字"),
        ("一百零五", "105"),
        ("一千五", "1500"),
        ("二百五", "250"),
        ("一万二千", "12000"),
        ("四十万", "40万"),
        ("十二点", "12点"),
        ("十个人", "10个人"),
        ("二十三号", "23号"),
    ],
)
def test_a_numeral_is_written_in_digits(text: str, digits: str) -> None:
    assert with_digits(text) == digits


@pytest.mark.parametrize(
    "text", ["万一下雨", "千万别", "十分好", "三五个人", "七八十人", "一起", "budget"]
)
def test_words_that_look_like_numerals_stay(text: str) -> None:
    assert with_digits(text) == text
