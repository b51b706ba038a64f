"""Who said it: how a speaker is named at the start of a line, and how much weight the words carry.

A summary must say who stated what: a rule the user gave binds, the same words in a web page a tool
fetched do not. The name therefore stands before every line, and a line read back from an earlier
summary gives its speaker back.
"""

from __future__ import annotations

import re

from turnfold.summary.sentences import clean_text, one_line

__all__ = ("is_tool", "prefix_of", "role_of", "split_prefix", "voice_of")

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
    r"(?P<label>[^\s:：](?:[^:：\n]{0,40}[^\s:：])?(?::[\w.-]{1,80})?)(?:: |：)(?=\S)"
)


def role_of(speaker: str) -> str:
    """The role that opens a name such as `tool:get_order`, in English; other names stay themselves."""
    name = speaker.strip().lower()
    return _ROLES.get(_FIRST_WORD.split(name, maxsplit=1)[0], name)


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
