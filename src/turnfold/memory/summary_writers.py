"""Summarizers: write the summary of a fold (compaction) with a chat model, or without one by extracting sentences.

A writer gets the passages to fold, the previous summary, and the token limit of the new one. A model is asked for it
with one of two requests:

- **A fresh prompt** (`ModelWriter`): the passages as text, fenced as data, because they may contain anything. A range
  too long for one prompt is summarised in pieces, each read once, and the summaries of the pieces are merged with the
  previous summary in a last request. The provider has none of it in its prompt cache.
- **The agent's own prompt** (`ChatWriter`): the beginning of the last prompt the agent sent, with the same tools, and
  one instruction after it. The provider serves nearly all of it from its prompt cache. That needs the agent's model,
  so `ChatWriter` compares: the client given as `context(to=...)` writes the same request as the summarizer, or the
  memory's `model=` is the summarizer's name. It also needs a cache that has not expired, room in the context window,
  and a prompt that shows the whole range as it is stored; `prepare` checks all of it.

If the agent's prompt cannot be used, or the model answers it with a tool call or a refusal, the fresh prompt is sent.
The token usage of every request is added to `task.requests`, if the provider reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from turnfold.errors import (
    BudgetTooSmall,
    InvalidOption,
    ModelFailed,
    ModelUnavailable,
    SummaryFailed,
)
from turnfold.fold import (
    DEFAULT_PROMPT,
    MODEL_SUMMARY_TOKENS,
    Passage,
    ReadCache,
    check_fidelity,
    completion_text,
    extract_summary,
    fill_prompt,
    history_text,
    prefix_prompt,
    prefix_shows,
    split_to_fit,
)
from turnfold.models import Answer, ChatModel, SummaryModel, model_name, prompt_function
from turnfold.records import Checkpoint, Entry, Usage, has_compaction, user
from turnfold.runtime import Runtime
from turnfold.text import clip, is_chinese
from turnfold.window import Context

__all__ = (
    "CALLER",
    "ChatWriter",
    "ExtractiveWriter",
    "ModelWriter",
    "SentPrompt",
    "Summaries",
    "SummaryRequest",
    "SummaryTask",
    "SummaryWriter",
    "heading_tokens",
    "shown_summary",
    "without_headings",
    "writer_for",
)


if TYPE_CHECKING:
    from turnfold.wire import WireFormat


CALLER = "caller"
"""Stored as the model of a checkpoint (summary) if the caller gave the text to `fold(summary=...)`."""
_LANGUAGE_SAMPLE = 400
"""Number of characters at the beginning of a summary that decide if its heading is Chinese or English."""
_FRAMING = 64
"""Tokens kept free in a request for a summary, for the fences and separators around the conversation."""
_MIN_PIECE = 256
"""Least tokens of conversation that must fit into a request for a summary, besides the instructions and the previous
summary; with less room, an error is raised."""
_CACHE_SECONDS = 300.0
"""How long OpenAI and Anthropic keep a prompt cached after it was last sent, at least; Gemini does not say."""
_CACHES_BY_ITSELF = frozenset({"openai_chat", "openai_responses", "gemini"})
"""Wire formats of providers that cache any beginning of a prompt automatically; other providers cache up to breakpoints
only."""
_REFUSALS = frozenset({"refusal", "content_filter", "safety", "prohibited_content", "blocklist"})
"""Stop reasons of a model that refused to write a summary, in lower case."""
_FEW_FACTS = 8
"""If a source has at least this many facts and the model's text states none of them, the text counts as a refusal to
summarise."""


_ORIGINS = {
    "tool": (
        "(Written by a model from words of users, tools and models; what tools and models said is not verified.)",
        "（由模型根据用户、工具和模型的话写成；工具和模型的话未经核实。）",
    ),
    "user": (
        "(Written by a model from words of users and models; what models said is not verified.)",
        "（由模型根据用户和模型的话写成；模型的话未经核实。）",
    ),
    "assistant": (
        "(Written by a model from words of models; not verified.)",
        "（由模型根据模型的话写成；未经核实。）",
    ),
}
"""Heading of a summary that a model wrote, in English and Chinese, by the least trusted role among the folded messages.

A model's text does not say reliably whose words it repeats: a line that names a speaker is only the model's claim."""
_HEADINGS = tuple(heading for both in _ORIGINS.values() for heading in both)


def shown_summary(checkpoint: Checkpoint) -> str:
    """Return the summary of a checkpoint as contexts show it: a model's text gets a heading that names its sources."""
    text, model = checkpoint.text, checkpoint.model
    if not text or model in ("", CALLER):
        return text
    both = _ORIGINS.get(checkpoint.trust, _ORIGINS["tool"])
    first, _, _ = text[:_LANGUAGE_SAMPLE].partition("\n")
    return f"{both[is_chinese(first)]}\n{text}"


def heading_tokens(count: Callable[[str], int]) -> int:
    """Return the tokens of the longest heading that turnfold puts above a summary written by a model."""
    return max(count(f"{heading}\n") for heading in _HEADINGS)


def without_headings(text: str) -> str:
    """Remove lines from a model's text that equal turnfold's headings of summaries, so that none is forged."""
    return "\n".join(line for line in text.splitlines() if line.strip() not in _HEADINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPrompt:
    """The last prompt that a session made for the agent's model.

    A request for the summary of a fold (compaction) can continue this prompt, to use the provider's cache.
    """

    context: Context
    tools: Sequence[Mapping[str, object]] = ()
    to: WireFormat | None = None
    """The wire format or client for which the prompt was built, if the caller named one."""
    model: str = ""
    """The agent's model, from the memory's `model=`; empty if not known."""
    clock: Callable[[], int]
    """Function that returns microseconds since 1970."""
    at: int
    """Time at which the prompt was built, by `clock`."""

    @property
    def seconds_old(self) -> float:
        """Age of the prompt in seconds; negative if the clock was set back."""
        return (self.clock() - self.at) / 1_000_000


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """Record of one request that was made to a model for a summary, with its token usage."""

    prefix: bool
    """True if the request continued the agent's own prompt with an instruction, False for a fresh prompt."""
    usage: Usage | None
    """The token usage that the provider reported; None if it reported none."""


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """The input of a summary: what to summarise, and within which limit."""

    passages: Sequence[Passage]
    previous: str
    """The previous summary, which the new summary replaces; empty for the first."""
    limit: int
    """The most tokens of the new summary."""
    count: Callable[[str], int]
    reading: ReadCache = field(default_factory=ReadCache, compare=False, repr=False)
    """Cache of the sentences of the passages and the facts in them."""
    prefix: Context | None = field(default=None, compare=False, repr=False)
    """The agent's own prompt up to the end of the passages, and the instruction to summarise; None if this prompt
    cannot be used."""
    tools: Sequence[Mapping[str, object]] = field(default=(), compare=False, repr=False)
    """The tool schemas that the agent's prompt was sent with."""
    outdated: Sequence[str] = ()
    """Sentences of rules that the user changed or took back; an extract leaves them out."""
    shown: int = 0
    """Log position of a message among the passages that contexts still show, which an extract leaves out."""
    again: Sequence[Passage] = ()
    """Passages of earlier folds (compactions) that contexts have shown until now, to be included in the extract."""
    requests: list[SummaryRequest] = field(
        default_factory=list[SummaryRequest], compare=False, repr=False
    )
    """The requests to a model so far; the summary writer appends each."""


@runtime_checkable
class SummaryWriter(Protocol):
    """A summarizer: writes the summary of a range of messages, which replaces the previous summary."""

    @property
    def name(self) -> str:
        """Name that is stored in the checkpoint as the writer of its summary; empty for the extractive writer."""
        ...

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        """Summarise `task.previous` followed by `task.passages`. Any exception counts as a failed attempt."""
        ...


Summaries = SummaryWriter | SummaryModel
"""Types accepted as a summariser: a summary writer, a model's client, or a function from prompt to text."""


class ExtractiveWriter:
    """Extracts the important sentences, in English and Chinese; needs no model and never fails."""

    @property
    def name(self) -> str:
        """Empty, because no model writes the summary."""
        return ""

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        """Return the most important sentences of the previous summary and the passages, within the token limit."""
        extract = partial(
            extract_summary,
            [*task.again, *task.passages],
            limit=task.limit,
            count=task.count,
            previous=task.previous,
            without=task.outdated,
            shown=task.shown,
            reading=task.reading,
        )
        return await runtime.compute(extract)


class ModelWriter:
    """A summarizer that asks a chat model, with a prompt that contains the messages as text."""

    def __init__(
        self,
        ask: Callable[[str], object],
        *,
        name: str = "model",
        prompt: str = DEFAULT_PROMPT,
        reads: int = 24_000,
        seconds: float = 60.0,
    ) -> None:
        fill_prompt(prompt, "")  # raises if the template has no place for the history
        for option, value in (("reads", reads), ("seconds", seconds)):
            if value <= 0:
                raise InvalidOption(f"{option}={value} must be above 0")
        self._ask = ask
        self._name = name
        self._prompt = prompt
        self._reads = reads
        self._seconds = seconds

    @property
    def name(self) -> str:
        """Name of the model, which is stored with the summaries it writes."""
        return self._name

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        """Ask the model for a summary, with one request if all fits one prompt.

        Otherwise one request per piece makes a short summary of it, in rounds until these fit one prompt, and a last
        request merges them.

        Raises `InvalidOption` if the prompt leaves too little room for the conversation.
        """
        spare = task.count(fill_prompt(self._prompt, history_text((), previous=""))) + _FRAMING
        room = self._reads - spare - task.count(task.previous)
        if room < _MIN_PIECE:
            raise InvalidOption(
                f"reads={self._reads:,} tokens leave {room:,} for the conversation, after the prompt ({spare:,}) and "
                f"the previous summary; set reads= to at least {self._reads + _MIN_PIECE - room:,}"
            )
        split = partial(split_to_fit, task.passages, room, task.count)
        pieces = await runtime.compute(lambda: list(split()))
        while len(pieces) > 1:
            # The summary of a piece takes a fourth of a prompt: each round leaves a fourth of the pieces.
            parts = [await self._condense(piece, room // 4, task, runtime) for piece in pieces]
            pieces = list(split_to_fit(parts, room, task.count))
        return await self._summarize(pieces[0] if pieces else (), task.previous, task, runtime)

    async def _condense(
        self, piece: list[Passage], limit: int, task: SummaryTask, runtime: Runtime
    ) -> Passage:
        text = await self._summarize(piece, "", task, runtime)
        text = clip(text, limit - _FRAMING // 4, task.count)
        return Passage("summary of a part", text, piece[0].position)

    async def _summarize(
        self, passages: Sequence[Passage], previous: str, task: SummaryTask, runtime: Runtime
    ) -> str:
        prompt = fill_prompt(self._prompt, history_text(passages, previous=previous))
        response = await runtime.ask(lambda: self._ask(prompt), seconds=self._seconds)
        task.requests.append(SummaryRequest(prefix=False, usage=_usage_of(response)))
        return _text_of(response)


class ChatWriter(ModelWriter):
    """Asks a chat model of `turnfold.models`, or one with the same methods; uses the agent's own prompt if it can.

    `cache_seconds` is how long the provider keeps a prompt in its cache; 0 always sends a fresh prompt. The other
    options are those of `ModelWriter`.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompt: str = DEFAULT_PROMPT,
        reads: int = 24_000,
        seconds: float = 60.0,
        cache_seconds: float = _CACHE_SECONDS,
    ) -> None:
        def ask(text: str) -> object:
            return model.complete([user(text)])

        super().__init__(ask, name=model.name, prompt=prompt, reads=reads, seconds=seconds)
        if cache_seconds < 0:
            raise InvalidOption(f"cache_seconds={cache_seconds} must not be negative")
        self._model = model
        self._cache_seconds = cache_seconds

    def prepare(
        self, sent: SentPrompt, entries: Sequence[Entry], *, previous: str, limit: int
    ) -> Context | None:
        """Return the agent's last prompt, up to the end of the range, plus an instruction to summarise.

        Returns None if it cannot be used.

        It is unusable if the provider does not have it in its cache (it went to another model, or too long ago), if it
        does not show the previous summary and the entries as they are stored, or if the window has no room for the
        instruction and the summary.
        """
        if not 0 <= sent.seconds_old < self._cache_seconds:
            return None
        shown = [previous, *(f"{heading}\n{previous}" for heading in _HEADINGS if previous)]
        if not any(prefix_shows(sent.context, entries, summary=each) for each in shown):
            return None
        if not _is_same_model(sent, self._model):
            return None
        marked = _needs_breakpoints(sent, self._model)
        if marked is None:
            return None
        prompt = prefix_prompt(
            sent.context, entries, limit=limit, template=self._prompt, marked=marked
        )
        budget = sent.context.budget
        window = budget.context_window or budget.tokens
        answer = min(limit, MODEL_SUMMARY_TOKENS) if budget.context_window else 0
        if prompt is None or prompt.tokens + answer > window:
            return None
        # With a compaction item in it, the provider would not read the messages before that item.
        return None if any(map(has_compaction, prompt.messages)) else prompt

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        """Ask for a summary with the agent's own prompt; if that fails or returns none, ask with a fresh prompt."""
        if task.prefix is not None:
            text = await self._from_prefix(task.prefix, task, runtime)
            if text:
                return text
        return await super().write(task, runtime)

    async def _from_prefix(self, prompt: Context, task: SummaryTask, runtime: Runtime) -> str:
        """Ask for a summary with the agent's own prompt; return "" if the model refuses or answers something else."""
        try:
            found = await runtime.ask(
                lambda: self._model.complete(prompt, tools=task.tools), seconds=self._seconds
            )
        except ModelUnavailable:
            raise
        except (ModelFailed, BudgetTooSmall):  # too long for this provider, or refused as it is
            task.requests.append(SummaryRequest(prefix=True, usage=None))
            return ""
        answer = cast("Answer", found)
        task.requests.append(SummaryRequest(prefix=True, usage=answer.usage))
        text = answer.message.text.strip()
        if answer.message.calls or answer.stop.lower() in _REFUSALS or not text:
            return ""
        kept = check_fidelity(task.passages, text, reading=task.reading)
        return "" if kept.score == 0 and len(kept.missing) >= _FEW_FACTS else text


def _needs_breakpoints(sent: SentPrompt, model: ChatModel) -> bool | None:
    """Return True if the provider caches only up to marked breakpoints; False if it caches any prefix.

    Returns None if it needs marked breakpoints, but this prompt has none.
    """
    written = _request_of(model, sent)
    if written is None:
        return True  # an unknown client: a prefix that ends at a breakpoint is cached by every provider
    provider, arguments = written
    if provider in _CACHES_BY_ITSELF:
        return False
    return True if _has_breakpoint(arguments) else None


def _is_same_model(sent: SentPrompt, model: ChatModel) -> bool:
    """Return True if the agent's prompt went to this model, as far as the session knows.

    A client that the caller named is compared by the request it writes: with another provider, model or order of tools
    the prompt begins differently, and the cache is missed.
    """
    if cast("object", sent.to) is model:
        return True
    if sent.to is None:
        return sent.model == model.name
    ours, theirs = _request_of(model, sent), _request_of(sent.to, sent)
    if ours is None or theirs is None or ours[0] != theirs[0]:
        return False
    named = theirs[1].get("model") or sent.model
    same = all(ours[1].get(key) == value for key, value in theirs[1].items())
    return same and named == model.name


def _request_of(to: object, sent: SentPrompt) -> tuple[str, Mapping[str, object]] | None:
    """Return the provider and the arguments of the request that a client or wire format writes.

    Returns None if that is not possible.
    """
    from turnfold.wire import WireFormat  # loads the wire formats only if one is used

    if not isinstance(to, WireFormat):
        return None
    written = to.request(sent.context, tools=sent.tools, max_bytes=0)
    return written.provider, written.kwargs


def _has_breakpoint(value: object) -> bool:
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        return "cache_control" in fields or any(map(_has_breakpoint, fields.values()))
    return isinstance(value, list) and any(map(_has_breakpoint, cast("list[object]", value)))


def _text_of(response: object) -> str:
    if not isinstance(response, Answer):
        return completion_text(response)
    if response.stop.lower() in _REFUSALS:
        raise SummaryFailed(
            f"the summariser refused to write a summary (stop reason {response.stop!r}): use another model, or fold "
            "with summary="
        )
    return completion_text(response.message.text)


def _usage_of(response: object) -> Usage | None:
    if isinstance(response, Answer):
        return response.usage
    try:
        return Usage.of(response)
    except InvalidOption:  # a text, or an object without usage
        return None


def writer_for(summaries: Summaries | None) -> SummaryWriter:
    """Return the writer for a `summarizer=` option; the extractive writer for None."""
    if summaries is None:
        return ExtractiveWriter()
    if isinstance(summaries, SummaryWriter):
        return summaries
    if isinstance(summaries, ChatModel) and not isinstance(summaries, type):
        return ChatWriter(summaries)
    ask = prompt_function(summaries, option="summarizer")
    return ModelWriter(ask, name=model_name(summaries))
