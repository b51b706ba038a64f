"""Summarizers: write the summary of a fold (compaction) with a chat model, or without one by extracting sentences.

A writer gets the passages to fold, the previous summary, and the limit of the new one. The model's prompt fences all of
it as data, because it may contain anything. A range too long for one prompt is summarised in pieces, each read once,
and the summaries of the pieces are merged with the previous summary in a last request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast, runtime_checkable

from turnfold.errors import InvalidOption
from turnfold.fold import (
    DEFAULT_PROMPT,
    Passage,
    ReadCache,
    completion_text,
    extract_summary,
    fill_prompt,
    history_text,
    split_to_fit,
)
from turnfold.models import CompletionModel
from turnfold.runtime import Runtime
from turnfold.text import clip

__all__ = (
    "ExtractiveWriter",
    "ModelWriter",
    "Summaries",
    "SummaryTask",
    "SummaryWriter",
    "writer_for",
)


_FRAMING = 64
"""Tokens reserved for the fences and separators of a prompt."""
_MIN_PIECE = 256
"""Tokens of conversation that must fit into a prompt."""


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """The input of a summary."""

    passages: Sequence[Passage]
    previous: str
    """The previous summary, which the new one replaces; empty for the first."""
    limit: int
    """The most tokens of the new summary."""
    count: Callable[[str], int]
    reading: ReadCache = field(default_factory=ReadCache, compare=False, repr=False)
    """Cache of what was already read of the passages."""


@runtime_checkable
class SummaryWriter(Protocol):
    """Writes summaries."""

    @property
    def name(self) -> str:
        """Name stored in the checkpoint; empty for the extractive writer."""
        ...

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        """Summarise `task.previous` followed by `task.passages`. Any exception counts as a failed attempt."""
        ...


Summaries = SummaryWriter | CompletionModel | Callable[[str], object]
"""Types accepted as a summariser: a writer, a model with `acompletion`, or a function from prompt to text."""


class ExtractiveWriter:
    """Extracts the important sentences, in English and Chinese; needs no model and never fails."""

    @property
    def name(self) -> str:
        """Empty: no model wrote it."""
        return ""

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:  # noqa: ARG002 (it waits for nothing)
        """Return the extract."""
        return extract_summary(
            task.passages,
            limit=task.limit,
            count=task.count,
            previous=task.previous,
            reading=task.reading,
        )


class ModelWriter:
    """Asks a chat model for summaries."""

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
        if reads <= 0 or seconds <= 0:
            raise InvalidOption(f"reads={reads} tokens and seconds={seconds} must be positive")
        self._ask = ask
        self._name = name
        self._prompt = prompt
        self._reads = reads
        self._seconds = seconds

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._name

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        """Make one request if everything fits one prompt; otherwise one per piece and one to merge them."""
        spare = task.count(fill_prompt(self._prompt, history_text((), previous=""))) + _FRAMING
        room = self._reads - spare - task.count(task.previous)
        if room < _MIN_PIECE:
            raise InvalidOption(
                f"reads={self._reads:,} tokens leave {room:,} for the conversation, after the prompt ({spare:,}) and "
                f"the previous summary; set reads= to at least {self._reads + _MIN_PIECE - room:,}"
            )
        pieces = list(split_to_fit(task.passages, room, task.count))
        while len(pieces) > 1:
            # The summary of a piece takes a fourth of a prompt: each round leaves a fourth of the pieces.
            parts = [
                await self._condense(piece, room // 4, task.count, runtime) for piece in pieces
            ]
            pieces = list(split_to_fit(parts, room, task.count))
        return await self._summarize(pieces[0] if pieces else (), task.previous, runtime)

    async def _condense(
        self, piece: list[Passage], limit: int, count: Callable[[str], int], runtime: Runtime
    ) -> Passage:
        text = clip(await self._summarize(piece, "", runtime), limit - _FRAMING // 4, count)
        return Passage("summary of a part", text, piece[0].position)

    async def _summarize(self, passages: Sequence[Passage], previous: str, runtime: Runtime) -> str:
        prompt = fill_prompt(self._prompt, history_text(passages, previous=previous))
        return completion_text(await runtime.ask(lambda: self._ask(prompt), seconds=self._seconds))


def writer_for(summaries: Summaries | None) -> SummaryWriter:
    """Return the writer for a `summarizer=` option; the extractive one for None."""
    if summaries is None:
        return ExtractiveWriter()
    if isinstance(summaries, SummaryWriter):
        return summaries
    complete = getattr(summaries, "acompletion", None)
    name = str(getattr(summaries, "model", "") or type(summaries).__name__)
    if complete is not None:
        model = cast("CompletionModel", summaries)
        return ModelWriter(
            lambda prompt: model.acompletion([{"role": "user", "content": prompt}]), name=name
        )
    if callable(summaries):
        return ModelWriter(summaries, name=getattr(summaries, "__name__", name))
    raise InvalidOption(
        f"summarizer={type(summaries).__name__} is not a summarizer: give a function from prompt to text, an object "
        "with acompletion(messages), or a SummaryWriter"
    )
