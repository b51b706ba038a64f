"""LangChain agents whose model is a script, and what may be said of every prompt it received."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from turnfold import AsyncMemory, Budget, Memory, Message, wire
from turnfold.adapters._common import GivenRecord, LoggedRecord
from turnfold.adapters.langchain import langchain_messages, record_of, turnfold_middleware
from turnfold.memory import AsyncSession, Session
from turnfold.records import Entry, NewEntry, system

Step = Callable[[int], AIMessage]

SMALL = Budget(max_tokens=3_000)
PAGE = "An entry about the harbour of Ålesund, its depth and its tides. 港口水深与潮汐。 " * 8
MANY: Any = {"recursion_limit": 1000}


@dataclass
class Prompt:
    """What the model was sent once."""

    messages: list[BaseMessage]
    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


class Watched(BaseChatModel):
    """A model that answers by script and keeps what it was sent."""

    step: Step
    _prompts: list[Prompt] = PrivateAttr(default_factory=list[Prompt])

    @property
    def prompts(self) -> list[Prompt]:
        return self._prompts

    @property
    def _llm_type(self) -> str:
        return "watched"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager
        self._prompts.append(Prompt(list(messages), kwargs.get("tools", [])))
        return ChatResult(generations=[ChatGeneration(message=self.step(len(self._prompts)))])


def looping(steps: int, *, answer: str = "done") -> Step:
    """Calls the tool `look` so many times in a row, then answers."""

    def step(number: int) -> AIMessage:
        if number % (steps + 1):
            return calling("look", {"at": number}, number, said=f"thought {number}")
        return AIMessage(f"{answer} {number}")

    return step


def calling(name: str, args: dict[str, Any], number: int, *, said: str = "") -> AIMessage:
    call = {"name": name, "args": args, "id": f"call-{number}", "type": "tool_call"}
    return AIMessage(said, tool_calls=[call])


def answering(*texts: str) -> Step:
    return lambda number: AIMessage(texts[min(number, len(texts)) - 1])


def check_prompt(prompt: Prompt, session: AsyncSession | Session) -> int:
    """Within the budget by our own count and without a fault by any provider's rules; the count."""
    said = [one for one in prompt.messages if not isinstance(one, SystemMessage)]
    told = [str(one.text) for one in prompt.messages if isinstance(one, SystemMessage)]
    records: list[Message] = [record_of(one) for one in said]
    if told:
        records.insert(0, system([{"type": "text", "text": text} for text in told]))
    counted = session.counter.count(records, tools=prompt.tools).tokens
    assert counted <= session.budget.tokens, (counted, session.budget.tokens)
    for provider in ("openai_chat", "anthropic", "openai_responses", "gemini"):
        written = getattr(wire, provider).request(records, repair=False)
        assert wire.lint(written.kwargs, provider) == (), provider
    return counted


def words(prompt: Prompt) -> str:
    return "\n".join(str(one.text) for one in prompt.messages)


def user_words(messages: Sequence[BaseMessage]) -> list[str]:
    return [str(one.text) for one in messages if isinstance(one, HumanMessage)]


@tool
def look(at: int) -> str:
    """Look at an entry."""
    return f"entry {at}: {PAGE}"


def agent_of(
    model: Watched,
    memory: Memory | Session | AsyncMemory | AsyncSession,
    *,
    checkpointer: Any = None,
    system_prompt: str | None = "You look things up.",
    tools: Sequence[Any] = (look,),
    before: Sequence[Any] = (),
    behind: Sequence[Any] = (),
    **more: Any,
) -> Any:
    return create_agent(
        model,
        list(tools),
        system_prompt=system_prompt,
        middleware=[*before, turnfold_middleware(memory, **more), *behind],
        checkpointer=checkpointer,
    )


async def appending(session: AsyncSession, given: Sequence[GivenRecord], **_: Any) -> Any:
    """Stores what is not in the log yet and leaves the rest as it is: for sabotage of `follow_history`."""
    known = {one.client_id: one for one in await session.by_client_id([one.name for one in given])}
    new = [NewEntry(one.record, one.name) for one in given if one.name not in known]
    first = (await session.add(new)).first if new else 0
    seqs = {one.client_id: first + at for at, one in enumerate(new)}
    seqs |= {name: one.seq for name, one in known.items()}
    return [LoggedRecord(seqs[one.name], one.record) for one in given]


def log_of(session: Session) -> list[Entry]:
    found: list[Entry] = []
    while page := session.history(after=found[-1].seq if found else 0, limit=500):
        found += page
    return found


def logged(session: Session) -> list[BaseMessage]:
    return langchain_messages(
        [one.message for one in log_of(session) if one.message.role != "system"]
    )


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name}, **MANY}


def asked(*texts: str) -> Any:
    return {"messages": [("user", text) for text in texts]}
