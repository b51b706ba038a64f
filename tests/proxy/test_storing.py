"""When a history is stored: beside the call to the provider, and before the client gets a byte of the answer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest

from tests.proxy.running import PATIENCE, Recorder, Told, client, served, texts_of, with_memory
from tests.proxy.test_histories import answered, ask, parrot, user
from tests.proxy.test_streams import EVENTS, body, chunk
from tests.proxy.test_transparency import CHAT, completion
from turnfold.errors import StoreUnavailable
from turnfold.memory import read_ahead
from turnfold.proxy import conversations
from turnfold.proxy.conversations import Conversations
from turnfold.stores import SqliteStore

BEGIN = [user("a"), answered("re: a"), user("b")]


def wait_for(number: int, provider: Recorder) -> None:
    limit = time.monotonic() + PATIENCE / 10
    while len(provider.seen) < number:
        assert time.monotonic() < limit, "the provider was not asked"
        time.sleep(0.005)


def test_a_request_that_fits_is_sent_while_it_is_stored_and_answered_after_that(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.db"
    released = threading.Event()

    def send(http: httpx2.Client) -> bool:
        ask(http, BEGIN)
        return released.is_set()

    with (
        served(parrot, store=f"sqlite:///{file}") as (provider, http),
        ThreadPoolExecutor() as pool,
    ):
        ask(http, BEGIN[:1])
        with closing(apsw.Connection(str(file))) as other:
            other.execute("BEGIN IMMEDIATE")  # nothing can be stored now
            sent = pool.submit(send, http)
            wait_for(2, provider)
            time.sleep(0.1)  # an answer that does not wait for the store would arrive
            released.set()
            other.execute("ROLLBACK")
        assert sent.result(PATIENCE)
    assert texts_of(f"sqlite:///{file}", "one") == ["a", "re: a", "b", "re: b"]


def test_what_another_process_pinned_is_in_the_next_request(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(parrot, store=store) as (provider, http):
        ask(http, BEGIN[:1])
        with_memory(store, lambda memory: memory.session("one").pin("红色按钮 is off limits"))
        ask(http, BEGIN)
    assert "红色按钮" not in provider.seen[0].raw.decode()
    assert "红色按钮" in str(provider.seen[1].body)


def test_a_store_that_fails_meanwhile_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    place, down = Conversations.place, threading.Event()

    async def failing(self: Conversations, *given: Any, **options: Any) -> Any:
        if down.is_set():
            raise StoreUnavailable("the disk is gone")
        return await place(self, *given, **options)

    monkeypatch.setattr(Conversations, "place", failing)
    with served(parrot) as (_, http):
        ask(http, BEGIN[:1])
        down.set()
        answer = http.post(f"/s/one{CHAT}", json={"model": "gpt-4o", "messages": BEGIN})
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "turnfold: the disk is gone"
        down.clear()
        assert ask(http, BEGIN) == "one"


def test_a_killed_process_loses_nothing_that_a_client_saw(tmp_path: Path) -> None:
    store, hold = f"sqlite:///{tmp_path}/a.db", threading.Event()
    whole = Told([chunk("good", "stop")], headers=EVENTS)
    halves = Told([chunk("half "), chunk("of it", "stop")], headers=EVENTS, hold=hold)
    answers = [whole, halves]
    with Recorder(lambda _: answers.pop(0)) as provider:
        words = ["proxy", "--upstream", provider.url, "--store", f"{tmp_path}/a.db", "--port", "0"]
        command = [sys.executable, "-m", "turnfold", *words, "--budget", "900"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split("listening on ")[1].strip()
            with client(url) as http:
                http.post(f"/s/one{CHAT}", json=body("hi"))
                sent = body("hi", "good", "and 然后?")
                with http.stream("POST", f"/s/one{CHAT}", json=sent) as answer:
                    assert next(answer.iter_raw()) == chunk("half ")
                    process.kill()
                    process.wait(PATIENCE)
                    hold.set()
        finally:
            process.kill()
            process.communicate()
    assert texts_of(store, "one") == ["hi", "good", "and 然后?"]


def test_a_client_has_the_end_of_an_answer_only_when_it_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    released, storing = threading.Event(), threading.Event()
    content = completion("yes 好")
    headers = {"content-type": "application/json", "content-length": str(len(content))}

    def send(http: httpx2.Client) -> bool:
        body = {"model": "gpt-4o", "messages": BEGIN[:1]}
        assert http.post(f"/s/one{CHAT}", json=body).content == content
        return released.is_set()

    def say(_: Any) -> Told:
        other.execute("BEGIN IMMEDIATE")  # the history is stored; from now on nothing can be
        storing.set()
        return Told(content, headers=headers)

    with (
        served(say, store=f"sqlite:///{file}") as (_, http),
        closing(apsw.Connection(str(file))) as other,
        ThreadPoolExecutor() as pool,
    ):
        sent = pool.submit(send, http)
        assert storing.wait(PATIENCE)
        time.sleep(0.1)  # an end that does not wait for the store would arrive
        released.set()
        other.execute("ROLLBACK")
        assert sent.result(PATIENCE)
    assert texts_of(f"sqlite:///{file}", "one") == ["a", "yes 好"]


@pytest.mark.parametrize(("budget", "times"), [(1_000, 2), (100_000, 0)])
def test_what_a_fold_will_read_is_read_when_an_answer_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int, times: int
) -> None:
    read: list[str] = []

    async def noting(session: Any) -> None:
        read.append(session.id)
        await read_ahead(session)

    monkeypatch.setattr(conversations, "read_ahead", noting)
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    asked = [user(f"{number}: {'trains to Lyon 去里昂的火车 ' * 12}") for number in range(8)]
    history = [one for each in asked for one in (each, answered("yes"))][:-1]
    calling = {"role": "assistant", "content": None, "tool_calls": calls}
    choices = [{"index": 0, "message": calling, "finish_reason": "tool_calls"}]
    answers = iter([json.dumps({"choices": choices}).encode(), completion("yes")])
    store = f"sqlite:///{tmp_path}/a.db"
    with served(lambda _: Told(next(answers)), store=store, budget=budget) as (_, http):
        ask(http, history)
        history.append(calling)
        ask(http, [*history, {"role": "tool", "tool_call_id": "c1", "content": "Gate 4."}])
    assert read == ["one"] * times


@pytest.mark.parametrize(("budget", "waiting"), [(1_000, 0), (100_000, 16)])
def test_what_a_turn_said_is_indexed_before_the_next_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int, waiting: int
) -> None:
    read: list[str] = []

    async def noting(store: Any, scope: Any, conversation: str, ranges: Any) -> list[Any]:
        read.append(conversation)
        return list(await read_ranges(store, scope, conversation, ranges))

    read_ranges = SqliteStore.read_ranges
    monkeypatch.setattr(SqliteStore, "read_ranges", noting)
    store = f"sqlite:///{tmp_path}/a.db"
    history = [
        one
        for number in range(8)
        for one in (user(f"{number}: {'trains to Lyon 去里昂的火车 ' * 12}"), answered("yes"))
    ]
    with served(lambda _: Told(completion("yes")), store=store, budget=budget) as (_, http):
        ask(http, history[:-1])  # the proxy ends after its work in the background
    assert read == []  # what the search finds is not needed

    async def indexed_now(memory: Any) -> int:
        return await memory.session("one").store.reindex()

    # A conversation that fits is not searched, and need not be indexed.
    assert with_memory(store, indexed_now) == waiting
