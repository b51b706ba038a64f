"""Foreign conversations into a store: the whole file is read before anything is written.

The first reading finds what is wrong, and what of it the store has already; the second writes. New conversations
appear together or not at all. One that the store has is left alone where it says the same, and continued where the
file says more, so a transcript can be imported again each time it has grown, in the middle of an answer too: see
`matching.py`. One that says something else is a `Conflict`, and nothing is written.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from turnfold.errors import Conflict, InvalidExport, InvalidOption
from turnfold.memory.importing.detecting import FORMATS, TURNFOLD, detect, read_histories
from turnfold.memory.importing.matching import Completed, Matching
from turnfold.memory.importing.pieces import Bad, Begin, Found, Ignored, Said
from turnfold.records import Entry, NewEntry
from turnfold.stores.protocol import Opening, Piece, Scope, Store, check_name
from turnfold.stores.transfer import Progress, import_from

__all__ = ("Imported", "import_file")

Report: TypeAlias = Callable[[Progress], object]
_PAGE = 500
_TOLD = 100
"""Faults named one by one; of more, the number is told."""
_EVERY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import found and wrote."""

    format: str
    conversations: tuple[str, ...] = ()
    """New ones; of an export of turnfold only their number is known."""
    new: int = 0
    continued: tuple[str, ...] = ()
    """Those the store had the beginning of."""
    completed: tuple[Completed, ...] = ()
    """Answers that were imported while they were being written, and whose rest was written now."""
    already: int = 0
    """Conversations the store has as they are in the file."""
    entries: int = 0
    """Written."""
    bad: tuple[Bad, ...] = ()
    """What could not be read, and was left out because that was asked for."""
    bad_total: int = 0
    ignored: dict[str, int] = field(default_factory=dict[str, int])
    """What is in the file and is no part of a conversation: what, and how often."""
    written: bool = True
    """Whether the store was written to; a trial only looks."""


async def import_file(
    store: Store,
    scope: Scope,
    path: str | Path,
    *,
    format_name: str = "auto",
    conversation: str = "",
    skip_bad: bool = False,
    branches: bool = False,
    trial: bool = False,
    progress: Report | None = None,
) -> Imported:
    """Import a file of conversations; `FORMATS` lists what can be read, `auto` looks for itself.

    `conversation` names the one conversation of a file. With `skip_bad` what cannot be read is left out and listed;
    without, it is an `InvalidExport` that names the lines, and nothing is written. `branches` imports the branches of a
    ChatGPT export that were left. A `trial` reads and checks, and writes nothing.
    """
    source = Path(path)
    if format_name != "auto" and format_name not in FORMATS:
        raise InvalidOption(f"format {format_name!r} is none of auto, {', '.join(FORMATS)}")
    try:
        chosen = detect(source) if format_name == "auto" else format_name
        if chosen == TURNFOLD:
            return await _own(store, scope, source, trial=trial, progress=progress)
        landing = _Landing(store, scope, source, chosen, conversation, branches=branches)
        return await landing.run(skip_bad=skip_bad, trial=trial, progress=progress)
    except (
        UnicodeDecodeError,
        zipfile.BadZipFile,
        gzip.BadGzipFile,
        zlib.error,
        EOFError,
    ) as error:
        raise InvalidExport(
            f"{source.name} is damaged or no text in UTF-8: {error}", line=1
        ) from None


async def _own(
    store: Store, scope: Scope, path: Path, *, trial: bool, progress: Report | None
) -> Imported:
    if trial:
        raise InvalidOption(
            "an export of turnfold is always checked whole before it is written: no trial is needed"
        )
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as file:
        done = await import_from(store, scope, file, progress=progress)
    return Imported(
        format=TURNFOLD, new=done.conversations, already=done.already, entries=done.entries
    )


@dataclass(slots=True)
class _Known:
    """A conversation as the first reading found it."""

    line: int
    matching: Matching
    stored: int = 0
    """Entries the store has; 0 for a new one."""
    said: int = 0

    @property
    def wanted(self) -> int:
        """Entries to be written."""
        return self.said - self.matching.matched + len(self.matching.rests())


class _Landing:
    def __init__(
        self,
        store: Store,
        scope: Scope,
        path: Path,
        format_name: str,
        conversation: str,
        *,
        branches: bool,
    ) -> None:
        self._store, self._scope = store, scope
        self._path, self._format, self._branches = path, format_name, branches
        self._named = conversation
        self._known: dict[str, _Known] = {}
        self._bad: list[Bad] = []
        self._bad_total = 0
        self._ignored: Counter[str] = Counter()

    async def run(self, *, skip_bad: bool, trial: bool, progress: Report | None) -> Imported:
        """Look, judge, write."""
        await self._look(progress)
        self._judge(skip_bad=skip_bad)
        new = [name for name, known in self._known.items() if not known.stored and known.said]
        grown = [name for name, known in self._known.items() if known.stored and known.wanted]
        wanted = sum(self._known[name].wanted for name in (*new, *grown))
        if not trial:
            if new:
                await self._store.restore(self._scope, self._pieces(frozenset(new)))
            for name in grown:
                await self._continue(name)
            _tell(progress, "writing", wanted, wanted)
        return Imported(
            format=self._format,
            conversations=tuple(new),
            new=len(new),
            continued=tuple(grown),
            completed=tuple(
                each for name in grown for each in self._known[name].matching.completed(name)
            ),
            already=sum(known.said > 0 == known.wanted for known in self._known.values()),
            entries=wanted,
            bad=tuple(self._bad),
            bad_total=self._bad_total,
            ignored=dict(self._ignored),
            written=not trial,
        )

    def _read(self) -> Found:
        """The file once more; its one conversation under the name it is to have."""
        begun = 0
        for piece in read_histories(self._path, self._format, branches=self._branches):
            if isinstance(piece, Begin) and self._named:
                begun += 1
                if begun > 1:
                    raise InvalidOption(
                        f"{self._path.name} holds several conversations, the second from line {piece.line:,}: "
                        "one name cannot stand for them"
                    )
                yield replace(piece, conversation=self._named)
            else:
                yield piece

    async def _look(self, progress: Report | None) -> None:
        at: _Known | None = None
        for count, piece in enumerate(self._read(), 1):
            match piece:
                case Begin():
                    at = await self._begin(piece)
                case Said() if at is not None:
                    at.said += 1
                    if at.stored:
                        await at.matching.take(piece)
                case Bad():
                    self._note(piece)
                case Ignored():
                    self._ignored[piece.what] += 1
                case _:
                    pass
            if count % _EVERY == 0:
                _tell(progress, "checking", count, count)
        for known in self._known.values():
            await known.matching.finish()

    async def _begin(self, piece: Begin) -> _Known | None:
        try:
            check_name(piece.conversation, "conversation id")
        except InvalidOption as error:
            self._note(Bad(piece.line, str(error)))
            return None
        earlier = self._known.get(piece.conversation)
        if earlier is not None:
            problem = f"conversation {piece.conversation!r} stands on line {earlier.line:,} already"
            self._note(Bad(piece.line, problem))
            return None
        name = piece.conversation
        head = await self._store.head(self._scope, name)
        matching = Matching(lambda seq: self._store.read(self._scope, name, after=seq, limit=_PAGE))
        known = self._known[name] = _Known(piece.line, matching, stored=head.seq)
        return known

    def _note(self, bad: Bad) -> None:
        self._bad_total += 1
        if len(self._bad) < _TOLD:
            self._bad.append(bad)

    def _judge(self, *, skip_bad: bool) -> None:
        if self._bad and not skip_bad:
            shown = "; ".join(map(str, self._bad[:5]))
            more = f"; and {self._bad_total - 5:,} more" if self._bad_total > 5 else ""
            raise InvalidExport(
                f"{self._bad_total:,} things in {self._path.name} cannot be read: {shown}{more}",
                line=self._bad[0].line,
                remedy="Nothing was imported. Mend them, or leave them out with --skip-bad (skip_bad=True)",
            )
        for name, known in self._known.items():
            if differs := known.matching.differs:
                raise Conflict(
                    f"conversation {name!r} is in the store and says something else from entry {differs:,} on; "
                    "nothing was imported. Import it under another name, or delete the one that is there"
                )
        if not any(known.said for known in self._known.values()):
            raise InvalidExport(
                f"no message of any conversation in {self._path.name}, read as {self._format}",
                line=1,
                remedy=f"If it is in another format, name it: one of {', '.join(FORMATS)}",
            )

    def _pieces(self, wanted: frozenset[str]) -> Iterator[Piece]:
        """The new conversations as a store takes them; each at its first place in the file only."""
        seq = turn = 0
        taking = False
        for piece in self._read():
            if isinstance(piece, Begin):
                known = self._known.get(piece.conversation)
                taking = (
                    piece.conversation in wanted and known is not None and known.line == piece.line
                )
                seq = turn = 0
                if taking:
                    yield Opening(piece.conversation, piece.created, piece.created)
            elif isinstance(piece, Said) and taking:
                seq += 1
                turn += piece.message.role == "user"
                yield Entry(seq, piece.message, piece.client_id, piece.created, turn, 0, 0)

    async def _continue(self, name: str) -> None:
        known, seq = self._known[name], 0
        more = known.matching.rests()
        at = ""
        for piece in self._read():
            if isinstance(piece, Begin):
                at = piece.conversation if piece.line == known.line else ""
            elif isinstance(piece, Said) and at == name:
                seq += 1
                if seq > known.matching.matched:
                    more.append(NewEntry(piece.message, piece.client_id or f"import:{seq}"))
        await self._store.append(self._scope, name, more, expect=known.stored)


def _tell(progress: Report | None, what: str, done: int, total: int) -> None:
    if progress is not None:
        progress(Progress(what, done, total))
