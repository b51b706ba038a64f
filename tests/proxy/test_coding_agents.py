"""Codex and opencode through the proxy with nothing but their base URL changed, where they are installed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.models.strict_server import Call, Say
from tests.proxy.running import proxied, served, with_memory
from tests.proxy.test_tool_loops import ResponsesLoop, tokens_of
from tests.proxy.test_transparency import said
from turnfold import wire
from turnfold.testing.model_server import ModelServer
from turnfold.tokens import counter_for

ROOT = Path(__file__).parents[2]
MODEL, STEPS, MORE = "gpt-4o", 60, 4
"""Model, and the steps of a long turn and of a short one after it."""


def program(name: str) -> str:
    """Where a program is: named (TURNFOLD_CODEX, TURNFOLD_OPENCODE), or where `make test-agents` puts it."""
    places = [os.environ.get(f"TURNFOLD_{name.upper()}", "")]
    places += [str(ROOT / ".npm-agents" / "node_modules" / ".bin" / name), shutil.which(name) or ""]
    return next((place for place in places if place and Path(place).is_file()), "")


def codex(url: str, home: Path, text: str, *, again: bool) -> tuple[list[str], dict[str, str]]:
    words = ["exec", *(["resume", "--last"] if again else []), "--skip-git-repo-check"]
    words += ["-c", f'openai_base_url="{url}/v1"', "-c", 'sandbox_mode="danger-full-access"']
    return [*words, "-m", MODEL, text], {"CODEX_HOME": str(home), "CODEX_API_KEY": "none"}


def opencode(url: str, home: Path, text: str, *, again: bool) -> tuple[list[str], dict[str, str]]:
    config = {
        "autoupdate": False,
        "permission": {"bash": "allow"},
        "provider": {"openai": {"options": {"baseURL": f"{url}/v1", "apiKey": "none"}}},
    }
    folders = {
        f"XDG_{kind}_HOME": str(home / kind) for kind in ("DATA", "CONFIG", "CACHE", "STATE")
    }
    own = {"HOME": str(home), "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    words = ["run", *(["--continue"] if again else []), "-m", f"openai/{MODEL}", text]
    return words, {**folders, **own, "OPENCODE_DISABLE_MODELS_FETCH": "1"}


class Counting:
    """A model that runs a command at each step of a turn, and says so at its end."""

    def __init__(self, tool: str, argument: str) -> None:
        self._tool, self._argument = tool, argument
        self._numbers = itertools.count(1)

    def __call__(self, body: Any) -> Say:
        if not body.get("tools"):
            return Say("标题")  # opencode asks for a title
        number = next(self._numbers)
        if number in (STEPS, STEPS + MORE):
            return Say("done 完成")
        asked = {self._argument: f"seq {number * 100} {number * 100 + 900}", "description": "count"}
        return Say("counting 数数", calls=(Call(f"call_{number}", self._tool, asked),))


def broken_pairs(body: dict[str, Any]) -> list[str]:
    """Calls without exactly one output after them, outputs without a call, and whatever else a provider refuses."""
    waiting: set[str] = set()
    broken: list[str] = []
    for item in body["input"]:
        if item.get("type") == "function_call":
            broken += [item["call_id"]] if item["call_id"] in waiting else []
            waiting.add(item["call_id"])
        elif item.get("type") == "function_call_output":
            broken += [] if item["call_id"] in waiting else [item["call_id"]]
            waiting.discard(item["call_id"])
    return [*broken, *waiting, *map(str, wire.lint(body, "openai_responses"))]


def test_broken_pairs_are_found() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "1"}
    assert broken_pairs({"input": [call, output]}) == []
    for items in ([call], [output], [output, call], [call, call, output], [call, output, output]):
        assert broken_pairs({"input": items})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "tool", "argument", "budget"),
    [(codex, "exec_command", "cmd", 19_000), (opencode, "bash", "command", 18_000)],
)
def test_a_coding_agent_with_its_base_url_alone(
    tmp_path: Path, command: Callable[..., Any], tool: str, argument: str, budget: int
) -> None:
    name = command.__name__
    if not program(name):
        pytest.skip(f"{name} is not installed: make test-agents")
    store = f"sqlite:///{tmp_path}/a.db"
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    with (
        ModelServer(Counting(tool, argument)) as provider,
        proxied(provider.url, store=store, budget=budget) as url,
    ):
        for again, text in ((False, "数一数"), (True, "and once more")):
            words, own = command(url, home, text, again=again)
            run = subprocess.run(
                [program(name), *words],
                env={**os.environ, **own, "PWD": str(work)},
                cwd=work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
            )
            assert run.returncode == 0, run.stderr[-2_000:]
            assert "done 完成" in run.stdout
    assert provider.rejected == []
    calls = [one.body for one in provider.seen if one.body.get("tools")]
    assert len(calls) == STEPS + MORE
    assert [fault for body in calls for fault in broken_pairs(body)] == []
    sizes = [tokens_of(ResponsesLoop, body, counter_for(MODEL)) for body in calls]
    assert [size for size in sizes if size > budget] == []

    async def made(memory: Any) -> list[Any]:
        names = [info.conversation for info in await memory.conversations()]
        found = [await memory.session(one).calls(limit=1_000) for one in names]
        return [call for some in found for call in some]

    receipts = with_memory(store, made)
    assert sum(bool(call.checkpoint) for call in receipts) >= STEPS // 2  # most were shortened


def test_a_websocket_is_declined_with_the_status_at_which_codex_takes_http() -> None:
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    with served(lambda _: said("yes")) as (provider, http):
        answer = http.get("/v1/responses", headers={**headers, "sec-websocket-key": "a2V5"})
    assert answer.status_code == 426
    assert "WebSocket connections are not passed on" in answer.json()["error"]["message"]
    assert provider.seen == []
