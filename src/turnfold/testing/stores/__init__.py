"""Conformance suite of the store protocol: test cases for every guarantee that a store must give.

The author of a store writes one class, which inherits every case:

    class TestMyStore(StoreConformance):
        def open_store(self, place, *, counter=None, clock=None):
            return MyStore(place, counter=counter, clock=clock)

A durable store that is opened again at the same `place` must have its data; two places share nothing. Cases for
abilities that a store does not list in `abilities` are skipped; search is tested for all stores, indexed or not. For a
store with a blocking mode, write a second class with `blocking = True`: it runs the same cases without an event loop
and with threads.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from turnfold.errors import MissingExtra

try:
    import_module("hypothesis")  # needed by the cases; reported here if it is missing
    import pytest
except ImportError as missing:
    raise MissingExtra(
        package=missing.name or "pytest", extra="testing", purpose="the store conformance suite"
    ) from missing

pytest.register_assert_rewrite(  # before they are imported: a failed assertion shows its values
    *(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__))
)

from turnfold.testing.stores.append import (
    AppendCases,
    ExpectCases,
    MessageCases,
    RetryCases,
    ReusedIdCases,
)
from turnfold.testing.stores.change_counters import EpochCases, GenerationCases
from turnfold.testing.stores.checkpoints import (
    CheckpointCases,
    DroppedCheckpointCases,
    SuccessionCases,
)
from turnfold.testing.stores.concurrency import (
    ConcurrencyCases,
    DeletionRaceCases,
    RaceCases,
    SharedCases,
)
from turnfold.testing.stores.deletion import (
    DeleteCases,
    EntryErasureCases,
    ErasureCases,
    TombstoneCases,
)
from turnfold.testing.stores.documents import DocumentCases, NoteCases, VersionCases, ViewCases
from turnfold.testing.stores.lifecycle import CancellationCases, ClosingCases, ReopenCases
from turnfold.testing.stores.listings import DocumentListCases, ListingCases
from turnfold.testing.stores.names import BadNameCases, HostileNameCases, HostileQueryCases
from turnfold.testing.stores.random_operations import MachineCases
from turnfold.testing.stores.reads import (
    CounterCases,
    FindCases,
    RangeCases,
    ReadCases,
    TailCases,
    TurnCases,
)
from turnfold.testing.stores.restore import CaptureCases, RestoreCases, RestoredCases
from turnfold.testing.stores.search import BesideCases, SearchCases, SearchScopeCases, WithinCases
from turnfold.testing.stores.tenants import TenantCases

__all__ = ("StoreConformance",)


class StoreConformance(
    AppendCases,
    ExpectCases,
    RetryCases,
    ReusedIdCases,
    ReadCases,
    RangeCases,
    TurnCases,
    FindCases,
    TailCases,
    CounterCases,
    CheckpointCases,
    SuccessionCases,
    DroppedCheckpointCases,
    DocumentCases,
    VersionCases,
    NoteCases,
    ViewCases,
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
    EntryErasureCases,
    ConcurrencyCases,
    RaceCases,
    DeletionRaceCases,
    SharedCases,
    ClosingCases,
    CancellationCases,
    ReopenCases,
    MachineCases,
):
    """All cases of the suite: subclass it, define `open_store`, and let pytest collect the class."""
