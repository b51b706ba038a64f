"""English words without their endings, so that "paintings" is found by "painted".

Only the endings of grammar are taken off (plurals, -ing, -ed), and the irregular past of common words is led back to
the word itself. A stemmer that also takes off -ation and -ness finds a little more and confuses a little more; on real
conversations it gained nothing. Other languages written in Latin letters are left nearly whole by these rules.
"""

from __future__ import annotations

import re

__all__ = ("stem",)

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
"""A word that loses its e before an ending: hike, hiking."""


def stem(word: str) -> str:
    """A lower-cased word without its endings; a stem is its own stem."""
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
    """What is left when -ing or -ed is gone, spelt as the word itself is."""
    if base[-1] == base[-2] and base[-1] not in "aeilosz":
        return base[:-1]
    if _SHORT.fullmatch(base) or (base.endswith("s") and base[-2] not in "siu"):
        return base + "e"
    return base
