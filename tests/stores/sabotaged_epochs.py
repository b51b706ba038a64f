"""Stores that tell one history from another badly, each in its way, and the cases that must notice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.stores.sabotaged import Sabotaged
from turnfold.records import Document, NewEntry
from turnfold.stores import Appended, MemoryStore, Scope, State, Written
from turnfold.stores.memory_store import _Conversation


class TestEpochIsMadeOfTheGeneration(Sabotaged):
    class Broken(MemoryStore):
        def _touch(
            self, record: _Conversation, *, checkpoint: str | None = None, epoch: int = 0
        ) -> None:
            del epoch
            made = record.head.generation + 1
            super()._touch(record, checkpoint=checkpoint, epoch=made)

    bitten_by = (
        "test_the_same_calls_elsewhere_draw_others[append]",
        "test_the_same_calls_elsewhere_draw_others[note]",
    )


class TestDrawsOneEpochForAll(Sabotaged):
    class Broken(MemoryStore):
        def _touch(
            self, record: _Conversation, *, checkpoint: str | None = None, epoch: int = 0
        ) -> None:
            super()._touch(record, checkpoint=checkpoint, epoch=record.head.epoch or epoch)

    bitten_by = (
        "test_every_change_draws_an_epoch[append]",
        "test_every_change_draws_an_epoch[drop_document]",
        "test_every_change_draws_an_epoch[add_checkpoint]",
        "test_every_write_follows_the_one_before",
    )


class TestNotesByGenerationAlone(Sabotaged):
    class Broken(MemoryStore):
        async def note(
            self, scope: Scope, conversation: str, document: Document, *, state: State
        ) -> State:
            head = await self.head(scope, conversation)
            state = head.state if head.generation == state[0] else state
            return await super().note(scope, conversation, document, state=state)

    bitten_by = ("test_the_same_generation_of_another_history_is_a_conflict",)


class TestSaysAStateItDidNotFollow(Sabotaged):
    class Broken(MemoryStore):
        async def put_document(
            self,
            scope: Scope,
            conversation: str,
            document: Document,
            *,
            expect: int | None = None,
            **fences: Any,
        ) -> Written:
            before = (await self.head(scope, conversation)).state
            await asyncio.sleep(0)  # another writer may come between the look and the write
            put = await super().put_document(scope, conversation, document, expect=expect, **fences)
            return replace(put, before=before)

    bitten_by = ("test_racing_writers_follow_one_another",)


class TestSaysTheStateAfterAsTheOneBefore(Sabotaged):
    class Broken(MemoryStore):
        async def append(
            self,
            scope: Scope,
            conversation: str,
            entries: Sequence[NewEntry],
            *,
            expect: int | None = None,
        ) -> Appended:
            done = await super().append(scope, conversation, entries, expect=expect)
            return replace(done, before=done.head.state)

    bitten_by = (
        "test_every_write_follows_the_one_before",
        "test_racing_writers_follow_one_another",
    )
