"""A session as LlamaIndex's `BaseMemory`, and the tool `recall_context` for its agents.

`put` appends messages to the log; `get` returns messages that fit the budget. A log only grows, so `reset` and `set`
remove nothing from it: earlier messages are no longer shown, but stay in the log. The memory is LlamaIndex's history:
only `set` gives a list to align with the log; agents read what they send from the memory.

LlamaIndex calls with and without await. With a blocking memory, awaited calls run in a thread, so that a slow disk
blocks no other task; calls without await run in the caller's thread.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.memory import BaseMemory
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import BaseTool, FunctionTool

from turnfold._caches import SizedCache
from turnfold.adapters._common import (
    GivenRecord,
    ThreadBridge,
    VisibleHistory,
    count_for,
    follow_history,
    note_result,
    session_of,
)
from turnfold.adapters.llama_index.messages import chat_messages, record_of, sendable
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule, RuleSource, as_finding_rules
from turnfold.memory import (
    RECALL_CONTEXT,
    AsyncMemory,
    AsyncSession,
    Memory,
    MemoryConfig,
    RecallTool,
    Session,
)
from turnfold.records import Message, ToolCall, message_digest
from turnfold.runtime import drive
from turnfold.stores import Store

__all__ = (
    "AgentToolResult",
    "TurnfoldMemory",
    "recall_tool",
    "turnfold_memory",
)


_Result = TypeVar("_Result")


def turnfold_memory(
    memory: AsyncMemory | Memory | AsyncSession | Session,
    conversation: str = "",
    *,
    tools: Sequence[BaseTool] = (),
    beside: int = 0,
    recall: bool = True,
    findings: RuleSource | Sequence[FindingRule] = (),
) -> TurnfoldMemory:
    """Return a memory for `agent.run(q, memory=turnfold_memory(memory.session("s1")))` and for chat engines.

    LlamaIndex does not tell a memory what else it sends. Give the agent's `tools`, so that their schemas are counted,
    and the tokens of its system prompt as `beside`. With `recall`, folded (compacted) content that matches the user's
    words is shown again. `findings` are the rules by which `TurnfoldFunctionAgent` and `TurnfoldReActAgent` remember
    tool results, or an `AgentMemory`; rules with `serve` are refused.
    """
    return TurnfoldMemory.over(
        memory, conversation, tools=tools, beside=beside, recall=recall, findings=findings
    )


class _OpenStore(NamedTuple):
    """A memory that is open in this process; a `TurnfoldMemory` that LlamaIndex restores gets its store from here."""

    config: MemoryConfig
    blocking: bool
    rules: tuple[FindingRule, ...]
    """The rules of findings (remembered tool results) that were last given with the store; rules are code and cannot be
    serialized."""


class AgentToolResult(NamedTuple):
    """A tool call of an agent, and its result as text."""

    call: ToolCall
    result: str
    failed: bool


_OPEN: SizedCache[str, _OpenStore] = SizedCache(limit=64)
"""Open stores with their memories, by the name of the store object, and by address and scope."""
_NAMES: WeakKeyDictionary[Store, str] = WeakKeyDictionary()
"""Name of each store object in this process."""


class TurnfoldMemory(BaseMemory):
    """A conversation as LlamaIndex's memory. With an `AsyncMemory` only awaited calls work, else all calls.

    Its fields say which conversation it is, so that LlamaIndex can write it (`to_dict`, JSON, pickle) and restore it. A
    restored memory uses the store that this process has opened under the same address; it opens none by itself.
    """

    conversation: str = ""
    address: str = ""
    """Address of the store without its password."""
    scope: str = ""
    store_name: str = ""
    """Name of the open store, valid in the process that made this object."""
    schemas: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """Schemas of the agent's tools."""
    beside: int = 0
    """Tokens that are sent in addition to the memory, such as those of a system prompt."""
    recall: bool = True
    """True to show folded (compacted) content again if it matches the user's words."""
    has_findings: bool = False
    """True if tool results are remembered (as findings) by rules."""
    _opened: tuple[AsyncSession, ThreadBridge] | None = PrivateAttr(default=None)

    @classmethod
    def over(
        cls,
        memory: AsyncMemory | Memory | AsyncSession | Session,
        conversation: str = "",
        *,
        tools: Sequence[BaseTool] = (),
        beside: int = 0,
        recall: bool = True,
        findings: RuleSource | Sequence[FindingRule] = (),
    ) -> TurnfoldMemory:
        """Return a LlamaIndex memory that uses a conversation; `turnfold_memory` documents the options."""
        if beside < 0:
            raise InvalidOption(f"beside={beside} must not be negative")
        rules = as_finding_rules(findings)
        _refuse_serve(rules)
        session = session_of(memory, conversation)
        if rules:
            session.findings.use(rules)
        blocking = isinstance(memory, Memory | Session)
        made = cls(
            conversation=session.id,
            address=session.config.address,
            scope=str(session.scope),
            store_name=_register(session, rules, blocking=blocking),
            schemas=[tool.metadata.to_openai_tool() for tool in tools],
            beside=beside,
            recall=recall,
            has_findings=bool(rules),
        )
        made._opened = session, ThreadBridge(memory)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields to pickle, without the open store; a restored memory finds its store again."""
        closed = self.model_copy()
        closed._opened = None  # noqa: SLF001 (its own)
        return super(TurnfoldMemory, closed).__getstate__()

    @property
    def _session(self) -> AsyncSession:
        return self._open[0]

    @property
    def _off_loop(self) -> ThreadBridge:
        return self._open[1]

    @property
    def _open(self) -> tuple[AsyncSession, ThreadBridge]:
        if self._opened is None:
            # The store of an address may have been closed and opened again since this memory was made.
            by_address = _OPEN.get(_place(self.address, self.scope))
            known = by_address or _OPEN.get(self.store_name)
            if known is None or not self.conversation:
                raise InvalidOption(
                    f"the memory of conversation {self.conversation!r} was restored, but this process has not opened "
                    f"its store {self.address!r}: call turnfold_memory(memory.session({self.conversation!r})) first"
                )
            session = AsyncSession(self.conversation, known.config)
            if self.has_findings:
                if not known.rules:
                    raise InvalidOption(
                        f"the memory of conversation {self.conversation!r} was restored, but its finding rules are "
                        f"code and cannot be restored: call turnfold_memory(memory.session({self.conversation!r}), "
                        "findings=...) first"
                    )
                session.findings.use(known.rules)
            self._opened = session, ThreadBridge.of(blocking=known.blocking)
        return self._opened

    @classmethod
    def class_name(cls) -> str:
        """Return the class name by which LlamaIndex's serialization knows this class."""
        return "TurnfoldMemory"

    @classmethod
    def from_defaults(cls, **kwargs: object) -> NoReturn:
        """Always raise `InvalidOption`: a memory needs an open session; use `turnfold_memory`."""
        raise InvalidOption(
            f"from_defaults({', '.join(kwargs)}) has no store to open: use turnfold_memory(memory.session(id))"
        )

    def tokenizer_fn(self, text: str) -> Sequence[int]:
        """Return a list with one number per token of the text; chat engines use only its length."""
        return range(self._session.counter.count_text(text))

    async def aget(
        self,
        input: str | QueryBundle | None = None,  # noqa: A002 (its name)
        **kwargs: object,
    ) -> list[ChatMessage]:
        """Return the session's context: the messages of the next call, within the budget.

        `initial_token_count` is the number of tokens that the caller puts before them. Other options are refused.
        """
        return await self._off_loop(self._get(input, kwargs))

    async def aget_beside(
        self, query: str | None, messages: Sequence[ChatMessage], schemas: Sequence[dict[str, Any]]
    ) -> list[ChatMessage]:
        """Return the context, fitted to the budget together with an agent's `messages` and tool `schemas`."""
        spent = self.count(messages, ())
        return await self._off_loop(self._fitting(query, spent, schemas))

    async def ause_model(self, llm: LLM) -> None:
        """Count tokens as an agent's model does from now on, if the memory of turnfold names no model."""
        await self._off_loop(count_for(self._session, llm.metadata))

    def count(self, messages: Sequence[ChatMessage], schemas: Sequence[dict[str, Any]]) -> int:
        """Return the tokens of messages and tool schemas together."""
        counter = self._session.counter
        records = [record_of(message) for message in messages]
        return sum(counter.count_messages(records)) + (
            counter.count_tools(schemas) if schemas else 0
        )

    def has_room(self, tokens: int) -> bool:
        """Return True if a request with this many tokens is within the budget."""
        return tokens + self._session.counter.reply <= self._session.budget.tokens

    async def aget_all(self) -> list[ChatMessage]:
        """Return all messages since the last reset, including those that are folded (compacted)."""
        return await self._off_loop(self._all())

    async def aput(self, message: ChatMessage) -> None:
        """Append a message to the log, and wait until it is stored."""
        await self._off_loop(self._put([message]))

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Append messages to the log, all or none, and wait until they are stored."""
        await self._off_loop(self._put(messages))

    async def aput_step(self, messages: list[ChatMessage], tools: Sequence[str]) -> int:
        """Append an agent's step to the log, before the tools that it calls run; return the newest seq."""
        return await self._off_loop(self._put_step(messages, tools))

    async def aput_results(
        self, messages: list[ChatMessage], runs: Sequence[AgentToolResult], *, asked: int
    ) -> None:
        """Append tool results to the log, one message per tool run, and remember them as the finding rules say.

        `asked` is the newest seq when the calls were made.
        """
        await self._off_loop(self._put_results(messages, runs, asked))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replace the messages: append the new ones if the list continues the present one, otherwise start over."""
        await self._off_loop(self._set(messages))

    async def areset(self) -> None:
        """Start over: earlier messages are no longer shown, but stay in the log."""
        await self._off_loop(self._session.clear())

    def get(
        self,
        input: str | QueryBundle | None = None,  # noqa: A002
        **kwargs: object,
    ) -> list[ChatMessage]:
        """Like `aget`, without await; needs a blocking memory."""
        return self._block_on(self._get(input, kwargs))

    def get_all(self) -> list[ChatMessage]:
        """Like `aget_all`, without await; needs a blocking memory."""
        return self._block_on(self._all())

    def put(self, message: ChatMessage) -> None:
        """Like `aput`, without await; needs a blocking memory."""
        self._block_on(self._put([message]))

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Like `aput_messages`, without await; needs a blocking memory."""
        self._block_on(self._put(messages))

    def set(self, messages: list[ChatMessage]) -> None:
        """Like `aset`, without await; needs a blocking memory."""
        self._block_on(self._set(messages))

    def reset(self) -> None:
        """Like `areset`, without await; needs a blocking memory."""
        self._block_on(self._session.clear())

    async def _get(
        self, query: str | QueryBundle | None, options: dict[str, object]
    ) -> list[ChatMessage]:
        spent = self.beside + cast("int", options.pop("initial_token_count", 0))
        if options:
            raise InvalidOption(
                f"get() does not have the options {', '.join(sorted(options))}: leave them out"
            )
        text = query.query_str if isinstance(query, QueryBundle) else query
        return await self._fitting(text, spent, self.schemas)

    async def _fitting(
        self, query: str | None, spent: int, schemas: Sequence[dict[str, Any]]
    ) -> list[ChatMessage]:
        allowed = self._session.budget.tokens
        if spent >= allowed:
            raise InvalidOption(
                f"the messages sent besides the memory have {spent:,} tokens (beside=, initial_token_count, the "
                f"agent's own messages), but a call may have only {allowed:,} in all: raise the budget"
            )
        context = await self._session.context(
            (query or None) if self.recall else None,
            tools=schemas,
            max_tokens=allowed - spent if spent else 0,
        )
        return [sendable(message) for message in chat_messages(context.messages)]

    async def _all(self) -> list[ChatMessage]:
        shown = await VisibleHistory(self._session).entries()
        return chat_messages([one.entry.message for one in shown])

    async def _put(self, messages: Sequence[ChatMessage]) -> int:
        """Append messages; return the seq of the first one, 0 if there are no messages."""
        if not messages:
            return 0
        return (await self._session.add([record_of(message) for message in messages])).first

    async def _put_step(self, messages: Sequence[ChatMessage], tools: Sequence[str]) -> int:
        await self._put(messages)
        for tool in tools:
            await self._session.findings.ran(tool)
        return (await self._session.status()).entries

    async def _put_results(
        self, messages: Sequence[ChatMessage], runs: Sequence[AgentToolResult], asked: int
    ) -> None:
        first = await self._put(messages)
        for number, run in enumerate(runs):
            # A tool that returns directly ends the step: the results of tools after it are not stored.
            seq = first + number if number < len(messages) else 0
            await note_result(
                self._session,
                run.call,
                run.result,
                seq=seq,
                asked=asked,
                failed=run.failed or not seq,
            )

    async def _set(self, messages: Sequence[ChatMessage]) -> None:
        given = [GivenRecord(record_of(message), "") for message in messages]
        await follow_history(self._session, given, key=_whole_key, whole=True, system=True)

    def _block_on(self, work: Coroutine[Any, None, _Result]) -> _Result:
        try:
            blocking = self._off_loop.blocking
        except InvalidOption:
            work.close()
            raise
        if blocking:
            return drive(work)
        work.close()
        raise InvalidOption(
            "this memory uses an AsyncMemory: await aget, aput, achat ...; for calls without await give "
            "turnfold_memory a Memory or a Session"
        )


def _whole_key(record: Message) -> str:
    """Return a digest of a whole record, so that a message in another form counts as another message."""
    return message_digest(record, size=16).hex()


def _refuse_serve(rules: Sequence[FindingRule]) -> None:
    served = [rule.tool for rule in rules if rule.serve]
    if served:
        raise InvalidOption(
            f"the rules of {', '.join(served)} have serve=True, but a LlamaIndex agent lets no memory answer a call "
            "before its tool runs: give the rules serve=False; the results are shown to the model"
        )


def _register(session: AsyncSession, rules: tuple[FindingRule, ...], *, blocking: bool) -> str:
    """Register an open store, so that restored memories find it; return its name in this process."""
    name = _NAMES.setdefault(session.store, uuid4().hex)
    place = _place(session.config.address, str(session.scope))
    known = _OPEN.get(name) or _OPEN.get(place)
    opened = _OpenStore(session.config, blocking, rules or (known.rules if known else ()))
    _OPEN.put(name, opened)
    if not _is_in_process(session.config.address):
        _OPEN.put(place, opened)
    return name


def _place(address: str, scope: str) -> str:
    return f"{address}\n{scope}"


def _is_in_process(address: str) -> bool:
    """Return True if a store's address does not identify it, because it is in memory or was passed as an object."""
    return "://" not in address or address in ("sqlite://", "memory://")


def recall_tool(
    memory: AsyncMemory | Memory | AsyncSession | Session,
    conversation: str = "",
    *,
    max_tokens: int = 2000,
) -> FunctionTool:
    """Return the tool `recall_context` for `FunctionAgent(tools=[recall_tool(session)])`: it finds earlier content."""
    off_loop = ThreadBridge(memory)
    tool = RecallTool(session_of(memory, conversation), max_tokens=max_tokens)

    async def recall_context(
        query: str | None = None,
        turn_numbers: list[int] | None = None,
        first_seq: int | None = None,
        last_seq: int | None = None,
        offset: int | None = None,
    ) -> str:
        arguments = {
            "query": query,
            "turn_numbers": turn_numbers,
            "first_seq": first_seq,
            "last_seq": last_seq,
            "offset": offset,
        }
        return await off_loop(tool.call(arguments))

    return FunctionTool.from_defaults(
        async_fn=recall_context, name=RECALL_CONTEXT, description=tool.description
    )
