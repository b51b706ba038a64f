"""Code that the adapters share: coroutines, request checks, histories, findings (remembered tool results)."""

from __future__ import annotations

from turnfold.adapters._common.async_bridge import HookRunner, ThreadBridge
from turnfold.adapters._common.findings import PendingResults, as_finding_text, note_result
from turnfold.adapters._common.fitted_history import (
    FittedRequest,
    HistoryView,
    NumberedMessage,
    added_messages,
    context_with_system,
    function_schema,
    lost_from_window,
    numbered_messages,
    own_groups_last,
    record_usage,
    refuse_redaction,
    remaining_tokens,
    set_system,
    system_texts,
    without_others,
)
from turnfold.adapters._common.framework_history_in_log import (
    GivenRecord,
    LoggedRecord,
    clear_replaced,
    first_name,
    follow_history,
    replace_history,
)
from turnfold.adapters._common.message_parts import (
    can_run,
    is_valid_part,
    opaque_text,
    original_fields,
    part_or_opaque,
    provider_file_note,
    with_original_form,
)
from turnfold.adapters._common.sessions import (
    calling_session,
    count_for,
    nested_conversation,
    nested_session,
    running_tool,
    session_of,
)
from turnfold.adapters._common.visible_log_entries import VisibleEntry, VisibleHistory
from turnfold.records import content_key, longest_overlap
from turnfold.stores import is_home, new_home, short_name

__all__ = (
    "FittedRequest",
    "GivenRecord",
    "HistoryView",
    "HookRunner",
    "LoggedRecord",
    "NumberedMessage",
    "PendingResults",
    "ThreadBridge",
    "VisibleEntry",
    "VisibleHistory",
    "added_messages",
    "as_finding_text",
    "calling_session",
    "can_run",
    "clear_replaced",
    "content_key",
    "context_with_system",
    "count_for",
    "first_name",
    "follow_history",
    "function_schema",
    "is_home",
    "is_valid_part",
    "longest_overlap",
    "lost_from_window",
    "nested_conversation",
    "nested_session",
    "new_home",
    "note_result",
    "numbered_messages",
    "opaque_text",
    "original_fields",
    "own_groups_last",
    "part_or_opaque",
    "provider_file_note",
    "record_usage",
    "refuse_redaction",
    "remaining_tokens",
    "replace_history",
    "running_tool",
    "session_of",
    "set_system",
    "short_name",
    "system_texts",
    "with_original_form",
    "without_others",
)
