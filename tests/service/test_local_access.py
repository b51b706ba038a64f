"""A service without a token file is for the person who started it, not for everybody who can reach its port."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests.service.running import ServiceProcess, make_tokens, running
from turnfold.errors import AccessDenied, InvalidOption
from turnfold.service import (
    ROOT,
    LocalAccess,
    ServiceOptions,
    inspector_beside,
    make_state,
)
from turnfold.service.routes import TABLE

WRONG = ("", "tf_local_", "tf_local_" + "0" * 64, "local", "\udcff")


def test_programs_need_the_token_that_was_printed(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with ServiceProcess("--store", store, secret=True) as service:
        token = service.complained("token for programs, valid until this command ends: ")
        link = service.complained("inspector (this link works once): ")
        assert token not in link
        with httpx2.Client(base_url=service.url, trust_env=False, verify=False) as client:
            assert client.get("/v1/sessions").status_code == 401
            assert client.get("/healthz").status_code == 200
            known = {"authorization": f"Bearer {token}"}
            assert client.get("/v1/sessions", headers=known).status_code == 200
            assert client.get(link).status_code == 303
            assert client.get(ROOT).status_code == 200
        newer = service.complained("inspector (this link works once): ")
        assert newer.partition("key=")[0] == link.partition("key=")[0]
        assert newer != link


def test_every_route_needs_the_token(tmp_path: Path) -> None:
    local = LocalAccess()
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", local=local)
    with running(options, besides=[inspector_beside]) as service, service.client() as client:
        for each in TABLE:
            if each.right is not None:
                path = each.path.replace("{", "").replace("}", "")
                assert client.request(each.method, path).status_code == 401, each.name
        for path in ("", "/events", "/sessions/s", "/sessions/s/events", "/open", "/open?key=x"):
            assert client.get(f"{ROOT}{path}").status_code == 401, path


def test_a_link_signs_one_browser_in_once(tmp_path: Path) -> None:
    local = LocalAccess()
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", local=local)
    shown: list[str] = []
    local.on_used = lambda: shown.append(local.link(""))
    with running(options, besides=[inspector_beside]) as service:
        link = local.link(f"{service.url}{ROOT}")
        with service.client() as first, service.client() as second:
            assert first.head(link).status_code == 405  # a preview of the link does not use it
            opened = first.get(link)
            assert opened.status_code == 303
            cookie = opened.headers["set-cookie"].lower()
            assert "httponly" in cookie
            assert "samesite=strict" in cookie
            assert "key=" not in opened.headers["location"]
            assert first.get(ROOT).status_code == 200
            refused = second.get(link)
            assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
            assert "This link was used before" in refused.text
            assert (
                "<form" not in refused.text.partition("<main")[2]
            )  # a local user has no token to type in
            chinese = second.get(link, headers={"accept-language": "zh-CN"})
            assert "重新运行 turnfold ui" in chinese.text
            assert "turnfold ui" in second.get(ROOT).text
            assert second.get(ROOT).status_code == 401
            [newer] = shown
            assert second.get(f"{service.url}{ROOT}{newer}").status_code == 303
            assert second.get(ROOT).status_code == 200
            assert first.get(ROOT).status_code == 200


@pytest.mark.parametrize("token", WRONG)
def test_no_other_token_and_no_other_key_is_taken(token: str) -> None:
    local = LocalAccess("acme")
    assert local.caller(local.token).tenant == "acme"
    assert local.admits(local.caller(local.token))
    with pytest.raises(AccessDenied):
        local.caller(token)
    with pytest.raises(AccessDenied):
        local.use(token)


def test_two_services_share_no_secret() -> None:
    one, other = LocalAccess(), LocalAccess()
    with pytest.raises(AccessDenied):
        one.caller(other.token)
    assert not one.admits(other.caller(other.token))
    with pytest.raises(AccessDenied):
        one.use(other.link("").partition("key=")[2])


def test_any_host_header_is_taken_only_with_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    make_tokens(file, ("one", "acme", ["read"]))
    for local in (None, LocalAccess()):
        with pytest.raises(InvalidOption, match="--allow-host '\\*' without --tokens-file"):
            make_state(ServiceOptions(allow_hosts=("*",), local=local))
        make_state(ServiceOptions(allow_hosts=("mem.example",), local=local))
    make_state(ServiceOptions(allow_hosts=("*",), tokens_file=file))
