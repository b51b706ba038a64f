"""A call reads without its documentation: what turnfold offers takes few arguments by position."""

from __future__ import annotations

import inspect
from enum import Enum

import pytest

import turnfold

MOST_POSITIONAL = 3
DOCUMENTED = {
    "AgentMemory",
    "Checkpoint",
    "ContentChunk",
    "Entry",
    "MessageMemoryConfig",
    "SummaryTokenMemory",
    "TokenMemory",
}
"""Constructors whose parameters stand in this order in the documents they implement, and values that stores make of
columns."""
BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def is_called_by_users(value: object) -> bool:
    """Functions and constructors; an enumeration's constructor is Python's own, not ours."""
    if inspect.isclass(value):
        ours = [base for base in value.__mro__ if base.__module__.startswith("turnfold")]
        plain_error = issubclass(value, Exception) and not any("__init__" in vars(b) for b in ours)
        return not issubclass(value, Enum) and not plain_error
    return inspect.isroutine(value)


def positional_names(value: object) -> list[str]:
    assert callable(value)
    parameters = inspect.signature(value).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in BY_POSITION]


@pytest.mark.parametrize("name", turnfold.__all__)
def test_few_arguments_are_positional(name: str) -> None:
    value = getattr(turnfold, name)
    if is_called_by_users(value) and name not in DOCUMENTED:
        assert len(positional_names(value)) <= MOST_POSITIONAL, positional_names(value)


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_an_exception_to_the_rule_is_needed(name: str) -> None:
    assert len(positional_names(getattr(turnfold, name))) > MOST_POSITIONAL


def test_the_rule_sees_a_long_signature() -> None:
    class Wide:
        def __init__(self, a: int, b: int, c: int, d: int = 0, *, e: int = 0) -> None: ...

    def narrow(a: int, b: int, c: int, *rest: int, d: int = 0) -> None: ...

    assert is_called_by_users(Wide)
    assert is_called_by_users(narrow)
    assert not is_called_by_users(3)
    assert positional_names(Wide) == ["a", "b", "c", "d"]
    assert positional_names(narrow) == ["a", "b", "c"]
