"""Two languages for every label, an honest doctor, codes that mean what they say, completion, and patience."""

from __future__ import annotations

import ast
import json
import re
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from typer.testing import CliRunner

from tests.cli.seeded import LONG, SHORT, invoke, invoke_json, seed
from tests.house.source_tree import PACKAGE, python_files
from turnfold import Budget, Memory, errors
from turnfold.cli import doctor as checks
from turnfold.cli import store_and_session_lookup as store_address
from turnfold.cli import tables_and_progress_bars as screen
from turnfold.cli.app import app
from turnfold.cli.chinese_labels import CHINESE, label, with_singulars
from turnfold.cli.context import band, sparkline, tick_line
from turnfold.cli.exit_codes import ExitCode, code_of, error_text, report_errors
from turnfold.cli.typer_commands.options import _complete_session
from turnfold.inspect import CallPoint
from turnfold.stores import shown_address
from turnfold.stores.sqlite import engine as sqlite_engine


def labels_in(text: str) -> set[str]:
    """Every literal that is given to `label`, or stands in a list of headings."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="label"), args=[ast.Constant(value=said), *_]):
                found.add(str(said))
            case (
                ast.Call(func=ast.Name(id="columns"), args=[_, ast.Tuple(elts=heads), *_])
                | ast.Assign(
                    targets=[ast.Name(id="heads")],
                    value=ast.Tuple(elts=heads) | ast.List(elts=heads),
                )
            ):
                found |= {str(head.value) for head in heads if isinstance(head, ast.Constant)}
            case _:
                pass
    return found


def test_every_label_has_its_chinese() -> None:
    used = set[str]().union(
        *(labels_in(p.read_text("utf-8")) for p in python_files(PACKAGE / "cli"))
    )
    assert len(used) > 40
    assert used - set(CHINESE) == set()
    assert labels_in('label("nowhere")\nheads = ["a", "b"]') == {"nowhere", "a", "b"}


def test_a_sentence_has_the_same_slots_in_both_languages() -> None:
    for english, chinese in CHINESE.items():
        ours, theirs = english.split("{")[1:], chinese.split("{")[1:]
        assert sorted(s.partition("}")[0] for s in ours) == sorted(
            s.partition("}")[0] for s in theirs
        )
    assert label("budget", {"LC_ALL": "zh_TW.UTF-8"}) == "预算"
    assert label("budget", {"LANG": "de_DE"}) == "budget"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 sessions, 1 entries, 21 faults", "1 session, 1 entry, 21 faults"),
        ("1,001 entries, 0.1 calls, 1 new sessions", "1,001 entries, 0.1 calls, 1 new session"),
        ("1 个会话", "1 个会话"),
    ],
)
def test_one_is_singular(text: str, shown: str) -> None:
    assert with_singulars(text) == shown


def test_the_doctor_finds_this_machine_well(tmp_path: Path) -> None:
    store = seed(tmp_path)
    found = invoke_json(["doctor", "--store", store])
    names = [one["name"] for one in found["findings"]]
    assert found["ok"] is True
    assert {"python", "sqlite", "store", "terminal", "extra cli", "tokenizer o200k_base"} <= set(
        names
    )
    drawn = invoke(["doctor", "--store", store]).stdout
    assert "no problems found" in drawn
    assert "没有发现问题" in invoke(["doctor", "--store", store], LC_ALL="zh_CN.UTF-8").stdout


def test_the_doctor_says_what_is_wrong_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"nonsense" * 1000)
    result = invoke(["doctor", "--store", str(broken), "--json"])
    assert result.exit_code == 1
    findings = {one["name"]: one for one in json.loads(result.stdout)["findings"]}
    assert findings["store"]["state"] == "bad"
    monkeypatch.setattr(checks, "sqlite_version", lambda: "3.40.0")
    old = {f.name: f for f in checks.examine(str(tmp_path / "new.db"), "default")}
    assert (old["sqlite"].state, "upgrade apsw" in old["sqlite"].remedy) == ("bad", True)
    assert old["store"].state == "note"
    assert not (tmp_path / "new.db").exists()
    assert sqlite_engine.sqlite_version() != "3.40.0"


def test_the_doctor_tells_problems_first_and_extras_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "sqlite_version", lambda: "3.40.0")
    found = checks.examine(str(tmp_path / "new.db"), "default")
    assert found[0].name == "sqlite"
    assert found[1].name == "store"  # a note: it does not exist yet
    extras = [one.name.startswith("extra ") for one in found]
    assert extras == sorted(extras)
    fine = [one.state for one in found if not one.name.startswith("extra ")]
    assert fine == sorted(fine, key=["bad", "note", "ok"].index)


def test_the_doctor_finds_a_damaged_entry(tmp_path: Path) -> None:
    store = seed(tmp_path)
    found = invoke_json(["doctor", "--store", store])
    [contents] = [each for each in found["findings"] if each["name"] == "contents"]
    assert contents["state"] == "ok"
    assert "checksums match" in contents["detail"]
    with closing(apsw.Connection(str(next(tmp_path.glob("*.db"))))) as raw:
        raw.execute(
            "UPDATE entry SET body = CAST(replace(body, 'user', 'uzer') AS BLOB) WHERE seq = 2"
        )
    result = invoke(["doctor", "--store", store, "--json"])
    assert result.exit_code == 1
    [contents] = [
        each for each in json.loads(result.stdout)["findings"] if each["name"] == "contents"
    ]
    assert contents["state"] == "bad"
    assert "entry 2" in contents["detail"]
    assert "backup" in contents["remedy"]


def test_the_doctor_finds_damage_outside_the_entries(tmp_path: Path) -> None:
    store = seed(tmp_path)
    file = next(tmp_path.glob("*.db"))
    with closing(apsw.Connection(str(file))) as raw:
        root = raw.execute(
            "SELECT rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'entry'"
        ).fetchone()
        size = raw.execute("PRAGMA page_size").fetchone()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert root is not None
    assert size is not None
    with file.open("r+b") as opened:
        opened.seek((root[0] - 1) * size[0])
        opened.write(b"\xff" * 8)
    found = {one.name: one for one in checks.examine(store, "default")}
    assert found["store file"].state == "bad"
    assert "backup" in found["store file"].remedy


def test_the_doctor_tells_a_redis_that_does_not_answer(tmp_path: Path) -> None:
    store = seed(tmp_path)
    found = {one.name: one for one in checks.examine(store, "default", "redis://127.0.0.1:1/0")}
    assert found["cache"].state == "bad"
    assert found["cache"].detail == "redis://127.0.0.1:1/0 does not answer"
    assert "Start Redis" in found["cache"].remedy


def test_the_doctor_tells_a_store_that_others_can_read(tmp_path: Path) -> None:
    store = seed(tmp_path)
    file = next(tmp_path.glob("*.db"))
    file.chmod(0o644)
    found = {one.name: one for one in checks.examine(store, "default")}
    assert found["store permissions"].state == "bad"
    assert "chmod 600" in found["store permissions"].remedy


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_name: str) -> None:
        raise RuntimeError("no vocabulary")

    monkeypatch.setattr(checks, "Encoding", fail)
    found = [f for f in checks.examine(None, "default") if f.name.startswith("tokenizer")]
    assert found
    assert all(one.state == "bad" and "no vocabulary" in one.detail for one in found)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotFound("x"), ExitCode.NOT_FOUND),
        (errors.ConversationDeleted("x"), ExitCode.NOT_FOUND),
        (errors.InvalidExport("x", line=3), ExitCode.PROBLEMS),
        (errors.Conflict("x"), ExitCode.FAILED),
        (errors.StoreUnavailable("x"), ExitCode.FAILED),
        (errors.MissingExtra(package="p", extra="e", purpose="q"), ExitCode.FAILED),
        (errors.InvalidOption("x"), ExitCode.USAGE),
        (errors.InvalidBudget("x"), ExitCode.USAGE),
        (errors.UnknownModel("x"), ExitCode.USAGE),
        (errors.ModelFailed("x"), ExitCode.FAILED),
        (errors.ModelUnavailable("x"), ExitCode.FAILED),
    ],
)
def test_every_error_has_its_code(
    error: errors.TurnfoldError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(error) == code
    with pytest.raises(SystemExit) as ended, report_errors():
        raise error
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith("turnfold: ")


def test_what_nobody_foresaw_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), report_errors():
        _ = 1 / 0


def test_sessions_are_completed(tmp_path: Path) -> None:
    class Typed:
        params = {"store": seed(tmp_path), "tenant": "default"}  # noqa: RUF012

    assert _complete_session(Typed(), "wa") == [LONG]  # type: ignore[arg-type]
    assert _complete_session(Typed(), "") == [LONG, SHORT]  # type: ignore[arg-type]
    Typed.params["store"] = str(tmp_path / "nowhere.db")
    assert _complete_session(Typed(), "wa") == []  # type: ignore[arg-type]


def test_the_shell_is_offered_completion() -> None:
    assert "--install-completion" in invoke(["--help"]).stdout
    typed = {"_TURNFOLD_COMPLETE": "complete_bash", "COMP_WORDS": "turnfold se", "COMP_CWORD": "1"}
    offered = CliRunner().invoke(app, [], env=typed, prog_name="turnfold").stdout.split()
    assert "sessions" in offered
    assert "fork" not in offered


def point(tokens: int, checkpoint: str = "") -> CallPoint:
    return CallPoint(
        call="c", seq=1, created=0, tokens=tokens, allowed=100, certainty="exact", counter="x", sections={},
        tools=0, messages=1, kept_prefix=1.0, shared=0, moved=False, checkpoint=checkpoint, folded=0,
        dropped=0, shrunk=0, reported_input=None, reported_cached=None,
        cache_missed=False,
    )  # fmt: skip


def test_the_line_of_calls_rises_and_marks_a_checkpoint() -> None:
    calls = [point(0), point(50), point(100), point(20, "k")]
    assert sparkline(calls, width=40, plain=False) == "▁▅█⟲▂"
    assert sparkline(calls, width=40, plain=True) == "_=#|."
    assert sparkline(calls, width=2, plain=True) == "|."
    assert sparkline([], width=10, plain=True) == ""


@pytest.mark.parametrize("width", [8, 40, 200])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.75, 0.99, 1.0])
def test_the_tick_points_at_its_place(width: int, share: float) -> None:
    line = tick_line(share, width, plain=True).plain
    assert line.index("^") == min(int(share * width), width - 1)
    assert len(line) <= width


def test_the_fuller_the_redder() -> None:
    assert [band(share) for share in (0.1, 0.6, 0.8, 0.95, 1.2)] == [
        "green", "yellow", "dark_orange", "red", "red",
    ]  # fmt: skip


def test_progress_waits_a_second_and_needs_somebody_to_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(screen.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    reporter = screen.Reporter("working")
    reporter.report(1, 10)
    assert reporter._progress is None
    now[0] += 1.5
    reporter.report(5, 10)
    assert reporter._progress is not None
    assert reporter._progress.tasks[0].completed == 5
    reporter.close()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    unseen = screen.Reporter("working")
    now[0] += 60
    unseen.report(5, 10)
    assert unseen._progress is None


def test_addresses_and_paths_mean_the_same(tmp_path: Path) -> None:
    spaced = tmp_path / "my chats 会话.db"
    address = store_address.address_of(str(spaced))
    assert store_address.file_of(address) == spaced
    assert store_address.file_of("sqlite://") is None
    assert store_address.file_of("postgresql://h/x") is None
    assert shown_address(address) == address


def test_a_summarizer_that_is_down_is_told(tmp_path: Path) -> None:
    def down(*_: object) -> str:
        raise ConnectionError("the summarizer is down")

    store = str(tmp_path / "down.db")
    budget = Budget(max_tokens=600)
    # In the background it would be asked again after a second, two and four.
    with Memory(f"sqlite:///{store}", budget=budget, summarizer=down, fold="inline") as memory:
        session = memory.session("s")
        for turn in range(30):
            session.user(f"step {turn}: " + "detail " * 30)
            session.context()
            session.assistant("noted")
    drawn = " ".join(invoke(["context", "s", "--store", store]).stdout.split())
    assert "folding failed" in drawn
    assert "last with ConnectionError" in drawn
    [found] = [
        each
        for each in invoke_json(["doctor", "--store", store])["findings"]
        if each["name"] == "folds"
    ]
    assert found["state"] == "note"
    assert "session 's': folding failed" in found["detail"]


def test_a_budget_that_is_too_small_is_told_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    with Memory(budget=Budget(max_tokens=10)) as memory:
        session = memory.session("s")
        session.system("Be kind to everybody who asks for something.")
        session.user("hi")
        with pytest.raises(errors.BudgetTooSmall) as refused:
            session.context()
    assert "1 条系统消息的外框: " in error_text(refused.value)
    assert "正文，每段截到 8 token: " in error_text(refused.value)
    assert not re.search("[a-z]+ [a-z]+", error_text(refused.value))


@pytest.mark.parametrize(
    ("lang", "told"), [("C.UTF-8", "To undo a fold"), ("zh_CN.UTF-8", "要撤销折叠")]
)
@pytest.mark.parametrize("name", ["unfold", "undo"])
def test_the_way_to_undo_a_fold_is_named(name: str, lang: str, told: str) -> None:
    done = invoke([name, "@last"], width=300, LC_ALL=lang)
    assert done.exit_code == 2
    assert told in done.output
    assert "turnfold checkpoints SESSION --drop ID" in done.output
    assert "Did you mean" not in done.output
