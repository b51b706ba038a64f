"""Request bodies and query parameters of the service, one struct each, and the JSON form of messages.

Messages have two JSON forms: that of chat APIs (`form=chat`), which any program can send on to a provider, and the
stored form (`form=record`), which loses nothing and is used by the Python client. Requests may use either form. Unknown
fields are refused, so a misspelt option is an error instead of being ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import InvalidBudget, InvalidRecord
from turnfold.memory import ErasureReceipt, RecallMode
from turnfold.records import (
    RESULT,
    Entry,
    Message,
    Usage,
    as_message,
    decode_message,
    encode_message,
)
from turnfold.rules import RuleKind
from turnfold.search import ENTRY, Within

__all__ = (
    "KEY_PATTERN",
    "MAX_CLIENT_IDS",
    "AddBody",
    "AddRuleBody",
    "AssistantBody",
    "Body",
    "BudgetBody",
    "CheckpointsQuery",
    "ClearFindingsBody",
    "ClientIdsBody",
    "ContextBody",
    "Count",
    "DiffQuery",
    "DropFindingsBody",
    "EntryForm",
    "EraseBody",
    "EraseQuery",
    "EventsQuery",
    "FileQuery",
    "FindingsTextBody",
    "FoldBody",
    "ForkBody",
    "Form",
    "FormQuery",
    "HistoryQuery",
    "Limit",
    "MessageJson",
    "NamePageQuery",
    "NoQuery",
    "NoteFindingBody",
    "Nothing",
    "NumberPageQuery",
    "PinBody",
    "PreviewBody",
    "Provider",
    "RecallBody",
    "RuleForm",
    "RulesQuery",
    "SearchBody",
    "SessionsQuery",
    "SnapshotQuery",
    "StateBody",
    "SystemBody",
    "ToolBody",
    "ToolRanBody",
    "UsageBody",
    "UserBody",
    "ValueBody",
    "VerifyErasureBody",
    "WithinBody",
    "entry_form",
    "message_json",
    "message_list",
    "to_message",
    "to_usage",
)


KEY_PATTERN: Final = "^[!-~]{1,4608}$"
"""Pattern of an Idempotency-Key: room for a client id of 512 characters, each percent-encoded."""
MAX_CLIENT_IDS: Final = 1000
"""Largest number of client ids in one request; the client splits longer lists."""
_MESSAGE: Final = {
    "type": "object",
    "required": ["role"],
    "properties": {
        "role": {
            "type": "string",
            "description": "system, user, assistant or tool; developer and function are taken too",
        },
        "content": {},
        "parts": {"type": "array", "items": {"type": "object"}},
    },
    "additionalProperties": True,
}
MessageJson: TypeAlias = Annotated[
    dict[str, object],
    Meta(
        title="Message",
        description="As chat APIs write it (role, content, tool_calls ...), or as it is stored (v, role, parts).",
        extra_json_schema=_MESSAGE,
    ),
]
_Content: TypeAlias = str | list[dict[str, object]] | None
Form: TypeAlias = Literal["chat", "record"]
Provider: TypeAlias = Literal["anthropic", "gemini", "openai_chat", "openai_responses"]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
QueryText: TypeAlias = Annotated[str, Meta(max_length=10_000)]
"""Text to search for. Its length is limited because every word in it is looked up in the index."""
Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]
_Key: TypeAlias = Annotated[str, Meta(max_length=512)]
_Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
_LARGEST_BUDGET: Final = 10_000_000
"""Most tokens of a budget in a request: above the context windows of all models, and a context still fits in memory."""
_MOST_TOKENS: Final = 10**12
"""Most tokens that the reported usage of a model call may have: far above any real call, far below what overflows a
sum."""


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all request bodies and query parameters: unknown fields are refused."""


class Nothing(Body):
    """A request without a body."""


class SystemBody(Body):
    """Request body: the system message to set."""

    content: _Content


class UserBody(Body):
    """Request body: a user message to append."""

    content: _Content
    name: str | None = None


class AssistantBody(Body):
    """Request body: an assistant message to append, with its tool calls."""

    content: _Content = None
    tool_calls: list[dict[str, object]] | None = None
    name: str | None = None


class ToolBody(Body):
    """Request body: the result of a tool call to append."""

    content: _Content
    tool_call_id: str
    name: str | None = None


class AddBody(Body):
    """Request body: messages to append, all of them or none."""

    messages: Annotated[list[MessageJson], Meta(min_length=1)]
    expect: Count | None = None
    """Newest seq the writer has seen; the append is refused with a conflict if the log has newer entries."""
    client_ids: list[_Key] | None = None
    """One client id per message, instead of the Idempotency-Key with a number appended."""


class BudgetBody(Body):
    """Part of a request body: the limits of one model call, in tokens, messages and bytes."""

    context_window: Count = 0
    reserve_ratio: float = 0.25
    max_tokens: Count = 0
    max_messages: Count = 0
    max_bytes: Count = 0
    shares: dict[Literal["system", "summary", "tail", "recall"], float] = {}
    marks: dict[Literal["low", "snap", "folded"], float] = {}

    def budget(self) -> Budget:
        """Return these limits as a `Budget`; raises `InvalidBudget` if they contradict each other or are too large."""
        tokens = max(self.max_tokens, self.context_window)
        if tokens > _LARGEST_BUDGET:
            raise InvalidBudget(
                f"a budget of {tokens:,} tokens is more than a service takes: give at most {_LARGEST_BUDGET:,}"
            )
        return Budget(
            context_window=self.context_window,
            reserve_ratio=self.reserve_ratio,
            max_tokens=self.max_tokens,
            max_messages=self.max_messages,
            max_bytes=self.max_bytes,
            shares=Shares(**self.shares),
            marks=WaterMarks(**self.marks),
        )

    @classmethod
    def of(cls, budget: Budget) -> BudgetBody:
        """Return a `Budget` as a part of a request body."""
        shares, marks = budget.shares, budget.marks
        return cls(
            context_window=budget.context_window,
            reserve_ratio=budget.reserve_ratio,
            max_tokens=budget.max_tokens,
            max_messages=budget.max_messages,
            max_bytes=budget.max_bytes,
            shares={
                "system": shares.system,
                "summary": shares.summary,
                "tail": shares.tail,
                "recall": shares.recall,
            },
            marks={"low": marks.low, "snap": marks.snap, "folded": marks.folded},
        )


class ContextBody(Body):
    """Request body: options for building the context of the next model call."""

    query: QueryText | None = None
    """Recall folded (compacted) entries that match this text."""
    recall: RecallMode | None = None
    """When to recall without a query; null for the setting of the service."""
    budget: BudgetBody | None = None
    tools: list[dict[str, object]] | None = None
    notes: dict[str, str] | None = None
    """Texts by name that are shown in this call only."""
    workspace: str = ""
    to: Provider | None = None
    """Provider to whose request body the limit `max_bytes` applies; the receipt (context report) lists what is changed
    for that provider."""
    max_tokens: Count = 0
    """Token limit of this call, if lower than that of the budget; 0 for the budget's limit."""


class PreviewBody(Body):
    """Request body: options for previewing the next context without storing anything."""

    query: QueryText | None = None
    budget: BudgetBody | None = None
    tools: list[dict[str, object]] | None = None
    to: Provider | None = None
    """Provider to whose request body the limit `max_bytes` applies."""


class FoldBody(Body):
    """Request body of a fold (compaction): the turns to keep, and perhaps the summary to use."""

    summary: str | None = None
    keep_turns: Count | None = None


class WithinBody(Body):
    """Filters of a search: an item must match every filter that is set, by at least one of its values."""

    roles: list[str] = []
    tools: list[str] = []
    turns: tuple[int, int] | None = None
    paths: list[str] = []
    since: int | None = None
    """Earliest time, in microseconds since 1970."""
    until: int | None = None
    kinds: list[str] | None = msgspec.field(default_factory=lambda: [ENTRY])
    """Kinds of search results: "" for entries, "checkpoint" for summaries, or kinds of documents; null for all."""

    def within(self) -> Within:
        """Return the filters as a `Within`; raises `InvalidOption` if one of them is invalid."""
        return Within(
            roles=frozenset(self.roles),
            tools=frozenset(self.tools),
            turns=self.turns,
            paths=frozenset(self.paths),
            since=self.since,
            until=self.until,
            kinds=None if self.kinds is None else frozenset(self.kinds),
        )

    @classmethod
    def of(cls, within: Within) -> WithinBody:
        """Return search filters as a part of a request body."""
        return cls(
            roles=sorted(within.roles),
            tools=sorted(within.tools),
            turns=within.turns,
            paths=sorted(within.paths),
            since=within.since,
            until=within.until,
            kinds=None if within.kinds is None else sorted(within.kinds),
        )


class RecallBody(Body):
    """Request body of a recall: which earlier entries of one session to return."""

    query: QueryText
    limit: Limit = 5
    tokens: _Tokens | None = None
    within: WithinBody = msgspec.field(default_factory=WithinBody)


class SearchBody(Body):
    """Request body of a search in all conversations, or in one."""

    query: QueryText
    conversation: _Name | None = None
    within: WithinBody = msgspec.field(default_factory=WithinBody)
    limit: Limit = 20


class ClientIdsBody(Body):
    """Request body: client ids of the log entries to look up."""

    client_ids: Annotated[list[_Key], Meta(max_length=MAX_CLIENT_IDS)]


class PinBody(Body):
    """Request body: a text to show in every call, or the log entry whose words to show."""

    content: str = ""
    key: _Key = ""
    seq: Count = 0
    """Entry to pin, instead of `content`; 0 for none."""


class AddRuleBody(Body):
    """Request body: a rule to add, with its text of 1 to 300 characters and its kind."""

    text: str
    kind: RuleKind = "rule"


class StateBody(Body):
    """Request body: values of the session state to set, by name."""

    values: dict[str, object]


class ValueBody(Body):
    """Request body: the new value of one name of the session state."""

    value: object


class UsageBody(Body):
    """Request body: token usage as `{"input", "output", "cached"}`, or the provider's own usage object."""

    usage: dict[str, object]


class ForkBody(Body):
    """Request body of a fork: the id of the new conversation, and the last entry to copy."""

    conversation: _Name
    at: Count | None = None


class EraseBody(Body):
    """Request body: the session to erase, the user or the tenant (whose name must be sent as confirmation).

    A session is the user's if its id is the user's id or begins with it and a slash, or if its `user_id` is the user's.
    Forks of these sessions are erased too.
    """

    kind: Literal["session", "user", "tenant"]
    id: _Name


class VerifyErasureBody(Body):
    """Request body: the receipt that an erasure returned, unchanged."""

    receipt: ErasureReceipt


class RuleForm(Body):
    """A finding rule in a request: how the results of one tool are remembered."""

    tool: _Name
    kind: str = RESULT
    ttl: float = 0.0
    invalidated_by: tuple[str, ...] = ()
    min_relevance: float = 0.0
    largest: Annotated[int, Meta(ge=1, le=1 << 31)] = 200_000
    """Largest number of characters of a result; a longer result is not remembered."""


class NoteFindingBody(Body):
    """Request body: a tool call and its result, to be remembered as a finding."""

    call: dict[str, object]
    """The tool call, in the form in which chat APIs write it."""
    result: str
    score: float | None = None
    seq: Count = 0
    """Seq (log position) of the entry with the tool result; 0 if the result is not in the log."""
    asked: Count | None = None
    """Newest seq (log position) when the tool was called; null for the newest one now."""
    rules: list[RuleForm] = []
    most: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    """Largest number of findings to keep; null for the default."""


class ToolRanBody(Body):
    """Request body: a tool that runs or has run; findings (remembered tool results) that it makes stale are marked."""

    tool: _Name
    rules: list[RuleForm] = []


class DropFindingsBody(Body):
    """Request body: the findings (remembered tool results) to delete, of one call or of a tool."""

    tool: _Name
    arguments: str | dict[str, object] | None = None


class ClearFindingsBody(Body):
    """Request body: forget all findings (remembered tool results), or all but tables of contents."""

    query_only: bool = False


class FindingsTextBody(Body):
    """Request body: token limit of the text that shows the findings, and the question by which they are ranked."""

    tokens: _Tokens
    question: QueryText = ""


class NoQuery(Body):
    """A request without query parameters."""


class FormQuery(Body):
    """Query parameter: the JSON form in which messages are written in the response."""

    form: Form = "chat"


class HistoryQuery(FormQuery):
    """Query parameters: the page of the log to return, and the JSON form of its messages."""

    after: Count = 0
    limit: Limit = 100


class NumberPageQuery(Body):
    """Query parameters: the page to return of a list that is ordered by number."""

    after: Count = 0
    limit: Limit = 100


class NamePageQuery(Body):
    """Query parameters: the page to return of a list that is ordered by name."""

    after: _Key = ""
    limit: Limit = 100


class SessionsQuery(NamePageQuery):
    """Query parameters: the page of the sessions to return, in the order of their ids."""

    prefix: _Key = ""
    """Beginning of session ids: only sessions whose id starts with it are listed."""
    internal: bool = False
    """Also list conversations in which adapters store data of their own. A prefix that contains a colon has the same
    effect."""


class EraseQuery(Body):
    """Query parameter: the reason why a log entry is erased."""

    reason: str = ""
    """Reason of the erasure, stored in the placeholder that replaces the entry and shown to models; at most 200
    characters."""


class CheckpointsQuery(Body):
    """Query parameter: which checkpoints (fold summaries) to list."""

    dropped: bool = False
    """List the dropped checkpoints (summaries) instead of those that are not dropped."""


class RulesQuery(Body):
    """Query parameter: which rules of the user to list."""

    ended: bool = False
    """Also list rules that were replaced, done or dropped."""


class DiffQuery(Body):
    """Query parameters: the ids of the two calls to compare."""

    before: _Name
    after: _Name
    form: Form = "chat"


class SnapshotQuery(Body):
    """Query parameter: return the workspace snapshot of a turn, or the newest before it."""

    earlier: bool = False
    """Return the newest snapshot before this turn instead of the turn's own."""


class FileQuery(Body):
    """Query parameter: the path of a file in a workspace snapshot."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class EventsQuery(Body):
    """Query parameter: the event after which an event stream continues."""

    after: _Key = ""
    """Id of the last event that the client has seen, as in the header Last-Event-ID, for clients that cannot set
    headers."""


class EntryForm(msgspec.Struct, kw_only=True):
    """A stored message (entry of the log) in a response."""

    seq: int
    message: MessageJson
    client_id: str
    created: int
    """Time at which the entry was stored, in microseconds since 1970."""
    turn: int
    tokens: int
    running: int
    """Tokens of all entries up to and including this one."""


def message_json(message: Message, form: Form) -> MessageJson:
    """Return a message as JSON, in the form `chat` or `record`."""
    if form == "record":
        return cast("dict[str, object]", msgspec.Raw(encode_message(message)))
    return message.model_dump()


def message_list(messages: Iterable[Message], form: Form) -> list[MessageJson]:
    """Return messages as JSON, in the form `chat` or `record`."""
    return [message_json(message, form) for message in messages]


def to_message(body: Mapping[str, object]) -> Message:
    """Read a message from JSON in the form `chat` or `record`; raises `InvalidRecord` if it is invalid."""
    if "parts" in body and "v" in body:
        return decode_message(msgspec.json.encode(body))
    return as_message(body)


def to_usage(reported: Mapping[str, object]) -> Usage:
    """Read token usage from turnfold's fields (`input`, `output`, `cached`) or from the provider's own."""
    if "input" in reported:
        try:
            usage = msgspec.convert(reported, Usage)
        except msgspec.ValidationError as error:
            raise InvalidRecord(str(error), path="usage") from None
    else:
        usage = Usage.of(reported)
    for name in ("input", "output", "cached"):
        number = cast("int", getattr(usage, name))
        if not 0 <= number <= _MOST_TOKENS:
            raise InvalidRecord(
                f"{number!r:.40} is not a possible number of tokens: give 0 to {_MOST_TOKENS:,}",
                path=f"usage.{name}",
            )
    return usage


def entry_form(entry: Entry, form: Form) -> EntryForm:
    """Return a log entry for a response, with its message in the form `chat` or `record`."""
    return EntryForm(
        seq=entry.seq,
        message=message_json(entry.message, form),
        client_id=entry.client_id,
        created=entry.created,
        turn=entry.turn,
        tokens=entry.tokens,
        running=entry.running,
    )
