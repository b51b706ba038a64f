"""One request for a screen, let in: who asks, in which language, and the only way to what they may see.

A conversation is looked at with the counter its costs were made with, where that is known, so the figures are those of
the program that made the calls and not those of whoever looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Generic, TypeVar, cast

import msgspec

from turnfold.errors import NotFound
from turnfold.memory import AsyncMemory, AsyncSession
from turnfold.memory.follower import Follower
from turnfold.memory.meaning import Meanings
from turnfold.memory.recalling import Recaller, ScoreParts
from turnfold.memory.recent_calls import recent_calls
from turnfold.memory.setting import Setting
from turnfold.service.inspector.markup import Node, address
from turnfold.service.inspector.words import Words
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Caller, Right
from turnfold.stores.protocol import Head, Scope
from turnfold.tokens import TokenCounter, counter_named

__all__ = ("Looked", "NoChoice", "Screen", "Shown", "Viewing", "screen")

_Choice = TypeVar("_Choice")
_BEFORE_ALL: Final = "0"
"""Sorts before the name of every call."""


class NoChoice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A screen without parameters; one that is given is refused."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A conversation, held by its own counter."""

    session: AsyncSession
    head: Head
    known_counter: bool
    """Whether it is counted as it was then."""
    setting: Setting

    async def score_parts(self, query: str) -> dict[int, ScoreParts]:
        """What the scores of a recall are made of, by seq."""
        setting, name = self.setting, self.session.id
        follower = Follower(setting.store, setting.scope, name, setting.counter)
        embedder = setting.embedder
        meanings = Meanings(setting, name, embedder) if embedder else None
        return await Recaller(setting, follower, meanings).score_parts(query)

    async def live(self) -> str:
        """Address of the calls made after what is shown now: none is missed between a page and its stream."""
        newest = await recent_calls(self.session, most=1)
        after = newest[-1].call if newest else _BEFORE_ALL
        return address("sessions", self.session.id, "events", after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewing(Generic[_Choice]):
    """What a screen is drawn from."""

    state: ServiceState
    caller: Caller
    words: Words
    names: Mapping[str, str]
    """What stands in the path, by name."""
    choice: _Choice
    """What stands behind the question mark."""

    @property
    def memory(self) -> AsyncMemory:
        """The memory of the caller's tenant: there is no way to another's from here."""
        return self.state.memory(self.caller.tenant)

    async def look(self, conversation: str | None = None) -> Looked:
        """The conversation the path names; `NotFound` for one nobody has used."""
        name = self.names["session"] if conversation is None else conversation
        scope = Scope(self.caller.tenant)
        head = await self.state.setting.store.head(scope, name)
        if not head.generation:
            raise NotFound(f"there is no session {name!r}")
        counter = _counter(head.counter) if head.counter else None
        setting = replace(
            self.state.setting, scope=scope, counter=counter or self.state.setting.counter
        )
        known = counter is not None or not head.counter
        return Looked(AsyncSession(name, setting), head, known, setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A screen that was drawn."""

    title: str
    body: tuple[Node, ...]
    trail: tuple[tuple[str, str], ...] = ()
    """(label, address) of what it is part of, outermost first."""
    tab: str = ""
    """Which of the tabs of a session it is."""
    session: str = ""
    live: str = ""
    """Address of the events that change it; empty where none do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Something the inspector shows: one line of its table."""

    name: str
    path: str
    right: Right
    choice: type
    draw: Callable[[Viewing[object]], Awaitable[Shown]]


def screen(
    path: str, *, choice: type[_Choice] = NoChoice, right: Right = Right.READ
) -> Callable[[Callable[[Viewing[_Choice]], Awaitable[Shown]]], Screen]:
    """Make a screen of the function that draws it."""

    def made(draw: Callable[[Viewing[_Choice]], Awaitable[Shown]]) -> Screen:
        drawn = cast("Callable[[Viewing[object]], Awaitable[Shown]]", draw)
        return Screen(name=draw.__name__, path=path, right=right, choice=choice, draw=drawn)

    return made


@lru_cache(maxsize=64)
def _counter(name: str) -> TokenCounter | None:
    return counter_named(name)
