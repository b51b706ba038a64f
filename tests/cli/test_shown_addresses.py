"""No command and no client shows a password: whatever the address, whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("httpx2", reason="needs httpx2")
pytest.importorskip("psycopg", reason="needs psycopg")
pytest.importorskip("redis", reason="needs redis")

from tests.cli.seeded import invoke
from turnfold.client import AsyncRemoteMemory, RemoteMemory
from turnfold.errors import InvalidOption, TurnfoldError
from turnfold.stores import addresses as addresses_module
from turnfold.stores import open_store, shown_address

FORMS = (
    "postgresql://bob:{}@127.0.0.1:1/some",
    "postgres://:{}@127.0.0.1:1,127.0.0.2:1/some?sslmode=disable",
    "postgresql://bob@127.0.0.1:1/some?password={}",
    "postgresql://bob@127.0.0.1:1/some?sslmode=disable&sslpassword={}",
    "postgresql:///some?host=127.0.0.1&port=1&user=bob&password={}",
    "postgresql://bob:{}@/some?host=127.0.0.1&port=1",
    "host=127.0.0.1 port=1 user=bob password={}",
    "PASSWORD = '{}' dbname=some",
    "redis://:{}@127.0.0.1:1/0",
    "rediss://bob:{}@[::1]:1",
    "redis://{}@127.0.0.1:1",
    "redis+cluster://:{}@127.0.0.1:1",
    "redis:/:{}@127.0.0.1",
    "unix://:{}@/nowhere/redis.sock",
    "sqlite://bob:{}@host/some",
    "sqlite:///none.db?password={}",
    "sqlite:///none.db#{}",
    "//bob:{}@host/some",
    "bob:{}@host/some",
    ":{}@host",
    "mysql://bob:{}@host/some",
    "http://bob:{}@127.0.0.1:1",
    "https://{}@127.0.0.1:1/base",
    "http://127.0.0.1:1/?token={}",
)
COMMANDS = (
    "sessions",
    "show one",
    "context one",
    "explain one",
    "diff one",
    "search word",
    "recall one word",
    "fold one",
    "fork one two",
    "export",
    "import some.jsonl",
    "audit",
    "doctor",
    "db path",
    "db status",
    "db migrate",
    "db backup copy.db",
    "chat --once 你好",
    "chat",
)
_LETTERS = "Zq9Ж密℀"
_MARKS = "@:/?#%&= +;'\\[]"
passwords = st.text(_LETTERS + _MARKS, min_size=4, max_size=14).filter(
    lambda text: any(letter in text for letter in "ZqЖ密") and "  " not in text
)


def written(form: str, password: str, write: Callable[[str], str]) -> tuple[str, str]:
    """An address, and the password in it: in place of user and password, what is before a colon is the user."""
    text = write(password)
    user, _, rest = text.partition(":")
    return form.format(text), rest if "//{}@" in form and user and rest else password


addresses = st.builds(
    written,
    st.sampled_from(FORMS),
    passwords,
    st.sampled_from([str, lambda text: quote(text, safe=""), quote_plus]),
)


def parts_of(password: str) -> set[str]:
    """The password as it may be written, and every part of it between characters that addresses give a meaning to."""
    found = {password, quote(password), quote(password, safe=""), quote_plus(password)}
    for mark in _MARKS:
        password = password.replace(mark, "\0")
    found |= {quote(part) for part in password.split("\0")}
    found |= set(password.split("\0"))
    return {part for part in found if len(part) > 2 and any(letter in part for letter in _LETTERS)}


def assert_hidden(told: str, password: str) -> None:
    assert [part for part in parts_of(password) if part in told] == []


def everything_told(error: BaseException | None) -> str:
    """An error, and all that led to it, as a traceback prints it."""
    told = ""
    while error is not None:
        told += f"{error!s} {error!r} "
        error = error.__cause__ or error.__context__
    return told


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "some.jsonl").write_text('{"role": "user", "content": "港口"}\n')
    return tmp_path


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def examples(number: int) -> settings:
    """`place` and `log` are the same for every example on purpose: nothing of one matters to another."""
    return settings(
        max_examples=number, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


@examples(300)
@given(made=addresses)
@example(made=("postgresql://bob:Zq99/Жq@db/some", "Zq99/Жq"))
@example(made=("postgresql://bob:9999?sslmode=Zqqq@db/some", "9999?sslmode=Zqqq"))
@example(made=("redis://:9999#Zqqq@db", "9999#Zqqq"))
@example(made=("redis://99Z:@127.0.0.1:1", "99Z:"))
@example(made=("postgresql://bob::@db/some", ":"))
def test_no_address_is_shown_with_its_password(made: tuple[str, str]) -> None:
    address, password = made
    shown = shown_address(address)
    assert_hidden(shown, password)
    assert shown_address(shown) == shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:p@h:5/x", "postgresql://u:***@h:5/x"),
        ("postgresql://u@h/x?sslmode=require", "postgresql://u@h/x?sslmode=require"),
        ("postgresql://h1:1,h2:2/x?password=p", "postgresql://h1:1,h2:2/x?***"),
        ("redis://:p@h:6379/0?db=1", "redis://:***@h:6379/0?db=1"),
        ("redis://key@h", "redis://***@h"),
        ("http://u:p@[::1]:80/base", "http://u:***@[::1]:80/base"),
        ("postgresql://u:a/b@h/x", "postgresql://..."),
        ("postgresql://u:p", "postgresql://..."),
        ("host=h password=p", "..."),
        ("u:p@h", "..."),
        ("sqlite://", "sqlite://"),
        ("sqlite:////srv/a@b/my%20chats%20%E4%BC%9A%E8%AF%9D.db", None),
        ("/data/run=3/chats 会话.db", None),
        ("./chats/a@b.db", None),
    ],
)
def test_what_is_harmless_is_shown(address: str, shown: str | None) -> None:
    assert shown_address(address) == (address if shown is None else shown)


def run_command(
    made: tuple[str, str], command: str, more: list[str], log: pytest.LogCaptureFixture
) -> None:
    address, password = made
    log.clear()
    result = invoke([*command.split(), "--store", address, *more])
    assert_hidden(result.output + everything_told(result.exception) + log.text, password)


@examples(40)
@example(made=("sqlite://bob:99q?@host/some", "99q?"), command="doctor", more=[])
@given(made=addresses, command=st.sampled_from(COMMANDS), more=st.sampled_from([[], ["--json"]]))
@example(
    made=("postgresql://bob@127.0.0.1:1/some?password=ZqЖ99", "ZqЖ99"),
    command="db path",
    more=["--json"],
)
@example(made=("host=127.0.0.1 password=ZqЖ99", "ZqЖ99"), command="sessions", more=[])
@example(made=("bob:ZqЖ99@host/some", "ZqЖ99"), command="import some.jsonl", more=[])
@example(made=("postgresql://bob:][99q@127.0.0.1:1/some", "][99q"), command="sessions", more=[])
@example(made=("postgresql://bob:ZqЖ℀@127.0.0.1:1/some", "ZqЖ℀"), command="sessions", more=[])
def test_no_command_shows_a_password(
    made: tuple[str, str],
    command: str,
    more: list[str],
    place: Path,
    log: pytest.LogCaptureFixture,
) -> None:
    del place
    run_command(made, command, more, log)


@pytest.mark.slow
@examples(2_000)
@given(made=addresses, command=st.sampled_from(COMMANDS), more=st.sampled_from([[], ["--json"]]))
def test_no_command_shows_any_of_many_passwords(
    made: tuple[str, str],
    command: str,
    more: list[str],
    place: Path,
    log: pytest.LogCaptureFixture,
) -> None:
    del place
    run_command(made, command, more, log)


@examples(8)
@given(made=addresses)
def test_no_cache_of_a_command_is_shown_with_its_password(
    made: tuple[str, str], place: Path, log: pytest.LogCaptureFixture
) -> None:
    address, password = made
    log.clear()
    result = invoke(["doctor", "--store", str(place / "a.db"), "--cache", address])
    assert_hidden(result.output + everything_told(result.exception) + log.text, password)


@examples(25)
@given(made=addresses)
def test_a_store_from_the_environment_is_shown_without_its_password(
    made: tuple[str, str], place: Path, log: pytest.LogCaptureFixture
) -> None:
    del place
    address, password = made
    log.clear()
    result = invoke(["sessions"], TURNFOLD_STORE=address.replace("\0", ""))
    assert_hidden(result.output + everything_told(result.exception) + log.text, password)


def test_how_to_go_on_with_a_chat_is_told_without_passwords(place: Path) -> None:
    del place
    address = ["--base-url", "http://u:ZqЖ99@127.0.0.1:1/v1"]
    result = invoke(
        ["chat", "--store", "sqlite:///a.db", *address, "--model", "m"], typed="hello\n"
    )
    assert (
        "--model m --base-url 'http://u:***@127.0.0.1:1/v1' --store sqlite:///a.db" in result.output
    )
    assert_hidden(result.output, "ZqЖ99")


# ---------------------------------------------------------------------------------- the client


@examples(60)
@given(made=addresses)
@example(made=("http://bob:ZqЖ99", "ZqЖ99"))
@example(made=("http://bob:ZqЖ99@[x", "ZqЖ99"))
def test_no_client_shows_a_password(made: tuple[str, str], log: pytest.LogCaptureFixture) -> None:
    address, password = made
    log.clear()
    told = ""
    try:
        with RemoteMemory(address, retries=0) as memory:
            told += repr(memory) + str(vars(memory))
            memory.session("s").user("你好")
    except TurnfoldError as error:
        told += everything_told(error)

    async def awaiting() -> None:
        async with AsyncRemoteMemory(address, retries=0) as memory:
            await memory.session("s").user("你好")

    with pytest.raises(TurnfoldError) as refused:
        asyncio.run(awaiting())
    assert_hidden(told + everything_told(refused.value) + log.text, password)


def test_a_password_in_the_address_is_sent_and_not_logged(log: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers["authorization"])
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name)
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        url = f"http://bob:{quote('ZqЖ99@', safe='')}@127.0.0.1:{server.server_port}"
        with RemoteMemory(url, retries=0) as memory, pytest.raises(TurnfoldError):
            memory.session("s").user("你好")
        thread.join()
    assert seen == [f"Basic {b64encode('bob:ZqЖ99@'.encode()).decode()}"]
    assert f"POST http://127.0.0.1:{server.server_port}/" in log.text
    assert_hidden(log.text, "ZqЖ99@")


@pytest.mark.parametrize("url", ["http://h/?a=1", "http://h#x", "ftp://h", "http://", "h:80", ""])
def test_what_is_no_address_of_a_service_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="is not an address of a service"):
        RemoteMemory(url)


def test_sabotage_a_plain_cut_at_the_at_sign_shows_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses_module, "may_hold_password", lambda _: False)
    with pytest.raises(InvalidOption) as refused:
        open_store("//bob:ZqЖ99@host/some")
    with pytest.raises(AssertionError):
        assert_hidden(everything_told(refused.value), "ZqЖ99")
