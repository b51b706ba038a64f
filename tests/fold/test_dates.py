"""A summary says when something was said, where its words say "yesterday"."""

from __future__ import annotations

import pytest

from tests.fold.test_extract import tokens
from turnfold import Budget, Memory
from turnfold.fold import (
    Passage,
    check_fidelity,
    day_of,
    extract_summary,
    history_text,
    split_prefix,
    with_annex,
)
from turnfold.text import has_relative_time

SAID = [
    Passage("user", "I started a new job in Lyon last week. My name is Ines.", 1, day="2023-03-09"),
    Passage("assistant calls look", "query=rents since last month", 1, day="2023-03-09"),
    Passage("Rui", "The flat in Braga has 82 square metres.", 2, day="2023-05-25"),
    Passage("Rui", "We signed the contract yesterday.", 3, day="2023-05-25"),
]
SAID_ZH = [
    Passage("user", "我叫何敏，上周开始在成都上班。", 1, day="2023-03-09"),
    Passage("user", "今天又来找你聊天啦，我哥哥借给我8万元。", 2, day="2023-05-25"),
]


def test_a_relative_date_has_the_date_of_its_message_beside_the_speaker() -> None:
    lines = extract_summary(SAID, limit=300, count=tokens).splitlines()
    assert lines == [
        "user (2023-03-09): I started a new job in Lyon last week.",
        "user: My name is Ines.",
        "assistant calls look: query=rents since last month",
        "Rui: The flat in Braga has 82 square metres.",
        "Rui (2023-05-25): We signed the contract yesterday.",
    ]
    assert extract_summary(SAID_ZH, limit=300, count=tokens).splitlines() == [
        "用户（2023-03-09）：我叫何敏，上周开始在成都上班。",
        "用户（2023-05-25）：今天又来找你聊天啦，我哥哥借给我8万元。",
    ]


@pytest.mark.parametrize("source", [SAID, SAID_ZH])
def test_the_date_stays_when_a_summary_is_folded_again(source: list[Passage]) -> None:
    summary = extract_summary(source, limit=300, count=tokens)
    for number in range(3):
        later = [Passage("user", f"Crate {number} of 17 goes to Porto. 第{number}箱", 9)]
        summary = extract_summary(later, limit=300, count=tokens, previous=summary)
    dated = [line for line in summary.splitlines() if "last week" in line or "上周" in line]
    assert [day_of(line) for line in dated] == ["2023-03-09"]
    assert split_prefix(dated[0])[0] in ("user", "用户")
    rui = "Rui (2023-05-25): We signed the contract yesterday."
    assert split_prefix(rui, frozenset({"Rui"})) == ("Rui", "We signed the contract yesterday.")


def test_a_model_that_writes_a_summary_sees_the_dates() -> None:
    history = history_text(SAID, previous="")
    assert "\nuser (2023-03-09): I started a new job" in history
    assert "\nassistant calls look: query" in history
    lost = check_fidelity([Passage("user", "Tomorrow pay 42,000 EUR.", 1, day="2023-03-09")], "-")
    assert "user (2023-03-09): Tomorrow pay" in with_annex("-", lost, limit=90, count=tokens)


@pytest.mark.parametrize(("zone", "day"), [("UTC", "2023-05-24"), ("Asia/Shanghai", "2023-05-25")])
def test_the_date_is_that_of_the_memory_s_zone(zone: str, day: str) -> None:
    at = 1_684_944_000_000_000  # 2023-05-24 16:00 UTC
    with Memory(budget=Budget(max_tokens=600), clock=lambda: at, time_zone=zone) as memory:
        session = memory.session("s")
        for number in range(12):
            session.user(f"Yesterday I packed {number}7 crates for the fair in Porto, box by box.")
            session.assistant("Good.")
        session.fold()
        checkpoint = session.checkpoints()[-1]
    assert f"user ({day}): Yesterday I packed" in checkpoint.text


@pytest.mark.parametrize(
    ("text", "relative"),
    [
        ("We met three days ago.", True),
        ("See you on Friday!", True),
        ("我们周五见。", True),
        ("两个月前搬的家", True),
        ("I swim every Monday.", False),
        ("每周三游泳", False),
        ("The last page is missing.", False),
        ("2023年5月搬家", False),
        ("a week has seven days", False),
    ],
)
def test_which_words_tell_a_time_by_another(text: str, *, relative: bool) -> None:
    assert has_relative_time(text) is relative
