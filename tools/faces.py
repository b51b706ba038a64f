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
    extra: dict[str, str] = field(default_factory=dict[str, str])
    """Synchronous class -> methods of its own, which are not made from the asynchronous ones of the same names."""
    late: dict[str, str] = field(default_factory=dict[str, str])
    """Of these, the ones to be loaded only when they are asked for: synchronous class -> its module."""

    @property
    def path(self) -> Path:
        """The file that is written."""
        return PACKAGE / self.folder / self.target


FACES = (
    Face(
        folder="memory",
        target="_sync.py",
        docstring="Sessions and memories without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from turnfold._argument_hints import MEMORY_ADVICE, SESSION_ADVICE, hinted, hinted_methods
from turnfold.budget import Budget
from turnfold.findings import Findings
from turnfold.memory.call_log import Difference, Explanation, Manifest
from turnfold.memory.config import RecallMode
from turnfold.memory.context import Tools
from turnfold.memory.erasure import ErasureCheck, ErasureReceipt
from turnfold.rules import RuleKind, StandingRule
from turnfold.memory.config import CompactionMode, FoldMode
from turnfold.memory.folding import FoldCall
from turnfold.memory.embedding_index import MeaningStatus
from turnfold.memory.memory import AsyncMemory, make_config, option_advice
from turnfold.memory.recall import SearchResult
from turnfold.memory.pins_and_state import AsyncState
from turnfold.memory.session import AsyncSession, SessionStatus
from turnfold.memory.summary_writers import Summaries
from turnfold.models import Embedder
from turnfold.records import Checkpoint, Entry
from turnfold.redaction import Detector, Redactor
from turnfold.runtime import Runtime, SyncRuntime, drive
from turnfold.search import ALL_ENTRIES, Recalled, Within
from turnfold.stores import Appended, ConversationInfo, EncryptionKey, Erasure, Health, Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import Calibration, TokenCounter
from turnfold.window import Context, Strategy, oldest_first

if TYPE_CHECKING:
    from turnfold.wire import WireFormat
    from turnfold.workspace_snapshots import Snapshots
""",
        late={"Snapshots": "turnfold.workspace_snapshots"},
        classes=(
            ("pins_and_state.py", "AsyncState", "State"),
            ("session.py", "AsyncSession", "Session"),
            ("memory.py", "AsyncMemory", "Memory"),
        ),
        constructors={
            "Memory": "config = make_config(store, SyncRuntime(), blocking=True, {options})\n"
            "self._awaiting = AsyncMemory.over(config, owns=isinstance(store, str))",
        },
        known=(("AsyncFindings", "Findings"), ("AsyncSnapshots", "Snapshots")),
    ),
    Face(
        folder="findings",
        target="_sync.py",
        docstring="Findings without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Iterable, Mapping

from turnfold.findings.finding_rules import FindingRule
from turnfold.findings.store import AsyncFindings
from turnfold.records import Finding
from turnfold.runtime import drive
""",
        classes=(("store.py", "AsyncFindings", "Findings"),),
        constructors={},
    ),
    Face(
        folder="agent",
        target="_sync.py",
        docstring="The agent without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Callable, Sequence

from turnfold.agent.loop import AgentReply, Event
from turnfold.agent.loop import AsyncAgent, Workspace, blocking_memory
from turnfold.agent.function_tools import Tool
from turnfold.findings import FindingRule, RuleSource
from turnfold.memories import MemoryModule
from turnfold.memory import Memory, RecallMode
from turnfold.models import ChatModel
from turnfold.runtime import drive
""",
        classes=(("loop.py", "AsyncAgent", "Agent"),),
        constructors={
            "Agent": "self._memory_module = memory_module\n"
            "self._awaiting = AsyncAgent(blocking_memory(memory), model, {options})"
        },
        extra={
            "Agent": "def get_memory_module(self) -> MemoryModule | None:\n"
            '    """Return the `MemoryModule` of the agent; None if it has none."""\n'
            "    return self._memory_module"
        },
        known=(("AsyncMemory", "Memory"), ("AsyncMemoryModule", "MemoryModule")),
    ),
    Face(
        folder="memories/short_memory",
        target="_sync.py",
        docstring="The short-term memory without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from turnfold.memories.short_memory.memory import RECENT_TURNS, AsyncShortMemory, QueryDefaults
from turnfold.memories.short_memory.ai_message_rows import AIMessage, ImportedMessages
from turnfold.memories.short_memory.values import (
    AgentRequest,
    MemoryContext,
    MemoryQueryRequest,
    MemoryWriteRequest,
    MemoryWriteResult,
    SessionValue,
)
from turnfold.memory import Summaries, make_config
from turnfold.records import Checkpoint
from turnfold.runtime import SyncRuntime, drive
from turnfold.stores import Erasure, Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import TokenCounter
""",
        classes=(("memory.py", "AsyncShortMemory", "ShortMemory"),),
        constructors={
            "ShortMemory": "defaults = QueryDefaults(token_threshold_ratio, recent_turns, model_context_window)\n"
            "config = make_config(url, SyncRuntime(), blocking=True, cache=cache, scope=scope, counter=counter, "
            "summarizer=summarizer, meter=meter)\n"
            "self._awaiting = AsyncShortMemory.over(config, defaults, owns=isinstance(url, str))",
        },
    ),
    Face(
        folder="workspace_snapshots",
        target="_sync.py",
        docstring="Snapshots without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Mapping

from turnfold.records import Snapshot
from turnfold.runtime import drive
from turnfold.workspace_snapshots.diff import SnapshotDiff
from turnfold.workspace_snapshots.history import AsyncSnapshots, TakenSnapshot
from turnfold.workspace_snapshots.recall import RecalledContext, RecallRequest, SnapshotHit
from turnfold.workspace_snapshots.storage import SnapshotHead
""",
        classes=(("history.py", "AsyncSnapshots", "Snapshots"),),
        constructors={},
    ),
    Face(
        folder="memories/memory_module",
        target="_sync.py",
        docstring="`MemoryModule` without an event loop; written by tools/faces.py, do not edit.",
        imports="""
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from turnfold.budget import Budget
from turnfold.memories.memory_module.context_store import AsyncContextMemoryStore
from turnfold.memories.memory_module.module import AsyncMemoryModule, ThinkingOptions, store_or_memory
from turnfold.memories.memory_module.values import (
    ContextHit,
    ContextSnapshot,
    ImportedContexts,
    MemorySummary,
    ThinkingResult,
)
from turnfold.memory import make_config
from turnfold.models import SummaryModel
from turnfold.records import Snapshot
from turnfold.runtime import SyncRuntime, drive
from turnfold.workspace_snapshots import RecalledContext, RecallRequest, SnapshotHead, Snapshots
from turnfold.stores import Scope, Store
from turnfold.tokens import TokenCounter
""",
        known=(("AsyncSnapshots", "Snapshots"),),
        classes=(
            ("context_store.py", "AsyncContextMemoryStore", "ContextMemoryStore"),
            ("module.py", "AsyncMemoryModule", "MemoryModule"),
        ),
        constructors={
            "MemoryModule": "options = ThinkingOptions(model=model, "
            "enable_reflective_thinking=enable_reflective_thinking, max_thinking_rounds=max_thinking_rounds, "
            "recall_tokens=recall_tokens, model_seconds=model_seconds)\n"
            "config = make_config(store_or_memory(store), SyncRuntime(), blocking=True, scope=scope, budget=budget, "
            "counter=counter, clock=clock)\n"
            "self._awaiting = AsyncMemoryModule.over(config, options, conversation, owns=isinstance(store, str))",
        },
    ),
    Face(
        folder="client",
        target="_sync.py",
        docstring="A memory behind a service, for use without an event loop; written by tools/faces.py, "
        "do not edit.",
        imports="""
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import NoReturn, Self

from turnfold.api import Provider
from turnfold.budget import Budget
from turnfold.client.conversion import RemoteContext
from turnfold.client.memory import AsyncRemoteMemory
from turnfold.client.session import AsyncRemoteFindings, AsyncRemoteSession, AsyncRemoteState
from turnfold.client.transport import open_sender
from turnfold.client.workspace_snapshots import AsyncRemoteSnapshots
from turnfold.findings import FindingRule
from turnfold.memory import (
    Difference,
    ErasureCheck,
    ErasureReceipt,
    Explanation,
    Manifest,
    RecallMode,
    SearchResult,
    SessionStatus,
)
from turnfold.records import Checkpoint, Entry, Finding, Snapshot
from turnfold.rules import RuleKind, StandingRule
from turnfold.runtime import drive
from turnfold.search import ALL_ENTRIES, Recalled, Within
from turnfold.stores import Appended, ConversationInfo, Erasure, Health
from turnfold.wire import WireFormat
from turnfold.workspace_snapshots import (
    RecalledContext,
    RecallRequest,
    SnapshotDiff,
    SnapshotHead,
    SnapshotHit,
    TakenSnapshot,
)
""",
        classes=(
            ("workspace_snapshots.py", "AsyncRemoteSnapshots", "RemoteSnapshots"),
            ("session.py", "AsyncRemoteState", "RemoteState"),
            ("session.py", "AsyncRemoteFindings", "RemoteFindings"),
            ("session.py", "AsyncRemoteSession", "RemoteSession"),
            ("memory.py", "AsyncRemoteMemory", "RemoteMemory"),
        ),
        constructors={
            "RemoteMemory": "sender = open_sender(url, blocking=True, {options})\n"
            "self._awaiting = AsyncRemoteMemory.over(sender)",
        },
    ),
    Face(
        folder="client",
        target="_short_memory_sync.py",
        docstring="A short-term memory behind a service, for use without an event loop; written by "
        "tools/faces.py, do not edit.",
        imports="""
from types import TracebackType
from typing import Self

from turnfold.client.short_memory import RECENT_TURNS, AsyncRemoteShortMemory
from turnfold.client.transport import open_sender
from turnfold.memories import (
    AgentRequest,
    MemoryContext,
    MemoryQueryRequest,
    MemoryWriteRequest,
    MemoryWriteResult,
    SessionValue,
)
from turnfold.records import Checkpoint
from turnfold.runtime import drive
from turnfold.stores import Erasure
""",
        classes=(("short_memory.py", "AsyncRemoteShortMemory", "RemoteShortMemory"),),
        constructors={
            "RemoteShortMemory": "sender = open_sender(url, blocking=True, {options})\n"
            "self._awaiting = AsyncRemoteShortMemory.over(sender)",
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
        own = face.extra.get(theirs, "")
        text = _class(found, theirs, renamed, face.constructors.get(theirs), own=own)
        for name, home in face.late.items():
            wrapping = f"        return {name}("
            text = text.replace(wrapping, f"        from {home} import {name}\n\n{wrapping}")
        blocks.append(text)
    return "\n\n".join(blocks)


def _class(
    node: ast.ClassDef, name: str, renamed: dict[str, str], constructor: str | None, *, own: str
) -> str:
    docstring = (ast.get_docstring(node, clean=False) or "").replace(
        "with an event loop", "without an event loop"
    )
    marks = [ast.unparse(each) for each in node.decorator_list]
    lines = [f"@{mark}" for mark in marks if mark.startswith("hinted_methods(")]
    lines += [f"class {name}:", f'    """{docstring}"""', ""]
    init = next(n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    if constructor is None:
        lines += [
            f"    def __init__(self, awaiting: {node.name}) -> None:",
            "        self._awaiting = awaiting",
        ]
        lines += _attributes(init)
    else:
        options = ", ".join(_option(arg, renamed) for arg in init.args.kwonlyargs)
        lines += [f"    @{ast.unparse(each)}" for each in init.decorator_list]
        lines.append(f"    def __init__({_renamed(ast.unparse(init.args), renamed)}) -> None:")
        body = constructor.format(options=options)
        lines += [f"        {line}" for line in body.splitlines()]
    lines += [
        "",
        "    @property",
        f"    def awaiting(self) -> {node.name}:",
        '        """The asynchronous form of this object; its coroutines never suspend."""',
        "        return self._awaiting",
    ]
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            if f"def {method.name}(" in own:
                continue
            lines += _method(method, renamed, own=name if constructor is not None else "")
    return "\n".join(
        [*lines, *([""] if own else []), *(f"    {line}" for line in own.splitlines())]
    )


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
                f'        """The {target.attr} of the conversation."""',
                f"        return self._awaiting.{target.attr}",
            ]
    return lines


_DUNDERS = {
    "__aexit__": "__exit__",
    "__getitem__": "__getitem__",
    "__setitem__": "__setitem__",
}
_WRITTEN = {
    "__aenter__": ("    def __enter__(self) -> Self:", "        return self"),
    # The awaiting class has the same name after "Async".
    "__repr__": (
        "    def __repr__(self) -> str:",
        '        return repr(self._awaiting).removeprefix("Async")',
    ),
}
"""Special methods by their name in the awaiting class, as they are written."""


def _method(
    node: ast.FunctionDef | ast.AsyncFunctionDef, renamed: dict[str, str], *, own: str
) -> list[str]:
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    if "classmethod" in marks or "staticmethod" in marks:
        return []
    if node.name in _WRITTEN:
        return ["", *_WRITTEN[node.name]]
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
