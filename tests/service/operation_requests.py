"""A request for every operation of the service, and a store with content everywhere a request could find some."""

from __future__ import annotations

import re

import httpx2

from turnfold.api import AnyOperation, Events
from turnfold.memory import Memory
from turnfold.records import Snapshot, assistant, user

__all__ = ("CONTENT", "NAMES", "asked", "fill")

CONTENT = "the parcel 4711 of Dana"
BODIES: dict[str, dict[str, object]] = {
    "system": {"content": "rules"},
    "say_user": {"content": "hi"},
    "say_assistant": {"content": "hello"},
    "say_tool": {"content": "42", "tool_call_id": "c1"},
    "add": {"messages": [{"role": "user", "content": "hi"}]},
    "pin": {"content": "rule"},
    "add_rule": {"text": "Answer in Chinese. 用中文回答。"},
    "update_state": {"values": {"a": 1}},
    "set_state": {"value": 1},
    "record_usage": {"usage": {"input": 3}},
    "fork": {"conversation": "copy"},
    "recall": {"query": "parcel"},
    "by_client_id": {"client_ids": ["k"]},
    "search": {"query": "parcel Dana"},
    "erase": {"kind": "session", "id": "nobody's"},
    "verify_erasure": {
        "receipt": {
            "kind": "session",
            "subject": "",
            "salt": "0" * 32,
            "at": 0,
            "conversations": [],
            "forks": [],
            "digest": "",
        }
    },
    "set_short_memory": {"session": {}},
    "note_finding": {"call": {"id": "c", "name": "look", "arguments": "{}"}, "result": "x"},
    "tool_ran": {"tool": "look"},
    "write_turn": {"user_query": "q", "agent_response": "a"},
    "take_snapshot": {"context": "x"},
    "diff_snapshots": {"before": 1, "after": 1},
    "search_snapshots": {"keyword": "parcel"},
    "recall_snapshots": {"request": {"turn_numbers": [1]}},
    "drop_findings": {"tool": "look"},
    "findings_text": {"tokens": 100},
}
QUERIES = {"snapshot_file": {"path": "a.txt"}}
NAMES = {
    "turn": "1",
    "session": "talk",
    "conversation_id": "short",
    "number": "1",
    "name": "a",
    "key": "p",
    "seq": "1",
    "rule": "0123456789abcdef",
    "checkpoint": "none",
}


def fill(store: str, tenant: str = "acme") -> None:
    """Put the content everywhere a conversation can have some."""
    with Memory(store, scope=tenant) as memory:
        for name in ("talk", "short"):
            session = memory.session(name)
            session.add([user(CONTENT), assistant(CONTENT)], client_id="k")
            session.state.set("a", CONTENT)
            session.pin(CONTENT, key="p")
            session.snapshots.take(Snapshot(context=CONTENT, files={"a.txt": CONTENT}))
            session.findings.note({"id": "c", "name": "look", "arguments": "{}"}, CONTENT)
            NAMES["call"] = "000000000002-0000"
            session.context()
            session.fold(summary=CONTENT, keep_turns=0)


def asked(
    client: httpx2.Client, each: AnyOperation, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    """What an operation answers; of a stream, its beginning."""
    path = re.sub(r"{(\w+)}", lambda found: NAMES[found[1]], each.path)
    calls = {"before": NAMES["call"], "after": NAMES["call"]}
    query = calls if each.name == "diff" else QUERIES.get(each.name, {})
    body = BODIES.get(each.name)
    with client.stream(each.method, path, params=query, json=body, headers=headers or {}) as answer:
        if each.answer is Events and answer.status_code == 200:
            return 200, next(answer.iter_text(), "")
        return answer.status_code, answer.read().decode() + repr(answer.headers)
