"""The cache in front of a store, in each way it can be used, against the suite every store passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.stores.conftest import CALLS_AND_CACHES, EVERY_CASE
from tests.stores.redis_server import PATIENCE, ServerCluster, closed_port, shared_url
from turnfold.stores import SqliteStore, Store
from turnfold.stores.redis.cache import CachedStore
from turnfold.testing import StoreConformance
from turnfold.tokens import TokenCounter

Time = Callable[[], int]


class CachedConformance(StoreConformance):
    """Every case, with a cache in front; what differs is below."""

    examples = 5
    on_disk: ClassVar[bool] = False
    cluster: ClassVar[bool] = False

    def url(self) -> str:
        return shared_url()

    def open_store(
        self, place: Path, *, counter: TokenCounter | None = None, clock: Time | None = None
    ) -> Store:
        path = place if self.on_disk else None
        inner = SqliteStore(path, counter=counter, clock=clock, blocking=self.blocking)
        return CachedStore(
            inner,
            self.url(),
            blocking=self.blocking,
            cluster=self.cluster,
            timeout_seconds=PATIENCE,
        )


class TestCached(CachedConformance):
    twin = EVERY_CASE


class TestCachedBlocking(CachedConformance):
    twin = CALLS_AND_CACHES
    blocking = True


class TestCachedWithoutServer(CachedConformance):
    """Nothing listens: the same answers, without one error."""

    twin = CALLS_AND_CACHES
    blocking = True
    examples = 2
    _port = closed_port()

    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"


@pytest.mark.slow
class TestCachedOnDisk(CachedConformance):
    on_disk = True


@pytest.mark.slow
class TestCachedOnDiskBlocking(TestCachedOnDisk):
    blocking = True


_cluster: list[ServerCluster] = []


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[None]:
    """A real cluster for as long as this module needs one."""
    _cluster.append(ServerCluster())
    try:
        yield
    finally:
        _cluster.pop().stop()


@pytest.mark.slow
@pytest.mark.usefixtures("three_nodes")
class TestCachedByCluster(CachedConformance):
    cluster = True

    def url(self) -> str:
        return _cluster[0].url


@pytest.mark.slow
@pytest.mark.usefixtures("three_nodes")
class TestCachedByClusterBlocking(TestCachedByCluster):
    blocking = True
