"""Erasure of a conversation, a user's conversations or a whole tenant, with an erasure receipt that can be checked.

A conversation belongs to a user if its id is the user's id or begins with it and a slash (`user-42/trip`), or if one of
its messages, or the owner note of a `ShortMemory`, has the label `user_id` with the user's id. Erasing a user also
erases the forks (copies) of these conversations, whatever their ids: each fork has a note of its original. Data that an
adapter stores under the id of a conversation, such as the LangGraph thread with this id, is erased with it. A namespace
of LangGraph's long-term store belongs to a user whose id is one of its labels, and is erased with the user.

A receipt names the conversations that were not erased and may hold the same content: forks of a single erased
conversation, conversations that begin with the same entries, and conversations whose id begins with that of an erased
one and a slash, as those of sub-agents do. If nothing matches, `NotFound` is raised and no receipt is made.

A receipt contains no id and no text of erased data. It contains salted digests of the ids, so only someone who knows an
id can check if the receipt names it. The content digest of a conversation covers its log, checkpoints and documents; a
copy (an export, a backup) has the same digest.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

import msgspec

from turnfold._lazy_loading import late_pattern
from turnfold.errors import Conflict, InvalidOption, InvalidRecord, NotFound, WrongKey
from turnfold.memory.fork import forks_among, id_digest
from turnfold.records import Document, encode_message
from turnfold.stores import (
    ITEM_HOMES,
    AdapterHomes,
    Erasure,
    Scope,
    Store,
    adapters_in,
    all_conversations,
    all_documents,
    all_entries,
    check_name,
    derived_conversations,
    erase_derived,
    has_derived,
)

__all__ = (
    "ErasedConversation",
    "ErasureCheck",
    "ErasureReceipt",
    "delete_session",
    "erase_session",
    "erase_tenant",
    "erase_user",
    "verify_erasure",
)

ErasureKind: TypeAlias = Literal["session", "user", "tenant"]
_USER: Final = "user_id"
_OWNER: Final = "short-memory"
"""Kind of the documents in which a `ShortMemory` notes the owner of a conversation."""
_SALT: Final = late_pattern("[0-9a-f]{32}")
_PASSES: Final = 10
"""Most rounds of listing and erasing a tenant's conversations, if other processes create new ones meanwhile; then
`Conflict` is raised."""
_BEGINNING: Final = 2
"""Number of first entries that must be equal in two conversations to report one as a possible copy of the other. One
entry is not enough, because many conversations begin with the same system message."""
_UNREADABLE: Final = "encrypted"
"""Name under which an erasure receipt counts documents whose kinds could not be read without the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedConversation:
    """One erased conversation, as an erasure receipt lists it: counts and digests, without its id and its text."""

    id_digest: str
    entries: int
    checkpoints: int
    documents: dict[str, int]
    """Derived data: number of documents by kind (pins, state, calls, snapshots, remembered tool results, vectors and so
    on); `encrypted` if they were erased without the key."""
    content_digest: str
    """Digest of the erased content; empty if the conversation was written to meanwhile, or was erased without its
    key."""
    already: bool
    """True if the conversation had been erased before this call."""
    derived: bool = False
    """True if an adapter stored the conversation: for the conversation listed before, for example a LangGraph thread,
    or as a namespace of LangGraph's long-term store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReceipt:
    """Report of an erasure: counts and digests of the erased data, without its ids and texts.

    Only the list `forks` contains ids: those of conversations that were not erased.
    """

    kind: ErasureKind
    subject: str
    """Digest of the id of the erased conversation, user or tenant."""
    salt: str
    at: int
    """Time of the erasure, in microseconds since 1970."""
    conversations: tuple[ErasedConversation, ...]
    forks: tuple[str, ...]
    """Ids of conversations that were not erased and may hold the same content: forks, and conversations of sub-agents
    (`<id>/...`). Forks of an encrypted conversation are not known without its key."""
    digest: str
    """Digest of the other fields of the erasure receipt, which shows if they were changed."""

    @property
    def is_intact(self) -> bool:
        """True if the erasure receipt's digest is right, so no field was changed since the receipt was made."""
        return self.digest == _receipt_digest(self)

    def to_json(self) -> str:
        """Return the erasure receipt as indented JSON, the form of `turnfold delete --json`."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> ErasureReceipt:
        """Parse the JSON of `to_json` or `turnfold delete --json`; raises `InvalidRecord` for anything else."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidRecord(f"not a receipt of an erasure: {error}") from None

    @classmethod
    def require(cls, given: object) -> ErasureReceipt:
        """Return `given` if it is an erasure receipt; otherwise raise `InvalidOption`, which names the right call."""
        if isinstance(given, cls):
            return given
        raise InvalidOption(
            f"verify_erasure needs an ErasureReceipt, got {type(given).__name__}: for a stored receipt, "
            "memory.verify_erasure(ErasureReceipt.from_json(text))"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureCheck:
    """Result of checking an erasure receipt against the store."""

    ok: bool
    """True if the erasure receipt is intact and names at least one conversation, and the store has none of the
    conversations it names."""
    intact: bool
    named: int
    """Number of conversations that the receipt names as erased; an erasure receipt that names none proves nothing."""
    searched: int
    """Number of conversations in the store that were compared with the erasure receipt."""
    found: tuple[str, ...]
    """Ids of conversations that are still in the store although the erasure receipt names them as erased."""


async def delete_session(store: Store, scope: Scope, conversation: str) -> Erasure:
    """Erase a conversation and the data that adapters with default names store for it; return the erased counts.

    Raises `NotFound` if there never was such a conversation: to delete it would close its id to every writer.
    """
    if not (await store.head(scope, conversation)).generation and not await has_derived(
        store, scope, conversation
    ):
        raise NotFound(
            f"there is no session {conversation!r}, so nothing was deleted: conversations() lists the existing ones"
        )
    done = await store.delete(scope, conversation)
    await erase_derived(store, scope, conversation, lambda home: store.delete(scope, home))
    return done


async def erase_session(
    store: Store, scope: Scope, conversation: str, *, now: int
) -> ErasureReceipt:
    """Erase a conversation and everything derived from it, and return an erasure receipt.

    Raises `NotFound` if there is no such conversation.
    """
    listed = await all_conversations(store, scope)
    adapters = await adapters_in(store, scope, [info.conversation for info in listed])
    kept = await derived_conversations(store, scope, conversation, adapters)
    if not (await store.head(scope, conversation)).generation and not kept:
        raise NotFound(
            f"there is no session {conversation!r}, so nothing was erased: give the whole id of the session"
        )
    others = [info.conversation for info in listed if info.conversation != conversation]
    same = {
        *await forks_among(store, scope, others, of=[conversation]),
        *await _begin_alike(store, scope, others, [conversation]),
    }
    left = [name for name in others if name in same or _is_under(name, conversation)]
    return await _erase(store, scope, ("session", conversation), [conversation], left, now=now)


async def erase_user(
    store: Store, scope: Scope, user: str, *, now: int, forget: Callable[[str], None]
) -> ErasureReceipt:
    """Erase all conversations of a user and their forks, and return a receipt; raises `NotFound` if there are none.

    `forget` is called with the id of each conversation before it is erased.
    """
    check_name(user, "user id")
    names, left = await _conversations_of(store, scope, user)
    namespaces = [each for each in await _namespaces(store, scope) if user in _users_in(each[1])]
    if not names and not namespaces:
        raise NotFound(
            f"no session of user {user!r}: no id is {user!r} or begins with {user + '/'!r}, and no message or owner "
            "has this user_id"
        )
    return await _erase(
        store, scope, ("user", user), names, left, now=now, forget=forget, namespaces=namespaces
    )


async def erase_tenant(
    store: Store, scope: Scope, *, now: int, forget: Callable[[str], None]
) -> ErasureReceipt:
    """Erase all conversations of a tenant, and return a receipt; raises `NotFound` if there are none.

    `forget` is called with the id of each conversation before it is erased. Raises `Conflict` if others keep writing
    new conversations.
    """
    salt, erased = secrets.token_hex(16), list[ErasedConversation]()
    for _ in range(_PASSES):
        names = [info.conversation for info in await all_conversations(store, scope)]
        if not names and not erased:
            raise NotFound(
                f"tenant {scope.tenant!r} has no sessions, so nothing was erased: check the tenant's name"
            )
        if not names:
            return _receipt(("tenant", scope.tenant), salt, erased, (), now=now)
        for name in names:
            forget(name)
            erased.append(await _erase_one(store, scope, name, salt))
    raise Conflict(
        f"{len(erased)} conversations of the tenant were erased, and new ones are still being written: stop the "
        "writers, then erase again"
    )


async def verify_erasure(store: Store, scope: Scope, receipt: ErasureReceipt) -> ErasureCheck:
    """Read the store again and check that it has none of the conversations that an erasure receipt names."""
    ErasureReceipt.require(receipt)
    erased = {each.id_digest for each in receipt.conversations}
    found: list[str] = []
    names = [info.conversation for info in await all_conversations(store, scope)]
    derived = await _derived_of_erased(store, scope, receipt, names)
    for name in names:
        users = await _users_of(store, scope, name) if receipt.kind == "user" else set[str]()
        if (
            (receipt.kind == "tenant" and receipt.subject == _salted(receipt.salt, scope.tenant))
            or name in derived
            or _conversation_digest(receipt.salt, scope, name) in erased
            or receipt.subject in {_salted(receipt.salt, user) for user in users}
        ):
            found.append(name)
    if receipt.kind == "user":
        found += [
            name
            for each, path in await _namespaces(store, scope)
            if receipt.subject in {_salted(receipt.salt, label) for label in _users_in(path)}
            for name in await derived_conversations(store, scope, path, [each])
        ]
    intact = receipt.is_intact
    return ErasureCheck(
        ok=intact and bool(erased) and not found,
        intact=intact,
        named=len(erased),
        searched=len(names),
        found=tuple(found),
    )


async def _derived_of_erased(
    store: Store, scope: Scope, receipt: ErasureReceipt, names: Iterable[str]
) -> set[str]:
    """Return the conversations in which adapters still store data or index entries for erased conversations."""
    erased = {each.id_digest for each in receipt.conversations}

    def is_erased(owner: str) -> bool:
        return bool(owner) and _conversation_digest(receipt.salt, scope, owner) in erased

    found: set[str] = set()
    adapters = await adapters_in(store, scope, names)
    for name in names:
        for each in adapters:
            owner = each.owner_of(name)
            if is_erased(owner):
                found.update(await derived_conversations(store, scope, owner, [each]))
            if each.is_index(name):
                listed = await all_documents(store, scope, name, each.kind)
                found.update(name for document in listed if is_erased(each.owner_in(document.key)))
    return found


async def _erase(
    store: Store,
    scope: Scope,
    subject: tuple[ErasureKind, str],
    names: Iterable[str],
    forks: Iterable[str],
    *,
    now: int,
    forget: Callable[[str], None] = lambda _: None,
    namespaces: Iterable[tuple[AdapterHomes, str]] = (),
) -> ErasureReceipt:
    salt = secrets.token_hex(16)
    erased: list[ErasedConversation] = []

    async def erase_home(home: str) -> None:
        erased.append(replace(await _erase_one(store, scope, home, salt), derived=True))

    present = [info.conversation for info in await all_conversations(store, scope)]
    adapters = await adapters_in(store, scope, present)
    for name in names:
        forget(name)
        erased.append(await _erase_one(store, scope, name, salt))
        await erase_derived(store, scope, name, erase_home, adapters)
    for each, path in namespaces:
        await erase_derived(store, scope, path, erase_home, [each])
    return _receipt(subject, salt, erased, forks, now=now)


def _receipt(
    subject: tuple[ErasureKind, str],
    salt: str,
    erased: Iterable[ErasedConversation],
    forks: Iterable[str],
    *,
    now: int,
) -> ErasureReceipt:
    kind, name = subject
    made = ErasureReceipt(
        kind=kind,
        subject=_salted(salt, name),
        salt=salt,
        at=now,
        conversations=tuple(erased),
        forks=tuple(forks),
        digest="",
    )
    return replace(made, digest=_receipt_digest(made))


async def _erase_one(store: Store, scope: Scope, name: str, salt: str) -> ErasedConversation:
    try:
        digest, entries, documents = await _contents(store, scope, name)
    except WrongKey:  # it cannot be read without its key, but it can be erased
        digest, entries, documents = "", -1, None
    done = await store.delete(scope, name)
    if documents is None:
        documents = Counter({_UNREADABLE: done.documents} if done.documents else {})
    same = (entries, documents.total()) == (done.entries, done.documents)
    return ErasedConversation(
        id_digest=_conversation_digest(salt, scope, name),
        entries=done.entries,
        checkpoints=done.checkpoints,
        documents=dict(sorted(documents.items())),
        content_digest=digest if same and not done.already else "",
        already=done.already,
    )


async def _contents(store: Store, scope: Scope, name: str) -> tuple[str, int, Counter[str]]:
    """Return the digest of a conversation's content, the number of its entries, and the number of documents by kind."""
    digest, documents, entries = blake2b(digest_size=32), Counter[str](), 0

    def take(document: Document) -> None:
        documents[document.kind] += 1
        for each in (document.kind.encode(), document.key.encode(), document.body):
            _add(digest, each)

    captured = await store.capture(scope, name, take)
    for checkpoint in captured.checkpoints if captured is not None else ():
        _add(digest, checkpoint.text.encode("utf-8", "surrogatepass"))
    async for entry in all_entries(store, scope, name):
        _add(digest, encode_message(entry.message))
        entries = entry.seq
    return digest.hexdigest(), entries, documents


def _add(digest: blake2b, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big"))
    digest.update(part)


async def _conversations_of(store: Store, scope: Scope, user: str) -> tuple[list[str], list[str]]:
    """Return two lists of conversation ids: those to erase, and others that may contain copies of the erased ones.

    The first list has the user's conversations and their forks. The second has conversations that are not known to be
    forks, but have the same beginning as an erased one, or an id below that of an erased one (`a/b` is below `a`).
    Forks come first: after an interruption they can only be found while their originals still exist.
    """
    mine, others = list[str](), list[str]()
    listed = [info.conversation for info in await all_conversations(store, scope)]
    adapters = await adapters_in(store, scope, listed)
    # A thread that only an adapter stored has no conversation with its own id in the store.
    owners = dict.fromkeys(each.owner_of(name) for name in listed for each in adapters)
    known = {*listed, ""}
    mine += [name for name in owners if name not in known and _is_of(name, user)]
    for name in listed:
        belongs = _is_of(name, user)
        belongs = belongs or user in await _users_of(store, scope, name)
        (mine if belongs else others).append(name)
    forks = await forks_among(store, scope, others, of=mine)
    # An equal beginning does not prove a copy: two conversations may start with the same messages at the same time.
    similar = set(await _begin_alike(store, scope, others, mine))
    erased = {*forks, *mine}
    left = [
        name
        for name in others
        if name not in erased and (name in similar or not erased.isdisjoint(_parents(name)))
    ]
    return forks + mine, left


async def _namespaces(store: Store, scope: Scope) -> list[tuple[AdapterHomes, str]]:
    """Return all namespaces of LangGraph's long-term stores, each with the names that its store uses."""
    found: list[tuple[AdapterHomes, str]] = []
    listed = [info.conversation for info in await all_conversations(store, scope)]
    for each in await adapters_in(store, scope, listed, [ITEM_HOMES]):
        documents = await all_documents(store, scope, f"{each.name}:{each.index}", each.kind)
        found += [(each, document.key) for document in documents]
    return found


def _users_in(path: str) -> set[str]:
    """Return the ids of all users that a LangGraph namespace may belong to.

    These are the whole path, each label, and what is before a slash in either.
    """
    labels = [label.replace("%2F", "/").replace("%25", "%") for label in path.split("/")]
    return {part for name in ("/".join(labels), *labels) for part in (name, *_parents(name))}


def _is_of(name: str, user: str) -> bool:
    return name == user or _is_under(name, user)


def _is_under(name: str, parent: str) -> bool:
    return name.startswith(f"{parent}/")


def _parents(name: str) -> list[str]:
    """Return the ids above an id, which end before one of its slashes: `a` and `a/b` for `a/b/c`."""
    return [name[:at] for at, char in enumerate(name) if char == "/"]


async def _users_of(store: Store, scope: Scope, name: str) -> set[str]:
    """Return the ids of the users that a conversation belongs to, by its id or by labels."""
    users = {name, *_parents(name)}
    async for entry in all_entries(store, scope, name):
        users.add(str(entry.message.metadata.get(_USER, "")))
    for document in await store.documents(scope, name, _OWNER):
        users.add(msgspec.json.decode(document.body, type=_OwnerNote).user_id)
    return users - {""}


class _OwnerNote(msgspec.Struct):
    user_id: str = ""


async def _begin_alike(
    store: Store, scope: Scope, names: Iterable[str], others: Iterable[str]
) -> list[str]:
    """Return the conversations of `names` that begin with the same entries, at the same times, as one of `others`."""
    beginnings = {await _beginning(store, scope, name) for name in others} - {()}
    if not beginnings:
        return []
    return [name for name in names if await _beginning(store, scope, name) in beginnings]


async def _beginning(store: Store, scope: Scope, name: str) -> tuple[tuple[int, str, bytes], ...]:
    """Return time, client id and message of the first entries of a conversation; empty if they cannot be decrypted."""
    try:
        found = await store.read(scope, name, limit=_BEGINNING)
    except WrongKey:
        return ()
    return tuple((each.created, each.client_id, encode_message(each.message)) for each in found)


def _conversation_digest(salt: str, scope: Scope, name: str) -> str:
    _check_salt(salt)
    return id_digest(salt, scope, name)


def _check_salt(salt: str) -> None:
    if not _SALT.fullmatch(salt):
        raise InvalidRecord(
            f"the salt of an erasure receipt must be 32 hexadecimal digits, got {salt[:40]!r}: the receipt was changed",
            path="salt",
            remedy="Pass the receipt as it was returned or printed",
        )


def _salted(salt: str, name: str) -> str:
    _check_salt(salt)
    key = bytes.fromhex(salt)
    return blake2b(name.encode("utf-8", "surrogatepass"), key=key, digest_size=16).hexdigest()


def _receipt_digest(receipt: ErasureReceipt) -> str:
    named = {each.name: getattr(receipt, each.name) for each in fields(receipt)}
    # Receipts of earlier releases do not have `derived`: it is left out where it is False.
    named["conversations"] = [
        {
            key: value
            for key, value in msgspec.to_builtins(each).items()
            if value or key != "derived"
        }
        for each in receipt.conversations
    ]
    values = [value for name, value in named.items() if name != "digest"]
    return blake2b(msgspec.json.encode(values, order="sorted"), digest_size=32).hexdigest()
