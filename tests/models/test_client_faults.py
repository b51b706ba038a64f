"""What the clients do when the provider refuses, is busy, is silent, or breaks off."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.models.providers import Client, Provider, every_provider
from tests.models.strict_server import Cut, Line, Raw, Refuse, Say, Stall, StrictServer, Trouble
from turnfold.errors import ContextOverflow, ModelFailed, ModelUnavailable
from turnfold.models import Answer
from turnfold.records import user

PROMPT = [user("What is in the garden?")]
SAY = Say("Roses and a hedgehog, and more than one of each.")
BUSY = Refuse(503, "busy")
both_ways = pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])


class Listener:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard = ""
        self.first = asyncio.Event()

    def __call__(self, text: str) -> None:
        self.heard += text
        self.first.set()


async def asked(client: Client, *, streaming: bool, listener: Listener | None = None) -> Answer:
    if streaming:
        return await client.stream(PROMPT, on_text=listener or Listener())
    return await client.complete(PROMPT)


def talk(provider: Provider, server: StrictServer, *, streaming: bool, **options: Any) -> Answer:
    return provider.run(server, lambda client: asked(client, streaming=streaming), **options)


@every_provider
@both_ways
@pytest.mark.parametrize(
    ("line", "error", "said"),
    [
        (Refuse(400, "roses are not allowed"), ModelFailed, "roses are not allowed"),
        (Refuse(401, "bad key"), ModelFailed, "HTTP 401"),
        (Refuse(404, "no such model"), ModelFailed, "no such model"),
        (Refuse(413, "Request exceeds the maximum size"), ContextOverflow, "HTTP 413"),
        (Refuse(429, "no money", code="insufficient_quota"), ModelFailed, "insufficient_quota"),
        (Refuse(500, "oops"), ModelUnavailable, "after 3 attempts.*oops"),
        (Refuse(529, "Overloaded"), ModelUnavailable, "HTTP 529"),
        (Refuse(429, "slow down", headers={"retry-after": "99"}), ModelUnavailable, "wait 99 s"),
        (Raw(b"<html>bad gateway</html>", status=502), ModelUnavailable, "HTTP 502"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Refuse | Raw) else "",
)
def test_errors_are_told_apart(
    provider: Provider, *, streaming: bool, line: Line, error: type[ModelFailed], said: str
) -> None:
    with StrictServer(lambda _: line) as server:
        with pytest.raises(error, match=said) as raised:
            talk(provider, server, streaming=streaming)
        assert type(raised.value) is error
        passing = error is ModelUnavailable and "wait" not in said
        assert len(server.seen) == (3 if passing else 1)


@every_provider
@both_ways
def test_a_prompt_that_is_too_long_is_an_overflow(provider: Provider, *, streaming: bool) -> None:
    with StrictServer([SAY], window=5) as server:
        with pytest.raises(ContextOverflow, match="Send a smaller context"):
            talk(provider, server, streaming=streaming)
        assert len(server.seen) == 1


@every_provider
@both_ways
def test_a_busy_provider_is_asked_again(provider: Provider, *, streaming: bool) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    script = [Refuse(429, "slow down", headers={"retry-after": "3"}), Refuse(500, "oops"), SAY]
    with StrictServer(script) as server:
        answer = talk(provider, server, streaming=streaming, sleep=sleep)
        assert answer.message.text == SAY.text
        assert len(server.seen) == 3  # the SDK's own retries are off
    assert len(pauses) == 2
    assert pauses[0] >= 3.0


@every_provider
@both_ways
def test_retries_can_be_switched_off(provider: Provider, *, streaming: bool) -> None:
    with StrictServer([BUSY, SAY]) as server:
        with pytest.raises(ModelUnavailable, match="after 1 attempt "):
            talk(provider, server, streaming=streaming, retries=0)
        assert len(server.seen) == 1


@every_provider
@both_ways
def test_a_silent_provider_is_given_up(provider: Provider, *, streaming: bool) -> None:
    with (
        StrictServer([Stall(), Stall()]) as server,
        pytest.raises(ModelUnavailable, match=r"after 2 attempts.*timeout"),
    ):
        talk(provider, server, streaming=streaming, timeout=0.1, retries=1)


@every_provider
@both_ways
def test_a_connection_that_breaks_is_tried_again(provider: Provider, *, streaming: bool) -> None:
    with StrictServer([Cut(SAY), Cut(SAY), SAY]) as server:
        answer = talk(provider, server, streaming=streaming)
        assert answer.message.text == SAY.text
        assert len(server.seen) == 3


@every_provider
@both_ways
def test_nobody_listens(provider: Provider, *, streaming: bool) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, so that nobody else gets it, and never listening
        url = f"http://127.0.0.1:{unused.getsockname()[1]}{provider.path}"

        async def call() -> Answer:
            async with provider.make("m", base_url=url, api_key="k", retries=0) as client:
                return await asked(client, streaming=streaming)

        with pytest.raises(ModelUnavailable, match="connection"):
            asyncio.run(call())


# A stream that breaks once text was handed on: after so many events that some of it was.
BREAKS = [
    Cut(SAY, after=8),
    Cut(SAY, after=8, politely=True),
    Trouble(SAY, after=8),
    Trouble(SAY, after=8, kind="server_error", message="oops"),
]


@every_provider
@pytest.mark.parametrize("line", BREAKS, ids=lambda line: type(line).__name__.lower())
def test_a_stream_that_breaks_within_the_text_is_never_told_twice(
    provider: Provider, line: Line
) -> None:
    listener = Listener()
    with StrictServer([line, SAY]) as server:
        with pytest.raises(ModelUnavailable, match=r"\d+ characters into the answer"):
            provider.run(server, lambda client: asked(client, streaming=True, listener=listener))
        assert len(server.seen) == 1
    assert 0 < len(listener.heard) < len(SAY.text)


@every_provider
def test_a_stream_that_falls_silent_is_given_up(provider: Provider) -> None:
    with (
        StrictServer(lambda _: Stall(after=8)) as server,
        pytest.raises(ModelUnavailable, match=r"\d+ characters into the answer.*timeout"),
    ):
        talk(provider, server, streaming=True, timeout=1.5)


@every_provider
@pytest.mark.parametrize(
    "line", [Cut(SAY, after=1), Cut(SAY, after=1, politely=True), Trouble(SAY, after=1)]
)
def test_a_stream_that_breaks_before_the_text_is_tried_again(
    provider: Provider, line: Line
) -> None:
    listener = Listener()
    with StrictServer([line, SAY]) as server:
        answer = provider.run(
            server, lambda client: asked(client, streaming=True, listener=listener)
        )
        assert len(server.seen) == 2
    assert answer.message.text == listener.heard == SAY.text


@every_provider
def test_an_error_in_a_stream_may_be_final(provider: Provider) -> None:
    line = Trouble(SAY, after=1, kind="context_length_exceeded", message="prompt is too long")
    with StrictServer([line, SAY]) as server:
        with pytest.raises(ContextOverflow):
            talk(provider, server, streaming=True)
        assert len(server.seen) == 1


@every_provider
@both_ways
@pytest.mark.parametrize(
    ("content", "media", "expected"),
    [
        (b"<html>hello</html>", "text/html", ModelFailed),
        (b"{}", "application/json", ModelFailed),
        (
            b'{"error": {"code": 400, "message": "the request exceeds the available context size"}}',
            "application/json",
            ContextOverflow,
        ),
    ],
    ids=["page", "empty", "error"],
)
def test_a_success_that_is_no_answer_is_an_error(
    provider: Provider,
    *,
    streaming: bool,
    content: bytes,
    media: str,
    expected: type[ModelFailed],
) -> None:
    with StrictServer([Raw(content, media)] * 3) as server:
        with pytest.raises(ModelFailed) as raised:
            talk(provider, server, streaming=streaming)
        # A body without events is, to a stream, one that ended early.
        assert type(raised.value) is (ModelUnavailable if streaming else expected)


@every_provider
def test_without_credentials_nothing_is_asked(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))

    async def call() -> Answer:
        async with provider.make("m") as client:
            return await client.complete(PROMPT)

    with pytest.raises(ModelFailed, match="m could not be called"):
        asyncio.run(call())


@every_provider
def test_what_the_listener_raises_is_the_caller_s(provider: Provider) -> None:
    class Enough(Exception):
        pass

    def listener(text: str) -> None:
        raise Enough(text)

    with StrictServer([SAY, SAY]) as server:
        with pytest.raises(Enough):
            provider.run(server, lambda client: client.stream(PROMPT, on_text=listener))
        assert len(server.seen) == 1


@every_provider
@both_ways
def test_a_call_can_be_cancelled_and_the_client_used_again(
    provider: Provider, *, streaming: bool
) -> None:
    stall = Stall(after=8 if streaming else 0)
    with StrictServer([stall, SAY]) as server:

        async def use(client: Client) -> str:
            listener = Listener()
            call = asyncio.create_task(asked(client, streaming=streaming, listener=listener))
            if streaming:
                await listener.first.wait()
            else:
                assert await asyncio.to_thread(server.stalled.wait, 60)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            return (await asked(client, streaming=streaming)).message.text

        assert provider.run(server, use) == SAY.text
        assert len(server.seen) == 2
