"""A sentence of a summary can be understood: it has its subject, its beginning, and its turn to itself."""

from __future__ import annotations

import pytest

from tests.fold.test_extract import tokens
from turnfold.fold import Passage, extract_summary, source_facts


def said(*lines: tuple[str, str]) -> list[Passage]:
    return [Passage(speaker, text, at) for at, (speaker, text) in enumerate(lines)]


def test_sentences_of_two_turns_never_share_a_line() -> None:
    source = said(
        ("user", "The flat in Braga is out. I pay at most 900 EUR."),
        ("user", "The one in Porto costs 1,100 EUR."),
    )
    assert extract_summary(source, limit=200, count=tokens).splitlines() == [
        "user: The flat in Braga is out. I pay at most 900 EUR.",
        "user: The one in Porto costs 1,100 EUR.",
    ]


ENGLISH = said(
    ("user", "Do you know the painter Ilda Moreira? Her work hangs in our hall."),
    (
        "assistant",
        "We have the catalogue of Ilda Moreira here. He or she signs late. It has 214 plates of 1987.",
    ),
    *[("user", f"Nice, tell me something else about lamps {word}.") for word in "abcdefgh"],
)
CHINESE = said(
    ("user", "你看过《雾港来信》吗？"),
    ("assistant", "《雾港来信》的导演是新人，口碑很好。片长才95分钟，节奏紧凑。"),
    *[("user", f"那再聊聊别的吧，比如灯具{word}。") for word in "甲乙丙丁戊己庚辛"],
)


@pytest.mark.parametrize(
    ("source", "fact", "name"),
    [
        (ENGLISH, "It has 214 plates of 1987.", "Ilda Moreira"),
        (CHINESE, "片长才95分钟", "《雾港来信》"),
    ],
)
def test_a_fact_about_it_is_shown_with_the_name(
    source: list[Passage], fact: str, name: str
) -> None:
    summary = ""
    for limit in range(16, 60, 4):
        summary = extract_summary(source, limit=limit, count=tokens)
        before, found, _ = summary.partition(fact)
        assert not found or name in before
    assert fact in summary


def test_a_fact_about_nobody_gives_way() -> None:
    source = said(
        ("user", "A friend made it, of 18 parts."),
        ("assistant", "They have 17 colours now."),
        ("user", "Our shop has 17 lamps now."),
    )
    assert extract_summary(source, limit=14, count=tokens) == "user: Our shop has 17 lamps now."


def test_full_agreement_is_no_quantity() -> None:
    for text in ("I 100% agree.", "I am 100% sure.", "我100%同意"):
        assert "number" not in {fact.kind for fact, _ in source_facts(said(("user", text))).graded}
    assert source_facts(said(("user", "The coat is 100% wool."))).graded


@pytest.mark.parametrize(
    "text",
    [
        "Thank you, Sofia, for confirming the exchange details of 12 May.",
        "Thanks, since the two lamps of 12 May arrived whole.",
    ],
)
def test_thanks_stay_with_what_they_are_for(text: str) -> None:
    chatter = [("user", f"Lamp number {at} has {at}7 watts and a red shade.") for at in range(9)]
    summary = extract_summary(said(("user", text), *chatter), limit=120, count=tokens)
    assert text in summary or text[-12:] not in summary


@pytest.mark.parametrize(
    ("filler", "plain"),
    [
        (
            "I want to explain my favourite methods of cooking in the following points.",
            "The lamp is old.",
        ),
        ("I moved some of my favourite recipes here for our dinner:", "The lamp is old."),
        ("作为你的AI伴侣，我喜欢每天在这里等你回家聊天。", "那盏灯很旧。"),
        ("我想跟你分享一下昨天买到的我最喜欢的东西。", "那盏灯很旧。"),
    ],
)
def test_what_only_announces_gives_way(filler: str, plain: str) -> None:
    source = said(("user", filler), ("user", plain))
    for only in (filler, plain):  # either fits alone
        assert only in extract_summary(said(("user", only)), limit=tokens(filler) + 4, count=tokens)
    summary = extract_summary(source, limit=tokens(filler) + 4, count=tokens)
    assert plain in summary
    assert filler not in summary


@pytest.mark.parametrize("chinese", [False, True])
def test_a_repeated_call_is_one_line_with_its_last_result(*, chinese: bool) -> None:
    task = "等订单A-10293发货。" if chinese else "Wait until order A-10293 is shipped."
    label = "助手 调用 look ×{}：" if chinese else "assistant calls look ×{}: "
    summary = ""
    for fold in range(2):
        loop = [("user", task)] if not fold else []
        for at in range(40):
            loop += [
                ("assistant calls look", "order=A-10293"),
                ("tool:look", f"status: packing step {fold}{at} failed"),
            ]
        summary = extract_summary(
            said(*loop),
            limit=90,
            count=tokens,
            previous=summary,
            language="zh" if chinese else "en",
        )
        assert f"{label.format(40 * (fold + 1))}order=A-10293" in summary
        assert f"packing step {fold}39" in summary
    assert summary.count("order=A-10293") == 1
