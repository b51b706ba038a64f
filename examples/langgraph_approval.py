"""A LangGraph agent that asks a person before it pays, and continues in another process after the answer.

    python -m examples.langgraph_approval user-42 "Refund order A-1007, 退款 88 元"
    python -m examples.langgraph_approval user-42 --approve
    python -m examples.langgraph_approval user-42 --reject "Ask the customer for the receipt first"

Needs `pip install ".[langchain]" langchain-openai` and OPENAI_API_KEY. Conversation and checkpoints are in one
store: TURNFOLD_STORE, by default a SQLite file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.types import Command

from turnfold import Budget, Memory
from turnfold.adapters.langchain import TurnfoldSaver, turnfold_middleware

MODEL = os.environ.get("TURNFOLD_MODEL", "openai:gpt-4o")
STORE = os.environ.get("TURNFOLD_STORE", "sqlite:///refunds.db")


@tool
def refund(order: str, amount: int) -> str:
    """退款。Pay an amount of money back for an order."""
    return f"refunded {amount} for {order}"


def answer(memory: Memory, model: BaseChatModel, thread: str, given: Mapping[str, Any]) -> str:
    """Give the agent a message or a decision; return its answer, or the question to the person who approves."""
    agent: Any = create_agent(
        model,
        tools=[refund],
        system_prompt="You are a support agent. Be brief.",
        middleware=[
            turnfold_middleware(memory),
            HumanInTheLoopMiddleware(interrupt_on={"refund": True}),
        ],
        checkpointer=TurnfoldSaver(memory),
    )
    work = Command(resume=given) if "decisions" in given else given
    state = agent.invoke(work, {"configurable": {"thread_id": thread}})
    waiting = [
        action
        for each in state.get("__interrupt__", ())
        for action in each.value["action_requests"]
    ]
    if waiting:
        calls = ", ".join(f"{action['name']}({action['args']})" for action in waiting)
        return f"waits for approval: {calls}"
    return str(state["messages"][-1].content)


def main(arguments: Sequence[str], model: BaseChatModel) -> None:
    """Run one step of a conversation."""
    match list(arguments):
        case [thread, "--approve"]:
            given: dict[str, Any] = {"decisions": [{"type": "approve"}]}
        case [thread, "--reject", reason]:
            given = {"decisions": [{"type": "reject", "message": reason}]}
        case [thread, said]:
            given = {"messages": [("user", said)]}
        case _:
            sys.exit(__doc__)
    with Memory(STORE, budget=Budget(max_tokens=8_000)) as memory:
        print(answer(memory, model, thread, given))


if __name__ == "__main__":
    main(sys.argv[1:], init_chat_model(MODEL))
