"""PydanticAI agents whose model is a script, and what may be said of every prompt it received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from turnfold import AsyncMemory, Budget, Message, wire
from turnfold.adapters.pydantic_ai import model_messages, records_of, turnfold_capability
from turnfold.adapters.pydantic_ai.capability import tool_schemas
from turnfold.memory import AsyncSession, Session
from turnfold.records import Entry, system

Step = Callable[[int], ModelResponse]


@dataclass
class Watched:
    """A model that answers by script and keeps what it was sent."""

    step: Step
    prompts: list[tuple[list[ModelMessage], AgentInfo]] = field(
        default_factory=list[tuple[list[ModelMessage], AgentInfo]]
    )

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self.answer, stream_function=self._stream, model_name="watched")

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.prompts.append((list(messages), info))
        return self.step(len(self.prompts))

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        answer = self.answer(messages, info)
        for index, part in enumerate(answer.parts):
            if isinstance(part, TextPart):
                for word in part.content.split(" "):
                    yield word + " "
            elif isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str())}

    def words(self, at: int = -1) -> str:
        """Everything the prompt says, instructions aside."""
        return "\n".join(record.text for record in prompt_records(self.prompts[at][0]))


def looping(steps: int, *, answer: str = "done", thinking: bool = True) -> Step:
    """Calls the tool `look` so many times in a row, then answers."""

    def step(number: int) -> ModelResponse:
        if number % (steps + 1):
            words = [TextPart(f"thought {number}")] if thinking else []
            return ModelResponse([*words, ToolCallPart("look", {"at": number})])
        return ModelResponse([TextPart(f"{answer} {number}")])

    return step


def answering(*texts: str) -> Step:
    return lambda number: ModelResponse([TextPart(texts[min(number, len(texts)) - 1])])


def prompt_records(messages: Sequence[ModelMessage]) -> list[Message]:
    """What a model received, as records: system prompts first, where a provider puts them."""
    prompts = [
        system(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, SystemPromptPart)
    ]
    said: list[Message] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            kept = [part for part in message.parts if not isinstance(part, SystemPromptPart)]
            said += records_of(ModelRequest(kept)) if kept else []
        else:
            said += records_of(message)
    return prompts + said


def check_prompt(messages: Sequence[ModelMessage], info: AgentInfo, session: AsyncSession) -> int:
    """Within the budget by our own count and without a fault by any provider's rules; the count."""
    records = prompt_records(messages)
    tools = tool_schemas(info.model_request_parameters)
    if info.instructions:
        records.insert(0, system(info.instructions))
    counted = session.counter.count(records, tools=tools).tokens
    # One system message is framed once by the session; the same texts are two messages here.
    framing = 3 * session.counter.framing.message
    assert counted <= session.budget.tokens + framing, (counted, session.budget.tokens)
    for provider in ("openai_chat", "anthropic", "openai_responses", "gemini"):
        written = getattr(wire, provider).request(records, repair=False)
        assert wire.lint(written.kwargs, provider) == (), provider
    return counted


def user_words(messages: Sequence[ModelMessage]) -> list[str]:
    return [
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


SMALL = Budget(max_tokens=3_000)
MANY = UsageLimits(request_limit=400)
PAGE = "An entry about the harbour of Ålesund, its depth and its tides. 港口水深与潮汐。 " * 8


def with_memory(work: Callable[[AsyncMemory], Awaitable[None]], *, budget: Budget = SMALL) -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=budget) as memory:
            await work(memory)

    asyncio.run(main())


async def log_of(session: AsyncSession) -> list[Entry]:
    found: list[Entry] = []
    while page := await session.history(after=found[-1].seq if found else 0, limit=500):
        found += page
    return found


async def logged(session: AsyncSession) -> list[ModelMessage]:
    entries = await log_of(session)
    return model_messages([one.message for one in entries if one.message.role != "system"])


def dumped(messages: Sequence[ModelMessage]) -> bytes:
    return ModelMessagesTypeAdapter.dump_json(list(messages))


def agent_of(
    watched: Watched, session: AsyncSession | AsyncMemory | Session, **more: object
) -> Agent:
    agent = Agent(
        watched.model,
        instructions="Answer briefly.",
        system_prompt="You look things up.",
        capabilities=[turnfold_capability(session, **more)],  # pyright: ignore[reportArgumentType]
    )

    @agent.tool_plain
    def look(at: int) -> str:
        """Look at an entry."""
        return f"entry {at}: {PAGE}"

    del look
    return agent
