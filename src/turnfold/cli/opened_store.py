"""A store opened for one command, and the sessions in it as their own program counts them.

A conversation says by which counter its costs were made; looking at it with another would show other figures, and a
copy made with another would be counted anew. So the store is opened with that one, where it is known.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from turnfold.budget import Budget
from turnfold.cli.store_address import address_of, require_there
from turnfold.errors import InvalidOption, NotFound
from turnfold.memory import Memory, Session
from turnfold.memory.drive import drive
from turnfold.memory.manifests import Manifest, budget_of, call_key
from turnfold.memory.recent_calls import recent_calls
from turnfold.stores import ConversationInfo, Head, Scope, Store, open_store
from turnfold.stores.addresses import shown_address
from turnfold.tokens import (
    TokenCounter,
    cautious_counter,
    context_window_for,
    counter_for,
    counter_named,
)

__all__ = (
    "Opened",
    "OpenedSession",
    "all_conversations",
    "find_call",
    "find_session",
    "open_at",
    "open_session",
    "session_in",
)

LAST, PREVIOUS = "@last", "@prev"
_PAGE = 500
_CANDIDATES = 8
_CALL = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True)
class Opened:
    """A store and whose part of it."""

    store: Store
    scope: Scope
    address: str


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """One session, its newest calls, and the budget they were held to."""

    opened: Opened
    memory: Memory
    session: Session
    head: Head
    calls: tuple[Manifest, ...]
    budget: Budget


@contextmanager
def open_at(
    store: str | None, tenant: str, *, counter: TokenCounter | None = None, make: bool = False
) -> Generator[Opened]:
    """The store of a command; `make` says that it may be a new one."""
    address = address_of(store)
    if not make:
        require_there(address)
    held = open_store(address, counter=counter, blocking=True)
    try:
        yield Opened(held, Scope(tenant), shown_address(address))
    finally:
        drive(held.close())


@contextmanager
def open_session(
    store: str | None,
    tenant: str,
    name: str,
    *,
    model: str | None = None,
    budget: int | None = None,
    calls: int = 60,
) -> Generator[OpenedSession]:
    """The session a prefix names, in a store that counts as its own program did."""
    with open_at(store, tenant) as opened:
        conversation = find_session(opened, name)
        head = drive(opened.store.head(opened.scope, conversation))
    counter = counter_for(model) if model else _counter_of(head)
    with open_at(store, tenant, counter=counter) as opened:
        yield session_in(opened, conversation, counter, model=model, budget=budget, calls=calls)


def session_in(
    opened: Opened,
    conversation: str,
    counter: TokenCounter | None = None,
    *,
    model: str | None = None,
    budget: int | None = None,
    calls: int = 60,
) -> OpenedSession:
    """A session of a store that is open, to be looked at."""
    head = drive(opened.store.head(opened.scope, conversation))
    counted = counter or _counter_of(head)
    usual = Memory(opened.store, scope=opened.scope, counter=counted)
    made = drive(recent_calls(usual.session(conversation).awaiting, most=calls))
    limit = _budget(usual, made, budget, model)
    memory = Memory(
        opened.store, scope=opened.scope, counter=counted, budget=limit, checkpoint="manual"
    )
    return OpenedSession(opened, memory, memory.session(conversation), head, tuple(made), limit)


def _budget(memory: Memory, calls: list[Manifest], tokens: int | None, model: str | None) -> Budget:
    """What was asked for, else what the newest call was held to, else what the model reads."""
    if tokens is not None:
        return Budget(max_tokens=tokens)
    if calls:
        return budget_of(calls[-1])
    return Budget(context_window=context_window_for(model)) if model else memory.budget


def _counter_of(head: Head) -> TokenCounter:
    known = counter_named(head.counter) if head.counter else cautious_counter()
    if known is None:
        sys.stderr.write(
            f"turnfold: the costs here were made by {head.counter!r}, which is not known to this command; "
            "name the model with --model. Figures are by the cautious counter\n"
        )
        return cautious_counter()
    return known


def all_conversations(opened: Opened) -> list[ConversationInfo]:
    """Every conversation of the tenant, by name."""
    found: list[ConversationInfo] = []
    while page := drive(
        opened.store.conversations(
            opened.scope, after=found[-1].conversation if found else "", limit=_PAGE
        )
    ):
        found.extend(page)
    return found


def find_session(opened: Opened, name: str) -> str:
    """The conversation a name or the beginning of one means; `@last` is the one changed last."""
    if name == LAST:
        known = all_conversations(opened)
        if not known:
            raise NotFound(f"no session of tenant {opened.scope.tenant!r} in {opened.address}")
        return max(known, key=lambda info: (info.updated, info.conversation)).conversation
    if drive(opened.store.head(opened.scope, name)).generation:
        return name
    page = drive(opened.store.conversations(opened.scope, after=name, limit=_CANDIDATES + 1))
    found = [info.conversation for info in page if info.conversation.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:_CANDIDATES]) + (", ..." if len(found) > _CANDIDATES else "")
        raise InvalidOption(f"{name!r} is the beginning of several sessions: {shown}")
    raise NotFound(
        f"no session {name!r} of tenant {opened.scope.tenant!r} in {opened.address}; "
        "`turnfold sessions` lists them"
    )


def find_call(at: OpenedSession, name: str) -> str:
    """The call a name means: whole, a seq, a seq and a number, `@last` or `@prev`."""
    made = at.calls
    if name in (LAST, PREVIOUS):
        back = 1 if name == LAST else 2
        if len(made) < back:
            raise NotFound(f"{at.session.id!r} has {len(made)} calls: there is no {name}")
        return made[-back].call
    parts = _CALL.fullmatch(name)
    if parts is None:
        raise InvalidOption(
            f"{name!r} names no call: use SEQ, SEQ-NUMBER, {LAST} or {PREVIOUS}; `turnfold explain {at.session.id} "
            "--list` shows them"
        )
    seq = int(parts[1])
    page = at.session.calls(after=call_key(seq, 0)[:-5], limit=_PAGE)
    found = [each.call for each in page if each.seq == seq]
    if parts[2] is not None:
        wanted = call_key(seq, int(parts[2]))
        found = [call for call in found if call == wanted]
    if not found:
        near = ", ".join(each.call for each in (page[:2] or made[-2:]))
        raise NotFound(
            f"no call {name!r} in {at.session.id!r}{f'; near it: {near}' if near else ''}"
        )
    if len(found) > 1:
        raise InvalidOption(f"{name!r} is the beginning of several calls: {', '.join(found)}")
    return found[0]
