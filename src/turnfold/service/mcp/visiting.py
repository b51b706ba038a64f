"""One request of a client: whose memory it sees, how much it may be shown, and how that is kept to.

The tenant is that of the caller, who was decided from the token at the gate or by who started the process; nothing in
a request can name another. A session that is not there and one that is another tenant's are told in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from turnfold.errors import InvalidOption, LimitExceeded, NotFound
from turnfold.memory import AsyncMemory, AsyncSession
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Caller
from turnfold.stores.protocol import check_name

__all__ = ("McpOptions", "Reply", "Visit", "longest")

_LEAST: Final = 1_000
_CHARACTERS: Final = 64
"""Characters a token has at most, for all that matters: a text longer than that is too long without being counted."""
_One = TypeVar("_One")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """How a server of this kind answers."""

    session: str = "notes"
    """The session that is meant where a client names none."""
    max_tokens: int = 4_000
    """The most tokens of one answer: of its text, and of its structured form."""

    def __post_init__(self) -> None:
        check_name(self.session, "session")
        if self.max_tokens < _LEAST:
            raise InvalidOption(
                f"max_tokens={self.max_tokens} must be at least {_LEAST:,}: an answer names what it left out"
            )


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in both forms: a value for programs, a text for models."""

    value: msgspec.Struct
    text: str


@dataclass(frozen=True, slots=True)
class Visit:
    """One request: who asks, and what they may see."""

    state: ServiceState
    caller: Caller
    options: McpOptions

    @property
    def memory(self) -> AsyncMemory:
        """The memory of the caller's tenant: there is no way to another's from here."""
        return self.state.memory(self.caller.tenant)

    @property
    def limit(self) -> int:
        """The most tokens of an answer."""
        return self.options.max_tokens

    def count(self, text: str) -> int:
        """The tokens of a text."""
        return self.state.setting.counter.count_text(text)

    def named(self, session: str | msgspec.UnsetType) -> AsyncSession:
        """The session that is meant, there or not."""
        name = self.options.session if isinstance(session, msgspec.UnsetType) else session
        check_name(name, "session")
        return self.memory.session(name)

    async def known(self, session: str | msgspec.UnsetType) -> AsyncSession:
        """The session that is meant; `NotFound` where there is none."""
        found = self.named(session)
        head = await self.memory.store.head(self.memory.scope, found.id)
        if not head.generation:
            raise NotFound(
                f"there is no session {found.id!r}; list_sessions names those there are, and remember makes one"
            )
        return found

    def takes(self, text: str) -> bool:
        """Whether a text is within the limit."""
        return len(text) <= self.reach and self.count(text) <= self.limit

    @property
    def reach(self) -> int:
        """More characters than this are not tried."""
        return self.limit * _CHARACTERS

    def fits(self, reply: Reply) -> bool:
        """Whether both forms of an answer are within the limit."""
        return self.takes(reply.text) and self.takes(_written(reply))

    def costs(self, reply: Reply) -> tuple[int, int]:
        """Tokens of the text, and of the value as it is sent."""
        return self.count(reply.text), self.count(_written(reply))

    def checked(self, reply: Reply) -> Reply:
        """The answer, if it is within the limit: nothing larger leaves, and nothing is cut unsaid."""
        cost = max(self.costs(reply))
        if cost > self.limit:
            raise LimitExceeded(
                f"the answer would have {cost:,} tokens and may have {self.limit:,}: ask for less, or start the server "
                "with a larger --max-tokens",
                allowed=self.limit,
                asked=cost,
            )
        return reply


def _written(reply: Reply) -> str:
    return msgspec.json.encode(reply.value).decode()


def longest(items: Sequence[_One], fits: Callable[[Sequence[_One]], bool]) -> Sequence[_One]:
    """As many of the items, from the first on, as fit."""
    low, high = 0, len(items)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(items[:middle]):
            low = middle
        else:
            high = middle - 1
    return items[:low]
