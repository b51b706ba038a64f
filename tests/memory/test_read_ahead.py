"""What a turn said is read for the next fold when its answer is sent; the fold shows the same and reads no more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from turnfold import AsyncMemory, Budget
from turnfold.fold import extract, extract_summary, passages_of
from turnfold.fold import summary_input as reading
from turnfold.fold.facts import find_hits
from turnfold.memory import read_ahead, session_rules
from turnfold.memory import session as session_module
from turnfold.memory.recall import Recaller
from turnfold.records import FOLDING, SESSION, Message, ToolCall, assistant, tool, user
from turnfold.rules import extract_rules
from turnfold.stores import MemoryStore
from turnfold.window import Context


def _turn(number: int) -> list[Message]:
    call = ToolCall(f"c{number}", "look", f'{{"path": "/srv/rates/day{number}.py"}}')
    return [
        user(f"Order {number * 31} kg of slate by 2026-03-{number + 1:02}. Never call the yard."),
        assistant(None, tool_calls=[call]),
        tool(f"Batch B-{number * 17} weighs {number * 31} kg.\nGate {number} is open.", tool_call_id=call.id),
        assistant(f"Batch B-{number * 17} is booked as R-{number * 53}. It leaves from gate {number}."),
    ]  # fmt: skip


class _Read:
    """What was read of the messages, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []

        def hits(text: str, kind: Any) -> Sequence[object]:
            self.texts.append(text)
            return find_hits(text, kind)

        def rules(text: str, **options: Any) -> Sequence[object]:
            self.texts.append(text)
            return extract_rules(text, **options)

        monkeypatch.setattr(reading, "find_hits", hits)
        monkeypatch.setattr(session_rules, "extract_rules", rules)


async def _played(read: _Read, *, ahead: bool) -> tuple[list[Context], list[str]]:
    """Every context up to the first fold, and what was read for the last of them."""
    shown: list[Context] = []
    memory = AsyncMemory(
        MemoryStore(clock=lambda: 1), model="gpt-4o", budget=Budget(max_tokens=900), fold="inline"
    )
    async with memory:
        session = memory.session("s")
        for number in range(30):
            asked, *steps = _turn(number)
            await session.add(asked)
            read.texts.clear()
            shown.append(await session.context())
            if await session.checkpoints():
                return shown, [*read.texts]
            for step in steps:
                await session.add(step)
            await session.context()
            if ahead:
                await read_ahead(session)
    raise AssertionError("nothing was folded")


def test_a_fold_reads_nothing_that_was_read_when_the_turn_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = _Read(monkeypatch)
    plain, late = asyncio.run(_played(read, ahead=False))
    early, left = asyncio.run(_played(read, ahead=True))
    assert [each.messages for each in early] == [each.messages for each in plain]
    first = [said for message in _turn(0) for said in message.text.splitlines()]
    assert any(text in said for said in first for text in late)
    question = early[-1].messages[-1].text
    # Lines of the new summary begin with a speaker, and are read to check it.
    told = [text for text in left if text in "\n".join(m.text for n in range(30) for m in _turn(n))]
    assert {text for text in told if text not in question} <= _sentences_of_summary(early[-1])
    assert len(left) < len(late) / 2


def _sentences_of_summary(context: Context) -> set[str]:
    shown = "\n".join(message.text for message in context.messages[:-1])
    return {each.text for each in reading.split_sentences(shown)}


def test_messages_are_read_ahead_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = _Read(monkeypatch)
    given: list[int] = []

    def noting(messages: Sequence[Message]) -> object:
        given.append(len(messages))
        return passages_of(messages)

    monkeypatch.setattr(session_module, "passages_of", noting)

    async def played() -> None:
        async with AsyncMemory(MemoryStore(), budget=Budget(max_tokens=9_000)) as memory:
            session = memory.session("s")
            await read_ahead(session)  # before its first context there is nothing
            assert read.texts == []
            await session.add(_turn(1))
            await session.context()
            await read_ahead(session)
            assert len(read.texts) > 5
            read.texts.clear()
            await session.add(_turn(2))
            await session.context()
            await read_ahead(session)
            assert read.texts
            assert not any("31 kg of slate by 2026-03-02" in text for text in read.texts)
            await read_ahead(session)

    asyncio.run(played())
    assert given == [4, 4, 0]


def test_what_was_read_counts_as_memory_of_the_session() -> None:
    async def played() -> tuple[int, int]:
        async with AsyncMemory(MemoryStore(), budget=Budget(max_tokens=9_000)) as memory:
            session = memory.session("s")
            await session.add(_turn(1))
            await session.context()
            before = session.held_bytes
            await read_ahead(session)
            return before, session.held_bytes

    before, after = asyncio.run(played())
    said = sum(len(message.text) for message in _turn(1))
    assert after - before >= 20 * said


def test_both_drafts_of_an_extract_read_a_sentence_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []
    form_of = extract.form_of

    def noting(sentence: Any, *args: Any, **options: Any) -> object:
        seen.append((sentence.text, options["tool"]))
        return form_of(sentence, *args, **options)

    monkeypatch.setattr(extract, "form_of", noting)
    messages = [message for number in range(8) for message in _turn(number)]
    summary = extract_summary(passages_of(messages), limit=120, count=lambda text: len(text) // 4)
    assert "B-" in summary
    assert len(seen) == len(set(seen)) > 30


def test_a_question_that_folds_is_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    passages = Recaller.passages

    async def noting(self: Recaller, *args: Any, **options: Any) -> Any:
        found = await passages(self, *args, **options)
        searched.append(options["before"])
        return found

    monkeypatch.setattr(Recaller, "passages", noting)

    async def played() -> int:
        memory = AsyncMemory(
            MemoryStore(), model="gpt-4o", budget=Budget(max_tokens=900), fold="inline"
        )
        folds = 0
        async with memory:
            session = memory.session("s")
            for number in range(30):
                asked, *steps = _turn(number)
                await session.add(asked)
                searched.clear()
                await session.context()
                made = len(await session.checkpoints())
                if made > folds > 0:
                    assert len(searched) == 1, f"searched {len(searched)} times"
                folds = made
                await session.add(steps)
            document = await session.store.get_document(session.scope, "s", SESSION, FOLDING)
            assert document is None, "an extract asks no model, so it needs no lease"
        return folds

    assert asyncio.run(played()) > 3
