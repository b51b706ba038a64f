"""What holds for every request of a tool loop, whichever framework sends it: it fits, and no pair is broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnfold import Memory, Message, Session, wire

PAGE = "water and stone 水与石 " * 30
STEPS = 60


def cost(
    session: Session, messages: Sequence[Message], tools: Sequence[Mapping[str, object]]
) -> int:
    """The tokens of a request, as the budget counts them."""
    counter = session.counter
    schemas = counter.count_tools(tools) if tools else 0
    return sum(counter.count_messages(messages)) + schemas + counter.reply


def faults(messages: Sequence[Message]) -> Sequence[object]:
    """What OpenAI's chat interface and Anthropic's would refuse of a request."""
    chat = wire.openai_chat.request(messages, repair=False)
    blocks = wire.anthropic.request(messages, repair=False)
    return [*wire.lint(chat.kwargs, "openai_chat"), *wire.lint(blocks.kwargs, "anthropic")]


def check_requests(
    memory: Memory,
    conversation: str,
    requests: Sequence[Sequence[Message]],
    tools: Sequence[Mapping[str, object]],
) -> None:
    """Check every request of a loop of `STEPS` steps, and that its conversation was folded."""
    session = memory.session(conversation)
    allowed = session.budget.tokens
    costs = [cost(session, messages, tools) for messages in requests]
    assert len(costs) == STEPS + 1
    assert 0.6 * allowed < max(costs) <= allowed, max(costs)
    assert [list(faults(messages)) for messages in requests] == [[]] * len(requests)
    assert session.status().checkpoint
    logged = [call.id for entry in session.history() for call in entry.message.calls]
    assert len(logged) == len(set(logged)) >= STEPS
