"""One question to the service, asked until it is answered.

A request that got no answer may have been done or not. Every write here can be repeated: an append and everything else
that would answer a second time otherwise carries an idempotency key, made anew for each call and the same in all its
attempts. What the service refuses is raised as the error an embedded memory would have raised.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from turnfold.client.transport import AwaitingTransport, BlockingTransport, Transport
from turnfold.errors import InvalidOption, LimitExceeded, StoreUnavailable, TurnfoldError
from turnfold.service.problems import error_from

__all__ = ("Asker", "check_positive", "new_key", "open_asker")

_Answer = TypeVar("_Answer")
_LONGEST_PAUSE: Final = 10.0


def new_key() -> str:
    """An idempotency key nobody else has."""
    return secrets.token_hex(16)


class Asker:
    """Asks one service."""

    def __init__(self, transport: Transport, *, retries: int, backoff: float) -> None:
        if retries < 0 or backoff < 0:
            raise InvalidOption(f"retries={retries} and backoff={backoff} must not be negative")
        self._transport = transport
        self._retries = retries
        self._backoff = backoff
        self._closed = False

    async def ask(
        self,
        method: str,
        *path: str,
        answer: type[_Answer],
        body: object = None,
        query: Mapping[str, object] | None = None,
        key: str = "",
    ) -> _Answer:
        """The answer to one question. `path` are the parts of the path after the version, as they are."""
        target = _target(path, query)
        content = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": "application/json"} if content else {}
        if key:
            headers["idempotency-key"] = quote(key, safe="")
        for attempt in range(self._retries + 1):
            if self._closed:
                raise StoreUnavailable("this memory has been closed; open another one")
            try:
                return await self._once(method, target, headers, content, answer)
            except (StoreUnavailable, LimitExceeded) as error:
                pause = self._pause(error, attempt)
                if pause is None or attempt == self._retries or self._closed:
                    raise
                await self._transport.pause(pause)
        raise AssertionError("unreachable")  # the last attempt returned or raised

    async def close(self) -> None:
        """Let go of the connections. What is asked afterwards is a `StoreUnavailable`."""
        self._closed = True
        await self._transport.close()

    async def _once(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: bytes,
        answer: type[_Answer],
    ) -> _Answer:
        found = await self._transport.send(method, target, headers=headers, content=content)
        if not 200 <= found.status < 300:
            raise error_from(found.status, found.content)
        try:
            return msgspec.json.decode(found.content, type=answer)
        except msgspec.MsgspecError as error:
            raise TurnfoldError(
                f"the service answered in a form this release does not know: {error}"
            ) from None

    def _pause(self, error: StoreUnavailable | LimitExceeded, attempt: int) -> float | None:
        """How long to wait before the next attempt; None where another one would be refused too."""
        if isinstance(error, LimitExceeded):
            return error.again if 0 < error.again <= _LONGEST_PAUSE else None
        spread = 0.5 + random.random()  # noqa: S311 (so that many clients do not come back at once)
        return min(self._backoff * 2**attempt * spread, _LONGEST_PAUSE)


def check_positive(name: str, value: int | None) -> None:
    """Refuse what no service takes, in the words of an embedded memory."""
    if value is not None and value < 1:
        raise InvalidOption(f"{name}={value} must be at least 1")


def open_asker(
    url: str, *, token: str, timeout: float, retries: int, backoff: float, blocking: bool
) -> Asker:
    """Asks the service at `url`, with `token` where it takes one."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    kind = BlockingTransport if blocking else AwaitingTransport
    return Asker(kind(url, headers=headers, timeout=timeout), retries=retries, backoff=backoff)


def _target(path: Sequence[str], query: Mapping[str, object] | None) -> str:
    target = "/v1/" + "/".join(map(_quoted, path))
    given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
    return f"{target}?{urlencode(cast('Mapping[str, str]', given))}" if given else target


def _quoted(part: str) -> str:
    if not part:
        raise InvalidOption("a name must have 1 to 512 characters, got 0 characters")
    try:
        text = quote(part, safe="")
    except UnicodeEncodeError:
        raise InvalidOption("a name holds a lone surrogate, which no store can keep") from None
    # A part of dots alone would be taken for a step in the path.
    return text.replace(".", "%2E") if set(text) == {"."} else text
