"""The examples run as programs, against a local model server that refuses what providers refuse."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest
from psycopg.conninfo import conninfo_to_dict

from examples import coding_agent, customer_service, langgraph_approval
from tests.examples.langchain_model import OpenAIModel
from tests.house.source_tree import ROOT, SOURCE
from tests.models.strict_server import Call, Refuse, Say, StrictServer
from tests.stores.redis_server import RedisServer
from tests.stores.servers import fresh_database
from tools.docs_pages import fences
from turnfold import Memory


def environment(server: StrictServer, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}",
        "PYTHONUTF8": "1",
        "TURNFOLD_MODEL": "gpt-4o",
        "TURNFOLD_STORE": f"sqlite:///{folder / 'chat.db'}",
    }


def as_url(conninfo: str) -> str:
    parts = conninfo_to_dict(conninfo)
    user, name = parts.pop("user"), parts.pop("dbname")
    return f"postgresql://{user}@/{name}?{urlencode(parts)}"


def test_the_support_agent_looks_up_the_order_and_goes_on(tmp_path: Path) -> None:
    look_up = Say(calls=(Call("call_1", "order_status", {"order": "A-1007"}),))
    script = [look_up, Say("您的订单已发货，预计明天送达。"), Say("不客气！")]
    with StrictServer(script) as server:
        for said, answer in (("订单 A-1007 到哪里了？", "预计明天送达"), ("谢谢", "不客气")):
            done = subprocess.run(
                [sys.executable, "-m", "examples.customer_service", "客户-42", said],
                capture_output=True,
                check=False,
                cwd=tmp_path,
                encoding="utf-8",
                env=environment(server, tmp_path),
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert answer in done.stdout
        assert server.rejected == []
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}") as memory:
        session = memory.session("客户-42")
        roles = [entry.message.role for entry in session.history()]
        assert roles == "system user assistant tool assistant user assistant".split()
        assert session.history()[3].message.text == "已发货，预计明天送达"
        assert all(call.usage is not None for call in session.calls())


EXAMPLE, PAGE = "examples.streaming_chat", "docs/en/recipes/streaming.md"
WEB_APPS = pytest.mark.parametrize("app", [EXAMPLE, PAGE])
FASTAPI = """
from typing import get_type_hints

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException as HTTPException
from starlette.responses import PlainTextResponse


class FastAPI(Starlette):
    def post(self, path):
        def add(handler):
            async def endpoint(request):
                try:
                    said = get_type_hints(handler)["said"].model_validate_json(await request.body())
                except ValidationError as error:
                    return PlainTextResponse(str(error), 422)
                return await handler(**request.path_params, said=said)

            self.router.add_route(path, endpoint, methods=["POST"])
            return handler

        return add
"""
"""As much of FastAPI, which is not among the packages of the tests, as the page needs."""


def module_of(app: str, folder: Path) -> str:
    """Write the program of a page into a folder, with FastAPI beside it; return the module to serve."""
    if app == EXAMPLE:
        return app
    blocks = fences((ROOT / app).read_text(encoding="utf-8"))
    [program] = [block.text for block in blocks if block.language == "py"]
    (folder / "app.py").write_text(program, encoding="utf-8")
    (folder / "fastapi").mkdir()
    (folder / "fastapi" / "__init__.py").write_text(FASTAPI, encoding="utf-8")
    responses = "from starlette.responses import StreamingResponse as StreamingResponse\n"
    (folder / "fastapi" / "responses.py").write_text(responses, encoding="utf-8")
    return "app"


@contextmanager
def serving(server: StrictServer, folder: Path, app: str) -> Iterator[str]:
    """Run a web app under uvicorn on a socket that is listening already, so that nobody waits for it to start."""
    module = module_of(app, folder)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = listening.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", f"{module}:app", "--fd", str(number)],
            cwd=folder,
            env=environment(server, folder),
            pass_fds=[number],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            process.terminate()
            process.wait(30)


@WEB_APPS
@pytest.mark.usefixtures("no_certificates")
def test_the_web_app_streams_and_stores_the_answer(tmp_path: Path, app: str) -> None:
    with (
        StrictServer([Say("Day one: 故宫。"), Say("Day two: 长城。")]) as server,
        serving(server, tmp_path, app) as url,
        httpx2.Client(timeout=60) as client,
    ):
        for turn, said, answer in (
            ("t1", "五月去北京三天。", "Day one: 故宫。"),
            ("t2", "And then?", "Day two: 长城。"),
            ("t1", "五月去北京三天。", "Day one: 故宫。"),  # again: nothing is asked or stored
        ):
            response = client.post(f"{url}/chat/user-42", json={"turn": turn, "text": said})
            assert response.status_code == 200
            assert response.text == answer
        another = {"turn": "t1", "text": "十月去西安三天。"}
        assert client.post(f"{url}/chat/user-42", json=another).status_code == 409
        assert len(server.seen) == 2
        assert server.rejected == []
        assert client.post(f"{url}/chat/user-42", json={"text": "?"}).status_code == 422
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}") as memory:
        texts = [entry.message.text for entry in memory.session("user-42/chat").history()]
    assert texts[1:] == ["五月去北京三天。", "Day one: 故宫。", "And then?", "Day two: 长城。"]


@WEB_APPS
@pytest.mark.usefixtures("no_certificates")
def test_the_web_app_says_so_when_the_model_is_down_or_the_chat_deleted(
    tmp_path: Path, app: str
) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    busy = Refuse(500, headers={"retry-after": "0"})
    said = {"turn": "t1", "text": "五月去北京三天。"}
    with (
        StrictServer([busy, busy, busy, Refuse(401), Say("Day one: 故宫。")]) as server,
        serving(server, tmp_path, app) as url,
        httpx2.Client(timeout=60) as client,
    ):
        assert client.post(f"{url}/chat/user-42", json=said).status_code == 503
        assert client.post(f"{url}/chat/user-42", json=said).status_code == 502  # refused
        response = client.post(f"{url}/chat/user-42", json=said)
        assert (response.status_code, response.text) == (200, "Day one: 故宫。")
        with Memory(store) as memory:
            session = memory.session("user-42/chat")
            roles = [entry.message.role for entry in session.history()]
            assert roles == ["system", "user", "assistant"]
            session.delete()
        again = client.post(f"{url}/chat/user-42", json={**said, "turn": "t2"})
        assert again.status_code == 410


@WEB_APPS
@pytest.mark.usefixtures("no_certificates")
def test_the_web_app_answers_a_turn_once_that_is_sent_twice_at_once(
    tmp_path: Path, app: str
) -> None:
    look_up = Say(calls=(Call("call_1", "order_status", {"order": "A-1007"}),))
    said = {"turn": "t1", "text": "订单 A-1007 到哪里了？"}
    with (
        StrictServer([look_up, Say("It arrives tomorrow. 明天送达。")]) as server,
        serving(server, tmp_path, app) as url,
        httpx2.Client(timeout=60) as client,
        ThreadPoolExecutor() as pool,
    ):
        posts = [pool.submit(client.post, f"{url}/chat/user-42", json=said) for _ in range(3)]
        texts = sorted(post.result().text for post in posts)
        answer = "It arrives tomorrow. 明天送达。"
        assert texts == [answer, answer, f"[order_status] {answer}"]
        assert len(server.seen) == 2
        assert server.rejected == []
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}") as memory:
        roles = [entry.message.role for entry in memory.session("user-42/chat").history()]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]


REFUND = Call("call_1", "refund", {"order": "A-1007", "amount": 88})


@pytest.mark.usefixtures("no_certificates")
@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (["--approve"], ("refunded 88 for A-1007", "已退款 88 元。")),
        (["--reject", "先要收据"], ("先要收据", "请先提供收据。")),
    ],
    ids=["approved", "rejected"],
)
def test_the_refund_waits_for_a_person_and_goes_on_afterwards(
    decision: list[str],
    expected: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result, answer = expected
    store = f"sqlite:///{tmp_path / 'refunds.db'}"
    monkeypatch.setattr(langgraph_approval, "STORE", store)
    with StrictServer([Say(calls=(REFUND,)), Say(answer), Say("不客气！")]) as server:
        model = OpenAIModel(url=f"{server.url}/v1")
        langgraph_approval.main(["user-42", "Refund order A-1007, 退款 88 元"], model)
        assert capsys.readouterr().out.startswith("waits for approval: refund(")
        with Memory(store) as memory:  # nothing was paid, and the question is in the log
            roles = [entry.message.role for entry in memory.session("user-42").history()]
            assert roles == ["system", "user"]
        langgraph_approval.main(["user-42", *decision], model)
        assert capsys.readouterr().out == f"{answer}\n"
        langgraph_approval.main(["user-42", "谢谢"], model)
        assert server.rejected == []
    with Memory(store) as memory:
        messages = [entry.message for entry in memory.session("user-42").history()]
    roles = "system user assistant tool assistant user assistant".split()
    assert [message.role for message in messages] == roles
    assert result in messages[3].text


def test_the_support_agent_works_on_postgresql_with_redis_in_front(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    redis = RedisServer()
    store = as_url(fresh_database())
    look_up = Say(calls=(Call("call_1", "order_status", {"order": "A-1008"}),))
    try:
        with StrictServer([look_up, Say("您的订单等待付款。"), Say("不客气！")]) as server:
            monkeypatch.setenv("OPENAI_API_KEY", "k")
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            monkeypatch.setenv("TURNFOLD_STORE", store)
            monkeypatch.setenv("TURNFOLD_CACHE", redis.url)
            for said in ("订单 A-1008 到哪里了？", "谢谢"):
                customer_service.main(["客户-42", said])
            assert server.rejected == []
        assert capsys.readouterr().out == "您的订单等待付款。\n不客气！\n"
        assert redis.ask("KEYS", "*"), "nothing was cached"
        with Memory(store) as memory:
            roles = [entry.message.role for entry in memory.session("客户-42").history()]
        assert roles == "system user assistant tool assistant user assistant".split()
    finally:
        redis.stop()


@pytest.mark.usefixtures("no_certificates")
def test_the_coding_agent_reads_once_and_every_turn_can_be_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    before, after = "def add(a, b):\n    return a + b\n", "def plus(a, b):\n    return a + b\n"
    (project / "utils.py").write_text(before, "utf-8")
    read = {"path": "utils.py"}
    script = [
        Say(calls=(Call("c1", "read_file", read),)),
        Say(calls=(Call("c2", "read_file", read), Call("c3", "read_file", {"path": "../x"}))),
        Say(calls=(Call("c4", "write_file", {"path": "utils.py", "content": after}),)),
        Say(calls=(Call("c5", "read_file", read),)),
        Say("已改名。Renamed."),
    ]
    monkeypatch.setattr(coding_agent, "STORE", f"sqlite:///{tmp_path / 'coding.db'}")
    with StrictServer(script) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        coding_agent.main([str(project), "Rename add to plus. 改名"])
        assert server.rejected == []
    assert capsys.readouterr().out == "已改名。Renamed.\n"
    assert (project / "utils.py").read_text("utf-8") == after
    with Memory(coding_agent.STORE) as memory:
        messages = [entry.message for entry in memory.session(coding_agent.SESSION).history()]
    results = {one.results[0].call_id: one.text for one in messages if one.role == "tool"}
    assert results["c1"] == before
    assert results["c2"] != before, "the second reading was made again"
    assert before.strip() in results["c2"]
    assert "outside the project" in results["c3"]
    assert (results["c4"], results["c5"]) == ("wrote utils.py", after)
    coding_agent.main([str(project), "--diff"])
    shown = capsys.readouterr().out
    assert "-def add(a, b):" in shown
    assert "+def plus(a, b):" in shown
    coding_agent.main([str(project), "--restore", "1"])
    assert (project / "utils.py").read_text("utf-8") == before


def test_the_cells_of_the_notebook_run_in_order_and_hold_no_output() -> None:
    notebook = json.loads((ROOT / "examples" / "quickstart.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    assert [cell["outputs"] for cell in cells] == [[]] * len(cells)

    async def run() -> (
        None
    ):  # as Jupyter does: inside a running loop, with await at the top of a cell
        names: dict[str, object] = {}
        for number, cell in enumerate(cells):
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile("".join(cell["source"]), f"cell {number}", "exec", flags=flags)
            done = eval(code, names)  # noqa: S307 (our own notebook)
            if inspect.iscoroutine(done):
                await done

    asyncio.run(run())


def test_the_support_agent_without_arguments_says_how_it_is_called() -> None:
    from examples.customer_service import main

    with pytest.raises(SystemExit, match="用法：python -m examples"):
        main([])
