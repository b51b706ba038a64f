"""Told to end, a service finishes its requests and its folds, or hands them over; told twice, it ends now."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.service.running import PATIENCE, ServiceProcess
from turnfold.budget import Budget
from turnfold.inspect import audit
from turnfold.memory import Memory
from turnfold.records import FOLDING, SESSION, FoldingNote, read_note
from turnfold.runtime import AsyncRuntime, drive

BUDGET = Budget(max_tokens=2_000)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A file with a conversation that is due to be folded."""
    address = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(address, budget=BUDGET, fold="manual") as memory:
        session = memory.session("c")
        for number in range(8):
            session.user(f"{number}: " + "the parcel 4711 did not arrive. " * 20)
            session.assistant(f"{number}: " + "we look into it. " * 20)
        session.user("and now?")
    return address


def started(store: str, checkpoint: str, drain: float = 60.0) -> ServiceProcess:
    return ServiceProcess(store, checkpoint, str(drain), module="tests.service.service_process")


def refused(url: str) -> None:
    """Wait until nobody listens at `url` any more."""
    parts = urlsplit(url)
    while True:
        try:
            socket.create_connection((str(parts.hostname), int(parts.port or 0)), 1).close()
        except OSError:
            return


def client(service: ServiceProcess) -> httpx2.Client:
    return httpx2.Client(base_url=service.url, timeout=PATIENCE, trust_env=False, verify=False)


def lease(store: str) -> FoldingNote:
    with Memory(store) as memory:
        found = drive(memory.store.get_document(memory.scope, "c", SESSION, FOLDING))
    return read_note(found, FoldingNote)


def checkpoints(store: str) -> int:
    with Memory(store, budget=BUDGET, fold="manual") as memory:
        session = memory.session("c")
        assert audit(session) == []
        return len(session.checkpoints())


def test_a_fold_under_way_is_finished(store: str) -> None:
    with started(store, "background") as service:
        with client(service) as asking:
            assert asking.post("/v1/sessions/c/context", json={}).status_code == 200
        assert service.heard() == "asked"
        service.terminate()
        refused(service.url)
        assert service.process.poll() is None  # it waits for the fold
        service.say()
        assert service.ended() == 0
    assert checkpoints(store) == 1


def test_a_fold_that_takes_too_long_is_handed_over(store: str) -> None:
    with started(store, "background", drain=0.5) as service:
        with client(service) as asking:
            asking.post("/v1/sessions/c/context", json={})
        assert service.heard() == "asked"
        service.terminate()
        assert service.ended() == 1  # while its model is still being asked
    assert checkpoints(store) == 0
    assert lease(store).owner == ""


def test_told_twice_it_ends_now_and_leaves_no_lease(store: str) -> None:
    with started(store, "background") as service:
        with client(service) as asking:
            asking.post("/v1/sessions/c/context", json={})
        assert service.heard() == "asked"
        assert lease(store).owner != ""
        service.terminate()
        refused(service.url)
        service.terminate()
        assert service.ended() == 1  # while its model is still being asked
    assert checkpoints(store) == 0
    assert lease(store).owner == ""


def test_a_request_under_way_is_answered(store: str) -> None:
    with started(store, "manual") as service, client(service) as asking:
        answers: list[httpx2.Response] = []

        def fold() -> None:
            answers.append(asking.post("/v1/sessions/c/fold", json={"keep_turns": 1}))

        thread = threading.Thread(target=fold)
        thread.start()
        assert service.heard() == "asked"
        service.terminate()
        refused(service.url)
        while thread.is_alive():
            service.say()
            thread.join(0.2)
        assert service.ended() == 0
    assert answers[0].status_code == 200
    assert checkpoints(store) >= 1


def test_a_stream_does_not_hold_up_the_end(store: str) -> None:
    with (
        started(store, "manual") as service,
        client(service) as asking,
        asking.stream("GET", "/v1/events") as stream,
    ):
        text = stream.iter_text()
        assert next(text).startswith("retry")
        service.terminate()
        assert list(text) == []
        assert service.ended() == 0


def test_a_killed_service_leaves_a_whole_log(store: str) -> None:
    with started(store, "background") as service:
        with client(service) as asking:
            asking.post("/v1/sessions/c/context", json={})
        assert service.heard() == "asked"
        service.kill()
    assert checkpoints(store) == 0


def test_work_that_is_told_to_stop_twice_still_cleans_up() -> None:
    async def stopped() -> list[str]:
        runtime, did = AsyncRuntime(), list[str]()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                did.append("gave the lease back")

        runtime.begin("fold", work)
        await asyncio.sleep(0)
        await asyncio.gather(runtime.finish(cancel=True), runtime.finish(cancel=True))
        return did

    assert asyncio.run(stopped()) == ["gave the lease back"]
