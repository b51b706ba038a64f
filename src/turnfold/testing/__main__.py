"""Run a model server for programs that have no key: `python -m turnfold.testing`.

It prints the lines that point the SDKs of OpenAI and Anthropic to it, and answers each request with the number of
messages and the newest of them, in its language, until Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from turnfold.testing.model_replies import Body
from turnfold.testing.model_server import ModelServer
from turnfold.text import is_chinese

__all__ = ("main",)

_SHOWN = 200
"""Most characters of the newest message that the local test server repeats in its answer."""


def main() -> int:
    """Serve until Ctrl-C or SIGTERM; returns the exit code."""
    with ModelServer(_answer) as server:
        sys.stdout.write(
            f"export OPENAI_BASE_URL={server.base_url} OPENAI_API_KEY=any\n"
            f"export ANTHROPIC_BASE_URL={server.url} ANTHROPIC_API_KEY=any\n"
        )
        sys.stdout.flush()
        sys.stderr.write(
            "Paste a line into another shell, and run your program there. Ctrl-C ends the server.\n"
        )
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            server.released.wait()
    return 0


def _answer(body: Body) -> str:
    asked = body.get("messages") or body.get("input") or ()
    messages = [asked] if isinstance(asked, str) else cast("Sequence[object]", asked)
    newest = " ".join(_text(messages[-1]).split())[:_SHOWN] if messages else ""
    if is_chinese(newest):
        return f"（本机的模型服务器）收到 {len(messages)} 条消息，最新的是：{newest}"
    noun = "message" if len(messages) == 1 else "messages"
    return f"(the model server on your machine) I got {len(messages)} {noun}, the newest: {newest}"


def _text(message: object) -> str:
    """Return the text of a message of any of the three interfaces."""
    if isinstance(message, str):
        return message
    fields = cast("Mapping[str, object]", message)
    content = fields.get("content") or fields.get("output") or ""
    if isinstance(content, str):
        return content
    blocks = cast("Sequence[Mapping[str, object]]", content)
    return " ".join(str(block.get("text", "")) for block in blocks)


if __name__ == "__main__":
    raise SystemExit(main())
