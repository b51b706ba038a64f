"""Error texts for arguments that a constructor does not have: they name the right call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec

__all__ = ("hinted",)


_Arguments = ParamSpec("_Arguments")
Advice = Callable[[tuple[object, ...], Mapping[str, object]], str]
"""From arguments by position and unknown options to an error text; empty if there is no advice for them."""


def hinted(
    name: str, advice: Advice
) -> Callable[[Callable[_Arguments, None]], Callable[_Arguments, None]]:
    """Decorate the constructor of the class `name`: the `TypeError` for arguments it does not have says what to write.

    The signature stays as it is, for readers, editors and type checkers.
    """

    def decorate(init: Callable[_Arguments, None]) -> Callable[_Arguments, None]:
        @wraps(init)
        def construct(*given: _Arguments.args, **options: _Arguments.kwargs) -> None:
            try:
                init(*given, **options)
            except TypeError as error:
                # An error from inside the constructor has one more frame, and is not about its arguments.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                known = inspect.signature(init).parameters
                unknown = {each: options[each] for each in options if each not in known}
                text = advice(given[1:], unknown) or _nearest(name, unknown, known)
                if not text:
                    raise
                raise TypeError(text) from None

        return construct

    return decorate


def _nearest(name: str, unknown: Mapping[str, object], known: Mapping[str, object]) -> str:
    """Return the error text for an option that does not exist, with the known option that is most like it."""
    from difflib import get_close_matches  # for errors only

    for option in unknown:
        like = get_close_matches(option, [each for each in known if each != "self"], 1)
        meant = f": did you mean {like[0]}=?" if like else f"; help({name}) lists its options"
        return f"{name} has no option {option!r}{meant}"
    return ""
