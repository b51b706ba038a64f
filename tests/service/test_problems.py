"""Every error of the tree has a stable name on the wire and comes back as itself, numbers and all."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.service.running import running
from turnfold import errors
from turnfold.api import KINDS, Problem, error_from, kind_of, problem_of
from turnfold.client import RemoteMemory
from turnfold.errors import (
    BudgetTooSmall,
    InvalidExport,
    InvalidRecord,
    LimitExceeded,
    MissingExtra,
    NotFound,
    RequestRefused,
    StoreUnavailable,
    TurnfoldError,
)
from turnfold.service import ServiceOptions

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


def test_an_unknown_field_is_answered_with_the_known_ones() -> None:
    with running(ServiceOptions(store="sqlite://")) as service, service.client() as client:
        body = client.post("/v1/sessions/one/context", json={"budgett": 5}).json()
        assert "unknown field `budgett`; the fields are: " in body["detail"]
        assert re.search(r"\bquery\b.*\bmax_tokens\b", body["detail"])
        query = client.get("/v1/sessions/one/messages?last=3").json()
        assert "unknown field `last`; the fields are: form, after, limit" in query["detail"]
        inside = client.post("/v1/search", json={"query": "x", "within": {"tool": 1}}).json()
        assert "the fields are" not in inside["detail"]


def test_a_remedy_names_the_request_over_http_and_the_method_in_a_client() -> None:
    with running(ServiceOptions(store="sqlite://")) as service, service.client() as client:
        client.post(
            "/v1/sessions/one/messages", json={"messages": [{"role": "user", "content": "hi"}]}
        )
        for path, right in (
            ("/v1/sessions/one/calls/1", "GET /v1/sessions/{session}/calls lists the calls"),
            ("/v1/sessions/never", "GET /v1/sessions lists the existing ones"),
        ):
            answer = client.get(path) if "calls" in path else client.delete(path)
            assert answer.status_code == 404
            assert right in answer.json()["detail"]
            assert "()" not in answer.json()["detail"]
        with (
            RemoteMemory(service.url) as memory,
            pytest.raises(NotFound, match=r"session\.calls\(\) lists the calls"),
        ):
            memory.session("one").explain("1")
