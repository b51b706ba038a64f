"""LangChain's agents: `SummarizationMiddleware`, through the hook an agent calls before every model call.

Its state is a list of messages, of which it replaces what it has summarised; the system prompt is the agent's and
stands before it. By default only the last 4,000 tokens of what it replaces are read by the model; both that and the
setting that lets it read everything are measured. It tries a failed summary three times: the pauses between are left
out here, the attempts are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import tenacity.nap
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from bench.contender import Ask, Summarised
from bench.judge import PER_ANSWER
from bench.peers.langchain import CONTENDERS, remembering

__all__ = ("NEEDS", "SUMMARISED")

NEEDS = ("langchain==1.4.7", "langchain-core==1.7.2")

_TRIGGER, _KEEP = 0.8, 0.3
"""Of what the system message leaves: the fractions its documentation uses in its examples."""

_impatient: Any = tenacity.nap
_impatient.time = SimpleNamespace(sleep=lambda _: None)


class _Model(BaseChatModel):
    """A chat model that hands its prompt to the model of the benchmark."""

    answer: Callable[[str], str]

    @property
    def _llm_type(self) -> str:
        return "bench"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the signature of the base class)
        run_manager: Any = None,  # noqa: ANN401, ARG002
        **kwargs: Any,  # noqa: ANN401, ARG002
    ) -> ChatResult:
        said = self.answer("\n".join(each.text for each in messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])


class _Session:
    def __init__(self, budget: int, ask: Ask, trim: int | None) -> None:
        self._budget = budget - PER_ANSWER
        self._model = _Model(answer=ask)
        self._trim = trim
        self._counter = remembering()
        self._system: list[BaseMessage] = []
        self._messages: list[BaseMessage] = []
        self._middleware: SummarizationMiddleware[Any, Any] | None = None

    def add(self, message: BaseMessage) -> None:
        if isinstance(message, SystemMessage):
            self._system = [message]
        else:
            self._messages.append(message)

    def window(self) -> Sequence[BaseMessage]:
        if self._middleware is None:
            room = self._budget - self._counter(self._system)
            self._middleware = SummarizationMiddleware(
                self._model,
                trigger=("tokens", int(room * _TRIGGER)),
                keep=("tokens", int(room * _KEEP)),
                token_counter=self._counter,
                trim_tokens_to_summarize=self._trim,
            )
        state: Any = {"messages": self._messages}
        runtime: Any = None
        update = self._middleware.before_model(state, runtime)
        if update is not None:
            self._messages = [
                each for each in update["messages"] if not isinstance(each, RemoveMessage)
            ]
        return [*self._system, *self._messages]


def _summarised(name: str, trim: int | None, note: str) -> Summarised:
    return Summarised(
        name=f"LangChain SummarizationMiddleware, {name}",
        package="langchain",
        convert=CONTENDERS[0].convert,
        open=lambda budget, ask: _Session(budget, ask, trim),
        read=CONTENDERS[0].read,
        note=note,
    )


SUMMARISED = (
    _summarised(
        "reads everything",
        None,
        "trim_tokens_to_summarize=None; trigger at 80 %, keep 30 % of the room",
    ),
    _summarised(
        "as it comes", 4_000, "trim_tokens_to_summarize=4,000, its default; otherwise the same"
    ),
)
