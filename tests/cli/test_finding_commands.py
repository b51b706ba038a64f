"""`turnfold search` and `turnfold recall`: what the memory finds, at any width, and exit codes a script can use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.seeded import LONG, SHORT, invoke, invoke_json, seed
from turnfold import Memory
from turnfold.cli.exit_codes import ExitCode


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seed(tmp_path_factory.mktemp("finding"))


def test_a_search_shows_what_was_found_and_marks_it(store: str) -> None:
    shown = invoke(["search", "下雨", "--store", store])
    assert shown.exit_code == ExitCode.OK
    assert SHORT in shown.stdout
    assert "[下雨]" in shown.stdout


def test_json_says_the_same(store: str) -> None:
    found = invoke_json(["search", "HT-2026-003", "--store", store, "--limit", "1"])
    [best] = found["found"]
    assert (best["conversation"], best["role"]) == (LONG, "user")
    assert "HT-2026-003" in best["text"]
    start, stop = best["snippet"]["marks"][0]
    assert "HT-2026-003" in best["snippet"]["text"][start:stop]


FILTERED = {
    "session": (["--session", "weather"], {SHORT}),
    "role": (["--role", "assistant"], {LONG, SHORT}),
    "tool": (["--tool", "look_up"], {LONG}),
    "turns": (["--turns", "3-4"], {LONG}),
    "since": (["--since", "2020-01-01"], {LONG, SHORT}),
    "until": (["--until", "2020-01-01T10:00"], set[str]()),
}


@pytest.mark.parametrize("name", FILTERED)
def test_a_filter_keeps_to_some(store: str, name: str) -> None:
    options, expected = FILTERED[name]
    query = "shelf item raining no truck 没有"
    shown = invoke(["search", query, "--store", store, "--json", "-n", "200", *options])
    assert shown.exit_code == (ExitCode.OK if expected else ExitCode.NOT_FOUND)
    found = {session for session in (LONG, SHORT) if f'"conversation": "{session}"' in shown.stdout}
    assert found == expected


def test_checkpoints_are_found_where_they_are_asked_for(store: str) -> None:
    found = invoke_json(["search", "HT-2026-001", "--kind", "checkpoint", "--store", store])
    assert {each["kind"] for each in found["found"]} == {"checkpoint"}


def test_a_recall_brings_back_what_was_said(store: str) -> None:
    shown = invoke(["recall", "ware", "合同号 HT-2026-002", "--store", store])
    assert shown.exit_code == ExitCode.OK
    assert "HT-2026-002" in shown.stdout.replace("[", "").replace("]", "")
    brought = invoke_json(["recall", "ware", "HT-2026-002", "--tokens", "400", "--store", store])
    assert 0 < brought["tokens"] <= 400
    assert "HT-2026-002" in brought["text"]


WRONG = {
    "nothing found": (["search", "zzqqxx"], ExitCode.NOT_FOUND),
    "nothing recalled": (["recall", SHORT, "zzqqxx"], ExitCode.NOT_FOUND),
    "no such session": (["recall", "nobody", "x"], ExitCode.NOT_FOUND),
    "no such role": (["search", "x", "--role", "narrator"], ExitCode.USAGE),
    "no range of turns": (["search", "x", "--turns", "a-b"], ExitCode.USAGE),
    "no time": (["search", "x", "--since", "yesterday"], ExitCode.USAGE),
}


@pytest.mark.parametrize("name", WRONG)
def test_how_a_command_ends_is_told_by_its_code(store: str, name: str) -> None:
    arguments, code = WRONG[name]
    assert invoke([*arguments, "--store", store]).exit_code == code


def test_a_recall_that_finds_nothing_repeats_what_was_asked(store: str) -> None:
    asked = ["recall", SHORT, "zzqqxx", "--store", store]
    assert "nothing found: zzqqxx" in invoke(asked).stdout
    assert "没有找到：zzqqxx" in invoke(asked, TURNFOLD_LANG="zh").stdout


@pytest.mark.parametrize("width", ["40", "200"])
def test_no_escape_codes_without_a_terminal(
    store: str, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert "\x1b" not in invoke(["search", "truck", "--store", store]).stdout


def test_colours_mark_what_was_asked_for(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = invoke(["search", "下雨", "--store", store]).stdout
    assert "\x1b[" in shown
    assert "[下雨]" not in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in invoke(["search", "下雨", "--store", store]).stdout


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("量子计算机", []),  # 机 is in 手机, 算 in 打算
        ("不存在的词xyz", []),
        ("xyzzy", []),
        ("手机", ["phone"]),
        ("机", ["phone"]),  # a character by itself is a word
        ("计算手机费用", ["phone"]),
        ("trips", ["trip"]),
    ],
)
def test_single_characters_of_other_words_are_no_match(
    tmp_path: Path, query: str, found: list[str]
) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(store) as memory:
        memory.session("phone").user("我的手机丢了，存了很多照片。")
        memory.session("plan").user("周末打算去爬山，词典也带上。")
        memory.session("trip").user("The trip to the lake.")
    done = invoke(["search", query, "--store", store, "--json"])
    assert [each["conversation"] for each in json.loads(done.stdout)["found"]] == found
    assert done.exit_code == (0 if found else 3)
