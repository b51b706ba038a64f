"""A short answer stands after its question, and tool output that nobody took up stands nowhere."""

from __future__ import annotations

import json

import pytest

from turnfold.fold import Passage, extract_summary, passages_of
from turnfold.records import Message, ToolCall, assistant, tool


def tokens(text: str) -> int:
    return len(text.encode()) // 3 + 1


PADDING = {
    "en": " ".join(
        f"A {colour} {house} by the {place} looks quiet."
        for colour in ("red", "green", "grey")
        for house in ("cottage", "barn", "chapel")
        for place in ("meadow", "creek", "orchard")
    ),
    "zh": "".join(
        f"{place}旁边的{colour}{house}看上去很安静。"
        for colour in ("红色", "绿色", "灰色")
        for house in ("小屋", "谷仓", "教堂")
        for place in ("草地", "小溪", "果园")
    ),
}


def talk(*lines: tuple[str, str]) -> list[Passage]:
    return [Passage(speaker, text, at) for at, (speaker, text) in enumerate(lines)]


@pytest.mark.parametrize(
    ("question", "answer", "language"),
    [
        ("When does the hotel let us in?", "15:00.", "en"),
        ("Which lock do you suggest?", "Deschmann Q50M.", "en"),
        ("木工什么时候进场？", "5月8日。", "zh"),
        ("门锁的预算多少？", "2,199元。", "zh"),
    ],
)
def test_a_short_answer_follows_its_question_at_every_fold(
    question: str, answer: str, language: str
) -> None:
    said = talk(("user", question), ("assistant", answer), ("user", PADDING[language]))
    roomy = extract_summary(said, limit=90, count=tokens)
    lines = roomy.splitlines()
    at = next(at for at, line in enumerate(lines) if line.endswith(answer))
    assert lines[at - 1].endswith(question)
    again = extract_summary(
        talk(("user", PADDING[language])), limit=60, count=tokens, previous=roomy
    )
    assert answer not in again or question in again
    for limit in range(8, 90, 4):
        summary = extract_summary(said, limit=limit, count=tokens)
        assert answer not in summary or question in summary or len(summary.splitlines()) == 1


@pytest.mark.parametrize(
    ("order", "answer"),
    [
        ("Lower it to 2,000.", "The alert threshold is 2,000 pending messages now."),
        ("查到了，3000，收据 WY-19。", "记下：装修押金 3,000 元，收据 WY-19。"),
    ],
)
def test_of_a_short_order_and_its_full_answer_the_answer_is_kept(order: str, answer: str) -> None:
    padding = PADDING["en" if order.isascii() else "zh"]
    summary = extract_summary(
        talk(("user", order), ("assistant", answer), ("user", padding)), limit=70, count=tokens
    )
    assert answer in summary
    assert order not in summary


@pytest.mark.parametrize(
    ("row", "taken_up", "answer"),
    [
        (
            "2026-05-03T00:10:00Z INFO batch={n} carrier=dpd rows=7{n}",
            "4417",
            "Batch 4417 is late.",
        ),
        ("[{n}] 瓷砖 ML-{n} 价格 1{n} 元 规格 800x800", "4417", "选 ML-4417，最合适。"),
        (
            '{{"sku": "KX-{n}", "price": 2{n}, "stock": 9{n}, "place": "Oder"}}',
            "4417",
            "Take KX-4417.",
        ),
    ],
)
def test_of_the_rows_of_a_tool_those_stay_that_an_answer_takes_up(
    row: str, taken_up: str, answer: str
) -> None:
    numbers = [str(4_400 + each) for each in range(40)]
    rows = [row.format(n=n) for n in numbers]
    output = f"[{','.join(rows)}]" if row[0] == "{" else "\n".join(rows)
    failed = "ERROR disk full on node-7"
    said = talk(
        ("tool:list", output),
        ("tool:log", failed),
        ("assistant", answer),
        ("user", PADDING["en"]),
    )
    summary = extract_summary(said, limit=240, count=tokens)
    assert taken_up in summary
    assert failed in summary
    assert not any(n in summary for n in numbers if n != taken_up)


def test_records_of_a_tool_are_cut_between_lines() -> None:
    steps = [f"     step {n:03}: rate=2000/s ok={n} p50={n}ms p95=6{n}ms" for n in range(30)]
    summary = extract_summary(talk(("tool:run", "\n".join(steps))), limit=60, count=tokens)
    lines = [line.removeprefix("tool:run: ") for line in summary.splitlines()]
    assert lines
    assert all(line in (step.strip() for step in steps) for line in lines)


def test_a_call_is_written_as_keys_and_values() -> None:
    def call(arguments: str) -> str:
        message = assistant(tool_calls=[ToolCall("c", "gitlab", arguments)])
        (passage,) = passages_of([message])
        assert passage.speaker == "assistant calls gitlab"
        return passage.text

    assert call('{"action": "list", "milestone": "4.2", "open": true}') == (
        "action=list, milestone=4.2, open=true"
    )
    for odd in (
        "",
        "{}",
        "[1]",
        "{broken",
        '{"a": {"b": 1}}',
        '{"a": "x\\ny"}',
        f'{{"a": "{"x" * 400}"}}',
    ):
        if odd:
            assert call(odd) == odd


def test_a_call_is_one_line_without_the_content_of_a_file() -> None:
    content = "\n".join(
        f"def helper_{number}(value_{number}): return {number}" for number in range(60)
    )
    messages = [
        assistant(
            tool_calls=[
                ToolCall("a", "write", json.dumps({"path": "src/ports.py", "content": content}))
            ]
        ),
        assistant(tool_calls=[ToolCall("b", "run", '{"command": "pytest -q\\nrm -r build"}')]),
        assistant("All 12 tests of src/ports.py pass."),
    ]
    summary = extract_summary(passages_of(messages), limit=100, count=tokens)
    assert summary.splitlines() == [
        "assistant calls write: path=src/ports.py, content=def helper_0(value_0): return 0 …",
        "assistant calls run: command=pytest -q …",
        "assistant: All 12 tests of src/ports.py pass.",
    ]


def test_calls_outweigh_the_code_that_they_returned() -> None:
    code = "\n".join(f"    state_{number} = compute({number}, mode=fast)" for number in range(40))
    passages = [
        *(
            Passage("assistant calls read", f"path=src/part_{number}.py", 2 * number)
            for number in range(6)
        ),
        *(
            Passage("tool:read", code.replace("state", f"state{number}"), 2 * number + 1)
            for number in range(6)
        ),
    ]
    summary = extract_summary(passages, limit=120, count=tokens)
    assert all(f"src/part_{number}.py" in summary for number in range(6))


def test_a_message_that_is_shown_beside_the_summary_is_left_out() -> None:
    passages = [
        Passage("user", "Call the shop Vega & Sons.", 3),
        Passage("user", "It opens on 5 May.", 4),
    ]
    assert extract_summary(passages, limit=60, count=tokens, shown=3) == "user: It opens on 5 May."
    assert "Vega" in extract_summary(passages[:1], limit=60, count=tokens, shown=3)


def test_the_parts_of_a_chinese_list_stay_together() -> None:
    asked = "请在 5 月 8 日上午 9:30 给我打电话，号码 138-5712-0946，谢谢。"
    answer = "明白：餐桌 7731 寄文三路 128 号；沙发 1185 寄江南大道 588 号恒鑫大厦 1 幢 1203。"
    said = talk(("user", asked), ("assistant", answer), ("user", PADDING["zh"]))
    for limit in range(20, 160, 2):
        summary = extract_summary(said, limit=limit, count=tokens)
        assert ("7731" in summary) == ("1203" in summary)
    again = extract_summary(said[2:], limit=90, count=tokens, previous=f"助手：{answer}")
    assert answer in again


@pytest.mark.parametrize(
    ("question", "answer", "language"),
    [
        ("才村离古城远吗", "大约 4 公里，打车 15 元左右，10 分钟。", "zh"),
        ("Is it far from the centre?", "About 4 km, a taxi is 15 euros.", "en"),
    ],
)
def test_distances_and_prices_follow_their_question(
    question: str, answer: str, language: str
) -> None:
    said = talk(("user", question), ("assistant", answer), ("user", PADDING[language]))
    summary = extract_summary(said, limit=90, count=tokens)
    assert answer in summary
    assert question in summary


@pytest.mark.parametrize("filler", ["Any time!", "非常抱歉！", "那行"])
def test_an_exclamation_takes_no_room_that_is_left(filler: str) -> None:
    language = "zh" if filler[0] > "z" else "en"
    said = talk(("assistant", filler), ("user", PADDING[language]))
    for limit in range(10, 200, 10):
        assert filler not in extract_summary(said, limit=limit, count=tokens)


@pytest.mark.parametrize("order", ["Fix both.", "两个都修。"])
def test_an_order_that_only_points_back_gives_way(order: str) -> None:
    language = "zh" if order[0] > "z" else "en"
    said = talk(("user", order), ("user", PADDING[language]))
    for limit in range(10, 200, 10):
        assert order not in extract_summary(said, limit=limit, count=tokens)


def test_a_summary_of_a_chinese_coding_session_is_chinese() -> None:
    call = ToolCall(
        id="a", name="write", arguments=json.dumps({"code": "import csv, sys, os " * 40})
    )
    messages = [
        Message("user", "写个脚本，列出重复扣款的订单。"),
        assistant([call]),
        tool("ok: 41 lines written", tool_call_id="a"),
        Message("assistant", "脚本写好了，有 3 个订单：o-88213、o-88391、o-86120。"),
    ]
    summary = extract_summary(passages_of(messages), limit=60, count=tokens)
    assert "助手：脚本写好了" in summary


@pytest.mark.parametrize(
    ("question", "kept"), [("哪年出生的？", False), ("门卫室的电话几点打得通？", True)]
)
def test_a_value_whose_question_names_nobody_gives_way(question: str, *, kept: bool) -> None:
    said = talk(("user", question), ("assistant", "1955年5月18日。"), ("user", PADDING["zh"]))
    assert ("1955" in extract_summary(said, limit=90, count=tokens)) is kept
