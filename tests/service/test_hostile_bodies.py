"""Requests that are small to send and dear to answer: each is refused, answered in pieces, or computed in a thread.

Nothing is timed: threads, sizes and comparisons are counted.
"""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.service.operation_requests import BODIES, NAMES
from tests.service.running import PATIENCE, Running, running
from turnfold import RemoteMemory
from turnfold.api import AnyOperation, Nothing
from turnfold.findings import store as findings_module
from turnfold.records import repeated_name
from turnfold.service import Limits, ServiceOptions
from turnfold.service import endpoint as endpoint_module
from turnfold.service.routes import TABLE, sessions
from turnfold.service.routes import workspace_snapshots as snapshots
from turnfold.workspace_snapshots import history as history_module
from turnfold.workspace_snapshots import recall as recall_module
from turnfold.workspace_snapshots import storage as storage_module

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    store = f"sqlite:///{tmp_path_factory.mktemp('bodies') / 'chat.db'}"
    with running(ServiceOptions(store=store)) as started:
        yield started


class CountedName(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_repeated_name_is_found_in_linear_time() -> None:
    names = [CountedName(number) for number in range(2_000)]
    CountedName.compared = 0
    assert repeated_name(names) is None
    assert repeated_name([*names, CountedName(7)]) == "7"
    assert CountedName.compared < 2_000  # each with each would be 2,000,000


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/sessions"])
def test_many_parameters_are_refused(service: Running, path: str) -> None:
    """Looking for the repeated one took two seconds of the event loop, without a token."""
    names = [f"{number:x}" for number in range(10_000)]
    with service.client() as client:
        found = client.get(f"{path}?{'&'.join([*names, names[-1]])}")
        assert client.get("/v1/sessions?limit=2&limit=2").status_code == 422
    assert (found.status_code, found.json()["detail"]) == (
        422,
        "there are more than 100 query parameters; give fewer",
    )


REPEATED = {
    "user": ("POST", b'{"content": "a", "content": "b"}', "content"),
    "state": ("PATCH", b'{"values": {"x": {"y": 1, "y": 2}}}', "y"),
    "messages": ("POST", b'{"messages": [{"role": "user", "role": "system", "content": "a"}]}', "role"),
}  # fmt: skip


@pytest.mark.parametrize("path", REPEATED)
def test_a_key_that_is_given_twice_is_refused(service: Running, path: str) -> None:
    """A filter before the service might read the one value, and the service the other."""
    method, body, key = REPEATED[path]
    with service.client() as client:
        found = client.request(method, f"/v1/sessions/twice/{path}", content=body, headers=JSON)
        assert client.get("/v1/sessions/twice").json()["entries"] == 0
    assert (found.status_code, found.json()["detail"]) == (
        422,
        f"body: the key {key!r} is given twice",
    )


USAGES: list[object] = [
    "x", 7, [], None, {}, {"input": "x"}, {"input": None}, {"input": True}, {"input": 1.5}, {"input": []},
    {"input": -1}, {"input": 1 << 70}, {"input": 1, "output": "x"}, {"input": 1, "cached": -4}, {"input": 1, "raw": 1},
    {"input": 1, "model": 3}, {"input_tokens": "x"}, {"input_tokens": 1 << 70}, {"prompt_tokens": [1]},
]  # fmt: skip


@pytest.mark.parametrize("usage", USAGES, ids=repr)
def test_usage_of_a_wrong_type_is_refused(service: Running, usage: object) -> None:
    with service.client() as client:
        client.post("/v1/sessions/used/user", json={"content": "hi"})
        call = client.post("/v1/sessions/used/context", json={}).json()["call"]
        path = f"/v1/sessions/used/calls/{call}/usage"
        assert client.put(path, json={"usage": usage}).status_code == 422
        assert client.put(path, json={"usage": {"input": 3}}).json()["usage"]["input"] == 3


ODD_VALUES = (
    "null", "true", "-1", str(1 << 70), "1.5", "1e400", "9" * 5_000, '""', r'"\ud800"', r'"\u0000"', "[]", "{}", "[[]]",
    "[null]", r'{"\ud800": 1}', '{"": ""}', '{"v": 99, "role": "x", "parts": [{"type": "text"}]}',
)  # fmt: skip


def places_in(value: object) -> Iterator[tuple[str | int, ...]]:
    """The way to each value within a JSON value."""
    yield ()
    inner = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value) if isinstance(value, list) else inner:
        for place in places_in(each):
            yield (key, *place)


def with_odd_value(value: Any, place: tuple[str | int, ...], odd: str) -> str:
    """The JSON of a value, with another one at a place."""
    if not place:
        return odd
    first, *rest = place
    if isinstance(value, list):
        parts = [
            with_odd_value(each, tuple(rest), odd) if at == first else json.dumps(each)
            for at, each in enumerate(value)
        ]
        return f"[{', '.join(parts)}]"
    fields = [
        f"{json.dumps(key)}: {with_odd_value(each, tuple(rest), odd) if key == first else json.dumps(each)}"
        for key, each in value.items()
    ]
    return f"{{{', '.join(fields)}}}"


@pytest.mark.parametrize(
    "each", [each for each in TABLE if each.name in BODIES], ids=lambda each: each.name
)
def test_no_value_in_a_body_makes_an_operation_fail(service: Running, each: AnyOperation) -> None:
    """Schemas do not tell what free objects hold, so that no request made from them had a usage of a wrong type."""
    with service.client() as client:
        client.post("/v1/sessions/talk/user", json={"content": "hi"})
        call = client.post("/v1/sessions/talk/context", json={}).json()["call"]
        names = {**NAMES, "call": call}
        path = re.sub(r"{(\w+)}", lambda found: names[found[1]], each.path)
        failed: list[tuple[object, str]] = []
        for place in places_in(BODIES[each.name]):
            for odd in ODD_VALUES:
                body = with_odd_value(BODIES[each.name], place, odd)
                found = client.request(each.method, path, content=body, headers=JSON)
                if found.status_code >= 500:
                    failed.append((place, odd[:40]))
    assert failed == []


LONG_TEXT = "x" * 1_001
LONG_MESSAGES: dict[str, dict[str, Any]] = {
    "text": {"role": "user", "content": LONG_TEXT},
    "name": {"role": "user", "content": "a", "name": LONG_TEXT},
    "call id": {"role": "tool", "content": "a", "tool_call_id": LONG_TEXT},
    "result": {"role": "tool", "content": LONG_TEXT, "tool_call_id": "c"},
    "arguments": {
        "role": "assistant",
        "tool_calls": [
            {"id": "c", "function": {"name": "f", "arguments": json.dumps([LONG_TEXT])}}
        ],
    },
    "function": {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": LONG_TEXT, "arguments": "{}"}}],
    },
    "metadata": {"role": "user", "content": "a", "metadata": {"note": LONG_TEXT}},
    "other fields": {"role": "user", "content": [{"type": "text", "text": "a", "note": LONG_TEXT}]},
    "unknown part": {"role": "user", "content": [{"type": "hologram", "data": LONG_TEXT}]},
    "thinking": {"role": "assistant", "content": [{"type": "thinking", "thinking": LONG_TEXT}]},
    "several": {"role": "user", "content": [{"type": "text", "text": "x" * 600}] * 2},
}


@pytest.mark.parametrize("what", LONG_MESSAGES)
def test_whatever_is_long_in_a_message_counts(what: str) -> None:
    """A name of 7 MB was taken, because only the text was measured."""
    options = ServiceOptions(limits=Limits(message=1_000))
    with running(options) as service, service.client() as client:

        def status(message: object) -> int:
            return client.post("/v1/sessions/s/messages", json={"messages": [message]}).status_code

        assert status(LONG_MESSAGES[what]) == 413
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 2_000}"}}
        assert status({"role": "user", "content": [image]}) == 200
        assert client.get("/v1/sessions/s").json()["entries"] == 1


def test_many_parts_and_many_keys_are_refused() -> None:
    """250,000 parts of two letters took half a second of the event loop."""
    options = ServiceOptions(limits=Limits(parts=20, keys=200))
    with running(options) as service, service.client() as client:

        def status(path: str, body: dict[str, Any]) -> int:
            return client.post(f"/v1/sessions/s/{path}", json=body).status_code

        parts = [{"type": "text", "text": "1%"}] * 20
        result = {"type": "tool_result", "tool_use_id": "c", "content": parts}
        assert status("user", {"content": parts}) == 200
        assert status("user", {"content": [*parts, *parts[:1]]}) == 413
        assert (
            status("messages", {"messages": [{"role": "user", "content": parts[:11]}] * 2}) == 413
        )
        assert status("messages", {"messages": [{"role": "user", "content": [result]}]}) == 413
        files = {f"f{number}": "x" for number in range(200)}
        assert status("snapshots", {"context": "x", "files": files}) == 413
        del files["f1"], files["f2"]
        assert status("snapshots", {"context": "x", "files": files}) == 200
        assert client.get("/v1/sessions/s").json()["entries"] == 1


MANY_VALUES = {
    "empty lists": b'{"messages": [%s]}' % b",".join([b"[]"] * 300_000),
    "empty objects": b'{"messages": [%s]}' % b",".join([b"{}"] * 300_000),
    "numbers": b'{"messages": [%s]}' % b",".join([b"1"] * 300_000),
    "strings": b'{"messages": [%s]}' % b",".join([b'"a"'] * 300_000),
    "strings side by side": b'{"messages": [%s,]}' % (b'":,"' * 400_000),
}


@pytest.mark.parametrize("what", MANY_VALUES)
def test_a_body_of_very_many_values_is_not_parsed(
    service: Running, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Two million empty lists were one call of the parser, during which no other request was answered for a second."""
    parsed: list[object] = []
    monkeypatch.setattr(endpoint_module, "json", SimpleNamespace(loads=parsed.append))
    with service.client() as client:
        sent = MANY_VALUES[what]
        found = client.post("/v1/sessions/s/messages", content=sent, headers=JSON)
    assert found.status_code == 413
    assert "have more than 200,000 values" in found.json()["detail"]
    assert parsed == []


@pytest.mark.parametrize("text", [",[{:" * 100_000, '\\",[' * 100_000, "\\\\" * 200_000])
def test_what_looks_like_values_in_a_text_is_none(service: Running, text: str) -> None:
    with service.client() as client:
        found = client.post("/v1/sessions/texts/user", json={"content": text})
        assert found.status_code == 200


@pytest.mark.parametrize("sent", [b'{"c": "' + b'\\"' * 2_000_000, b'"' * 2_000_001, b'{"a": "x\\'])
def test_strings_without_an_end_are_looked_for_once(sent: bytes) -> None:
    """A search from each quote to the end of the body would take hours."""
    limits = Limits(values=2_000_000, keys=1_000_000)
    endpoint_module.check_values(sent + b"," * 3_000_000, limits)


LARGE_BODIES = {
    "say_user", "say_assistant", "say_tool", "add", "take_snapshot", "by_client_id", "verify_erasure",
}  # fmt: skip
"""Operations that carry messages, files or lists of ids; the list only shrinks."""


@pytest.mark.parametrize(
    "each", [each for each in TABLE if each.body is not Nothing], ids=lambda each: each.name
)
def test_only_messages_and_files_may_be_large(service: Running, each: AnyOperation) -> None:
    names = {**NAMES, "call": "000000000002-0000"}
    path = re.sub(r"{(\w+)}", lambda found: names[found[1]], each.path)
    body = msgspec.json.encode({"unknown": ["x"] * 80_000})
    with service.client() as client:
        found = client.request(each.method, path, content=body, headers=JSON)
    assert found.status_code == (422 if each.name in LARGE_BODIES else 413)


def test_a_page_of_large_entries_ends_early_and_the_client_reads_on(service: Running) -> None:
    """Twelve requests for 60 MB each stopped the event loop for ten seconds."""
    texts = [f"{number} {'wörter ' * 100_000}" for number in range(12)]
    with service.client(timeout=PATIENCE) as client:
        for text in texts:
            client.post("/v1/sessions/large/assistant", json={"content": text})
        first = client.get("/v1/sessions/large/messages?limit=1000")
        assert len(first.content) <= sessions._PAGE_BYTES + 10_000
        page = first.json()
        assert page["next"] == page["entries"][-1]["seq"] == 5
        last = client.get("/v1/sessions/large/messages?limit=1000&after=10").json()
        assert (len(last["entries"]), last["next"]) == (2, None)
    with RemoteMemory(service.url) as memory:
        session = memory.session("large")
        assert [entry.message.text for entry in session.history()] == texts
        assert [entry.seq for entry in session.history(limit=9)] == list(range(1, 10))


def test_a_turn_is_read_in_pages_and_the_client_reads_on(service: Running) -> None:
    """A turn of a tool loop may be as large as a log: all of it was read at once, up to 64 MiB."""
    texts = [f"{number} {'wörter ' * 100_000}" for number in range(12)]
    with service.client(timeout=PATIENCE) as client:
        client.post("/v1/sessions/loop/user", json={"content": "before"})
        client.post("/v1/sessions/loop/user", json={"content": "go"})
        for text in texts:
            client.post("/v1/sessions/loop/assistant", json={"content": text})
        client.post("/v1/sessions/loop/user", json={"content": "after"})
        first = client.get("/v1/sessions/loop/turns/2?limit=1000")
        assert len(first.content) <= sessions._PAGE_BYTES + 10_000
        assert first.json()["next"] == first.json()["entries"][-1]["seq"] == 7
        last = client.get("/v1/sessions/loop/turns/2?limit=1000&after=13").json()
        assert ([each["seq"] for each in last["entries"]], last["next"]) == ([14], None)
        small = client.get("/v1/sessions/loop/turns/2?limit=1").json()
        assert ([each["seq"] for each in small["entries"]], small["next"]) == ([2], 2)
        for number, seqs in ((0, []), (1, [1]), (3, [15]), (4, [])):
            page = client.get(f"/v1/sessions/loop/turns/{number}").json()
            assert ([each["seq"] for each in page["entries"]], page["next"]) == (seqs, None)
    with RemoteMemory(service.url) as memory:
        assert [each.message.text for each in memory.session("loop").turn(2)] == ["go", *texts]


def test_a_page_of_large_calls_ends_early_and_the_client_reads_on(service: Running) -> None:
    with service.client(timeout=PATIENCE) as client:
        client.post("/v1/sessions/calls/user", json={"content": "hi"})
        for number in range(60):
            note = {"n": f"{number} " + "abc " * 25_000}
            client.post("/v1/sessions/calls/context", json={"notes": note})
        page = client.get("/v1/sessions/calls/calls?limit=1000").json()
        assert 30 < len(page["calls"]) < 60
        assert page["next"] == page["calls"][-1]["call"]
    with RemoteMemory(service.url) as memory:
        assert len(memory.session("calls").calls(limit=1000)) == 60


def test_one_entry_larger_than_a_page_is_a_page(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_PAGE_BYTES", 10)
    with service.client() as client:
        for text in ("one", "two"):
            client.post("/v1/sessions/small/user", json={"content": text})
        page = client.get("/v1/sessions/small/messages").json()
        assert [each["seq"] for each in page["entries"]] == [1]
        assert page["next"] == 1


def test_metadata_of_large_snapshots_is_read_a_few_at_a_time(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, pages = storage_module.SnapshotStorage.page, list[int]()

    async def page(self: Any, *, after: int, limit: int) -> Any:
        found = await read(self, after=after, limit=limit)
        pages.append(len(found))
        return found

    with service.client() as client:
        for number in range(40):
            client.post("/v1/sessions/kept/snapshots", json={"context": f"{number}"})
        monkeypatch.setattr(storage_module.SnapshotStorage, "page", page)
        heads = client.get("/v1/sessions/kept/snapshots?limit=1000").json()["heads"]
    assert [head["turn"] for head in heads] == list(range(1, 41))
    assert max(pages) == 16


COMPUTED: dict[str, tuple[Any, str]] = {
    "messages are read": (sessions, "_messages"),
    "a turn is written": (sessions, "entry_form"),
    "a snapshot is read": (snapshots, "snapshot_value"),
    "a snapshot is packed": (history_module, "pack"),
    "a snapshot is unpacked": (storage_module, "unpack"),
    "a listing is read": (storage_module, "read_listing"),
    "a snapshot is put together": (history_module, "_rebuild"),
    "snapshots are compared": (history_module, "_compared"),
    "items are chosen": (recall_module, "_selected_items"),
    "items are searched": (recall_module, "_part"),
    "a recall is shown": (recall_module, "show_parts"),
    "findings are shown": (findings_module, "findings_text"),
}


def test_what_is_large_is_computed_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recall from 20,000 files took ten seconds of the event loop."""
    threads = defaultdict[str, set[str]](set)

    def watched(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            threads[what].add(threading.current_thread().name.partition("_")[0])
            return function(*args, **options)

        return called

    files = {f"d{number}/file": f"parcel {number}" for number in range(3_000)}
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with (
        running(ServiceOptions(store=store)) as service,
        service.client(timeout=PATIENCE) as client,
    ):

        def send(path: str, body: dict[str, Any]) -> None:
            found = client.post(f"/v1/sessions/s/{path}", json=body)
            assert found.status_code == 200, found.text[:300]

        for what, (place, name) in COMPUTED.items():
            monkeypatch.setattr(place, name, watched(what, getattr(place, name)))
        said = {"role": "assistant", "content": "It is on its way. " * 10}
        send("messages", {"messages": [said] * 500})
        assert client.get("/v1/sessions/s/turns/0?limit=1000").status_code == 200
        send("snapshots", {"context": "x", "files": files})
        send("snapshots", {"context": "y", "files": {**files, "a": "x" * 60_000, "b": "y"}})
        send("snapshots/diff", {"before": 1, "after": 2})
        send("snapshots/recall", {"request": {"keywords": ["parcel"]}, "tokens": 500})
        assert client.get("/v1/sessions/s/snapshots/2").status_code == 200
        call = {"id": "c", "name": "look", "arguments": "{}"}
        send("findings", {"call": call, "result": "the parcel " * 4_000})
        send("findings/text", {"tokens": 500})
    assert {what: threads[what] for what in COMPUTED} == {
        what: {"turnfold-compute"} for what in COMPUTED
    }
