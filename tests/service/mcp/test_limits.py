"""Every answer is under the token limit, says what was left out, and the rest can be had: nothing is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.service.mcp.asking import Asking, asking
from turnfold.errors import InvalidOption
from turnfold.memory import Memory
from turnfold.records import Snapshot, assistant, user
from turnfold.service import Limits, McpOptions
from turnfold.service.mcp.request_access import McpRequest

LIMIT = 1_000
LONG = "".join(f'第{number}行 line {number} "quoted" \\ \n' for number in range(1_500))
RARE = "\U0001f9ff𠮷" * 256
"""An id as long as may be, of characters that cost the most."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    store = f"sqlite:///{tmp_path_factory.mktemp('limits') / 'chat.db'}"
    with Memory(store) as memory:
        talk = memory.session("long")
        talk.add([user(LONG), assistant(LONG)])
        for turn in range(60):
            talk.add([user(f"question {turn} about widgets"), assistant("widgets " * 40)])
        talk.pin(LONG[:2_000])
        talk.fold(summary=LONG, keep_turns=4)
        talk.context()
        talk.snapshots.take(Snapshot(turn=1, context=LONG, files={"a.txt": LONG}))
        for number in range(60):
            memory.session(f"session {number:03d} " + "x" * 90).user(f"widgets {number}")
    with asking(store, max_tokens=LIMIT) as found:
        yield found


def cost(asking: Asking, text: str) -> int:
    return asking.answers.state.config.counter.count_text(text)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("recall_context", {"query": "widgets line"}),
        ("recall_context", {"turn_numbers": [1]}),
        ("recall_context", {"turn_numbers": list(range(50))}),
        ("recall_context", {"first_seq": 1, "last_seq": 122}),
        ("recall_context", {"first_seq": 3, "last_seq": 122, "max_tokens": 64}),
        ("search_memory", {"query": "widgets", "session": None, "limit": 50}),
        ("list_sessions", {"session": None, "limit": 200}),
        ("context_status", {}),
        ("remember", {"text": LONG}),
        ("fold", {"summary": LONG, "keep_turns": 2}),
    ],
)
def test_every_tool_answers_within_the_limit(
    large: Asking, tool: str, arguments: dict[str, Any]
) -> None:
    answer = large.call(tool, **{"session": "long", **arguments})
    assert answer["isError"] is False, answer
    [text] = [each["text"] for each in answer["content"]]
    assert 0 < cost(large, text) <= arguments.get("max_tokens", LIMIT)
    assert cost(large, msgspec.json.encode(answer["structuredContent"]).decode()) <= LIMIT


def test_a_recall_that_is_cut_says_how_to_go_on(large: Asking) -> None:
    seen, first = "", 3
    while True:
        text = large.call("recall_context", session="long", first_seq=first, last_seq=122)
        text = text["structuredContent"]["text"]
        seen += text
        onward = re.search(r"ask first_seq=(\d+), last_seq=122", text)
        if onward is None:
            break
        assert int(onward[1]) > first
        first = int(onward[1])
    assert [turn for turn in range(60) if f"question {turn} about" not in seen] == []


def test_a_search_that_is_cut_counts_what_it_left_out(large: Asking) -> None:
    found = large.call("search_memory", query="widgets", limit=50)["structuredContent"]
    assert found["cut"] > 0
    assert len(found["found"]) + found["cut"] == 50
    assert f"{found['cut']} more were found" in found["hint"]


def test_all_sessions_are_listed_however_small_the_pages(large: Asking) -> None:
    names: list[str] = []
    asked: dict[str, Any] = {}
    while True:
        page = large.call("list_sessions", **asked)["structuredContent"]
        names += [each["session"] for each in page["sessions"]]
        if not page["next"]:
            break
        asked["after"] = page["next"]
    assert len([name for name in names if name.startswith("session ")]) == 60
    uris: list[str] = []
    params: dict[str, Any] = {}
    while True:
        listed = large.ask("resources/list", params)
        assert cost(large, json.dumps(listed, ensure_ascii=False)) <= LIMIT
        uris += [each["uri"] for each in listed["resources"]]
        if "nextCursor" not in listed:
            break
        params["cursor"] = listed["nextCursor"]
    assert len([uri for uri in uris if uri.endswith("/log")]) == len(names)
    shown: list[str] = []
    uri = "memory://sessions"
    while uri:
        text = large.read(uri)
        assert cost(large, text) <= LIMIT
        read = json.loads(text)
        shown += [each["session"] for each in read["sessions"]]
        uri = read["next"]
    assert shown == names


def test_a_log_read_page_by_page_is_the_log(large: Asking) -> None:
    texts: dict[int, str] = {}
    uri = "memory://long/log"
    while uri:
        text = large.read(uri)
        assert cost(large, text) <= LIMIT
        page = json.loads(text)
        for entry in page["entries"]:
            texts[entry["seq"]] = texts.get(entry["seq"], "") + entry["text"]
        uri = page["next"] if max(texts) < 40 else ""
    assert [texts[1], texts[2]] == [LONG, LONG]
    assert texts[39] == "question 18 about widgets"


@pytest.mark.parametrize("kind", ["summary", "context"])
def test_a_text_read_page_by_page_is_whole(large: Asking, kind: str) -> None:
    session = large.answers.state.memory("default").session("long")
    call = large.run(session.calls())[-1].call
    whole, uri = "", f"memory://long/{kind}{f'/{call}' if kind == 'context' else ''}"
    while uri:
        page = large.read(uri)
        assert cost(large, page) <= LIMIT
        body = re.search(r"<(\w+) (\w+)>\n(.*)\n</\1 \2>", page, re.DOTALL)
        assert body is not None
        whole += body[3]
        onward = re.search(r"the rest is at (\S+)$", page)
        uri = onward[1] if onward else ""
    if kind == "summary":
        assert whole == large.run(session.checkpoints())[-1].text
    else:
        assert whole.startswith(f"call {call}: ")
        assert whole.count("question 59 about widgets") == 1


def test_workspaces_and_prompts_are_within_the_limit(large: Asking) -> None:
    snapshot = large.read("memory://long/snapshot/1")
    assert cost(large, snapshot) <= LIMIT
    for name in ("resume_session", "handoff_note"):
        for language in ("en", "zh"):
            given = {"session": "long", "language": language}
            [message] = large.ask("prompts/get", {"name": name, "arguments": given})["messages"]
            text = message["content"]["text"]
            assert cost(large, text) <= LIMIT
            assert "cut: the summary has" in text
            assert "are not shown: recall_context" in text


def test_the_check_sees_an_answer_that_is_too_long(
    large: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(McpRequest, "fits", lambda *_: True)
    answer = large.call("list_sessions", limit=200)
    assert answer["isError"] is True
    assert "limit-exceeded" in answer["content"][0]["text"]
    monkeypatch.setattr(McpRequest, "checked", lambda _, reply: reply)
    answer = large.call("list_sessions", limit=200)
    assert cost(large, answer["content"][0]["text"]) > LIMIT


def test_the_longest_dearest_id_fits_the_usual_limit(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(store) as memory:
        memory.session(RARE).user("widgets " + RARE)
        memory.session(RARE[:-1]).user("more")
    with asking(store) as found:
        for tool, given in (
            ("list_sessions", {}),
            ("search_memory", {"query": "widgets"}),
            ("context_status", {"session": RARE}),
            ("remember", {"session": RARE, "text": "x"}),
        ):
            answer = found.call(tool, **given)
            assert answer["isError"] is False, (tool, answer)
        page = found.call("list_sessions")["structuredContent"]
        assert page["sessions"][0]["session"] == RARE[:-1]


def test_a_limit_too_small_to_say_anything_is_refused() -> None:
    with pytest.raises(InvalidOption, match="at least 1,000"):
        McpOptions(max_tokens=999)


def test_a_full_quota_refuses_to_remember_and_nothing_else(tmp_path: Path) -> None:
    with asking(f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(quota=20)) as found:
        assert found.call("remember", text="word " * 30)["isError"] is False
        refused = found.call("remember", text="one more")
        assert refused["isError"] is True
        assert "limit-exceeded" in refused["content"][0]["text"]
        assert found.call("recall_context", query="word")["isError"] is False
