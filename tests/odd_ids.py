"""Ids that a program might take for one another: look-alikes, other forms of a text, paths, encodings, white space."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ("ALIKE", "odd_ids")

ALIKE: tuple[str, ...] = (
    "café", "cafe\u0301", "CAFÉ", "ｃａｆé", "cafe", "саfe", "cafe ", " cafe", "cafe\u200b", "\u200bcafe", "\ufeffcafe",
    "cafe\u202c", "\u202ecafe", "cafe\u00ad", "ß", "ss", "SS", "ſs", "ı", "i", "I", "İ", "ﬁ", "fi", "\u212a", "K", "k",
    "\u212b", "Å", "A\u030a", ".", "..", "../x", "..%2fx", "..%2Fx", "%2e%2e/x", "%2e%2e%2fx", "%252e", "..\\x", "/x",
    "x", "x/", "x//", "./x", "x/.", "%c0%af", "%00", "%", "%%", "%2", "a_b", "a%b", "a*b", "a?b", "a#b", "a:b", "a;b",
    "a+b", "a b", "a\tb", "a\nb", "a\r\nb", "a\x7fb", "a\x1bb", "a\u2028b", "0", "00", "1", "1.0", "null", "NULL",
    "None", "'", '"', "\\", "{a}", "[a]", "😀", "😀\ufe0f", "你好", "你 好", "x" * 511, "x" * 512,
)  # fmt: skip
"""No two of them are the same id."""


def odd_ids() -> st.SearchStrategy[str]:
    """Ids that stores take: some of these, and two of them joined."""
    joined = st.tuples(st.sampled_from(ALIKE[:-2]), st.sampled_from(["", "/", "%2f", "\u0301"]))
    return st.one_of(st.sampled_from(ALIKE), joined.map("".join))
