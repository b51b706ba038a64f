"""Whether a page and its twin in the other language show the same: headings, programs, names."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from tools.docs_pages import Fence, code_words, fences, first_sentence, heading_levels, title

__all__ = (
    "HAN",
    "PYTHON",
    "block_faults",
    "comments_of",
    "program_of",
    "strings_of",
    "twin_faults",
)

HAN = re.compile(r"[\u4e00-\u9fff]")
PYTHON = frozenset({"py", "python"})
_COMMENT = re.compile(r"(?:^|(?<=\s))#(?=\s).*", re.MULTILINE)
_QUOTED = re.compile(r'"[^"\n]*"|\'[^\'\n]*\'')


@dataclass(frozen=True)
class Program:
    """A block without its strings and comments, and the strings in order."""

    code: str
    strings: tuple[str, ...]


class _Blank(ast.NodeTransformer):
    """Take the text out of every string; what an f-string formats stays."""

    def __init__(self) -> None:
        self.strings: list[str] = []

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, str):
            return node
        self.strings.append(node.value)
        return ast.Constant("")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        constants = [part.value for part in node.values if isinstance(part, ast.Constant)]
        self.strings.append("{}".join(str(text) for text in constants))
        fields = [part for part in node.values if not isinstance(part, ast.Constant)]
        return ast.JoinedStr([self.visit(part) for part in fields])

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        format_spec = node.format_spec and ast.Constant(ast.unparse(node.format_spec))
        return ast.FormattedValue(self.visit(node.value), node.conversion, format_spec)


def program_of(fence: Fence) -> Program:
    """The program of a block; Python by its syntax tree, anything else by quotes and comments."""
    if fence.language in PYTHON:
        blank = _Blank()
        tree = blank.visit(ast.parse(fence.text))
        return Program(ast.dump(tree), tuple(blank.strings))
    bare = "\n".join(line.rstrip() for line in _COMMENT.sub("", fence.text).splitlines())
    return Program(_QUOTED.sub('""', bare), tuple(text[1:-1] for text in _QUOTED.findall(bare)))


def strings_of(document: str) -> list[str]:
    """The strings in all blocks of a document."""
    return [text for fence in fences(document) for text in program_of(fence).strings]


def comments_of(fence: Fence) -> list[str]:
    """The comments of a block, without their marks."""
    if fence.language in PYTHON:
        tokens = tokenize.generate_tokens(io.StringIO(fence.text).readline)
        found = [token.string for token in tokens if token.type == tokenize.COMMENT]
    else:
        found = _COMMENT.findall(fence.text)
    return [comment.lstrip("# ") for comment in found]


def block_faults(english: str, chinese: str) -> Iterator[str]:
    """Blocks that are not the same program. A string may differ only where the Chinese page has it in Chinese."""
    ours, theirs = fences(english), fences(chinese)
    if [one.language for one in ours] != [one.language for one in theirs]:
        yield "there are not the same code blocks"
        return
    for one, other in zip(ours, theirs, strict=True):
        here, there = program_of(one), program_of(other)
        if here.code != there.code or len(here.strings) != len(there.strings):
            yield f"the code of line {one.line} differs"
            continue
        for text, translated in zip(here.strings, there.strings, strict=True):
            if text != translated and not HAN.search(translated):
                yield f"line {one.line}: {text!r} is {translated!r} in the twin, and no Chinese"


def twin_faults(english: str, chinese: str) -> Iterator[str]:
    """What a page and its twin do not have in common."""
    if heading_levels(english) != heading_levels(chinese):
        yield "the headings differ"
    yield from block_faults(english, chinese)
    words = [set(code_words(page)) for page in (english, chinese)]
    if words[0] != words[1]:
        yield f"names that only one of them has: {sorted(words[0] ^ words[1])}"
    if not HAN.search(title(chinese) + first_sentence(chinese)):
        yield "the Chinese page is not in Chinese"
