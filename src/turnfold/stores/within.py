"""What a search is kept to: typed filters, checked once, that mean the same on every backend.

A filter never changes what a word weighs: how rare it is, is counted over everything the search could look at, so an
answer under a filter is the answer without it, less what the filter leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnfold.errors import InvalidOption
from turnfold.recall.paths import plain_path
from turnfold.records import ROLES

__all__ = ("ALL_ENTRIES", "CHECKPOINT", "ENTRY", "Within")

ENTRY = ""
"""The kind of what was said: an entry of the log."""
CHECKPOINT = "checkpoint"
"""The kind of a checkpoint's summary."""

_FURTHEST = (1 << 62) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Which of the things found take part. Filters that are set must all hold; of the values of one, any is enough."""

    roles: frozenset[str] = frozenset()
    """Who said it; only entries have a role."""
    tools: frozenset[str] = frozenset()
    """The tool an entry calls, or answers for: by the name on the answer, or by its call at most 256 entries before."""
    turns: tuple[int, int] | None = None
    """The first and the last turn; only entries have one."""
    paths: frozenset[str] = frozenset()
    """A path the text mentions, or a folder such a path lies in."""
    since: int | None = None
    """Not written before this, in microseconds since 1970."""
    until: int | None = None
    """Written before this."""
    kinds: frozenset[str] | None = frozenset({ENTRY})
    """`ENTRY`, `CHECKPOINT` or kinds of documents; None for whatever can be found."""

    def __post_init__(self) -> None:
        _check_names("role", self.roles, known=ROLES)
        _check_names("tool", self.tools)
        _check_names("path", self.paths)
        for path in self.paths:
            if not plain_path(path):
                raise InvalidOption(f"{path!r} names no file and no folder")
        _check_turns(self.turns)
        _check_times(self.since, self.until)
        self._check_kinds()

    @property
    def entries_only(self) -> bool:
        """Whether a filter is set that nothing but an entry can pass."""
        return bool(self.roles or self.tools or self.turns is not None)

    def counts(self, kind: str) -> bool:
        """Whether things of this kind take part in saying how rare a word is: all that was said, and all beside it."""
        if kind == ENTRY:
            return self.kinds is None or ENTRY in self.kinds
        return self.counts_beside

    @property
    def counts_beside(self) -> bool:
        """Whether what stands beside the log takes part in saying how rare a word is."""
        return self.kinds is None or bool(self.kinds - {ENTRY})

    @property
    def takes_beside(self) -> bool:
        """Whether anything beside the log takes part."""
        return self.counts_beside and not self.entries_only

    def takes(self, kind: str) -> bool:
        """Whether things of this kind take part."""
        if kind != ENTRY and self.entries_only:
            return False
        return self.kinds is None or kind in self.kinds

    def takes_time(self, created: int) -> bool:
        """Whether something written then takes part."""
        return (self.since is None or created >= self.since) and (
            self.until is None or created < self.until
        )

    def takes_turn(self, turn: int) -> bool:
        """Whether an entry of this turn takes part."""
        return self.turns is None or self.turns[0] <= turn <= self.turns[1]

    def _check_kinds(self) -> None:
        if self.kinds is None:
            return
        _check_names("kind", self.kinds - {ENTRY})
        if not self.kinds:
            raise InvalidOption(
                "no kind is named, so nothing could be found: kinds=None takes all of them"
            )
        if self.entries_only and ENTRY not in self.kinds:
            raise InvalidOption(
                f"only entries have a role, a tool or a turn, and {sorted(self.kinds)} are none: nothing could be found"
            )


def _check_names(what: str, names: frozenset[str], *, known: frozenset[str] | None = None) -> None:
    if not isinstance(names, frozenset):  # pyright: ignore[reportUnnecessaryIsInstance] (a string is taken for its letters)
        raise InvalidOption(f"{what}s are a frozenset, not {type(names).__name__}")
    for name in names:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"a {what} is a name, not {name!r}")
        if known is not None and name not in known:
            raise InvalidOption(f"unknown {what} {name!r}: use one of {', '.join(sorted(known))}")


def _check_turns(turns: tuple[int, int] | None) -> None:
    if turns is None:
        return
    if len(turns) != 2 or not 0 <= turns[0] <= turns[1] <= _FURTHEST:
        raise InvalidOption(f"turns are a first and a last one, 0 or more, got {turns!r}")


def _check_times(since: int | None, until: int | None) -> None:
    for name, value in (("since", since), ("until", until)):
        if value is not None and not -_FURTHEST <= value <= _FURTHEST:
            raise InvalidOption(f"{name} is microseconds since 1970, got {value}")
    if since is not None and until is not None and since >= until:
        raise InvalidOption(f"nothing is written from {since} on and before {until}")


ALL_ENTRIES = Within()
"""Everything that was said, whoever said it."""
