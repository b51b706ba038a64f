"""A store is copied while it is written: the copy is whole, of one instant, and can be used in the store's place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.sizes import BACKUPS
from tests.stores.sqlite_file import integrity
from tests.stores.transfers import ALICE
from turnfold.errors import InvalidOption
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import SqliteStore, digest
from turnfold.testing.stores.restore import fill_richly
from turnfold.testing.stores.sample_values import TALK, checkpoint, document, texts

PATIENCE = 60.0
LEFT, RIGHT = "left", "右"


class Writer(threading.Thread):
    """Writes to one conversation, then to the other, again and again: no instant shows them further apart."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(daemon=True)
        self._store = store
        self._moved = threading.Condition()
        self._stopped = False
        self.failure: BaseException | None = None
        self.written = 0

    def run(self) -> None:
        try:
            while not self._stopped:
                for name in (LEFT, RIGHT):
                    entry = NewEntry(user(f"{self.written} " + "x" * 500), f"{self.written}")
                    drive(self._store.append(ALICE, name, [entry]))
                drive(self._store.put_document(ALICE, LEFT, document("last", b"%d" % self.written)))
                with self._moved:
                    self.written += 1
                    self._moved.notify_all()
        except BaseException as error:  # told by whoever waits
            self.failure = error

    def wait_for(self, written: int) -> None:
        with self._moved:
            assert self._moved.wait_for(lambda: self.written >= written, PATIENCE), self.failure

    def stop(self) -> None:
        self._stopped = True
        self.join(PATIENCE)
        assert not self.is_alive()
        assert self.failure is None


@contextmanager
def writing(store: SqliteStore) -> Iterator[Writer]:
    writer = Writer(store)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


def sound(path: Path) -> None:
    connection = apsw.Connection(str(path))
    assert integrity(connection) == "ok"
    connection.close()


def drill(store: SqliteStore, writer: Writer, path: Path, seen: int) -> int:
    """Copy the store while it is written and check the copy; how many rounds it holds."""
    writer.wait_for(seen + 2)
    acknowledged = writer.written
    drive(store.backup(path))
    sound(path)
    copy = SqliteStore(path, blocking=True)
    heads = [drive(copy.head(ALICE, name)).seq for name in (LEFT, RIGHT)]
    assert acknowledged <= heads[1] <= heads[0] <= heads[1] + 1
    for name, seq in zip((LEFT, RIGHT), heads, strict=True):
        kept = drive(copy.read(ALICE, name, limit=10**9))
        assert kept == drive(store.read(ALICE, name, upto=seq, limit=10**9))
    last = drive(copy.get_document(ALICE, LEFT, "note", "last"))
    assert last is not None
    assert int(last.body) in (heads[1] - 1, heads[1] - 2)
    assert drive(digest(copy, ALICE, TALK)) == drive(digest(store, ALICE, TALK))
    assert drive(copy.append(ALICE, LEFT, [NewEntry(user("next"))])).first == heads[0] + 1
    drive(copy.close())
    path.unlink()
    return heads[1]


DRILLS = 20


@pytest.mark.parametrize("stores", BACKUPS.values())
def test_a_copy_made_under_load_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stores: int
) -> None:
    # A few pages at a time, so that the writer comes in between however small the file is.
    monkeypatch.setattr("turnfold.stores.sqlite.file_checks._BACKUP_PAGES", 4)
    for number in range(stores):
        folder = tmp_path / str(number)
        folder.mkdir()
        drills_of_one_store(folder)


def drills_of_one_store(folder: Path) -> None:
    store = SqliteStore(folder / "store.db", blocking=True)
    drive(fill_richly(store, ALICE))
    with writing(store) as writer:
        seen = 0
        for number in range(DRILLS):
            seen = drill(store, writer, folder / f"{number}.db", seen)
    drive(store.backup(folder / "last.db"))
    sound(folder / "last.db")
    copy = SqliteStore(folder / "last.db", blocking=True)
    for name in (LEFT, RIGHT, TALK):
        assert drive(digest(copy, ALICE, name)) == drive(digest(store, ALICE, name))
    for each in (copy, store):
        drive(each.close())


class Meddler:
    """How many pages to copy next; before it says so, somebody writes."""

    def __init__(self, store: SqliteStore, *, most: int) -> None:
        self._store, self._left = store, most

    def __index__(self) -> int:
        self._left -= 1
        assert self._left, "the backup begins again and again"
        drive(self._store.append(ALICE, TALK, [NewEntry(user("meanwhile"))]))
        return 4


def test_a_backup_ends_though_somebody_writes_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "store.db", blocking=True)
    drive(store.append(ALICE, LEFT, [NewEntry(user("x" * 4000)) for _ in range(50)]))
    meddler = Meddler(store, most=200)
    monkeypatch.setattr("turnfold.stores.sqlite.file_checks._BACKUP_PAGES", meddler)
    drive(store.backup(tmp_path / "copy.db"))
    assert drive(store.head(ALICE, TALK)).seq > 10
    sound(tmp_path / "copy.db")
    copy = SqliteStore(tmp_path / "copy.db", blocking=True)
    assert drive(digest(copy, ALICE, LEFT)) == drive(digest(store, ALICE, LEFT))
    assert drive(copy.head(ALICE, TALK)).seq == 0
    for each in (copy, store):
        drive(each.close())


def test_a_backup_takes_everything_and_overwrites_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", blocking=True)
    drive(fill_richly(store, ALICE))
    drive(store.add_checkpoint(ALICE, TALK, checkpoint("s3", 5, previous="s2")))
    drive(store.backup(tmp_path / "copy.db"))
    with pytest.raises(InvalidOption, match="exists"):
        drive(store.backup(tmp_path / "copy.db"))
    copy = SqliteStore(tmp_path / "copy.db", blocking=True)
    assert drive(digest(copy, ALICE, TALK)) == drive(digest(store, ALICE, TALK))
    assert texts(drive(copy.read(ALICE, TALK))) == texts(drive(store.read(ALICE, TALK)))
    assert drive(copy.search(ALICE, ["three"])) == drive(store.search(ALICE, ["three"]))
    drive(store.append(ALICE, TALK, [NewEntry(user("later"))]))
    assert drive(digest(copy, ALICE, TALK)) != drive(digest(store, ALICE, TALK))
    for each in (copy, store):
        drive(each.close())
