"""Updates the ledger (list) of standing rules: adds new rules, and ends those that new ones replace or cancel.

A later sentence ends an earlier rule only on evidence: it restates the rule, gives another value for the same
attribute, forbids what the rule asks for (or the reverse), or refers to it by name or with a word of change
("actually", "instead", 改成). In every case both share terms of their scope. Rules of the system message are ended only
by the system message, never by a user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from turnfold._late_names import late_pattern
from turnfold.rules.act_classifier import is_negative, only_cancels
from turnfold.rules.display import rank_rules
from turnfold.rules.record import RuleKind, RuleState, StandingRule
from turnfold.rules.topics import facets, without_values
from turnfold.text import require_limit

__all__ = ("LedgerChange", "replacements", "update_ledger")


@dataclass(frozen=True, slots=True)
class LedgerChange:
    """A ledger (list of standing rules) after an update, and the rules that were added, ended and removed."""

    rules: tuple[StandingRule, ...]
    """The whole ledger in the order in which its rules were said, ended ones included."""
    added: tuple[StandingRule, ...]
    ended: tuple[StandingRule, ...]
    """Rules that were active before the update and are not active any more, with their new state."""
    evicted: tuple[StandingRule, ...]
    """Rules removed because the ledger exceeded its limit: ended ones first, then those of the lowest rank."""


_RESTATED = 0.8
"""Share of common terms from which two rules count as the same."""
_SAME_TOPIC = 0.6
"""Share of common words from which two rules count as being about the same thing, without a word of change."""
_SAME_NOW = 0.5
"""Share of common words from which a sentence that says what holds now replaces an earlier rule."""
_NAMED = 0.3
"""Share of the terms of the shorter rule that must be common for a sentence with a word of change to refer to it."""
_SAME_CLASS = 0.2
"""Score for a sentence with a word of change and a rule that share only the class of a value ("make it Thursday")."""
_DONE = 0.5
"""Share of a task's terms that a report must contain to close the task."""
_REPORTED = 0.75
"""Share of a report's terms that a task must contain for the report to close it."""
_FEW_WORDS = 2
"""Words (Chinese: pairs of characters) up to which a sentence may leave it open what it is about."""
_LONGEST_ABOUT = 80
"""Most characters of `StandingRule.about`."""
_STEM = 4
"""Least number of letters that two forms of a word have in common."""
_ONE_AT_A_TIME = frozenset({"@name", "@home", "@address", "@job", "@diet"})
"""Attributes of a person that have one value at a time, so that a new value replaces the old one."""
_LIMIT = late_pattern(
    r"\b(?:before|after|until|than|over|under|above|below|beyond|past|earlier|later|exceed\w*|within|up\s+to)\b"
    r"|超|以[上下内前后外]|之[前后]|[早晚少多高低大小长短]于",
    re.IGNORECASE,
)
"""Matches words of a prohibition that sets a limit; another limit for the same thing replaces it."""
_CONDITION = late_pattern(
    r"\b(?:without|unless|until|before|except|only\s+(?:if|when|after|with))\b|除非|未经|没有?.{0,8}前|之前|以前|先.{0,10}再",
    re.IGNORECASE,
)
"""Matches words of a prohibition with a condition under which the thing is allowed."""
_ELLIPTIC = late_pattern(
    r"(?:\W|\b(?:ok(?:ay)?|no|wait|sorry|actually|on\s+second\s+thoughts?|hmm|well|oh|and|but|so|then|please|could|can|you|we|i"
    r"|correction|change\s+of\s+plans?)\b)*(?:make\s+(?:it|that)|change\s+(?:it|that)|move\s+(?:it|that)|push\s+it|switch|let's"
    r"|rather|instead|now|not|it's|from\s+now|better|use|take|go\s+with|\d)"
    r"|(?:那|就|请|我|想了想|我改主意了|不好意思|等等|不对|算了|\W)*(?:改|换|还是|推迟|提前|延|挪|不是|不要|不用|不|用|定)",
    re.IGNORECASE,
)
"""Matches the beginning of a change that does not name its topic: "make it Thursday", 改成周四."""
_STOPS = late_pattern(
    r"\b(?:stop|quit|no\s+need|no\s+longer|any\s?more|don't\s+(?:need|have)\s+to)\b|不用.{0,8}了|不必|不需要.{0,8}了|别再|停",
    re.IGNORECASE,
)
"""Matches words that end something that was asked for."""
_MOMENTS = frozenset({"@day", "@date", "@month", "@time"})
_NO_TOPIC = frozenset({"@number", "@reply", "@count"})
"""Classes of values that do not show the topic of a sentence."""


def update_ledger(
    rules: Iterable[StandingRule],
    new: Iterable[StandingRule],
    *,
    limit_tokens: int,
    count: Callable[[str], int],
) -> LedgerChange:
    """Return the ledger (list of standing rules) with `new` ones added, and those that they replace or cancel ended.

    `rules` is the ledger so far; `new` are the rules of later entries, in order. Rules already in the ledger are
    not added again. `limit_tokens` bounds the texts of the whole ledger, counted with `count`.
    """
    require_limit(limit_tokens)
    ledger = {rule.id: rule for rule in rules}
    added: list[str] = []
    ended: dict[str, None] = {}
    reports: set[str] = set()
    for rule in new:
        if rule.id in ledger or rule.id in reports:
            continue
        active = [each for each in ledger.values() if each.state == "active"]
        targets = _targets(rule, active)
        targets += _going_on(targets, active)
        for target, state in targets:
            ledger[target.id] = msgspec.structs.replace(target, state=state, ended=rule.seq)
            ended[target.id] = None
        if rule.act == "done":
            # If the report closed a task, the same sentence is not added as a rule.
            reports.update([rule.id] if targets else [])
        else:
            linked = tuple(target.id for target, _ in targets)
            taken_back = bool(targets) and rule.act != "permit" and only_cancels(rule.text)
            ledger[rule.id] = msgspec.structs.replace(
                rule, kind=_kind(rule, targets), supersedes=linked, about=_about(rule, targets),
                state="dropped" if taken_back else "active", ended=rule.seq if taken_back else 0,
            )  # fmt: skip
            added.append(rule.id)
    evicted = _evicted(list(ledger.values()), limit_tokens, count) if added else []
    for rule in evicted:
        del ledger[rule.id]
    return LedgerChange(
        rules=tuple(sorted(ledger.values(), key=lambda rule: rule.seq)),
        added=tuple(ledger[each] for each in added if each in ledger),
        ended=tuple(ledger[each] for each in ended if each in ledger),
        evicted=tuple(evicted),
    )


def replacements(rules: Iterable[StandingRule]) -> dict[str, StandingRule]:
    """Return a mapping from the id of each rule that was replaced, lifted or cancelled to the rule that did it."""
    return {ended: rule for rule in rules for ended in rule.supersedes}


def _targets(
    rule: StandingRule, active: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return the active rules that the new rule replaces, cancels or completes, each with the state it gets."""
    mine = [
        each
        for each in active
        if each.trust == rule.trust
        and each.id != rule.continues
        and (each.seq < rule.seq or (each.seq == rule.seq and rule.act not in ("state", "renew")))
    ]
    if rule.act == "keep":
        return []
    if rule.act == "done":
        return [(each, "done") for each in mine if each.kind == "task" and _is_done(rule, each)]
    found = [each for each in mine if _replaces(rule, each)]
    if not found and rule.act != "state":
        found = _meant(rule, mine)
    state: RuleState = "dropped" if rule.act == "cancel" else "superseded"
    return [(each, state) for each in found]


def _going_on(
    ended: Sequence[tuple[StandingRule, RuleState]], active: Sequence[StandingRule]
) -> list[tuple[StandingRule, RuleState]]:
    """Return what goes on with a rule that ends and sets it off: "not in grey" after "the kettle in white"."""
    state_of: dict[str, RuleState] = {rule.id: state for rule, state in ended}
    heads = {rule.id: rule for rule, _ in ended}
    return [
        (each, state_of[each.continues])
        for each in active
        if each.continues in heads
        and each.id not in heads
        and each.negative != heads[each.continues].negative
        and not each.terms.isdisjoint(heads[each.continues].terms)
    ]


def _about(rule: StandingRule, targets: Sequence[tuple[StandingRule, RuleState]]) -> str:
    """Return the topic of the rule that a change replaces, if the change itself shares no word with it."""
    for target, state in targets:
        if state == "superseded" and not _common(_words(rule), _words(target)):
            return (
                target.about
                or without_values(target.lead + target.text, rule.text)[:_LONGEST_ABOUT]
            )
    return ""


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


def _common(first: set[str], second: set[str]) -> set[str]:
    """Return the terms of the first set that the second set has too, in the same form or with the same stem."""
    shared = first & second
    rest = [term for term in second - shared if _has_stem(term)]
    if not rest:
        return shared
    return shared | {
        term
        for term in first - shared
        if _has_stem(term) and any(_alike(term, other) for other in rest)
    }


def _has_stem(term: str) -> bool:
    return len(term) >= _STEM and term.isascii() and term.isalpha()


def _alike(term: str, other: str) -> bool:
    if term[:_STEM] != other[:_STEM]:
        return False
    shorter, longer = sorted((term, other), key=len)
    stem = shorter[:-1] if len(shorter) > _STEM and shorter[-1] in "eiy" else shorter
    return longer.startswith(stem)


def _is_done(rule: StandingRule, task: StandingRule) -> bool:
    """Return True if a report has enough terms in common with a task to close it."""
    about, told = _parts(_words(task) or task.terms), _parts(_words(rule) or rule.terms)
    common = _common(about, told)
    return bool(common) and (
        len(common) >= _DONE * len(about) or len(common) >= _REPORTED * len(told)
    )


def _parts(terms: Iterable[str]) -> set[str]:
    """Return English terms whole and Chinese ones as single characters, since pairs of characters rarely match."""
    return {
        part for term in terms for part in ([term] if term.isascii() or term[0] == "=" else term)
    }


def _similar(first: set[str], second: set[str]) -> float:
    common = len(_common(first, second))
    return common / (len(first) + len(second) - common) if common else 0.0


def _replaces(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if `rule` replaces `other`: restates it, contradicts it, or gives another value for its attribute."""
    one = _ONE_AT_A_TIME & set(rule.scope) & set(other.scope)
    if one and (one != frozenset({"@name"}) or rule.negative == other.negative):
        return rule.act != "state" or not one.isdisjoint({"@name", "@home", "@address"})
    words, others = _words(rule), _words(other)
    if rule.value == other.value and rule.negative == other.negative:
        same = rule.scope == other.scope and bool(words or rule.value)
        return same or _similar(set(rule.terms), set(other.terms)) >= _RESTATED
    if rule.negative != other.negative:
        return _is_opposite(rule, other)
    if rule.kind == other.kind == "task":
        return False
    if any(term.startswith("@is:") for term in _classes(rule) & _classes(other)):
        # "The standup is on Monday", "the standup is at 9:30": a day and an hour do not contradict each other.
        moments, others = _classes(rule) & _MOMENTS, _classes(other) & _MOMENTS
        return not (moments and others) or not moments.isdisjoint(others)
    if not _conflict(rule, other):
        return False
    if rule.negative and not _LIMIT.search(rule.text):
        return False  # "never call customer 7", "never call customer 9": both hold
    if not words and not others:
        # "Reply in French", "answer in English": they have no words besides the values they set.
        return "@reply" in rule.scope and "@reply" in other.scope
    if rule.act == "renew":
        return bool(_common(words, others))
    return _similar(words, others) >= _SAME_TOPIC


def _is_opposite(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if one of the rules forbids what the other asks for.

    A request without a word of change lifts a prohibition only if it is about exactly the same: "please order it, quote
    NH-4410" does not lift "never order anything without asking me first".
    """
    words, others = _words(rule), _words(other)
    if not _common(words, others):
        return False
    if other.negative and rule.act == "state":
        return not _CONDITION.search(other.text) and _similar(words, others) >= _SAME_TOPIC
    if rule.negative and _STOPS.search(rule.text):
        return len(_common(others, words)) >= _SAME_TOPIC * len(others)
    return _common(others, words) == others or _similar(words, others) >= _RESTATED


def _conflict(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if both rules give a value of the same class (such as a weekday), and the values differ."""
    shared = {
        term for term in _classes(rule) & _classes(other) if not term.startswith(("@is:", "@reply"))
    }
    return bool(shared) and bool(rule.value and other.value) and rule.value != other.value


def _meant(rule: StandingRule, active: Sequence[StandingRule]) -> list[StandingRule]:
    """Return the active rule that a change ("actually", "instead") most likely refers to, as a list; empty if none."""
    scored = [(_aimed(rule, each), each.seq, each) for each in active]
    likely = [each for each in scored if each[0] > 0]
    if not likely:
        return []
    return [max(likely, key=lambda each: each[:2])[2]]


def _aimed(rule: StandingRule, other: StandingRule) -> float:
    """Return a score for how likely a change ("actually", "instead") refers to the other rule; 0 if not at all."""
    if rule.act == "permit" and not other.negative and not _conflict(rule, other):
        return 0.0
    mine, theirs = _words(rule) | set(rule.value), _words(other) | set(other.value)
    shared = _common(theirs, mine)
    classes = _classes(rule) & _classes(other) - _NO_TOPIC
    if rule.act == "renew" and not _conflict(rule, other):
        # "... now" may also state something new: it must share most of its words with the other rule.
        share = len(shared) / max(1, len(theirs), len(mine) - 1)
        return share if share >= _SAME_NOW else 0.0
    if other.negative and rule.act == "change" and not _is_negative(rule):
        other_value = _conflict(rule, other) and not set(rule.value) <= set(other.value)
        if not (other_value or _names_what_is_forbidden(shared, theirs)):
            return 0.0
    sides, others = facets(rule.text), facets(other.text)
    if sides and others and sides.isdisjoint(others):
        return 0.0  # "send the desk to my office" does not change its colour
    if not shared:
        same = classes and _conflict(rule, other)
        other_topic = min(len(_words(rule)), len(_words(other))) > _FEW_WORDS and (
            len(_parts(_words(rule)) & _parts(_words(other))) < _FEW_WORDS
        )
        return _SAME_CLASS if same and (not other_topic or _ELLIPTIC.match(rule.text)) else 0.0
    # Terms that are the same in both languages ("=deadline") are frequent topics of rules: they count twice.
    known = sum(term.startswith("=") for term in shared)
    share = (len(shared) + known) / max(1, min(len(mine), len(theirs)))
    return share + 0.1 * len(classes) if share >= _NAMED else 0.0


def _is_negative(rule: StandingRule) -> bool:
    """Return True if a rule forbids with an explicit word; its kind alone may be a wrong guess."""
    return rule.negative and (is_negative(rule.text, "en") or is_negative(rule.text, "zh"))


def _names_what_is_forbidden(shared: set[str], forbidden: set[str]) -> bool:
    """Return True if the shared terms include most of the specific terms of a prohibition, not only its general topic.

    "Book another hotel" shares the topic of "no hotel in Chaoyang", but does not lift it.
    """
    special = {term for term in forbidden if not term.startswith("=")}
    return 2 * len(shared & special) >= len(special) and (bool(special) or shared == forbidden)


def _evicted(
    rules: list[StandingRule], limit: int, count: Callable[[str], int]
) -> list[StandingRule]:
    costs = {rule.id: count(rule.text) for rule in rules}
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
