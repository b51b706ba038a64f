"""A store that fails where a test wants it to, before or after it has done what it was asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from turnfold import ShortMemory
from turnfold.errors import StoreUnavailable
from turnfold.stores import Store

__all__ = ("Faulty",)


class Faulty:
    """Passes every verb on to a store; `fail` names the next calls that do not come back."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._faults: list[tuple[str, str]] = []
        self._countdown = -1
        self._late = False
        self.called: list[str] = []
        self.before: dict[str, Callable[[], None]] = {}
        """What somebody else does just before a verb is carried out, once."""

    def memory(self, **options: Any) -> ShortMemory:
        """A memory over it."""
        return ShortMemory(cast("Store", self), **options)

    def fail(self, verb: str, *, after: bool = False, times: int = 1) -> None:
        """The next calls of a verb raise: `after` what was asked has been done, or instead of doing it."""
        self._faults += [(verb, "after" if after else "before")] * times

    def fail_at(self, number: int, *, after: bool) -> None:
        """The call of this number from now on, counted from 0, raises."""
        self._countdown, self._late = number, after

    @property
    def failed(self) -> bool:
        """Whether the call that was to fail has been made."""
        return self._countdown < 0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not callable(verb):
            return verb
        return self._passing(name, cast("Callable[..., Awaitable[Any]]", verb))

    def _passing(self, name: str, verb: Callable[..., Awaitable[Any]]) -> Any:
        async def passed(*args: Any, **options: Any) -> Any:
            self.called.append(name)
            meanwhile = self.before.pop(name, None)
            if meanwhile is not None:
                meanwhile()
            at = next((at for at, fault in enumerate(self._faults) if fault[0] == name), None)
            fault = self._faults.pop(at) if at is not None else ("", "")
            if self._countdown == 0:
                fault = (name, "after" if self._late else "before")
            self._countdown -= self._countdown >= 0
            if fault[1] == "before":
                raise StoreUnavailable("the connection was refused")
            answer = await verb(*args, **options)
            if fault[1] == "after":
                raise StoreUnavailable("the reply was lost")
            return answer

        return passed
