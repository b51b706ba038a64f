"""`TurnfoldStore`: LangGraph's long-term store (`BaseStore`) on any store of turnfold.

Each namespace has a home (a conversation of the store) with one document per item, so that erasing a namespace erases
every byte of it and nothing else. An index names the home of each namespace. The texts of an item are indexed by
turnfold's search, English and Chinese; no embeddings are needed. Stored data is not trusted: it is read as JSON, and a
home that does not belong to its namespace is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)

from turnfold.adapters._common import HookRunner, is_home, new_home
from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, InvalidRecord
from turnfold.memory import AsyncMemory, Memory
from turnfold.records import Document
from turnfold.search import Within
from turnfold.stores import all_documents, document_name
from turnfold.wire import object_of, text_at

__all__ = ("TurnfoldStore",)


_ITEM: Final = "langgraph-item"
_NAMESPACE: Final = "langgraph-namespace"
_MOST_HITS: Final = 200
"""Most items of a namespace that a query ranks; the items beyond these follow without a score."""
_TRIES: Final = 16
"""Attempts to write an item; an attempt fails if another writer was first."""
_REMEDY: Final = "Restore the store from a backup, or erase the document"


class TurnfoldStore(BaseStore):
    """LangGraph's store in the store of a memory: `create_agent(..., store=TurnfoldStore(memory))`.

    A `Memory` works with both forms of the interface, an `AsyncMemory` with the awaiting one. Values are JSON objects.
    A search with a query ranks items by their words; those without any of them follow, newest first. Items have no time
    to live: `ttl=` is refused.
    """

    supports_ttl = False

    def __init__(self, memory: AsyncMemory | Memory, *, name: str = "langgraph-store") -> None:
        blocking = isinstance(memory, Memory)
        self._runner = HookRunner(blocking=blocking, owner=type(self).__name__)
        self._items = _Items(memory.awaiting if isinstance(memory, Memory) else memory, name)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: reads first, then writes; of several writes of one item, the last counts."""
        return self._runner.block_on(self._batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: reads first, then writes; of several writes of one item, the last counts."""
        return await self._runner.run(self._batch(list(ops)))

    async def _batch(self, ops: Sequence[Op]) -> list[Result]:
        results = [None if isinstance(op, PutOp) else await self._read(op) for op in ops]
        last = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        checked = [(op, _document_of(op) if op.value is not None else None) for op in last.values()]
        for op, document in checked:
            if document is None:
                await self._items.drop(op.namespace, op.key)
            else:
                await self._items.put(op.namespace, document)
        return results

    async def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return await self._items.get(op.namespace, op.key)
        if isinstance(op, SearchOp):
            return await self._search(op)
        if isinstance(op, ListNamespacesOp):
            return await self._namespaces(op)
        raise InvalidOption(
            f"unknown operation {type(op).__name__}: use GetOp, SearchOp, PutOp or ListNamespacesOp"
        )

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        _check_page(op.limit, op.offset)
        ranked: list[SearchItem] = []
        others: list[SearchItem] = []
        for namespace, home in await self._items.homes(op.namespace_prefix):
            scores = await self._items.scores(home, op.query) if op.query else {}
            for item in await self._items.all(namespace, home):
                if not _matches(item.value, op.filter or {}):
                    continue
                score = scores.get(item.key)
                found = SearchItem(
                    item.namespace, item.key, item.value, item.created_at, item.updated_at, score
                )
                (others if score is None else ranked).append(found)
        ranked.sort(key=lambda one: -(one.score or 0))
        others.sort(key=lambda one: one.updated_at, reverse=True)
        return [*ranked, *others][op.offset : op.offset + op.limit]

    async def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        _check_page(op.limit, op.offset)
        found = [
            namespace
            for namespace, home in await self._items.homes(())
            if all(_fits(condition, namespace) for condition in op.match_conditions or ())
            and await self._items.has_any(home)
        ]
        cut = sorted({namespace[: op.max_depth] for namespace in found})
        return cut[op.offset : op.offset + op.limit]


@dataclass(slots=True)
class _Items:
    """Reads and writes the documents of items, and the index of namespaces."""

    memory: AsyncMemory
    name: str

    async def get(self, namespace: tuple[str, ...], key: str) -> Item | None:
        home, _ = await self._home(namespace)
        found = await self._document(home, key) if home else None
        return _item_of(namespace, found) if found is not None else None

    async def all(self, namespace: tuple[str, ...], home: str) -> list[Item]:
        documents = await all_documents(self.memory.store, self.memory.scope, home, _ITEM)
        return [_item_of(namespace, document) for document in documents]

    async def has_any(self, home: str) -> bool:
        return bool(await self.memory.store.documents(self.memory.scope, home, _ITEM, limit=1))

    async def scores(self, home: str, query: str) -> dict[str, float]:
        """Return {key of the item: search score} of the items that contain words of the query."""
        within = Within(kinds=frozenset({_ITEM}))
        hits = await self.memory.search(query, conversation=home, within=within, limit=_MOST_HITS)
        return {hit.key: hit.score for hit in hits}

    async def put(self, namespace: tuple[str, ...], document: Document) -> None:
        """Write an item; an item that is written again keeps its creation time."""
        for _ in range(_TRIES):
            home, version = await self._home(namespace)
            try:
                if not home:
                    home = await self._new_home(namespace, version)
                old = await self._document(home, document.key)
                await self.memory.store.put_document(
                    self.memory.scope,
                    home,
                    _with_created(document, old),
                    expect=old.version if old else 0,
                )
            except Conflict:
                continue
            except ConversationDeleted:  # the namespace was erased: give it a new home
                await self._forget(namespace, version)
                continue
            return
        raise Conflict(f"item {document.key!r} was written by others {_TRIES} times; try again")

    async def drop(self, namespace: tuple[str, ...], key: str) -> None:
        home, _ = await self._home(namespace)
        if home:
            await self.memory.store.drop_document(self.memory.scope, home, _ITEM, key)

    async def homes(self, prefix: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
        """Return the namespaces that begin with these labels, and the conversation that holds the items of each."""
        path = _path_of(prefix) if prefix else ""
        found = [(prefix, home)] if path and (home := (await self._home(prefix))[0]) else []
        below = await all_documents(
            self.memory.store,
            self.memory.scope,
            self._index,
            _NAMESPACE,
            prefix=f"{path}/" if path else "",
        )
        return found + [(_labels_of(one.key), self._home_in(one)) for one in below]

    @property
    def _index(self) -> str:
        return f"{self.name}:namespaces"

    async def _home(self, namespace: tuple[str, ...]) -> tuple[str, int]:
        """Return the conversation with a namespace's items ("" if there is none), and the index document's version."""
        path = _path_of(namespace)
        found = await self.memory.store.get_document(
            self.memory.scope, self._index, _NAMESPACE, path
        )
        return (self._home_in(found), found.version) if found is not None else ("", 0)

    async def _new_home(self, namespace: tuple[str, ...], version: int) -> str:
        path = _path_of(namespace)
        home = new_home(self._prefix(path))
        body = json.dumps({"home": home}).encode()
        document = Document(_NAMESPACE, path, body, 0)
        await self.memory.store.put_document(
            self.memory.scope, self._index, document, expect=version
        )
        return home

    async def _forget(self, namespace: tuple[str, ...], version: int) -> None:
        store, scope = self.memory.store, self.memory.scope
        await store.drop_document(
            scope, self._index, _NAMESPACE, _path_of(namespace), expect=version
        )

    def _prefix(self, path: str) -> str:
        return f"{self.name}:{document_name(path)}:"

    def _home_in(self, document: Document) -> str:
        home = text_at(_json_of(document), "home")
        if not is_home(home, self._prefix(document.key)):
            raise InvalidRecord(
                f"the stored document of this namespace names conversation {home[:200]!r}, which does not "
                "belong to it",
                path=document.key,
                remedy=_REMEDY,
            )
        return home

    async def _document(self, home: str, key: str) -> Document | None:
        return await self.memory.store.get_document(self.memory.scope, home, _ITEM, key)


def _path_of(namespace: Sequence[str]) -> str:
    """Return the labels of a namespace as one text, from which `_labels_of` restores them."""
    if not namespace or not all(isinstance(label, str) and label for label in namespace):  # pyright: ignore[reportUnnecessaryIsInstance] (of any caller)
        raise InvalidOption(f"namespace {namespace!r} must have labels, all of them non-empty text")
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in namespace)


def _labels_of(path: str) -> tuple[str, ...]:
    return tuple(label.replace("%2F", "/").replace("%25", "%") for label in path.split("/"))


def _document_of(op: PutOp) -> Document:
    """Return the document of an item; raises `InvalidRecord` for a value that JSON cannot express."""
    value = dict(op.value or {})
    now = datetime.now(UTC).isoformat()
    try:
        text = json.dumps({"value": value, "created": now, "updated": now}, allow_nan=False)
        same = json.loads(text)["value"] == value
        texts = "\n".join(_texts(value, op.index))
        texts.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json(op.key, str(error)) from None
    if not same:
        raise _not_json(
            op.key, "keys that are not text, and tuples, would come back as other values"
        )
    return Document(_ITEM, op.key, text.encode(), 0, text=texts)


def _not_json(key: str, reason: str) -> InvalidRecord:
    return InvalidRecord(
        f"the value of item {key!r} cannot be stored as JSON: {reason}",
        path="value",
        remedy="Give a dictionary of JSON values with text that is valid Unicode",
    )


def _texts(value: dict[str, Any], index: object) -> list[str]:
    """Return the texts in an item's value that searches look at: all texts, those at certain paths, or none."""
    if index is False:
        return []
    if index is None:
        return _strings(value)
    paths = cast("list[str]", index)
    return [text for path in paths for text in get_text_at_path(value, tokenize_path(path))]


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    return [text for one in inner for text in _strings(one)]


def _with_created(document: Document, old: Document | None) -> Document:
    if old is None:
        return document
    fields = {**_json_of(document), "created": _json_of(old).get("created")}
    return Document(_ITEM, document.key, json.dumps(fields).encode(), 0, text=document.text)


def _json_of(document: Document) -> dict[str, object]:
    try:
        found = object_of(json.loads(document.body))
    except (ValueError, RecursionError):
        found = None
    if found is None:
        raise InvalidRecord(
            f"the stored {document.kind} is not a JSON object", path=document.key, remedy=_REMEDY
        )
    return found


def _item_of(namespace: tuple[str, ...], document: Document) -> Item:
    fields = _json_of(document)
    value = object_of(fields.get("value"))
    try:
        times = [datetime.fromisoformat(text_at(fields, name)) for name in ("created", "updated")]
    except ValueError:
        times = []
    if value is None or not times:
        raise InvalidRecord(
            f"the stored {document.kind} has no value, or no valid times",
            path=document.key,
            remedy=_REMEDY,
        )
    created, updated = times
    return Item(
        value=value, key=document.key, namespace=namespace, created_at=created, updated_at=updated
    )


def _check_page(limit: int, offset: int) -> None:
    for name, value in (("limit", limit), ("offset", offset)):
        if value < 0:
            raise InvalidOption(f"{name}={value} must not be negative")


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Return True if a namespace begins or ends with the labels of a condition; `*` is any label."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidOption(f"match_type={condition.match_type!r} must be prefix or suffix")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)]
    if condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _matches(value: object, wanted: object) -> bool:
    """Return True if an item's value meets a filter: all conditions on its fields hold."""
    if isinstance(wanted, Mapping):
        rules = cast("Mapping[str, object]", wanted)
        if any(name.startswith("$") for name in rules):
            return all(_compares(value, name, limit) for name, limit in rules.items())
        fields = object_of(value)
        return fields is not None and all(
            _matches(fields.get(name), inner) for name, inner in rules.items()
        )
    return value == (
        list(cast("tuple[object, ...]", wanted)) if isinstance(wanted, tuple) else wanted
    )


def _compares(value: object, operator: str, limit: object) -> bool:
    if operator in ("$eq", "$ne"):
        return (value == limit) is (operator == "$eq")
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise InvalidOption(
            f"unknown operator {operator!r} of a filter: use $eq, $ne, $gt, $gte, $lt or $lte"
        )
    try:
        mine, other = float(cast("float", value)), float(cast("float", limit))
    except (TypeError, ValueError):
        return False
    if mine == other:
        return operator.endswith("e")
    return (mine > other) is operator.startswith("$gt")
