"""`turnfold mcp` as an operator starts it: what it refuses, what it needs, whose sessions it shows, how it ends."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.house.source_tree import ROOT, SOURCE
from tests.service.mcp.clients import ERAS, http_talk, stdio_talk
from tests.service.mcp.seeded import SECRET, seed
from tests.service.running import ServiceProcess, make_tokens
from turnfold.cli.app import app
from turnfold.memory import Memory
from turnfold.service.server import listen


def test_the_tenant_and_the_session_are_those_it_was_started_with(tmp_path: Path) -> None:
    store = seed(tmp_path)

    async def body() -> None:
        words = ("--store", store, "--tenant", "rival", "--session", "rivals-own")
        async with stdio_talk(ERAS[-1], *words, "--max-tokens", "1000") as talk:
            found = await talk.call("recall_context", query="parcel")
            assert (found["session"], SECRET in found["text"]) == ("rivals-own", True)
            assert "limit of this server, 1,000" in await talk.refused(
                "recall_context", query="x", max_tokens=1001
            )
            await talk.call("remember", text="kept by the rival")

    asyncio.run(body())
    with Memory(store, scope="rival") as memory:
        assert memory.session("rivals-own").history()[-1].message.text == "kept by the rival"
    with Memory(store) as memory:
        assert "rivals-own" not in [each.conversation for each in memory.conversations()]


def test_the_service_answers_mcp_where_it_is_asked_to(tmp_path: Path) -> None:
    store, file = seed(tmp_path), tmp_path / "tokens.json"
    made = make_tokens(file, ("own", "rival", ["read"]))

    async def body(url: str) -> None:
        async with http_talk(ERAS[-1], f"{url}/mcp", made["own"]) as talk:
            listed = await talk.call("list_sessions")
            assert [each["session"] for each in listed["sessions"]] == ["rivals-own", "talk"]

    with ServiceProcess("--store", store, "--tokens-file", str(file), "--mcp") as service:
        asyncio.run(body(service.url))
        service.terminate()
        assert service.ended() == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--http", "--host", "0.0.0.0"), "anybody could read and delete"),  # noqa: S104 (refused)
        (("--tokens-file", "tokens.json"), "add --http"),
        (("--allow-host", "x"), "add --http"),
        (("--max-tokens", "10"), "at least 1,000"),
        (("--session", "x" * 513), "1 to 512 characters"),
        (("--http", "--port", "70000"), "must be 0 to 65535"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    done = CliRunner().invoke(app, ["mcp", "--store", store, *words])
    assert done.exit_code == 2
    assert told in done.output


def test_without_its_package_it_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from turnfold.errors import MissingExtra\n"
        "try:\n    import turnfold.service.mcp.server\n"
        "except MissingExtra as error:\n    assert 'turnfold[mcp]' in str(error)\n"
        "else:\n    raise SystemExit(1)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=ROOT)


def test_an_answer_in_two_writes_does_not_wait_for_an_acknowledgement() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY only then"
