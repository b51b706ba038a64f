"""Split text into words: the terms that search indexes, and the content words by which folding compares sentences.

Folding is compaction: old messages are replaced by a summary. Search terms are made here and indexed as they are, so
that every backend finds the same things, even one with other rules for words (many treat a Chinese sentence as one
word). Words are lower-cased, full-width letters become ASCII, and grammatical endings are removed. Compounds
(`src/app.py`, `maxTokens`, `A-4711`) are found by their parts and as a whole. Runs of Chinese, Japanese and Korean
characters give every character and every pair of neighbours, traditional characters as simplified ones, so
two-character words are found in either script. A term is letters and digits only, so it cannot contain query syntax. A
term that is split again gives itself, so a query may consist of words or of terms.

Content words are lightly stemmed English words without stop words, and pairs of neighbouring CJK characters; they are
never stored, only compared.

Two stemmers for English. `stem`, for search, removes only grammatical endings (plurals, -ing, -ed) and maps irregular
forms of common words to the word, so that "paintings" is found by "painted"; one that also removes -ation and -ness
gained nothing on real conversations. `light_stem`, for folding, gives other results ("makes" -> "mak"). They are kept
apart because the output of each is fixed elsewhere: search terms are stored in indexes, and content words decide which
sentences a summary keeps. The lists of stop words differ for the same reason: folding leaves its words out of what
sentences are ranked by; search indexes them like any other, because a name may be made of them ("The Who"), and leaves
them out of a query that has other words.

Normal forms of Unicode are made in linear time: `unicodedata` sorts the marks that follow a letter by insertion, so a
hundred thousand marks in a row, which anybody can send, would take a minute.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from operator import add
from typing import Final, Literal, cast

from turnfold._lazy_loading import late_pattern
from turnfold.text.cjk_ranges import CJK_LETTERS, CJK_TEXT, FIRST_CJK_LETTER
from turnfold.text.simplified_chinese import SIMPLIFIED

__all__ = (
    "CHARACTERS",
    "EDGES",
    "FOLD_FUNCTION_CHARACTERS",
    "FOLD_STOP_WORDS",
    "LETTERS",
    "RUN",
    "SEARCH_FUNCTION_CHARACTERS",
    "SEARCH_STOP_WORDS",
    "TERMS_MADE_BY",
    "WORDS",
    "WantedTerms",
    "content_terms",
    "distinct_terms",
    "found_in",
    "is_character",
    "is_cjk",
    "light_stem",
    "normal_form",
    "plain_characters",
    "plain_text",
    "same_width",
    "search_terms",
    "stem",
    "terms_of",
    "terms_of_run",
    "terms_of_words",
)


_LONG_TEXT = 20_000
_RUN: Final = 128
"""Least length of a run of combining marks that is sorted here, because `unicodedata` would be slow."""
_WIDE = late_pattern("[\uff04\uff05\uff0b\uff0d-\uff1a\uff20-\uff3a\uff3f\uff41-\uff5a]")
_NARROW = {
    code: code - 0xFEE0
    for first, last in ((0xFF04, 0xFF05), (0xFF0B, 0xFF0B), (0xFF0D, 0xFF1A), (0xFF20, 0xFF5A))
    for code in range(first, last + 1)
}


def normal_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Return the same as `unicodedata.normalize(form, text)`, in linear time for any text.

    A long text is normalised in pieces: one character may become 18, and no other thread could run during one call.
    """
    combining = unicodedata.combining
    # A run of twice this length has a mark at one of these places and only marks up to the next.
    if len(text) > _RUN and any(map(combining, text[::_RUN])):
        stretches = (text[at : at + _RUN] for at in range(0, len(text), _RUN))
        if any(all(map(combining, stretch)) for stretch in stretches):
            text = _mark_runs().sub(_sorted_marks, text)
    if len(text) <= _LONG_TEXT:
        return unicodedata.normalize(form, text)
    return "".join(unicodedata.normalize(form, piece) for piece in _independent(form, text))


def _independent(form: Literal["NFC", "NFKC"], text: str) -> Iterator[str]:
    """Yield the pieces of a text which can be normalised one by one, with the same result as for the whole text."""
    start = 0
    while len(text) - start > _LONG_TEXT:
        stop = start + max(_LONG_TEXT, 1)
        while stop < len(text) and _joins(form, text[max(stop - 3, 0) : stop], text[stop]):
            stop += 1
        yield text[start:stop]
        start = stop
    yield text[start:]


def _joins(form: Literal["NFC", "NFKC"], before: str, character: str) -> bool:
    """Return True if a character changes when it is normalised together with the characters before it."""
    if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]):
        return True
    apart = unicodedata.normalize(form, before) + unicodedata.normalize(form, character)
    return unicodedata.normalize(form, before + character) != apart


@cache
def _mark_runs() -> re.Pattern[str]:
    marks = "".join(chr(code) for code in range(sys.maxunicode) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}]{{{_RUN},}}")


def _sorted_marks(run: re.Match[str]) -> str:
    """Return a run of combining marks in canonical order, which does not change its normal forms."""
    marks = "".join(unicodedata.normalize("NFD", mark) for mark in run[0])
    return "".join(sorted(marks, key=unicodedata.combining))


def same_width(text: str) -> str:
    """Return `text` with full-width digits, letters and number signs as ASCII; every offset stays valid.

    Full-width commas stay, because between digits they separate items, not thousands.
    """
    return text.translate(_NARROW) if _WIDE.search(text) else text


_SHARED = frozenset(
    """
    a about after all also am an and any are as at be because been before being both but by can could did do does
    doing during each either else ever few for from get give had has have having he her here hers herself him
    himself his how i if in into is it its itself just let me might mine more most much must my myself no nor not of
    off oh ok okay on onto or other our ours ourselves out over please shall she should since so some such than that
    the their theirs them themselves then there these they this those though through to too until up upon us very
    via was we were what when where whether which while who whom whose why will with within would yes yet you your
    yours yourself
    """.split()
)
FOLD_STOP_WORDS = _SHARED.union(
    """
    above again aren't below between down etc even further gets go going got hey hi i'd i'll i'm i've isn't it'd
    it'll it's know let's like lot made make many may need now once one only own per quite rather really same say
    see still sure take thank thanks that's there's they're thus under use used want way we'd we'll we're we've well
    what's yeah you'd you'll you're you've
    """.split()
)
SEARCH_STOP_WORDS = _SHARED.union(
    """
    aren couldnt didnt doesnt done dont every hadnt hasnt havent isnt ll neither re s t ve wasnt werent whatever
    without wont wouldnt
    """.split()
)

FOLD_FUNCTION_CHARACTERS = frozenset("的了是吗呢吧啊呀嘛着们么这那哦嗯")
"""Chinese particles: a pair of characters with one of them is not a content word."""
SEARCH_FUNCTION_CHARACTERS = FOLD_FUNCTION_CHARACTERS.union(
    "过地得什怎哪谁几我你您他她它咱在有和与或就都也很还又再才只把被让给对从向为以于而但并且所其之个些不没别请能可会要想该应唉"
)
"""Chinese characters, in their simplified forms, that mostly have a grammatical function, as do pairs of them."""


_IRREGULAR = {
    form: word
    for word, *forms in (
        line.split()
        for line in """
        become became; begin began begun; bite bit bitten; blow blew blown; break broke broken; bring brought
        build built; buy bought; catch caught; child children; choose chose chosen; come came; deal dealt
        draw drew drawn; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed
        feel felt; fight fought
        find found; fly flew flown; foot feet; forget forgot forgotten; freeze froze frozen; get got gotten
        give gave given; go went gone; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept
        know knew known; lay laid; lead led; leave left; lend lent; lose lost; man men; make made; mean meant; meet met
        mouse mice; pay paid; ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen
        seek sought; sell sold; send sent; shake shook shaken; shine shone; shoot shot; sing sang sung; sink sank sunk
        sit sat; sleep slept; speak spoke spoken; spend spent; stand stood; steal stole stolen; stick stuck; sweep swept
        swim swam swum; take took taken; teach taught; tear tore torn; tell told; think thought; throw threw thrown
        tooth teeth; understand understood; wake woke woken; wear wore worn; win won; woman women; write wrote written
        knife knives; life lives; wife wives; leaf leaves
        """.replace("\n", ";").split(";")
        if line.strip()
    )
    for form in forms
}
_ENGLISH_WORD = late_pattern(r"[a-z]{4,}")
_STEM = late_pattern(r"[a-z]{2,}")
"""Matches the stem of an English word; a word that is not all English letters is its own stem."""
_BEGINNING = 4
"""Number of letters at the beginning of a word that are compared first, to exclude words that cannot match."""
_VOWEL = late_pattern(r"[aeiouy]")
_SHORT = late_pattern(r"[^aeiouy]*[aeiouy][^aeiouwxys]")
"""Matches a short word without its final e, which it lost before an ending: "hik" of hiking."""


def stem(word: str) -> str:
    """Return the stem of a word in lower case: the word without its endings. The stem of a stem is the stem itself."""
    if (found := _IRREGULAR.get(word)) is not None:
        word = found
    while (shorter := _shortened(word)) != word:
        word = shorter
    return word


def _shortened(word: str) -> str:
    if _ENGLISH_WORD.fullmatch(word) is None:
        return word
    for ending in ("ies", "ied"):
        if word.endswith(ending) and len(word) > 4:
            return word[:-3] + "y"
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and _VOWEL.search(base):
            return _restored(base)
    if word.endswith(("ches", "shes", "xes", "zes", "sses")):
        return word[:-2]
    if word.endswith("s") and word[-2] not in "siu":
        return word[:-1]
    if word.endswith("e") and word[-2] not in "se" and not _SHORT.fullmatch(word[:-1]):
        return word[:-1]
    return word


def _restored(base: str) -> str:
    """Return the base form of a word from which -ing or -ed was removed: "hik" -> "hike", "runn" -> "run"."""
    if base[-1] == base[-2] and base[-1] not in "aeilosz":
        return base[:-1]
    if _SHORT.fullmatch(base) or (base.endswith("s") and base[-2] not in "siu"):
        return base + "e"
    return base


@lru_cache(maxsize=1 << 14)
def light_stem(word: str) -> str:
    """Return the stem of a word in lower case: without its hyphens and common endings.

    "send", "sends" and "sending" have the same stem.
    """
    word = word.replace("-", "").removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending, shortest in (("ing", 6), ("ed", 5), ("es", 5)):
        if word.endswith(ending) and len(word) >= shortest:
            base = word[: -len(ending)]
            doubled = len(base) > 3 and base[-1] == base[-2] and base[-1] not in "ls"
            return base[:-1] if doubled else base
    if len(word) > 3 and word.endswith("s") and word[-2] not in "siu":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


_LONGEST_TERM = 64
"""Most characters of a term; longer words (hashes, base64) are indexed by their beginning."""
TERMS_MADE_BY = f"3/{unicodedata.unidata_version}"
"""Version of the rules that make search terms, with that of Python's Unicode tables.

An index whose terms were made by another version must be rebuilt. A change of `Message.text` is one of these rules: an
index removes the terms of a text by making them again.
"""

_WORD = rf"[^\W_{CJK_LETTERS}]+"
CHARACTERS = late_pattern(rf"[{CJK_LETTERS}]+")
"""Matches a run of CJK characters, which are written without spaces."""
WORDS = late_pattern(rf"{_WORD}(?:[-_./\\:@#'’]{{1,2}}{_WORD})*")
"""Matches words joined by signs: a path, an identifier, an e-mail address."""
RUN = late_pattern(f"{CHARACTERS.pattern}|{WORDS.pattern}")
"""Matches a run of text without spaces: CJK characters, or words joined by signs."""
EDGES = late_pattern(rf"([{CJK_LETTERS}])?({_WORD})(?=([{CJK_LETTERS}])?)")
"""Matches one word; groups: the CJK character right before it, the word, the CJK character right after it."""
LETTERS = late_pattern(_WORD)
"""Matches one word: letters and digits that are not CJK."""
_IS_CJK = late_pattern(rf"[{CJK_LETTERS}]")
_TO_BE_NORMALIZED = late_pattern(r"[^\x00-\x7f\u4e00-\u9fff，。、；！？（）“”]")
"""Matches characters that may need NFKC: not ASCII, common ideographs or punctuation that never joins words."""
_TRADITIONAL = late_pattern(f"[{''.join(map(chr, SIMPLIFIED))}]")
# It begins with the apostrophe, for which a text is searched far faster than for what stands before one.
_CONTRACTED = late_pattern(
    rf"['’](?:(?<=[^\W_].)(?:s|re|ll|ve|d|m)(?!{_WORD})|(?<=n.)(?=t(?!{_WORD})))", re.IGNORECASE
)
_HUMP = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SHORTEST_HUMP = 2
_LONG_RUN = 20_000
_CONTENT_WORD = late_pattern(rf"[{CJK_TEXT}]+|[^\W\d_{CJK_TEXT}]+(?:['’-][^\W\d_{CJK_TEXT}]+)*")


def terms_of(text: str) -> list[str]:
    """Return the search terms of a text or query in order, with repetitions."""
    terms: list[str] = []
    plain = plain_text(text)
    for run in RUN.findall(plain) if len(plain) <= _LONG_TEXT else found_in(RUN, plain):
        terms.extend(terms_of_run(run))
    return terms


def terms_of_run(run: str) -> Sequence[str]:
    """Return the search terms of one match of `RUN` in a text made by `plain_text`."""
    return [*run, *map(add, run, run[1:])] if is_cjk(run) else terms_of_words(run)


def distinct_terms(text: str) -> set[str]:
    """Return the distinct search terms of a text; each distinct word is split into terms once."""
    terms: set[str] = set()
    for run in set(found_in(RUN, plain_text(text))):
        if len(run) <= _LONG_RUN or not is_cjk(run):
            terms.update(terms_of_run(run))
            continue
        for start in range(0, len(run), _LONG_RUN):  # in one call, no other thread could run
            terms.update(terms_of_run(run[start : start + _LONG_RUN + 1]))
    return terms


def found_in(pattern: re.Pattern[str], text: str) -> Iterable[str]:
    """Return all matches of a pattern in a text, as a list or, for a long text, as an iterator.

    A list of the matches of a long text would take ten times the memory of the text, and no other thread could run
    while one call builds it.
    """
    if len(text) <= _LONG_TEXT:
        return cast("list[str]", pattern.findall(text))
    return (match[0] for match in pattern.finditer(text))


def plain_text(text: str) -> str:
    """Return `text` normalised for `terms_of_run`: NFKC, without endings like 's and 'll, in simplified characters."""
    # Checking whether there is anything to do is ten times as fast as doing it.
    plain = normal_form("NFKC", text) if _TO_BE_NORMALIZED.search(text) else text
    if "'" in plain or "’" in plain:
        plain = "".join(_CONTRACTED.sub("", piece) for piece in _at_spaces(plain))
    if _TRADITIONAL.search(plain) is None:
        return plain
    return "".join(piece.translate(SIMPLIFIED) for piece in _at_spaces(plain))


def plain_characters(text: str) -> str:
    """Return `text` in simplified characters, with digits and letters as ASCII; every offset stays valid."""
    plain = same_width(text)
    if plain.isascii() or _TRADITIONAL.search(plain) is None:
        return plain
    return "".join(piece.translate(SIMPLIFIED) for piece in _at_spaces(plain))


def _at_spaces(text: str) -> Iterator[str]:
    """Yield a long text in pieces that end before spaces, so that other threads can run between the pieces."""
    start = 0
    least = max(_LONG_TEXT, 1)
    while len(text) - start > least and (stop := text.find(" ", start + least)) > 0:
        yield text[start:stop]
        start = stop
    yield text[start:]


def terms_of_words(run: str) -> Sequence[str]:
    """Return the search terms of one match of `WORDS`: its words, and all its words joined."""
    return _known_words(run) if len(run) <= _LONGEST_TERM else tuple(_words(run))


class WantedTerms:
    """Skips words that cannot yield any of the wanted search terms, judged by their first letters.

    A stem keeps the beginning of its word, but for the last letter of the stem: "hike" of "hiking", "city" of "cities".
    """

    def __init__(self, terms: Iterable[str]) -> None:
        self._terms = frozenset(terms)
        wanted = [term for term in self._terms if _STEM.fullmatch(term) is not None]
        wanted += [form for form in _IRREGULAR if stem(form) in self._terms]
        shorter = [term[:-1] for term in wanted if term[-1] in "ey"]
        self._beginnings = frozenset(each[:_BEGINNING] for each in (*wanted, *shorter))

    def rules_out(self, run: str) -> bool:
        """Return True if one match of `WORDS` certainly yields none of the wanted terms."""
        word = run.casefold()
        if word[1:] != run[1:] or not word.isalnum() or len(word) > _LONGEST_TERM:
            return False  # several words, or humps
        known = self._beginnings
        return not (
            word[:_BEGINNING] in known
            or word[:3] in known
            or word[:2] in known
            or word in self._terms
        )


def search_terms(query: str) -> list[str]:
    """Return the distinct terms of a query without stop words; if it has only stop words, all of them."""
    terms = list(dict.fromkeys(terms_of(query)))
    # Latin letters in a Chinese query are a name: 维生素A.
    stop_terms = frozenset[str]() if any(map(_IS_CJK.match, terms)) else _STOP_TERMS
    telling = [
        term
        for term in terms
        if term not in stop_terms and not SEARCH_FUNCTION_CHARACTERS.issuperset(term)
    ]
    return telling or terms


def is_cjk(run: str) -> bool:
    """Return True if a run begins with a character of a script written without spaces."""
    return run[0] >= FIRST_CJK_LETTER and _IS_CJK.match(run) is not None


def is_character(term: str) -> bool:
    """Return True if a term is a single character of a script written without spaces."""
    return len(term) == 1 and is_cjk(term)


def content_terms(text: str) -> list[str]:
    """Return the stems of the content words of `text` and pairs of its CJK characters, in order, with repeats."""
    terms: list[str] = []
    for match in _CONTENT_WORD.finditer(text):
        word = match[0]
        if "\u3040" <= word[0] <= "\ud7af" or word[0] >= "\uf900":
            terms.extend(_pairs(word))
        else:
            lowered = word.lower().replace("’", "'")
            if len(lowered) > 1 and lowered not in FOLD_STOP_WORDS:
                terms.append(light_stem(lowered))
    return terms


def _pairs(run: str) -> list[str]:
    if len(run) == 1:
        return [] if run in FOLD_FUNCTION_CHARACTERS else [run]
    return [
        first + second
        for first, second in pairwise(run)
        if first not in FOLD_FUNCTION_CHARACTERS and second not in FOLD_FUNCTION_CHARACTERS
    ]


@lru_cache(maxsize=1 << 14)
def _known_words(run: str) -> tuple[str, ...]:
    return tuple(_words(run))


def _words(run: str) -> Iterator[str]:
    """Yield the words of a compound and, if there are several, the whole compound without its signs."""
    short = len(run) <= _LONG_TEXT  # asked here, because most runs are one word
    parts = LETTERS.findall(run) if short else list(found_in(LETTERS, run))
    words = [word for part in parts for word in _folded(part)]
    yield from map(_term, words)
    for part in parts:
        humps = _HUMP.split(part)
        if len(humps) > 1:
            small = [word for hump in humps for word in _folded(hump)]
            yield from (_term(word) for word in small if len(word) >= _SHORTEST_HUMP)
    whole = "".join(words)
    joined = len(words) > 1 and len(whole) <= _LONGEST_TERM
    if joined and unicodedata.is_normalized("NFKC", whole):
        yield _term(whole)


def _folded(part: str) -> list[str]:
    # Case folding may produce combining marks, which are not letters.
    return LETTERS.findall(part.casefold())


def _term(word: str) -> str:
    return stem(word[:_LONGEST_TERM])


_STOP_TERMS = frozenset(map(stem, SEARCH_STOP_WORDS))
