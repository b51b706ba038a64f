"""Bodies and answers of document 003's short-term memory, and its session on the wire.

A session that was read goes back with what it was then, so that a change over HTTP is merged field by field exactly as
one in the same process is.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnfold.memory.fold_keeper import MemoryMode
from turnfold.memory.short_term.values import AsRead, SessionValue
from turnfold.service.bodies import Count

__all__ = (
    "AsReadForm",
    "CreateBody",
    "MemoryContextForm",
    "QueryBody",
    "SessionForm",
    "SetBody",
    "ShortCheckpointBody",
    "TurnBody",
    "as_read_form",
    "as_read_value",
    "session_form",
    "session_value",
)

_RECENT: Final = 8


class _Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class SessionForm(msgspec.Struct, kw_only=True):
    """The documented JSON of a session."""

    meta: dict[str, object] = {}
    flow_context: dict[str, object] = {}
    message_context: dict[str, object] = {}
    global_state: dict[str, object] = {}
    user_snapshot: dict[str, object] = {}


class AsReadForm(_Body):
    """What a session was when it was read: only what was changed since is written."""

    settable: list[tuple[tuple[str, ...], object]]
    derived: list[tuple[tuple[str, ...], object]]
    mode: MemoryMode
    checkpoint: str


class CreateBody(_Body):
    """Whose conversation it is."""

    user_id: str = ""
    enterprise_id: str = ""
    patient_id: str = ""
    restart: bool = False


class QueryBody(_Body):
    """What the next model call asks."""

    enterprise_id: str = ""
    patient_id: str = ""
    query: str = ""
    token_threshold_ratio: float = 0.75
    recent_turns: Count = _RECENT
    model_context_window: Count = 16_000


class TurnBody(_Body):
    """A question and its answer."""

    user_id: str = ""
    agent_code: str = ""
    user_query: str = ""
    agent_response: str = ""


class ShortCheckpointBody(_Body):
    """A summary, or a request for one."""

    summary: str | None = None
    recent_turns: Count = _RECENT
    upto: Count | None = None


class SetBody(_Body):
    """A session with changes."""

    session: dict[str, dict[str, object] | None]
    as_read: AsReadForm | None = None
    """Without it every field that is set counts as changed."""


class MemoryContextForm(msgspec.Struct, kw_only=True):
    """What a model call is given of a conversation."""

    conversation_id: str
    mode: MemoryMode
    session: SessionForm
    history: str
    full_history: str
    estimated_tokens: int
    token_ratio: float
    should_checkpoint_summary: bool
    query: str
    upto: int


def session_form(session: SessionValue) -> SessionForm:
    """A session as it is answered."""
    return msgspec.json.decode(session.to_json(), type=SessionForm)


def session_value(form: object) -> SessionValue:
    """A session as it was sent."""
    return SessionValue.from_json(msgspec.json.encode(form))


def as_read_form(read: AsRead) -> AsReadForm:
    """What a session was when it was read, to be sent."""
    return AsReadForm(
        settable=list(read.settable.items()),
        derived=list(read.derived.items()),
        mode=read.mode,
        checkpoint=read.checkpoint,
    )


def as_read_value(form: AsReadForm) -> AsRead:
    """What a session was when it was read, as it was sent."""
    return AsRead(dict(form.settable), dict(form.derived), form.mode, form.checkpoint)
