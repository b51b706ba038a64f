"""No log record holds what was said, whatever goes wrong; each has fields that a JSON formatter can use."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house.source_tree import PACKAGE, ROOT, python_files, shown
from turnfold import AsyncMemory, Budget, Memory, SummaryTokenMemory
from turnfold.errors import StoreUnavailable, SummaryFailed
from turnfold.memory import Session
from turnfold.memory.folding import _log as fold_log
from turnfold.records import Document
from turnfold.stores import MemoryStore, Scope, Written, log_mark

CANARY = "金丝雀 canary-7f3a"
PERSON = "alice@example.org"
SMALL = Budget(max_tokens=1_200)
STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def talk(session: Session, turns: int) -> None:
    for number in range(turns):
        session.user(f"{CANARY} {number}: where is order A-{1000 + number}? " * 4)
        session.context()
        session.assistant(f"{CANARY}: order A-{1000 + number} arrives on day {number}.")


def leaks(records: list[logging.LogRecord]) -> list[str]:
    """Where the canary or the person's id can be seen in any part of a record, its fields and its thread included."""
    formatter = logging.Formatter()
    found: list[str] = []
    for record in records:
        seen = f"{formatter.format(record)} {record.__dict__!r}"
        found += [f"{record.name}: {word}" for word in (CANARY, PERSON) if word in seen]
        found += [f"{record.name}: {word!r}" for word in (CANARY[:3],) if word in seen]
    return found


def fields(record: logging.LogRecord) -> dict[str, object]:
    """What a JSON formatter would write besides the message."""
    return {name: value for name, value in vars(record).items() if name not in STANDARD}


def quotes(_prompt: str) -> str:
    raise ValueError(f"the model refused: {CANARY}")


def answers(_prompt: str) -> str:
    return "Orders were asked for."


class Unwell(MemoryStore):
    """A store that fails when the lease for a fold is taken, and says what it was given."""

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        **fences: Any,
    ) -> Written:
        if document.key == "folding":
            raise StoreUnavailable(f"{conversation} {document.body!r} {CANARY}")
        return await super().put_document(scope, conversation, document, expect=expect, **fences)


class Strange(MemoryStore):
    """A store that raises what no store of turnfold raises."""

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        **fences: Any,
    ) -> Written:
        if document.key == "folding":
            raise KeyError(CANARY)
        return await super().put_document(scope, conversation, document, expect=expect, **fences)


class Kept(logging.Handler):
    """Keeps every record it is given."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """Everything any logger says, whatever its level."""
    root, kept = logging.getLogger(), Kept()
    level = root.level
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    yield kept.records
    root.setLevel(level)
    root.removeHandler(kept)


def events(records: list[logging.LogRecord]) -> list[object]:
    ours = [record for record in records if record.name.startswith("turnfold")]
    return [fields(record).get("event") for record in ours]


@pytest.mark.parametrize("mode", ["inline", "background", "manual"])
def test_a_summariser_that_quotes_is_not_quoted(
    mode: str, tmp_path: Path, records: list[logging.LogRecord]
) -> None:
    with Memory(
        f"sqlite:///{tmp_path / 'chat.db'}",
        budget=SMALL,
        summarizer=quotes,
        fold=mode,
        retries=1,
        backoff=0.01,
    ) as memory:
        session = memory.session(PERSON)
        talk(session, 12)
        if mode == "manual":
            with pytest.raises(SummaryFailed):
                session.fold(keep_turns=1)
        memory.drain()
    failed = [record for record in records if fields(record).get("event") == "fold_failed"]
    assert failed
    assert leaks(records) == []
    assert fields(failed[0]) == {
        "event": "fold_failed",
        "conversation": log_mark("default", PERSON),
        "error": "ValueError",
        "attempt": 1,
    }


@pytest.mark.parametrize("store", [Unwell, Strange])
def test_a_store_that_fails_in_the_background_is_told_by_its_kind(
    store: type[MemoryStore], records: list[logging.LogRecord]
) -> None:
    with Memory(store(), budget=SMALL, summarizer=answers, fold="background") as memory:
        talk(memory.session(PERSON), 12)
        memory.drain()
    assert set(events(records)) == {"folding_stopped", "fold_stood_in"}
    assert leaks(records) == []


def test_the_same_with_an_event_loop(records: list[logging.LogRecord]) -> None:
    async def run() -> None:
        async with AsyncMemory(
            Strange(), budget=SMALL, summarizer=answers, fold="background"
        ) as memory:
            session = memory.session(PERSON)
            for number in range(12):
                await session.user(f"{CANARY} {number} " * 12)
                await session.context()
                await asyncio.sleep(
                    0
                )  # the store never waits: let the fold in the background begin
                await session.assistant(CANARY)
            await memory.drain()

    asyncio.run(run(), debug=False)
    assert "folding_stopped" in events(records)
    assert leaks(records) == []


def test_a_recount_and_good_folds_hold_no_content(
    tmp_path: Path, records: list[logging.LogRecord]
) -> None:
    address = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(address, budget=SMALL) as memory:
        talk(memory.session(PERSON), 24)
    with Memory(address, budget=SMALL, model="gpt-4o") as memory:
        session = memory.session(PERSON)
        talk(session, 2)
        assert session.recall(CANARY)
        assert len(session.checkpoints()) > 1
    assert events(records) == ["recounting"]
    assert leaks(records) == []


def test_the_documented_summary_memory_does_not_quote_either(
    records: list[logging.LogRecord],
) -> None:
    class Model:
        async def acompletion(self, messages: list[dict[str, str]]) -> str:
            raise ValueError(messages[0]["content"])

    history = [{"role": "user", "content": f"{CANARY} {number} " * 20} for number in range(60)]
    memory = SummaryTokenMemory("one", model=Model(), max_tokens=600, model_name="gpt-4o")
    asyncio.run(memory.get_history(history))
    assert "summary_failed" in events(records)
    assert leaks(records) == []


def test_every_record_can_be_written_as_json(records: list[logging.LogRecord]) -> None:
    with Memory(Unwell(), budget=SMALL, fold="background") as memory:
        talk(memory.session(PERSON), 12)
        memory.drain()
    for record in records:
        assert json.loads(json.dumps(fields(record))) == fields(record)


def test_the_rule_sees_a_leak(records: list[logging.LogRecord]) -> None:
    fold_log.warning("said %s", CANARY)
    fold_log.warning("said", extra={"text": CANARY})
    try:
        int(PERSON)
    except ValueError:
        fold_log.warning("said", exc_info=True)
    assert len({fault.split(": ")[1] for fault in leaks(records)}) == 3


# ------------------------------------------------------------------------------------------- the source


def log_calls() -> list[tuple[str, ast.Call]]:
    return [
        (f"{shown(path)}:{node.lineno}", node)
        for path in python_files(PACKAGE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "_log"
        and node.func.attr != "debug"
    ]


def test_every_record_has_fields_and_no_error_text() -> None:
    calls = log_calls()
    assert len(calls) >= 10
    bare = [place for place, call in calls if "extra" not in {word.arg for word in call.keywords}]
    assert bare == []
    shown_errors = [
        place
        for place, call in calls
        for value in (*call.args, *(word.value for word in call.keywords))
        if isinstance(value, ast.Name) and value.id in {"error", "failure", "exc"}
    ]
    assert shown_errors == []
    assert not any(word.arg == "exc_info" for _, call in calls for word in call.keywords)


def test_the_documentation_lists_every_event() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("| `event` |")]
    listed = set(re.findall(r"`(\w+)`", row)) - {"event"}
    written = {
        found
        for path in python_files(PACKAGE)
        for found in re.findall(r'(?:"event": |_warn\()"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert written == listed


def test_a_mark_tells_conversations_apart_and_names_none() -> None:
    marks = {log_mark(*pair) for pair in (("a", "bc"), ("ab", "c"), ("a", "c"), ("", "abc"))}
    assert len(marks) == 4
    assert all(re.fullmatch(r"[0-9a-f]{16}", mark) for mark in marks)
    assert log_mark("default", "user-42") == log_mark("default", "user-42")
