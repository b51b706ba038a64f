"""`turnfold search` and `turnfold recall`: print ranked results, with the matching words marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from turnfold.cli.chinese_labels import colon, known_label, label
from turnfold.cli.store_and_session_lookup import find_session, open_at, open_session
from turnfold.cli.tables_and_progress_bars import (
    as_json,
    is_plain,
    make_console,
    moment,
    printable,
    without_controls,
)
from turnfold.errors import InvalidOption
from turnfold.memory import Memory, SearchResult, recalled_text
from turnfold.search import CHECKPOINT, ENTRY, Recalled, Snippet, Within, snippet
from turnfold.text import search_terms

__all__ = (
    "Filters",
    "RecallScreen",
    "SearchScreen",
    "recall_in",
    "search_store",
    "show_found",
    "show_recalled",
)


_TURNS = re.compile(r"(\d+)(?:-(\d+))?")
_MARK = "bold magenta"
_NAMES = {"entry": ENTRY, "checkpoint": CHECKPOINT}


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters of a search, as they were written on the command line."""

    kinds: Sequence[str] | None = None
    roles: Sequence[str] | None = None
    tools: Sequence[str] | None = None
    paths: Sequence[str] | None = None
    turns: str | None = None
    since: str | None = None
    until: str | None = None

    def within(self) -> Within:
        """Return the filters parsed to a `Within`; raises `InvalidOption` if a filter is invalid."""
        named = self.kinds or ("entry",)
        kinds = None if "all" in named else frozenset(_NAMES.get(kind, kind) for kind in named)
        return Within(
            roles=frozenset(self.roles or ()),
            tools=frozenset(self.tools or ()),
            turns=_turns(self.turns),
            paths=frozenset(self.paths or ()),
            since=_time(self.since),
            until=_time(self.until),
            kinds=kinds,
        )


def _turns(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = _TURNS.fullmatch(text.strip())
    if parts is None:
        raise InvalidOption(
            f"--turns {text!r} is neither a turn number nor a range: for example 7 or 3-9"
        )
    return int(parts[1]), int(parts[2] or parts[1])


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"{text!r} is not a day or time: for example 2026-01-31 or 2026-01-31T12:00"
        ) from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()) * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScreen:
    """Results of a search, best first."""

    store: str
    tenant: str
    query: str
    found: tuple[SearchResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledRow:
    """One recalled log entry, as the command prints it."""

    seq: int
    turn: int
    role: str
    created: int
    score: float
    snippet: Snippet
    text: str
    """Text of the recalled entry, or the part of it that matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallScreen:
    """Result of `turnfold recall`: the entries found, or the text that a model would get."""

    session: str
    query: str
    recalled: tuple[RecalledRow, ...]
    tokens: int | None = None
    """Tokens of `text`, if a token limit was given."""
    text: str = ""
    """Text with the recalled entries that a model would get, if a token limit was given."""


def search_store(
    store: str | None,
    tenant: str,
    query: str,
    *,
    session: str | None,
    filters: Filters,
    limit: int,
) -> SearchScreen:
    """Search all sessions of a tenant, or one session, and return the results."""
    within = filters.within()
    with open_at(store, tenant) as opened:
        conversation = None if session is None else find_session(opened, session)
        memory = Memory(opened.store, scope=opened.scope)
        results = memory.search(query, conversation=conversation, within=within, limit=limit)
        # A result without a marked word shares only single characters of Chinese words with the query.
        found = [each for each in results if each.snippet.marks]
        return SearchScreen(store=opened.address, tenant=tenant, query=query, found=tuple(found))


def recall_in(
    store: str | None,
    tenant: str,
    session: str,
    query: str,
    *,
    filters: Filters,
    limit: int,
    tokens: int | None,
    model: str | None,
) -> RecallScreen:
    """Return the earlier messages of a session that match a query.

    If `tokens` is given, the result also has the text that a model would get for the query, of at most that many
    tokens.
    """
    within = filters.within()
    with open_session(store, tenant, session, model=model, calls=1) as at:
        found = at.session.recall(query, limit=limit, tokens=tokens, within=within)
        shown = recalled_text(found) if tokens is not None and found else ""
        counter = at.session.awaiting.counter
        return RecallScreen(
            session=at.session.id,
            query=query,
            recalled=tuple(_row(each, query) for each in found),
            tokens=None if tokens is None else counter.count_text(shown),
            text=shown,
        )


def _row(entry: Recalled, query: str) -> RecalledRow:
    return RecalledRow(
        seq=entry.seq,
        turn=entry.turn,
        role=entry.message.role,
        created=entry.created,
        score=entry.score,
        snippet=snippet(entry.shown, search_terms(query)),
        text=entry.shown,
    )


def show_found(result: SearchScreen, *, json: bool) -> None:
    """Print search results."""
    if json:
        print(as_json(result))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    if not result.found:
        text = label("nothing found for {query} (store {store}, tenant {tenant})")
        query, tenant = printable(result.query), printable(result.tenant)
        console.print(Text(text.format(query=query, store=result.store, tenant=tenant)))
    for each in result.found:
        what = known_label(each.role) if each.role else f"{each.kind} {each.key}"
        place = f"#{each.seq}  {label('turn')} {each.turn}" if each.role else ""
        _print(
            console,
            (each.conversation, what, place, moment(each.created)),
            each.snippet,
        )


def show_recalled(recalled: RecallScreen, *, json: bool) -> None:
    """Print recalled entries."""
    if json:
        print(as_json(recalled))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    if not recalled.recalled:
        console.print(Text(f"{label('nothing found')}{colon()}{printable(recalled.query)}"))
    elif recalled.tokens is not None:
        for line in recalled.text.splitlines():
            console.print(Text(printable(line)))
        console.print(Text(f"{recalled.tokens:,} {label('tokens')}", style="dim"))
    else:
        for each in recalled.recalled:
            place = f"#{each.seq}  {label('turn')} {each.turn}"
            _print(
                console,
                (known_label(each.role), place, moment(each.created)),
                each.snippet,
            )


def _print(console: Console, head: Sequence[str], shown: Snippet) -> None:
    line = Text("  ".join(printable(part) for part in head if part), style="bold")
    console.print(line, overflow="fold")
    plain = is_plain(console)
    text = Text("  …" if shown.before else "  ")
    at = 0
    for start, stop in shown.marks:
        text.append(without_controls(shown.text[at:start]))
        marked = without_controls(shown.text[start:stop])
        text.append(f"[{marked}]" if plain else marked, style=_MARK)
        at = stop
    text.append(without_controls(shown.text[at:]))
    text.append("…" if shown.after else "")
    console.print(text, overflow="fold")
