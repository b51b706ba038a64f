"""A store with something on every screen: calls that grow, a fold, a cut, usage, media, findable words, workspaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("uvicorn", reason="the inspector needs the extra 'service'")


from tests.inspector.hostile import PAYLOADS
from tests.service.running import Running
from tests.service.server_thread import served_in_a_thread
from turnfold.budget import Budget
from turnfold.findings import FindingRule
from turnfold.memory import Memory, Session
from turnfold.records import Snapshot
from turnfold.service import ServiceOptions, inspector_routes, make_app, make_state, server_config
from turnfold.service.inspector.html import address

__all__ = (
    "CONTENT",
    "HOSTILE",
    "SUMMARY",
    "TALK",
    "hostile_addresses",
    "inspected",
    "seed",
    "seed_hostile",
    "store_at",
)

TALK: Final = "talk/with 名字 & more"
"""A name with everything an address has to quote."""
HOSTILE: Final = "<script>window.ran=1</script>\"'><img src=x onerror=window.ran=1>"
CONTENT: Final = "the parcel 4711 of Dana"
SUMMARY: Final = "Dana waits for the parcel 4711; 达娜在等包裹。"
_PIXEL: Final = "data:image/png;base64," + "iVBORw0KGgo" * 400
_BUDGET: Final = Budget(max_tokens=900)


def store_at(folder: Path) -> str:
    return f"sqlite:///{folder / 'chat.db'}"


def _say(session: Session, number: int) -> None:
    said = f"{CONTENT}: question {number}, 第 {number} 个问题。" + " really" * 20
    if number == 3:
        session.user(
            [{"type": "text", "text": said}, {"type": "image_url", "image_url": {"url": _PIXEL}}]
        )
    else:
        session.user(said)
    session.context(CONTENT if number == 9 else None)
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": "look_up", "arguments": f'{{"n": {number}}}'},
    }
    session.add([{"role": "assistant", "content": None, "tool_calls": [call]}])
    session.tool(f"row {number} " * 12, tool_call_id=f"c{number}")
    session.context()
    session.record_usage({"input_tokens": 400 + number, "output_tokens": 3})
    session.assistant(f"Answer {number}: parcel on its way.")


def seed(store: str, tenant: str = "acme") -> None:
    """Fill a store."""
    with Memory(store, scope=tenant, budget=_BUDGET, fold="manual") as memory:
        session = memory.session(TALK)
        session.system("You look after parcels.")
        for number in range(1, 13):
            _say(session, number)
            if number == 5:
                session.fold(summary=SUMMARY, keep_turns=2)
        session.pin("never promise a day", key="rule")
        session.add_rule("Answer in two sentences.")
        looked = {"id": "c1", "function": {"name": "look_up", "arguments": '{"n": 1}'}}
        session.findings.use([FindingRule("look_up", ttl=86_400)])
        session.findings.note(looked, "row 1", score=0.75, seq=4)
        session.state.set("parcel", 4711)
        for turn, text in ((1, "one\ntwo\n"), (2, "one\nthree\n"), (5, "one\nthree\nfour\n")):
            session.snapshots.take(
                Snapshot(
                    turn=turn,
                    context=f"{CONTENT} at {turn}",
                    files={"notes/a b.txt": text, "blob.bin": b"\x00\xff" * turn},
                    state={"step": turn},
                    summary=f"turn {turn}: {CONTENT}",
                    insights=(f"insight {turn}",),
                )
            )
        memory.session("second").user("hello there")


@contextmanager
def inspected(options: ServiceOptions) -> Iterator[Running]:
    """A running service with the inspector beside its API."""
    state = make_state(replace(options, port=0))
    app = make_app(state, mounts=inspector_routes(state))
    config = server_config(app, options.limits, drain=options.drain, gate=state.gate)
    with served_in_a_thread(config) as url:
        try:
            yield Running(url, state)
        finally:
            state.stop()


def seed_hostile(store: str, tenant: str = "acme") -> None:
    """Put every payload wherever a text can be kept."""
    with Memory(store, scope=tenant, budget=Budget(max_tokens=200_000)) as memory:
        for at, payload in enumerate(PAYLOADS):
            if at % 10 == 0:
                memory.session(_nameable(payload)).user(payload)
        session = memory.session(HOSTILE)
        session.system(PAYLOADS[0])
        session.context()
        for start in range(0, len(PAYLOADS), 50):
            some = PAYLOADS[start : start + 50]
            session.pin("\n".join(some), key=f"p{start}")
            session.add(
                [each for at, payload in enumerate(some) for each in _turn(payload, start + at)]
            )
            if start == 50:
                session.fold(summary="\n".join(PAYLOADS), keep_turns=1)
            session.context(some[7])
        tool = PAYLOADS[0][:60]
        session.findings.use([FindingRule(tool)])
        noted = {"id": "n", "function": {"name": tool, "arguments": "{}"}}
        session.findings.note(noted, PAYLOADS[3])
        session.state.set(PAYLOADS[5], PAYLOADS[6])
        for turn in (1, 2):
            session.snapshots.take(
                Snapshot(
                    turn=turn,
                    context="\n".join(PAYLOADS) + str(turn),
                    files={_path(each): f"{each}\n{turn}" for each in PAYLOADS},
                    state={each: {each: turn} for each in PAYLOADS},
                    summary=PAYLOADS[turn],
                    insights=PAYLOADS,
                    links=PAYLOADS,
                )
            )


def hostile_addresses(store: str, tenant: str = "acme") -> list[str]:
    """An address of every screen that shows them."""
    with Memory(store, scope=tenant) as memory:
        session = memory.session(HOSTILE)
        calls = [each.call for each in session.calls()]
        entries = session.status().entries
        path = next(iter(session.snapshots.files(1)))
    at = ("sessions", HOSTILE)
    return [
        address(most=100),
        address("sessions", _nameable(PAYLOADS[0])),
        address(*at),
        *(
            address(*at, "calls", calls[-1], form=form)
            for form in ("neutral", "openai", "anthropic", "raw")
        ),
        address(*at, "diff", before=calls[1], after=calls[-1]),
        *(address(*at, "log", after=after, limit=200) for after in range(0, entries, 200)),
        address(*at, "checkpoints"),
        address(*at, "rules"),
        address(*at, "memory"),
        address(*at, "recall", query=PAYLOADS[40], limit=50, tokens=20_000),
        address(*at, "snapshots"),
        address(*at, "snapshots", 1),
        address(*at, "snapshots", 1, "file", path=path),
        address(*at, "snapshots", "diff", before=1, after=2),
        address("health"),
    ]


def _turn(payload: str, at: int) -> list[dict[str, object]]:
    """A turn in which everybody says it, and a tool is called so."""
    function = {"name": f"{payload[:60]}{at}", "arguments": payload}
    call = {"id": f"c{at}", "type": "function", "function": function}
    return [
        {"role": "user", "content": payload},
        {"role": "assistant", "content": payload, "tool_calls": [call]},
        {"role": "tool", "content": payload, "tool_call_id": f"c{at}"},
    ]


def _nameable(payload: str) -> str:
    """A payload as the name of a session, which has no sign that cannot be seen."""
    return payload.replace("\x00", "")[:200]


def _path(payload: str) -> str:
    """A payload as a path."""
    return payload.replace("\x00", "").replace("//", "/").strip("/") or "x"
