"""`Operation`: one HTTP endpoint, with its method, path, rights, request body, query parameters and response body."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeAlias, TypeVar

from turnfold.api import request_bodies, response_bodies
from turnfold.memories import MemoryWriteResult
from turnfold.stores import Appended, Erasure
from turnfold.workspace_snapshots import TakenSnapshot

__all__ = ("AnyOperation", "Operation", "Right", "declare")

_Body = TypeVar("_Body")
_Query = TypeVar("_Query")
_Answer = TypeVar("_Answer")


class Right(StrEnum):
    """Rights of an access token; no right includes another."""

    READ = "read"
    """Read the conversations of the token's tenant."""
    WRITE = "write"
    """Append to, change and delete the conversations of the token's tenant; operations that return stored content need
    `read` as well."""
    ADMIN = "admin"
    """Read the metrics and the full health report of the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[_Body, _Query, _Answer]):
    """Declaration of one HTTP endpoint, from which the service routes requests and the client sends them."""

    name: str
    method: str
    path: str
    description: str
    right: Right | None
    """Main right that the access token needs (`rights` has all of them); None if no access token is needed."""
    body: type[_Body]
    query: type[_Query]
    answer: type[_Answer]
    grows: bool
    """True if the operation appends to a log; refused once the tenant's quota of (model) tokens is used up."""
    frees: bool
    """True if the operation only removes data. Once the tenant's byte quota is used up, other writing operations are
    refused."""
    keyed: bool
    """True if the service stores the response under the Idempotency-Key and returns it again if the request is retried.
    Appends do not need this: the key becomes the client id of the entry, and a retry finds that entry in the log."""

    @property
    def writes(self) -> bool:
        """True if the operation changes stored data."""
        return self.right is Right.WRITE

    @property
    def rights(self) -> frozenset[Right]:
        """All rights that an access token needs for this operation.

        An operation that writes also needs the right to read, unless its response type is in `_WITHOUT_CONTENT`:
        otherwise a token that may only write could read conversations through the response.
        """
        if self.right is None:
            return frozenset()
        reads = self.writes and self.answer not in _WITHOUT_CONTENT
        return frozenset({self.right, Right.READ} if reads else {self.right})

    @property
    def family(self) -> str:
        """Group of the operation: the first path segment after the version, such as `sessions`."""
        return self.path.removeprefix("/v1").split("/")[1]


AnyOperation: TypeAlias = Operation[Any, Any, Any]


def declare(
    name: str,
    target: str,
    description: str,
    *,
    right: Right | None,
    answer: type[_Answer],
    body: type[_Body] = request_bodies.Nothing,
    query: type[_Query] = request_bodies.NoQuery,
    grows: bool = False,
    frees: bool = False,
    keyed: bool = False,
) -> Operation[_Body, _Query, _Answer]:
    """Return the declaration of an HTTP endpoint; `target` is method and path, such as `GET /v1/health`."""
    method, path = target.split(" ")
    return Operation(
        name=name,
        method=method,
        path=path,
        description=description,
        right=right,
        body=body,
        query=query,
        answer=answer,
        grows=grows,
        frees=frees,
        keyed=keyed,
    )


_WITHOUT_CONTENT: Final[frozenset[type]] = frozenset(
    {
        Appended,
        Erasure,
        MemoryWriteResult,
        TakenSnapshot,
        response_bodies.ClearedAnswer,
        response_bodies.CountAnswer,
        response_bodies.DoneAnswer,
        response_bodies.ForkedAnswer,
        response_bodies.PinAnswer,
        response_bodies.SystemAnswer,
    }
)
"""Types of responses that have only positions, counts and ids, and no stored content."""
