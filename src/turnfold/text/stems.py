"""Two stemmers for English: `stem` for search and `light_stem` for folding (compaction).

`stem` removes only grammatical endings (plurals, -ing, -ed) and maps irregular forms of common words to the word, so
that "paintings" is found by "painted". A stemmer that also removes -ation and -ness finds a little more and confuses a
little more; on real conversations it gained nothing. Other languages in Latin letters stay nearly whole.

`light_stem` gives other results ("makes" -> "mak", "e-mails" -> "email", no irregular forms). They are kept apart
because the output of each is fixed elsewhere: search terms are stored in indexes, and the content words of folding
decide which sentences a summary keeps and which two rules count as the same.
"""

from __future__ import annotations

import re

__all__ = ("light_stem", "stem")


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
_WORD = re.compile(r"[a-z]{4,}")
_VOWEL = re.compile(r"[aeiouy]")
_SHORT = re.compile(r"[^aeiouy]*[aeiouy][^aeiouwxys]")
"""The beginning of a word that drops its e before an ending: hike, hiking."""


def stem(word: str) -> str:
    """Return a lower-cased word without its endings; the stem of a stem is itself."""
    if (found := _IRREGULAR.get(word)) is not None:
        word = found
    while (shorter := _shortened(word)) != word:
        word = shorter
    return word


def _shortened(word: str) -> str:
    if _WORD.fullmatch(word) is None:
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
    """Return the word of which `base` is left after removing -ing or -ed."""
    if base[-1] == base[-2] and base[-1] not in "aeilosz":
        return base[:-1]
    if _SHORT.fullmatch(base) or (base.endswith("s") and base[-2] not in "siu"):
        return base + "e"
    return base


def light_stem(word: str) -> str:
    """Return a lower-cased word without hyphens and common endings; "send", "sends" and "sending" are one."""
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
