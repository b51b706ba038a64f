"""Scores how likely a sentence is a rule, and how high its score must be beside the other sentences of its message."""

from __future__ import annotations

from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import UNKNOWN, Language, act_of, score
from turnfold.rules.demands import (
    INSTRUCTS,
    MARKED,
    QUESTION,
    SURE_FORMS,
    best_clause_score,
    has_demanding_clause,
    lasting_part,
    sets_value,
    without_opening,
)
from turnfold.rules.one_time import asks_a_favour, edits_a_piece, is_one_time
from turnfold.rules.own_words import BLANK, OwnSentence
from turnfold.rules.rule_kinds import listed_kind
from turnfold.rules.sentence_features import is_passing
from turnfold.rules.small_talk import (
    CHATTER,
    ELLIPTIC,
    GREETING,
    OTHERS_SAID,
    SMALL_TALK,
    is_babble,
    is_no_rule,
)

__all__ = (
    "HAN",
    "NEEDED_ALONE",
    "SHORT_SENTENCE",
    "MessageTotals",
    "ReadSentence",
    "read_sentence",
    "wanted_score",
)


HAN = late_pattern("[\u3400-\u4dbf\u4e00-\u9fff]")
_LATIN_WORD = late_pattern(r"[A-Za-z]+")
NEEDED_ALONE: dict[Language, float] = {"en": -1.2, "zh": -1.1}
"""Score that a sentence needs to count as a rule if it is the whole message."""
_BESIDE_OTHERS = 1.1
"""Added to the score that a sentence needs to count as a rule, if the message has other sentences."""
_AMONG_TALK = 1.0
"""Added to the score that a sentence needs to count as a rule, if the other long sentences of the message are no
rules."""
_AMONG_CHATTER = 2.4
"""Added to the score that a sentence needs to count as a rule, if the other long sentences are small talk."""
_BESIDE_CHEERS = 1.5
"""Added to the score that a sentence needs to count as a rule, if a short sentence of the message is small talk:
"Great!", "Thanks, Maria!"."""
_UNMARKED = 0.5
"""Added to the score that a sentence needs to count as a rule, if it demands nothing and is not about its author:
"Balance is important."."""
_IS_CHATTER = 2.0
"""Added to the score that a sentence needs to count as a rule, if it has words of small talk."""
_NEVER_LOST = 5.0
"""Subtracted from the score that a sentence needs to count as a rule, if it replaces an old value: without it the old
value would stay."""
_CHANGE = 0.7
"""Subtracted from the score that a sentence needs to count as a rule, if it says that it changes something."""
_OUTRIGHT = 2.0
"""Subtracted from the score that a sentence needs to count as a rule, if it gives a named thing a new value:
把预算改为五千."""
_SETS_ANEW = late_pattern(
    "^(?:更正|纠正)(?:一下)?[,，:：]|把(?![^改换]*[这那第段页句])[^改换]{1,12}[改换](?:成|为|到)."
)
_REPORTED = 2.0
"""Subtracted from the score of a sentence that reports what somebody else said."""
_PASSING: dict[Language, float] = {"en": 2.0, "zh": 1.5}
"""Subtracted from the score of a sentence with the form of a request for one thing now, or of a mishap."""
SHORT_SENTENCE = 4
"""Number of words (Chinese: pairs of characters) below which a sentence, such as "Thanks.", says nothing about its
message."""
_MOST_ABOVE = 0.8
"""Most that the other sentences of a message can add to the score which an instruction to the assistant needs to count
as a rule."""
_SURE = 3.5
"""Score that a sentence gets at least if it has a form that only rules have, such as "I'd rather walk than drive"."""


class ReadSentence(NamedTuple):
    """A sentence with the score of how likely it is a rule."""

    sentence: OwnSentence
    language: Language
    score: float
    words: int
    """Number of words of the text, or of pairs of Chinese characters; 0 if the text is no sentence."""
    is_chatter: bool = False
    is_work: bool = False
    """True if the sentence asks for one piece of work now ("run the tests"), which is no small talk."""

    @property
    def talk(self) -> float:
        """Certainty, from 0 (none) to 1, that the sentence is not a rule; 0 for a short sentence and for a request."""
        is_talk = self.words >= SHORT_SENTENCE and not self.is_work
        return max(0.0, min(1.0, -self.score / 2)) if is_talk else 0.0


class MessageTotals(NamedTuple):
    """Totals over the sentences of a message, by which it is decided how strictly each sentence is judged."""

    sentences: int
    long: int
    """Number of sentences of the message with at least `SHORT_SENTENCE` words."""
    talk: float
    """Sum of `ReadSentence.talk` over the sentences of the message."""
    chatter: int
    """Number of long sentences of the message with words of small talk."""
    cheers: int
    """Number of short sentences of the message that are small talk, such as "Great!"."""


def read_sentence(sentence: OwnSentence, *, is_proposal: bool = False) -> ReadSentence:
    """Score how likely a sentence is a rule; a question scores low unless it asks for something lasting."""
    text = sentence.text
    chinese = 0 if text.isascii() else len(HAN.findall(text))
    words = len(_LATIN_WORD.findall(text))
    language: Language = "zh" if chinese >= max(2, words) else "en"
    if (
        is_babble(text)
        or not chinese + words
        or text[0] in "[【"
        or SMALL_TALK[language].search(text)
    ):
        return ReadSentence(sentence, language, -9.0, 0)
    is_work = not is_proposal and is_one_time(text, language) and not listed_kind(sentence)
    if is_work or (not sentence.heading and is_no_rule(text, language)):
        size = min(SHORT_SENTENCE, chinese // 2 + words)
        is_chatter = CHATTER.search(text) is not None
        likely = UNKNOWN if is_work and edits_a_piece(text, language) else -3.0
        is_work = is_work and not is_chatter and not asks_a_favour(text, language)
        return ReadSentence(sentence, language, likely, size, is_chatter, is_work)
    if GREETING.match(text):
        return ReadSentence(sentence, language, -3.0, 1)
    if BLANK not in text and ELLIPTIC[language].fullmatch(text):
        return ReadSentence(sentence, language, UNKNOWN, 1, CHATTER.search(text) is not None)
    plain = lasting_part(text, language) if QUESTION[language].search(text) else text
    if not plain:
        return ReadSentence(
            sentence, language, -3.0, SHORT_SENTENCE, CHATTER.search(text) is not None
        )
    likely = score(plain, language)
    proper = without_opening(plain, language)
    if proper != plain:
        likely = max(likely, score(proper, language))
    likely = max(likely, best_clause_score(proper, language))
    if SURE_FORMS[language].search(proper):
        likely = max(likely, _SURE)
    likely -= _REPORTED if OTHERS_SAID[language].search(text) else 0.0
    likely -= _PASSING[language] if is_passing(plain, chinese=language == "zh") else 0.0
    return ReadSentence(
        sentence, language, likely, chinese // 2 + words, CHATTER.search(text) is not None
    )


def wanted_score(each: ReadSentence, around: MessageTotals | None) -> float:
    """Return the score that a sentence needs to be a rule; it depends on the other sentences of its message."""
    alone = wanted = NEEDED_ALONE[each.language]
    if not MARKED[each.language].search(each.sentence.text):
        alone = wanted = wanted + _UNMARKED
    if sets_value(each.sentence.text, each.language):
        return wanted - _NEVER_LOST
    if around is None or around.sentences < 2:
        text = each.sentence.text
        if _SETS_ANEW.search(text):
            return wanted - _OUTRIGHT
        wanted += _IS_CHATTER / 2 * each.is_chatter
        if INSTRUCTS[each.language].search(text):
            return wanted - _CHANGE
        return wanted - (_CHANGE if act_of(text, each.language) != "state" else 0.0)
    is_long = each.words >= SHORT_SENTENCE
    wanted += _BESIDE_OTHERS + _IS_CHATTER * each.is_chatter
    if others := around.long - is_long:
        wanted += _AMONG_TALK * (around.talk - each.talk) / others
        chatter = around.chatter - (each.is_chatter and is_long)
        wanted += _AMONG_CHATTER * min(1.0, 0.3 + chatter / others) if chatter else 0.0
    if around.cheers > (each.is_chatter and not is_long):
        wanted += _BESIDE_CHEERS
    if INSTRUCTS[each.language].search(each.sentence.text):
        return min(wanted, alone + _MOST_ABOVE)
    calm = not around.chatter and not each.is_chatter
    if calm and has_demanding_clause(each.sentence.text, each.language):
        return min(wanted, alone + _MOST_ABOVE)
    return wanted
