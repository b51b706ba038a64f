"""Table that binds each operation of the API to the function that runs it, and the request that function gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from starlette.responses import Response

from turnfold.api import AnyOperation, Operation
from turnfold.errors import InvalidOption
from turnfold.memories import AsyncShortMemory
from turnfold.memory import AsyncMemory, AsyncSession
from turnfold.records import Message, NewEntry
from turnfold.service.auth import Caller
from turnfold.service.concurrency import count_ahead
from turnfold.service.state import ServiceState
from turnfold.stores import Appended, Scope

__all__ = (
    "OperationRequest",
    "OperationTable",
    "RunOperation",
)


_Body = TypeVar("_Body")
_Query = TypeVar("_Query")
_Answer = TypeVar("_Answer")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest(Generic[_Body, _Query]):
    """One authorized request with its decoded body and query parameters."""

    state: ServiceState
    caller: Caller
    params: Mapping[str, str]
    """Path parameters by name."""
    headers: Mapping[str, str]
    body: _Body
    query: _Query
    key: str = ""
    """The Idempotency-Key."""
    large: bool = False
    """True if the body is so large that reading its content would hold up the event loop."""

    @property
    def memory(self) -> AsyncMemory:
        """Memory of the caller's tenant; a request cannot reach that of another tenant."""
        return self.state.memory(self.caller.tenant)

    @property
    def short(self) -> AsyncShortMemory:
        """Short-term memory of the caller's tenant."""
        return self.state.short(self.caller.tenant)

    @property
    def session(self) -> AsyncSession:
        """The session whose id is in the request's path."""
        return self.memory.session(self.params["session"])

    @property
    def conversation_id(self) -> str:
        """Id of the short-term memory's conversation, from the request's path."""
        return self.params["conversation_id"]

    def number(self, name: str) -> int:
        """Return the path parameter `name`, the number of a turn or the seq of an entry, as an integer."""
        text, kind = self.params[name], "seq" if name == "seq" else "turn"
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise InvalidOption(f"{kind} {text[:40]!r} is not a whole number: give 0 or more")
        return int(text)

    async def compute(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of a function of the body, which runs in a thread of the tenant if the body is large."""
        return await self.session.config.runtime.compute(work) if self.large else work()

    async def add(
        self, given: Message | Sequence[Message] | Sequence[NewEntry], *, expect: int | None = None
    ) -> Appended:
        """Append messages to the session in the request's path; raises `LimitExceeded` if a message is too long."""
        entries = [given] if isinstance(given, Message) else given
        messages = [each.message if isinstance(each, NewEntry) else each for each in entries]
        self.state.limits.check_messages(messages)
        await count_ahead(self.state.config.counter, messages, self.session.config.runtime)
        own = any(isinstance(each, NewEntry) for each in entries)  # these have their own client ids
        return await self.session.add(given, client_id="" if own else self.key, expect=expect)

    async def is_unused(self, conversation: str) -> bool:
        """Return True if a conversation was never written to, so that there is nothing to delete."""
        scope = Scope(self.caller.tenant)
        return not (await self.state.config.store.head(scope, conversation)).generation


RunOperation: TypeAlias = Callable[[OperationRequest[Any, Any]], Awaitable[object]]
_Run: TypeAlias = Callable[[OperationRequest[_Body, _Query]], Awaitable[_Answer | Response]]


class OperationTable(dict[AnyOperation, RunOperation]):
    """Table that maps each operation (HTTP endpoint) to the function that runs it."""

    def bind(
        self, operation: Operation[_Body, _Query, _Answer]
    ) -> Callable[[_Run[_Body, _Query, _Answer]], _Run[_Body, _Query, _Answer]]:
        """Decorator: put the function that runs `operation` into the table."""

        def bound(run: _Run[_Body, _Query, _Answer]) -> _Run[_Body, _Query, _Answer]:
            self[operation] = run
            return run

        return bound
