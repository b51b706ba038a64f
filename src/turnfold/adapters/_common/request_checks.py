"""Checks of model requests, and parts of requests that all adapters build in the same way.

Frameworks let other components edit the same request. Messages that they add are kept. A request whose history they
changed is refused: turnfold would send the log's version of it, and so undo, for example, a redaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from turnfold.errors import Conflict, InvalidOption
from turnfold.memory import AsyncMemory, AsyncSession
from turnfold.records import Usage
from turnfold.stores import redaction_of

__all__ = (
    "added_messages",
    "function_schema",
    "lost_from_window",
    "own_groups_last",
    "record_usage",
    "refuse_redaction",
    "remaining_tokens",
)


_Message = TypeVar("_Message")


def refuse_redaction(memory: AsyncMemory | AsyncSession, *, adapter: str) -> None:
    """Raise `InvalidOption` for a memory with `redact=`: the adapter could not find its messages in the log."""
    if redaction_of(memory.store) is not None:
        raise InvalidOption(
            f"{adapter} cannot use a memory with redact=: it finds the messages of a run in the log by their content, "
            "and the framework's state holds them as they were. Use a memory without redact=, and redact before the run"
        )


def added_messages(
    history: Sequence[_Message], request: Sequence[_Message], *, other: str, remedy: str
) -> list[_Message]:
    """Return the request's messages that are not in `history`; raise `InvalidOption` if a message of it is missing."""
    known = {id(message) for message in history}
    added = [message for message in request if id(message) not in known]
    changed = len(history) - (len(request) - len(added))
    if changed:
        raise InvalidOption(
            f"{other} removed or replaced {changed} of the {len(history)} history messages in a model request, which "
            f"only turnfold may do: {remedy}"
        )
    return added


def remaining_tokens(
    session: AsyncSession,
    added: Sequence[_Message],
    count: Callable[[_Message], int],
    *,
    other: str,
) -> int:
    """Return the tokens of the budget that `added` messages leave.

    Returns 0, which means no limit, if there are no such messages.
    """
    if not added:
        return 0
    cost, allowed = sum(map(count, added)), session.budget.tokens
    if cost >= allowed:
        raise InvalidOption(
            f"{other} adds {len(added)} messages with {cost:,} tokens, but a request may have only {allowed:,}: "
            "let it add less, or raise the budget"
        )
    return allowed - cost


def function_schema(
    name: str, description: str, parameters: Mapping[str, object]
) -> dict[str, object]:
    """Return a tool in the form of OpenAI's Chat API, so that its tokens can be counted."""
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def own_groups_last(
    messages: Sequence[_Message],
    *,
    is_result: Callable[[_Message], bool],
    is_own: Callable[[Sequence[_Message]], bool],
) -> list[_Message] | None:
    """Return the messages, with those of this run after those of other runs on the same conversation.

    Returns None if it has none.

    A model continues the last message, and each run must continue its own turn. A tool result stays in the group of its
    call. The order is unchanged if the last group is this run's.
    """
    groups: list[list[_Message]] = []
    for message in messages:
        if is_result(message) and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    if not groups or is_own(groups[-1]):
        return list(messages)
    mine = [group for group in groups if is_own(group)]
    others = [group for group in groups if not is_own(group)]
    return [message for group in others + mine for message in group] if mine else None


def lost_from_window(what: str, conversation: str) -> Conflict:
    """Return the error for messages of a run that are no longer in the window (the messages sent to the model)."""
    return Conflict(
        f"{what} no longer in the window of conversation {conversation!r}: another run added messages and moved the "
        "window forward. Give each run a "
        "conversation of its own, or a larger budget"
    )


async def record_usage(session: AsyncSession, usage: Usage, *, call: str) -> None:
    """Store the token usage that a provider reported for a call; a report without input tokens is ignored."""
    if call and usage.input:
        await session.record_usage(usage, call=call)
