"""What a module offers is written down in it: a sorted tuple `__all__` whose names all exist."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from types import ModuleType

import pytest

import turnfold
from tests.house.source_tree import PACKAGE, module_name, python_files
from turnfold.errors import MissingExtra

# __main__ is left out: importing it runs the command.
MODULES = [module_name(path) for path in python_files(PACKAGE) if path.stem != "__main__"]

NOT_INSTALLED = {
    "agent-framework",
    "claude-agent-sdk",
    "google-adk",
    "litellm",
    "llama-index",
    "strands",
}
"""Extras that have an environment of their own."""


def export_order(name: str) -> tuple[int, list[str | int]]:
    """Constants, classes, functions; by name within each, 2 before 10: the order ruff writes."""
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def export_problems(module: ModuleType) -> list[str]:
    """What is wrong with the `__all__` of a module; reads every name, so lazy ones are loaded."""
    exported = vars(module).get("__all__")
    if not isinstance(exported, tuple):
        return [f"{module.__name__}.__all__ is {type(exported).__name__}, not a tuple"]
    problems: list[str] = []
    if list(exported) != sorted(set(exported), key=export_order):
        problems.append(f"{module.__name__}.__all__ is not sorted, or names something twice")
    problems += [
        f"{module.__name__}.__all__ names {name}, which does not exist"
        for name in exported
        if not hasattr(module, name)
    ]
    return problems


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_offers(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except MissingExtra as missing:
        if missing.extra not in NOT_INSTALLED:
            raise
        pytest.skip(str(missing))
    assert export_problems(module) == []


def test_everything_the_package_offers_can_be_imported_by_name() -> None:
    assert len(turnfold.__all__) > 0
    for name in turnfold.__all__:
        namespace: dict[str, object] = {}
        exec(f"from turnfold import {name}", namespace)  # noqa: S102 - the statement a user writes
        assert name in namespace


def test_dir_shows_what_the_package_offers() -> None:
    assert set(turnfold.__all__) <= set(dir(turnfold))


BARE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "turnfold", "apsw", "msgspec", "splintr"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from turnfold import *
import turnfold
names = set(globals())
print(*sorted(set(turnfold.__all__) - names))
print(*sorted(set(dir(turnfold)) - names - {"__version__"}))
"""


def test_a_star_import_works_without_any_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BARE], capture_output=True, check=False, encoding="utf-8"
    )
    assert done.stderr == ""
    imported, by_name = done.stdout.split("\n")[:2]
    assert imported == ""
    assert by_name.split() == [  # clients that need an extra: listed, and imported by name only
        "Anthropic",
        "AsyncRemoteMemory",
        "OpenAIChat",
        "OpenAIResponses",
        "RemoteMemory",
    ]


@pytest.mark.parametrize(
    ("exported", "fault"),
    [
        (None, "is NoneType, not a tuple"),
        (["alpha", "beta"], "is list, not a tuple"),
        (("beta", "alpha"), "is not sorted"),
        (("alpha", "LIMIT"), "is not sorted"),
        (("Alpha10", "Alpha2"), "is not sorted"),
        (("alpha", "alpha"), "names something twice"),
        (("alpha", "gamma"), "names gamma, which does not exist"),
    ],
)
def test_the_rule_sees_a_bad_module(exported: object, fault: str) -> None:
    module = ModuleType("sample")
    vars(module).update(alpha=1, beta=2, LIMIT=3, Alpha2=4, Alpha10=5)
    good = ("LIMIT", "Alpha2", "Alpha10", "alpha", "beta")
    assert export_problems_with(module, good) == []
    [problem] = export_problems_with(module, exported)
    assert fault in problem


def export_problems_with(module: ModuleType, exported: object) -> list[str]:
    """The problems of the module once its `__all__` is the given value."""
    vars(module)["__all__"] = exported
    return export_problems(module)


KEPT = (
    "Agent AgentMemory AsyncMemory Budget Checkpoint Conflict ContentChunk Entry Memory MemoryModule Message "
    "MessageMemory MessageMemoryConfig Session ShortMemory SummaryTokenMemory TokenMemory TruncateStrategy "
    "TurnfoldError assistant shutdown_token_executor system tool user"
).split()
"""Names that programs and the documents import from turnfold itself."""
MOST_NAMES = 42
"""More would not be read: a value type that few programs build is in its package."""


def test_the_front_page_is_short_and_holds_what_programs_import() -> None:
    assert set(KEPT) <= set(turnfold.__all__)
    assert len(turnfold.__all__) <= MOST_NAMES


@pytest.mark.parametrize(
    "name",
    "window.Context window.Receipt records.Finding records.Snapshot findings.FindingRule stores.Scope "
    "stores.open_store tokens.counter_for inspect.simulate models.LocalEmbedder errors.MissingExtra "
    "errors.UnknownModel agent.Agent testing.ScriptedModel "
    "adapters.langchain.TurnfoldSaver wire.openai_chat.request".split(),
)
def test_other_names_are_in_their_packages(name: str) -> None:
    module, _, last = f"turnfold.{name}".rpartition(".")
    assert hasattr(importlib.import_module(module), last)
    if last != "Agent":
        assert last not in turnfold.__all__


PACKAGES = sorted(
    path.parent.name
    for path in PACKAGE.glob("*/__init__.py")
    if not path.parent.name.startswith("_")
)
EVERY_PACKAGE = """
import sys, turnfold
for name in sys.argv[1:]:
    vars(turnfold).pop(name, None)  # where the import of an earlier package has set it
    module = getattr(turnfold, name)
    print(name, module.__name__, all(hasattr(module, each) for each in module.__all__))
"""


def test_every_package_is_an_attribute_of_turnfold() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", EVERY_PACKAGE, *PACKAGES],
        capture_output=True,
        check=False,
        text=True,
    )
    assert shown.stderr == ""
    assert shown.stdout.splitlines() == [f"{name} turnfold.{name} True" for name in PACKAGES]
    assert {"adapters", "agent", "memory", "wire"} <= set(PACKAGES)


def test_a_type_checker_knows_every_package() -> None:
    """The imports under TYPE_CHECKING are what it reads; programs reach the packages without them."""
    source = (PACKAGE / "__init__.py").read_text("utf-8")
    known = re.findall(r"^    from turnfold import (\w+) as \1$", source, re.MULTILINE)
    assert known == sorted({*PACKAGES, "budget", "errors"} - {"cli"})  # a program calls no command


@pytest.mark.parametrize(
    "expression",
    [
        "turnfold.wire.openai_chat.request",
        "turnfold.agent.Agent",
        "turnfold.Agent",
        "turnfold.testing.ScriptedModel",
        "turnfold.adapters.langchain.TurnfoldSaver",
    ],
)
def test_one_import_reaches_what_lies_inside_a_package(expression: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", f"import turnfold; print({expression}.__name__)"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert shown.stdout == f"{expression.rpartition('.')[2]}\n"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = getattr(turnfold, "nothing")  # noqa: B009 - a checker knows that it does not exist
