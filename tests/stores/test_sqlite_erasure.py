"""A deletion whose bytes are still in the log says so, and the next one finishes it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from turnfold.errors import StoreUnavailable
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore

SCOPE = Scope("someone")
PHRASE = "the combination is 7-31-19"


def bytes_on_disk(path: Path) -> bytes:
    return b"".join(
        file.read_bytes() for file in path.parent.iterdir() if file.name.startswith(path.name)
    )


def test_a_reader_of_an_older_state_holds_the_bytes_back_and_the_caller_is_told(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chat.db"
    store = SqliteStore(path, blocking=True)
    store._engine._writer.execute("PRAGMA busy_timeout=50").fetchall()
    drive(store.append(SCOPE, "c", [NewEntry(user(PHRASE))]))
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM entry").fetchall()
    with pytest.raises(StoreUnavailable, match="again"):
        drive(store.delete(SCOPE, "c"))
    assert PHRASE.encode() in bytes_on_disk(path)
    reader.close()
    receipt = drive(store.delete(SCOPE, "c"))
    assert receipt.already
    assert PHRASE.encode() not in bytes_on_disk(path)
    drive(store.close())
