"""The constants of the estimate, one set per family of vocabularies, and where each comes from.

A price is an average of what tokenizers really did, taken at its dear end; the margin covers the rest.

- Latin words: frequency lists of 23 languages in Latin script and random letters, against o200k_base;
  the rates are the cheapest for English at which hardly any language is under its true sum.
- `script`: user-interface texts translated into about 100 languages; of each script a dear language.
  Kinds that are not words (emoji, symbols, rules) by encoding every character of the block.
- Chinese: exact by construction for listed words and characters; the rare ones by encoding every
  character of the unified block (2.06 tokens in o200k_base, 2.45 in cl100k_base).
- Signs and blanks: source code in Python, JavaScript, HTML, CSS and C, and JSON.
- The margin, and the last digit of the word rates: 50,000 texts of 1 to 20,000 tokens in Chinese and
  English, code and JSON (chats, tool calls and results, news, documentation), so that in hardly any
  class 1 in 100 is under. There is no held-out half: all of them were looked at while choosing. On 11
  classes of English and simplified Chinese text that were no part of the search, only looked at
  between its last steps, the sums were 10 to 22 % above the truth and 0.0 to 1.1 % of the texts under
  it; single texts averaged up to 31 % above it where most were fragments of a dozen tokens.
- `ENVELOPE`: the same texts, and translated user-interface texts in 24 languages, against the dearest of the
  vocabularies in `ENCODINGS` for each text; blanks, signs and emoji by encoding runs and blocks of them.
- `CLAUDE_3`, `CLAUDE_4_7`: the same texts against an independent reconstruction of Claude's counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from turnfold.errors import InvalidOption
from turnfold.tokens.scripts import Kind

__all__ = (
    "CL100K_LIKE",
    "CLAUDE_3",
    "CLAUDE_4_7",
    "ENVELOPE",
    "MODERN",
    "PROFILES",
    "SINGLE_DIGITS",
    "EstimateProfile",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateProfile:
    """What each class of text costs in a family of vocabularies, in tokens.

    Unless it says otherwise a price is what a piece costs beyond its first token.
    """

    name: str
    script: tuple[float, ...]
    """A character of each `Kind`, in its order; the whole price."""
    han_words: bool
    """Frequent two-character Chinese words are one token."""
    han_core: float
    han_familiar: float
    han_rare: float
    """A Chinese character outside such words; the whole price."""
    hangul_rare: float
    """A syllable that Korean hardly uses; the whole price."""
    accent: float
    """Each letter past the second of a word with accents."""
    accented_word: float = 0.0
    """On top of it, once a word."""
    vietnamese: float = 0.0
    """On top of it, each letter that only Vietnamese has."""
    space_before_han: float = 0.6
    """A space before a Chinese character, which it joins about as often as not."""
    digit: float = 0.0
    """Each digit after the first of a group of three."""
    spaced_length: float = 0.015
    """Each letter past the third of a word that follows a space."""
    spaced_strange: float = 0.55
    """Each letter after the first of such a word, times the root of its share of strange triples."""
    foreign_ending: float = 0.0
    """A word of four letters or more that ends in a, i, o or u, as few English words do."""
    contraction: float = 0.0
    """What follows an apostrophe, as in `don't`."""
    bare_length: float = 0.08
    """Each letter past the second of a word at a line start or behind a sign or digit."""
    bare_strange: float = 0.58
    title: float = 0.05
    """Once, where a word has capitals at all."""
    capital: float = 0.12
    """Each capital after the first, where the triples are not strange."""
    tight_sign: float = 0.2
    glued_sign: float = 0.42
    loose_sign: float = 1.0
    """A sign in front of a word: `_name`, `-name`, `@name`."""
    sign_change: float = 0.28
    sign_noise: float = 0.4
    """Each change of sign in a run after its first; on top of it, each past the fifth."""
    sign_line_end: float = 0.0
    """A line end behind signs, as in `{` at the end of a line."""
    ruling_signs: str = "-=_*.#~%+/!:;"
    """Signs of which sixteen in a row are one token; of others it is two."""
    spaces_a_token: int = 64
    blanks_a_token: int = 16
    """Of a run of spaces; of a run of tabs or line ends."""
    first_blank_change: float = 0.0
    blank_change: float = 0.3
    """The first change of blank in a run, as of a space or a carriage return before a line end; each after it."""
    blank_bytes: bool = False
    """Whether a blank beyond ASCII costs its UTF-8 length."""
    word_start: float = 0.25
    """Each word of a script other than Latin and Han."""
    spread: float = 1.05
    """The margin: this times the square root of what is doubtful."""

    def __post_init__(self) -> None:
        if len(self.script) != len(Kind):
            raise InvalidOption(
                f"profile {self.name!r} prices {len(self.script)} kinds of characters but there are "
                f"{len(Kind)}; give one price for each of {', '.join(kind.name for kind in Kind)}"
            )


def _in_order(prices: Mapping[Kind, float]) -> tuple[float, ...]:
    return tuple(prices[kind] for kind in Kind)


def _with_prices(profile: EstimateProfile, prices: Mapping[Kind, float]) -> tuple[float, ...]:
    return _in_order(dict(zip(Kind, profile.script, strict=True)) | dict(prices))


MODERN: Final = EstimateProfile(
    name="modern",
    han_words=True,
    han_core=1.0,
    han_familiar=1.0,
    han_rare=2.05,
    hangul_rare=2.4,
    accent=0.30,
    script=_in_order(
        {
            Kind.RUSSIAN: 0.34,
            Kind.CYRILLIC: 1.0,
            Kind.GREEK: 0.42,
            Kind.HEBREW: 0.50,
            Kind.ARABIC: 0.40,
            Kind.ARABIC_EXTENDED: 0.75,
            Kind.CAUCASIAN: 0.45,
            Kind.DEVANAGARI: 0.48,
            Kind.INDIC: 0.62,
            Kind.THAI: 0.45,
            Kind.KHMER: 0.72,
            Kind.KANA: 0.75,
            Kind.HANGUL: 0.75,
            Kind.SPARSE: 1.9,
            Kind.PUNCTUATION: 1.0,
            Kind.SYMBOL: 2.0,
            Kind.RULE: 2.0,
            Kind.EMOJI: 2.5,
            Kind.JOINER: 1.0,
        }
    ),
)
"""Vocabularies of 130,000 entries and more, trained on many languages; the nearest where one is known to be such."""

SINGLE_DIGITS: Final = replace(MODERN, name="single-digits", digit=1.0)
"""As `MODERN`, for families that give every digit a token of its own (Qwen, Gemma and Gemini)."""

CL100K_LIKE: Final = EstimateProfile(
    name="cl100k-like",
    han_words=False,
    han_core=1.0,
    han_familiar=2.05,
    han_rare=2.45,
    hangul_rare=2.7,
    accent=0.38,
    spread=1.3,
    script=_in_order(
        {
            Kind.RUSSIAN: 0.52,
            Kind.CYRILLIC: 1.9,
            Kind.GREEK: 1.05,
            Kind.HEBREW: 1.2,
            Kind.ARABIC: 0.90,
            Kind.ARABIC_EXTENDED: 1.4,
            Kind.CAUCASIAN: 2.1,
            Kind.DEVANAGARI: 1.4,
            Kind.INDIC: 2.0,
            Kind.THAI: 0.95,
            Kind.KHMER: 1.95,
            Kind.KANA: 1.1,
            Kind.HANGUL: 1.1,
            Kind.SPARSE: 2.6,
            Kind.PUNCTUATION: 1.05,
            Kind.SYMBOL: 2.5,
            Kind.RULE: 2.0,
            Kind.EMOJI: 2.95,
            Kind.JOINER: 1.3,
        }
    ),
)
"""Vocabularies of about 100,000 entries with little Chinese: about 1.1 tokens a Chinese character."""

ENVELOPE: Final = replace(
    CL100K_LIKE,
    name="envelope",
    script=_with_prices(
        CL100K_LIKE,
        {Kind.HANGUL: 1.2, Kind.PUNCTUATION: 1.1, Kind.EMOJI: 3.75, Kind.JOINER: 1.5},
    ),
    han_familiar=2.1,
    han_rare=2.6,
    hangul_rare=2.95,
    digit=1.0,
    accent=0.52,
    accented_word=0.5,
    vietnamese=1.7,
    spaced_length=0.06,
    spaced_strange=0.65,
    foreign_ending=1.0,
    contraction=0.9,
    bare_length=0.09,
    bare_strange=0.78,
    capital=0.2,
    tight_sign=0.95,
    glued_sign=1.0,
    sign_change=0.6,
    sign_line_end=1.0,
    ruling_signs="-=_*.#/",
    spaces_a_token=31,
    blanks_a_token=4,
    first_blank_change=1.0,
    blank_change=0.9,
    blank_bytes=True,
    spread=1.2,
)
"""The dearest of all vocabularies in `ENCODINGS`, class by class: the default, for a model nobody knows.

Chinese, Korean and the scripts of smaller languages cost what they cost cl100k_base; digits one each, as in Qwen, Gemma
and Mistral; signs, line ends and contractions as in Gemma, which joins none of them to a word; emoji as in Mistral,
which knows only their bytes; words of other European languages as in Kimi. No single vocabulary is that dear, so the
count is well above each of them; what a provider reports brings it down (see `calibration`)."""

CLAUDE_3: Final = replace(
    ENVELOPE,
    name="claude-3",
    script=_with_prices(
        ENVELOPE, {Kind.KANA: 0.75, Kind.HANGUL: 1.4, Kind.SYMBOL: 2.6, Kind.PUNCTUATION: 1.15}
    ),
    han_familiar=1.7,
    han_rare=2.35,
    space_before_han=1.3,
    digit=0.3,
    bare_strange=1.0,
    title=0.28,
    loose_sign=1.2,
    sign_change=0.5,
    sign_line_end=0.8,
    spread=1.4,
)
"""Claude 3 to 4.6, whose vocabulary is not public: fitted to an independent reconstruction of its counts."""

CLAUDE_4_7: Final = replace(
    CLAUDE_3,
    name="claude-4.7",
    spaced_length=0.25,
    spaced_strange=0.70,
    bare_length=0.24,
    contraction=1.0,
    title=1.2,
    capital=0.45,
    glued_sign=1.5,
    sign_change=1.0,
    sign_line_end=1.4,
    spread=1.9,
)
"""Claude from Opus 4.7 and Sonnet 5 on: the same Chinese, but half as many tokens again for English and code."""

PROFILES: Final = (ENVELOPE, MODERN, SINGLE_DIGITS, CL100K_LIKE, CLAUDE_3, CLAUDE_4_7)
"""All of them, so that a stored count can be traced to the one that made it."""
