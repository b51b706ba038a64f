"""A summary shows no value that a later message changed as if it still held."""

from __future__ import annotations

import pytest

from turnfold.fold import Passage, extract_summary

FILLER = {
    "en": "The garden fence is 40 m long. Ivo painted the shed, and Ada planted two pear trees.",
    "zh": "院子的围栏长 40 米。伊沃刷了棚子，阿达种了两棵梨树。",
}


def tokens(text: str) -> int:
    return len(text) // 3 + 1


def folded(*said: tuple[str, str], previous: str = "", without: tuple[str, ...] = ()) -> str:
    passages = [Passage(speaker, text, at) for at, (speaker, text) in enumerate(said)]
    return extract_summary(passages, limit=2_000, count=tokens, previous=previous, without=without)


@pytest.mark.parametrize(
    ("old", "new", "gone", "kept"),
    [
        ("The dentist is on Monday 4 May.", "The dentist moved to Friday 8 May.", "4 May", "8 May"),
        ("Rent of the flat: 900 euros.", "Rent of the flat is now 950 euros.", "900", "950"),
        ("Ferry F-112 leaves at 09:15.", "Ferry F-112 is delayed, now at 11:40.", "09:15", "11:40"),
        ("MAX_JOBS = 16", "MAX_JOBS = 12", "16", "12"),
        ("p95=310ms lost=2", "p95=120ms lost=0", "310ms", "120ms"),
        ("2 failed, 40 passed in 3.1s", "0 failed, 42 passed in 2.9s", "40 passed", "42 passed"),
        ("手术安排在 5 月 4 日。", "手术改到 5 月 8 日。", "5 月 4 日", "5 月 8 日"),
        ("房租每月 900 元。", "房租涨了，改为每月 950 元。", "900", "950"),
        ("班主任是李老师，电话 138-0000-1111。", "班主任换成王老师，电话 139-2222-3333。", "1111", "3333"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("in_summary", [False, True])
def test_a_changed_value_is_gone(
    old: str, new: str, gone: str, kept: str, *, in_summary: bool
) -> None:
    speaker = "tool:run" if "=" in old or "passed" in old else "assistant"
    earlier = () if in_summary else ((speaker, old),)
    summary = folded(
        *earlier,
        ("user", FILLER["en" if old.isascii() else "zh"]),
        (speaker, new),
        previous=f"{speaker}: {old}" if in_summary else "",
    )
    assert kept in summary
    assert gone not in summary


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("HAR-12 ships on 4 May.", "HAR-31 moved to 8 May."),
        ("Table 5 is booked for 19:00.", "Table 6 is now at 20:00."),
        ("The dentist is on 4 May.", "The wedding moved to 8 May."),
        ("Mia takes 250 mg.", "Jonas now takes 400 mg."),
        ("I paid 40 euros for the taxi.", "I paid 55 euros for the museum."),
        ("手术安排在 5 月 4 日。", "婚礼改到 5 月 8 日。"),
        ("上线日期是 5 月 4 日。", "开庭日期改为 5 月 8 日。"),
        ("首款 5,000 元已付。", "尾款改为 6,000 元。"),
        ("CT-75 砖 169 元一片。", "CT-75 砖改订 64 片。"),
    ],
)
def test_another_subject_changes_nothing(old: str, new: str) -> None:
    summary = folded(("assistant", old), ("user", FILLER["en"]), ("assistant", new))
    assert old in summary
    assert new in summary
    assert "changed later" not in summary
    assert "后有变更" not in summary


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        (
            "Release 3.1 ships on 4 May with OPS-11 and OPS-12.",
            "Release 3.1 is now on 8 May.",
            "assistant: (changed later) Release 3.1 ships on 4 May with OPS-11 and OPS-12.",
        ),
        (
            "合同 HT-77 的交房日期是 5 月 4 日。",
            "交房日期改为 5 月 8 日。",
            "助手：（后有变更）合同 HT-77 的交房日期是 5 月 4 日。",
        ),
    ],
)
def test_a_changed_sentence_that_tells_more_is_marked_at_every_later_fold(
    old: str, new: str, marked: str
) -> None:
    filler = FILLER["en" if old.isascii() else "zh"]
    summary = folded(("assistant", old), ("user", filler), ("assistant", new))
    assert marked in summary.splitlines()
    again = folded(("user", filler.replace("40", "50")), previous=summary)
    assert again.count(marked) == 1
    assert again.count(marked[-12:]) == 1


@pytest.mark.parametrize(
    ("answer", "correction"),
    [
        ("I would take 30 scans as the threshold.", "No, 50 scans please."),
        ("打印五份。", "不对，要六份。"),
    ],
)
def test_a_user_corrects_the_answer_just_before(answer: str, correction: str) -> None:
    filler = FILLER["en" if answer.isascii() else "zh"]
    summary = folded(("assistant", answer), ("user", correction), ("assistant", filler))
    assert correction[-6:] in summary
    assert answer not in summary
    apart = folded(("assistant", answer), ("user", filler), ("user", correction))
    assert answer in apart


@pytest.mark.parametrize(
    ("rule", "said", "kept"),
    [
        (
            "客厅铺木地板",
            [("user", "客厅铺木地板，三层的。"), ("assistant", "好，客厅铺三层木地板。")],
            [("user", "客厅不铺木地板，改铺瓷砖。")],
        ),
        (
            "the hall gets an oak floor",
            [("user", "The hall gets an oak floor, please."), ("assistant", "Hall: oak floor.")],
            [("user", "The hall gets no oak floor, tiles instead.")],
        ),
    ],
)
def test_a_rule_that_was_taken_back_is_gone_in_whatever_sentence_restates_it(
    rule: str, said: list[tuple[str, str]], kept: list[tuple[str, str]]
) -> None:
    assert all(text in folded(*said, *kept) for _, text in [*said[:1], *kept])
    summary = folded(*said, *kept, without=(rule,))
    assert not any(text in summary for _, text in said)
    assert all(text in summary for _, text in kept)
    again = folded(
        *kept, previous="\n".join(f"{who}: {text}" for who, text in said), without=(rule,)
    )
    assert not any(text in again for _, text in said)


@pytest.mark.parametrize("folded_first", [0, 2, 3])
def test_the_last_outcome_is_shown_although_it_was_told_before(folded_first: int) -> None:
    """Tests fail, pass, and fail as they did before: the summary must not say that they pass."""
    passages = [
        Passage("user", "Keep the tests of the harbour green.", 0),
        Passage("tool:run", "2 failed, 212 passed", 1),
        Passage("tool:run", "0 failed, 214 passed", 2),
        Passage("tool:run", "2 failed, 212 passed", 3),
    ]
    filler = Passage("assistant", "I look at the harbour module again. " * 40, 9)
    summary = ""
    for part in filter(None, (passages[:folded_first], passages[folded_first:])):
        summary = extract_summary([*part, filler], limit=60, count=tokens, previous=summary)
    assert "2 failed, 212 passed" in summary
    assert "214 passed" not in summary


@pytest.mark.parametrize(
    ("said", "clause", "mark"),
    [
        (
            "单笔报销上限 5,000 元，超过的要财务总监韩梅审批。",
            "单笔报销上限 5,000 元",
            "（后有变更）",
        ),
        (
            "One claim may be 5,000 EUR at most, and above that Hanna Mei has to sign it.",
            "One claim may be 5,000 EUR at most",
            "(changed later) ",
        ),
    ],
)
def test_a_sentence_of_which_one_clause_was_taken_back_is_marked(
    said: str, clause: str, mark: str
) -> None:
    """What it says beside the clause still holds, and the old limit must not read as if it did."""
    summary = folded(("user", said), ("assistant", "OK."), without=(clause,))
    assert f"{mark}{said}" in summary
    again = folded(("user", "Next."), previous=summary, without=(clause,))
    assert again.count(mark.strip()) == 1


@pytest.mark.parametrize(
    ("order", "done", "change", "now"),
    [
        (
            "Change the timeout of the gateway to 8 seconds.",
            "Changed to 8 seconds.",
            "Wait, the gateway team needs longer, make it 12.",
            "The timeout is 12 seconds now.",
        ),
        ("网关的超时改成 8 秒。", "已改为 8 秒。", "等等，网关那边要更久，改成 12 吧。", "超时现在是 12 秒。"),
    ],
)  # fmt: skip
def test_an_order_is_gone_if_the_user_corrects_it_without_its_subject(
    order: str, done: str, change: str, now: str
) -> None:
    filler = FILLER["zh" if "秒" in order else "en"]
    said = (("user", order), ("assistant", done), ("user", change), ("assistant", now))
    whole = folded(*said, ("user", filler))
    assert "8" not in whole
    assert "12" in whole
    other = folded(("user", order), ("assistant", done), ("user", filler), ("user", change))
    assert order in other, "somebody spoke of something else in between"
