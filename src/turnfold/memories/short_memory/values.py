"""Value classes of `ShortMemory`: the session and its parts, requests and results.

They have the names of design document 003.

The values are mutable because the document's own code changes them and passes them back. A session keeps a copy of the
values it was read with (`as_read`), so that storing it writes only the changed fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.memory import MemoryMode
from turnfold.records import Message, as_messages, freeze

__all__ = (
    "MEMORY_MODE_FULL_HISTORY",
    "MEMORY_MODE_SUMMARY_N",
    "AgentRequest",
    "AsRead",
    "FlowContext",
    "GlobalState",
    "MemoryContext",
    "MemoryQueryRequest",
    "MemoryWriteRequest",
    "MemoryWriteResult",
    "MessageContext",
    "MetaInfo",
    "PendingAction",
    "SessionValue",
    "SharedEntities",
    "UserProfile",
    "part_from_fields",
    "part_to_fields",
    "request_options",
)


MEMORY_MODE_FULL_HISTORY: Final = MemoryMode.FULL_HISTORY
MEMORY_MODE_SUMMARY_N: Final = MemoryMode.SUMMARY_N


class _Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class MetaInfo(_Part, kw_only=True):
    """The ids of a conversation and its user, and when it last changed."""

    conversation_id: str = ""
    user_id: str = ""
    updated_at: int = 0
    """Time of the newest change in seconds since 1970; set by the store."""


class FlowContext(_Part, kw_only=True):
    """The progress of the conversation: current agent, last answer, number of turns."""

    current_agent_key: str = ""
    last_bot_message: str = ""
    """Newest answer of the assistant; computed from the log."""
    turn_count: int = 0
    """Number of turns since the last restart; computed from the log."""


class MessageContext(_Part, kw_only=True):
    """Summary and newest turns; all fields but the mode are computed from the log and its checkpoints (summaries)."""

    summary: str = ""
    window_messages: list[Message] = []
    """User and assistant messages of the newest turns."""
    mode: MemoryMode = MemoryMode.FULL_HISTORY
    checkpoint_message_id: str = ""
    cached_checkpoint: str = ""


class SharedEntities(_Part, kw_only=True):
    """Entities that all agents of a conversation share; JSON fields with other names are stored in `more`."""

    symptom_summary: str = ""
    disease: str = ""
    target_dept: str = ""
    target_doctor: str = ""
    intent_tag: str = ""
    more: dict[str, object] = {}


class PendingAction(_Part, kw_only=True):
    """A tool call that was not made yet, and the reason; JSON fields with other names are stored in `more`."""

    tool_name: str = ""
    tool_params: dict[str, object] = {}
    reason: str = ""
    more: dict[str, object] = {}


class GlobalState(_Part, kw_only=True):
    """State that the agents of a conversation share."""

    shared: SharedEntities = msgspec.field(default_factory=SharedEntities)
    entities: SharedEntities = msgspec.field(default_factory=SharedEntities)
    agent_slots: dict[str, object] = {}
    current_intent: str = ""
    pending_action: PendingAction | None = None


class UserProfile(_Part, kw_only=True):
    """Facts that the application knows about the user."""

    user_id: str = ""
    name: str = ""
    allergies: list[str] = []
    chronic_diseases: list[str] = msgspec.field(default_factory=list[str], name="history")
    surgery_history: list[str] = []
    preferences: list[str] = []


@dataclass(frozen=True, slots=True)
class AsRead:
    """Contents of a session (JSON object of document 003) when it was loaded, to find changed fields later."""

    settable: Mapping[tuple[str, ...], object]
    """Fields of the session that the application may set, by path."""
    derived: Mapping[tuple[str, ...], object]
    """Fields of the session that are computed from the log, by path."""
    mode: MemoryMode
    checkpoint: str


@dataclass(slots=True, kw_only=True)
class SessionValue:
    """The session value of a conversation: the JSON object of design document 003 with its five parts."""

    meta: MetaInfo = field(default_factory=MetaInfo)
    flow_context: FlowContext = field(default_factory=FlowContext)
    message_context: MessageContext = field(default_factory=MessageContext)
    global_state: GlobalState = field(default_factory=GlobalState)
    user_snapshot: UserProfile = field(default_factory=UserProfile)
    as_read: AsRead | None = field(default=None, repr=False, compare=False)
    """Contents of the session when it was loaded; None if the object was constructed or parsed from JSON."""

    def to_json(self) -> str:
        """Return the documented JSON; raises `InvalidRecord` for values that JSON cannot represent exactly."""
        parts = {name: part_to_fields(getattr(self, name)) for name in _PARTS}
        if not self.message_context.cached_checkpoint:
            del parts["message_context"]["cached_checkpoint"]
        return freeze(parts, path="session")

    @classmethod
    def from_json(cls, text: str | bytes) -> SessionValue:
        """Parse a session from the JSON of document 003. Without a checkpoint the mode becomes FULL_HISTORY."""
        try:
            found = msgspec.json.decode(text, type=dict[str, dict[str, object] | None])
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise InvalidRecord(f"this is not the JSON object of a session: {error}") from None
        unknown = found.keys() - _PARTS.keys()
        if unknown:
            raise InvalidRecord(
                "a session has no part of this name",
                path=min(unknown),
                remedy=f"Use {', '.join(_PARTS)}",
            )
        session = cls(
            meta=part_from_fields(MetaInfo, found.get("meta")),
            flow_context=part_from_fields(FlowContext, found.get("flow_context")),
            message_context=part_from_fields(MessageContext, found.get("message_context")),
            global_state=part_from_fields(GlobalState, found.get("global_state")),
            user_snapshot=part_from_fields(UserProfile, found.get("user_snapshot")),
        )
        if not session.message_context.checkpoint_message_id:
            session.message_context.mode = MemoryMode.FULL_HISTORY
        return session


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """Arguments of `create_short_memory` as one object (`CreateShortMemory` in the document)."""

    conversation_id: str
    user_id: str = ""
    enterprise_id: str = ""
    patient_id: str = ""


@dataclass(frozen=True, slots=True)
class MemoryQueryRequest:
    """Arguments of `query_memory_context` as one object; 0 means the default of the memory."""

    conversation_id: str
    enterprise_id: str = ""
    patient_id: str = ""
    query: str = ""
    token_threshold_ratio: float = 0
    recent_turns: int = 0
    model_context_window: int = 0


@dataclass(frozen=True, slots=True)
class MemoryWriteRequest:
    """Arguments of `write_turn` as one object (`WriteTurn` in the document)."""

    conversation_id: str
    user_id: str = ""
    agent_code: str = ""
    user_query: str = ""
    agent_response: str = ""


def request_options(
    request: AgentRequest | MemoryQueryRequest | MemoryWriteRequest, *given: object
) -> dict[str, Any]:
    """Return the fields of a request object as options; raise `InvalidOption` if options were passed too."""
    if any(each not in (None, "") for each in given):
        raise InvalidOption(
            f"pass either a {type(request).__name__}, or the conversation id and options, but not both"
        )
    found = {each.name: getattr(request, each.name) for each in fields(request)}
    return {name: value for name, value in found.items() if value or name == "conversation_id"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryContext:
    """The result of a query: the history of a conversation for one model call."""

    conversation_id: str
    mode: MemoryMode
    session: SessionValue
    history: str
    """History as text for the prompt, fenced (marked as data); with the query it fits the model's context window."""
    full_history: str
    """Text for the summariser: the summary so far and the turns after it, oldest first, as many as fit the window."""
    estimated_tokens: int
    """Tokens of the history, including turns that did not fit."""
    token_ratio: float
    should_checkpoint_summary: bool
    query: str
    upto: int
    """Seq of the newest entry in `full_history`: pass it to `checkpoint_short_memory` with the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWriteResult:
    """The result of `write_turn`: the stored turn."""

    conversation_id: str
    mode: MemoryMode
    updated_at: int
    """Time of the write, in seconds since 1970."""


_PARTS: Final = {
    "meta": MetaInfo,
    "flow_context": FlowContext,
    "message_context": MessageContext,
    "global_state": GlobalState,
    "user_snapshot": UserProfile,
}
_WITH_MORE: Final = (SharedEntities, PendingAction)
_NESTED: Final[Mapping[str, type[_Part]]] = {
    "shared": SharedEntities,
    "entities": SharedEntities,
    "pending_action": PendingAction,
}
_Kind = TypeVar("_Kind", bound=msgspec.Struct)


@cache
def _specs(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the field descriptions of a part of a session value (JSON object of document 003).

    They are cached, because msgspec computes them at each call.
    """
    return msgspec.structs.fields(kind)


def part_to_fields(part: msgspec.Struct) -> dict[str, object]:
    """Convert a part of a session value (object of document 003) to its JSON fields."""
    found: dict[str, object] = {}
    for spec in _specs(type(part)):
        value: object = getattr(part, spec.name)
        if spec.name == "more" and isinstance(part, _WITH_MORE):
            found.update(_extra_fields(part))
        else:
            found[spec.encode_name] = _to_field(value)
    return found


def part_from_fields(kind: type[_Kind], fields: Mapping[str, object] | None) -> _Kind:
    """Convert JSON fields to a part of a session (document 003); null means that a field was never set."""
    if fields is None:
        return kind()
    known = {spec.encode_name for spec in _specs(kind)} - {"more"}
    named = {name: value for name, value in fields.items() if name in known and value is not None}
    others = {name: value for name, value in fields.items() if name not in known}
    if kind in _WITH_MORE:
        named["more"] = others
    elif others:
        raise InvalidRecord(f"{kind.__name__} does not have a field of this name", path=min(others))
    for name, nested in _NESTED.items():
        inner = named.get(name)
        if isinstance(inner, dict):
            named[name] = part_from_fields(nested, cast("dict[str, object]", inner))
    if named.get("mode") == "":
        del named["mode"]
    window = named.get("window_messages")
    if isinstance(window, list):
        messages = cast("list[object]", window)
        named["window_messages"] = as_messages(messages, path="window_messages")
    try:
        return msgspec.convert(named, kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidRecord(f"the fields of {kind.__name__} are not valid: {error}") from None


def _to_field(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return part_to_fields(value)
    if isinstance(value, MemoryMode):
        return value.value
    if isinstance(value, list):
        return [_message_form(each) for each in cast("list[object]", value)]
    return value


def _message_form(value: object) -> object:
    if isinstance(value, Message):
        return {"role": value.role, "content": value.text}
    return value


def _extra_fields(part: SharedEntities | PendingAction) -> dict[str, object]:
    """Return the JSON fields in `more`; raise `InvalidRecord` if one has the name of a declared field."""
    taken = part.more.keys() & {spec.encode_name for spec in _specs(type(part))}
    if taken:
        raise InvalidRecord(
            "this is the name of a declared field: set the field itself, not an entry of `more`",
            path=f"more.{min(taken)}",
        )
    return part.more
