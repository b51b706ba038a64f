"""Detects messages that are mostly program output (logs, listings), which agents often send as a user message."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnfold._lazy_loading import late_pattern

__all__ = ("is_program_output",)


_MOST_READ = 24_000
"""Most characters of a text that are checked for program output; of a longer text, half of them from each end."""
_FEWEST = 3
"""A text counts as program output only if at least this many of its lines look like that."""
_PROMPT = late_pattern(
    r"\s*(?:\(Open file: |\(Current directory: |\[File: [^\n]*\(\d+ lines total\)|>>> |In \[\d+\]: "
    r"|\(\d+ more lines (?:above|below)\)|[\w.~@:/()\[\]-]{0,80}[$%](?:\s|$))"
)
_OUTPUT = late_pattern(
    r"""\s*(?:
        \d{1,6}(?:→|\t)                                          # a listing with line numbers
      | %\ Total\s+%\ Received | Dload\s+Upload
      | \d{1,3}\s+[\d.]+[kMG]?\s+\d[^\n]{0,80}(?:--:--|\d:\d\d:\d\d)   # progress of curl
      | </?[A-Za-z!][\w:-]*(?:[\s>/]|$)                          # HTML and XML
      | \[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d | \[?\d\d:\d\d:\d\d\b
      | \[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b[\]: ]
      | Traceback\ \( | File\ "[^"\n]+",\ line | at\ [\w$.<>]+\( | E\ {2,}
      | @@\ | \+\+\+\ | ---\ a/ | diff\ --git | index\ [0-9a-f]{7}
      | /[\w.+@-]+(?:/[\w.+@-]+)+/?$ | [dl-][rwx-]{9} | total\ \d+$ | ={5,} | _{5,} | \S+\ (?:PASSED|FAILED|SKIPPED)\b
      | [\[\]{}]{1,3},?$ | "[\w-]+"\s?: | [\w./-]+\.\w{1,5}:\d+: )""",
    re.VERBOSE,
)
_NUMBERED = late_pattern(r"\s*(\d{1,6}):(?!\d)")
_LIKE_CODE = late_pattern(
    r"\s*$|\s{2,}|\s?[#/@<{}()\[\]]|[^\n]*[;{}(:,=]\s*$|\s?(?:import|from|def|class|return)\b"
)
_LEAST_CODE = 0.25
"""Least share of code among numbered lines that count as program output; a user's own numbered list has no code."""
_STOPS = tuple(".!?:。！？：")
_WORDS = 3
"""A line counts as a sentence written by a person only if it has at least this many words."""


def is_program_output(text: str) -> bool:
    """Return True if at least three lines of a text, and most of them, are output of programs.

    Output is lines with rising line numbers, shell prompts, log lines, progress rows, HTML and the like. A text that
    begins or ends with a sentence and has no prompt is somebody's message with a log pasted into it.
    """
    if text.count("\n", 0, _MOST_READ) < _FEWEST - 1:
        return False
    if len(text) > _MOST_READ:
        text = f"{text[: _MOST_READ // 2]}\n{text[-_MOST_READ // 2 :]}"
    lines = [line for line in text.split("\n") if line.strip()]
    prompts = sum(1 for line in lines if _PROMPT.match(line))
    output = prompts + _numbered(lines)
    output += sum(1 for line in lines if not _PROMPT.match(line) and _OUTPUT.match(line))
    if output < _FEWEST or 2 * output <= len(lines):
        return False
    return prompts > 0 or not (_is_sentence(lines[0]) or _is_sentence(lines[-1]))


def _numbered(lines: Sequence[str]) -> int:
    """Return how many lines have rising numbers before a colon, unless hardly any of them looks like code."""
    before, count, code = -2, 0, 0
    for line in lines:
        found = _NUMBERED.match(line)
        if found is None:
            continue
        number = int(found[1])
        if number > before >= 0 and number - before <= _FEWEST:
            count += 1
            code += _LIKE_CODE.match(line, found.end()) is not None
        before = number
    return count if count and code >= _LEAST_CODE * count else 0


def _is_sentence(line: str) -> bool:
    line = line.strip()
    spoken = line[0].isalpha() and line.endswith(_STOPS) and not _OUTPUT.match(line)
    return spoken and (len(line.split()) >= _WORDS or not line.isascii())
