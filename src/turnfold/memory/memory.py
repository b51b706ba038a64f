"""`AsyncMemory`, the entry point: opens the store, holds the configuration, and returns sessions.

`SessionCache` keeps session handles, so that the next call on a conversation finds its window in memory. A window may
take a few kilobytes or many megabytes, so the cache is bounded by the number of handles and by their bytes. An evicted
conversation is read from the store again when needed. A service shares one cache among all its tenants, so that the
bounds hold for the process.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from types import NoneType, TracebackType
from typing import Any, Final, Self, cast

from turnfold._argument_hints import MEMORY_ADVICE, hinted, hinted_methods
from turnfold.budget import Budget
from turnfold.errors import InvalidOption, UnknownModel
from turnfold.memory import erasure
from turnfold.memory.config import (
    DEFAULT_WINDOW,
    CompactionMode,
    FoldMode,
    FoldPolicy,
    MemoryConfig,
    RecallMode,
    check_budget,
    check_type,
    choice,
    named_zone,
)
from turnfold.memory.erasure import ErasureCheck, ErasureReceipt
from turnfold.memory.recall import SearchResult, search_memory
from turnfold.memory.session import AsyncSession
from turnfold.memory.summary_writers import ExtractiveWriter, Summaries, SummaryWriter, writer_for
from turnfold.models import Embedder
from turnfold.redaction import Detector, Redactor
from turnfold.runtime import AsyncRuntime, Runtime
from turnfold.search import ALL_ENTRIES, Within
from turnfold.stores import (
    Ability,
    ConversationInfo,
    EncryptionKey,
    Erasure,
    Health,
    RedactingStore,
    Scope,
    Store,
    check_name,
    list_sessions,
    open_store,
    redaction_of,
    refuse_encrypted,
    shown_address,
    with_cache,
)
from turnfold.telemetry import Meter, redis_listener, time_store_calls
from turnfold.tokens import (
    Calibration,
    TokenCounter,
    cautious_counter,
    context_window_for,
    counter_for,
)
from turnfold.window import Strategy, oldest_first

__all__ = (
    "AsyncMemory",
    "SessionCache",
    "make_config",
    "option_advice",
)


_MAX_HANDLES: Final = 256
_MAX_BYTES: Final = 32 << 20
_MEASURE_ALL: Final = 1_024
"""After this many look-ups of sessions, the memory used by every cached session is measured again."""


class SessionCache:
    """Cache of session objects by tenant and conversation; evicts the least recently used. Thread-safe."""

    def __init__(self, *, most: int = _MAX_HANDLES, most_bytes: int = _MAX_BYTES) -> None:
        if most < 1:
            raise InvalidOption(f"most={most}, the number of sessions to cache, must be at least 1")
        if most_bytes < 0:
            raise InvalidOption(f"most_bytes={most_bytes} must not be negative")
        self._most = most
        self._most_bytes = most_bytes
        self._sessions: OrderedDict[tuple[str, str], AsyncSession] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._total = 0
        self._last = ("", "")
        """Tenant and conversation of the session returned last; the size of this session is measured at the next
        look-up."""
        self._lock = threading.Lock()
        self._lookups = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def held_bytes(self) -> int:
        """Approximate memory of all cached sessions, in bytes."""
        with self._lock:
            return sum(handle.held_bytes for handle in self._sessions.values())

    def get(self, conversation: str, config: MemoryConfig) -> AsyncSession:
        """Return the cached session of a conversation, or a new one; may evict the least recently used session."""
        key = config.scope.tenant, conversation
        with self._lock:
            # A handle grows while it is used, so the handle that was returned last is measured now. That misses some
            # handles that are in use at the same time, so all are measured now and then.
            self._lookups += 1
            if self._lookups % _MEASURE_ALL == 0:
                for each in self._sessions:
                    self._measure(each)
            elif self._last != key:
                self._measure(self._last)
            self._last = key
            handle = self._sessions.get(key)
            if handle is None:
                handle = self._sessions[key] = AsyncSession(conversation, config)
            self._sessions.move_to_end(key)
            while len(self._sessions) > self._most or (
                self._total > self._most_bytes and len(self._sessions) > 1
            ):
                self._remove(next(iter(self._sessions)))
            return handle

    def drop(self, conversation: str, config: MemoryConfig) -> None:
        """Remove the session of an erased conversation from the cache; nothing happens if it is not cached."""
        with self._lock:
            self._remove((config.scope.tenant, conversation))

    def _measure(self, key: tuple[str, str]) -> None:
        handle = self._sessions.get(key)
        if handle is not None:
            size = handle.held_bytes
            self._total += size - self._sizes.get(key, 0)
            self._sizes[key] = size

    def _remove(self, key: tuple[str, str]) -> None:
        if self._sessions.pop(key, None) is not None:
            self._total -= self._sizes.pop(key, 0)


def make_config(
    store: str | Store,
    runtime: Runtime,
    *,
    blocking: bool,
    cache: str | None = None,
    scope: Scope | str = "default",
    model: str = "",
    budget: Budget | None = None,
    counter: TokenCounter | None = None,
    summarizer: Summaries | None = None,
    fold: FoldMode | str | None = None,
    threshold: float = 0.75,
    keep_turns: int = 8,
    retries: int = 3,
    backoff: float = 1.0,
    stand_in: bool = True,
    fold_lease: float = 120.0,
    compaction: CompactionMode | str = CompactionMode.TURNFOLD,
    recall: RecallMode | str = RecallMode.AUTOMATIC,
    rules: bool = True,
    time_zone: str = "UTC",
    embedder: Embedder | None = None,
    redact: Redactor | Detector | None = None,
    encryption_key: EncryptionKey | Sequence[EncryptionKey] | None = None,
    strategy: Strategy = oldest_first,
    meter: Meter | None = None,
    clock: Callable[[], int] | None = None,
    index_process: bool = False,
) -> MemoryConfig:
    """Make the configuration of a memory from the options of its constructor; opens the store."""
    _check_options(locals())
    writer, counter, meter = writer_for(summarizer), counter or _counter_of(model), meter or Meter()
    mode = _fold_mode(fold, writer)
    policy = partial(FoldPolicy, mode=mode, retries=retries, backoff=backoff, lease=fold_lease)
    opened = partial(_open, store, cache, redact=redact, key=encryption_key)
    return MemoryConfig(
        scope=Scope(scope) if isinstance(scope, str) else scope,
        budget=budget or _budget_of(model),
        counter=counter,
        strategy=strategy,
        compaction=choice("compaction", compaction, CompactionMode),
        recall=RecallMode.named(recall),
        rules=rules,
        zone=named_zone(time_zone),
        embedder=embedder,
        policy=policy(writer=writer, threshold=threshold, keep_turns=keep_turns, stand_in=stand_in),
        runtime=runtime,
        clock=clock or _now,
        meter=meter,
        model=model,
        address=shown_address(store) if isinstance(store, str) else f"<{type(store).__name__}>",
        cache=None if cache is None else shown_address(cache),
        store=opened(counter, meter, clock, blocking=blocking, index_process=index_process),
    )


_TYPES: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "model": ((str,), 'model="gpt-4o"'),
    "scope": ((str, Scope), 'scope="tenant-1"'),
    "cache": ((str, NoneType), 'cache="redis://localhost"'),
    "counter": ((TokenCounter, NoneType), 'counter=counter_for("gpt-4o")'),
    "meter": ((Meter, NoneType), "meter=Meter()"),
    "threshold": ((int, float), "threshold=0.75"),
    "keep_turns": ((int,), "keep_turns=8"),
    "retries": ((int,), "retries=3"),
    "backoff": ((int, float), "backoff=1.0"),
    "fold_lease": ((int, float), "fold_lease=120.0"),
    "stand_in": ((bool,), "stand_in=True or stand_in=False"),
    "rules": ((bool,), "rules=True or rules=False"),
    "time_zone": ((str,), 'time_zone="Asia/Shanghai"'),
    "strategy": ((Callable,), "strategy=oldest_first, from turnfold.window"),
    "clock": ((Callable, NoneType), "clock=a function that returns microseconds since 1970"),
}
"""Name of a memory's option -> the types that it accepts, and an example for error texts."""


def _check_options(options: Mapping[str, object]) -> None:
    """Raise `InvalidOption` for an option of the wrong type."""
    check_budget(options["budget"])
    for name, (kinds, right) in _TYPES.items():
        check_type(name, options[name], kinds, right)
    store, embedder = options["store"], options["embedder"]
    if not isinstance(store, str) and not hasattr(store, "append"):
        raise InvalidOption(
            f"store={store!r} is {type(store).__name__}, which is neither an address nor an open store: for "
            'example Memory("sqlite:///chat.db")'
        )
    if embedder is not None and not hasattr(embedder, "embed"):
        raise InvalidOption(
            f"embedder={embedder!r} cannot embed texts: for example embedder=LocalEmbedder(), from turnfold.models"
        )


def _open(
    store: str | Store,
    cache: str | None,
    counter: TokenCounter,
    meter: Meter,
    clock: Callable[[], int] | None,
    *,
    redact: Redactor | Detector | None,
    key: EncryptionKey | Sequence[EncryptionKey] | None,
    blocking: bool,
    index_process: bool,
) -> Store:
    """Open a store if an address is given, time its calls, and put cache, encryption and redaction in front of it."""
    redactor = None if redact is None else Redactor.of(redact)  # refused before anything is opened
    if not isinstance(store, str):
        for name, value in (("cache", cache), ("encryption_key", key)):
            if value is not None:
                raise InvalidOption(
                    f"{name}= needs the address of a store, but an open store was given: use "
                    f'Memory("sqlite:///chat.db", {name}=...)'
                )

    def opened(counter: TokenCounter) -> Store:
        found = store
        if isinstance(found, str):
            found = open_store(
                found, counter=counter, blocking=blocking, clock=clock, index_process=index_process
            )
        found = time_store_calls(found, meter)  # below the cache, to time what reaches the database
        if cache is not None:
            found = with_cache(found, cache, blocking=blocking, on_answer=redis_listener(meter))
        return found

    if key is None:
        made = refuse_encrypted(opened(counter))
    else:
        from turnfold.stores import EncryptedStore

        made = EncryptedStore(opened, key, counter=counter)
    # In front of cache, encryption and store, so that secrets reach none of them.
    return made if redactor is None else cast("Store", RedactingStore(made, redactor))


def _budget_of(model: str) -> Budget:
    try:
        return Budget(context_window=context_window_for(model) if model else DEFAULT_WINDOW)
    except UnknownModel:
        raise UnknownModel(
            f"the context window of {model!r} is not known: use Memory(..., model={model!r}, "
            "budget=Budget(max_tokens=8000)) with the tokens that a prompt may have, which are "
            "then estimated, or add its window and tokenizer with turnfold.tokens.register_model "
            "(docs: concepts/tokens.md)"
        ) from None


def option_advice(given: tuple[object, ...], unknown: Mapping[str, object]) -> str:
    """Return the right call if options were passed by position, or if they belong to `Budget`; else an empty text."""
    if len(given) > 1:
        model = f"model={given[1]!r}" if isinstance(given[1], str) else "budget=..., model=..."
        return (
            f"Memory takes one argument by position, the store: use Memory({given[0]!r}, {model})"
        )
    moved = [each.name for each in fields(Budget) if each.init and each.name in unknown]
    if not moved:
        return ""
    right = ", ".join(f"{name}={unknown[name]!r}" for name in moved)
    return f"{' and '.join(moved)} belongs to Budget: use Memory(..., budget=Budget({right}))"


def _counter_of(model: str) -> TokenCounter:
    return counter_for(model) if model else cautious_counter()


def _now() -> int:
    return time.time_ns() // 1000


def _fold_mode(name: FoldMode | str | None, writer: SummaryWriter) -> FoldMode:
    if name is not None:
        return choice("fold", name, FoldMode)
    # A model takes seconds: by default `context()` does not wait for it.
    return FoldMode.INLINE if isinstance(writer, ExtractiveWriter) else FoldMode.BACKGROUND


def _options_text(config: MemoryConfig) -> str:
    """Return all options of a memory as text; objects are shown by name only, because a client contains its API key."""
    policy, embedder = config.policy, config.embedder
    options = {
        "cache": repr(config.cache),
        "scope": repr(config.scope.tenant),
        "model": repr(config.model),
        "budget": repr(config.budget),
        "counter": repr(config.counter),
        "summarizer": _object_text(policy.writer, policy.writer.name),
        "fold": repr(str(policy.mode)),
        "threshold": repr(policy.threshold),
        "keep_turns": repr(policy.keep_turns),
        "retries": repr(policy.retries),
        "backoff": repr(policy.backoff),
        "stand_in": repr(policy.stand_in),
        "fold_lease": repr(policy.lease),
        "compaction": repr(str(config.compaction)),
        "recall": repr(str(config.recall)),
        "rules": repr(config.rules),
        "time_zone": repr(str(config.zone)),
        "embedder": _object_text(embedder, embedder.name) if embedder else "None",
        "redact": "None" if redaction_of(config.store) is None else "<Redactor>",
        "encryption_key": "<key>" if Ability.ENCRYPTED in config.store.abilities else "None",
        "strategy": _object_text(config.strategy),
        "meter": _object_text(config.meter),
        "clock": "None" if config.clock is _now else _object_text(config.clock),
    }
    store = config.address if config.address.startswith("<") else repr(config.address)
    return ", ".join([store, *(f"{name}={value}" for name, value in options.items())])


def _object_text(value: object, name: str = "") -> str:
    kind = str(getattr(value, "__name__", type(value).__name__)).strip("<>")
    return f"<{kind} {name!r}>" if name else f"<{kind}>"


@hinted_methods(MEMORY_ADVICE)
class AsyncMemory:
    """Conversations in a store, for applications with an event loop.

    Where conversations are kept:

    - `store`: address of the store, `"sqlite:///chat.db"` or `"postgresql://..."`, or an open store. The default
      `"sqlite://"` keeps everything in this process only.
    - `cache`: address of a Redis or Valkey in front of the store, `"redis://..."`.
    - `scope`: the tenant; memories of different scopes share nothing.

    What a call may spend:

    - `model`: name of the model; its context window is the default budget, and its tokens are counted exactly.
    - `budget`: the `Budget` of a call; by default 75 % of the context window of `model`, or 12,000 tokens without one.
    - `counter`: counts tokens instead of the counter of `model`.
    - `strategy`: chooses what leaves a full window; `oldest_first` or another of `turnfold.window`.

    How older turns are folded (compacted into a summary):

    - `summarizer`: writes the summaries: a model's client (the agent's own is cheapest: its prompt is in the provider's
      cache), a function from prompt to text, or a `SummaryWriter`. By default important sentences are extracted,
      without a model.
    - `fold`: `"inline"` folds in `context()`, before it returns; `"background"` folds while the application continues;
      `"manual"` only when `session.fold()` is called. By default `"background"` with a summarizer, `"inline"` without.
    - `threshold`: share of the budget at which folding is due.
    - `keep_turns`: newest turns that stay as they are if the budget allows.
    - `retries`, `backoff`: further attempts of one background fold after a failure, and the seconds before the first of
      them, doubled each time. A later call at which a fold is due tries again, with its own attempts.
    - `stand_in`: show an extract of messages that have left the window until their summary is written.
    - `fold_lease`: seconds after which another process may take over a fold whose process died.
    - `compaction`: `"turnfold"` folds as described here. `"native"` asks the provider to compact (Anthropic and OpenAI
      Responses; others are refused), `"auto"` asks where provider and model are known to compact. turnfold then also
      folds the turns that the provider compacted, for other models and in case the provider refuses its own item later.

    How earlier entries are recalled:

    - `recall`: `"automatic"` shows what matches the user's last message, in room that nothing else uses; `"off"`
      recalls only with a query, `"always"` also shows weak matches.
    - `embedder`: recalls by meaning too, for example `turnfold.models.LocalEmbedder()`.
    - `rules`: extract rules, decisions, preferences, tasks and facts from users' messages, and show them once these
      messages have left the window. With `False` only rules of `add_rule()` are shown.
    - `time_zone`: IANA name of the zone in which a model is shown when something was said, `"Asia/Shanghai"`.

    How secrets are kept out of the store:

    - `redact`: replaces secrets and personal data with labels before anything is stored:
      `turnfold.redaction.find_secrets`, another function from text to the secrets in it, or a `Redactor` with a key.

    How stored data is encrypted:

    - `encryption_key`: encrypts messages, summaries and documents before they reach the store or the cache. 32 bytes,
      or their hexadecimal or base64 form; after a rotation, several: the first encrypts. Needs the extra `encryption`.

    For operation and tests:

    - `meter`: collects the metrics.
    - `clock`: returns microseconds since 1970.
    """

    @hinted("Memory", option_advice)
    def __init__(
        self,
        store: str | Store = "sqlite://",
        *,
        cache: str | None = None,
        scope: Scope | str = "default",
        model: str = "",
        budget: Budget | None = None,
        counter: TokenCounter | None = None,
        summarizer: Summaries | None = None,
        fold: FoldMode | str | None = None,
        threshold: float = 0.75,
        keep_turns: int = 8,
        retries: int = 3,
        backoff: float = 1.0,
        stand_in: bool = True,
        fold_lease: float = 120.0,
        compaction: CompactionMode | str = CompactionMode.TURNFOLD,
        recall: RecallMode | str = RecallMode.AUTOMATIC,
        rules: bool = True,
        time_zone: str = "UTC",
        embedder: Embedder | None = None,
        redact: Redactor | Detector | None = None,
        encryption_key: EncryptionKey | Sequence[EncryptionKey] | None = None,
        strategy: Strategy = oldest_first,
        meter: Meter | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._configure(
            make_config(
                store,
                AsyncRuntime(),
                blocking=False,
                cache=cache,
                scope=scope,
                model=model,
                budget=budget,
                counter=counter,
                summarizer=summarizer,
                fold=fold,
                threshold=threshold,
                keep_turns=keep_turns,
                retries=retries,
                backoff=backoff,
                stand_in=stand_in,
                fold_lease=fold_lease,
                compaction=compaction,
                recall=recall,
                rules=rules,
                time_zone=time_zone,
                embedder=embedder,
                redact=redact,
                encryption_key=encryption_key,
                strategy=strategy,
                meter=meter,
                clock=clock,
            ),
            owns=isinstance(store, str),
        )

    @classmethod
    def over(
        cls, config: MemoryConfig, *, owns: bool, handles: SessionCache | None = None
    ) -> AsyncMemory:
        """Make a memory from a configuration; if `owns` is True, closing the memory also closes the store.

        `handles` is the cache of sessions, if several memories share one.
        """
        memory = cls.__new__(cls)
        memory._configure(config, owns=owns, handles=handles)  # noqa: SLF001 (its own)
        return memory

    def __repr__(self) -> str:
        return f"AsyncMemory({_options_text(self._config)})"

    def _configure(
        self, config: MemoryConfig, *, owns: bool, handles: SessionCache | None = None
    ) -> None:
        self._config = config
        self._owns = owns
        self._handles = SessionCache() if handles is None else handles

    @property
    def store(self) -> Store:
        """The store, for applications that keep documents of their own next to the sessions."""
        return self._config.store

    @property
    def scope(self) -> Scope:
        """The scope (tenant) whose data this memory may access."""
        return self._config.scope

    @property
    def meter(self) -> Meter:
        """The metrics of this memory."""
        return self._config.meter

    @property
    def calibration(self) -> Calibration:
        """The measured difference between turnfold's and providers' token counts; see `turnfold.tokens.calibrated`."""
        return self._config.calibrating.value

    @property
    def runtime(self) -> Runtime:
        """The runtime, with which this memory locks, waits and runs background work; for code that extends it."""
        return self._config.runtime

    @property
    def budget(self) -> Budget:
        """The budget (token limits) of a call that is given no budget of its own."""
        return self._config.budget

    @property
    def recall(self) -> RecallMode:
        """The recall mode (when contexts show earlier entries) of calls that are given no mode of their own."""
        return self._config.recall

    def session(self, conversation: str) -> AsyncSession:
        """Return the session object of a conversation; the conversation need not exist yet.

        An id that begins with the id of its user and a slash (`user-42/trip`) is erased by `erase_user("user-42")`.
        """
        check_name(conversation, "the id of a session")
        return self._handles.get(conversation, self._config)

    async def conversations(
        self, *, after: str = "", limit: int = 100, internal: bool = False
    ) -> list[ConversationInfo]:
        """Return a page of the conversations of this scope, in id order.

        What adapters keep for themselves (threads of LangGraph, for example) is listed only with `internal`.
        """
        config = self._config
        return await list_sessions(
            config.store, config.scope, after=after, limit=limit, internal=internal
        )

    async def search(
        self,
        query: str,
        *,
        conversation: str | None = None,
        within: Within = ALL_ENTRIES,
        limit: int = 20,
    ) -> list[SearchResult]:
        """Search the messages of this scope (tenant) or of one conversation; return the best matches first.

        `within` restricts the search by role, tool, turn, time, or file path mentioned in the text.
        """
        check_type("query", query, (str,), 'search("what to find")')
        return await search_memory(
            self._config, query, conversation=conversation, within=within, limit=limit
        )

    async def delete(self, conversation: str) -> Erasure:
        """Erase a conversation and everything derived from it, permanently.

        That includes the data that adapters store under its id, unless the adapter was given another `name`:
        `erase_session` finds that data too. Deleting it again returns a result with `already`; `NotFound` is raised if
        there never was such a conversation.
        """
        self._handles.drop(conversation, self._config)
        return await erasure.delete_session(self._config.store, self._config.scope, conversation)

    async def erase_session(self, conversation: str) -> ErasureReceipt:
        """Erase a conversation, and return an erasure receipt that can be checked and that lists the remaining forks.

        Raises `NotFound` if there never was such a conversation.
        """
        self._handles.drop(conversation, self._config)
        config = self._config
        return await erasure.erase_session(
            config.store, config.scope, conversation, now=time.time_ns() // 1000
        )

    async def erase_user(self, user: str) -> ErasureReceipt:
        """Erase all conversations of a user and their forks; raises `NotFound` if there are none.

        A conversation is the user's if its id is the user's id or begins with it and a slash (`user-42/trip`), or if it
        has this `user_id` in the metadata of a message or as the owner of a `ShortMemory`.
        """
        config = self._config
        return await erasure.erase_user(
            config.store, config.scope, user, now=_now(), forget=self._forget
        )

    async def erase_tenant(self, tenant: str) -> ErasureReceipt:
        """Erase all conversations of this memory's tenant, whose name must be passed as a confirmation.

        Raises `NotFound` if there are none.
        """
        config = self._config
        if tenant != config.scope.tenant:
            raise InvalidOption(
                f"this memory belongs to another tenant than {tenant!r}: to erase all data of its tenant, pass that "
                "tenant's name, which is memory.scope.tenant"
            )
        return await erasure.erase_tenant(
            config.store, config.scope, now=_now(), forget=self._forget
        )

    async def verify_erasure(self, receipt: ErasureReceipt) -> ErasureCheck:
        """Read the store again, and check that it has none of the conversations that an erasure receipt names.

        A receipt that names no conversation is never `ok`.
        """
        config = self._config
        return await erasure.verify_erasure(config.store, config.scope, receipt)

    def _forget(self, conversation: str) -> None:
        self._handles.drop(conversation, self._config)

    async def health(self) -> Health:
        """Return the health of the store: whether it can serve requests, and details."""
        return await self._config.store.health()

    async def drain(self) -> None:
        """Wait for the folds (compactions) that are running in the background; later contexts may start others."""
        await self._config.runtime.wait()

    async def close(self, *, cancel: bool = False) -> None:
        """Wait for running folds (compactions), or cancel them, and close the store. Closing twice is allowed.

        A fold that failed is not tried again: a later memory folds what is left.
        """
        await self._config.runtime.finish(cancel=cancel)
        if self._owns:
            await self._config.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(cancel=error is not None)
