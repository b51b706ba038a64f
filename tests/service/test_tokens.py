"""Tokens: only hashes are kept, wrong ones are refused alike, a revoked one ends without a restart."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from hmac import compare_digest
from pathlib import Path
from threading import Barrier

import msgspec
import pytest

from turnfold.api import Right
from turnfold.errors import AccessDenied, InvalidOption, NotFound
from turnfold.service import ServiceOptions, TokenFile, listen, new_token, serve
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
    assert compared == [64, 64, 64, 64]  # the current and the previous secret of each


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


def break_text(path: Path) -> None:
    path.write_text("{")


def break_kind(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [break_text, break_kind])
def test_a_file_that_cannot_be_read_admits_nobody_until_it_can(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.json"
    ring, [token] = ring_with(path, "one")
    caller, whole = ring.caller(token), path.read_bytes()
    damage(path)
    for _ in range(3):
        with pytest.raises(AccessDenied, match="unknown or expired"):
            ring.caller(token)
        assert not ring.admits(caller)
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
    with pytest.raises(InvalidOption, match=r"not a valid token file|cannot read the token file"):
        TokenRing(TokenFile(path))
    if path.is_dir():
        path.rmdir()
    path.write_bytes(whole)
    assert ring.caller(token).name == "one"


def test_changes_of_the_file_at_once_do_not_undo_each_other(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for number in range(30):
        name = f"stolen-{number}"
        TokenFile(path).add(new_token(name, "t", ["read"], now=0.0)[1])
        begin = Barrier(2)

        def revoke(name: str = name, begin: Barrier = begin) -> None:
            begin.wait()
            TokenFile(path).revoke(name)

        def add(number: int = number, begin: Barrier = begin) -> None:
            begin.wait()
            TokenFile(path).add(new_token(f"new-{number}", "t", ["read"], now=0.0)[1])

        with ThreadPoolExecutor(2) as threads:
            for each in [threads.submit(revoke), threads.submit(add)]:
                each.result()
        names = {line.name for line in TokenFile(path).lines()}
        assert names == {f"new-{each}" for each in range(number + 1)}


def test_a_rotated_token_has_a_new_secret_and_the_old_one_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ring, [token, other] = ring_with(path, "one", "two")
    caller = ring.caller(token)
    fresh = TokenFile(path).rotate("one", now=2_000.0, overlap=60.0)
    assert ring.caller(fresh).tenant == ring.caller(token).tenant == "tenant of one"
    assert ring.admits(caller)
    assert fresh.split("_")[2] not in path.read_text()
    ring.clock = lambda: 2_060.0
    with pytest.raises(AccessDenied):
        ring.caller(token)
    assert not ring.admits(caller)
    assert ring.caller(fresh).name == "one"
    last = TokenFile(path).rotate("one", now=2_060.0)
    with pytest.raises(AccessDenied):
        ring.caller(fresh)
    assert ring.caller(last).name == "one"
    assert ring.caller(other).name == "two"
    with pytest.raises(NotFound, match="existing tokens are one, two"):
        TokenFile(path).rotate("three", now=0.0)
    with pytest.raises(InvalidOption, match="overlap=-1"):
        TokenFile(path).rotate("one", now=0.0, overlap=-1)


def test_a_caller_is_admitted_while_its_token_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ring, [token] = ring_with(path, "one", days=1)
    caller = ring.caller(token)
    assert ring.admits(caller)
    for changed in (
        replace(caller, tenant="another"),
        replace(caller, rights=frozenset(Right)),
        replace(caller, hash="0" * 64),
        replace(caller, name="two"),
    ):
        assert not ring.admits(changed)
    ring.clock = lambda: 1_000.0 + 86_400
    assert not ring.admits(caller)


def test_the_last_use_of_a_token_is_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.json"
    ring, [token, _] = ring_with(path, "one", "two")
    assert TokenFile(path).last_used() == {}
    ring.caller(token)
    assert TokenFile(path).last_used() == {"one": 2_000}
    ring.clock = lambda: 3_000.0
    ring.caller(token)
    assert TokenFile(path).last_used() == {"one": 2_000}  # at most once a minute
    TokenFile(path).note_used({"one": 1_000, "two": 5})
    assert TokenFile(path).last_used() == {"one": 2_000, "two": 5}
    assert stat.S_IMODE((tmp_path / "t.json.used").stat().st_mode) == 0o600
    (tmp_path / "t.json.used").unlink()
    (tmp_path / "t.json.used").mkdir()
    ring.note_every = 0.0
    for _ in range(2):
        assert ring.caller(token).name == "one"  # a folder it may not write to refuses nobody
    assert [each.__dict__["event"] for each in caplog.records] == ["tokens_last_used"]


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
    with pytest.raises(NotFound, match="existing tokens are a"):
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


def test_a_port_in_use_leaves_no_new_store(tmp_path: Path) -> None:
    with closing(listen("127.0.0.1", 0)) as taken:
        options = ServiceOptions(
            store=f"sqlite:///{tmp_path}/new.db", port=taken.getsockname()[1], host="127.0.0.1"
        )
        with pytest.raises(InvalidOption, match="cannot listen on 127"):
            asyncio.run(serve(options))
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_tokens_is_no_way_to_listen(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="contains no token"):
        TokenRing(TokenFile(tmp_path / "none.json"))


@pytest.mark.parametrize("change", ["revoke", "rotate"])
def test_no_secret_of_a_name_that_is_in_the_file_twice_survives(
    tmp_path: Path, change: str
) -> None:
    """A file that was merged by hand: only the first of both lines was changed, and the ring took the last."""
    secrets_of, lines = [], []
    for _ in range(2):
        token, line = new_token("twin", "acme", ["read"], now=0.0)
        secrets_of.append(token)
        lines.append(line)
    _, other = new_token("other", "acme", ["read"], now=0.0)
    file = TokenFile(tmp_path / "tokens.json")
    file.path.write_bytes(msgspec.json.encode({"tokens": [*lines, other]}))
    ring = TokenRing(file, check_every=0.0)
    assert ring.caller(secrets_of[1]).name == "twin"
    if change == "revoke":
        file.revoke("twin")
    else:
        assert ring.caller(file.rotate("twin", now=0.0)).name == "twin"
    for token in secrets_of:
        with pytest.raises(AccessDenied):
            ring.caller(token)
