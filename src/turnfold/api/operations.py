"""Table of all operations (HTTP endpoints), each declared once: method, path, right, request and response body.

Four things are made from this table: the routes of the service, the requests of the client, the OpenAPI document, and
the tests that try every route with wrong credentials. So no route can exist without access checks, description and
tests.
"""

from __future__ import annotations

from typing import Final, cast

from turnfold.api import (
    request_bodies,
    response_bodies,
    short_memory_bodies,
    workspace_snapshot_bodies,
)
from turnfold.api.operation import AnyOperation, Operation, Right, declare
from turnfold.memories import MemoryWriteResult
from turnfold.memory import ErasureCheck, ErasureReceipt, Manifest, SessionStatus
from turnfold.records import Checkpoint
from turnfold.rules import StandingRule
from turnfold.stores import Appended, Erasure, Health
from turnfold.workspace_snapshots import RecalledContext, TakenSnapshot

__all__ = ("OPERATIONS",)

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
    "Set the system message; `appended` is null if it is unchanged.",
    right=_WRITE,
    body=request_bodies.SystemBody,
    answer=response_bodies.SystemAnswer,
    grows=True,
)
ADD_USER = declare(
    "say_user",
    f"POST {_SESSION}/user",
    "Append a user message; starts a turn.",
    right=_WRITE,
    body=request_bodies.UserBody,
    answer=Appended,
    grows=True,
)
ADD_ASSISTANT = declare(
    "say_assistant",
    f"POST {_SESSION}/assistant",
    "Append an assistant message with the tool calls it makes.",
    right=_WRITE,
    body=request_bodies.AssistantBody,
    answer=Appended,
    grows=True,
)
ADD_TOOL = declare(
    "say_tool",
    f"POST {_SESSION}/tool",
    "Append the result of the tool call `tool_call_id`.",
    right=_WRITE,
    body=request_bodies.ToolBody,
    answer=Appended,
    grows=True,
)
ADD = declare(
    "add",
    f"POST {_SESSION}/messages",
    "Append messages, all of them or none. With the Idempotency-Key `a`, several messages get the client ids `a.1`, "
    "`a.2` and so on.",
    right=_WRITE,
    body=request_bodies.AddBody,
    answer=Appended,
    grows=True,
)
CONTEXT = declare(
    "context",
    f"POST {_SESSION}/context",
    "Build the context of the next model call and store its manifest (record of the call). A repeated request records "
    "another call.",
    right=_WRITE,
    body=request_bodies.ContextBody,
    query=request_bodies.FormQuery,
    answer=response_bodies.ContextForm,
)
FOLD = declare(
    "fold",
    f"POST {_SESSION}/fold",
    "Fold (compact) everything before the newest turns now, into `summary` or one the summarizer writes; "
    "`checkpoint` is null if there is nothing to fold.",
    right=_WRITE,
    body=request_bodies.FoldBody,
    answer=response_bodies.FoldAnswer,
    keyed=True,
)

DROP_CHECKPOINT = declare(
    "drop_checkpoint",
    f"DELETE {_SESSION}/checkpoints/{{checkpoint}}",
    "Drop a checkpoint (summary of folded entries) and all checkpoints made from it: later contexts show the entries "
    "themselves or fold them again. Returns the dropped checkpoints, which are kept for audit and shown to no model.",
    right=_WRITE,
    frees=True,
    answer=response_bodies.CheckpointsAnswer,
    keyed=True,
)

# Pins, rules, state, usage, and the life of a session.
PIN = declare(
    "pin",
    f"POST {_SESSION}/pins",
    "Show a text, or the words of the entry `seq`, verbatim in every call from the next user turn on.",
    right=_WRITE,
    body=request_bodies.PinBody,
    answer=response_bodies.PinAnswer,
)
UNPIN = declare(
    "unpin",
    f"DELETE {_SESSION}/pins/{{key}}",
    "Remove a pin; contexts leave it out from the next user turn on. `done` is false if there is no such pin.",
    right=_WRITE,
    frees=True,
    answer=response_bodies.DoneAnswer,
    keyed=True,
)
ADD_RULE = declare(
    "add_rule",
    f"POST {_SESSION}/rules",
    "Add a rule of 1 to 300 characters that is in no message of the conversation. Returns the rule with its id.",
    right=_WRITE,
    body=request_bodies.AddRuleBody,
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
    "Set several values of the session state and keep the others. Returns the new state.",
    right=_WRITE,
    body=request_bodies.StateBody,
    answer=response_bodies.StateAnswer,
)
SET_STATE = declare(
    "set_state",
    f"PUT {_SESSION}/state/{{name}}",
    "Set one value of the session state. Returns the new state.",
    right=_WRITE,
    body=request_bodies.ValueBody,
    answer=response_bodies.StateAnswer,
)
REMOVE_STATE = declare(
    "remove_state",
    f"DELETE {_SESSION}/state/{{name}}",
    "Remove a value of the session state; `done` is false if there is no such value.",
    right=_WRITE,
    frees=True,
    answer=response_bodies.DoneAnswer,
    keyed=True,
)
RECORD_USAGE = declare(
    "record_usage",
    f"PUT {_SESSION}/calls/{{call}}/usage",
    "Record the token usage a provider reported for a call.",
    right=_WRITE,
    body=request_bodies.UsageBody,
    answer=Manifest,
)
CLEAR = declare(
    "clear",
    f"POST {_SESSION}/clear",
    "Start over: later contexts leave out everything so far, except the system message and pins. The log is kept.",
    right=_WRITE,
    answer=response_bodies.ClearedAnswer,
    keyed=True,
)
FORK = declare(
    "fork",
    f"POST {_SESSION}/fork",
    "Copy all entries up to `at` (default: all) to a new conversation; the original is unchanged.",
    right=_WRITE,
    body=request_bodies.ForkBody,
    answer=response_bodies.ForkedAnswer,
    grows=True,
    keyed=True,
)
ERASE_ENTRY = declare(
    "erase_entry",
    f"DELETE {_SESSION}/messages/{{seq}}",
    "Erase one message and everything made from it, permanently; a placeholder with the reason stays. `mentions` names "
    "documents of the application that may contain its text and are kept.",
    right=_WRITE,
    frees=True,
    query=request_bodies.EraseQuery,
    answer=Erasure,
)
DELETE = declare(
    "delete",
    f"DELETE {_SESSION}",
    "Delete the conversation and everything derived from it, permanently; a repeated request returns `already`, "
    "and the id of a conversation that never existed is 404.",
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
    query=request_bodies.HistoryQuery,
    answer=response_bodies.EntriesPage,
)
TURN = declare(
    "turn",
    f"GET {_SESSION}/turns/{{number}}",
    "Read a page of the entries of one turn, folded or not; turn 0 holds those before the first user message.",
    right=_READ,
    query=request_bodies.HistoryQuery,
    answer=response_bodies.EntriesPage,
)
BY_CLIENT_ID = declare(
    "by_client_id",
    f"POST {_SESSION}/by-client-id",
    "Read the entries stored under these client ids, in log order; unknown ids are skipped.",
    right=_READ,
    body=request_bodies.ClientIdsBody,
    query=request_bodies.FormQuery,
    answer=response_bodies.EntriesPage,
)
PREVIEW = declare(
    "preview",
    f"POST {_SESSION}/preview",
    "Build the context `context` would return now, without storing anything or folding.",
    right=_READ,
    body=request_bodies.PreviewBody,
    query=request_bodies.FormQuery,
    answer=response_bodies.ContextForm,
)
RECALL = declare(
    "recall",
    f"POST {_SESSION}/recall",
    "Find matching entries, best first, folded or not; with `tokens`, as many passages as fit that limit.",
    right=_READ,
    body=request_bodies.RecallBody,
    query=request_bodies.FormQuery,
    answer=response_bodies.RecalledAnswer,
)
CHECKPOINTS = declare(
    "checkpoints",
    f"GET {_SESSION}/checkpoints",
    "List all checkpoints (summaries of folded entries), oldest first; the last one is in use. With `dropped`, list "
    "the dropped checkpoints instead.",
    right=_READ,
    query=request_bodies.CheckpointsQuery,
    answer=response_bodies.CheckpointsAnswer,
)
PINS = declare(
    "pins",
    f"GET {_SESSION}/pins",
    "List pinned texts by key, oldest first.",
    right=_READ,
    answer=response_bodies.PinsAnswer,
)
RULES = declare(
    "rules",
    f"GET {_SESSION}/rules",
    "List the active rules: standing instructions of the user, word for word, in the order in which they were given.",
    right=_READ,
    query=request_bodies.RulesQuery,
    answer=response_bodies.RulesAnswer,
)
STATE = declare(
    "state",
    f"GET {_SESSION}/state",
    "Read all values of the session state.",
    right=_READ,
    answer=response_bodies.StateAnswer,
)
CALLS = declare(
    "calls",
    f"GET {_SESSION}/calls",
    "Read a page of the recorded calls, in log order.",
    right=_READ,
    query=request_bodies.NamePageQuery,
    answer=response_bodies.CallsPage,
)
EXPLAIN = declare(
    "explain",
    f"GET {_SESSION}/calls/{{call}}",
    "Read the messages a call sent, with the reasons for its selection; `@last` is the newest call.",
    right=_READ,
    query=request_bodies.FormQuery,
    answer=response_bodies.ExplanationForm,
)
DIFF = declare(
    "diff",
    f"GET {_SESSION}/diff",
    "Compare two calls (`@last` is the newest): messages gone and new, tokens per section, and the reasons.",
    right=_READ,
    query=request_bodies.DiffQuery,
    answer=response_bodies.DifferenceForm,
)

# Findings (remembered tool results).
FINDINGS = declare(
    "findings",
    f"GET {_FINDINGS}",
    "List the valid findings: tables of contents first, then by relevance, then newest first.",
    right=_READ,
    answer=response_bodies.FindingsAnswer,
)
NOTE_FINDING = declare(
    "note_finding",
    f"POST {_FINDINGS}",
    "Remember the result of a tool call; `finding` is null if the rule of the tool rejects the result.",
    right=_WRITE,
    body=request_bodies.NoteFindingBody,
    answer=response_bodies.FindingAnswer,
    grows=True,
)
TOOL_RAN = declare(
    "tool_ran",
    f"POST {_FINDINGS}/ran",
    "Report that a tool is running or has run, which invalidates the findings that depend on it.",
    right=_WRITE,
    body=request_bodies.ToolRanBody,
    answer=response_bodies.DoneAnswer,
)
DROP_FINDINGS = declare(
    "drop_findings",
    f"POST {_FINDINGS}/drop",
    "Forget the result of one call, or all results of a tool if no arguments are given.",
    right=_WRITE,
    frees=True,
    body=request_bodies.DropFindingsBody,
    answer=response_bodies.CountAnswer,
    keyed=True,
)
CLEAR_FINDINGS = declare(
    "clear_findings",
    f"POST {_FINDINGS}/clear",
    "Forget all findings; with `query_only`, all but tables of contents.",
    right=_WRITE,
    frees=True,
    body=request_bodies.ClearFindingsBody,
    answer=response_bodies.CountAnswer,
    keyed=True,
)
FINDINGS_TEXT = declare(
    "findings_text",
    f"POST {_FINDINGS}/text",
    "Render the valid findings as the text that contexts contain, in at most `tokens`.",
    right=_READ,
    body=request_bodies.FindingsTextBody,
    answer=response_bodies.TextAnswer,
)

# Workspace snapshots.
TAKE_SNAPSHOT = declare(
    "take_snapshot",
    f"POST {_SNAPSHOTS}",
    "Store a snapshot; durable when the response is sent. Without `turn`, it gets the turn after the newest snapshot.",
    right=_WRITE,
    body=workspace_snapshot_bodies.SnapshotForm,
    answer=TakenSnapshot,
    grows=True,
    keyed=True,
)
SNAPSHOTS = declare(
    "snapshots",
    f"GET {_SNAPSHOTS}",
    "List snapshots without their content, oldest first.",
    right=_READ,
    query=request_bodies.NumberPageQuery,
    answer=workspace_snapshot_bodies.HeadsPage,
)
SNAPSHOT = declare(
    "snapshot",
    f"GET {_SNAPSHOTS}/{{turn}}",
    "Read the whole snapshot of a turn; null if none was taken.",
    right=_READ,
    query=request_bodies.SnapshotQuery,
    answer=workspace_snapshot_bodies.SnapshotAnswer,
)
SNAPSHOT_FILES = declare(
    "snapshot_files",
    f"GET {_SNAPSHOTS}/{{turn}}/files",
    "List the files of a snapshot with their sizes, without reading them.",
    right=_READ,
    answer=workspace_snapshot_bodies.FilesAnswer,
)
SNAPSHOT_FILE = declare(
    "snapshot_file",
    f"GET {_SNAPSHOTS}/{{turn}}/file",
    "Read one file as it was at a turn.",
    right=_READ,
    query=request_bodies.FileQuery,
    answer=workspace_snapshot_bodies.FileAnswer,
)
DIFF_SNAPSHOTS = declare(
    "diff_snapshots",
    f"POST {_SNAPSHOTS}/diff",
    "Compare the workspaces of two turns, or one file of them if `path` names it.",
    right=_READ,
    body=workspace_snapshot_bodies.SnapshotDiffBody,
    answer=workspace_snapshot_bodies.DiffForm,
)
SEARCH_SNAPSHOTS = declare(
    "search_snapshots",
    f"POST {_SNAPSHOTS}/search",
    "Find the turns whose snapshots are the first to contain the words, best match first.",
    right=_READ,
    body=workspace_snapshot_bodies.SnapshotSearchBody,
    answer=workspace_snapshot_bodies.HitsAnswer,
)
RECALL_SNAPSHOTS = declare(
    "recall_snapshots",
    f"POST {_SNAPSHOTS}/recall",
    "Recall snapshots by turn, id, path and lines, or keywords, as text of at most `tokens`.",
    right=_READ,
    body=workspace_snapshot_bodies.SnapshotRecallBody,
    answer=RecalledContext,
)

# All conversations of a tenant.
CONVERSATIONS = declare(
    "conversations",
    "GET /v1/sessions",
    "List the sessions of the tenant, ordered by id.",
    right=_READ,
    query=request_bodies.SessionsQuery,
    answer=response_bodies.ConversationsPage,
)
SEARCH = declare(
    "search",
    "POST /v1/search",
    "Search all conversations, or one, with the filters of `within`.",
    right=_READ,
    body=request_bodies.SearchBody,
    answer=response_bodies.FoundAnswer,
)
ERASE = declare(
    "erase",
    "POST /v1/erasures",
    "Erase a session, all sessions of a user or the whole tenant, permanently; the receipt has no ids and no content.",
    right=_WRITE,
    frees=True,
    body=request_bodies.EraseBody,
    answer=ErasureReceipt,
)
VERIFY_ERASURE = declare(
    "verify_erasure",
    "POST /v1/erasures/verify",
    "Read the store again and check that it has no data of the conversations in an erasure receipt.",
    right=_READ,
    body=request_bodies.VerifyErasureBody,
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
    body=short_memory_bodies.CreateBody,
    answer=short_memory_bodies.SessionForm,
    grows=True,
    keyed=True,
)
QUERY_MEMORY_CONTEXT = declare(
    "query_memory_context",
    f"POST {_SHORT}/context",
    "Read the context for the next model call; `query` is kept until the turn that answers it is written.",
    right=_WRITE,
    body=short_memory_bodies.QueryBody,
    answer=short_memory_bodies.MemoryContextForm,
)
WRITE_TURN = declare(
    "write_turn",
    f"POST {_SHORT}/turns",
    "Write a question and its answer as one turn; durable when the response is sent.",
    right=_WRITE,
    body=short_memory_bodies.TurnBody,
    answer=MemoryWriteResult,
    grows=True,
)
CHECKPOINT_SHORT_MEMORY = declare(
    "checkpoint_short_memory",
    f"POST {_SHORT}/checkpoints",
    "Replace all but the newest turns with a summary; without one, the summarizer writes it.",
    right=_WRITE,
    body=short_memory_bodies.ShortCheckpointBody,
    answer=Checkpoint,
    keyed=True,
)
GET_SHORT_MEMORY = declare(
    "get_short_memory",
    f"GET {_SHORT}",
    "Read the session; an empty one if the conversation has never been used.",
    right=_READ,
    answer=short_memory_bodies.SessionForm,
)
SET_SHORT_MEMORY = declare(
    "set_short_memory",
    f"PUT {_SHORT}",
    "Store the changed fields of a short-memory session. Returns the new session.",
    right=_WRITE,
    body=short_memory_bodies.SetBody,
    answer=short_memory_bodies.SessionForm,
    grows=True,
)
RESET_SHORT_MEMORY = declare(
    "reset_short_memory",
    f"POST {_SHORT}/reset",
    "Start over: later contexts leave out everything so far. The log is kept.",
    right=_WRITE,
    answer=short_memory_bodies.SessionForm,
    keyed=True,
)
CHECKPOINT_HISTORY = declare(
    "checkpoint_history",
    f"GET {_SHORT}/checkpoints",
    "List all checkpoints, oldest first, including those before a restart.",
    right=_READ,
    answer=response_bodies.CheckpointsAnswer,
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
    query=request_bodies.EventsQuery,
    answer=response_bodies.Events,
)
WATCH_TENANT = declare(
    "watch_tenant",
    "GET /v1/events",
    "Stream the calls of all sessions of the tenant; `Last-Event-ID` resumes, and may repeat some events.",
    right=_READ,
    query=request_bodies.EventsQuery,
    answer=response_bodies.Events,
)
HEALTHZ = declare(
    "healthz",
    "GET /healthz",
    "Liveness probe: the process is alive if it responds.",
    right=None,
    answer=response_bodies.Ready,
)
READYZ = declare(
    "readyz",
    "GET /readyz",
    "Readiness probe: 503 while the store is unavailable or the service is shutting down.",
    right=None,
    answer=response_bodies.Ready,
)
METRICS = declare(
    "metrics",
    "GET /metrics",
    "Read the metrics of the service and its memories for Prometheus. They contain no content and no names.",
    right=Right.ADMIN,
    answer=response_bodies.PlainText,
)

OPERATIONS: Final[tuple[AnyOperation, ...]] = tuple(
    cast("AnyOperation", each) for each in tuple(globals().values()) if isinstance(each, Operation)
)
"""All operations (HTTP endpoints), in the order in which this module declares them."""
