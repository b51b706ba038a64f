"""What may be asked of `recall_context`, checked.

The caller is usually a model: it writes `turnNumbers` or `turn_numbers`, one number where a list is meant, and now and
then something that was never offered. What can be understood in one way only is understood; the rest is refused with
the reason, which the model is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from turnfold.errors import InvalidOption
from turnfold.records.snapshots import LATEST_TURN

__all__ = ("MOST_ASKED", "RecallRequest", "as_request")

MOST_ASKED: Final = 50
"""Turns, keywords or ids that one question may name."""
_LONGEST: Final = 500
_NAMES: Final = {
    "turn_numbers": "turn_numbers",
    "turnNumbers": "turn_numbers",
    "keywords": "keywords",
    "context_ids": "context_ids",
    "contextIds": "context_ids",
    "path": "path",
    "lines": "lines",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """Which snapshots, and what of them."""

    turn_numbers: tuple[int, ...] = ()
    keywords: tuple[str, ...] = ()
    context_ids: tuple[str, ...] = ()
    path: str = ""
    """Only this file of them."""
    lines: tuple[int, int] | None = None
    """Only these lines of it, first and last, counted from 1; of the context where no path is named."""


def as_request(given: RecallRequest | Mapping[str, object]) -> RecallRequest:
    """A request from the arguments of a call."""
    if isinstance(given, RecallRequest):
        return given
    if not isinstance(cast("object", given), Mapping):
        raise InvalidOption(f"a recall is asked with an object, not {type(given).__name__}")
    fields: dict[str, object] = {}
    for name, value in given.items():
        known = _NAMES.get(name)
        if known is None:
            raise InvalidOption(
                f"recall_context knows no {name!r}; it takes turn_numbers, keywords, context_ids, path, lines"
            )
        if known in fields:
            raise InvalidOption(f"{known} is given twice, in two spellings")
        if value is not None:
            fields[known] = value
    request = RecallRequest(
        turn_numbers=tuple(map(_turn, _listed(fields.get("turn_numbers"), "turn_numbers"))),
        keywords=tuple(
            _text(each, "keywords") for each in _listed(fields.get("keywords"), "keywords")
        ),
        context_ids=tuple(
            _text(each, "context_ids") for each in _listed(fields.get("context_ids"), "context_ids")
        ),
        path=_text(fields["path"], "path") if fields.get("path") else "",
        lines=_lines(fields.get("lines")),
    )
    if not (request.turn_numbers or request.keywords or request.context_ids or request.path):
        raise InvalidOption("nothing to recall: name turn_numbers, keywords, context_ids or a path")
    return request


def _listed(value: object, name: str) -> list[object]:
    if value is None:
        return []
    found = list(cast("list[object]", value)) if isinstance(value, list | tuple) else [value]
    if len(found) > MOST_ASKED:
        raise InvalidOption(f"{len(found)} {name} at once; ask for at most {MOST_ASKED}")
    return found


def _turn(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LATEST_TURN:
        return value
    raise InvalidOption(f"{value!r} is no turn number: they count from 1")


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST:
        raise InvalidOption(f"{name}: a text of 1 to {_LONGEST} characters is wanted")
    return value


def _lines(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    found = _listed(value, "lines")
    if len(found) == 1:
        found *= 2
    match found:
        case [int() as first, int() as last] if 1 <= first <= last:
            return first, last
        case _:
            raise InvalidOption(f"lines={value!r}: give the first and the last, counted from 1")
