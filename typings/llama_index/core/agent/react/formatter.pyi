from collections.abc import Sequence

from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.tools import BaseTool

class ReActChatFormatter:
    observation_role: MessageRole
    def format(
        self, tools: Sequence[BaseTool], chat_history: list[ChatMessage]
    ) -> list[ChatMessage]: ...
