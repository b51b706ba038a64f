"""Finds the earlier rules that a new sentence replaces, cancels or completes, and those it may replace."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import is_negative, reports_done
from turnfold.rules.changed_values import amounts_of, gives_anew, only_reports
from turnfold.rules.clauses import nouns_of, only_in_first, share_words, units_of
from turnfold.rules.corrections import RECENT_ENTRIES, may_mean, meant_rules
from turnfold.rules.ending_checks import names_both_values
from turnfold.rules.lifted_prohibitions import affirms, lifts, may_lift, releases
from turnfold.rules.one_time import edits_a_piece
from turnfold.rules.permissions import exempts, is_permission, permits_what
from turnfold.rules.replaced_values import names_no_value, takes_the_place
from turnfold.rules.restated_rules import restates
from turnfold.rules.reversals import (
    alters,
    chooses_again,
    chooses_rejected,
    complains_of,
    corrects,
    drops,
    is_exception,
    offers_another,
    speaks_of_once,
    takes_all_back,
    takes_back,
    takes_last_back,
    touches_a_part,
)
from turnfold.rules.rule_comparison import (
    DATES,
    LIMIT,
    MOMENTS,
    ONE_AT_A_TIME,
    classes_of,
    contested_classes,
    is_denial,
    only_names_a_moment,
    replaces,
    words_of,
)
from turnfold.rules.slots import fills_again
from turnfold.rules.standing_rule import RuleState, StandingRule
from turnfold.rules.subjects import common_terms, parts_of
from turnfold.rules.task_completion import (
    closed_task,
    closes,
    completes,
    is_of_others,
    is_still_open,
    names_another,
)
from turnfold.text import plain_characters

__all__ = (
    "MOST_DOUBTFUL",
    "completed_tasks",
    "concerned_by",
    "confirmed_by",
    "doubtful_rules",
    "ended_by",
    "never_without",
    "only_closes",
    "rules_before",
    "undone_by",
)


_DONE = 0.5
"""A sentence that reports work as done closes a task if it has at least this share of the task's terms."""
_REPORTED = 0.75
"""A sentence that reports work as done also closes a task that has at least this share of the sentence's terms."""
MOST_DOUBTFUL = 2
"""If it is not certain which rule a sentence replaces, at most this many are stored with it, the newest first."""
_SENTENCES = late_pattern(r"(?<=[.!?。！？~])\s*")
_FEW = 2
"""Most words of a rule that says little more than its values: 我要黑色的，XL 码."""
_SUITS = frozenset(
    "weekend good date day look works fine perfect suit saturday sunday =place 周末 日子 合适".split()
)
"""Words of a sentence that only says which day suits."""
_JUST_BEFORE = 3
"""Most log entries between two messages of the user with one answer between them."""
_OUTPUT = late_pattern(
    r"\b(?:answer|repl|respon|summar|write|mail|bullet|list|table|emoji|joke|tone|format|comment|quote|message|footnote)\w*"
    r"|回答|回复|输出|总结|写|列表|表格|表情|笑话|语气|格式|邮件|消息|注释|分点",
    re.IGNORECASE,
)
"""Matches an instruction about what the assistant writes."""
_LAID_DOWN = ("rule", "prohibition", "preference", "decision")
"""Kinds of rules that "forget all my rules" ends; open tasks and facts about the user stay."""


def completed_tasks(
    rule: StandingRule, mine: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return the open tasks that a sentence reports as done, with their new state."""
    return [
        (each, "done")
        for each in mine
        if each.kind == "task"
        and any(completes(rule.plain, said) for said in {each.plain, _task(each)})
    ]


def only_closes(rule: StandingRule) -> bool:
    """Return True if the whole message only says that a task is done ("done, off the list")."""
    return any(closes(each) for each in _SENTENCES.split(rule.plain))


def _closed(
    rule: StandingRule, mine: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return the open task that a message closes, with its new state, and the clauses that continue the task."""
    tasks = [each for each in mine if each.kind == "task" and each.seq < rule.seq]
    found = closed_task(rule.plain, [*map(_task, tasks)])
    return [] if found is None else [(tasks[found], "done")]


def _task(rule: StandingRule) -> str:
    """Return a task together with the sentence before it, which may say what the task is: "I'll do that tonight"."""
    return plain_characters(rule.lead) + rule.plain


def rules_before(rule: StandingRule, active: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the active rules that the new rule can end: those said before it, and by the same author.

    It cannot end the clause that it continues, and an exception for one occasion ends no rule about every occasion.
    """
    is_once = speaks_of_once(rule.plain)
    return [
        each
        for each in active
        if each.trust == rule.trust
        and each.id != rule.continues
        and not (is_once and is_exception(rule.plain, each.plain))
        and (
            each.said_at < rule.said_at
            or (each.seq == rule.seq and rule.act not in ("state", "renew"))
        )
    ]


def ended_by(
    rule: StandingRule, said: str, active: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return the active rules that the new rule replaces, cancels or completes, each with its new state."""
    mine = rules_before(rule, active)
    if rule.act == "keep":
        return []
    if rule.act == "done":
        if only_closes(rule):
            return _closed(rule, mine)
        if not reports_done(rule.plain, "zh") and not reports_done(rule.plain, "en"):
            return completed_tasks(rule, mine)
        return [(each, "done") for each in mine if each.kind == "task" and _is_done(rule, each)]
    mine = [each for each in mine if not only_reports(said, each.plain)]
    found = [each for each in mine if replaces(rule, each) or names_both_values(rule, each)]
    if not found and (undone := undone_by(rule, said, mine)):
        return undone
    if not found and rule.act != "state" and not names_no_value(rule.plain):
        found = meant_rules(rule, mine)
    state: RuleState = "dropped" if rule.act == "cancel" else "superseded"
    return [(each, state) for each in found if not touches_a_part(rule.plain, each.plain)]


def undone_by(
    rule: StandingRule, said: str, mine: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return the rules that a sentence undoes by its form: it permits, releases, corrects or replaces them."""
    if takes_all_back(rule.plain):
        return [(each, "dropped") for each in mine if each.kind in _LAID_DOWN and each.seq]
    if takes_last_back(rule.plain):
        last = max((each.seq for each in mine if each.seq), default=0)
        near = last and rule.said_at - last <= _JUST_BEFORE
        return [(each, "dropped") for each in mine if near and each.seq == last]
    every = mine
    mine = [
        each
        for each in mine
        if share_words(said, each.plain) and not only_reports(said, each.plain)
    ]
    if len(withdrawn := [each for each in mine if takes_back(said, each.plain)]) == 1:
        return [(withdrawn[0], "dropped")]
    certain = [each for each in _given_anew(rule, mine) if not touches_a_part(said, each.plain)]
    if not alters(said):
        found = certain if _is_one(certain) else _filled_again(said, every)
        return [(each, "superseded") for each in found]
    found = [each for each in mine if lifts(said, each.plain) and is_denial(each)]
    if not found and (turned := [each for each in every if chooses_rejected(said, each.plain)]):
        return [(each, "superseded") for each in turned]
    found = found or [each for each in mine if corrects(said, each.plain)]
    if not found:
        found = _clearest(said, [each for each in mine if takes_the_place(said, each.plain)])
    if not found:
        denies = is_negative(said, "en") or is_negative(said, "zh")
        again = [
            each
            for each in mine
            if not (denies and each.kind == "task") and restates(said, each.plain)
        ]
        found = again if _is_one(again) else []
    found = found or [each for each in mine if not each.negative and releases(said, each.plain)]
    if not found and offers_another(said):
        found = _clearest(said, [each for each in mine if _is_complained_of(said, each)])
    if not found and (
        dropped := [each for each in mine if not is_denial(each) and drops(said, each.plain)]
    ):
        tasks = [each for each in dropped if each.kind == "task"]
        found = tasks or [each for each in dropped if each.kind != "fact" or not each.value]
    found = found or (certain if _is_one(certain) else [])
    found = found or _filled_again(said, every)
    return [(each, "superseded") for each in found if not touches_a_part(said, each.plain)]


def _is_complained_of(said: str, other: StandingRule) -> bool:
    """Return True if a sentence complains about what an instruction asks for: "the bullets annoy me"."""
    return (
        other.kind in ("rule", "preference")
        and not other.value
        and _OUTPUT.search(other.plain) is not None
        and complains_of(said, other.plain)
        and not is_denial(other)
    )


def _clearest(said: str, found: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the rule, as a list, with which a sentence has clearly more words in common than with the others."""
    if len(found) < 2:
        return [*found]
    mine = units_of(said)
    alike = {each.id: len(mine - only_in_first(mine, units_of(each.plain))) for each in found}
    best, second, *_ = sorted(found, key=lambda each: -alike[each.id])
    return [best] if alike[best.id] >= 2 * alike[second.id] else []


def _filled_again(said: str, mine: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the only earlier rule of which a sentence gives another value for the same slot, as a list."""
    found = [
        each
        for each in mine
        if each.kind != "task" and not is_denial(each) and fills_again(said, each.plain)
    ]
    if len(found) != 1 or touches_a_part(said, found[0].plain):
        return []
    return found if fills_again(said, found[0].plain) == "surely" else []


def never_without(
    rule: StandingRule, said: str, active: Sequence[StandingRule]
) -> list[StandingRule]:
    """Return the rules that a sentence does not end, but which must not be shown without it, newest first.

    It permits what they forbid, be it for one occasion, or gives another value for what they give a value.
    """
    permits, once = is_permission(said), speaks_of_once(said) and not rule.negative
    return [
        each
        for each in sorted(active, key=lambda rule: -rule.said_at)
        if each.trust == rule.trust
        and each.id not in (rule.id, rule.continues)
        and each.said_at < rule.said_at
        and (
            (permits and is_denial(each) and permits_what(said, each.plain))
            or (once and each.negative and exempts(said, each.plain))
            or (not each.negative and each.kind != "task" and fills_again(said, each.plain))
        )
    ]


def concerned_by(rule: StandingRule, active: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the rules, newest first, of which a request to edit one thing names the thing: "delete the old branch".

    It may do what they forbid, or undo what they ask for.
    """
    if not edits_a_piece(rule.plain, "en" if rule.plain.isascii() else "zh"):
        return []
    named = (*nouns_of(rule.plain), *units_of(rule.plain))
    mine = {each for each in named if each.isascii() or len(each) > 1}
    found: list[StandingRule] = []
    for each in rules_before(rule, active):
        own = only_in_first(mine, nouns_of(each.plain) | units_of(each.plain))
        if len(own) < len(mine) - len(own):
            found.append(each)
    return sorted(found, key=lambda each: -each.said_at)


def confirmed_by(rule: StandingRule, active: Sequence[StandingRule]) -> bool:
    """Return True if a sentence says that something stays as an earlier rule says: "invoices as before"."""
    mine = nouns_of(rule.plain)
    return any(mine & nouns_of(each.plain) for each in rules_before(rule, active))


def _given_anew(rule: StandingRule, mine: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the earlier rules of which a correcting sentence ("make it 20") gives a value anew."""
    changes = rule.act in ("change", "renew", "permit", "done") or affirms(rule.plain)
    return [
        each
        for each in mine
        if (each.kind != "prohibition" or LIMIT.search(each.plain))
        and gives_anew(rule.plain, each.plain, changes=changes) == 1
    ]


def _is_one(rules: Sequence[StandingRule]) -> bool:
    """Return True if one correcting sentence ("make it 20") can mean all of these rules.

    That is so if there is only one, or if all come from one sentence.
    """
    first = rules[0].id if rules else ""
    return bool(rules) and all(
        each.continues in {first, *(rule.id for rule in rules)} for each in rules[1:]
    )


def _is_done(rule: StandingRule, task: StandingRule) -> bool:
    """Return True if a sentence that reports work as done has enough terms in common with a task to close it."""
    if not ONE_AT_A_TIME.isdisjoint(task.scope):
        return False  # "please call me Alexander" is no task
    if any(completes(rule.plain, said) for said in {task.plain, _task(task)}):
        return True
    if is_of_others(rule.plain, task.plain) or is_still_open(rule.plain):
        return False  # "if the books are returned late, there's a fee"
    if names_another(rule.plain, task.plain):
        return False  # "I paid the water bill" leaves the rent to be paid
    about, told = parts_of(words_of(task) or task.terms), parts_of(words_of(rule) or rule.terms)
    common = common_terms(about, told)
    return bool(common) and (
        len(common) >= _DONE * len(about) or len(common) >= _REPORTED * len(told)
    )


def doubtful_rules(
    rule: StandingRule, said: str, active: Sequence[StandingRule], ended: Sequence[str]
) -> tuple[str, ...]:
    """Return the ids, newest first, of the rules that a correcting sentence may mean, if that is not certain."""
    mine = [
        each
        for each in rules_before(rule, active)
        if each.id not in ended and not only_reports(said, each.plain)
    ]
    unsure: list[StandingRule] = []
    if rule.act not in ("state", "keep") or alters(said) or amounts_of(rule.plain):
        unsure = [each for each in mine if _may_undo(rule, said, each)]
    if rule.act == "permit":  # "take the bus, don't drive", and later: "driving is fine after all"
        heads = {each.continues for each in active if each.id in ended and each.negative}
        unsure += [
            each for each in mine if each.id in heads and not each.negative and each not in unsure
        ]
    unsure += [
        each
        for each in (*never_without(rule, said, active), *concerned_by(rule, active))
        if each.id not in ended and each not in unsure
    ]
    if unsure or ended:
        return tuple(each.id for each in sorted(unsure, key=lambda rule: -rule.seq)[:MOST_DOUBTFUL])
    if only_names_a_moment(rule) and not rule.continues:
        return _newest_moment(rule, active)
    if rule.act != "change" or rule.negative or rule.continues:
        return ()
    likely = [
        each
        for each in sorted(active, key=lambda rule: -rule.seq)
        if each.trust == rule.trust
        and each.seq < rule.seq
        and ONE_AT_A_TIME.isdisjoint(each.scope)
        and not (each.negative and not LIMIT.search(each.plain))
        and may_mean(rule, each, active)
    ]
    return tuple(each.id for each in likely[:MOST_DOUBTFUL]) or _only_moment(rule, active)


def _newest_moment(rule: StandingRule, active: Sequence[StandingRule]) -> tuple[str, ...]:
    """Return the id of the newest of the last rules that names another day or time, in a tuple; () if none does."""
    dated = [
        each
        for each in rules_before(rule, active)
        if rule.said_at - each.said_at <= RECENT_ENTRIES
        and not each.negative
        and contested_classes(rule, each) & MOMENTS
    ]
    return (max(dated, key=lambda each: each.said_at).id,) if dated else ()


def _only_moment(rule: StandingRule, active: Sequence[StandingRule]) -> tuple[str, ...]:
    """Return the id of the only earlier decision that names a day, in a tuple; () if there are several, or none."""
    dated = [
        each
        for each in rules_before(rule, active)
        if each.kind == "decision" and contested_classes(rule, each) & DATES
    ]
    return (dated[0].id,) if len(dated) == 1 else ()


def _may_undo(rule: StandingRule, said: str, other: StandingRule) -> bool:
    """Return True if a sentence changes a part of an earlier rule, or has a form that may undo the earlier rule."""
    if rule.act != "state" and (chooses_again(said, other.plain) or _is_another_day(rule, other)):
        return True
    if not share_words(said, other.plain) and classes_of(rule).isdisjoint(classes_of(other)):
        return False
    if touches_a_part(said, other.plain):
        words = words_of(other)
        near = common_terms(words_of(rule), words) or len(words) <= _FEW
        return rule.act != "state" and bool(near and contested_classes(rule, other))
    given = gives_anew(rule.plain, other.plain, changes=rule.act != "state")
    if given == 1 or (given and not other.negative):
        return True
    if not alters(said):
        return False
    if complains_of(said, other.plain) and _is_complained_of(said, other):
        return True
    if is_denial(other) and may_lift(said, other.plain):
        return True
    return not other.negative and (takes_the_place(said, other.plain) or drops(said, other.plain))


def _is_another_day(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if a rule names another date than an earlier rule that only says which date suits."""
    dated = bool(contested_classes(rule, other) & (DATES | {"@date"})) and not DATES.isdisjoint(
        classes_of(other)
    )
    return dated and words_of(other) <= _SUITS
