"""Run a tool and turn whatever comes of it into one text for the model.

A tool is foreign code: it may return what has no text (cycles, half characters, objects that cannot be printed) or
raise what cannot even be described. None of that may end the agent's run or leave a call without a result, so every
fault is caught here, within the tool's time limit, and becomes a result that begins with "error: ".
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import cast

from turnfold.agent.tools import Tool, ToolRefused

__all__ = ("Outcome", "ToolRun", "failure", "outcome_of")

_ENDING = (KeyboardInterrupt, SystemExit)
"""What ends the run even when a tool raises it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one tool call, as it is logged."""

    text: str
    failed: bool = False


class ToolRun:
    """One run of a tool, to be asked through `Way.ask`; its answer is always an `Outcome`.

    Only KeyboardInterrupt, SystemExit and a cancellation of the waiting task are raised.
    """

    def __init__(self, tool: Tool, arguments: str) -> None:
        self._tool = tool
        self._arguments = arguments
        self._pending: Coroutine[object, object, object] | None = None
        self._abandoned = False

    @property
    def question(self) -> Callable[[], object]:
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
        """Call a plain function; an awaitable it returns is handed on as a coroutine of ours."""
        try:
            found = self._start()
            if not _is_awaitable(found):
                return outcome_of(found)
        except _ENDING:
            raise
        except BaseException as error:
            return failure(error)
        if type(found) is CoroutineType:
            self._pending = cast("Coroutine[object, object, object]", found)
        if self._abandoned:  # while the function ran: nobody takes what is returned here
            self.abandon()
            return None
        return self._awaited(lambda: cast("Awaitable[object]", found))

    async def _await_call(self) -> Outcome:
        return await self._awaited(lambda: cast("Awaitable[object]", self._start()))

    async def _awaited(self, made: Callable[[], Awaitable[object]]) -> Outcome:
        try:
            found = await made()
        except _ENDING:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return failure(error)  # something the tool waited for was cancelled, not the tool
        except (
            BaseException
        ) as error:  # GeneratorExit too: whoever closes a coroutine lets it return
            return failure(error)
        if type(found) is str:
            return outcome_of(found)
        # A large value takes long to write, and a value's own methods may block: not in the loop.
        return await asyncio.to_thread(outcome_of, found)


def _is_awaitable(found: object) -> bool:
    """Tell by the type alone: `inspect.isawaitable` believes an object that lies about its class."""
    if type(found) is GeneratorType:
        code = cast("GeneratorType[object, object, object]", found).gi_code
        return bool(code.co_flags & inspect.CO_ITERABLE_COROUTINE)
    return hasattr(type(found), "__await__")


def outcome_of(found: object) -> Outcome:
    """What a tool returned, as text: a string as it is, anything else as JSON or as `str()` writes it."""
    try:
        text = _text(found)
    except _ENDING:
        raise
    except BaseException as error:
        return Outcome(
            f"error: the tool returned a value of type {_type_name(found)}, which cannot be written as text: "
            f"{_described(error)}",
            failed=True,
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"U+{ord(text[error.start]):04X} at character {error.start}"
        return Outcome(
            f"error: the result holds a lone surrogate ({where}), which no provider takes; "
            f"with such characters escaped it is:\n{_encodable(text)}",
            failed=True,
        )
    return Outcome(text)


def failure(error: BaseException) -> Outcome:
    """What a tool raised, as text."""
    if isinstance(error, ToolRefused):
        return Outcome(_encodable(f"error: {error}"), failed=True)
    return Outcome(f"error: {_described(error)}", failed=True)


def _text(found: object) -> str:
    if issubclass(type(found), str):  # isinstance would believe an object that lies about its class
        return str.__str__(cast("str", found))
    if type(found) is GeneratorType or type(found) is AsyncGeneratorType:
        raise TypeError("the tool must return the items, as a list")
    if type(found) is CoroutineType:
        cast("Coroutine[object, object, object]", found).close()
        raise TypeError("the tool must await it and return its result")
    try:
        return json.dumps(found, ensure_ascii=False, default=str)
    except _ENDING:
        raise
    except BaseException:  # a cycle, a key that is no text, an object without str(): repr may do
        return str.__str__(str(found))


def _described(error: BaseException) -> str:
    """An exception as text, even one whose own methods raise."""
    try:
        message = _encodable(str.__str__(str(error)))
    except _ENDING:
        raise
    except BaseException:
        message = "(its message cannot be read)"
    return f"{_type_name(error)}: {message}" if message else _type_name(error)


def _type_name(value: object) -> str:
    """The name of a value's type, read past whatever a metaclass says."""
    name = cast("object", type.__dict__["__name__"].__get__(type(value)))
    return _encodable(str.__str__(cast("str", name)))


def _encodable(text: str) -> str:
    """The text with lone surrogates escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
