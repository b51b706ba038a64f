"""The conversations that adapters keep for a session besides its log, and how they are named.

An adapter that stores the data of a framework (LangGraph's threads, PydanticAI's conversations, transcripts of the
Claude Agent SDK) keeps it in homes: conversations with the id `<adapter>:<owner>:<32 hexadecimal digits>`, where the
owner is the framework's id of the thread. An index conversation of the adapter has one document per owner, which names
its home. The names are made here, so that an erasure finds the homes of a session without importing the adapters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final
from uuid import uuid4

from turnfold._late_names import late_pattern
from turnfold.errors import Conflict
from turnfold.stores.protocol import Scope, Store

__all__ = (
    "ADAPTER_HOMES",
    "CLAUDE_HOMES",
    "LANGGRAPH_HOMES",
    "PYDANTIC_AI_HOMES",
    "AdapterHomes",
    "adapters_in",
    "derived_conversations",
    "document_name",
    "erase_derived",
    "is_adapter_conversation",
    "is_home",
    "name_digest",
    "new_home",
    "short_name",
)

_PAGE: Final = 500
_PASSES: Final = 10
_LONGEST: Final = 200
"""The most characters of a name that is used unchanged; a longer one is replaced by its digest."""
_LONGEST_PREFIX: Final = 480
"""The most characters before the unique part of a home: an id has at most 512."""
_UNIQUE: Final = late_pattern("[0-9a-f]{32}")
_UNIQUE_LENGTH: Final = 32
_SUBKEY: Final = "\x1f"
"""Between the owner and the rest in the keys of documents that are one of several of an owner."""


def new_home(prefix: str) -> str:
    """Return a new unique id for a home; it differs from that of a deleted home with the same prefix."""
    return f"{prefix}{uuid4().hex}"


def is_home(name: str, prefix: str) -> bool:
    """Return True if an id has the form that `new_home` gives; checked before a conversation is erased by an id."""
    return name.startswith(prefix) and bool(_UNIQUE.fullmatch(name[len(prefix) :]))


def short_name(name: str) -> str:
    """Return a name that every store can hold: a long or unprintable name is replaced by its digest."""
    return name if len(name) <= _LONGEST and name.isprintable() else name_digest(name)


def document_name(name: str) -> str:
    """Return a name that every store can hold: a long or unprintable name is replaced by its digest.

    A name that looks like a digest is replaced too, so that it cannot equal the digest of another name.
    """
    return name_digest(name) if name.startswith("digest:") else short_name(name)


def name_digest(name: str) -> str:
    """Return the digest that replaces a name."""
    return f"digest:{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"


@dataclass(frozen=True, slots=True)
class AdapterHomes:
    """How an adapter names its homes, its index and the documents in it."""

    name: str
    """What all its conversations begin with; a program can give an adapter another name."""
    index: str
    """The rest of the id of its index; ends with a colon if there are several, each with a name of its own."""
    kind: str
    """Kind of the documents in the index."""
    escape: Callable[[str], str]
    """Returns an owner's id as it is in names and keys."""

    def prefix(self, owner: str) -> str:
        """Return what the homes of an owner begin with."""
        return f"{self.name}:{self.escape(owner)}:"

    def is_index(self, conversation: str) -> bool:
        """Return True if an id is that of an index of the adapter."""
        index = f"{self.name}:{self.index}"
        return conversation.startswith(index) if index.endswith(":") else conversation == index

    def owner_of(self, home: str) -> str:
        """Return the owner of a home, as it is in the name; empty if this is not a home of the adapter."""
        start, end = len(self.name) + 1, len(home) - _UNIQUE_LENGTH - 1
        if end <= start or not home.startswith(f"{self.name}:"):
            return ""
        owner = home[start:end]
        return owner if is_home(home, f"{self.name}:{owner}:") else ""

    def owner_in(self, key: str) -> str:
        """Return the owner, as it is in names, that a document of the index is about."""
        return key.partition(_SUBKEY)[0] if self.index.endswith(":") else key


LANGGRAPH_HOMES: Final = AdapterHomes("langgraph", "threads", "langgraph-thread", document_name)
PYDANTIC_AI_HOMES: Final = AdapterHomes(
    "pydantic-ai", "conversations", "pydantic-ai-conversation", str
)
CLAUDE_HOMES: Final = AdapterHomes("claude-agent-sdk", "project:", "claude-transcript", short_name)
ADAPTER_HOMES: Final = (LANGGRAPH_HOMES, PYDANTIC_AI_HOMES, CLAUDE_HOMES)
"""The adapters that have homes, with the names they have unless a program gives others."""


def is_adapter_conversation(conversation: str) -> bool:
    """Return True for a home or an index of an adapter that has its default name: not a session of a program."""
    return any(each.is_index(conversation) or each.owner_of(conversation) for each in ADAPTER_HOMES)


async def adapters_in(
    store: Store, scope: Scope, conversations: Iterable[str]
) -> tuple[AdapterHomes, ...]:
    """Return the adapters that keep data in a store, those with names of a program's own included.

    `conversations` are the ids of all conversations: the indexes among them tell the names.
    """
    found = dict.fromkeys(ADAPTER_HOMES)
    for conversation in conversations:
        for each in ADAPTER_HOMES:
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
    """Return the homes of an owner: the conversations that adapters keep for the session with this id."""
    return [
        home
        for each in adapters
        if len(each.prefix(owner)) <= _LONGEST_PREFIX
        for home in await _with_prefix(store, scope, each.prefix(owner))
        if is_home(home, each.prefix(owner)) and await _is_owned(store, scope, each, home)
    ]


async def erase_derived(
    store: Store,
    scope: Scope,
    owner: str,
    erase: Callable[[str], Awaitable[object]],
    adapters: Iterable[AdapterHomes] = ADAPTER_HOMES,
) -> None:
    """Erase what adapters keep for the session with this id; `erase` is called with the id of each home.

    Raises `Conflict` if others keep writing to it.
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
        f"what an adapter keeps for {owner!r} was erased, and is still being written: stop the writers, "
        "then erase again"
    )


async def _index_documents(
    store: Store, scope: Scope, adapter: AdapterHomes, owner: str
) -> list[tuple[str, str]]:
    """Return the documents about an owner, as (index, key)."""
    key, several = adapter.escape(owner), adapter.index.endswith(":")
    index = f"{adapter.name}:{adapter.index}"
    indexes = await _with_prefix(store, scope, index) if several else [index]
    found: list[tuple[str, str]] = []
    for each in indexes:
        if await store.get_document(scope, each, adapter.kind, key) is not None:
            found.append((each, key))
        after = f"{key}{_SUBKEY}"
        while several and (
            page := await store.documents(scope, each, adapter.kind, after=after, limit=_PAGE)
        ):
            keys = [document.key for document in page]
            found += [(each, name) for name in keys if name.startswith(f"{key}{_SUBKEY}")]
            after = keys[-1]
            if not after.startswith(f"{key}{_SUBKEY}"):
                break
    return found


async def _is_owned(store: Store, scope: Scope, adapter: AdapterHomes, home: str) -> bool:
    """Return False for an index, and for a home of an adapter with a longer name.

    `a:b:c:<digits>` is a home of `b:c` if the adapter is named `a`, and of `c` if it is named `a:b`.
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
    """Return the conversations whose ids begin with a prefix; reads only these."""
    found: list[str] = []
    after = prefix
    while page := await store.conversations(scope, after=after, limit=_PAGE):
        names = [info.conversation for info in page]
        found += [name for name in names if name.startswith(prefix)]
        after = names[-1]
        if not after.startswith(prefix):
            break
    return found
