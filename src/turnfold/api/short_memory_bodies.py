"""Request and response bodies of the short-term memory (`ShortMemory`).

A changed session is sent with the values it had when it was read, so that the service can merge the changed fields with
changes by other writers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnfold.api.request_bodies import Body, Count
from turnfold.memories import AsRead, SessionValue
from turnfold.memory import MemoryMode

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


class SessionForm(msgspec.Struct, kw_only=True):
    """A session of the short-term memory in its documented JSON form."""

    meta: dict[str, object] = {}
    flow_context: dict[str, object] = {}
    message_context: dict[str, object] = {}
    global_state: dict[str, object] = {}
    user_snapshot: dict[str, object] = {}


class AsReadForm(Body):
    """The values that a session had when the client read it, so that only fields changed since then are written."""

    settable: list[tuple[tuple[str, ...], object]]
    derived: list[tuple[tuple[str, ...], object]]
    mode: MemoryMode
    checkpoint: str


class CreateBody(Body):
    """Request body that starts a conversation of the short-term memory: its owner."""

    user_id: str = ""
    enterprise_id: str = ""
    patient_id: str = ""
    restart: bool = True


class QueryBody(Body):
    """Request body: options of the short-term memory's context for the next model call."""

    enterprise_id: str = ""
    patient_id: str = ""
    query: str = ""
    token_threshold_ratio: float = 0.75
    recent_turns: Count = _RECENT
    model_context_window: Count = 16_000


class TurnBody(Body):
    """Request body that appends one turn: the user's question and the agent's answer."""

    user_id: str = ""
    agent_code: str = ""
    user_query: str = ""
    agent_response: str = ""


class ShortCheckpointBody(Body):
    """Request body of a checkpoint: the summary to store; if it is missing, the summarizer writes one."""

    summary: str | None = None
    recent_turns: Count = _RECENT
    upto: Count | None = None


class SetBody(Body):
    """Request body that stores a changed session."""

    session: dict[str, dict[str, object] | None]
    as_read: AsReadForm | None = None
    """The values that the session had when the client read it; if missing, every given field counts as changed."""


class MemoryContextForm(msgspec.Struct, kw_only=True):
    """Context of a short-term memory's conversation for one model call."""

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
    """Return a session of the short-term memory as a response body."""
    return msgspec.json.decode(session.to_json(), type=SessionForm)


def session_value(form: object) -> SessionValue:
    """Return the session of the short-term memory that a request body contains."""
    return SessionValue.from_json(msgspec.json.encode(form))


def as_read_form(read: AsRead) -> AsReadForm:
    """Return the form in which a request body has a session's fields as the client had read them."""
    return AsReadForm(
        settable=list(read.settable.items()),
        derived=list(read.derived.items()),
        mode=read.mode,
        checkpoint=read.checkpoint,
    )


def as_read_value(form: AsReadForm) -> AsRead:
    """Return from a request body the values of a session as the client had read them."""
    return AsRead(dict(form.settable), dict(form.derived), form.mode, form.checkpoint)
