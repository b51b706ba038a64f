"""The command speaks English and Chinese: the help of every command and option, wrong calls, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from turnfold import errors
from turnfold.cli.app import app
from turnfold.cli.chinese_help import COMMANDS, ERRORS, OPTIONS
from turnfold.cli.demo.texts import language_of
from turnfold.cli.exit_codes import error_text

CHINESE = re.compile(r"[\u4e00-\u9fff]")
SENTENCE = re.compile(r"\b[A-Z]?[a-z]+(?: [a-z]+){3,}")
"""Four plain words in a row: English that nobody translated."""


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words it is called by, groups too."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield path, command
        for name, each in getattr(command, "commands", {}).items():
            yield from walk(each, (*path, name))

    yield from walk(typer.main.get_command(app), ())


ALL = dict(commands())


def run(*words: str, language: str) -> str:
    wide = {"TURNFOLD_LANG": language, "COLUMNS": "400", "TERMINAL_WIDTH": "400", "NO_COLOR": "1"}
    done = CliRunner().invoke(app, list(words), env=wide)
    return done.stdout + (done.stderr or "")


def first_paragraph(text: str) -> str:
    return text.split("\n\n", maxsplit=1)[0].replace("\n", " ")


def test_all_commands_are_here() -> None:
    assert len(ALL) > 30
    assert {("serve",), ("db", "backup"), ("tokens", "create")} <= set(ALL)


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "turnfold")
def test_every_command_has_its_help_in_both_languages(path: tuple[str, ...]) -> None:
    command = ALL[path]
    english = first_paragraph(command.help)
    assert not CHINESE.search(english)
    assert CHINESE.search(COMMANDS[english])
    for each in command.params:
        assert CHINESE.search(OPTIONS[each.help]), each.name
        assert not CHINESE.search(each.help), each.name


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "turnfold")
def test_help_is_drawn_in_one_language(path: tuple[str, ...]) -> None:
    command = ALL[path]
    said, asked = run(*path, "--help", language="zh"), run(*path, "--help", language="en")
    drawn = " ".join(said.split())
    assert " ".join(first_paragraph(COMMANDS[first_paragraph(command.help)]).split()) in drawn
    assert "选项" in said
    assert not SENTENCE.search(said.replace("claude mcp add turnfold -- turnfold mcp", "")), said
    for each in command.params:
        if not getattr(each, "hidden", False):
            assert OPTIONS[each.help] in drawn, each.name
            assert each.help in " ".join(asked.split()), each.name
    assert first_paragraph(command.help) in " ".join(asked.split())
    assert not CHINESE.search(asked), asked
    assert "<bool>" not in said + asked, asked  # a flag takes no value


def test_no_translation_is_left_over() -> None:
    assert {first_paragraph(each.help) for each in ALL.values()} == set(COMMANDS)
    asked = {p.help for each in ALL.values() for p in each.params}
    assert set(OPTIONS) - asked == {"Show this message and exit."}


def test_an_option_without_its_chinese_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPTIONS, "Tenant whose sessions to use.")
    with pytest.raises(KeyError, match="Tenant whose sessions"):
        test_every_command_has_its_help_in_both_languages(("sessions",))
    with pytest.raises(AssertionError, match="Tenant whose sessions"):
        test_help_is_drawn_in_one_language(("sessions",))


@pytest.mark.parametrize(
    ("words", "chinese"),
    [
        (("show",), "缺少参数"),
        (("show", "x", "--nonsense"), "没有这个选项"),
        (("show", "x", "--limit", "many"), "参数的值不对"),
        (("nonsense",), "命令用法有误"),
        (("db", "nonsense"), "命令用法有误"),
    ],
)
def test_a_wrong_call_is_told_in_both_languages(words: tuple[str, ...], chinese: str) -> None:
    said, asked = run(*words, language="zh"), run(*words, language="en")
    assert said.count(chinese) == 1
    assert "错误" in said
    assert not CHINESE.search(asked)
    for language in ("zh", "en"):
        done = CliRunner().invoke(app, list(words), env={"TURNFOLD_LANG": language})
        assert done.exit_code == 2


def test_an_error_names_its_kind_and_keeps_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = ("sessions", "--store", str(tmp_path / "none.db"))
    said, asked = run(*nowhere, language="zh"), run(*nowhere, language="en")
    assert "turnfold: 没有找到：no store at" in said
    assert said.replace("没有找到：", "") == asked
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    for name in errors.__all__:
        kind = getattr(errors, name)
        error = kind.__new__(kind)
        Exception.__init__(error, "why")
        assert error_text(error).endswith("：why"), name
    assert {*ERRORS} <= set(errors.__all__)


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"TURNFOLD_LANG": "zh", "LC_ALL": "en_GB.UTF-8"}, "zh"),
        ({"TURNFOLD_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"TURNFOLD_LANG": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "zh_TW.UTF-8"}, "zh"),
        ({}, "en"),
    ],
)
def test_the_variable_decides_before_the_locale(environment: dict[str, str], language: str) -> None:
    assert language_of(environment) == language
