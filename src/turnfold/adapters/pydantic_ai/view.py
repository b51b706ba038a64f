"""Show a model the session's context in PydanticAI's messages.

The run keeps its history whole; only the request is shaped. The system prompts and instructions of the run become the
session's system message, so that they are counted and shortened with everything else. Two runs on one conversation see
each other's messages, each with its own turn last, because that is the one it must go on with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters

from turnfold.adapters._common import (
    added_messages,
    context_with_system,
    function_schema,
    lost_from_window,
    own_groups_last,
    remaining_tokens,
    set_system,
    system_texts,
)
from turnfold.adapters.pydantic_ai.entries import Restorer
from turnfold.adapters.pydantic_ai.run_log import AgentRunLog
from turnfold.memory import AsyncSession
from turnfold.records import Message
from turnfold.window import Context, Section

__all__ = (
    "RunView",
    "tool_schemas",
)


_OTHER = "another capability"


@dataclass(slots=True)
class RunView:
    """Shapes the model requests of one run."""

    session: AsyncSession
    log: AgentRunLog
    restorer: Restorer
    recall: bool
    """True to bring back folded (compacted) content that matches the user's words."""
    run_id: str | None

    async def shape(
        self, request: ModelRequestContext, history: Sequence[ModelMessage]
    ) -> tuple[ModelRequestContext, str]:
        """Return the request with the session's context instead of the run's history, and the id of the call."""
        added = added_messages(
            history,
            request.messages,
            other=_OTHER,
            remedy="let it work on RunContext.messages, or in prepare_model_request behind turnfold's capability",
        )
        prompts = _system_prompts(history)
        parameters = request.model_request_parameters
        instructions = [part for part in parameters.instruction_parts or () if part.content.strip()]
        texts = [*prompts, *(part.content for part in instructions)]
        await set_system(self.session, texts)
        await self.log.catch_up(history)
        context = await context_with_system(
            self.session,
            texts,
            _newest_prompt(history) if self.recall else None,
            tools=tool_schemas(parameters),
            max_tokens=remaining_tokens(self.session, added, self._cost, other=_OTHER),
        )
        call = self.session.last_call
        fitted = _fitted_texts(context, texts)
        shown = self._messages(context, history, fitted[: len(prompts)] if texts else None)
        fitted_parameters = _with_texts(parameters, instructions, fitted[len(prompts) :])
        messages = [*shown, *added]
        return replace(request, messages=messages, model_request_parameters=fitted_parameters), call

    def _cost(self, message: ModelMessage) -> int:
        return sum(map(self.session.counter.count_message, self.log.records(message)))

    def _messages(
        self, context: Context, history: Sequence[ModelMessage], prompts: Sequence[str] | None
    ) -> list[ModelMessage]:
        newest = history[-1]
        instructions = newest.instructions if isinstance(newest, ModelRequest) else None
        last = self.log.names(newest)
        body = self._own_last(context, self._own_names(history))
        missing = last - {self.restorer.name(record) for record in body}
        if missing:
            raise lost_from_window(
                f"{len(missing)} of the {len(last)} newest parts of this run are", self.session.id
            )
        shown = self.restorer.view(body, instructions=instructions)
        if not last:
            shown.append(newest)  # a request without parts: its instructions are all it says
        system = _system(context, prompts)
        return [ModelRequest(system, instructions=instructions), *shown] if system else shown

    def _own_names(self, history: Sequence[ModelMessage]) -> set[str]:
        """Return the names of this run's records."""
        mine = [message for message in history if message.run_id == self.run_id]
        return {name for message in mine or history[-1:] for name in self.log.names(message)}

    def _own_last(self, context: Context, own: set[str]) -> list[Message]:
        """Return everything but the system message; this run's messages last where runs interleave."""
        body = list(context.messages[context.ends[0] :])
        ordered = own_groups_last(
            body,
            is_result=lambda record: record.role == "tool",
            is_own=lambda group: group[0].role != "tool" and self.restorer.name(group[0]) in own,
        )
        return ordered if ordered is not None else body


def _prompt_text(content: object) -> str:
    """Return the text of a prompt, without its images and files."""
    if isinstance(content, str):
        return content
    items = cast("Sequence[object]", content) if isinstance(content, Sequence) else ()
    return "\n".join(
        item if isinstance(item, str) else str(getattr(item, "content", "")) for item in items
    ).strip()


def tool_schemas(parameters: ModelRequestParameters) -> list[dict[str, object]]:
    """Return the tools of a request as OpenAI's Chat API writes them, to be counted."""
    return [
        function_schema(tool.name, tool.description or "", tool.parameters_json_schema)
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]


def _system_prompts(history: Sequence[ModelMessage]) -> list[str]:
    """Return the lasting system prompts of a history, each text once."""
    texts = [
        part.content
        for message in history
        if isinstance(message, ModelRequest) and len(message.parts) > 1
        for part in message.parts
        if isinstance(part, SystemPromptPart)
        and part.scope == "conversation"
        and part.context_id is None
        and part.content.strip()
    ]
    return list(dict.fromkeys(texts))


def _newest_prompt(history: Sequence[ModelMessage]) -> str | None:
    for message in reversed(history):
        for part in reversed(message.parts):
            if isinstance(part, UserPromptPart):
                return _prompt_text(part.content) or None
    return None


def _fitted_texts(context: Context, texts: list[str]) -> list[str]:
    """Return the system texts, shortened where the system message had to be."""
    shown = system_texts(context)
    return shown if len(shown) == len(texts) else texts


def _with_texts(
    parameters: ModelRequestParameters, instructions: list[InstructionPart], texts: list[str]
) -> ModelRequestParameters:
    if [part.content for part in instructions] == texts:
        return parameters
    shortened = [
        replace(part, content=text) for part, text in zip(instructions, texts, strict=True)
    ]
    return replace(parameters, instruction_parts=shortened)


def _system(context: Context, prompts: Sequence[str] | None) -> list[SystemPromptPart]:
    """Return what leads the request: the run's own system prompts, or the session's system message."""
    if prompts is None:
        prompts = [message.text for message in context.section(Section.SYSTEM)]
    return [SystemPromptPart(text) for text in prompts]
