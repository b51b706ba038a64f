"""No error, log record or health report of a store shows a password, or a part of one."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")
pytest.importorskip("redis", reason="needs redis")

from tests.stores.redis_server import closed_port
from turnfold.errors import InvalidOption, StoreUnavailable
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Scope, open_store

ALICE = Scope("alice")
HIDDEN = ("hush", "7531")
"""Parts of the passwords below, which hold characters that addresses give a meaning to."""


def everything_told(error: BaseException) -> str:
    """An error, and all that led to it, as a traceback prints it."""
    told, seen = "", error
    while seen is not None:
        told += f"{seen!s} {seen!r} "
        seen = seen.__cause__ or seen.__context__
    return told


def assert_hidden(text: str) -> None:
    assert [part for part in HIDDEN if part in text] == []


@pytest.mark.parametrize(
    ("url", "cache"),
    [
        ("postgresql://bob:7531/hush@db.internal/some", None),
        ("postgresql://bob:hush@7531@db.internal/some", None),
        ("postgresql://bob:hush", None),
        ("postgresql://bob:hu%zz7531@db.internal/some", None),
        ("postgresql://bob:hush 7531@db.internal/some", None),
        ("postgresql://bob:hush@db.internal/some?unknown=7531", None),
        ("sqlite://bob:[hush7531@db", None),
        ("sqlite://", "redis://:[hush7531]@cache.internal"),
        ("postgresqll://bob:hush7531@db.internal/some", None),
        ("user=bob password=hush7531 dbname=some", None),
        ("//bob:hush7531@db.internal/some", None),
        ("sqlite://bob:hush7531@db.internal/some", None),
        ("sqlite:///some?password=hush7531", None),
        ("redis://:hush7531@cache.internal", None),
        ("sqlite://", "redis://:hush#7531@cache.internal"),
        ("sqlite://", "redis://:hush/7531@cache.internal"),
        ("sqlite://", "redis+cluster://:hush?7531@cache.internal"),
        ("sqlite://", "redis:/:hush7531@cache.internal"),
        ("sqlite://", ":hush7531@cache.internal"),
        ("sqlite://", "http://:hush7531@cache.internal"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_password(
    url: str, cache: str | None
) -> None:
    with pytest.raises(InvalidOption) as refused:
        open_store(url, cache=cache, blocking=True)
    assert_hidden(everything_told(refused.value))


def test_a_server_that_cannot_be_reached_is_told_of_without_the_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    port = closed_port()
    store = open_store(
        f"postgresql://bob:hush7531@127.0.0.1:{port}/some?connect_timeout=2",
        cache=f"redis://:hush7531@127.0.0.1:{port}/0",
        blocking=True,
    )
    with pytest.raises(StoreUnavailable, match="cannot connect") as refused:
        drive(store.append(ALICE, "talk", [NewEntry(user("hello"))]))
    assert_hidden(everything_told(refused.value))
    assert_hidden(str(drive(store.health())))
    assert_hidden(caplog.text)
    drive(store.close())


def test_passwords_with_such_characters_are_read_when_they_are_escaped() -> None:
    store = open_store("postgresql://bob:hush%407531%2F%3A@127.0.0.1/some", blocking=True)
    drive(store.close())
