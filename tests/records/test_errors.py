"""Errors show the arithmetic and the remedy, and survive the way out of a process."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle

import pytest

from turnfold import errors
from turnfold.errors import (
    BudgetTooSmall,
    InvalidBudget,
    InvalidExport,
    InvalidOption,
    InvalidRecord,
    MissingExtra,
    SummaryFailed,
    TurnfoldError,
    UnknownModel,
)
from turnfold.records import as_message

TOO_SMALL = BudgetTooSmall(
    needed=5_200,
    allowed=4_000,
    parts={"system": 1_200, "newest turn": 4_000},
    remedy="Raise max_tokens",
)
NO_PACKAGE = MissingExtra(package="tiktoken", extra="tiktoken", purpose="the second tokenizer")
NO_PLACE = InvalidRecord("text is missing", path="content[0]", remedy="Add it")
NO_FOOTER = InvalidExport("the file ends before its footer", line=1_204, remedy="Export it again")
EVERY_KIND = [getattr(errors, name) for name in errors.__all__]


def test_a_budget_error_adds_up() -> None:
    assert str(TOO_SMALL) == (
        "mandatory parts need 5,200 tokens (system: 1,200 + newest turn: 4,000) but the budget allows 4,000. "
        "Raise max_tokens"
    )
    assert (TOO_SMALL.needed, TOO_SMALL.allowed, TOO_SMALL.unit) == (5_200, 4_000, "tokens")
    assert TOO_SMALL.parts == {"system": 1_200, "newest turn": 4_000}


def test_a_missing_package_names_what_to_install() -> None:
    assert (
        str(NO_PACKAGE)
        == "the second tokenizer needs the package 'tiktoken': pip install 'turnfold[tiktoken]'"
    )
    assert (NO_PACKAGE.package, NO_PACKAGE.extra, NO_PACKAGE.msg) == (
        "tiktoken",
        "tiktoken",
        str(NO_PACKAGE),
    )


def test_a_fault_is_located_from_outside_in() -> None:
    assert str(NO_PLACE) == "content[0]: text is missing. Add it"
    assert str(NO_PLACE.within("messages[3]")) == "messages[3].content[0]: text is missing. Add it"
    assert NO_PLACE.within("messages[3]").path == "messages[3].content[0]"
    assert str(InvalidRecord("no role").within("messages[3]")) == "messages[3]: no role"
    assert InvalidRecord("x", path="[2].a").within("content").path == "content[2].a"


def test_a_bad_file_is_located_by_its_line() -> None:
    assert str(NO_FOOTER) == "line 1,204: the file ends before its footer. Export it again"
    assert (NO_FOOTER.line, NO_FOOTER.remedy) == (1_204, "Export it again")


def test_a_file_without_lines_names_none() -> None:
    binary = InvalidExport("chat.db cannot be read as SQLite", remedy="Copy it again")
    assert (binary.line, str(binary)) == (0, "chat.db cannot be read as SQLite. Copy it again")


def test_errors_are_what_python_calls_them() -> None:
    for kind in EVERY_KIND:
        assert issubclass(kind, TurnfoldError)
    for kind in (InvalidRecord, InvalidBudget, InvalidExport, InvalidOption):
        assert issubclass(kind, ValueError)
    assert issubclass(UnknownModel, LookupError)
    assert issubclass(MissingExtra, ImportError)
    assert str(UnknownModel("'x' is not known")) == "'x' is not known"


def test_the_docstring_draws_every_error() -> None:
    drawn = inspect.getdoc(errors) or ""
    defined = [name for name, value in vars(errors).items() if inspect.isclass(value)]
    assert sorted(defined) == sorted(errors.__all__)
    for name in defined:
        assert name in drawn


def made(kind: type[TurnfoldError]) -> TurnfoldError:
    by_kind: dict[type[TurnfoldError], TurnfoldError] = {
        BudgetTooSmall: TOO_SMALL,
        InvalidExport: NO_FOOTER,
        InvalidRecord: NO_PLACE,
        MissingExtra: NO_PACKAGE,
    }
    return by_kind.get(kind) or kind("why")


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling_and_copying(kind: type[TurnfoldError]) -> None:
    error = made(kind)
    pickled = [pickle.dumps(error, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    copies = [pickle.loads(data) for data in pickled]  # noqa: S301 - our own bytes
    for again in (*copies, copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
        assert getattr(again, "msg", None) == getattr(error, "msg", None)


def test_a_note_travels_with_the_error() -> None:
    error = SummaryFailed("empty")
    error.add_note("while folding 1-8")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while folding 1-8"]  # noqa: S301 - our own bytes


def fail(kind: str) -> None:
    if kind == "budget":
        raise TOO_SMALL
    as_message({"role": "user", "content": [{"type": "text"}]})


def test_errors_come_back_from_a_worker_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(BudgetTooSmall) as small:
            pool.apply(fail, ("budget",))
        with pytest.raises(InvalidRecord) as invalid:
            pool.apply(fail, ("record",))
    assert small.value.parts == TOO_SMALL.parts
    assert str(invalid.value) == "content[0]: text is missing"
