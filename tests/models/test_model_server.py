"""The model server that apps test with: the official SDKs, by base URL, whole and streamed."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from anthropic import Anthropic
from openai import APIStatusError, OpenAI

from turnfold.testing import ModelReply, ModelServer, ReplyCall, ReplyError

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
