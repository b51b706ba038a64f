"""A loop of one's own over the official SDKs: their responses are added as they are, and streamed text is iterated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic import Anthropic as AnthropicClient
from openai import OpenAI

import turnfold
from tests.models.providers import PROVIDERS, Provider, every_provider
from tests.models.strict_server import Call, Refuse, Say, StrictServer
from turnfold import AsyncMemory, Memory, Session, assistant, user
from turnfold.errors import InvalidOption, InvalidRecord, ModelFailed
from turnfold.models import Answer
from turnfold.records import Usage
from turnfold.testing import ScriptedModel
from turnfold.window import Context

SAY = Say("Roses, 玫瑰花.", calls=(Call("call_1", "look", {"place": "花园"}),))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}") as memory:
        session = memory.session("one")
        session.user("What is in the garden? 花园里有什么？")
        yield session


def ask_chat(url: str, context: Context) -> Any:
    request = turnfold.wire.openai_chat.request(context, model="model-1", tools=TOOLS)
    with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        return client.chat.completions.create(**request.kwargs)


def ask_responses(url: str, context: Context) -> Any:
    request = turnfold.wire.openai_responses.request(context, model="model-1", tools=TOOLS)
    with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        return client.responses.create(**request.kwargs)


def ask_anthropic(url: str, context: Context) -> Any:
    request = turnfold.wire.anthropic.request(context, model="model-1", tools=TOOLS)
    with AnthropicClient(base_url=url, api_key="k", max_retries=0) as client:
        return client.messages.create(**request.kwargs, max_tokens=100)


TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at a place.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        },
    }
]
ASK = {"chat": ask_chat, "responses": ask_responses, "anthropic": ask_anthropic}
SHAPES: dict[str, Callable[[Any], Any]] = {
    "response": lambda response: response,
    "dictionary": lambda response: response.model_dump(mode="json"),
    "list": lambda response: [response],
}
INNER: dict[str, Callable[[Any], Any]] = {
    "chat": lambda response: response.choices[0].message,
    "chat, as a dictionary": lambda response: response.choices[0].message.model_dump(),
    "chat, a choice": lambda response: response.choices[0],
    "responses": lambda response: response.output,
    "anthropic": lambda response: {"role": response.role, "content": response.content},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("interface", ASK)
def test_a_whole_response_is_added_with_its_usage(
    interface: str, shape: str, session: Session
) -> None:
    with StrictServer([SAY]) as server:
        response = ASK[interface](server.url, session.context(tools=TOOLS))
    done = session.add(SHAPES[shape](response))
    assert (done.first, done.last) == (2, 2)
    [_, entry] = session.history()
    assert entry.message.role == "assistant"
    assert entry.message.text == SAY.text
    assert [(call.id, call.name) for call in entry.message.calls] == [("call_1", "look")]
    recorded = session.calls()[-1].usage
    assert recorded is not None
    assert recorded == Usage.of(response)
    assert recorded.input > 0


@pytest.mark.parametrize("interface", INNER)
def test_the_message_of_a_response_is_added_without_usage(interface: str, session: Session) -> None:
    ask = ASK[interface.partition(",")[0]]
    with StrictServer([SAY, Say("Good.")]) as server:
        response = ask(server.url, session.context(tools=TOOLS))
        session.add(INNER[interface](response), client_id="a1")
        assert session.add(INNER[interface](response), client_id="a1").repeated
        session.tool("a hedgehog", tool_call_id="call_1")
        ask(server.url, session.context(tools=TOOLS))  # it is taken back as it was added
        assert server.rejected == []
    [_, entry, _] = session.history()
    assert (entry.message.role, entry.message.text) == ("assistant", SAY.text)
    assert [call.name for call in entry.message.calls] == ["look"]
    assert {call.usage for call in session.calls()} == {None}


@pytest.mark.parametrize("interface", ASK)
def test_the_loop_goes_on_with_the_result_of_the_tool(interface: str, session: Session) -> None:
    with StrictServer([SAY, Say("A hedgehog. 刺猬。")]) as server:
        session.add(ASK[interface](server.url, session.context(tools=TOOLS)))
        session.tool("a hedgehog 刺猬", tool_call_id="call_1")
        session.add(ASK[interface](server.url, session.context(tools=TOOLS)))
        assert server.rejected == []
    assert session.history()[-1].message.text == "A hedgehog. 刺猬。"


GEMINI = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "Roses, 玫瑰花."}]},
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 11,
        "candidatesTokenCount": 4,
        "cachedContentTokenCount": 3,
    },
    "modelVersion": "gemini-2.5-pro",
}


def gemini_object() -> Any:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    return types.GenerateContentResponse.model_validate(GEMINI)


@pytest.mark.parametrize("make", [lambda: GEMINI, gemini_object], ids=["dictionary", "object"])
def test_a_response_of_gemini_is_added_with_its_usage(
    make: Callable[[], Any], session: Session
) -> None:
    session.context()
    response = make()
    session.add(response)
    assert session.history()[-1].message.text == "Roses, 玫瑰花."
    assert session.calls()[-1].usage == Usage(input=11, output=4, cached=3, model="gemini-2.5-pro")
    content = GEMINI["candidates"][0]["content"]
    session.add(content)
    assert session.history()[-1].message.role == "assistant"


def test_an_answer_of_a_client_is_added_with_its_usage(session: Session) -> None:
    session.context()
    session.add(Answer(message=assistant("Roses."), usage=Usage(input=9, output=2)))
    assert session.history()[-1].message == assistant("Roses.")
    assert session.calls()[-1].usage == Usage(input=9, output=2)


def test_without_a_call_there_is_nothing_the_usage_belongs_to(session: Session) -> None:
    session.add(GEMINI)
    assert session.calls() == []
    assert len(session.history()) == 2


CHOICE = {"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}


async def unawaited() -> None: ...


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (lambda: {"choices": [CHOICE, CHOICE]}, "session.add(response.choices[0].message)"),
        (lambda: {"choices": []}, "Repeat the request"),
        (lambda: {"candidates": []}, "Repeat the request"),
        (lambda: {"output": [], "status": "failed"}, "there is no answer to store"),
        (
            lambda: SimpleNamespace(object="chat.completion.chunk", choices=[]),
            'session.assistant("".join(pieces))',
        ),
        (unawaited, "session.add(await ...)"),
        (lambda: None, "Pass a dictionary"),
        (lambda: "text", "Use user(...)"),
    ],
)
def test_what_is_no_answer_is_refused_with_the_right_call(
    wrong: Callable[[], object], remedy: str, session: Session
) -> None:
    with pytest.raises(InvalidRecord) as caught:
        session.add(wrong())
    assert remedy in str(caught.value)
    assert len(session.history()) == 1


# ---------------------------------------------------------------------------------------------- streams


@every_provider
def test_text_is_iterated_with_and_without_a_loop(provider: Provider) -> None:
    async def awaiting(server: StrictServer) -> tuple[list[str], Answer]:
        async with provider.client(server) as client:
            stream = client.stream([user("hello 你好")])
            return [text async for text in stream], stream.answer

    with StrictServer([Say("Roses, 玫瑰花.")]) as server:
        heard, answer = asyncio.run(awaiting(server))
    with StrictServer([Say("Roses, 玫瑰花.")]) as server:
        blocking = provider.client(server).stream([user("hello 你好")])
        assert list(blocking) == heard
        assert blocking.answer == answer
    assert len(heard) > 1
    assert "".join(heard) == answer.message.text == "Roses, 玫瑰花."
    assert answer.usage is not None


def test_a_streamed_answer_is_added_like_a_response(session: Session) -> None:
    model = ScriptedModel(["Roses, 玫瑰花, and a hedgehog."])
    stream = model.stream(session.context())
    assert len(list(stream)) > 1
    session.add(stream.answer)
    assert session.history()[-1].message.text == "Roses, 玫瑰花, and a hedgehog."
    assert session.calls()[-1].usage == stream.answer.usage


def test_an_error_is_raised_where_the_text_is_read() -> None:
    with StrictServer([Refuse(400, "no")]) as server:
        stream = PROVIDERS[0].client(server).stream([user("hello")])
        with pytest.raises(ModelFailed):
            list(stream)
    with pytest.raises(InvalidOption, match="read the stream to its end"):
        _ = stream.answer


def test_a_stream_is_read_once() -> None:
    stream = ScriptedModel(["one", "two"]).stream([user("hello")])
    assert list(stream) == ["one"]
    with pytest.raises(InvalidOption, match="call stream"):
        list(stream)


class _Endless(ScriptedModel):
    """Speaks until it is cancelled."""

    cancelled = False

    def stream(self, prompt, *, tools=(), on_text=None):  # noqa: ANN001, ANN202, ARG002
        async def start(take):  # noqa: ANN001, ANN202
            try:
                while True:
                    take("more")
                    await asyncio.sleep(0)
            finally:
                self.cancelled = True

        return turnfold.models.AnswerStream(start, on_text)


def test_leaving_the_loop_early_ends_the_request() -> None:
    blocking, awaiting = _Endless([]), _Endless([])
    text = iter(blocking.stream([user("hello")]))
    assert next(text) == "more"
    text.close()
    assert blocking.cancelled

    async def leave() -> None:
        async for piece in awaiting.stream([user("hello")]):
            assert piece == "more"
            break

    asyncio.run(leave())
    assert awaiting.cancelled


# ---------------------------------------------------------------------------------------------- history


def test_the_history_is_whole_or_as_long_as_asked(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(address) as memory:
        session = memory.session("one")
        session.add([user(str(at)) for at in range(2_345)])
        assert [entry.seq for entry in session.history()] == list(range(1, 2_346))
        assert [entry.seq for entry in session.history(after=2_340)] == list(range(2_341, 2_346))
        assert [entry.seq for entry in session.history(after=5, limit=2)] == [6, 7]
        assert session.history(limit=0) == []

    async def awaiting() -> int:
        async with AsyncMemory(address) as memory:
            return len(await memory.session("one").history())

    assert asyncio.run(awaiting()) == 2_345
