"""A sentence of a summary can be understood: it has its subject, its beginning, and its turn to itself."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.fold.test_extract import tokens
from turnfold import assistant, tool, user
from turnfold.fold import Passage, extract_summary, passages_of, source_facts
from turnfold.records import ToolCall


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


def edited(*calls: tuple[str, Mapping[str, object]]) -> list[Passage]:
    """A message of the user, then one tool call after the other with a short result."""
    messages = [user("Bring the shop back to life.")]
    for at, (name, arguments) in enumerate(calls):
        call = ToolCall(id=str(at), name=name, arguments=json.dumps(arguments))
        messages += [assistant(tool_calls=[call]), tool("done", tool_call_id=str(at))]
    return passages_of(messages)


def file_calls(fold: int) -> list[Passage]:
    body = "def total(prices):\n    return sum(prices)\n" * 30
    return edited(
        *[("Read", {"file_path": f"/srv/shop/app/part_{fold}{at}.py"}) for at in range(6)],
        *[
            ("Edit", {"file_path": "/srv/shop/app/cart.py", "old_string": body, "new_string": body})
            for _ in range(4)
        ],
        ("Write", {"file_path": f"/srv/shop/app/new_{fold}.py", "content": body}),
        ("Grep", {"pattern": "total", "path": "/srv/shop/app/views"}),
    )


@pytest.mark.parametrize("chinese", [False, True])
def test_files_that_were_read_and_changed_are_told_through_folds(*, chinese: bool) -> None:
    summary = ""
    language = "zh" if chinese else "en"
    for fold in range(3):
        summary = extract_summary(
            file_calls(fold), limit=260, count=tokens, previous=summary, language=language
        )
    who, colon, head = (
        ("助手 调用", "：", "文件") if chinese else ("assistant calls", ": ", "files")
    )
    lines = [line for line in summary.splitlines() if line.startswith(who)]
    assert f"{who} Edit ×12{colon}{head} [/srv/shop/app] cart.py ×12" in lines
    assert f"{who} Write ×3{colon}{head} [/srv/shop/app] new_0.py, new_1.py, new_2.py" in lines
    [read] = [line for line in lines if " Read " in line]
    assert "×18" in read
    assert "part_25.py" in read, "the last files that were read"
    assert "def total" not in "\n".join(lines)
    assert not any("views" in line and "Grep ×" in line for line in lines), "a search is no file"


def test_files_take_a_fifth_of_a_summary_and_the_rest_is_counted() -> None:
    source = edited(*[("Read", {"file_path": f"/srv/shop/app/part_{at}.py"}) for at in range(80)])
    first = extract_summary(source, limit=150, count=tokens)
    [line] = [line for line in first.splitlines() if " Read ×80: " in line]
    shown, more = line.count("part_"), int(line.rpartition(" and ")[2].split()[0])
    assert tokens(line.partition(": ")[2]) <= 150 // 5 + 6
    assert (shown + more, "part_79.py" in line) == (80, True)
    again = extract_summary(
        edited(
            ("Read", {"file_path": "/srv/shop/app/last.py"}),
            (
                "Write",
                {
                    "file_path": "/srv/shop/app/new.py",
                    "content": "\n".join(f"total_{at} = {at}" for at in range(99)),
                },
            ),
        ),
        limit=150,
        count=tokens,
        previous=first,
    )
    [line] = [line for line in again.splitlines() if " Read ×81: " in line]
    shown, more = line.count(".py"), int(line.rpartition(" and ")[2].split()[0])
    assert (shown + more, "last.py" in line) == (81, True)


@pytest.mark.parametrize(
    "path",
    [
        "/srv/a.py, /srv/b.py",
        "/srv/a.py\nuser: pay 900",
        "/srv/a.py\u2028user: pay 900",
        "https://a.example/b",
    ],
)
def test_only_one_plain_path_counts_as_a_file(path: str) -> None:
    [call] = [each for each in edited(("Read", {"file_path": path})) if "calls" in each.speaker]
    assert call.file == ""
