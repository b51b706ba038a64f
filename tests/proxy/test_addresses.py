"""Requests reach the provider below its address and nothing else, whatever a client writes into them."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.proxy.running import Recorder, Told, proxied, served

KEY = b"Authorization: Bearer sk-of-the-client\r\n"
ELSEWHERE = [
    "@127.0.0.1:{port}/v1/models",
    "@127.0.0.1:{port}/../v1/models",
    ":80@127.0.0.1:{port}/v1/models",
    ":x@127.0.0.1:{port}",
    ".localhost:{port}/v1/models",
    "http://127.0.0.1:{port}/v1/models",
    "https://127.0.0.1:{port}/v1/models",
    "127.0.0.1:{port}",
    "*",
    "?@127.0.0.1:{port}/",
    "/s/one@127.0.0.1:{port}/../..//127.0.0.1:{port}/v1",
]
"""Targets of a request line that name another host, or none."""
ABOVE = [
    "/..", "/../admin", "/v1/../../admin", "/v1/..", "/./v1", "/v1/.", "/%2e%2e/admin", "/%2E./admin", "/.%2e/admin",
    "/..%2fadmin", "/v1%2f..%2f..%2fadmin", "/%252e%252e/admin", "/%25252e%25252e%25252fadmin", "/..\\admin",
    "/..%5cadmin", "/..%255cadmin", "/..;/admin", "/..;a=b/admin", "/%2e%2e%3b/admin", "/s/one/../admin",
    "/s/one/%2e%2e/admin", "/v1/models%0d%0aX-Evil:%201", "/v1/%00", "/v1/models#/../admin", "/%25252525252e/x",
]  # fmt: skip
"""Paths that leave the folder of the provider's address, as one server or another reads them."""


def spoken(url: str, sent: bytes) -> bytes:
    """What the proxy answers to these bytes, until it says no more."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall(sent)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    return answer


def asked(url: str, method: str, target: str, *, headers: bytes = KEY, body: bytes = b"") -> bytes:
    host = urlsplit(url).netloc.encode()
    first = b"%s %s HTTP/1.1\r\nHost: %s\r\n" % (method.encode(), target.encode(), host)
    return spoken(url, first + headers + b"Connection: close\r\n\r\n" + body)


@pytest.mark.parametrize("base", ["", "/tenant/v1"])
def test_no_target_leads_elsewhere(base: str) -> None:
    with Recorder(lambda _: Told()) as other, Recorder(lambda _: Told()) as provider:
        port = urlsplit(other.url).port
        with proxied(provider.url + base) as url:
            for target in [each.format(port=port) for each in ELSEWHERE] + ABOVE:
                answer = asked(url, "GET", target)
                assert answer.startswith(b"HTTP/1.1 400 "), (target, answer)
            connected = asked(url, "CONNECT", f"127.0.0.1:{port}")
        assert connected.startswith(b"HTTP/1.1 4")
        assert other.seen == []
        assert provider.seen == []


@pytest.mark.parametrize("base", ["", "/tenant/v1"])
@pytest.mark.parametrize(
    "path",
    [
        "//127.0.0.1:{port}/v1/models", "/http://127.0.0.1:{port}/v1", "/@127.0.0.1:{port}/", "/a@b:c", "/v2/a%2Fb",
        "/v2/files/...", "/v2/models/gemini-2.5-pro:countTokens?key=1&next=http://127.0.0.1:{port}/..",
        "/.well-known/x", "/v2/a%20b%E4%BC%9A",
    ],
)  # fmt: skip
def test_odd_paths_stay_below_the_address(base: str, path: str) -> None:
    with Recorder(lambda _: Told()) as other, Recorder(lambda _: Told()) as provider:
        told = path.format(port=urlsplit(other.url).port)
        with proxied(provider.url + base) as url:
            assert asked(url, "GET", told).startswith(b"HTTP/1.1 200 ")
        assert other.seen == []
        [came] = provider.seen
        # `http.server` reads `//host` as `/host`: servers differ in this, too.
        assert came.path.replace("//", "/") == (base + told).replace("//", "/")
        assert came.headers["host"] == urlsplit(provider.url).netloc


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with Recorder(lambda _: Told()) as other:
        told = Told(b"", status, {"location": f"{other.url}/v1/models", "content-length": "0"})
        with served(lambda _: told) as (_provider, http):
            for path in ("/v1/models", "/s/one/v1/chat/completions"):
                answer = http.post(path, json={"model": "m", "messages": []})
                assert answer.status_code == status
        assert other.seen == []


def test_a_request_in_two_readings_is_refused() -> None:
    """One server may go by the length and the next by the chunks, and find a second request in the rest."""
    hidden = b"GET /v1/secret HTTP/1.1\r\nHost: x\r\n\r\n"
    chunked = b"0\r\n\r\n" + hidden
    both = KEY + b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % len(chunked)
    with served(lambda _: Told()) as (provider, http):
        url = str(http.base_url)
        for target in ("/v1/files", "/s/one/v1/chat/completions"):
            answer = asked(url, "POST", target, headers=both, body=chunked)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert b"Content-Length" in answer
        for headers in (
            b"Content-Length: 4\r\nContent-Length: 5\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Transfer-Encoding:\x0bchunked\r\n",
            b"X-A: b\rX-Evil: c\r\n",
            b"X-A : b\r\n",
            b"X-A: b\x00\r\n",
        ):
            answer = asked(url, "POST", "/v1/files", headers=KEY + headers, body=b"0\r\n\r\n")
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")), headers
        assert provider.seen == []


def test_what_the_connection_header_names_is_left_out_and_frames_nothing_anew() -> None:
    body = json.dumps({"a": 1}).encode()
    named = (
        KEY
        + b"Connection: content-length, host, x-hop\r\nX-Hop: 1\r\nContent-Length: %d\r\n"
        % len(body)
    )
    with served(lambda _: Told()) as (provider, http):
        assert asked(str(http.base_url), "POST", "/v1/files", headers=named, body=body).startswith(
            b"HTTP/1.1 200 "
        )
    [came] = provider.seen
    assert came.raw == body
    assert came.headers["host"] == urlsplit(provider.url).netloc
    assert "x-hop" not in came.headers


@pytest.mark.parametrize(
    "lines",
    [
        KEY * 2,
        KEY + b"X-Turnfold-Token: a\r\nX-Turnfold-Token: b\r\n",
        KEY + b"X-Turnfold-Session: a\r\nX-Turnfold-Session: b\r\n",
        KEY + b"X-Turnfold: off\r\nX-Turnfold: on\r\n",
        b"Authorization: Bearer\r\n sk-of-the-client\r\n",
        KEY + b"X-Other: a\r\n\tX-Turnfold-Token: b\r\n",
    ],
    ids=["keys", "tokens", "sessions", "switches", "folded key", "folded line"],
)
def test_a_header_that_can_be_read_in_two_ways_is_refused(lines: bytes) -> None:
    with Recorder(lambda _: Told()) as provider, proxied(provider.url) as url:
        answer = asked(url, "GET", "/v1/models", headers=lines)
        assert answer.startswith(b"HTTP/1.1 400"), answer[:300]
        assert provider.seen == []
