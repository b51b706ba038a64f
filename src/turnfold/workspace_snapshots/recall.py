"""Recalls workspace snapshots by turn, id, path and lines, or keywords, within a number of tokens.

- The request usually comes from a model, so both spellings of a name (`turnNumbers`, `turn_numbers`) and a single value
  for a list are accepted. Anything ambiguous is refused with a reason that the model is shown.
- Only requested content is read. The files of a snapshot that is too large to show are listed instead. If nothing is
  found, the text says which turn is the newest.
- A workspace may be a hundred times larger than a prompt. Each part gets an equal share, unused tokens go to the other
  parts, and a cut part says which lines are missing and how to ask for them. The limit applies to the finished text,
  headings and notes included.
- Files are shown unchanged, indentation included. Headings begin with a mark that no shown text contains, so no file
  can imitate the heading of another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

from turnfold.errors import InvalidOption
from turnfold.records import LATEST_TURN
from turnfold.search import Within
from turnfold.text import clip, fence_mark, one_line, search_terms, terms_of
from turnfold.workspace_snapshots.diff import ItemChange
from turnfold.workspace_snapshots.storage import (
    SNAPSHOT,
    SNAPSHOT_SUMMARY,
    ListedItem,
    SnapshotStorage,
    StoredSnapshot,
    turn_of,
)

__all__ = (
    "MAX_REQUESTED",
    "MIN_TOKENS",
    "RecallRequest",
    "RecalledContext",
    "SnapshotHit",
    "SnapshotPart",
    "WorkspaceRecall",
    "best_line",
    "parse_request",
    "show_changes",
    "show_parts",
)


MIN_TOKENS: Final = 64
"""The smallest token limit of a recall; the note about missing lines needs as much."""
_LINES_BEFORE: Final = 3
"""Lines shown before the matching one."""
_MAX_SCANNED: Final = 400_000
"""If no line contains the start of a term, texts of up to this many characters are searched term by term."""
_STEM_LENGTH: Final = 4
"""Number of characters at the beginning of a search term that lines must contain to be compared with the term."""
_MIN_PART_TOKENS: Final = 48
"""The fewest tokens with which a part is shown; with less room, the part is only counted as not shown."""
_HEADING_SHARE: Final = 6
"""A heading may take at most 1/6 of the tokens."""
_OMITTED_TOKENS: Final = 32
"""Tokens kept free for the line about the parts of snapshots that are not shown."""
_Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A text to show in the result of a recall, with the heading above it."""

    heading: str
    text: str
    first: int = 1
    """Number of the line of the whole text with which the shown `text` begins."""
    lines: int = 0
    """Number of lines of the whole text; 0 if single lines cannot be requested."""
    ask: tuple[tuple[str, object], ...] = ()
    """Arguments of the `recall_context` call that returns the whole text; a note about missing lines adds `lines`."""
    starts_late: bool = False
    """True if the lines before `first` were left out although no lines were requested."""
    whole_first: bool = False
    """True if the part is shown whole before other parts get a share."""
    mark: str = ""
    """Prefix of headings and notes, which no shown text contains; set by `show_parts`."""


def show_parts(
    parts: Sequence[SnapshotPart], *, tokens: int, count: _Count, remarks: Sequence[str] = ()
) -> tuple[str, bool]:
    """Render texts under their headings, and remarks, in at most `tokens`; also return True if a text is left out."""
    if tokens < MIN_TOKENS:
        raise InvalidOption(
            f"tokens={tokens} is too few to show anything; give at least {MIN_TOKENS}"
        )
    room = tokens
    mark = fence_mark("\n".join(text for part in parts for text in (part.heading, part.text)))
    parts = [_with_heading(part, mark, tokens // _HEADING_SHARE, count) for part in parts]
    remarks = [f"{mark} {one_line(remark)}" if parts else one_line(remark) for remark in remarks]
    for _ in range(8):
        text, cut = _shown(parts, remarks, room, count)
        over = count(text) - tokens
        if over <= 0:
            return text, cut
        room -= over + 8
        if room < MIN_TOKENS // 2:
            break
    return clip("\n".join((*remarks, *(part.heading for part in parts))), tokens, count), True


def _with_heading(part: SnapshotPart, mark: str, tokens: int, count: _Count) -> SnapshotPart:
    """Return the part with its heading put on one line, clipped to `tokens`, and prefixed with `mark`."""
    heading = one_line(part.heading)
    short = clip(heading, tokens, count)
    return replace(
        part, heading=f"{mark} {heading if short == heading else f'{short}…'}", mark=mark
    )


def _shown(
    parts: Sequence[SnapshotPart], remarks: Sequence[str], tokens: int, count: _Count
) -> tuple[str, bool]:
    """Render as many texts as fit and a line about the others; return the result, and True if anything was left out."""
    spare = room = tokens - sum(count(remark) + 1 for remark in remarks)
    number = 0
    for part in parts:
        heading = count(part.heading) + 3
        least = heading + min(len(part.text) // 4, _MIN_PART_TOKENS)
        if room < least and number:
            break
        room -= least
        spare -= heading
        number += 1
    left = [part.heading.removeprefix(f"{part.mark} ") for part in parts[number:]]
    shown, cut = _fill(parts[:number], max(spare - (_OMITTED_TOKENS if left else 0), 0), count)
    if left:
        cut = True
        shown.append(
            f"{parts[0].mark} [{len(left):,} more are not shown, the next is {left[0]}: ask for fewer at once]"
        )
    return "\n\n".join([*shown, *remarks]), cut


def _fill(parts: Sequence[SnapshotPart], room: int, count: _Count) -> tuple[list[str], bool]:
    """Render every text with an equal share of the room; tokens that a text does not use go to the others."""
    bodies: dict[int, str] = {}
    cut = False
    order = sorted(
        range(len(parts)), key=lambda at: (not parts[at].whole_first, len(parts[at].text))
    )
    for served, at in enumerate(order):
        share = room if parts[at].whole_first else room // (len(parts) - served)
        body, whole = _body(parts[at], share, count)
        bodies[at] = body
        cut = cut or not whole
        room -= count(body) + 1
    return [f"{part.heading}\n{bodies[at]}".rstrip() for at, part in enumerate(parts)], cut


def _body(part: SnapshotPart, share: int, count: _Count) -> tuple[str, bool]:
    """Return as much of a text as fits `share` tokens, and True if that is the whole text."""
    opening = (
        f"{_missing_lines(part, 1, part.first - 1)}\n"
        if part.starts_late and part.first > 1
        else ""
    )
    opened = count(opening) + 2 if opening else 0
    fitting = clip(part.text, max(share - opened, 0), count)
    if len(fitting) == len(part.text):
        return opening + fitting, not opening
    last = max(part.lines, part.first + part.text.count("\n"))
    longest = opened + count(_missing_lines(part, last, last)) + 4
    fitting = clip(part.text, max(share - longest, 0), count)
    at_line = fitting.rfind("\n")
    shown = fitting[: at_line + 1] if at_line > len(fitting) // 2 else fitting
    remark = _missing_lines(part, part.first + shown.count("\n"), last)
    body = f"{opening}{shown.rstrip()}\n{remark}".lstrip()
    return (body if count(body) <= share else clip(remark, max(share, 0), count)), False


def _missing_lines(part: SnapshotPart, first: int, last: int) -> str:
    """Return a note that says which lines of a text are not shown and how to request them."""
    if not part.lines:
        return f"{part.mark} [cut here]"
    asked = one_line(json.dumps({**dict(part.ask), "lines": [first, last]}, ensure_ascii=False))
    return f"{part.mark} [lines {first:,} to {last:,} are not shown here; recall_context({asked}) shows them]"


def best_line(text: str, terms: Sequence[str]) -> tuple[int, bool]:
    """Find the line that has the most of the search terms.

    Returns the number of the line (from 1) at which to begin showing the text, and True if any line has one of the
    terms.
    """
    wanted = frozenset(terms)
    stems = tuple({term[:_STEM_LENGTH] for term in wanted})
    lines = text.split("\n")
    likely = [
        at
        for at, line in enumerate(lines)
        if any(stem in lowered for lowered in (line.casefold(),) for stem in stems)
    ]
    if not likely and len(text) <= _MAX_SCANNED:
        likely = list(range(len(lines)))  # another script or width: compare terms
    best, most = 0, 0
    for at in likely:
        matches = len(wanted.intersection(terms_of(lines[at][:_MAX_SCANNED])))
        if matches > most:
            best, most = at, matches
        if most == len(wanted):
            break
    return max(best - _LINES_BEFORE, 0) + 1, most > 0


def show_changes(
    title: str, changes: Sequence[ItemChange], state: Sequence[str], *, tokens: int, count: _Count
) -> tuple[str, bool]:
    """Render the changes between two snapshots in at most `tokens`: all names first, then the diffs that fit."""
    if not changes and not state:
        return clip(f"{title}: no change", tokens, count), False
    names = [
        f"{change.change} {change.path or 'the context'}{_sizes(change)}" for change in changes
    ]
    listed = "\n".join(map(one_line, [*names, *state]))
    parts = [SnapshotPart(title, listed, whole_first=True)]
    parts += [
        SnapshotPart(f"== {change.path or 'the context'}", change.patch)
        for change in changes
        if change.patch
    ]
    return show_parts(parts, tokens=tokens, count=count)


def _sizes(change: ItemChange) -> str:
    return f" ({change.sizes[0]:,} -> {change.sizes[1]:,} bytes, not text)" if change.binary else ""


MAX_REQUESTED: Final = 50
"""Most turns, keywords or ids in one recall request; a request with more is refused."""
_MAX_LENGTH: Final = 500
_NAMES: Final = {
    "turn_numbers": "turn_numbers",
    "turnNumbers": "turn_numbers",
    "keywords": "keywords",
    "context_ids": "context_ids",
    "contextIds": "context_ids",
    "path": "path",
    "lines": "lines",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """A request for content of workspace snapshots, by turn, keyword, id or path (arguments of `recall_context`)."""

    turn_numbers: tuple[int, ...] = ()
    keywords: tuple[str, ...] = ()
    context_ids: tuple[str, ...] = ()
    """Ids of snapshots, or other ids that snapshots link to."""
    path: str = ""
    """Path of the only file to recall; empty for the whole snapshot."""
    lines: tuple[int, int] | None = None
    """Only these lines of the file, or of the context if there is no path: first and last, counted from 1."""


def parse_request(given: RecallRequest | Mapping[str, object]) -> RecallRequest:
    """Check the arguments of a `recall_context` call, whose names may have either spelling.

    Returns them as a request.
    """
    if isinstance(given, RecallRequest):
        return given
    if not isinstance(cast("object", given), Mapping):
        raise InvalidOption(
            f"the arguments of recall_context must be a JSON object (names and values), not {type(given).__name__}"
        )
    fields: dict[str, object] = {}
    for name, value in given.items():
        known = _NAMES.get(name)
        if known is None:
            raise InvalidOption(
                f"recall_context has no argument {name!r}; it takes turn_numbers, keywords, context_ids, path, lines"
            )
        if known in fields:
            raise InvalidOption(f"{known} is given twice, in two spellings: give it once")
        if value is not None:
            fields[known] = value
    request = RecallRequest(
        turn_numbers=tuple(map(_turn, _as_list(fields.get("turn_numbers"), "turn_numbers"))),
        keywords=tuple(
            _text(each, "keywords") for each in _as_list(fields.get("keywords"), "keywords")
        ),
        context_ids=tuple(
            _text(each, "context_ids")
            for each in _as_list(fields.get("context_ids"), "context_ids")
        ),
        path=_text(fields["path"], "path") if fields.get("path") else "",
        lines=_lines(fields.get("lines")),
    )
    if not (request.turn_numbers or request.keywords or request.context_ids or request.path):
        raise InvalidOption("nothing to recall: name turn_numbers, keywords, context_ids or a path")
    return request


def _as_list(value: object, name: str) -> list[object]:
    if value is None:
        return []
    found = list(cast("list[object]", value)) if isinstance(value, list | tuple) else [value]
    if len(found) > MAX_REQUESTED:
        raise InvalidOption(f"{len(found)} {name} at once; ask for at most {MAX_REQUESTED}")
    return found


def _turn(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LATEST_TURN:
        return value
    raise InvalidOption(
        f"{value!r} is not a turn number: it must be a whole number from 1 to {LATEST_TURN:,}"
    )


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_LENGTH:
        raise InvalidOption(
            f"{name}: {value!r:.80} must be a text of 1 to {_MAX_LENGTH} characters"
        )
    return value


def _lines(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    found = _as_list(value, "lines")
    if len(found) == 1:
        found *= 2
    match found:
        case [int() as first, int() as last] if 1 <= first <= last:
            return first, last
        case _:
            raise InvalidOption(
                f"lines={value!r} must be two line numbers, the first and the last, counted from 1"
            )


_ID = re.compile(r"ctx_([1-9][0-9]{0,11})_[0-9a-f]{12}")
_MAX_HITS = 5
"""Most snapshots that a search by keywords or by links returns."""
_MAX_LISTED = 40
"""Most files that are listed of a snapshot which is too large to show; of the others, only the number."""
_BYTES_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class SnapshotHit:
    """A snapshot that a keyword search found."""

    turn: int
    score: float
    """Relevance of the snapshot: higher is better; comparable only within one result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledContext:
    """The result of a recall: the text for the model, and which snapshots it comes from."""

    text: str
    """The text for the model; it says what is missing and how to request it."""
    tokens: int
    turns: tuple[int, ...]
    """The turns whose snapshots are shown."""
    context_ids: tuple[str, ...]
    cut: bool
    """True if some requested content did not fit."""


@dataclass(slots=True)
class _Found:
    """The texts and remarks collected so far in one recall, and the snapshots they come from."""

    parts: list[SnapshotPart] = field(default_factory=list[SnapshotPart])
    remarks: list[str] = field(default_factory=list[str])
    shown: list[StoredSnapshot] = field(default_factory=list[StoredSnapshot])


@dataclass(frozen=True, slots=True)
class WorkspaceRecall:
    """Recalls content of the workspace snapshots of one conversation."""

    storage: SnapshotStorage
    count: Callable[[str], int]
    summary_of: Callable[[StoredSnapshot], Awaitable[str]]
    """Function that returns the summary of a snapshot."""

    async def search(self, words: Sequence[str], *, limit: int) -> list[SnapshotHit]:
        """Return the snapshots that contain any of the words, best first."""
        terms = search_terms(" ".join(words))
        if not terms:
            return []
        storage = self.storage
        hits = await storage.store.search(
            storage.scope,
            terms,
            conversation=storage.conversation,
            limit=2 * limit,
            within=Within(kinds=frozenset({SNAPSHOT, SNAPSHOT_SUMMARY})),
        )
        best: dict[int, float] = {}
        for hit in hits:
            turn = turn_of(hit.key)
            best[turn] = max(best.get(turn, 0.0), hit.score)
        ranked = sorted(best.items(), key=lambda each: (-each[1], -each[0]))
        return [SnapshotHit(turn, score) for turn, score in ranked[:limit]]

    async def recall(self, request: RecallRequest, *, tokens: int) -> RecalledContext:
        """Return the requested content of snapshots as text in at most `tokens`."""
        found = _Found()
        terms = search_terms(" ".join(request.keywords))
        for turn in await self._turns(request, found):
            stored = await self.storage.stored(turn)
            if stored is None:
                continue
            found.shown.append(stored)
            found.parts += await self._parts(stored, request, terms, tokens, found)
        if not found.shown and not found.remarks:
            found.remarks.append(await self._nothing_found(request))

        def show() -> tuple[str, bool, int]:
            text, cut = show_parts(
                found.parts, tokens=tokens, count=self.count, remarks=found.remarks
            )
            return text, cut, self.count(text)

        size = sum(len(part.text) for part in found.parts)
        text, cut, cost = await self.storage.compute(show, size=size, items=len(found.parts))
        return RecalledContext(
            text=text,
            tokens=cost,
            turns=tuple(stored.head.turn for stored in found.shown),
            context_ids=tuple(stored.head.id for stored in found.shown),
            cut=cut,
        )

    async def _turns(self, request: RecallRequest, found: _Found) -> list[int]:
        """Return the turns whose snapshots are shown, each once, in the order of the request or of the search."""
        turns: dict[int, None] = {}
        for turn in request.turn_numbers:
            if await self.storage.stored(turn) is None:
                found.remarks.append(
                    f"[no workspace was kept of turn {turn:,}; {await self._newest_text()}]"
                )
            else:
                turns[turn] = None
        for name in request.context_ids:
            referred = await self._turns_of_id(name)
            if not referred:
                found.remarks.append(
                    f"[there is no context {name!r}, and none refers to it; {await self._newest_text()}]"
                )
            turns.update(dict.fromkeys(referred))
        if not turns and not found.remarks:
            if request.keywords:
                hits = await self.search(request.keywords, limit=_MAX_HITS)
                return [hit.turn for hit in hits]
            newest = await self.storage.newest()
            return [newest] if newest else []
        return list(turns)

    async def _turns_of_id(self, name: str) -> list[int]:
        """Return the turn of the snapshot with this id; for any other id, the turns whose snapshots link to it."""
        named = _ID.fullmatch(name)
        stored = await self.storage.stored(int(named[1])) if named else None
        if stored is not None and stored.head.id == name:
            return [stored.head.turn]
        found: list[int] = []
        for hit in await self.search([name], limit=_MAX_HITS):
            linking = await self.storage.stored(hit.turn)
            if linking is not None and name in linking.head.links:
                found.append(hit.turn)
        return found

    async def _parts(
        self,
        stored: StoredSnapshot,
        request: RecallRequest,
        terms: Sequence[str],
        tokens: int,
        found: _Found,
    ) -> list[SnapshotPart]:
        items = await self.storage.listing(stored)
        turn = stored.head.turn
        wanted, shown = await self.storage.compute(
            partial(_selected_items, items, request, terms, turn, tokens),
            size=0,
            items=len(items),
        )
        if request.path and not wanted:
            found.remarks.append(
                f"[turn {turn:,} has no file {request.path!r}; {_file_names(items)}]"
            )
            return []
        if terms and stored.head.unindexed:
            found.remarks.append(
                f"[{stored.head.unindexed:,} characters of turn {turn:,} are not indexed: name a path to look there]"
            )
        summary = await self.summary_of(stored)
        title = f"[Turn {turn}] {stored.head.id}{f': {summary}' if summary else ''}"
        contents = await self.storage.contents(shown)

        def make() -> list[SnapshotPart]:
            made = [
                _part(item, data.decode(), turn, request, terms)
                for item, data in zip(shown, contents, strict=True)
            ]
            parts = [part for part in made if part is not None]
            places = {item.place for item in shown}
            aside = [item for item in wanted if item.place not in places]
            if (aside and not terms) or (wanted and not parts):
                parts.append(SnapshotPart("Files", _file_list(aside or wanted, turn)))
            return [SnapshotPart(title, ""), *parts]

        size = sum(map(len, contents))
        return await self.storage.compute(make, size=size, items=len(wanted))

    async def _newest_text(self) -> str:
        newest = await self.storage.newest()
        return f"the newest is turn {newest:,}" if newest else "none was kept yet"

    async def _nothing_found(self, request: RecallRequest) -> str:
        words = ", ".join(map(repr, request.keywords))
        return f"[nothing was found{f' for {words}' if words else ''}; {await self._newest_text()}]"


def _selected_items(
    items: Sequence[ListedItem],
    request: RecallRequest,
    terms: Sequence[str],
    turn: int,
    tokens: int,
) -> tuple[list[ListedItem], list[ListedItem]]:
    """Return the requested items of a snapshot, and which of them are shown with their text."""
    wanted = _requested_items(items, request)
    texts = [item for item in wanted if item.text]
    large = sum(item.size for item in texts if item.kind == "file") > tokens * _BYTES_PER_TOKEN
    list_files = large and not request.path and not terms
    shown = [item for item in texts if not (list_files and item.kind == "file")]
    if terms:  # the search matched new content, so that comes first
        shown.sort(key=lambda item: all(ref.turn != turn for ref in item.chunks))
    return wanted, shown


def _requested_items(items: Sequence[ListedItem], request: RecallRequest) -> list[ListedItem]:
    if request.path:
        return [item for item in items if item.place == ("file", request.path)]
    if request.lines:
        return [item for item in items if item.kind == "context"]
    return list(items)


def _part(
    item: ListedItem, text: str, turn: int, request: RecallRequest, terms: Sequence[str]
) -> SnapshotPart | None:
    """Return the text of one file or context to show; None if it contains none of the search terms."""
    lines = text.count("\n") + 1
    name = _file_heading(item.path) or item.kind.capitalize()
    ask: dict[str, object] = {"turn_numbers": [turn]}
    if item.path:
        ask["path"] = item.path
    numbered = 0 if item.kind == "state" else lines
    if request.lines:
        first, last = request.lines
        shown = "\n".join(text.split("\n")[first - 1 : last])
        heading = f"{name}, lines {first:,} to {min(last, lines):,} of {lines:,}"
        if first > lines:
            return SnapshotPart(f"{name} has {lines:,} lines, none from {first:,} on", "")
        return SnapshotPart(heading, shown, first, min(last, lines), tuple(ask.items()))
    if not terms:
        return SnapshotPart(name, text, 1, numbered, tuple(ask.items()))
    first, found = best_line(text, terms)
    if not found and not request.path and set(terms).isdisjoint(terms_of(item.path)):
        return None
    shown = "\n".join(text.split("\n")[first - 1 :])
    return SnapshotPart(name, shown, first, numbered, tuple(ask.items()), starts_late=True)


def _file_heading(path: str) -> str:
    """Return a path as a heading; a path that looks like another heading gets a leading `./`."""
    other = path.startswith("[") or path in ("Context", "State", "Files")
    return f"./{path}" if other else path


def _file_list(items: Sequence[ListedItem], turn: int) -> str:
    lines = [
        f"{one_line(item.path)} ({item.size:,} bytes{'' if item.text else ', not text'})"
        for item in items
    ]
    more = len(lines) - _MAX_LISTED
    left = [f"and {more:,} more"] if more > 0 else []
    ask = f'[recall_context({{"turn_numbers": [{turn}], "path": "..."}}) shows one of them]'
    return "\n".join([ask, *lines[:_MAX_LISTED], *left])


def _file_names(items: Sequence[ListedItem]) -> str:
    paths = [item.path for item in items if item.path]
    more = len(paths) - _MAX_LISTED
    listed = ", ".join(paths[:_MAX_LISTED]) or "none"
    return f"it has {listed}{f' and {more:,} more' if more > 0 else ''}"
