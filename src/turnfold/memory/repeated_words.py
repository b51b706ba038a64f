"""Finds words in one part of a prompt that another part repeats.

The summary, the rules and the recalled passages of a context are all made from the same messages. The summary stays
as it is between two folds (compactions), because it is at the beginning of the prompt, which a provider caches. So the
rules leave out what the summary says, except for binding ones such as prohibitions, and the passages leave out what the
summary or the rules say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from turnfold._lazy_loading import late_pattern
from turnfold.fold import CHANGED_MARKS
from turnfold.text import single_line

__all__ = ("SaidWords",)


_OTHERS = late_pattern(
    r"^[^\w\n]*+(?:assistant|tool|助手|工具)\b[^:：\n]{0,40}[:：].*$", re.MULTILINE | re.IGNORECASE
)
"""Matches a line of a summary that quotes a speaker other than the user: "assistant: ...", 工具：…."""
_BEGINS = late_pattern(r"(?:^|[\n.,;:!?。，；：！？…\]）)”\"])[ \t]*$")
_STOPS = late_pattern(r"[ \t]*(?:$|[\n.,;:!?。，；：！？…（(“\"])")
"""Matches what may stand before and after words that form a sentence or clause."""
_ENDS = " \t\r\n.,;:!?。，；：！？…"


@dataclass(frozen=True, slots=True)
class SaidWords:
    """The user's words in a part of a prompt, to find out whether other words occur among them."""

    text: str
    """The user's words in the summary, each message as one line."""

    @classmethod
    def of_summary(cls, text: str) -> SaidWords:
        """Return the words of the user that a summary repeats."""
        return cls(_OTHERS.sub("", text))

    def has(self, words: str) -> bool:
        """Return True if these words occur in the user's words: as whole words, and not marked as changed later."""
        wanted = single_line(words).strip(_ENDS)
        start = self.text.find(wanted) if wanted else -1
        while start >= 0:
            before, after = self.text[:start], self.text[start + len(wanted) :]
            whole = _BEGINS.search(before[-3:]) and _STOPS.match(after)
            if whole and not before.endswith(tuple(CHANGED_MARKS.values())):
                return True
            start = self.text.find(wanted, start + 1)
        return False

    def found(self, texts: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Return the keys of the (key, words) pairs whose words occur in the user's words."""
        return frozenset(key for key, words in texts if self.has(words))
