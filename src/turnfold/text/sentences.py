"""Split a text into sentences, lines of code, table rows and JSON values: pieces that mean something on their own.

The extractive summariser keeps or drops whole pieces, so a piece must never end inside a number, a version or an
abbreviation, and tool output (tables, code, JSON) must be cut between rows, lines and values rather than at full stops.
Every piece is a slice of the cleaned source with runs of white space made one space: nothing is rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.text.cjk_ranges import CJK_TEXT

__all__ = (
    "LONGEST_SENTENCE",
    "Sentence",
    "SentenceKind",
    "clean_text",
    "single_line",
    "split_sentences",
)


SentenceKind = Literal["prose", "code", "row", "json"]
LONGEST_SENTENCE = 400
"""Number of characters above which a sentence is cut at a comma or a space."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One piece of a message: a sentence, a line of code, a table row or neighbouring leaves of a JSON value."""

    text: str
    kind: SentenceKind


_TERMINAL_CODES = late_pattern(r"\x1b\[[0-9;?]*[A-Za-z]")
_LINE_BREAKS = late_pattern("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_INVISIBLE = late_pattern(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

_CLOSERS = "[\"'”’」』）)\\]】》]*+"
# A run of signs is tried from its first sign only: if that is no boundary, none of the others is.
_BOUNDARY = late_pattern(
    rf"(?<![.!?])[.!?]+{_CLOSERS}(?=\s|$)"
    # A quoted question or sentence does not end the sentence around it: 关于“运费谁出？”，我已经记录。
    rf"|[。！？；]*[！？]{_CLOSERS}(?![，、：,])(?!(?<=[”’」』])[{CJK_TEXT}])|[。！？；]*[。；]{_CLOSERS}(?![，、：,])"
    rf"|…{{2,}}{_CLOSERS}|…(?=\s|$)"
    rf"|(?<=[{CJK_TEXT}])[.!?;]+(?=[{CJK_TEXT}])|(?<![!?])[!?]+(?=[{CJK_TEXT}])"
)
_ABBREVIATION = late_pattern(
    r"(?:^|[\s(\"'“])(?:[A-Z]|[A-Za-z](?:\.[A-Za-z])+|Mr|Mrs|Ms|Dr|Prof|Rev|Gen|Sen|St|Mt|Ave|Blvd|Fig|Eq|Sec|Vol|"
    r"Jr|Sr|Inc|Ltd|Co|Corp|vs|cf|al|approx|dept|est|min|max|ext|tel|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)$",
    re.IGNORECASE,
)
_INLINE_CODE = late_pattern(r"(?<!`)`[^`\n]{1,400}`(?!`)")
_GOES_ON = late_pattern(r"\s*+[a-z(\[{'\"]")
_MAY_END_SENTENCE = late_pattern(
    r"(?:etc|inc|ltd|co|corp|jr|sr|[ap]\.m|al|min|max|sec|est|ext|tel)$", re.IGNORECASE
)
_NUMBER_SIGN = late_pattern(r"(?:^|\s)(?:No|Nos|Art|p|pp)$", re.IGNORECASE)
_LIST_NUMBER = late_pattern(r"(?:^|[:：;；。，,(（]\s*)\d{1,2}$")
_SOFT_BREAK = late_pattern(
    rf"(?<=[,，、;；])(?!\d)\s*|(?<!\d)\s+|(?<=[{CJK_TEXT}])(?=[{CJK_TEXT}])"
)

_FENCE = late_pattern(r"\s*(?:```|~~~)")
_RULE = late_pattern(r"[\s|:+=_*#>-]+$")
_LINE_NUMBER = late_pattern(r"\s*\d{1,6}(?:→|\t)")
_COLON_NUMBER = late_pattern(r"\s*(\d{1,6}):(?!\d)")
_MARKER = late_pattern(r"(?:[-*•·▪]\s+|#{1,6}\s+|>\s+)+")
_TABLE_ROW = late_pattern(r"\s*\||[^|]*\|[^|]*\||[^\t]+\t[^\t]+\t")
_RECORD = late_pattern(r"[^=]*\w=[^\s=][^=]*\w=[^\s=]")  # a line with two pairs such as rate=200
_CODE_LINE = late_pattern(
    r"(?:import|from)\s+[\w.]+(?:\s+import\b.*)?$"
    r"|(?:def|class|return|const|let|var|function|public|private|static|fn|func|elif|if|for|while)\b[^.?!。？！]*[(){}=:;]$"
    r"|[\w.\[\]\"']+\s*(?:=|\+=|:=)\s*\S|[@$<]\w|//|/\*|#include\b"
)
_CODE_ENDS = ("{", "}", ";", "};", "})", "=>", "->", "\\", "):", "else:", "try:")
_JSON_START = late_pattern(r"\s*(?:\{\s*\"|\[\s*(?:\{|\[|\"|-?\d))")
_JSON_TOKEN = late_pattern(r"\"(?:[^\"\\]|\\.)*+\"|[{}\[\],:\"]|[^\s\"{}\[\],:]++", re.DOTALL)
_JSON_TOKEN_AFTER_OPEN_TEXT = late_pattern(r"[{}\[\],:\"]|[^\s\"{}\[\],:]++")
_JSON_ESCAPED_BREAK = late_pattern(r"(?:\\[nrt])+")
_JSON_ROW_ENOUGH = 60
_JSON_ROW_FULL = 140
_JSON_ROW_LONGEST = 320
"""Most characters of a nested object or array that counts as one row: an item of an order has about 200."""
_WRAPPED_LINE = 50


def clean_text(text: str) -> str:
    """Return `text` without control, bidirectional, tag and other invisible characters; line breaks become newlines."""
    if "\x1b" in text:
        text = _TERMINAL_CODES.sub("", text)
    return _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))


def single_line(text: str) -> str:
    """Return `text` with every run of white space replaced by one space, and no white space at the ends."""
    return " ".join(text.split())


def split_sentences(text: str, *, gap: str = "") -> list[Sentence]:
    """Return the sentences of `text` in order; there is at least one, unless the cleaned text is blank.

    `gap` is a line of the text that stands for a part that was left out; it becomes a sentence of its own.
    """
    cleaned = clean_text(text)
    is_json = _JSON_START.match(cleaned) is not None and cleaned.rstrip()[-1:] in "}]"
    if not gap:
        return _split_cleaned(cleaned, is_json=is_json)
    before, _, after = cleaned.partition(f"\n{gap}\n")
    return [
        *_split_cleaned(before, is_json=is_json),
        Sentence(gap, "prose"),
        *_split_cleaned(after, is_json=is_json),
    ]


def _split_cleaned(cleaned: str, *, is_json: bool) -> list[Sentence]:
    if is_json:
        pieces = list(_split_line(cleaned, "json"))
    else:
        pieces = [piece for line, kind in _lines(cleaned) for piece in _split_line(line, kind)]
    sentences = [Sentence(flat, kind) for piece, kind in pieces if (flat := single_line(piece))]
    if not sentences and (flat := single_line(cleaned)):
        return [Sentence(part, "prose") for part in _split_long(flat)]
    return sentences


def _lines(text: str) -> Iterator[tuple[str, SentenceKind]]:
    """Yield the lines of a text with their kind (prose, code, table row, JSON); prose wrapped at a column is joined."""
    fenced = False
    wrapped: list[str] = []
    lines = text.split("\n")
    numbered = _colon_numbered(lines)
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
            kind, content = "code", ""
        elif at in numbered:
            kind, content = "code", line[numbered[at] :]
        else:
            kind, content = _classified(line, fenced=fenced)
        continues = kind == "prose" and content[:1].islower() and content[:1].isascii()
        if wrapped and not continues:
            yield "\n".join(wrapped), "prose"
            wrapped = []
        if kind != "prose":
            yield content, kind
            continue
        wrapped.append(content)
        if len(line) < _WRAPPED_LINE or content[-1:] in ".!?:;。！？；：…":
            yield "\n".join(wrapped), "prose"
            wrapped = []
    yield "\n".join(wrapped), "prose"


def _colon_numbered(lines: Sequence[str]) -> dict[int, int]:
    """Return {index: where the content begins} of the lines of a listing such as `12:    total = 0`.

    The line before or after one has the number before or after it; "2023: we moved" has no such neighbour.
    """
    found: dict[int, tuple[int, int]] = {}
    for at, line in enumerate(lines):
        if match := _COLON_NUMBER.match(line):
            found[at] = (int(match[1]), match.end())
    return {
        at: end
        for at, (number, end) in found.items()
        if found.get(at - 1, (-1,))[0] == number - 1 or found.get(at + 1, (-1,))[0] == number + 1
    }


def _classified(line: str, *, fenced: bool) -> tuple[SentenceKind, str]:
    numbered = _LINE_NUMBER.match(line)
    if numbered:
        return "code", line[numbered.end() :]
    if fenced:
        return "code", line
    if _RULE.match(line):
        return "row", ""
    content = line.strip()
    marker = _MARKER.match(content)
    if marker:
        content = content[marker.end() :]
    if _JSON_START.match(content) and content[-1:] in "}]":
        return "json", content
    if _TABLE_ROW.match(content) or _RECORD.match(content):
        return "row", content
    is_code = content.endswith(_CODE_ENDS) or _CODE_LINE.match(content[:LONGEST_SENTENCE])
    return ("code" if is_code else "prose"), content


def _split_line(line: str, kind: SentenceKind) -> Iterator[tuple[str, SentenceKind]]:
    if kind == "json":
        pieces: Iterator[str] = _json_rows(line)
    elif kind == "prose":
        pieces = _split_prose(line)
    else:
        pieces = _split_long(line)
    for piece in pieces:
        yield piece, kind


def _split_prose(line: str) -> Iterator[str]:
    start = 0
    code = [span.span() for span in _INLINE_CODE.finditer(line)] if "`" in line else []
    inside = 0
    for match in _BOUNDARY.finditer(line):
        while inside < len(code) and code[inside][1] <= match.start():
            inside += 1
        if inside < len(code) and code[inside][0] < match.start():
            continue
        if not _is_false_stop(line, start, match):
            yield from _split_long(line[start : match.end()])
            start = match.end()
    yield from _split_long(line[start:])


def _is_false_stop(line: str, start: int, match: re.Match[str]) -> bool:
    """Return True if a sign ends no sentence: it belongs to a list number, an abbreviation or code."""
    if match[0] != ".":
        # In `f(a, ...) is` and `a ? b : c` the sentence goes on.
        inner = match[0].startswith("...") or (
            match[0] == "?" and line[match.start() - 1 : match.start()] == " "
        )
        return inner and _GOES_ON.match(line, match.end()) is not None
    before = line[max(start, match.start() - 14) : match.start()].lstrip()
    after = line[match.end() : match.end() + 3].lstrip()[:1]
    if _LIST_NUMBER.search(before) and after:
        return True
    if _NUMBER_SIGN.search(before):
        return after.isdigit()
    if not _ABBREVIATION.search(before):
        return False
    return not (_MAY_END_SENTENCE.search(before) and (after.isupper() or not after))


def _split_long(piece: str) -> Iterator[str]:
    """Yield `piece` in parts of about LONGEST_SENTENCE, cut at commas, else spaces, else between CJK characters.

    A run with none of these, such as a long number or a token, stays whole however long it is.
    """
    if len(piece) <= LONGEST_SENTENCE:
        yield piece
        return
    start = comma = soft = 0
    for match in _SOFT_BREAK.finditer(piece):
        if match.end() - start > LONGEST_SENTENCE and soft > start:
            cut = comma if comma - start > LONGEST_SENTENCE // 4 else soft
            yield piece[start:cut]
            start = cut
        soft = match.end()
        if piece[match.start() - 1 : match.start()] in (",", "，", "、", ";", "；"):
            comma = soft
    yield piece[start:]


def _json_rows(text: str) -> Iterator[str]:
    """Yield slices of JSON with neighbouring values and their keys.

    An item (an object with plain values) that fits a row is never divided, and where one ends that does not fit, a row
    ends: so no value is shown with the key of its neighbour.
    """
    start, end, size = -1, 0, 0
    for piece in _json_pieces(text):
        ends = piece.sign == "}" or (
            size + piece.size > _JSON_ROW_LONGEST
            if piece.sign == "{}"
            else size >= (_JSON_ROW_FULL if piece.sign == "," else _JSON_ROW_ENOUGH)
            if piece.sign
            else False
        )
        if ends and start >= 0:
            yield from _split_leaf(text[start:end])
            start, size = -1, 0
        if piece.size:
            start = piece.start if start < 0 else start
            end, size = piece.end, size + piece.size
        if piece.sign == "{}" and size >= _JSON_ROW_ENOUGH:
            yield from _split_leaf(text[start:end])
            start, size = -1, 0
    if start >= 0:
        yield from _split_leaf(text[start:end])


class _JsonPiece(NamedTuple):
    """A part of a JSON text: a value, a whole object or array with its key, or a sign between them."""

    sign: Literal["", "{}", "{", "}", ","]
    """`{}` for a whole object or array, `{` for the key of one that is too long for a row, `}` for the end of such a
    one."""
    start: int = 0
    end: int = 0
    size: int = 0
    """Number of characters of the part, without white space at the beginning of lines."""


def _json_pieces(text: str) -> Iterator[_JsonPiece]:
    """Yield the parts of a JSON text; the outermost object or array is always divided."""
    tokens = [token.span() for token in _json_tokens(text) if token[0] != ":"]
    sizes = [0, *accumulate(end - start + 1 for start, end in tokens)]
    closings, records = _json_closings(text, tokens)
    at, depth = 0, 0
    while at < len(tokens):
        start, end = tokens[at]
        opening = at + 1 if text[start] not in "{}[]," and at + 1 in closings else at
        upto = closings.get(opening, at)
        most = _JSON_ROW_LONGEST if opening in records else _JSON_ROW_FULL
        if opening in closings and depth and sizes[upto] - sizes[at] <= most:
            leaves = [span for span in tokens[at:upto] if text[span[0]] not in "{}[],"]
            if leaves:
                yield _JsonPiece("{}", leaves[0][0], leaves[-1][1], sizes[upto] - sizes[at])
            at = upto
        elif opening in closings:
            if opening > at:
                yield _JsonPiece("{", start, end, end - start)
            at, depth = opening + 1, depth + 1
        elif text[start] in "}]":
            yield _JsonPiece("}")
            at, depth = at + 1, max(depth - 1, 0)
        elif text[start] == ",":
            yield _JsonPiece(",")
            at += 1
        else:
            yield _JsonPiece("", start, end, end - start + 1)
            at += 1


def _json_closings(text: str, tokens: Sequence[tuple[int, int]]) -> tuple[dict[int, int], set[int]]:
    """Return {index of each opening bracket: index after its closing one}, and those of objects with plain values.

    A bracket that is never closed ends with the text. An object with plain values is one thing, such as an item; one
    that only holds other objects is a list of things.
    """
    closings: dict[int, int] = {}
    records: set[int] = set()
    opened: list[int] = []
    for at, (start, _) in enumerate(tokens):
        if text[start] in "{[":
            closings[at] = len(tokens)
            opened.append(at)
        elif text[start] in "}]":
            if opened:
                closings[opened.pop()] = at + 1
        elif opened and text[start] != ",":
            after = tokens[at + 1][0] if at + 1 < len(tokens) else start
            if text[after] not in "{[":
                records.add(opened[-1])
    return closings, records


def _json_tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the tokens of JSON; after a quotation mark that is never closed, nothing is read as a string.

    No later mark can be closed either, and each would cost a search to the end of the text.
    """
    for token in _JSON_TOKEN.finditer(text):
        if token[0] == '"':
            yield from _JSON_TOKEN_AFTER_OPEN_TEXT.finditer(text, token.start())
            return
        yield token


def _split_leaf(row: str) -> Iterator[str]:
    """Yield a row of JSON unchanged or, if it contains a long string, the sentences of that string."""
    row = single_line(row)
    if len(row) <= LONGEST_SENTENCE:
        yield row
        return
    for part in _JSON_ESCAPED_BREAK.split(row):
        yield from _split_prose(part)
