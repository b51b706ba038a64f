"""No caller takes more than their share: of a body, of the time of the service, of the room in its store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service.operation_requests import asked, fill
from tests.service.running import make_tokens, running
from tests.sizes import examples
from tests.stores.redis_server import shared_url
from turnfold.api import AnyOperation
from turnfold.budget import Budget
from turnfold.errors import InvalidOption, LimitExceeded
from turnfold.memory import Memory
from turnfold.records import Document, Entry, NewEntry, encode_message, user
from turnfold.redaction import Redactor
from turnfold.service import Limits, ServiceOptions
from turnfold.service import limits as limits_module
from turnfold.service import limits as quota_module
from turnfold.service.limits import ROW_BYTES, Quota, RateLimit
from turnfold.service.routes import TABLE
from turnfold.stores import MemoryStore, Scope, Store, open_store, with_cache

LIMITS = Limits(body=2_000, streams=1)


def test_a_body_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=LIMITS)
    with running(options) as service, service.client() as client:
        say = "/v1/sessions/s/user"
        fits = client.post(say, json={"content": "x" * 1_900})
        declared = client.post(say, json={"content": "x" * 2_000})

        def pieces() -> Iterator[bytes]:
            yield b'{"content": "'
            for _ in range(40):
                yield b"x" * 100
            yield b'"}'

        streamed = client.post(say, content=pieces(), headers={"content-type": "application/json"})
        assert (fits.status_code, declared.status_code, streamed.status_code) == (200, 413, 413)
        assert declared.json()["fields"]["allowed"] == 2_000
        assert client.get("/v1/sessions/s").json()["entries"] == 1


def test_a_pace_is_kept_per_token() -> None:
    now = [0.0]
    pace = RateLimit(rate=2.0, burst=3, clock=lambda: now[0])
    for _ in range(3):
        pace.take("a")
    with pytest.raises(LimitExceeded) as refused:
        pace.take("a")
    assert refused.value.again == pytest.approx(0.5)
    pace.take("b")
    now[0] = 0.5
    pace.take("a")
    with pytest.raises(LimitExceeded):
        pace.take("a")
    now[0] = 100.0
    for _ in range(3):
        pace.take("a")
    with pytest.raises(LimitExceeded):
        pace.take("a")


def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    made = make_tokens(file, ("one", "acme", ["read"]), ("two", "acme", ["read"]))
    options = ServiceOptions(tokens_file=file, limits=Limits(rate=0.01, burst=2))
    with running(options) as service:
        with service.client(made["one"]) as client:
            answers = [client.get("/v1/sessions") for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert 1 <= int(answers[2].headers["retry-after"]) <= 100
        with service.client(made["two"]) as client:
            assert client.get("/v1/sessions").status_code == 200
            assert client.get("/healthz").status_code == 200


def test_a_tenant_with_a_full_quota_may_read_and_erase(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(store, scope="acme") as memory:
        memory.session("old").user("word " * 300)
    file = tmp_path / "tokens.json"
    made = make_tokens(
        file, ("full", "acme", ["read", "write"]), ("other", "rest", ["read", "write"])
    )
    options = ServiceOptions(store=store, tokens_file=file, limits=Limits(quota=400))
    with running(options) as service, service.client(made["full"]) as client:
        say = "/v1/sessions/new/user"
        assert client.post(say, json={"content": "more " * 120}).status_code == 200
        refused = client.post(say, json={"content": "more"})
        assert refused.status_code == 403
        assert refused.json()["type"] == "urn:turnfold:problem:limit-exceeded"
        assert refused.json()["fields"]["used"] >= 400
        assert client.post("/v1/sessions/old/context", json={}).status_code == 200
        assert client.get("/v1/sessions/old/messages").status_code == 200
        with service.client(made["other"]) as stranger:
            assert stranger.post(say, json={"content": "hi"}).status_code == 200
        assert client.delete("/v1/sessions/old").status_code == 200
        assert client.post(say, json={"content": "more"}).status_code == 200


def test_the_quota_is_summed_anew_after_a_while() -> None:
    async def sums() -> list[bool]:
        now, seen = [0.0], list[bool]()
        store = open_store("sqlite://")
        quota = Quota(store, 10, scan_every=60.0, clock=lambda: now[0])
        await quota.check("t")
        await store.append(Scope("t"), "c", [NewEntry(user("word " * 50))])
        for moment in (59.0, 61.0):
            now[0] = moment
            try:
                await quota.check("t")
            except LimitExceeded:
                seen.append(True)
            else:
                seen.append(False)
        await store.close()
        return seen

    assert asyncio.run(sums()) == [False, True]


def test_a_tenant_keeps_so_many_bytes_and_is_told_the_sum(tmp_path: Path) -> None:
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(stored=20_000)
    )
    with running(options) as service, service.client() as client:
        say = "/v1/sessions/s/user"
        assert client.post(say, json={"content": "x" * 12_000}).status_code == 200
        refused = client.post(say, json={"content": "y" * 12_000})
        told = refused.json()
        assert (refused.status_code, told["type"]) == (403, "urn:turnfold:problem:limit-exceeded")
        fields = told["fields"]
        assert fields["unit"] == "bytes"
        assert fields["allowed"] == 20_000 < fields["used"] + fields["asked"]
        assert fields["asked"] == len(refused.request.content)
        assert f"{fields['used'] + fields['asked']:,}, the quota is 20,000" in told["detail"]
        assert client.post(say, json={"content": "small"}).status_code == 200
        assert client.delete("/v1/sessions/s").status_code == 200
        service.state.quota.scan_every = 0.0  # what else is kept is found by looking
        again = client.post("/v1/sessions/t/user", json={"content": "y" * 12_000})
        assert again.status_code == 200


def test_snapshots_count_as_bytes_though_they_are_no_tokens_of_a_log(tmp_path: Path) -> None:
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(quota=1_000, stored=10_000)
    )
    with running(options) as service, service.client() as client:
        service.state.quota.scan_every = 0.0

        def take(number: int) -> httpx2.Response:
            text = "".join(f"{number * 1_000 + each} " for each in range(500))
            return client.post("/v1/sessions/s/snapshots", json={"context": text, "summary": "s"})

        answers = [take(number) for number in range(20)]
        assert (answers[0].status_code, answers[-1].status_code) == (200, 403), answers[-1].text
        assert answers[-1].json()["fields"]["unit"] == "bytes"


def test_bytes_are_those_of_messages_and_documents_and_only_new_entries_are_read() -> None:
    class Reading:
        """A store that says which entries are asked for."""

        def __init__(self, store: Store) -> None:
            self._store = store
            self.asked: list[int] = []

        def __getattr__(self, name: str) -> object:
            return getattr(self._store, name)

        async def read(self, *place: Any, after: int = 0, **more: Any) -> list[Entry]:
            self.asked.append(after)
            return await self._store.read(*place, after=after, **more)

    async def sums() -> tuple[list[int], list[int], int]:
        found: list[int] = []
        scope, said = Scope("t"), user("word " * 50)
        inner = open_store("sqlite://")
        store = Reading(inner)
        quota = Quota(cast("Store", store), bytes=1, scan_every=0.0)
        for _ in range(2):
            await inner.append(scope, "c", [NewEntry(said)])
            found.append(await _used(quota))
        await inner.put_document(scope, "c", Document("kind", "key", b"12345", 0))
        found.append(await _used(quota))
        found.append(await _used(quota))
        await inner.delete(scope, "c")
        await quota.check("t")
        await inner.close()
        return found, store.asked, len(encode_message(said)) + ROW_BYTES

    found, asked, one = asyncio.run(sums())
    document = len(b"12345") + len("key") + ROW_BYTES
    assert found == [one, 2 * one, 2 * one + document, 2 * one + document]
    assert asked == [0, 1]


async def _used(quota: Quota) -> int:
    with pytest.raises(LimitExceeded) as refused:
        await quota.check("t", brings=1)
    return int(refused.value.used)


def stored_bytes(store: str, tenant: str = "default") -> int:
    """What a tenant stores, summed by a quota that has seen none of it being written."""

    async def total() -> int:
        opened = open_store(store)
        quota = Quota(opened, bytes=1)
        try:
            await quota.check(tenant, brings=1)
        except LimitExceeded as full:
            return int(full.used)
        finally:
            await opened.close()
        return 0

    return asyncio.run(total())


@pytest.mark.parametrize(
    "each", [each for each in TABLE if each.writes], ids=lambda each: each.name
)
def test_a_full_quota_refuses_every_write_that_does_not_free_room(
    tmp_path: Path, each: AnyOperation
) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    fill(store, "default")
    before = stored_bytes(store)
    with (
        running(ServiceOptions(store=store, limits=Limits(stored=1))) as service,
        service.client() as client,
    ):
        if each.frees:
            assert asked(client, each)[0] in (200, 404)
            assert not each.keyed or asked(client, each, {"idempotency-key": "k"})[0] == 403
        else:
            status, text = asked(client, each)
            assert (status, "limit-exceeded" in text) == (403, True)
    after = stored_bytes(store)
    assert after < before + ROW_BYTES if each.frees else after == before


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
@pytest.mark.parametrize(
    "each", [each for each in TABLE if each.writes], ids=lambda each: each.name
)
def test_every_write_is_counted_when_it_is_made(
    tmp_path: Path, each: AnyOperation, *, keyed: bool
) -> None:
    """What a quota knows between two scans is never less than what a scan finds: nothing passes uncounted."""
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    fill(store, "default")
    limits = Limits(stored=10_000_000, quota=10_000_000)
    headers = {"idempotency-key": "k7"} if keyed else {}
    with (
        running(ServiceOptions(store=store, limits=limits)) as service,
        service.client() as client,
    ):
        quota = service.state.quota
        quota.scan_every = float("inf")
        assert client.post("/v1/sessions/other/user", json={"content": "hi"}).status_code == 200
        assert asked(client, each, headers)[0] in (200, 404)
        used = quota._used["default"]
        found_bytes, found_tokens = stored_bytes(store), stored_tokens(store)
    # A summary or a call is counted with its document; a removal is counted by the next scan.
    assert used.bytes >= found_bytes
    assert used.tokens == found_tokens or each.frees


def stored_tokens(store: str) -> int:
    """The tokens of all logs of the default tenant."""

    async def total() -> int:
        opened = open_store(store)
        try:
            page = await opened.conversations(Scope("default"), after="", limit=1_000)
            return sum(each.head.tokens for each in page)
        finally:
            await opened.close()

    return asyncio.run(total())


GROWTH = {
    "user": ("POST", "/v1/sessions/a/user", lambda _: {"content": "Q" * 500}),
    "pins": ("POST", "/v1/sessions/a{}/pins", lambda number: {"content": f"{number:0300}"}),
    "state": ("PUT", "/v1/sessions/a/state/n{}", lambda _: {"value": "Q" * 500}),
    "sessions": ("PUT", "/v1/sessions/new{}/state/x", lambda _: {"value": 1}),
    "context": ("POST", "/v1/sessions/a/context", lambda _: {}),
    "rules": ("POST", "/v1/sessions/a/rules", lambda number: {"text": f"Say {number}. 说。"}),
    "fork": ("POST", "/v1/sessions/a/fork", lambda number: {"conversation": f"copy{number}"}),
    "turns": ("POST", "/v1/short-memories/s/turns", lambda _: {"user_query": "q", "agent_response": "a"}),
    "chinese turns": ("POST", "/v1/short-memories/中/turns", lambda _: {"user_query": "问", "agent_response": "答"}),
    "short": ("POST", "/v1/short-memories/new{}", lambda number: {"user_id": f"{number:0200}"}),
    "replies": ("DELETE", "/v1/sessions/a/pins/none", lambda _: None),
    "ran": ("POST", "/v1/sessions/a/findings/ran", lambda number: {"tool": f"{number:0500}"}),
}  # fmt: skip
"""Method, path and body of requests that each store something more."""


CACHED = ("user", "turns", "chinese turns", "short")
"""What is tried behind a cache too: a `ShortMemory` writes to the store behind it."""


@pytest.mark.parametrize(
    ("kind", "cached"), [*((kind, False) for kind in GROWTH), *((kind, True) for kind in CACHED)]
)
def test_what_is_written_counts_before_the_next_scan(
    tmp_path: Path, kind: str, *, cached: bool
) -> None:
    store, quota = f"sqlite:///{tmp_path / 'chat.db'}", 20_000
    method, path, body = GROWTH[kind]
    limits, budget = Limits(stored=quota), Budget(max_tokens=2_000)
    cache = shared_url() if cached else None
    options = ServiceOptions(store=store, cache=cache, limits=limits, budget=budget)
    with running(options) as service, service.client() as client:
        service.state.quota.scan_every = float("inf")
        assert client.post("/v1/sessions/a/user", json={"content": "x" * 4_000}).status_code == 200
        statuses = list[int]()
        for number in range(200):
            headers = {"idempotency-key": f"{number:0400}"}
            sent = body(number)
            options_ = {"json": sent} if sent is not None else {}
            found = client.request(method, path.format(number), headers=headers, **options_)
            statuses.append(found.status_code)
            if found.status_code == 403:
                assert found.json()["fields"]["unit"] == "bytes"
                break
        assert set(statuses[:-1]) <= {200}
        assert statuses[-1] in ((403,) if kind not in ONCE else (200, 403))
    # One request may exceed it by what it stores beside its body: a manifest, a ledger, a stored response.
    assert stored_bytes(store) <= quota + 3_000


def test_the_numbers_of_labels_count_before_the_next_scan(tmp_path: Path) -> None:
    """Redaction stores 27 bytes of its own for every address, past what counted: twice the quota was stored."""
    store, quota = f"sqlite:///{tmp_path / 'chat.db'}", 60_000
    options = ServiceOptions(store=store, limits=Limits(stored=quota), redact=Redactor())
    with running(options) as service, service.client() as client:
        service.state.quota.scan_every = float("inf")
        assert client.post("/v1/sessions/a/user", json={"content": "hi"}).status_code == 200
        status, number = 200, 0
        while status == 200 and number < 100:
            addresses = " ".join(f"{number}a{each}@b.co" for each in range(100))
            path = f"/v1/sessions/{number % 3}/user"
            status = client.post(path, json={"content": addresses}).status_code
            number += 1
        assert status == 403
    # The last message brings 100 numbers with it, and labels are longer than these addresses.
    assert stored_bytes(store) <= 1.6 * quota


ONCE = {"ran", "rules"}
"""What replaces what it stored before, so that it is never too much."""


def test_every_method_of_a_store_is_known_to_write_or_not() -> None:
    reads = (
        "head view read read_ranges read_turn find tail live_checkpoint checkpoints get_document documents "
        "conversations search capture health close"
    )
    methods = {name for name, value in vars(Store).items() if callable(value) and name[0] != "_"}
    store = MemoryStore()
    metered = quota_module._MeteredStore(store, quota_module.Quota(store, bytes=1))
    writes = {name for name in methods if getattr(metered, name) != getattr(store, name)}
    assert methods == writes | set(reads.split())
    assert not writes & set(reads.split())


def test_an_erased_entry_frees_its_own_room_only(tmp_path: Path) -> None:
    """Erasing one entry made a quota forget the whole conversation, so that all of it could be written again."""
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(stored=20_000)
    )

    def say(client: Any, size: int) -> int:
        return client.post("/v1/sessions/a/user", json={"content": "x" * size}).status_code

    with running(options) as service, service.client() as client:
        assert [say(client, 4_000) for _ in range(4)] == [200, 200, 200, 200]
        service.state.quota.scan_every = 0
        assert say(client, 4_000) == 403
        service.state.quota.scan_every = float("inf")
        assert client.delete("/v1/sessions/a/messages/1").status_code == 200
        statuses = [say(client, 4_000) for _ in range(4)]
    assert statuses == [200, 403, 403, 403]
    assert stored_bytes(options.store) <= 20_000


def test_copies_of_a_conversation_count_their_tokens(tmp_path: Path) -> None:
    """Forks counted as bytes only, so that a quota of tokens could be passed by copying."""
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with (
        running(ServiceOptions(store=store, limits=Limits(quota=1_300))) as service,
        service.client() as client,
    ):
        service.state.quota.scan_every = float("inf")
        said = {"content": "word " * 300}
        assert client.post("/v1/sessions/a/user", json=said).status_code == 200
        statuses = [
            client.post("/v1/sessions/a/fork", json={"conversation": f"b{number}"}).status_code
            for number in range(5)
        ]
        assert statuses == [200, 200, 403, 403, 403]
    assert stored_tokens(store) <= 1_300


@pytest.mark.parametrize("cached", [False, True])
def test_nothing_but_the_methods_of_a_store_passes_the_meter(*, cached: bool) -> None:
    """A method that a store has beside those of the protocol could write without being counted."""
    inner: Any = MemoryStore()
    inner.write_anyway = inner.append
    store = with_cache(inner, shared_url()) if cached else inner
    metered: Any = Quota(store, bytes=1).metered()
    for each in (metered, metered.durable) if cached else (metered,):
        assert not hasattr(each, "write_anyway")
        assert not {name for name in dir(each) if name[0] != "_"} - PASSED - set(dir(Store))
    assert (metered.durable is not None) == cached


PASSED = {"abilities", "blocking", "content_digest", "durable", "redaction", "session_values"}


def test_room_that_was_freed_is_noticed_before_a_request_is_refused(tmp_path: Path) -> None:
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(stored=20_000)
    )
    with running(options) as service, service.client() as client:
        service.state.quota.scan_every = float("inf")
        for name in ("a", "b", "c"):
            say = f"/v1/sessions/{name}/user"
            assert client.post(say, json={"content": "y" * 15_000}).status_code == 200
            assert client.post(say, json={"content": "y" * 15_000}).status_code == 403
            assert client.delete(f"/v1/sessions/{name}").status_code == 200


@pytest.mark.parametrize("family", ["sessions", "short-memories"])
def test_deleting_what_never_was_leaves_nothing_behind(tmp_path: Path, family: str) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with running(ServiceOptions(store=store)) as service, service.client() as client:
        for _ in range(2):
            gone = client.delete(f"/v1/{family}/ghost")
            if family == "sessions":
                assert gone.status_code == 404
            else:
                assert (gone.status_code, gone.json()["already"]) == (200, False)
        assert client.post("/v1/sessions/ghost/user", json={"content": "hi"}).status_code == 200
        assert client.delete(f"/v1/{family}/ghost").json()["entries"] == 1
        assert client.delete(f"/v1/{family}/ghost").json()["already"] is True
        late = client.post("/v1/sessions/ghost/user", json={"content": "late"})
        assert late.status_code == 410


def test_streams_that_are_opened_together_see_each_other(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(streams=4))

    async def opened(port: int) -> list[bytes]:
        links = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        for _, writer in links:
            writer.write(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        lines = [(await reader.readline()).split()[1] for reader, _ in links]
        for _, writer in links:
            writer.close()
        return lines

    with running(options) as service:
        statuses = asyncio.run(opened(int(service.url.rpartition(":")[2])))
    assert sorted(statuses) == [b"200"] * 4 + [b"429"] * 36


def test_requests_that_come_together_are_weighed_once() -> None:
    async def sums() -> list[int]:
        store = open_store("sqlite://")
        await store.append(Scope("t"), "c", [NewEntry(user("word"))])
        quota = Quota(store, bytes=1, scan_every=60.0)
        found = await asyncio.gather(*(_used(quota) for _ in range(20)))
        await store.append(Scope("t"), "c", [NewEntry(user("word"))])
        quota.scan_every = 0.0
        found += await asyncio.gather(*(_used(quota) for _ in range(20)))
        await store.close()
        return found

    one = len(encode_message(user("word"))) + ROW_BYTES
    assert asyncio.run(sums()) == [one] * 20 + [2 * one] * 20


def test_a_token_has_so_many_streams(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=LIMITS)
    with running(options) as service, service.client() as client:
        with client.stream("GET", "/v1/events") as first:
            text = first.iter_text()
            assert next(text).startswith("retry")
            assert client.get("/v1/sessions/s/events").status_code == 429
        while service.state.streams[""]:  # until the service has noticed
            client.get("/healthz")
        with client.stream("GET", "/v1/events") as again:
            assert again.status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [{"body": 0}, {"rate": -1}, {"burst": 0}, {"quota": -1}, {"stored": -1}, {"answer_hours": -1}],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        Limits(**wrong)


# ---------------------------------------------------------------------------------- what is remembered is bounded


def test_a_quota_remembers_a_bounded_number_of_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_module, "_MOST_TENANTS", 8)

    async def sums() -> tuple[int, int, int]:
        store = open_store("sqlite://")
        quota = Quota(store, tokens=1_000)
        for number in range(100):
            await quota.check(f"t{number}")
        sizes = len(quota._used), len(quota._scanning)
        await asyncio.gather(*(quota.check(f"t{number % 20}") for number in range(200)))
        await store.close()
        return *sizes, len(quota._scanning)

    assert asyncio.run(sums()) == (8, 0, 0)


def test_a_quota_remembers_a_bounded_number_of_conversations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quota_module, "_MOST_CONVERSATIONS", 10)

    async def sums() -> list[int]:
        store, found = open_store("sqlite://"), list[int]()
        quota = Quota(store, tokens=1_000_000)
        for tenant, conversations in (("a", 4), ("b", 4), ("c", 4), ("huge", 30), ("a", 0)):
            for number in range(conversations):
                await store.append(Scope(tenant), f"c{number}", [NewEntry(user("词"))])
            await quota.check(tenant)
            found.append(sum(len(each.conversations) for each in quota._used.values()))
        await store.close()
        return found

    # One tenant is always remembered, however much it holds.
    assert asyncio.run(sums()) == [4, 8, 8, 30, 4]


@examples(30)
@given(
    st.lists(
        st.tuples(st.sampled_from(["say", "check", "erase"]), st.integers(0, 5), st.integers(0, 2)),
        max_size=40,
    )
)
def test_a_quota_that_forgets_answers_as_one_that_does_not(
    steps: list[tuple[str, int, int]],
) -> None:
    async def answers(most: int) -> list[int]:
        store, found = open_store("sqlite://"), list[int]()
        erased: set[tuple[str, str]] = set()
        quota = Quota(store, tokens=1, clock=lambda: 0.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quota_module, "_MOST_TENANTS", most)
            for what, number, at in steps:
                tenant, conversation = f"t{number}", f"c{at}"
                if what == "say" and (tenant, conversation) in erased:
                    continue
                if what == "say":
                    await store.append(Scope(tenant), conversation, [NewEntry(user("词 word"))])
                    head = await store.head(Scope(tenant), conversation)
                    quota.wrote(tenant, conversation, head.tokens)
                elif what == "erase":
                    await store.delete(Scope(tenant), conversation)
                    quota.erased(tenant, conversation)
                    erased.add((tenant, conversation))
                else:
                    try:
                        await quota.check(tenant)
                        found.append(0)
                    except LimitExceeded as full:
                        found.append(int(full.used))
        await store.close()
        return found

    assert asyncio.run(answers(2)) == asyncio.run(answers(1_000))


def test_a_pace_remembers_a_bounded_number_of_tokens_and_no_less_of_who_asks_too_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits_module, "_MOST_BUCKETS", 10)
    now = [0.0]
    pace = RateLimit(rate=1.0, burst=2, clock=lambda: now[0])
    refused = 0
    for number in range(200):
        now[0] += 0.25
        pace.take(f"once {number}")
        try:
            pace.take("greedy")
        except LimitExceeded:
            refused += 1
        assert len(pace._buckets) <= 10
    # Two at once and one a second for 50 s: the other 148 are refused, whoever else asks.
    assert refused == 200 - 2 - 50 + 1
