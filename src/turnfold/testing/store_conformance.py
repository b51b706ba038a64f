"""The conformance suite of the store protocol: what turnfold promises about stores, as cases anyone can run.

A backend's author writes one class and gets every case:

    class TestMyStore(StoreConformance):
        def open_store(self, place, *, counter=None, clock=None):
            return MyStore(place, counter=counter, clock=clock)

Opening the same `place` again must give what was left there, for a store that claims to be durable; two places share
nothing. What a backend does not claim in its `abilities` is skipped, never assumed; searching is asked of all, indexed
or not. A store with a blocking mode gets a second class with `blocking = True`: the same cases, driven without an event
loop and raced by threads.
"""

from __future__ import annotations

from turnfold.testing.store_conformance_append import AppendCases, ExpectCases
from turnfold.testing.store_conformance_checkpoints import CheckpointCases, SuccessionCases
from turnfold.testing.store_conformance_concurrency import ConcurrencyCases, SharedCases
from turnfold.testing.store_conformance_delete import DeleteCases, ErasureCases, TombstoneCases
from turnfold.testing.store_conformance_documents import DocumentCases, VersionCases
from turnfold.testing.store_conformance_generation import EpochCases, GenerationCases
from turnfold.testing.store_conformance_life import CancellationCases, ClosingCases, ReopenCases
from turnfold.testing.store_conformance_listing import DocumentListCases, ListingCases
from turnfold.testing.store_conformance_machine import MachineCases
from turnfold.testing.store_conformance_messages import MessageCases
from turnfold.testing.store_conformance_names import BadNameCases, HostileNameCases
from turnfold.testing.store_conformance_notes import NoteCases
from turnfold.testing.store_conformance_queries import HostileQueryCases
from turnfold.testing.store_conformance_races import DeletionRaceCases, RaceCases
from turnfold.testing.store_conformance_read import FindCases, ReadCases, TurnCases
from turnfold.testing.store_conformance_restore import (
    CaptureCases,
    RestoreCases,
    RestoredCases,
)
from turnfold.testing.store_conformance_retry import RetryCases, ReusedIdCases
from turnfold.testing.store_conformance_search import SearchCases, SearchScopeCases
from turnfold.testing.store_conformance_tail import CounterCases, TailCases
from turnfold.testing.store_conformance_tenants import TenantCases
from turnfold.testing.store_conformance_within import BesideCases, WithinCases

__all__ = ("StoreConformance",)


class StoreConformance(
    AppendCases,
    ExpectCases,
    RetryCases,
    ReusedIdCases,
    ReadCases,
    TurnCases,
    FindCases,
    TailCases,
    CounterCases,
    CheckpointCases,
    SuccessionCases,
    DocumentCases,
    VersionCases,
    NoteCases,
    DocumentListCases,
    ListingCases,
    GenerationCases,
    EpochCases,
    SearchCases,
    SearchScopeCases,
    WithinCases,
    BesideCases,
    HostileQueryCases,
    HostileNameCases,
    BadNameCases,
    MessageCases,
    TenantCases,
    CaptureCases,
    RestoreCases,
    RestoredCases,
    DeleteCases,
    TombstoneCases,
    ErasureCases,
    ConcurrencyCases,
    RaceCases,
    DeletionRaceCases,
    SharedCases,
    ClosingCases,
    CancellationCases,
    ReopenCases,
    MachineCases,
):
    """Every case; inherit it, say how your store is opened, and let pytest collect the class."""
