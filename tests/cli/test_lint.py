"""A damaged history is judged, its faults are named with their source, and it can be mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turnfold.cli.app import app
from turnfold.wire import guess_provider, lint

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
