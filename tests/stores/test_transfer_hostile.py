"""A file from anyone: it is refused, with the line, or is imported exactly; never anything else."""

from __future__ import annotations

import gzip
import io
import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import DAMAGED_EXPORTS, FORGED_EXPORTS
from tests.stores.transfers import ALICE, exported, imported, sealed
from turnfold.errors import InvalidExport, InvalidOption, TurnfoldError
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, SqliteStore, import_from
from turnfold.stores.export_format import LONGEST_LINE
from turnfold.testing.stores.case_runner import Clock
from turnfold.testing.stores.random_operations import settings_for
from turnfold.testing.stores.restore import fill_richly
from turnfold.testing.stores.sample_values import TALK


def _good() -> bytes:
    store = MemoryStore(clock=Clock())
    for name in (TALK, "other"):
        drive(fill_richly(store, ALICE, name))
    return exported(store)


GOOD = _good()
LINES = GOOD.splitlines(keepends=True)
BEGIN, DOCUMENT, ENTRY, CHECKPOINT, END = 1, 2, 6, 11, 13
"""Where the parts of the first conversation stand."""


def refused(data: bytes) -> InvalidExport:
    """The error; nothing was written."""
    target = MemoryStore()
    with pytest.raises(InvalidExport) as caught:
        imported(data, target)
    assert drive(target.conversations(ALICE)) == []
    return caught.value


def test_the_places_are_what_they_are_called() -> None:
    kinds = [
        json.loads(LINES[place])["line"] for place in (BEGIN, DOCUMENT, ENTRY, CHECKPOINT, END)
    ]
    assert kinds == ["conversation", "document", "entry", "checkpoint", "end"]
    assert sealed(LINES) == GOOD


# ----------------------------------------------------------------------------------------- damage


def attempt(data: bytes) -> bool:
    """Refused with a typed error and nothing written, or imported so that it comes out again as it went in.

    Says whether it was imported.
    """
    target, fault = MemoryStore(), None
    try:
        imported(data, target)
    except InvalidExport as error:
        fault = error
    if fault is not None:
        assert 1 <= fault.line <= data.count(b"\n") + 1
        assert drive(target.conversations(ALICE)) == []
    else:
        again = exported(target).splitlines(keepends=True)
        assert again[1:-1] == data.splitlines(keepends=True)[1:-1]
    return fault is None


damages = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, len(GOOD) - 1), st.integers(1, 255)),
    st.tuples(st.just("cut"), st.integers(0, len(GOOD) - 1), st.just(0)),
    st.tuples(st.just("drop"), st.integers(0, len(GOOD) - 1), st.integers(1, 300)),
    st.tuples(st.just("double"), st.integers(0, len(GOOD) - 1), st.integers(1, 300)),
    st.tuples(st.just("insert"), st.integers(0, len(GOOD)), st.integers(0, 255)),
)


def damaged(damage: tuple[str, int, int]) -> bytes:
    what, place, size = damage
    before, after = GOOD[:place], GOOD[place:]
    match what:
        case "flip":
            return before + bytes([after[0] ^ size]) + after[1:]
        case "cut":
            return before
        case "drop":
            return before + after[size:]
        case "double":
            return before + after[:size] + after
        case _:
            return before + bytes([size]) + after


@pytest.mark.parametrize("examples", DAMAGED_EXPORTS.values())
def test_a_damaged_file_is_refused(examples: int) -> None:
    @settings_for(examples)
    @given(damages)
    def check(damage: tuple[str, int, int]) -> None:
        data = damaged(damage)
        if data != GOOD:
            refused(data)

    check()


def test_every_truncation_is_refused() -> None:
    for size in range(0, len(GOOD), 13):
        refused(GOOD[:size])


VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 60, (1 << 60) + 1, 1 << 63, -(1 << 63)),
    *(10**40, 0.5, 1e300, -0.0, "", "x", "a\x00b", "长" * 513, "\ud800", "one", "s1", "s2", TALK),
    *([], {}, [[[[]]]], {"v": 1}, {"a": {"a": 1}}, {"v": 2, "role": "user", "parts": []}),
    {"v": 1, "role": "user", "parts": [{"kind": "text", "text": "\ud800"}]},
    {"v": 1, "role": "user", "parts": [{"kind": "text", "text": "x", "extra": '{"a":NaN}'}]},
    {"v": 1, "role": "user", "parts": [{"kind": "text", "text": "x", "extra": "[" * 5000}]},
    {"v": 1, "role": "assistant", "parts": [], "labels": '{"a":1,"a":2}'},
    {"v": 1, "role": "user", "parts": []},
    {"v": 1, "role": "tool", "parts": []},
    {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {}},
]


def twisted(dice: random.Random) -> bytes:
    """A file with right digests, and something in it that should not be."""
    lines = list(LINES)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        place = dice.randrange(len(lines))
        match dice.randrange(6):
            case 0:
                del lines[place]
            case 1:
                lines.insert(dice.randrange(len(lines)), lines[place])
            case 2:
                other = dice.randrange(len(lines))
                lines[place], lines[other] = lines[other], lines[place]
            case _:
                lines[place] = _changed(lines[place], dice)
        lines = lines or [b"\n"]
    return sealed(lines)


def _changed(line: bytes, dice: random.Random) -> bytes:
    fields = json.loads(line)
    key = dice.choice(list(fields))
    if dice.random() < 0.1:
        del fields[key]
    elif dice.random() < 0.1:
        fields[dice.choice(("extra", "line", "seq", ""))] = dice.choice(VALUES)
    else:
        fields[key] = dice.choice(VALUES)
    text = json.dumps(fields, ensure_ascii=dice.random() < 0.1, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


@pytest.mark.parametrize("rounds", FORGED_EXPORTS.values())
def test_whoever_writes_the_digests_right_gets_no_further(rounds: int) -> None:
    taken = 0
    for seed in range(rounds):
        data = twisted(random.Random(seed))  # noqa: S311 (a run that can be repeated)
        try:
            taken += attempt(data)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert 0 < taken < rounds // 2  # some changes make another sound file


# -------------------------------------------------------------------------------- one fault at a time


def changed(place: int, old: bytes, new: bytes) -> list[bytes]:
    assert LINES[place].count(old) == 1, LINES[place]
    return [*LINES[:place], LINES[place].replace(old, new), *LINES[place + 1 :]]


DEEP = b"[" * 100_000 + b"]" * 100_000
FAULTS: dict[str, tuple[list[bytes], int, str]] = {
    "nothing": ([], 1, "ends before its footer"),
    "an empty line": ([b"\n", *LINES], 1, "not an export"),
    "another program's": ([b'{"a":1}\n'], 1, "not an export"),
    "another format": (changed(0, b"turnfold-export", b"other"), 1, "format is 'other'"),
    "a later version": (changed(0, b'"version":1', b'"version":2'), 1, "Upgrade turnfold"),
    "an unknown header field": (
        changed(0, b'"version":1', b'"version":1,"x":1'),
        1,
        "unknown field",
    ),
    "a byte order mark": ([b"\xef\xbb\xbf" + LINES[0], *LINES[1:]], 1, "not an export"),
    "no footer": (LINES[:-1], len(LINES), "ends before its footer"),
    "other line ends": (
        [LINES[0], *(line[:-1] + b"\r\n" for line in LINES[1:])],
        2,
        "not in canonical form",
    ),
    "a second header": ([*LINES[:3], LINES[0], *LINES[3:]], 4, "second header"),
    "an unknown kind of line": ([*LINES[:2], b'{"line":"code"}\n', *LINES[2:]], 3, "Invalid value"),
    "a line without a kind": ([*LINES[:2], b"{}\n", *LINES[2:]], 3, "required field"),
    "a list": ([*LINES[:2], b"[]\n", *LINES[2:]], 3, "Expected"),
    "deep nesting of a line": ([*LINES[:2], DEEP + b"\n", *LINES[2:]], 3, "not a line"),
    "deep nesting in a message": (
        changed(ENTRY, b'"parts":[', b'"parts":[' + DEEP + b","),
        ENTRY + 1,
        "",
    ),
    "nan": (changed(CHECKPOINT, b"1.0", b"NaN"), CHECKPOINT + 1, "malformed"),
    "infinity": (changed(CHECKPOINT, b"1.0", b"1e999"), CHECKPOINT + 1, "out of range"),
    "a share above one": (changed(CHECKPOINT, b"1.0", b"1.5"), CHECKPOINT + 1, "fidelity"),
    "minus zero": (changed(CHECKPOINT, b"1.0", b"-0.0"), CHECKPOINT + 1, "fidelity"),
    "a lone surrogate": (changed(ENTRY, b'text":"one', b'text":"\\ud800'), ENTRY + 1, ""),
    "a raw surrogate": (changed(ENTRY, b'text":"one', b'text":"\xed\xa0\x80'), ENTRY + 1, ""),
    "bytes that are no text": (changed(ENTRY, b'text":"one', b'text":"\xff'), ENTRY + 1, ""),
    "a key twice": (changed(ENTRY, b'"seq":1', b'"seq":9,"seq":1'), ENTRY + 1, "duplicate key"),
    "a key of a message twice": (
        changed(ENTRY, b'"v":1', b'"v":1,"v":1'),
        ENTRY + 1,
        "canonical form",
    ),
    "a space": (changed(ENTRY, b'"seq":1', b'"seq": 1'), ENTRY + 1, "spacing"),
    "a number as a fraction": (changed(ENTRY, b'"seq":1', b'"seq":1.0'), ENTRY + 1, ""),
    "a number as text": (changed(ENTRY, b'"seq":1', b'"seq":"1"'), ENTRY + 1, "Expected `int`"),
    "a number without end": (changed(ENTRY, b'"seq":1', b'"seq":1' + b"0" * 5000), ENTRY + 1, ""),
    "a gap": (changed(ENTRY, b'"seq":1', b'"seq":2'), ENTRY + 1, "seq is 2, expected 1"),
    "a wrong turn": (changed(ENTRY, b'"turn":1', b'"turn":2'), ENTRY + 1, "turn is 2, expected 1"),
    "a later message": (changed(ENTRY, b'"v":1', b'"v":2'), ENTRY + 1, "Upgrade turnfold"),
    "a bad role": (changed(ENTRY, b'"user"', b'"root"'), ENTRY + 1, "message"),
    "a client id twice": (
        changed(ENTRY + 1, '"client_id":"北京 two"'.encode(), b'"client_id":"one"'),
        ENTRY + 2,
        "client id of an earlier entry",
    ),
    "a body that is not base64": (changed(DOCUMENT, b'"eQ=="', b'"*"'), DOCUMENT + 1, "base64"),
    "base64 with other bits at its end": (
        changed(DOCUMENT, b'"eQ=="', b'"eR=="'),
        DOCUMENT + 1,
        "not in canonical form",
    ),
    "a document twice": ([*LINES[:3], *LINES[2:]], 4, "comes twice"),
    "an entry outside": ([LINES[0], LINES[ENTRY], *LINES[1:]], 2, "outside of a conversation"),
    "no end": ([*LINES[:END], *LINES[END + 1 :]], END + 1, "end line of conversation"),
    "the end of nothing": (
        [LINES[0], LINES[END], *LINES[1:]],
        2,
        "end line is outside of a conversation",
    ),
    "a conversation twice": (
        [*LINES[: END + 1], *LINES[1 : END + 1], LINES[-1]],
        END + 2,
        "comes twice",
    ),
    "conversations out of order": (
        [LINES[0], *LINES[END + 1 : -1], *LINES[1 : END + 1], LINES[-1]],
        len(LINES) - END,
        "'other' comes after 'talk'",
    ),
    "a broken chain": (
        changed(CHECKPOINT, b'"previous":""', b'"previous":"s0"'),
        CHECKPOINT + 1,
        "follows 's0'",
    ),
    "a time no clock has": (changed(BEGIN, b'"created":', b'"created":9999'), BEGIN + 1, "created"),
    "a name with nul": (changed(BEGIN, b'"other"', b'"ot\\u0000er"'), BEGIN + 1, "NUL"),
    "something after the footer": ([*LINES, b"\n"], len(LINES) + 1, "follows the footer"),
    "a second export": ([*LINES, *LINES], len(LINES) + 1, "follows the footer"),
}


@pytest.mark.parametrize(("lines", "line", "told"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_told_with_its_line(lines: list[bytes], line: int, told: str) -> None:
    error = refused(sealed(lines))
    assert error.line == line
    assert told in str(error)


@pytest.mark.parametrize("kind", [b"end", b"footer"])
@pytest.mark.parametrize("field", [b"documents", b"entries", b"checkpoints"])
def test_counts_are_compared_and_never_believed(kind: bytes, field: bytes) -> None:
    place = END if kind == b"end" else len(LINES) - 1
    before, name, after = LINES[place].partition(b'"%s":' % field)
    claim = before + name + b"1000000000000000000" + after[after.index(b",") :]
    lines = [*LINES[:place], claim, *LINES[place + 1 :]]
    error = refused(b"".join(lines))
    assert error.line == place + 1
    assert "1000000000000000000" in str(error)


def test_a_digest_of_one_conversation_is_compared() -> None:
    digest = LINES[END].partition(b'"digest":"')[2][:64]
    data = GOOD.replace(digest, b"0" * 64)
    assert refused(data).line == END + 1


def test_a_sound_change_is_a_sound_file() -> None:
    """What the faults stand against: the same way of making files makes one that is taken."""
    assert attempt(sealed(changed(ENTRY, b'text":"one', b'text":"two')))
    assert imported(sealed(changed(ENTRY, b'text":"one', b'text":"two'))).conversations == 2


# --------------------------------------------------------------------------------------- too much


class Endless:
    """A line without end, from a file that cannot seek."""

    asked = 0

    def readline(self, limit: int, /) -> bytes:
        self.asked += limit
        return b"x" * limit

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        raise OSError(offset, whence)

    def tell(self) -> int:
        raise OSError


def test_a_line_without_end_is_left_at_the_limit() -> None:
    file = Endless()
    with pytest.raises(
        InvalidExport,
        match=rf"line 1: the line is longer than {LONGEST_LINE:,} bytes.*longest_line",
    ):
        drive(import_from(MemoryStore(), ALICE, file))
    assert file.asked == LONGEST_LINE + 1


def test_a_line_of_a_hundred_megabytes_takes_no_more_memory_than_the_limit() -> None:
    packed = gzip.compress(LINES[0] + b"x" * 100_000_000, compresslevel=1)
    tracemalloc.start()
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(packed)) as file,
            pytest.raises(InvalidExport) as caught,
        ):
            drive(import_from(MemoryStore(), ALICE, file))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.line == 2
    assert peak < 3 * LONGEST_LINE


def test_the_limit_can_be_chosen() -> None:
    longest = max(map(len, LINES))
    assert drive(
        import_from(MemoryStore(), ALICE, io.BytesIO(GOOD), longest_line=longest)
    ).conversations
    with pytest.raises(InvalidExport, match=f"longer than {longest - 1:,} bytes"):
        drive(import_from(MemoryStore(), ALICE, io.BytesIO(GOOD), longest_line=longest - 1))
    with pytest.raises(InvalidOption):
        drive(import_from(MemoryStore(), ALICE, io.BytesIO(GOOD), longest_line=0))


# ------------------------------------------------------------------------------------- the same on disk


@pytest.mark.parametrize("fault", ["a client id twice", "a conversation twice", "a wrong turn"])
def test_sqlite_refuses_with_the_same_line(fault: str) -> None:
    lines, line, _ = FAULTS[fault]
    target = SqliteStore(blocking=True)
    with pytest.raises(InvalidExport) as caught:
        imported(sealed(lines), target)
    assert caught.value.line == line
    assert drive(target.conversations(ALICE)) == []
    drive(target.close())


# ---------------------------------------------------------------------------------------- sabotage


def _believe(name: str) -> Callable[..., None]:
    def silent(*args: object, **options: object) -> None:
        del args, options

    silent.__name__ = name
    return silent


@pytest.mark.parametrize(
    ("where", "data"),
    [
        ("ExportReader._finish", sealed(LINES).replace(b'text":"one', b'text":"two', 1)),
        ("ExportReader._compare_counts", GOOD),
    ],
)
def test_a_reader_that_believes_is_caught(
    monkeypatch: pytest.MonkeyPatch, where: str, data: bytes
) -> None:
    monkeypatch.setattr(f"turnfold.stores.export_format.{where}", _believe(where))
    monkeypatch.setattr("turnfold.stores.export_format.ExportReader._end", _ended)
    if data == GOOD:
        lines = changed(len(LINES) - 1, b'"conversations":2', b'"conversations":7')
        data = b"".join(lines)
    with pytest.raises(pytest.fail.Exception):
        refused(data)


def _ended(reader: Any, end: object) -> None:
    del end
    reader._opening = None
    reader._conversations += 1
    reader._total = [total + part for total, part in zip(reader._total, reader._part, strict=True)]


def test_an_error_of_another_type_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("turnfold.stores.export_format.read_line", crash)
    with pytest.raises(KeyError):
        attempt(GOOD)
    assert not issubclass(KeyError, TurnfoldError)
