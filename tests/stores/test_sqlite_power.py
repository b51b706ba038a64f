"""Power may fail between any two system calls: what was acknowledged is on the disk, whatever else is not.

A recorder sits between SQLite and the disk and keeps every write, truncation and sync. A crash image is what a disk
may hold when the power goes: everything up to a file's last sync, and of each later write nothing, some of its
sectors, or all. Stock SQLite opens the image and must find every entry acknowledged by then, and a sound file.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import apsw
import pytest

from tests.sizes import POWER_LOSSES
from tests.stores.sqlite_file import ALICE, integrity, settled, stored_texts
from turnfold.errors import InvalidRecord
from turnfold.records import Checkpoint, Document, NewEntry, user
from turnfold.stores import SqliteStore
from turnfold.stores.sqlite import file_checks as sqlite_file
from turnfold.stores.sqlite import writer_and_readers as sqlite_writer

SECTOR = 512
APPENDS = 40
IMAGES_OF_A_RUN = 250
IMAGES = Path("/dev/shm")  # noqa: S108 (where memory poses as a disk, thousands of images cost no writing)


class Call(NamedTuple):
    """One system call that changes a file."""

    kind: str
    file: str
    place: int = 0
    content: bytes = b""


class RecordedFile(apsw.VFSFile):
    """A file whose changes are kept in the order in which they were asked for."""

    def __init__(
        self, calls: list[Call], name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        full = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.name = Path(full).name if full else ""
        self.calls = calls
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 (SQLite's name)
        self.calls.append(Call("write", self.name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 (SQLite's name)
        self.calls.append(Call("truncate", self.name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802 (SQLite's signature)
        self.calls.append(Call("sync", self.name))  # the real disk need not be waited for


class Recorder(apsw.VFS):
    """The operating system, watched."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        super().__init__("turnfold-recorder", "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> RecordedFile:  # noqa: N802 (SQLite's name)
        return RecordedFile(self.calls, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802 (SQLite's signature)
        self.calls.append(Call("delete", Path(filename).name))
        super().xDelete(filename, syncdir)


@dataclass
class Disk:
    """What is surely on the disk, and what was written since the last sync."""

    durable: dict[str, bytearray] = field(default_factory=dict[str, bytearray])
    pending: dict[str, list[Call]] = field(default_factory=dict[str, list[Call]])

    def take(self, call: Call) -> None:
        if call.kind == "sync":
            if call.file not in self.durable:
                # With the first sync of a new journal or log SQLite syncs the folder: the deleted stay deleted.
                for name in [
                    name for name, calls in self.pending.items() if calls[-1].kind == "delete"
                ]:
                    del self.pending[name]
                    self.durable.pop(name, None)
            for waiting in self.pending.pop(call.file, []):
                _apply(self.durable, waiting, call.file)
        else:
            self.pending.setdefault(call.file, []).append(call)

    def after_power_loss(self, dice: random.Random) -> dict[str, bytearray]:
        """One of the states the disk may be in."""
        files = {name: bytearray(content) for name, content in self.durable.items()}
        kindness = dice.choice((0.0, 0.5, 0.9))
        for name, calls in self.pending.items():
            for call in calls:
                fate = dice.random()
                if fate < kindness:
                    _apply(files, call, name)
                elif fate < kindness + (1 - kindness) / 2 and call.kind == "write":
                    for piece in _torn(call, dice):
                        _apply(files, piece, name)
        return files


def _torn(call: Call, dice: random.Random) -> Iterator[Call]:
    """Some of a write's sectors, cut where the disk's sectors end."""
    start, end = call.place, call.place + len(call.content)
    edges = [start, *range(start - start % SECTOR + SECTOR, end, SECTOR), end]
    for left, right in pairwise(edges):
        if dice.random() < 0.5:
            yield Call("write", call.file, left, call.content[left - start : right - start])


def _apply(files: dict[str, bytearray], call: Call, name: str) -> None:
    if call.kind == "delete":
        files.pop(name, None)
        return
    content = files.setdefault(name, bytearray())
    reach = call.place + len(call.content)
    if len(content) < reach:
        content.extend(bytes(reach - len(content)))
    if call.kind == "truncate":
        del content[call.place :]
    else:
        content[call.place : reach] = call.content


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    watched = Recorder()
    yield watched
    watched.unregister()


class Run(NamedTuple):
    """A recorded life of a store: its system calls, and how many there were when each append was acknowledged."""

    calls: list[Call]
    acknowledged: list[tuple[int, str, int, str]]


def live(recorder: Recorder, path: Path, dice: random.Random) -> Run:
    """Append to two conversations, with checkpoints and documents between, and the log moved into the file often."""
    recorder.calls.clear()
    watched = partial(apsw.Connection, vfs="turnfold-recorder")
    with (
        pytest.MonkeyPatch.context() as patched
    ):  # a store takes paths, and no address that could name the recorder
        patched.setattr(apsw, "Connection", watched)
        store = SqliteStore(path, blocking=True)
    store._engine._writer.execute(
        f"PRAGMA wal_autocheckpoint={dice.choice((20, 100, 1000))}"
    ).fetchall()
    acknowledged: list[tuple[int, str, int, str]] = []
    newest = {"甲": "", "b": ""}
    for number in range(APPENDS):
        name = dice.choice(("甲", "b"))
        texts = [
            f"{number}.{part} " + "记忆" * dice.randrange(300)
            for part in range(dice.choice((1, 3)))
        ]
        batch = [NewEntry(user(text), f"{number}.{part}") for part, text in enumerate(texts)]
        done = settled(store.append(ALICE, name, batch))
        acknowledged += [
            (len(recorder.calls), name, done.first + part, text) for part, text in enumerate(texts)
        ]
        if dice.random() < 0.5:  # not waited for; what is appended after it is
            noted = Document("note", str(number), bytes(dice.randrange(2000)), 0)
            settled(store.note(ALICE, name, noted, state=done.head.state))
        if dice.random() < 0.2:
            summary = Checkpoint(f"c{number}", newest[name], done.last, "short", "digest")
            newest[name] = settled(store.add_checkpoint(ALICE, name, summary)).id
        if dice.random() < 0.2:
            settled(store.put_document(ALICE, name, Document("state", "s", bytes(900), 0)))
    calls = list(recorder.calls)
    settled(store.close())
    return Run(calls, acknowledged)


def judged(place: Path, files: dict[str, bytearray], promised: list[tuple[str, int, str]]) -> str:
    """What stock SQLite makes of an image."""
    for old in place.iterdir():
        old.unlink()
    for name, content in files.items():
        (place / name).write_bytes(content)
    connection = apsw.Connection(str(place / "chat.db"))
    try:
        connection.execute("PRAGMA synchronous=OFF")  # only the reader's: nothing is proved by it
        if (verdict := integrity(connection)) != "ok":
            return f"corrupt: {verdict}"
        if not promised:
            return "kept"
        held = stored_texts(connection)
    except (apsw.CorruptError, InvalidRecord) as error:
        return f"corrupt: {error}"
    except apsw.Error:
        return "lost"  # not even the tables
    finally:
        connection.close()
    for rows in held.values():
        if [seq for seq, _ in rows] != list(range(1, len(rows) + 1)):
            return "gap"
        numbers = Counter(text.split(".")[0] for _, text in rows)
        if not set(numbers.values()) <= {1, 3}:
            return "torn batch"
    kept = all((seq, text) in held.get(name, ())[seq - 1 : seq] for name, seq, text in promised)
    return "kept" if kept else "lost"


def verdicts(recorder: Recorder, tmp_path: Path, *, images: int) -> Counter[str]:
    with TemporaryDirectory(dir=IMAGES if IMAGES.is_dir() else tmp_path) as place:
        return _verdicts(recorder, tmp_path, Path(place), images)


def _verdicts(recorder: Recorder, tmp_path: Path, place: Path, images: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for number in range(images // IMAGES_OF_A_RUN):
        # For each run anew: a run with one system call more (a random number that takes more bytes) shifts no other.
        dice = random.Random(number)  # noqa: S311 (a run that can be repeated)
        (tmp_path / str(number)).mkdir()
        run = live(recorder, tmp_path / str(number) / "chat.db", dice)
        cuts = sorted(dice.randrange(len(run.calls) + 1) for _ in range(IMAGES_OF_A_RUN))
        disk, taken = Disk(), 0
        for cut in cuts:
            for call in run.calls[taken:cut]:
                disk.take(call)
            taken = cut
            promised = [line[1:] for line in run.acknowledged if line[0] <= cut]
            found[judged(place, disk.after_power_loss(dice), promised)] += 1
    return found


@pytest.fixture
def watchable(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, object]]:
    """The engine's settings, and one that keeps shared memory out of it, which a recorder does not have."""
    settings = {"locking_mode": ("EXCLUSIVE", "exclusive"), **sqlite_file._SETTINGS}
    monkeypatch.setattr(sqlite_file, "_SETTINGS", settings)
    return settings


@pytest.mark.parametrize(
    "images",
    POWER_LOSSES.values(),
)
@pytest.mark.usefixtures("watchable")
def test_power_loss_takes_nothing_acknowledged(
    recorder: Recorder, tmp_path: Path, images: int
) -> None:
    assert verdicts(recorder, tmp_path, images=images) == {"kept": images}


@pytest.mark.parametrize(("setting", "value"), [("NORMAL", 1), ("OFF", 0)])
@pytest.mark.slow  # shows that the tests above can fail
def test_with_fewer_syncs_many_images_have_lost_something(
    recorder: Recorder,
    tmp_path: Path,
    watchable: dict[str, tuple[str, object]],
    setting: str,
    value: int,
) -> None:
    watchable["synchronous"] = (setting, value)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqlite_writer, "_SYNC_FULL", f"PRAGMA synchronous={setting}")
        found = verdicts(recorder, tmp_path, images=1_000)
    # Other dice keep between 180 and 550.
    assert found["kept"] < 900


@pytest.mark.usefixtures("watchable")
def test_every_acknowledgement_follows_a_sync_of_all_that_was_written_to_the_log(
    recorder: Recorder, tmp_path: Path
) -> None:
    run = live(recorder, tmp_path / "chat.db", random.Random(2))  # noqa: S311 (a run that can be repeated)
    for moment, *_ in run.acknowledged:
        log = [call.kind for call in run.calls[:moment] if call.file == "chat.db-wal"]
        assert log[-1] == "sync"


def test_the_disk_model_drops_and_tears_only_what_was_not_synced() -> None:
    disk, dice = Disk(), random.Random(3)  # noqa: S311 (a run that can be repeated)
    disk.take(Call("write", "f", 0, b"a" * 2048))
    disk.take(Call("sync", "f"))
    disk.take(Call("write", "f", 0, b"b" * 2048))
    seen = {bytes(disk.after_power_loss(dice)["f"]) for _ in range(300)}
    assert {b"a" * 2048, b"b" * 2048} < seen
    sectors = {image[at : at + SECTOR] for image in seen for at in range(0, 2048, SECTOR)}
    assert sectors == {b"a" * SECTOR, b"b" * SECTOR}
