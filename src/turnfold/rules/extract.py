"""Extracts standing rules from a user's message or from the system message, without a model.

Only the author's own sentences count, not quoted or pasted text (see `own_words`). A sentence is a rule if its score is
high enough (see `act_classifier`); the score it needs is lower for a sentence that is the whole message than for one
among small talk. The text of a rule is an unchanged slice of the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import (
    Language,
    act_of,
    is_negative,
    is_weak_change,
    reports_done,
    score,
)
from turnfold.rules.adoption import ShortAnswer, read_answer
from turnfold.rules.confirmation import is_confirmed
from turnfold.rules.deferrals import asks_for_action
from turnfold.rules.demands import (
    BESIDE_A_REASON,
    INSTRUCTS,
    QUESTION,
    asks_back,
    asks_for_a_change,
    demanding_clause,
    sets_value,
)
from turnfold.rules.one_time import asks_a_favour, edits_a_piece
from turnfold.rules.own_words import BLANK, OwnSentence, own_sentences
from turnfold.rules.permissions import is_permission
from turnfold.rules.reversals import alters, takes_last_back
from turnfold.rules.rule_kinds import FORBIDS, FORBIDS_OTHERWISE, kind_by_form, listed_kind
from turnfold.rules.sentence_clauses import (
    changed_clauses,
    clause_spans,
    continues_sentence,
    needs_the_clause_before,
)
from turnfold.rules.sentence_scores import (
    HAN,
    NEEDED_ALONE,
    SHORT_SENTENCE,
    MessageTotals,
    ReadSentence,
    read_sentence,
    wanted_score,
)
from turnfold.rules.slots import may_fill
from turnfold.rules.small_talk import is_no_rule
from turnfold.rules.standing_rule import (
    LONGEST_RULE,
    RuleAct,
    RuleKind,
    RuleTrust,
    StandingRule,
    rule_id,
)
from turnfold.rules.task_completion import closes, may_report
from turnfold.rules.topics import rule_terms
from turnfold.text import plain_characters

__all__ = ("extract_rules",)


_WEAK = 0.7
"""A rule whose score exceeds the needed score by less than this is `weak`: it is shown after other rules."""
_CONFIRMED = 1.6
"""Subtracted from the score that a sentence needs to count as a rule, if the assistant's reply confirmed it."""
_CLAUSE = 0.7
"""Score from which a clause of a sentence counts as a separate rule."""
_CLAUSE_END = late_pattern(r"[,;:，；：、。]\s*|\s(?=(?:and|but|because|which|so|unless)\b)")
_PRONOUN = late_pattern("(?<![其吉])[他她它](?!们?的)")
_FILES: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:(?:so|and|but|then|also|please|ok(?:ay)?|yes|could\s+you|can\s+you|would\s+you|will\s+you|just|maybe|you\s+can)\b\W*)*"
        r"(?:(?:put|add|write|note|jot|keep|pop|get|stick|take)\s+(?:it|that|this|those|these|them|a\s+note(?:\s+of\s+(?:it|that|this))?)\b"
        r"(?:\s+(?:one|too|as\s+well))?(?:\s+(?:down|somewhere)\b|\s+(?:on|in|to|onto|for)\s+(?:the|my|our|your)\s+(?:\w+\s+){0,2}(?:list|to-?dos?|board|tasks|reminders|agenda)\b|\s*$)"
        r"|(?:put|write|note|jot)\s+down\s+(?:it|that|this)\b|remind\s+me(?:\s+(?:of|about)\s+(?:it|that|this))?\W*$)",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:(?:那|就|请|也|先|你|您|再|把?(?:这|那)(?:[一]?[条个件项]?[事儿]*)|都|给我|帮我|替我|麻烦|到时候?)*)"
        "(?:记(?:着|下来?|上|一下|一笔|住)|列(?:着|上|下来?|一下|[进到入](?:待办|清单|单子)[里上]?)|挂(?:着|上)"
        "|加(?:上|[进到入](?:待办|清单|单子)[里上]?)|提醒我?一下|提醒我)[吧啊哦哈呀了]*\\W*$"
    ),
}
"""Matches a sentence or clause that asks to note down the words before it: "put that on the list", 先记着."""
_FILED: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:please\W+)?(?:put|add|note|jot|write)\s+(?:(?:it|this|that)\s+)?(?:down|(?:on|to|onto|in)\s+(?:the|my|our)"
        r"\s+(?:\w+\s+){0,2}(?:list|to-?dos?|board|agenda))\s*:\s*\w",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:请|麻烦|帮我)*(?:记一下|记下来?|[加列写][到进入上]+(?:待办|清单|单子)[里上]?)[:：]\\s*\\w"
    ),
}
"""Matches a sentence that asks to note down what follows: "put it on the list: buy a stroller"."""
POINTS_BACK: dict[Language, re.Pattern[str]] = {
    "en": re.compile(r"\b(?:it|that|this|them|those|these)\b", re.IGNORECASE),
    "zh": re.compile("^(?:那|就|也|先)*[这那它他她]"),
}
"""Matches a task that cannot be understood without the sentence before it: "I'll do that tonight, remind me"."""
_DANGLING = late_pattern(r"(?:[,;]?\s+(?:and|but|or)|[,;]\s+so)(?:,?\s+\w+ly)?$", re.IGNORECASE)
"""Matches the word that joins a clause to the next one, if it stands at the end."""
_LONGEST_JOINT = 8
"""Most characters between two clauses of a sentence: a comma, a space, a word such as "and"."""


class _Part(NamedTuple):
    """A part of a sentence that is a rule, with its kind and what it does to earlier rules."""

    start: int
    end: int
    language: Language
    kind: RuleKind
    act: RuleAct
    weak: bool = False


def extract_rules(
    text: str, *, seq: int, trust: RuleTrust, answered: str = "", confirmation: str = ""
) -> tuple[StandingRule, ...]:
    """Return the standing rules of a message (statements that hold beyond its turn), in order.

    `text` must be a user's message or the system message, never a tool result or a model's answer; text that it quotes
    is ignored. Reports that something is done are returned too (`act="done"`): they end tasks and are not kept.
    `answered` is the assistant's message directly before a user's message: a short answer to it is a rule if it adopts
    a proposal, picks an item of a list or answers what the user wants. Nothing else in it can become a rule.
    `confirmation` are the words with which the assistant confirmed the message (see `confirming_words`): a sentence
    that they repeat needs a lower score, and nothing of them becomes a rule.
    """
    sentences = [*own_sentences(text)]
    rules = _own_rules(text, sentences, seq=seq, trust=trust, confirmation=confirmation)
    if "?" in answered or "？" in answered:  # "forget that" is an answer to what was asked
        rules = tuple(rule for rule in rules if not takes_last_back(rule.plain))
    if trust == "user" and answered and (answer := read_answer(text, sentences, answered)):
        return _with_answer(text, answer, rules, seq=seq)
    return rules


def _with_answer(
    text: str, answer: ShortAnswer, rules: tuple[StandingRule, ...], *, seq: int
) -> tuple[StandingRule, ...]:
    """Return the rules of a message, including the answer it gives to the assistant if that is a rule."""
    language: Language = "zh" if HAN.search(answer.meaning) else "en"
    as_said = _in_the_users_mouth(plain_characters(answer.meaning))
    judged = next(
        (each for each in _own_rules(as_said, [*own_sentences(as_said)], seq=seq, trust="user", is_proposal=True)
         if each.act != "done"),
        None,
    )  # fmt: skip
    if is_no_rule(as_said, language) or asks_a_favour(as_said, language):
        return rules
    if not (judged or answer.is_explicit):
        return rules
    said = text[answer.start : answer.end].strip()
    plain = plain_characters(answer.meaning)
    terms = rule_terms(plain)
    act = act_of(plain, language) if answer.adopts else "state"
    demands = judged is not None and answer.adopts and judged.kind in ("rule", "prohibition")
    rule = StandingRule(
        id=rule_id(said, seq=seq, trust="user", at=answer.start), text=_cut(said), seq=seq,
        kind=judged.kind if judged and demands and act == "state" else "decision",
        act="state" if act in ("done", "keep") else act,
        negative=answer.adopts and act != "permit" and is_negative(plain, language),
        scope=terms.scope[:24], value=terms.value[:12],
        answers=answer.answers, meaning=answer.meaning, adopts=answer.adopts,
    )  # fmt: skip
    others = [each for each in rules if each.text not in said or each.act == "done"]
    return (rule, *others)


def _in_the_users_mouth(meaning: str) -> str:
    """Return a proposal of the assistant in the user's words: "show me the logs" for "show you the logs"."""
    meaning = re.sub(r"\byou\b", "me", re.sub(r"\byour\b", "my", meaning))
    return re.sub("^我们?(?=[^的])", "", re.sub("[您你]", "我", meaning))


def _own_rules(
    text: str,
    sentences: Sequence[OwnSentence],
    *,
    seq: int,
    trust: RuleTrust,
    is_proposal: bool = False,
    confirmation: str = "",
) -> tuple[StandingRule, ...]:
    """Return the standing rules in the user's own sentences, apart from answers to the assistant.

    If it `is_proposal` of the assistant that the user adopts, a request for work ("split the service") may be one.
    """
    read = [read_sentence(sentence, is_proposal=is_proposal) for sentence in sentences]
    around = MessageTotals(
        sum(each.words > 0 for each in read),
        sum(each.words >= SHORT_SENTENCE for each in read),
        sum(each.talk for each in read),
        sum(each.is_chatter and each.words >= SHORT_SENTENCE for each in read),
        sum(each.is_chatter and each.words < SHORT_SENTENCE for each in read),
    )
    rules: list[StandingRule] = []
    seen: set[tuple[str, ...]] = set()
    last = 0  # where the last rule ends
    for number, each in enumerate(read):
        first = True
        if trust == "user" and _is_noted(read, number):
            parts = [_Part(0, len(each.sentence.text), each.language, "task", "state")]
        elif trust == "user" and number and _is_note(each):
            parts = []  # "put that on the list": what to put there stands before it
        else:
            confirmed = is_confirmed(each.sentence.text, confirmation)
            parts = _parts(each, None if trust == "system" else around, confirmed=confirmed)
        for part in parts:
            rule = _rule(text, each.sentence, part, seq=seq, trust=trust)
            start = text.find(rule.text, each.sentence.start + part.start)
            key = (rule.act, rule.kind, rule.text.lower())
            if key in seen:
                continue
            seen.add(key)
            noted = rule.kind == "task" and _has_note(rule.plain, part.language)
            goes_on = not first or continues_sentence(rule.plain, part.language)
            goes_on = goes_on or (noted and bool(POINTS_BACK[part.language].search(rule.plain)))
            before = rules[-1] if rules and rules[-1].act != "done" else None
            if goes_on and before and 0 <= start - last <= _LONGEST_JOINT:
                rule = msgspec.structs.replace(rule, continues=before.id, joint=text[last:start])
            elif goes_on and first and number and _can_lead(read[number - 1]):
                rule = msgspec.structs.replace(rule, lead=_lead(text, read[:number], start, rule))
            first, last = False, start + len(rule.text)
            rules.append(rule)
    if trust == "user" and any(closes(each.sentence.text) for each in read):
        rules.append(_closing(text, [each.sentence for each in read], seq=seq))
    return tuple(rules)


def _closing(text: str, sentences: Sequence[OwnSentence], *, seq: int) -> StandingRule:
    """Return the sentence of a message that says that work is done, with those next to it, which say which work.

    The sentences returned are the ones that no quoted text separates from it.
    """
    first = last = next(at for at, each in enumerate(sentences) if closes(each.text))
    while first and not text[sentences[first - 1].end : sentences[first].start].strip():
        first -= 1
    while (
        last + 1 < len(sentences)
        and not text[sentences[last].end : sentences[last + 1].start].strip()
    ):
        last += 1
    said = text[sentences[first].start : sentences[last].end][:LONGEST_RULE].strip()
    terms = rule_terms(said)
    return StandingRule(
        id=rule_id(said, seq=seq, trust="user", at=-1), text=said, kind="task", seq=seq, act="done",
        scope=terms.scope[:24], value=terms.value[:12],
    )  # fmt: skip


def _is_note(each: ReadSentence) -> bool:
    """Return True if a sentence only asks to note down the sentence before it."""
    return _FILES[each.language].match(each.sentence.text) is not None


def _has_note(text: str, language: Language) -> bool:
    """Return True if the last clause of a sentence asks to note down the others: "the cat needs a chip, remind me"."""
    start, end = clause_spans(text, language)[-1]
    return start > 0 and _FILES[language].match(text[start:end]) is not None


def _is_noted(read: Sequence[ReadSentence], number: int) -> bool:
    """Return True if the user asks to note down a sentence, in its last clause or in the sentence after it."""
    each = read[number]
    text = each.sentence.text
    if _FILED[each.language].match(text) and len(text) <= LONGEST_RULE:
        return True
    if (
        each.words < SHORT_SENTENCE
        or _is_note(each)
        or text[-1] in ":："
        or len(text) > LONGEST_RULE
    ):
        return False
    if BLANK in text and 2 * text.count(BLANK) > len(text):
        return False
    if _has_note(text, each.language):
        return True
    asks = QUESTION[each.language].search(text)
    return not asks and number + 1 < len(read) and _is_note(read[number + 1])


def _lead(text: str, before: Sequence[ReadSentence], start: int, rule: StandingRule) -> str:
    """Return the one or two sentences before a rule that may name its subject; "" if they are too long."""
    found = ""
    for each in reversed(before[-2:]):
        lead = text[each.sentence.start : start]
        if not _can_lead(each) or "\n" in lead or len(lead) + len(rule.text) > LONGEST_RULE:
            break
        found = lead
    return found


def _can_lead(before: ReadSentence) -> bool:
    """Return True if a sentence may name the subject of the next one; False for a question or small talk."""
    text = before.sentence.text
    asks = QUESTION[before.language].search(text)
    return before.words >= SHORT_SENTENCE - 1 and not before.is_chatter and not asks


def _parts(
    each: ReadSentence, around: MessageTotals | None, *, confirmed: bool = False
) -> Iterator[_Part]:
    """Yield the rules in a sentence: the sentence itself, or several of its clauses; nothing if it scores too low.

    Without `around` (totals of its message), the sentence is judged as if it were the whole message. If the assistant
    `confirmed` it, it needs a lower score.
    """
    sentence, language = each.sentence, each.language
    text = sentence.text
    if text[-1] in ":：" or not each.words or asks_back(plain_characters(text)):
        return
    if not confirmed and asks_for_a_change(text, language):
        return
    kind = listed_kind(sentence)
    wanted = wanted_score(each, around) - (_CONFIRMED if confirmed else 0.0)
    if kind is None and each.score < wanted:
        asks = QUESTION[language].search(text)
        demand = (
            ""
            if asks or each.is_work
            else demanding_clause(text, language, wanted + BESIDE_A_REASON)
        )
        if demand:
            yield _Part(
                0, len(text), language, kind_by_form(demand, language), _act(text, language)
            )
            return
        plain = plain_characters(text)
        if not asks and _may_undo(plain, language):
            yield _Part(0, len(text), language, "task", "done")
        return
    act = _act(text, language)
    clauses = [] if act != "state" or kind else [*_clauses(text, language)]
    if len(clauses) > 1:
        yield from clauses
        return
    asked = max(wanted, NEEDED_ALONE[language]) if sets_value(text, language) else wanted
    explicit = INSTRUCTS[language].search(text) or demanding_clause(text, language, asked)
    weak = kind is None and each.score < asked + _WEAK and not explicit
    kind = kind or kind_by_form(text, language)
    if kind in ("task", "decision", "fact") and reports_done(text, language):
        yield _Part(0, len(text), language, "task", "done")
    yield _Part(0, len(text), language, kind, act, weak)


def _act(text: str, language: Language) -> RuleAct:
    """Return what a sentence does to earlier rules, without its clauses that leave something unchanged."""
    changed = changed_clauses(text, language)
    return act_of(changed, language) if changed else "keep"


def _may_undo(text: str, language: Language) -> bool:
    """Return True if a sentence that is no rule by its words may end, permit or complete what an earlier one says."""
    if reports_done(text, language) or may_report(text) or alters(text):
        return True
    return (
        is_permission(text)
        or may_fill(text)
        or asks_for_action(text)
        or edits_a_piece(text, language)
    )


def _clauses(text: str, language: Language) -> Iterator[_Part]:
    """Yield the clauses of a sentence that are separate rules, each up to the next of them.

    Yields nothing if fewer than two are.
    """
    found = [
        span
        for span in clause_spans(text, language)
        if span[1] - span[0] > 3 and score(text[slice(*span)], language) >= _CLAUSE
    ]
    ends = [start for start, _ in found[1:]] + [len(text)]
    for (begin, end), (start, stop), last in zip(found, found[1:], ends[1:], strict=False):
        whole = text[start:last]
        if needs_the_clause_before(text[start:stop], text[begin:end], language) or (
            language == "zh" and _PRONOUN.search(whole)
        ):
            return
    if len(found) < 2:
        return
    found[0] = (0, found[0][1])
    for number, (start, _) in enumerate(found):
        end = found[number + 1][0] if number + 1 < len(found) else len(text)
        yield _Part(start, end, language, kind_by_form(text[start:end], language), "state")


def _rule(
    text: str, sentence: OwnSentence, part: _Part, *, seq: int, trust: RuleTrust
) -> StandingRule:
    start, end = sentence.start + part.start, sentence.start + part.end
    said = _cut(text[start:end])
    plain = plain_characters(said)
    terms = rule_terms(changed_clauses(plain, part.language) or plain)
    act, kind = part.act, part.kind
    negative = is_negative(plain, part.language)
    if kind == "prohibition" and (act == "permit" or (act == "change" and not negative)):
        kind = "rule"  # "change the port" forbids nothing
    if kind == "prohibition" and not negative and not FORBIDS_OTHERWISE.search(plain):
        kind = "rule"  # neither does "pay with PayPal"
    if kind != "prohibition" and act == "state" and FORBIDS.match(plain):
        kind = "prohibition"
    negative = negative or kind == "prohibition"
    if act == "state" and is_weak_change(plain, part.language):
        act = "renew"
    return StandingRule(
        id=rule_id(said, seq=seq, trust=trust, at=start), text=said, kind=kind, seq=seq, trust=trust,
        act=act, negative=negative and act != "permit", weak=part.weak, scope=terms.scope[:24], value=terms.value[:12],
    )  # fmt: skip


def _cut(said: str) -> str:
    """Return a rule's text without commas at its ends, cut at a clause if it is longer than a rule may be."""
    if len(said) > LONGEST_RULE:
        ends = [
            match.start() for match in _CLAUSE_END.finditer(said, LONGEST_RULE // 3, LONGEST_RULE)
        ]
        space = said.rfind(" ", LONGEST_RULE // 2, LONGEST_RULE)
        said = said[: ends[-1] if ends else space if space > 0 else LONGEST_RULE]
    said = said.strip().strip(",，;；、").strip()
    return _DANGLING.sub("", said) or said
