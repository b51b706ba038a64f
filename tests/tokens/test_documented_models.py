"""The tables of the page on token counts, in both languages, say what the library does."""

from __future__ import annotations

import base64
import re
import struct
from pathlib import Path

import pytest

from turnfold.records import user
from turnfold.tokens import context_window_for, counter_for

PAGES = {
    language: Path(__file__).parents[2] / "docs" / language / "concepts" / "tokens.md"
    for language in ("en", "zh")
}
ROW = re.compile(
    r"^\|(?P<first>[^|]*)\|.*\|(?P<last>[^|]*)\|$|^\|(?P<one>[^|]*)\|(?P<two>[^|]*)\|$",
    re.MULTILINE,
)
NAMES = re.compile(r"`([a-z0-9.-]+)`")


def _rows(language: str) -> list[tuple[str, str]]:
    text = PAGES[language].read_text(encoding="utf-8")
    return [
        (found["first"] or found["one"], found["last"] or found["two"])
        for found in ROW.finditer(text)
    ]


def _certainties(language: str) -> list[tuple[str, str]]:
    """Each model of the table of certainties, with its certainty."""
    return [
        (name, certainty)
        for first, last in _rows(language)
        for certainty in ("exact", "bound", "estimate")
        if first.split() and first.split()[-1] == certainty
        for name in NAMES.findall(last)
    ]


def _windows(language: str) -> list[tuple[str, int]]:
    text = PAGES[language].read_text(encoding="utf-8")
    return [
        (name, int(window.replace(",", "")))
        for names, window in re.findall(r"^\| ([^|]*) \| ([\d,]+) \|$", text, re.MULTILINE)
        for name in NAMES.findall(names)
    ]


@pytest.mark.parametrize("language", PAGES)
def test_plain_messages_are_as_certain_as_the_page_says(language: str) -> None:
    told = _certainties(language)
    assert len(told) >= 20
    counted = [(name, counter_for(name).certainty_of(user("你好 hello"))) for name, _ in told]
    assert counted == told


@pytest.mark.parametrize("language", PAGES)
def test_windows_are_those_of_the_page(language: str) -> None:
    told = _windows(language)
    assert len(told) >= 20
    assert [(name, context_window_for(name)) for name, _ in told] == told


def test_both_languages_name_the_same_models() -> None:
    assert _certainties("en") == _certainties("zh")
    assert _windows("en") == _windows("zh")


def _png(width: int, height: int) -> dict[str, object]:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)
    url = f"data:image/png;base64,{base64.b64encode(head).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize("language", PAGES)
def test_images_count_what_the_page_says(language: str) -> None:
    text = PAGES[language].read_text(encoding="utf-8")
    address = {"url": "https://example.org/a.png"}
    pictures = [
        *(_png(*size) for size in ((512, 512), (1024, 1024), (1920, 1080))),
        {"type": "image_url", "image_url": address},
        {"type": "image_url", "image_url": {**address, "detail": "low"}},
    ]
    rows = re.findall(r"^\| (`[^|]*) \|" + r" ([\d,]+|-) \|" * 5 + "$", text, re.MULTILINE)
    assert len(rows) == 4
    for names, *told in rows:
        for name in NAMES.findall(names):
            counter = counter_for(name)
            empty = counter.count_message(user([]))
            counted = [counter.count_message(user([one])) - empty for one in pictures]
            if told[-1] == "-":  # the provider has no low detail
                assert counted.pop() == counted[-1]
            assert [f"{each:,}" for each in counted] == [cell for cell in told if cell != "-"]
