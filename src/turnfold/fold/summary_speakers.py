"""Speakers of summary lines: writes and parses the name before a line, and weighs the speaker's words.

A summary must say who stated what: a rule that the user gave is binding, the same words in a web page that a tool
fetched are not. So every line begins with its speaker, and the speakers of an earlier summary are parsed from its
lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.text import clean_text, is_chinese, single_line

__all__ = (
    "ANNEX_HEADINGS",
    "as_summary",
    "is_call",
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
"""The heading of the annex, the missing facts that are appended to a summary; by language."""

_CHINESE_ROLES = {
    "user": "用户", "assistant": "助手", "system": "系统", "developer": "开发者", "tool": "工具", "function": "函数",
    "summary": "摘要",
}  # fmt: skip
_ROLES = {name: role for role, chinese in _CHINESE_ROLES.items() for name in (role, chinese)}
_VOICES = {  # role -> weight of its words
    "user": 1.0, "system": 1.0, "developer": 1.0, "summary": 1.0, "assistant": 0.75, "tool": 0.45, "function": 0.45,
}  # fmt: skip
_NAMED_SPEAKER_VOICE = 0.9
_FIRST_WORD = late_pattern(r"[:\s]")
_PREFIXED = late_pattern(
    r"(?P<label>[^\s:：](?:[^:：\n]{0,160}[^\s:：])?(?::[\w.-]{1,80})?)(?:: |：)(?=\S)"
)
_NOT_IN_TOOL_NAMES = late_pattern(r"[^\w.-]+")
_LONGEST_TOOL_NAME = 64
_LONGEST_NAME = 64
"""Most characters of a speaker's own name."""
_BULLET = late_pattern(r"\s*(?:[-*•]\s+)?")


@lru_cache(maxsize=256)
def role_of(speaker: str) -> str:
    """Return, in English, the role that a name such as `tool:get_order` begins with; any other name in lower case."""
    name = speaker.strip().lower()
    return _ROLES.get(_FIRST_WORD.split(name, maxsplit=1)[0], name)


def is_role(name: str) -> bool:
    """Return True if a speaker's name is a role such as `user` or `tool:search`, not a name of its own."""
    return role_of(name) in _VOICES


def is_tool(speaker: str) -> bool:
    """Return True if the speaker is a tool or function."""
    return role_of(speaker) in ("tool", "function")


def is_call(speaker: str) -> bool:
    """Return True if the speaker is a message that calls a tool, such as `assistant calls search`."""
    return " calls " in speaker or " 调用 " in speaker


def voice_of(speaker: str) -> float:
    """Return the weight of a speaker's words, 0 to 1: highest for users and system messages, lowest for tools."""
    return _VOICES.get(role_of(speaker), _NAMED_SPEAKER_VOICE)


def prefix_of(speaker: str, *, chinese: bool) -> str:
    """Return the prefix of a speaker's line, such as `user: ` or `用户：`; roles are in the language of the summary."""
    label = single_line(clean_text(speaker))
    if not label:
        return ""
    if not chinese:
        return f"{label}: "
    role = _FIRST_WORD.split(label, maxsplit=1)[0]
    rest = label[len(role) :].replace(" calls ", " 调用 ", 1)
    return f"{_CHINESE_ROLES.get(role, role)}{rest}："


def split_prefix(line: str, labels: frozenset[str] = frozenset()) -> tuple[str, str]:
    """Split a line into speaker and words; the speaker is "" if it is neither a role nor one of `labels`."""
    prefix = _PREFIXED.match(line)
    if prefix is None or not (prefix["label"] in labels or role_of(prefix["label"]) in _VOICES):
        return "", line
    return prefix["label"], line[prefix.end() :]


def tool_name(name: str) -> str:
    """Return a tool's name for use in a speaker's name, with nothing but letters, digits, `.`, `-` and `_`."""
    return _NOT_IN_TOOL_NAMES.sub("_", name)[:_LONGEST_TOOL_NAME]


def starts_with_label(line: str) -> str:
    """Return the beginning of a line up to its colon if that may be a speaker's name; else ""."""
    if ":" not in line and "：" not in line:
        return ""
    found = _PREFIXED.match(line)
    if found is None or not (is_role(found["label"]) or len(found["label"]) <= _LONGEST_NAME):
        return ""
    return found[0]


def line_of(speaker: str, words: str, *, chinese: bool) -> str:
    """Return a line of a summary: speaker and words; words that only look like a speaker's get the prefix `summary`."""
    prefix = prefix_of(speaker, chinese=chinese)
    if not prefix and _reads_as_spoken(words, frozenset()):
        prefix = prefix_of("summary", chinese=chinese)
    return prefix + words


def as_summary(text: str, speakers: Iterable[str] = ()) -> str:
    """Return a model's summary, changed so that no line reads as the words of one of the `speakers` or of a role.

    A line such as `user: ...` in a model's text is only the model's claim of what the user said, so it gets the speaker
    `summary`; so does a line that looks like the heading of the annex.
    """
    labels = frozenset(single_line(clean_text(speaker)) for speaker in speakers)
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
