"""Run a tool and turn its result or error into one text for the model.

A tool is foreign code: it may return what has no text (cycles, lone surrogates, objects that cannot be printed) or
raise what cannot even be described. None of that may end the agent's run or leave a call without a result, so every
error is caught here, within the tool's time limit, and becomes a result that begins with "error: ".
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType, GeneratorType
from typing import cast

from turnfold.agent.tools import Tool, ToolRefused
from turnfold.wire import ENDING, ToolOutcome, described, encodable, outcome_of

__all__ = (
    "ToolRun",
    "failure",
)


class ToolRun:
    """One run of a tool, with a time limit set by the runtime; its answer is always a `ToolOutcome`.

    Only KeyboardInterrupt, SystemExit and a cancellation of the waiting task are raised.
    """

    def __init__(self, tool: Tool, arguments: str) -> None:
        self._tool = tool
        self._arguments = arguments
        self._pending: Coroutine[object, object, object] | None = None
        self._abandoned = False

    @property
    def as_function(self) -> Callable[[], object]:
        """The run as a function: a coroutine function where the tool is one, so that its coroutine is made late."""
        call = self._tool.call
        if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004 (an object may have an async __call__)
        ):
            return self._await_call
        return self._call

    def abandon(self) -> None:
        """Close a coroutine that a plain function returned and nobody has begun to await."""
        self._abandoned = True
        if self._pending is not None and inspect.getcoroutinestate(self._pending) == "CORO_CREATED":
            self._pending.close()

    def _start(self) -> object:
        return self._tool.call(**self._tool.arguments(self._arguments))

    def _call(self) -> object:
        """Call a plain function; an awaitable it returns is wrapped in a coroutine of ours."""
        try:
            found = self._start()
            if not _is_awaitable(found):
                return outcome_of(found)
        except ENDING:
            raise
        except BaseException as error:
            return failure(error)
        if type(found) is CoroutineType:
            self._pending = cast("Coroutine[object, object, object]", found)
        if self._abandoned:  # while the function ran: the return value is not used
            self.abandon()
            return None
        return self._awaited(lambda: cast("Awaitable[object]", found))

    async def _await_call(self) -> ToolOutcome:
        return await self._awaited(lambda: cast("Awaitable[object]", self._start()))

    async def _awaited(self, made: Callable[[], Awaitable[object]]) -> ToolOutcome:
        try:
            found = await made()
        except ENDING:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return failure(error)  # something the tool waited for was cancelled, not the tool
        except BaseException as error:  # GeneratorExit too: a coroutine that is closed may return
            return failure(error)
        if type(found) is str:
            return outcome_of(found)
        # A large value takes long to write, and a value's own methods may block: not in the loop.
        return await asyncio.to_thread(outcome_of, found)


def _is_awaitable(found: object) -> bool:
    """Check the type alone: `inspect.isawaitable` believes an object that lies about its class."""
    if type(found) is GeneratorType:
        code = cast("GeneratorType[object, object, object]", found).gi_code
        return bool(code.co_flags & inspect.CO_ITERABLE_COROUTINE)
    return hasattr(type(found), "__await__")


def failure(error: BaseException) -> ToolOutcome:
    """Return what a tool raised as text."""
    if isinstance(error, ToolRefused):
        return ToolOutcome(encodable(f"error: {error}"), failed=True)
    return ToolOutcome(f"error: {described(error)}", failed=True)
