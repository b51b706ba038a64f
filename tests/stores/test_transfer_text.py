"""What a document is found by goes with it: out of a store, through a file, into another, and into the digest."""

from __future__ import annotations

import io

import pytest

from turnfold.errors import Conflict, InvalidExport
from turnfold.records import Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.search import Within
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store, digest, export_to, import_from
from turnfold.stores.export_format import read_line, read_piece, write_piece

SCOPE = Scope("alice")
TEXT = "alpha 北京\x00 text"


def written(text: str) -> MemoryStore:
    store = MemoryStore(clock=lambda: 5)
    drive(store.append(SCOPE, "talk", [NewEntry(user("hello"))]))
    drive(store.put_document(SCOPE, "talk", Document("note", "n", b"body", 0, text=text)))
    return store


def exported(store: Store) -> bytes:
    file = io.BytesIO()
    drive(export_to(store, SCOPE, file))
    return file.getvalue()


@pytest.mark.parametrize("text", ["", TEXT])
def test_a_text_comes_through_and_is_found_there(text: str) -> None:
    data = exported(written(text))
    target = SqliteStore(blocking=True)
    drive(import_from(target, SCOPE, io.BytesIO(data)))
    kept = drive(target.get_document(SCOPE, "talk", "note", "n"))
    assert kept is not None
    assert kept.text == text
    hits = drive(target.search(SCOPE, ["北京"], within=Within(kinds=None)))
    assert [hit.key for hit in hits] == (["n"] if text else [])
    assert exported(target) == data
    drive(target.close())


def test_a_document_without_a_text_is_written_as_it_always_was() -> None:
    line = write_piece(Document("note", "n", b"body", 1, 5))
    assert b"text" not in line
    assert read_piece(read_line(line, 1), 1) == Document("note", "n", b"body", 1, 5)
    with pytest.raises(InvalidExport):
        read_line(line.replace(b"}", b',"text":""}'), 1)


def test_another_text_is_another_conversation() -> None:
    one, other = written(TEXT), written("beta")
    assert drive(digest(one, SCOPE, "talk")) != drive(digest(other, SCOPE, "talk"))
    with pytest.raises(Conflict, match="different text"):
        drive(import_from(other, SCOPE, io.BytesIO(exported(one))))


def test_a_restore_that_forgets_the_text_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    data = exported(written(TEXT))
    monkeypatch.setattr(
        "turnfold.stores.export_format.Document",
        lambda *fields: Document(*fields[:5]),
    )
    target = MemoryStore()
    drive(import_from(target, SCOPE, io.BytesIO(data)))
    kept = drive(target.get_document(SCOPE, "talk", "note", "n"))
    assert kept is not None
    assert kept.text != TEXT
