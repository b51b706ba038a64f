"""Who writes the summary of a fold: any chat model, or nobody but this library.

A writer gets what is to be folded as passages, the summary so far, and how long the new one may be. The model's prompt
fences all of it, because it may contain anything. A range too long for one prompt is summarised in pieces, each read
once, and the pieces are folded together with the summary so far in a last step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast, runtime_checkable

from turnfold.errors import InvalidOption
from turnfold.memory.waiting import Way
from turnfold.models.protocol import CompletionModel
from turnfold.summary import (
    DEFAULT_PROMPT,
    Passage,
    completion_text,
    extract_summary,
    fill_prompt,
    history_text,
    split_to_fit,
)
from turnfold.summary.reading import Reading
from turnfold.tokens import clip

__all__ = (
    "ExtractiveWriter",
    "ModelWriter",
    "Summaries",
    "SummaryTask",
    "SummaryWriter",
    "writer_for",
)

_JOINTS = 64
"""Tokens the fences and joints of a prompt may take."""
_SMALLEST_PIECE = 256
"""Tokens of conversation a prompt must have room for."""


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """What is to be summarised."""

    passages: Sequence[Passage]
    previous: str
    """The summary so far, which the new one replaces; empty for the first."""
    limit: int
    """Tokens the new summary may have."""
    count: Callable[[str], int]
    reading: Reading = field(default_factory=Reading, compare=False, repr=False)
    """What was read of it already."""


@runtime_checkable
class SummaryWriter(Protocol):
    """Writes summaries."""

    @property
    def name(self) -> str:
        """Who wrote it, for the checkpoint; empty for the extractive one."""
        ...

    async def write(self, task: SummaryTask, way: Way) -> str:
        """A summary of `task.previous` followed by `task.passages`. Whatever it raises is a failed attempt."""
        ...


Summaries = SummaryWriter | CompletionModel | Callable[[str], object]
"""What may be given as a summariser: a writer, a model with `acompletion`, or a function from prompt to text."""


class ExtractiveWriter:
    """Picks the sentences that matter, in English and Chinese; needs no model and never fails."""

    @property
    def name(self) -> str:
        """Nobody's."""
        return ""

    async def write(self, task: SummaryTask, way: Way) -> str:  # noqa: ARG002 (it waits for nothing)
        """The extract."""
        return extract_summary(
            task.passages,
            limit=task.limit,
            count=task.count,
            previous=task.previous,
            reading=task.reading,
        )


class ModelWriter:
    """Asks a chat model."""

    def __init__(
        self,
        ask: Callable[[str], object],
        *,
        name: str = "model",
        prompt: str = DEFAULT_PROMPT,
        reads: int = 24_000,
        seconds: float = 60.0,
    ) -> None:
        fill_prompt(prompt, "")  # refuses a template without its slot
        if reads <= 0 or seconds <= 0:
            raise InvalidOption(f"reads={reads} tokens and seconds={seconds} must be positive")
        self._ask = ask
        self._name = name
        self._prompt = prompt
        self._reads = reads
        self._seconds = seconds

    @property
    def name(self) -> str:
        """The model's."""
        return self._name

    async def write(self, task: SummaryTask, way: Way) -> str:
        """One question if everything fits one prompt; otherwise one per piece and one to fold them."""
        spare = task.count(fill_prompt(self._prompt, history_text((), previous=""))) + _JOINTS
        room = self._reads - spare - task.count(task.previous)
        if room < _SMALLEST_PIECE:
            raise InvalidOption(
                f"a model that reads {self._reads:,} tokens has {room:,} left beside the prompt ({spare:,}) and the "
                f"summary so far; give reads= at least {self._reads + _SMALLEST_PIECE - room:,}"
            )
        pieces = list(split_to_fit(task.passages, room, task.count))
        while len(pieces) > 1:
            # A piece's summary is held to a fourth of what a prompt holds: each round leaves a fourth of the pieces.
            parts = [await self._condensed(piece, room // 4, task.count, way) for piece in pieces]
            pieces = list(split_to_fit(parts, room, task.count))
        return await self._answer(pieces[0] if pieces else (), task.previous, way)

    async def _condensed(
        self, piece: list[Passage], limit: int, count: Callable[[str], int], way: Way
    ) -> Passage:
        text = clip(await self._answer(piece, "", way), limit - _JOINTS // 4, count)
        return Passage("summary of a part", text, piece[0].position)

    async def _answer(self, passages: Sequence[Passage], previous: str, way: Way) -> str:
        prompt = fill_prompt(self._prompt, history_text(passages, previous=previous))
        return completion_text(await way.ask(lambda: self._ask(prompt), seconds=self._seconds))


def writer_for(summaries: Summaries | None) -> SummaryWriter:
    """A writer from whatever was given; the extractive one where nothing was."""
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
        f"summarizer={type(summaries).__name__} can be asked nothing: give a function from prompt to text, an object "
        "with acompletion(messages), or a SummaryWriter"
    )
