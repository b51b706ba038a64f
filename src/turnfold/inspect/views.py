"""Values that the CLI and the web inspector display: messages of a call, points of a timeline, the next call's budget.

Each message of a prompt is a row with its source, its tokens and how it was changed; the entries of the log that are
not sent are listed with outcome and reason.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from turnfold.errors import InvalidOption
from turnfold.fold import check_fidelity, passages_of
from turnfold.memory import (
    AsyncSession,
    Explanation,
    Manifest,
    SessionStatus,
    call_key,
    omitted_rules,
)
from turnfold.records import Checkpoint, Entry, Message, ToolCall, is_erased, message_digest
from turnfold.rules import StandingRule
from turnfold.text import clean_text, single_line
from turnfold.window import Context, Outcome, Section

__all__ = (
    "FIDELITY_MEANING",
    "CacheState",
    "CallPoint",
    "CallView",
    "ContextView",
    "LeftOut",
    "LeftOutRule",
    "SentItem",
    "call_numbers",
    "call_point",
    "call_text",
    "call_view",
    "context_view",
    "excerpt",
    "fidelity_of_all",
    "left_out",
    "recent_calls",
    "sent_items",
    "session_title",
    "shown_text",
    "with_tail_parts",
)


_MIN_RANGE = 128
_RECENT_PAGE = 500


async def recent_calls(session: AsyncSession, *, most: int = 60) -> list[Manifest]:
    """Return the reports of the newest `most` model calls of a session, oldest first.

    The id of a call begins with the seq of the newest entry at that time. So the calls made since an entry near the end
    of the log are read first, and an earlier entry is tried while there are too few.
    """
    if most < 1:
        raise InvalidOption(f"most={most}, the number of calls to return, must be at least 1")
    newest = (await session.status()).entries
    entries = max(_MIN_RANGE, most)
    while True:
        after = call_key(newest - entries, 0) if newest > entries else ""
        found: list[Manifest] = []
        while page := await session.calls(
            after=found[-1].call if found else after, limit=_RECENT_PAGE
        ):
            found.extend(page)
            if len(page) < _RECENT_PAGE:
                break
        if len(found) >= most or not after:
            return found[-most:]
        entries *= 4


async def call_numbers(session: AsyncSession) -> dict[str, int]:
    """Return the number of every call by its id, oldest first: the first call of a session is 1.

    It reads all calls of the session: their number is not stored, because several processes may make calls at once.
    """
    numbers: dict[str, int] = {}
    last = ""
    while page := await session.calls(after=last, limit=_RECENT_PAGE):
        for made in page:
            numbers[made.call] = len(numbers) + 1
        last = page[-1].call
    return numbers


_FIRST_ENTRIES = 8
"""Number of entries at the beginning of a log in which the first user message is searched for."""
_KEPT = "kept"
"""Value of `SentItem.fate` for a message that is sent as it was logged."""
_INJECTED = "injected"
"""Value of `SentItem.fate` for a message that is sent but not logged: summary, tail (pins, rules, recalled passages),
placeholder."""

_Range = tuple[int, int, str, str]
"""Range of log positions (start, stop not included), what was done with its entries, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentItem:
    """One message of a prompt, for display: its source, tokens and what was changed."""

    index: int
    """Index of the message in the prompt, from 0."""
    section: str
    seq: int
    """Seq of the message's entry; 0 if the message is not in the log."""
    role: str
    label: str
    """Names of the tools that the message calls or has results of; the message's role if there are none."""
    tokens: int
    fate: str
    """What happened to the message: `kept`, `shrunk`, `moved` or `injected` (not in the log)."""
    reason: str
    """Why the message is not sent as it was logged; empty if it is sent so."""
    digest: str
    """Digest by which the same message is recognised in other calls."""
    text: str
    """The beginning of the message's text, on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutRule:
    """A rule that a call had no room for."""

    seq: int
    """Seq of the entry that states the rule; 0 if it was added by hand."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A part that the prompt lacks, and why.

    The part is a range of the log, rules, or a piece of system, summary or tail (pins, rules, recalled passages).
    """

    first: int
    """Seq (log position) of the first entry of the range; 0 (and -1 as the last) if what was left out is no range of
    the log."""
    last: int
    outcome: str
    """What was done with it: entries are `folded` (compacted) or `dropped`, rules `left out`, and a part of the tail
    (text before the newest turn) `shrunk`."""
    reason: str
    rules: int = 0
    """Number of rules that were left out."""
    named: tuple[LeftOutRule, ...] = ()
    """The rules left out that are still in the ledger; at most 20."""

    @property
    def entries(self) -> int:
        """Number of log entries in the range."""
        return self.last - self.first + 1


async def session_title(session: AsyncSession) -> str:
    """Return the beginning of a session's first user message; empty if its first entries have none."""
    for entry in await session.history(after=0, limit=_FIRST_ENTRIES):
        if entry.message.role == "user":
            return excerpt(entry.message, characters=80)
    return ""


def call_text(call: ToolCall) -> str:
    """Return a tool call as `name(arguments)`; characters that its JSON escapes are shown as themselves."""
    arguments = call.arguments
    if "\\u" in arguments:
        with suppress(ValueError, RecursionError):  # not JSON: shown as it is
            arguments = json.dumps(json.loads(arguments), ensure_ascii=False)
    return f"{call.name}({arguments})"


def shown_text(message: Message, *, language: Literal["en", "zh"] = "en") -> str:
    """Return the text of a message for people to read: that of an erased one says so in their language."""
    if language != "zh" or not is_erased(message):
        return message.text
    reason = message.metadata["erased"]
    return f"[已删除：{reason}]" if reason else "[已删除]"


def excerpt(
    message: Message, *, characters: int = 160, language: Literal["en", "zh"] = "en"
) -> str:
    """Return the beginning of a message's text, or of its tool calls, on one line."""
    text = " ".join(shown_text(message, language=language)[: characters * 4].split())
    if not text:
        text = "; ".join(map(call_text, message.calls))
        text = " ".join(text[: characters * 4].split())
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def sent_items(shown: Context | Explanation) -> tuple[SentItem, ...]:
    """Return the messages of a prompt as rows, in the order they are sent."""
    if isinstance(shown, Context):
        fates = _ranges(shown)
        seqs, system = shown.positions, _moved_systems(fates)
    else:
        fates, seqs, system = shown.manifest.fates, shown.seqs, shown.manifest.system
    rows = _rows(
        shown.messages, shown.costs, seqs=seqs, ends=shown.ends, fates=fates, system=system
    )
    return tuple(rows)


def _ranges(context: Context) -> list[_Range]:
    return [(fate.start, fate.stop, str(fate.outcome), fate.reason) for fate in context.fates]


FIDELITY_MEANING: Final[Mapping[str, str]] = {
    "en": "Fidelity is the share of facts that the summary states: of the names, numbers, dates, ids, paths, rules and "
    "decisions in the text named. What a fold reads is the newly folded messages and the summary before them. Each "
    "fact counts once; reasons and the course of the talk are not counted, so a high figure does not mean that nothing "
    "is missing. The log keeps everything, and recall finds it.",
    "zh": "保真度是摘要写到的硬事实的比例：所指内容里的名称、数字、日期、编号、路径、规则和决定，写到了多少。"
    "一次折叠读到的是新折叠的消息和上一份摘要。每个事实只计一次；缘由和对话的来龙去脉不计在内，"
    "所以数值高不等于没有遗漏。记录保留全部内容，可以召回。",
}
"""What the figure named fidelity counts, by language: the same words wherever the figure is shown."""


def fidelity_of_all(checkpoint: Checkpoint, entries: Iterable[Entry]) -> float:
    """Return the share of the facts of `entries` that a checkpoint's summary states, 0 to 1.

    The checkpoint's own `fidelity` compares the summary only with what the fold read: the new entries and the summary
    before. Every fold loses some facts, so the share for all entries that the checkpoint covers is smaller.
    """
    spoken = [entry.message for entry in entries if entry.message.role != "system"]
    return check_fidelity(passages_of(spoken), checkpoint.text).score


def left_out(
    fates: Iterable[_Range], *, rules: Sequence[StandingRule] = (), tail: str = ""
) -> tuple[LeftOut, ...]:
    """Return the parts that the prompt lacks: ranges of the log, oldest first, then rules and shortened parts.

    `rules` are the active rules; those that the `tail` lists were not left out.
    """
    fates = sorted(fates)
    entries = (
        LeftOut(first=start, last=stop - 1, outcome=outcome, reason=reason)
        for start, stop, outcome, reason in fates
        if outcome in (Outcome.FOLDED, Outcome.DROPPED) and start >= 0
    )
    others = (
        _left_out_part(outcome, reason, rules, tail)
        for start, _, outcome, reason in fates
        if start < 0
    )
    return *entries, *others


def _left_out_part(outcome: str, reason: str, rules: Sequence[StandingRule], tail: str) -> LeftOut:
    number, seqs = omitted_rules(reason)
    listed = tail.partition("<rules ")[2].partition("</rules ")[0]
    # An entry may state several rules, of which the prompt shows some: no more are named than were left out.
    room, named = Counter(seqs), list[LeftOutRule]()
    for rule in rules:
        if room[rule.seq] > 0 and single_line(clean_text(rule.text)) not in listed:
            room[rule.seq] -= 1
            named.append(LeftOutRule(seq=rule.seq, text=rule.text))
    outcome = "left out" if number else outcome
    return LeftOut(
        first=0, last=-1, outcome=outcome, reason=reason, rules=number, named=tuple(named)
    )


def _rows(
    messages: Sequence[Message],
    costs: Sequence[int],
    *,
    seqs: Sequence[int],
    ends: tuple[int, int, int, int],
    fates: Sequence[_Range],
    system: Sequence[int],
) -> Iterator[SentItem]:
    seq_of = _message_seqs(len(messages), seqs, ends, system)
    tools = _calls_by_id(messages)
    for index, (message, cost) in enumerate(zip(messages, costs, strict=True)):
        section = _section(index, ends)
        seq = seq_of[index]
        fate, reason = _fate(seq, section, fates)
        if section == Section.SYSTEM and seq == index + 1 and fate == Outcome.MOVED:
            fate, reason = _KEPT, ""  # it was logged first as well
        yield SentItem(
            index=index,
            section=section,
            seq=max(seq, 0),
            role=message.role,
            label=_label(message, section, tools),
            tokens=cost,
            fate=fate,
            reason=reason,
            digest=message_digest(message, size=8).hex(),
            text=excerpt(message),
        )


def _moved_systems(fates: Sequence[_Range]) -> list[int]:
    """Return the seqs of the system messages that the receipt (context report) lists as moved to the front."""
    return [
        seq
        for start, stop, outcome, reason in fates
        if outcome == Outcome.MOVED and reason.startswith("system message")
        for seq in range(start, stop)
    ]


def _message_seqs(
    count: int, seqs: Sequence[int], ends: tuple[int, int, int, int], system: Sequence[int]
) -> list[int]:
    """Return the log position of each message of a prompt; 0 for a message that is not in the log."""
    system_ends, summary_ends, window_ends, tail_ends = ends
    found = [0] * count
    if len(system) == system_ends:
        found[:system_ends] = system
    logged = [*range(summary_ends, window_ends), *range(tail_ends, count)]
    for index, seq in zip(logged, seqs, strict=False):
        found[index] = seq
    return found


def _section(index: int, ends: tuple[int, int, int, int]) -> str:
    for section, end in zip(Section, ends, strict=False):
        if index < end:
            return str(section)
    return str(Section.TURN)


def _fate(seq: int, section: str, fates: Sequence[_Range]) -> tuple[str, str]:
    if seq <= 0 and section in (Section.SUMMARY, Section.TAIL, Section.WINDOW, Section.TURN):
        return _INJECTED, _injected_reason(seq, section)
    for start, stop, outcome, reason in fates:
        if start <= seq < stop and seq > 0 and outcome in (Outcome.SHRUNK, Outcome.MOVED):
            return outcome, reason
    return _KEPT, ""


def _injected_reason(seq: int, section: str) -> str:
    if section == Section.SUMMARY:
        return "summary of the folded entries"
    if section == Section.TAIL:
        return "pins, rules, state, notes and recalled entries"
    return "placeholder for a missing tool result" if seq < 0 else ""


def _calls_by_id(messages: Sequence[Message]) -> dict[str, ToolCall]:
    return {call.id: call for message in messages for call in message.calls}


def _label(message: Message, section: str, tools: dict[str, ToolCall]) -> str:
    if section in (Section.SUMMARY, Section.TAIL):
        return section
    if message.calls:
        return ", ".join(f"{call.name}()" for call in message.calls)
    names = [tools[r.call_id].name for r in message.results if r.call_id in tools]
    return ", ".join(names) or message.role


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPoint:
    """Figures of one call without its messages, for a timeline."""

    call: str
    """Id of the model call."""
    number: int = 0
    """Number of the call in its session, from 1 (`call_numbers`); 0 if the numbers were not requested."""
    seq: int
    """Seq of the newest entry when the call was made."""
    created: int
    """Microseconds since 1970."""
    tokens: int
    allowed: int
    certainty: str
    counter: str
    sections: dict[str, int]
    tools: int
    """Tokens of the tool schemas."""
    messages: int
    kept_prefix: float
    """Share of the previous prompt that this call's prompt repeats at its beginning."""
    shared: int
    """Tokens at the beginning of the prompt that the previous call also sent."""
    moved: bool
    """True if the call moved the window, which invalidates the provider's cache from there on."""
    checkpoint: str
    folded: int
    dropped: int
    shrunk: int
    reported_input: int | None
    """Input tokens that the provider reported; None if no report is stored."""
    reported_cached: int | None
    cache_missed: bool
    """True if the provider reported no cached tokens although the beginning of the prompt was stable."""
    model: str = ""
    """The model that was called; empty if the model is not known."""
    reported_output: int | None = None
    """Output tokens that the provider reported; None if no report is stored."""

    @property
    def reply(self) -> int:
        """Tokens of the prompt that open the model's reply; they are in no section and no tool schema."""
        return self.tokens - sum(self.sections.values()) - self.tools


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """The messages that a model was sent in a call, and the parts of the log that were left out."""

    point: CallPoint
    exact: bool
    """True if the shown messages are verified to be exactly those that were sent."""
    window: int
    """The model's context window; 0 if the budget is only a number of tokens."""
    reserve: float
    items: tuple[SentItem, ...]
    left_out: tuple[LeftOut, ...]
    recalled: tuple[tuple[int, float], ...]
    """(seq, score) of each entry recalled into the tail (the pins, rules and passages before the newest turn)."""
    calls: int = 0
    """Number of calls of the session; 0 if the number was not requested."""
    tail: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens of the tail (pins, rules, recalled passages) by the label of each block: `pinned`, `rules`, `recalled`,
    and so on."""


def call_point(manifest: Manifest, number: int = 0) -> CallPoint:
    """Return the figures of a call for a timeline, from its manifest (stored report)."""
    usage = manifest.usage
    return CallPoint(
        call=manifest.call,
        number=number,
        seq=manifest.seq,
        created=manifest.created,
        tokens=manifest.tokens,
        allowed=manifest.allowed,
        certainty=manifest.certainty,
        counter=manifest.counter,
        sections=dict(manifest.sections),
        tools=manifest.tools,
        messages=manifest.messages,
        kept_prefix=manifest.prefix_share,
        shared=manifest.shared,
        moved=manifest.moved,
        checkpoint=manifest.checkpoint,
        folded=manifest.count(Outcome.FOLDED),
        dropped=manifest.count(Outcome.DROPPED),
        shrunk=manifest.count(Outcome.SHRUNK),
        reported_input=usage.input if usage else None,
        reported_cached=usage.cached if usage else None,
        cache_missed=manifest.cache_missed,
        model=manifest.called_model,
        reported_output=usage.output if usage else None,
    )


def call_view(
    explained: Explanation,
    numbers: Mapping[str, int] | None = None,
    *,
    rules: Sequence[StandingRule] = (),
) -> CallView:
    """Return the messages of a call, and the parts of the log that were left out.

    `numbers` are the call numbers, by call id; `rules` are all rules of the session, also ended ones, to name those for
    which there was no room.
    """
    manifest, numbers = explained.manifest, numbers or {}
    active = [rule for rule in rules if rule.state == "active" or rule.ended > manifest.seq]
    return CallView(
        point=call_point(manifest, numbers.get(manifest.call, 0)),
        calls=len(numbers),
        exact=explained.exact,
        window=int(manifest.budget["context_window"]),
        reserve=manifest.budget["reserve_ratio"],
        items=sent_items(explained),
        left_out=left_out(manifest.fates, rules=active, tail=manifest.tail),
        recalled=manifest.recalled,
        tail=explained.tail,
    )


def with_tail_parts(sections: Mapping[str, int], tail: Mapping[str, int]) -> dict[str, int]:
    """Return the tokens of the sections, with `pins`, `rules` and `recalled` instead of their sum, the tail.

    `pins` stands for everything else that an application puts into the tail: state, findings (remembered tool results),
    notes, workspace.
    """
    parts: dict[str, int] = {}
    for name, tokens in sections.items():
        if name != Section.TAIL:
            parts[name] = tokens
            continue
        rules, recalled = tail.get("rules", 0), tail.get("recalled", 0)
        parts |= {"pins": tokens - rules - recalled, "rules": rules, "recalled": recalled}
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """The beginning of the prompt that a provider can cache: for how long it has stayed the same."""

    calls: int
    """Number of calls since the last one that moved the window; all calls if none moved it."""
    tokens: int
    """Tokens at the beginning of the newest call that the call before also sent."""
    broken_by: str
    """The last call that moved the window, and so broke the provider's cache; empty if none did."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """Figures of the context that the next call would get: tokens, sections, what is compacted, cache state."""

    conversation: str
    counter: str
    window: int
    reserve: float
    allowed: int
    tokens: int
    free: int
    certainty: str
    sections: dict[str, int]
    tools: int
    reply: int
    messages: int
    roles: dict[str, int]
    """Tokens of the window and the newest turn by role."""
    delta: int | None
    """Difference in tokens between the next context and the newest call; None before the first call."""
    fold_at: int
    """Number of tokens from which a context is folded (compacted)."""
    folded: int
    dropped: int
    shrunk: int
    checkpoint: str
    checkpoint_upto: int
    checkpoints: int
    cache: CacheState
    calls: tuple[CallPoint, ...]
    """The newest calls, oldest first."""
    biggest: tuple[SentItem, ...]
    left_out: tuple[LeftOut, ...]
    tail: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens of the tail (pins, rules, recalled passages) by the label of each block: `pinned`, `rules`, `recalled`,
    and so on."""
    fold_failures: int = 0
    """Attempts to fold (compact) that failed since the last checkpoint."""
    fold_error: str = ""
    """Kind of the error of the last failed attempt to fold (compact)."""


def context_view(
    context: Context,
    *,
    conversation: str,
    calls: Sequence[CallPoint] = (),
    checkpoints: Sequence[Checkpoint] = (),
    status: SessionStatus | None = None,
    rules: Sequence[StandingRule] = (),
    threshold: float = 0.75,
    biggest: int = 5,
) -> ContextView:
    """Return the figures of a context for display; `calls` are the calls made so far, oldest first."""
    receipt, budget = context.receipt, context.budget
    items = sent_items(context)
    live = checkpoints[-1] if checkpoints else None
    tail = "\n".join(message.text for message in context.section(Section.TAIL))
    return ContextView(
        conversation=conversation,
        counter=context.counter.name,
        window=budget.context_window,
        reserve=budget.reserve_ratio,
        allowed=receipt.allowed,
        tokens=receipt.tokens,
        free=receipt.allowed - receipt.tokens,
        certainty=str(receipt.certainty),
        sections={str(name): tokens for name, tokens in receipt.sections.items()},
        tools=receipt.tools,
        reply=receipt.reply,
        messages=receipt.messages,
        roles=_roles(items),
        delta=receipt.tokens - calls[-1].tokens if calls else None,
        fold_at=int(threshold * receipt.allowed),
        folded=receipt.count(Outcome.FOLDED),
        dropped=receipt.count(Outcome.DROPPED),
        shrunk=receipt.count(Outcome.SHRUNK),
        checkpoint=live.id if live else "",
        checkpoint_upto=live.upto if live else 0,
        checkpoints=len(checkpoints),
        cache=_cache(calls),
        calls=tuple(calls),
        biggest=tuple(heapq.nlargest(biggest, items, key=lambda item: (item.tokens, -item.index))),
        left_out=left_out(_ranges(context), rules=rules, tail=tail),
        tail=context.tail_parts(),
        fold_failures=status.fold_failures if status else 0,
        fold_error=status.fold_error if status else "",
    )


def _roles(items: Sequence[SentItem]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items:
        if item.section in ("window", "turn"):
            found[item.role] = found.get(item.role, 0) + item.tokens
    return found


def _cache(calls: Sequence[CallPoint]) -> CacheState:
    moved = [at for at, call in enumerate(calls) if call.moved and at]
    last = moved[-1] if moved else 0
    broken = calls[last] if moved else None
    reason = ""
    if broken is not None:
        landed = broken.checkpoint != calls[last - 1].checkpoint
        reason = f"checkpoint {broken.checkpoint}" if landed else "the window was cut"
    return CacheState(
        calls=len(calls) - last,
        tokens=calls[-1].shared if calls else 0,
        broken_by=broken.call if broken else "",
        reason=reason,
    )
