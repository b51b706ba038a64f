"""`turnfold search` and `turnfold recall`: what was found, ranked, with what was asked for marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from turnfold.cli.opened_store import find_session, open_at, open_session
from turnfold.cli.screen import as_json, is_plain, make_console, moment, printable
from turnfold.cli.words import label
from turnfold.errors import InvalidOption
from turnfold.memory import Memory
from turnfold.memory.searching import Found
from turnfold.memory.tail import Recalled, recalled_text
from turnfold.recall.snippets import Snippet, snippet
from turnfold.recall.terms import asked_terms
from turnfold.stores import CHECKPOINT, ENTRY, Within

__all__ = (
    "Brought",
    "Filters",
    "SearchResult",
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
    """What a search is kept to, as it was typed."""

    kinds: Sequence[str] | None = None
    roles: Sequence[str] | None = None
    tools: Sequence[str] | None = None
    paths: Sequence[str] | None = None
    turns: str | None = None
    since: str | None = None
    until: str | None = None

    def within(self) -> Within:
        """The same, as the store takes it."""
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


def _turns(written: str | None) -> tuple[int, int] | None:
    if written is None:
        return None
    parts = _TURNS.fullmatch(written.strip())
    if parts is None:
        raise InvalidOption(f"--turns {written!r} is neither a turn nor FIRST-LAST")
    return int(parts[1]), int(parts[2] or parts[1])


def _time(written: str | None) -> int | None:
    if written is None:
        return None
    try:
        told = datetime.fromisoformat(written)
    except ValueError:
        raise InvalidOption(
            f"{written!r} is no day or time: write 2026-01-31 or 2026-01-31T12:00"
        ) from None
    return int((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()) * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found, best first."""

    store: str
    tenant: str
    query: str
    found: tuple[Found, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledRow:
    """One entry that was brought back."""

    seq: int
    turn: int
    role: str
    created: int
    score: float
    snippet: Snippet
    text: str
    """What is shown of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What a recall brought back."""

    session: str
    query: str
    recalled: tuple[RecalledRow, ...]
    tokens: int | None = None
    """What showing it to a model costs, where it was asked for by tokens."""
    text: str = ""
    """What a model would be shown, likewise."""


def search_store(
    store: str | None,
    tenant: str,
    query: str,
    *,
    session: str | None,
    filters: Filters,
    limit: int,
) -> SearchResult:
    """Search the sessions of a tenant, or one of them."""
    within = filters.within()
    with open_at(store, tenant) as opened:
        conversation = None if session is None else find_session(opened, session)
        memory = Memory(opened.store, scope=opened.scope)
        found = memory.search(query, conversation=conversation, within=within, limit=limit)
        return SearchResult(store=opened.address, tenant=tenant, query=query, found=tuple(found))


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
) -> Brought:
    """Bring back what a session said before."""
    within = filters.within()
    with open_session(store, tenant, session, model=model, calls=1) as at:
        found = at.session.recall(query, limit=limit, tokens=tokens, within=within)
        shown = recalled_text(found) if tokens is not None and found else ""
        counter = at.session.awaiting.counter
        return Brought(
            session=at.session.id,
            query=query,
            recalled=tuple(_row(each, query) for each in found),
            tokens=None if tokens is None else counter.count_text(shown),
            text=shown,
        )


def _row(recalled: Recalled, query: str) -> RecalledRow:
    return RecalledRow(
        seq=recalled.seq,
        turn=recalled.turn,
        role=recalled.message.role,
        created=recalled.created,
        score=recalled.score,
        snippet=snippet(recalled.shown, asked_terms(query)),
        text=recalled.shown,
    )


def show_found(result: SearchResult, *, json: bool) -> None:
    """Print what a search found."""
    if json:
        print(as_json(result))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    if not result.found:
        console.print(
            f"{label('nothing found')}: {result.store}, tenant {printable(result.tenant)}"
        )
    for each in result.found:
        what = each.role or f"{each.kind} {each.key}"
        place = f"#{each.seq}  {label('turn')} {each.turn}" if each.role else ""
        _print(
            console,
            (each.conversation, what, place, moment(each.created)),
            each.score,
            each.snippet,
        )


def show_recalled(brought: Brought, *, json: bool) -> None:
    """Print what a recall brought back."""
    if json:
        print(as_json(brought))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    if not brought.recalled:
        console.print(f"{label('nothing found')}: {printable(brought.session)}")
    elif brought.tokens is not None:
        for line in brought.text.splitlines():
            console.print(Text(printable(line)))
        console.print(Text(f"{brought.tokens:,} {label('tokens')}", style="dim"))
    else:
        for each in brought.recalled:
            place = f"#{each.seq}  {label('turn')} {each.turn}"
            _print(console, (each.role, place, moment(each.created)), each.score, each.snippet)


def _print(console: Console, head: Sequence[str], score: float, shown: Snippet) -> None:
    line = Text("  ".join(printable(part) for part in head if part), style="bold")
    line.append(f"  {score:.2f}", style="not bold dim")
    console.print(line, overflow="fold")
    plain = is_plain(console)
    text = Text("  …" if shown.before else "  ")
    at = 0
    for start, stop in shown.marks:
        text.append(_flat(shown.text[at:start]))
        marked = _flat(shown.text[start:stop])
        text.append(f"[{marked}]" if plain else marked, style=_MARK)
        at = stop
    text.append(_flat(shown.text[at:]))
    text.append("…" if shown.after else "")
    console.print(text, overflow="fold")


def _flat(text: str) -> str:
    """A stored text without what could move a cursor or change a colour; its spaces stay where they are."""
    return "".join(character if character.isprintable() else " " for character in text)
