"""What a model is shown of a run: the session's context, in PydanticAI's messages.

The run keeps its history whole; only the request is shaped. The system prompts and instructions of the run are the
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
from pydantic_ai.tools import ToolDefinition

from turnfold.adapters.pydantic_ai.restoring import Restorer
from turnfold.adapters.pydantic_ai.run_log import RunLog
from turnfold.errors import Conflict, InvalidOption
from turnfold.memory.one_place import added_to
from turnfold.memory.session import AsyncSession
from turnfold.memory.told_context import told_context
from turnfold.records import Message
from turnfold.window import Context, Section

__all__ = ("View", "tool_schemas")


@dataclass(slots=True)
class View:
    """Shapes the requests of one run."""

    session: AsyncSession
    log: RunLog
    restorer: Restorer
    recall: bool
    """Whether what was folded and matches the user's words is brought back."""
    run_id: str | None

    async def shape(
        self, request: ModelRequestContext, history: Sequence[ModelMessage]
    ) -> tuple[ModelRequestContext, str]:
        """The request with the session's context instead of the run's history, and the name of the call."""
        added = added_to(
            history,
            request.messages,
            other="another capability",
            remedy="let it work on RunContext.messages, or in prepare_model_request behind turnfold's capability",
        )
        prompts = _system_prompts(history)
        parameters = request.model_request_parameters
        instructions = [part for part in parameters.instruction_parts or () if part.content.strip()]
        texts = [*prompts, *(part.content for part in instructions)]
        if texts:
            await self.session.system([{"type": "text", "text": text} for text in texts])
        await self.log.catch_up(history)
        context = await told_context(
            self.session,
            texts,
            _newest_prompt(history) if self.recall else None,
            tools=tool_schemas(parameters),
            max_tokens=self._room_beside(added),
        )
        call = self.session.last_call
        told = _told(context, texts)
        shown = self._messages(context, history, told[: len(prompts)] if texts else None)
        kept = _with_texts(parameters, instructions, told[len(prompts) :])
        messages = [*shown, *added]
        return replace(request, messages=messages, model_request_parameters=kept), call

    def _room_beside(self, added: Sequence[ModelMessage]) -> int:
        """Tokens left beside the messages that other capabilities add to this request; 0 for all of them."""
        if not added:
            return 0
        count = self.session.counter.count_message
        cost = sum(count(record) for message in added for record in self.log.records(message))
        allowed = self.session.budget.tokens
        if cost >= allowed:
            raise InvalidOption(
                f"other capabilities add {len(added)} messages, {cost:,} tokens, to a request that may have {allowed:,}"
            )
        return allowed - cost

    def _messages(
        self, context: Context, history: Sequence[ModelMessage], prompts: Sequence[str] | None
    ) -> list[ModelMessage]:
        newest = history[-1]
        instructions = newest.instructions if isinstance(newest, ModelRequest) else None
        last = self.log.names(newest)
        body = self._own_last(context, self._own(history))
        missing = last - {self.restorer.name(record) for record in body}
        if missing:
            raise Conflict(
                f"{len(missing)} of the {len(last)} newest parts of this run are no longer in the window of "
                f"{self.session.id!r}: another run moved on meanwhile. Give each run a conversation of its own, or a "
                "larger budget"
            )
        shown = self.restorer.view(body, instructions=instructions)
        if not last:
            shown.append(newest)  # a request without parts: its instructions are all it says
        system = _system(context, prompts)
        return [ModelRequest(system, instructions=instructions), *shown] if system else shown

    def _own(self, history: Sequence[ModelMessage]) -> set[str]:
        """The names of what this run said."""
        mine = [message for message in history if message.run_id == self.run_id]
        return {name for message in mine or history[-1:] for name in self.log.names(message)}

    def _own_last(self, context: Context, own: set[str]) -> list[Message]:
        """Everything but the system message; the groups of this run behind those of others where runs interleave."""
        name = self.restorer.name
        body = list(context.messages[context.ends[0] :])
        if not body or name(_head(body)) in own:
            return body
        others: list[Message] = []
        mine: list[Message] = []
        into = others
        for record in body:
            if record.role != "tool":  # a tool's answer stays with its call
                into = mine if name(record) in own else others
            into.append(record)
        return others + mine


def _prompt_text(content: object) -> str:
    """The words of a prompt, without its pictures and files."""
    if isinstance(content, str):
        return content
    items = cast("Sequence[object]", content) if isinstance(content, Sequence) else ()
    return "\n".join(
        item if isinstance(item, str) else str(getattr(item, "content", "")) for item in items
    ).strip()


def tool_schemas(parameters: ModelRequestParameters) -> list[dict[str, object]]:
    """The tools of a request as OpenAI's Chat interface writes them, to be counted."""
    return [_schema(tool) for tool in (*parameters.function_tools, *parameters.output_tools)]


def _schema(tool: ToolDefinition) -> dict[str, object]:
    function = {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.parameters_json_schema,
    }
    return {"type": "function", "function": function}


def _system_prompts(history: Sequence[ModelMessage]) -> list[str]:
    """The lasting system prompts of a history, each text once."""
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


def _told(context: Context, texts: list[str]) -> list[str]:
    """The system texts as they fit: shortened where the system message had to be."""
    if not texts:
        return []
    parts = [part for message in context.section(Section.SYSTEM) for part in message.parts]
    shown = [str(getattr(part, "text", "")) for part in parts]
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
    """What leads the request: the run's own system prompts, or what the session was told to begin with."""
    if prompts is None:
        prompts = [message.text for message in context.section(Section.SYSTEM)]
    return [SystemPromptPart(text) for text in prompts]


def _head(body: Sequence[Message]) -> Message:
    """The message that the last group begins with."""
    return next((record for record in reversed(body) if record.role != "tool"), body[-1])
