"""The command as a person meets it: in a pipe, in a terminal, in two languages, with a mistake, without its extra."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from rich.console import Console
from typer.testing import CliRunner, Result

import turnfold
from tests.house.source_tree import ROOT, SOURCE
from turnfold.budget import Budget
from turnfold.cli import main
from turnfold.cli.app import app
from turnfold.cli.demo import report as show_module
from turnfold.cli.demo.replay import Step, load_sample, replay
from turnfold.cli.demo.report import show
from turnfold.cli.demo.texts import TEXTS
from turnfold.tokens import counter_for

ESCAPE = "\x1b"


def environment(**changes: str) -> dict[str, str]:
    """A plain English terminal without opinions about colour, plus the changes."""
    opinions = ("NO_COLOR", "FORCE_COLOR", "LC_ALL", "LC_MESSAGES", "COLUMNS", "TTY_COMPATIBLE")
    kept = {name: value for name, value in os.environ.items() if name not in opinions}
    base = {
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(SOURCE),
        "PYTHONUTF8": "1",
        "TERM": "xterm-256color",
    }
    return {**kept, **base, **changes}


def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=environment(**changes),
    )


@pytest.mark.parametrize(("lang", "heading"), [("en", "Where to start:"), ("zh", "从这里开始：")])
def test_no_command_says_what_to_run_first(lang: str, heading: str) -> None:
    result = CliRunner().invoke(app, [], env={"TURNFOLD_LANG": lang})
    assert result.exit_code == 0
    version, _, first, *steps, _, more = result.output.splitlines()
    assert (version, first) == (f"turnfold {turnfold.__version__}", heading)
    named = [step.split()[1] for step in steps]
    assert named == ["demo", "chat", "import", "sessions", "ui", "doctor"]
    for name in named:  # each is a command, and works with --help
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0
    assert more.endswith("turnfold --help")


def test_the_version_is_the_version_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"turnfold {turnfold.__version__}\n")


@cache
def steps() -> tuple[Step, ...]:
    """What the demo shows: the same in every language and width, so it is computed once."""
    return tuple(replay(load_sample(), Budget(max_tokens=6_000), counter_for("gpt-4o")))


@contextmanager
def shown_again() -> Iterator[None]:
    """Let the demo show the steps that were computed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(show_module, "replay", lambda *_, **_options: iter(steps()))
        yield


@cache
def piped(width: str, language: str) -> Result:
    with shown_again():
        return CliRunner().invoke(app, ["demo", "--language", language], env={"COLUMNS": width})


@cache
def written(locale: str) -> str:
    """What a process of its own writes into a pipe."""
    done = run("-m", "turnfold", "demo", LC_ALL=locale)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("width", ["60", "100"])
def test_a_pipe_gets_plain_lines_that_fit(width: str) -> None:
    result = piped(width, "en")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0, result.output
    assert ESCAPE not in result.stdout
    assert all(Console().measure(line).maximum <= int(width) for line in lines)
    assert sum("FOLD" in line for line in lines) >= 3
    assert any("6 / 6" in line for line in lines)


def test_a_pipe_without_a_width_gets_whole_lines() -> None:
    lines = written("C.UTF-8").splitlines()
    # What the demo quotes may have the sign itself.
    assert not any("…" in line for line in lines if not line.strip().startswith("“"))
    assert any(line.endswith("as people do.") for line in lines)
    assert max(map(len, lines)) > 150


def test_a_reader_is_shown_one_language_and_no_blanks_at_the_end_of_lines() -> None:
    for locale, other in (
        ("C.UTF-8", r"[\u3400-\u9fff]"),
        ("zh_CN.UTF-8", r"[A-Za-z]{3,} [A-Za-z]{2,} [A-Za-z]{2,} "),
    ):
        lines = written(locale).splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        assert [
            line for line in lines if re.search(other, line) and "turnfold demo" not in line
        ] == []
        assert sum("“" in line for line in lines) >= 3


def test_the_end_says_what_the_prompts_cost() -> None:
    rows = [
        line for line in piped("100", "en").stdout.splitlines() if "cost of the prompts" in line
    ]
    cells = [float(cell) for cell in re.findall(r"\d+\.\d\d", rows[0])]
    assert len(rows) == 1
    assert len(cells) == 3
    assert cells[0] < cells[2]  # sending everything costs more


def test_every_label_can_be_chinese() -> None:
    english, chinese = piped("100", "en").stdout, piped("100", "zh").stdout
    for row in TEXTS["zh"].rows:
        shown = row.format(budget=6000, currency="USD")
        assert shown in chinese
        assert shown not in english
    assert "折叠" in chinese
    assert "FOLD" not in chinese


def test_the_locale_is_followed_and_json_is_all_there_is() -> None:
    assert TEXTS["zh"].intro[:10] in written("zh_CN.UTF-8")
    finished = run("-m", "turnfold", "demo", "--json", LC_ALL="zh_CN.UTF-8")
    assert finished.returncode == 0
    assert finished.stderr == ""
    assert set(json.loads(finished.stdout)) >= {"calls", "summary"}


@pytest.mark.parametrize("budget", ["500", "0", "-3"])
def test_errors_of_turnfold_are_a_sentence_and_code_2(budget: str) -> None:
    finished = run("-m", "turnfold", "demo", "--budget", budget)
    assert finished.returncode == 2
    assert finished.stderr.startswith("turnfold: ")
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize("arguments", [["demo", "--language", "fr"], ["fold"], ["demo", "--slow"]])
def test_a_wrong_option_is_code_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(tokens: int, **_options: object) -> None:
        raise ModuleNotFoundError(str(tokens), name="something_else")

    monkeypatch.setattr(show_module, "show", fail)
    monkeypatch.setattr(sys, "argv", ["turnfold", "demo"])
    with pytest.raises(ModuleNotFoundError, match="6000"):
        main()


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_extra_is_named_in_one_line(package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv[1:] = ['demo']\n"
        "from turnfold.cli import main; main()"
    )
    finished = run("-c", program)
    assert finished.returncode == 4
    assert finished.stdout == ""
    [line] = finished.stderr.splitlines()
    assert "pip install 'turnfold[cli]'" in line


def test_the_pins_hold_what_the_extra_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [Requirement(line) for line in project["optional-dependencies"]["cli"]]
    pinned = (ROOT / "requirements" / "run.txt").read_text(encoding="utf-8").splitlines()
    assert {requirement.name for requirement in wanted} == {"prompt-toolkit", "rich", "typer"}
    for requirement in wanted:
        [version] = [
            line.split("==")[1].split()[0]
            for line in pinned
            if line.startswith(requirement.name + "==")
        ]
        assert version in requirement.specifier
    assert not {"rich", "typer"} & {Requirement(line).name for line in project["dependencies"]}


def test_the_database_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    kept = tmp_path / "demo.db"
    result = CliRunner().invoke(app, ["demo", "--json", "--keep", str(kept)])
    assert result.exit_code == 0
    assert set(json.loads(result.stdout)) >= {"calls", "summary"}
    assert kept.stat().st_size > 100_000
    again = run("-m", "turnfold", "demo", "--keep", str(kept))
    assert again.returncode == 2
    assert "exists" in again.stderr


class Terminal(io.StringIO):
    """A screen that remembers everything written to it."""

    def isatty(self) -> bool:
        return True


def on_screen(monkeypatch: pytest.MonkeyPatch, **changes: str) -> tuple[str, float]:
    """What a terminal is sent, and the seconds the demo wanted to wait in all."""
    for name, value in environment(**changes).items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        if name not in changes:
            monkeypatch.delenv(name, raising=False)
    screen, waited = Terminal(), list[float]()
    monkeypatch.setattr(sys, "stdout", screen)
    show(6000, language="en", pause=waited.append)
    return screen.getvalue(), sum(waited)


def test_a_terminal_sees_a_frame_at_a_pace_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, waited = on_screen(monkeypatch)
    assert ESCAPE in seen
    assert "call 83 of 83" in seen
    assert 15 <= waited <= 25


def test_no_color_means_not_one_escape_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with shown_again():
        seen, waited = on_screen(monkeypatch, NO_COLOR="1")
    assert ESCAPE not in seen
    assert "FOLD" in seen
    assert 15 <= waited <= 25


def test_fast_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    waited: list[float] = []
    with shown_again():
        show(6000, language="en", fast=True, pause=waited.append)
    assert waited == []


def test_a_screen_of_another_alphabet_gets_marks_instead_of_an_error() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "turnfold", "demo", "--help"],
        capture_output=True,
        check=False,
        env=environment(PYTHONUTF8="0", PYTHONIOENCODING="latin-1", LC_ALL="zh_CN.UTF-8"),
    )
    assert finished.returncode == 0, finished.stderr
    assert b"????" in finished.stdout
