"""Words that say nothing about what is sought.

They are indexed like any other, because a name may be made of them ("The Who"), and are left out of a question that
has anything else to go by: otherwise the entries that say "what" and "did" most often would be weighed for nothing.
"""

from __future__ import annotations

__all__ = ("FUNCTION_CHARACTERS", "STOP_WORDS")

STOP_WORDS = frozenset(
    """
    a about after all also am an and any are aren as at be because been before being both but by can could couldnt did
    didnt do does doesnt doing done dont during each either else ever every few for from get give had hadnt has hasnt
    have havent having he her here hers herself him himself his how i if in into is isnt it its itself just let ll me
    might mine more most much must my myself neither no nor not of off oh ok okay on onto or other our ours ourselves
    out over please re s shall she should since so some such t than that the their theirs them themselves then there
    these they this those though through to too until up upon us ve very via was wasnt we were werent what whatever
    when where whether which while who whom whose why will with within without wont would wouldnt yes yet you your
    yours yourself
    """.split()
)
FUNCTION_CHARACTERS = frozenset(
    "的了是吗呢吧啊呀嘛着过地得们么什怎哪这那谁几我你您他她它咱在有和与或就都也很还又再才只"
    "把被让给对从向为以于而但并且所其之个些不没别请能可会要想该应哦嗯唉"
)
"""Chinese characters, in their simplified forms, that mostly serve grammar; a pair of two of them does too."""
