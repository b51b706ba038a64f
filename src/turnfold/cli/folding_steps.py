"""`turnfold checkpoint` and `turnfold fork`: the two commands that change a conversation, by hand."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from turnfold.cli.opened_store import open_session
from turnfold.cli.screen import as_json, make_console, printable
from turnfold.cli.words import label
from turnfold.errors import NotFound
from turnfold.records import Checkpoint

__all__ = (
    "Forked",
    "Made",
    "make_checkpoint",
    "make_fork",
    "read_summary",
    "show_checkpoint",
    "show_fork",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a checkpoint by hand did."""

    session: str
    checkpoint: Checkpoint | None
    """None when there was nothing to fold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A copy of a conversation."""

    session: str
    forked_from: str
    entries: int


def read_summary(given: str | None) -> str | None:
    """A summary as it was given: the text itself, `@FILE`, or `-` for the standard input."""
    if given is None or not given.startswith(("@", "-")) or (given[0] == "-" and given != "-"):
        return given
    if given == "-":
        return sys.stdin.read()
    path = Path(given[1:])
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise NotFound(f"the summary {path} cannot be read: {error.strerror}") from None


def make_checkpoint(
    store: str | None,
    tenant: str,
    session: str,
    *,
    summary: str | None,
    keep_turns: int | None,
    budget: int | None,
    model: str | None,
) -> Made:
    """Fold everything before the newest turns, behind the built-in summary or the one given."""
    with open_session(store, tenant, session, budget=budget, model=model, calls=1) as at:
        made = at.session.checkpoint(summary, keep_turns=keep_turns)
        return Made(session=at.session.id, checkpoint=made)


def make_fork(
    store: str | None, tenant: str, session: str, target: str, *, at: int | None
) -> Forked:
    """Copy a conversation up to a place, to go on from there in another direction."""
    with open_session(store, tenant, session, calls=1) as opened:
        copy = opened.session.fork(at, conversation=target)
        return Forked(session=copy.id, forked_from=opened.session.id, entries=copy.status().entries)


def show_checkpoint(made: Made, *, json: bool) -> None:
    """Print it."""
    if json:
        print(as_json(made))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    landed = made.checkpoint
    if landed is None:
        console.print(
            label("nothing to fold: all there is are the turns to keep (see --keep-turns)")
        )
        return
    told = label("checkpoint {id}: up to entry {upto:,}, fidelity {fidelity:.0%}, trust {trust}")
    text = told.format(id=landed.id, upto=landed.upto, fidelity=landed.fidelity, trust=landed.trust)
    console.print(Text(text, "bold"))
    console.print(Text("\n".join(printable(line) for line in landed.text.splitlines())))


def show_fork(made: Forked, *, json: bool) -> None:
    """Print it."""
    if json:
        print(as_json(made))  # noqa: T201 (what the command is for)
        return
    told = label("{session}: {entries:,} entries of {source}")
    text = told.format(
        session=printable(made.session), entries=made.entries, source=printable(made.forked_from)
    )
    make_console().print(Text(text))
