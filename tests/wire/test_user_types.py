"""A user's own loop passes strict type checkers with the official SDKs: the arguments of a request, and `add`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.source_tree import SOURCE

pytestmark = pytest.mark.slow

LOOP = """
from anthropic import Anthropic
from openai import AsyncOpenAI, OpenAI

from turnfold import Budget, Memory
from turnfold.models import OpenAIChat
from turnfold.wire import anthropic, openai_chat, openai_responses


def ask() -> str:
    with Memory("sqlite:///chat.db", budget=Budget(max_tokens=8_000)) as memory:
        session = memory.session("user-42")
        session.user("hello")
        context = session.context()
        chat = openai_chat.request(context, model="gpt-4o")
        answer = OpenAI().chat.completions.create(**chat.kwargs, stream=False)
        session.add(answer)
        items = openai_responses.request(context, model="gpt-4o")
        session.add(OpenAI().responses.create(**items.kwargs, stream=False))
        messages = anthropic.request(context, model="claude-sonnet-4-5")
        session.add(Anthropic().messages.create(**messages.kwargs, max_tokens=100, stream=False))
        for text in OpenAIChat("gpt-4o").stream(context):
            print(text.upper())
        return answer.choices[0].message.content or ""


async def stream() -> None:
    chat = openai_chat.request([], model="gpt-4o")
    chunks = await AsyncOpenAI().chat.completions.create(**chat.kwargs, stream=True)
    async for chunk in chunks:
        print(chunk.choices[0].delta.content)
    async for text in OpenAIChat("gpt-4o").stream([]):
        print(text.upper())
"""
WRONG = "from turnfold import Memory\n\nMemory(budget=8000)\nMemory().session(42)\n"


def pyright(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "loop.py").write_text(code)
    (folder / "pyrightconfig.json").write_text(
        f'{{"typeCheckingMode": "strict", "extraPaths": ["{SOURCE}"]}}'
    )
    checker = Path(sys.executable).with_name("pyright")
    command = [checker, "--pythonpath", sys.executable, "--project", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def mypy(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "loop.py").write_text(code)
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("mypy runs in an environment of its own, which uv makes")
    command = [uv, "run", "--quiet", "--no-project", "--python", sys.executable, "--with", "mypy"]
    options = ["--strict", "--follow-imports=silent", f"--python-executable={sys.executable}"]
    done = subprocess.run(
        [*command, "mypy", *options, f"--cache-dir={folder / 'cache'}", folder / "loop.py"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MYPYPATH": str(SOURCE)},
    )
    if "Failed to fetch" in done.stderr or "not found in the package registry" in done.stderr:
        pytest.skip(f"mypy cannot be installed here: {done.stderr[-300:]}")
    return done


@pytest.mark.parametrize("check", [pyright, mypy])
def test_a_loop_of_ones_own_has_no_type_errors(
    check: Callable[[Path, str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = check(tmp_path, LOOP)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_option_is_a_type_error(tmp_path: Path) -> None:
    done = pyright(tmp_path, WRONG)
    assert "2 errors" in done.stdout
