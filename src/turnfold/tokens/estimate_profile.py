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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from turnfold.errors import InvalidOption
from turnfold.tokens.scripts import Kind

__all__ = ("CL100K_LIKE", "MODERN", "SINGLE_DIGITS", "EstimateProfile")


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
    digit: float = 0.0
    """Each digit after the first of a group of three."""
    spaced_length: float = 0.015
    """Each letter past the third of a word that follows a space."""
    spaced_strange: float = 0.55
    """Each letter after the first of such a word, times the root of its share of strange triples."""
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
"""Vocabularies of 130,000 entries and more, trained on many languages: the default for unknown models."""

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
