"""`turnfold pin`, `unpin` and `delete`: pins texts and entries of a session, deletes a session or an entry."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rich.text import Text

from turnfold.cli.labels import label
from turnfold.cli.output import as_json, make_console, printable
from turnfold.cli.store import open_session
from turnfold.errors import InvalidOption, NotFound
from turnfold.stores import Erasure

__all__ = (
    "PinsScreen",
    "change_pins",
    "delete_session",
    "drop_pin",
    "show_erasure",
    "show_pins",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinsScreen:
    """The pins of a session after a change."""

    session: str
    pins: dict[str, str]
    """Pinned texts by key, oldest first."""


def change_pins(
    store: str | None, tenant: str, session: str, *, content: str, entry: int, key: str
) -> PinsScreen:
    """Pin a text or an entry."""
    with open_session(store, tenant, session, calls=1) as at:
        at.session.pin(content, seq=entry, key=key)
        return PinsScreen(session=at.session.id, pins=at.session.pins())


def drop_pin(store: str | None, tenant: str, session: str, *, key: str) -> PinsScreen:
    """Remove a pin; raises `NotFound` if it is not pinned."""
    with open_session(store, tenant, session, calls=1) as at:
        if not at.session.unpin(key):
            names = ", ".join(map(repr, at.session.pins())) or "none"
            raise NotFound(f"no pin {key!r} in {at.session.id!r}; pinned: {names}")
        return PinsScreen(session=at.session.id, pins=at.session.pins())


def show_pins(found: PinsScreen, *, json: bool) -> None:
    """Print the pins of a session."""
    if json:
        print(as_json(found))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    title = label("{session}: {pins:,} pins").format(
        session=printable(found.session), pins=len(found.pins)
    )
    console.print(Text(title, "bold"))
    for key, text in found.pins.items():
        console.print(Text(f"{printable(key)}: {' '.join(map(printable, text.splitlines()))}"))


def delete_session(
    store: str | None,
    tenant: str,
    session: str,
    *,
    entry: int | None,
    reason: str,
    asked: bool,
) -> Erasure:
    """Delete a session or one entry of it; asks first on a terminal, unless `asked`."""
    if reason and entry is None:
        raise InvalidOption("--reason is for --entry: nothing stays of a deleted session")
    with open_session(store, tenant, session, calls=1) as at:
        named = printable(at.session.id)
        if at.session.id != session:
            raise InvalidOption(f"to delete, give the whole id of the session: {named}")
        if not asked:
            if not sys.stdin.isatty():
                raise InvalidOption(f"this deletes from {named!r} for good: add --yes")
            question = label("delete from {session} for good? [y/N] ").format(session=named)
            if input(question).strip().lower() not in ("y", "yes", "是"):
                raise InvalidOption("nothing was deleted")
        if entry is None:
            return at.session.delete()
        return at.session.erase(entry, reason=reason)


def show_erasure(erasure: Erasure, *, entry: int | None, json: bool) -> None:
    """Print what a deletion removed, and what it did not reach."""
    if json:
        print(as_json(erasure))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    text = label(
        "deleted: {entries:,} entries, {checkpoints:,} checkpoints, {documents:,} documents"
    )
    counts = text.format(
        entries=erasure.entries, checkpoints=erasure.checkpoints, documents=erasure.documents
    )
    console.print(Text(counts, "bold"))
    if erasure.already:
        console.print(Text(label("it was deleted before")))
    for name in erasure.mentions:
        line = label("kept, and may contain the text: {name}").format(name=printable(name))
        console.print(Text(line, "yellow"))
    if entry is not None:
        console.print(Text(label("backups, exports and forks made before are not reached"), "dim"))
