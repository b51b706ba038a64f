"""Tokens: only hashes are kept, wrong ones are refused alike, a revoked one ends without a restart."""

from __future__ import annotations

import stat
from hmac import compare_digest
from pathlib import Path

import pytest

from turnfold.api import Right
from turnfold.errors import AccessDenied, InvalidOption, NotFound
from turnfold.service import TokenFile, new_token
from turnfold.service import auth as tokens
from turnfold.service.auth import TokenRing, check_listening, is_loopback


def ring_with(path: Path, *names: str, days: float = 0) -> tuple[TokenRing, list[str]]:
    made: list[str] = []
    for name in names:
        token, line = new_token(name, f"tenant of {name}", ["read"], now=1_000.0, days=days)
        TokenFile(path).add(line)
        made.append(token)
    return TokenRing(TokenFile(path), clock=lambda: 2_000.0, check_every=0.0), made


def test_a_token_names_its_tenant_and_rights(tmp_path: Path) -> None:
    ring, [token, other] = ring_with(tmp_path / "t.json", "one", "two")
    assert ring.caller(token).tenant == "tenant of one"
    assert ring.caller(other).tenant == "tenant of two"
    assert ring.caller(token).rights == {Right.READ}


def test_the_file_keeps_no_secret_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    _, [token] = ring_with(path, "one")
    assert token.split("_")[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "",
        lambda _: "tf_one_",
        lambda token: token[:-1],
        lambda token: token + "0",
        lambda token: token.replace("tf_", "xx_"),
        lambda token: token.replace("one", "two"),
        lambda token: token.replace("one", "nobody"),
        lambda _: "tf_one_" + "0" * 64,
        lambda _: "\x00\udcff",
    ],
)
def test_every_other_token_is_refused_in_the_same_words(tmp_path: Path, change: object) -> None:
    ring, [token, _] = ring_with(tmp_path / "t.json", "one", "two")
    with pytest.raises(AccessDenied, match="unknown or expired token") as refused:
        ring.caller(change(token))  # pyright: ignore[reportCallIssue]
    assert refused.value.status == 401


def test_a_name_nobody_has_costs_the_same_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, [token] = ring_with(tmp_path / "t.json", "one")
    compared: list[int] = []

    def counted(first: str, second: str) -> bool:
        compared.append(len(second))
        return compare_digest(first, second)

    monkeypatch.setattr(tokens.hmac, "compare_digest", counted)
    ring.caller(token)
    with pytest.raises(AccessDenied):
        ring.caller(token.replace("one", "nobody"))
    assert compared == [64, 64]


def test_an_expired_token_is_refused(tmp_path: Path) -> None:
    ring, [token] = ring_with(tmp_path / "t.json", "one", days=1)
    assert ring.caller(token).name == "one"
    ring.clock = lambda: 1_000.0 + 86_400
    with pytest.raises(AccessDenied):
        ring.caller(token)


def test_a_revoked_token_ends_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ring, [token, other] = ring_with(path, "one", "two")
    TokenFile(path).revoke("one")
    with pytest.raises(AccessDenied):
        ring.caller(token)
    assert ring.caller(other).name == "two"
    path.unlink()
    with pytest.raises(AccessDenied):
        ring.caller(other)


def test_a_file_that_breaks_leaves_the_tokens_read_before(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ring, [token] = ring_with(path, "one")
    path.write_text("{")
    assert ring.caller(token).name == "one"
    with pytest.raises(InvalidOption, match="not a valid token file"):
        TokenRing(TokenFile(path))


def test_what_cannot_be_a_token_is_not_made(tmp_path: Path) -> None:
    for name, rights in (("Upper", ["read"]), ("a_b", ["read"]), ("a", ["own"]), ("a", [])):
        with pytest.raises(InvalidOption):
            new_token(name, "t", rights, now=0.0)
    with pytest.raises(InvalidOption, match="tenant"):
        new_token("a", "", ["read"], now=0.0)
    file = TokenFile(tmp_path / "t.json")
    file.add(new_token("a", "t", ["read"], now=0.0)[1])
    with pytest.raises(InvalidOption, match="exists already"):
        file.add(new_token("a", "t", ["read"], now=0.0)[1])
    with pytest.raises(NotFound, match="existing tokens: a"):
        file.revoke("b")


def test_nothing_listens_off_loopback_without_tokens(tmp_path: Path) -> None:
    ring, _ = ring_with(tmp_path / "t.json", "one")
    for host in ("0.0.0.0", "192.168.0.7", "::", "example.org", "127.0.0.1.example.org"):  # noqa: S104
        assert not is_loopback(host)
        with pytest.raises(InvalidOption, match="anybody could read and delete"):
            check_listening(host, None)
        check_listening(host, ring)
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        check_listening(host, None)


def test_a_file_without_tokens_is_no_way_to_listen(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="contains no token"):
        TokenRing(TokenFile(tmp_path / "none.json"))
