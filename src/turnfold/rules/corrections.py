"""Finds the earlier rule that a correcting sentence means, by what it names: "actually, make it Thursday"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import clauses_of
from turnfold.rules.lifted_prohibitions import TIMES, affirms, lifts
from turnfold.rules.rule_comparison import (
    LIMIT,
    are_others,
    classes_of,
    contested_classes,
    forbids_by_word,
    forbids_outright,
    own_topic,
    words_of,
)
from turnfold.rules.standing_rule import StandingRule
from turnfold.rules.subjects import (
    actors_in,
    begins_alike,
    common_terms,
    is_wish_of_others,
    named_things,
    parts_of,
    same_frame,
    subject_of,
)
from turnfold.rules.topics import facets, rule_terms

__all__ = ("RECENT_ENTRIES", "is_choice", "may_mean", "meant_rules")


_HALF, _THIRD = 0.5, 0.33
"""Shares of the words of an earlier rule that a sentence which changes the rule must name: the first in general, the
second if the sentence also gives another value."""
_SAME_CLASS = 0.2
"""Score of the match between a sentence that changes something without naming a subject ("make it Thursday"), and a
rule with another value of the same class."""
RECENT_ENTRIES = 16
"""A sentence that changes something without naming it ("make it Thursday") can only change a rule from this many last
log entries: some turns, with tool calls."""
_RECENT_MESSAGES = 3
"""A sentence that changes something without naming it ("make it Thursday") can only change a rule from this many last
messages with rules."""
_CHOICE = late_pattern(
    r"\W*(?i:(?:ok(?:ay)?|so|then|right|actually|no|sorry|hmm|wait)\b\W*)*(?i:let's|(?:we|i)(?:'ll|'d\s+rather|\s+will)?|)\s*"
    r"(?i:go(?:ing)?\s+(?:with|for)|take|choose|pick|book|have|rent)\s+(?:the\s+)?[A-Z][\w'&-]+(?:\s+[A-Z][\w'&-]+)*"
    r"(?:\s+(?i:instead|after\s+all|then|please))*\W*$"
    r"|\W*(?:(?:好的?|行|算了|不好意思|等等)[,，])?(?:那|就|我们?|咱们?|还是|决定|改|换)*(?P<verb>[选定订住租])了?(?![在于为了到])"
    r"[^,，。改换成为到]{2,8}?(?:吧|了|好了)*\W*$"
)
"""Matches a choice that names only the chosen thing: "let's go with Hill House", 就订如家吧."""
_NO_TOPIC = frozenset({"@number", "@reply", "@count"})
"""Classes of values that do not show the topic of a sentence."""
_NAMES_OF_MONEY = frozenset({"=budget", "=price"})
"""Words that add nothing to the value next to them: an amount of money is a price."""
_NAMED_CLASSES = frozenset(
    "@database @cache @code @framework @cloud @indent @packager @phone @chat @ci @payment @editor @carrier"
    " @spelling @script @transport @language @theme @unit".split()
)
"""Classes whose values name what they are: MySQL is a database; a Thursday may be the day of anything."""


def meant_rules(rule: StandingRule, active: Sequence[StandingRule]) -> list[StandingRule]:
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


_NUMBER = r"(?:\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b|[一二两三四五六七八九十]+)"
_BARE_AMOUNT = late_pattern(
    rf"^(?:\W|算了|还是|那就?|不[对了]?|改成|换成|就|要|来|嗯|好的?|actually|no|sorry|let's|just|ok(?:ay)?|make\s+(?:it|that)|i'll\s+take)*"
    rf"{_NUMBER}\s*(?:(?P<unit_zh>[\u4e00-\u9fff])|(?P<unit_en>[a-z]+))??(?:\W|[吧了啊呀]|好了|就行|就够|够了|谢谢|please|instead|then|thanks?)*$",
    re.IGNORECASE,
)
"""Matches a correction that consists of an amount: 算了，两袋吧, "actually, make it two"."""
_COUNTED = late_pattern(rf"({_NUMBER})\s*(?:([\u4e00-\u9fff])|([a-z]+))", re.IGNORECASE)


def may_mean(rule: StandingRule, other: StandingRule, active: Sequence[StandingRule]) -> bool:
    """Return True if a correcting sentence ("make it 20 instead") may be about the other rule.

    Either it names half of that rule's words, or it names nothing and that rule was said shortly before.
    """
    sides, others = facets(rule.plain), facets(other.plain)
    if (sides and others and sides.isdisjoint(others)) or _OF_A_DAY.match(rule.plain):
        return False
    if bare := _BARE_AMOUNT.search(rule.plain):  # 算了，两袋吧 after 麦片来三袋
        counted = _COUNTED.findall(other.plain)
        units = {unit.lower() for unit in (bare["unit_zh"], bare["unit_en"]) if unit}
        alike = [
            each for each in counted if not units or units & {each[1].lower(), each[2].lower()}
        ]
        return bool(alike) and _is_recent(rule, other, active)
    if topic := parts_of(subject_of(rule.plain, changes=True).topic):
        pairs = {term for term in subject_of(rule.plain, changes=True).topic if len(term) > 1}
        return _share(topic, parts_of(words_of(other))) >= _HALF and bool(
            common_terms(pairs, words_of(other))
        )
    if rule.value and not contested_classes(rule, other) and not _are_amounts(rule, other):
        return False
    gives = subject_of(other.plain).given or other.value
    return bool(gives) and other.kind != "task" and _is_recent(rule, other, active)


def _are_amounts(rule: StandingRule, other: StandingRule) -> bool:
    """Return True if a correction gives only a number, and the other rule has one amount: "relax it to 500"."""
    return rule.scope == ("@number",) and len(other.value) == 1 and other.value[0][0].isdigit()


def _has_just_been_said(
    rule: StandingRule, other: StandingRule, active: Sequence[StandingRule]
) -> bool:
    """Return True if a sentence that names no subject ("make it Thursday") can correct the other rule.

    Either the rule was said in one of the last few messages, or the correcting sentence names what only one kind of
    thing can be ("MySQL" is a database).
    """
    if not contested_classes(rule, other).isdisjoint(_NAMED_CLASSES):
        return True
    # With other sentences before it in its message, these say what it is about.
    alone = not (rule.lead or rule.continues) and not any(each.seq == rule.seq for each in active)
    return alone and _is_recent(rule, other, active)


def _is_recent(rule: StandingRule, other: StandingRule, active: Sequence[StandingRule]) -> bool:
    between = {each.seq for each in active if other.said_at < each.seq < rule.said_at}
    return rule.said_at - other.said_at <= RECENT_ENTRIES and len(between) < _RECENT_MESSAGES


def _aimed(rule: StandingRule, other: StandingRule) -> float:
    """Return a score for how likely a correcting sentence ("actually") means the other rule; 0 if not at all."""
    contested = contested_classes(rule, other)
    if rule.act == "permit" and (other.negative or not contested):
        return _permitted(rule, other)
    return _aimed_change(rule, other, contested)


def _permitted(rule: StandingRule, other: StandingRule) -> float:
    if not other.negative:
        return 0.0
    if affirms(rule.plain) and forbids_outright(other):
        return 2.0 if lifts(rule.plain, other.plain) else 0.0
    return _aimed_change(rule, other, contested_classes(rule, other))


def _aimed_change(rule: StandingRule, other: StandingRule, contested: set[str]) -> float:
    sides, others = facets(rule.plain), facets(other.plain)
    if sides and others and sides.isdisjoint(others):
        return 0.0  # "send the desk to my office" does not change its colour
    mine, words = subject_of(rule.plain, changes=True), words_of(other)
    if _share_only_people_or_times(rule, other, contested):
        return 0.0
    topic = mine.topic - _NAMES_OF_MONEY if "@money" in contested else mine.topic
    own = own_topic(topic, words)
    covered = _covered(topic, rule, other)
    if other.negative and not forbids_by_word(rule) and (own or are_others(rule, other)):
        return 0.0  # a prohibition ends only by what speaks of the same action
    if rule.act in ("change", "renew") and not (
        mine.given or mine.left or rule.value or words_of(rule) - mine.topic
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


def _share_only_people_or_times(
    rule: StandingRule, other: StandingRule, contested: set[str]
) -> bool:
    """Return True if two rules have nothing in common but the person who says, wants or does something.

    Nor does what is called off at the weekend allow anything at weekends, if that was forbidden.
    """
    common = common_terms(words_of(rule), words_of(other))
    people = actors_in(rule.plain) & actors_in(other.plain)
    if contested:
        return False
    at_times = bool(common) and other.negative and common <= TIMES
    return at_times or (bool(people) and common <= people)


def _covered(topic: frozenset[str], rule: StandingRule, other: StandingRule) -> float:
    """Return the share of the other rule's subject that is named in a correcting sentence with this topic."""
    words, named = words_of(other), _named(rule, other)
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
    contested = contested_classes(rule, other) - _NO_TOPIC
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
    if not valued or contested_classes(rule, other) or rule.act not in ("change", "renew"):
        return True
    return valued <= _NAMED_CLASSES and bool(subject_of(other.plain).given) and covered >= 1


_OF_A_DAY = late_pattern(
    r"\W*(?:(?:actually|ok(?:ay)?|so|and|no|well|sorry|oh)\W+)*(?:on\s+)?(?:\w+days?|weekends?|mornings?|evenings?|afternoons?|nights?)"
    r"(?:\s+(?:mornings?|evenings?|afternoons?|nights?))?(?:\s+(?:is|are)|'s|'re)\s"
    r"|(?:其实|那|就|不过|[,，])*(?:周|星期|礼拜)[一二三四五六日天末](?:[上下]午|早上|晚上)?(?:我们?|现在|已经|都)*(?:有空|没课|空了|没事|有事|不去)",
    re.IGNORECASE,
)
"""Matches a sentence about a day, which gives no other day for something: "Sunday mornings are free now"."""


def _aimed_without_subject(
    rule: StandingRule, other: StandingRule, left: Iterable[str], contested: set[str]
) -> float:
    """Return the score of a correcting sentence that does not name its subject: "make it 14 days instead of 7"."""
    if _is_other_choice(rule, other):
        return _SAME_CLASS / 2
    if not contested or is_wish_of_others(other.plain) or _OF_A_DAY.match(rule.plain):
        return 0.0
    if other.negative and not LIMIT.search(other.plain):
        return 0.0
    gone = {each for each in left if each[0].isdigit()}
    if any(not each[0].isdigit() for each in left):
        return 0.0  # what it leaves behind is something else: "forget the dentist on the 12th"
    if gone:
        return _SAME_CLASS if not gone.isdisjoint(other.value) else 0.0
    return _SAME_CLASS / 2 if contested - _NO_TOPIC else 0.0


@lru_cache(maxsize=4096)
def is_choice(text: str) -> bool:
    """Return True if a sentence only names what is chosen: "let's go with Hill House"."""
    return _CHOICE.match(text) is not None


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
    return {term for term in classes_of(rule) - _NO_TOPIC if not term.startswith("@is:")}
