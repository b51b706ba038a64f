"""Every operation of the service, declared once: method, path, right, request body, query parameters and answer.

The service binds a function to each operation, the client sends it, and the OpenAPI document and the tests that try
every route with wrong credentials are made from it. An operation therefore cannot be served without being guarded,
described and tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from turnfold.api import requests, responses, short_memory, snapshots
from turnfold.memories import MemoryWriteResult
from turnfold.memory import ErasureCheck, ErasureReceipt, Manifest, SessionStatus
from turnfold.records import Checkpoint
from turnfold.rules import StandingRule
from turnfold.snapshots import RecalledContext, TakenSnapshot
from turnfold.stores import Appended, Erasure, Health

__all__ = ("OPERATIONS", "AnyOperation", "Operation", "Right", "declare")

_Body = TypeVar("_Body")
_Query = TypeVar("_Query")
_Answer = TypeVar("_Answer")


class Right(StrEnum):
    """Rights of an access token; no right includes another."""

    READ = "read"
    """Read the conversations of the token's tenant."""
    WRITE = "write"
    """Add to them, change them, delete them. An operation that also returns stored content needs `read` as well."""
    ADMIN = "admin"
    """Read the metrics and the full health report of the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[_Body, _Query, _Answer]):
    """One operation of the service."""

    name: str
    method: str
    path: str
    description: str
    right: Right | None
    """Right this operation is about; None for operations open to everybody. `rights` are all that it needs."""
    body: type[_Body]
    query: type[_Query]
    answer: type[_Answer]
    grows: bool
    """True if it adds to the log of the tenant, so that a full quota in tokens refuses it."""
    frees: bool
    """True if it only removes stored data; any other operation that writes is refused by a full quota in bytes."""
    keyed: bool
    """True if the response is stored under the Idempotency-Key; appends find their first result in the log instead."""

    @property
    def writes(self) -> bool:
        """True if it changes stored data."""
        return self.right is Right.WRITE

    @property
    def rights(self) -> frozenset[Right]:
        """All rights the token needs.

        An operation that writes needs the right to read too, unless its answer is known to hold nothing of what is
        stored: otherwise a token that may only write could read conversations through it.
        """
        if self.right is None:
            return frozenset()
        reads = self.writes and self.answer not in _RECEIPTS
        return frozenset({self.right, Right.READ} if reads else {self.right})

    @property
    def family(self) -> str:
        """First segment of the path after the version."""
        return self.path.removeprefix("/v1").split("/")[1]


AnyOperation: TypeAlias = Operation[Any, Any, Any]


def declare(
    name: str,
    target: str,
    description: str,
    *,
    right: Right | None,
    answer: type[_Answer],
    body: type[_Body] = requests.Nothing,
    query: type[_Query] = requests.NoQuery,
    grows: bool = False,
    frees: bool = False,
    keyed: bool = False,
) -> Operation[_Body, _Query, _Answer]:
    """Declare an operation; `target` is the method and the path."""
    method, path = target.split(" ")
    return Operation(
        name=name,
        method=method,
        path=path,
        description=description,
        right=right,
        body=body,
        query=query,
        answer=answer,
        grows=grows,
        frees=frees,
        keyed=keyed,
    )


_RECEIPTS: Final[frozenset[type]] = frozenset(
    {
        Appended,
        Erasure,
        MemoryWriteResult,
        TakenSnapshot,
        responses.ClearedAnswer,
        responses.CountAnswer,
        responses.DoneAnswer,
        responses.ForkedAnswer,
        responses.PinAnswer,
        responses.SystemAnswer,
    }
)
"""Answers that hold positions, counts and ids, and nothing that was stored."""
_READ: Final = Right.READ
_WRITE: Final = Right.WRITE
_SESSION: Final = "/v1/sessions/{session}"
_FINDINGS: Final = f"{_SESSION}/findings"
_SNAPSHOTS: Final = f"{_SESSION}/snapshots"
_SHORT: Final = "/v1/short-memories/{conversation_id}"

# Messages of a session, and the context of its next call.
SET_SYSTEM = declare(
    "system",
    f"PUT {_SESSION}/system",
    "Set the system message; `appended` is null if it was already this one.",
    right=_WRITE,
    body=requests.SystemBody,
    answer=responses.SystemAnswer,
    grows=True,
)
ADD_USER = declare(
    "say_user",
    f"POST {_SESSION}/user",
    "Append a user message; starts a turn.",
    right=_WRITE,
    body=requests.UserBody,
    answer=Appended,
    grows=True,
)
ADD_ASSISTANT = declare(
    "say_assistant",
    f"POST {_SESSION}/assistant",
    "Append an assistant message with the tool calls it makes.",
    right=_WRITE,
    body=requests.AssistantBody,
    answer=Appended,
    grows=True,
)
ADD_TOOL = declare(
    "say_tool",
    f"POST {_SESSION}/tool",
    "Append the result of the tool call `tool_call_id`.",
    right=_WRITE,
    body=requests.ToolBody,
    answer=Appended,
    grows=True,
)
ADD = declare(
    "add",
    f"POST {_SESSION}/messages",
    "Append messages, all of them or none. With an Idempotency-Key, each gets the key with its number appended.",
    right=_WRITE,
    body=requests.AddBody,
    answer=Appended,
    grows=True,
)
CONTEXT = declare(
    "context",
    f"POST {_SESSION}/context",
    "Build the context of the next model call and store its manifest. A repeated request makes another call.",
    right=_WRITE,
    body=requests.ContextBody,
    query=requests.FormQuery,
    answer=responses.ContextForm,
)
FOLD = declare(
    "fold",
    f"POST {_SESSION}/fold",
    "Fold (compact) everything before the newest turns now, into `summary` or one the summarizer writes; "
    "`checkpoint` is null if there is nothing to fold.",
    right=_WRITE,
    body=requests.FoldBody,
    answer=responses.FoldAnswer,
    keyed=True,
)

DROP_CHECKPOINT = declare(
    "drop_checkpoint",
    f"DELETE {_SESSION}/checkpoints/{{checkpoint}}",
    "Drop a checkpoint and those made from it: later contexts show the entries themselves or fold them anew. Returns "
    "the dropped ones; they are kept for audit and never shown.",
    right=_WRITE,
    frees=True,
    answer=responses.CheckpointsAnswer,
    keyed=True,
)

# Pins, rules, state, usage, and the life of a session.
PIN = declare(
    "pin",
    f"POST {_SESSION}/pins",
    "Show a text, or the words of the entry `seq`, verbatim in every call from the next user turn on.",
    right=_WRITE,
    body=requests.PinBody,
    answer=responses.PinAnswer,
)
UNPIN = declare(
    "unpin",
    f"DELETE {_SESSION}/pins/{{key}}",
    "Remove a pin from the next user turn on; `done` is false if it was not pinned.",
    right=_WRITE,
    frees=True,
    answer=responses.DoneAnswer,
    keyed=True,
)
ADD_RULE = declare(
    "add_rule",
    f"POST {_SESSION}/rules",
    "Add a rule of 1 to 300 characters that was not said in the conversation. Returns the rule with its id.",
    right=_WRITE,
    body=requests.AddRuleBody,
    answer=StandingRule,
)
DROP_RULE = declare(
    "drop_rule",
    f"DELETE {_SESSION}/rules/{{rule}}",
    "Drop the active rule with this id; later contexts do not show it. Returns the dropped rule.",
    right=_WRITE,
    frees=True,
    answer=StandingRule,
    keyed=True,
)
UPDATE_STATE = declare(
    "update_state",
    f"PATCH {_SESSION}/state",
    "Set several values of the state and keep the others. Returns the new state.",
    right=_WRITE,
    body=requests.StateBody,
    answer=responses.StateAnswer,
)
SET_STATE = declare(
    "set_state",
    f"PUT {_SESSION}/state/{{name}}",
    "Set one value of the state. Returns the new state.",
    right=_WRITE,
    body=requests.ValueBody,
    answer=responses.StateAnswer,
)
REMOVE_STATE = declare(
    "remove_state",
    f"DELETE {_SESSION}/state/{{name}}",
    "Remove a value of the state; `done` is false if there was none.",
    right=_WRITE,
    frees=True,
    answer=responses.DoneAnswer,
    keyed=True,
)
RECORD_USAGE = declare(
    "record_usage",
    f"PUT {_SESSION}/calls/{{call}}/usage",
    "Record the token usage a provider reported for a call.",
    right=_WRITE,
    body=requests.UsageBody,
    answer=Manifest,
)
CLEAR = declare(
    "clear",
    f"POST {_SESSION}/clear",
    "Start over: later contexts leave out everything so far, except the system message and pins. The log is kept.",
    right=_WRITE,
    answer=responses.ClearedAnswer,
    keyed=True,
)
FORK = declare(
    "fork",
    f"POST {_SESSION}/fork",
    "Create a new conversation with all entries up to `at` (default: all); this one is unchanged.",
    right=_WRITE,
    body=requests.ForkBody,
    answer=responses.ForkedAnswer,
    grows=True,
    keyed=True,
)
ERASE_ENTRY = declare(
    "erase_entry",
    f"DELETE {_SESSION}/messages/{{seq}}",
    "Erase one message and everything made from it, permanently; a placeholder with the reason stays. `mentions` names "
    "documents of the program that may contain its text and are kept.",
    right=_WRITE,
    frees=True,
    query=requests.EraseQuery,
    answer=Erasure,
)
DELETE = declare(
    "delete",
    f"DELETE {_SESSION}",
    "Delete the conversation and everything derived from it, permanently; a repeated request returns `already`.",
    right=_WRITE,
    frees=True,
    answer=Erasure,
)

# Reading a session.
STATUS = declare(
    "status",
    f"GET {_SESSION}",
    "Read the status of the session; all zeros for one that has never been used.",
    right=_READ,
    answer=SessionStatus,
)
HISTORY = declare(
    "history",
    f"GET {_SESSION}/messages",
    "Read a page of the log: entries with seq > `after`, oldest first, folded or not.",
    right=_READ,
    query=requests.HistoryQuery,
    answer=responses.EntriesPage,
)
TURN = declare(
    "turn",
    f"GET {_SESSION}/turns/{{number}}",
    "Read the entries of one turn, folded or not; turn 0 holds those before the first user message.",
    right=_READ,
    query=requests.FormQuery,
    answer=responses.EntriesPage,
)
BY_CLIENT_ID = declare(
    "by_client_id",
    f"POST {_SESSION}/by-client-id",
    "Read the entries stored under these client ids, in log order; unknown ids are skipped.",
    right=_READ,
    body=requests.ClientIdsBody,
    query=requests.FormQuery,
    answer=responses.EntriesPage,
)
PREVIEW = declare(
    "preview",
    f"POST {_SESSION}/preview",
    "Build the context `context` would return now, without storing anything or folding.",
    right=_READ,
    body=requests.PreviewBody,
    query=requests.FormQuery,
    answer=responses.ContextForm,
)
RECALL = declare(
    "recall",
    f"POST {_SESSION}/recall",
    "Find matching entries, best first, folded or not; with `tokens`, as many passages as fit that limit.",
    right=_READ,
    body=requests.RecallBody,
    query=requests.FormQuery,
    answer=responses.RecalledAnswer,
)
CHECKPOINTS = declare(
    "checkpoints",
    f"GET {_SESSION}/checkpoints",
    "List all checkpoints, oldest first; the last one is live. With `dropped`, those that were dropped instead.",
    right=_READ,
    query=requests.CheckpointsQuery,
    answer=responses.CheckpointsAnswer,
)
PINS = declare(
    "pins",
    f"GET {_SESSION}/pins",
    "List pinned texts by key, oldest first.",
    right=_READ,
    answer=responses.PinsAnswer,
)
RULES = declare(
    "rules",
    f"GET {_SESSION}/rules",
    "List the active rules, in the order in which they were said: what the user laid down, word for word.",
    right=_READ,
    query=requests.RulesQuery,
    answer=responses.RulesAnswer,
)
STATE = declare(
    "state",
    f"GET {_SESSION}/state",
    "Read all values of the session state.",
    right=_READ,
    answer=responses.StateAnswer,
)
CALLS = declare(
    "calls",
    f"GET {_SESSION}/calls",
    "Read a page of the recorded calls, in log order.",
    right=_READ,
    query=requests.NamePageQuery,
    answer=responses.CallsPage,
)
EXPLAIN = declare(
    "explain",
    f"GET {_SESSION}/calls/{{call}}",
    "Read the messages a call sent, with the reasons for its selection.",
    right=_READ,
    query=requests.FormQuery,
    answer=responses.ExplanationForm,
)
DIFF = declare(
    "diff",
    f"GET {_SESSION}/diff",
    "Compare two calls.",
    right=_READ,
    query=requests.DiffQuery,
    answer=responses.DifferenceForm,
)

# Findings (remembered tool results).
FINDINGS = declare(
    "findings",
    f"GET {_FINDINGS}",
    "List the valid findings: tables of contents first, then by relevance, then newest first.",
    right=_READ,
    answer=responses.FindingsAnswer,
)
NOTE_FINDING = declare(
    "note_finding",
    f"POST {_FINDINGS}",
    "Remember the result of a tool call; null if its rule rejects it.",
    right=_WRITE,
    body=requests.NoteFindingBody,
    answer=responses.FindingAnswer,
    grows=True,
)
TOOL_RAN = declare(
    "tool_ran",
    f"POST {_FINDINGS}/ran",
    "Report that a tool is running or has run, which invalidates the findings that depend on it.",
    right=_WRITE,
    body=requests.ToolRanBody,
    answer=responses.DoneAnswer,
)
DROP_FINDINGS = declare(
    "drop_findings",
    f"POST {_FINDINGS}/drop",
    "Forget the result of a call, or all results of a tool if no arguments are given.",
    right=_WRITE,
    frees=True,
    body=requests.DropFindingsBody,
    answer=responses.CountAnswer,
    keyed=True,
)
CLEAR_FINDINGS = declare(
    "clear_findings",
    f"POST {_FINDINGS}/clear",
    "Forget all findings; with `query_only`, all but tables of contents.",
    right=_WRITE,
    frees=True,
    body=requests.ClearFindingsBody,
    answer=responses.CountAnswer,
    keyed=True,
)
FINDINGS_TEXT = declare(
    "findings_text",
    f"POST {_FINDINGS}/text",
    "Render the valid findings as a model is shown them, in at most `tokens`.",
    right=_READ,
    body=requests.FindingsTextBody,
    answer=responses.TextAnswer,
)

# Workspace snapshots.
TAKE_SNAPSHOT = declare(
    "take_snapshot",
    f"POST {_SNAPSHOTS}",
    "Store a snapshot; durable when the response is sent. Without a turn it gets the one after the newest.",
    right=_WRITE,
    body=snapshots.SnapshotForm,
    answer=TakenSnapshot,
    grows=True,
    keyed=True,
)
SNAPSHOTS = declare(
    "snapshots",
    f"GET {_SNAPSHOTS}",
    "List snapshots without their content, oldest first.",
    right=_READ,
    query=requests.NumberPageQuery,
    answer=snapshots.HeadsPage,
)
SNAPSHOT = declare(
    "snapshot",
    f"GET {_SNAPSHOTS}/{{turn}}",
    "Read the whole snapshot of a turn; null if none was taken.",
    right=_READ,
    query=requests.SnapshotQuery,
    answer=snapshots.SnapshotAnswer,
)
SNAPSHOT_FILES = declare(
    "snapshot_files",
    f"GET {_SNAPSHOTS}/{{turn}}/files",
    "List the files of a snapshot with their sizes, without reading them.",
    right=_READ,
    answer=snapshots.FilesAnswer,
)
SNAPSHOT_FILE = declare(
    "snapshot_file",
    f"GET {_SNAPSHOTS}/{{turn}}/file",
    "Read one file as it was at a turn.",
    right=_READ,
    query=requests.FileQuery,
    answer=snapshots.FileAnswer,
)
DIFF_SNAPSHOTS = declare(
    "diff_snapshots",
    f"POST {_SNAPSHOTS}/diff",
    "Compare the workspaces of two turns, or one file of them if `path` names it.",
    right=_READ,
    body=snapshots.SnapshotDiffBody,
    answer=snapshots.DiffForm,
)
SEARCH_SNAPSHOTS = declare(
    "search_snapshots",
    f"POST {_SNAPSHOTS}/search",
    "Find the turns whose snapshot introduced the words, best first.",
    right=_READ,
    body=snapshots.SnapshotSearchBody,
    answer=snapshots.HitsAnswer,
)
RECALL_SNAPSHOTS = declare(
    "recall_snapshots",
    f"POST {_SNAPSHOTS}/recall",
    "Recall snapshots by turn, id, path and lines, or keywords, as text of at most `tokens`.",
    right=_READ,
    body=snapshots.SnapshotRecallBody,
    answer=RecalledContext,
)

# All conversations of a tenant.
CONVERSATIONS = declare(
    "conversations",
    "GET /v1/sessions",
    "List the conversations of the tenant, ordered by id.",
    right=_READ,
    query=requests.NamePageQuery,
    answer=responses.ConversationsPage,
)
SEARCH = declare(
    "search",
    "POST /v1/search",
    "Search all conversations, or one, with the filters of `within`.",
    right=_READ,
    body=requests.SearchBody,
    answer=responses.FoundAnswer,
)
ERASE = declare(
    "erase",
    "POST /v1/erasures",
    "Erase a session, all sessions of a user or the whole tenant, permanently; the receipt has no ids and no content.",
    right=_WRITE,
    frees=True,
    body=requests.EraseBody,
    answer=ErasureReceipt,
)
VERIFY_ERASURE = declare(
    "verify_erasure",
    "POST /v1/erasures/verify",
    "Read the store again and check that nothing of what a receipt names is there.",
    right=_READ,
    body=requests.VerifyErasureBody,
    answer=ErasureCheck,
)
HEALTH = declare(
    "health",
    "GET /v1/health",
    "Check the store; details and warnings need the right `admin`.",
    right=_READ,
    answer=Health,
)

# Short-term memory (`ShortMemory`).
CREATE_SHORT_MEMORY = declare(
    "create_short_memory",
    f"POST {_SHORT}",
    "Create a conversation. An existing one starts over, or goes on if `restart` is false.",
    right=_WRITE,
    body=short_memory.CreateBody,
    answer=short_memory.SessionForm,
    grows=True,
    keyed=True,
)
QUERY_MEMORY_CONTEXT = declare(
    "query_memory_context",
    f"POST {_SHORT}/context",
    "Read the context for the next model call; `query` is kept until the turn that answers it is written.",
    right=_WRITE,
    body=short_memory.QueryBody,
    answer=short_memory.MemoryContextForm,
)
WRITE_TURN = declare(
    "write_turn",
    f"POST {_SHORT}/turns",
    "Write a question and its answer as one turn; durable when the response is sent.",
    right=_WRITE,
    body=short_memory.TurnBody,
    answer=MemoryWriteResult,
    grows=True,
)
CHECKPOINT_SHORT_MEMORY = declare(
    "checkpoint_short_memory",
    f"POST {_SHORT}/checkpoints",
    "Replace all but the newest turns with a summary; without one, the summarizer writes it.",
    right=_WRITE,
    body=short_memory.ShortCheckpointBody,
    answer=Checkpoint,
    keyed=True,
)
GET_SHORT_MEMORY = declare(
    "get_short_memory",
    f"GET {_SHORT}",
    "Read the session; an empty one if the conversation has never been used.",
    right=_READ,
    answer=short_memory.SessionForm,
)
SET_SHORT_MEMORY = declare(
    "set_short_memory",
    f"PUT {_SHORT}",
    "Store the changed fields of a session. Returns the new session.",
    right=_WRITE,
    body=short_memory.SetBody,
    answer=short_memory.SessionForm,
    grows=True,
)
RESET_SHORT_MEMORY = declare(
    "reset_short_memory",
    f"POST {_SHORT}/reset",
    "Start over: later contexts leave out everything so far. The log is kept.",
    right=_WRITE,
    answer=short_memory.SessionForm,
    keyed=True,
)
CHECKPOINT_HISTORY = declare(
    "checkpoint_history",
    f"GET {_SHORT}/checkpoints",
    "List all checkpoints, oldest first, including those before a restart.",
    right=_READ,
    answer=responses.CheckpointsAnswer,
)
DELETE_SHORT_MEMORY = declare(
    "delete_short_memory",
    f"DELETE {_SHORT}",
    "Delete the conversation and everything derived from it, permanently.",
    right=_WRITE,
    frees=True,
    answer=Erasure,
)

# Event streams, health probes and metrics.
WATCH_SESSION = declare(
    "watch_session",
    f"GET {_SESSION}/events",
    "Stream the calls of a session as they are made; `Last-Event-ID` resumes after that call.",
    right=_READ,
    query=requests.EventsQuery,
    answer=responses.Events,
)
WATCH_TENANT = declare(
    "watch_tenant",
    "GET /v1/events",
    "Stream the calls of all sessions of the tenant; `Last-Event-ID` resumes, and may repeat some events.",
    right=_READ,
    query=requests.EventsQuery,
    answer=responses.Events,
)
HEALTHZ = declare(
    "healthz",
    "GET /healthz",
    "Liveness probe: the process is alive if it responds.",
    right=None,
    answer=responses.Ready,
)
READYZ = declare(
    "readyz",
    "GET /readyz",
    "Readiness probe: 503 while the store is unavailable or the service is shutting down.",
    right=None,
    answer=responses.Ready,
)
METRICS = declare(
    "metrics",
    "GET /metrics",
    "Read the metrics of the service and its memories for Prometheus. They contain no content and no names.",
    right=Right.ADMIN,
    answer=responses.PlainText,
)

OPERATIONS: Final[tuple[AnyOperation, ...]] = tuple(
    cast("AnyOperation", each) for each in tuple(globals().values()) if isinstance(each, Operation)
)
"""All operations, in the order above."""
