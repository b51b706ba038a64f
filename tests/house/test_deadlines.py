"""No property fails because the machine is slow: none has a deadline, neither its own nor that of the profile.

Hypothesis also takes five times the deadline for the time that ten examples may take to be drawn: with none it is
half a minute.
"""

from __future__ import annotations

import ast

from hypothesis import settings

from tests.house.source_tree import ROOT


def deadlines(source: str) -> list[int]:
    """The lines on which a call is given a deadline."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword)]
    return [
        word.value.lineno
        for word in found
        if word.arg == "deadline"
        and not (isinstance(word.value, ast.Constant) and word.value.value is None)
    ]


def test_the_profile_has_no_deadline() -> None:
    assert settings().deadline is None


def test_no_property_has_a_deadline() -> None:
    files = [path for folder in ("tests", "src") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 500
    found = {str(path.relative_to(ROOT)): deadlines(path.read_text("utf-8")) for path in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_deadline_is_found() -> None:
    assert deadlines("@settings(max_examples=3, deadline=200)\ndef f(): ...") == [1]
    assert deadlines("settings(\n  deadline=timedelta(1))") == [2]
    assert deadlines("settings(deadline=None)") == []
