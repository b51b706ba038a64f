"""Making a message smaller without breaking it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.window.transcripts import CharacterText, UnevenText, answers, asks, messages, texts
from turnfold.records import (
    ImagePart,
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    user,
)
from turnfold.text import unusual_lines
from turnfold.tokens import TokenCounter, counter_for
from turnfold.window import common_cap, shrink_message, shrink_text
from turnfold.window import shortened_messages as shrink
from turnfold.window.shortened_messages import SMALLEST_CAP, may_be_shrunk_from, shrinkable_costs

CHEAP = TokenCounter(CharacterText())
EXACT = counter_for("gpt-4o")
LONG = "The first words matter. " + "and so on " * 400 + "The last words matter too."


class TestText:
    def test_a_text_that_fits_is_left_alone(self) -> None:
        assert shrink_text("short", 8, EXACT.count_text) == "short"

    @pytest.mark.parametrize(
        ("text", "note"),
        [
            (LONG, "[… {:,} tokens in full, stored as #12 …]"),
            (
                "开头很重要。" + "然后继续说下去" * 300 + "结尾也很重要。",
                "[… 全文共 {:,} token，存为 #12 …]",
            ),
        ],
    )
    def test_a_long_text_keeps_its_head_and_its_tail_around_a_note(
        self, text: str, note: str
    ) -> None:
        shrunk = shrink_text(text, 80, EXACT.count_text, reference="#12")
        assert shrunk[:5] == text[:5]
        assert shrunk[-5:] == text[-5:]
        assert note.format(EXACT.count_text(text)) in shrunk
        assert 70 <= EXACT.count_text(shrunk) <= 80

    def test_the_head_gets_two_thirds(self) -> None:
        head, tail = shrink_text("x" * 30_000, 1_000, CHEAP.count_text).split("\n[", 1)
        assert 0.60 < len(head) / (len(head) + len(tail)) < 0.70

    def test_a_tiny_cap_has_room_for_a_mark_only(self) -> None:
        assert shrink_text(LONG, SMALLEST_CAP, EXACT.count_text).count("…") == 1

    @settings(deadline=None)
    @given(text=texts(), cap=st.integers(0, 300))
    def test_no_text_is_ever_above_its_cap(self, text: str, cap: int) -> None:
        for counter in (CharacterText(), UnevenText(), EXACT.text):
            assert counter.count(shrink_text(text, cap, counter.count)) <= cap

    @given(text=texts(), cap=st.integers(8, 100))
    def test_the_same_text_and_cap_give_the_same_bytes(self, text: str, cap: int) -> None:
        once = shrink_text(text, cap, CHEAP.count_text, reference="#1")
        assert once == shrink_text(text.encode().decode(), cap, CHEAP.count_text, reference="#1")


def records(language: str, *, odd: str = "") -> str:
    """A log that repeats itself, with one odd line in the middle."""
    usual = {
        "en": "INFO gate {gate} opened by {name}, humidity {value} %",
        "zh": "工地打卡 工种={name} 状态=正常 湿度={value}%",
    }[language]
    names = ("Ann", "Bob") if language == "en" else ("水电", "木工")
    lines = [
        f"2026-04-{day:02} 08:{day * 7 % 60:02} "
        + usual.format(gate=day % 4, name=names[day % 2], value=40 + day)
        for day in range(1, 29)
    ] * 4
    return "\n".join([*lines[:61], odd, *lines[61:]] if odd else lines)


ODD = {
    "en": "2026-04-06 08:42 INFO gate 2 jammed, a lorry blocks the ramp until noon",
    "zh": "2026-04-06 08:42 工地打卡 工种=水电 状态=楼下天花渗水，已停工 湿度=46%",
}


LENGTH_NOTES = {
    "en": "[… {:,} tokens in full, stored as #7 …]",
    "zh": "[… 全文共 {:,} token，存为 #7 …]",
}


class TestUnusualLines:
    @pytest.mark.parametrize("language", ODD)
    @pytest.mark.parametrize("cap", [200, 400, 1_000])
    def test_the_odd_line_of_a_log_is_shown_between_its_two_ends(
        self, language: str, cap: int
    ) -> None:
        text = records(language, odd=ODD[language])
        message = shrink_message(answers("a", text=text), cap, EXACT, reference="#7")
        shown = message.text.split("\n")
        assert ODD[language] in shown
        assert set(shown) - set(text.split("\n")) == {
            LENGTH_NOTES[language].format(EXACT.count_text(text)),
            "[…]",
        }
        assert shown[0] == text.split("\n")[0]
        assert shown[-1] == text.split("\n")[-1]
        assert 0.7 * cap <= EXACT.count_text(message.text) <= cap
        assert may_be_shrunk_from(message.text, text)
        assert not may_be_shrunk_from(message.text.replace(ODD[language], "all is well"), text)

    @pytest.mark.parametrize("language", ODD)
    def test_without_looking_for_it_nobody_would_see_it(
        self, language: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shrink, "unusual_lines", lambda *_: [])
        text = records(language, odd=ODD[language])
        assert ODD[language] not in shrink_message(answers("a", text=text), 400, EXACT).text

    @pytest.mark.parametrize(
        "line", ["  raise ValueError: connection refused by db-2", "    # 失败：无法连接数据库"]
    )
    def test_of_a_text_that_does_not_repeat_itself_a_failure_is_found(self, line: str) -> None:
        code = Path(shrink.__file__).read_text("utf-8").replace("error", "mistake").split("\n")
        text = "\n".join([*code[:120], line, *code[120:]])
        found = unusual_lines(text, 0, len(text))
        assert [text[each.start : each.stop] for each in found] == [line]

    @pytest.mark.parametrize("line", ["10:07 ERROR disk /dev/sdb1 is full", "10:07 磁盘写入失败"])
    def test_a_failure_is_found_however_long_the_log_is(self, line: str) -> None:
        usual = ["10:00 INFO request 4711 served in 12 ms"] * 60_000
        text = "\n".join([*usual[:30_000], line, *usual[30_000:]])
        found = unusual_lines(text, 0, len(text))
        assert len(text) > 2_000_000
        assert [text[each.start : each.stop] for each in found] == [line]
        assert line in shrink_message(answers("a", text=text), 400, EXACT).text

    def test_a_text_whose_first_line_is_endless_has_no_words_to_compare(self) -> None:
        text = "\n".join(["x" * 600_000, *["all is well"] * 20, "fatal: all is lost"])
        [found] = unusual_lines(text, 0, len(text))
        assert text[found.start : found.stop] == "fatal: all is lost"

    @pytest.mark.parametrize("language", ODD)
    def test_a_log_of_nothing_but_usual_lines_has_none(self, language: str) -> None:
        text = records(language)
        assert unusual_lines(text, 0, len(text)) == []
        assert "[…]" not in shrink_message(answers("a", text=text), 300, EXACT).text

    @settings(deadline=None)
    @given(
        lines=st.lists(
            st.sampled_from(["a b", "a c 1", "x error", "异常 了", "\r", "…", "[…]", ""]) | texts()
        ),
        cap=st.integers(0, 300),
    )
    def test_no_text_is_ever_above_its_cap_and_every_line_is_its_own(
        self, lines: list[str], cap: int
    ) -> None:
        text = "\n".join(lines * 4)
        shown = shrink_text(text, cap, CHEAP.count_text, unusual=True)
        assert CHEAP.count_text(shown) <= cap
        assert may_be_shrunk_from(shown, text)


class TestArguments:
    @pytest.mark.parametrize(
        "arguments",
        [
            json.dumps({"path": "a.txt", "content": LONG}),
            json.dumps({"内容": "很长的内容" * 200}, ensure_ascii=False),
            json.dumps({"rows": [{"text": LONG}, {"text": LONG}], "n": 3, "ok": True}),
            json.dumps(list(range(2_000))),
            '{"cut": "off' + LONG,
            '{"x": NaN, "text": "' + "long " * 300 + '"}',
            '{"x": 1e999, "text": "' + "long " * 300 + '"}',
            '{"half a pair": "\\ud83d", "text": "' + "long " * 300 + '"}',
            "[" * 5_000 + "]" * 5_000,
            "[" * 900 + "]" * 900,
            "not json at all " * 100,
        ],
        ids=lambda arguments: arguments[:20],
    )
    @pytest.mark.parametrize("cap", [8, 40, 200])
    def test_they_stay_valid_json_within_the_cap(self, arguments: str, cap: int) -> None:
        [call] = shrink_message(asks("a", arguments=arguments), cap, EXACT).calls
        assert EXACT.count_text(call.arguments) <= cap

        def refuse(constant: str) -> None:
            raise AssertionError(constant)

        json.loads(call.arguments, parse_constant=refuse)
        call.arguments.encode()

    def test_what_is_short_in_them_stays(self) -> None:
        arguments = json.dumps({"path": "src/a.py", "line": 12, "content": LONG})
        [call] = shrink_message(asks("a", arguments=arguments), 60, EXACT).calls
        found = json.loads(call.arguments)
        assert found["path"] == "src/a.py"
        assert found["line"] == 12
        assert found["content"].startswith("The first")
        assert found["content"].endswith("too.")

    def test_what_the_model_wrote_is_not_touched_while_it_fits(self) -> None:
        message = asks("a", arguments='{"not": json')
        assert shrink_message(message, 8, EXACT) is message


class TestMessage:
    def test_a_message_with_nothing_above_the_cap_is_the_same_object(self) -> None:
        message = answers("a", "b", beside="well")
        assert shrink_message(message, 20, EXACT) is message

    def test_signed_thinking_is_whole_or_absent(self) -> None:
        thought = ThinkingPart("step by step " * 50, signature="c2lnbmVk")
        message = Message.of("assistant", [thought, TextPart("the answer")])
        assert shrink_message(message, 1_000, EXACT).parts[0] is thought
        assert shrink_message(message, 40, EXACT).parts == (TextPart("the answer"),)

    def test_a_message_of_nothing_but_a_long_thought_still_says_something(self) -> None:
        message = Message.of("assistant", [ThinkingPart("step by step " * 50, "c2lnbmVk")])
        assert shrink_message(message, 8, EXACT).parts == (TextPart("…"),)

    def test_media_and_unknown_blocks_give_way_to_a_note(self) -> None:
        parts = [ImagePart("https://example.org/a.png"), OpaquePart(json.dumps({"v": LONG}))]
        shrunk = shrink_message(Message.of("user", parts), 30, EXACT, reference="#3")
        assert [part.text for part in shrunk.parts if isinstance(part, TextPart)] == [
            "[image left out to fit the budget, stored as #3]",
            "[opaque left out to fit the budget, stored as #3]",
        ]

    def test_notes_are_in_the_language_of_the_message(self) -> None:
        picture = ImagePart("https://example.org/a.png")
        message = Message.of("user", [TextPart("这张图里是什么？" * 200), picture])
        shrunk = shrink_message(message, 60, EXACT, reference="#3")
        text, note = (part.text for part in shrunk.parts if isinstance(part, TextPart))
        assert f"[… 全文共 {EXACT.count_text(message.text):,} token，存为 #3 …]" in text
        assert may_be_shrunk_from(text, message.text)
        assert note == "[图片放不进预算，已省略，存为 #3]"

    def test_ids_names_errors_and_extra_fields_survive(self) -> None:
        call = ToolCall("id-1", "look_up", json.dumps({"q": LONG}), extra='{"index":0}')
        result = ToolResult("id-1", (TextPart(LONG, extra='{"mark":1}'),), is_error=True)
        said = shrink_message(Message.of("assistant", [call], name="bot"), 40, EXACT)
        told = shrink_message(Message.of("tool", [result]), 40, EXACT)
        assert (said.name, said.calls[0].id, said.calls[0].extra) == ("bot", "id-1", '{"index":0}')
        assert (told.results[0].call_id, told.results[0].is_error) == ("id-1", True)
        assert told.results[0].content[0].extra == '{"mark":1}'  # pyright: ignore[reportAttributeAccessIssue] (text)

    @settings(deadline=None)
    @given(message=messages(), cap=st.integers(SMALLEST_CAP, 100))
    def test_no_part_of_any_message_is_above_the_cap(self, message: Message, cap: int) -> None:
        for counter in (CHEAP, EXACT):
            shrunk = shrink_message(message, cap, counter, reference="#7")
            assert max(shrinkable_costs(shrunk, counter), default=0) <= cap
            assert [call.id for call in shrunk.calls] == [call.id for call in message.calls]
            assert [result.call_id for result in shrunk.results] == [
                result.call_id for result in message.results
            ]
            assert bool(shrunk.parts) == bool(message.parts)

    @settings(deadline=None)
    @given(message=messages(), cap=st.integers(SMALLEST_CAP, 100))
    def test_shrinking_twice_changes_nothing_more(self, message: Message, cap: int) -> None:
        once = shrink_message(message, cap, CHEAP)
        assert shrink_message(once, cap, CHEAP) is once


class TestCommonCap:
    def test_short_parts_leave_their_share_to_the_long_ones(self) -> None:
        assert common_cap([10, 500, 500], 210) == 100

    def test_nothing_needs_a_cap_when_everything_fits(self) -> None:
        assert common_cap([10, 20], 100) == 20

    def test_no_room_is_no_cap(self) -> None:
        assert common_cap([10, 20], -5) == 0

    @given(costs=st.lists(st.integers(0, 500), min_size=1), room=st.integers(0, 5_000))
    def test_parts_cut_to_the_cap_fit_and_one_more_token_each_would_not(
        self, costs: list[int], room: int
    ) -> None:
        cap = common_cap(costs, room)
        assert sum(min(cost, cap) for cost in costs) <= room
        if cap < max(costs):
            assert sum(min(cost, cap + 1) for cost in costs) > room


def test_a_user_message_keeps_its_name_and_notes() -> None:
    message = Message("user", LONG, name="dana", metadata={"source": "mail"})
    shrunk = shrink_message(message, 20, EXACT)
    assert shrunk.text != user(LONG).text
    assert (shrunk.name, shrunk.metadata) == ("dana", {"source": "mail"})
