from collections.abc import Callable

from strands import Agent
from strands.types.content import Message

class HookRegistry:
    def add_callback(self, event_type: type[object], callback: Callable[..., object]) -> None: ...

class AgentInitializedEvent:
    agent: Agent

class MessageAddedEvent:
    agent: Agent
    message: Message

class ModelStopResponse:
    message: Message
    stop_reason: str

class AfterModelCallEvent:
    agent: Agent
    stop_response: ModelStopResponse | None
