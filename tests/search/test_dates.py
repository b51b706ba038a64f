"""Which days a question names, in English and Chinese."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.text import named_days

TODAY = date(2023, 6, 14)  # a Wednesday

DAYS = {
    "What did I cook on May 4th?": ("2023-05-04", "2023-05-04"),
    "What was said on the 4th of July, 2021?": ("2021-07-04", "2021-07-04"),
    "What did he buy on 7 May 2023?": ("2023-05-07", "2023-05-07"),
    "Who called on Nov. 3?": ("2022-11-03", "2022-11-03"),
    "What changed on 2023-05-04?": ("2023-05-04", "2023-05-04"),
    "What happened in February 2020?": ("2020-02-01", "2020-02-29"),
    "Which tickets were closed in March?": ("2023-03-01", "2023-03-31"),
    "What did we decide yesterday?": ("2023-06-13", "2023-06-13"),
    "And the day before yesterday?": ("2023-06-12", "2023-06-12"),
    "What broke three days ago?": ("2023-06-11", "2023-06-11"),
    "What did I ask two weeks ago?": ("2023-05-28", "2023-06-03"),
    "What did you say last Friday?": ("2023-06-09", "2023-06-09"),
    "What did you say on Wednesday?": ("2023-06-07", "2023-06-07"),
    "What did we do last week?": ("2023-06-05", "2023-06-11"),
    "What did I spend last month?": ("2023-05-01", "2023-05-31"),
    "在4月28日我说了什么？": ("2023-04-28", "2023-04-28"),
    "5月2号我心情怎么样？": ("2023-05-02", "2023-05-02"),
    "十一月二十八号是谁来的？": ("2022-11-28", "2022-11-28"),
    "2021年2月聊了什么？": ("2021-02-01", "2021-02-28"),
    "昨天我们定了什么？": ("2023-06-13", "2023-06-13"),
    "前天呢？": ("2023-06-12", "2023-06-12"),
    "大前天呢？": ("2023-06-11", "2023-06-11"),
    "三天前哪里出错了？": ("2023-06-11", "2023-06-11"),
    "两周前我问了什么？": ("2023-05-28", "2023-06-03"),
    "上周五你说了什么？": ("2023-06-09", "2023-06-09"),
    "周三你说了什么？": ("2023-06-07", "2023-06-07"),
    "上周做了什么？": ("2023-06-05", "2023-06-11"),
    "上个月花了多少？": ("2023-05-01", "2023-05-31"),
}


@pytest.mark.parametrize(("question", "days"), DAYS.items(), ids=DAYS)
def test_a_question_names_a_day_or_a_period(question: str, days: tuple[str, str]) -> None:
    assert [(str(each.first), str(each.last)) for each in named_days(question, TODAY)] == [days]


@pytest.mark.parametrize(
    "question",
    [
        "May I have 3 of them?",
        "Is version 1.2.3 out?",
        "Do we march at 5:30?",
        "What runs every Friday?",
        "What is on Fridays?",
        "What happened on Feb 30?",
        "How is 2031-01-01 written?",
        "Is it 100 days?",
        "每周五有什么？",
        "还要3个月吗？",
        "三点五十分开会吗？",
    ],
)
def test_a_question_that_names_no_day_of_the_past(question: str) -> None:
    assert named_days(question, TODAY) == []


def test_two_days_of_one_question_and_the_year_of_the_newest_message() -> None:
    found = named_days("May 4th or 5月6日?", date(2026, 1, 1), newest=date(2023, 5, 20))
    assert [str(each.first) for each in found] == ["2023-05-04", "2023-05-06"]


@given(st.text(alphabet="0123456789月日号年周上前天一十 .-/:mayonlstdaghwek"), st.dates())
def test_no_text_fails_and_every_period_begins_in_the_past(text: str, today: date) -> None:
    for first, last, words in named_days(text, today):
        assert words in text
        assert first <= today
        assert timedelta(0) <= last - first <= timedelta(days=31)
