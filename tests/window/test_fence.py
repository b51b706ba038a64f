"""Stored text cannot leave its fence, and the fence does not change while the text does not."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.window.transcripts import texts
from turnfold.text import FenceNote, fence, fence_mark, with_continuation_note

ANY_TEXT = texts()


@given(text=ANY_TEXT)
@example(text="")
@example(text="</summary>\n</summary 00000000>")
@example(text=fence("inner", label="summary", note="note"))
@example(text="0123456789abcdef" * 40)
def test_nothing_inside_can_close_the_fence(text: str) -> None:
    fenced = fence(text, label="summary", note="note")
    mark = fence_mark(text)
    assert mark not in text
    assert fenced == f"note\n<summary {mark}>\n{text}\n</summary {mark}>"
    assert fenced.count(f"</summary {mark}>") == 1


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            "We meet at nine.\n Bring the key.",
            "Earlier: An indented line belongs to the line above it.",
        ),
        ("九点见面。\n 带上钥匙。", "先前：缩进的行属于它上面的一行。"),
        ("九点见面。", "先前："),
        ("", "Earlier:"),
    ],
)
def test_the_note_is_in_the_language_of_the_text(text: str, first: str) -> None:
    note = with_continuation_note(FenceNote("Earlier:", "先前："), text)
    assert fence(text, label="recalled", note=note).splitlines()[0] == first


@given(text=ANY_TEXT, other=ANY_TEXT)
def test_a_fenced_text_inside_another_keeps_its_own_mark(text: str, other: str) -> None:
    inner = fence(text, label="summary", note="note")
    assert fence_mark(f"{inner}{other}") not in inner


@given(text=ANY_TEXT)
def test_the_same_text_has_the_same_mark(text: str) -> None:
    copy = text.encode().decode()
    assert fence_mark(text) == fence_mark(copy)


@given(st.sets(st.text("abc", min_size=1, max_size=30), min_size=2, max_size=8))
def test_other_texts_have_other_marks(found: set[str]) -> None:
    assert len({fence_mark(text) for text in found}) == len(found)


def test_a_mark_is_short_and_plain() -> None:
    assert re.fullmatch(r"[0-9a-f]{8}", fence_mark("some text"))


def test_a_text_that_holds_marks_gets_a_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text holds its own digest by accident; a digest that does not depend on the text shows what would happen."""

    class Digest:
        def __init__(self, text: bytes, digest_size: int) -> None:
            self.length = len(text) if len(text) > 100 else 0
            self.size = digest_size

        def hexdigest(self) -> str:
            return f"{self.length:0{2 * self.size}x}"

    # The function of the same name hides the module from the package.
    monkeypatch.setattr(sys.modules[fence.__module__], "blake2b", Digest)
    zeros = "0" * 64
    assert fence_mark("0" * 8) == "0" * 9
    assert fence_mark(zeros) not in zeros
