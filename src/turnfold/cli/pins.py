"""`turnfold pin` and `unpin`: pins texts and entries of a session."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from turnfold.cli.labels import label, with_singulars
from turnfold.cli.output import as_json, make_console, printable
from turnfold.cli.store import open_session
from turnfold.errors import InvalidOption, NotFound

__all__ = (
    "PinsScreen",
    "change_pins",
    "drop_pin",
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
    """Pin a text or an entry of a session, and return all pins."""
    with open_session(store, tenant, session, calls=1) as at:
        if not content.strip() and not entry:
            raise InvalidOption("give the text to pin, or --entry with the number of an entry")
        at.session.pin(content, seq=entry, key=key)
        return PinsScreen(session=at.session.id, pins=at.session.pins())


def drop_pin(store: str | None, tenant: str, session: str, *, key: str) -> PinsScreen:
    """Remove a pin of a session and return the others; raises `NotFound` if there is no such pin."""
    with open_session(store, tenant, session, calls=1) as at:
        if not at.session.unpin(key):
            names = ", ".join(map(repr, at.session.pins())) or "-"
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
    console.print(Text(with_singulars(title), "bold"))
    for key, text in found.pins.items():
        console.print(Text(f"{printable(key)}: {' '.join(map(printable, text.splitlines()))}"))
