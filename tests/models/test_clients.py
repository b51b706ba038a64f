"""The clients, over the official SDKs and real sockets, against a server that refuses what providers refuse."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from tests.models.providers import TOOLS, Client, Provider, every_provider
from tests.models.strict_server import Call, Say, StrictServer
from turnfold.errors import InvalidOption, MissingExtra
from turnfold.models import Answer, ChatModel, OpenAIChat
from turnfold.records import Message, Usage, assistant, system, tool, user

PROMPT = [system("Be brief. 简短。"), user("What is in the garden? 花园里有什么？")]
ANSWERS = {
    "text": Say("Roses, 玫瑰花, and a 🦔 hedgehog."),
    "call": Say(calls=(Call("call_1", "look", {"place": "garden"}),)),
    "text and a parallel batch": Say(
        "Let me look.",
        calls=(
            Call("call_1", "look", {"place": "花园", "depth": 2}),
            Call("call_2", "look", {}),
            Call("call_3", "look", {"place": 'a "quoted" \\ path\n'}),
        ),
    ),
    "thought": Say("Roses.", thought="The user means the garden behind the house. 后院。"),
    "thought and call": Say(calls=(Call("call_1", "look"),), thought="I should look first."),
    "hidden thought": Say("Roses.", thought="Hm.", hidden="nobody may read this"),
    "cut short": Say("Roses and", cut_short=True),
}
STOPS = {
    "openai_chat": ("stop", "tool_calls", "length"),
    "openai_responses": ("completed", "completed", "max_output_tokens"),
    "anthropic": ("end_turn", "tool_use", "max_tokens"),
}


async def streamed(client: Client, prompt: list[Message]) -> tuple[Answer, list[str]]:
    heard: list[str] = []
    answer = await client.stream(prompt, tools=TOOLS, on_text=heard.append)
    return answer, heard


@every_provider
@pytest.mark.parametrize("kind", ANSWERS)
def test_a_streamed_answer_is_the_answer_that_comes_whole(provider: Provider, kind: str) -> None:
    say = ANSWERS[kind]
    with StrictServer([say]) as server:
        whole = provider.run(server, lambda client: client.complete(PROMPT, tools=TOOLS))
    with StrictServer([say]) as server:  # another one: the first remembers the prompt
        answer, heard = provider.run(server, lambda client: streamed(client, PROMPT))
    assert answer == whole
    assert "".join(heard) == say.text
    assert say.text == "" or len(heard) > 1
    assert whole.message.text == say.text
    assert [(call.id, call.name) for call in whole.message.calls] == [
        (call.id, call.name) for call in say.calls
    ]
    assert whole.stop == STOPS[provider.name][2 if say.cut_short else 1 if say.calls else 0]
    assert whole.usage is not None
    assert whole.usage.input > 0


@every_provider
@pytest.mark.parametrize(
    "kind", ["text and a parallel batch", "thought and call", "hidden thought"]
)
def test_what_came_is_accepted_when_it_is_sent_back(provider: Provider, kind: str) -> None:
    say = ANSWERS[kind]
    with StrictServer([say, Say("done")]) as server:

        async def talk(client: Client) -> Answer:
            first = await client.complete(PROMPT, tools=TOOLS)
            results = [tool("seen", tool_call_id=call.id) for call in first.message.calls]
            further = results or [user("And then?")]
            return await client.complete([*PROMPT, first.message, *further], tools=TOOLS)

        assert provider.run(server, talk).message.text == "done"
        assert server.rejected == []
        sent = str(server.seen[1].body)
    if say.thought and provider.name != "openai_chat":
        assert say.thought in sent


@every_provider
def test_thoughts_never_reach_another_model(provider: Provider) -> None:
    say = ANSWERS["hidden thought"]
    with StrictServer([say, Say("done")]) as server:

        async def talk(client: Client) -> Answer:
            first = await client.complete(PROMPT)
            url = server.url + provider.path
            async with provider.make("other-model", base_url=url, api_key="k") as other:
                return await other.complete([*PROMPT, first.message, user("And then?")])

        answer = provider.run(server, talk)
        assert server.rejected == []
        sent = str(server.seen[1].body)
    assert "signature" not in sent
    assert "encrypted_content" not in sent
    if provider.name != "openai_chat":
        assert answer.changes


@every_provider
def test_the_cache_is_reported(provider: Provider) -> None:
    with StrictServer([Say("one"), Say("two")]) as server:

        async def talk(client: Client) -> tuple[Usage | None, Usage | None]:
            first = await client.complete(PROMPT)
            longer = [*PROMPT, first.message, user("More, please. " * 20)]
            return first.usage, (await client.complete(longer)).usage

        before, after = provider.run(server, talk)
    assert before is not None
    assert after is not None
    assert before.cached == 0
    assert 0 < after.cached < after.input
    assert after.input > before.input


@every_provider
def test_the_provider_counts_where_it_can(provider: Provider) -> None:
    with StrictServer() as server:
        counted = provider.run(server, lambda client: client.count_tokens(PROMPT, tools=TOOLS))
        assert server.rejected == []
    if provider.name == "openai_chat":
        assert counted is None
    else:
        assert counted is not None
        assert counted > 10


@every_provider
def test_a_server_without_a_counting_call_says_nothing(provider: Provider) -> None:
    elsewhere = replace(provider, path="/elsewhere")
    with StrictServer() as server:
        assert elsewhere.run(server, lambda client: client.count_tokens(PROMPT)) is None


@every_provider
def test_options_reach_the_provider(provider: Provider) -> None:
    option: dict[str, Any] = (
        {"metadata": {"user_id": "u"}} if provider.name == "anthropic" else {"temperature": 0.25}
    )
    limit = "max_output_tokens" if provider.name == "openai_responses" else "max_tokens"
    with StrictServer([Say("ok")]) as server:
        asked = provider.run(
            server, lambda client: client.complete(PROMPT), options=option, max_output=77
        )
        assert asked.message.text == "ok"
        body = server.seen[0].body
    assert option.items() <= body.items()
    assert body[limit] == 77


@every_provider
def test_options_cannot_replace_what_the_client_sets(provider: Provider) -> None:
    with pytest.raises(InvalidOption, match="model, stream"):
        provider.make("m", api_key="k", options={"model": "x", "stream": False})
    with pytest.raises(InvalidOption, match="model is empty"):
        provider.make("", api_key="k")
    with pytest.raises(InvalidOption, match="retries=-1"):
        provider.make("m", api_key="k", retries=-1)


@pytest.mark.parametrize(
    ("base_url", "own"),
    [
        (None, True),
        ("https://eu.api.openai.com/v1", True),
        ("https://mine.openai.azure.com/openai/v1", True),
        ("http://127.0.0.1:8000/v1", False),
        ("https://notopenai.com/v1", False),
    ],
)
def test_openai_s_own_models_get_the_limit_by_its_new_name(
    base_url: str | None, *, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openai import AsyncOpenAI

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for model in (
        OpenAIChat("m", base_url=base_url, api_key="k", max_output=9),
        OpenAIChat("m", client=AsyncOpenAI(base_url=base_url, api_key="k"), max_output=9),
    ):
        name = "max_completion_tokens" if own else "max_tokens"
        assert model._options == {name: 9}


@every_provider
def test_one_client_serves_one_loop_after_another(provider: Provider) -> None:
    with StrictServer([Say("one"), Say("two"), Say("three")]) as server:
        client = provider.client(server)
        texts = [asyncio.run(client.complete(PROMPT)).message.text for _ in range(3)]
    assert texts == ["one", "two", "three"]


@every_provider
def test_a_client_that_was_given_is_used_and_left_open(provider: Provider) -> None:
    import anthropic
    import openai

    made = anthropic.AsyncAnthropic if provider.name == "anthropic" else openai.AsyncOpenAI
    with StrictServer([Say("one"), Say("two")]) as server:

        async def talk() -> list[str]:
            url = f"{server.url}{provider.path}"
            async with made(base_url=url, api_key="mine", max_retries=9) as client:
                texts: list[str] = []
                for _ in range(2):
                    async with provider.make("m", client=client) as model:
                        texts.append((await model.complete(PROMPT)).message.text)
                return texts

        assert asyncio.run(talk()) == ["one", "two"]
        assert "mine" in str(server.seen[0].headers)


def test_a_server_of_one_s_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with StrictServer([Say("ok")]) as server:

        async def talk() -> str:
            async with OpenAIChat("m", base_url=f"{server.url}/v1") as client:
                return (await client.complete(PROMPT)).message.text

        assert asyncio.run(talk()) == "ok"


@pytest.mark.parametrize(
    ("name", "module"),
    [("openai", "turnfold.models.openai"), ("anthropic", "turnfold.models.anthropic")],
)
def test_a_missing_sdk_names_its_extra(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'turnfold\[{name}\]'"):
        import_module(module)


@every_provider
def test_every_client_is_a_chat_model(provider: Provider) -> None:
    client = provider.make("m", api_key="k")
    assert isinstance(client, ChatModel)
    assert client.name == "m"


@every_provider
def test_no_content_is_logged(provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    secret = [user("the secret is 4711"), assistant("I see"), user("go on")]
    with StrictServer([Say("4711 indeed")]) as server:
        provider.run(server, lambda client: client.complete(secret))
    assert "4711" not in caplog.text
