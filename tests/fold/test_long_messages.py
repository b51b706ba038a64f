"""Of a message of megabytes both ends are read, what is not read is said, and no text takes more than linear time."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.fold import (
    Passage,
    check_fidelity,
    extract_summary,
    passages_of,
    source_facts,
    with_annex,
)
from turnfold.fold.summary_input import LONGEST_READ, as_read
from turnfold.records import Message, TextPart, ToolCall, ToolResult, user
from turnfold.text import split_sentences

LOG = "".join(f"Step {n} of the build took {n % 7} minutes.\n" for n in range(30_000))
CHINESE_LOG = "".join(f"第{n}次构建用了{n % 7}分钟。\n" for n in range(30_000))


def words(text: str) -> int:
    return len(text.split()) + len(text) // 40


def read_of(note: str) -> int:
    [number] = re.findall(r"[\d,]+", note)
    return int(number.replace(",", ""))


class TestWhatIsRead:
    @pytest.mark.parametrize(
        ("log", "said"),
        [(LOG, "[… {} characters not read …]"), (CHINESE_LOG, "[…… 未读 {} 个字符 ……]")],
    )
    def test_both_ends_around_a_line_that_says_what_is_missing(self, log: str, said: str) -> None:
        [passage] = passages_of([user(log)])
        before, after = passage.text.split(f"\n{passage.unread}\n")
        assert log.startswith(before)
        assert log.endswith(after)
        unread = len(log) - len(before) - len(after)
        assert passage.unread == said.format(f"{unread:,}")
        assert LONGEST_READ - 500 < len(before) + len(after) <= LONGEST_READ

    def test_no_word_and_no_number_is_cut_in_two(self) -> None:
        [passage] = passages_of([user(LOG)])
        before, after = passage.text.split(f"\n{passage.unread}\n")
        assert LOG[len(before) - 1].isspace()
        assert LOG[len(LOG) - len(after) - 1].isspace()

    def test_a_message_of_many_results_shares_what_is_read_of_it(self) -> None:
        results = [ToolResult(str(n), (TextPart(LOG[:90_000]),)) for n in range(10)]
        short = ToolResult("short", (TextPart("ready"),))
        passages = passages_of([Message.of("tool", [*results, short])])
        assert sum(len(passage.text) for passage in passages) < 1.01 * LONGEST_READ
        assert all(passage.unread for passage in passages[:-1])
        assert (passages[-1].text, passages[-1].unread) == ("ready", "")

    def test_arguments_count_too(self) -> None:
        call = ToolCall("c", "write", json.dumps({"text": LOG}))
        [passage] = passages_of([Message.of("assistant", [call])])
        assert passage.unread

    def test_what_is_not_too_long_is_read_whole(self) -> None:
        text = LOG[:LONGEST_READ]
        assert passages_of([user(text)]) == [Passage("user", text, 0)]

    def test_who_only_shows_it_may_have_all_of_it(self) -> None:
        assert passages_of([user(LOG)], longest=0) == [Passage("user", LOG, 0)]

    @given(st.text(" \n。ab1", max_size=300), st.integers(1, 80))
    def test_any_text_and_any_length(self, text: str, longest: int) -> None:
        passage = as_read(Passage("user", text, 3), longest)
        if len(text) <= longest:
            assert passage.text == text
            return
        before, _, after = passage.text.partition(f"\n{passage.unread}\n")
        assert text.startswith(before)
        assert text.endswith(after)
        assert len(before) + read_of(passage.unread) + len(after) == len(text)
        assert len(before) + len(after) <= longest
        assert as_read(passage, longest) is passage


class TestWhatIsSaid:
    @pytest.mark.parametrize(
        "log", [LOG, CHINESE_LOG, "x" * 900_000, json.dumps([{"n": 1}] * 90_000)]
    )
    @pytest.mark.parametrize("speaker", ["user", "tool:read"])
    def test_every_extract_holds_the_note(self, log: str, speaker: str) -> None:
        """Also where there is much to choose from, and where the text is one piece of JSON."""
        rules = Passage("user", "You must never deploy on 3 May 2024 before 15:30. " * 3, 2)
        long = as_read(Passage(speaker, log, 1), 20_000)
        summary = extract_summary([long, rules], limit=120, count=words)
        assert words(summary) <= 120
        assert summary.count(long.unread) == 1

    def test_it_fades_like_anything_else_when_it_is_folded_again(self) -> None:
        long = as_read(Passage("user", LOG, 1), 20_000)
        first = extract_summary([long], limit=60, count=words)
        assert "characters not read" in first
        rules = [
            Passage("user", f"You must never deploy build {n} to eu-{n}.", n) for n in range(200)
        ]
        later = extract_summary(rules, limit=60, count=words, previous=first)
        assert "must never deploy" in later

    def test_a_summary_that_does_not_say_so_gets_it_appended_first(self) -> None:
        passage = as_read(Passage("tool:read", LOG, 1), 20_000)
        lost = check_fidelity([passage], "The build took long.")
        assert lost.missing[0].text == passage.unread
        said = with_annex("The build took long.", lost, limit=60, count=words)
        assert f"- tool:read: {passage.unread}" in said.splitlines()
        assert passage.unread not in [fact.text for fact in check_fidelity([passage], said).missing]

    def test_text_that_only_looks_like_the_note_is_text(self) -> None:
        forged = "[… 5 characters not read …]"
        facts = source_facts([Passage("user", forged, 0)]).graded
        assert "unread" not in [fact.kind for fact, _ in facts]


@given(st.text(' "\\a{}[],:1', max_size=60))
def test_json_with_a_quotation_that_is_never_closed_is_cut_as_before(middle: str) -> None:
    """Each quotation mark asked whether it opens a text, which is what took quadratic time."""
    text = f'{{"a": {middle}}}'
    token = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|[{}\[\],:\"]|[^\s\"{}\[\],:]++", re.DOTALL)
    leaves = [found for found in token.findall(text) if found not in set("{}[],:")]
    joined = "".join("".join(sentence.text for sentence in split_sentences(text)).split())
    for leaf in leaves:
        assert "".join(leaf.split()) in joined


_LINEAR = """
import sys
from turnfold.fold import Passage, extract_summary
from turnfold.fold import check_fidelity
size = int(sys.argv[1])
for start, unit, end in {texts!r}:
    passage = Passage("user", start + (unit * (size // len(unit)))[:size] + end, 0)
    extract_summary([passage], limit=200, count=len)
    check_fidelity([passage], passage.text[:500])
"""
ONCE_QUADRATIC = [
    ("", ".", "x"),
    ("", "?", "x"),
    ("", "!", "1"),
    ('{"a": "', '\\"', "}"),
    ('["', 'a\\" ', "]"),
]
UNITS = (
    '1% a. a- a_ a/ /a / .. 1. 1, 1: 1- 12/ @ a@ a@a. " "a “ “a” ` `a {"a": [ [1, { {" } | a| - # > * \\ \\n = a= '
    '( () a() A aB v1. --a 0x é 😀 .) .)" US$ $1 1,000, http:// www. ~/ ./ C:\\ 12-12- a1- a1_ #a1 mondays 12:30: T12: '
    "一 三十 第一 1年 上午 周一 不要 别 ， 。 … …… 中. 中! 《a》 「a ： \x1b[ \x1b[0; \x00 \u200b \r \u2028 ``` 1→ "
    "U.S. x: 2024- 2024/1/ 1e9 -1 +1- 1st a’ a-b’ \n \t a\n |a|\n -\n a\t"
).split(" ")  # fmt: skip
SPACED = (
    " ", "a ", "1 ", "must ", "never ", "do not ", "no longer ", "not be ", "may 1 ", "5 mg ", "Mr. ", "| a ", "- ",
)  # fmt: skip


def run(texts: list[tuple[str, str, str]], size: int, seconds: int) -> None:
    """In a process of its own, which is stopped long after linear time and long before quadratic time is over."""
    script = _LINEAR.format(texts=texts)
    subprocess.run([sys.executable, "-c", script, str(size)], check=True, timeout=seconds)


def test_texts_that_once_took_quadratic_time_do_not() -> None:
    run(ONCE_QUADRATIC, 80_000, 60)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", "x", '"', " A"])
def test_no_repetition_takes_quadratic_time(end: str) -> None:
    run([("", unit, end) for unit in (*UNITS, *SPACED)], 80_000, 600)
