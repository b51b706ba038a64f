"""Files with conversations in them can be read by their owner only, whatever the umask of the process is."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest

from turnfold.memory import Memory
from turnfold.runtime import drive
from turnfold.stores import Scope, export_to, open_store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """A process that would let everybody read and write what it creates."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in sorted(folder.iterdir())}


def test_a_store_its_log_its_backup_and_its_export_are_their_owners_alone(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(address) as memory:
        memory.session("talk").user("hello 你好")
        store = open_store(address, blocking=True)
        drive(store.backup(tmp_path / "backup.db"))  # pyright: ignore[reportAttributeAccessIssue]
        drive(export_to(store, Scope("default"), tmp_path / "export.jsonl"))
        drive(store.close())
        found = modes(tmp_path)
    assert set(found) >= {"chat.db", "chat.db-wal", "chat.db-shm", "backup.db", "export.jsonl"}
    assert set(found.values()) == {0o600}, found
    with Memory(f"sqlite:///{tmp_path / 'backup.db'}") as memory:
        assert [each.message.text for each in memory.session("talk").history()] == ["hello 你好"]


def test_the_permissions_of_a_file_that_exists_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    path.touch(mode=0o660)
    with Memory(f"sqlite:///{path}") as memory:
        memory.session("talk").user("hello")
        assert set(modes(tmp_path).values()) == {0o660}


def test_threads_that_create_one_file_at_once_all_use_it(tmp_path: Path) -> None:
    address, begin = f"sqlite:///{tmp_path / 'chat.db'}", Barrier(6)

    def write(number: int) -> None:
        begin.wait()
        with Memory(address) as memory:
            memory.session(f"talk{number}").user("hello")

    threads = [Thread(target=write, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with Memory(address) as memory:
        assert len(memory.conversations()) == 6
    assert modes(tmp_path)["chat.db"] == 0o600
    assert [name for name in modes(tmp_path) if name.startswith(".")] == []


def test_commands_write_private_files_and_make_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = pytest.importorskip("typer.testing", reason="commands need the extra 'cli'")
    from turnfold.cli.app import app
    from turnfold.cli.store_and_session_lookup import default_store

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TURNFOLD_STORE", raising=False)
    address = default_store()
    assert stat.S_IMODE((tmp_path / "home" / "turnfold").stat().st_mode) == 0o700
    with Memory(address) as memory:
        memory.session("talk").user("hello")
    out = tmp_path / "out"
    out.mkdir()
    history = tmp_path / "history.json"
    history.write_text(json.dumps([{"role": "user", "content": "hi"}]))
    run = cli.CliRunner()
    for number, words in enumerate((("--format", "turnfold"), ("--format", "markdown"))):
        done = run.invoke(app, ["export", "talk", *words, "--output", str(out / f"export{number}")])
        assert done.exit_code == 0, done.output
    run.invoke(app, ["db", "backup", str(out / "backup.db")])
    run.invoke(app, ["lint", str(history), "--provider", "openai_chat", "--mend", str(out / "m")])
    assert modes(out) == dict.fromkeys(["backup.db", "export0", "export1", "m"], 0o600)


def test_the_doctor_finds_a_store_that_others_can_open(tmp_path: Path) -> None:
    pytest.importorskip("rich", reason="the doctor needs the extra 'cli'")
    from turnfold.cli.doctor import examine

    path = tmp_path / "chat.db"
    with Memory(f"sqlite:///{path}") as memory:
        memory.session("talk").user("hello")

    def state() -> tuple[str, str]:
        [found] = [each for each in examine(str(path), "default") if "permissions" in each.name]
        return found.state, found.remedy

    assert state() == ("ok", "")
    path.chmod(0o640)
    assert state() == ("bad", f"chmod 600 {path}")
