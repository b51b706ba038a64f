"""`TurnfoldSaver`: stores the checkpoints of LangGraph graphs in any store of turnfold.

It stores the data of LangGraph byte for byte. Every method is written once, as a coroutine. With a blocking store both
forms of LangGraph's interface work (the awaiting one in a thread); with an awaiting store only the awaiting form works.
Data from the store is not trusted, because anybody may have written a row or an imported file: no code that it names is
run, and it cannot use more memory than the limit allows.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from turnfold.adapters._common import HookRunner
from turnfold.adapters.langchain.checkpoints.deletion import (
    ThreadMover,
    newest_of_each,
    without_runs,
)
from turnfold.adapters.langchain.checkpoints.documents import (
    SizeLimit,
    StoredCheckpoint,
    Typed,
    Write,
    Writes,
    checkpoint_key,
    namespace_prefix,
)
from turnfold.adapters.langchain.checkpoints.serializer import AllowedType, Codec, StrictSerializer
from turnfold.adapters.langchain.checkpoints.storage import (
    CheckpointStorage,
    NewCheckpoint,
    ThreadPlace,
    Threads,
)
from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, InvalidRecord
from turnfold.memory import AsyncMemory, Memory
from turnfold.stores import LANGGRAPH_HOMES, Scope, Store

__all__ = ("TurnfoldSaver",)


class ListedCheckpoint(NamedTuple):
    """A checkpoint found by a listing, with its thread and the conversation of the store that holds it."""

    thread: str
    home: str
    stored: StoredCheckpoint


@dataclass(frozen=True, slots=True)
class ListingQuery:
    """Conditions that a checkpoint must meet to be listed."""

    thread: str | None = None
    """The thread to list; None for every thread."""
    namespace: str | None = None
    """The namespace to list; None for every namespace."""
    checkpoint: str | None = None
    before: str | None = None
    metadata: Mapping[str, object] | None = None
    limit: int | None = None

    def matches(
        self,
        stored: StoredCheckpoint,
        metadata_of: Callable[[StoredCheckpoint], Mapping[str, object]],
    ) -> bool:
        """Return True if a checkpoint meets the conditions of the listing; `metadata_of` returns its metadata."""
        if self.namespace is not None and stored.namespace != self.namespace:
            return False
        if self.checkpoint is not None and stored.id != self.checkpoint:
            return False
        if self.before is not None and stored.id >= self.before:
            return False
        if not self.metadata:
            return True
        metadata = metadata_of(stored)
        return all(metadata.get(key) == value for key, value in self.metadata.items())


class CheckpointListing:
    """Lists checkpoints, newest first, page by page; a page is read only when it is requested."""

    def __init__(
        self,
        storage: CheckpointStorage,
        threads: Threads,
        query: ListingQuery,
        metadata_of: Callable[[StoredCheckpoint], Mapping[str, object]],
    ) -> None:
        self._storage, self._threads = storage, threads
        self._query, self._metadata_of = query, metadata_of
        self._remaining = query.limit
        self._home: str | None = None
        self._after: str | None = ""

    async def next_page(self) -> list[ListedCheckpoint]:
        """Return the next page of matching checkpoints; empty when there are no more."""
        while self._after is not None and (self._remaining is None or self._remaining > 0):
            found = [
                one
                for one in await self._page()
                if self._query.matches(one.stored, self._metadata_of)
            ]
            if self._remaining is not None:
                found = found[: self._remaining]
                self._remaining -= len(found)
            if found:
                return found
        return []

    async def _page(self) -> list[ListedCheckpoint]:
        query = self._query
        if query.thread is None or query.namespace is None:
            return await self._all_sorted()
        if self._home is None:
            place, _ = await self._threads.find(query.thread)
            if place is None:
                self._after = None
                return []
            self._home, self._after = place.home, namespace_prefix(query.namespace)
        page = await self._storage.page(self._home, after=self._after or "")
        own = [stored for stored in page if stored.namespace == query.namespace]
        ended = not page or len(own) < len(page)
        self._after = None if ended else checkpoint_key(query.namespace, page[-1].id)
        return [ListedCheckpoint(query.thread, self._home, stored) for stored in own]

    async def _all_sorted(self) -> list[ListedCheckpoint]:
        """Read the checkpoints of all namespaces of the thread, sorted by id, newest first."""
        self._after = None
        places = await self._places()
        found = [
            ListedCheckpoint(place.thread, place.home, stored)
            for place in places
            for stored in await self._storage.all(place.home)
        ]
        return sorted(found, key=lambda one: one.stored.id, reverse=True)

    async def _places(self) -> list[ThreadPlace]:
        if self._query.thread is None:
            return await self._threads.all()
        place, _ = await self._threads.find(self._query.thread)
        return [place] if place is not None else []


_TRIES = 8
"""Attempts to make one write or read; an attempt fails if the thread is moved to another conversation meanwhile."""
_MAX_CHECKPOINT_BYTES = 128 << 20


class TurnfoldSaver(BaseCheckpointSaver[int]):
    """Stores LangGraph checkpoints in the store of a memory, or in a store that is passed.

    A `Memory`, or a store that was opened with `blocking=True`, works with `invoke` and `ainvoke`; an `AsyncMemory`
    only with `ainvoke`. `scope` is the tenant that owns the data, if a store is given; a memory has its own scope.
    Savers with different `name` share nothing.

    Plain values, LangChain's messages and LangGraph's own types can be stored and restored. List the classes of your
    application's state in `allowed_types`, as classes or as (module, name); they are called with the stored content.
    Writing a value of any other type raises `InvalidRecord`. `serde` replaces all of this with your own serializer,
    which then decides what code stored data may run.

    With `seal_key`, a secret of at least 16 bytes that is not kept in the store, only data that was written with this
    key is read. `max_checkpoint_bytes` limits the values of one checkpoint together.
    """

    def __init__(
        self,
        memory: AsyncMemory | Memory | Store,
        *,
        scope: Scope | str = "default",
        name: str = LANGGRAPH_HOMES.name,
        serde: SerializerProtocol | None = None,
        allowed_types: Iterable[AllowedType] = (),
        seal_key: bytes | str | None = None,
        max_checkpoint_bytes: int = _MAX_CHECKPOINT_BYTES,
    ) -> None:
        if serde is not None and allowed_types != ():
            raise InvalidOption(
                "allowed_types configures the saver's own serializer, which serde= replaces: give only one of the two"
            )
        if max_checkpoint_bytes < 1:
            raise InvalidOption(f"max_checkpoint_bytes={max_checkpoint_bytes:,} must be at least 1")
        super().__init__(
            serde=serde if serde is not None else StrictSerializer(allowed_types=allowed_types)
        )
        self._max_bytes = max_checkpoint_bytes
        awaiting = memory.awaiting if isinstance(memory, Memory) else memory
        if isinstance(awaiting, AsyncMemory):
            store, owner = awaiting.store, awaiting.scope
        else:
            store, owner = awaiting, Scope(scope) if isinstance(scope, str) else scope
        self._runner = HookRunner(blocking=store.blocking, owner="TurnfoldSaver")
        self._threads = Threads(store, owner, name=name)
        self._storage = CheckpointStorage(
            store, owner, seal_key=seal_key, max_bytes=max_checkpoint_bytes
        )

    # ------------------------------------------------------------------------------ blocking and awaiting methods

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint of a graph; return the config that names it."""
        return self._runner.block_on(self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint of a graph; return the config that names it."""
        return await self._runner.run(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the values that a task wrote after a checkpoint."""
        self._runner.block_on(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the values that a task wrote after a checkpoint."""
        await self._runner.run(self._put_writes(config, writes, task_id, task_path))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, otherwise the newest of the thread; None if there is none."""
        return self._runner.block_on(self._get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, otherwise the newest of the thread; None if there is none."""
        return await self._runner.run(self._get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name for it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield the checkpoints of the config's thread that match `filter` and `before`, newest first."""
        listing = self._listing(config, filter, before, limit)
        while found := self._runner.block_on(listing.next_page()):
            for each in found:
                yield self._runner.block_on(self._tuple(*each))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints of the config's thread that match `filter` and `before`, newest first."""
        listing = self._listing(config, filter, before, limit)
        while found := await self._runner.run(listing.next_page()):
            for each in found:
                yield await self._runner.run(self._tuple(*each))

    def delete_thread(self, thread_id: str) -> None:
        """Erase a thread with all its data."""
        self._runner.block_on(self._threads.delete(str(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Erase a thread with all its data."""
        await self._runner.run(self._threads.delete(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints that these runs stored; reads every thread of the tenant."""
        self._runner.block_on(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints that these runs stored; reads every thread of the tenant."""
        await self._runner.run(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, with all checkpoints and writes, to a new thread; raise `Conflict` if that exists already."""
        self._runner.block_on(self._mover.copy(str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, with all checkpoints and writes, to a new thread; raise `Conflict` if that exists already."""
        await self._runner.run(self._mover.copy(str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erase all checkpoints of these threads but the newest of each namespace; `strategy="delete"` erases all."""
        self._runner.block_on(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erase all checkpoints of these threads but the newest of each namespace; `strategy="delete"` erases all."""
        await self._runner.run(self._prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the data to rebuild each `DeltaChannel` of a checkpoint: an earlier value, and the writes since."""
        return self._runner.block_on(self._delta_history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the data to rebuild each `DeltaChannel` of a checkpoint: an earlier value, and the writes since."""
        return await self._runner.run(self._delta_history(config, channels))

    def get_next_version(self, current: int | None, channel: None) -> int:
        """Return a channel's next version, a number or a text like `current`, which another saver may have made."""
        del channel
        given = cast("object", current)
        if not isinstance(given, str):
            return int(current or 0) + 1
        number = given.split(".", 1)[0]
        return cast("int", f"{int(number) + 1:0{len(number)}}.0")

    # ------------------------------------------------------------------------------ their coroutines

    async def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, namespace, parent = _ids_of(config)
        values = checkpoint["channel_values"]
        bare = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        typed: dict[str, Typed] = {}
        codec, limit = self._codec, SizeLimit(self._max_bytes)

        def value_of(channel: str) -> Typed | None:
            if channel in values and channel not in typed:
                typed[channel] = codec.dump(values[channel], f"channel {channel!r}", limit)
            return typed.get(channel)

        new = NewCheckpoint(
            namespace=namespace,
            id=checkpoint["id"],
            parent=parent if parent != checkpoint["id"] else "",
            checkpoint=codec.dump(bare, "checkpoint"),
            metadata=codec.dump(get_checkpoint_metadata(config, metadata), "metadata"),
            versions=dict.fromkeys(values) | checkpoint["channel_versions"],
            changed=new_versions.keys(),
            typed=value_of,
        )
        await self._write_to_home(thread, lambda home: self._storage.put(home, new))
        return _config(thread, namespace, checkpoint["id"])

    async def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        thread, namespace, checkpoint = _ids_of(config)
        codec, limit = self._codec, SizeLimit(self._max_bytes)
        new = [
            Write(
                WRITES_IDX_MAP.get(channel, at),
                channel,
                codec.dump(value, f"write to {channel!r}", limit),
                task_path,
            )
            for at, (channel, value) in enumerate(writes)
        ]
        await self._write_to_home(
            thread,
            lambda home: self._storage.add_writes(home, namespace, checkpoint, task_id, new),
        )

    async def _write_to_home(self, thread: str, write: Callable[[str], Awaitable[object]]) -> None:
        """Call `write` with the conversation that holds a thread; call it again if the thread was moved meanwhile."""
        home = self._threads.known(thread) or await self._threads.home(thread)
        for _ in range(_TRIES):
            try:
                await write(home)
            except ConversationDeleted:
                home = await self._threads.home(thread)
                continue
            place, _ = await self._threads.find(thread)
            if place is not None and place.home == home:
                return
            home = await self._threads.home(thread)
        raise Conflict(
            f"thread {thread!r} was not written: deletions of its checkpoints moved it {_TRIES} times meanwhile; try "
            "again"
        )

    async def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, namespace, checkpoint = _ids_of(config)
        # The cached home may be one that was left and not erased yet: its content is old.
        place, _ = await self._threads.find(thread)
        for _ in range(_TRIES):
            if place is None:
                return None
            home, broken = place.home, None
            try:
                found = await self._find(home, namespace, checkpoint)
                if found is not None:
                    return await self._tuple(thread, home, found)
            except (
                ConversationDeleted,
                InvalidRecord,
            ) as error:  # the thread may be moving to another home
                broken = error
            place, _ = await self._threads.find(thread)
            if place is not None and place.home == home:
                if broken is not None:
                    raise broken
                return None
        raise Conflict(
            f"thread {thread!r} could not be read: deletions of its checkpoints moved it {_TRIES} times meanwhile; try "
            "again"
        )

    async def _find(self, home: str, namespace: str, checkpoint: str) -> StoredCheckpoint | None:
        if checkpoint:
            return await self._storage.checkpoint(home, namespace, checkpoint)
        return await self._storage.newest(home, namespace)

    async def _tuple(self, thread: str, home: str, stored: StoredCheckpoint) -> CheckpointTuple:
        codec = self._codec
        values = codec.values(await self._storage.values(home, stored))
        tasks = await self._storage.writes(home, stored.namespace, stored.id)
        return CheckpointTuple(
            config=_config(thread, stored.namespace, stored.id),
            checkpoint={**codec.bare(stored), "channel_values": values},
            metadata=cast("CheckpointMetadata", codec.metadata(stored)),
            parent_config=_config(thread, stored.namespace, stored.parent)
            if stored.parent
            else None,
            pending_writes=codec.pending(tasks),
        )

    async def _delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        thread, namespace, checkpoint = _ids_of(config)
        for _ in range(_TRIES):
            place, _ = await self._threads.find(thread)
            if place is None or not channels:
                return {channel: {"writes": []} for channel in channels}
            broken = None
            found: dict[str, DeltaChannelHistory] = {}
            try:
                stored = await self._find(place.home, namespace, checkpoint)
                found = await self._history_of(place.home, stored, channels)
            except (
                ConversationDeleted,
                InvalidRecord,
            ) as error:  # the thread may be moving to another home
                broken = error
            now, _ = await self._threads.find(thread)
            if now is None or now.home == place.home:
                if broken is not None:
                    raise broken
                return found
        raise Conflict(
            f"thread {thread!r} could not be read: deletions of its checkpoints moved it {_TRIES} times meanwhile; try "
            "again"
        )

    async def _history_of(
        self, home: str, stored: StoredCheckpoint | None, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """Return for each channel its newest stored value, and the writes of a checkpoint's ancestors since then."""
        codec = self._codec
        steps: dict[str, list[list[PendingWrite]]] = {channel: [] for channel in channels}
        seeds: dict[str, object] = {}
        ancestors = self._storage.ancestors(home, stored) if stored is not None else None
        while ancestors is not None and len(seeds) < len(steps):
            ancestor = await anext(ancestors, None)
            if ancestor is None:
                break
            one, tasks = ancestor
            missing = steps.keys() - seeds.keys()
            wanted = [
                Writes(each.checkpoint, each.task, [x for x in each.writes if x.channel in missing])
                for each in tasks
            ]
            written = codec.pending(wanted)
            for channel in missing:
                steps[channel].append([write for write in written if write[1] == channel])
            if missing & one.values.keys():
                values = codec.values(await self._storage.values(home, one))
                seeds |= {channel: values[channel] for channel in missing & values.keys()}
        found: dict[str, DeltaChannelHistory] = {}
        for channel, newest_first in steps.items():
            writes = [write for step in reversed(newest_first) for write in step]
            found[channel] = {"writes": writes}
            if channel in seeds:
                found[channel]["seed"] = seeds[channel]
        return found

    def _listing(
        self,
        config: RunnableConfig | None,
        metadata: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> CheckpointListing:
        configurable = _configurable(config)
        thread = configurable.get("thread_id")
        query = ListingQuery(
            thread=None if thread is None else str(thread),
            namespace=configurable.get("checkpoint_ns"),
            checkpoint=configurable.get("checkpoint_id") or None,
            before=_configurable(before).get("checkpoint_id") or None,
            metadata=metadata,
            limit=limit,
        )
        return CheckpointListing(self._storage, self._threads, query, self._codec.metadata)

    async def _delete_for_runs(self, run_ids: Sequence[str]) -> None:
        choose = without_runs({str(run) for run in run_ids}, self._codec)
        for place in await self._threads.all() if run_ids else ():
            await self._mover.keep(place.thread, choose)

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise InvalidOption(f"strategy={strategy!r} must be 'keep_latest' or 'delete'")
        if isinstance(thread_ids, str):
            raise InvalidOption(f"thread_ids={thread_ids!r} must be a list: [{thread_ids!r}]")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                await self._threads.delete(thread)
            else:
                await self._mover.keep(thread, newest_of_each(self._codec))

    @property
    def _mover(self) -> ThreadMover:
        return ThreadMover(self._storage, self._threads)

    @property
    def _codec(self) -> Codec:
        # Made anew each time, because LangGraph may replace the serializer: with_allowlist.
        return Codec(self.serde, self._max_bytes)


def _configurable(config: RunnableConfig | None) -> dict[str, Any]:
    return config.get("configurable", {}) if config is not None else {}


def _ids_of(config: RunnableConfig) -> tuple[str, str, str]:
    """Return the thread, the namespace and the checkpoint that a config names."""
    configurable = _configurable(config)
    checkpoint = configurable.get("checkpoint_id") or ""
    return (
        _thread_name(configurable.get("thread_id")),
        str(configurable.get("checkpoint_ns") or ""),
        str(checkpoint),
    )


def _thread_name(given: object) -> str:
    """Return the name of a thread; raise `InvalidOption` if it is None or empty, because all runs would share it."""
    name = "" if given is None else str(given)
    if not name:
        raise InvalidOption(
            f"thread_id={given!r} is empty: give the config {{'configurable': {{'thread_id': ...}}}}"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidOption(
            f"thread_id {name!r} has a lone surrogate at character {error.start}, which cannot be stored: remove it"
        ) from None
    return name


def _config(thread: str, namespace: str, checkpoint: str) -> RunnableConfig:
    configurable = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
    return {"configurable": configurable}
