"""The ids of the conversations in which framework adapters store their own data for a session, and their erasure.

An adapter that stores the data of a framework (LangGraph's threads, PydanticAI's conversations, transcripts of the
Claude Agent SDK) keeps it in conversations of its own, called homes, with the id `<adapter>:<owner>:<32 hexadecimal
digits>`, where the owner is the framework's id of the thread. An index conversation of the adapter has one document per
owner, which names its home. The ids are made here, so that an erasure finds the homes of a session without importing
the adapters.

LangGraph's long-term store has homes of the same form. Their owner is a namespace, a path of labels (`user-42/food`),
and no session: they are erased with a user whose id is one of the labels, and not with a session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final
from uuid import uuid4

from turnfold._lazy_loading import late_pattern
from turnfold.errors import Conflict, ConversationDeleted, InvalidOption
from turnfold.stores.paged_reads import all_conversations, all_documents, was_erased
from turnfold.stores.protocol import ConversationInfo, Scope, Store

__all__ = (
    "ADAPTER_HOMES",
    "CLAUDE_HOMES",
    "ITEM_HOMES",
    "LANGGRAPH_HOMES",
    "PYDANTIC_AI_HOMES",
    "AdapterHomes",
    "adapters_in",
    "derived_conversations",
    "document_name",
    "erase_derived",
    "has_derived",
    "is_adapter_conversation",
    "is_home",
    "list_sessions",
    "name_digest",
    "new_home",
    "refuse_erased",
    "short_name",
)

_PASSES: Final = 10
_LONGEST: Final = 200
"""The most characters of a name that is used unchanged in an id; a longer name is replaced by its digest."""
_LONGEST_PREFIX: Final = 480
"""The most characters before the 32 digits in the id of a home (conversation with adapter data); 512 in all."""
_UNIQUE: Final = late_pattern("[0-9a-f]{32}")
_UNIQUE_LENGTH: Final = 32
_SUBKEY: Final = "\x1f"
"""Separator after the owner in the key of an index document, if the owner has several documents."""


def new_home(prefix: str) -> str:
    """Return a new random id, beginning with `prefix`, for a conversation with an adapter's data (a home)."""
    return f"{prefix}{uuid4().hex}"


def is_home(name: str, prefix: str) -> bool:
    """Return True if `name` is `prefix` and 32 hexadecimal digits, as the ids of adapters' data are (homes)."""
    return name.startswith(prefix) and bool(_UNIQUE.fullmatch(name[len(prefix) :]))


def short_name(name: str) -> str:
    """Return the name itself, or its digest if it is too long or unprintable for an id or a key."""
    return name if len(name) <= _LONGEST and name.isprintable() else name_digest(name)


def document_name(name: str) -> str:
    """Return the name itself, or its digest if it is too long, unprintable, or looks like a digest.

    Therefore no chosen name can equal the digest of another name.
    """
    return name_digest(name) if name.startswith("digest:") else short_name(name)


def name_digest(name: str) -> str:
    """Return `digest:` and a hash of the name, to use in place of a name that is too long or unprintable."""
    return f"digest:{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"


@dataclass(frozen=True, slots=True)
class AdapterHomes:
    """An adapter's naming scheme for its homes (conversations with its data), its index and index documents."""

    name: str
    """Prefix of the ids of all conversations that store the adapter's data; an application can give an adapter another
    name."""
    index: str
    """Id of the adapter's index conversation, without the prefix; it ends with a colon if the adapter has several, each
    with its own name after the colon."""
    kind: str
    """Kind of the documents in the index conversation of the adapter."""
    escape: Callable[[str], str]
    """Function that returns an owner's id in the form used in conversation ids and document keys."""
    plain_keys: bool = False
    """True if the keys of index documents are the owners' ids as they are."""

    def prefix(self, owner: str) -> str:
        """Return the beginning of the ids of an owner's homes (conversations with the adapter's data)."""
        return f"{self.name}:{self.escape(owner)}:"

    def is_index(self, conversation: str) -> bool:
        """Return True if this is the id of an index conversation of the adapter."""
        index = f"{self.name}:{self.index}"
        return conversation.startswith(index) if index.endswith(":") else conversation == index

    def owner_of(self, home: str) -> str:
        """Return the (escaped) id of a home's owner, found in the home's id.

        The result is empty if this is not a home of the adapter.
        """
        start, end = len(self.name) + 1, len(home) - _UNIQUE_LENGTH - 1
        if end <= start or not home.startswith(f"{self.name}:"):
            return ""
        owner = home[start:end]
        return owner if is_home(home, f"{self.name}:{owner}:") else ""

    def key(self, owner: str) -> str:
        """Return the key of an owner's index document."""
        return owner if self.plain_keys else self.escape(owner)

    def owner_in(self, key: str) -> str:
        """Return the (escaped) id of the owner that an index document is about, taken from the document's key."""
        return key.partition(_SUBKEY)[0] if self.index.endswith(":") else key


LANGGRAPH_HOMES: Final = AdapterHomes("langgraph", "threads", "langgraph-thread", document_name)
PYDANTIC_AI_HOMES: Final = AdapterHomes(
    "pydantic-ai", "conversations", "pydantic-ai-conversation", str
)
CLAUDE_HOMES: Final = AdapterHomes("claude-agent-sdk", "project:", "claude-transcript", short_name)
ADAPTER_HOMES: Final = (LANGGRAPH_HOMES, PYDANTIC_AI_HOMES, CLAUDE_HOMES)
"""How the adapters for LangGraph checkpoints, PydanticAI and the Claude Agent SDK name the conversations in which they
keep data of a session (homes), with the default names. LangGraph's long-term store is apart, in `ITEM_HOMES`."""
ITEM_HOMES: Final = AdapterHomes(
    "langgraph-store", "namespaces", "langgraph-namespace", document_name, plain_keys=True
)
"""How LangGraph's long-term store names the conversations in which it keeps its items, with the default name."""


def is_adapter_conversation(conversation: str) -> bool:
    """Return True if an adapter uses this conversation for its own data, under its default name.

    False for a session.
    """
    return any(
        each.is_index(conversation) or each.owner_of(conversation)
        for each in (*ADAPTER_HOMES, ITEM_HOMES)
    )


async def list_sessions(
    store: Store,
    scope: Scope,
    *,
    prefix: str = "",
    after: str = "",
    limit: int = 100,
    internal: bool = False,
) -> list[ConversationInfo]:
    """Return a page of the conversations whose id starts with `prefix`, in id order.

    Homes and indexes of adapters are listed only with `internal`, or if the prefix contains a colon: `langgraph:`.
    """
    every = internal or ":" in prefix
    found: list[ConversationInfo] = []
    after = max(after, prefix[:-1])
    while page := await store.conversations(scope, after=after, limit=limit):
        after = page[-1].conversation
        found += [
            each
            for each in page
            if each.conversation.startswith(prefix)
            and (every or not is_adapter_conversation(each.conversation))
        ]
        is_past = after > prefix and not after.startswith(prefix)
        if len(found) >= limit or len(page) < limit or is_past:
            break
    return found[:limit]


async def adapters_in(
    store: Store,
    scope: Scope,
    conversations: Iterable[str],
    adapters: Iterable[AdapterHomes] = ADAPTER_HOMES,
) -> tuple[AdapterHomes, ...]:
    """Return the adapters that may have data in the store: those with default names, and with other names in use.

    `conversations` are the ids of all conversations; other names are found by the index conversations among them.
    """
    adapters = tuple(adapters)
    found = dict.fromkeys(adapters)
    for conversation in conversations:
        for each in adapters:
            name, separator, rest = conversation.partition(f":{each.index}")
            named = replace(each, name=name)
            if not name or not separator or (rest and not each.index.endswith(":")):
                continue
            if named not in found and await store.documents(
                scope, conversation, each.kind, limit=1
            ):
                found[named] = None
    return tuple(found)


async def derived_conversations(
    store: Store, scope: Scope, owner: str, adapters: Iterable[AdapterHomes] = ADAPTER_HOMES
) -> list[str]:
    """Return the ids of the conversations in which adapters store data of the session with this id."""
    return [
        home
        for each in adapters
        if len(each.prefix(owner)) <= _LONGEST_PREFIX
        for home in await _with_prefix(store, scope, each.prefix(owner))
        if is_home(home, each.prefix(owner)) and await _is_owned(store, scope, each, home)
    ]


async def has_derived(store: Store, scope: Scope, owner: str) -> bool:
    """Return True if adapters with default names store anything for the session with this id."""
    if await derived_conversations(store, scope, owner):
        return True
    return any([await _index_documents(store, scope, each, owner) for each in ADAPTER_HOMES])


async def refuse_erased(store: Store, scope: Scope, owner: str) -> None:
    """Raise `ConversationDeleted` if the session with this id was erased, so that an adapter stores nothing for it.

    An adapter calls it before and after it creates a home: an erasure closes the id of the session first and searches
    for homes then, so it finds a home that was created before the second call.
    """
    try:
        erased = await was_erased(store, scope, owner)
    except InvalidOption:  # no session can have this id
        return
    if erased:
        raise ConversationDeleted(
            f"session {owner!r} has been erased, and so has the data that was stored for it here; use another id"
        )


async def erase_derived(
    store: Store,
    scope: Scope,
    owner: str,
    erase: Callable[[str], Awaitable[object]],
    adapters: Iterable[AdapterHomes] = ADAPTER_HOMES,
) -> None:
    """Erase the data that adapters store for the session with this id; `erase` is called with each conversation.

    Raises `Conflict` if other writers keep adding to the data.
    """
    adapters = tuple(adapters)
    for _ in range(_PASSES):
        # The homes go first: a process that dies in between leaves documents that can be erased again.
        homes = await derived_conversations(store, scope, owner, adapters)
        for home in homes:
            await erase(home)
        dropped = [
            await store.drop_document(scope, index, each.kind, key)
            for each in adapters
            for index, key in await _index_documents(store, scope, each, owner)
        ]
        if not homes and not dropped:
            return
    raise Conflict(
        f"the data that adapters keep for {owner!r} was erased {_PASSES} times, and writers added to it each time: "
        "stop the writers, then erase again"
    )


async def _index_documents(
    store: Store, scope: Scope, adapter: AdapterHomes, owner: str
) -> list[tuple[str, str]]:
    """Return the documents that list where an adapter keeps the data of an owner.

    Each is named by the id of its conversation (the index) and its key.
    """
    key, several = adapter.key(owner), adapter.index.endswith(":")
    index = f"{adapter.name}:{adapter.index}"
    indexes = await _with_prefix(store, scope, index) if several else [index]
    found: list[tuple[str, str]] = []
    for each in indexes:
        if await store.get_document(scope, each, adapter.kind, key) is not None:
            found.append((each, key))
        if several:
            prefix = f"{key}{_SUBKEY}"
            below = await all_documents(store, scope, each, adapter.kind, prefix=prefix)
            found += [(each, document.key) for document in below]
    return found


async def _is_owned(store: Store, scope: Scope, adapter: AdapterHomes, home: str) -> bool:
    """Return True if a conversation stores data of this adapter, and is not its index.

    Adapter names may contain colons: `a:b:c:<digits>` belongs to `b:c` if the adapter is named `a`, and to `c` if it is
    named `a:b`.
    """
    if adapter.is_index(home) and await store.documents(scope, home, adapter.kind, limit=1):
        return False
    owner, unique = adapter.owner_of(home), home[-_UNIQUE_LENGTH:].encode()
    parts = owner.split(":")
    for at in range(1, len(parts)):
        longer = replace(adapter, name=":".join((adapter.name, *parts[:at])))
        for index, key in await _index_documents(store, scope, longer, ":".join(parts[at:])):
            document = await store.get_document(scope, index, adapter.kind, key)
            if document is not None and unique in document.body:
                return False
    return True


async def _with_prefix(store: Store, scope: Scope, prefix: str) -> list[str]:
    return [info.conversation for info in await all_conversations(store, scope, prefix=prefix)]
