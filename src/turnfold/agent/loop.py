"""The agent loop: builds a context, calls the model and runs its tools until it answers; a session logs every step.

Everything is logged at once: the user's message before the model is called, the model's answer before its tools run,
each tool result as soon as the tool returns. A process that dies at any point leaves a log that can be continued,
because the context tells the model that a call has no result.

Only one run at a time works on a session, in all processes together: it holds a lease, and other runs wait for it. So
each question has its own answer, and a message that is sent twice at once runs no tool twice. The answer to a message
with a client id is stored under an id made from that client id, by which it is found when the message is sent again.

A tool is foreign code: it may return a value that cannot be written as text (cycles, lone surrogates, objects that
cannot be printed) or raise an error that cannot be printed. None of that may end the run or leave a call without a
result, so every error is caught, within the tool's time limit, and becomes a result that begins with "error:".

Results of a tool with a finding rule are remembered. If the rule has `serve`, an identical call is answered from memory
while the result is valid; the model gets the result with a first line that says so. An agent with a `MemoryModule`
(design document 002) stores and summarises its workspace before every call of the model; the summaries are shown with
every call, and the model may bring any earlier workspace back with `recall_context`. An agent whose contexts recall
nothing by themselves (`recall="off"`) gives the model a tool of the same name that searches the conversation.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CoroutineType, GeneratorType
from typing import Protocol, TypeAlias, cast

import msgspec

from turnfold.agent.function_tools import Tool, ToolRefused, as_tool
from turnfold.budget import Budget
from turnfold.errors import (
    BudgetTooSmall,
    Conflict,
    ContextOverflow,
    InvalidOption,
    ModelUnavailable,
    StepsExhausted,
)
from turnfold.findings import (
    FindingRule,
    RuleSource,
    as_finding_rules,
    rules_by_tool,
    served_text,
)
from turnfold.memories import AsyncMemoryModule
from turnfold.memory import (
    RECALL_CONTEXT,
    AsyncMemory,
    AsyncSession,
    RecallMode,
    RecallTool,
    RunLease,
)
from turnfold.models import Answer, ChatModel, ToolSchemas
from turnfold.records import Entry, Message, NewEntry, ToolCall, user
from turnfold.window import Context
from turnfold.wire import ENDING, ToolOutcome, WireFormat, described, encodable, outcome_of

__all__ = (
    "AgentReply",
    "Answered",
    "AsyncAgent",
    "Event",
    "Sending",
    "TextCame",
    "ToolCache",
    "ToolDone",
    "ToolRun",
    "ToolStarted",
    "Workspace",
    "WorkspaceMemory",
    "awaiting_memory",
    "blocking_memory",
    "failure",
)


@dataclass(frozen=True, slots=True)
class Sending:
    """Event: a context is about to be sent to the model."""

    step: int
    """Number of the step in this run, from 1. If a prompt is refused and sent again smaller, it is the same step."""
    context: Context


@dataclass(frozen=True, slots=True)
class TextCame:
    """Event: a piece of the answer's text arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """Event: the model answered, and its answer is in the log."""

    step: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """Event: a tool is about to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolDone:
    """Event: a tool ended, and its result is in the log."""

    call: ToolCall
    result: str
    failed: bool
    served: bool = False
    """True if the result comes from memory and the tool was not called."""


Event: TypeAlias = Sending | TextCame | Answered | ToolStarted | ToolDone


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The final answer of an agent."""

    text: str
    answer: Answer
    steps: int
    """Number of answers of the model in this run; 0 if an earlier run with the same `client_id` stored the answer."""
    context: Context
    """The last context that was sent; if the model was not called, what a call would send now."""


class ToolRun:
    """One run of a tool; its result is always a `ToolOutcome`, because errors of the tool are caught.

    KeyboardInterrupt, SystemExit and a cancellation of the waiting task are raised nevertheless. The runtime sets a
    time limit.
    """

    def __init__(self, tool: Tool, arguments: str) -> None:
        self._tool = tool
        self._arguments = arguments
        self._pending: Coroutine[object, object, object] | None = None
        self._abandoned = False

    @property
    def as_function(self) -> Callable[[], object]:
        """The function that runs the tool.

        It is a coroutine function if the tool is one, so that every coroutine is awaited.
        """
        call = self._tool.call
        if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004 (an object may have an async __call__)
        ):
            return self._await_call
        return self._call

    def abandon(self) -> None:
        """Close the coroutine that a plain function returned, if nobody has begun to await it."""
        self._abandoned = True
        if self._pending is not None and inspect.getcoroutinestate(self._pending) == "CORO_CREATED":
            self._pending.close()

    def _start(self) -> object:
        return self._tool.call(**self._tool.arguments(self._arguments))

    def _call(self) -> object:
        """Call the tool's plain function; if it returns an awaitable, wrap it so that it can be closed later."""
        try:
            found = self._start()
            if not _is_awaitable(found):
                return outcome_of(found)
        except ENDING:
            raise
        except BaseException as error:
            return failure(error)
        if type(found) is CoroutineType:
            self._pending = cast("Coroutine[object, object, object]", found)
        if self._abandoned:  # while the function ran: the return value is not used
            self.abandon()
            return None
        return self._awaited(lambda: cast("Awaitable[object]", found))

    async def _await_call(self) -> ToolOutcome:
        return await self._awaited(lambda: cast("Awaitable[object]", self._start()))

    async def _awaited(self, made: Callable[[], Awaitable[object]]) -> ToolOutcome:
        try:
            found = await made()
        except ENDING:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return failure(error)  # something the tool waited for was cancelled, not the tool
        except BaseException as error:  # GeneratorExit too: a coroutine that is closed may return
            return failure(error)
        if type(found) is str:
            return outcome_of(found)
        # A large value takes long to write, and a value's own methods may block: not in the loop.
        return await asyncio.to_thread(outcome_of, found)


def _is_awaitable(found: object) -> bool:
    """Return True if the type of a value is awaitable; `inspect.isawaitable` can be misled by a false `__class__`."""
    if type(found) is GeneratorType:
        code = cast("GeneratorType[object, object, object]", found).gi_code
        return bool(code.co_flags & inspect.CO_ITERABLE_COROUTINE)
    return hasattr(type(found), "__await__")


def failure(error: BaseException) -> ToolOutcome:
    """Return the exception of a tool as a failed result, with an error text for the model."""
    if isinstance(error, ToolRefused):
        return ToolOutcome(encodable(f"error: {error}"), failed=True)
    return ToolOutcome(f"error: {described(error)}", failed=True)


class ToolCache:
    """Answers repeated tool calls from the findings (remembered tool results) of a conversation, and adds new ones."""

    def __init__(self, rules: RuleSource | Sequence[FindingRule], tools: Iterable[Tool]) -> None:
        own = [(tool.name, tool.remember) for tool in tools if tool.remember is not None]
        for name, rule in own:
            if rule.tool != name:
                raise InvalidOption(
                    f"tool {name!r} has a finding rule for tool {rule.tool!r}: give it a rule for {name!r}"
                )
        self._rules = rules_by_tool([*as_finding_rules(rules), *(rule for _, rule in own)])

    def begin(self, session: AsyncSession) -> None:
        """Add the agent's finding rules (which tool results are remembered, and how long) to those of the session."""
        if self._rules:
            session.findings.use(({**session.findings.rules, **self._rules}).values())

    async def answer(self, session: AsyncSession, call: ToolCall) -> str | None:
        """Return the remembered result of a tool call; None if the tool must run.

        Findings that this tool makes stale are marked before it runs.
        """
        if not self._rules:
            return None
        found = await session.findings.serve(call)
        if found is not None:
            return served_text(found, zone=session.config.zone)
        await session.findings.ran(call.name)
        return None

    async def done(
        self,
        session: AsyncSession,
        call: ToolCall,
        text: str,
        *,
        failed: bool,
        seq: int,
        asked: int,
    ) -> None:
        """Update the findings (remembered tool results) after a tool ran.

        Those that the run makes stale are marked, and its result is remembered if a rule of findings says so.
        """
        if not self._rules:
            return
        if failed or call.name not in self._rules:
            await session.findings.ran(call.name)
        else:
            await session.findings.note(call, text, seq=seq, asked=asked)


_arguments = msgspec.json.Decoder(dict[str, object])


@dataclass(frozen=True, slots=True)
class WorkspaceMemory:
    """Connects a `MemoryModule`, which stores and summarises workspaces, to an agent loop."""

    module: AsyncMemoryModule | None
    workspace: Workspace | None

    def __post_init__(self) -> None:
        if self.module is not None and self.workspace is None:
            raise InvalidOption(
                "memory_module= remembers a workspace, but the agent has none: give workspace= too"
            )

    def schemas(self, own: Mapping[str, object]) -> list[dict[str, object]]:
        """Return the schema of `recall_context` if there is a `MemoryModule` (memory of workspaces), else nothing.

        `own` are the agent's other tools, whose names must differ.
        """
        if self.module is None:
            return []
        if RECALL_CONTEXT in own:
            raise InvalidOption(
                f"the MemoryModule adds a tool {RECALL_CONTEXT!r}, and the agent has one too: rename yours"
            )
        return [self.module.recall_tool()]

    async def render(self, session: AsyncSession) -> str:
        """Return the workspace (the agents' shared text, files and state) as text for the next model call.

        It is stored and summarised first if that was not done before.
        """
        if self.workspace is None:
            return ""
        rendered = self.workspace.render()
        if self.module is not None:
            module = await self.module.attach(session.id)
            status = await session.status()
            [newest] = await session.history(after=status.entries - 1, limit=1)
            # The time too: an imported context may have come after the same entry of another log.
            made_after = f"entry:{newest.seq}:{newest.created}"
            await module.perform_thinking_phase(rendered, client_id=made_after)
        return rendered

    async def notes(
        self, session: AsyncSession, budget: Budget, max_tokens: int
    ) -> dict[str, str] | None:
        """Return summaries of earlier workspaces as notes for the next call; None if there is no `MemoryModule`.

        `max_tokens` is the token limit of that call; 0 for that of the budget.
        """
        if self.module is None:
            return None
        allowed = replace(budget, max_tokens=max_tokens) if max_tokens else budget
        return await self.module.within(session.id).notes(budget=allowed)

    def answers(self, call: ToolCall) -> bool:
        """Return True if a tool call is for the tool that recalls earlier workspaces."""
        return self.module is not None and call.name == RECALL_CONTEXT

    async def result(self, session: AsyncSession, call: ToolCall) -> ToolOutcome:
        """Run the tool that recalls an earlier workspace; return its text, or an error text for the model."""
        if self.module is None:
            return ToolOutcome("error: this agent has no memory module", failed=True)
        try:
            arguments = _arguments.decode(call.arguments or "{}")
            return ToolOutcome(await self.module.within(session.id).answer_recall(arguments))
        except (InvalidOption, msgspec.MsgspecError, RecursionError) as error:
            return ToolOutcome(f"error: {error}", failed=True)


def awaiting_memory(memory: object) -> AsyncMemory:
    """Return the asynchronous form of a memory; raises `InvalidOption` for an object without sessions."""
    found = getattr(memory, "awaiting", memory)
    if not hasattr(found, "session"):
        raise InvalidOption(
            f"{type(memory).__name__} has no sessions, but an agent logs its conversation in one: give a Memory. "
            'Memory("sqlite:///chat.db") sees the conversation of MessageMemoryConfig(db_path="chat.db")'
        )
    return cast("AsyncMemory", found)


def blocking_memory(memory: object) -> AsyncMemory:
    """Return the asynchronous form of a blocking memory; raises `InvalidOption` if the memory needs an event loop."""
    if hasattr(memory, "session") and not hasattr(memory, "awaiting"):
        name = type(memory).__name__
        plain = name.removeprefix("Async")
        raise InvalidOption(
            f"Agent needs a {plain}, got {name}: use AsyncAgent(memory, model) and await its run(), or make the "
            f"memory with {plain}(...)"
        )
    return awaiting_memory(memory)


def _check_model(model: object) -> None:
    """Raise `InvalidOption` if a model cannot answer: a name instead of a client, or a class instead of an object."""
    if callable(getattr(model, "complete", None)) and not isinstance(model, type):
        return
    if isinstance(model, str):
        client = "Anthropic" if "claude" in model else "OpenAIChat"
        raise InvalidOption(
            f"model={model!r} is a name, but an agent needs a client: give {client}({model!r}), from turnfold"
        )
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    raise InvalidOption(
        f'model={name} cannot answer an agent: give a client, for example OpenAIChat("gpt-4o") or '
        'Anthropic("claude-sonnet-4-5"), or another object with the methods of turnfold.models.ChatModel'
    )


def _answer_id(client_id: str) -> str:
    """Return the client id under which the answer to a message is stored.

    It is empty if the message has no client id or a very long one.
    """
    return f"{client_id}{_ANSWER}" if client_id and len(client_id) <= _LONGEST_ID else ""


async def _stored_answer(session: AsyncSession, asked: Entry) -> Message | None:
    """Return the answer to the stored message `asked`; None if there is none yet.

    Raises `Conflict` if it has no answer and another question came later, because a run would answer that one instead.
    """
    name = _answer_id(asked.client_id)
    if name and (named := await session.by_client_id(name)):
        return named[0].message
    after = asked.seq
    while page := await session.history(after=after, limit=_PAGE):
        for entry in page:
            role = entry.message.role
            if role == "assistant" and not entry.message.calls:
                return (
                    entry.message
                )  # stored by a release that gave answers no id, or by another program
            if role == "user":
                raise Conflict(
                    f"the message with client_id={asked.client_id!r} is stored as entry {asked.seq}, but its run ended "
                    f"without an answer, and entry {entry.seq} is a later question: send it again with a new client_id"
                )
        after = page[-1].seq
    return None


async def _is_interrupted(session: AsyncSession) -> bool:
    """Return True if the newest message of a session is no answer: a run was interrupted, or still works."""
    status = await session.status()
    newest = await session.history(after=max(status.entries - 1, 0), limit=1)
    return bool(newest) and (newest[0].message.role != "assistant" or bool(newest[0].message.calls))


async def _recalled(session: AsyncSession, call: ToolCall) -> ToolOutcome:
    """Run the tool that searches the conversation; return its text, or an error text for the model."""
    try:
        arguments = _arguments.decode(call.arguments or "{}")
    except (msgspec.MsgspecError, RecursionError) as error:
        return ToolOutcome(f"error: {error}", failed=True)
    text = await RecallTool(session, max_tokens=_RECALL_TOKENS).call(arguments)
    return ToolOutcome(text, failed=text.startswith("error:"))


_PAGE = 100
_ANSWER = "/answer"
_LONGEST_ID = 512 - len(_ANSWER)
"""Most characters of a client id from which the id of the answer is made; the answer to a message with a longer one
gets none."""
_RECALL_TOKENS = 2_000
"""Most tokens of one result of the tool `recall_context`; the adapters use the same number."""
_SMALLER = 0.7
"""If the provider refuses a prompt as too long, the next one may have this share of the tokens of the refused one."""


class Workspace(Protocol):
    """The files or data that an agent works on; their text is part of every model call and is never logged."""

    def render(self) -> str:
        """Return the workspace, as it is now, as text for the prompt."""
        ...


class AsyncAgent:
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
        memory: AsyncMemory,
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
        memory_module: AsyncMemoryModule | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        for name, value in (("max_steps", max_steps), ("parallel", parallel)):
            if value < 1:
                raise InvalidOption(f"{name}={value} must be at least 1")
        if wait_seconds < 0:
            raise InvalidOption(f"wait_seconds={wait_seconds} must not be negative")
        if lease_seconds <= 0:
            raise InvalidOption(f"lease_seconds={lease_seconds} must be above 0")
        _check_model(model)
        self._memory = awaiting_memory(memory)
        self._model = model
        self._to = model if isinstance(model, WireFormat) else None
        self._tools: dict[str, Tool] = {}
        for tool in map(as_tool, tools):
            if tool.name in self._tools:
                raise InvalidOption(f"two tools have the name {tool.name!r}: rename one of them")
            self._tools[tool.name] = tool
        self._workspace_memory = WorkspaceMemory(memory_module, workspace)
        self._recall = self._memory.recall if recall is None else RecallMode.named(recall)
        own = [tool.schema for tool in self._tools.values()]
        own += self._workspace_memory.schemas(self._tools)
        self._has_recall_tool = self._takes_recall_tool(wanted=recall_tool)
        if self._has_recall_tool:
            own.append(RecallTool.schema_of(max_tokens=_RECALL_TOKENS))
        self._schemas: ToolSchemas = own
        self._system = system
        self._max_steps = max_steps
        self._parallel = parallel
        self._tool_seconds = tool_seconds
        self._model_seconds = model_seconds
        self._wait_seconds = wait_seconds
        self._lease_seconds = lease_seconds
        self._tool_cache = ToolCache(findings, self._tools.values())
        self._on_event = on_event

    def _takes_recall_tool(self, *, wanted: bool | None) -> bool:
        """Return True if the model gets the tool that searches the conversation."""
        taken = RECALL_CONTEXT in self._tools or self._workspace_memory.module is not None
        if wanted and taken:
            raise InvalidOption(
                f"recall_tool=True adds a tool {RECALL_CONTEXT!r}, and the agent has one already: rename yours, or "
                "leave recall_tool=True out (a MemoryModule adds one too)"
            )
        return not taken and (self._recall is RecallMode.OFF if wanted is None else wanted)

    async def run(self, conversation: str, content: object, *, client_id: str = "") -> AgentReply:
        """Log the user's message and return the answer.

        A call with the `client_id` of an earlier one stores the message once. If it was answered, the stored answer is
        returned and the model is not called; if that run is still at work, its answer is waited for; if it was
        interrupted, it is continued. Waits for other runs on the session, and raises `SessionBusy` after the agent's
        `wait_seconds`. Raises `Conflict` if the message was stored before, but never answered, and the conversation
        went on since.
        """
        session = self._memory.session(conversation)
        asked = NewEntry(user(content), client_id)

        async def answered() -> bool:
            return await self._answer_of(session, asked) is not None

        async with self._lease(session, answered) as lease:
            answer = await self._answer_of(session, asked)
            if answer is None:
                if self._system:
                    await session.system(self._system)
                await session.add(asked.message, client_id=client_id)
                return await self._loop(session, lease, client_id)
        # A program that shows the text as it comes has nothing else to show.
        self._emit(TextCame(answer.text))
        return AgentReply(
            text=answer.text,
            answer=Answer(message=answer),
            steps=0,
            context=await session.preview(tools=self._schemas),
        )

    def _lease(self, session: AsyncSession, answered: Callable[[], Awaitable[bool]]) -> RunLease:
        return session.runs.lease(
            seconds=self._lease_seconds, wait=self._wait_seconds, answered=answered
        )

    async def _answer_of(self, session: AsyncSession, asked: NewEntry) -> Message | None:
        """Return the stored answer to a message; None if the message was not stored or not answered yet.

        Raises `IdReused` if another message was stored under its client id.
        """
        name = asked.client_id
        if not name or not (stored := await session.by_client_id(name)):
            return None
        await session.add(asked.message, client_id=name)  # compares the two, and stores nothing
        return await _stored_answer(session, stored[0])

    async def start(
        self, task: object, *, conversation: str = "agent", client_id: str = ""
    ) -> AgentReply:
        """Log a task and return the answer, like `run`, by default in the conversation `agent`.

        It is the method `start()` of design document 002 (memory of an agent's shared workspace).
        """
        return await self.run(conversation, task, client_id=client_id)

    def get_memory_module(self) -> AsyncMemoryModule | None:
        """Return the `MemoryModule` (memory of workspaces) that the agent was made with; None if it has none.

        It is the method `getMemoryModule()` of design document 002.
        """
        return self._workspace_memory.module

    async def resume(self, conversation: str) -> AgentReply | None:
        """Continue a conversation whose run was interrupted; None if its last message is already the agent's answer."""
        session = self._memory.session(conversation)

        async def ended() -> bool:
            return not await _is_interrupted(session)

        if await ended():
            return None
        async with self._lease(session, ended) as lease:
            if await ended():
                return None
            status = await session.status()
            newest = await session.turn(status.turns)
            names = [entry.client_id for entry in newest if entry.message.role == "user"]
            return await self._loop(session, lease, names[0] if names else "")

    async def _loop(self, session: AsyncSession, lease: RunLease, client_id: str) -> AgentReply:
        """Call the model and run its tools until it answers the message with this client id."""
        self._tool_cache.begin(session)
        limit = 0
        for step in range(1, self._max_steps + 1):
            await lease.confirm()
            context, answer, limit = await self._ask_model(session, step, limit)
            await lease.confirm()
            calls = answer.message.calls
            name = "" if calls else _answer_id(client_id)
            call_seq = (await session.add(answer.message, client_id=name)).last
            if answer.usage is not None:
                await session.record_usage(answer.usage)
            self._emit(Answered(step, answer))
            if not calls:
                return AgentReply(
                    text=answer.message.text, answer=answer, steps=step, context=context
                )
            jobs = [self._tool_job(session, lease, call, call_seq) for call in calls]
            await self._memory.runtime.each(jobs, parallel=self._parallel)
        raise StepsExhausted(
            f"no answer after {self._max_steps} step{'s' if self._max_steps > 1 else ''}: call resume({session.id!r}) "
            "to go on, or raise max_steps"
        )

    def _emit(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    async def _ask_model(
        self, session: AsyncSession, step: int, limit: int
    ) -> tuple[Context, Answer, int]:
        """Ask the model for the answer of one step; return the context that was sent, the answer, and a token limit.

        If the provider refuses the prompt as too long, a second, smaller one is sent, and its token limit is returned
        for the prompts of later steps. Otherwise the `limit` that was passed is returned; 0 means the whole budget.
        """
        workspace = await self._workspace_memory.render(session)
        context = await self._context(session, workspace, limit)
        self._emit(Sending(step, context))
        try:
            return context, await self._answer(context), limit
        except ContextOverflow as overflow:
            limit = int(context.tokens * _SMALLER)
            try:
                context = await self._context(session, workspace, limit)
            except BudgetTooSmall:
                raise overflow from None  # the context cannot be made smaller
            self._emit(Sending(step, context))
            return context, await self._answer(context), limit

    async def _context(self, session: AsyncSession, workspace: str, max_tokens: int) -> Context:
        notes = await self._workspace_memory.notes(session, self._memory.budget, max_tokens)
        return await session.context(
            tools=self._schemas,
            recall=self._recall,
            notes=notes,
            workspace=workspace,
            to=self._to,
            max_tokens=max_tokens,
        )

    async def _answer(self, context: Context) -> Answer:
        model, tools = self._model, self._schemas

        async def call() -> Answer:
            if self._on_event is None:
                return await model.complete(context, tools=tools)
            return await model.stream(
                context, tools=tools, on_text=lambda text: self._emit(TextCame(text))
            )

        try:
            found = await self._memory.runtime.ask(call, seconds=self._model_seconds)
        except TimeoutError as error:
            raise ModelUnavailable(
                f"{model.name} did not answer within {self._model_seconds:g} s; the messages are in the log: "
                "resume() calls it again, and a larger model_seconds waits longer"
            ) from error
        return cast("Answer", found)

    def _tool_job(
        self, session: AsyncSession, lease: RunLease, call: ToolCall, call_seq: int
    ) -> Callable[[], Coroutine[object, None, None]]:
        async def job() -> None:
            await lease.confirm()
            self._emit(ToolStarted(call))
            served = await self._tool_cache.answer(session, call)
            done = ToolOutcome(served) if served is not None else await self._result(session, call)
            text, failed = done.text, done.failed
            seq = (await session.tool(text, tool_call_id=call.id, name=call.name)).last
            if served is None:
                await self._tool_cache.done(
                    session, call, text, failed=failed, seq=seq, asked=call_seq
                )
            self._emit(ToolDone(call, text, failed, served=served is not None))

        return job

    async def _result(self, session: AsyncSession, call: ToolCall) -> ToolOutcome:
        """Run the tool of a call, or answer from memory; an error becomes a result, so that the model can react."""
        if self._workspace_memory.answers(call):
            return await self._workspace_memory.result(session, call)
        if self._has_recall_tool and call.name == RECALL_CONTEXT:
            return await _recalled(session, call)
        tool = self._tools.get(call.name)
        if tool is None:
            names = [*self._tools, RECALL_CONTEXT] if self._has_recall_tool else self._tools
            known = ", ".join(sorted(names)) or "none"
            return ToolOutcome(
                f"error: there is no tool {call.name!r}; known: {known}", failed=True
            )
        run = ToolRun(tool, call.arguments)
        try:
            found = await self._memory.runtime.ask(run.as_function, seconds=self._tool_seconds)
        except TimeoutError:
            return ToolOutcome(f"error: no result within {self._tool_seconds:g} s", failed=True)
        except Exception as error:  # the tool could not be run at all
            return failure(error)
        finally:
            run.abandon()
        return cast("ToolOutcome", found)
