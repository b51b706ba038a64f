"""`recall_context`: the tool with which a model reads earlier messages of a session, folded (compacted) or not.

The tool has one description for all frameworks and providers; adapters only convert it. In each call a model asks by
words, by turn numbers (as shown in the headings of its context) or by a range of the log, always under a token limit.
The result says what did not fit and how to ask for it. Invalid arguments give a result that begins with "error:"
instead of an exception, because the model can correct them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Final, cast

from turnfold.errors import InvalidOption
from turnfold.memory.cleared_entries import cleared_upto
from turnfold.memory.prompt_tail import recalled_text
from turnfold.memory.session import AsyncSession
from turnfold.records import Entry
from turnfold.search import Recalled
from turnfold.text import clip

__all__ = (
    "RECALL_CONTEXT",
    "RecallTool",
    "recall_parameters",
)


RECALL_CONTEXT: Final = "recall_context"

_DESCRIPTION = (
    "Bring back what was said earlier in this conversation, word for word. Earlier messages may be folded into a "
    "summary or left out; nothing is lost. Ask in one way per call: by words (query), by turn numbers, or by "
    "a stretch of the log (first_seq, last_seq). 按关键词、轮次或记录范围（每次一种），取回本会话先前的原文。"
)
_FIELDS: Mapping[str, Mapping[str, object]] = {
    "query": {"type": "string", "description": "Words to look for. 关键词"},
    "turn_numbers": {
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
        "description": "Turns to show whole, as numbered in what was shown. 轮次",
    },
    "first_seq": {
        "type": "integer",
        "minimum": 1,
        "description": "First entry of a stretch. 起始记录",
    },
    "last_seq": {
        "type": "integer",
        "minimum": 1,
        "description": "Last entry of a stretch. 末尾记录",
    },
    "offset": {
        "type": "integer",
        "minimum": 0,
        "description": "Character of entry first_seq to continue from. 从该记录的第几个字符继续",
    },
    "max_tokens": {
        "type": "integer",
        "minimum": 64,
        "description": "Most tokens to show. token 上限",
    },
}
_PAGE = 200
_SPARE = 64
"""Tokens of the tool's result that are kept free for the note about what did not fit."""
_LEAST_PART = 128
"""If an entry does not fit whole, its beginning is shown only if at least this many tokens are free."""
_NOTHING = "Nothing was found. 没有找到相关内容。"


class RecallTool:
    """The `recall_context` tool of one session."""

    name = RECALL_CONTEXT
    description = _DESCRIPTION

    def __init__(self, session: AsyncSession, *, max_tokens: int = 2000) -> None:
        recall_parameters(max_tokens=max_tokens)
        self._session = session
        self._max_tokens = max_tokens

    @property
    def parameters(self) -> dict[str, object]:
        """JSON schema of the arguments of the `recall_context` tool."""
        return recall_parameters(max_tokens=self._max_tokens)

    @property
    def schema(self) -> dict[str, object]:
        """The `recall_context` tool as OpenAI's Chat Completions API describes tools."""
        return self.schema_of(max_tokens=self._max_tokens)

    @classmethod
    def schema_of(cls, *, max_tokens: int) -> dict[str, object]:
        """Return the `schema` of the tool for any session."""
        function = {
            "name": cls.name,
            "description": cls.description,
            "parameters": recall_parameters(max_tokens=max_tokens),
        }
        return {"type": "function", "function": function}

    async def call(self, arguments: Mapping[str, object]) -> str:
        """Return the requested passages, fenced (marked as data), within `max_tokens`; or an error for the model."""
        given = {key: value for key, value in arguments.items() if value is not None}
        unknown = sorted(given.keys() - _FIELDS.keys())
        if unknown:
            return f"error: unknown arguments {', '.join(unknown)}; known: {', '.join(_FIELDS)}"
        limit = _whole(given.get("max_tokens", self._max_tokens), least=_SPARE)
        if limit is None:
            return f"error: max_tokens={given.get('max_tokens')!r} must be a whole number, at least {_SPARE}"
        if limit > self._max_tokens:
            return f"error: max_tokens={limit:,} is more than the {self._max_tokens:,} this tool may show"
        modes = _modes(given)
        if len(modes) > 1:
            return (
                f"error: {' and '.join(modes)} are {len(modes)} ways of asking, and nothing was looked for: "
                "ask in one way per call, and call once for each. 每次调用只用一种方式，请分开调用。"
            )
        if modes:
            given = {key: value for key, value in given.items() if not _is_empty(value)}
        if "turn_numbers" in given:
            return await self._turns(given["turn_numbers"], limit)
        if "first_seq" in given or "last_seq" in given:
            first, last = given.get("first_seq"), given.get("last_seq")
            return await self._range(first, last, given.get("offset", 0), limit)
        return await self._words(given.get("query", ""), limit)

    async def _words(self, query: object, limit: int) -> str:
        if not isinstance(query, str) or not query.strip():
            return "error: give query (words), turn_numbers, or first_seq and last_seq"
        found = await self._session.recall(query, tokens=limit)
        return recalled_text(found) or _NOTHING

    async def _turns(self, numbers: object, limit: int) -> str:
        listed = cast("list[object]", numbers) if isinstance(numbers, list) else [numbers]
        turns = [_whole(number, least=0) for number in listed]
        if not turns or None in turns:
            return f"error: turn_numbers={numbers!r} must be a list of whole numbers"
        cleared = await self._cleared()
        entries: list[Entry] = []
        for turn in sorted(set(cast("list[int]", turns))):
            entries += [one for one in await self._session.turn(turn) if one.seq > cleared]
        return self._shown(entries, limit)

    async def _range(self, first: object, last: object, offset: object, limit: int) -> str:
        start = _whole(1 if first is None else first, least=1)
        stop = _whole(start if last is None else last, least=1)
        if start is None or stop is None or stop < start:
            return (
                f"error: first_seq={first!r} and last_seq={last!r} must be whole numbers from 1 on, last_seq not below "
                "first_seq"
            )
        skipped = _whole(offset, least=0)
        if skipped is None:
            return f"error: offset={offset!r} must be a whole number from 0 on"
        count = self._session.counter.count_text
        start = max(start, await self._cleared() + 1)
        entries: list[Entry] = []
        spent = 0
        while start <= stop and spent <= limit:
            page = await self._session.history(after=start - 1, limit=min(stop - start + 1, _PAGE))
            if not page:
                break
            entries += page
            spent += sum(count(entry.message.text) for entry in page)
            start = page[-1].seq + 1
        return self._shown(entries, limit, last=stop, offset=skipped)

    async def _cleared(self) -> int:
        session = self._session
        return await cleared_upto(session.store, session.scope, session.id)

    def _shown(
        self, entries: Sequence[Entry], limit: int, *, last: int = 0, offset: int = 0
    ) -> str:
        zone = self._session.config.zone
        passages = [found for entry in entries if (found := _as_recalled(entry, zone)) is not None]
        if not passages:
            return _NOTHING
        first, length = passages[0].seq, len(passages[0].shown)
        if offset and offset >= length:
            return f"error: offset={offset:,} is behind the end of entry {first}, which has {length:,} characters"
        if offset:
            passages[0] = replace(passages[0], excerpt=f"…{passages[0].shown[offset:]}")
        count = self._session.counter.count_text
        whole = recalled_text(passages)
        if count(whole) <= limit:
            return whole
        shown, part = _fitting(passages, limit - _SPARE, count)
        left, upto = passages[len(shown) :], max(last, passages[-1].seq)
        if not part:
            note = f"For the rest ask first_seq={left[0].seq}, last_seq={upto}."
            return "\n".join(filter(None, (recalled_text(shown), note)))
        cut = left[0]
        skipped = (
            offset - 1 if cut is passages[0] and offset else 0
        )  # the mark before it is no part of the entry
        note = (
            f"Entry {cut.seq} does not fit whole. For the rest ask first_seq={cut.seq}, "
            f"offset={skipped + part}, last_seq={upto}."
        )
        beginning = replace(cut, excerpt=f"{cut.shown[:part]}…")
        return "\n".join((recalled_text([*shown, beginning]), note))


def recall_parameters(*, max_tokens: int) -> dict[str, object]:
    """Return the JSON schema of the `recall_context` tool's arguments, with the limit of `max_tokens`."""
    if max_tokens < 4 * _SPARE:
        raise InvalidOption(
            f"max_tokens={max_tokens} must be at least {4 * _SPARE}: {_SPARE} are reserved for the note "
            "about what did not fit"
        )
    fields = {name: dict(field) for name, field in _FIELDS.items()}
    fields["max_tokens"] |= {"maximum": max_tokens}
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _modes(given: Mapping[str, object]) -> list[str]:
    """Return the modes (by words, turns or range) for which a model passed arguments; empty values do not count."""
    modes = (("query",), ("turn_numbers",), ("first_seq", "last_seq"))
    used = [[name for name in mode if not _is_empty(given.get(name, ""))] for mode in modes]
    return [", ".join(names) for names in used if names]


def _is_empty(value: object) -> bool:
    return value == [] or (isinstance(value, str) and not value.strip())


def _as_recalled(entry: Entry, zone: tzinfo) -> Recalled | None:
    """Return an entry as the recall tool shows it, with its tool calls.

    Returns None for a system message, or one with nothing to show.
    """
    message = entry.message
    if message.role == "system":
        return None
    calls = [f"[called {call.name}({call.arguments})]" for call in message.calls]
    text = "\n".join(filter(None, [message.text.strip(), *calls]))
    if not text:
        return None
    excerpt = text if calls else ""
    return Recalled(entry.seq, entry.turn, message, entry.created, 1.0, excerpt, zone=zone)


def _fitting(
    passages: Sequence[Recalled], room: int, count: Callable[[str], int]
) -> tuple[list[Recalled], int]:
    """Return the first recalled entries that fit `room`, and how many characters of the next one fit after them."""
    low, high = 0, len(passages)
    while low < high:
        middle = (low + high + 1) // 2
        if count(recalled_text(passages[:middle])) <= room:
            low = middle
        else:
            high = middle - 1
    shown = list(passages[:low])
    cut = passages[low]
    left = room - count(recalled_text([*shown, replace(cut, excerpt="…")]))
    if shown and left < _LEAST_PART:
        return shown, 0
    while left > 0:
        part = clip(cut.shown, left, count)
        line = part.rfind("\n")
        part = part[: line + 1] if line > len(part) // 2 else part
        over = count(recalled_text([*shown, replace(cut, excerpt=f"{part}…")])) - room
        if over <= 0:
            return shown, len(part)
        left -= over
    return shown, 0


def _whole(value: object, *, least: int) -> int | None:
    """Return the whole number that an int, float or text stands for; None if it stands for none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        return None
    return value
