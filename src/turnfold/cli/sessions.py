"""`turnfold sessions` and `turnfold show`: list the stored sessions, and show the log of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.text import Text

from turnfold.cli.chinese_labels import colon, counted, is_chinese, label, message_text
from turnfold.cli.context import curve_legend, sparkline
from turnfold.cli.store_and_session_lookup import (
    Opened,
    open_at,
    open_session,
    session_in,
    sessions_in,
)
from turnfold.cli.tables_and_progress_bars import (
    as_json,
    columns,
    is_plain,
    is_uncut,
    make_console,
    moment,
    print_result,
    printable,
    without_controls,
)
from turnfold.errors import WrongKey
from turnfold.inspect import CallPoint, call_numbers, call_point, call_text, excerpt, session_title
from turnfold.memory import Memory, MemoryMode, SessionStatus
from turnfold.records import Entry
from turnfold.runtime import drive

__all__ = (
    "SessionRow",
    "SessionScreen",
    "SessionsScreen",
    "list_sessions",
    "look_at_session",
    "show_log",
    "show_sessions",
)


_STYLES = {"user": "green", "assistant": "cyan", "tool": "yellow", "system": "blue"}
_PAGE = 500
_TITLED = 110
"""Least width of a terminal, in characters, in which the list of sessions has a column with first messages."""
_UNCUT = 10_000_000
"""Number of characters to which texts are cut where nothing is to be cut: larger than any text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One session in the list of sessions, with its size and newest calls."""

    session: str
    title: str
    """The beginning of the session's first user message; empty if there is none, or if it cannot be decrypted."""
    entries: int
    turns: int
    tokens: int
    checkpoint: str
    counter: str
    created: int
    updated: int
    calls: tuple[CallPoint, ...]
    """The newest model calls of the session, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsScreen:
    """The sessions of a tenant, most recently changed first."""

    store: str
    tenant: str
    total: int
    sessions: tuple[SessionRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """One log entry, with its message as JSON."""

    seq: int
    turn: int
    role: str
    tokens: int
    created: int
    client_id: str
    message: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionScreen:
    """A session and a page of its log."""

    status: SessionStatus
    entries: tuple[EntryRow, ...]


def list_sessions(store: str | None, tenant: str, *, limit: int, prefix: str) -> SessionsScreen:
    """Return the most recently changed sessions.

    Conversations of adapters are listed only if the prefix has a colon.
    """
    with open_at(store, tenant) as opened:
        known = sessions_in(opened, prefix)
        newest = sorted(known, key=lambda info: (-info.updated, info.conversation))[:limit]
        rows = [
            SessionRow(
                session=info.conversation,
                title=_title(opened, info.conversation),
                entries=info.head.seq,
                turns=info.head.turns,
                tokens=info.head.tokens,
                checkpoint=info.head.checkpoint,
                counter=info.head.counter,
                created=info.created,
                updated=info.updated,
                calls=_newest_calls(opened, info.conversation),
            )
            for info in newest
        ]
        return SessionsScreen(
            store=opened.address, tenant=tenant, total=len(known), sessions=tuple(rows)
        )


def _title(opened: Opened, conversation: str) -> str:
    memory = Memory(opened.store, scope=opened.scope)
    try:
        return drive(session_title(memory.session(conversation).awaiting))
    except WrongKey:
        return ""


def _newest_calls(opened: Opened, conversation: str) -> tuple[CallPoint, ...]:
    try:
        at = session_in(opened, conversation, calls=12)
        numbers = drive(call_numbers(at.session.awaiting))
        return tuple(call_point(made, numbers[made.call]) for made in at.calls)
    except WrongKey:
        return ()  # the other columns are not encrypted


def show_sessions(found: SessionsScreen, *, json: bool) -> None:
    """Print the list of sessions."""
    if json:
        print(as_json(found))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    if not found.sessions:
        console.print(
            f"{label('no sessions')}{colon()}{found.store}, {label('tenant')} {found.tenant}"
        )
        return
    plain = is_plain(console)
    rows = [
        (
            row.session,
            f"{row.turns:,}",
            f"{row.entries:,}",
            f"{row.tokens:,}",
            sparkline(row.calls, width=12, plain=plain),
            moment(row.updated),
            row.title,
        )
        for row in found.sessions
    ]
    heads = ("session", "turns", "entries", "tokens", "calls", "changed", "first message")
    only = (0, 1, 3) if console.width < 70 else range(6) if console.width < _TITLED else None
    wide = "session" if only else "first message"
    console.print(columns(console, heads, rows, only=only, wide=wide))
    if console.width >= 70 and any(row.calls for row in found.sessions):
        console.print(Text(curve_legend(plain=plain), "dim", overflow="fold"))
    if found.total > len(rows):
        text = label("{shown} of {total:,}; more with -n")
        console.print(Text(text.format(shown=len(rows), total=found.total), "dim"))


def look_at_session(
    store: str | None, tenant: str, session: str, *, after: int | None, limit: int
) -> tuple[SessionScreen, list[Entry]]:
    """Return a page of a log: the entries after `after`, or the newest entries."""
    with open_session(store, tenant, session, calls=1) as at:
        start = max(at.head.seq - limit, 0) if after is None else after
        entries: list[Entry] = []
        while len(entries) < limit:
            wanted = min(limit - len(entries), _PAGE)
            page = at.session.history(after=entries[-1].seq if entries else start, limit=wanted)
            if not page:
                break
            entries += page
        rows = tuple(
            EntryRow(
                seq=entry.seq,
                turn=entry.turn,
                role=entry.message.role,
                tokens=entry.tokens,
                created=entry.created,
                client_id=entry.client_id,
                message=entry.message.model_dump(),
            )
            for entry in entries
        )
        return SessionScreen(status=at.session.status(), entries=rows), entries


def show_log(shown: SessionScreen, entries: list[Entry], *, json: bool, full: bool) -> None:
    """Print a page of a log."""
    print_result(
        shown, lambda console: _draw_log(shown.status, entries, console, full=full), json=json
    )


def _draw_log(
    status: SessionStatus, entries: list[Entry], console: Console, *, full: bool
) -> Iterator[RenderableType]:
    title = Text(printable(status.conversation), "bold", overflow="fold")
    shown = label("full history" if status.mode is MemoryMode.FULL_HISTORY else "with a summary")
    sizes = (("turns", status.turns), ("entries", status.entries), ("tokens", status.tokens))
    figures = " · ".join((shown, *(counted(number, noun) for noun, number in sizes)))
    title.append(f" · {figures}", "not bold dim")
    if status.checkpoint:
        title.append(f" · {label('checkpoint')} {status.checkpoint} @ {status.covered}", "magenta")
    yield title
    if full:
        for entry in entries:
            yield _whole_entry(entry)
        yield from _more_entries(status, entries)
        return
    rows = [
        (
            str(entry.seq),
            str(entry.turn),
            Text(label(entry.message.role), _STYLES.get(entry.message.role, "")),
            f"{entry.tokens:,}",
            excerpt(
                entry.message,
                characters=_UNCUT if is_uncut(console) else 400,
                language="zh" if is_chinese() else "en",
            ),
        )
        for entry in entries
    ]
    yield columns(console, ("seq", "turn", "role", "tokens", "text"), rows, wide="text")
    yield from _more_entries(status, entries)


def _more_entries(status: SessionStatus, entries: list[Entry]) -> Iterator[Text]:
    if len(entries) < status.entries:
        text = label(
            "{shown:,} of {total:,} entries; -n and --after show others, --full whole messages"
        )
        yield Text(text.format(shown=len(entries), total=status.entries), "dim", overflow="fold")


def _whole_entry(entry: Entry) -> Text:
    message = entry.message
    head = f"#{entry.seq} {label(message.role)} ({counted(entry.tokens, 'tokens')}, {moment(entry.created)})"
    calls = map(call_text, message.calls)
    text = without_controls("\n".join(filter(None, [message_text(message), *calls])), keep="\n\t")
    return Text.assemble((f"{head}\n", _STYLES.get(message.role, "")), text, "\n")
