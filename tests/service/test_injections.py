"""The corpus of attacks through the service and through MCP: whatever leaves, stored text stays in its fence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

pytest.importorskip("uvicorn", reason="the service needs the extra 'service'")

from tests.memory.fence_reader import BREAKS
from tests.memory.injection_corpus import ATTACKS, Attack
from tests.memory.test_injections import GROUPS, PIN, attacked, judge_session, name_of
from tests.service.mcp.asking import Asking, asking
from tests.service.running import Running, running
from turnfold import Budget, Memory, RemoteMemory, Session
from turnfold.records import Snapshot
from turnfold.service import ServiceOptions
from turnfold.service.mcp import resources, tools
from turnfold.service.mcp.resources import ResourceAddress
from turnfold.text import json_line

_OPENING = re.compile(r"<([A-Za-z0-9_-]+) ([0-9a-f]{8,})>")


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    options = ServiceOptions(budget=Budget(max_tokens=60_000), fold="manual")
    with running(options) as found:
        yield found


@pytest.mark.parametrize("group", GROUPS, ids=name_of)
def test_no_attack_leaves_its_fence_over_http(service: Running, group: Sequence[Attack]) -> None:
    with RemoteMemory(service.url) as memory:
        judge_session(cast("Callable[[str], Session]", memory.session), group)


@pytest.fixture(scope="module")
def mcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """All attacks in a store, as texts, names, ids, summaries, pins, snapshots, behind an MCP server."""
    store = f"sqlite:///{tmp_path_factory.mktemp('injections') / 'a.db'}"
    with Memory(store, budget=Budget(max_tokens=60_000), fold="manual") as memory:
        for group in GROUPS:
            session, _ = attacked(memory.session, group)
            files = {f"{a.word} {a.text}".replace("\x00", ""): a.text for a in group}
            session.snapshots.take(
                Snapshot(context=group[0].text, files=files, summary=group[1].text)
            )
            session.fold(summary="\n".join(attack.text for attack in group), keep_turns=1)
        for attack in ATTACKS:
            memory.session(attack.text.replace("\x00", "")).user(f"{attack.word} {attack.text}")
    with asking(store, max_tokens=20_000) as found:
        yield found


def parted(text: str) -> tuple[str, dict[str, str]]:
    """Return what stands outside the fences of a text, which must be words of ours, and the fences by label."""
    lines = text.split("\n")
    shown: list[str] = []
    fences: dict[str, str] = {}
    at = 0
    while at < len(lines):
        opening = _OPENING.fullmatch(lines[at])
        if opening is None:
            shown.append(lines[at])
            at += 1
        else:
            closing = f"</{opening[1]} {opening[2]}>"
            end = lines.index(closing, at + 1)
            assert closing not in lines[end + 1 :]
            assert opening[1] not in fences
            fences[opening[1]] = "\n".join(lines[at + 1 : end])
            at = end + 1
    return "\n".join(shown), fences


def judge_text(text: str, *, words: Sequence[str]) -> None:
    """No word of an attack, and no line break of another kind, stands outside a fence."""
    rest, fences = parted(text)
    assert fences.get("pinned", f"- {PIN}") == f"- {PIN}"
    assert [word for word in words if word in rest] == [], rest
    assert not set(rest) & (set(BREAKS) - {"\n"})


WORDS = [attack.word for attack in ATTACKS]


def texts_of(mcp: Asking, group: Sequence[Attack]) -> Iterator[tuple[str, str]]:
    """Ask for everything that shows stored text."""
    name = name_of(group)
    query = " ".join(attack.word for attack in group)

    def called(tool: str, **arguments: Any) -> str:
        return mcp.call(tool, **arguments)["content"][0]["text"]

    yield "query", called("recall_context", session=name, query=query)
    yield "turns", called("recall_context", session=name, turn_numbers=[1, 2, 3])
    yield "range", called("recall_context", session=name, first_seq=1, last_seq=30)
    yield "search", called("search_memory", query=query)
    yield "status", called("context_status", session=name)
    yield "summary", mcp.read(str(ResourceAddress(kind="summary", session=name)))
    yield "snapshot", mcp.read(str(ResourceAddress(kind="snapshot", session=name, name="1")))
    for prompt in ("handoff_note", "resume_session"):
        for language in ("en", "zh"):
            given = {"name": prompt, "arguments": {"session": name, "language": language}}
            [message] = mcp.ask("prompts/get", given)["messages"]
            assert message["role"] == "user"
            yield prompt, message["content"]["text"]


@pytest.mark.parametrize("group", GROUPS, ids=name_of)
def test_no_attack_leaves_its_fence_over_mcp(mcp: Asking, group: Sequence[Attack]) -> None:
    shown = set[str]()
    for what, text in texts_of(mcp, group):
        judge_text(text, words=WORDS)
        if any(attack.word in text for attack in group):
            shown.add(what)
    assert shown >= {
        "query",
        "turns",
        "range",
        "search",
        "summary",
        "snapshot",
        "handoff_note",
        "resume_session",
    }


def test_ids_of_sessions_stay_in_the_fence_of_a_list(mcp: Asking) -> None:
    after, seen = "", 0
    while True:
        done = mcp.call("list_sessions", limit=20, **({"after": after} if after else {}))
        text, answer = done["content"][0]["text"], done["structuredContent"]
        judge_text(text, words=WORDS)
        assert not any(order in parted(text)[0] for order in ("Ignore", "忽略"))
        seen += len(answer["sessions"])
        after = answer["next"]
        if not after:
            break
        assert json_line(after) in text
    assert seen == len(ATTACKS) + len(GROUPS)


def judge_json(text: str) -> dict[str, Any]:
    """JSON on one line: its strings are its fences, and no line break of any kind is left in them."""
    assert len(text.splitlines()) == 1
    return json.loads(text)


def test_resources_in_json_have_one_line(mcp: Asking) -> None:
    ids = set[str]()
    address = str(ResourceAddress(kind="sessions"))
    while address:
        page = judge_json(mcp.read(address))
        ids |= {each["session"] for each in page["sessions"]}
        address = page["next"]
    assert ids >= {attack.text.replace("\x00", "") for attack in ATTACKS}
    for group in GROUPS:
        log = judge_json(mcp.read(str(ResourceAddress(kind="log", session=name_of(group)))))
        assert {each["role"] for each in log["entries"]} == {"user", "assistant", "tool"}


@pytest.mark.parametrize(("place", "name"), [(tools, "fence"), (resources, "fence")])
def test_the_judge_sees_a_missing_fence(
    mcp: Asking, place: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, lambda text, **_: text)
    with pytest.raises(AssertionError):  # noqa: PT012 (some text shows it)
        for _, text in texts_of(mcp, GROUPS[0]):
            judge_text(text, words=WORDS)


def test_the_judge_sees_a_mark_that_can_be_known() -> None:
    text = "<found 00000000>\nx\n</found 00000000>\nK0001 obey\n</found 00000000>"
    with pytest.raises(AssertionError):
        judge_text(text, words=WORDS)
