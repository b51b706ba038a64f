"""The OpenAPI document, generated from the table of operations and their structs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, cast

import msgspec

from turnfold.api import (
    CONTENT_TYPE,
    KEY_PATTERN,
    KINDS,
    AnyOperation,
    CallEvent,
    Events,
    PlainText,
    Problem,
)

__all__ = ("openapi",)


_REFERENCE: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_VERSION: Final = "1.0.0"
"""Version of the API under /v1, not of the package."""
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 512}
_TITLES: Final = {
    400: "Bad request",
    401: "Missing or unknown token",
    403: "Missing right, unknown host or origin, or a full quota",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict with a concurrent change",
    410: "The conversation was deleted",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "Invalid request content",
    429: "Too many requests",
    500: "Internal error",
    502: "The summarizer failed",
    503: "The store cannot be reached",
}
_ANY: Final = (403, 405, 422, 500, 503)
_WITH_TOKEN: Final = (401, 404, 410, 413, 429)
_WRITE: Final = (409, 415, 502)


def openapi(table: Collection[AnyOperation]) -> dict[str, object]:
    """Return the document of these operations."""
    types = sorted({*_types(table), Problem, CallEvent}, key=lambda each: each.__name__)
    shapes, components = msgspec.json.schema_components(
        types, schema_hook=_any_value, ref_template=_REFERENCE
    )
    schemas = dict(zip(types, shapes, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for each in table:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "turnfold",
            "version": _VERSION,
            "description": "The context memory of LLM agents, as a service. Every error is a problem detail whose "
            f"`type` is one of: {', '.join(kind.type for kind in KINDS)}.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _any_value(kind: type) -> dict[str, object]:
    if kind is object:
        return {"description": "Any JSON value"}
    raise NotImplementedError  # msgspec then raises an error that names the type


def _types(table: Iterable[AnyOperation]) -> Iterable[type]:
    for each in table:
        yield from (kind for kind in (each.body, each.answer) if kind not in (Events, PlainText))


def _described(
    operation: AnyOperation, schemas: dict[type, dict[str, object]]
) -> dict[str, object]:
    found: dict[str, object] = {
        "operationId": operation.name,
        "summary": operation.description,
        "tags": [operation.family],
        "parameters": [*_in_path(operation), *_in_query(operation), *_in_header(operation)],
        "responses": {"200": _answer(operation, schemas), **_errors(operation, schemas)},
        "security": [{"token": []}] if operation.right else [],
    }
    if operation.right:
        found["x-right"] = str(operation.right)
    fields = msgspec.structs.fields(operation.body)
    if fields:
        found["requestBody"] = {
            "required": any(field.required for field in fields),
            "content": {_JSON: {"schema": schemas[operation.body]}},
        }
    return found


def _in_path(operation: AnyOperation) -> Iterable[dict[str, object]]:
    for name in re.findall(r"{(\w+)}", operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": _NAME}


def _in_query(operation: AnyOperation) -> Iterable[dict[str, object]]:
    [schema], components = msgspec.json.schema_components([operation.query], schema_hook=_any_value)
    [whole] = components.values() if "$ref" in schema else [schema]
    properties = cast("dict[str, dict[str, object]]", whole["properties"])
    required = cast("list[str]", whole.get("required", []))
    for name, shape in properties.items():
        yield {"name": name, "in": "query", "required": name in required, "schema": shape}


def _in_header(operation: AnyOperation) -> Iterable[dict[str, object]]:
    if operation.answer is Events:
        yield {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
    if operation.method == "POST" and operation.right is not None:
        yield {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A repeated request with the same key and body stores nothing twice. Percent-encoded.",
            "schema": {"type": "string", "pattern": KEY_PATTERN},
        }


def _answer(operation: AnyOperation, schemas: dict[type, dict[str, object]]) -> dict[str, object]:
    if operation.answer is PlainText:
        content: dict[str, object] = {"text/plain": {"schema": {"type": "string"}}}
    elif operation.answer is Events:
        content = {"text/event-stream": {"schema": {"type": "string"}}}
    else:
        content = {_JSON: {"schema": schemas[operation.answer]}}
    return {"description": "Success", "content": content}


def _errors(
    operation: AnyOperation, schemas: dict[type, dict[str, object]]
) -> dict[str, dict[str, object]]:
    statuses = [*_ANY]
    if operation.right is not None:
        statuses += _WITH_TOKEN
    if operation.method != "GET":
        statuses += _WRITE
    content = {CONTENT_TYPE: {"schema": schemas[Problem]}}
    if operation.name == "readyz":
        content = {**content, _JSON: {"schema": schemas[operation.answer]}}
    return {
        str(status): {"description": _TITLES[status], "content": content}
        for status in sorted(statuses)
    }
