"""The documentation page of the service: complete, true, offline, and where `/` leads."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from tests.service.running import Running, running
from turnfold.service import ServiceOptions, inspector_beside
from turnfold.service.api_page import api_page, curl_line, sample_value
from turnfold.service.app import openapi
from turnfold.service.routes import TABLE

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(openapi(TABLE)))
COMPONENTS = DOCUMENT["components"]["schemas"]
EVERY = [
    (path, method.upper(), found)
    for path, methods in DOCUMENT["paths"].items()
    for method, found in methods.items()
]


class Elements(HTMLParser):
    """The elements of a page, and what is left open."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running(ServiceOptions()) as started:
        yield started


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_has_every_operation_and_schema_and_only_links_that_lead_somewhere(
    language: str,
) -> None:
    page = Elements(api_page(DOCUMENT, language))
    assert page.open == []
    ids = [given["id"] for _, given in page.found if "id" in given]
    assert len(ids) == len(set(ids))
    assert {f"operation-{found['operationId']}" for _, _, found in EVERY} < set(ids)
    assert {f"schema-{name}" for name in COMPONENTS} < set(ids)
    links = {given["href"] for tag, given in page.found if tag == "a"}
    inside = {str(link)[1:] for link in links if str(link).startswith("#")}
    assert inside <= set(ids)
    assert {link for link in links if not str(link).startswith("#")} == {"/v1/openapi.json"}
    assert {tag for tag, _ in page.found} & {"script", "img", "iframe", "form", "style"} == set()
    assert not any(
        key.startswith("on") or key == "style" for _, given in page.found for key in given
    )


def test_the_words_of_the_page_are_in_its_language() -> None:
    assert "试一试" in api_page(DOCUMENT, "zh").decode()
    assert "Try it" not in api_page(DOCUMENT, "zh").decode()


@pytest.mark.parametrize("operation", list(TABLE), ids=lambda each: each.name)
def test_the_sample_body_of_every_operation_is_one_it_takes(operation: Any) -> None:
    found = DOCUMENT["paths"][operation.path][operation.method.lower()]
    if "requestBody" not in found:
        return
    schema = found["requestBody"]["content"]["application/json"]["schema"]
    msgspec.convert(sample_value(schema, COMPONENTS), operation.body)


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one[2]["operationId"])
def test_the_curl_line_of_every_operation_can_be_run(one: tuple[str, str, Any]) -> None:
    path, method, found = one
    words = shlex.split(curl_line(path, method, found, COMPONENTS).replace("\\\n", " "))
    assert words[0] == "curl"
    [url] = [word for word in words if word.startswith("$TURNFOLD_URL/")]
    assert "{" not in url
    assert ("-X" in words) == (method != "GET")
    if "-d" in words:
        msgspec.json.decode(words[words.index("-d") + 1])
    assert any("Bearer $TURNFOLD_TOKEN" in word for word in words) == bool(found["security"])


def test_a_curl_line_does_what_it_says(service: Running) -> None:
    found = DOCUMENT["paths"]["/v1/sessions/{session}/user"]["post"]
    line = curl_line("/v1/sessions/{session}/user", "POST", found, COMPONENTS)
    words = shlex.split(line.replace("\\\n", " "))
    with service.client() as client:
        place = next(word for word in words if word.startswith("$")).removeprefix("$TURNFOLD_URL")
        sent = client.post(
            place,
            content=words[words.index("-d") + 1],
            headers={"content-type": "application/json"},
        )
        assert sent.status_code == 200, sent.text
        stored = client.get("/v1/sessions/SESSION/messages").json()
        assert "text" in str(stored)


def test_the_page_is_served_without_a_token_and_lets_nothing_else_in(service: Running) -> None:
    with service.client() as client:
        page = client.get("/docs", headers={"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"})
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert '<html lang="zh">' in page.text
        assert '<html lang="en">' in client.get("/docs").text
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self';")
        style = client.get("/docs/style.css")
        assert style.headers["content-type"].startswith("text/css")
        assert re.search(r"url\(|@import", style.text) is None
        wrong = client.post("/docs")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD")
        assert client.head("/docs").content == b""


def test_the_first_address_leads_to_the_inspector_or_to_the_documentation(service: Running) -> None:
    with service.client() as client:
        first = client.get("/", follow_redirects=False)
        assert (first.status_code, first.headers["location"]) == (307, "/docs")
    with running(ServiceOptions(), besides=(inspector_beside,)) as both, both.client() as client:
        assert client.get("/", follow_redirects=False).headers["location"] == "/ui"
        assert client.get("/docs").status_code == 200
    # `turnfold ui`: no API, so no documentation of one
    pages_only = running(ServiceOptions(), besides=(inspector_beside,), table={})
    with pages_only as pages, pages.client() as client:
        assert client.get("/", follow_redirects=False).headers["location"] == "/ui"
        assert client.get("/docs").status_code == 404
