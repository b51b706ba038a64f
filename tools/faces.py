"""Writes the synchronous faces of the asynchronous classes: `python tools/faces.py`.

Everything that waits is written once, as coroutines. The blocking face of a class has the same methods without `await`;
each drives the coroutine to its end, so there is no logic in it and nothing to keep in step by hand. A test fails when
the written file is not what this script would write.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ("FACES", "Face", "write_faces")

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "turnfold"


@dataclass(frozen=True)
class Face:
    """A module of blocking classes made from modules of awaiting ones."""

    target: str
    docstring: str
    imports: str
    classes: tuple[tuple[str, str, str], ...]
    """(module, asynchronous class, synchronous class)."""
    constructors: dict[str, str]
    """Synchronous class -> the lines of its constructor's body, where it has one of its own."""
    folder: str = "memory"
    known: tuple[tuple[str, str], ...] = ()
    """(asynchronous class, synchronous class) written elsewhere, where a signature names them."""
    late: dict[str, str] = field(default_factory=dict[str, str])
    """Of these, the ones to be loaded only when they are asked for: synchronous class -> its module."""

    @property
    def path(self) -> Path:
        """The file that is written."""
        return PACKAGE / self.folder / self.target


FACES = (
    Face(
        target="blocking.py",
        docstring="Sessions and memories for programs without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from turnfold.budget import Budget
from turnfold.memory.assembling import Tools
from turnfold.memory.drive import drive
from turnfold.memory.findings_blocking import Findings
from turnfold.memory.fold_keeper import FoldMode
from turnfold.memory.front_door import AsyncMemory, make_setting
from turnfold.memory.manifests import Difference, Explanation, Manifest
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.searching import Found
from turnfold.memory.session import AsyncSession, SessionStatus
from turnfold.memory.state import AsyncState
from turnfold.memory.tail import Recalled
from turnfold.memory.meaning import MeaningStatus
from turnfold.memory.setting import RecallMode
from turnfold.memory.waiting import BlockingWay, Way
from turnfold.memory.writers import Summaries
from turnfold.models.embedding import Embedder
from turnfold.records import Checkpoint, Entry
from turnfold.stores.protocol import (
    Appended,
    ConversationInfo,
    Erasure,
    Health,
    Scope,
    Store,
)
from turnfold.stores.within import ALL_ENTRIES, Within
from turnfold.tokens import Calibration, TokenCounter
from turnfold.window import Context, Strategy, oldest_first

if TYPE_CHECKING:
    from turnfold.memory.snapshots.blocking import Snapshots
    from turnfold.wire import WireFormat
""",
        late={"Snapshots": "turnfold.memory.snapshots.blocking"},
        classes=(
            ("state.py", "AsyncState", "State"),
            ("session.py", "AsyncSession", "Session"),
            ("front_door.py", "AsyncMemory", "Memory"),
        ),
        constructors={
            "Memory": "setting = make_setting(store, BlockingWay(), blocking=True, {options})\n"
            "self._awaiting = AsyncMemory.over(setting, owns=isinstance(store, str))",
        },
        known=(("AsyncFindings", "Findings"), ("AsyncSnapshots", "Snapshots")),
    ),
    Face(
        target="findings_blocking.py",
        docstring="Findings for programs without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Iterable, Mapping

from turnfold.memory.drive import drive
from turnfold.memory.findings import AsyncFindings
from turnfold.recall.findings import FindingRule
from turnfold.records.findings import Finding
""",
        classes=(("findings.py", "AsyncFindings", "Findings"),),
        constructors={},
    ),
    Face(
        folder="agent",
        target="blocking.py",
        docstring="The agent for programs without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Callable, Sequence

from turnfold.agent.events import Event, Reply
from turnfold.agent.loop import AsyncAgent, Workspace
from turnfold.agent.tools import Tool
from turnfold.memory import Memory, MemoryModule, RecallMode
from turnfold.memory.drive import drive
from turnfold.models import ChatModel
from turnfold.recall.findings import FindingRule
""",
        classes=(("loop.py", "AsyncAgent", "Agent"),),
        constructors={"Agent": "self._awaiting = AsyncAgent(memory.awaiting, model, {options})"},
        known=(("AsyncMemory", "Memory"), ("AsyncMemoryModule", "MemoryModule")),
    ),
    Face(
        folder="memory/short_term",
        target="blocking.py",
        docstring="The short-term memory for programs without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from types import TracebackType
from typing import Self

from turnfold.memory.drive import drive
from turnfold.memory.front_door import make_setting
from turnfold.memory.metrics.meter import Meter
from turnfold.memory.short_term.short_memory import RECENT_TURNS, AsyncShortMemory
from turnfold.memory.short_term.values import MemoryContext, MemoryWriteResult, SessionValue
from turnfold.memory.waiting import BlockingWay
from turnfold.memory.writers import Summaries
from turnfold.records import Checkpoint
from turnfold.stores.protocol import Erasure, Scope, Store
from turnfold.tokens import TokenCounter
""",
        classes=(("short_memory.py", "AsyncShortMemory", "ShortMemory"),),
        constructors={
            "ShortMemory": "setting = make_setting(url, BlockingWay(), blocking=True, {options})\n"
            "self._awaiting = AsyncShortMemory.over(setting, owns=isinstance(url, str))",
        },
    ),
    Face(
        folder="memory/snapshots",
        target="blocking.py",
        docstring="Snapshots for programs without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Mapping

from turnfold.memory.drive import drive
from turnfold.memory.snapshots.recalling import RecalledContext, SnapshotHit
from turnfold.memory.snapshots.history import AsyncSnapshots, TakenSnapshot
from turnfold.recall.snapshots import RecallRequest, SnapshotDiff, SnapshotHead
from turnfold.records.snapshots import Snapshot
""",
        classes=(("history.py", "AsyncSnapshots", "Snapshots"),),
        constructors={},
    ),
    Face(
        folder="memory/workspace",
        target="blocking.py",
        docstring="The memory module for programs without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from turnfold.budget import Budget
from turnfold.memory.drive import drive
from turnfold.memory.front_door import make_setting
from turnfold.memory.waiting import BlockingWay
from turnfold.memory.snapshots.blocking import Snapshots
from turnfold.memory.workspace.context_memory_store import AsyncContextMemoryStore
from turnfold.memory.workspace.memory_module import AsyncMemoryModule, ThinkingOptions, kept_in
from turnfold.memory.snapshots.recalling import RecalledContext
from turnfold.memory.workspace.values import (
    ContextHit,
    ContextSnapshot,
    ImportedContexts,
    MemorySummary,
    ThinkingResult,
)
from turnfold.models import ChatModel
from turnfold.recall.snapshots import RecallRequest
from turnfold.records.snapshots import Snapshot
from turnfold.stores.protocol import Scope, Store
from turnfold.tokens import TokenCounter
""",
        known=(("AsyncSnapshots", "Snapshots"),),
        classes=(
            ("context_memory_store.py", "AsyncContextMemoryStore", "ContextMemoryStore"),
            ("memory_module.py", "AsyncMemoryModule", "MemoryModule"),
        ),
        constructors={
            "MemoryModule": "options = ThinkingOptions(model=model, "
            "enable_reflective_thinking=enable_reflective_thinking, max_thinking_rounds=max_thinking_rounds, "
            "recall_tokens=recall_tokens, model_seconds=model_seconds)\n"
            "setting = make_setting(kept_in(store), BlockingWay(), blocking=True, scope=scope, budget=budget, "
            "counter=counter, clock=clock)\n"
            "self._awaiting = AsyncMemoryModule.over(setting, options, conversation, owns=isinstance(store, str))",
        },
    ),
    Face(
        folder="client",
        target="blocking.py",
        docstring="A memory behind a service, for programs without an event loop; written by tools/faces.py, "
        "do not edit.",
        imports="""
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from turnfold.budget import Budget
from turnfold.client.asking import open_asker
from turnfold.client.findings import AsyncRemoteFindings
from turnfold.client.forms import RemoteContext
from turnfold.client.memory import AsyncRemoteMemory
from turnfold.client.session import AsyncRemoteSession, AsyncRemoteState
from turnfold.client.snapshots_blocking import RemoteSnapshots
from turnfold.memory.drive import drive
from turnfold.memory.manifests import Difference, Explanation, Manifest
from turnfold.memory.session import SessionStatus
from turnfold.memory.setting import RecallMode
from turnfold.memory.tail import Recalled
from turnfold.recall.findings import FindingRule
from turnfold.records import Checkpoint, Entry
from turnfold.records.findings import Finding
from turnfold.memory.searching import Found
from turnfold.service.bodies import Provider
from turnfold.stores.protocol import Appended, ConversationInfo, Erasure, Health
from turnfold.stores.within import ALL_ENTRIES, Within
from turnfold.wire import WireFormat
""",
        classes=(
            ("session.py", "AsyncRemoteState", "RemoteState"),
            ("findings.py", "AsyncRemoteFindings", "RemoteFindings"),
            ("session.py", "AsyncRemoteSession", "RemoteSession"),
            ("memory.py", "AsyncRemoteMemory", "RemoteMemory"),
        ),
        known=(("AsyncRemoteSnapshots", "RemoteSnapshots"),),
        constructors={
            "RemoteMemory": "asker = open_asker(url, blocking=True, {options})\n"
            "self._awaiting = AsyncRemoteMemory.over(asker)",
        },
    ),
    Face(
        folder="client",
        target="snapshots_blocking.py",
        docstring="Snapshots behind a service, for programs without an event loop; written by tools/faces.py, "
        "do not edit.",
        imports="""
from collections.abc import Mapping

from turnfold.client.snapshots import AsyncRemoteSnapshots
from turnfold.memory.drive import drive
from turnfold.memory.snapshots.history import TakenSnapshot
from turnfold.memory.snapshots.recalling import RecalledContext, SnapshotHit
from turnfold.recall.snapshots import RecallRequest, SnapshotDiff, SnapshotHead
from turnfold.records.snapshots import Snapshot
""",
        classes=(("snapshots.py", "AsyncRemoteSnapshots", "RemoteSnapshots"),),
        constructors={},
    ),
    Face(
        folder="client",
        target="short_blocking.py",
        docstring="A short-term memory behind a service, for programs without an event loop; written by "
        "tools/faces.py, do not edit.",
        imports="""
from types import TracebackType
from typing import Self

from turnfold.client.asking import open_asker
from turnfold.client.short_memory import RECENT_TURNS, AsyncRemoteShortMemory
from turnfold.memory.drive import drive
from turnfold.memory.short_term.values import MemoryContext, MemoryWriteResult, SessionValue
from turnfold.records import Checkpoint
from turnfold.stores.protocol import Erasure
""",
        classes=(("short_memory.py", "AsyncRemoteShortMemory", "RemoteShortMemory"),),
        constructors={
            "RemoteShortMemory": "asker = open_asker(url, blocking=True, {options})\n"
            "self._awaiting = AsyncRemoteShortMemory.over(asker)",
        },
    ),
)


def write_faces(face: Face) -> str:
    """The text of a module of blocking classes, not yet formatted."""
    written = {ours: theirs for _, ours, theirs in face.classes}
    renamed = {**written, **dict(face.known)}
    names = ", ".join(f'"{name}"' for name in sorted(written.values()))
    blocks = [f'"""{face.docstring}"""\n\nfrom __future__ import annotations\n{face.imports}']
    blocks.append(f"__all__ = ({names},)\n")
    for module, ours, theirs in face.classes:
        tree = ast.parse((PACKAGE / face.folder / module).read_text("utf-8"))
        found = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == ours)
        text = _class(found, theirs, renamed, face.constructors.get(theirs))
        for name, home in face.late.items():
            wrapping = f"        return {name}("
            text = text.replace(wrapping, f"        from {home} import {name}\n\n{wrapping}")
        blocks.append(text)
    return "\n\n".join(blocks)


def _class(node: ast.ClassDef, name: str, renamed: dict[str, str], constructor: str | None) -> str:
    docstring = (ast.get_docstring(node) or "").replace(
        "with an event loop", "without an event loop"
    )
    lines = [f"class {name}:", f'    """{docstring}"""', ""]
    init = next(n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    if constructor is None:
        lines += [
            f"    def __init__(self, awaiting: {node.name}) -> None:",
            "        self._awaiting = awaiting",
        ]
        lines += _attributes(init)
    else:
        options = ", ".join(_option(arg, renamed) for arg in init.args.kwonlyargs)
        lines.append(f"    def __init__({_renamed(ast.unparse(init.args), renamed)}) -> None:")
        body = constructor.format(options=options)
        lines += [f"        {line}" for line in body.splitlines()]
    lines += [
        "",
        "    @property",
        f"    def awaiting(self) -> {node.name}:",
        '        """The same for code that awaits; its coroutines never suspend."""',
        "        return self._awaiting",
    ]
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            lines += _method(method, renamed, own=name if constructor is not None else "")
    return "\n".join(lines)


def _option(arg: ast.arg, renamed: dict[str, str]) -> str:
    """How an option is passed on; one that may be a blocking class is passed as what it drives."""
    kind = ast.unparse(arg.annotation) if arg.annotation else ""
    if kind in {f"{ours} | None" for ours in renamed}:
        return f"{arg.arg}={arg.arg} and {arg.arg}.awaiting"
    return f"{arg.arg}={arg.arg}"


def _renamed(text: str, renamed: dict[str, str]) -> str:
    for ours, theirs in renamed.items():
        text = re.sub(rf"\b{ours}\b", theirs, text)
    return text


def _attributes(init: ast.FunctionDef) -> list[str]:
    """Public attributes a constructor sets, as properties."""
    lines: list[str] = []
    for statement in init.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
            lines += [
                "",
                "    @property",
                f"    def {target.attr}(self) -> str:",
                f'        """The {target.attr} it was made with."""',
                f"        return self._awaiting.{target.attr}",
            ]
    return lines


_DUNDERS = {"__aenter__": "__enter__", "__aexit__": "__exit__"}


def _method(
    node: ast.FunctionDef | ast.AsyncFunctionDef, renamed: dict[str, str], *, own: str
) -> list[str]:
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    if "classmethod" in marks or "staticmethod" in marks:
        return []
    if node.name == "__aenter__":
        return ["", "    def __enter__(self) -> Self:", "        return self"]
    if node.name not in _DUNDERS and node.name.startswith("_"):
        return []
    result = ast.unparse(node.returns) if node.returns else "None"
    wrapped = renamed.get(result)
    arguments = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)][1:]
    passed = [*arguments, *(f"{arg.arg}={arg.arg}" for arg in node.args.kwonlyargs)]
    call = f"self._awaiting.{node.name}"
    if "property" not in marks:
        call += f"({', '.join(passed)})"
    if isinstance(node, ast.AsyncFunctionDef):
        call = f"drive({call})"
    if wrapped and wrapped != own:
        call = f"{wrapped}({call})"
    name = _DUNDERS.get(node.name, node.name)
    lines = [""]
    if "property" in marks:
        lines.append("    @property")
    lines.append(f"    def {name}({ast.unparse(node.args)}) -> {wrapped or result}:")
    docstring = ast.get_docstring(node, clean=False)
    if docstring:
        lines.append(f'        """{docstring}"""')
    if wrapped and wrapped == own:  # its constructor takes other things
        lines += [
            f"        found = {own}.__new__({own})",
            f"        found._awaiting = {call}  # noqa: SLF001 (its own)",
            "        return found",
        ]
    else:
        lines.append(f"        {'' if result == 'None' else 'return '}{call}")
    return lines


def main() -> None:
    """Write every face and format it."""
    for face in FACES:
        target = face.path
        target.write_text(write_faces(face), "utf-8")
        ruff = Path(sys.executable).parent / "ruff"
        for command in (["format"], ["check", "--fix"], ["format"]):
            subprocess.run([ruff, *command, "--quiet", target], check=True)


if __name__ == "__main__":
    main()
