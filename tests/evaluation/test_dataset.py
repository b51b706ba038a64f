"""Sets of conversations: what a line holds, and which line is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from turnfold import user
from turnfold.errors import InvalidExport, NotFound
from turnfold.evaluation import EvalQuestion, EvalRule, read_set, sample_set
from turnfold.evaluation import trials as dataset_module

LINE: dict[str, Any] = {
    "conversation_id": "trip",
    "dataset": "ignored",
    "messages": [
        {"id": "a", "role": "user", "content": "Never fly.", "time": "2026-03-01T09:00:00Z"},
        {"id": "b", "role": "assistant", "content": "好的。", "time": "1:56 pm on 8 May, 2023"},
        {"id": 3, "role": "user", "content": "Flying is fine now.", "time": "2026-03-02"},
    ],
    "questions": [
        {"question": "May we fly?", "evidence_ids": ["a", 3], "answer": "yes"},
        {"question": "Who asked?", "evidence_ids": []},
    ],
    "rules": [{"text": "Never  fly.", "message_id": "a", "until_id": 3}],
}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "set.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n", encoding="utf-8")
    return path


def test_a_line_is_a_conversation(tmp_path: Path) -> None:
    [found] = read_set(written(tmp_path, LINE))
    assert found.name == "trip"
    assert found.messages[0] == user("Never fly.")
    assert found.times == (1772355600000000, 1683554160000000, 1772409600000000)
    assert found.questions == (EvalQuestion("May we fly?", frozenset({1, 3})),)
    assert found.rules == (EvalRule("Never  fly.", 1, 3),)
    assert [found.rules_at(seq) for seq in (0, 1, 2, 3)] == [
        (),
        ("Never  fly.",),
        ("Never  fly.",),
        (),
    ]


def test_a_set_may_be_compressed_and_leave_out_what_is_unknown(tmp_path: Path) -> None:
    bare = {"conversation_id": "x", "messages": [{"id": 0, "role": "user", "content": "嗨"}]}
    path = tmp_path / "set.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(bare).encode()))
    [found] = read_set(path)
    assert (found.times, found.questions, found.rules) == ((0,), (), None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"messages": [LINE["messages"][0]] * 2}, "two messages have the same id 'a'"),
        ({"questions": [{"question": "?", "evidence_ids": ["z"]}]}, "no message with the id 'z'"),
        (
            {"rules": [{"text": "Walk.", "message_id": "a"}]},
            "'a' does not contain the text of the rule 'Walk.'",
        ),
        ({"messages": [{"id": 1, "role": "user", "content": "x", "time": "noon"}]}, "noon"),
        ({"messages": [{"id": 1, "role": "judge", "content": "x"}]}, "judge"),
        ({"messages": "none"}, "Expected `array`"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    path = written(tmp_path, LINE, {**LINE, "questions": [], "rules": [], **change})
    with pytest.raises(InvalidExport, match="line 2: ") as caught:
        read_set(path)
    assert problem in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.jsonl"):
        read_set(tmp_path / "none.jsonl")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    with pytest.raises(NotFound, match="no conversation"):
        read_set(empty)
    broken = tmp_path / "broken.gz"
    broken.write_bytes(b"\x1f\x8b not really")
    with pytest.raises(InvalidExport, match="cannot read"):
        read_set(broken)
    packed = gzip.compress(json.dumps(LINE).encode())
    broken.write_bytes(packed[:12] + b"\xff" * 20 + packed[32:])  # a whole header, damaged data
    with pytest.raises(InvalidExport, match="cannot read"):
        read_set(broken)


def test_the_shipped_set_has_both_languages_with_questions_and_rules() -> None:
    english, chinese = sample_set()
    for each in (english, chinese):
        assert len(each.questions) == 10
        assert len(each.messages) == len(each.times)
        assert list(each.times) == sorted(each.times)
        assert each.rules
        assert any(rule.until for rule in each.rules)
        assert any(message.calls for message in each.messages)
    assert "厨房" in "".join(message.text for message in chinese.messages)


def test_a_file_larger_than_memory_allows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_module, "_LARGEST", 1_000)
    for name, write in (("a.jsonl", Path.write_bytes), ("a.jsonl.gz", _write_packed)):
        write(tmp_path / name, b" " * 1_001)
        with pytest.raises(InvalidExport, match="more than 1,000 bytes"):
            read_set(tmp_path / name)


def _write_packed(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data))
