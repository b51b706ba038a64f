"""langmem: `summarize_messages`, called before every model call with the whole history, as its documentation shows.

It begins to summarise when the messages since the last summary reach `max_tokens_before_summary`, and takes them from
the oldest up to that mark. The documentation sets that to `max_tokens`; beside a summary and a system message the
window would then be over the budget before every summary, so it is set to what they leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.runnables import RunnableLambda
from langmem.short_term import RunningSummary, summarize_messages

from bench.contender import Ask, Summarised
from bench.judge import PER_ANSWER
from bench.peers.langchain import CONTENDERS, remembering

__all__ = ("NEEDS", "SUMMARISED")

NEEDS = ("langmem==0.0.30", "langchain==1.4.7", "langchain-core==1.7.2")

_SUMMARY_TOKENS = 256
"""Its default for the room a summary takes."""
_FRAMING = 30
"""Tokens of the sentence that introduces a summary, and of its message."""


class _Session:
    def __init__(self, budget: int, ask: Ask) -> None:
        self._budget = budget - PER_ANSWER
        self._messages: list[BaseMessage] = []
        self._running: RunningSummary | None = None
        self._counter = remembering()

        def answer(prompt: Sequence[BaseMessage]) -> AIMessage:
            return AIMessage(ask("\n".join(f"{each.type}: {each.text}" for each in prompt)))

        self._model = RunnableLambda(answer)

    def add(self, message: BaseMessage) -> None:
        self._messages.append(message)

    def window(self) -> Sequence[BaseMessage]:
        system = [each for each in self._messages[:1] if isinstance(each, SystemMessage)]
        room = self._budget - self._counter(system) - _SUMMARY_TOKENS - _FRAMING
        result = summarize_messages(
            list(self._messages),
            running_summary=self._running,
            model=self._model,
            max_tokens=self._budget,
            max_tokens_before_summary=room,
            max_summary_tokens=_SUMMARY_TOKENS,
            token_counter=self._counter,
        )
        self._running = result.running_summary or self._running
        return result.messages


SUMMARISED = (
    Summarised(
        name="langmem summarize_messages",
        package="langmem",
        convert=CONTENDERS[0].convert,
        open=_Session,
        read=CONTENDERS[0].read,
        note="an exact counter with a user's memo; max_tokens at the budget, a summary of 256 tokens",
    ),
)
