"""A diff says what changed, exactly: applied to the one side it gives the other."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold.tokens import cautious_counter
from turnfold.workspace_snapshots import compare_contents, show_changes, state_changes
from turnfold.workspace_snapshots import diff as diffing
from turnfold.workspace_snapshots.diff import unified

count = cautious_counter().count_text
HUNK = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n")


def lines_of(text: str) -> list[str]:
    """With their ends; only a newline ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def applied(text: str, patch: str) -> str:
    """`text` with a unified diff applied, every line of it checked."""
    old, new, at = lines_of(text), list[str](), 0
    lines = lines_of(patch)
    assert lines[0].startswith("--- ")
    assert lines[1].startswith("+++ ")
    place = 2
    while place < len(lines):
        head = HUNK.fullmatch(lines[place])
        assert head, lines[place]
        start, length, new_start, new_length = map(int, head.groups())
        place += 1
        first = start - 1 if length else start
        new += old[at:first]
        assert len(new) == (new_start - 1 if new_length else new_start)
        at, before = first, len(new)
        while place < len(lines) and not HUNK.fullmatch(lines[place]):
            mark, line = lines[place][0], lines[place][1:]
            if place + 1 < len(lines) and lines[place + 1].startswith("\\"):
                line = line.removesuffix("\n")
                place += 1
            if mark in " -":
                assert old[at] == line
                at += 1
            if mark in " +":
                new.append(line)
            place += 1
        assert (at - first, len(new) - before) == (length, new_length)
    return "".join([*new, *old[at:]])


texts = st.lists(
    st.sampled_from(
        ["a", "b", "", "工作区", "x\r", "y\u2028z", "\x0b", "--- a", "@@ -1,1 +1,1 @@", "\\ No"]
    ),
    max_size=40,
).flatmap(lambda rows: st.sampled_from(["\n".join(rows), "\n".join([*rows, ""])]))


@given(texts, texts)
@examples(400)
def test_applied_to_the_first_text_it_gives_the_second(before: str, after: str) -> None:
    patch = unified(before, after, names=("a", "b"))
    assert applied(before, patch) == after
    if before == after:
        assert "@@" not in patch


@given(st.data())
@examples(100)
def test_any_edit_script_is_told(data: st.DataObject) -> None:
    rows = [f"line {number} 第{number}行" for number in range(60)]
    edited = list(rows)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(edited)))
        match data.draw(st.sampled_from(["add", "drop", "change"])):
            case "add":
                edited[at:at] = [f"new {at}"]
            case "drop":
                del edited[at : at + 2]
            case _:
                edited[at : at + 1] = [f"changed {at}"]
    before, after = "\n".join(rows), "\n".join(edited)
    patch = unified(before, after, names=("a", "b"))
    assert applied(before, patch) == after
    assert len(patch) < 4_000


def test_too_many_lines_to_compare_are_shown_as_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffing, "_MAX_LINES", 10)
    before = "same\n" + "".join(f"old {n}\n" for n in range(20)) + "end"
    after = "same\n" + "".join(f"new {n}\n" for n in range(20)) + "end"
    patch = unified(before, after, names=("a", "b"))
    assert applied(before, patch) == after
    assert patch.count("\n-") == 20


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diffs")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb\nc", "a\nb\nc\n"),
        ("一\n二\n", "一\n二\n三"),
        ("x\n" * 50, "x\n" * 20 + "y\n" + "x\n" * 29),
    ],
)
def test_git_reads_them(tmp_path: Path, before: str, after: str) -> None:
    change = compare_contents("file.txt", before, after)
    assert change is not None
    (tmp_path / "file.txt").write_bytes(before.encode())
    (tmp_path / "change.patch").write_bytes(change.patch.encode())
    subprocess.run(["git", "apply", "change.patch"], cwd=tmp_path, check=True)
    assert (tmp_path / "file.txt").read_bytes() == after.encode()


def test_added_removed_and_bytes_are_told_apart() -> None:
    added = compare_contents("a", None, "x\n")
    removed = compare_contents("a", "x\n", None)
    kind = compare_contents("a", "x", b"x")
    assert added is not None
    assert (added.change, added.sizes, "+x" in added.patch) == ("added", (0, 2), True)
    assert removed is not None
    assert (removed.change, "-x" in removed.patch) == ("removed", True)
    assert kind is not None
    assert (kind.change, kind.binary, kind.patch) == ("changed", True, "")
    assert compare_contents("a", "x", "x") is None


def test_state_changes_name_every_value_that_is_another() -> None:
    before: dict[str, object] = {"same": 1, "kind": 1, "gone": None, "deep": {"a": [1]}}
    after: dict[str, object] = {"same": 1, "kind": True, "new": None, "deep": {"a": [2]}}
    assert state_changes(before, after) == {
        "kind": (1, True),
        "gone": (None, ...),
        "new": (..., None),
        "deep": ({"a": [1]}, {"a": [2]}),
    }


@given(st.integers(64, 600), st.integers(1, 30), st.integers(1, 200))
@example(tokens=527, files=11, length=1)
@examples(60)
def test_what_is_shown_of_a_diff_never_costs_more_than_allowed(
    tokens: int, files: int, length: int
) -> None:
    found = [
        compare_contents(f"src/文件{number}.py", "x\n", f"第{number}行\n" * length)
        for number in range(files)
    ]
    changes = [change for change in found if change is not None]
    text, cut = show_changes("Turn 1 -> turn 2", changes, [], tokens=tokens, count=count)
    assert count(text) <= tokens
    assert text
    names = [f"{change.change} {change.path}" for change in changes]
    missing = [
        part for part in (*names, *(each.patch.strip() for each in changes)) if part not in text
    ]
    assert cut == bool(missing)
    if any(name not in text for name in names):  # every name comes before any line of a patch
        assert not any(each.patch.strip() in text for each in changes)


def test_no_change_says_so() -> None:
    assert show_changes("Turn 1 -> turn 2", [], [], tokens=100, count=count) == (
        "Turn 1 -> turn 2: no change",
        False,
    )
