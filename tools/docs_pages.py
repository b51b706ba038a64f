"""The pages of the documentation as its build and its tests see them: where they are, how they link, what they show.

A page of the site is `docs/<language>/<name>`; the two languages are twins. A link is resolved in the project's own
tree, so that it works on a code host as well; the build turns it into the address it has on the site.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from markdown_it import MarkdownIt

__all__ = (
    "DOCS",
    "LANGUAGES",
    "ROOT",
    "Fence",
    "Link",
    "address",
    "code_words",
    "fences",
    "first_sentence",
    "heading_levels",
    "join_lines",
    "links",
    "pages",
    "relink",
    "site_place",
    "title",
)

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LANGUAGES = ("en", "zh")
KEPT_ELSEWHERE = {"operate/metrics.md": DOCS / "metrics.md"}
"""English pages at the path the first page of the project names."""

_FENCE = re.compile(r"^ *(```|~~~)")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]+`")
_WIDE = r"[\u2e80-\u9fff\uff00-\uffef]"
_BREAK = re.compile(f"(?<={_WIDE})\\n(?={_WIDE})")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")


@dataclass(frozen=True)
class Fence:
    """A fenced block: its language, its text, and the line of the document it starts on."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Link:
    """A link inside the project: its target as written, and whether it shows a picture."""

    text: str
    target: str
    image: bool


def pages(language: str, *, docs: Path = DOCS) -> dict[str, Path]:
    """The pages of one language by their name on the site."""
    folder = docs / language
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.md"))}
    if language == "en" and docs == DOCS:
        found |= KEPT_ELSEWHERE
    return dict(sorted(found.items()))


def address(name: str) -> str:
    """The address of a page on the site: "" for the first one."""
    path = PurePosixPath(name)
    folder = path.parent if path.name == "index.md" else path.with_suffix("")
    return "" if folder == PurePosixPath() else f"{folder}/"


def fences(document: str) -> list[Fence]:
    """The fenced blocks of a document, in order."""
    return [
        Fence(language=token.info.partition(" ")[0], text=token.content, line=token.map[0] + 1)
        for token in MarkdownIt().parse(document)
        if token.type == "fence" and token.map
    ]


def heading_levels(document: str) -> list[str]:
    """`h1`, `h2`, ... in order: what two languages must have in common."""
    return [token.tag for token in MarkdownIt().parse(document) if token.type == "heading_open"]


def title(document: str) -> str:
    """The text of the first heading."""
    found = re.search(r"^# (.+)$", document, re.MULTILINE)
    if found is None:
        raise ValueError("a page has no heading of the first level")
    return found.group(1).strip()


def first_sentence(document: str) -> str:
    """What a page says first, for a list of pages."""
    for block in re.split(r"\n\s*\n", document.partition("\n# ")[2] or document):
        text = " ".join(block.split())
        if text and not text.startswith(("#", "|", "```", "!", "-", "<")):
            plain = _LINK.sub(lambda found: found["text"], text).replace("**", "")
            return re.split(r"(?<=[.。])(?:\s|$)|(?<=。)", plain, maxsplit=1)[0]
    return ""


def _prose(document: str) -> Iterator[str]:
    """The lines outside fenced blocks."""
    inside = False
    for line in document.splitlines(keepends=True):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            yield line


def code_words(document: str) -> list[str]:
    """What stands between back quotes in the prose."""
    return [found.group()[1:-1] for line in _prose(document) for found in _CODE.finditer(line)]


def links(document: str) -> list[Link]:
    """The links that stay inside the project; a place on the same page is none."""
    return [
        Link(found["text"], found["target"], bool(found["image"]))
        for line in _prose(document)
        for found in _LINK.finditer(_CODE.sub(lambda code: "`" * len(code.group()), line))
        if not found["target"].startswith("#") and not _SCHEME.match(found["target"])
    ]


def relink(document: str, place: Callable[[str], str | None]) -> str:
    """The document with every inside link moved to where `place` says; one that has no place becomes its text."""
    lines: list[str] = []
    inside = False
    for line in document.splitlines(keepends=True):
        if _FENCE.match(line):
            inside = not inside
        lines.append(line if inside else _LINK.sub(lambda found: _moved(found, place), line))
    return "".join(lines)


def join_lines(document: str) -> str:
    """Chinese prose without the line breaks of its source: a browser would show each of them as a space."""
    blocks = re.split(r"(^ *```.*?^ *```$)", document, flags=re.MULTILINE | re.DOTALL)
    return "".join(block if at % 2 else _BREAK.sub("", block) for at, block in enumerate(blocks))


def _moved(found: re.Match[str], place: Callable[[str], str | None]) -> str:
    target, hash_mark, part = found["target"].partition("#")
    if not target or _SCHEME.match(target):
        return found.group()
    moved = place(target)
    if moved is None:
        return found["text"]
    return f"{found['image']}[{found['text']}]({moved}{hash_mark}{part})"


def site_place(page: str, source: Path, known: dict[str, Path]) -> Callable[[str], str | None]:
    """Where a link of the page `page`, written in the file `source`, leads on the site."""
    names = {path.resolve(): name for name, path in known.items()}
    here = PurePosixPath(page).parent

    def place(target: str) -> str | None:
        meant = Path(os.path.normpath(source.parent / target))
        name = names.get(meant)
        if name is None and meant.is_relative_to(DOCS / "images"):
            name = meant.relative_to(DOCS).as_posix()
        return None if name is None else Path(os.path.relpath(name, here)).as_posix()

    return place
