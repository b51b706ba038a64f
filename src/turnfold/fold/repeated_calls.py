"""Merges repeated tool calls, so that a summary needs one line for them.

Identical calls become one line with their number and the last result. The calls of one tool on several files become one
line with the names of the files: after a long tool loop, an agent needs to know which files were read, written and
changed, more than what it wrote into them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnfold._lazy_loading import late_pattern
from turnfold.fold.summary_input import (
    Passage,
    brief_call,
    file_of_line,
    is_call,
    is_tool,
    prefix_of,
    starts_with_label,
)
from turnfold.text import clean_text, plain_path, single_line

__all__ = (
    "common_folder",
    "is_counted_call",
    "list_called_files",
    "merge_repeated_calls",
    "only_reads",
)


_FEWEST = 3
"""Least identical calls that are merged: two often frame a change, such as tests before and after it."""
_COUNTED = late_pattern(r" ×(\d{1,9})\Z")
_FILES_SHARE = 0.2
"""Share of a summary's token limit that the list of files which one tool was called for may take; further files are
only counted."""
_READS = late_pattern(
    r"(?<![a-z])(?:read|view|open|cat|show|get|list|load|fetch)(?![a-z])|\A(?:Read|View|Open|Show|Get|List|Load|Fetch)"
)
_HEADS = {"en": "files", "zh": "文件"}
_OTHERS = {"en": "and {more} more", "zh": "另有 {more} 个"}
_FILE_LINE = late_pattern(r"(?P<command>[^\W\d]\w{0,63})(?: \[(?P<root>[^\]]*)\])? (?P<files>.+)\Z")
_MORE = late_pattern(r"(?:and|另有) (\d{1,9}) (?:more|个)\Z")
_LEAST_ROOT = 12
"""Least characters of the folder that all files of a line share, for it to be written once in front instead of before
each file."""


def is_counted_call(speaker: str) -> bool:
    """Return True if a speaker, or the beginning of a line, is a tool call with a number: `assistant calls look ×3`."""
    label = speaker.rstrip(" :：")
    return is_call(label) and _COUNTED.search(label) is not None


def _split_count(speaker: str) -> tuple[str, int]:
    """Split the speaker of a repeated call into the speaker without a count, and the count."""
    counted = _COUNTED.search(speaker)
    return (speaker[: counted.start()], int(counted[1])) if counted else (speaker, 1)


def only_reads(speaker: str) -> bool:
    """Return True if the name of a called tool suggests that the tool only reads: `assistant calls read_file`."""
    return _READS.search(_split_count(speaker)[0].split(" ")[-1]) is not None


def merge_repeated_calls(
    passages: Sequence[Passage], previous: str, *, chinese: bool
) -> tuple[list[Passage], str]:
    """Return passages and previous summary with identical calls merged: `assistant calls look ×80`.

    Of their results only the last stays. If the previous summary has a line for the same call, that line is removed and
    its number is added to the new one.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for at, passage in enumerate(passages):
        if is_call(passage.speaker):
            places.setdefault((passage.speaker, passage.text), []).append(at)
    if not places:
        return list(passages), previous
    lines = previous.split("\n")
    told = _told_calls(lines)
    results = _results(passages)
    dropped: set[int] = set()
    merged: dict[int, Passage] = {}
    for (speaker, text), at in places.items():
        call = passages[at[-1]]
        label = prefix_of(speaker, chinese=chinese).rstrip(" :：")
        bodies = {single_line(clean_text(each)) for each in (text, brief_call(call).text)}
        before = [pair for body in sorted(bodies) for pair in told.get((label, body), ())]
        count = len(at) + sum(number for _, number in before)
        if count < _FEWEST:
            continue
        for line, _ in before:
            lines[line] = ""
        dropped.update(at[:-1], (results[each] for each in at[:-1] if each in results))
        merged[at[-1]] = replace(call, speaker=f"{speaker} ×{count}")
    kept = [merged.get(at, each) for at, each in enumerate(passages) if at not in dropped]
    return kept, "\n".join(line for line in lines if line)


def _told_calls(lines: Sequence[str]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Return {(speaker, arguments): [(line, number of calls)]} of the lines of a summary that list tool calls."""
    told: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for at, line in enumerate(lines):
        prefix = starts_with_label(line)
        label = prefix.rstrip(" :：")
        if is_call(label):
            counted = _COUNTED.search(label)
            name = label[: counted.start()] if counted else label
            number = int(counted[1]) if counted else 1
            told.setdefault((name, line[len(prefix) :]), []).append((at, number))
    return told


def _results(passages: Sequence[Passage]) -> dict[int, int]:
    """Return {index of a call: index of its result}; parallel calls of one tool are answered in their order."""
    results: dict[int, int] = {}
    waiting: dict[str, deque[int]] = {}
    for at, passage in enumerate(passages):
        if is_call(passage.speaker):
            waiting.setdefault(passage.speaker.rpartition(" calls ")[2], deque()).append(at)
        elif is_tool(passage.speaker):
            calls = waiting.get(passage.speaker.partition(":")[2])
            if calls:
                results[calls.popleft()] = at
    return results


@dataclass(slots=True)
class _FileCalls:
    """The calls of one tool on files: how often each file was named, the last named last."""

    speaker: str
    command: str
    counts: dict[str, int] = field(default_factory=dict[str, int])
    told: int = 0
    """Number of calls on the file that the previous summary mentions."""
    unnamed: int = 0
    """Number of further files that the previous summary counts without naming them."""
    at: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Indexes of the file's calls among the passages, each with the number of identical calls that it stands for."""
    lines: list[int] = field(default_factory=list[int])
    """Indexes of the lines of the previous summary that list calls on files."""

    def add(self, file: str, times: int = 1) -> None:
        self.counts[file] = self.counts.pop(file, 0) + times


def list_called_files(
    passages: Sequence[Passage],
    previous: str,
    *,
    limit: int,
    count: Callable[[str], int],
    chinese: bool,
) -> tuple[list[Passage], str]:
    """Return passages and previous summary with a tool's calls on files merged into one call that lists the files.

    `assistant calls Edit ×7: files [shop/app] src/main.py ×5, README.md ×2`. The files of a tool take at most a
    fifth of the `limit`; those named most often stay, of equal ones the last named.
    """
    groups: dict[tuple[str, str], _FileCalls] = {}
    for at, passage in enumerate(passages):
        if passage.file and is_call(passage.speaker):
            speaker, times = _split_count(passage.speaker)
            key = (prefix_of(speaker, chinese=chinese).rstrip(" :："), passage.command)
            group = groups.setdefault(key, _FileCalls(speaker, passage.command))
            group.at.append((at, times))
    lines = previous.split("\n")
    for at, line in enumerate(lines):
        _read_file_line(at, line, groups)
    dropped: set[int] = set()
    merged: dict[int, Passage] = {}
    for group in groups.values():
        places = [at for at, _ in group.at]
        for at, times in group.at:
            group.add(plain_path(passages[at].file), times)
        total = group.told + sum(times for _, times in group.at)
        if total == 1:
            continue  # one call alone is told with its other arguments
        text = _file_list(group, limit=int(limit * _FILES_SHARE), count=count, chinese=chinese)
        last = places.pop()
        merged[last] = Passage(f"{group.speaker} ×{total}", text, passages[last].position)
        dropped.update(places)
        for at in group.lines:
            lines[at] = ""
    kept = [merged.get(at, each) for at, each in enumerate(passages) if at not in dropped]
    return kept, "\n".join(line for line in lines if line)


def _read_file_line(at: int, line: str, groups: Mapping[tuple[str, str], _FileCalls]) -> None:
    """Add the files of a line of the previous summary to the calls of the same tool."""
    prefix = starts_with_label(line)
    label, times = _split_count(prefix.rstrip(" :："))
    words = line[len(prefix) :]
    file, command = file_of_line(words)
    told = _FILE_LINE.match(words) if not file and is_counted_call(prefix) else None
    root = ""
    if told is not None:
        command = "" if told["command"] in _HEADS.values() else told["command"]
        root = told["root"] or ""
    group = groups.get((label, command)) if file or told else None
    if group is None:
        return
    group.lines.append(at)
    group.told += times
    if file:
        group.add(plain_path(file), times)
    for each in told["files"].split(", ") if told else ():
        if more := _MORE.match(each):
            group.unnamed += int(more[1])
            continue
        times = _COUNTED.search(each)
        file = each[: times.start()] if times else each
        group.add(f"{root}/{file}" if root else file, int(times[1]) if times else 1)


def _file_list(group: _FileCalls, *, limit: int, count: Callable[[str], int], chinese: bool) -> str:
    """Return the files of a group as one line of at most about `limit` tokens, with one file at least."""
    files = list(group.counts)
    root = common_folder(files)
    head = group.command or _HEADS["zh" if chinese else "en"]
    head += f" [{root}]" if root else ""
    room = limit - count(head)
    shown: set[str] = set()
    newest = {file: at for at, file in enumerate(files)}
    for file in sorted(files, key=lambda each: (-group.counts[each], -newest[each])):
        room -= count(f", {_file_with_count(file, root, group)}")
        if room < 0 and shown:
            break
        shown.add(file)
    told = [_file_with_count(file, root, group) for file in files if file in shown]
    more = len(files) - len(shown) + group.unnamed
    if more:
        told.append(_OTHERS["zh" if chinese else "en"].format(more=more))
    return f"{head} {', '.join(told)}"


def _file_with_count(file: str, root: str, group: _FileCalls) -> str:
    times = group.counts[file]
    name = file[len(root) + 1 :] if root else file
    return f"{name} ×{times}" if times > 1 else name


def common_folder(files: Sequence[str]) -> str:
    """Return the folder that all files are in if its path has at least `_LEAST_ROOT` characters, else ""."""
    folders = [file.split("/")[:-1] for file in files]
    shared: list[str] = []
    for names in zip(*folders, strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    root = "/".join(shared)
    return root if len(root) >= _LEAST_ROOT else ""
