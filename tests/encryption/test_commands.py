"""The commands and the service read and write an encrypted store, with the key from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.seeded import invoke, invoke_json
from tests.service.running import running
from tests.stores.redis_server import shared_url
from turnfold import Memory
from turnfold.errors import InvalidOption
from turnfold.service import Limits, ServiceOptions
from turnfold.stores import read_key_file

KEY, OTHER = "01" * 32, "02" * 32


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNFOLD_ENCRYPTION_KEY_FILE", "")  # restored after the test
    file = tmp_path / "chat.db"
    with Memory(f"sqlite:///{file}", encryption_key=KEY) as memory:
        memory.session("talk").user("the zxqzebra 斑马")
    return file


def keys(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "keys"
    path.write_text("# keys of the tests\n" + "\n".join(lines) + "\n", encoding="ascii")
    return str(path)


@pytest.mark.parametrize("command", [["show", "talk"], ["context", "talk"], ["db", "status"]])
def test_the_key_file_may_be_named_before_and_after_the_command(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    at, key = ["--store", str(store)], ["--encryption-key-file", keys(tmp_path, KEY)]
    without = invoke([*command, *at]).output
    first = invoke([*key, *command, *at])
    monkeypatch.setenv("TURNFOLD_ENCRYPTION_KEY_FILE", "")
    assert first.exit_code == 0, first.output
    assert first.stdout != without
    assert invoke([*command, *at, *key]).stdout == first.stdout


def test_after_the_command_the_key_file_encrypts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNFOLD_ENCRYPTION_KEY_FILE", "")
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    file, key = tmp_path / "new.db", ["--encryption-key-file", keys(tmp_path, KEY)]
    said = invoke(["chat", "--once", "the zxqzebra 斑马", "--store", str(file), *key])
    assert said.exit_code == 0, said.output
    assert b"zxqzebra" not in file.read_bytes()
    with Memory(f"sqlite:///{file}", encryption_key=KEY) as memory:
        assert len(memory.conversations()) == 1


def test_commands_decrypt_rotate_and_back_up(store: Path, tmp_path: Path) -> None:
    at = ["--store", str(store)]
    first = ["--encryption-key-file", keys(tmp_path, KEY)]
    assert "zxqzebra 斑马" in invoke([*first, "show", "talk", *at]).stdout
    assert invoke([*first, "search", "zxqzebra", *at]).exit_code == 2  # over all sessions
    copy = tmp_path / "copy.db"
    assert invoke([*first, "db", "backup", str(copy), *at]).exit_code == 0
    assert b"zxqzebra" not in copy.read_bytes()
    both = ["--encryption-key-file", keys(tmp_path, OTHER, KEY)]
    assert invoke_json([*both, "db", "rotate-keys", *at])["wrapped"] == 1
    assert invoke_json([*both, "db", "rotate-keys", *at])["wrapped"] == 0
    new = ["--encryption-key-file", keys(tmp_path, OTHER)]
    assert "zxqzebra" in invoke([*new, "show", "talk", *at]).stdout
    old = invoke(["--encryption-key-file", keys(tmp_path, KEY), "show", "talk", *at])
    assert old.exit_code != 0
    assert "needs the encryption key" in old.stderr


def test_rotating_without_a_key_file_is_refused(store: Path) -> None:
    found = invoke(["db", "rotate-keys", "--store", str(store)])
    assert (found.exit_code, "--encryption-key-file" in found.stderr) == (2, True)


@pytest.mark.parametrize("text", ["", "# nothing\n", "密钥"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text, encoding="utf-8")
    for path in (tmp_path / "keys", tmp_path / "absent"):
        with pytest.raises(InvalidOption, match=r"keys|absent"):
            read_key_file(path)


@pytest.mark.parametrize("cached", [False, True])
def test_a_service_keeps_its_quota_and_tells_nobody_which_key_is_wrong(
    store: Path, *, cached: bool
) -> None:
    options = ServiceOptions(
        store=f"sqlite:///{store}",
        cache=shared_url() if cached else None,
        encryption_key=KEY,
        limits=Limits(stored=20_000),
    )
    assert KEY not in repr(options)
    with running(options) as service, service.client() as client:
        service.state.quota.scan_every = float("inf")
        found = client.get("/v1/sessions/talk/messages").json()["entries"]
        assert "zxqzebra 斑马" in str(found)
        turn = {"user_query": "zxqquery 问题", "agent_response": "zxqanswer 回答"}
        answers = [client.post("/v1/short-memories/s/turns", json=turn) for _ in range(120)]
        assert {each.status_code for each in answers} == {200, 403}
        context = client.post("/v1/short-memories/s/context", json={"query": "more"})
        assert context.status_code == 403  # it would be stored, too
        assert client.post("/v1/search", json={"query": "zxqzebra"}).status_code == 422
    for file in store.parent.iterdir():
        # Whole words: three letters alone turn up by chance in what is encrypted.
        for word in (b"zxqzebra", b"zxqquery", b"zxqanswer"):
            assert word not in file.read_bytes()
    wrong = ServiceOptions(store=f"sqlite:///{store}", encryption_key=OTHER)
    with running(wrong) as service, service.client() as client:
        refused = client.get("/v1/sessions/talk/messages")
        assert (refused.status_code, refused.json()["type"][-9:]) == (500, "wrong-key")
        assert "operator" in refused.json()["detail"]
