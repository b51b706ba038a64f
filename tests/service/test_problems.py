"""Every error of the tree has a stable name on the wire and comes back as itself, numbers and all."""

from __future__ import annotations

import msgspec
import pytest

from turnfold import errors
from turnfold.api import KINDS, Problem, error_from, kind_of, problem_of
from turnfold.errors import (
    BudgetTooSmall,
    InvalidExport,
    InvalidRecord,
    LimitExceeded,
    MissingExtra,
    RequestRefused,
    StoreUnavailable,
    TurnfoldError,
)

MADE: dict[type[TurnfoldError], TurnfoldError] = {
    BudgetTooSmall: BudgetTooSmall(
        needed=52, allowed=40, parts={"system": 12, "newest turn": 40}, remedy="Raise max_tokens"
    ),
    InvalidExport: InvalidExport("no footer", line=12, remedy="Export it again"),
    InvalidRecord: InvalidRecord("text is missing", path="content[0]", remedy="Add it"),
    LimitExceeded: LimitExceeded("too many", allowed=5, used=5, asked=1, again=0.5),
    MissingExtra: MissingExtra(package="x", extra="y", purpose="z"),
}
HIDDEN = {
    "store-error",
    "store-unavailable",
    "unsafe-store",
    "wrong-key",
    "wrong-process",
    "internal",
}


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_a_kind_of_its_own(name: str) -> None:
    assert kind_of(
        MADE.get(getattr(errors, name)) or getattr(errors, name)("why")
    ).error is getattr(errors, name)


def test_kinds_have_different_names() -> None:
    assert len({kind.type for kind in KINDS}) == len(KINDS)
    assert all(kind.type.startswith("urn:turnfold:problem:") for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_error_comes_back_as_itself(kind: object) -> None:
    error = MADE.get(kind.error) or kind.error("why")  # pyright: ignore[reportAttributeAccessIssue]
    problem = problem_of(error, request_id="r1")
    again = error_from(problem.status, msgspec.json.encode(problem))
    assert type(again) is type(error)
    if kind.name in HIDDEN:  # pyright: ignore[reportAttributeAccessIssue]
        assert "why" not in str(again)
    else:
        assert (str(again), vars(again)) == (str(error), vars(error))


def test_an_error_nobody_foresaw_says_nothing() -> None:
    problem = problem_of(KeyError("the secret of a user"))
    assert problem.status == 500
    assert "secret" not in msgspec.json.encode(problem).decode()


def test_an_error_derived_from_one_of_the_tree_is_of_its_kind() -> None:
    class Special(errors.Conflict):
        pass

    assert problem_of(Special("why")).type == "urn:turnfold:problem:conflict"


def test_the_arithmetic_travels_in_fields() -> None:
    problem = problem_of(MADE[BudgetTooSmall])
    assert problem.fields["needed"] == 52
    assert problem.fields["parts"] == {"system": 12, "newest turn": 40}


def test_what_no_service_of_ours_wrote_is_told_apart() -> None:
    assert type(error_from(502, b"<html>")) is StoreUnavailable
    refused = error_from(418, b"<html>")
    assert type(refused) is RequestRefused
    assert refused.status == 418
    newer = Problem(type="urn:turnfold:problem:new", title="New", status=400, detail="why")
    assert "why" in str(error_from(400, msgspec.json.encode(newer)))
