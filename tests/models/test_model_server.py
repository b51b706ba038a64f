"""The model server that apps test with: the official SDKs, by base URL, whole and streamed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest
from anthropic import Anthropic
from openai import APIStatusError, OpenAI

from turnfold.testing import ModelReply, ModelServer, ReplyCall, ReplyError
from turnfold.testing.echo_reply import echo_reply

ASKED = [{"role": "user", "content": "Beijing in May 五月"}]
TOOL = {"type": "object", "properties": {}}


def test_texts_are_the_replies_of_all_three_interfaces() -> None:
    with ModelServer(["one 一", "two 二", "three 三"]) as server:
        openai = OpenAI(base_url=server.base_url, api_key="any")
        chat = openai.chat.completions.create(model="gpt-4o", messages=ASKED)  # type: ignore[arg-type]
        assert chat.choices[0].message.content == "one 一"
        assert openai.responses.create(model="gpt-4o", input=ASKED).output_text == "two 二"  # type: ignore[arg-type]
        anthropic = Anthropic(base_url=server.url, api_key="any")
        said = anthropic.messages.create(model="claude", max_tokens=9, messages=ASKED)  # type: ignore[arg-type]
        assert said.content[0].text == "three 三"  # type: ignore[union-attr]
        assert [each.path for each in server.seen] == [
            "/v1/chat/completions",
            "/v1/responses",
            "/v1/messages",
        ]
        assert server.seen[0].body["messages"] == ASKED


def test_a_script_that_raises_is_answered_with_its_error() -> None:
    def script(_: object) -> str:
        raise KeyError("五月")

    with ModelServer(script) as server:
        openai = OpenAI(base_url=server.base_url, api_key="any", max_retries=0)
        with pytest.raises(APIStatusError, match="the script raised KeyError: '五月'") as caught:
            openai.chat.completions.create(model="gpt-4o", messages=ASKED)  # type: ignore[arg-type]
        assert caught.value.status_code == 500


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Three days in Beijing", "I got 1 message, the newest: Three days in Beijing"),
        ("北京三天", "收到 1 条消息，最新的是：北京三天"),
    ],
)
def test_one_command_serves_programs_without_a_key(said: str, answer: str) -> None:
    served = subprocess.Popen(
        [sys.executable, "-m", "turnfold.testing"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert served.stdout is not None
        lines = [served.stdout.readline(), served.stdout.readline()]
        named = dict(word.split("=", 1) for line in lines for word in line.split()[1:])
        openai = OpenAI(base_url=named["OPENAI_BASE_URL"], api_key=named["OPENAI_API_KEY"])
        asked = [{"role": "user", "content": said}]
        chat = openai.chat.completions.create(model="gpt-4o", messages=asked)  # type: ignore[arg-type]
        assert str(chat.choices[0].message.content).endswith(answer)
        parts = [{"role": "user", "content": [{"type": "input_text", "text": said}]}]
        assert openai.responses.create(model="gpt-4o", input=parts).output_text.endswith(answer)  # type: ignore[arg-type]
        anthropic = Anthropic(
            base_url=named["ANTHROPIC_BASE_URL"], api_key=named["ANTHROPIC_API_KEY"]
        )
        told = anthropic.messages.create(model="claude", max_tokens=99, messages=asked)  # type: ignore[arg-type]
        assert told.content[0].text.endswith(answer)  # type: ignore[union-attr]
        served.send_signal(signal.SIGINT)
        assert served.wait(timeout=20) == 0
    finally:
        served.kill()
        served.wait()
        if served.stdout:
            served.stdout.close()


def run_command(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "turnfold.testing", *options],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        timeout=60,
    )


@pytest.mark.parametrize(
    ("language", "told"), [("en", "Usage: python -m turnfold.testing"), ("zh", "用法：python -m")]
)
def test_the_command_tells_its_options_and_ends(language: str, told: str) -> None:
    ended = run_command("--help", TURNFOLD_LANG=language)
    assert ended.returncode == 0
    assert told in ended.stdout
    assert "--port N" in ended.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--prot", "9"), "no option --prot"),
        (("stay",), "no argument 'stay'"),
        (("--port",), "--port needs a number from 0 to 65535"),
        (("--port", "many"), "--port needs a number from 0 to 65535"),
        (("--port=70000",), "--port needs a number from 0 to 65535"),
    ],
)
def test_the_command_refuses_other_options(options: tuple[str, ...], told: str) -> None:
    ended = run_command(*options, TURNFOLD_LANG="en")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr


def test_a_port_in_use_is_told_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run_command("--port", str(port), TURNFOLD_LANG="en")
        assert ended.returncode == 1
        assert f"cannot listen on port {port}" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_the_server_listens_on_the_port_that_is_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with ModelServer(["here"], port=port) as server:
        assert server.url == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("language", "told"), [("zh_CN.UTF-8", "把其中一行粘贴"), ("en_GB.UTF-8", "Paste a line")]
)
def test_the_banner_is_in_the_language_of_the_locale(language: str, told: str) -> None:
    environment = {**os.environ, "LANG": language, "PYTHONIOENCODING": "utf-8"}
    for name in ("TURNFOLD_LANG", "LC_ALL", "LC_MESSAGES"):
        environment.pop(name, None)
    served = subprocess.Popen(
        [sys.executable, "-m", "turnfold.testing"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment,
    )
    try:
        assert served.stderr is not None
        assert told in served.stderr.readline()
    finally:
        served.kill()
        served.communicate()


PARAMETERS = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "days": {"type": "integer", "minimum": 3},
        "size": {"anyOf": [{"enum": ["small", "large"]}, {"type": "null"}]},
        "place": {"$ref": "#/$defs/Place"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "gift": {"type": "boolean"},
        "note": {"type": "string"},
    },
    "required": ["order", "days", "size", "place", "tags", "gift"],
    "$defs": {
        "Place": {
            "type": "object",
            "properties": {"name": {"type": "string", "default": "Beijing"}},
            "required": ["name"],
        }
    },
}
FILLED = {
    "order": "example",
    "days": 3,
    "size": "small",
    "place": {"name": "Beijing"},
    "tags": ["example"],
    "gift": True,
}


@pytest.mark.parametrize(
    "said",
    ["Please use the tool.", "请用工具", "用一下工具查订单", "用order_status查", "order_status?"],
)
def test_a_user_who_asks_for_the_tool_gets_a_call_and_then_its_result(said: str) -> None:
    other = {"name": "other", "description": "", "parameters": TOOL}
    wanted = {"name": "order_status", "description": "", "parameters": PARAMETERS}
    with ModelServer(echo_reply) as server:
        openai = OpenAI(base_url=server.base_url, api_key="any", max_retries=0)
        asked: list[Any] = [{"role": "user", "content": said}]
        tools: list[Any] = [{"type": "function", "function": wanted}]
        if "order_status" in said:
            tools.insert(0, {"type": "function", "function": other})
        made = openai.chat.completions.create(model="m", messages=asked, tools=tools)
        calls: Any = made.choices[0].message.tool_calls
        [call] = calls
        assert call.function.name == "order_status"
        assert json.loads(call.function.arguments) == FILLED
        asked += [
            made.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "shipped 已发货"},
            {"role": "user", "content": f"<notes>{said}</notes>"},  # a memory's notes, after it
        ]
        answer = openai.chat.completions.create(model="m", messages=asked, tools=tools)
        assert answer.choices[0].message.tool_calls is None
        assert "shipped 已发货" in str(answer.choices[0].message.content)
        asked += [
            {"role": "assistant", "content": "It is shipped."},
            {"role": "user", "content": "Thanks"},
        ]
        thanked = openai.chat.completions.create(model="m", messages=asked, tools=tools)
        assert str(thanked.choices[0].message.content).endswith("the newest: Thanks")


def test_the_tool_is_called_on_the_other_interfaces_too() -> None:
    asked: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "use the tool"}]}]
    with ModelServer(echo_reply) as server:
        anthropic = Anthropic(base_url=server.url, api_key="any", max_retries=0)
        offered: Any = [{"name": "order_status", "input_schema": PARAMETERS}]
        made = anthropic.messages.create(model="c", max_tokens=99, messages=asked, tools=offered)
        [call] = [block for block in made.content if block.type == "tool_use"]
        assert (call.name, call.input) == ("order_status", FILLED)
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "shipped"}
        asked += [
            {"role": "assistant", "content": made.content},
            {"role": "user", "content": [result]},
        ]
        told = anthropic.messages.create(model="c", max_tokens=99, messages=asked, tools=offered)
        assert told.content[0].text.endswith("the newest: shipped")  # type: ignore[union-attr]

        openai = OpenAI(base_url=server.base_url, api_key="any", max_retries=0)
        tools: Any = [
            {"type": "web_search"},
            {"type": "function", "name": "order_status", "parameters": PARAMETERS},
        ]
        items: list[Any] = [{"role": "user", "content": "use the tool"}]
        response = openai.responses.create(model="m", input=items, tools=tools)
        [item] = response.output
        assert (item.type, item.name) == ("function_call", "order_status")  # type: ignore[union-attr]
        items += [
            item.model_dump(exclude_none=True),
            {"type": "function_call_output", "call_id": item.call_id, "output": "shipped"},  # type: ignore[union-attr]
        ]
        told_so = openai.responses.create(model="m", input=items, tools=tools)
        assert told_so.output_text.endswith("the newest: shipped")
        assert server.rejected == []


def test_without_tools_the_request_for_one_is_answered_with_text() -> None:
    assert str(echo_reply({"messages": [{"role": "user", "content": "use the tool"}]})).endswith(
        "the newest: use the tool"
    )


def test_a_function_answers_with_a_stream() -> None:
    with ModelServer(lambda body: f"{len(body['messages'])} messages") as server:
        openai = OpenAI(base_url=server.base_url, api_key="any")
        chunks = openai.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True)  # type: ignore[call-overload]
        pieces = [each.choices[0].delta.content or "" for each in chunks]
        assert (len(pieces) > 3, "".join(pieces)) == (True, "1 messages")
        anthropic = Anthropic(base_url=server.url, api_key="any")
        with anthropic.messages.stream(model="claude", max_tokens=9, messages=ASKED) as stream:  # type: ignore[arg-type]
            assert "".join(stream.text_stream) == "1 messages"


def test_tool_calls_and_errors_are_scripted_and_a_used_up_script_says_so() -> None:
    call = ReplyCall("c1", "look_up", {"place": "故宫"})
    with ModelServer([ModelReply(calls=(call,)), ReplyError(401, "bad key")]) as server:
        openai = OpenAI(base_url=server.base_url, api_key="any")

        def ask() -> object:
            tool = {"type": "function", "function": {"name": "look_up", "parameters": TOOL}}
            made = openai.chat.completions.create(model="m", messages=ASKED, tools=[tool])  # type: ignore[arg-type, list-item]
            return made.choices[0].message.tool_calls

        [found] = ask()  # type: ignore[misc]
        assert found.function.arguments == '{"place": "\\u6545\\u5bab"}'
        with pytest.raises(APIStatusError, match="bad key"):
            ask()
        with pytest.raises(APIStatusError, match="the script has 2 items, and all were used"):
            ask()


def test_what_a_provider_would_refuse_is_refused() -> None:
    orphan = [*ASKED, {"role": "tool", "tool_call_id": "c9", "content": "x"}]
    with ModelServer(["never said"], window=1_000) as server:
        openai = OpenAI(base_url=server.base_url, api_key="any")
        with pytest.raises(APIStatusError, match="c9") as caught:
            openai.chat.completions.create(model="m", messages=orphan)  # type: ignore[arg-type]
        assert caught.value.status_code == 400
        assert len(server.rejected) == 1
        with pytest.raises(APIStatusError, match="maximum context length is 1000 tokens"):
            openai.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "word " * 1_000}]
            )
