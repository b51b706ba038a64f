"""Run a model server for programs that have no key: `python -m turnfold.testing`.

It prints the lines that point the SDKs of OpenAI and Anthropic to it, and answers each request with the number of
messages and the newest of them, in its language, or with a tool call if the user asks for one, until Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from getopt import GetoptError, getopt
from typing import Final

from turnfold.testing.echo_reply import echo_reply
from turnfold.testing.model_server import ModelServer
from turnfold.text import language_of

__all__ = ("main",)

_ENGLISH: Final = {
    "help": """Usage: python -m turnfold.testing [--port N]

Serves OpenAI's Chat Completions and Responses and Anthropic's Messages on this
machine, without a key and a network, until Ctrl-C. Each answer repeats the
newest message; a user message with "use the tool", or the name of a tool, is
answered with a tool call, and its result is repeated.

  --port N    Port to listen on. Default: a free one.
  -h, --help  Show this text.
""",
    "banner": "Paste a line into another shell, and run your program there. Ctrl-C ends the server.",
    "option": "no option {named}; --help lists the options",
    "argument": "no argument {named!r}; --help lists the options",
    "port": "--port needs a number from 0 to 65535",
    "taken": "cannot listen on port {named}: {reason}; choose another --port, or none",
}
_CHINESE: Final = {
    "help": """用法：python -m turnfold.testing [--port N]

在本机提供 OpenAI 的 Chat Completions、Responses 和 Anthropic 的 Messages 接口，
不需要密钥和网络，直到按 Ctrl-C。每个回答重复最新的消息；用户消息中有“用工具”
或某个工具的名称时，以工具调用回答，之后重复工具的结果。

  --port N    监听的端口。默认：任意空闲端口。
  -h, --help  显示这段文字。
""",
    "banner": "把其中一行粘贴到另一个终端，在那里运行你的程序。按 Ctrl-C 结束服务器。",
    "option": "没有选项 {named}；--help 列出全部选项",
    "argument": "没有参数 {named!r}；--help 列出全部选项",
    "port": "--port 需要 0 到 65535 之间的数",
    "taken": "无法监听端口 {named}：{reason}；请用 --port 换一个端口，或不写 --port",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; returns the exit code."""
    texts = _CHINESE if language_of(os.environ) == "zh" else _ENGLISH
    port = 0
    try:
        options, rest = getopt(
            list(sys.argv[1:] if arguments is None else arguments), "h", ["help", "port="]
        )
    except GetoptError as error:
        if error.opt == "port":
            return _refuse(texts["port"])
        return _refuse(texts["option"].format(named=f"{'-' * min(2, len(error.opt))}{error.opt}"))
    if rest:
        return _refuse(texts["argument"].format(named=rest[0]))
    for name, value in options:
        if name != "--port":
            sys.stdout.write(texts["help"])
            return 0
        if not (value.isdecimal() and int(value) <= 65_535):
            return _refuse(texts["port"])
        port = int(value)
    try:
        with ModelServer(echo_reply, port=port) as server:
            _serve(server, texts["banner"])
    except OSError as error:
        return _refuse(texts["taken"].format(named=port, reason=error.strerror), code=1)
    return 0


def _refuse(told: str, *, code: int = 2) -> int:
    sys.stderr.write(f"turnfold.testing: {told}\n")
    return code


def _serve(server: ModelServer, banner: str) -> None:
    sys.stdout.write(
        f"export OPENAI_BASE_URL={server.base_url} OPENAI_API_KEY=any\n"
        f"export ANTHROPIC_BASE_URL={server.url} ANTHROPIC_API_KEY=any\n"
    )
    sys.stdout.flush()
    sys.stderr.write(f"{banner}\n")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        server.released.wait()


if __name__ == "__main__":
    raise SystemExit(main())
