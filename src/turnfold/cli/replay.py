"""`turnfold replay`: replays a history with several budgets and strategies, without a model."""

from __future__ import annotations

import json as json_lines
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from rich.text import Text

from turnfold.budget import Budget
from turnfold.cli.chinese_labels import entries_and_turns, label, translated, with_singulars
from turnfold.cli.store_and_session_lookup import (
    counter_of,
    file_or_session,
    log_pages,
    open_session,
)
from turnfold.cli.tables_and_progress_bars import (
    as_json,
    make_console,
    printable,
    progressing,
    tables,
)
from turnfold.errors import InvalidExport, InvalidOption, NotFound, UnknownModel
from turnfold.importers import (
    TURNFOLD,
    ConversationStart,
    ImportedMessage,
    UnreadableItem,
    detect,
    read_histories,
)
from turnfold.inspect import Cost, Simulation, simulate
from turnfold.memory import Manifest, Session
from turnfold.records import Message
from turnfold.runtime import drive
from turnfold.stores import Scope, all_conversations, all_entries, import_from, open_store
from turnfold.tokens import (
    PriceTable,
    TokenCounter,
    cautious_counter,
    counter_for,
)

__all__ = (
    "History",
    "MadeCalls",
    "Replay",
    "ReplayRow",
    "has_price",
    "history_of",
    "read_file",
    "replay_history",
    "require_messages",
    "show_replay",
)


Tools = Sequence[dict[str, object]]
_CALLS = 500
_EMPTY_SIZE = 64
"""Most bytes of a file that is read to find out whether it has no messages; a larger file is not empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRow:
    """The result of replaying a history with one budget and strategy."""

    strategy: str
    budget: int
    calls: int
    tokens_sent: int
    largest: int
    over_budget: int
    violations: int
    prefix_share: float
    folds: int
    folded: int
    dropped: int
    cost: Cost | None
    """Estimated cost at list prices; None if no model was named or the model has no price."""
    refused: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCalls:
    """The calls that a stored session made, to compare a replay with them."""

    calls: int
    tokens_sent: int
    largest: int
    allowed: int
    """Tokens that the newest call was allowed."""
    tools: int
    """Tokens of the tool schemas of the newest call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The results of replaying one history with several budgets and strategies."""

    source: str
    entries: int
    turns: int
    counter: str
    model: str
    prices: str
    """Date of the price table; empty if no cost was computed."""
    rows: tuple[ReplayRow, ...]
    whole: int
    """Tokens that the last call would have if the whole history were sent."""
    made: MadeCalls | None = None
    """The calls that the session made itself; None for a file, and for a session without calls."""


class History(NamedTuple):
    """The messages to replay, and the model or counter with which a stored session was counted."""

    name: str
    messages: list[Message]
    model: str = ""
    """The model of the newest call; empty if the model is not known."""
    counter: TokenCounter | None = None
    made: MadeCalls | None = None
    budget: Budget | None = None
    """The budget of the newest call; a replay uses its shares and water marks."""


def history_of(
    source: str, store: str | None, tenant: str, *, session: str, format_name: str
) -> History:
    """Return a history from a file or a stored session."""
    path = Path(source)
    if path.is_file():
        return History(*_from_file(path, session, format_name))
    if session:
        raise NotFound(f"--session selects a conversation of a file, but there is no file {source}")
    with file_or_session(source), open_session(store, tenant, source, calls=1) as at:
        messages = [entry.message for page in log_pages(at.session) for entry in page]
        model = at.calls[-1].called_model if at.calls else ""
        budget = at.budget if at.calls else None
        return History(
            at.session.id, messages, model, counter_of(at.head), _made_calls(at.session), budget
        )


def _made_calls(session: Session) -> MadeCalls | None:
    made: list[Manifest] = []
    while page := session.calls(after=made[-1].call if made else "", limit=_CALLS):
        made += page
    if not made:
        return None
    return MadeCalls(
        calls=len(made),
        tokens_sent=sum(call.tokens for call in made),
        largest=max(call.tokens for call in made),
        allowed=made[-1].allowed,
        tools=made[-1].tools,
    )


def read_file(path: Path, format_name: str) -> dict[str, list[ImportedMessage]]:
    """Return the conversations of a file that `turnfold import` reads."""
    require_messages(path)
    chosen = detect(path) if format_name == "auto" else format_name
    if chosen == TURNFOLD:
        return drive(_exported(path))
    found: dict[str, list[ImportedMessage]] = {}
    at = ""
    for piece in read_histories(path, chosen, branches=False):
        if isinstance(piece, UnreadableItem):
            raise InvalidExport(piece.problem, line=piece.line)
        if isinstance(piece, ConversationStart):
            at = piece.conversation
            found.setdefault(at, [])
        elif isinstance(piece, ImportedMessage):
            found[at].append(piece)
    return found


def require_messages(path: Path) -> None:
    """Raise `NotFound` if a file is empty or contains an empty list."""
    if path.stat().st_size <= _EMPTY_SIZE and b"".join(path.read_bytes().split()) in (b"", b"[]"):
        raise NotFound(f"there are no messages in {path}: give a file with a conversation")


async def _exported(path: Path) -> dict[str, list[ImportedMessage]]:
    """Return the conversations of a turnfold export, by importing it into a temporary store in memory."""
    scope = Scope("export")
    store = open_store("sqlite://", blocking=True)
    try:
        await import_from(store, scope, path)
        return {
            info.conversation: [
                ImportedMessage(each.message, 0, each.created)
                async for each in all_entries(store, scope, info.conversation)
            ]
            for info in await all_conversations(store, scope)
        }
    finally:
        await store.close()


def _from_file(path: Path, session: str, format_name: str) -> tuple[str, list[Message]]:
    found = read_file(path, format_name)
    matching = [name for name in found if name == session] or [
        name for name in found if name.startswith(session)
    ]
    if len(matching) == 1:
        return matching[0], [each.message for each in found[matching[0]]]
    shown = ", ".join((matching or list(found))[:8])
    number = with_singulars(f"{path.name} contains {len(found):,} conversations")
    if matching:
        raise InvalidOption(f"{number}: select one with --session, for example {shown}")
    raise NotFound(f"{number}, but none with the id {session!r}; their ids: {shown}")


def replay_history(
    history: History,
    *,
    budgets: Sequence[int],
    strategies: Sequence[str],
    model: str,
    prices: PriceTable,
    tools: Path | None,
) -> Replay:
    """Simulate every strategy with every budget, for `model`, else for the model and counter of the session."""
    schemas = _tools(tools)
    counter = None if model else history.counter
    model = model or history.model
    priced = has_price(model, prices)
    runs: list[Simulation] = []
    with progressing("replaying") as reporter:
        for budget in budgets:
            for strategy in strategies:
                what = f"{strategy} at {budget:,}"
                runs.append(
                    simulate(
                        history.messages,
                        budget=_budget(budget, history.budget),
                        strategy=strategy,
                        model=model,
                        counter=counter,
                        tools=schemas,
                        on_call=lambda done, total, what=what: reporter.report(done, total, what),
                    )
                )
    for run in runs:
        if run.refused and not run.calls:
            raise InvalidOption(
                f"--budget {run.budget}: not even the first call fits. {run.refused}"
            )
    return Replay(
        source=history.name,
        entries=runs[0].entries,
        turns=runs[0].turns,
        counter=runs[0].counter,
        model=model,
        prices=prices.date if priced else "",
        rows=tuple(_row(run, prices if priced else None, model) for run in runs),
        whole=_whole_tokens(history, _counter(counter, model), schemas),
        made=history.made,
    )


def _budget(tokens: int, recorded: Budget | None) -> Budget:
    """Return a budget of this many tokens, with the shares and marks of the session's own budget."""
    if recorded is None:
        return Budget(max_tokens=tokens)
    return Budget(max_tokens=tokens, shares=recorded.shares, marks=recorded.marks)


def _counter(counter: TokenCounter | None, model: str) -> TokenCounter:
    return counter or (counter_for(model) if model else cautious_counter())


def _whole_tokens(history: History, counter: TokenCounter, tools: Tools) -> int:
    """Return the tokens that the last replayed call would have if it sent the whole history before it."""
    messages = history.messages
    last = max(
        (at for at, each in enumerate(messages) if each.role == "assistant"), default=len(messages)
    )
    return counter.count(messages[:last], tools=tools).tokens


def has_price(model: str, table: PriceTable) -> bool:
    """Return True if a model is named and its price is known; warn on stderr if the price is not known."""
    if not model:
        return False
    try:
        table.price(model)
    except UnknownModel as error:
        sys.stderr.write(f"turnfold: {translated(f'no costs: {error}')}\n")
        return False
    return True


def _row(run: Simulation, table: PriceTable | None, model: str) -> ReplayRow:
    return ReplayRow(
        strategy=run.strategy,
        budget=run.budget,
        calls=len(run.calls),
        tokens_sent=run.tokens_sent,
        largest=run.largest,
        over_budget=run.over_budget,
        violations=run.violations,
        prefix_share=run.prefix_share,
        folds=run.folds,
        folded=run.folded,
        dropped=run.dropped,
        cost=run.cost(model, table) if table is not None else None,
        refused=run.refused,
    )


def _tools(path: Path | None) -> Tools:
    if path is None:
        return ()
    try:
        found = cast("object", json_lines.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise NotFound(f"no such file: {path}") from None
    except OSError as error:
        raise InvalidOption(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidOption(f"{path} is not a JSON list of tool schemas: {error}") from None
    if not isinstance(found, list):
        raise InvalidOption(f"{path} is not a JSON list of tool schemas")
    return cast("list[dict[str, object]]", found)


def show_replay(found: Replay, *, json: bool) -> None:
    """Print the results of a replay as a table or JSON."""
    if json:
        print(as_json(found))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    title = Text(printable(found.source), "bold", overflow="fold")
    title.append(
        f" · {entries_and_turns(found.entries, found.turns)} · "
        f"{found.model or label('no model: name one with --model for costs')} ({found.counter})",
        "not bold dim",
    )
    console.print(title)
    heads = [
        "strategy",
        "budget",
        "sent",
        "prefix",
        "folds",
        "dropped",
        "over budget",
        "calls",
        "largest",
    ]
    priced = any(row.cost for row in found.rows)
    if priced:
        heads[2:2] = ["cost", "cached"]
        heads += ["no cache", "model folds", "folds cached"]
    rows = [_cells(row, priced=priced) for row in found.rows]
    for table in tables(console, heads, rows, keys=2):
        console.print(table)
    for row in found.rows:
        if row.refused:
            text = label("{strategy} at {budget:,} ended early: {reason}")
            text = text.format(strategy=row.strategy, budget=row.budget, reason=row.refused)
            console.print(Text(text, "red", overflow="fold"))
    if priced:
        text = label(
            "Estimates for {model}: list prices of {date}, every call within the life of the provider's cache."
        )
        text = text.format(model=found.model, date=found.prices)
        console.print(Text(text, "dim", overflow="fold"))
        if any(row.cost and row.cost.folds.requests for row in found.rows):
            text = label("Model folds: in addition, if {model} writes the summaries.")
            console.print(Text(text.format(model=found.model), "dim", overflow="fold"))
    for text in _remarks(found):
        console.print(Text(text, "dim", overflow="fold"))


def _remarks(found: Replay) -> Iterator[str]:
    """Yield remarks below the table: folds of a history that would fit, differences from the session's own calls."""
    early = [row for row in found.rows if row.folds and found.whole <= row.budget]
    if early:
        yield label(
            "All {whole:,} tokens fit into {budgets}, but a fold begins at 75 %, to have room for what follows."
        ).format(whole=found.whole, budgets=", ".join(f"{row.budget:,}" for row in early))
    made = found.made
    if made is None:
        return
    yield label(
        "The session's own {calls:,} calls sent {tokens:,} tokens, the largest {largest:,} of {allowed:,} allowed."
    ).format(calls=made.calls, tokens=made.tokens_sent, largest=made.largest, allowed=made.allowed)
    if made.tools:
        yield label(
            "Each had {tools:,} tokens of tool schemas, which a replay sends only with --tools FILE."
        ).format(tools=made.tools)
    yield label(
        "A replay has no pins, notes, state or findings, and the defaults of a memory (recall, threshold, summarizer)."
    )


def _cells(row: ReplayRow, *, priced: bool) -> list[str]:
    cost = row.cost
    cells = [row.strategy, f"{row.budget:,}"]
    if priced:
        shown = (f"{cost.total:,.4f} {cost.currency}", f"{cost.cached_share:.0%}") if cost else "--"
        cells += shown
    cells += [
        f"{row.tokens_sent:,}",
        f"{row.prefix_share:.1%}",
        f"{row.folds:,}",
        f"{row.dropped:,}",
        f"{row.over_budget:,}",
        f"{row.calls:,}",
        f"{row.largest:,}",
    ]
    if priced and cost:
        cells += [
            f"{cost.without_cache:,.4f}",
            f"{cost.folds.total:,.4f}",
            f"{cost.folds.cached_share:.0%}",
        ]
    elif priced:
        cells += "---"
    return cells
