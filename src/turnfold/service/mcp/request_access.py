"""One MCP request: the memory it sees, and the token limit of its response.

The tenant is that of the caller, decided by the token or by who started the process; a request cannot name another. A
session that does not exist and one of another tenant get the same error.

A model behind MCP may follow instructions it found in a document, so what it writes must not become an instruction:
unless the operator allows more (`McpPermission`), it can only add notes to the server's own session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from turnfold.errors import AccessDenied, InvalidOption, LimitExceeded, NotFound
from turnfold.memory import AsyncMemory, AsyncSession
from turnfold.service.auth import Caller
from turnfold.service.state import ServiceState
from turnfold.stores import check_name

__all__ = (
    "McpOptions",
    "McpPermission",
    "McpReply",
    "McpRequest",
    "longest_prefix",
)


_LEAST_TOKENS: Final = 1_000
_CHARACTERS: Final = 64
"""Assumed most characters per token: a longer text is over the limit without being counted."""
_Item = TypeVar("_Item")


class McpPermission(StrEnum):
    """What a model may write beyond notes in the server's own session."""

    PINS = "pins"
    """Pin texts, which every later call of the session shows."""
    SESSIONS = "sessions"
    """Write to sessions other than the server's own."""
    SUMMARIES = "summaries"
    """Give the summary of a fold, which replaces what was said in later calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """Options of an MCP server."""

    session: str = "notes"
    """Session used if a client names none."""
    max_tokens: int = 4_000
    """Token limit of one response: of its text, and of its structured form."""
    allow: Collection[str] = ()
    """Permissions (`McpPermission`) of the model."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.allow) - set(McpPermission))
        if unknown:
            raise InvalidOption(
                f"{unknown[0]!r} cannot be allowed: use one or more of {', '.join(McpPermission)}"
            )
        check_name(self.session, "session")
        if self.max_tokens < _LEAST_TOKENS:
            raise InvalidOption(
                f"max_tokens={self.max_tokens} must be at least {_LEAST_TOKENS:,}, to name what was left out"
            )


@dataclass(frozen=True, slots=True)
class McpReply:
    """A tool result in both forms: a value for programs, a text for models."""

    value: msgspec.Struct
    text: str


@dataclass(frozen=True, slots=True)
class McpRequest:
    """One request of a caller."""

    state: ServiceState
    caller: Caller
    options: McpOptions

    @property
    def memory(self) -> AsyncMemory:
        """Memory of the caller's tenant; a request cannot reach another tenant's."""
        return self.state.memory(self.caller.tenant)

    @property
    def limit(self) -> int:
        """Token limit of a response."""
        return self.options.max_tokens

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return self.state.config.counter.count_text(text)

    def session_named(self, session: str | msgspec.UnsetType) -> AsyncSession:
        """Return the named or the default session, existing or not."""
        name = self.options.session if isinstance(session, msgspec.UnsetType) else session
        check_name(name, "session")
        return self.memory.session(name)

    def require(self, permission: McpPermission, *, of: str) -> None:
        """Raise `AccessDenied` unless the operator allows a model to do this."""
        if permission not in self.options.allow:
            raise AccessDenied(
                f"{of} is not allowed to models here; the operator may allow it with --allow {permission}",
                status=403,
            )

    def writable_session(self, session: str | msgspec.UnsetType) -> AsyncSession:
        """Return the session to write to: the server's own, or a named one if that is allowed."""
        found = self.session_named(session)
        if found.id != self.options.session:
            self.require(McpPermission.SESSIONS, of="writing to another session")
        return found

    async def existing_session(self, session: str | msgspec.UnsetType) -> AsyncSession:
        """Return the named or the default session; raises `NotFound` if it does not exist."""
        found = self.session_named(session)
        head = await self.memory.store.head(self.memory.scope, found.id)
        if not head.generation:
            raise NotFound(
                f"no session {found.id!r}; list_sessions lists the existing ones, and remember creates one"
            )
        return found

    def is_within(self, text: str) -> bool:
        """Return True if a text is within the limit."""
        return len(text) <= self.most_characters and self.count(text) <= self.limit

    @property
    def most_characters(self) -> int:
        """Longest text worth counting."""
        return self.limit * _CHARACTERS

    def fits(self, reply: McpReply) -> bool:
        """Return True if the text of a reply and its value as JSON are each within the token limit."""
        return self.is_within(reply.text) and self.is_within(_encoded(reply))

    def costs(self, reply: McpReply) -> tuple[int, int]:
        """Return the tokens of the text, and of the value as it is sent."""
        return self.count(reply.text), self.count(_encoded(reply))

    def checked(self, reply: McpReply) -> McpReply:
        """Return the result; raises `LimitExceeded` instead of cutting it silently."""
        cost = max(self.costs(reply))
        if cost > self.limit:
            raise LimitExceeded(
                f"the response has {cost:,} tokens, the limit is {self.limit:,}: ask for less, or start the server "
                "with a larger --max-tokens",
                allowed=self.limit,
                asked=cost,
            )
        return reply


def _encoded(reply: McpReply) -> str:
    return msgspec.json.encode(reply.value).decode()


def longest_prefix(
    items: Sequence[_Item], fits: Callable[[Sequence[_Item]], bool]
) -> Sequence[_Item]:
    """Return the longest prefix of the items that fits."""
    low, high = 0, len(items)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(items[:middle]):
            low = middle
        else:
            high = middle - 1
    return items[:low]
