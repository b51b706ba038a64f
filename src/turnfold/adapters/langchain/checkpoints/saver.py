"""`TurnfoldSaver`: the checkpoints of LangGraph's graphs in any store of turnfold.

It keeps what LangGraph hands over, byte for byte, and says it in LangGraph's words; how it is kept is the business of
the modules beside it. Every verb is written once, as a coroutine. Over a blocking store it serves both faces of
LangGraph (the asynchronous one from a thread); over one that awaits, the asynchronous face alone.

What comes from the store is not trusted: a row or an imported file may be anybody's. No code that it names is run, and
no more memory is taken for it than was agreed.
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
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from turnfold.adapters.langchain.checkpoints.codec import Codec
from turnfold.adapters.langchain.checkpoints.documents import Kept, Typed, Write
from turnfold.adapters.langchain.checkpoints.listing import Listing, Wanted
from turnfold.adapters.langchain.checkpoints.moving import (
    Mover,
    ancestors_in_a_circle,
    newest_of_each,
    without_runs,
)
from turnfold.adapters.langchain.checkpoints.serializer import AllowedType, StrictSerializer
from turnfold.adapters.langchain.checkpoints.shelf import NewCheckpoint, Shelf
from turnfold.adapters.langchain.checkpoints.size_limits import Allowance
from turnfold.adapters.langchain.checkpoints.threads import Threads
from turnfold.adapters.langchain.waiting import Waiting
from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, InvalidRecord
from turnfold.memory import AsyncMemory, Memory
from turnfold.stores.protocol import Scope, Store

__all__ = ("TurnfoldSaver",)

_TRIES = 8
"""Times a thread may move away while one write or one look is made."""
_MAX_CHECKPOINT_BYTES = 128 << 20


class TurnfoldSaver(BaseCheckpointSaver[int]):
    """Checkpoints of LangGraph in the store of a memory, or in a store.

    A `Memory`, or a store that was opened with `blocking=True`, serves `invoke` and `ainvoke`; an `AsyncMemory` serves
    `ainvoke`. `scope` is whose data it is, for a store; a memory brings its own. Two savers of different `name` share
    nothing.

    Stored values are made into plain values, LangChain's messages and LangGraph's own types. The classes of a program's
    state are listed in `allowed_types`, as classes or as (module, name); they are called with whatever is stored. A
    value of any other type is an `InvalidRecord` when it is written. `serde` replaces all of this with a serializer of
    the program's choice, which then decides what stored data may run.

    With `seal_key`, a secret of at least 16 bytes that is not kept in the store, nothing is read that was not written
    with it. The values of one checkpoint have at most `max_checkpoint_bytes` together.
    """

    def __init__(
        self,
        memory: AsyncMemory | Memory | Store,
        *,
        scope: Scope | str = "default",
        name: str = "langgraph",
        serde: SerializerProtocol | None = None,
        allowed_types: Iterable[AllowedType] = (),
        seal_key: bytes | str | None = None,
        max_checkpoint_bytes: int = _MAX_CHECKPOINT_BYTES,
    ) -> None:
        if serde is not None and allowed_types != ():
            raise InvalidOption(
                "allowed_types is for the saver's own serializer, and serde= replaces it: give one of the two"
            )
        if max_checkpoint_bytes < 1:
            raise InvalidOption(
                f"max_checkpoint_bytes={max_checkpoint_bytes:,}: at least 1 is needed"
            )
        super().__init__(
            serde=serde if serde is not None else StrictSerializer(allowed_types=allowed_types)
        )
        self._max_bytes = max_checkpoint_bytes
        awaiting = memory.awaiting if isinstance(memory, Memory) else memory
        if isinstance(awaiting, AsyncMemory):
            store, owner = awaiting.store, awaiting.scope
        else:
            store, owner = awaiting, Scope(scope) if isinstance(scope, str) else scope
        self._waiting = Waiting(blocking=store.blocking, what="TurnfoldSaver")
        self._threads = Threads(store, owner, name=name)
        self._shelf = Shelf(store, owner, seal_key=seal_key, max_bytes=max_checkpoint_bytes)

    # ------------------------------------------------------------------------------ both faces

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint."""
        return self._waiting.now(self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint."""
        return await self._waiting.soon(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task wrote after a checkpoint."""
        self._waiting.now(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task wrote after a checkpoint."""
        await self._waiting.soon(self._put_writes(config, writes, task_id, task_path))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that is named, or the newest of the thread; None where there is none."""
        return self._waiting.now(self._get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that is named, or the newest of the thread; None where there is none."""
        return await self._waiting.soon(self._get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (LangGraph's name for it)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints that match, newest first."""
        listing = self._listing(config, filter, before, limit)
        while found := self._waiting.now(listing.more()):
            for each in found:
                yield self._waiting.now(self._tuple(*each))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints that match, newest first."""
        listing = self._listing(config, filter, before, limit)
        while found := await self._waiting.soon(listing.more()):
            for each in found:
                yield await self._waiting.soon(self._tuple(*each))

    def delete_thread(self, thread_id: str) -> None:
        """Erase a thread and every byte of it."""
        self._waiting.now(self._threads.delete(str(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Erase a thread and every byte of it."""
        await self._waiting.soon(self._threads.delete(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints of these runs; looks through every thread of the scope."""
        self._waiting.now(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints of these runs; looks through every thread of the scope."""
        await self._waiting.soon(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Give a new thread everything another one has."""
        self._waiting.now(self._mover.copy(str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Give a new thread everything another one has."""
        await self._waiting.soon(self._mover.copy(str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace of these threads, or (`delete`) nothing of them."""
        self._waiting.now(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace of these threads, or (`delete`) nothing of them."""
        await self._waiting.soon(self._prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What each `DeltaChannel` of a checkpoint is made from: an earlier value, and the writes since."""
        return self._waiting.now(self._delta_history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What each `DeltaChannel` of a checkpoint is made from: an earlier value, and the writes since."""
        return await self._waiting.soon(self._delta_history(config, channels))

    def get_next_version(self, current: int | None, channel: None) -> int:
        """One more; in the form of the last one, which another saver may have given."""
        del channel
        given = cast("object", current)
        if not isinstance(given, str):
            return int(current or 0) + 1
        number = given.split(".", 1)[0]
        return cast("int", f"{int(number) + 1:0{len(number)}}.0")

    # ------------------------------------------------------------------------------ written once

    async def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, namespace, parent = _named(config)
        values = checkpoint["channel_values"]
        bare = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        typed: dict[str, Typed] = {}
        codec, allowance = self._codec, Allowance(self._max_bytes)

        def value_of(channel: str) -> Typed | None:
            if channel in values and channel not in typed:
                typed[channel] = codec.dumped(values[channel], f"channel {channel!r}", allowance)
            return typed.get(channel)

        new = NewCheckpoint(
            namespace=namespace,
            id=checkpoint["id"],
            parent=parent if parent != checkpoint["id"] else "",
            checkpoint=codec.dumped(bare, "checkpoint"),
            metadata=codec.dumped(get_checkpoint_metadata(config, metadata), "metadata"),
            versions=dict.fromkeys(values) | checkpoint["channel_versions"],
            changed=new_versions.keys(),
            typed=value_of,
        )
        await self._where_it_lives(thread, lambda home: self._shelf.put(home, new))
        return _config(thread, namespace, checkpoint["id"])

    async def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        thread, namespace, checkpoint = _named(config)
        codec, allowance = self._codec, Allowance(self._max_bytes)
        new = [
            Write(
                WRITES_IDX_MAP.get(channel, at),
                channel,
                codec.dumped(value, f"write to {channel!r}", allowance),
                task_path,
            )
            for at, (channel, value) in enumerate(writes)
        ]
        await self._where_it_lives(
            thread,
            lambda home: self._shelf.add_writes(home, namespace, checkpoint, task_id, new),
        )

    async def _where_it_lives(self, thread: str, write: Callable[[str], Awaitable[object]]) -> None:
        """Write to the home of a thread, and again where it moved meanwhile."""
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
        raise Conflict(f"thread {thread!r}: moved {_TRIES} times during one write; try again")

    async def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, namespace, checkpoint = _named(config)
        # Where it was last seen may be a home that was left and not erased yet: what it holds is old.
        place, _ = await self._threads.find(thread)
        for _ in range(_TRIES):
            if place is None:
                return None
            home, broken = place.home, None
            try:
                found = await self._find(home, namespace, checkpoint)
                if found is not None:
                    return await self._tuple(thread, home, found)
            except (ConversationDeleted, InvalidRecord) as error:  # it may be moving away just now
                broken = error
            place, _ = await self._threads.find(thread)
            if place is not None and place.home == home:
                if broken is not None:
                    raise broken
                return None
        raise Conflict(f"thread {thread!r}: moved {_TRIES} times while it was read; try again")

    async def _find(self, home: str, namespace: str, checkpoint: str) -> Kept | None:
        if checkpoint:
            return await self._shelf.kept(home, namespace, checkpoint)
        return await self._shelf.newest(home, namespace)

    async def _tuple(self, thread: str, home: str, kept: Kept) -> CheckpointTuple:
        codec = self._codec
        values = codec.values(await self._shelf.values(home, kept))
        tasks = await self._shelf.writes(home, kept.namespace, kept.id)
        return CheckpointTuple(
            config=_config(thread, kept.namespace, kept.id),
            checkpoint={**codec.bare(kept), "channel_values": values},
            metadata=cast("CheckpointMetadata", codec.metadata(kept)),
            parent_config=_config(thread, kept.namespace, kept.parent) if kept.parent else None,
            pending_writes=codec.pending(tasks),
        )

    async def _delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        thread, namespace, _ = _named(config)
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        wanted = set(channels)
        at = await self._get(config) if channels else None
        seen = {at.checkpoint["id"]} if at is not None else set[str]()
        while at is not None and at.parent_config is not None and wanted:
            parent = _named(at.parent_config)[2]
            if parent in seen:
                raise ancestors_in_a_circle(parent)
            seen.add(parent)
            at = await self._get(_config(thread, namespace, parent))
            if at is None:
                break
            for write in reversed(at.pending_writes or ()):
                if write[1] in wanted:
                    found[write[1]]["writes"].insert(0, write)
            for channel in wanted & at.checkpoint["channel_values"].keys():
                found[channel]["seed"] = at.checkpoint["channel_values"][channel]
                wanted.discard(channel)
        return found

    def _listing(
        self,
        config: RunnableConfig | None,
        metadata: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Listing:
        asked = _configurable(config)
        thread = asked.get("thread_id")
        wanted = Wanted(
            thread=None if thread is None else str(thread),
            namespace=asked.get("checkpoint_ns"),
            checkpoint=asked.get("checkpoint_id") or None,
            before=_configurable(before).get("checkpoint_id") or None,
            metadata=metadata,
            limit=limit,
        )
        return Listing(self._shelf, self._threads, wanted, self._codec.metadata)

    async def _delete_for_runs(self, run_ids: Sequence[str]) -> None:
        choose = without_runs({str(run) for run in run_ids}, self._codec)
        for place in await self._threads.all() if run_ids else ():
            await self._mover.keep(place.thread, choose)

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise InvalidOption(f"strategy={strategy!r} is none of 'keep_latest', 'delete'")
        if isinstance(thread_ids, str):
            raise InvalidOption(f"thread_ids={thread_ids!r} must be several: [{thread_ids!r}]")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                await self._threads.delete(thread)
            else:
                await self._mover.keep(thread, newest_of_each(self._codec))

    @property
    def _mover(self) -> Mover:
        return Mover(self._shelf, self._threads)

    @property
    def _codec(self) -> Codec:
        return Codec(
            self.serde, self._max_bytes
        )  # LangGraph may replace the serializer: with_allowlist


def _configurable(config: RunnableConfig | None) -> dict[str, Any]:
    return config.get("configurable", {}) if config is not None else {}


def _named(config: RunnableConfig) -> tuple[str, str, str]:
    """The thread, the namespace and the checkpoint that a config names."""
    asked = _configurable(config)
    checkpoint = asked.get("checkpoint_id") or ""
    return _thread(asked.get("thread_id")), str(asked.get("checkpoint_ns") or ""), str(checkpoint)


def _thread(given: object) -> str:
    """The name of a thread; None is refused, or all runs that forgot to name theirs would share one."""
    name = "" if given is None else str(given)
    if not name:
        raise InvalidOption(
            f"the config names no thread (thread_id={given!r}): {{'configurable': {{'thread_id': ...}}}}"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidOption(
            f"thread_id {name!r}: the lone surrogate at character {error.start} cannot be stored"
        ) from None
    return name


def _config(thread: str, namespace: str, checkpoint: str) -> RunnableConfig:
    named = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
    return {"configurable": named}
