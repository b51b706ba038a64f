"""Recognises replies in which the assistant confirms what the user laid down: "Noted: ...", 已更新为….

Nothing in such a reply becomes a rule. It is evidence that a sentence of the user that it repeats was meant to hold:
"Priya owns the migration" is confirmed by "Got it: Priya - migration", small talk by nothing.
"""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.text import content_terms, plain_characters

__all__ = ("confirming_words", "is_confirmed")


_LONGEST_REPLY = 600
"""Most characters of a reply that can count as a confirmation; a longer one answers or does work."""
_LONGEST_CONFIRMATION = 240
"""Most characters of the confirming sentences of a reply."""
_SHORT = 14
"""A confirming sentence with fewer characters ("Got it.", 好的。) is read together with the next one."""
_LEAST_REPEATED = 2
"""Number of words of the user's sentence that the confirmation must repeat."""
_SENTENCE_END = late_pattern(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_OPENING = (
    r"^\W*(?:(?:ok(?:ay)?|sure|great|perfect|alright|all\s+right|of\s+course"
    r"|no\s+problem|absolutely|certainly|done|good|yes"
    r"|thanks?(?:\s+you)?|right"
    r"|thanks\s+for\s+(?:letting\s+me\s+know|telling\s+me|the\s+update))\b\W*)*"
)
_TOOK_DOWN = r"(?:noted|recorded|updated|corrected|changed|switched|moved|rescheduled|saved|logged)"
_CONFIRMS = late_pattern(
    rf"{_OPENING}(?:(?:duly\s+)?(?:{_TOOK_DOWN}|got\s+(?:it|that)|understood)(?=\s*(?:[:,;.!–—-]|that\b|to\b|your\b|the\b|all\b|$))"
    rf"|i(?:'ve|\s+have)\s+(?:now\s+|just\s+|also\s+)?(?:{_TOOK_DOWN}|made\s+a\s+note|set\s+(?:it|that|the|your)\b)"
    r"|i(?:'ll|\s+will)\s+(?:remember|keep|note|make\s+(?:sure|a\s+note)|use|stick|avoid|always|never|stop|only|call\s+you|address\s+you)\b"
    rf"|(?:the|your|our|that|this|it)\s+(?:\w+\s+){{0,4}}?(?:is|are|has\s+been|have\s+been)\s+(?:now\s+)?(?:{_TOOK_DOWN}|set\s+to)\b)"
    r"|^(?:(?:好的?|好嘞|行|收到|了解|可以的?|没问题|当然|嗯+|谢谢(?:您|你)?(?:的)?(?:提醒|告知)?|ok)[了啦吧呢哈]?[\s,，。.!！~～]*)*"
    r"(?:[^,，。.!！?？:：]{0,10}?(?:已经?|都)(?:[为帮给替]?[你您])?[^,，。!！?？]{0,10}?(?:备注|登记|更新|更正|修改|调整|记[录下好住]|改[为成到回好]|换[为成回好]|设[为成置]|录入|保存)"
    r"|我?(?:会)?记(?:住|下|好)(?:来|了|啦)?|明白|清楚了|以后(?:不会|会|都|不再)"
    r"|[^,，。!！?？:：]{1,12}(?:已|就)?(?:改为|更正为|更新为|改成|换成|设为|定为))",
    re.IGNORECASE,
)
"""Matches the beginning of a reply that confirms something."""
_BEGINS_WORK = late_pattern(
    r"^\W*(?:here(?:'s|\s+is|\s+are|\s+you\s+go)|below\b|let\s+me\b|i'll\s+(?:check|look|find|search)|以下|下面|这是|我来|我先|让我)",
    re.IGNORECASE,
)
"""Matches a sentence that begins an answer or work, and repeats words of the question only for that."""


def confirming_words(reply: str) -> str:
    """Return the sentences of an assistant's reply that confirm what the user laid down; "" if none do.

    They are the first sentence of a short reply that says that something was noted, changed or understood, and the
    next one if the first says no more than that.
    """
    if not reply or len(reply) > _LONGEST_REPLY:
        return ""
    sentences = [each for each in _SENTENCE_END.split(reply.strip()) if each]
    words = sentences[0] if sentences else ""
    if len(words) < _SHORT and len(sentences) > 1 and not _BEGINS_WORK.match(sentences[1]):
        words = f"{words} {sentences[1]}"
    asks = "?" in words or "？" in words
    if asks or len(words) > _LONGEST_CONFIRMATION:
        return ""
    return words if _CONFIRMS.match(plain_characters(words)) else ""


def is_confirmed(sentence: str, confirmation: str) -> bool:
    """Return True if a confirmation (result of `confirming_words`) repeats words of a user's sentence."""
    if not confirmation:
        return False
    repeated = {*content_terms(plain_characters(sentence))}
    repeated &= {*content_terms(plain_characters(confirmation))}
    return len(repeated) >= _LEAST_REPEATED
