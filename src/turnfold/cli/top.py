"""`turnfold top`: shows what uses most tokens, once or refreshed at intervals."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from turnfold.cli.chinese_labels import counted, known_label, label
from turnfold.cli.store_and_session_lookup import log_pages, open_at, open_session, sessions_in
from turnfold.cli.tables_and_progress_bars import (
    columns,
    make_console,
    print_result,
    printable,
    progressing,
)
from turnfold.inspect import CostRow, EntryCost, LogCosts, conversation_costs

__all__ = (
    "Top",
    "look_at_top",
    "show_top",
    "watch_top",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The largest numbers of tokens: of the entries, tools and roles of a session, or of the sessions of the store."""

    session: str
    """Id of the session; empty for the whole store."""
    tokens: int
    entries: int
    conversations: tuple[CostRow, ...] = ()
    roles: tuple[CostRow, ...] = ()
    tools: tuple[CostRow, ...] = ()
    costliest: tuple[EntryCost, ...] = ()


def look_at_top(store: str | None, tenant: str, session: str | None, *, most: int) -> Top:
    """Sum the tokens of one session, or of all; a name that ends with a colon selects the ids that start with it."""
    if session is None or session.endswith(":"):
        with open_at(store, tenant) as opened:
            infos = sessions_in(opened, session or "")
        return Top(
            session="",
            tokens=sum(info.head.tokens for info in infos),
            entries=sum(info.head.seq for info in infos),
            conversations=conversation_costs(infos, most=most),
        )
    with open_session(store, tenant, session, calls=1) as at, progressing("reading") as reporter:
        costs = LogCosts(most=most)
        for page in log_pages(at.session):
            costs.add(page)
            reporter.report(page[-1].seq, max(at.head.seq, page[-1].seq))
        return Top(
            session=at.session.id,
            tokens=costs.tokens,
            entries=costs.entries,
            roles=costs.roles(),
            tools=costs.tools()[:most],
            costliest=costs.costliest(),
        )


def show_top(found: Top, *, json: bool) -> None:
    """Print what uses most tokens, as a table or JSON."""
    print_result(found, lambda console: [_draw(found, console)], json=json)


def watch_top(
    look: Callable[[], Top],
    *,
    seconds: float,
    times: int,
    json: bool,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Print the table repeatedly: in place on a terminal, otherwise one below the other.

    `times=0` repeats until Ctrl-C.
    """
    console = make_console()
    if not console.is_terminal or json:
        _repeat(lambda: show_top(look(), json=json), seconds, times, pause)
        return
    with Live(console=console, auto_refresh=False) as live:
        _repeat(lambda: live.update(_draw(look(), console), refresh=True), seconds, times, pause)


def _repeat(
    step: Callable[[], None], seconds: float, times: int, pause: Callable[[float], None]
) -> None:
    for number in count(1):
        step()
        if number == times:
            return
        pause(seconds)


def _draw(found: Top, console: Console) -> RenderableType:
    title = Text(printable(found.session) or label("sessions"), "bold")
    title.append(
        f" · {counted(found.entries, 'entries')} · {counted(found.tokens, 'tokens')}",
        "not bold dim",
    )
    parts: list[RenderableType] = [title]
    for name, rows in (
        ("session", found.conversations),
        ("role", found.roles),
        ("tool", found.tools),
    ):
        if rows:
            named = known_label if name == "role" else str
            table = [
                (f"{r.tokens:,}", f"{r.share:.0%}", f"{r.entries:,}", named(r.name)) for r in rows
            ]
            parts += [
                Text(),
                columns(console, ("tokens", "share", "entries", name), table, wide=name),
            ]
    if found.costliest:
        table = [
            (f"{e.tokens:,}", str(e.seq), known_label(e.label), e.text) for e in found.costliest
        ]
        parts += [Text(), columns(console, ("tokens", "seq", "entry", "text"), table, wide="text")]
    return Group(*parts)
