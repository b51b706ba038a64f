"""A memory that is served elsewhere: `RemoteMemory(url, token=...)` where a program had `Memory(store)`."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from turnfold.client.asking import Asker, check_positive, open_asker
from turnfold.client.session import AsyncRemoteSession
from turnfold.memory.searching import Found
from turnfold.service.answers import ConversationsPage, FoundAnswer
from turnfold.service.bodies import WithinBody
from turnfold.stores.protocol import ConversationInfo, Erasure, Health
from turnfold.stores.within import ALL_ENTRIES, Within

__all__ = ("AsyncRemoteMemory",)

_MOST: Final = 1_000


class AsyncRemoteMemory:
    """Conversations behind a service, for programs with an event loop."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.2,
    ) -> None:
        self._take(
            open_asker(
                url, token=token, timeout=timeout, retries=retries, backoff=backoff, blocking=False
            )
        )

    @classmethod
    def over(cls, asker: Asker) -> AsyncRemoteMemory:
        """A memory that asks its questions through `asker`."""
        memory = cls.__new__(cls)
        memory._take(asker)  # noqa: SLF001 (its own)
        return memory

    def _take(self, asker: Asker) -> None:
        self._asker = asker

    def session(self, conversation: str) -> AsyncRemoteSession:
        """The handle on a conversation, new or not."""
        return AsyncRemoteSession(conversation, self._asker)

    async def conversations(self, *, after: str = "", limit: int = 100) -> list[ConversationInfo]:
        """A page of the conversations of this token's tenant, in id order."""
        found: list[ConversationInfo] = []
        following: str | None = after
        while following is not None and len(found) < limit:
            page = await self._asker.ask(
                "GET",
                "sessions",
                answer=ConversationsPage,
                query={"after": following, "limit": min(limit - len(found), _MOST)},
            )
            found += page.conversations
            following = page.next
        return found

    async def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        within: Within = ALL_ENTRIES,
        limit: int = 20,
    ) -> list[Found]:
        """The best of what was said in any conversation, or in one, and whatever else `within` names."""
        check_positive("limit", limit)
        body = {
            "query": query,
            "conversation": conversation,
            "within": WithinBody.of(within),
            "limit": limit,
        }
        return (await self._asker.ask("POST", "search", answer=FoundAnswer, body=body)).found

    async def delete(self, conversation: str) -> Erasure:
        """Erase a conversation and everything derived from it, for good."""
        return await self.session(conversation).delete()

    async def health(self) -> Health:
        """Whether the store can serve; its details take the right `admin`."""
        return await self._asker.ask("GET", "health", answer=Health)

    async def close(self) -> None:
        """Let go of the connections. Closing twice is allowed."""
        await self._asker.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
