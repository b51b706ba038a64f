"""A reader of what turnfold renders, written from the description of the format and from nothing else.

It shares no code with the library. What it reads back must be what was put in: blocks, speakers, texts. A line that it
cannot attribute is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = (
    "BREAKS", "NO_SPEAKER", "Block", "Spoken", "back", "cut_of", "is_note", "loose_items", "read_blocks",
    "read_findings", "read_items", "read_passages", "read_pins", "read_spoken",
)  # fmt: skip

BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
NO_SPEAKER = ""
_TURN = re.compile(
    r"\[(?:turn |第 )(\d+)(?: 轮)?(?:(?:, |，)\d{4}-\d\d-\d\d \d\d:\d\d UTC(?:[+-]\d+(?::\d\d)?)?)?\]"
)
_LENGTH = r"\[… (?:[0-9,]+ tokens in full|全文共 [0-9,]+ token) …\]"
_NOTE = re.compile(rf"{_LENGTH}|…")
_SIGN = re.compile(rf"\n{_LENGTH}\n|…")
_TAG = re.compile(r"<([A-Za-z0-9_-]+) ([0-9a-f]{8,})>")
_QUOTED = r"[^\[\]:：\"“”]*"
_REMARK = (
    rf"(?: \[(?:(?:; )?(?:\"{_QUOTED}\" )?(?:is )?(?:changed later to \"{_QUOTED}\"|no longer valid)"
    rf"|(?:; )?(?:“{_QUOTED}”)?(?:后来改为“{_QUOTED}”|已作废))+\])?"
)
_SPEAKER = re.compile(
    rf"((?:user|assistant|tool|用户|助手|工具)(?: \([^():]*\))?){_REMARK}(?:: |：)"
)
_ROLES = {"用户": "user", "助手": "assistant", "工具": "tool"}
_FINDING = re.compile(r"## \[(\d+)\] (.*)", re.DOTALL)
_SECTIONS = (
    "# Already found",
    "# 已获取的相关信息",
    "# Tables of contents already fetched",
    "# 已缓存目录",
)
_MORE = re.compile(
    r"\(\d+ more are remembered and not shown here\)|（另有 \d+ 条已记忆，此处未列出）"
)


class Block(NamedTuple):
    """One fence."""

    note: str
    label: str
    body: str


class Spoken(NamedTuple):
    """What somebody said, and under which heading it stands."""

    turn: int
    speaker: str
    text: str
    raw: str
    """As it is written, its name included."""


def is_note(line: str) -> bool:
    """Whether a line says that something is missing."""
    return _NOTE.fullmatch(line) is not None


def read_blocks(text: str) -> list[Block]:
    """Fences with a blank line between two, and nothing else."""
    lines = text.split("\n")
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        if blocks:
            assert lines[at] == "", f"between two fences: {lines[at]!r}"
            at += 1
        tag = _TAG.fullmatch(lines[at + 1])
        assert tag is not None, f"not an opening mark: {lines[at + 1]!r}"
        closing = f"</{tag[1]} {tag[2]}>"
        end = lines.index(closing, at + 2)
        body = "\n".join(lines[at + 2 : end])
        assert tag[2] not in body
        blocks.append(Block(lines[at], tag[1], body))
        at = end + 1
    return blocks


def back(text: str) -> str:
    """The text behind an indented one: without the one space at the beginning of each line but the first."""
    found: list[str] = []
    at_start = False
    for letter in text:
        if at_start and letter == " ":
            at_start = False
            continue
        found.append(letter)
        at_start = letter in BREAKS
    return "".join(found)


def loose_items(body: str) -> list[str]:
    """What begins at the margin, each with the lines that belong to it; of any text."""
    items: list[list[str]] = []
    for line in body.split("\n"):
        if not items or (line and line[0] not in f" {BREAKS}"):
            items.append([line])
        else:
            items[-1].append(line)
    return ["\n".join(lines) for lines in items]


def read_items(body: str) -> list[str]:
    """The same of a text of ours: whatever breaks a line, only the first line of an item stands at the margin."""
    items = loose_items(body)
    for item in items:
        first, *others = item.splitlines()
        assert first[0] != " ", f"belongs to nothing: {item!r}"
        assert all(not line or line[0] == " " for line in others), f"at the margin: {others!r}"
    return items


def read_pins(body: str) -> list[str]:
    """The pins of a list."""
    items = read_items(body)
    assert all(item.startswith("- ") for item in items)
    return [back(item)[2:] for item in items]


def read_spoken(body: str, speaker: re.Pattern[str] = _SPEAKER) -> list[Spoken]:
    """What was said by whom; a note of what is missing stands under nobody's name."""
    return list(_spoken(read_items(body), speaker)) if body else []


def read_passages(body: str) -> list[Spoken]:
    """The same, each under the heading of a turn."""
    found = read_spoken(body)
    assert all(each.turn >= 0 for each in found if each.speaker), "said in no turn"
    return found


def _spoken(items: Iterable[str], pattern: re.Pattern[str]) -> Iterable[Spoken]:
    turn = -1
    for item in items:
        if heading := _TURN.fullmatch(item):
            turn = int(heading[1])
        elif is_note(item):
            yield Spoken(turn, NO_SPEAKER, item, item)
            turn = -1  # what comes after it has a heading of its own
        else:
            said = pattern.match(item)
            assert said is not None, f"nobody said it: {item!r}"
            role, *name = said[1].split(" ", 1)
            yield Spoken(
                turn, " ".join([_ROLES.get(role, role), *name]), back(item[said.end() :]), item
            )


def read_findings(body: str) -> list[tuple[str, str, str]]:
    """Heading and content of each finding, and both as they are written."""
    found: list[tuple[str, str, str]] = []
    for item in read_items(body):
        if item in _SECTIONS or _MORE.fullmatch(item) or is_note(item):
            continue
        heading, _, content = item.partition("\n")
        named = _FINDING.fullmatch(heading)
        assert named is not None, f"not a finding: {item!r}"
        found.append((named[2], back(f"\n{content}")[1:], item))
    return found


def cut_of(shown: str, text: str) -> bool:
    """Whether `shown` is `text`, or its beginning and its end around a sign that something is missing."""
    if shown == text:
        return True
    return any(
        text.startswith(shown[: sign.start()]) and text.endswith(shown[sign.end() :])
        for sign in _SIGN.finditer(shown)
    )
