"""Export and import: what comes out goes in exactly, all of it or nothing, as often as one likes."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.sizes import ROUND_TRIPS
from tests.stores.transfers import ALICE, Contents, any_contents, exported, filled, imported
from turnfold.errors import Conflict, ConversationDeleted, InvalidExport, InvalidOption
from turnfold.records import Document, Entry
from turnfold.runtime import drive
from turnfold.stores import (
    Captured,
    MemoryStore,
    Progress,
    Scope,
    SqliteStore,
    Transferred,
    digest,
    export_to,
    import_from,
)
from turnfold.testing.stores.case_runner import Clock
from turnfold.testing.stores.random_operations import settings_for
from turnfold.testing.stores.restore import contents, fill_richly
from turnfold.testing.stores.sample_values import (
    BOB,
    TALK,
    character_counter,
    checkpoint,
    document,
    user_entries,
)


def rich() -> MemoryStore:
    store = MemoryStore(clock=Clock(), counter=character_counter())
    for name in (TALK, "other", "一"):
        drive(fill_richly(store, ALICE, name))
    return store


# ----------------------------------------------------------------------------------------- round trip


def round_trip(some: Contents, target: SqliteStore, scope: Scope) -> None:
    source = filled(some)
    data = exported(source)
    done = imported(data, target, scope)
    assert exported(target, scope) == data  # costs aside, that is everything; digests are in it
    assert done.conversations == len(drive(source.conversations(ALICE)))


@pytest.mark.parametrize("examples", ROUND_TRIPS.values())
def test_what_comes_out_goes_in_exactly(examples: int) -> None:
    target = SqliteStore(blocking=True)
    tenants = iter(range(10**9))

    @settings_for(examples)
    @given(any_contents)
    def check(some: Contents) -> None:
        round_trip(some, target, Scope(f"tenant {next(tenants)}"))

    check()
    drive(target.close())


def test_a_loss_on_the_way_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnfold.stores.sqlite.transfer.doc_sql.insert_documents", lambda *_: None)
    with pytest.raises(AssertionError):
        round_trip_of_rich(SqliteStore(blocking=True))


def round_trip_of_rich(target: SqliteStore) -> None:
    data = exported(rich())
    imported(data, target)
    assert exported(target) == data


def test_a_rich_scope_goes_through_every_local_store(tmp_path: Path) -> None:
    source = rich()
    places = [
        SqliteStore(tmp_path / "a.db", counter=character_counter(), blocking=True),
        MemoryStore(counter=character_counter()),
        SqliteStore(blocking=True, counter=character_counter()),
    ]
    data = exported(source)
    for target in places:
        imported(data, target)
        assert drive(contents(target, ALICE)) == drive(contents(source, ALICE))
        assert exported(target) == data
    for target in places:
        drive(target.close())


def test_the_digest_is_of_the_content_and_not_of_its_cost() -> None:
    first, second = (MemoryStore(clock=Clock(), counter=character_counter(n)) for n in (1, 7))
    for store in (first, second):
        drive(fill_richly(store, ALICE))
    same = drive(digest(first, ALICE, TALK))
    assert same == drive(digest(second, ALICE, TALK))
    drive(second.put_document(ALICE, TALK, document("new")))
    assert drive(digest(second, ALICE, TALK)) != same
    drive(second.drop_document(ALICE, TALK, "note", "new"))
    assert drive(digest(second, ALICE, TALK)) == same
    drive(second.append(ALICE, TALK, user_entries("six")))
    assert drive(digest(second, ALICE, TALK)) != same
    with pytest.raises(InvalidOption):
        drive(digest(first, ALICE, "absent"))


# --------------------------------------------------------------------------------- all or nothing, twice


def test_an_import_counts_what_it_wrote() -> None:
    data = exported(rich())
    target = MemoryStore()
    done = imported(data, target)
    counts = (done.conversations, done.entries, done.checkpoints, done.documents)
    assert counts == (3, 15, 6, 12)
    assert (done.already, done.size) == (0, len(data))
    assert imported(data, target) == replace(
        done, conversations=0, entries=0, checkpoints=0, documents=0, already=3
    )


def test_one_conversation_that_differs_keeps_all_others_out() -> None:
    data = exported(rich())
    target = MemoryStore()
    drive(target.append(ALICE, TALK, user_entries("mine")))
    before = drive(contents(target, ALICE))
    with pytest.raises(Conflict, match="'talk'"):
        imported(data, target)
    assert drive(contents(target, ALICE)) == before


def test_an_erased_conversation_keeps_all_others_out() -> None:
    data = exported(rich())
    target = MemoryStore()
    drive(target.delete(ALICE, TALK))
    with pytest.raises(ConversationDeleted, match="'talk'"):
        imported(data, target)
    assert drive(target.conversations(ALICE)) == []


def test_a_scope_is_imported_into_any_scope() -> None:
    source = rich()
    imported(exported(source), source, BOB)
    assert drive(contents(source, BOB)) == drive(contents(source, ALICE))


# -------------------------------------------------------------------------------------------- files


def test_a_path_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "出口.jsonl"
    path.write_bytes(b"older")
    source = rich()

    def fail(at: Progress) -> None:
        if at.done:
            raise KeyError(at)

    with pytest.raises(KeyError):
        drive(export_to(source, ALICE, path, progress=fail))
    assert path.read_bytes() == b"older"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    drive(export_to(source, ALICE, str(path)))
    assert path.read_bytes() == exported(source)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    target = MemoryStore(counter=character_counter())
    drive(import_from(target, ALICE, path))
    assert drive(contents(target, ALICE)) == drive(contents(source, ALICE))


def test_a_pipe_and_a_compressed_file_will_do() -> None:
    source = rich()
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        drive(export_to(source, ALICE, file))
    packed.seek(0)
    with gzip.GzipFile(fileobj=packed) as file:
        assert drive(import_from(MemoryStore(), ALICE, file)).conversations == 3
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source_end, os.fdopen(write, "wb") as target_end:
        drive(export_to(source, ALICE, target_end))
        target_end.close()
        assert drive(import_from(MemoryStore(), ALICE, source_end)).conversations == 3


class OneByteAtATime(io.RawIOBase):
    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.data += bytes(data[:1])
        return 1


def test_a_file_that_takes_little_at_a_time_gets_all_of_it() -> None:
    source, file = rich(), OneByteAtATime()
    drive(export_to(source, ALICE, file))
    assert file.data == exported(source)


def test_a_file_is_read_from_where_it_stands_and_must_be_binary() -> None:
    data = exported(rich())
    file = io.BytesIO(b"before\n" + data)
    file.readline()
    assert drive(import_from(MemoryStore(), ALICE, file)).conversations == 3
    text: Any = io.StringIO(data.decode())
    with pytest.raises(InvalidOption, match="binary"):
        drive(import_from(MemoryStore(), ALICE, text))


def test_named_conversations_only() -> None:
    source = rich()
    file = io.BytesIO()
    done = drive(export_to(source, ALICE, file, conversations=["一", TALK, TALK]))
    assert done.conversations == 2
    target = MemoryStore()
    imported(file.getvalue(), target)
    assert [info.conversation for info in drive(target.conversations(ALICE))] == [TALK, "一"]
    with pytest.raises(InvalidOption, match=r"1 of the 2 .*'absent'"):
        drive(export_to(source, ALICE, io.BytesIO(), conversations=[TALK, "absent"]))
    with pytest.raises(InvalidOption):
        drive(export_to(source, ALICE, io.BytesIO(), conversations=[""]))


def test_a_scope_without_conversations_is_an_export_too() -> None:
    done = imported(exported(MemoryStore()))
    assert done == Transferred(0, 0, 0, 0, size=done.size, digest=done.digest)


# ----------------------------------------------------------------------------------------- progress


def told(progress: list[Progress], what: str) -> list[tuple[int, int]]:
    return [(each.done, each.total) for each in progress if each.what == what]


@pytest.mark.parametrize("compressed", [False, True])
def test_progress_grows_and_ends_at_the_total(*, compressed: bool) -> None:
    source = MemoryStore()
    for name in ("a", "b"):
        drive(source.append(ALICE, name, user_entries(*("x" * 1500 for _ in range(1500)))))
    heard: list[Progress] = []
    file = io.BytesIO()
    drive(export_to(source, ALICE, file, progress=heard.append))
    data = io.BytesIO(gzip.compress(file.getvalue())) if compressed else file
    data.seek(0)
    opened: Any = gzip.GzipFile(fileobj=data) if compressed else data
    drive(import_from(MemoryStore(), ALICE, opened, progress=heard.append))
    assert list(dict.fromkeys(each.what for each in heard)) == [
        "exporting",
        "checking",
        "restoring",
    ]
    for what, total in (("exporting", 3000), ("checking", None), ("restoring", None)):
        steps = told(heard, what)
        assert len(steps) > 4
        assert steps == sorted(steps)
        assert all(done <= whole for done, whole in steps)
        assert steps[-1] == (total or len(file.getvalue()),) * 2


# ------------------------------------------------------------------------------- while others write


class Disturbed(MemoryStore):
    """Somebody else writes whenever a conversation is captured or read."""

    deed = ""

    async def capture(self, scope: Scope, conversation: str, take: Any) -> Captured | None:
        found = await super().capture(scope, conversation, take)
        await self._disturb(scope, conversation)
        return found

    async def read(self, scope: Scope, conversation: str, **rest: Any) -> list[Entry]:
        found = await super().read(scope, conversation, **rest)
        await self._disturb(scope, conversation)
        return found

    async def _disturb(self, scope: Scope, conversation: str) -> None:
        if self.deed == "delete":
            if conversation == TALK:
                await self.delete(scope, conversation)
        elif self.deed:
            head = (await self.append(scope, conversation, user_entries("late"))).head
            if head.checkpoint == "s2":
                late = checkpoint("late", head.seq, previous="s2")
                await self.add_checkpoint(scope, conversation, late)
            body = Document("note", "a", b"late", 0)
            await self.put_document(scope, conversation, body)


def disturbed(deed: str) -> Disturbed:
    store = Disturbed(clock=Clock(), counter=character_counter())
    for name in (TALK, "other", "一"):
        drive(fill_richly(store, ALICE, name))
    store.deed = deed
    return store


def test_each_conversation_is_as_it_was_at_one_instant() -> None:
    undisturbed = exported(disturbed(""))
    assert exported(disturbed("write")) == undisturbed


def test_one_erased_meanwhile_is_left_out_and_told() -> None:
    source = disturbed("delete")
    heard: list[Progress] = []
    file = io.BytesIO()
    done = drive(export_to(source, ALICE, file, progress=heard.append))
    assert done.left_out == (TALK,)
    assert done.conversations == 2
    assert heard[-1].done == heard[-1].total
    target = MemoryStore()
    imported(file.getvalue(), target)
    assert [info.conversation for info in drive(target.conversations(ALICE))] == ["other", "一"]
    assert b'"talk"' not in file.getvalue()


# ------------------------------------------------------------------------------------ in an event loop


def test_the_event_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    async def move() -> int:
        source, target = SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "b.db")
        await source.append(ALICE, TALK, user_entries(*("x" * 200 for _ in range(3000))))
        path = tmp_path / "export.jsonl"
        beats = 0
        busy = True

        async def beat() -> None:
            nonlocal beats
            while busy:
                beats += 1
                await asyncio.sleep(0)

        heart = asyncio.ensure_future(beat())
        await export_to(source, ALICE, path)
        done = await import_from(target, ALICE, path)
        busy = False
        await heart
        assert await digest(source, ALICE, TALK) == await digest(target, ALICE, TALK)
        assert done.entries == 3000
        await source.close()
        await target.close()
        return beats

    assert asyncio.run(move()) > 10


def test_a_file_that_changes_between_the_readings_is_refused() -> None:
    data = exported(rich())

    class Fickle(io.BytesIO):
        returns = 0

        def seek(self, offset: int, whence: int = 0, /) -> int:
            self.returns += whence == 0
            if self.returns == 2:  # once to look for its size, once to be read again
                super().seek(0)
                self.write(data.replace(b"three", b"THREE"))
            return super().seek(offset, whence)

    target = MemoryStore()
    with pytest.raises(InvalidExport):
        drive(import_from(target, ALICE, Fickle(data)))
    assert drive(target.conversations(ALICE)) == []
