from google.genai.types import Content, GenerateContentResponseUsageMetadata

class LlmResponse:
    content: Content | None
    partial: bool | None
    usage_metadata: GenerateContentResponseUsageMetadata | None
