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
from turnfold.rules.act_classifier import (
    act_of,
    is_negative,
    is_weak_change,
    only_cancels,
    reports_done,
)
from turnfold.rules.changed_values import amounts_of, gives_anew, only_reports
from turnfold.rules.clauses import clauses_of, share_words
from turnfold.rules.deferrals import takes_up
from turnfold.rules.display import rank_rules
from turnfold.rules.permissions import exempts, is_permission, permits_what
from turnfold.rules.reversals import (
    adopts,
    affirms,
    alters,
    chooses_again,
    corrects,
    drops,
    is_exception,
    lifts,
    may_lift,
    names_no_value,
    releases,
    restates,
    speaks_of_once,
    takes_all_back,
    takes_the_place,
    touches_a_part,
)
from turnfold.rules.slots import fills_again
from turnfold.rules.standing_rule import RuleKind, RuleState, StandingRule, rule_id
from turnfold.rules.subjects import (
    actors_in,
    begins_alike,
    common_terms,
    is_fragment,
    is_wish_of_others,
    named_things,
    parts_of,
    same_frame,
    subject_of,
)
from turnfold.rules.task_completion import (
    closed_task,
    closes,
    completes,
    is_of_others,
    is_still_open,
    may_report,
    names_another,
)
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


_RESTATED = 0.8
"""Two rules count as the same if they share at least this part of their terms (words and values)."""
_SAME_TOPIC = 0.6
"""Two rules count as being about the same thing, although neither says that something changes, if they share at least
this part of their words."""
_HALF, _THIRD = 0.5, 0.33
"""Shares of the words of an earlier rule that a sentence which changes the rule must name: the first in general, the
second if the sentence also gives another value."""
_SAME_CLASS = 0.2
"""Score of the match between a sentence that changes something without naming a subject ("make it Thursday"), and a
rule with another value of the same class."""
_RECENT_ENTRIES = 16
"""A sentence that changes something without naming it ("make it Thursday") can only change a rule from this many last
log entries: some turns, with tool calls."""
_RECENT_MESSAGES = 3
"""A sentence that changes something without naming it ("make it Thursday") can only change a rule from this many last
messages with rules."""
_DONE = 0.5
"""A sentence that reports work as done closes a task if it has at least this share of the task's terms."""
_REPORTED = 0.75
"""A sentence that reports work as done also closes a task that has at least this share of the sentence's terms."""
_MOST_DOUBTFUL = 2
"""If it is not certain which rule a sentence replaces, at most this many are stored with it, the newest first."""
_LONGEST_ABOUT = 80
"""Most characters of `StandingRule.about` (the topic of the replaced rule); a longer text is cut between words."""
_ONE_AT_A_TIME = frozenset({"@name", "@home", "@address", "@job", "@diet", "@headcount"})
"""Attributes of a person that have one value at a time ("I live in Oslo"), so that a new value replaces the old one."""
_PLAINLY_GIVEN = frozenset({"@name", "@home", "@address", "@headcount"})
"""Attributes of `_ONE_AT_A_TIME` that a plain statement changes, even without a word such as "now"."""
_LIMIT = late_pattern(
    r"\b(?:before|after|until|than|over|under|above|below|beyond|past|earlier|later|exceed\w*|within|up\s+to)\b"
    r"|超|以[上下内前后外]|之[前后]|[早晚少多高低大小长短]于",
    re.IGNORECASE,
)
"""Matches words of a prohibition that sets a limit; a later limit for the same thing replaces it."""
_NAME_OF = late_pattern(
    r"\W*(?:The|Our|My)\s(?:[a-z][\w-]*\s){1,3}is\s(?:the\s)?[A-Z][\w-]+(?:\s[A-Z][\w-]+)*\W*$"
)
"""Matches a sentence that says who or what has a role: "The main contact is Laura."."""
_CHOICE = late_pattern(
    r"\W*(?i:(?:ok(?:ay)?|so|then|right|actually|no|sorry|hmm|wait)\b\W*)*(?i:let's|(?:we|i)(?:'ll|'d\s+rather|\s+will)?|)\s*"
    r"(?i:go(?:ing)?\s+(?:with|for)|take|choose|pick|book|have|rent)\s+(?:the\s+)?[A-Z][\w'&-]+(?:\s+[A-Z][\w'&-]+)*"
    r"(?:\s+(?i:instead|after\s+all|then|please))*\W*$"
    r"|\W*(?:(?:好的?|行|算了|不好意思|等等)[,，])?(?:那|就|我们?|咱们?|还是|决定|改|换)*(?P<verb>[选定订住租])了?(?![在于为了到])"
    r"[^,，。改换成为到]{2,8}?(?:吧|了|好了)*\W*$"
)
"""Matches a choice that names only the chosen thing: "let's go with Hill House", 就订如家吧."""
_CONDITION = late_pattern(
    r"\b(?:without|unless|until|before|except|only\s+(?:if|when|after|with))\b|除非|未经|没有?.{0,8}前|之前|以前|先.{0,10}再",
    re.IGNORECASE,
)
"""Matches words of a prohibition with a condition under which the thing is allowed."""
_STOPS = late_pattern(
    r"\b(?:stop|quit|no\s+need|no\s+longer|any\s?more|don't\s+(?:need|have)\s+to)\b|不用.{0,8}了|不必|不需要.{0,8}了|别再|停",
    re.IGNORECASE,
)
"""Matches words that end something that the user asked for earlier."""
_SAME_TASK = late_pattern(
    r"\b(?:do|does|finish|handle|get|see\s+to|take\s+care\s+of)\s+(?:it|that|this|them|those)\b|^\W*[这那][件个条]?事|^(?:先|我来)?[记挂列]",
    re.IGNORECASE,
)
"""Matches a task that adds no work to the task before it."""
_SENTENCES = late_pattern(r"(?<=[.!?。！？~])\s*")
_LONGEST_SAID = 300
"""Most characters of the clauses of one sentence that are joined and compared as one text."""
_FEW = 2
"""Most words of a rule that says little more than its values: 我要黑色的，XL 码."""
_SUITS = frozenset(
    "weekend good date day look works fine perfect suit saturday sunday =place 周末 日子 合适".split()
)
"""Words of a sentence that only says which day suits."""
_REPORTS = ("task", "decision", "fact")
"""Kinds of rules that a sentence reporting something as done ("Marco got the NDA") may be mistaken for."""
_LAID_DOWN = ("rule", "prohibition", "preference", "decision")
"""Kinds of rules that "forget all my rules" ends; open tasks and facts about the user stay."""
_SIDE = late_pattern(
    r"\W*(?:电话|手机号?|邮箱|微信号?|地址|价格|单价|号码)|\W*(?:phone|mobile|e-?mail|address|number|price)\b|[\W\d]+$",
    re.IGNORECASE,
)
"""Matches a clause that only gives one detail of the thing that the clause before names: "phone 555-0142"."""
_MOMENTS = frozenset({"@day", "@date", "@month", "@time"})
_DATES = frozenset({"@day", "@date", "@month"})
_NO_TOPIC = frozenset({"@number", "@reply", "@count"})
"""Classes of values that do not show the topic of a sentence."""
_NAMES_OF_MONEY = frozenset({"=budget", "=price"})
"""Words that add nothing to the value next to them: an amount of money is a price."""
_NAMED_CLASSES = frozenset(
    "@database @cache @code @framework @cloud @indent @packager @phone @chat @ci @payment @editor @carrier"
    " @spelling @script @transport @language @theme @unit".split()
)
"""Classes whose values name what they are: MySQL is a database; a Thursday may be the day of anything."""


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
    for each in new:
        if each.id in ledger or each.id in reports:
            continue
        active = [rule for rule in ledger.values() if rule.state == "active"]
        said = _said(each, ledger)
        rule, targets = _read(each, said, active, is_only_report=each.id not in judged)
        targets += _going_on(rule, targets, active)
        for target, state in targets:
            ledger[target.id] = msgspec.structs.replace(target, state=state, ended=rule.said_at)
            ended[target.id] = None
        if rule.act == "done":
            # If the report closed a task, the same sentence is not added as a rule.
            reports.update([rule.id] if targets else [])
        else:
            linked = tuple(target.id for target, _ in targets)
            doubtful = _doubtful(rule, said, active, linked)
            taken_back = bool(targets) and rule.act != "permit" and only_cancels(rule.plain)
            ledger[rule.id] = msgspec.structs.replace(
                rule, kind=_kind(rule, targets), supersedes=linked, about=_about(rule, targets), may_replace=doubtful,
                weak=rule.weak and not (linked or doubtful),
                state="dropped" if taken_back else "active", ended=rule.said_at if taken_back else 0,
            )  # fmt: skip
            added.append(rule.id)
    evicted = _evicted(list(ledger.values()), limit_tokens, count) if added else []
    for rule in evicted:
        del ledger[rule.id]
    return LedgerChange(
        rules=tuple(sorted(ledger.values(), key=lambda rule: rule.said_at)),
        added=tuple(ledger[each] for each in added if each in ledger),
        ended=tuple(ledger[each] for each in ended if each in ledger),
        evicted=tuple(evicted),
    )


def _read(
    rule: StandingRule, said: str, active: Sequence[StandingRule], *, is_only_report: bool
) -> tuple[StandingRule, list[tuple[StandingRule, RuleState]]]:
    """Judge what a new rule does to earlier rules (its act).

    Returns the rule with its act, and the earlier rules that it ends, each with its new state. A sentence that reports
    work as done (`is_only_report`) becomes a correction if it undoes a rule; a statement becomes a report of work if it
    completes a task.
    """
    if put_off := [each for each in _earlier(rule, active) if takes_up(rule.plain, each.plain)]:
        # "Push it now" ends "don't push yet", and is itself a request for one thing.
        return msgspec.structs.replace(rule, act="done"), [(each, "dropped") for each in put_off]
    targets = _targets(rule, said, active)
    if rule.act == "done" and not targets and is_only_report and not _closes(rule):
        targets = _undone(rule, said, _earlier(rule, active))
        if targets or _newer(rule, said, active):
            act = "permit" if is_permission(said) and not targets else "change"
            rule = msgspec.structs.replace(rule, act=act, kind="rule", negative=False)
    elif _may_be_report(rule) and not targets:
        targets = _completed(rule, _earlier(rule, active))
        rule = msgspec.structs.replace(rule, act="done") if targets else rule
    elif (
        not targets and rule.act != "cancel" and is_permission(said) and _newer(rule, said, active)
    ):
        rule = _permit(rule)
    return _with_act(rule, said, targets), targets


def _permit(rule: StandingRule) -> StandingRule:
    """Return a rule as a permission, which forbids nothing whatever its words: 上午打也没事."""
    kind = "rule" if rule.kind == "prohibition" else rule.kind
    return msgspec.structs.replace(rule, act="permit", negative=False, kind=kind)


def _may_be_report(rule: StandingRule) -> bool:
    """Return True if a sentence taken for a rule may only report work as done: "Marco got the NDA", "I did those"."""
    if rule.negative or rule.act not in ("state", "change"):
        return False
    return rule.kind in _REPORTS if rule.act == "state" else may_report(rule.plain)


def _completed(
    rule: StandingRule, mine: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    return [
        (each, "done")
        for each in mine
        if each.kind == "task"
        and any(completes(rule.plain, said) for said in {each.plain, _task(each)})
    ]


def _closes(rule: StandingRule) -> bool:
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
    return not _ONE_AT_A_TIME.isdisjoint(rule.terms & after.terms) and not rule.terms <= after.terms


def _said(rule: StandingRule, ledger: Mapping[str, StandingRule]) -> str:
    """Return a rule with the clauses before it in its sentence, which may give the reason for it."""
    text = rule.plain
    head = ledger.get(rule.continues)
    while head is not None and len(text) < _LONGEST_SAID:
        text = f"{head.plain}{rule.joint or ', '}{text}"
        rule, head = head, ledger.get(head.continues)
    return plain_characters(rule.lead) + text


def _earlier(rule: StandingRule, active: Sequence[StandingRule]) -> list[StandingRule]:
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


def _targets(
    rule: StandingRule, said: str, active: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return the active rules that the new rule replaces, cancels or completes, each with its new state."""
    mine = _earlier(rule, active)
    if rule.act == "keep":
        return []
    if rule.act == "done":
        if _closes(rule):
            return _closed(rule, mine)
        if not reports_done(rule.plain, "zh") and not reports_done(rule.plain, "en"):
            return _completed(rule, mine)
        return [(each, "done") for each in mine if each.kind == "task" and _is_done(rule, each)]
    mine = [each for each in mine if not only_reports(said, each.plain)]
    found = [each for each in mine if _replaces(rule, each)]
    if not found and (undone := _undone(rule, said, mine)):
        return undone
    if not found and rule.act != "state" and not names_no_value(rule.plain):
        found = _meant(rule, mine)
    state: RuleState = "dropped" if rule.act == "cancel" else "superseded"
    return [(each, state) for each in found if not touches_a_part(rule.plain, each.plain)]


def _undone(
    rule: StandingRule, said: str, mine: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return the rules that a sentence undoes by its form: it permits, releases, corrects or replaces them."""
    if takes_all_back(rule.plain):
        return [(each, "dropped") for each in mine if each.kind in _LAID_DOWN and each.seq]
    every = mine
    mine = [
        each
        for each in mine
        if share_words(said, each.plain) and not only_reports(said, each.plain)
    ]
    certain = [each for each in _given_anew(rule, mine) if not touches_a_part(said, each.plain)]
    if not alters(said):
        found = certain if _is_one(certain) else _filled_again(said, every)
        return [(each, "superseded") for each in found]
    found = [each for each in mine if lifts(said, each.plain) and _denies(each)]
    found = found or [each for each in mine if corrects(said, each.plain)]
    if not found:
        placed = [each for each in mine if takes_the_place(said, each.plain)]
        found = placed if len(placed) == 1 else []
    if not found:
        denies = is_negative(said, "en") or is_negative(said, "zh")
        again = [
            each
            for each in mine
            if not (denies and each.kind == "task") and restates(said, each.plain)
        ]
        found = again if _is_one(again) else []
    found = found or [each for each in mine if not each.negative and releases(said, each.plain)]
    if not found and (
        dropped := [each for each in mine if not _denies(each) and drops(said, each.plain)]
    ):
        tasks = [each for each in dropped if each.kind == "task"]
        found = tasks or [each for each in dropped if each.kind != "fact" or not each.value]
    found = found or (certain if _is_one(certain) else [])
    found = found or _filled_again(said, every)
    return [(each, "superseded") for each in found if not touches_a_part(said, each.plain)]


def _filled_again(said: str, mine: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the only earlier rule of which a sentence gives another value for the same slot, as a list."""
    found = [
        each
        for each in mine
        if each.kind != "task" and not _denies(each) and fills_again(said, each.plain)
    ]
    if len(found) != 1 or touches_a_part(said, found[0].plain):
        return []
    return found if fills_again(said, found[0].plain) == "surely" else []


def _newer(rule: StandingRule, said: str, active: Sequence[StandingRule]) -> list[StandingRule]:
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
            (permits and _denies(each) and permits_what(said, each.plain))
            or (once and each.negative and exempts(said, each.plain))
            or (not each.negative and each.kind != "task" and fills_again(said, each.plain))
        )
    ]


def _given_anew(rule: StandingRule, mine: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the earlier rules of which a correcting sentence ("make it 20") gives a value anew."""
    changes = rule.act in ("change", "renew", "permit", "done") or affirms(rule.plain)
    return [
        each
        for each in mine
        if (each.kind != "prohibition" or _LIMIT.search(each.plain))
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


def _forbids_outright(rule: StandingRule) -> bool:
    return not _LIMIT.search(rule.plain)


def _denies(rule: StandingRule) -> bool:
    return rule.negative or is_negative(rule.plain, "en") or is_negative(rule.plain, "zh")


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
    active: Sequence[StandingRule],
) -> list[tuple[StandingRule, RuleState]]:
    """Return the rules that only continue a rule that ends, such as "not in grey" after "the kettle in white".

    They end with that rule, and get the same state.
    """
    state_of: dict[str, RuleState] = {rule.id: state for rule, state in ended}
    heads = {rule.id: rule for rule, _ in ended}
    going: list[tuple[StandingRule, RuleState]] = []
    for each in sorted(active, key=lambda rule: rule.seq):
        head = heads.get(each.continues) or _task_before(each, [*heads.values()])
        if head is None or each.id in heads:
            continue
        sets_off = each.negative != head.negative and not each.terms.isdisjoint(head.terms)
        done = state_of[head.id] == "done" and each.kind == "task"
        if (
            sets_off
            or (done and _SAME_TASK.search(each.plain))
            or is_fragment(each.plain)
            or _belongs(rule, each)
            or (each.negative and adopts(rule.plain, each.plain))
        ):
            state_of[each.id] = state_of[head.id]
            heads[each.id] = each  # what goes on with it ends too
            going.append((each, state_of[each.id]))
    return going


def _belongs(rule: StandingRule, each: StandingRule) -> bool:
    """Return True if a clause adds a detail to the thing in the clause before it, and the new rule changes that."""
    return _SIDE.match(each.plain) is not None and (
        bool(_contested(rule, each)) or not facets(rule.plain).isdisjoint(facets(each.plain))
    )


def _about(rule: StandingRule, targets: Sequence[tuple[StandingRule, RuleState]]) -> str:
    """Return the topic of the rule that a correcting sentence replaces, if the two have no word in common."""
    for target, state in targets:
        if state == "superseded" and not common_terms(_words(rule), _words(target)):
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
                lifted = target.negative and not _is_negative(rule)
                return "rule" if lifted else target.kind
    return rule.kind


def _words(rule: StandingRule) -> set[str]:
    return {term for term in rule.scope if not term.startswith("@")}


def _classes(rule: StandingRule) -> set[str]:
    return {term for term in rule.scope if term.startswith("@")}


def _is_done(rule: StandingRule, task: StandingRule) -> bool:
    """Return True if a sentence that reports work as done has enough terms in common with a task to close it."""
    if not _ONE_AT_A_TIME.isdisjoint(task.scope):
        return False  # "please call me Alexander" is no task
    if any(completes(rule.plain, said) for said in {task.plain, _task(task)}):
        return True
    if is_of_others(rule.plain, task.plain) or is_still_open(rule.plain):
        return False  # "if the books are returned late, there's a fee"
    if names_another(rule.plain, task.plain):
        return False  # "I paid the water bill" leaves the rent to be paid
    about, told = parts_of(_words(task) or task.terms), parts_of(_words(rule) or rule.terms)
    common = common_terms(about, told)
    return bool(common) and (
        len(common) >= _DONE * len(about) or len(common) >= _REPORTED * len(told)
    )


def _similar(first: set[str], second: set[str]) -> float:
    common = len(common_terms(first, second))
    return common / (len(first) + len(second) - common) if common else 0.0


def _replaces(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if `rule` replaces `other`: restates it, contradicts it, or gives another value for its attribute."""
    one = _attributes(rule, other)
    if one and (one != frozenset({"@name"}) or rule.negative == other.negative):
        return rule.act != "state" or not one.isdisjoint(_PLAINLY_GIVEN)
    words, others = _words(rule), _words(other)
    if rule.value == other.value and rule.negative == other.negative:
        same = rule.scope == other.scope and bool(words or rule.value)
        if _NAME_OF.match(rule.plain) and _NAME_OF.match(other.plain):
            same = same or any(term.startswith("@is:") for term in _classes(rule) & _classes(other))
        return same or _similar(set(rule.terms), set(other.terms)) >= _RESTATED
    if rule.negative != other.negative:
        return _is_opposite(rule, other)
    same = any(term.startswith("@is:") for term in _classes(rule) & _classes(other))
    if rule.kind == other.kind == "task" and not same:
        return False
    if same:
        # "The standup is on Monday", "the standup is at 9:30": a day and an hour do not contradict each other.
        moments, others = _classes(rule) & _MOMENTS, _classes(other) & _MOMENTS
        return not (moments and others) or bool(_contested(rule, other) & _MOMENTS)
    if not _conflict(rule, other):
        return False
    if rule.negative and not _LIMIT.search(rule.plain):
        return False  # "never call customer 7", "never call customer 9": both hold
    if not words and not others:
        # "Reply in French", "answer in English": they have no words besides the values they set.
        return "@reply" in rule.scope and "@reply" in other.scope
    own = _own(subject_of(rule.plain).topic, others) or _special(rule, other)
    return not own and _similar(words, others) >= _SAME_TOPIC


def _attributes(rule: StandingRule, other: StandingRule) -> frozenset[str]:
    """Return the attributes that both rules state and that can have only one value at a time."""
    if rule.kind == "prohibition":
        return frozenset()  # "never change my address" gives no other address
    one = _ONE_AT_A_TIME.intersection(rule.scope, other.scope)
    if _classes(rule) & _DATES and not _classes(other) & _DATES:
        return one - {"@headcount"}  # who comes on one day
    return one


def _own(words: Iterable[str], others: Iterable[str]) -> set[str]:
    """Return the words that only the first sentence has.

    They show that it is about another thing, or about a special case.
    """
    mine = parts_of(words)
    return mine - common_terms(mine, parts_of(others))


def _special(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if only the later rule names a day or time, other than as its value: "Thursday's room is 505"."""
    more = (_classes(rule) - _classes(other)) & (_MOMENTS | {"@daytime"})
    return bool(more) and bool(_contested(rule, other) - more)


def _is_opposite(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if two rules, one of them negative, share enough words to be taken for opposites.

    A request without a word of change lifts a prohibition only if it is about exactly the same: "please order it, quote
    NH-4410" does not lift "never order anything without asking me first".
    """
    if other.negative and affirms(rule.plain) and _forbids_outright(other):
        return lifts(rule.plain, other.plain)
    words, others = _words(rule), _words(other)
    mine = parts_of(words) | named_things(rule.plain)
    theirs = parts_of(others) | named_things(other.plain)
    if not common_terms(mine, theirs) or _are_others(rule, other):
        return False
    if other.negative and rule.act == "state":
        # "50 back to Lucy" does not contradict "Lucy can't come any more".
        more = set(rule.value) - set(other.value)
        same = not more and not _CONDITION.search(other.plain)
        return same and _similar(words, others) >= _SAME_TOPIC
    if rule.kind == "prohibition" and other.kind == "fact" and other.value:
        return False  # "don't call me" leaves the phone number as it is
    if rule.negative and _STOPS.search(rule.plain):
        return len(common_terms(others, words)) >= _SAME_TOPIC * len(others)
    if _similar(words, others) >= _RESTATED:
        return True
    subject = subject_of(rule.plain, changes=True)
    forbidden = subject.left if rule.kind == "prohibition" and rule.act == "state" else set[str]()
    own = _own(subject.topic | forbidden, others)
    return common_terms(theirs, mine) == theirs and not own


def _are_others(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if one rule forbids a thing and the other allows a different thing: order 4711 and order 4712."""
    both = rule.value and other.value and set(rule.value).isdisjoint(other.value)
    return bool(both) and not (_LIMIT.search(rule.plain) or _LIMIT.search(other.plain))


def _conflict(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if both rules state a value of the same class (such as a weekday) and the two values differ."""
    return bool(_contested(rule, other))


def _contested(rule: StandingRule, other: StandingRule) -> set[str]:
    """Return the classes in which both rules state a value, if their values differ."""
    shared = {
        term for term in _classes(rule) & _classes(other) if not term.startswith(("@is:", "@reply"))
    }
    if _DATES & _classes(rule) and _DATES & _classes(other):
        shared.add("@day")  # "on Friday" and "on 3 March" both say when
    return shared if rule.value and other.value and rule.value != other.value else set()


def _meant(rule: StandingRule, active: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the active rule, as a list, that a correcting sentence ("make it 20 instead") means; empty if in doubt."""
    scored = [(_aimed(rule, each), each) for each in active]
    best = max((score for score, _ in scored), default=0.0)
    likely = [each for score, each in scored if score == best]
    if best > 0 and len(likely) > 1:
        # Two rules are as likely: the change means the last one only if that has just been said.
        newest = max(each.seq for each in likely)
        likely = [each for each in likely if each.seq == newest or _is_recent(rule, each, active)]
    if best <= 0 or len(likely) != 1:
        return []
    if best <= _SAME_CLASS and not _has_just_been_said(rule, likely[0], active):
        return []
    return likely


def _doubtful(
    rule: StandingRule, said: str, active: Sequence[StandingRule], ended: Sequence[str]
) -> tuple[str, ...]:
    """Return the ids, newest first, of the rules that a correcting sentence may mean, if that is not certain."""
    mine = [
        each
        for each in _earlier(rule, active)
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
        each for each in _newer(rule, said, active) if each.id not in ended and each not in unsure
    ]
    if unsure or ended:
        return tuple(
            each.id for each in sorted(unsure, key=lambda rule: -rule.seq)[:_MOST_DOUBTFUL]
        )
    if rule.act != "change" or rule.negative or rule.continues:
        return ()
    likely = [
        each
        for each in sorted(active, key=lambda rule: -rule.seq)
        if each.trust == rule.trust
        and each.seq < rule.seq
        and _ONE_AT_A_TIME.isdisjoint(each.scope)
        and not (each.negative and not _LIMIT.search(each.plain))
        and _may_mean(rule, each, active)
    ]
    return tuple(each.id for each in likely[:_MOST_DOUBTFUL])


def _may_undo(rule: StandingRule, said: str, other: StandingRule) -> bool:
    """Return True if a sentence changes a part of an earlier rule, or has a form that may undo the earlier rule."""
    if rule.act != "state" and (chooses_again(said, other.plain) or _is_another_day(rule, other)):
        return True
    if not share_words(said, other.plain) and _classes(rule).isdisjoint(_classes(other)):
        return False
    if touches_a_part(said, other.plain):
        words = _words(other)
        near = common_terms(_words(rule), words) or len(words) <= _FEW
        return rule.act != "state" and bool(near and _contested(rule, other))
    given = gives_anew(rule.plain, other.plain, changes=rule.act != "state")
    if given == 1 or (given and not other.negative):
        return True
    if not alters(said):
        return False
    if _denies(other) and may_lift(said, other.plain):
        return True
    return not other.negative and (takes_the_place(said, other.plain) or drops(said, other.plain))


def _is_another_day(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if a rule names another date than an earlier rule that only says which date suits."""
    dated = bool(_contested(rule, other) & (_DATES | {"@date"})) and not _DATES.isdisjoint(
        _classes(other)
    )
    return dated and _words(other) <= _SUITS


def _may_mean(rule: StandingRule, other: StandingRule, active: Sequence[StandingRule]) -> bool:
    """Return True if a correcting sentence ("make it 20 instead") may be about the other rule.

    Either it names half of that rule's words, or it names nothing and that rule was said shortly before.
    """
    sides, others = facets(rule.plain), facets(other.plain)
    if sides and others and sides.isdisjoint(others):
        return False
    if topic := parts_of(subject_of(rule.plain, changes=True).topic):
        pairs = {term for term in subject_of(rule.plain, changes=True).topic if len(term) > 1}
        return _share(topic, parts_of(_words(other))) >= _HALF and bool(
            common_terms(pairs, _words(other))
        )
    if rule.value and not _contested(rule, other):
        return False
    gives = subject_of(other.plain).given or other.value
    return bool(gives) and other.kind != "task" and _is_recent(rule, other, active)


def _has_just_been_said(
    rule: StandingRule, other: StandingRule, active: Sequence[StandingRule]
) -> bool:
    """Return True if a sentence that names no subject ("make it Thursday") can correct the other rule.

    Either the rule was said in one of the last few messages, or the correcting sentence names what only one kind of
    thing can be ("MySQL" is a database).
    """
    if not _contested(rule, other).isdisjoint(_NAMED_CLASSES):
        return True
    # With other sentences before it in its message, these say what it is about.
    alone = not (rule.lead or rule.continues) and not any(each.seq == rule.seq for each in active)
    return alone and _is_recent(rule, other, active)


def _is_recent(rule: StandingRule, other: StandingRule, active: Sequence[StandingRule]) -> bool:
    between = {each.seq for each in active if other.said_at < each.seq < rule.said_at}
    return rule.said_at - other.said_at <= _RECENT_ENTRIES and len(between) < _RECENT_MESSAGES


def _aimed(rule: StandingRule, other: StandingRule) -> float:
    """Return a score for how likely a correcting sentence ("actually") means the other rule; 0 if not at all."""
    contested = _contested(rule, other)
    if rule.act == "permit" and (other.negative or not contested):
        return _permitted(rule, other)
    return _aimed_change(rule, other, contested)


def _permitted(rule: StandingRule, other: StandingRule) -> float:
    if not other.negative:
        return 0.0
    if affirms(rule.plain) and _forbids_outright(other):
        return 2.0 if lifts(rule.plain, other.plain) else 0.0
    return _aimed_change(rule, other, _contested(rule, other))


def _aimed_change(rule: StandingRule, other: StandingRule, contested: set[str]) -> float:
    sides, others = facets(rule.plain), facets(other.plain)
    if sides and others and sides.isdisjoint(others):
        return 0.0  # "send the desk to my office" does not change its colour
    mine, words = subject_of(rule.plain, changes=True), _words(other)
    if _share_only_people(rule, other, contested):
        return 0.0
    topic = mine.topic - _NAMES_OF_MONEY if "@money" in contested else mine.topic
    own = _own(topic, words)
    covered = _covered(topic, rule, other)
    if other.negative and not _is_negative(rule) and (own or _are_others(rule, other)):
        return 0.0  # a prohibition ends only by what speaks of the same action
    if rule.act in ("change", "renew") and not (
        mine.given or mine.left or rule.value or _words(rule) - mine.topic
    ):
        return 0.0  # it says nothing that could hold instead
    old = words | {each for each in other.value if not each[0].isdigit()}
    left = common_terms(mine.left, old)
    if left and _share(parts_of(old), parts_of(mine.words)) >= (_HALF if own else _THIRD):
        return 2.0 + covered + len(left)
    if rule.act == "cancel" and other.value and set(other.value) <= set(rule.value) and not own:
        return _HALF + covered  # "scrap the 10 am thing"
    if _repeats(rule, other):
        return _HALF + max(covered, _HALF)
    if not (mine.topic or _named(rule, other) or common_terms(mine.given, words)):
        return _aimed_without_subject(rule, other, mine.left, contested)
    if own or not _can_take_the_place(rule, other, covered):
        return 0.0
    return covered + bool(contested) if covered >= (_THIRD if contested else _HALF) else 0.0


def _share_only_people(rule: StandingRule, other: StandingRule, contested: set[str]) -> bool:
    """Return True if two rules have nothing in common but the person who says, wants or does something."""
    common = common_terms(_words(rule), _words(other))
    people = actors_in(rule.plain) & actors_in(other.plain)
    return bool(people) and not contested and common <= people


def _covered(topic: frozenset[str], rule: StandingRule, other: StandingRule) -> float:
    """Return the share of the other rule's subject that is named in a correcting sentence with this topic."""
    words, named = _words(other), _named(rule, other)
    about = words if other.negative else subject_of(other.plain).topic | named or words
    covered = _share(parts_of(about), parts_of(subject_of(rule.plain, changes=True).words) | named)
    if topic and parts_of(topic) <= parts_of(begins_alike(rule.plain, other.plain)):
        return max(covered, _HALF)
    if topic and not other.negative and _names_the_valued(rule, other, topic):
        return max(covered, _HALF)
    return covered


def _names_the_valued(rule: StandingRule, other: StandingRule, topic: frozenset[str]) -> bool:
    """Return True if a correcting sentence names the thing to which a clause of the other rule gives a value.

    "The meeting moved to 2 pm" changes "the meeting is at 10, everybody comes, so keep it free".
    """
    contested = _contested(rule, other) - _NO_TOPIC
    clauses = clauses_of(other.plain) if contested else ()
    if len(clauses) < 2:
        return False
    for clause in clauses:
        scope = rule_terms(clause).scope
        about = parts_of(term for term in scope if term[0] != "@")
        if about and not contested.isdisjoint(scope) and _share(about, parts_of(topic)) >= _HALF:
            return True
    return False


def _named(rule: StandingRule, other: StandingRule) -> frozenset[str]:
    """Return values that both rules have and that name a thing: the flights of "make the flights KLM instead"."""
    return named_things(rule.plain) & named_things(other.plain)


def _repeats(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if a correcting sentence repeats the words of the other rule with another value among them."""
    denies = other.negative or rule.negative
    return rule.act == "change" and not denies and same_frame(rule.plain, other.plain)


def _can_take_the_place(rule: StandingRule, other: StandingRule, covered: float) -> bool:
    """Return True if the new value of a correcting sentence can replace a value of the other rule.

    It must be of the same class as that value, or of no class; or the correcting sentence names its own subject, and
    the other rule has a value of no known class: "name the files in English" after "name the files in Pinyin".
    """
    valued = set[str]() if set(rule.value) <= _named(rule, other) else _valued(rule)
    if not valued or _contested(rule, other) or rule.act not in ("change", "renew"):
        return True
    return valued <= _NAMED_CLASSES and bool(subject_of(other.plain).given) and covered >= 1


def _aimed_without_subject(
    rule: StandingRule, other: StandingRule, left: Iterable[str], contested: set[str]
) -> float:
    """Return the score of a correcting sentence that does not name its subject: "make it 14 days instead of 7"."""
    if _is_other_choice(rule, other):
        return _SAME_CLASS / 2
    if not contested or is_wish_of_others(other.plain):
        return 0.0
    if other.negative and not _LIMIT.search(other.plain):
        return 0.0
    gone = {each for each in left if each[0].isdigit()}
    if any(not each[0].isdigit() for each in left):
        return 0.0  # what it leaves behind is something else: "forget the dentist on the 12th"
    if gone:
        return _SAME_CLASS if not gone.isdisjoint(other.value) else 0.0
    return _SAME_CLASS / 2 if contested - _NO_TOPIC else 0.0


def _is_other_choice(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if both rules only name a choice, and can be choices for the same thing.

    A colour is chosen for something else than a hotel; in Chinese, different verbs show different choices.
    """
    chosen, before = _CHOICE.match(rule.plain), _CHOICE.match(other.plain)
    if not (chosen and before) or _valued(rule) != _valued(other):
        return False
    verbs = {(each["verb"] or "").replace("定", "订") for each in (chosen, before)}
    return len(verbs) == 1


def _share(wanted: set[str], there: set[str]) -> float:
    return len(common_terms(wanted, there)) / len(wanted) if wanted else 0.0


def _valued(rule: StandingRule) -> set[str]:
    """Return the classes of the values that a rule states, if they show the subject of the rule."""
    return {term for term in _classes(rule) - _NO_TOPIC if not term.startswith("@is:")}


def _is_negative(rule: StandingRule) -> bool:
    """Return True if a rule forbids with an explicit word; its kind alone may be a wrong guess."""
    return rule.negative and (is_negative(rule.plain, "en") or is_negative(rule.plain, "zh"))


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
