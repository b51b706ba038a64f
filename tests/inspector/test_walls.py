"""Every path of the inspector, by the table it is made from: without a token, with a wrong one, from another tenant."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from tests.inspector.reading import dangers, read_page
from tests.inspector.seeded import CONTENT, TALK, inspected, seed, store_at
from tests.service.running import Running, make_tokens
from turnfold.api import Right
from turnfold.memory import Memory
from turnfold.service import ROOT, ServiceOptions, TokenFile, new_token
from turnfold.service.auth import Caller
from turnfold.service.inspector import routes as serving
from turnfold.service.inspector.routes import COOKIE, HEADERS
from turnfold.service.inspector.screens import SCREENS

QUERIES = {
    "diff": "?before={call}&after={call}",
    "recall": "?query=parcel",
    "snapshot_diff": "?before=1&after=2",
    "snapshot_file": "?path=notes/a%20b.txt",
}
STREAMS = ("/ui/events", f"/ui/sessions/{quote(TALK, safe='')}/events")


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Running, dict[str, str], str]]:
    folder: Path = tmp_path_factory.mktemp("walls")
    store, file = store_at(folder), folder / "tokens.json"
    seed(store)
    with Memory(store, scope="acme") as memory:
        call = memory.session(TALK).calls()[-1].call
    made = make_tokens(
        file,
        ("all", "acme", ["read", "write", "admin"]),
        ("reader", "acme", ["read"]),
        ("writer", "acme", ["write"]),
        ("foreign", "other", ["read", "write", "admin"]),
    )
    made["late"], line = new_token("late", "acme", ["read"], now=time.time() - 9e6, days=1)
    TokenFile(file).add(line)
    with inspected(ServiceOptions(store=store, tokens_file=file)) as service:
        yield service, made, call


def paths(call: str) -> dict[str, str]:
    """An address of every screen."""
    names = {"session": quote(TALK, safe=""), "call": call, "turn": "2"}
    return {
        each.name: ROOT
        + re.sub(r"{(\w+)}", lambda found: names[found[1]], each.path)
        + QUERIES.get(each.name, "").format(call=call)
        for each in SCREENS
    }


def asked(client: httpx2.Client, where: str) -> tuple[int, str]:
    """What is answered; of a stream, its beginning."""
    with client.stream("GET", where) as answer:
        assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
        if answer.headers["content-type"].startswith("text/event-stream"):
            return answer.status_code, next(answer.iter_text(), "")
        return answer.status_code, answer.read().decode() + repr(answer.headers)


def leaks(service: Running, made: dict[str, str], where: str) -> list[str]:
    """What somebody who may not look can see."""
    wrong = made["all"][:-1] + ("0" if made["all"][-1] != "0" else "1")
    found: list[str] = []
    for name, token in (("none", ""), ("wrong", wrong), ("late", made["late"]), ("odd", "x;y")):
        for way in ("header", "cookie"):
            headers = {"cookie": f"{COOKIE}={token}"} if way == "cookie" else {}
            with service.client(token if way == "header" else "", cookies=None) as client:
                client.headers.update(headers)
                status, text = asked(client, where)
            if status != 401 or CONTENT in text or TALK in text:
                found.append(f"{where}, {name} token by {way}: {status}")
    return found


def test_no_screen_answers_without_a_token(served: tuple[Running, dict[str, str], str]) -> None:
    service, made, call = served
    for where in (*paths(call).values(), *STREAMS):
        assert leaks(service, made, where) == []


def test_a_token_that_may_not_read_is_refused(served: tuple[Running, dict[str, str], str]) -> None:
    service, made, call = served
    with service.client(made["writer"]) as client:
        for where in (*paths(call).values(), *STREAMS):
            status, text = asked(client, where)
            assert status == 403, where
            assert CONTENT not in text


def test_another_tenant_sees_nothing(served: tuple[Running, dict[str, str], str]) -> None:
    service, made, call = served
    with service.client(made["foreign"]) as client:
        for name, where in paths(call).items():
            status, text = asked(client, where)
            assert status == (200 if name in ("sessions", "health") else 404), where
            assert CONTENT not in text
            assert "second" not in text


def test_the_owner_does_see_it(served: tuple[Running, dict[str, str], str]) -> None:
    service, made, call = served
    seen = 0
    with service.client(made["reader"]) as client:
        for where in paths(call).values():
            status, text = asked(client, where)
            assert status == 200, where
            seen += CONTENT in text
        for where in STREAMS:
            assert asked(client, where) == (200, "retry: 1000\n\n")
    assert seen >= 6


def test_details_of_the_service_are_for_those_who_may(
    served: tuple[Running, dict[str, str], str],
) -> None:
    service, made, _ = served
    with service.client(made["reader"]) as client:
        assert "inspector_health" not in client.get("/ui/health").text
    with service.client(made["all"]) as client:
        client.get("/ui/health")
        assert "inspector_health" in client.get("/ui/health").text


def test_somebody_signs_in_and_out(served: tuple[Running, dict[str, str], str]) -> None:
    service, made, _ = served
    with service.client() as client:
        asks = client.get("/ui")
        assert asks.status_code == 401
        assert dangers(asks.text) == []
        form = read_page(asks.text).one("form")
        assert (form.attributes["method"], form.attributes["action"]) == ("post", "/ui/sign-in")
        assert client.post("/ui/sign-in", data={"token": "tf_x_y"}).status_code == 401
        assert client.post("/ui/sign-in", data={"token": made["writer"]}).status_code == 403
        assert not client.cookies
        entered = client.post("/ui/sign-in", data={"token": made["reader"]})
        assert (entered.status_code, entered.headers["location"]) == (303, "/ui")
        cookie = entered.headers["set-cookie"].lower()
        for part in ("httponly", "samesite=strict", "path=/ui"):
            assert part in cookie
        assert TALK in read_page(client.get("/ui").text).text
        assert client.get("/v1/sessions").status_code == 401  # the cookie opens pages, not the API
        client.post("/ui/sign-out")
        assert client.get("/ui").status_code == 401


def test_pages_of_other_sites_may_not_ask(served: tuple[Running, dict[str, str], str]) -> None:
    service, made, _ = served
    with service.client() as client:
        elsewhere = {"origin": "http://outside.invalid"}
        form = {"token": made["reader"]}
        assert client.post("/ui/sign-in", data=form, headers=elsewhere).status_code == 403
        assert client.get("/ui", headers={"host": "outside.invalid"}).status_code == 403
        large = client.post("/ui/sign-in", content=b"token=" + b"x" * 5_000)
        assert large.status_code == 413


def test_an_inspector_that_does_not_ask_would_be_found(
    served: tuple[Running, dict[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, made, call = served

    def anybody(*_: object) -> Caller:
        return Caller("acme", frozenset(Right), "")

    monkeypatch.setattr(serving, "_caller", anybody)
    for where in (*paths(call).values(), *STREAMS):
        assert leaks(service, made, where) != []


def test_an_inspector_that_looks_elsewhere_would_be_found(
    served: tuple[Running, dict[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = serving._caller

    def confused(*given: object) -> Caller:
        asked_by = real(*given)  # type: ignore[arg-type]
        return Caller("acme", asked_by.rights, asked_by.name)

    monkeypatch.setattr(serving, "_caller", confused)
    with pytest.raises(AssertionError):
        test_another_tenant_sees_nothing(served)
