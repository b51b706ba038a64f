"""`turnfold eval` end to end: a SQLite store, a file, a set, the shipped set; both languages; what JSON promises."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.seeded import LONG, SHORT, invoke, invoke_json, seed

ROOT = Path(__file__).resolve().parents[2]
ROW = (
    "method budget calls usable over_budget folds rules_kept stale_rules atoms_kept coverage "
    "recall_at_5 precision_at_5 kept_prefix budget_used price_per_call points refused"
).split()
POINT = "conversation folds seq rules rules_kept replaced stale_rules atoms atoms_kept".split()
SET: dict[str, Any] = {
    "conversation_id": "gate-门",
    "messages": [
        {"id": 1, "role": "user", "content": "The gate code is 4711. 大门密码是 4711。"},
        {"id": 2, "role": "assistant", "content": "Noted."},
    ],
    "questions": [{"question": "What is the gate code?", "evidence_ids": [1]}],
    "rules": [],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seed(tmp_path_factory.mktemp("evaluated"))


def set_file(folder: Path) -> str:
    path = folder / "set.jsonl"
    path.write_text(json.dumps(SET, ensure_ascii=False) + "\n", encoding="utf-8")
    return str(path)


def test_a_session_is_evaluated_and_the_store_is_left_as_it_was(store: str) -> None:
    before = Path(store.removeprefix("sqlite:///")).read_bytes()
    found = invoke_json(["eval", "ware", "--budget", "900", "--store", store])
    assert Path(store.removeprefix("sqlite:///")).read_bytes() == before
    assert (found["conversations"], found["entries"], found["questions"]) == (1, 49, 0)
    assert found["rules_from"] == "session.rules()"
    ours, recency, bm25 = found["rows"]
    assert [row["method"] for row in found["rows"]] == ["turnfold", "recency", "bm25"]
    assert (ours["calls"], ours["usable"], ours["over_budget"], ours["refused"]) == (24, 24, 0, "")
    assert ours["folds"] > 2
    assert 0 < ours["atoms_kept"] < 1
    assert ours["coverage"] is None
    assert ours["price_per_call"] > 0
    assert recency["recall_at_5"] is bm25["recall_at_5"] is None  # no question was asked
    assert list(ours) == ROW
    assert list(ours["points"][0]) == POINT
    assert ours["points"][0]["conversation"] == LONG


def test_all_sessions_of_a_store(store: str) -> None:
    found = invoke_json(["eval", "--all", "--budget", "20000", "--store", store])
    assert (found["conversations"], found["skipped"]) == (2, [])
    assert found["rows"][0]["folds"] == 0


def test_a_set_is_evaluated_with_its_questions(tmp_path: Path) -> None:
    found = invoke_json(["eval", "--set", set_file(tmp_path), "--budget", "500, 1000"])
    assert [row["budget"] for row in found["rows"]] == [500, 500, 500, 1000, 1000, 1000]
    assert [row["coverage"] for row in found["rows"]] == [1.0] * 6
    assert [row["recall_at_5"] for row in found["rows"][:3]] == [1.0, None, 1.0]


def test_a_file_that_import_reads(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(
        json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "你好"}])
    )
    assert invoke_json(["eval", str(path)])["entries"] == 2


SAID = {
    "en": (
        "1 conversation, 49 entries, 0 questions",
        "atoms from fold to fold",
        "evidence is not measured",
    ),
    "zh": ("1 个会话，49 条记录，0 个问题", "要素（逐次折叠）", "因此未评测依据"),
}


@pytest.mark.parametrize(("width", "language"), [(130, "en"), (90, "zh"), (50, "en"), (50, "zh")])
def test_the_table_and_the_bars_in_both_languages(store: str, width: int, language: str) -> None:
    command = ["eval", "ware", "--budget", "900", "--store", store]
    shown = invoke(command, width=width, TURNFOLD_LANG=language)
    assert shown.exit_code == 0
    for text in (*SAID[language], "recency", "turnfold"):
        assert text in " ".join(shown.stdout.split())
    assert max(map(cell_len, shown.stdout.splitlines())) <= width


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["--budget", "many"], 2, "'many' is not a number of tokens"),
        (["--budget", "0"], 2, "'0' is not a number of tokens"),
        (["--all", SHORT], 2, "give only one of"),
        (["--peers", "mem9"], 2, "unknown peer 'mem9'"),
        (["no-such-session"], 3, "no session 'no-such-session'"),
        (["--set", "none.jsonl"], 3, "no such file: none.jsonl"),
        (["--all", "--tenant", "empty"], 3, "no sessions of tenant 'empty'"),
        ([SHORT, "--budget", "12"], 1, ""),
    ],
)
def test_exit_codes(store: str, arguments: list[str], code: int, problem: str) -> None:
    result = invoke(["eval", *arguments, "--store", store])
    assert result.exit_code == code, result.output
    assert problem in result.stderr
    if code == 1:
        assert "turnfold at 12 refused" in result.stdout


@pytest.mark.parametrize("content", ["", "[]", " [ ]\n"])
@pytest.mark.parametrize("command", [["eval"], ["eval", "--set"], ["replay"], ["lint"]])
def test_nothing_to_work_on_is_not_found(tmp_path: Path, command: list[str], content: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(content)
    result = invoke([*command, str(path)])
    assert result.exit_code == 3, result.output
    assert "no messages in" in result.stderr or "no conversation in" in result.stderr
    chinese = invoke([*command, str(path)], TURNFOLD_LANG="zh").stderr
    assert "中没有消息" in chinese or "中没有会话" in chinese


def test_conversations_without_an_answer_are_not_found(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}]))
    result = invoke(["eval", str(path)])
    assert result.exit_code == 3, result.output
    assert "none of the 1 conversations has an answer or a question" in result.stderr
    assert "没有可评测的内容" in invoke(["eval", str(path)], TURNFOLD_LANG="zh").stderr


@pytest.mark.parametrize(("width", "tables", "bars"), [(130, 1, 1), (80, 2, 2), (50, 4, 3)])
def test_every_column_is_shown_whatever_the_width(
    store: str, width: int, tables: int, bars: int
) -> None:
    shown = invoke(["eval", "ware", "--budget", "900", "--store", store], width=width).stdout
    heads = [line.split() for line in shown.splitlines() if line.startswith("method")]
    heads = [head for head in heads if "from" not in head]
    assert len(heads) == tables
    names = "rules stale atoms evidence R@5 P@5 usable folds prefix used per call".split()
    assert [name for head in heads for name in head[2:]] == names
    assert shown.count("turnfold  ") == tables + bars
    assert "…" not in shown


def test_a_set_that_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"conversation_id": 5}')
    result = invoke(["eval", "--set", str(path)])
    assert result.exit_code == 2
    assert f"--set {path}: line 1" in result.stderr
    assert "conversation_id, messages (id, role, content) and questions" in result.stderr
    assert "conversation_id, messages" in " ".join(invoke(["eval", "--help"]).stdout.split())


def test_the_readme_has_the_figures_of_the_shipped_set() -> None:
    ours, recency, _ = invoke_json(["eval", "--budget", "2000"])["rows"]
    shown = [f"{row['rules_kept']:.2f} / {row['coverage']:.2f}" for row in (ours, recency)]
    for name in ("README.md", "README.zh-CN.md"):
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        row = next(line for line in lines if line.endswith("| `turnfold eval` |"))
        assert re.findall(r"[\d.]+ / [\d.]+", row) == shown, name


@pytest.mark.slow
def test_without_a_name_the_shipped_set_is_evaluated() -> None:
    found = invoke_json(["eval", "--budget", "2000", "--peers", "langchain-trim"])
    assert (found["conversations"], found["questions"], found["rules_from"]) == (2, 20, "given")
    ours, recency, _, trimmed = found["rows"]
    assert ours["coverage"] > recency["coverage"]
    for figure in ("coverage", "rules_kept", "atoms_kept"):
        assert trimmed[figure] == recency[figure]  # the same window, cut by other code
