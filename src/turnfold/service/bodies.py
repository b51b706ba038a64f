"""What requests and answers look like: one struct each, from which both sides and the OpenAPI document are made.

A message is written as chat APIs write it (`form=chat`), which any program can send on to a provider, or as it is
stored (`form=record`), which loses nothing and is what the Python client asks for. Both are taken. Unknown fields are
refused: a misspelt option must not be an option left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.records import (
    Entry,
    Message,
    Usage,
    as_message,
    decode_message,
    encode_message,
)
from turnfold.stores.within import ENTRY, Within

__all__ = (
    "KEY_PATTERN",
    "AddBody",
    "AssistantBody",
    "BudgetBody",
    "CheckpointBody",
    "Content",
    "ContextBody",
    "Count",
    "EntryForm",
    "FindBody",
    "ForkBody",
    "Form",
    "Limit",
    "Name",
    "Nothing",
    "PinBody",
    "Provider",
    "RecallBody",
    "Said",
    "SearchBody",
    "StateBody",
    "SystemBody",
    "ToolBody",
    "UsageBody",
    "UserBody",
    "ValueBody",
    "WithinBody",
    "entry_form",
    "said_form",
    "said_forms",
    "to_message",
    "to_usage",
)

KEY_PATTERN: Final = "^[!-~]{1,4608}$"
"""An Idempotency-Key: a client id of 512 characters, each percent-encoded."""
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
Said: TypeAlias = Annotated[
    dict[str, object],
    Meta(
        title="Message",
        description="As chat APIs write it (role, content, tool_calls ...), or as it is stored (v, role, parts).",
        extra_json_schema=_MESSAGE,
    ),
]
Content: TypeAlias = str | list[dict[str, object]] | None
Form: TypeAlias = Literal["chat", "record"]
Provider: TypeAlias = Literal["anthropic", "gemini", "openai_chat", "openai_responses"]
Recalling: TypeAlias = Literal["off", "automatic", "always"]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1000)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]


class _Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A misspelt field is refused."""


class Nothing(_Body):
    """No fields."""


class SystemBody(_Body):
    """The system message."""

    content: Content


class UserBody(_Body):
    """What the user said."""

    content: Content
    name: str | None = None


class AssistantBody(_Body):
    """What the model answered."""

    content: Content = None
    tool_calls: list[dict[str, object]] | None = None
    name: str | None = None


class ToolBody(_Body):
    """What a tool answered."""

    content: Content
    tool_call_id: str
    name: str | None = None


class AddBody(_Body):
    """Messages to append, all of them or none."""

    messages: Annotated[list[Said], Meta(min_length=1)]
    expect: Count | None = None
    """The newest seq the writer has seen; another is a conflict."""
    client_ids: list[Annotated[str, Meta(max_length=512)]] | None = None
    """A client id for each message, in place of the Idempotency-Key with a number."""


class BudgetBody(_Body):
    """What a call may spend."""

    context_window: Count = 0
    reserve_ratio: float = 0.25
    max_tokens: Count = 0
    max_messages: Count = 0
    max_bytes: Count = 0
    shares: dict[Literal["system", "summary", "tail"], float] = {}
    marks: dict[Literal["low", "snap", "folded"], float] = {}

    def budget(self) -> Budget:
        """The budget of these numbers; `InvalidBudget` for those that cannot work together."""
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
        """The numbers of a budget."""
        shares, marks = budget.shares, budget.marks
        return cls(
            context_window=budget.context_window,
            reserve_ratio=budget.reserve_ratio,
            max_tokens=budget.max_tokens,
            max_messages=budget.max_messages,
            max_bytes=budget.max_bytes,
            shares={"system": shares.system, "summary": shares.summary, "tail": shares.tail},
            marks={"low": marks.low, "snap": marks.snap, "folded": marks.folded},
        )


class ContextBody(_Body):
    """What is asked of a context."""

    query: str | None = None
    """Brings back what was folded and matches it."""
    recall: Recalling | None = None
    """Whether that is also done unasked; null for what the service does."""
    budget: BudgetBody | None = None
    tools: list[dict[str, object]] | None = None
    notes: dict[str, str] | None = None
    """Texts by name, shown in this call alone."""
    workspace: str = ""
    to: Provider | None = None
    """Whose body `max_bytes` holds for; the receipt says what that provider does not get as it was said."""
    max_tokens: Count = 0
    """Fewer tokens than the budget allows; 0 for what it allows."""


class CheckpointBody(_Body):
    """A fold by hand."""

    summary: str | None = None
    keep_turns: Count | None = None


class WithinBody(_Body):
    """What a search is kept to. Filters that are set must all hold; of the values of one, any is enough."""

    roles: list[str] = []
    tools: list[str] = []
    turns: tuple[int, int] | None = None
    paths: list[str] = []
    since: int | None = None
    until: int | None = None
    kinds: list[str] | None = msgspec.field(default_factory=lambda: [ENTRY])
    """"" for entries, "checkpoint", or kinds of documents; null for whatever can be found."""

    def within(self) -> Within:
        """The same, checked."""
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
        """The filters as they are sent."""
        return cls(
            roles=sorted(within.roles),
            tools=sorted(within.tools),
            turns=within.turns,
            paths=sorted(within.paths),
            since=within.since,
            until=within.until,
            kinds=None if within.kinds is None else sorted(within.kinds),
        )


class RecallBody(_Body):
    """What to find again."""

    query: str
    limit: Limit = 5
    tokens: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)] | None = None
    within: WithinBody = msgspec.field(default_factory=WithinBody)


class SearchBody(_Body):
    """What to look for in all conversations, or in one."""

    query: str
    conversation: Name | None = None
    within: WithinBody = msgspec.field(default_factory=WithinBody)
    limit: Limit = 20


class FindBody(_Body):
    """Entries to look up."""

    client_ids: Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=1000)]


class PinBody(_Body):
    """A text every call must see."""

    content: str
    key: Annotated[str, Meta(max_length=512)] = ""


class StateBody(_Body):
    """Values of the session's state, by name."""

    values: dict[str, object]


class ValueBody(_Body):
    """One value."""

    value: object


class UsageBody(_Body):
    """What the provider reported: `{"input", "output", "cached"}`, or its own usage object as it is."""

    usage: dict[str, object]


class ForkBody(_Body):
    """A new conversation from this one."""

    conversation: Name
    at: Count | None = None


class EntryForm(msgspec.Struct, kw_only=True):
    """A stored message."""

    seq: int
    message: Said
    client_id: str
    created: int
    """Microseconds since 1970."""
    turn: int
    tokens: int
    running: int


def said_form(message: Message, form: Form) -> Said:
    """A message as it is answered."""
    if form == "record":
        return cast("dict[str, object]", msgspec.Raw(encode_message(message)))
    return message.model_dump()


def said_forms(messages: Iterable[Message], form: Form) -> list[Said]:
    """Messages as they are answered."""
    return [said_form(message, form) for message in messages]


def to_message(said: Mapping[str, object]) -> Message:
    """A message as it was sent, in either form."""
    if "parts" in said and "v" in said:
        return decode_message(msgspec.json.encode(said))
    return as_message(said)


def to_usage(reported: Mapping[str, object]) -> Usage:
    """What a provider reported, in our words or its own."""
    if "input" in reported:
        return msgspec.convert(reported, Usage)
    return Usage.of(reported)


def entry_form(entry: Entry, form: Form) -> EntryForm:
    """An entry as it is answered."""
    return EntryForm(
        seq=entry.seq,
        message=said_form(entry.message, form),
        client_id=entry.client_id,
        created=entry.created,
        turn=entry.turn,
        tokens=entry.tokens,
        running=entry.running,
    )
