"""A store with something of everything in it, for two tenants: what is the second's must never be seen."""

from __future__ import annotations

from pathlib import Path

from turnfold.memory import Memory
from turnfold.records import Snapshot, ToolCall, assistant, tool, user

__all__ = ("ODD", "SECRET", "SUMMARY", "newest_call", "seed", "store_of")

ODD = "a/b c#会话?x%2F\u00e9&y=1"
"""An id with everything in it that means something in an address."""
SECRET = "rival-secret-5150"  # noqa: S105 (a word to look for)
SUMMARY = "Dana ordered the parcel 4711."


def store_of(folder: Path) -> str:
    """The address of the store in a folder."""
    return f"sqlite:///{folder / 'chat.db'}"


def seed(folder: Path) -> str:
    """Make the store; its address."""
    store = store_of(folder)
    with Memory(store, scope="default") as memory:
        talk = memory.session("talk")
        talk.system("Be brief.")
        talk.pin("Never ship on Sundays.")
        for turn in range(1, 13):
            talk.user(f"question {turn}: where is the parcel 4711?")
            talk.assistant(f"answer {turn}: 包裹在第 {turn} 号仓库")
        talk.assistant(tool_calls=[ToolCall("c1", "track", '{"id": 4711}')])
        talk.add(tool("in transit", tool_call_id="c1"))
        talk.fold(summary=SUMMARY, keep_turns=4)
        talk.context()
        talk.snapshots.take(Snapshot(turn=1, context="the shelf plan", files={"plan.txt": "row 7"}))
        memory.session(ODD).add([user("odd one"), assistant("odd answer")])
    with Memory(store, scope="rival") as memory:
        for name in ("talk", "rivals-own"):
            session = memory.session(name)
            session.add([user(f"{SECRET} parcel 4711 包裹"), assistant(SECRET)])
            session.pin(SECRET)
            session.fold(summary=SECRET, keep_turns=0)
            session.context()
            session.snapshots.take(Snapshot(turn=1, context=SECRET))
    return store


def newest_call(store: str, session: str) -> str:
    """The name of the call made last in a session."""
    with Memory(store) as memory:
        return memory.session(session).calls()[-1].call
