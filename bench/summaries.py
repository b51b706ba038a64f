"""What does folding by a model cost, does anything vanish, and what happens when the model fails?

The same conversation for everybody, a window wherever a call is due, and a model that answers with a mark by which one
can tell what its summary stands for. At every call each message is in the window, behind a summary in the window, or
nowhere. The model works, fails at every third question, or is down for the middle fifth of the conversation; an error
that reaches the user is counted, and the conversation goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.hosts import Guests, Offered, PeerFailed
from bench.lanes.summaries import FAILING, Outcome
from bench.report import Report, Table, Target

__all__ = ("QUESTION", "run")

QUESTION = "characters a summarising model is given, and messages that are nowhere (8,000 tokens)"
BUDGET = 8_000
MESSAGES, QUICK_MESSAGES = 1_500, 500
MOST_SENT = 1.2
"""Of what was said, with a model that works."""
_TITLES = {
    "never": "The model works",
    "every third": "The model fails at every third question",
    "a while": "The model is down for the middle fifth of the conversation",
}


def run(guests: Guests, *, quick: bool) -> Report:
    """Everybody, with every way for the model to fail."""
    report = Report("summaries", QUESTION)
    everybody = guests.offered("summarised")
    for failing in FAILING:
        outcomes: dict[str, Outcome] = {}
        failures: list[str] = []
        for each in everybody:
            try:
                outcomes[each.name] = _outcome(guests, each, failing, quick=quick)
            except PeerFailed as failed:
                failures.append(f"failed: {each.name}: {failed}")
        report.tables.append(_table(failing, outcomes, [*failures, *_errors(outcomes)]))
        ours = {
            each.name: outcomes[each.name]
            for each in everybody
            if each.ours and each.name in outcomes
        }
        report.targets += _targets(failing, ours)
        report.figures |= {f"{failing}, {name}": _figures(one) for name, one in outcomes.items()}
    report.tables[0] = _with_notes(report.tables[0], everybody, guests)
    return report


def _outcome(guests: Guests, each: Offered, failing: str, *, quick: bool) -> Outcome:
    messages = QUICK_MESSAGES if quick else MESSAGES
    lane = guests.lane(each, "summaries", messages=messages, budget=BUDGET, failing=failing)
    outcome: Outcome = lane.ask("run")
    lane.close()
    return outcome


def _table(failing: str, outcomes: dict[str, Outcome], notes: Sequence[str]) -> Table:
    rows = [
        [
            name,
            f"{one.sent / one.said:.2f}x",
            f"{one.asked} ({one.failed})" if one.failed else str(one.asked),
            _nowhere(one),
            str(one.left),
            f"{one.record.refused} of {one.record.windows}" if one.record.refused else "none",
            *map(str, (one.record.broken, one.record.newest_missing, one.record.over)),
        ]
        for name, one in outcomes.items()
    ]
    columns = ["summarised", "sent / said", "asked (failed)", "nowhere", "at the end",
               "errors to the user", "broken pairs", "newest missing", "over budget"]  # fmt: skip
    return Table(_TITLES[failing], columns, rows, notes)


def _nowhere(one: Outcome) -> str:
    windows = one.record.windows - one.record.refused
    return f"at {one.gaps} of {windows} calls, up to {one.most}" if one.gaps else "none"


def _errors(outcomes: dict[str, Outcome]) -> Iterator[str]:
    for name, one in outcomes.items():
        if one.error:
            yield f"what reached the user of {name}: {one.error}"


def _with_notes(table: Table, everybody: Sequence[Offered], guests: Guests) -> Table:
    settings = [f"{each.name}: {each.facts['note']}" for each in everybody if each.facts["note"]]
    notes = [
        "sent / said: characters of all prompts to the model over characters of the conversation",
        "nowhere: messages that are neither in the window nor behind a summary in it; at the end: at the last call",
        *settings,
        *guests.notes(),
    ]
    return Table(table.title, table.columns, table.rows, [*table.notes, *notes])


def _targets(failing: str, ours: dict[str, Outcome]) -> Iterator[Target]:
    for name, one in ours.items():
        if failing == "never":
            share = one.sent / one.said
            claim = f"{name}: the model is given at most {MOST_SENT}x of what was said"
            yield Target(claim, f"{share:.2f}x", share <= MOST_SENT)
        when = _TITLES[failing][0].lower() + _TITLES[failing][1:]
        yield Target(f"{name}, {when}: no message nowhere", _nowhere(one), one.gaps == 0)
        claim = f"{name}, {when}: every window valid, within budget, no error to the user"
        yield Target(claim, one.record.shown(), one.record.clean)
        if failing == "a while":
            recovered = not (one.late or one.left)
            claim = f"{name}: nothing is lost once the model is back"
            yield Target(claim, f"{one.left} nowhere at the end", recovered)


def _figures(one: Outcome) -> dict[str, object]:
    record = one.record
    return {
        "sent_over_said": one.sent / one.said,
        "asked": one.asked,
        "failed": one.failed,
        "calls_with_gaps": one.gaps,
        "most_nowhere": one.most,
        "nowhere_at_the_end": one.left,
        "windows": record.windows,
        "errors": record.refused,
        "broken": record.broken,
        "newest_missing": record.newest_missing,
        "over": record.over,
    }
