"""Updates the ledger (list) of standing rules: adds new rules, and ends those that new ones replace or cancel.

A later sentence ends an earlier rule only on evidence: it restates the rule, gives another value for the same
attribute, forbids what the rule asks for (or the reverse), or changes it ("actually", "instead", 改成). In every case
both are about the same thing (see `subjects`); in doubt both stay, since a rule that is ended wrongly misleads a model,
and of two that are shown the later one overrides. Rules of the system message are ended only by the system message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import act_of, is_negative, is_weak_change, only_cancels
from turnfold.rules.active_rules import ActiveRules
from turnfold.rules.deferrals import takes_up
from turnfold.rules.display import rank_rules
from turnfold.rules.ended_rules import (
    MOST_DOUBTFUL,
    completed_tasks,
    concerned_by,
    confirmed_by,
    doubtful_rules,
    ended_by,
    never_without,
    only_closes,
    rules_before,
    undone_by,
)
from turnfold.rules.ending_checks import changes_a_part, is_about_the_same, may_end
from turnfold.rules.lifted_prohibitions import affirms, lifts
from turnfold.rules.other_facts import bans_another_thing, has_other_fact, only_refers
from turnfold.rules.permissions import is_permission
from turnfold.rules.replaced_values import takes_the_place
from turnfold.rules.reversals import adopts, corrects, only_takes_back
from turnfold.rules.rule_comparison import (
    ONE_AT_A_TIME,
    contested_classes,
    forbids_by_word,
    words_of,
)
from turnfold.rules.standing_rule import RuleKind, RuleState, StandingRule, rule_id
from turnfold.rules.subjects import common_terms, is_fragment
from turnfold.rules.task_completion import may_report
from turnfold.rules.topics import facets, rule_terms, without_values
from turnfold.text import is_chinese, plain_characters, require_limit

__all__ = ("LedgerChange", "new_rule", "replacements", "taken_back", "update_ledger")


@dataclass(frozen=True, slots=True)
class LedgerChange:
    """A ledger (list of standing rules) after an update, and the rules that were added, ended and removed."""

    rules: tuple[StandingRule, ...]
    """The whole ledger (list of rules) after the update, in the order in which the rules were said, with ended ones."""
    added: tuple[StandingRule, ...]
    ended: tuple[StandingRule, ...]
    """Rules that were active before the update and are not active any more, with their new state."""
    evicted: tuple[StandingRule, ...]
    """Rules that were removed because the ledger exceeded its limit: first ended rules, then those of the lowest
    rank."""


_LONGEST_ABOUT = 80
"""Most characters of `StandingRule.about` (the topic of the replaced rule); a longer text is cut between words."""
_SAME_TASK = late_pattern(
    r"\b(?:do|does|finish|handle|get|see\s+to|take\s+care\s+of)\s+(?:it|that|this|them|those)\b|^\W*[这那][件个条]?事|^(?:先|我来)?[记挂列]",
    re.IGNORECASE,
)
"""Matches a task that adds no work to the task before it."""
_LONGEST_SAID = 300
"""Most characters of the clauses of one sentence that are joined and compared as one text."""
_REPORTS = ("task", "decision", "fact")
"""Kinds of rules that a sentence reporting something as done ("Marco got the NDA") may be mistaken for."""
_SIDE = late_pattern(
    r"\W*(?:电话|手机号?|邮箱|微信号?|地址|价格|单价|号码)|\W*(?:phone|mobile|e-?mail|address|number|price)\b|[\W\d]+$",
    re.IGNORECASE,
)
"""Matches a clause that only gives one detail of the thing that the clause before names: "phone 555-0142"."""
_OWN_DETAIL = late_pattern(
    r"\W*(?:我的?|收货|收件|家庭|公司|联系)?(?:地址|电话|手机号?|邮箱|微信号?|姓名|名字)|我[姓叫]"
    r"|\W*(?:my|our|the)?\s*(?:(?:shipping|delivery|home|office|e-?mail)\s+)?(?:address|phone|mobile|e-?mail|name)\b",
    re.IGNORECASE,
)
"""Matches a clause that gives a detail of the user: the next clause gives another one, not a detail of this detail."""


def update_ledger(
    rules: Iterable[StandingRule],
    new: Iterable[StandingRule],
    *,
    limit_tokens: int,
    count: Callable[[str], int],
) -> LedgerChange:
    """Return the ledger (list of standing rules) with `new` rules added.

    Rules that these replace or cancel are ended.

    `rules` is the ledger so far; `new` are the rules of later entries, in order. Rules already in the ledger are
    not added again. `limit_tokens` bounds the texts of the whole ledger, counted with `count`.
    """
    require_limit(limit_tokens)
    ledger = {rule.id: rule for rule in rules}
    added: list[str] = []
    ended: dict[str, None] = {}
    reports: set[str] = set()
    new = [*new]
    judged = {rule.id for rule in new if rule.act != "done"}
    active = ActiveRules(rule for rule in ledger.values() if rule.state == "active")
    for each in new:
        if each.id in ledger or each.id in reports:
            continue
        said = _said(each, ledger)
        near = active.near(each, said)
        rule, found = _read(each, said, near, is_only_report=each.id not in judged)
        targets, partly = _checked(rule, said, found)
        targets += _going_on(rule, targets, active)
        linked = tuple(target.id for target, _ in targets)
        if rule.act != "done" and (linked or rule.act != each.act):
            heads = (target.continues for target, _ in targets)
            near = active.near(rule, said, also=(*linked, *heads))
        for target, state in targets:
            ledger[target.id] = msgspec.structs.replace(target, state=state, ended=rule.said_at)
            ended[target.id] = None
            active.remove(target)
        if rule.act == "done":
            # If the report closed a task, the same sentence is not added as a rule.
            reports.update([rule.id] if targets else [])
        else:
            ledger[rule.id] = _added(rule, said, targets, near, partly)
            added.append(rule.id)
            if ledger[rule.id].state == "active":
                active.add(ledger[rule.id])
    evicted = _evicted(list(ledger.values()), limit_tokens, count) if added else []
    for rule in evicted:
        del ledger[rule.id]
    return LedgerChange(
        rules=tuple(sorted(ledger.values(), key=lambda rule: rule.said_at)),
        added=tuple(ledger[each] for each in added if each in ledger),
        ended=tuple(ledger[each] for each in ended if each in ledger),
        evicted=tuple(evicted),
    )


def _checked(
    rule: StandingRule, said: str, found: Sequence[tuple[StandingRule, RuleState]]
) -> tuple[list[tuple[StandingRule, RuleState]], list[str]]:
    """Return those of the `found` rules that may end, and the ids of those of which only a part changes."""
    targets: list[tuple[StandingRule, RuleState]] = [
        (old, state)
        for old, state in found
        if may_end(rule, said, old) and not _loses_fact(rule, said, old, state)
    ]
    partly = [
        old.id
        for old, _ in found
        if has_other_fact(said, old.plain)
        or _loses_amount(rule, old)
        or changes_a_part(said, old.plain)
    ]
    return targets, partly


def _added(
    rule: StandingRule,
    said: str,
    targets: Sequence[tuple[StandingRule, RuleState]],
    near: Sequence[StandingRule],
    partly: Sequence[str],
) -> StandingRule:
    """Return a new rule as it is added: with the rules that it ends (`targets`), and those that it may replace.

    `partly` are the ids of the rules of which it changes a part.
    """
    linked = tuple(target.id for target, _ in targets)
    partly = [each for each in partly if each not in linked]
    old = {each.id: each for each in near}
    doubtful = [
        each
        for each in doubtful_rules(rule, said, near, (*linked, *partly))
        if each not in old or is_about_the_same(rule, said, old[each])
    ]
    doubtful = (*partly, *doubtful)[:MOST_DOUBTFUL]
    taken_back = (
        bool(targets)
        and rule.act != "permit"
        and (only_cancels(rule.plain) or only_takes_back(rule.plain))
    )
    return msgspec.structs.replace(
        rule, kind=_kind(rule, targets), supersedes=linked, about=_about(rule, targets), may_replace=doubtful,
        weak=rule.weak and not (linked or doubtful),
        state="dropped" if taken_back else "active", ended=rule.said_at if taken_back else 0,
    )  # fmt: skip


def _read(
    rule: StandingRule, said: str, active: Sequence[StandingRule], *, is_only_report: bool
) -> tuple[StandingRule, list[tuple[StandingRule, RuleState]]]:
    """Judge what a new rule does to earlier rules (its act).

    Returns the rule with its act, and the earlier rules that it ends, each with its new state. A sentence that reports
    work as done (`is_only_report`) becomes a correction if it undoes a rule; a statement becomes a report of work if it
    completes a task.
    """
    if put_off := [each for each in rules_before(rule, active) if takes_up(rule.plain, each.plain)]:
        # "Push it now" ends "don't push yet", and is itself a request for one thing.
        return msgspec.structs.replace(rule, act="done"), [(each, "dropped") for each in put_off]
    if rule.act == "keep" and confirmed_by(rule, active):
        return msgspec.structs.replace(rule, act="done"), []  # it adds nothing to what it confirms
    targets = ended_by(rule, said, active)
    if rule.act == "done" and not targets and is_only_report and not only_closes(rule):
        targets = undone_by(rule, said, rules_before(rule, active))
        if targets or never_without(rule, said, active) or concerned_by(rule, active):
            act = "permit" if is_permission(said) and not targets else "change"
            rule = msgspec.structs.replace(rule, act=act, kind="rule", negative=False)
    elif _may_be_report(rule) and not targets:
        targets = completed_tasks(rule, rules_before(rule, active))
        rule = msgspec.structs.replace(rule, act="done") if targets else rule
    elif (
        not targets
        and rule.act != "cancel"
        and is_permission(said)
        and never_without(rule, said, active)
    ):
        rule = _permit(rule)
    return _with_act(rule, said, targets), targets


def _loses_fact(rule: StandingRule, said: str, old: StandingRule, state: RuleState) -> bool:
    """Return True if a rule must not end, because it says something that the new sentence does not touch."""
    return state == "superseded" and (
        _loses_amount(rule, old)
        or only_refers(said, old.plain)
        or has_other_fact(said, old.plain)
        or bans_another_thing(said, old.plain)
    )


def _loses_amount(rule: StandingRule, old: StandingRule) -> bool:
    """Return True if a sentence gives no other amount, but only another unit: "in pounds, not euros"."""
    if rule.act not in ("state", "renew") or rule.kind == "prohibition":
        return False
    money = "@currency" in rule.scope and "@currency" in old.scope
    return money and not _has_number(rule) and _has_number(old)


def _has_number(rule: StandingRule) -> bool:
    return any(each[0].isdigit() for each in rule.value)


def _permit(rule: StandingRule) -> StandingRule:
    """Return a rule as a permission, which forbids nothing whatever its words: 上午打也没事."""
    kind = "rule" if rule.kind == "prohibition" else rule.kind
    return msgspec.structs.replace(rule, act="permit", negative=False, kind=kind)


def _may_be_report(rule: StandingRule) -> bool:
    """Return True if a sentence taken for a rule may only report work as done: "Marco got the NDA", "I did those"."""
    if rule.negative or rule.act not in ("state", "change"):
        return False
    return (rule.act == "state" and rule.kind in _REPORTS) or may_report(rule.plain)


def new_rule(text: str, *, kind: RuleKind, added: int = 0) -> StandingRule:
    """Return a rule that the application adds and no message states; its `seq` is 0.

    `added` is the log position at which it is added: it can end what was said before, and is ended by what comes later.
    """
    plain = plain_characters(text)
    language = "zh" if is_chinese(plain) else "en"
    terms = rule_terms(plain)
    act = act_of(plain, language)
    return StandingRule(
        id=rule_id(text, seq=0, trust="user", at=0), text=text, kind=kind, seq=0, added=added,
        act="renew" if act == "state" and is_weak_change(plain, language) else act,
        negative=is_negative(plain, language) and act != "permit",
        scope=terms.scope[:24], value=terms.value[:12],
    )  # fmt: skip


def replacements(rules: Iterable[StandingRule]) -> dict[str, StandingRule]:
    """Return {id of a replaced, lifted or cancelled rule: the rule that replaced, lifted or cancelled it}."""
    return {ended: rule for rule in rules for ended in rule.supersedes}


def taken_back(rules: Sequence[StandingRule]) -> tuple[StandingRule, ...]:
    """Return the rules that the user explicitly ended ("make it 2 pm instead"), in the order of `rules`.

    A rule that a plain statement replaced is not among them, because another contract number may be another contract;
    but where the user lives or what they are called has one value at a time.
    """
    later = {old: rule for rule in rules for old in rule.supersedes}
    found: dict[str, bool] = {}
    # A rule is replaced by a newer one, whose own end then decides: the newest first.
    for rule in sorted(rules, key=lambda rule: -rule.seq):
        after = later.get(rule.id)
        if rule.state != "superseded":
            found[rule.id] = rule.state == "dropped"
        elif (
            after is None
            or after.act != "state"
            or after.said_at < rule.said_at
            or _moved(rule, after)
        ):
            found[rule.id] = True
        else:
            found[rule.id] = found[after.id]
    return tuple(rule for rule in rules if found[rule.id])


def _moved(rule: StandingRule, after: StandingRule) -> bool:
    """Return True if the later rule certainly gives another value for the same thing.

    It was added by the application with another value, or it changes an attribute that has one value at a time, such as
    where the user lives.
    """
    if after.added:
        return rule.value != after.value
    return not ONE_AT_A_TIME.isdisjoint(rule.terms & after.terms) and not rule.terms <= after.terms


def _said(rule: StandingRule, ledger: Mapping[str, StandingRule]) -> str:
    """Return a rule with the clauses before it in its sentence, which may give the reason for it."""
    text = rule.plain
    head = ledger.get(rule.continues)
    while head is not None and len(text) < _LONGEST_SAID:
        text = f"{head.plain}{rule.joint or ', '}{text}"
        rule, head = head, ledger.get(head.continues)
    return plain_characters(rule.lead) + text


def _with_act(
    rule: StandingRule, said: str, targets: Sequence[tuple[StandingRule, RuleState]]
) -> StandingRule:
    """Return the rule with the act (effect on earlier rules) that follows from the rules that it ends."""
    if not targets or rule.act == "done" or not any(state != "done" for _, state in targets):
        return rule
    if affirms(said) and any(lifts(said, each.plain) for each, _ in targets):
        return _permit(rule)
    if rule.act in ("state", "renew") and any(
        takes_the_place(said, each.plain) or corrects(said, each.plain) for each, _ in targets
    ):
        return msgspec.structs.replace(rule, act="change")
    return rule


def _task_before(rule: StandingRule, ended: Sequence[StandingRule]) -> StandingRule | None:
    """Return the ended task that a task of the same message refers to: "let's do that before Friday"."""
    if rule.kind != "task" or not _SAME_TASK.search(rule.plain):
        return None
    tasks = [each for each in ended if each.seq == rule.seq and each.kind == "task"]
    return tasks[-1] if tasks and tasks[-1].id != rule.id else None


def _going_on(
    rule: StandingRule,
    ended: Sequence[tuple[StandingRule, RuleState]],
    active: ActiveRules,
) -> list[tuple[StandingRule, RuleState]]:
    """Return the rules that only continue a rule that ends, such as "not in grey" after "the kettle in white".

    They end with that rule, and get the same state.
    """
    state_of: dict[str, RuleState] = {rule.id: state for rule, state in ended}
    heads = {rule.id: rule for rule, _ in ended}
    going: list[tuple[StandingRule, RuleState]] = []
    same_messages = active.of_messages({rule.seq for rule, _ in ended})
    for each in sorted(same_messages, key=lambda rule: rule.seq):
        head = heads.get(each.continues) or _task_before(each, [*heads.values()])
        if head is None or each.id in heads:
            continue
        sets_off = each.negative != head.negative and not each.terms.isdisjoint(head.terms)
        done = state_of[head.id] == "done" and each.kind == "task"
        if (
            sets_off
            or (done and _SAME_TASK.search(each.plain))
            or is_fragment(each.plain)
            or (not _OWN_DETAIL.match(head.plain) and _belongs(rule, each))
            or (each.negative and adopts(rule.plain, each.plain))
        ):
            state_of[each.id] = state_of[head.id]
            heads[each.id] = each  # what goes on with it ends too
            going.append((each, state_of[each.id]))
    return going


def _belongs(rule: StandingRule, each: StandingRule) -> bool:
    """Return True if a clause adds a detail to the thing in the clause before it, and the new rule changes that."""
    return _SIDE.match(each.plain) is not None and (
        bool(contested_classes(rule, each)) or not facets(rule.plain).isdisjoint(facets(each.plain))
    )


def _about(rule: StandingRule, targets: Sequence[tuple[StandingRule, RuleState]]) -> str:
    """Return the topic of the rule that a correcting sentence replaces, if the two have no word in common."""
    for target, state in targets:
        if state == "superseded" and not common_terms(words_of(rule), words_of(target)):
            old = target.lead + (target.meaning or target.text)
            return target.about or _shortened(
                without_values(old, rule.text) or without_values(old, "")
            )
    return ""


def _shortened(text: str) -> str:
    """Return a text of at most `_LONGEST_ABOUT` characters, cut between two words."""
    if len(text) <= _LONGEST_ABOUT:
        return text
    cut = text[: _LONGEST_ABOUT - 1]
    if text[_LONGEST_ABOUT - 1].isascii() and text[_LONGEST_ABOUT - 1].isalnum():
        cut = cut[: cut.rfind(" ") + 1] or cut
    return cut.rstrip(" ,，…") + "…"


def _kind(rule: StandingRule, targets: Sequence[tuple[StandingRule, RuleState]]) -> RuleKind:
    """Return the kind of a new rule; a "task" that replaces a rule gets the kind of that rule."""
    if rule.kind == "task":
        for target, state in targets:
            if state == "superseded":
                lifted = target.negative and not forbids_by_word(rule)
                return "rule" if lifted else target.kind
    return rule.kind


def _evicted(
    rules: list[StandingRule], limit: int, count: Callable[[str], int]
) -> list[StandingRule]:
    costs = {rule.id: count(rule.text) + count(rule.answers) for rule in rules}
    total = sum(costs.values())
    if total <= limit:
        return []
    ended = sorted((rule for rule in rules if rule.state != "active"), key=lambda rule: rule.seq)
    active = rank_rules(
        [rule for rule in rules if rule.state == "active"],
        limit_tokens=limit,
        cost=lambda rule: costs[rule.id],
    )
    evicted: list[StandingRule] = []
    for rule in (*ended, *reversed(active)):
        if total <= limit:
            break
        evicted.append(rule)
        total -= costs[rule.id]
    return evicted
