"""`turnfold fold`, `checkpoints` and `fork`: fold (compact) a session, list or drop its summaries, or copy it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from turnfold.cli.labels import known_label, label, with_singulars
from turnfold.cli.output import as_json, make_console, printable
from turnfold.cli.store import open_session
from turnfold.errors import NotFound
from turnfold.inspect import fidelity_of_all
from turnfold.records import Checkpoint

__all__ = (
    "ListedCheckpoints",
    "MadeFold",
    "MadeFork",
    "list_checkpoints",
    "make_fold",
    "make_fork",
    "read_summary",
    "show_checkpoints",
    "show_fold",
    "show_fork",
)


_MOST_CHECKED = 2_000
"""Most entries whose facts are read to say how many of them a summary states; they take about a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFold:
    """Result of `turnfold fold`: the session, and the checkpoint (summary) that was made."""

    session: str
    checkpoint: Checkpoint | None
    """None if there was nothing to fold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFork:
    """Result of `turnfold fork`: the new conversation, and how much was copied."""

    session: str
    forked_from: str
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCheckpoints:
    """Checkpoints (fold summaries) of a session to print."""

    session: str
    checkpoints: list[Checkpoint]
    dropped: bool
    """True if the listed checkpoints are dropped ones."""
    fidelity_of_all: float | None = None
    """Share of the facts of all entries the newest checkpoint covers; None for dropped ones and for long logs."""


def read_summary(given: str | None) -> str | None:
    """Return the summary that an option names: its text, the content of a file (`@FILE`) or standard input (`-`).

    Returns None if the option was not given.
    """
    if given is None or not given.startswith(("@", "-")) or (given[0] == "-" and given != "-"):
        return given
    if given == "-":
        return sys.stdin.read()
    path = Path(given[1:])
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise NotFound(f"cannot read the summary {path}: {error.strerror}") from None


def make_fold(
    store: str | None,
    tenant: str,
    session: str,
    *,
    summary: str | None,
    keep_turns: int | None,
    budget: int | None,
    model: str | None,
) -> MadeFold:
    """Fold everything before the newest turns into the summary that was passed, or into an extractive one."""
    with open_session(store, tenant, session, budget=budget, model=model, calls=1) as at:
        made = at.session.fold(summary=summary, keep_turns=keep_turns)
        return MadeFold(session=at.session.id, checkpoint=made)


def make_fork(
    store: str | None, tenant: str, session: str, target: str, *, at: int | None
) -> MadeFork:
    """Copy a conversation up to entry `at` (by default all of it) to a new conversation with the id `target`."""
    with open_session(store, tenant, session, calls=1) as opened:
        copy = opened.session.fork(at, conversation=target)
        return MadeFork(
            session=copy.id, forked_from=opened.session.id, entries=copy.status().entries
        )


def list_checkpoints(
    store: str | None, tenant: str, session: str, *, drop: str | None, dropped: bool
) -> ListedCheckpoints:
    """Return the checkpoints (summaries) of a session.

    With `dropped`, returns the dropped ones; with `drop`, drops that checkpoint and returns those it dropped.
    """
    with open_session(store, tenant, session, calls=1) as at:
        if drop is not None:
            gone = at.session.drop_checkpoint(drop)
            return ListedCheckpoints(session=at.session.id, checkpoints=gone, dropped=True)
        found = at.session.checkpoints(dropped=dropped)
        total = None
        if found and not dropped and found[-1].upto <= _MOST_CHECKED:
            total = fidelity_of_all(found[-1], at.session.history(limit=found[-1].upto))
        return ListedCheckpoints(
            session=at.session.id, checkpoints=found, dropped=dropped, fidelity_of_all=total
        )


def show_checkpoints(listed: ListedCheckpoints, *, json: bool) -> None:
    """Print checkpoints (summaries), oldest first."""
    if json:
        print(as_json(listed))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    if not listed.checkpoints:
        console.print(label("no checkpoints"))
    for each in listed.checkpoints:
        if listed.dropped:
            console.print(label("dropped; later contexts leave it out:"))
        newest = each is listed.checkpoints[-1]
        _print_checkpoint(console, each, listed.fidelity_of_all if newest else None)
    if listed.checkpoints:
        _print_legend(console)


def _print_checkpoint(console: Console, checkpoint: Checkpoint, total: float | None = None) -> None:
    text = label(
        "checkpoint {id}: up to entry {upto:,}, fidelity {fidelity:.0%} of what this fold read, trust {trust}"
    )
    text = text.format(
        id=printable(checkpoint.id),
        upto=checkpoint.upto,
        fidelity=checkpoint.fidelity,
        trust=known_label(printable(checkpoint.trust)),
    )
    console.print(Text(text, "bold"))
    if total is not None:
        every = label("fidelity {fidelity:.0%} of all entries it covers; recall finds the rest")
        console.print(Text(every.format(fidelity=total), "bold"))
    console.print(Text("\n".join(printable(line) for line in checkpoint.text.splitlines())))


def _print_legend(console: Console) -> None:
    text = label(
        "fidelity: share of the names, numbers and dates that the summary has, of what its fold read: the entries that "
        "are new in it and the summary before it; "
        "trust: the least trusted author among them"
    )
    console.print(Text(text, "dim", overflow="fold"))


def show_fold(made: MadeFold, *, json: bool) -> None:
    """Print the checkpoint (summary) that a fold made."""
    if json:
        print(as_json(made))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    checkpoint = made.checkpoint
    if checkpoint is None:
        console.print(label("nothing to fold: there are only the turns to keep (see --keep-turns)"))
        return
    _print_checkpoint(console, checkpoint)
    _print_legend(console)


def show_fork(made: MadeFork, *, json: bool) -> None:
    """Print the result of a fork (copy of a session), as text or JSON."""
    if json:
        print(as_json(made))  # noqa: T201 (what the command is for)
        return
    text = label("{session}: {entries:,} entries of {source}").format(
        session=printable(made.session), entries=made.entries, source=printable(made.forked_from)
    )
    make_console().print(Text(with_singulars(text)))
