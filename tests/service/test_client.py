"""Moving from an embedded memory to a served one is one line: same names, same values, same errors."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.house.source_tree import SOURCE
from tests.service.running import Running, running
from turnfold import wire
from turnfold.budget import Budget
from turnfold.client import (
    AsyncRemoteFindings,
    AsyncRemoteMemory,
    AsyncRemoteSession,
    AsyncRemoteShortMemory,
    AsyncRemoteSnapshots,
    AsyncRemoteState,
    RemoteMemory,
    RemoteShortMemory,
)
from turnfold.errors import InvalidOption, TurnfoldError
from turnfold.findings import AsyncFindings, FindingRule
from turnfold.memories import AsyncShortMemory, ShortMemory
from turnfold.memory import AsyncMemory, AsyncSession, AsyncState, Memory
from turnfold.records import NewEntry, Snapshot, ToolCall, ToolResult, Usage, user
from turnfold.search import Within
from turnfold.service import ServiceOptions
from turnfold.window import Section
from turnfold.workspace_snapshots import AsyncSnapshots, RecallRequest

NOT_SERVED = {
    AsyncMemory: {
        "recall": "the mode of recalling is the service's",
        "meter": "figures are the service's: /metrics",
        "calibration": "the service counts",
        "runtime": "the client does not fold",
        "budget": "the service's own; a call may name another",
        "drain": "the service's own folds",
        "scope": "the token's tenant",
        "store": "the service's own",
    },
    AsyncSession: {
        "counter": "the service counts",
        "budget": "the service's own; a call may name another",
        "store": "behind the service",
        "scope": "the token's tenant",
        "held_bytes": "memory of the process that holds the session",
        "fold_calls": "the cost of folds is in the figures of the service: /metrics",
        "index_meaning": "the embedder is the service's, which works in the background",
    },
    AsyncState: {},
    AsyncFindings: {},
    AsyncSnapshots: {"held_bytes": "memory of the process that holds the session"},
    AsyncShortMemory: {
        "meter": "figures are the service's: /metrics",
        "import_messages": "whoever runs the service imports, beside its store",
        "import_session_value": "whoever runs the service imports, beside its store",
        "query_message_by_conversation_id_asc_from_checkpoint": "/v1/sessions/{session}/messages",
        "query_message_by_conversation_id_asc_with_limit": "/v1/sessions/{session}/messages",
    },
}
REMOTE = {
    AsyncMemory: AsyncRemoteMemory,
    AsyncSession: AsyncRemoteSession,
    AsyncState: AsyncRemoteState,
    AsyncFindings: AsyncRemoteFindings,
    AsyncSnapshots: AsyncRemoteSnapshots,
    AsyncShortMemory: AsyncRemoteShortMemory,
}
OTHERWISE = {"over", "close"}
"""A constructor, and `cancel`, which is the service's."""


def offered(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", REMOTE, ids=lambda kind: kind.__name__)
def test_everything_a_memory_offers_is_served_or_said_not_to_be(kind: type) -> None:
    assert offered(kind) - offered(REMOTE[kind]) - {"over"} == set(NOT_SERVED[kind])


@pytest.mark.parametrize("kind", REMOTE, ids=lambda kind: kind.__name__)
def test_the_parameters_are_the_same(kind: type) -> None:
    for name in sorted(offered(kind) & offered(REMOTE[kind])):
        ours, theirs = getattr(REMOTE[kind], name), getattr(kind, name)
        if callable(theirs) and name not in OTHERWISE:
            assert [
                (each.name, each.kind, each.default)
                for each in inspect.signature(ours).parameters.values()
            ] == [
                (each.name, each.kind, each.default)
                for each in inspect.signature(theirs).parameters.values()
            ], name


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    store = f"sqlite:///{tmp_path_factory.mktemp('client') / 'chat.db'}"
    with running(ServiceOptions(store=store, budget=BUDGET, keep_turns=2)) as started:
        yield started


BUDGET = Budget(max_tokens=900)


def raised(call: Callable[[], object]) -> object:
    """The error a call raises, as something to compare."""
    with pytest.raises(TurnfoldError) as error:
        call()
    return type(error.value), str(error.value), vars(error.value)


def seen_by_anthropic(session: Any) -> list[object]:
    """A preview for one provider, under a limit of bytes that only its body tells."""
    small = Budget(max_tokens=700, max_bytes=1_500)
    looked = session.preview(budget=small, to=wire.anthropic)
    plain = session.preview(budget=small)
    return [looked.messages, looked.receipt.wired, plain.messages, plain.receipt.wired]


def a_whole_life(memory: Any) -> list[object]:
    """Everything a session can be asked, and what it answered."""
    session = memory.session("a/b 你好?#%2F..")
    return [*being_said(session), *calls_made(session), *kept(session), *an_end(memory, session)]


def being_said(session: Any) -> list[object]:
    seen: list[object] = []
    see = seen.append
    see(session.system("Answer briefly. 简短回答。"))
    see(session.system("Answer briefly. 简短回答。"))
    see(session.user("Where is parcel 4711?", name="dana", client_id="q1"))
    see(session.user("Where is parcel 4711?", name="dana", client_id="q1"))
    call = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": '{"id":1}'}}
    see(session.assistant(None, tool_calls=[call], client_id="a1"))
    see(session.tool("in Lyon", tool_call_id="c1", name="track", client_id="t1"))
    see(session.add([{"role": "assistant", "content": "Lyon"}], client_id="a2", expect=4))
    see(session.add([NewEntry(user("包裹在哪?"), "n1"), NewEntry(user("急!"), "n2")]))
    see(raised(lambda: session.add(user("late"), expect=1)))
    see(raised(lambda: session.user("another body", client_id="q1")))
    return seen


def calls_made(session: Any) -> list[object]:
    seen: list[object] = []
    see = seen.append
    first = session.context()
    see((first.messages, first.costs, first.tokens, first.receipt, first.budget, first.anchor))
    see({section: first.section(section) for section in Section})
    for number in range(6):
        session.user(f"{number}: " + "the parcel did not arrive. " * 12, client_id=f"u{number}")
        session.assistant(f"{number}: " + "we look into it. " * 12, client_id=f"w{number}")
    second = session.context(
        "Lyon",
        tools=[{"type": "function", "function": {"name": "track", "parameters": {}}}],
        notes={"mood": "impatient"},
        workspace="a.py",
        to=wire.openai_chat,
        max_tokens=800,
    )
    see((second.messages, second.receipt, session.last_call))
    see(session.preview(budget=Budget(max_tokens=700)).messages)
    see(seen_by_anthropic(session))
    calls = session.calls()
    see([each.call for each in calls])
    see(session.explain())
    see(session.explain(calls[0].call))
    see((session.explain("@last"), session.diff(calls[0].call, "@last")))
    see(session.diff(calls[0].call, calls[1].call))
    see(session.record_usage({"prompt_tokens": 9, "completion_tokens": 2}).usage)
    choice = {"message": {"role": "assistant", "content": "里昂"}, "finish_reason": "stop"}
    whole = {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    see(session.add(whole, client_id="whole"))
    see((session.history()[-1].message, [each.usage for each in session.calls()]))
    see(session.record_usage(Usage(input=8), call=calls[0].call).usage)
    see(raised(lambda: session.explain("nothing")))
    see(raised(lambda: session.context(budget=Budget(max_tokens=3))))
    return seen


def kept(session: Any) -> list[object]:
    seen: list[object] = []
    see = seen.append
    see((session.pin("Never promise a date.", key="p/1"), session.pins(), session.unpin("none")))
    see((session.unpin("p/1"), session.pins(), session.unpin("")))
    entry = session.history(after=1, limit=1)[0]
    see((session.pin(entry), session.pins(), session.pin(seq=2, key="k"), session.pins()))
    see((session.unpin("entry-2"), session.unpin("k")))
    see(raised(lambda: session.pin("text", seq=2)))
    see(raised(lambda: session.pin(entry, seq=3)))
    see(raised(lambda: session.pin(seq=9_999)))
    see(raised(session.pin))
    rule = session.add_rule("Answer in French. 用法语回答。", kind="preference")
    see((rule, session.rules(), session.drop_rule(rule.id), session.rules()))
    see(raised(lambda: session.drop_rule(rule.id)))
    see(raised(lambda: session.drop_rule("")))
    see(raised(lambda: session.add_rule("x" * 301)))
    session.state.set("city", {"name": "里昂", "n": [1, 2.5, None, True]})
    session.state.update({"b": 1})
    see((session.state.all(), session.state.get("b"), session.state.get("none", 7)))
    see((session.state.remove("b"), session.state.remove("b")))
    see([each.seq for each in session.recall("Lyon", limit=3)])
    see([each.message for each in session.recall("Lyon", tokens=200)])
    see(
        session.recall("Lyon", within=Within(roles=frozenset({"tool"}), tools=frozenset({"track"})))
    )
    see(raised(lambda: session.recall("Lyon", limit=0)))
    see((session.turn(1), session.by_client_id(["q1", "none"])))
    see(session.history(after=2, limit=3))
    return seen


def an_end(memory: Any, session: Any) -> list[object]:
    seen: list[object] = []
    see = seen.append
    made = session.fold(summary="So far: parcel 4711 is in Lyon.", keep_turns=1)
    see(made)
    see(session.checkpoints())
    see(raised(lambda: session.fold(keep_turns=-1)))
    see(session.status())
    see(memory.search("parcel Lyon", limit=3))
    see(memory.search("Lyon", conversation=session.id, within=Within(kinds=None, since=1)))
    see(raised(lambda: memory.search("Lyon", within=Within(turns=(1, 2)), limit=0)))
    twin = session.fork(5, conversation="..")
    see((twin.id, [each.message for each in twin.history()]))
    see((twin.erase(2, reason="asked 用户要求"), [each.message for each in twin.history()]))
    see((twin.erase(2).already, raised(lambda: twin.erase(99)), raised(lambda: twin.erase(0))))
    see(raised(lambda: twin.erase(1, reason="x" * 201)))
    see(raised(lambda: session.fork(conversation="..")))
    see(raised(lambda: session.fork(99_999, conversation="far")))
    see(session.clear())
    see([each.conversation for each in memory.conversations(limit=1)])
    see([each.conversation for each in memory.conversations()])
    see((memory.delete(".."), twin.delete().already))
    see(raised(lambda: twin.user("too late", client_id="x")))
    see(raised(lambda: memory.session("x" * 600).user("hi", client_id="x")))
    see(memory.health().ok)
    return seen


def a_search(session: Any) -> list[object]:
    """Everything findings can be asked, and what they answered."""
    seen: list[object] = []
    see, findings = seen.append, session.findings
    session.user("什么是折叠?", client_id="f1")
    rules = [
        FindingRule("contents", kind="toc"),
        FindingRule("look", serve=True, invalidated_by=("write",), min_relevance=0.2),
    ]
    findings.use(rules, most=3)
    see(sorted(findings.rules))
    see(findings.note(ToolCall("c1", "contents"), "1 Folding\n2 Recall"))
    see(findings.note({"id": "c2", "name": "look", "arguments": {"b": 1, "a": 2}}, {"n": "里昂"}))
    see(findings.note(ToolCall("c3", "look", '{"q":"x"}'), "weak", score=0.1))
    see(findings.note(ToolCall("c4", "look", '{"q":"y"}'), ToolResult("c4", (), is_error=True)))
    for number in range(4):
        see(findings.note(ToolCall(f"d{number}", "other", f'{{"n":{number}}}'), "found " * 9))
    see([each.tool for each in findings.list()])
    see(findings.get("look", {"a": 2, "b": 1}))
    see(findings.serve(ToolCall("c9", "look", '{"a":2,"b":1}')))
    see(findings.serve(ToolCall("c9", "contents")))
    see((findings.text(tokens=200), findings.text(tokens=200, question="折叠")))
    findings.ran("write")
    see(findings.get("look", {"a": 2, "b": 1}))
    see(raised(lambda: findings.note(ToolCall("c5", "look"), "x", score=2.0)))
    see(raised(lambda: findings.use([], most=0)))
    see((findings.drop("other", '{"n":3}'), findings.drop("other"), findings.drop("none")))
    see((findings.clear_query(), [each.tool for each in findings.list()], findings.clear()))
    return seen


def a_workspace(session: Any) -> list[object]:
    """Everything snapshots can be asked, and what they answered."""
    seen: list[object] = []
    see, kept = seen.append, session.snapshots
    see((kept.newest(), kept.get(1), kept.before(5), kept.get(-1), kept.heads()))
    files = {"a.py": "print(1)\n", "深/图.png": b"\x00\xff\x89"}
    first = Snapshot(context="两个文件", files=files, state={"step": 1, "n": [1.5]}, created=7)
    see(kept.take(first))
    see(kept.take(Snapshot(turn=1, context=first.context, files=files, state=first.state)))
    see(raised(lambda: kept.take(Snapshot(turn=1, context="another"))))
    later = {"a.py": "print(2)\n", "b.md": "plan: fold the workspace"}
    see(
        kept.take(
            Snapshot(files=later, state={"step": 2}, summary="次", insights=("i",), created=8)
        )
    )
    see((kept.newest(), [head.id for head in kept.heads()], kept.heads(after=1, limit=1)))
    see((kept.get(1), kept.get(2), kept.get(3), kept.before(2)))
    see((kept.files(1), kept.read(1, "a.py"), kept.read(1, "深/图.png")))
    see(raised(lambda: kept.read(1, "none")))
    see(raised(lambda: kept.files(9)))
    see((kept.diff(1, 2), kept.diff(1, 2, path="a.py", tokens=80)))
    see((kept.search("workspace"), kept.search("nothing like it")))
    see(kept.recall(RecallRequest(turn_numbers=(2,), path="a.py")))
    see(kept.recall({"keywords": ["workspace"]}, tokens=200))
    see(raised(lambda: kept.recall({"wrong": 1})))
    return seen


VARYING = re.compile(
    r"(created|updated|updated_at|generation|documents|epoch)=\d+|(before|after)=\(\d+, \d+\)"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d"
)
"""Times, epochs, which are random; and the answers a service keeps beside a conversation."""


def timeless(seen: list[object]) -> list[str]:
    return [VARYING.sub("at some time", repr(each)) for each in seen]


def test_a_served_session_answers_what_an_embedded_one_does(
    service: Running, tmp_path: Path
) -> None:
    here = Memory(f"sqlite:///{tmp_path / 'here.db'}", budget=BUDGET, keep_turns=2)
    with here, RemoteMemory(service.url) as there:
        expected, found = timeless(a_whole_life(here)), timeless(a_whole_life(there))
        expected += timeless(a_search(here.session("search")))
        found += timeless(a_search(there.session("search")))
        expected += timeless(a_workspace(here.session("work")))
        found += timeless(a_workspace(there.session("work")))
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert ours == theirs, number


def a_short_life(memory: Any) -> list[object]:
    """Everything document 003's memory can be asked, and what it answered."""
    seen: list[object] = []
    see = seen.append
    talk = "病人/7"
    see(memory.create_short_memory(talk, "u1", enterprise_id="e"))
    see(memory.query_memory_context(talk, query="头疼怎么办?"))
    see(memory.write_turn(talk, agent_response="多喝水。", agent_code="gp"))
    for number in range(12):
        turn = {"user_query": f"{number}: 还疼 " * 30, "agent_response": f"{number}: 休息 " * 30}
        memory.write_turn(talk, client_id=f"t{number}", **turn)
        memory.write_turn(talk, client_id=f"t{number}", **turn)
    full = memory.query_memory_context(talk, model_context_window=2_000)
    see(full)
    see(memory.checkpoint_short_memory(talk, "头疼，已休息", 2, upto=full.upto).text)
    session = memory.get_short_memory(talk)
    other = memory.get_short_memory(talk)
    session.global_state.current_intent = "挂号"
    session.global_state.shared.more["bed"] = [4, "b"]
    session.user_snapshot.allergies.append("青霉素")
    see(memory.set_short_memory(talk, session))
    other.global_state.current_intent = "取药"
    see(raised(lambda: memory.set_short_memory(talk, other)))
    session.flow_context.turn_count = 3
    see(raised(lambda: memory.set_short_memory(talk, session)))
    see(raised(lambda: memory.query_memory_context(talk, enterprise_id="another")))
    see([each.text for each in memory.checkpoint_history(talk)])
    see(memory.reset_short_memory(talk))
    see(memory.create_short_memory(talk, "u1", restart=True))
    see(memory.delete_short_memory(talk))
    see(raised(lambda: memory.write_turn(talk, user_query="a", agent_response="b")))
    return seen


def test_a_served_short_memory_answers_what_an_embedded_one_does(
    service: Running, tmp_path: Path
) -> None:
    here = ShortMemory(f"sqlite:///{tmp_path / 'here.db'}")
    with here, RemoteShortMemory(service.url) as there:
        expected, found = timeless(a_short_life(here)), timeless(a_short_life(there))
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert ours == theirs, number


@pytest.mark.parametrize(("body", "shown"), [({}, 0), ({"restart": False}, 1)])
def test_a_plain_request_creates_as_the_library_does(
    service: Running, body: dict[str, bool], shown: int
) -> None:
    path = f"/v1/short-memories/plain-{shown}"
    with service.client() as client:
        client.post(path, json={"user_id": "u"})
        client.post(f"{path}/turns", json={"user_query": "头疼?", "agent_response": "休息。"})
        assert client.post(path, json={"user_id": "u", **body}).status_code == 200
        context = client.post(f"{path}/context", json={}).json()
    assert context["full_history"].count("休息。") == shown


def test_the_awaiting_client_is_the_same(service: Running) -> None:
    async def life() -> tuple[object, ...]:
        async with AsyncRemoteMemory(service.url) as memory:
            session = memory.session("awaited")
            await session.user("hi")
            context = await session.context()
            async with AsyncRemoteMemory(service.url) as other:  # has made no call itself
                newest = (await other.session("awaited").explain()).manifest.call
            explained = await session.explain()
            return context.messages, explained.exact, session.last_call, newest

    name = "000000000001-0000"
    assert asyncio.run(life()) == ((user("hi"),), True, name, name)


def test_of_many_calls_at_once_each_is_told_its_own_name(service: Running) -> None:
    async def calls() -> list[tuple[bool, str]]:
        async with AsyncRemoteMemory(service.url) as memory:
            session = memory.session("at once")
            await session.user("hi")
            spaces = [f"workspace {number}" for number in range(12)]
            made = await asyncio.gather(*(session.context(workspace=each) for each in spaces))
            return [
                (space in found.messages[0].text + found.messages[-2].text, context.call)
                for space, context in zip(spaces, made, strict=True)
                for found in [await session.explain(context.call)]
                if found.exact and found.messages == context.messages
            ]

    told = asyncio.run(calls())
    assert [own for own, _ in told] == [True] * 12
    assert len({name for _, name in told}) == 12


def test_a_long_log_is_read_in_pages_nobody_sees(service: Running) -> None:
    with RemoteMemory(service.url) as memory:
        session = memory.session("long")
        for first in (1, 801, 1_601):  # a request appends 1,000 messages at most
            session.add([user(str(number)) for number in range(first, first + 800)])
        assert [each.seq for each in session.history(limit=2_250)] == list(range(1, 2_251))


def test_the_counter_of_a_served_context_is_elsewhere(service: Running) -> None:
    with RemoteMemory(service.url) as memory:
        session = memory.session("counted")
        session.user("hi")
        context = session.context()
        assert context.counter_name
        with pytest.raises(AttributeError, match="the service used"):
            _ = context.counter
        with pytest.raises(
            InvalidOption, match=r"type object.*'openai_chat'.*module of turnfold\.wire"
        ):
            session.context(to=object())  # pyright: ignore[reportArgumentType]


def test_a_preview_has_the_tools_it_was_counted_with(service: Running) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    with RemoteMemory(service.url) as memory:
        session = memory.session("previewed")
        session.user("hi")
        for context in (session.preview(tools=tools), session.context(tools=tools)):
            assert context.tools > 0
            assert wire.openai_chat.request(context, model="gpt-4o").kwargs["tools"] == tools


def test_the_seq_of_an_entry_to_erase_is_named_in_the_error(service: Running) -> None:
    with service.client() as client:
        refused = client.delete("/v1/sessions/erased/messages/x")
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "seq 'x' is not a whole number: give 0 or more",
    )


def test_an_address_that_is_none_is_refused() -> None:
    for url in ("sqlite:///x.db", "127.0.0.1:8787", ""):
        with pytest.raises(InvalidOption, match="not an address of a service"):
            RemoteMemory(url)


def test_the_client_loads_nothing_that_serves_or_stores() -> None:
    code = (
        "import turnfold.client._sync, sys\n"
        "others = {'starlette', 'uvicorn', 'apsw', 'psycopg', 'redis'}\n"
        "assert not others & sys.modules.keys(), others & sys.modules.keys()"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_without_the_package_the_client_names_its_extra() -> None:
    code = (
        "import sys; sys.modules['httpx2'] = None\n"
        "from turnfold.errors import MissingExtra\n"
        "try:\n    import turnfold.client._sync\n"
        "except MissingExtra as error:\n    assert 'turnfold[client]' in str(error)\n"
        "else:\n    raise SystemExit(1)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_both_clients_close_like_a_file(service: Running) -> None:
    memory = RemoteMemory(service.url)
    assert isinstance(memory, AbstractContextManager)
    memory.close()
    memory.close()


def test_a_rule_of_no_known_kind_is_refused_and_nothing_is_stored(service: Running) -> None:
    rules = "/v1/sessions/kinds/rules"
    with service.client() as client:
        refused = client.post(rules, json={"text": "用中文回答。", "kind": "wish"})
        assert (refused.status_code, "kind" in refused.json()["detail"]) == (422, True)
        assert client.get(rules).json() == {"rules": []}
        kept = client.post(rules, json={"text": "用中文回答。"}).json()
        assert (kept["text"], kept["kind"]) == ("用中文回答。", "rule")
        assert client.delete(f"{rules}/{kept['id']}").json()["state"] == "dropped"
        assert client.delete(f"{rules}/{kept['id']}").status_code == 404
