"""Histories that clients send: resent, retried, continued, edited, cut short, and those of several agents at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from tests.proxy.running import Recorder, Told, client, proxied, served, texts_of, with_memory
from tests.proxy.test_transparency import CHAT, completion, said

Messages = list[dict[str, Any]]


def ask(http: httpx2.Client, messages: Messages, session: str = "one") -> str:
    """Send a history; the conversation it was placed in."""
    body = {"model": "gpt-4o", "messages": messages}
    answer = http.post(f"/s/{session}{CHAT}", json=body)
    assert answer.status_code == 200
    noted = dict(
        part.split("=", 1) for part in answer.headers["x-turnfold"].split("; ") if "=" in part
    )
    return noted["conversation"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answered(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def parrot(arrived: Any) -> Told:
    """Answers with the last message, so that every answer is known."""
    return said(f"re: {arrived.body['messages'][-1]['content']}")


def test_a_conversation_is_stored_once_however_often_it_is_sent(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(parrot, store=store) as (provider, http):
        history: Messages = []
        for text in ("first", "第二", "third"):
            history.append(user(text))
            assert ask(http, history) == "one"
            history.append(answered(f"re: {text}"))
    expected = ["first", "re: first", "第二", "re: 第二", "third", "re: third"]
    assert texts_of(store, "one") == expected
    assert [len(one.body["messages"]) for one in provider.seen] == [1, 3, 5]


def test_a_retried_request_does_not_double(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    errors = iter([500, 500])

    def say(arrived: Any) -> Told:
        status = next(errors, 200)
        return parrot(arrived) if status == 200 else Told(b"{}", status)

    with served(say, store=store) as (_provider, http):
        for _ in range(2):
            body = {"model": "gpt-4o", "messages": [user("once")]}
            assert http.post(f"/s/one{CHAT}", json=body).status_code == 500
        ask(http, [user("once")])
    assert texts_of(store, "one") == ["once", "re: once"]


def test_an_edited_message_begins_a_fork_and_both_can_go_on(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    begin = [user("a"), answered("re: a")]
    with served(parrot, store=store) as (_provider, http):
        ask(http, begin[:1])
        ask(http, [*begin, user("b")])
        fork = ask(http, [*begin, user("B edited")])
        assert fork != "one"
        assert ask(http, [*begin, user("B edited"), answered("re: B edited"), user("c")]) == fork
        assert ask(http, [*begin, user("b"), answered("re: b"), user("d")]) == "one"
    assert texts_of(store, "one") == ["a", "re: a", "b", "re: b", "d", "re: d"]
    assert texts_of(store, fork) == ["a", "re: a", "B edited", "re: B edited", "c", "re: c"]


def test_another_answer_to_the_same_question_does_not_see_the_first(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    answers = iter(["one way", "another way", "further"])
    with served(lambda _: said(next(answers)), store=store) as (provider, http):
        ask(http, [user("a")])
        fork = ask(http, [user("a")])
        assert ask(http, [user("a"), answered("another way"), user("b")]) == fork
    assert [len(one.body["messages"]) for one in provider.seen] == [1, 1, 3]
    assert texts_of(store, "one") == ["a", "one way"]
    assert texts_of(store, fork) == ["a", "another way", "b", "further"]


def test_a_history_without_its_beginning_continues_the_log(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(parrot, store=store) as (_provider, http):
        ask(http, [user("a")])
        ask(http, [user("a"), answered("re: a"), user("b")])
        assert ask(http, [user("b"), answered("re: b"), user("c")]) == "one"
    assert texts_of(store, "one") == ["a", "re: a", "b", "re: b", "c", "re: c"]


def test_a_client_that_shortens_its_history_itself_gets_nothing_added() -> None:
    words = "about the trains to Lyon 去里昂的火车 " * 12
    with served(lambda _: said("yes")) as (provider, http):
        history: Messages = []
        for number in range(20):
            history.append(user(f"question {number} {words}"))
            body = {"model": "gpt-4o", "messages": history[-5:]}
            content = json.dumps(body, indent=2).encode()
            answer = http.post(f"/s/one{CHAT}", content=content)
            assert answer.headers["x-turnfold"].startswith("unchanged; conversation=one;")
            assert provider.seen[-1].raw == content
            history.append(answered("yes"))


def test_a_second_agent_with_the_same_session_has_a_conversation_of_its_own(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    main, other = [user("plan the trip")], [user("title of this chat?")]
    with served(parrot, store=store) as (_provider, http):
        found: list[str] = []
        for number in range(3):
            for history in (main, other):
                found.append(ask(http, history))
                last = history[-1]["content"]
                history += [answered(f"re: {last}"), user(f"{last} {number}")]
    assert found[0::2] == ["one"] * 3
    assert len(set(found[1::2])) == 1
    assert found[1] != "one"
    assert len(texts_of(store, "one")) == len(texts_of(store, found[1])) == 6


@pytest.fixture(params=["sqlite", "postgresql"])
def shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several processes may open."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    pytest.importorskip("psycopg", reason="PostgreSQL needs the extra 'postgres'")
    from psycopg.conninfo import conninfo_to_dict

    from tests.stores.servers import fresh_database

    parts = conninfo_to_dict(fresh_database())
    user = f"{parts['user']}:{parts['password']}" if parts.get("password") else parts["user"]
    where = {key: parts[key] for key in ("host", "port") if parts.get(key)}
    return f"postgresql://{user}@/{parts['dbname']}?{urlencode(where)}"


def test_another_process_finds_the_same_forks(shared_store: str) -> None:
    store = shared_store
    begin = [user("a"), answered("re: a")]
    later = [*begin, user("B"), answered("re: B"), user("c")]
    with served(parrot, store=store) as (_, http):
        ask(http, [*begin, user("b")])
        fork = ask(http, later[:3])
    with served(parrot, store=store) as (_, http):
        assert ask(http, later) == fork
    assert texts_of(store, fork) == ["a", "re: a", "B", "re: B", "c", "re: c"]


def test_two_processes_at_once_lose_and_double_nothing(shared_store: str) -> None:
    store = shared_store
    with (
        Recorder(parrot) as provider,
        proxied(provider.url, store=store) as one,
        proxied(provider.url, store=store) as two,
        client(one) as first,
        client(two) as second,
        ThreadPoolExecutor(4) as pool,
    ):
        history: Messages = []
        for number in range(6):
            history.append(user(f"turn {number}"))
            sent = list(history)
            list(pool.map(lambda http, sent=sent: ask(http, sent), (first, second, first, second)))
            history.append(answered(f"re: turn {number}"))

        async def every(memory: Any) -> list[list[str]]:
            found = await memory.conversations()
            names = [info.conversation for info in found]
            logs = [await memory.session(name).history() for name in names]
            return [[entry.message.text for entry in log] for log in logs]

    told = [one["content"] for one in history]
    logs = with_memory(store, every)
    assert any(log == told[: len(log)] and len(log) >= len(told) - 1 for log in logs)
    for log in logs:
        assert len(set(log)) == len(log), log


@pytest.mark.parametrize("fields", [{"cache_control": {"type": "ephemeral"}}, {"name": "ada"}])
def test_marks_that_a_client_moves_are_no_edit(tmp_path: Path, fields: dict[str, Any]) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    with served(lambda _: said("re: a"), store=store) as (_provider, http):
        marked = {"role": "user", "content": [{"type": "text", "text": "a", **fields}]}
        ask(http, [marked])
        assert ask(http, [user("a"), answered("re: a"), user("b")]) == "one"
    assert len(texts_of(store, "one")) == 4


def test_a_reminder_that_claude_code_adds_to_one_request_is_no_edit(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    reply = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    told = {**reply, "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"}
    reminder = {"type": "text", "text": "<system-reminder>\n现在的待办是空的\n</system-reminder>"}
    text = {"type": "text", "text": "看看这个文件"}
    with served(lambda _: Told(json.dumps(told).encode()), store=store) as (_provider, http):
        first = {"role": "user", "content": [reminder, text]}
        again = {"role": "user", "content": [text]}
        later = [again, {"role": "assistant", "content": "ok"}, user("next")]
        for messages in ([first], later):
            body = {"model": "claude-sonnet-4-5", "messages": messages, "max_tokens": 9}
            body["metadata"] = {"user_id": '{"device_id":"d","session_id":"cc-1"}'}
            answer = http.post("/v1/messages", json=body)
            assert answer.headers["x-turnfold"].startswith("unchanged; conversation=cc-1;")
    assert len(texts_of(store, "cc-1")) == 4


def test_a_long_history_that_begins_elsewhere_is_taken_over(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    history = [one for n in range(700) for one in (user(f"q{n}"), answered(f"a{n}"))]
    with served(parrot, store=store) as (provider, http):
        ask(http, [*history, user("last")])
    stored = texts_of(store, "one")
    assert stored[:1_401] == [*(one["content"] for one in history), "last"]
    assert len(provider.seen[0].body["messages"]) < 600


@pytest.mark.parametrize("streamed", [False, True])
def test_several_choices_are_left_to_the_client(tmp_path: Path, *, streamed: bool) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    choice = {"index": 0, "message": answered("x"), "finish_reason": "stop"}
    told = Told(completion("", choices=[choice, {**choice, "index": 1, "message": answered("y")}]))
    if streamed:
        deltas = [
            {"index": n, "delta": answered(t), "finish_reason": "stop"} for n, t in enumerate("xy")
        ]
        events = [b"data: " + completion("", choices=[delta]) + b"\n\n" for delta in deltas]
        told = Told(events, headers={"content-type": "text/event-stream"})
    with served(lambda _: told, store=store) as (_provider, http):
        ask(http, [user("a")])
        assert ask(http, [user("a"), answered("y"), user("b")]) == "one"
    assert texts_of(store, "one") == ["a", "y", "b"]


def calls_of(number: int) -> bytes:
    """An answer with a tool call, which smolagents sends back as text."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return completion("", choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])


@pytest.mark.parametrize("budget", [100_000, 900])
def test_a_client_that_words_every_answer_anew_gets_one_fork(tmp_path: Path, budget: int) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    numbers = iter(range(1, 1_000))
    history, steps = [user("0")], 30
    with Recorder(lambda _: Told(calls_of(next(numbers)))) as provider:
        for _ in range(2):  # the second time in another process
            with proxied(provider.url, store=store, budget=budget) as url, client(url) as http:
                for _ in range(steps):
                    ask(http, history)
                    number = len(provider.seen)
                    # Only the text of the client is sent, not the call that it stands for.
                    assert all(
                        "tool_calls" not in one for one in provider.seen[-1].body["messages"]
                    )
                    assert provider.seen[-1].body["messages"][-1] == history[-1]
                    told = f"I called c{number}. 我调用了工具。"
                    history += [answered(told), user(f"result of {number}: {'roses 玫瑰 ' * 9}")]
        fits = [
            one.body["messages"] == history[: 2 * at + 1] for at, one in enumerate(provider.seen)
        ]
    assert all(fits) is (budget > 900)
    [fork] = names_of(store) - {"one"}
    log = [message for message in texts_of(store, fork) if message]
    assert log == [one["content"] for one in history[:-2]]


def test_a_question_that_is_asked_over_and_over_does_not_run_out_of_forks(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    numbers = iter(range(1_000))
    with served(lambda _: said(f"answer {next(numbers)}"), store=store) as (provider, http):
        for _ in range(210):
            ask(http, [user("heads or tails?")])
        # The client chooses one of the later answers.
        ask(http, [user("heads or tails?"), answered("answer 107"), user("really?")])
    assert len(names_of(store)) <= 22
    assert {len(one.body["messages"]) for one in provider.seen[:-1]} == {1}
    assert len(provider.seen[-1].body["messages"]) == 3


def names_of(store: str) -> set[str]:
    async def names(memory: Any) -> set[str]:
        return {info.conversation for info in await memory.conversations()}

    return with_memory(store, names)
