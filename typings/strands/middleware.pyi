from strands.types.content import Message, SystemPrompt
from strands.types.tools import ToolSpec

class InvokeModelContext:
    agent: object
    messages: list[Message]
    system_prompt: SystemPrompt
    tool_specs: list[ToolSpec]
    def replace(
        self,
        *,
        messages: list[Message] = ...,
        system_prompt: SystemPrompt = ...,
        projected_input_tokens: int | None = ...,
    ) -> InvokeModelContext: ...

class _Stage:
    Input: object

InvokeModelStage: _Stage
