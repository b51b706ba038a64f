"""HTTP client with the methods of `AsyncMemory`: `RemoteMemory(url, token=...)` instead of `Memory(store)`."""

from __future__ import annotations

from types import TracebackType
from typing import Literal, Self

from turnfold import api
from turnfold.api import EraseBody, SearchBody, SessionsQuery, VerifyErasureBody, WithinBody
from turnfold.client.session import AsyncRemoteSession
from turnfold.client.transport import RequestSender, check_positive, open_sender, read_pages
from turnfold.memory import ErasureCheck, ErasureReceipt, SearchResult
from turnfold.search import ALL_ENTRIES, Within
from turnfold.stores import ConversationInfo, Erasure, Health, check_name

__all__ = ("AsyncRemoteMemory",)


class AsyncRemoteMemory:
    """HTTP client of a service's memory, with the methods of `AsyncMemory`."""

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.2,
    ) -> None:
        self._sender = open_sender(
            url, token=token, timeout=timeout, retries=retries, backoff=backoff, blocking=False
        )

    @classmethod
    def over(cls, sender: RequestSender) -> AsyncRemoteMemory:
        """Return a memory that sends its requests through `sender`."""
        memory = cls.__new__(cls)
        memory._sender = sender  # noqa: SLF001 (its own)
        return memory

    def session(self, conversation: str) -> AsyncRemoteSession:
        """Return the session object of a conversation, which need not exist yet."""
        check_name(conversation, "the id of a session")
        return AsyncRemoteSession(conversation, self._sender)

    async def conversations(
        self, *, after: str = "", limit: int = 100, internal: bool = False
    ) -> list[ConversationInfo]:
        """List conversations of the token's tenant with an id after `after`, ordered by id.

        What adapters keep for themselves is listed only with `internal`.
        """

        async def page(after: str, limit: int) -> tuple[list[ConversationInfo], str | None]:
            query = SessionsQuery(after=after, limit=limit, internal=internal)
            found = await self._sender.call(api.operations.CONVERSATIONS, query=query)
            return found.conversations, found.next

        return await read_pages(page, after, limit)

    async def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        within: Within = ALL_ENTRIES,
        limit: int = 20,
    ) -> list[SearchResult]:
        """Search all conversations, or one, best results first.

        `within` restricts the search by role, tool, turn, time, or file path mentioned in the text.
        """
        check_positive("limit", limit)
        body = SearchBody(
            query=query, conversation=conversation, within=WithinBody.of(within), limit=limit
        )
        return (await self._sender.call(api.operations.SEARCH, body=body)).found

    async def delete(self, conversation: str) -> Erasure:
        """Delete a conversation and everything derived from it, permanently; `NotFound` if there is none."""
        return await self.session(conversation).delete()

    async def erase_session(self, conversation: str) -> ErasureReceipt:
        """Delete a conversation.

        Returns an erasure receipt, which can be verified later and lists the remaining forks.

        Raises `NotFound` if there never was such a conversation.
        """
        return await self._erase("session", conversation)

    async def erase_user(self, user: str) -> ErasureReceipt:
        """Erase all conversations of a user and their forks; raises `NotFound` if there are none.

        A conversation belongs to a user if its id is the user's id or begins with it and a slash (`user-42/trip`), or
        if it has this `user_id` in the metadata of a message or as the owner of a `ShortMemory`.
        """
        return await self._erase("user", user)

    async def erase_tenant(self, tenant: str) -> ErasureReceipt:
        """Erase all conversations of the token's tenant, whose name must be passed as a confirmation.

        Raises `NotFound` if there are none.
        """
        return await self._erase("tenant", tenant)

    async def verify_erasure(self, receipt: ErasureReceipt) -> ErasureCheck:
        """Let the service check that its store has no data of the conversations in an erasure receipt.

        The service reads its store again for this.

        The check of a receipt without conversations is never `ok`.
        """
        body = VerifyErasureBody(receipt=ErasureReceipt.require(receipt))
        return await self._sender.call(api.operations.VERIFY_ERASURE, body=body)

    async def _erase(self, kind: Literal["session", "user", "tenant"], name: str) -> ErasureReceipt:
        return await self._sender.call(api.operations.ERASE, body=EraseBody(kind=kind, id=name))

    async def health(self) -> Health:
        """Return the health of the service's store: whether it can serve requests.

        The details need the right `admin`.
        """
        return await self._sender.call(api.operations.HEALTH)

    async def close(self) -> None:
        """Close the connections to the service. Closing twice is allowed."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
