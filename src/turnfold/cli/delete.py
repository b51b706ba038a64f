"""`turnfold delete`: erases a session, an entry, or all sessions of a user or tenant; verifies erasure receipts."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from rich.text import Text

from turnfold.cli.labels import label, with_singulars
from turnfold.cli.output import as_json, make_console, printable
from turnfold.cli.store import find_session, open_at, open_session
from turnfold.errors import InvalidOption, NotFound
from turnfold.memory import ErasureCheck, ErasureReceipt, Memory
from turnfold.runtime import drive
from turnfold.stores import Erasure, derived_conversations

__all__ = (
    "check_receipt",
    "erase",
    "erase_entry",
    "show_check",
    "show_erased_entry",
    "show_receipt",
)


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
        receipt = msgspec.json.decode(path.read_bytes(), type=ErasureReceipt)
    except OSError as error:
        raise NotFound(f"cannot read the receipt {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidOption(f"{path} is not a receipt of an erasure: {error}") from None
    with open_at(store, tenant) as opened:
        return Memory(opened.store, scope=opened.scope).verify_erasure(receipt)


def show_receipt(receipt: ErasureReceipt, *, json: bool) -> None:
    """Print what was erased, as text or JSON."""
    if json:
        print(as_json(receipt))  # noqa: T201 (what the command is for)
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
    """Print the result of verifying a receipt."""
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
