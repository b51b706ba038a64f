"""Estimate token counts without the model's tokenizer: the documented rule of thumb, and turnfold's own estimate.

`formula_tokens` is the formula of the design document, kept because programs rely on its figures.
`estimate_text` is for every model whose vocabulary is not public. It is too high rather than too low,
because a context that is a little too small costs less than a refused call.

Without a profile it uses `ENVELOPE`, for an unknown model: each class of text costs what it costs in the
most expensive of the known vocabularies. Compared with o200k_base that is a third too much for English,
a third to a half for code and JSON, four fifths for Chinese. If the family is known, a closer profile
(`MODERN`, `SINGLE_DIGITS`, `CL100K_LIKE`) can be used, and `calibrated` corrects any of them by what the
provider reports. Only vocabularies of 32,000 entries can be more expensive still: Llama 2's, by 6 % on
Chinese and by a quarter on single texts.

The estimate cuts a text where tokenizers cut it (words with their leading space, groups of digits,
runs of signs, of blanks), so every piece is at least one token: these tokens are *sure*. Further tokens of
a piece are *doubtful*, and their number is estimated by class. The result is `sure + doubt + 1.05 * sqrt(doubt)`
(1.3 in `CL100K_LIKE`, 1.2 in `ENVELOPE`), rounded up; because of the root, the margin becomes relatively
smaller as a text grows. The prices of `ENVELOPE`, which are not shown here, are in `estimate_profile`.

| class | tokens in `MODERN` | `CL100K_LIKE` |
|---|---|---|
| word after a space, n letters | 1 + 0.015 a letter past 3 + 0.55 (n-1) sqrt(strange share) | same |
| word after a sign, digit, line end | 1 + 0.08 a letter past 2 + 0.58 (n-1) sqrt(strange share) | same |
| its capitals | + 0.05, + 0.12 each after the first (less where strange) | same |
| its letters past 20 | + 0.3 each | same |
| word with accents | 1 + 0.30 a letter past 2, + 0.3 (Extended-A) or 1 (rare) a letter | 0.38 |
| sign in front of a word | + 0.2 for `_ . (`, + 0.42 for `- / : = # < ; , [` and such, else + 1 | same |
| camelCase, snake_case | each part is a word of its own | same |
| base64, hexadecimal, keys | words, digits and signs; strange letters make them expensive | same |
| digits | 1 a group of three; `SINGLE_DIGITS`: 1 each | same |
| signs, as in JSON | 1 + 0.28 a change after the first, + 0.4 past the fifth, + 1 a rule | same |
| one sign repeated | 1 + 1 in 16 of `- = * #` and the like, 1 in 2 of others | same |
| blanks | 1 + 1 in 64 spaces, 1 in 16 others, 0.3 a change after the first | same |
| Chinese word, character, rare one | 1, 1, 2.05 | characters: 1 or 2.05, 2.45 |
| Russian, Greek, Arabic, Thai, ... | 0.25 a word + 0.34, 0.42, 0.40, 0.45, ... a letter | 1.5 to 4 times |
| kana, hangul | 0.75 a character | 1.1 |
| emoji, symbols | 2.5, 2 | 2.95, 2.5 |
| any other character | its UTF-8 length, which no byte-level tokenizer exceeds | same |

A letter triple is strange unless frequent words contain it; the share of strange ones distinguishes
names, foreign words and random keys from English without a dictionary. Listed Chinese words and characters
are one token in every vocabulary examined, so only the rare ones are doubtful. `estimate_profile` says
where the constants come from and on which texts they were fitted. The command `bench/fit_estimate.py`
prints, for every class of message and every vocabulary, how often the estimate is too low and by how much
it is too high. Known gaps: random letters of an alphabet other than Latin look like its words and are
underestimated; so may be a sentence of a European language whose words look English (by a fifth at worst,
compared with the vocabulary that knows that language least).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

from turnfold.tokens.certainty import Certainty
from turnfold.tokens.estimate_profile import (
    CJK,
    ENVELOPE,
    HAN_CHARACTERS,
    HAN_CORE,
    HAN_WORDS,
    HANGUL_SYLLABLES,
    LATIN,
    LETTER_TRIPLES,
    CharacterKind,
    EstimateProfile,
    kind_of,
)

__all__ = (
    "FORMULA_FRAMING",
    "TextEstimator",
    "estimate_text",
    "formula_tokens",
)


FORMULA_FRAMING: Final = 4
"""Tokens that the rule of thumb (4 characters per token) adds to a message for its structure."""

_SIGNS: Final = r"!-/:-@\[-`{-~"
_PIECES: Final = re.compile(
    r"['\u2019](?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])(?![A-Za-z])"
    rf"|[ \t{_SIGNS}\u2010-\u2027]?(?:[A-Z]*[a-z{LATIN}]+|[A-Z]+)"
    r"| ?[\u4e00-\u9fff]+"
    r"|[0-9]{1,3}"
    rf"| ?[{_SIGNS}]+[\r\n/]*"
    rf"| ?[^\x00-\x7f{LATIN}\u4e00-\u9fff\s]+"
    r"|\s*[\r\n]+|\s+(?!\S)|[\s\S]"
)
"""Matches the pieces into which tokenizers cut a text: the pre-tokenizer of o200k_base for `re`, split by script."""

_LATIN_BEYOND_ASCII: Final = re.compile(f"[{LATIN}]")
_EXTENDED_LATIN: Final = re.compile("[\u0100-\u017f]")
_RARE_LATIN: Final = re.compile("[\u0180-\u019f\u01a2-\u01ae\u01b1-\u024f\u1e00-\u1e9f]")
_VIETNAMESE: Final = re.compile("[\u01a0\u01a1\u01af\u01b0\u1ea0-\u1ef9]")
_CONTRACTIONS: Final = frozenset({"s", "t", "m", "d", "re", "ve", "ll"})
_TIGHT_SIGNS: Final = frozenset("_.(")
_GLUED_SIGNS: Final = frozenset("-/:=#<\\;,[\u2019")

_RULES: Final = re.compile(r"(.)\1\1")
"""Matches a horizontal rule (a row of dashes) inside other signs, as in a Markdown table; it is one token."""

_SHORTEST_IN_DOUBT: Final = 3
"""A run of letters, signs or blanks that is shorter than this always counts as one token."""
_LONGEST_WORD: Final = 20
"""Longest run of letters that counts as one word; each further letter costs extra."""
_LETTER_OF_NO_WORD: Final = 0.3
_EXTENDED_LATIN_LETTER: Final = 0.3
_MIXED_SIGNS: Final = 0.2
_CHANGES_OF_CODE: Final = 4
"""Most changes from one sign to another in a run that looks like code; more changes cost extra, as noise."""
_REPEATS_A_TOKEN: Final = 16
_REPEATED_RULE: Final = 0.1
_LONG: Final = 1_000_000
_PIECE: Final = 20_000
_FEW_PIECES: Final = 3
_NEGLIGIBLE: Final = 0.4
"""In a text of few pieces, a fraction up to this is not rounded up, so that a frequent word stays one token."""


def formula_tokens(text: str) -> int:
    """Count by the documented rule of thumb: 1.5 tokens per CJK character, one per 4 other characters, plus 4.

    It counts characters, never bytes: an emoji or a Cyrillic letter is one other character.
    """
    cjk = 0 if text.isascii() else _cjk_characters(text)
    return cjk * 3 // 2 + (len(text) - cjk) // 4 + FORMULA_FRAMING


def _cjk_characters(text: str) -> int:
    # In pieces, because no other thread can run while one regex call searches a long text.
    if len(text) <= _PIECE:
        return sum(map(len, CJK.findall(text)))
    return sum(_cjk_characters(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))


def estimate_text(text: str, *, profile: EstimateProfile = ENVELOPE) -> int:
    """Estimate the tokens of `text` for a model whose tokenizer is unknown; too high rather than too low."""
    sure = 0
    doubt = 0.0
    # A list of the pieces of a long text would take ten times its memory.
    is_long = len(text) > _LONG
    pieces = (piece[0] for piece in _PIECES.finditer(text)) if is_long else _PIECES.findall(text)
    for piece, times in Counter(pieces).items():
        units, extra = _price(piece, profile)
        sure += units * times
        doubt += extra * times
    doubt += profile.spread * math.sqrt(doubt)
    if sure <= _FEW_PIECES:
        doubt = max(0.0, doubt - _NEGLIGIBLE)
    return sure + math.ceil(doubt)


class TextEstimator:
    """A text counter that uses `estimate_text`."""

    __slots__ = ("_profile", "name")

    certainty = Certainty.ESTIMATE

    def __init__(self, *, profile: EstimateProfile = ENVELOPE) -> None:
        self.name = f"estimate-{profile.name}"
        self._profile = profile

    def count(self, text: str) -> int:
        """Return the estimated tokens of `text`; too many rather than too few."""
        return estimate_text(text, profile=self._profile)


def _price(piece: str, profile: EstimateProfile) -> tuple[int, float]:
    """Return two token counts of a piece (a word, a run of signs): the least possible, and the expected rest."""
    last = piece[-1]
    if piece.isascii():
        if last.isalpha():
            return 1, _latin_word(piece, profile)
        if last.isdigit():
            return 1, profile.digit * (len(piece) - 1)
        return 1, _blanks(piece, profile) if piece.isspace() else _signs(piece, profile)
    if "\u4e00" <= last <= "\u9fff":
        return _han(piece, profile)
    if profile.blank_bytes and piece.isspace():
        return 1, float(len(piece.encode()) - 1)
    if last.isascii() or _LATIN_BEYOND_ASCII.match(last):
        return 1, _latin_word(piece, profile)
    return 1, _other_characters(piece, profile)


def _latin_word(piece: str, profile: EstimateProfile) -> float:
    first = piece[0]
    word = piece if first.isalpha() else piece[1:]
    if first == " " or word is piece:
        extra = 0.0
    elif first in "'\u2019" and word.lower() in _CONTRACTIONS:
        return profile.contraction
    else:
        extra = _leading_sign(first, profile)
    if not word.isascii():
        return extra + _accented(word, profile)
    if len(word) < _SHORTEST_IN_DOUBT:
        return extra
    return extra + _letters(word, spaced=first == " ", profile=profile)


def _letters(word: str, *, spaced: bool, profile: EstimateProfile) -> float:
    length = len(word)
    lower = word.lower()
    ends = f"^{lower}$"
    strange = sum([ends[at : at + 3] not in LETTER_TRIPLES for at in range(length)])
    strangeness = math.sqrt(strange / length)
    if spaced:
        cost = profile.spaced_length * (length - 3)
        cost += profile.spaced_strange * (length - 1) * strangeness
    else:
        cost = profile.bare_length * (length - 2)
        cost += profile.bare_strange * (length - 1) * strangeness
    if length > _SHORTEST_IN_DOUBT and lower[-1] in "aiou":
        cost += profile.foreign_ending * (1 - strangeness)
    if lower != word:
        more_capitals = max(0, sum(map(str.isupper, word)) - 1)
        cost += profile.title + profile.capital * more_capitals * (1 - strangeness)
    return cost + _LETTER_OF_NO_WORD * max(0, length - _LONGEST_WORD)


def _leading_sign(sign: str, profile: EstimateProfile) -> float:
    if sign in _TIGHT_SIGNS:
        return profile.tight_sign
    return profile.glued_sign if sign in _GLUED_SIGNS else profile.loose_sign


def _accented(word: str, profile: EstimateProfile) -> float:
    return (
        profile.accented_word
        + profile.accent * max(0, len(word) - 2)
        + _EXTENDED_LATIN_LETTER * len(_EXTENDED_LATIN.findall(word))
        + len(_RARE_LATIN.findall(word))
        + profile.vietnamese * len(_VIETNAMESE.findall(word))
        + max(0, len(word) - _LONGEST_WORD)
    )


def _changes(run: str) -> int:
    """Return how often the characters of a run change from one to the next, minus one; at least 0."""
    return max(0, sum(map(str.__ne__, run, run[1:])) - 1)


def _signs(piece: str, profile: EstimateProfile) -> float:
    run = piece.strip().replace('\\"', '"')
    length = len(run)
    line_end = profile.sign_line_end if piece[-1] in "\r\n" else 0.0
    if length < _SHORTEST_IN_DOUBT:
        return line_end
    if run.count(run[0]) == length:
        ruling = run[0] in profile.ruling_signs
        return line_end + (length // _REPEATS_A_TOKEN if ruling else (length - 3) // 2)
    changes = _changes(run)
    noise = profile.sign_noise * max(0, changes - _CHANGES_OF_CODE) + len(_RULES.findall(run))
    mixed = max(_MIXED_SIGNS, profile.sign_change * changes)
    return line_end + length // _REPEATS_A_TOKEN + mixed + noise


def _blanks(piece: str, profile: EstimateProfile) -> float:
    length = len(piece)
    if piece.count(" ") == length:
        return length // profile.spaces_a_token
    cost = 0.0 if piece.count(piece[0]) == length else profile.first_blank_change
    if length < _SHORTEST_IN_DOUBT:
        return cost
    return cost + length // profile.blanks_a_token + profile.blank_change * _changes(piece)


def _han(run: str, profile: EstimateProfile) -> tuple[int, float]:
    spaced = run[0] == " "
    units = core = familiar = 0
    at = int(spaced)
    while at < len(run):
        units += 1
        if profile.han_words and run[at : at + 2] in HAN_WORDS:
            core += 1
            at += 2
            continue
        if run[at] in HAN_CORE:
            core += 1
        elif run[at] in HAN_CHARACTERS:
            familiar += 1
        at += 1
    rare = units - core - familiar
    cost = core * profile.han_core + familiar * profile.han_familiar + rare * profile.han_rare
    return units, cost - units + profile.space_before_han * spaced


def _other_characters(piece: str, profile: EstimateProfile) -> float:
    cost = 0.0
    letters = 0
    before = ""
    for character in piece.lstrip(" "):
        kind = kind_of(ord(character))
        if kind is None:
            cost += len(character.encode("utf-8", "surrogatepass"))
        elif kind is CharacterKind.HANGUL and character not in HANGUL_SYLLABLES:
            cost += profile.hangul_rare
        elif kind is CharacterKind.RULE and character == before:
            cost += _REPEATED_RULE
        elif letters >= _LONGEST_WORD and kind < CharacterKind.THAI:
            cost += 1.0
        else:
            cost += profile.script[kind]
        letters = letters + 1 if kind is not None and kind <= CharacterKind.SPARSE else 0
        if letters == 1:
            cost += profile.word_start
        before = character
    return max(0.0, cost - 1.0)
