r"""Find the file paths that a text mentions, so that a search can be limited to a file or a folder.

A text that mentions a path is found by that path and by each of its parent folders. `.\src\app.py:42` is the same as
`src/app.py`. A name without a folder counts as a path if it has an extension (`main.py`). Chinese is written without
spaces, so if Chinese characters touch a path, its part in Latin letters is taken as a path as well: 看src/app.py文件.

The time is linear in any text: the scan goes from one run of path characters to the next and never backtracks.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnfold._lazy_loading import late_pattern
from turnfold.text.words import found_in

__all__ = (
    "is_path",
    "paths_in",
    "plain_path",
)


_MOST_FOLDERS = 16
"""Most parent folders of a path that are returned, the outermost ones; the path itself is always returned."""
_LONGEST = 1024
"""Longest path in characters; a longer run of characters is taken for data, not for a path."""
_LONGEST_ENDING = 8
"""Most characters of a file extension; a name with a longer one is not taken for a file."""
_MAY_BE_PATH = late_pattern(r"[\\/.]")
_RUN = late_pattern(r"[\w.+@~\\/:-]+")
_LATIN = late_pattern(r"[A-Za-z0-9_.+@~\\/:-]+")
_SLASHES = late_pattern(r"[\\/]+")
_SCHEME = late_pattern(r"(?<![A-Za-z0-9+-])[A-Za-z][A-Za-z0-9+-]*+://")
_SENTENCE_END = ".:-"


def paths_in(text: str) -> frozenset[str]:
    """Return the file paths that `text` mentions and all their parent folders, each normalised by `plain_path`."""
    if not _MAY_BE_PATH.search(text):
        return frozenset()
    return frozenset(
        place
        for run in found_in(_RUN, text)
        if len(run) <= _LONGEST and _MAY_BE_PATH.search(run)
        for part in ((run,) if run.isascii() else (run, *_LATIN.findall(run)))
        for place in _places(part)
    )


def is_path(text: str) -> bool:
    """Return True if the whole text is one file path, such as `src/app.py`; spaces are allowed in it."""
    plain = plain_path(text)
    return (
        len(text) <= _LONGEST
        and "\n" not in text
        and not _SCHEME.match(text)
        and _is_path(text, plain)
    )


def plain_path(path: str) -> str:
    """Return a path normalised for comparison: forward slashes, no slash at the end, no leading `./`."""
    plain = _SLASHES.sub("/", path.strip())
    while plain.startswith("./"):
        plain = plain[2:]
    return plain.rstrip("/")


def _places(run: str) -> Iterator[str]:
    for written in _between_colons(_SCHEME.sub("", run).rstrip(_SENTENCE_END)):
        plain = plain_path(written)
        if not _is_path(written, plain):
            continue
        yield plain
        at = plain.find("/", 1)
        for _ in range(_MOST_FOLDERS):
            if at < 0:
                break
            yield plain[:at]
            at = plain.find("/", at + 1)


def _between_colons(run: str) -> list[str]:
    """Split a run of path characters at colons (`file:src/app.py:42`), but not after a drive letter (`C:`)."""
    parts = run.split(":")
    if len(parts) > 1 and len(parts[0]) == 1 and parts[1][:1] in ("\\", "/"):
        return [":".join(parts[:2]), *parts[2:]]
    return parts


def _is_path(written: str, plain: str) -> bool:
    if not plain.strip("./"):
        return False
    if "/" in plain or "\\" in written or "/" in written:
        return True
    name, _, ending = plain.rpartition(".")
    return bool(
        name and ending.isalnum() and ending[0].isalpha() and len(ending) <= _LONGEST_ENDING
    )
