"""`turnfold eval`: measures which facts are still in the context of a call, and the cost of calls, without a model.

It reads a session, all sessions of a store, a file or a set of conversations with questions, and writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from turnfold.cli.chinese_labels import colon, label, semicolon, with_singulars
from turnfold.cli.context import height_of
from turnfold.cli.replay import has_price, read_file, require_messages
from turnfold.cli.store_and_session_lookup import (
    find_sessions,
    log_pages,
    open_at,
    session_in,
    sessions_in,
)
from turnfold.cli.tables_and_progress_bars import (
    is_plain,
    print_result,
    printable,
    progressing,
    tables,
)
from turnfold.errors import InvalidExport, InvalidOption, NotFound
from turnfold.evaluation import (
    EvalConversation,
    Evaluation,
    EvaluationRow,
    evaluate,
    find_peers,
    read_set,
    sample_set,
)
from turnfold.tokens import PriceTable

__all__ = (
    "conversations_of",
    "evaluate_conversations",
    "parse_budgets",
    "show_evaluation",
)

_BASELINES = ("recency", "bm25")
_MOST_BARS = 24
_HEADS = (
    "method", "budget", "rules", "stale", "atoms", "evidence", "R@5", "P@5", "usable", "folds", "prefix", "used",
    "per call",
)  # fmt: skip
"""Column headings of the results of `turnfold eval`: method and budget first, then the figures of contexts, then those
of calls. On a narrow terminal the table is split in two."""
_KEYS = 2
"""Number of first columns that identify a row: method and budget."""


_RULES_FROM = {
    "given": "rules: given in the data set",
    "session.rules()": (
        "rules: found by turnfold's own session.rules(), so compare them only with your own runs; stale is not "
        "measured, because no rules are given"
    ),
    "both": "rules: given in the data set, else found by turnfold's own session.rules(); stale: only of given rules",
}
"""Where the rules of an evaluation come from -> what to say about the figures of rules."""


def conversations_of(
    source: str,
    store: str | None,
    tenant: str,
    *,
    every: bool,
    set_file: Path | None,
    format_name: str,
) -> list[EvalConversation]:
    """Return the conversations that the options select; by default those of the data set that comes with turnfold."""
    if sum((bool(source), every, set_file is not None)) > 1:
        raise InvalidOption(
            "several sources were given: give only one of these: a session or file, --all, --set FILE"
        )
    if set_file is not None:
        if set_file.is_file():
            require_messages(set_file)
        try:
            return read_set(set_file)
        except InvalidExport as error:
            raise InvalidOption(f"--set {set_file}: {error}") from None
    if every or (source and not Path(source).is_file()):
        return _stored(store, tenant, source)
    if not source:
        return sample_set()
    return [
        EvalConversation(
            name=name,
            messages=tuple(each.message for each in found),
            times=tuple(each.created for each in found),
        )
        for name, found in read_file(Path(source), format_name).items()
    ]


def _stored(store: str | None, tenant: str, source: str) -> list[EvalConversation]:
    found: list[EvalConversation] = []
    with open_at(store, tenant) as opened:
        names = (
            find_sessions(opened, [source])
            if source
            else [info.conversation for info in sessions_in(opened)]
        )
        for name in names:
            session = session_in(opened, name, calls=1).session
            entries = [entry for page in log_pages(session) for entry in page]
            found.append(
                EvalConversation(
                    name=name,
                    messages=tuple(entry.message for entry in entries),
                    times=tuple(entry.created for entry in entries),
                )
            )
        if not found:
            raise NotFound(
                f"no sessions of tenant {tenant!r} in {opened.address}: check --store and --tenant"
            )
    return found


def parse_budgets(given: Sequence[str]) -> list[int]:
    """Parse token budgets from texts such as `2000,8000`."""
    words = [word.strip() for text in given for word in text.split(",")]
    wrong = [word for word in words if not word.isdecimal() or not int(word)]
    if wrong:
        raise InvalidOption(
            f"--budget {wrong[0]!r} is not a number of tokens: for example 2000 or 2000,8000"
        )
    return list(dict.fromkeys(int(word) for word in words))


def evaluate_conversations(
    conversations: Sequence[EvalConversation],
    *,
    budgets: Sequence[int],
    peers: Sequence[str],
    model: str,
    prices: PriceTable,
) -> Evaluation:
    """Evaluate turnfold, the baselines and the named peers, with a progress bar."""
    names = [name.strip() for text in peers for name in text.split(",")]
    factories = find_peers(dict.fromkeys((*_BASELINES, *names)))
    with progressing("evaluating") as reporter:
        return evaluate(
            conversations,
            budgets=budgets,
            peers=factories,
            model=model,
            prices=prices if has_price(model, prices) else None,
            on_progress=reporter.report,
        )


def show_evaluation(found: Evaluation, *, json: bool) -> None:
    """Print the figures as a table, and the shares of rules and facts that remain after each fold as bars."""
    print_result(found, lambda console: _draw(found, console), json=json)


def _draw(found: Evaluation, console: Console) -> Iterator[RenderableType]:
    title = label("{conversations:,} conversations, {entries:,} entries, {questions:,} questions")
    title = title.format(
        conversations=found.conversations, entries=found.entries, questions=found.questions
    )
    yield Text(
        f"{with_singulars(title)} · {found.counter}",
        "bold",
        overflow="fold",
    )
    yield from tables(console, _HEADS, [_cells(row) for row in found.rows], keys=_KEYS)
    yield from _survival(found, console)
    for row in found.rows:
        if row.refused:
            text = label("{method} at {budget:,} refused: {reason}")
            text = text.format(method=row.method, budget=row.budget, reason=row.refused)
            yield Text(printable(text), "red", overflow="fold")
    for each in found.skipped:
        yield Text(f"{label('left out')}{colon()}{printable(each)}", "yellow", overflow="fold")
    measured = "dim" if found.rules_from == "given" else "yellow"
    yield Text(label(_RULES_FROM[found.rules_from]), measured, overflow="fold")
    if notes := _notes(found):
        yield Text(notes, "dim", overflow="fold")
    about = label(
        "stale: replaced rules that calls still send without what replaced them, lower is better; "
        "atoms: names, numbers and dates of folded entries that calls still send; evidence: of the messages that a "
        "question needs, the share that is whole in its context; R@5, P@5: share of the evidence "
        "among the first five recalled entries, and of them that are evidence; prefix: share of the last request "
        "that the next one begins with; used: tokens sent as a share of the budget"
    )
    yield Text(about, "dim", overflow="fold")


def _cells(row: EvaluationRow) -> list[str]:
    shares = (
        row.rules_kept,
        row.stale_rules,
        row.atoms_kept,
        row.coverage,
        row.recall_at_5,
        row.precision_at_5,
    )
    later = (row.kept_prefix, row.budget_used)
    return [
        row.method,
        f"{row.budget:,}",
        *("-" if share is None else f"{share:.2f}" for share in shares),
        f"{row.usable:,}/{row.calls:,}",
        f"{row.folds:,}",
        *("-" if share is None else f"{share:.2f}" for share in later),
        "-" if row.price_per_call is None else f"{row.price_per_call:.5f}",
    ]


def _survival(found: Evaluation, console: Console) -> Iterator[RenderableType]:
    """Draw bars: which shares of the rules and hard facts do calls still send after each fold (compaction)?"""
    plain = is_plain(console)
    rows: list[tuple[str, str, str, str, str]] = []
    for row in found.rows:
        points = sorted(row.points, key=lambda point: point.seq)
        rules = _bars([(point.rules_kept, point.rules) for point in points], plain=plain)
        stale = _bars([(point.stale_rules, point.replaced) for point in points], plain=plain)
        atoms = _bars([(point.atoms_kept, point.atoms) for point in points], plain=plain)
        if points:
            rows.append((row.method, f"{row.budget:,}", rules, stale, atoms))
    if rows:
        yield Text()
        heads = (
            "method",
            "budget",
            "rules from fold to fold",
            "stale from fold to fold",
            "atoms from fold to fold",
        )
        yield from tables(console, heads, rows, keys=_KEYS)


def _bars(pairs: Sequence[tuple[int, int]], *, plain: bool) -> str:
    """Return a bar for each pair (kept, all); if there are too many pairs, neighbouring pairs share a bar."""
    size = math.ceil(len(pairs) / _MOST_BARS)
    groups = [pairs[at : at + size] for at in range(0, len(pairs), size or 1)]
    sums = [(sum(kept for kept, _ in group), sum(whole for _, whole in group)) for group in groups]
    return "".join(height_of(kept / whole, plain=plain) if whole else " " for kept, whole in sums)


def _notes(found: Evaluation) -> str:
    notes: list[str] = []
    if not found.questions:
        notes.append(label("no questions, so evidence is not measured"))
    if found.prices:
        priced = label(
            "per call: {currency}, list prices of {date} for {model}, prompt cache included"
        )
        notes.append(priced.format(currency=found.currency, date=found.prices, model=found.model))
    return semicolon().join(notes)
