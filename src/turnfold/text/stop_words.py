"""Stop words: words that say little about the subject of a text, for folding (compaction) and for search.

The two lists share most words. Folding leaves stop words out of the content words by which sentences are ranked, so its
list is longer and has contractions as they are written. Search indexes stop words like any other, because a name may be
made of them ("The Who"), and leaves them out of a query that has other words; its list has contractions without their
apostrophe, which search removes first. Changing either list changes summaries or search results.
"""

from __future__ import annotations

__all__ = (
    "FOLD_FUNCTION_CHARACTERS",
    "FOLD_STOP_WORDS",
    "SEARCH_FUNCTION_CHARACTERS",
    "SEARCH_STOP_WORDS",
)


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
"""Chinese particles: a pair with one of them is no content word."""
SEARCH_FUNCTION_CHARACTERS = FOLD_FUNCTION_CHARACTERS.union(
    "过地得什怎哪谁几我你您他她它咱在有和与或就都也很还又再才只把被让给对从向为以于而但并且所其之个些不没别请能可会要想该应唉"
)
"""Chinese characters, in their simplified forms, that mostly serve grammar; so does a pair of two of them."""
