"""Compared libraries, each configured as its documentation shows and with turnfold's exact token counts.

None of the libraries is a dependency: each is imported when its peer is used. A message that a library returns
unchanged is recognised by its key; text that the library wrote itself (a summary) becomes a new message.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from turnfold.errors import MissingExtra
from turnfold.evaluation.peers import MessageCosts, newest_start
from turnfold.fold import Passage, extract_summary
from turnfold.records import Message
from turnfold.rules import extract_rules
from turnfold.tokens import TokenCounter

__all__ = (
    "AgentFrameworkTruncation",
    "CompactionGuard",
    "HarnessSlidingWindow",
    "LangChainSummary",
    "LangChainTrim",
    "LlamaIndexBuffer",
)

_TRIGGER, _KEEP = 0.8, 0.3
"""Shares of the budget: above the first, LangChain summarises; the second is what it keeps in addition to the summary.
Both as in its examples."""
_SUMMARY = 0.2
"""Share of the token budget that a summary may have; a longer extract is cut."""
_MARGIN = 0.85
"""Share of the token budget that a library is given if it counts neither the framing of messages nor tool calls, so
that its context still fits."""
_ROLES = {"human": "user", "ai": "assistant"}


class _Piece(NamedTuple):
    """A message of the log, or one of its tool results, in the form of OpenAI's chat API."""

    at: int
    """Index of the message in the log."""
    key: str
    """Id that the message carries through the library, so that it can be recognised in the library's result."""
    fields: dict[str, Any]
    tokens: int


class _LibraryPeer:
    """Base class of the compared libraries: imports the library, and converts messages to and from its form."""

    name: ClassVar[str]
    module: ClassVar[str]
    package: ClassVar[str]
    """Name of the distribution to install."""
    extra: ClassVar[str] = ""
    """Extra of turnfold that installs the compared library's package; empty if there is none."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._cost = MessageCosts(counter)
        self._log: list[Message] = []
        self._pieces: dict[str, _Piece] = {}
        self._library: Any = self.require()

    @classmethod
    def require(cls) -> Any:  # noqa: ANN401 (a package that pyright does not see)
        """Import the compared library and return it; raises `MissingExtra` with the package to install."""
        return _load(cls.module, package=cls.package, extra=cls.extra, peer=cls.name)

    def _new(self, messages: Sequence[Message]) -> list[_Piece]:
        """Return the messages logged since the last call, in the form of OpenAI's chat API, each with a key."""
        first = len(self._log)
        self._log.extend(messages[first:])
        new: list[_Piece] = []
        for at, message in enumerate(self._log[first:], first):
            for number, fields in enumerate(_fields(message)):
                tokens = self._counter.count_message(Message(**fields))
                new.append(_Piece(at, f"{at}.{number}", fields, tokens))
        self._pieces.update((piece.key, piece) for piece in new)
        return new

    def _restore(self, found: Iterable[tuple[str | None, str, str]]) -> list[Message]:
        """Convert (key, role, text) items to messages: the log's own message for a known key, else a new one."""
        restored: list[Message] = []
        for key, role, text in found:
            if piece := self._pieces.get(key or ""):
                message = self._log[piece.at]
                if not restored or restored[-1] is not message:
                    restored.append(message)
            else:
                restored.append(Message(_ROLES.get(role, role), text))
        return restored


def _load(module: str, *, package: str, extra: str, peer: str) -> Any:  # noqa: ANN401 (as above)
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(
            package=package, extra=extra, purpose=f"the comparison with {peer!r}"
        ) from None


def _fields(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            {"role": "tool", "content": result.text, "tool_call_id": result.call_id}
            for result in message.results
        ]
    fields: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.calls
        ]
    return [fields]


def _result(work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 (whatever the library returns)
    """Run a coroutine that never suspends, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError(
        "the library's coroutine waits for an event loop, but a peer is run without one"
    )


class LangChainTrim(_LibraryPeer):
    """Runs `trim_messages` of langchain-core: keeps the newest messages that fit, beginning with a user's."""

    name = "langchain-trim"
    module, package, extra = "langchain_core.messages", "langchain-core", "langchain"

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._items: list[Any] = []

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Return the history trimmed to the budget by LangChain's `trim_messages`."""
        self._items += self._as_langchain(messages)
        kept = self._library.trim_messages(
            self._items,
            max_tokens=budget - self._cost.reply,
            token_counter=self._count,
            strategy="last",
            start_on="human",
            include_system=True,
        )
        return self._as_messages(kept)

    def _as_langchain(self, messages: Sequence[Message]) -> list[Any]:
        new = [{**piece.fields, "id": piece.key} for piece in self._new(messages)]
        return self._library.convert_to_messages(new)

    def _as_messages(self, items: Iterable[Any]) -> list[Message]:
        return self._restore((item.id, item.type, str(item.text)) for item in items)

    def _count(self, items: Iterable[Any]) -> int:
        pieces = [(self._pieces.get(item.id or ""), item) for item in items]
        return sum(
            piece.tokens if piece else self._counter.count_text(str(item.text)) + self._cost.reply
            for piece, item in pieces
        )


class LangChainSummary(LangChainTrim):
    """Runs LangChain's `SummarizationMiddleware`; turnfold's extractive summariser replaces its model."""

    name = "langchain-summary"
    package = "langchain"

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._system: list[Any] = []
        self._middleware: Any = None

    @classmethod
    def require(cls) -> Any:  # noqa: ANN401 (as above)
        """Import both packages of LangChain; raises `MissingExtra` with the package to install."""
        _load("langchain.agents.middleware", package="langchain", extra="langchain", peer=cls.name)
        return super().require()

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Return the messages after LangChain's middleware, which may replace the oldest by a summary."""
        for item in self._as_langchain(messages):
            (self._system if item.type == "system" else self._items).append(item)
        if self._middleware is None:
            self._middleware = self._made(budget)
        update = self._middleware.before_model({"messages": self._items}, None)
        if update is not None:
            self._items = [item for item in update["messages"] if item.type != "remove"]
        return self._as_messages([*self._system, *self._items])

    def _made(self, budget: int) -> Any:  # noqa: ANN401 (as above)
        room = budget - self._cost.reply - self._count(self._system)
        models = import_module("langchain_core.language_models.fake_chat_models")

        def summarise(items: Iterable[Any]) -> str:
            passages = [
                Passage(message.role, message.text, at)
                for at, message in enumerate(self._as_messages(items))
            ]
            limit = int(budget * _SUMMARY)
            return extract_summary(passages, limit=limit, count=self._counter.count_text)

        return import_module("langchain.agents.middleware").SummarizationMiddleware(
            models.FakeListChatModel(responses=[""]),
            trigger=("tokens", int(room * _TRIGGER)),
            keep=("tokens", int(room * _KEEP)),
            token_counter=self._count,
            trim_tokens_to_summarize=None,
            summarizer=summarise,
        )


class LlamaIndexBuffer(_LibraryPeer):
    """Runs LlamaIndex's `ChatMemoryBuffer`; the system messages are put before what the buffer keeps.

    The buffer gets less than the budget, because it counts no framing of messages.
    """

    name = "llama-index"
    module, package, extra = "llama_index.core.memory", "llama-index-core", "llama-index"

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._system: list[_Piece] = []
        self._waiting: list[_Piece] = []
        self._buffer: Any = None

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Put the new messages into the buffer of LlamaIndex; return the messages that stay in it."""
        for piece in self._new(messages):
            (self._system if piece.fields["role"] == "system" else self._waiting).append(piece)
        if self._buffer is None:
            room = budget - self._cost.reply - sum(piece.tokens for piece in self._system)
            self._buffer = self._library.ChatMemoryBuffer.from_defaults(
                token_limit=int(room * _MARGIN),
                tokenizer_fn=self._as_tokens,
            )
        chat = import_module("llama_index.core.base.llms.types").ChatMessage
        for piece in self._waiting:
            extra = {key: piece.fields[key] for key in piece.fields if key.startswith("tool_call")}
            self._buffer.put(
                chat(
                    role=piece.fields["role"],
                    content=piece.fields["content"],
                    additional_kwargs={**extra, "key": piece.key},
                )
            )
        self._waiting.clear()
        kept = [
            (item.additional_kwargs.get("key"), item.role.value, str(item.content or ""))
            for item in self._buffer.get()
        ]
        return self._restore([*((piece.key, "system", "") for piece in self._system), *kept])

    def _as_tokens(self, text: str) -> range:
        return range(self._counter.count_text(text))


class AgentFrameworkTruncation(_LibraryPeer):
    """Runs Microsoft Agent Framework's `TruncationStrategy`: a context that reaches the budget is cut to half of it."""

    name = "agent-framework"
    module, package = "agent_framework", "agent-framework-core"

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._items: list[Any] = []
        self._keys: dict[int, str] = {}

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Return the messages that the framework's strategy does not mark to be left out."""
        for piece in self._new(messages):
            item = self._item(piece.fields)
            self._items.append(item)
            self._keys[id(item)] = piece.key
        room = budget - self._cost.reply
        strategy = self._library.TruncationStrategy(
            max_n=room, compact_to=room // 2, tokenizer=self, preserve_system=True
        )
        work = self._library.apply_compaction(self._items, strategy=strategy, tokenizer=self)
        kept = _result(work)
        return self._restore((self._keys.get(id(item)), str(item.role), item.text) for item in kept)

    def count_tokens(self, text: str) -> int:
        """Return the tokens of a text; the library counts messages as JSON."""
        return self._counter.count_text(text)

    def _item(self, fields: dict[str, Any]) -> Any:  # noqa: ANN401 (as above)
        content = self._library.Content
        if fields["role"] == "tool":
            parts = [content.from_function_result(fields["tool_call_id"], result=fields["content"])]
        else:
            parts = [content.from_text(fields["content"])] if fields["content"] else []
            for call in fields.get("tool_calls", ()):
                named = call["function"]
                parts.append(
                    content.from_function_call(
                        call["id"], named["name"], arguments=named["arguments"]
                    )
                )
        return self._library.Message(fields["role"], parts)


class HarnessSlidingWindow(_LibraryPeer):
    """Runs `SlidingWindowCompaction` of pydantic-ai-harness as an agent's run does.

    Above the budget, it cuts to half of it.
    """

    name = "pydantic-ai-harness"
    module, package = "pydantic_ai_harness.compaction", "pydantic-ai-harness"

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._history: list[Any] = []
        self._parts: list[Any] = []
        self._keys: dict[int, str] = {}
        self._names: dict[str, str] = {}
        self._messages = import_module("pydantic_ai.messages")
        self._model = import_module("pydantic_ai.models.test").TestModel()

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Return the history after the library's hook, which is called before each request, has shortened it."""
        for piece in self._new(messages):
            self._add(piece)
        strategy = self._library.SlidingWindowCompaction(
            max_tokens=budget - self._cost.reply,
            keep_tokens=budget // 2,
            tokenizer=self._framed,
        )
        models, tools = import_module("pydantic_ai.models"), import_module("pydantic_ai.tools")
        usage = import_module("pydantic_ai.usage").RunUsage()
        run = tools.RunContext(deps=None, model=self._model, usage=usage, messages=self._history)
        request = models.ModelRequestContext(
            model=self._model,
            messages=self._history,
            model_settings=None,
            model_request_parameters=models.ModelRequestParameters(),
        )
        self._history = list(_result(strategy.before_model_request(run, request)).messages)
        return self._restore(
            (self._keys.get(id(part)), "user", str(getattr(part, "content", "")))
            for item in self._history
            for part in item.parts
        )

    def _framed(self, text: str) -> int:
        return self._counter.count_text(text) + self._cost.reply

    def _add(self, piece: _Piece) -> None:
        fields, kinds = piece.fields, self._messages
        role, text = fields["role"], fields["content"]
        if role == "assistant":
            parts = [kinds.TextPart(text)] if text else []
            for call in fields.get("tool_calls", ()):
                named = call["function"]
                self._names[call["id"]] = named["name"]
                parts.append(kinds.ToolCallPart(named["name"], named["arguments"], call["id"]))
            self._history.append(kinds.ModelResponse(parts=parts))
        elif role == "tool":
            call_id = fields["tool_call_id"]
            parts = [kinds.ToolReturnPart(self._names.get(call_id, "tool"), text, call_id)]
            self._history.append(kinds.ModelRequest(parts=parts))
        else:
            parts = [(kinds.SystemPromptPart if role == "system" else kinds.UserPromptPart)(text)]
            # An agent sends its system prompt in one request with the first user prompt.
            opening = self._history[-1].parts if len(self._history) == 1 else ()
            if opening and isinstance(opening[-1], kinds.SystemPromptPart):
                self._history.pop()
            else:
                opening = ()
            self._history.append(kinds.ModelRequest(parts=[*opening, *parts]))
        self._parts += parts  # kept, so that no other object gets the same id
        self._keys.update((id(part), piece.key) for part in parts)


class CompactionGuard(_LibraryPeer):
    """Runs compaction-guard around a compactor that drops the oldest messages, down to half of the budget.

    The library keeps only texts that are registered with it: here, the rules that turnfold finds.
    """

    name = "compaction-guard"
    module, package = "compaction_guard", "compaction-guard"

    def __init__(self, counter: TokenCounter) -> None:
        super().__init__(counter)
        self._context: list[dict[str, Any]] = []
        self._guard: Any = self._library.Guard(token_estimator=counter.count_text)
        self._registered: set[str] = set()

    def context(self, messages: Sequence[Message], budget: int) -> Sequence[Message]:
        """Register new rules with the library, and return the messages, compacted if they are over the budget."""
        for piece in self._new(messages):
            self._context.append({**piece.fields, "id": piece.key})
            if piece.fields["role"] == "user":
                self._register(piece.fields["content"], piece.at + 1)
        room = budget - self._cost.reply
        if sum(map(self._tokens, self._context)) > room:
            self._context = self._guard.compact(self._context, compactor=partial(self._cut, room))
        return self._restore(
            (item.get("id"), str(item["role"]), str(item["content"])) for item in self._context
        )

    def _register(self, text: str, seq: int) -> None:
        for rule in extract_rules(text, seq=seq, trust="user"):
            if rule.text not in self._registered:
                self._registered.add(rule.text)
                self._guard.add(rule.text, source=f"message {seq}")

    def _tokens(self, item: dict[str, Any]) -> int:
        piece = self._pieces.get(item.get("id", ""))
        return piece.tokens if piece else self._counter.count_text(str(item["content"]))

    def _cut(self, room: int, context: list[dict[str, Any]]) -> list[dict[str, Any]]:
        system = [item for item in context if item["role"] == "system"]
        talk = [item for item in context if item["role"] != "system"]
        roles = [item["role"] for item in talk]
        return [*system, *talk[newest_start(roles, list(map(self._tokens, talk)), room // 2) :]]
