"""`StandingRule`: a sentence of the user or the system message that still applies after its turn."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Literal

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.rules.numerals import with_digits
from turnfold.text import plain_characters

__all__ = (
    "LONGEST_RULE",
    "RuleAct",
    "RuleKind",
    "RuleState",
    "RuleTrust",
    "StandingRule",
    "rule_id",
)


RuleKind = Literal["rule", "prohibition", "decision", "preference", "task", "fact"]
RuleAct = Literal["state", "renew", "change", "permit", "cancel", "done", "keep"]
"""Effect of a sentence: state something, say what holds now (`renew`), replace an earlier rule, lift a prohibition,
cancel an earlier rule, report a task as done, say that something stays as it is (`keep`)."""
RuleState = Literal["active", "superseded", "done", "dropped"]
"""State of a rule: active; `superseded`, replaced by a later rule; `done`, a finished task; `dropped`, withdrawn
without a replacement."""
RuleTrust = Literal["user", "system"]

LONGEST_RULE = 300
"""Most characters that the text of a rule may have; a rule with a longer text is refused."""


@lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    return with_digits(plain_characters(text))


class StandingRule(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A rule, prohibition, decision, preference, open task or lasting fact, quoted word for word."""

    v: int = 1
    id: str
    text: str
    """The words of the rule: a part of the message, unchanged."""
    kind: RuleKind
    seq: int
    """Seq (log position) of the message that states the rule; 0 if no message of the log does."""
    added: int = 0
    """Log position at which the application added a rule that no message states; 0 for all other rules."""
    trust: RuleTrust = "user"
    act: RuleAct = "state"
    negative: bool = False
    """True if the rule forbids or denies something."""
    scope: tuple[str, ...] = ()
    """Sorted terms of the rule's topic; `@` marks classes of values (`@day`) and known attributes (`@home`)."""
    value: tuple[str, ...] = ()
    """Sorted terms of the values that the rule gives: numbers, and members of a class such as weekdays."""
    continues: str = ""
    """Id of the rule directly before in the message, if this rule continues that one as a clause or short sentence."""
    joint: str = ""
    """The text between the rule that this one `continues` and this one."""
    lead: str = ""
    """The sentence directly before the rule, if that sentence is no rule but names what the rule is about."""
    answers: str = ""
    """The assistant's words that a short answer needs: the proposal that it adopts, or the question that it answers."""
    meaning: str = ""
    """Full meaning of a short answer of the user: the adopted part of `answers`, or the question together with the
    answer."""
    adopts: bool = False
    """True if the user agreed to the assistant's words in `answers`; False if the words are the user's own."""
    about: str = ""
    """For a rule that changes another without naming it ("make it 2 pm"): the replaced rule without its value."""
    weak: bool = False
    """True if the sentence only just counted as a rule: it is left out first if there is no room."""
    state: RuleState = "active"
    ended: int = 0
    """Seq of the message that ended the rule; 0 if the rule is active or was dropped with `drop_rule()`."""
    supersedes: tuple[str, ...] = ()
    """Ids of the rules that this rule replaced, restated, cancelled or lifted."""
    may_replace: tuple[str, ...] = ()
    """For a rule that leaves open which earlier rule it changes: ids of the rules, still active, that it may
    replace."""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise InvalidRecord(
                "the rule has no text",
                path="text",
                remedy=f"Give it 1 to {LONGEST_RULE} characters",
            )
        if len(self.text) > LONGEST_RULE:
            raise InvalidRecord(
                f"the rule has {len(self.text)} characters, but may have at most {LONGEST_RULE}",
                path="text",
                remedy="Cut the text at the end of a clause",
            )

    @property
    def plain(self) -> str:
        """The text in simplified characters, with its numbers in ASCII digits, by which it is compared with others.

        Of a short answer to the assistant, this is its `meaning`.
        """
        return _plain(self.meaning or self.text)

    @property
    def full_text(self) -> str:
        """The text for people to read, followed by the assistant's words that it answers, if there are any."""
        return f"{self.text} ← {self.answers}" if self.answers else self.text

    @property
    def said_at(self) -> int:
        """The log position from which the rule holds: that of its message, or where it was added."""
        return self.seq or self.added

    @property
    def terms(self) -> frozenset[str]:
        """All terms (topic words and values) by which later sentences can refer to this rule."""
        return frozenset((*self.scope, *self.value))


def rule_id(text: str, *, seq: int, trust: RuleTrust, at: int) -> str:
    """Return the id of the rule at character `at` of an entry; the same sentence of the same entry has the same id."""
    named = f"{trust}:{seq}:{at}:{text}"
    return blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
