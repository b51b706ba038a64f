"""Shortens a message so that it stays valid: text, tool arguments, tool results and media.

If mandatory parts of a prompt do not fit, the longest of them are shortened. Text keeps its beginning and its end
around a note that says how long it is in full and where to find it; tool arguments stay valid JSON; media and blocks
that cannot be shortened are replaced by a note. The cap is the most tokens that any single part may keep. The same
message and cap always give the same result, so a shortened message stays byte-identical from call to call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from turnfold.records import (
    AudioPart,
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.text import UnusualLine, clip, clip_end, count_upto, is_chinese, unusual_lines
from turnfold.tokens import TokenCounter

__all__ = (
    "READABLE",
    "SMALLEST_CAP",
    "common_cap",
    "may_be_shrunk_from",
    "media_left_out",
    "shrink_end",
    "shrink_lines",
    "shrink_message",
    "shrink_text",
    "shrinkable_costs",
)


SMALLEST_CAP = 8
"""Smallest cap in tokens: a shorter part is unreadable. A budget that would need a smaller cap is too small."""
READABLE = 64
"""Smallest cap in tokens at which a part is still well readable; before smaller caps are used, the parts may fill all
the room."""

_HEAD_SHARE = 2 / 3
"""Share of a shortened text that its beginning gets; the rest is for its end."""
_WHOLE_SHARE = 0.5
"""A shortened text is cut at the end of a line or word only if at least this share of it remains."""
_WORTH_CUTTING = 32
"""Least tokens of an item that is cut. If half of the room is less, the first item may take all of it."""
_SMALLEST_NOTE = "…"
_LANGUAGE_SAMPLE = 4_000
"""Number of characters at the beginning of a text by which the language of its note is chosen."""
_KINDS: dict[type, str] = {
    ImagePart: "image",
    AudioPart: "audio",
    FilePart: "file",
    OpaquePart: "opaque",
}
_KINDS_ZH = {"image": "图片", "audio": "音频", "file": "文件", "opaque": "内容块"}
_ANY_NOTE = re.compile(
    r"\n\[… (?:[0-9,]+ tokens in full(?:, (?:see|stored as) [^\n]*)?|全文共 [0-9,]+ token(?:，存为 [^\n]*)?) …\]\n"
    r"(?:((?:[^\n]+\n)+?)\[…\]\n)?|…"
)
"""Matches a note about omitted text, with the lines from the middle of the text that follow it."""
_END_NOTE = "\n[…]\n"
_MIDDLE_SHARE = 1 / 3
"""Share of a shortened text's room that unusual lines from its middle may take."""
_CONTINUES = re.compile("[ \n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|$")
"""Matches the beginning of a line that belongs to the item above it."""
_HEADING = re.compile(r"# |\[turn |\[第 ")
"""Matches the beginning of a heading, to which the items below belong."""
_LABEL = re.compile(
    r"##? [^\n]*\n ?|(?:- )?(?:\[[^\]\n]{1,40}\]:? |[^\n:：]{1,160}(?::[\w.-]{1,80})?(?:: |：))|[^\n]*\n ?|- "
)
"""Matches the label of an item (name, source, date): up to the first colon, or a first line that is a heading."""


def shrink_text(
    text: str, cap: int, count: Callable[[str], int], *, reference: str = "", unusual: bool = False
) -> str:
    """Return `text` in at most `cap` tokens: its beginning and end, with a note of its full length between them.

    `count` returns the tokens of a text. The note says where the whole text is stored if `reference` names that place.
    With `unusual`, the note is followed by lines of the omitted part that differ from most lines, such as errors in a
    log.
    """
    total = count(text)
    if total <= cap:
        return text
    note = f"\n{_length_note(text, total, reference)}\n"
    if 2 * count(note) > cap:
        note, unusual = _SMALLEST_NOTE, False

    def cut(room: int) -> str:
        head, end = _ends(text, room, count)
        return f"{text[:head]}{note}{text[end:]}"

    def cut_with_middle(room: int) -> str:
        most = int(room * _MIDDLE_SHARE)
        lines = _fitting(text, _ends(text, room - most, count), most, count)
        if not lines:
            return ""
        head, end = _ends(text, room - count(_joined(text, lines)), count)
        lines = [line for line in lines if head <= line.start and line.stop <= end]
        return f"{text[:head]}{note}{_joined(text, lines)}{text[end:]}" if lines else ""

    # One token less, because joining two texts may form an additional token.
    room = cap - count(note) - 1
    shorter = _fit(cut_with_middle, room, cap, count) if unusual else ""
    shorter = shorter or _fit(cut, room, cap, count)
    return shorter or (note if count(note) <= cap else "")


def _length_note(text: str, total: int, reference: str = "") -> str:
    """Return the note inside a shortened text: how long it is in full, and where it is stored; in its language."""
    if is_chinese(text[:_LANGUAGE_SAMPLE]):
        return f"[… 全文共 {total:,} token{f'，存为 {reference}' if reference else ''} …]"
    return f"[… {total:,} tokens in full{f', stored as {reference}' if reference else ''} …]"


def _ends(text: str, room: int, count: Callable[[str], int]) -> tuple[int, int]:
    """Return the index where the beginning of a text stops, and where its end starts.

    Both have about `room` tokens together.
    """
    head = _whole_lines(clip(text, int(room * _HEAD_SHARE), count))
    end = clip_end(text, max(room - count(head), 0), count, start=len(head))
    return len(head), _line_start(text, len(text) - len(end))


def _fitting(
    text: str, between: tuple[int, int], room: int, count: Callable[[str], int]
) -> list[UnusualLine]:
    """Return the most unusual lines of a part of the text that have at most `room` tokens together, in order."""
    chosen: list[UnusualLine] = []
    left = room - count(_END_NOTE)
    for line in unusual_lines(text, *between):
        cost = count(text[line.start : line.stop]) + 1
        if cost <= left:
            chosen.append(line)
            left -= cost
    return sorted(chosen)


def _joined(text: str, lines: Sequence[UnusualLine]) -> str:
    return "\n".join(text[line.start : line.stop] for line in lines) + _END_NOTE


def _whole_lines(head: str) -> str:
    """Return the beginning of a text up to its last line end or, if that loses too much, up to its last space.

    The text is returned unchanged if that loses too much too.
    """
    for mark in ("\n", " "):
        at = head.rfind(mark)
        if at > len(head) * _WHOLE_SHARE:
            return head[:at]
    return head


def _line_start(text: str, start: int) -> int:
    """Return the index of the first whole line of `text[start:]` or, if that loses too much, of the first whole word.

    Returns `start` if that loses too much too.
    """
    latest = start + (len(text) - start) * (1 - _WHOLE_SHARE)
    for mark in ("\n", " "):
        at = start if text.endswith(mark, 0, start) else text.find(mark, start) + 1
        if start <= at <= latest:
            return at
    return start


def _fit(cut: Callable[[int], str], room: int, cap: int, count: Callable[[str], int]) -> str:
    """Return `cut(room)` with `room` reduced until the text has at most `cap` tokens; "" if nothing fits."""
    while room > 0:
        shorter = cut(room)
        over = count(shorter) - cap
        if over <= 0:
            return shorter
        room -= over
    return ""


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a list: a line at the margin with the indented lines below it, and the heading above it."""

    heading: str
    text: str


def shrink_lines(text: str, cap: int, count: Callable[[str], int]) -> str:
    """Return `text` in at most `cap` tokens, with every line still under its heading or name; "" if no line fits.

    A line at the margin and the indented lines below it are one item. Whole items are left out from the middle; an item
    that is too long by itself is cut inside its text. No indented text becomes a line at the margin.
    """
    total = count(text)
    if total <= cap:
        return text
    items = list(_items(text))
    note = _length_note(text, total)
    if 2 * count(note) > cap:
        note = _SMALLEST_NOTE
    room = cap - count(note) - 1
    return _fit(lambda room: _some_items(items, room, note, count), room, cap, count)


def shrink_end(text: str, cap: int, count: Callable[[str], int]) -> str:
    """Return the beginning of `text` in at most `cap` tokens, cut after a line, and a note; "" if nothing fits.

    Used for texts of unknown structure, whose later lines may make no sense without the earlier ones.
    """
    total = count(text)
    if total <= cap:
        return text
    note = f"\n{_length_note(text, total)}"
    if 2 * count(note) > cap:
        note = _SMALLEST_NOTE

    def cut(room: int) -> str:
        head = clip(text, room, count)
        line = head.rfind("\n")
        head = (head[:line] if line > len(head) // 2 else head).rstrip()
        return head + note if head else ""

    return _fit(cut, cap - count(note), cap, count)


def _items(text: str) -> Iterator[_Item]:
    heading, lines = "", list[str]()
    for line in text.split("\n"):
        if lines and _CONTINUES.match(line):
            lines.append(line)
            continue
        if lines:
            yield _Item(heading, "\n".join(lines))
            lines = []
        if _HEADING.match(line):
            heading = line
        else:
            lines = [line]
    if lines:
        yield _Item(heading, "\n".join(lines))


def _some_items(items: Sequence[_Item], room: int, note: str, count: Callable[[str], int]) -> str:
    """Return the first and the last items that fit, with a note between them if some are left out; "" if none fits."""
    most = room // 2 if len(items) > 1 and room > 2 * _WORTH_CUTTING else room
    head: list[_Item] = []
    tail: list[_Item] = []

    def take(at: int, into: list[_Item], limit: int) -> int:
        """Add the item to `into` if it fits `limit`; return its tokens, or 0.

        If it is the first item, it is cut to fit.
        """
        under = into[-1].heading if into else ""
        heading = f"{items[at].heading}\n" if items[at].heading not in ("", under) else ""
        cap = most if head or tail else min(most, limit - count(heading) - 1)
        item = _shrunk_item(items[at], cap, count)
        cost = count(f"{heading}{item.text}\n") if item is not None else 0
        if item is None or cost > limit:
            return 0
        into.append(item)
        return cost

    first, last, limit = 0, len(items), int(room * _HEAD_SHARE)
    while first < last and (cost := take(first, head, limit if head else room)):
        first, room, limit = first + 1, room - cost, limit - cost
    while first < last and (cost := take(last - 1, tail, room)):
        last, room = last - 1, room - cost
    while first < last and (cost := take(first, head, room)):
        first, room = first + 1, room - cost
    if not head and not tail:
        return ""
    lines = [*_headed(head), *([note] if first < last else []), *_headed(tail[::-1])]
    return "\n".join(lines)


def _headed(items: Iterable[_Item]) -> Iterator[str]:
    """Yield the texts of list items; each heading is yielded once, before its first item."""
    under = ""
    for item in items:
        if item.heading not in ("", under):
            yield item.heading
        under = item.heading
        yield item.text


def _shrunk_item(item: _Item, cap: int, count: Callable[[str], int]) -> _Item | None:
    """Return the item in at most `cap` tokens, with its whole label; None if no readable text would be left."""
    if count(item.text) <= cap:
        return item
    found = _LABEL.match(item.text)
    label = found[0] if found else ""
    words = item.text[len(label) :]

    def cut(room: int) -> str:
        head = clip(words, int(room * _HEAD_SHARE), count).rstrip()
        tail = clip_end(words[len(head) :], room - count(head), count)
        return f"{label}{head}{_SMALLEST_NOTE}{tail}" if head else ""

    text = _fit(cut, cap - count(label) - count(_SMALLEST_NOTE) - 1, cap, count)
    return _Item(item.heading, text) if text else None


def may_be_shrunk_from(shown: str, text: str) -> bool:
    """Return True if `shown` is `text` or may be a result of `shrink_text` on it."""
    if shown in (text, ""):
        return True
    return any(
        text.startswith(shown[: note.start()])
        and text.endswith(shown[note.end() :])
        and all(line in text for line in (note[1] or "").split("\n"))
        for note in _ANY_NOTE.finditer(shown)
    )


def shrink_message(
    message: Message, cap: int, counter: TokenCounter, *, reference: str = ""
) -> Message:
    """Return `message` with every part of more than `cap` tokens shortened; the message itself if there is none.

    Text and tool arguments are shortened; an image, a recording, a file or an opaque part is replaced by a note;
    thinking is left out, because a provider verifies it word for word. `reference` names the full message in notes.
    """
    is_zh = is_chinese(message.text[:_LANGUAGE_SAMPLE])

    def shrink(part: Part) -> Part | None:
        return _shrink_part(part, cap, counter, reference, is_zh=is_zh)

    parts = tuple(smaller for part in message.parts if (smaller := shrink(part)) is not None)
    if parts == message.parts:
        return message
    if not parts:
        parts = (TextPart(_SMALLEST_NOTE),)  # providers refuse an empty message
    return Message.of(
        message.role,
        parts,
        name=message.name,
        extra=message.extra,
        labels=message.labels,
        origin=message.origin and message.origin.without_form(),
    )


def shrinkable_costs(message: Message, counter: TokenCounter) -> list[int]:
    """Return the tokens of each part that can be shortened; other tokens of a message are framing, ids and names."""
    return [cost for part in message.parts for cost in _costs(part, counter)]


def common_cap(costs: Iterable[int], room: int) -> int:
    """Return the largest cap with which parts of these token counts fit into `room` together; 0 if there is none."""
    ascending = sorted(costs)
    for index, cost in enumerate(ascending):
        even = room // (len(ascending) - index)
        if cost > even:
            return max(even, 0)
        room -= cost
    return ascending[-1] if ascending else 0


def _costs(part: Part, counter: TokenCounter) -> list[int]:
    match part:
        case ToolResult():
            return [counter.count_part(inner) for inner in part.content]
        case ToolCall():
            return [counter.count_text(part.arguments)]
        case _:
            return [counter.count_part(part)]


def _shrink_part(
    part: Part, cap: int, counter: TokenCounter, reference: str, *, is_zh: bool
) -> Part | None:
    match part:
        case TextPart():
            text = shrink_text(
                part.text, cap, counter.count_text, reference=reference, unusual=True
            )
            return part if text == part.text else TextPart(text, part.extra)
        case ToolResult():
            inner = (
                _shrink_part(block, cap, counter, reference, is_zh=is_zh) for block in part.content
            )
            content = tuple(cast("ContentPart", block) for block in inner if block is not None)
            return ToolResult(part.call_id, content, part.is_error, part.extra)
        case ToolCall():
            arguments = _shrink_arguments(part.arguments, cap, counter.count_text)
            return ToolCall(part.id, part.name, arguments, part.extra)
        case ThinkingPart():
            # The provider verifies signed thinking word for word: it is sent whole or not at all.
            return part if counter.count_part(part) <= cap else None
        case ImagePart() | AudioPart() | FilePart() | OpaquePart():
            if counter.count_part(part) <= cap:
                return part
            note = _media_note(_KINDS[type(part)], reference, is_zh=is_zh)
            return TextPart(shrink_text(note, cap, counter.count_text))


def _media_note(kind: str, reference: str, *, is_zh: bool) -> str:
    if is_zh:
        return f"[{_KINDS_ZH[kind]}放不进预算，已省略{f'，存为 {reference}' if reference else ''}]"
    return f"[{kind} left out to fit the budget{f', stored as {reference}' if reference else ''}]"


def media_left_out(message: Message, cap: int, counter: TokenCounter) -> list[str]:
    """Return the kinds of the parts that `shrink_message` replaces by a note: `image`, `audio`, `file`, `opaque`."""
    results = (part for part in message.parts if isinstance(part, ToolResult))
    parts = (*message.parts, *(inner for result in results for inner in result.content))
    return [
        _KINDS[type(part)]
        for part in parts
        if type(part) in _KINDS and counter.count_part(part) > cap
    ]


def _shrink_arguments(arguments: str, cap: int, count: Callable[[str], int]) -> str:
    if count_upto(arguments, cap, count) <= cap:
        return arguments
    try:
        return _shrink_json(_sendable(arguments), cap, count)
    except (ValueError, RecursionError):
        # Not JSON, or JSON that cannot be sent: put it into a valid object.
        return _shrink_json({"text": arguments}, cap, count)


def _sendable(arguments: str) -> object:
    """Parse JSON arguments; raises `ValueError` if they could not be sent again."""
    value = cast("object", json.loads(arguments))
    # Python's parser accepts NaN, infinite numbers and lone surrogates, which JSON and UTF-8 do not.
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return value


def _shrink_json(value: object, cap: int, count: Callable[[str], int]) -> str:
    # Numbers, keys and brackets are kept: if they alone are too many, shortening the texts cannot help.
    bare = json.dumps(_with_texts(value, lambda _: ""), ensure_ascii=False)
    if count_upto(bare, 2 * cap, count) > 2 * cap:
        return "{}"
    # Count each text once, not in every round, and only until it is known to be over the cap.
    costs = {text: min(count_upto(text, 2 * cap, count), 2 * cap) for text in set(_texts_in(value))}
    longest = max(costs.values(), default=0)
    totals: dict[str, int] = {}

    def shortened(text: str) -> str:
        if costs[text] <= longest:
            return text
        if text not in totals:
            totals[text] = count(text)
        return shrink_text(text, longest, lambda piece: totals.get(piece) or count(piece))

    while longest > 1:
        longest = min(longest // 2, cap)
        smaller = json.dumps(_with_texts(value, shortened), ensure_ascii=False)
        if count_upto(smaller, cap, count) <= cap:
            return smaller
    return "{}"


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in cast("dict[str, object]", value).values():
            yield from _texts_in(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _texts_in(inner)


def _with_texts(value: object, replaced: Callable[[str], str]) -> object:
    """Return the value with each of its texts replaced; keys stay."""
    if isinstance(value, str):
        return replaced(value)
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: _with_texts(inner, replaced) for key, inner in items}
    if isinstance(value, list):
        return [_with_texts(inner, replaced) for inner in cast("list[object]", value)]
    return value
