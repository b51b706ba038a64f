"""The active rules of a ledger, with an index that finds those that a new sentence may be about.

A new sentence is compared with few of the rules so far: with those that have a word, an amount, a class of values or a
form in common with it. Of very many that share only frequent words, the newest are compared, so that the work for one
sentence has a bound. Whether it ends a rule is decided by the comparison (see `ended_rules`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice

from turnfold.rules.clauses import key_of, keys_of
from turnfold.rules.corrections import RECENT_ENTRIES, is_choice
from turnfold.rules.deferrals import action_asked_for, action_put_off
from turnfold.rules.permissions import actions_and_times, is_permission
from turnfold.rules.reversals import chosen_verb, first_signs, speaks_of_once, takes_all_back
from turnfold.rules.rule_comparison import (
    DATES,
    ONE_AT_A_TIME,
    is_denial,
    only_names_a_moment,
)
from turnfold.rules.slots import slots_filled, slots_of
from turnfold.rules.standing_rule import StandingRule
from turnfold.rules.subjects import first_sign, parts_of
from turnfold.rules.task_completion import with_verb_of_call
from turnfold.text import plain_characters

__all__ = ("ActiveRules",)


_RARE = 12
"""All rules with a key (a word, an amount, a class) are compared if at most this many have it, however old they are."""
_MOST_ALIKE = 256
"""Most rules, the newest, that are compared because they share more frequent keys."""
_MOST_RECENT = 64
"""Most rules of the last log entries that a correction without a subject ("make it 20") is compared with."""


class ActiveRules:
    """The active rules of a ledger, in its order."""

    def __init__(self, rules: Iterable[StandingRule]) -> None:
        self._rules: dict[int, StandingRule] = {}
        """Place in the ledger -> rule."""
        self._places: dict[str, int] = {}
        self._messages: defaultdict[int, dict[int, None]] = defaultdict(dict[int, None])
        """Seq of a message -> places of its rules."""
        self._words = _Index(_word_keys)
        self._changes = _Index(_change_keys)
        self._slots = _Index(lambda rule: slots_of(rule.plain))
        self._denials = _Index(_denial_keys)
        self._put_off = _Index(lambda rule: {action_put_off(rule.plain)})
        self._indexes = (self._words, self._changes, self._slots, self._denials, self._put_off)
        for place, rule in enumerate(rules):
            self._add(place, rule)
        self._next = len(self._rules)

    def add(self, rule: StandingRule) -> None:
        """Add a rule after all others."""
        self._add(self._next, rule)
        self._next += 1

    def _add(self, place: int, rule: StandingRule) -> None:
        self._rules[place], self._places[rule.id] = rule, place
        self._messages[rule.seq][place] = None
        for index in self._indexes:
            index.add(place, rule)

    def remove(self, rule: StandingRule) -> None:
        """Remove a rule that is not active any more, if it is there."""
        place = self._places.pop(rule.id, None)
        if place is None:
            return
        rule = self._rules.pop(place)
        del self._messages[rule.seq][place]
        for index in self._indexes:
            index.remove(place, rule)

    def of_messages(self, seqs: Iterable[int]) -> list[StandingRule]:
        """Return the rules of these messages."""
        return self._at(place for seq in seqs for place in self._messages.get(seq, ()))

    def near(self, rule: StandingRule, said: str, also: Iterable[str] = ()) -> list[StandingRule]:
        """Return the rules that a new rule may be about, and those with the ids `also`.

        `said` is the new rule with the clauses before it in its sentence.
        """
        if takes_all_back(rule.plain):
            return [*self._rules.values()]
        found = {place for each in also if (place := self._places.get(each)) is not None}
        frequent: set[int] = set()
        for holders in self._holders(rule, said):
            if len(holders) <= _RARE:
                found.update(holders)
            else:
                frequent.update(islice(reversed(holders), _MOST_ALIKE))
        found.update(heapq.nlargest(_MOST_ALIKE, frequent))
        if rule.act != "state" or only_names_a_moment(rule):
            newest = islice(reversed(self._rules.items()), _MOST_RECENT)
            first = rule.said_at - RECENT_ENTRIES
            found.update(place for place, each in newest if each.said_at >= first)
        return self._at(found)

    def _at(self, places: Iterable[int]) -> list[StandingRule]:
        return [self._rules[place] for place in sorted(places)]

    def _holders(self, rule: StandingRule, said: str) -> Iterator[dict[int, None]]:
        """Yield, for each key of a new rule, the places of the rules that have it too."""
        said_keys = keys_of(said) | keys_of(with_verb_of_call(rule.plain))
        yield from self._words.holders(_word_keys(rule) | said_keys)
        if rule.act != "state":
            verb = chosen_verb(said)
            chosen = {f"first {verb}"} if verb else set[str]()
            yield from self._changes.holders(_change_keys(rule) | chosen)
        yield from self._slots.holders(slots_filled(said))
        if is_permission(said) or speaks_of_once(said):
            yield from self._denials.holders(actions_and_times(said))
        if verb := action_asked_for(rule.plain):
            yield from self._put_off.holders({verb})


class _Index:
    """The places of rules by their keys; the keys of a rule are computed when they are first needed."""

    def __init__(self, keys: Callable[[StandingRule], Iterable[str]]) -> None:
        self._keys = keys
        self._unread: dict[int, StandingRule] = {}
        self._holders: defaultdict[str, dict[int, None]] = defaultdict(dict[int, None])

    def add(self, place: int, rule: StandingRule) -> None:
        self._unread[place] = rule

    def remove(self, place: int, rule: StandingRule) -> None:
        if self._unread.pop(place, None) is None:
            for key in self._keys(rule):
                self._holders[key].pop(place, None)

    def holders(self, keys: Iterable[str]) -> Iterator[dict[int, None]]:
        """Yield the places of the rules that have a key, in the order of the ledger, for each of the keys."""
        keys = [*keys]
        if not keys:
            return
        for place, rule in self._unread.items():
            for key in self._keys(rule):
                self._holders[key][place] = None
        self._unread.clear()
        yield from (self._holders[key] for key in keys if key in self._holders)


def _word_keys(rule: StandingRule) -> frozenset[str]:
    """Return keys of the words and values of a rule, and of the attributes that have one value at a time."""
    return _keys_of_words(rule.plain, rule.lead, rule.scope, rule.value)


@lru_cache(maxsize=4096)
def _keys_of_words(
    plain: str, lead: str, scope: tuple[str, ...], value: tuple[str, ...]
) -> frozenset[str]:
    words = {term for term in scope if term[0] != "@"}
    single = {each for each in scope if each in ONE_AT_A_TIME or each.startswith("@is:")}
    if not words:
        single |= {"@reply"}.intersection(scope)
    task = keys_of(plain_characters(lead) + plain) if lead else frozenset[str]()
    named = frozenset(map(key_of, parts_of(words) | {*value}))
    return keys_of(plain) | task | named | single


def _change_keys(rule: StandingRule) -> frozenset[str]:
    """Return keys by which a correction that does not name its subject finds the rule that it corrects."""
    return _keys_of_changes(rule.plain, rule.scope)


@lru_cache(maxsize=4096)
def _keys_of_changes(plain: str, scope: tuple[str, ...]) -> frozenset[str]:
    found = {each for each in scope if each[0] == "@" and not each.startswith("@is:")}
    if found & DATES:
        found.add("@date")
    if is_choice(plain):
        found.add("choice")
    if sign := first_sign(plain):
        found.add(f"frame {sign}")
    return frozenset(found | {f"first {sign}" for sign in first_signs(plain)})


def _denial_keys(rule: StandingRule) -> frozenset[str]:
    return actions_and_times(rule.plain) if is_denial(rule) else frozenset()
