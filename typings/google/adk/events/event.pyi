from google.genai.types import Content

class Event:
    id: str
    author: str
    content: Content | None
    partial: bool | None
    timestamp: float
