"""One tenant does not take the processor from the others: places for requests, and heavy work off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.service.running import PATIENCE, make_tokens, running
from turnfold.budget import Budget
from turnfold.errors import LimitExceeded
from turnfold.memory import AsyncMemory
from turnfold.memory import folding as folding_module
from turnfold.memory import recall as recall_module
from turnfold.memory import recall as search_module
from turnfold.records import user
from turnfold.runtime import AsyncRuntime
from turnfold.service import Limits, ServiceOptions, make_state
from turnfold.service import concurrency as concurrency_module
from turnfold.service.concurrency import (
    CountedTexts,
    RequestSlots,
    count_ahead,
    with_counted_texts,
)
from turnfold.stores import Head, Scope
from turnfold.tokens import Encoding, cautious_counter, counter_for

LONG = "parcel 包裹 4711 " * 2_000


def test_a_tenant_has_so_many_places_and_the_others_have_theirs() -> None:
    async def run() -> list[str]:
        slots = RequestSlots(Limits(concurrent=3, heavy=1))
        go, seen, inside = asyncio.Event(), list[str](), dict[str, int]()

        async def request(tenant: str, *, heavy: bool) -> None:
            async with slots.hold(tenant, heavy=heavy):
                kind = f"{tenant} {'heavy' if heavy else 'light'}"
                inside[kind] = inside.get(kind, 0) + 1
                await go.wait()
                inside[kind] -= 1

        tasks = [
            asyncio.create_task(request(tenant, heavy=heavy))
            for tenant in ("hostile", "quiet")
            for heavy in (True, False)
            for _ in range(9 if tenant == "hostile" else 1)
        ]
        for _ in range(50):
            await asyncio.sleep(0)
        seen += [f"{kind} {number}" for kind, number in sorted(inside.items())]
        go.set()
        await asyncio.gather(*tasks)
        assert slots._lanes == {}
        assert set(inside.values()) == {0}
        return seen

    assert asyncio.run(run()) == [
        "hostile heavy 1",
        "hostile light 3",
        "quiet heavy 1",
        "quiet light 1",
    ]


def test_too_many_that_wait_are_refused_and_the_others_are_not() -> None:
    async def run() -> None:
        slots = RequestSlots(Limits(concurrent=2, heavy=1, queued=3))
        go = asyncio.Event()

        async def request(tenant: str) -> None:
            async with slots.hold(tenant, heavy=True):
                await go.wait()

        tasks = [asyncio.create_task(request("hostile")) for _ in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(LimitExceeded) as refused:
            await request("hostile")
        assert (refused.value.status, refused.value.again) == (429, 1.0)
        other = asyncio.create_task(request("quiet"))
        await asyncio.sleep(0)
        tasks[3].cancel()
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(request("hostile")))
        go.set()
        await asyncio.gather(other, *tasks, return_exceptions=True)
        assert slots._lanes == {}

    asyncio.run(run())


def test_a_request_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    # A busy machine takes more than a moment for the first request.
    limits = Limits(request_seconds=1.5)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with running(options) as service, service.client() as client:
        assert client.post("/v1/sessions/s/user", json={"content": "hi"}).status_code == 200
        original = service.state.config.store.head

        async def head(scope: Scope, conversation: str) -> Head:
            await asyncio.sleep(3_600)
            return await original(scope, conversation)

        service.state.config.store.head = head
        late = client.delete("/v1/sessions/s")
        assert (late.status_code, late.json()["fields"]["allowed"]) == (503, 1.5)
        assert "was cancelled" in late.json()["detail"]
        service.state.config.store.head = original
        service.state.slots.limits = Limits()
        assert client.delete("/v1/sessions/s").status_code == 200


def counted_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads in which long texts are counted."""
    names: list[str] = []
    made = CountedTexts.__init__

    def init(texts: CountedTexts, inner: Any) -> None:
        made(texts, inner)

        def count(text: str) -> int:
            if len(text) >= concurrency_module._LONG_TEXT:
                names.append(threading.current_thread().name.partition("_")[0])
            return inner.count(text)

        texts._count = count

    monkeypatch.setattr(CountedTexts, "__init__", init)
    return names


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("user", {"content": LONG}),
        ("assistant", {"content": LONG}),
        ("tool", {"content": LONG, "tool_call_id": "c"}),
        ("messages", {"messages": [{"role": "user", "content": LONG}]}),
        (
            "messages",
            {"messages": [{"role": "user", "content": LONG}], "client_ids": ["a"]},
        ),
    ],
)
def test_a_long_message_is_counted_once_and_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    names = counted_in(monkeypatch)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as client:
        client.post("/v1/sessions/s/assistant", json={"tool_calls": [CALL]})
        assert client.post(f"/v1/sessions/s/{path}", json=body).status_code == 200
    assert names == ["turnfold-compute"]


CALL = {"id": "c", "name": "look", "arguments": "{}"}
MUCH = (LONG * 5)[:160_000]
SCHEMA = {"name": "look", "description": MUCH, "parameters": {"type": "object", "properties": {}}}
BROUGHT: dict[str, tuple[str, dict[str, Any], int]] = {
    "a pin": ("pins", {"content": MUCH}, 422),  # it does not fit
    "a note": ("context", {"notes": {"n": MUCH}}, 200),
    "a workspace": ("context", {"workspace": MUCH, "query": "look"}, 200),
    "many notes": ("context", {"notes": {f"n{at}": LONG[:5_000] for at in range(30)}}, 200),
    "tools": ("context", {"tools": [SCHEMA]}, 422),
    "a note for a provider": ("context", {"notes": {"n": MUCH}, "to": "openai_chat"}, 200),
    "a preview": ("preview", {"tools": [SCHEMA]}, 422),
}
"""Requests that bring much to count beside the log, and the status of the answer."""


@pytest.mark.parametrize("what", BROUGHT)
def test_what_a_request_brings_is_counted_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Nothing is timed: of what is counted, how many characters are counted in the thread of the loop."""
    path, body, status = BROUGHT[what]
    characters: Counter[bool] = Counter()
    made = CountedTexts.__init__

    def init(texts: CountedTexts, inner: Any) -> None:
        made(texts, inner)

        def count(text: str) -> int:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop()
                characters[True] += len(text)
                return inner.count(text)
            characters[False] += len(text)
            return inner.count(text)

        texts._count = count

    monkeypatch.setattr(CountedTexts, "__init__", init)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as client:
        for number in range(4):
            client.post("/v1/sessions/s/user", json={"content": f"question {number} 问题"})
        characters.clear()
        for _ in range(2):
            found = client.post(f"/v1/sessions/s/{path}", json=body)
            assert found.status_code == status, found.text[:300]
    assert characters[False] > 100_000
    assert characters[True] < 10_000


SUMMARY = (LONG * 10)[:200_000]  # 253 kB
FOLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "a fold": ("/v1/sessions/s/fold", {"summary": SUMMARY, "keep_turns": 1}),
    "a checkpoint": ("/v1/short-memories/s/checkpoints", {"summary": SUMMARY, "recent_turns": 1}),
}


@pytest.mark.parametrize("what", FOLDS)
def test_a_given_summary_is_counted_and_checked_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It may have 256 kB: its facts are compared with those of the messages, and its tokens counted."""
    checked, found = folding_module.check_fidelity, list[bool]()

    def is_on_the_loop() -> bool:
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            return True
        return False

    def check(source: Any, summary: str, **options: Any) -> Any:
        found.append(is_on_the_loop())
        return checked(source, summary, **options)

    monkeypatch.setattr(folding_module, "check_fidelity", check)
    counted, counts = Encoding.count, list[bool]()

    def count(encoding: Encoding, text: str) -> int:
        if len(text) >= len(SUMMARY):
            counts.append(is_on_the_loop())
        return counted(encoding, text)

    monkeypatch.setattr(Encoding, "count", count)
    path, body = FOLDS[what]
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as client:
        for number in range(4):
            client.post("/v1/sessions/s/user", json={"content": f"question {number} 问题"})
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text[:300]
    assert found == [False]
    assert counts == [False]


@pytest.mark.parametrize("model", ["", "gpt-4o", "claude-sonnet-4-5"])
def test_what_is_counted_ahead_is_counted_the_same(model: str) -> None:
    plain = counter_for(model) if model else cautious_counter()
    ahead = with_counted_texts(plain)
    message = user(LONG)
    asyncio.run(count_ahead(ahead, [message, user("short")], AsyncRuntime()))
    assert ahead.name == plain.name
    assert ahead.count_message(message) == plain.count_message(message)
    assert ahead.count_text(LONG[:-1]) == plain.count_text(LONG[:-1])


def test_counted_texts_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency_module, "_REMEMBERED", 60_000)
    texts = CountedTexts(cautious_counter().text)
    for number in range(20):
        texts.count(f"{number} " * 10_000)
    assert 1 <= len(texts._counts) <= 3
    assert texts._characters == sum(map(len, texts._counts))


def test_the_snippet_of_a_long_text_is_found_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, names = search_module.snippet, list[tuple[bool, str]]()

    def snippet(text: str, *args: Any, **options: Any) -> Any:
        thread = threading.current_thread().name.partition("_")[0]
        names.append((len(text) > 5_000, thread))
        return found(text, *args, **options)

    monkeypatch.setattr(search_module, "snippet", snippet)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as client:
        client.post("/v1/sessions/s/user", json={"content": LONG})
        hits = client.post("/v1/search", json={"query": "parcel"}).json()["found"]
    assert len(hits) == 1
    assert names == [(True, "asyncio")]  # the threads of the loop, not the loop


MANY_WORDS = " ".join(f"w{number:x}x" for number in range(6_000))
RULES = "Never use tabs in file 17. 请不要使用制表符。" * 200
LONG_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a context": ("sessions/{session}/context", {}),
    "a context for a long query": ("sessions/{session}/context", {"query": MANY_WORDS[:9_000]}),
    "a recall": ("sessions/{session}/recall", {"query": MANY_WORDS[-9_000:], "tokens": 900}),
    "a fold": ("sessions/{session}/fold", {"keep_turns": 0}),
    "rules": ("sessions/{session}/rules", {}),
    "a search": ("search", {"query": MANY_WORDS[:9_000]}),
}


@pytest.mark.parametrize("what", LONG_REQUESTS)
def test_no_step_of_the_event_loop_reads_a_long_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Nothing is timed: the calls of functions in each step of the loop are counted."""
    steps = calls_of_steps(monkeypatch)
    path, body = LONG_REQUESTS[what]
    store, budget = f"sqlite:///{tmp_path / 'chat.db'}", Budget(max_tokens=2_000)
    with (
        running(ServiceOptions(store=store, budget=budget)) as service,
        service.client(timeout=PATIENCE) as client,
    ):
        method = "GET" if what == "rules" else "POST"
        for session in ("first", "s"):  # patterns and tables are made on first use
            steps[:] = [0]
            for said in (RULES, MANY_WORDS, "And now?", LONG, "Where is the parcel?"):
                client.post(f"/v1/sessions/{session}/user", json={"content": said})
                client.post(
                    f"/v1/sessions/{session}/assistant", json={"content": "It is on its way."}
                )
            answer = client.request(method, f"/v1/{path.format(session=session)}", json=body)
            assert answer.status_code == 200, answer.text[:300]
    assert max(steps) < 10_000, sorted(steps)[-5:]


class LetterCounts:
    """An embedder that counts letters."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[float(text.count(letter)) for letter in "abcw"] for text in texts]


def test_a_long_match_is_judged_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, threads = recall_module._largest_share, list[threading.Thread]()

    def judge(*given: Any) -> float:
        threads.append(threading.current_thread())
        return judged(*given)

    monkeypatch.setattr(recall_module, "_largest_share", judge)

    async def main() -> None:
        async with AsyncMemory("sqlite://", embedder=LetterCounts()) as memory:
            session = memory.session("s")
            await session.add([user(f"a word {number}") for number in range(63)])
            await session.user(MANY_WORDS)
            await session.index_meaning()
            assert await session.recall(MANY_WORDS[:200], limit=3)

    asyncio.run(main())
    assert threads
    assert threading.main_thread() not in threads


def calls_of_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of calls of Python functions in each step of event loops, from now on."""
    run, steps = asyncio.Handle._run, [0]

    def count(_frame: object, event: str, _arg: object) -> None:
        steps[-1] += event == "call"

    def counted(handle: asyncio.Handle) -> None:
        steps.append(0)
        sys.setprofile(count)
        try:
            run(handle)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(asyncio.Handle, "_run", counted)
    return steps


def test_a_tenant_computes_one_thing_at_a_time_and_the_others_pass(tmp_path: Path) -> None:
    """Hostile functions wait for ever; a quiet one ends all the same, also where all threads of the loop wait."""
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    go, begun = threading.Event(), list[int]()

    def wait(number: int) -> None:
        begun.append(number)
        go.wait(PATIENCE)

    async def run() -> str:
        state = make_state(ServiceOptions(store=store))
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        stuck = asyncio.create_task(asyncio.to_thread(go.wait, PATIENCE))
        sessions = [state.memory("hostile").session("s"), state.fresh_session("hostile", "s")]
        work = [
            asyncio.create_task(sessions[number % 2].config.runtime.compute(partial(wait, number)))
            for number in range(20)
        ]
        try:
            while not begun:  # noqa: ASYNC110 (threads begin them)
                await asyncio.sleep(0.001)
            quiet = state.memory("quiet").session("s").config.runtime
            return await asyncio.wait_for(quiet.compute(lambda: str(begun)), PATIENCE / 2)
        finally:
            go.set()
            await asyncio.gather(stuck, *work)
            await state.close()

    assert asyncio.run(run()) == "[0]"
    assert begun == list(range(20))


def test_what_is_too_long_to_be_counted_or_looked_for_is_refused(tmp_path: Path) -> None:
    limits = Limits(message=1_000, counted=20_000)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with running(options) as service, service.client() as client:

        def status(path: str, body: dict[str, Any]) -> int:
            return client.post(f"/v1/sessions/s/{path}", json=body).status_code

        assert status("user", {"content": "x" * 1_000}) == 200
        assert status("user", {"content": "x" * 1_001}) == 413
        two = [{"role": "user", "content": "x"}, {"role": "user", "content": "x" * 1_001}]
        assert status("messages", {"messages": two}) == 413
        assert status("context", {"notes": {"n": "x" * 20_000}}) == 413
        assert status("preview", {"query": "x" * 1_900}) == 200
        assert status("pins", {"content": "x" * 20_000}) == 413
        assert status("fold", {"summary": "x" * 20_000}) == 413
        assert status("recall", {"query": "x " * 5_001}) == 422
        assert client.post("/v1/search", json={"query": "x " * 5_001}).status_code == 422
        assert client.get("/v1/sessions/s").json()["entries"] == 1


def test_what_many_small_things_would_cost_is_refused(tmp_path: Path) -> None:
    """150,000 messages of a word, or 300,000 values of the state, took seconds of the event loop."""
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as client:

        def send(method: str, path: str, body: object) -> int:
            return client.request(method, f"/v1/sessions/s/{path}", json=body).status_code

        many = [{"role": "user", "content": "x"}] * 1_001
        assert send("POST", "messages", {"messages": many}) == 413
        assert send("POST", "messages", {"messages": many[1:]}) == 200
        values = {f"k{number}": "x" * 1_000 for number in range(200)}
        assert send("PATCH", "state", {"values": {f"k{n}": n for n in range(30_000)}}) == 413
        assert send("PATCH", "state", {"values": values}) == 200
        assert send("PUT", "state/more", {"value": "x" * 70_000}) == 413
        assert send("PATCH", "state", {"values": {"more": "x" * 70_000}}) == 413
        assert send("PUT", "state/k1", {"value": "x" * 50_000}) == 200
        assert client.get("/v1/sessions/s").json()["entries"] == 1_000
        assert len(client.get("/v1/sessions/s/state").json()["values"]) == 200


def test_a_tenant_that_waits_for_itself_lets_others_pass(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    made = make_tokens(file, ("hostile", "h", ["read", "write"]), ("quiet", "q", ["read", "write"]))
    limits = Limits(concurrent=1, heavy=1, queued=0)
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with running(ServiceOptions(store=store, tokens_file=file, limits=limits)) as service:
        held = service.state.slots._lanes
        with service.client(made["hostile"]) as hostile, service.client(made["quiet"]) as quiet:
            held["h"] = concurrency_module._Lane(
                asyncio.Semaphore(0), asyncio.Semaphore(0), inside=1
            )
            assert hostile.post("/v1/sessions/s/context", json={}).status_code == 429
            assert hostile.get("/v1/sessions").status_code == 429
            assert quiet.post("/v1/sessions/s/context", json={}).status_code == 200
            assert hostile.get("/healthz").status_code == 200


WARM = """
import gc, sys
from turnfold.service import ServiceOptions, make_state
from turnfold.service.server import warm_up
import asyncio
warm_up("")
kept, loaded = gc.get_freeze_count(), set(sys.modules)

async def ask():
    state = make_state(ServiceOptions())
    session = state.memory("t").session("s")
    await session.user("When does the train leave? 火车几点开？")
    await session.context(query="train 火车")
    await state.memory("t").search("train")
    await state.close()

asyncio.run(ask())
late = sorted(name for name in set(sys.modules) - loaded if name.startswith("turnfold"))
print(kept > 20_000, late)
"""


def test_the_first_request_loads_nothing_and_a_collection_does_not_look_at_what_is_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WARM], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "True []"
