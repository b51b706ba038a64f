"""A request that got no answer is sent again, and nothing is done twice: keys, retries, answers that were kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.service.running import Running, running
from turnfold.client import AsyncRemoteMemory, AsyncRemoteSession, AsyncRemoteShortMemory
from turnfold.client.transport import BlockingTransport, HttpReply, RequestSender
from turnfold.errors import IdReused, LimitExceeded, StoreUnavailable
from turnfold.records import NewEntry, user
from turnfold.rules import new_rule
from turnfold.runtime import drive
from turnfold.service import Limits, ServiceOptions
from turnfold.service.idempotent_replies import IdempotentReplies
from turnfold.stores import Scope, open_store

OPENED: list[BlockingTransport] = []
RULE = new_rule("Answer in Chinese. 用中文回答。", kind="rule")


class LosesAnswers(BlockingTransport):
    """Sends every request, and loses the answer to it so many times; then does not wait long."""

    def __init__(self, url: str, times: int) -> None:
        super().__init__(url, headers={}, timeout=30.0)
        OPENED.append(self)
        self.times = times
        self.sent = 0
        self.pauses: list[float] = []

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> HttpReply:
        self.sent += 1
        answer = await super().send(method, path, headers=headers, content=content)
        if self.times:
            self.times -= 1
            raise StoreUnavailable("the answer was lost")
        return answer

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await super().pause(min(seconds, 0.05))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        drive(OPENED.pop().close())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    store = f"sqlite:///{tmp_path_factory.mktemp('repeating') / 'chat.db'}"
    with running(ServiceOptions(store=store)) as started:
        yield started


def lossy(service: Running, times: int = 2) -> tuple[AsyncRemoteMemory, LosesAnswers]:
    transport = LosesAnswers(service.url, times)
    return AsyncRemoteMemory.over(RequestSender(transport, retries=3, backoff=0.1)), transport


def test_an_append_whose_answer_is_lost_is_stored_once(service: Running) -> None:
    memory, transport = lossy(service)
    session = memory.session("append")
    done = drive(session.user("hi"))
    assert (done.first, transport.sent) == (1, 3)
    transport.times = 1
    drive(session.add([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]))
    assert [each.message.text for each in drive(session.history())] == ["hi", "a", "b"]


def test_without_a_key_it_would_be_stored_twice(service: Running) -> None:
    with service.client() as client:
        for _ in range(2):
            client.post("/v1/sessions/twice/user", json={"content": "hi"})
        page = client.get("/v1/sessions/twice/messages").json()
    assert len(page["entries"]) == 2


def lose_once(service: Running, act: Callable[[AsyncRemoteMemory], object]) -> object:
    memory, transport = lossy(service, times=0)
    session = memory.session("kept")
    drive(session.add([{"role": "user", "content": "one"}]))
    drive(session.add([{"role": "assistant", "content": "two"}]))
    drive(session.state.set("a", 1))
    drive(session.pin("rule", key="p"))
    drive(session.add_rule(RULE.text))
    transport.times = 1
    return act(memory)


@pytest.mark.parametrize(
    ("name", "act", "answer"),
    [
        ("unpin", lambda m: drive(m.session("kept").unpin("p")), True),
        ("drop rule", lambda m: drive(m.session("kept").drop_rule(RULE.id)).text, RULE.text),
        ("remove", lambda m: drive(m.session("kept").state.remove("a")), True),
        ("fork", lambda m: drive(m.session("kept").fork(conversation="twin")).id, "twin"),
        (
            "fold",
            lambda m: getattr(
                drive(m.session("kept").fold(summary="s", keep_turns=0)), "text", None
            ),
            "s",
        ),
    ],
)
def test_what_would_answer_otherwise_the_second_time_answers_the_same(
    service: Running, name: str, act: Callable[[AsyncRemoteMemory], object], answer: object
) -> None:
    assert (name, lose_once(service, act)) == (name, answer)


def test_clearing_again_does_not_clear_what_was_said_since(service: Running) -> None:
    with service.client() as client:
        say, key = "/v1/sessions/clear/user", {"idempotency-key": "c1"}
        client.post(say, json={"content": "one"})
        first = client.post("/v1/sessions/clear/clear", headers=key).json()
        client.post(say, json={"content": "two"})
        assert client.post("/v1/sessions/clear/clear", headers=key).json() == first == {"upto": 1}
        seen = client.post("/v1/sessions/clear/context", json={}).json()["messages"]
    assert [message["content"] for message in seen] == ["two"]


def test_a_turn_of_document_003_is_stored_once(service: Running) -> None:
    transport = LosesAnswers(service.url, 2)
    memory = AsyncRemoteShortMemory.over(RequestSender(transport, retries=3, backoff=0.1))
    drive(memory.write_turn("short", user_query="q", agent_response="a"))
    transport.times = 1
    drive(memory.query_memory_context("short", query="q2"))
    transport.times = 2
    drive(memory.write_turn("short", agent_response="a2"))
    session = drive(memory.get_short_memory("short"))
    assert session.flow_context.turn_count == 2


def test_a_key_for_another_body_is_refused(service: Running) -> None:
    with service.client() as client:
        key = {"idempotency-key": "k1"}
        say = "/v1/sessions/reused/user"
        assert client.post(say, json={"content": "a"}, headers=key).status_code == 200
        again = client.post(say, json={"content": "a"}, headers=key)
        assert (again.status_code, again.json()["repeated"]) == (200, True)
        other = client.post(say, json={"content": "b"}, headers=key)
        assert (other.status_code, other.json()["type"]) == (422, "urn:turnfold:problem:id-reused")
        for summary, status in (("s", 200), ("s", 200), ("t", 422)):
            fold = "/v1/sessions/reused/fold"
            body = {"summary": summary, "keep_turns": 0}
            assert client.post(fold, json=body, headers=key).status_code == status


def test_answers_are_kept_for_a_time_and_then_removed(tmp_path: Path) -> None:
    limits = Limits(answer_hours=2.0)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with running(options) as service, service.client() as client:
        now, replies = [1_000.0], service.state.replies
        replies.clock = lambda: now[0]

        def clear(key: str) -> int:
            client.post("/v1/sessions/c/user", json={"content": "more"})
            answer = client.post("/v1/sessions/c/clear", headers={"idempotency-key": key})
            return int(answer.json()["upto"])

        assert (clear("a"), clear("b")) == (1, 2)
        now[0] += 7_199.0
        assert clear("a") == 1, "still within its time"
        now[0] += 1.0
        assert clear("a") == 4, "its time is over: it is a new request"
        assert clear("a") == 4
        assert (replies.kept, replies.repeated, replies.pruned) == (3, 2, 1)
        left = asyncio.run(service.state.config.store.documents(Scope("default"), "c", "reply"))
        assert [each.key for each in left] == ["a"]
        health = client.get("/v1/health").json()["details"]
        assert health["idempotency keys kept"] == "2 hours"
        assert (
            'turnfold_service_kept_answers_total{event="pruned"} 1.0' in client.get("/metrics").text
        )


def test_answers_are_kept_for_ever_where_that_is_asked_for(tmp_path: Path) -> None:
    limits = Limits(answer_hours=0)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with running(options) as service, service.client() as client:
        client.post("/v1/sessions/c/user", json={"content": "one"})
        for later in (0.0, 1e9):
            service.state.replies.clock = lambda later=later: 1_000.0 + later
            for key in ("a", str(later)):
                client.post("/v1/sessions/c/clear", headers={"idempotency-key": key})
        assert (service.state.replies.repeated, service.state.replies.pruned) == (1, 0)


def test_many_old_answers_are_removed_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnfold.service.idempotent_replies._PAGE", 3)

    async def left_after_each() -> list[int]:
        now, left = [0.0], list[int]()
        store, scope = open_store("sqlite://"), Scope("t")
        await store.append(scope, "c", [NewEntry(user("hi"))])
        replies = IdempotentReplies(store, 60.0, clock=lambda: now[0])
        for number in range(7):
            await (await replies.of(scope, "c", f"old {number}", b"r")).store(b"1")
        now[0] = 100.0
        for number in range(4):
            await (await replies.of(scope, "c", f"young {number}", b"r")).store(b"1")
            left.append(len(await store.documents(scope, "c", "reply")) - number - 1)
        await store.close()
        return left

    left = asyncio.run(left_after_each())
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0


def test_a_full_quota_still_answers_what_was_done_before_it_was_full(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(quota=1_000))
    with running(options) as service, service.client() as client:
        client.post("/v1/sessions/c/user", json={"content": "one"})
        key, body = {"idempotency-key": "f"}, {"conversation": "twin"}
        first = client.post("/v1/sessions/c/fork", json=body, headers=key)
        client.post("/v1/sessions/c/user", json={"content": "word " * 1_200})
        assert client.post("/v1/sessions/c/user", json={"content": "x"}).status_code == 403
        again = client.post("/v1/sessions/c/fork", json=body, headers=key)
        assert (again.status_code, again.content) == (200, first.content)


def test_a_key_may_hold_any_text_and_no_control_characters(service: Running) -> None:
    memory, _ = lossy(service, times=0)
    session = memory.session("keys")
    drive(session.user("hi", client_id="问题 1/%2F\n"))
    assert [each.client_id for each in drive(session.history())] == ["问题 1/%2F\n"]
    with pytest.raises(IdReused):
        drive(session.user("other", client_id="问题 1/%2F\n"))
    with service.client() as client:
        for bad in ("", "a b", "x" * 4609, "x" * 513, "%ff"):
            answer = client.post(
                "/v1/sessions/keys/user", json={"content": "x"}, headers={"idempotency-key": bad}
            )
            assert answer.status_code == 422, bad


def test_after_the_last_attempt_the_error_is_raised_and_pauses_grow(service: Running) -> None:
    memory, transport = lossy(service, times=9)
    with pytest.raises(StoreUnavailable):
        drive(memory.session("gone").user("hi"))
    assert transport.sent == 4
    assert len(transport.pauses) == 3
    assert 0.05 <= transport.pauses[0] <= 0.15
    assert 0.2 <= transport.pauses[2] <= 0.6


def test_a_service_that_is_not_there_is_a_store_that_is_not_there() -> None:
    transport = LosesAnswers("http://127.0.0.1:9", 0)
    memory = AsyncRemoteMemory.over(RequestSender(transport, retries=0, backoff=0.0))
    with pytest.raises(StoreUnavailable, match="no response"):
        drive(memory.session("x").user("hi"))


def test_who_is_told_to_wait_waits_that_long(tmp_path: Path) -> None:
    limits = Limits(rate=20.0, burst=1)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with running(options) as service:
        memory, transport = lossy(service, times=0)
        for _ in range(100):  # a loaded machine may be slower than the rate for a while
            drive(memory.session("paced").status())
            if transport.pauses:
                break
        assert transport.pauses
        assert max(transport.pauses) <= 0.05
        hasty = AsyncRemoteMemory.over(RequestSender(transport, retries=0, backoff=0.0)).session(
            "paced"
        )
        refused = [each for each in map(refusal, [hasty] * 200) if each is not None]
    assert all(0 < each.again <= 0.05 for each in refused)
    assert refused


def refusal(session: AsyncRemoteSession) -> LimitExceeded | None:
    try:
        drive(session.status())
    except LimitExceeded as error:
        return error
    return None
