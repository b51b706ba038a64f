"""Stores with one fault each, and for each the cases that must notice. Run by test_conformance_bites.py only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from turnfold.errors import Conflict, ConversationDeleted, IdReused
from turnfold.records import Checkpoint, Document, Entry, Message, NewEntry
from turnfold.stores import (
    Appended,
    ConversationInfo,
    ConversationOpening,
    Erasure,
    MemoryStore,
    Piece,
    Restored,
    Scope,
    SqliteStore,
    Store,
    View,
    Written,
)
from turnfold.stores.log_semantics import Row, check_version
from turnfold.stores.memory_store import _Conversation
from turnfold.stores.sqlite.statements import SqliteConversation
from turnfold.stores.sqlite.write_queue import Connection
from turnfold.testing import StoreConformance
from turnfold.text import TERMS_MADE_BY
from turnfold.tokens import TokenCounter


class Sabotaged(StoreConformance):
    """The suite on a store with a fault."""

    examples = 50
    Broken: ClassVar[type[MemoryStore | SqliteStore]]
    bitten_by: ClassVar[tuple[str, ...]]

    def open_store(
        self,
        place: Path,
        *,
        counter: TokenCounter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Store:
        if issubclass(self.Broken, SqliteStore):
            return self.Broken(place, counter=counter, clock=clock)
        return self.Broken(counter=counter, clock=clock)


class TestDoublesOnRetry(Sabotaged):
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
            if done.repeated:
                await super().append(
                    scope, conversation, [replace(e, client_id="") for e in entries]
                )
            return done

    bitten_by = (
        "test_a_retry_returns_the_first_result",
        "test_a_retry_changes_nothing_at_all",
        "test_concurrent_retries_store_one_batch",
    )


class TestLetsOthersOvertake(Sabotaged):
    class Broken(MemoryStore):
        async def append(
            self,
            scope: Scope,
            conversation: str,
            entries: Sequence[NewEntry],
            *,
            expect: int | None = None,
        ) -> Appended:
            if len(entries[0].message.text) == 1:
                await asyncio.sleep(0)
            return await super().append(scope, conversation, entries, expect=expect)

    bitten_by = ("test_appends_that_nobody_waits_for_are_stored_as_asked",)


class TestLosesTheSecondEntry(Sabotaged):
    class Broken(MemoryStore):
        def _add_rows(self, record: _Conversation, rows: list[Row]) -> None:
            super()._add_rows(record, rows[:1])

    bitten_by = (
        "test_seqs_are_dense_across_batches",
        "test_a_batch_keeps_its_order",
        "test_many_writers_of_one_conversation",
        "test_any_calls_give_the_answers_of_the_reference",
    )


class TestIgnoresTheExpectation(Sabotaged):
    class Broken(MemoryStore):
        async def append(
            self,
            scope: Scope,
            conversation: str,
            entries: Sequence[NewEntry],
            *,
            expect: int | None = None,
        ) -> Appended:
            del expect
            return await super().append(scope, conversation, entries)

    bitten_by = (
        "test_any_other_expectation_is_a_conflict[0]",
        "test_a_conflict_leaves_no_trace_of_an_unknown_conversation",
        "test_of_writers_who_expect_the_same_one_wins",
    )


class TestListsEveryTenant(Sabotaged):
    class Broken(MemoryStore):
        async def conversations(
            self, scope: Scope, *, after: str = "", limit: int = 100
        ) -> list[ConversationInfo]:
            tenants = {scope.tenant} | {tenant for tenant, _ in self._conversations}
            found = [
                await super(TestListsEveryTenant.Broken, self).conversations(
                    Scope(tenant), after=after
                )
                for tenant in sorted(tenants)
            ]
            return [info for infos in found for info in infos][:limit]

    bitten_by = (
        "test_only_the_scope_is_listed",
        "test_a_new_tenant_sees_nothing",
        "test_any_activity_of_others_changes_no_answer",
    )


class TestFindsInEveryTenant(Sabotaged):
    class Broken(MemoryStore):
        async def find(
            self, scope: Scope, conversation: str, client_ids: Sequence[str]
        ) -> list[Entry]:
            for tenant, name in sorted(self._conversations):
                if name == conversation:
                    scope = Scope(tenant)
            return await super().find(scope, conversation, client_ids)

    bitten_by = (
        "test_ids_are_found_in_their_own_conversation_only",
        "test_an_answer_is_the_same_as_if_one_were_alone[find]",
    )


class TestBringsBackTheDeleted(Sabotaged):
    class Broken(MemoryStore):
        async def append(
            self,
            scope: Scope,
            conversation: str,
            entries: Sequence[NewEntry],
            *,
            expect: int | None = None,
        ) -> Appended:
            try:
                return await super().append(scope, conversation, entries, expect=expect)
            except ConversationDeleted:
                del self._conversations[scope.tenant, conversation]
                return await super().append(scope, conversation, entries, expect=expect)

    bitten_by = (
        "test_every_writing_verb_is_refused[append-filled]",
        "test_a_late_retry_is_refused",
        "test_a_racing_writer_never_brings_it_back",
    )


class TestKeepsDocumentsOfTheDeleted(Sabotaged):
    class Broken(MemoryStore):
        async def delete(self, scope: Scope, conversation: str) -> Erasure:
            kept = self._find(scope, conversation).documents
            erasure = await super().delete(scope, conversation)
            self._conversations[scope.tenant, conversation].documents.update(kept)
            return erasure

    bitten_by = (
        "test_no_verb_shows_anything_of_it[documents]",
        "test_no_verb_shows_anything_of_it[get_document]",
        "test_deleting_twice_says_so",
    )


class TestTailOverBudget(Sabotaged):
    class Broken(MemoryStore):
        async def tail(
            self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
        ) -> list[Entry]:
            return await super().tail(scope, conversation, tokens=tokens + 1, messages=messages)

    bitten_by = (
        "test_the_tail_is_the_longest_that_fits[3-0]",
        "test_both_limits_hold[3-2-0]",
        "test_any_tail_is_exact",
    )


class TestTailUnderBudget(Sabotaged):
    class Broken(MemoryStore):
        async def tail(
            self, scope: Scope, conversation: str, *, tokens: int, messages: int = 0
        ) -> list[Entry]:
            return await super().tail(
                scope, conversation, tokens=max(tokens - 1, 0), messages=messages
            )

    bitten_by = ("test_the_tail_is_the_longest_that_fits[4-1]", "test_any_tail_is_exact")


class TestNumbersWithGaps(Sabotaged):
    class Broken(MemoryStore):
        def _add_rows(self, record: _Conversation, rows: list[Row]) -> None:
            gap = bool(record.rows)
            super()._add_rows(record, [row._replace(seq=row.seq + gap) for row in rows])

    bitten_by = (
        "test_seqs_are_dense_across_batches",
        "test_many_writers_of_one_conversation",
        "test_any_calls_give_the_answers_of_the_reference",
    )


class TestCheckpointsWithoutComparing(Sabotaged):
    class Broken(MemoryStore):
        async def add_checkpoint(
            self, scope: Scope, conversation: str, checkpoint: Checkpoint, **fences: Any
        ) -> Checkpoint:
            live = (await self.head(scope, conversation)).checkpoint
            return await super().add_checkpoint(
                scope, conversation, replace(checkpoint, previous=live), **fences
            )

    bitten_by = (
        "test_any_other_predecessor_is_a_conflict[s1]",
        "test_the_first_has_no_predecessor",
        "test_of_racing_checkpoints_one_wins",
    )


class TestDocumentsComparedTooEarly(Sabotaged):
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
            known = await self.get_document(scope, conversation, document.kind, document.key)
            check_version(expect, known.version if known else 0, document.kind, document.key)
            await asyncio.sleep(0)
            return await super().put_document(scope, conversation, document, **fences)

    bitten_by = ("test_of_racing_documents_one_wins_each_version",)


class TestWritesEntryByEntry(Sabotaged):
    class Broken(MemoryStore):
        async def append(
            self,
            scope: Scope,
            conversation: str,
            entries: Sequence[NewEntry],
            *,
            expect: int | None = None,
        ) -> Appended:
            done: list[Appended] = []
            for entry in entries:
                done.append(await super().append(scope, conversation, [entry], expect=expect))
                expect = None
                await asyncio.sleep(0)
            return replace(done[-1], first=done[0].first)

    bitten_by = (
        "test_readers_see_whole_batches_only",
        "test_many_writers_of_one_conversation",
        "test_a_cancelled_append_is_whole_or_absent[2]",
        "test_a_batch_known_in_part_is_refused[xa]",
    )


class TestStoresWhatIsNewOfARefusedBatch(Sabotaged):
    class Broken(MemoryStore):
        async def append(
            self,
            scope: Scope,
            conversation: str,
            entries: Sequence[NewEntry],
            *,
            expect: int | None = None,
        ) -> Appended:
            try:
                return await super().append(scope, conversation, entries, expect=expect)
            except IdReused:
                known = self._find(scope, conversation).by_id
                for entry in entries:
                    if entry.client_id not in known:
                        await super().append(scope, conversation, [entry])
                raise

    bitten_by = (
        "test_a_batch_known_in_part_is_refused[ax]",
        "test_a_refused_batch_reserves_no_id",
    )


class TestReadsOneTooMany(Sabotaged):
    class Broken(MemoryStore):
        async def read(
            self,
            scope: Scope,
            conversation: str,
            *,
            after: int = 0,
            upto: int | None = None,
            limit: int = 1000,
        ) -> list[Entry]:
            return await super().read(
                scope, conversation, after=max(after - 1, 0), upto=upto, limit=limit
            )

    bitten_by = ("test_a_range_is_what_lies_after_and_up_to[3-4-1000-expected4]",)


class TestGenerationStandsStill(Sabotaged):
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
            stored = await super().put_document(
                scope, conversation, document, expect=expect, **fences
            )
            record = self._conversations[scope.tenant, conversation]
            record.head = replace(record.head, generation=max(record.head.generation - 1, 1))
            return stored

    bitten_by = (
        "test_it_grows_with_every_change[put_document]",
        "test_it_never_returns_to_an_earlier_value",
    )


class TestViewsTwoMoments(Sabotaged):
    class Broken(MemoryStore):
        async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
            head = await self.head(scope, conversation)
            await asyncio.sleep(0)
            return replace(await super().view(scope, conversation, kinds), head=head)

    bitten_by = ("test_a_view_is_of_one_moment",)


class TestServesAfterClosing(Sabotaged):
    class Broken(MemoryStore):
        async def close(self) -> None:
            pass

    bitten_by = (
        "test_a_closed_store_is_unavailable[append]",
        "test_a_closed_store_says_that_it_is_not_well",
    )


class TestErasesRowsButNotBytes(Sabotaged):
    class Broken(SqliteStore):
        async def delete(self, scope: Scope, conversation: str) -> Erasure:
            scrub = self._engine.scrub

            async def nothing(*, rebuild: bool = False) -> None:
                pass

            self._engine.scrub = nothing
            try:
                return await super().delete(scope, conversation)
            finally:
                self._engine.scrub = scrub

    bitten_by = ("test_no_file_holds_what_was_said[while open]",)


class TestNeverRecounts(Sabotaged):
    class Broken(SqliteStore):
        def _recount(
            self, connection: Connection, tenant: str, conversation: str, record: SqliteConversation
        ) -> None:
            pass

    bitten_by = ("test_a_tail_recounts", "test_an_append_recounts")


class TestRestoresUntilItFails(Sabotaged):
    class Broken(MemoryStore):
        async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
            done, part = Restored(), list[Piece]()
            for piece in pieces:
                if isinstance(piece, ConversationOpening):
                    done = await super().restore(scope, part)
                    part = []
                part.append(piece)
            await super().restore(scope, part)
            return done

    bitten_by = (
        "test_a_stream_that_breaks_off_leaves_no_trace",
        "test_an_erased_conversation_stays_erased",
        "test_a_client_id_names_one_entry[501]",
    )


class TestTakesAnythingForTheSame(Sabotaged):
    class Broken(MemoryStore):
        async def restore(self, scope: Scope, pieces: Iterable[Piece]) -> Restored:
            kept, skipped = list[Piece](), False
            for piece in pieces:
                if isinstance(piece, ConversationOpening):
                    skipped = (scope.tenant, piece.conversation) in self._conversations
                if not skipped:
                    kept.append(piece)
            return await super().restore(scope, kept)

    bitten_by = (
        "test_another_conversation_of_that_name_is_a_conflict[message]",
        "test_a_shorter_one_is_a_conflict[shorter0-2 checkpoints in the store, 1 in the file]",
        "test_a_longer_one_is_a_conflict",
        "test_an_erased_conversation_stays_erased",
    )


class TestVersionsRestart(Sabotaged):
    class Broken(MemoryStore):
        async def drop_document(
            self, scope: Scope, conversation: str, kind: str, key: str, *, expect: int | None = None
        ) -> bool:
            done = await super().drop_document(scope, conversation, kind, key, expect=expect)
            self._find(scope, conversation).dropped = 0
            return done

    bitten_by = ("test_no_version_returns[1]", "test_the_log_goes_on")


class TestRefusesARepeatedCheckpoint(Sabotaged):
    class Broken(MemoryStore):
        async def add_checkpoint(
            self, scope: Scope, conversation: str, checkpoint: Checkpoint, **fences: Any
        ) -> Checkpoint:
            if checkpoint.id in {each.id for each in await self.checkpoints(scope, conversation)}:
                raise Conflict(checkpoint.id)
            return await super().add_checkpoint(scope, conversation, checkpoint, **fences)

    bitten_by = ("test_a_repetition_returns_the_stored_one",)


class TestKeepsTheSummaryOfAnErasedEntry(Sabotaged):
    class Broken(MemoryStore):
        async def erase(
            self, scope: Scope, conversation: str, seq: int, message: Message, **changes: Any
        ) -> Erasure:
            record = self._find(scope, conversation)
            kept, live = list(record.checkpoints), record.head.checkpoint
            done = await super().erase(scope, conversation, seq, message, **changes)
            record.checkpoints[:] = kept
            record.head = replace(record.head, checkpoint=live)
            return done

    bitten_by = ("test_checkpoints_that_cover_it_go_and_earlier_ones_stay",)


class TestKeepsTheEpochsOfAnErasedEntry(Sabotaged):
    class Broken(MemoryStore):
        async def erase(
            self, scope: Scope, conversation: str, seq: int, message: Message, **changes: Any
        ) -> Erasure:
            record = self._find(scope, conversation)
            epochs = [row.epoch for row in record.rows]
            done = await super().erase(scope, conversation, seq, message, **changes)
            record.rows[:] = [
                row._replace(epoch=epoch) for row, epoch in zip(record.rows, epochs, strict=True)
            ]
            return done

    bitten_by = (
        "test_a_summary_of_the_old_text_is_refused[the entry]",
        "test_a_summary_of_the_old_text_is_refused[a later entry]",
        "test_every_reader_can_tell",
    )


class TestKeepsTheCostsOfAnErasedEntry(Sabotaged):
    class Broken(MemoryStore):
        def _replace_row(self, record: _Conversation, seq: int, body: bytes) -> None:
            old = record.rows[seq - 1]
            super()._replace_row(record, seq, body)
            record.rows[seq - 1] = record.rows[seq - 1]._replace(tokens=old.tokens)

    bitten_by = ("test_costs_are_those_of_the_new_message",)


class TestErasesBeforeItLooksAtTheDocuments(Sabotaged):
    class Broken(MemoryStore):
        async def erase(
            self, scope: Scope, conversation: str, seq: int, message: Message, **changes: Any
        ) -> Erasure:
            await super().erase(scope, conversation, seq, message)
            return await super().erase(scope, conversation, seq, message, **changes)

    bitten_by = ("test_documents_change_with_it_or_nothing_does",)


class TestLeavesAnErasedEntryInTheIndex(Sabotaged):
    class Broken(SqliteStore):
        async def erase(
            self, scope: Scope, conversation: str, seq: int, message: Message, **changes: Any
        ) -> Erasure:
            def unindexed(connection: Connection) -> int:
                connection.execute("UPDATE conversation SET indexed_by = ''")
                return 0

            def indexed(connection: Connection) -> int:
                connection.execute("UPDATE conversation SET indexed_by = ?", (TERMS_MADE_BY,))
                return 0

            await self._engine.write(unindexed)
            done = await super().erase(scope, conversation, seq, message, **changes)
            await self._engine.write(indexed)
            return done

    bitten_by = ("test_a_search_finds_the_new_message_only[indexed]",)
