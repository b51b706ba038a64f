from google.adk.tools.base_tool import BaseTool
from google.genai.types import Content, GenerateContentConfig

class LlmRequest:
    model: str | None
    contents: list[Content]
    config: GenerateContentConfig
    def append_tools(self, tools: list[BaseTool]) -> None: ...
