"""A damaged history is judged, its faults are named with their source, and it can be mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.seeded import SHORT, invoke, seed
from tests.memory.importing.samples import (
    chatgpt_talk,
    claude_code_lines,
    write_json,
    write_lines,
)
from turnfold import Memory, assistant, user
from turnfold.cli.app import app
from turnfold.wire import guess_provider, lint, openai_chat

RUN = CliRunner()

ORPHAN = [
    {"role": "user", "content": "hi"},
    {"role": "tool", "tool_call_id": "gone", "content": "42"},
    {"role": "assistant", "content": "well"},
]


def write(tmp_path: Path, payload: object, *, lines: bool = False) -> str:
    path = tmp_path / "history.json"
    if lines and isinstance(payload, list):
        path.write_text("\n".join(map(json.dumps, payload)), "utf-8")
    else:
        path.write_text(json.dumps(payload), "utf-8")
    return str(path)


def test_a_sound_history_passes(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["lint", write(tmp_path, [{"role": "user", "content": "hi"}])])
    assert done.exit_code == 0
    assert "openai_chat: 0 faults" in done.output


@pytest.mark.parametrize("lines", [False, True])
def test_an_orphan_is_found_and_mended(tmp_path: Path, *, lines: bool) -> None:
    mended = tmp_path / "mended.json"
    path = write(tmp_path, ORPHAN, lines=lines)
    done = RUN.invoke(app, ["lint", path, "--mend", str(mended)])
    assert done.exit_code == 1
    assert "result-called" in done.output
    assert "\n  repaired: " in done.output
    assert f"\nthe repaired history is in {mended}; the faults are those of {path}\n" in done.output
    assert "\n  would be repaired with --mend FILE: " in RUN.invoke(app, ["lint", path]).output
    whole = json.loads(mended.read_text("utf-8"))
    assert lint(whole, "openai_chat") == ()
    assert "42" in json.dumps(whole) or "42" in done.output
    again = RUN.invoke(app, ["lint", str(mended), "--provider", "openai_chat"])
    assert again.exit_code == 0


def test_findings_as_json(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["lint", write(tmp_path, ORPHAN), "--json"])
    told = json.loads(done.output)
    assert told["provider"] == "openai_chat"
    assert [fault["rule"] for fault in told["faults"]] == ["result-called"]
    assert all(fault["source"] for fault in told["faults"])
    assert told["changes"]


def test_whose_format_it_is() -> None:
    assert guess_provider({"contents": []}) == "gemini"
    assert guess_provider({"input": []}) == "openai_responses"
    assert guess_provider({"system": "s", "messages": []}) == "anthropic"
    assert guess_provider([{"type": "function_call"}]) == "openai_responses"
    assert guess_provider([{"role": "user", "parts": []}]) == "gemini"
    use = {"role": "assistant", "content": [{"type": "tool_use"}]}
    assert guess_provider([use]) == "anthropic"
    assert guess_provider(ORPHAN) == "openai_chat"


def test_what_is_no_history_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{not json", "utf-8")
    done = RUN.invoke(app, ["lint", str(path)])
    assert done.exit_code == 2
    assert "neither JSON nor JSON Lines" in done.output
    named = RUN.invoke(app, ["lint", write(tmp_path, ORPHAN), "--provider", "nobody"])
    assert named.exit_code == 2
    assert "is not one of" in named.output
    for payload in ({"a": 1}, [1, 2], "text"):
        junk = RUN.invoke(app, ["lint", write(tmp_path, payload)])
        assert junk.exit_code == 3
        assert "there are no messages in" in junk.output
    store = seed(tmp_path)
    for command in ("lint", "replay"):
        gone = invoke([command, "none.json", "--store", store])
        assert gone.exit_code == 3
        assert "there is no file none.json, and no session 'none.json'" in gone.stderr


def test_every_file_that_can_be_imported_is_judged(tmp_path: Path) -> None:
    chatgpt = write_json(tmp_path / "conversations.json", [chatgpt_talk("a"), chatgpt_talk("b")])
    done = RUN.invoke(app, ["lint", str(chatgpt)])
    assert done.exit_code == 1
    assert "a: openai_chat: 1 fault\n" in done.output  # a message that is empty
    assert "b: openai_chat: 1 fault\n" in done.output
    code = write_lines(tmp_path / "session.jsonl", claude_code_lines())
    judged = RUN.invoke(app, ["lint", str(code), "--json"])
    assert {each["provider"] for each in json.loads(judged.output)} == {"anthropic"}


def test_the_conversations_of_an_export_are_judged_one_by_one(tmp_path: Path) -> None:
    store, file = str(tmp_path / "chat.db"), str(tmp_path / "chat.jsonl")
    with Memory(f"sqlite:///{store}") as memory:
        memory.session("sound").add([user("hi 你好"), assistant("hello")])
        memory.session("broken").add(ORPHAN)
    assert RUN.invoke(app, ["export", "--all", "--output", file, "--store", store]).exit_code == 0
    mended = tmp_path / "mended.json"
    done = RUN.invoke(app, ["lint", file, "--mend", str(mended)])
    assert done.exit_code == 1
    assert "broken: openai_chat: 1 fault\n" in done.output
    assert "sound: openai_chat: 0 faults\n" in done.output
    for payload in json.loads(mended.read_text("utf-8")):
        assert lint(payload, "openai_chat") == ()


def test_bodies_in_lines_are_judged_one_by_one(tmp_path: Path) -> None:
    bodies = [{"id": "t1", "messages": ORPHAN}, {"messages": [{"role": "user", "content": "x"}]}]
    done = RUN.invoke(app, ["lint", write(tmp_path, bodies, lines=True), "--json"])
    found = json.loads(done.output)
    assert [(each["conversation"], len(each["faults"])) for each in found] == [("t1", 1), ("#2", 0)]


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"\xff\xfe\x00")
    done = RUN.invoke(app, ["lint", str(path)])
    assert done.exit_code == 2
    assert "not text in UTF-8" in done.output


def test_a_stored_session_is_checked(tmp_path: Path) -> None:
    store = seed(tmp_path)
    done = invoke(["lint", SHORT, "--store", store])
    assert done.exit_code == 0, done.output
    assert f"{SHORT}: openai_chat: 0 faults" in done.stdout
    assert invoke(["lint", "nosuch", "--store", store]).exit_code == 3


def test_a_stored_session_is_repaired_by_itself(tmp_path: Path) -> None:
    """A request from its context is sound, so that nobody needs to repair the log."""
    store = f"sqlite:///{tmp_path}/chat.db"
    with Memory(store) as memory:
        session = memory.session("one")
        session.user("weather?")
        call = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}
        session.assistant(tool_calls=[call])
        session.user("never mind")
        assert lint(openai_chat.request(session.context()).kwargs, "openai_chat") == ()
    at = ["lint", "one", "--store", store]
    done = RUN.invoke(app, at)
    assert done.exit_code == 1
    assert "\n  repaired by itself in the requests made from context(): " in done.output
    assert "--mend" not in done.output
    mended = RUN.invoke(app, [*at, "--mend", str(tmp_path / "mended.json")])
    assert "\n  repaired: " in mended.output


@pytest.mark.parametrize("option", ["--repair", "--fix"])
def test_the_name_that_others_give_the_option_is_answered(tmp_path: Path, option: str) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(ORPHAN), "utf-8")
    asked = invoke(["lint", str(path), option, "x.json"], width=200)
    assert asked.exit_code == 2
    assert "--mend" in asked.stderr
    assert "--mend" not in invoke(["sessions", option], width=200).stderr  # it has no such option


def test_an_import_says_that_lint_finds_faults(tmp_path: Path) -> None:
    path, store = tmp_path / "talk.json", str(tmp_path / "new.db")
    path.write_text(json.dumps(ORPHAN), "utf-8")
    done = invoke(["import", str(path), "--store", store], width=200)
    assert done.exit_code == 0, done.output
    assert f"1 fault by the rules of its provider; `turnfold lint {path}` lists them" in done.stdout
    path.write_text(json.dumps([ORPHAN[0], ORPHAN[2]]), "utf-8")
    clean = invoke(["import", str(path), "--session", "other", "--store", store], width=200)
    assert "fault" not in clean.stdout


def test_an_import_says_how_it_counts(tmp_path: Path) -> None:
    """An export has no token counts: the same conversation may have others in another store."""
    path, store = tmp_path / "talk.json", str(tmp_path / "new.db")
    path.write_text(json.dumps([ORPHAN[0], ORPHAN[2]]), "utf-8")
    run = ["import", str(path), "--store", store]
    assert "tokens are counted with cautious" in invoke(run, width=200).stdout
    named = invoke([*run, "--session", "other", "--model", "gpt-4o"], width=200).stdout
    assert "tokens are counted with o200k_base" in named
