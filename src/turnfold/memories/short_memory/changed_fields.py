"""Finds the fields of a session that a caller changed, and merges them into the stored session.

A caller reads a session, changes a field or two and passes the whole session back. The changed fields are found by
comparing it with the values that were read, and only they are written to the stored session. If another writer set the
same field to another value meanwhile, `Conflict` is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, cast

from turnfold.errors import Conflict, InvalidOption
from turnfold.memories.short_memory.values import (
    AsRead,
    FlowContext,
    GlobalState,
    MessageContext,
    MetaInfo,
    SessionValue,
    UserProfile,
    part_from_fields,
    part_to_fields,
)
from turnfold.memory import MemoryMode
from turnfold.records import freeze, thaw

__all__ = (
    "Places",
    "apply_changes",
    "as_read",
    "changes_of",
    "check_derived",
    "settable_of",
    "to_parts",
)


Places: TypeAlias = Mapping[tuple[str, ...], object]
"""Path of a field in a session (the JSON object of design document 003) -> its content; fields never set are left
out."""

_AGENT: Final = "current_agent_key"
_MERGED_BY_FIELD: Final = ("shared", "entities", "agent_slots")
"""Names of the parts of a session's global state that are merged field by field."""
_SET_BY_STORE: Final = ("meta", "updated_at")
_ABSENT: Final = object()


def settable_of(session: SessionValue) -> Places:
    """Return {path: value} of the fields that an application may set and that differ from their defaults."""
    flow, state = part_to_fields(session.flow_context), part_to_fields(session.global_state)
    fresh = part_to_fields(GlobalState())
    found: dict[tuple[str, ...], object] = {}
    _put_changed(found, ("flow_context",), {_AGENT: flow[_AGENT]}, {_AGENT: ""})
    for name, value in state.items():
        if name in _MERGED_BY_FIELD:
            inner = cast("dict[str, object]", value)
            usual = cast("dict[str, object]", fresh[name])
            _put_changed(found, ("global_state", name), inner, usual)
        elif value != fresh[name]:
            found["global_state", name] = value
    profile = part_to_fields(session.user_snapshot)
    _put_changed(found, ("user_snapshot",), profile, part_to_fields(UserProfile()))
    # Copied by way of JSON, so that later changes of the session do not change these values.
    return {place: thaw(freeze(value, path=".".join(place))) for place, value in found.items()}


def to_parts(settable: Places) -> tuple[FlowContext, GlobalState, UserProfile]:
    """Return the parts of a session (JSON object of document 003) that applications may set, with these fields."""
    parts: dict[str, dict[str, object]] = {
        "flow_context": {},
        "global_state": {},
        "user_snapshot": {},
    }
    for place, value in settable.items():
        inner = parts[place[0]]
        for name in place[1:-1]:
            inner = cast("dict[str, object]", inner.setdefault(name, {}))
        inner[place[-1]] = value
    return (
        part_from_fields(FlowContext, parts["flow_context"]),
        part_from_fields(GlobalState, parts["global_state"]),
        part_from_fields(UserProfile, parts["user_snapshot"]),
    )


def as_read(session: SessionValue) -> AsRead:
    """Return a copy of a session's contents (JSON object of document 003), to recognise changed fields later."""
    context = session.message_context
    return AsRead(
        settable_of(session), _derived_of(session), _mode_of(session), context.checkpoint_message_id
    )


def changes_of(session: SessionValue) -> tuple[Places, Places]:
    """Return the changed fields of a session (JSON object of document 003): contents when it was loaded, and now."""
    before: Places = session.as_read.settable if session.as_read else {}
    after = settable_of(session)
    changed = {
        place
        for place in {*before, *after}
        if before.get(place, _ABSENT) != after.get(place, _ABSENT)
    }
    was = {place: value for place, value in before.items() if place in changed}
    now = {place: value for place, value in after.items() if place in changed}
    return was, now


def apply_changes(stored: Places, was: Places, now: Places, *, was_read: bool = True) -> Places:
    """Return the stored fields with the changes applied; raise `Conflict` if another writer changed one of them.

    `was_read` is False for a session that was not read from the memory; the error then says so.
    """
    merged = dict(stored)
    for place in {*was, *now}:
        present, wanted = stored.get(place, _ABSENT), now.get(place, _ABSENT)
        if present not in (was.get(place, _ABSENT), wanted):
            if not was_read:
                raise Conflict(
                    f"{'.'.join(place)} is stored with another value, and this session was not read from the memory: "
                    "nothing was written. Change a session that get_short_memory returned"
                )
            raise Conflict(
                f"{'.'.join(place)} was changed by another writer since this session was read, and nothing was "
                "written: read the session again (get_short_memory) and repeat the change"
            )
        if wanted is _ABSENT:
            merged.pop(place, None)
        else:
            merged[place] = wanted
    return merged


def check_derived(session: SessionValue, current: SessionValue) -> MemoryMode | None:
    """Raise an error if a field that is computed from the log was changed.

    Returns the mode if it was changed, otherwise None.
    """
    given, mode = _derived_of(session), _mode_of(session)
    if session.as_read is not None:
        base = session.as_read.derived
        changed = [place for place in given if given[place] != base.get(place)]
        if changed:
            raise InvalidOption(
                f"{'.'.join(changed[0])} is computed from the log and cannot be set: write_turn and "
                "checkpoint_short_memory change it"
            )
        return None if mode is session.as_read.mode else mode
    usual, present = _derived_of(SessionValue()), _derived_of(current)
    stale = [p for p in given if given[p] not in (usual[p], present[p])]
    if stale:
        raise Conflict(
            f"{'.'.join(stale[0])} differs from the log, and this session was not read from the memory: change a "
            "session that get_short_memory returned"
        )
    return mode if given["message_context", "checkpoint_message_id"] else None


def _put_changed(
    found: dict[tuple[str, ...], object],
    prefix: tuple[str, ...],
    fields: Mapping[str, object],
    usual: Mapping[str, object],
) -> None:
    for name, value in fields.items():
        if name not in usual or value != usual[name]:
            found[*prefix, name] = value


def _derived_of(session: SessionValue) -> Places:
    sources = {
        "meta": part_to_fields(session.meta),
        "flow_context": part_to_fields(session.flow_context),
        "message_context": part_to_fields(session.message_context),
    }
    kinds = {"meta": MetaInfo, "flow_context": FlowContext, "message_context": MessageContext}
    return {
        (part, name): sources[part][name]
        for part, kind in kinds.items()
        for name in part_to_fields(kind())
        if name not in (_AGENT, "mode") and (part, name) != _SET_BY_STORE
    }


def _mode_of(session: SessionValue) -> MemoryMode:
    given: str = session.message_context.mode
    try:
        return MemoryMode(given)
    except ValueError:
        known = ", ".join(MemoryMode)
        raise InvalidOption(f"unknown mode {given!r}; use one of {known}") from None
