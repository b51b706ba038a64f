"""The rules of doc_claims.py see what they are for, and let ordinary text pass."""

from __future__ import annotations

import pytest

from tests.house.doc_claims import (
    command_faults,
    exists,
    missing_commands,
    missing_imports,
    missing_names,
    missing_paths,
    missing_tests,
)


@pytest.mark.parametrize(
    ("dotted", "there"),
    [
        ("turnfold.window", True),
        ("turnfold.window.assembly", True),
        ("turnfold.Memory", True),
        ("turnfold.memory.AsyncSession.context", True),
        ("turnfold.memory.AsyncSession.content", False),
        ("turnfold.windows", False),
        ("turnfold.window.assembled", False),
        ("turnfold.wire.anthropic", True),
    ],
)
def test_a_name_exists_or_not(dotted: str, *, there: bool) -> None:
    assert exists(dotted) is there


def test_the_rules_see_what_is_not_there() -> None:
    assert missing_names("use `turnfold.memori.Memory` or `turnfold.Memory`") == [
        "turnfold.memori.Memory"
    ]
    assert missing_paths("`tests/house/test_gone.py` `tests/house/test_docs.py` `tests/`") == [
        "tests/house/test_gone.py"
    ]
    here = "test_the_rules_see_what_is_not_there"
    assert missing_tests(f"`{here}` `test_nobody_wrote` test_prose") == ["test_nobody_wrote"]
    code = "```py\nfrom turnfold import Memory, Memoir\nimport turnfold.wires\nimport openai\n```\n"
    assert missing_imports(code) == ["turnfold.Memoir", "turnfold.wires"]


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("turnfold demo --budget 4000", 0),
        ("turnfold lint FILE --mend PATH # a comment", 0),
        ("turnfold dance", 1),
        ("turnfold demo --bugdet 4000", 1),
        ("turnfold tokens create web --tenant a --file t", 0),
        ("turnfold tokens forge web", 1),
        ("turnfold", 0),
    ],
)
def test_the_rule_sees_a_command_that_is_not_there(line: str, faults: int) -> None:
    assert len(command_faults(line)) == faults
    assert len(missing_commands(f"```sh\n{line}\n```\n")) == faults
    assert len(missing_commands(f"see `{line}`")) == faults
