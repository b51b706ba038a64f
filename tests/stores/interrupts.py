"""An exception at any instruction of a call, as a signal's handler would raise it in the main thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import turnfold.stores

__all__ = ("HUNG", "count_instructions", "elsewhere", "interrupted_at")

Answer = TypeVar("Answer")
_FOLDER = str(Path(turnfold.stores.__file__).parent)
HUNG = "hung"


class _Interrupt:
    """Counts the instructions of the stores' own code in this thread; raises before the one asked for."""

    def __init__(self, at: int) -> None:
        self.seen = 0
        self._at = at

    def __call__(self, frame: FrameType, event: str, _value: object) -> Any:
        if not frame.f_code.co_filename.startswith(_FOLDER):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.seen += 1
            if self.seen == self._at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def _traced(call: Callable[[], object], at: int) -> tuple[bool, int]:
    interrupt, before = _Interrupt(at), sys.gettrace()
    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        return True, interrupt.seen
    finally:
        sys.settrace(before)
    return False, interrupt.seen


def interrupted_at(call: Callable[[], object], instruction: int) -> bool:
    """Call with an interrupt before this instruction; whether it ended the call."""
    return _traced(call, instruction)[0]


def count_instructions(call: Callable[[], object]) -> int:
    """How many instructions of the stores a call takes in this thread."""
    return _traced(call, 0)[1]


def elsewhere(call: Callable[[], Answer], *, patience: float = 30.0) -> Answer | str | Exception:
    """What the call answers or raises in another thread; `HUNG` if it does not end."""
    outcome: list[Answer | Exception] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(patience)
    return outcome[0] if outcome else HUNG
