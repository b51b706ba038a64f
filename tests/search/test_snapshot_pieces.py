"""A content is cut where its own bytes say so: an edit leaves the other pieces as they were, and all come back."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.errors import InvalidRecord
from turnfold.records import LARGEST_SNAPSHOT, Snapshot, SnapshotItem, content_digest
from turnfold.workspace_snapshots import (
    ChunkRef,
    ListedItem,
    pack,
    read_listing,
    rebuild_snapshot,
    split_chunks,
    unpack,
)
from turnfold.workspace_snapshots import storage as chunking
from turnfold.workspace_snapshots.storage import LONGEST_CHUNK, write_listing

DICE = random.Random(6)  # noqa: S311 (a run that can be repeated)


def prose(length: int, seed: int = 1) -> str:
    dice = random.Random(seed)  # noqa: S311 (a run that can be repeated)
    words = "the workspace 工作区 turn 轮次 snapshot = 快照 {} return None 内容 index 42".split()
    lines: list[str] = []
    size = 0
    while size < length:
        line = " ".join(dice.choices(words, k=dice.randint(3, 14))) + f" {dice.random():.6f}"
        lines.append(line)
        size += len(line.encode()) + 1
    return "\n".join(lines)


KINDS = {
    "prose": prose(120_000).encode(),
    "random": DICE.randbytes(120_000),
    "zeros": bytes(120_000),
    "one line": b"x" * 60_000 + b"y" * 60_000,
    "chinese": ("工作区快照" * 8_000).encode(),
    "short": b"abc",
    "empty": b"",
}


@pytest.mark.parametrize("data", KINDS.values(), ids=KINDS)
def test_the_pieces_are_the_whole_and_none_is_too_long(data: bytes) -> None:
    pieces = list(split_chunks(data))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= LONGEST_CHUNK + 3 for piece in pieces)


@given(st.text(min_size=1), st.integers(1, 4_000))
@examples(80)
def test_a_text_is_never_cut_within_a_character(unit: str, times: int) -> None:
    text = unit * times
    assert "".join(piece.decode() for piece in split_chunks(text.encode())) == text


def new_bytes(before: bytes, after: bytes) -> int:
    """Bytes of the pieces of `after` that `before` has not."""
    known = {content_digest(piece) for piece in split_chunks(before)}
    return sum(len(piece) for piece in split_chunks(after) if content_digest(piece) not in known)


@pytest.mark.parametrize("place", [0, 1, 50_000, 119_000])
@pytest.mark.parametrize("kind", ["prose", "random"])
def test_an_edit_rewrites_its_surroundings_only(kind: str, place: int) -> None:
    data = KINDS[kind]
    inserted = data[:place] + b"an edit" + data[place:]
    removed = data[:place] + data[place + 40 :]
    assert new_bytes(data, inserted) < 3 * LONGEST_CHUNK
    assert new_bytes(data, removed) < 3 * LONGEST_CHUNK


def fixed(data: bytes) -> Iterator[bytes]:
    yield from (data[start : start + 4096] for start in range(0, len(data), 4096))


def test_pieces_of_a_fixed_length_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    data = KINDS["prose"]
    monkeypatch.setitem(globals(), "split_chunks", fixed)
    assert new_bytes(data, b"an edit" + data) > len(data) // 2


def test_candidates_never_overlap() -> None:
    """If they could, which of two is found would depend on where the search began."""
    candidate = chunking._CANDIDATE
    data = KINDS["random"]
    found = [match.start() for match in candidate.finditer(data)]
    alone = [at for at in range(len(data)) if candidate.match(data, at)]
    assert found == alone
    overlapping = re.compile(b"[\x00-\x7f][\x00-\x7f]")
    assert [m.start() for m in overlapping.finditer(data)] != [
        at for at in range(len(data)) if overlapping.match(data, at)
    ]


def placed(turn: int, text: str = "", **files: str | bytes) -> Snapshot:
    return Snapshot(turn=turn, context=text, files=files, created=7)


def test_what_is_known_is_not_written_again() -> None:
    text = prose(100_000)
    first = pack(placed(1, text, a=text), known={})
    known = {ref.digest: ref.turn for ref in first.new_chunks}
    second = pack(placed(2, text, a=text, b="new"), earlier=first.items, known=known)
    assert len(first.body) > 20_000
    assert len(second.body) < 1_500
    third = pack(placed(3, text, a=text), known=known)  # no listing to go by: the pieces tell
    assert len(third.body) < 2_500
    unknowing = pack(placed(2, text, a=text), known={})
    assert len(unknowing.body) > 20_000


def test_a_piece_is_never_sought_in_a_later_document() -> None:
    text = prose(40_000)
    later = pack(placed(9, text), known={})
    known = {ref.digest: ref.turn for ref in later.new_chunks}
    earlier = pack(placed(4, text), known=known)
    stored = unpack(earlier.body, turn=4)
    assert {ref.turn for item in earlier.items for ref in item.chunks} == {4}
    assert {ref.digest for item in earlier.items for ref in item.chunks} <= stored.chunks.keys()


def test_the_text_it_is_found_by_is_bounded_and_says_so() -> None:
    packed = pack(placed(1, prose(900_000)), known={})
    head = unpack(packed.body, turn=1).head
    assert len(packed.text) <= 200_100
    assert head.indexed == 200_000
    assert head.unindexed > 300_000
    small = unpack(pack(placed(1, "a word"), known={}).body, turn=1).head
    assert (small.indexed, small.unindexed) == (6, 0)


def test_bytes_are_not_searched_and_names_are() -> None:
    snapshot = Snapshot(
        turn=1,
        files={"src/应用.py": "x = 1", "logo.png": b"\x89PNG secretbytes"},
        state={"step": "s"},
        summary="总结",
        insights=("洞察",),
        links=("ctx_9",),
    )
    text = pack(snapshot, known={}).text
    assert all(
        word in text
        for word in ("src/应用.py", "logo.png", "step", "总结", "洞察", "ctx_9", "x = 1")
    )
    assert "secretbytes" not in text


BODY = pack(placed(3, prose(30_000), b="bytes"), known={}).body


@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
@examples(300)
def test_a_changed_byte_is_refused_or_changes_nothing_that_is_proved(at: int, flip: int) -> None:
    """Every byte of the pieces is proved; of the head, what it says is, by the id (see test_snapshots.py)."""
    damaged = BODY[:at] + bytes([BODY[at] ^ flip]) + BODY[at + 1 :]
    try:
        stored = unpack(damaged, turn=3)
    except InvalidRecord:
        return
    assert all(content_digest(piece) == name for name, piece in stored.chunks.items())


@given(st.binary(max_size=300))
@examples(300)
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord, match="snapshot/1"):
        unpack(data, turn=1)


def test_another_turn_and_another_version_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="turn 3"):
        unpack(BODY, turn=4)
    newer = BODY.replace(b"\xa1v\x01", b"\xa1v\x02", 1)
    assert newer != BODY
    with pytest.raises(InvalidRecord, match=r"version 2.*Upgrade"):
        unpack(newer, turn=3)


def test_a_listing_that_lies_is_refused() -> None:
    digest = content_digest(b"")
    good = ListedItem("file", "a", True, 0, digest, ())  # noqa: FBT003 (a row)
    assert read_listing(write_listing([good]), turn=1) == (good,)
    liars = [
        [good, good],
        [ListedItem("file", "", True, 0, digest, ())],  # noqa: FBT003
        [ListedItem("state", "a", True, 0, digest, ())],  # noqa: FBT003
        [ListedItem("file", "a", True, -1, digest, ())],  # noqa: FBT003
        [ListedItem("file", "a", True, 0, b"short", ())],  # noqa: FBT003
        [ListedItem("file", "a", True, 0, digest, (ChunkRef(digest, 2),))],  # noqa: FBT003
        [ListedItem("file", "a", True, 0, digest, (ChunkRef(digest, 0),))],  # noqa: FBT003
        [ListedItem("file", "a", True, 0, digest, (ChunkRef(b"x", 1),))],  # noqa: FBT003
    ]
    for liar in liars:
        with pytest.raises(InvalidRecord):
            read_listing(write_listing(liar), turn=1)
    for rubbish in (b"{}", b"[1]", b"\xff", b"[" * 100_000):
        with pytest.raises(InvalidRecord):
            read_listing(rubbish, turn=1)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"turn": -1}, "turn"),
        ({"turn": 10**12}, "turn"),
        ({"turn": True}, "turn"),
        ({"created": -1}, "created"),
        ({"context": b"bytes"}, "context"),
        ({"context": "\ud800"}, "surrogate"),
        ({"files": {"": "x"}}, "0 characters"),
        ({"files": {"a\x00b": "x"}}, "NUL"),
        ({"files": {"p" * 4097: "x"}}, "4,097"),
        ({"files": {"a": 3}}, "int"),
        ({"files": ["a"]}, "list"),
        ({"state": {"x": float("nan")}}, "nan"),
        ({"state": [1]}, "list"),
        ({"insights": "one"}, "str"),
        ({"links": (1,)}, "int"),
    ],
)
def test_what_is_no_snapshot_is_refused_with_the_place(
    fields: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidRecord, match=said):
        Snapshot(**fields)  # pyright: ignore[reportArgumentType]


def test_a_snapshot_too_large_is_refused_with_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnfold.records.workspace_snapshots.LARGEST_SNAPSHOT", 100)
    with pytest.raises(InvalidRecord, match=r"101 bytes.*100"):
        Snapshot(context="x" * 60, files={"a": b"y" * 41})
    assert LARGEST_SNAPSHOT > 100_000_000


def test_an_id_is_made_of_the_content_and_not_of_the_time() -> None:
    one = Snapshot(turn=1, context="c", state={"b": 1, "a": 2}, created=1)
    assert one.id == Snapshot(turn=1, context="c", state={"a": 2, "b": 1}, created=9).id
    assert re.fullmatch(r"ctx_1_[0-9a-f]{12}", one.id)
    others = [
        Snapshot(turn=2, context="c", state={"a": 2, "b": 1}),
        Snapshot(turn=1, context="d", state={"a": 2, "b": 1}),
        Snapshot(turn=1, context="c", state={"a": 2, "b": 2}),
        Snapshot(turn=1, context="c", state={"a": 2, "b": 1}, summary="s"),
        Snapshot(turn=1, context="c", state={"a": 2, "b": 1}, insights=("s",)),
        Snapshot(turn=1, context="c", state={"a": 2, "b": 1}, links=("s",)),
        Snapshot(turn=1, context="c", state={"a": 2, "b": 1}, files={"a": "x"}),
        Snapshot(turn=1, context="c", state={"a": 2, "b": 1}, files={"a": b"x"}),
    ]
    assert len({one.id, *(other.id for other in others)}) == len(others) + 1


@pytest.mark.parametrize(
    "items",
    [
        [SnapshotItem("state", "", text=True, data=b"[" * 100_000)],
        [SnapshotItem("state", "", text=True, data=b"{")],
        [SnapshotItem("context", "", text=True, data=b"\xff")],
        [SnapshotItem("file", "a.py", text=True, data=b"\xff")],
        [
            SnapshotItem("file", "a.py", text=True, data=b"1"),
            SnapshotItem("file", "a.py", text=True, data=b"2"),
        ],
    ],
    ids=["nested without end", "no JSON", "no text", "a file that is no text", "occurs twice"],
)
def test_items_that_make_no_snapshot_are_refused(items: list[SnapshotItem]) -> None:
    with pytest.raises(InvalidRecord, match="turn 3"):
        rebuild_snapshot(
            items, turn=3, summary="", insights=(), links=(), created=0, where="turn 3"
        )
