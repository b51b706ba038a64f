"""No property fails because the machine is slow: none has a deadline, neither its own nor that of the profile.

Hypothesis also takes five times the deadline for the time that ten examples may take to be drawn: with none it is
half a minute.
"""

from __future__ import annotations

import ast

from hypothesis import Phase, settings

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


def test_the_profile_has_no_deadline_and_no_test_module_has_loaded_another() -> None:
    assert settings().deadline is None
    assert settings.get_current_profile_name() in {"turnfold", "thorough"}
    assert Phase.shrink in settings().phases


def test_no_property_has_a_deadline() -> None:
    files = [path for folder in ("tests", "src") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 500
    sources = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in files}
    suspects = {name: source for name, source in sources.items() if "deadline" in source}
    assert len(suspects) > 5
    found = {name: deadlines(source) for name, source in suspects.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_deadline_is_found() -> None:
    assert deadlines("@settings(max_examples=3, deadline=200)\ndef f(): ...") == [1]
    assert deadlines("settings(\n  deadline=timedelta(1))") == [2]
    assert deadlines("settings(deadline=None)") == []
