"""The tools that look: recall, search, the list of sessions, and where one of them stands.

What is stored leaves fenced as data; what did not fit is said, with the arguments that bring the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.memory import AsyncSession
from turnfold.memory.recall_tool import RecallTool
from turnfold.memory.searching import Found
from turnfold.service.mcp.declaring import DATA, tool
from turnfold.service.mcp.forms import (
    FoundItem,
    ListArguments,
    RecallArguments,
    RecalledPassages,
    SearchArguments,
    SearchFound,
    SessionArguments,
    SessionItem,
    SessionList,
    SessionStanding,
)
from turnfold.service.mcp.visiting import Reply, Visit, longest
from turnfold.service.tokens import Right
from turnfold.stores.protocol import ConversationInfo
from turnfold.stores.within import CHECKPOINT, ENTRY, Within
from turnfold.window import fence, one_line

__all__ = ("context_status", "list_sessions", "recall_context", "search_memory", "session_items")

_REFUSED: Final = "error: "
_LEAST: Final = 64
_WAYS: Final = (("query",), ("turn_numbers",), ("first_seq", "last_seq"), ("ref",))


@tool(
    "Recall",
    "Bring back what was said earlier in a session, word for word: folded or not, nothing is lost. Ask by words "
    "(query), by turn_numbers, by a stretch of the log (first_seq, last_seq), or by the id of a workspace (ref). The "
    "answer says what did not fit and how to ask for it. 按关键词、轮次、记录范围或快照编号，取回会话先前的原文。",
    right=Right.READ,
    arguments=RecallArguments,
    answer=RecalledPassages,
)
async def recall_context(visit: Visit, asked: RecallArguments) -> Reply:
    """Passages of one session."""
    session = await visit.known(asked.session)
    words = _one_way(asked)
    tokens = visit.limit if isinstance(asked.max_tokens, msgspec.UnsetType) else asked.max_tokens
    if tokens > visit.limit:
        raise InvalidOption(
            f"max_tokens={tokens:,} is more than the {visit.limit:,} of this server"
        )
    # As JSON the same passages cost more: what is asked for is made less until both forms fit.
    while True:
        text = await _passages(visit, session, words, tokens)
        value = RecalledPassages(session=session.id, text=text, tokens=visit.count(text))
        reply = Reply(value, text)
        cost = max(visit.costs(reply))
        if cost <= visit.limit or tokens <= _LEAST:
            return reply
        tokens = max(_LEAST, tokens - max(cost - visit.limit, _LEAST))


def _one_way(asked: RecallArguments) -> dict[str, object]:
    """The arguments that say what to show: of one way to ask, since of two one would go unheard."""
    words = {
        name: value
        for way in _WAYS
        for name in way
        if (value := getattr(asked, name)) is not msgspec.UNSET
    }
    if sum(not words.keys().isdisjoint(way) for way in _WAYS) != 1:
        raise InvalidOption(
            "ask in one way: give query (words), turn_numbers, first_seq and last_seq, or ref"
        )
    return words


async def _passages(
    visit: Visit, session: AsyncSession, words: Mapping[str, object], tokens: int
) -> str:
    if "ref" not in words:
        asking = RecallTool(session, max_tokens=visit.limit)
        text = await asking.call({**words, "max_tokens": tokens})
        if text.startswith(_REFUSED):
            raise InvalidOption(text.removeprefix(_REFUSED))
        return text
    framed = visit.count(fence("", label="workspace", note=DATA))
    request = {"context_ids": [words["ref"]]}
    found = await session.snapshots.recall(request, tokens=max(tokens - framed, 1))
    return fence(found.text, label="workspace", note=DATA)


@tool(
    "Search",
    "Find where something was said, in all sessions or in one: entries and summaries, best first, each with a snippet "
    "and its place. Read the place whole with recall_context (first_seq). "
    "在全部会话或某一会话中查找，返回片段及其位置。",
    right=Right.READ,
    arguments=SearchArguments,
    answer=SearchFound,
)
async def search_memory(visit: Visit, asked: SearchArguments) -> Reply:
    """Places that match."""
    session = None
    if not isinstance(asked.session, msgspec.UnsetType):
        session = (await visit.known(asked.session)).id
    within = Within(kinds=frozenset({ENTRY, CHECKPOINT}))
    found = await visit.memory.search(
        asked.query, conversation=session, within=within, limit=asked.limit
    )
    items = [_found_item(each) for each in found]

    def reply(shown: Sequence[FoundItem]) -> Reply:
        cut = len(items) - len(shown)
        hint = f"{cut} more were found and did not fit: name a session, or use other words."
        value = SearchFound(found=list(shown), cut=cut, hint=hint if cut else "")
        return Reply(value, _found_text(shown, value.hint))

    return reply(longest(items, lambda shown: visit.fits(reply(shown))))


def _found_item(found: Found) -> FoundItem:
    return FoundItem(
        session=found.conversation,
        kind=found.kind or "entry",
        seq=found.seq,
        turn=found.turn,
        role=found.role,
        snippet=found.snippet.shown("", ""),
        score=round(found.score, 4),
    )


def _found_text(items: Sequence[FoundItem], hint: str) -> str:
    if not items:
        return hint or "Nothing was found. 没有找到相关内容。"
    lines = [
        f"{one_line(json.dumps(each.session, ensure_ascii=False))} seq {each.seq} turn {each.turn} "
        f"{each.role or each.kind}: {one_line(each.snippet)}"
        for each in items
    ]
    text = fence("\n".join(lines), label="found", note=f"Found in memory, best first. {DATA}")
    return "\n".join(filter(None, [text, hint]))


@tool(
    "List sessions",
    "List the sessions of this memory by id, with their size and when they last changed. Ask on with after. "
    "列出全部会话及其大小与更新时间。",
    right=Right.READ,
    arguments=ListArguments,
    answer=SessionList,
)
async def list_sessions(visit: Visit, asked: ListArguments) -> Reply:
    """A page of sessions."""
    after = "" if isinstance(asked.after, msgspec.UnsetType) else asked.after
    items, more = await session_items(visit, after=after, limit=asked.limit)

    def reply(shown: Sequence[SessionItem]) -> Reply:
        left = more or len(shown) < len(items)
        following = shown[-1].session if shown and left else ""
        return Reply(
            SessionList(sessions=list(shown), next=following), _list_text(shown, following)
        )

    shown = longest(items, lambda shown: visit.fits(reply(shown)))
    # One that does not fit alone is refused with the sum, not left out: the list would seem to end.
    return reply(shown or items[:1])


async def session_items(visit: Visit, *, after: str, limit: int) -> tuple[list[SessionItem], bool]:
    """A page of sessions, and whether there are more."""
    page = await visit.memory.conversations(after=after, limit=limit + 1)
    return [_session_item(each) for each in page[:limit]], len(page) > limit


def _session_item(info: ConversationInfo) -> SessionItem:
    return SessionItem(
        session=info.conversation,
        entries=info.head.seq,
        turns=info.head.turns,
        tokens=info.head.tokens,
        folded=bool(info.head.checkpoint),
        updated=datetime.fromtimestamp(info.updated // 1_000_000, UTC).isoformat(),
    )


def _list_text(items: Sequence[SessionItem], following: str) -> str:
    if not items:
        return "There are no sessions here. 没有会话。"
    lines = [
        f"{one_line(json.dumps(each.session, ensure_ascii=False))}: {each.entries} entries, {each.turns} turns, "
        f"{each.tokens:,} tokens, changed {each.updated}{', folded' if each.folded else ''}"
        for each in items
    ]
    text = fence("\n".join(lines), label="sessions", note=f"Sessions of this memory. {DATA}")
    rest = f"There are more: ask after={json.dumps(following, ensure_ascii=False)}."
    return "\n".join([text, rest] if following else [text])


@tool(
    "Context status",
    "See where a session stands: its length, what is folded, its pins, and how much of the budget its next call would "
    "take, by section. Use it to decide whether to checkpoint. 查看会话状态及下一次调用的预算占用。",
    right=Right.READ,
    arguments=SessionArguments,
    answer=SessionStanding,
)
async def context_status(visit: Visit, asked: SessionArguments) -> Reply:
    """The session, and its next call as a look: nothing is stored."""
    session = await visit.known(asked.session)
    status = await session.status()
    sections: dict[str, int] = {}
    tokens, problem = 0, ""
    allowed = session.budget.tokens
    try:
        receipt = (await session.preview()).receipt
        sections = {str(name): cost for name, cost in receipt.sections.items()}
        tokens, allowed = receipt.tokens, receipt.allowed
    except BudgetTooSmall as error:
        problem = str(error)
    value = SessionStanding(
        session=session.id,
        mode=str(status.mode),
        entries=status.entries,
        turns=status.turns,
        tokens=status.tokens,
        folded_upto=status.covered,
        checkpoints=len(await session.checkpoints()),
        pins=len(await session.pins()),
        next_call=sections,
        next_tokens=tokens,
        allowed=allowed,
        problem=problem,
    )
    return Reply(value, _standing_text(value))


def _standing_text(value: SessionStanding) -> str:
    parts = ", ".join(f"{name} {cost:,}" for name, cost in value.next_call.items() if cost)
    named = json.dumps(value.session, ensure_ascii=False)
    call = f"The next call has {value.next_tokens:,} of {value.allowed:,} tokens ({parts})."
    return (
        f"Session {named}: {value.entries:,} entries in {value.turns:,} turns, {value.tokens:,} tokens; "
        f"{value.mode}, folded up to entry {value.folded_upto:,} by {value.checkpoints:,} checkpoints; "
        f"{value.pins} pins. {value.problem or call}"
    )
