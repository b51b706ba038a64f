"""The work of `turnfold pin`, `unpin`, `delete`, `fold`, `checkpoints` and `fork`: change a session, print results."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from turnfold.cli.chinese_labels import is_chinese, known_label, label, with_singulars
from turnfold.cli.store_and_session_lookup import find_session, open_at, open_session
from turnfold.cli.tables_and_progress_bars import as_json, make_console, printable
from turnfold.errors import InvalidOption, InvalidRecord, NotFound
from turnfold.inspect import FIDELITY_MEANING, fidelity_of_all
from turnfold.memory import ErasureCheck, ErasureReceipt, Memory
from turnfold.records import Checkpoint
from turnfold.runtime import drive
from turnfold.stores import Erasure, derived_conversations

__all__ = (
    "ListedCheckpoints",
    "MadeFold",
    "MadeFork",
    "PinsScreen",
    "change_pins",
    "check_receipt",
    "drop_pin",
    "erase",
    "erase_entry",
    "list_checkpoints",
    "make_fold",
    "make_fork",
    "read_summary",
    "show_check",
    "show_checkpoints",
    "show_erased_entry",
    "show_fold",
    "show_fork",
    "show_pins",
    "show_receipt",
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


def erase(
    store: str | None,
    tenant: str,
    *,
    session: str | None,
    user: str | None,
    every: bool,
    asked: bool,
) -> ErasureReceipt:
    """Erase a session, all sessions of a user or the whole tenant; asks for confirmation unless `asked` is True."""
    if sum((session is not None, user is not None, every)) != 1:
        raise InvalidOption("give exactly one of: a session, --user, --all, --verify")
    with open_at(store, tenant) as opened:
        memory = Memory(opened.store, scope=opened.scope)
        if session is not None:
            known = drive(opened.store.head(opened.scope, session)).generation
            if not known and not drive(derived_conversations(opened.store, opened.scope, session)):
                found = find_session(opened, session)  # raises if there is none
                raise InvalidOption(f"to delete, give the whole id of the session: {found}")
            _confirm("session {name}", session, asked=asked)
        elif user is not None:
            _confirm("all sessions of user {name}", user, asked=asked)
        else:
            _confirm("all sessions of tenant {name}", tenant, asked=asked)
        if session is not None:
            return memory.erase_session(session)
        return memory.erase_user(user) if user is not None else memory.erase_tenant(tenant)


def erase_entry(
    store: str | None, tenant: str, session: str, *, entry: int, reason: str, asked: bool
) -> Erasure:
    """Erase one entry of a session and everything made from it; asks for confirmation unless `asked` is True."""
    with open_session(store, tenant, session, calls=1) as at:
        named = printable(at.session.id)
        if at.session.id != session:
            raise InvalidOption(f"to delete, give the whole id of the session: {named}")
        _confirm("an entry of session {name}", session, asked=asked)
        return at.session.erase(entry, reason=reason)


def _confirm(what: str, name: str, *, asked: bool) -> None:
    """Ask on a terminal whether to erase; without a terminal, raise an error that asks for `--yes`.

    `what` is a phrase such as `session {name}`, into which the name is put.
    """
    if asked:
        return
    named = repr(printable(name))
    if not sys.stdin.isatty():
        erased = label(what).format(name=named)
        raise InvalidOption(f"this erases {erased} for good, which must be confirmed: add --yes")
    question = label("erase {what} for good? [y/N] ").format(what=label(what).format(name=named))
    if input(question).strip().lower() not in ("y", "yes", "是"):
        raise InvalidOption("not confirmed, so nothing was deleted")


def check_receipt(store: str | None, tenant: str, path: Path) -> ErasureCheck:
    """Check that the store has none of the conversations that are named in the erasure receipt of a file."""
    try:
        receipt = ErasureReceipt.from_json(path.read_bytes())
    except OSError as error:
        raise NotFound(f"cannot read the receipt {path}: {error.strerror}") from None
    except InvalidRecord as error:
        raise InvalidOption(f"{path} is {error}") from None
    with open_at(store, tenant) as opened:
        return Memory(opened.store, scope=opened.scope).verify_erasure(receipt)


def show_receipt(receipt: ErasureReceipt, *, json: bool) -> None:
    """Print what was erased, as text or JSON."""
    if json:
        print(receipt.to_json())  # noqa: T201 (what the command is for)
        return
    console = make_console()
    if receipt.conversations and all(each.already for each in receipt.conversations):
        console.print(Text(label("was already erased: nothing of it was left"), "bold"))
        return
    text = label(
        "sessions erased: {sessions:,} (entries: {entries:,}, documents: {documents:,})"
    ).format(
        sessions=len(receipt.conversations),
        entries=sum(each.entries for each in receipt.conversations),
        documents=sum(sum(each.documents.values()) for each in receipt.conversations),
    )
    console.print(Text(text, "bold"))
    for name in receipt.forks:
        console.print(
            Text(
                label("not erased, may contain the same text: {name}").format(name=printable(name))
            )
        )


def show_check(check: ErasureCheck, *, json: bool) -> None:
    """Print the result of verifying an erasure receipt."""
    if json:
        print(as_json(check))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    if check.ok:
        text = label(
            "checked {named:,} sessions of the receipt: none of them is among the {searched:,} sessions of the store"
        )
        text = text.format(named=check.named, searched=check.searched)
        console.print(Text(with_singulars(text)))
    if not check.named:
        console.print(Text(label("the receipt names no session, so it proves nothing"), "bold"))
    if not check.intact:
        console.print(Text(label("the receipt was altered"), "bold"))
    for name in check.found:
        console.print(Text(label("still in the store: {name}").format(name=printable(name))))


def show_erased_entry(erasure: Erasure, *, json: bool) -> None:
    """Print what was erased with an entry, and where its text may remain."""
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
    console.print(Text(with_singulars(counts), "bold"))
    if erasure.already:
        console.print(Text(label("it was deleted before")))
    for name in erasure.mentions:
        line = label("kept, and may contain the text: {name}").format(name=printable(name))
        console.print(Text(line, "yellow"))
    console.print(Text(label("existing backups, exports and forks are not changed"), "dim"))


_MOST_CHECKED = 2_000
"""Most entries whose facts are read to say how many of these facts a summary states, which takes about a second. For
more entries nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFold:
    """Result of `turnfold fold`: the session, and the checkpoint (summary) that was made."""

    session: str
    checkpoint: Checkpoint | None
    """The checkpoint (summary) that the fold made; None if there was nothing to fold."""


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
    console.print(Text(FIDELITY_MEANING["zh" if is_chinese() else "en"], "dim", overflow="fold"))
    trust = "trust: a summary counts as said by the least trusted role in it (system, assistant, user, tool)"
    console.print(Text(label(trust), "dim", overflow="fold"))


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
