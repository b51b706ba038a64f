"""The OpenAPI document is what the service does: requests made from it find no server error and no undocumented answer.

Streams are left out, for they do not end; tests/service/test_events.py has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.service.running import Running, running
from tests.sizes import SERVICE_REQUESTS
from turnfold.api import AnyOperation, Events, Ready, declare, operations
from turnfold.budget import Budget
from turnfold.service import ServiceOptions
from turnfold.service.app import openapi
from turnfold.service.operation_table import OperationTable
from turnfold.service.routes import TABLE

schemathesis: Any = pytest.importorskip("schemathesis", reason="needs the package 'schemathesis'")

SHORT = [each for each in TABLE if each.answer is not Events]
FEW, MANY = SERVICE_REQUESTS.default, SERVICE_REQUESTS.slow
DOCUMENT = openapi(TABLE)


def without_tokens(table: Collection[AnyOperation]) -> dict[str, Any]:
    """The document for a service on loopback; tests/service/test_admission.py tries the tokens."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(openapi(table)))
    del document["components"]["securitySchemes"]
    for found in document["paths"].values():
        for each in found.values():
            del each["security"]
            each["responses"].pop("401", None)  # from which a token would be inferred
    return document


LOOSE = without_tokens(TABLE)
SCHEMA = schemathesis.openapi.from_dict(LOOSE)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    store = f"sqlite:///{tmp_path_factory.mktemp('openapi') / 'chat.db'}"
    with running(ServiceOptions(store=store, budget=Budget(max_tokens=2_000))) as started:
        yield started


def faults(
    service: Running, each: AnyOperation, *, examples: int, document: object = LOOSE
) -> None:
    """Ask an operation for what its description allows, and for what it does not; raise at the first fault."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        negative_data_rejection,
        response_headers_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
        response_headers_conformance,
        negative_data_rejection,
    ]
    schema = SCHEMA if document is LOOSE else schemathesis.openapi.from_dict(document)
    described = schema[each.path][each.method]
    with service.client() as session:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            asked = 0

            @settings(
                max_examples=examples,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            )
            @given(case=described.as_strategy(generation_mode=mode))
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                case.call_and_validate(base_url=service.url, checks=checks, timeout=60)

            if mode is GenerationMode.POSITIVE or can_be_wrong(each):
                ask()
                assert asked
        assert session.get("/healthz").status_code == 200


def can_be_wrong(each: AnyOperation) -> bool:
    """Whether there is anything to get wrong: a parameter or a body."""
    fields = msgspec.structs.fields
    return "{" in each.path or bool(fields(each.query)) or bool(fields(each.body))


@pytest.mark.parametrize("each", SHORT, ids=lambda each: each.name)
def test_an_operation_does_what_its_description_says(service: Running, each: AnyOperation) -> None:
    faults(service, each, examples=FEW)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("each", SHORT, ids=lambda each: each.name)
def test_an_operation_does_what_its_description_says_for_many_requests(
    service: Running, each: AnyOperation
) -> None:
    faults(service, each, examples=MANY)


BROKEN = declare("broken", "GET /v1/broken", "Fail.", right=None, answer=Ready)


async def raises(_: object) -> Ready:
    """Fail."""
    raise KeyError("nobody foresaw it")


async def other_shape(_: object) -> object:
    """Answer something else."""
    return {"reddy": True}


async def other_status(_: object) -> object:
    """Answer as nobody said."""
    from starlette.responses import JSONResponse

    return JSONResponse({"ready": True}, 203)


@pytest.mark.parametrize("run", [raises, other_shape, other_status], ids=lambda run: run.__name__)
def test_an_operation_that_does_otherwise_would_be_found(run: Any) -> None:
    document = without_tokens([BROKEN])
    table = OperationTable({BROKEN: run, **TABLE})
    with (
        running(ServiceOptions(), table=table) as service,
        pytest.raises(BaseException, match=r"(?s)."),
    ):
        faults(service, BROKEN, examples=3, document=document)


def test_the_served_document_is_the_one_that_was_tried(service: Running) -> None:
    with service.client() as client:
        served = client.get("/v1/openapi.json")
    assert served.headers["content-type"] == "application/json"
    paths = served.json()["paths"]
    assert paths == msgspec.json.decode(msgspec.json.encode(DOCUMENT))["paths"]
    described = {(path, method.upper()) for path, found in paths.items() for method in found}
    assert described == {(each.path, each.method) for each in TABLE}


def test_every_operation_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({each.name for each in TABLE}) == len(TABLE)
    assert all(each.description.endswith(".") for each in TABLE)


def test_every_declared_operation_is_served() -> None:
    assert set(TABLE) == set(operations.OPERATIONS)


def test_an_unknown_path_or_method_is_a_problem(service: Running) -> None:
    with service.client() as client:
        nowhere = client.get("/v1/nowhere")
        wrong = client.patch("/v1/sessions")
        head = client.head("/v1/sessions")
    assert (nowhere.status_code, nowhere.json()["type"]) == (404, "urn:turnfold:problem:not-found")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert wrong.headers["content-type"] == "application/problem+json"
    assert (head.status_code, head.content) == (200, b"")


def test_a_parameter_or_field_that_is_not_known_is_refused(service: Running) -> None:
    with service.client() as client:
        for path in ("/v1/sessions?limt=3", "/v1/sessions?limit=3&limit=4", "/v1/sessions?limit=0"):
            assert client.get(path).status_code == 422, path
        body = {"content": "hi", "nam": "x"}
        assert client.post("/v1/sessions/s/user", json=body).status_code == 422
        text = client.post("/v1/sessions/s/user", content="{}", headers={"content-type": "a/b"})
        assert text.status_code == 415
        assert client.post("/v1/sessions/s/user", content=b"\xff{").status_code == 422
        assert client.post("/v1/sessions/%ff/user", json={"content": "x"}).status_code == 422
