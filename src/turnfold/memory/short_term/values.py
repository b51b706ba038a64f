"""What document 003 calls a session: its parts, under the names their JSON has there.

The values are mutable because the document's own code changes them and hands them back. A session that was read
remembers what it was when it was read, so that handing it back changes only what its holder changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.memory.fold_keeper import MemoryMode
from turnfold.records import Message, as_messages
from turnfold.records.json_text import freeze

__all__ = (
    "MEMORY_MODE_FULL_HISTORY",
    "MEMORY_MODE_SUMMARY_N",
    "AsRead",
    "FlowContext",
    "GlobalState",
    "MemoryContext",
    "MemoryWriteResult",
    "MessageContext",
    "MetaInfo",
    "PendingAction",
    "SessionValue",
    "SharedEntities",
    "UserProfile",
    "part_from_fields",
    "part_to_fields",
)

MEMORY_MODE_FULL_HISTORY: Final = MemoryMode.FULL_HISTORY
MEMORY_MODE_SUMMARY_N: Final = MemoryMode.SUMMARY_N


class _Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class MetaInfo(_Part, kw_only=True):
    """Whose conversation it is."""

    conversation_id: str = ""
    user_id: str = ""
    updated_at: int = 0
    """Seconds since 1970 of the newest change; kept by the store."""


class FlowContext(_Part, kw_only=True):
    """Where the conversation stands."""

    current_agent_key: str = ""
    last_bot_message: str = ""
    """Read from the log."""
    turn_count: int = 0
    """Read from the log."""


class MessageContext(_Part, kw_only=True):
    """What is remembered of what was said. All of it but the mode is read from the log and its checkpoints."""

    summary: str = ""
    window_messages: list[Message] = []
    """The newest turns."""
    mode: MemoryMode = MemoryMode.FULL_HISTORY
    checkpoint_message_id: str = ""
    cached_checkpoint: str = ""


class SharedEntities(_Part, kw_only=True):
    """What all agents of a conversation go by; names that are not among the fields are kept in `more`."""

    symptom_summary: str = ""
    disease: str = ""
    target_dept: str = ""
    target_doctor: str = ""
    intent_tag: str = ""
    more: dict[str, object] = {}


class PendingAction(_Part, kw_only=True):
    """A tool call that waits for something; names that are not among the fields are kept in `more`."""

    tool_name: str = ""
    tool_params: dict[str, object] = {}
    reason: str = ""
    more: dict[str, object] = {}


class GlobalState(_Part, kw_only=True):
    """What the agents of a conversation share."""

    shared: SharedEntities = msgspec.field(default_factory=SharedEntities)
    entities: SharedEntities = msgspec.field(default_factory=SharedEntities)
    agent_slots: dict[str, object] = {}
    current_intent: str = ""
    pending_action: PendingAction | None = None


class UserProfile(_Part, kw_only=True):
    """The user as the application knew them."""

    user_id: str = ""
    name: str = ""
    allergies: list[str] = []
    chronic_diseases: list[str] = msgspec.field(default_factory=list[str], name="history")
    surgery_history: list[str] = []
    preferences: list[str] = []


@dataclass(frozen=True, slots=True)
class AsRead:
    """What a session was when it was read."""

    settable: Mapping[tuple[str, ...], object]
    """What the application may set, by place."""
    derived: Mapping[tuple[str, ...], object]
    """What follows from the log, by place."""
    mode: MemoryMode
    checkpoint: str


@dataclass(slots=True, kw_only=True)
class SessionValue:
    """The state of a conversation."""

    meta: MetaInfo = field(default_factory=MetaInfo)
    flow_context: FlowContext = field(default_factory=FlowContext)
    message_context: MessageContext = field(default_factory=MessageContext)
    global_state: GlobalState = field(default_factory=GlobalState)
    user_snapshot: UserProfile = field(default_factory=UserProfile)
    as_read: AsRead | None = field(default=None, repr=False, compare=False)
    """None for a session that was made by hand or came from JSON."""

    def to_json(self) -> str:
        """The documented JSON; refuses what JSON would change."""
        parts = {name: part_to_fields(getattr(self, name)) for name in _PARTS}
        if not self.message_context.cached_checkpoint:
            del parts["message_context"]["cached_checkpoint"]
        return freeze(parts, path="session")

    @classmethod
    def from_json(cls, text: str | bytes) -> SessionValue:
        """A session from the documented JSON. One without a checkpoint is in FULL_HISTORY, whatever it says."""
        try:
            found = msgspec.json.decode(text, type=dict[str, dict[str, object] | None])
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise InvalidRecord(f"not a session: {error}") from None
        unknown = found.keys() - _PARTS.keys()
        if unknown:
            raise InvalidRecord(
                "a session has no such part", path=min(unknown), remedy=f"Use {', '.join(_PARTS)}"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryContext:
    """What a model call is given of a conversation."""

    conversation_id: str
    mode: MemoryMode
    session: SessionValue
    history: str
    """For the prompt: fenced, within the model's context window beside the query."""
    full_history: str
    """For the summariser: the summary so far and the turns since it, oldest first, as far as the window holds them."""
    estimated_tokens: int
    """Cost of the history, turns that found no room in it included."""
    token_ratio: float
    should_checkpoint_summary: bool
    query: str
    upto: int
    """The newest entry of `full_history`: hand it to `checkpoint_short_memory` with the summary of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWriteResult:
    """What a write did."""

    conversation_id: str
    mode: MemoryMode
    updated_at: int
    """Seconds since 1970."""


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


def part_to_fields(part: msgspec.Struct) -> dict[str, object]:
    """A part as JSON has it."""
    fields: dict[str, object] = {}
    for spec in msgspec.structs.fields(part):
        value: object = getattr(part, spec.name)
        if spec.name == "more" and isinstance(part, _WITH_MORE):
            fields.update(_unnamed(part))
        else:
            fields[spec.encode_name] = _to_field(value)
    return fields


def part_from_fields(kind: type[_Kind], fields: Mapping[str, object] | None) -> _Kind:
    """A part from what JSON has; null stands for what was never set."""
    if fields is None:
        return kind()
    known = {spec.encode_name for spec in msgspec.structs.fields(kind)} - {"more"}
    named = {name: value for name, value in fields.items() if name in known and value is not None}
    others = {name: value for name, value in fields.items() if name not in known}
    if kind in _WITH_MORE:
        named["more"] = others
    elif others:
        raise InvalidRecord(f"{kind.__name__} has no such field", path=min(others))
    for name, nested in _NESTED.items():
        inner = named.get(name)
        if isinstance(inner, dict):
            named[name] = part_from_fields(nested, cast("dict[str, object]", inner))
    if named.get("mode") == "":
        del named["mode"]
    window = named.get("window_messages")
    if isinstance(window, list):
        said = cast("list[object]", window)
        named["window_messages"] = as_messages(said, path="window_messages")
    try:
        return msgspec.convert(named, kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidRecord(f"{kind.__name__}: {error}") from None


def _to_field(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return part_to_fields(value)
    if isinstance(value, MemoryMode):
        return value.value
    if isinstance(value, list):
        return [_said(each) for each in cast("list[object]", value)]
    return value


def _said(value: object) -> object:
    if isinstance(value, Message):
        return {"role": value.role, "content": value.text}
    return value


def _unnamed(part: SharedEntities | PendingAction) -> dict[str, object]:
    """The names of `more`; one that is also a field's would hide it."""
    taken = part.more.keys() & {spec.encode_name for spec in msgspec.structs.fields(part)}
    if taken:
        raise InvalidRecord("set the field of this name instead", path=f"more.{min(taken)}")
    return part.more
