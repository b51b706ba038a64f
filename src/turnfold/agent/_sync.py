"""The agent without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnfold.agent.function_tools import Tool
from turnfold.agent.loop import AgentReply, AsyncAgent, Event, Workspace, blocking_memory
from turnfold.findings import FindingRule, RuleSource
from turnfold.memories import MemoryModule
from turnfold.memory import Memory, RecallMode
from turnfold.models import ChatModel
from turnfold.runtime import drive

__all__ = ("Agent",)


class Agent:
    """Answers a user with a model and tools, and logs the conversation in a memory.

    At most `parallel` tools run at the same time. `tool_seconds` and `model_seconds` limit one tool run and one model
    call; `max_steps` limits the steps of one run, each of which is an answer of the model and the tool calls in it. If
    the provider refuses a prompt as too long, a smaller one is sent in the same step.

    `recall` overrides the memory's recall mode. With `recall_tool`, the model can search the conversation with the tool
    `recall_context`; by default it can if the mode is `"off"`, unless the agent has a tool of that name already.
    `recall_tool=False` is for models that take no tools.

    In all processes together, one run at a time works on a session: other runs wait up to `wait_seconds` for it, and
    then raise `SessionBusy`. A process that was killed blocks a session for up to `lease_seconds`. A tool cannot run an
    agent on the session that it is called in.
    """

    def __init__(
        self,
        memory: Memory,
        model: ChatModel,
        *,
        tools: Sequence[Tool | Callable[..., object]] = (),
        system: str = "",
        max_steps: int = 25,
        parallel: int = 8,
        tool_seconds: float = 120.0,
        model_seconds: float = 300.0,
        wait_seconds: float = 120.0,
        lease_seconds: float = 30.0,
        workspace: Workspace | None = None,
        recall: RecallMode | str | None = None,
        recall_tool: bool | None = None,
        findings: RuleSource | Sequence[FindingRule] = (),
        memory_module: MemoryModule | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self._memory_module = memory_module
        self._awaiting = AsyncAgent(
            blocking_memory(memory),
            model,
            tools=tools,
            system=system,
            max_steps=max_steps,
            parallel=parallel,
            tool_seconds=tool_seconds,
            model_seconds=model_seconds,
            wait_seconds=wait_seconds,
            lease_seconds=lease_seconds,
            workspace=workspace,
            recall=recall,
            recall_tool=recall_tool,
            findings=findings,
            memory_module=memory_module and memory_module.awaiting,
            on_event=on_event,
        )

    @property
    def awaiting(self) -> AsyncAgent:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    def run(self, conversation: str, content: object, *, client_id: str = "") -> AgentReply:
        """Log the user's message and return the answer.

        A call with the `client_id` of an earlier one stores the message once. If it was answered, the stored answer is
        returned and the model is not called; if that run is still at work, its answer is waited for; if it was
        interrupted, it is continued. Waits for other runs on the session, and raises `SessionBusy` after the agent's
        `wait_seconds`. Raises `Conflict` if the message was stored before, but never answered, and the conversation
        went on since.
        """
        return drive(self._awaiting.run(conversation, content, client_id=client_id))

    def start(
        self, task: object, *, conversation: str = "agent", client_id: str = ""
    ) -> AgentReply:
        """Log a task and return the answer, like `run`, by default in the conversation `agent`.

        It is the method `start()` of design document 002 (memory of an agent's shared workspace).
        """
        return drive(self._awaiting.start(task, conversation=conversation, client_id=client_id))

    def resume(self, conversation: str) -> AgentReply | None:
        """Continue a conversation whose run was interrupted; None if its last message is already the agent's answer."""
        return drive(self._awaiting.resume(conversation))

    def get_memory_module(self) -> MemoryModule | None:
        """Return the `MemoryModule` of the agent; None if it has none."""
        return self._memory_module
