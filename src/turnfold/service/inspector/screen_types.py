"""Types of a screen: its declaration (`Screen`), a request for it, and its rendered result.

A conversation is opened with the token counter that counted its entries, if it is known, so that the figures equal
those of the application that made the calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Generic, TypeVar, cast

from turnfold.api import NoQuery, Right
from turnfold.errors import NotFound
from turnfold.inspect import recent_calls
from turnfold.memory import (
    AsyncMemory,
    AsyncSession,
    ConversationCache,
    Meanings,
    MemoryConfig,
    Recaller,
    ScoreParts,
)
from turnfold.service.auth import Caller
from turnfold.service.inspector.html import Node, address
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.state import ServiceState
from turnfold.stores import Head, Scope
from turnfold.tokens import TokenCounter, counter_named

__all__ = (
    "OpenedConversation",
    "RenderedScreen",
    "Screen",
    "ScreenRequest",
    "screen",
)


_Query = TypeVar("_Query")
_BEFORE_ALL: Final = "0"
"""Text that sorts before every call id."""


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """A conversation opened for a page of the inspector, with the token counter that counted its entries."""

    session: AsyncSession
    head: Head
    known_counter: bool
    """False if the token counter that counted the entries is unknown in this process, so that another one counts."""
    config: MemoryConfig

    async def score_parts(self, query: str) -> dict[int, ScoreParts]:
        """Return the parts of the recall score (words, meaning, neighbours) of each entry that matches, by seq."""
        config, name = self.config, self.session.id
        cache = ConversationCache(config.store, config.scope, name, config.counter)
        embedder = config.embedder
        meanings = Meanings(config, name, embedder) if embedder else None
        return await Recaller(config, cache, meanings).score_parts(query)

    async def live(self) -> str:
        """Return the address of the event stream that sends the calls after the newest one on the page."""
        newest = await recent_calls(self.session, most=1)
        after = newest[-1].call if newest else _BEFORE_ALL
        return address("sessions", self.session.id, "events", after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenRequest(Generic[_Query]):
    """One authorized request for a page of the inspector."""

    state: ServiceState
    caller: Caller
    words: PageLabels
    params: Mapping[str, str]
    """Path parameters by name."""
    query: _Query
    """Decoded query parameters."""

    @property
    def memory(self) -> AsyncMemory:
        """Memory of the caller's tenant; a request cannot reach that of another tenant."""
        return self.state.memory(self.caller.tenant)

    async def open(self, conversation: str | None = None) -> OpenedConversation:
        """Open the conversation named in the path; raises `NotFound` if it does not exist."""
        name = self.params["session"] if conversation is None else conversation
        scope = Scope(self.caller.tenant)
        head = await self.state.config.store.head(scope, name)
        if not head.generation:
            raise NotFound(f"there is no session {name!r}")
        counter = _counter(head.counter) if head.counter else None
        config = replace(
            self.state.config,
            scope=scope,
            counter=counter or self.state.config.counter,
            runtime=self.state.runtime(self.caller.tenant),
        )
        known = counter is not None or not head.counter
        return OpenedConversation(AsyncSession(name, config), head, known, config)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedScreen:
    """Title, body and breadcrumbs of a rendered screen, to be put into a page of the inspector."""

    title: str
    body: Iterable[Node]
    """Elements of the page; they are taken in a thread, so a screen with many elements gives a generator of them."""
    trail: tuple[tuple[str, str], ...] = ()
    """Breadcrumbs: (label, address), outermost first."""
    tab: str = ""
    """Name of the active tab; empty for none."""
    session: str = ""
    live: str = ""
    """Address of the event stream that updates the screen; empty if it is not updated."""
    about: str = ""
    """Sentence that describes the screen; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """One screen of the inspector: its URL path, the access right it needs, its query parameters, and its renderer.

    The renderer is the function that returns the screen's HTML.
    """

    name: str
    path: str
    right: Right
    query: type
    render: Callable[[ScreenRequest[object]], Awaitable[RenderedScreen]]


def screen(
    path: str, *, query: type[_Query] = NoQuery, right: Right = Right.READ
) -> Callable[[Callable[[ScreenRequest[_Query]], Awaitable[RenderedScreen]]], Screen]:
    """Decorator: turn the function that renders a screen into a `Screen` at this path."""

    def decorate(render: Callable[[ScreenRequest[_Query]], Awaitable[RenderedScreen]]) -> Screen:
        typed = cast("Callable[[ScreenRequest[object]], Awaitable[RenderedScreen]]", render)
        return Screen(name=render.__name__, path=path, right=right, query=query, render=typed)

    return decorate


@lru_cache(maxsize=64)
def _counter(name: str) -> TokenCounter | None:
    return counter_named(name)
