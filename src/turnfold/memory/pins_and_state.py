"""Pins (texts that every call shows) and session state (JSON values by name), which the application sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import msgspec

from turnfold.budget import Budget
from turnfold.errors import Conflict, InvalidOption, NotFound
from turnfold.memory.cached_conversation import ConversationCache
from turnfold.memory.prompt_tail import check_pins, entry_pin_text
from turnfold.records import (
    PIN,
    SESSION,
    STATE,
    Entry,
    Message,
    PinNote,
    StateNote,
    check_text,
    freeze_object,
    is_erased,
    plain_text,
    read_note,
    thaw_object,
    write_note,
)
from turnfold.runtime import Runtime
from turnfold.stores import content_digest, plain_digest, redaction_of

__all__ = (
    "AsyncState",
    "Pins",
)


_LONG_TEXT = 10_000
"""Most characters of a pin whose tokens are counted on an event loop; a longer pin is counted in a thread."""
_MAX_TRIES = 64
"""Most attempts to store one change of the session state; an attempt fails if another writer was first."""


class AsyncState:
    """Session state: JSON values by name that contexts show, shared by all session objects of a conversation.

    Concurrent changes of different names are all kept.
    """

    def __init__(self, cache: ConversationCache) -> None:
        self._cache = cache

    def __setitem__(self, name: str, value: object) -> NoReturn:
        """Refuse `state[name] = value`, which cannot wait for the store."""
        raise InvalidOption(f"the state cannot be assigned to: use state.set({name!r}, {value!r})")

    def __getitem__(self, name: str) -> NoReturn:
        """Refuse `state[name]`, which cannot wait for the store."""
        raise InvalidOption(f"the state cannot be indexed: use state.get({name!r})")

    async def all(self) -> dict[str, object]:
        """Return all values of the session state by name."""
        return (await self._read())[0].values

    async def get(self, name: str, default: object = None) -> object:
        """Return the value stored under `name`, or `default` if there is none."""
        return (await self.all()).get(name, default)

    async def set(self, name: str, value: object) -> None:
        """Store a JSON value under a name, replacing an earlier one; contexts show it from the next user turn on."""
        await self.update({name: value})

    async def update(self, values: Mapping[str, object]) -> None:
        """Store several JSON values by name at once; other names keep their values.

        Raises `InvalidRecord` if a value is not JSON.
        """
        checked = thaw_object(freeze_object(values, path="state"))
        cache = self._cache
        if redaction := redaction_of(cache.store):
            checked = await redaction.value(cache.scope, cache.conversation, checked)
        await self._change(lambda known: {**known, **checked})

    async def remove(self, name: str) -> bool:
        """Remove the value stored under a name; return False if there was none."""
        existed = name in await self.all()
        await self._change(lambda known: {key: known[key] for key in known if key != name})
        return existed

    async def _read(self) -> tuple[StateNote, int]:
        document = await self._cache.document(SESSION, STATE)
        return read_note(document, StateNote), document.version if document else 0

    async def _change(self, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
        cache = self._cache
        for attempt in range(1, _MAX_TRIES + 1):
            note, version = await self._read()
            head = await cache.store.head(cache.scope, cache.conversation)
            changed = StateNote(values=change(note.values), since=head.seq)
            document = write_note(SESSION, STATE, changed)
            try:
                await cache.store.put_document(
                    cache.scope, cache.conversation, document, expect=version
                )
            except Conflict:
                if attempt == _MAX_TRIES:
                    raise
            else:
                return


@dataclass(frozen=True, slots=True)
class Pins:
    """The pins of one conversation: texts that every call shows word for word.

    Pinning and unpinning take effect in the next user turn, so that the prompt of a running turn stays the same. A pin
    that would not fit together with the others is refused, because it would make every later context fail.
    """

    cache: ConversationCache
    lock: AbstractAsyncContextManager[None]
    """The lock of the session's cached state."""
    budget: Budget
    """The memory's budget; all pins together must fit into its share for the tail (pins, rules, recalled text)."""
    runtime: Runtime

    async def pin(self, content: str, key: str) -> str:
        """Show a text in every call from the next user turn on; return `key`, or a key made from the text."""
        text = check_text(plain_text(content, path="content"), path="content")
        if not text.strip():
            raise InvalidOption("cannot pin an empty text: give content=, or seq= for an entry")
        if redaction := redaction_of(self.cache.store):
            text = await redaction.text(self.cache.scope, self.cache.conversation, text)
        return await self._pin(key or await self._key_of(text), text)

    async def _key_of(self, text: str) -> str:
        """Return the key of a pin that is given none: the same for the same text."""
        cache, known = self.cache, plain_digest(text, size=6)
        made = await content_digest(cache.store, cache.scope, cache.conversation, text, size=6)
        if made == known:
            return known
        # An earlier release did not key it.
        return known if known in await self.current() else made

    async def pin_entry(self, seq: int, key: str, expected: Message | None = None) -> str:
        """Pin the text of log entry `seq` and return the pin's key, by default `entry-<seq>`.

        Raises `NotFound` if there is no such entry, `InvalidOption` if its message is not `expected` or has no text.
        """
        cache = self.cache
        found = await cache.store.read(
            cache.scope, cache.conversation, after=max(seq - 1, 0), upto=max(seq, 0), limit=1
        )
        if not found:
            raise NotFound(
                f"there is no entry {seq} in {cache.conversation!r}: session.history() lists the entries"
            )
        message = found[0].message
        if expected is not None and message != expected:
            raise InvalidOption(
                f"cannot pin the given entry: entry {seq} of {cache.conversation!r} has another message, as it was "
                "erased or the given entry is of another conversation; read it again with session.history()"
            )
        if is_erased(message) or not message.text.strip():
            why = "was erased" if is_erased(message) else "has no text"
            raise InvalidOption(f"cannot pin entry {seq}: it {why}; pin a text instead")
        return await self._pin(key or f"entry-{seq}", entry_pin_text(found[0]), found[0])

    async def _pin(self, name: str, text: str, entry: Entry | None = None) -> str:
        cache = self.cache
        async with self.lock:
            await cache.refresh()
            others = [pin.text for each, pin in cache.pins if each != name and not pin.until]
            check = partial(check_pins, others, self.budget, cache.counter, new=text)
            if len(text) > _LONG_TEXT:
                await self.runtime.compute(check)
            else:
                check()
            head, seq = cache.head, entry.seq if entry else 0
            note = PinNote(text=text, since=head.seq, order=head.generation, seq=seq)
            # If the entry is erased meanwhile, the store refuses to write its words.
            await self._put(name, note, seen=(entry.seq, entry.epoch) if entry else None)
        return name

    async def unpin(self, key: str) -> bool:
        """Stop showing a pinned text from the next user turn on; return False if nothing is pinned under the key."""
        cache = self.cache
        async with self.lock:
            await cache.refresh()
            pin = dict(cache.pins).get(key)
            if pin is None or pin.until:
                return False
            until = cache.head.seq
            if pin.since >= until:
                await cache.store.drop_document(cache.scope, cache.conversation, PIN, key)
            else:
                await self._put(key, msgspec.structs.replace(pin, until=until))
            return True

    async def current(self) -> dict[str, str]:
        """Return the texts that are pinned now, by key, oldest first."""
        async with self.lock:
            await self.cache.refresh()
            return {key: pin.text for key, pin in self.cache.pins if not pin.until}

    async def _put(self, key: str, note: PinNote, *, seen: tuple[int, int] | None = None) -> None:
        cache = self.cache
        document = write_note(PIN, key, note)
        await cache.store.put_document(cache.scope, cache.conversation, document, seen=seen)
