"""One table of everything the service can be asked: method, path, right, body, answer.

The routes, the checks before them, the OpenAPI document and the tests that try every route with wrong credentials are
all made from the same operations, so a new one cannot be served without being guarded, described and tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import getdoc
from typing import Generic, TypeVar, cast

import msgspec

from turnfold.memory import AsyncMemory, AsyncSession, AsyncShortMemory
from turnfold.service.bodies import Form, Nothing
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Caller, Right
from turnfold.stores.protocol import Appended

__all__ = ("Asked", "FormQuery", "NoQuery", "Operation", "operation")

_Body = TypeVar("_Body")
_Query = TypeVar("_Query")


class NoQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An operation without parameters; one that is given is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[_Body, _Query]):
    """One request, decoded and let in."""

    state: ServiceState
    caller: Caller
    names: Mapping[str, str]
    """What stands in the path, by name."""
    headers: Mapping[str, str]
    body: _Body
    query: _Query
    key: str = ""
    """The Idempotency-Key."""

    @property
    def memory(self) -> AsyncMemory:
        """The memory of the caller's tenant: there is no way to another's from here."""
        return self.state.memory(self.caller.tenant)

    @property
    def short(self) -> AsyncShortMemory:
        """Document 003's memory of the caller's tenant."""
        return self.state.short(self.caller.tenant)

    @property
    def session(self) -> AsyncSession:
        """The session the path names."""
        return self.memory.session(self.names["session"])

    @property
    def conversation_id(self) -> str:
        """The conversation of document 003 the path names."""
        return self.names["conversation_id"]

    def wrote(self, done: Appended) -> Appended:
        """Count what was appended against the tenant's quota."""
        self.state.quota.wrote(self.caller.tenant, self.session.id, done.head.tokens)
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something the service can be asked."""

    name: str
    method: str
    path: str
    right: Right | None
    """What it takes of a token; None for what anybody may see."""
    body: type
    query: type
    answer: type
    run: Callable[[Asked[object, object]], Awaitable[object]]
    description: str
    grows: bool
    """Whether it adds to what the tenant keeps, so that a full quota refuses it."""
    keyed: bool
    """Whether the answer is kept under the Idempotency-Key; an append has its own way."""

    @property
    def family(self) -> str:
        """The first word of its path, the version aside."""
        return self.path.removeprefix("/v1").split("/")[1]


def operation(
    method: str,
    path: str,
    *,
    right: Right | None,
    answer: type,
    body: type[_Body] = Nothing,
    query: type[_Query] = NoQuery,
    grows: bool = False,
    keyed: bool = False,
) -> Callable[[Callable[[Asked[_Body, _Query]], Awaitable[object]]], Operation]:
    """Make an operation of the function that answers it; its docstring describes it."""

    def made(run: Callable[[Asked[_Body, _Query]], Awaitable[object]]) -> Operation:
        return Operation(
            name=run.__name__,
            method=method,
            path=path,
            right=right,
            body=body,
            query=query,
            answer=answer,
            run=cast("Callable[[Asked[object, object]], Awaitable[object]]", run),
            description=getdoc(run) or "",
            grows=grows,
            keyed=keyed,
        )

    return made


class FormQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How messages are written in the answer."""

    form: Form = "chat"
