"""What an application may say of a conversation, and when it contradicts what was said before.

A conversation belongs to one enterprise, one patient and one user. The first to name them is believed; one who names
others is refused, without being told whose it is.
"""

from __future__ import annotations

import msgspec

from turnfold.errors import InvalidOption
from turnfold.memory.fold_keeper import MemoryMode
from turnfold.memory.short_term.merge import Places
from turnfold.memory.short_term.standing import SessionNote
from turnfold.memory.short_term.values import SessionValue
from turnfold.records.json_text import check_text

__all__ = ("bound_to", "chosen_mode", "with_settings")

_AGENT = ("flow_context", "current_agent_key")


def bound_to(
    note: SessionNote,
    *,
    user_id: str = "",
    enterprise_id: str = "",
    patient_id: str = "",
    agent_code: str = "",
) -> SessionNote:
    """The note with what was not known yet."""
    known = {
        "user_id": (note.user_id, user_id),
        "enterprise_id": (note.enterprise_id, enterprise_id),
        "patient_id": (note.patient_id, patient_id),
    }
    for name, (kept, given) in known.items():
        if kept and given and kept != given:
            raise InvalidOption(
                f"this conversation belongs to another {name} than the one given: use another conversation_id, or "
                "a scope per tenant"
            )
        check_text(given, path=name)
    fresh = {name: given for name, (kept, given) in known.items() if given and not kept}
    changed = msgspec.structs.replace(note, **fresh) if fresh else note
    if not agent_code or changed.places.get(_AGENT) == agent_code:
        return changed
    check_text(agent_code, path="agent_code")
    return with_settings(changed, {**changed.places, _AGENT: agent_code}, None)


def with_settings(note: SessionNote, places: Places, full_after: str | None) -> SessionNote:
    """The note with other settings; `full_after` "" ends showing everything, None leaves that as it is."""
    settings = tuple(sorted(places.items(), key=lambda item: item[0]))
    kept = note.full_after if full_after is None else full_after or None
    return msgspec.structs.replace(note, settings=settings, full_after=kept)


def chosen_mode(
    session: SessionValue, mode: MemoryMode | None, current: SessionValue
) -> str | None:
    """Which checkpoint is to give way to the whole history; "" for none any more, None where nothing was chosen."""
    if mode is None:
        return None
    read_at = session.message_context.checkpoint_message_id
    if mode is MemoryMode.SUMMARY_N:
        if not current.message_context.checkpoint_message_id:
            raise InvalidOption(
                "mode SUMMARY_N needs a checkpoint, and there is none: checkpoint_short_memory makes one"
            )
        return ""
    return read_at or None
