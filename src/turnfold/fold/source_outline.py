"""The outline of a source file that a tool returned: what the file defines, in one line of a summary.

An agent that reads files fills its log with code. Single lines of a file tell nothing without the others, and recall
finds them word for word. What helps the agent to go on is which files it has seen and what is in them: the names of
classes, functions and modules, and constants with their values.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, islice

from turnfold._lazy_loading import late_pattern
from turnfold.fold.summary_input import Passage

__all__ = ("outlined",)


_CODE_FILE = late_pattern(
    r"\.(?:astro|bash|[ch]|cc|cjs|clj|cpp|cs|css|cu|dart|eex|erb|erl|exs?|fs|go|gradle|groovy|h(?:eex|pp|s|tml)|java"
    r"|[cm]?jsx?|jl|kts?|lua|m|mm|ml|nim|php|pl|pm|ps1|pyi?|r|rb|rs|s[ac]ss|scala|sh|sol|sql|svelte|swift|tcl|tf"
    r"|[cm]?tsx?|vim|vue|zig)\Z"
)
_LISTED = late_pattern(r"[ \t]*(\d{1,6})(?:→|\t|:(?!\d))")
"""The number of a line in a listing."""
_FEWEST_LINES = 8
"""Least lines of a file whose outline is used; fewer are kept as they are."""
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|override|inline|virtual|sealed"
    r"|partial|open|data|unsafe|extern|declare|pub(?:\([a-z]+\))?)\s+)*"
)
_DEFINED = late_pattern(
    rf"\s*{_MODIFIERS}(?:class|interface|struct|enum|trait|impl|protocol|module|namespace|defmodule|defprotocol|object"
    r"|record|type|def|defp|defmacro|defn|fn|func|function\*?|fun|sub|CREATE TABLE|create table)\s+"
    r"(?:\([^()\n]*\)\s*)?(?P<name>[^\W\d][\w$.]*[?!]?)"
    rf"|\s*{_MODIFIERS}(?:const|let|var|val)\s+(?P<assigned>[^\W\d][\w$]*)\s*(?::[^=\n]+)?=\s*"
    r"(?:async\s*)?(?:function\b|\([^()\n]*\)[^=\n]*=>|[\w$]+\s*=>)"
)
_CONSTANT = late_pattern(
    rf"\s*{_MODIFIERS}(?:(?:const|let|var|val|#define)\s+)?(?P<name>[@_]?[A-Z][A-Z0-9_]{{2,40}}|@[a-z][a-z0-9_]{{2,40}})"
    r"\s*(?::[^=\n]{1,40})?(?:=|\s)\s*(?P<value>-?\d[\d_.,]*\w{0,3}|\"[^\"\n]{1,40}\"|'[^'\n]{1,40}')[;,]?\s*(?:[#/].*)?\Z"
)
_MOST_CONSTANTS = 6
_LONGEST_NAMES = 220
"""Most characters of the names in an outline; the others are counted. A longer line would be split into sentences."""
_WORDS = {
    "en": ("{file} (lines {first}-{last})", " defines ", ", ", " and {more} more"),
    "zh": ("{file}（第 {first}-{last} 行）", "定义了 ", "、", " 等 {all} 个"),
}


def outlined(passage: Passage, *, root: str, chinese: bool) -> Passage:
    """Return the passage with the outline of its source file as text; unchanged if it is no source file.

    `root` is the folder that all files of the summary are in; it is left out of the path.
    """
    if not _CODE_FILE.search(passage.file) or passage.unread:
        return passage
    lines = [line for line in passage.text.splitlines() if line.strip()]
    if len(lines) < _FEWEST_LINES:
        return passage
    found = list(map(_LISTED.match, lines))
    listed = [match for match in found if match]
    if len(listed) * 2 > len(lines):
        numbers = [int(match[1]) for match in listed]
        code = [
            line[match.end() :] if match else line for line, match in zip(lines, found, strict=True)
        ]
    else:
        numbers, code = [1, passage.text.strip("\n").count("\n") + 1], lines
    words = _WORDS["zh" if chinese else "en"]
    file = passage.file.removeprefix(f"{root}/") if root else passage.file
    head = words[0].format(file=file, first=min(numbers), last=max(numbers))
    definitions = _definitions(code, words)
    return replace(passage, text=head + definitions) if definitions else passage


def _definitions(code: list[str], words: tuple[str, str, str, str]) -> str:
    """Return the names that lines of code define, and their constants with values; "" if there are none."""
    defined = (match["name"] or match["assigned"] for match in map(_DEFINED.match, code) if match)
    constants = (match for match in map(_CONSTANT.match, code) if match)
    told = (f"{match['name']} = {match['value']}" for match in islice(constants, _MOST_CONSTANTS))
    names = list(dict.fromkeys((*told, *defined)))
    if not names:
        return ""
    _, defines, comma, rest = words
    lengths = accumulate(len(name) + len(comma) for name in names)
    shown = sum(length <= _LONGEST_NAMES for length in lengths) or 1
    more = len(names) - shown
    end = rest.format(more=more, all=len(names)) if more else ""
    return f"{defines}{comma.join(names[:shown])}{end}"
