"""Access of one MCP request: the sessions it may read and write, and how many tokens its response may have.

The tenant is that of the access token, or of the process over stdin; a request cannot name another tenant. A session
that does not exist and a session of another tenant give the same error.

A model may follow instructions that it found in a document (prompt injection), so its writes must not become
instructions in later calls: unless the operator allows more (`McpPermission`), a model can only add notes to the
server's own session.
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
"""Most characters that one token may stand for: a text with more characters than this times the limit is over the limit
without counting."""
_Item = TypeVar("_Item")


class McpPermission(StrEnum):
    """Permissions that let a model write more than notes in the server's own session."""

    PINS = "pins"
    """Permission to pin texts, which every later call of the session shows."""
    SESSIONS = "sessions"
    """Permission to write to sessions other than the server's own."""
    SUMMARIES = "summaries"
    """Permission to write the summary of a fold, which later calls show instead of the folded messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """Options of an MCP server."""

    session: str = "notes"
    """Session used if a client names none."""
    max_tokens: int = 4_000
    """Token limit of one response: for its text, and for its structured form."""
    allow: Collection[str] = ()
    """Permissions (`McpPermission`) of the model."""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.allow) - set(McpPermission))
        if unknown:
            raise InvalidOption(
                f"there is no permission {unknown[0]!r}: use one or more of {', '.join(McpPermission)}"
            )
        check_name(self.session, "session")
        if self.max_tokens < _LEAST_TOKENS:
            raise InvalidOption(
                f"max_tokens={self.max_tokens} must be at least {_LEAST_TOKENS:,}, so that a response can say what it "
                "leaves out"
            )


@dataclass(frozen=True, slots=True)
class McpReply:
    """A tool result in both forms: a value for programs, a text for models."""

    value: msgspec.Struct
    text: str


@dataclass(frozen=True, slots=True)
class McpRequest:
    """One MCP request: what its caller may read and write, and the token limit of the response."""

    state: ServiceState
    caller: Caller
    options: McpOptions

    @property
    def memory(self) -> AsyncMemory:
        """Memory of the caller's tenant; a request cannot reach that of another tenant."""
        return self.state.memory(self.caller.tenant)

    @property
    def limit(self) -> int:
        """Most tokens of a response."""
        return self.options.max_tokens

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return self.state.config.counter.count_text(text)

    def session_named(self, session: str | msgspec.UnsetType) -> AsyncSession:
        """Return the session with this id, or the server's own if the id is empty; it need not exist."""
        name = self.options.session if isinstance(session, msgspec.UnsetType) else session
        check_name(name, "session")
        return self.memory.session(name)

    def require(self, permission: McpPermission, *, of: str) -> None:
        """Raise `AccessDenied` unless the operator gave models this permission; `of` names the action in the error."""
        if permission not in self.options.allow:
            raise AccessDenied(
                f"{of} is not allowed to models here; the operator may allow it with --allow {permission}",
                status=403,
            )

    def writable_session(self, session: str | msgspec.UnsetType) -> AsyncSession:
        """Return the session to write to: the server's own, or the one with this name if the operator allows that."""
        found = self.session_named(session)
        if found.id != self.options.session:
            self.require(McpPermission.SESSIONS, of="writing to another session")
        return found

    async def existing_session(self, session: str | msgspec.UnsetType) -> AsyncSession:
        """Return the session with this id (default: the server's own); raises `NotFound` if it does not exist."""
        found = self.session_named(session)
        head = await self.memory.store.head(self.memory.scope, found.id)
        if not head.generation:
            raise NotFound(
                f"no session {found.id!r}; list_sessions lists the existing sessions, and remember creates one"
            )
        return found

    def is_within(self, text: str) -> bool:
        """Return True if a text has no more tokens than a response may have."""
        return len(text) <= self.most_characters and self.count(text) <= self.limit

    @property
    def most_characters(self) -> int:
        """Number of characters above which a text is over the token limit without being counted."""
        return self.limit * _CHARACTERS

    def fits(self, reply: McpReply) -> bool:
        """Return True if the text of a reply and its value as JSON are each within the token limit."""
        return self.is_within(reply.text) and self.is_within(_encoded(reply))

    def costs(self, reply: McpReply) -> tuple[int, int]:
        """Return the tokens of the text of a reply, and of its value as JSON."""
        return self.count(reply.text), self.count(_encoded(reply))

    def checked(self, reply: McpReply) -> McpReply:
        """Return the reply; raises `LimitExceeded` if it is over the token limit, instead of cutting it silently."""
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
    """Return the longest prefix of the items for which `fits` is true, by bisection."""
    low, high = 0, len(items)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(items[:middle]):
            low = middle
        else:
            high = middle - 1
    return items[:low]
