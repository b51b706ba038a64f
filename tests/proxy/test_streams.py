"""Streams are passed on event for event; what was cut off is stored as such, and the next call works."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.models.strict_server import Cut, Say, StrictServer, Trouble
from tests.proxy.running import PATIENCE, Recorder, Told, log_of, proxied, served, texts_of
from tests.proxy.test_transparency import CHAT, completion
from turnfold.errors import InvalidRecord
from turnfold.proxy.model_calls import AnswerPieces

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")
SAY = Say("Roses, 玫瑰, and three hedgehogs in the second bed.", thought="Let me think.")
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


def chunk(text: str, stop: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": stop}
    whole = {"id": "c", "object": "chat.completion.chunk", "model": "gpt-4o", "choices": [choice]}
    return f"data: {json.dumps(whole, ensure_ascii=False)}\n\n".encode()


def body(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "gpt-4o", "messages": messages, "stream": True}


def stored_within(store: str, conversation: str, number: int) -> list[str]:
    """The texts of a conversation, once it has so many."""
    limit = time.monotonic() + PATIENCE
    while len(found := texts_of(store, conversation)) < number:
        assert time.monotonic() < limit, found
        time.sleep(0.02)
    return found


def test_each_piece_arrives_before_the_next_is_sent(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    go_on = threading.Event()
    pieces = [chunk("你"), chunk("好", "stop") + b"data: [DONE]\n\n"]
    told = Told(pieces, headers=EVENTS, hold=go_on)
    sent = "POST", f"/s/one{CHAT}"
    with (
        served(lambda _: told, store=store) as (_, http),
        http.stream(*sent, json=body("hi")) as answer,
    ):
        arrived: Iterator[bytes] = answer.iter_raw()
        first = next(arrived)
        assert first == pieces[0]  # the provider still holds the second back
        go_on.set()
        assert first + b"".join(arrived) == b"".join(pieces)
        assert answer.headers["content-type"] == EVENTS["content-type"]
    assert texts_of(store, "one") == ["hi", "你好"]


@pytest.mark.parametrize("form", ["openai_chat", "openai_responses", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_official_clients_get_what_they_get_without_the_proxy(
    tmp_path: Path, form: str, *, stream: bool
) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with StrictServer(lambda _: SAY) as provider, proxied(provider.url, store=store) as url:
        _asked(form, provider.url, stream=stream)  # from then on the prompt is in its cache
        direct = _asked(form, provider.url, stream=stream)
        assert _asked(form, f"{url}/s/one", stream=stream) == direct
    [entry] = [entry for entry in log_of(store, "one") if entry.message.role == "assistant"]
    assert entry.message.text == SAY.text
    assert not entry.message.metadata
    assert provider.rejected == []
    assert provider.seen[0].body == provider.seen[1].body


def _asked(form: str, url: str, *, stream: bool) -> Any:
    """The answer of the model, as an official client shows it."""
    messages: Any = [{"role": "user", "content": "花园里有什么？"}]
    if form == "anthropic":
        own = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
        sent: dict[str, Any] = {"model": "m-1", "messages": messages, "max_tokens": 90}
        with own:
            if not stream:
                return own.messages.create(**sent).model_dump()
            with own.messages.stream(**sent) as events:
                return events.get_final_message().model_dump()
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as own:
        if form == "openai_chat":
            sent = {"model": "m-1", "messages": messages}
            if not stream:
                return own.chat.completions.create(**sent).model_dump()
            return [each.model_dump() for each in own.chat.completions.create(**sent, stream=True)]
        sent = {"model": "m-1", "input": messages}
        if not stream:
            return own.responses.create(**sent).model_dump()
        return [each.model_dump() for each in own.responses.create(**sent, stream=True)]


@pytest.mark.parametrize("politely", [False, True])
def test_a_stream_that_the_provider_cuts_off_is_stored_as_such(
    tmp_path: Path, *, politely: bool
) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    pieces = [chunk("half "), chunk("of it 一半"), b'data: {"id": "c", "cho']
    answers = [Told(pieces, headers=EVENTS, cut=not politely)]
    whole = Told([chunk("all of it", "stop")], headers=EVENTS)
    with served(lambda _: answers.pop() if answers else whole, store=store) as (provider, http):
        arrived = b""
        try:
            with http.stream("POST", f"/s/one{CHAT}", json=body("hi")) as answer:
                for piece in answer.iter_raw():
                    arrived += piece
        except httpx2.TransportError:
            pass  # expected if the connection broke: checked by what arrived
        assert arrived == b"".join(pieces)
        assert stored_within(store, "one", 2) == ["hi", "half of it 一半"]
        again = http.post(f"/s/one{CHAT}", json=body("hi"))  # the client tries again
        later = http.post(f"/s/one{CHAT}", json=body("hi", "all of it", "and then?"))
    assert again.content == chunk("all of it", "stop")
    assert log_of(store, "one")[1].message.metadata == {"interrupted": True}
    assert [len(one.body["messages"]) for one in provider.seen] == [1, 1, 3]
    fork = later.headers["x-turnfold"].split("conversation=")[1].split(";")[0]
    assert texts_of(store, fork) == ["hi", "all of it", "and then?", "all of it"]


def test_a_client_that_shows_the_half_answer_continues_it(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    answers = [Told([chunk("half of it")], headers=EVENTS)]
    whole = Told([chunk("good", "stop")], headers=EVENTS)
    with served(lambda _: answers.pop() if answers else whole, store=store) as (_provider, http):
        http.post(f"/s/one{CHAT}", json=body("hi"))
        http.post(f"/s/one{CHAT}", json=body("hi", "half of it", "go on"))
    assert texts_of(store, "one") == ["hi", "half of it", "go on", "good"]


def test_a_client_that_leaves_ends_the_call_to_the_provider(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    told = Told([chunk("begun "), *[chunk("x" * 50_000)] * 200, b"end"], headers=EVENTS)
    with served(lambda _: told, store=store) as (provider, http):
        with http.stream("POST", f"/s/one{CHAT}", json=body("hi")) as answer:
            next(answer.iter_raw(10))
        assert provider.left.wait(PATIENCE)
        assert stored_within(store, "one", 2)[1].startswith("begun ")
    assert log_of(store, "one")[1].message.metadata == {"interrupted": True}


def test_a_client_that_leaves_before_the_answer_begins_ends_the_call_too(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    content = json.dumps(body("hi")).encode()
    with (
        Recorder(lambda _: Told(silent=True)) as provider,
        proxied(provider.url, store=store) as url,
    ):
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST /s/one{CHAT} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(content)}\r\n\r\n"
            connection.sendall(head.encode() + content)
            limit = time.monotonic() + PATIENCE
            while not provider.seen:
                assert time.monotonic() < limit
                time.sleep(0.01)
            assert not provider.left.is_set()
        assert provider.left.wait(PATIENCE)
    assert texts_of(store, "one") == ["hi"]


@pytest.mark.parametrize("fault", [Trouble(SAY, after=6), Cut(SAY, after=6)])
@pytest.mark.parametrize("form", ["openai_chat", "openai_responses", "anthropic"])
def test_faults_in_the_middle_of_a_stream_reach_official_clients(
    tmp_path: Path, form: str, fault: Any
) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    lines = [fault, SAY]
    with (
        StrictServer(lambda _: lines.pop(0)) as provider,
        proxied(provider.url, store=store) as url,
    ):
        try:
            broken = _asked(form, f"{url}/s/one", stream=True)
        except Exception as error:
            assert not isinstance(error, AssertionError)  # noqa: PT017 (any other is right)
        else:
            assert broken[-1]["type"] == "error"
        assert _asked(form, f"{url}/s/one", stream=False)
    told = [entry.message for entry in log_of(store, "one")]
    assert [message.role for message in told[:1]] == ["user"]
    assert all(SAY.text.startswith(message.text) for message in told[1:])


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_an_answer_that_is_compressed_all_the_same_is_passed_on(
    tmp_path: Path, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    content = gzip.compress(completion("packed 压缩"))
    told = Told(content, headers={"content-type": "application/json", "content-encoding": encoding})
    with served(lambda _: told, store=store) as (provider, http):
        with http.stream("POST", f"/s/one{CHAT}", json=body("hi")) as answer:
            assert b"".join(answer.iter_raw()) == content
        assert provider.seen[0].headers["accept-encoding"] == "identity"
    stored = texts_of(store, "one")
    assert stored == (["hi", "packed 压缩"] if encoding == "gzip" else ["hi"])
    failed = [one for one in caplog.records if "not stored" in one.getMessage()]
    assert len(failed) == (encoding != "gzip")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[[[",
        b'{"choices": [{"message": {"content": 5, "role": []}}]}',
        b'{"choices": [{"message": {"role": "alien", "content": "x"}}], "usage": {"prompt_tokens": "?"}}',
        b'data: {"choices": [{"delta": 7}]}\n\ndata: 5\n\n',
        b"\xff\xfe",
    ],
)
@pytest.mark.parametrize("media", ["application/json", "text/event-stream"])
def test_whatever_a_provider_sends_is_passed_on(tmp_path: Path, content: bytes, media: str) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    told = Told([content], headers={"content-type": media}) if content else Told([])
    with served(lambda _: told, store=store) as (_, http):
        for _ in range(2):
            assert http.post(f"/s/one{CHAT}", json=body("hi")).content == content
    assert texts_of(store, "one")[0] == "hi"


def test_an_answer_that_unpacks_to_too_much_is_not_unpacked_whole() -> None:
    answer = AnswerPieces()
    answer.add(gzip.compress(bytes((64 << 20) + 1), compresslevel=1))
    with pytest.raises(InvalidRecord, match="more than 67,108,864 bytes"):
        answer.content("gzip")
