"""Recognises prohibitions that hold for now ("don't push yet", 先别提交), and the later words that end them.

Such a prohibition is kept like every other one, because forgetting it does harm. It ends when the user asks for the
same action on the same thing: "looks good, push it now". A lasting prohibition never ends this way.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern

__all__ = ("action_asked_for", "action_put_off", "asks_for_action", "takes_up")


_PUT_OFF = late_pattern(
    r"\b(?:don't|do\s+not|not)\s+(?P<verb>[a-z]+)\b(?P<thing>[^,;.!]*?)\s*\b(?:(?:just\s+)?yet|for\s+now|(?:until|before)\s+i)\b"
    r"|(?:先|暂时|暂且)都?(?:别|不要)(?P<zh_verb>提交|推送|推|部署|合并|发布|上线|发|删|改|动|下单|订|买|寄|付)(?P<zh_thing>[^,，。！!]*)",
    re.IGNORECASE,
)
"""Matches a prohibition that holds only for now."""
_ACTION = late_pattern(
    r"^\W*(?:(?:ok(?:ay)?|yes|now|please|then|so|and|good|great|fine|perfect|thanks|done|lgtm|just|(?:(?:that|it|all)\s+)?looks\s+(?:good|fine)"
    r"(?:\s+to\s+me)?|you\s+(?:can|may)|go\s+ahead(?:\s+and)?)\b\W*)*"
    r"(?P<verb>commit|push|deploy|merge|publish|release|send|ship|start|delete|remove|order|book|buy|pay|install|change|touch|edit|move|close|cancel|call)"
    r"\b(?P<thing>[^,;!?]{0,40}?)[.!\s]*$"
    r"|^(?:(?:好[的了]?|行了?|可以了?|没问题|看完了|现在|那就?|就|请)[,，]?)*(?:把(?P<zh_thing>[^,，。]{1,10}?)(?:都)?)?"
    r"(?P<zh_verb>提交|推送|推|部署|合并|发布|上线|发|删|改|动|下单|订|买|寄|付)(?:了|出去|上去|掉|一下)*吧?[。！!]?$",
    re.IGNORECASE,
)
"""Matches a request for one of the actions that people put off, alone or on one thing."""
_SMALL_WORDS = frozenset(
    "it that this them these those all now then please away again to the a an my our".split()
)


def asks_for_action(text: str) -> bool:
    """Return True if a sentence asks for an action that an earlier one may have put off."""
    return _ACTION.match(text) is not None


@lru_cache(maxsize=512)
def action_asked_for(text: str) -> str:
    """Return the verb of the action that a sentence asks for, if an earlier one may have put it off; else ""."""
    found = _ACTION.match(text)
    return (found["verb"] or found["zh_verb"]).lower() if found else ""


@lru_cache(maxsize=4096)
def action_put_off(text: str) -> str:
    """Return the verb of the action that a sentence puts off ("don't push yet"); "" if it puts off none."""
    found = _PUT_OFF.search(text)
    return (found["verb"] or found["zh_verb"]).lower() if found else ""


def takes_up(later: str, earlier: str) -> bool:
    """Return True if a sentence asks for what an earlier one put off: "push it now" after "don't push yet"."""
    waits = _PUT_OFF.search(earlier)
    asks = _ACTION.match(later) if waits else None
    if waits is None or asks is None:
        return False
    if waits["zh_verb"]:
        named = asks["zh_thing"] or ""
        return waits["zh_verb"] == asks["zh_verb"] and named in waits["zh_thing"]
    words = {word.lower() for word in re.findall(r"\w+", asks["thing"] or "")} - _SMALL_WORDS
    same = asks["verb"] is not None and waits["verb"].lower() == asks["verb"].lower()
    return same and words <= {word.lower() for word in re.findall(r"\w+", waits["thing"])}
