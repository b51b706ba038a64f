"""Who said it: how a speaker is named at the start of a line, and how much weight the words carry.

A summary must say who stated what: a rule the user gave binds, the same words in a web page a tool
fetched do not. The name therefore stands before every line, and a line read back from an earlier
summary gives its speaker back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from turnfold.summary.sentences import clean_text, one_line
from turnfold.summary.terms import is_chinese

__all__ = (
    "ANNEX_HEADINGS",
    "as_summary",
    "is_role",
    "is_tool",
    "line_of",
    "prefix_of",
    "role_of",
    "split_prefix",
    "starts_with_label",
    "tool_name",
    "voice_of",
)

ANNEX_HEADINGS = {"en": "Also stated:", "zh": "另有提及："}
"""The line above the facts that are added to a summary."""

_CHINESE_ROLES = {
    "user": "用户", "assistant": "助手", "system": "系统", "developer": "开发者", "tool": "工具", "function": "函数",
    "summary": "摘要",
}  # fmt: skip
_ROLES = {name: role for role, chinese in _CHINESE_ROLES.items() for name in (role, chinese)}
_VOICES = {
    "user": 1.0, "system": 1.0, "developer": 1.0, "summary": 1.0, "assistant": 0.75, "tool": 0.45, "function": 0.45,
}  # fmt: skip
_NAMED_SPEAKER_VOICE = 0.9
_FIRST_WORD = re.compile(r"[:\s]")
_PREFIXED = re.compile(
    r"(?P<label>[^\s:：](?:[^:：\n]{0,160}[^\s:：])?(?::[\w.-]{1,80})?)(?:: |：)(?=\S)"
)
_NOT_IN_TOOL_NAMES = re.compile(r"[^\w.-]+")
_LONGEST_TOOL_NAME = 64
_LONGEST_NAME = 64
"""Characters that a speaker's own name has at most."""
_BULLET = re.compile(r"\s*(?:[-*•]\s+)?")


def role_of(speaker: str) -> str:
    """The role that opens a name such as `tool:get_order`, in English; other names stay themselves."""
    name = speaker.strip().lower()
    return _ROLES.get(_FIRST_WORD.split(name, maxsplit=1)[0], name)


def is_role(name: str) -> bool:
    """Whether a name reads like that of a role."""
    return role_of(name) in _VOICES


def is_tool(speaker: str) -> bool:
    """Whether the words come from a program rather than from a party to the conversation."""
    return role_of(speaker) in ("tool", "function")


def voice_of(speaker: str) -> float:
    """How much a speaker's words count: people and rules most, what tools print least."""
    return _VOICES.get(role_of(speaker), _NAMED_SPEAKER_VOICE)


def prefix_of(speaker: str, *, chinese: bool) -> str:
    """What stands before a speaker's sentence; the well-known roles are named in the language of the summary."""
    label = one_line(clean_text(speaker))
    if not label:
        return ""
    if not chinese:
        return f"{label}: "
    role = _FIRST_WORD.split(label, maxsplit=1)[0]
    return f"{_CHINESE_ROLES.get(role, role)}{label[len(role) :]}："


def split_prefix(line: str, labels: frozenset[str] = frozenset()) -> tuple[str, str]:
    """A line's speaker and its words; no speaker unless it is a known role or one of `labels`."""
    prefix = _PREFIXED.match(line)
    if prefix is None or not (prefix["label"] in labels or role_of(prefix["label"]) in _VOICES):
        return "", line
    return prefix["label"], line[prefix.end() :]


def tool_name(name: str) -> str:
    """The name of a tool as it stands in a speaker's: letters, digits, `.`, `-` and `_` only."""
    return _NOT_IN_TOOL_NAMES.sub("_", name)[:_LONGEST_TOOL_NAME]


def starts_with_label(line: str) -> str:
    """What stands before a colon at the beginning of a line, with the colon, if it may be a speaker's name; else ""."""
    found = _PREFIXED.match(line)
    if found is None or not (is_role(found["label"]) or len(found["label"]) <= _LONGEST_NAME):
        return ""
    return found[0]


def line_of(speaker: str, words: str, *, chinese: bool) -> str:
    """A line of a summary: who said it, and what. Words nobody is named for never read as somebody's."""
    prefix = prefix_of(speaker, chinese=chinese)
    if not prefix and _reads_as_spoken(words, frozenset()):
        prefix = prefix_of("summary", chinese=chinese)
    return prefix + words


def as_summary(text: str, speakers: Iterable[str] = ()) -> str:
    """What a model wrote as a summary, with no line that reads as the words of one of the `speakers` or of any role.

    A model repeats what it was shown. A line such as `user: ...` in its text is what the model says the user said, and
    it is kept under the name `summary`; so is a line that reads like the heading of the facts added behind.
    """
    labels = frozenset(one_line(clean_text(speaker)) for speaker in speakers)
    lines = text.splitlines()
    chinese = is_chinese(text)
    for at, line in enumerate(lines):
        start = _BULLET.match(line)
        words = line[start.end() :] if start else line
        if _reads_as_spoken(words, labels) or words.strip() in ANNEX_HEADINGS.values():
            lines[at] = (
                line[: len(line) - len(words)] + prefix_of("summary", chinese=chinese) + words
            )
    return "\n".join(lines)


def _reads_as_spoken(words: str, labels: frozenset[str]) -> bool:
    speaker, _ = split_prefix(words, labels)
    return bool(speaker) and role_of(speaker) != "summary"
