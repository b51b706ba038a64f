"""Screen that compares two calls: the first difference, the tokens after it, and both prompts side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import chain, takewhile, zip_longest
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from turnfold.inspect import (
    CallDiff,
    FirstDifference,
    SentItem,
    call_numbers,
    diff_calls,
    sent_items,
)
from turnfold.memory import Explanation
from turnfold.records import Message
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    facts,
    message_block,
    session_trail,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import (
    OpenedConversation,
    RenderedScreen,
    ScreenRequest,
    screen,
)

__all__ = ("diff",)


_OFFERED: Final = 200
_MOST_COMPARED: Final = 4_000_000
"""Most pairs of lines or messages that are compared one by one; above that, the differing middle is shown as replaced
whole."""
_LONGEST_RUN: Final = 4
"""A longer run of equal lines or messages is shown as one line with their number."""
_Sent: TypeAlias = tuple[SentItem, Message]
"""A message in the form in which a call sent it, with its place in the prompt."""
_CallName = Annotated[str, Meta(min_length=1, max_length=512)]


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    before: _CallName
    after: _CallName


@screen("/sessions/{session}/diff", query=_Query)
async def diff(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the page that compares the prompts of two calls."""
    words, query, view = request.words, request.query, await request.open()
    name = view.session.id
    first = await view.session.explain(query.before)
    second = await view.session.explain(query.after)
    numbers = await call_numbers(view.session)
    found = await view.config.runtime.compute(partial(diff_calls, first, second, numbers))
    return RenderedScreen(
        title=f"{words('compare')} {found.before.number:,} → {found.after.number:,}",
        session=name,
        tab="timeline",
        trail=session_trail(words, name),
        body=chain(
            (_selection_form(name, numbers, query, words),),
            _sections(found, view, (first, second), words),
        ),
    )


def _selection_form(
    name: str, numbers: Mapping[str, int], query: _Query, words: PageLabels
) -> Element:
    offered = list(numbers)[-_OFFERED:]

    def select(field: str, chosen: str) -> Element:
        options = [
            tag("option", f"{numbers.get(call, 0):,}", value=call, selected=call == chosen)
            for call in sorted({*offered, chosen})
        ]
        return tag("label", words(field), " ", tag("select", options, name=field))

    return tag(
        "form",
        select("before", query.before),
        select("after", query.after),
        tag("button", words("compare"), type="submit"),
        method="get",
        action=address("sessions", name, "diff"),
        class_="search",
    )


def _sections(
    found: CallDiff,
    view: OpenedConversation,
    both: tuple[Explanation, Explanation],
    words: PageLabels,
) -> Iterator[Node]:
    if not found.same_tools:
        same = "The tool schemas changed. They stand before the messages, so none of the {rest:,} tokens is cached."
    elif found.same > 1:
        same = (
            "The first {messages:,} messages ({tokens:,} tokens) are identical; "
            "not cached: {rest:,} tokens after them."
        )
    elif found.same:
        same = "The first message ({tokens:,} tokens) is identical; not cached: {rest:,} tokens after it."
    else:
        same = "No message at the beginning is identical: none of the {rest:,} tokens is cached."
    yield tag(
        "p",
        words(same, messages=found.same, tokens=found.same_tokens, rest=found.rebilled),
        data_same=found.same,
        data_rebilled=found.rebilled,
        class_="lead",
    )
    yield tag("h2", words("first difference"))
    if found.first is None:
        yield tag("p", words("the same messages"))
    else:
        yield _first(found.first, _token_of(found, view, both), words)
    if found.reasons:
        yield tag("h2", words("why it changed"))
        yield tag("ul", [tag("li", words.reason(reason)) for reason in found.reasons])
    tails = both[0].manifest.tail, both[1].manifest.tail
    if tails[0] != tails[1]:
        yield tag(
            "details",
            tag("summary", words("the tail (pins, rules, recalled passages), line by line")),
            tag("pre", list(_changed_lines(*tails, words)), class_="lines", dir="auto"),
            open=True,
        )
    changed = {name: tokens for name, tokens in found.sections.items() if tokens}
    if changed:
        yield facts((words.known(name), f"{tokens:+,}") for name, tokens in changed.items())
    yield tag("h2", words("side by side"))
    yield _beside(_sent(both[0]), _sent(both[1]), words)
    for label, items, kind in (("gone", found.gone, "gone"), ("new", found.new, "new")):
        yield tag("h2", f"{words(label)} ({len(items):,})")
        yield _items(items, kind, words)


def _changed_lines(before: str, after: str, words: PageLabels) -> Iterator[Node]:
    """Yield the lines of two texts as a diff: removed, added and kept lines; long kept runs are one line."""
    old_lines, new_lines = before.splitlines(), after.splitlines()
    for kind, old, old_end, new, new_end in _changes(old_lines, new_lines):
        if kind == "equal" and old_end - old > _LONGEST_RUN:
            label = words("{lines:,} identical lines", lines=old_end - old)
            yield tag("span", f"  … {label}\n", class_="quiet")
        elif kind == "equal":
            yield "".join(f"  {line}\n" for line in old_lines[old:old_end])
        else:
            yield from (tag("del", f"- {line}\n") for line in old_lines[old:old_end])
            yield from (tag("ins", f"+ {line}\n") for line in new_lines[new:new_end])


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield how one list becomes another, as `difflib` says it: kind, and the range in each of both.

    Comparing takes the time of each item with every equal one, so what is between the same beginning and the same end
    is shown as replaced if it is long.
    """
    shorter = min(len(old), len(new))
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    ends = zip(reversed(old), reversed(new), strict=False)
    tail = min(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends)), shorter - head)
    old_end, new_end = len(old) - tail, len(new) - tail
    if head:
        yield "equal", 0, head, 0, head
    if (old_end - head) * (new_end - head) > _MOST_COMPARED:
        yield "replace", head, old_end, head, new_end
    else:
        matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
        for kind, *places in matcher.get_opcodes():
            first, last, begin, end = (place + head for place in places)
            yield kind, first, last, begin, end
    if tail:
        yield "equal", old_end, len(old), new_end, len(new)


def _sent(explained: Explanation) -> list[_Sent]:
    return list(zip(sent_items(explained), explained.messages, strict=True))


def _beside(before: Sequence[_Sent], after: Sequence[_Sent], words: PageLabels) -> Element:
    """Return the messages of both calls in two columns, equal ones in the same row; long equal runs are one line."""
    old_digests, new_digests = ([item.digest for item, _ in side] for side in (before, after))
    rows: list[list[Node]] = []
    for kind, old, old_end, new, new_end in _changes(old_digests, new_digests):
        if kind == "equal" and old_end - old > _LONGEST_RUN:
            label = words("{messages:,} identical messages", messages=old_end - old)
            rows.append([tag("span", label, class_="quiet"), ""])
            continue
        pairs = zip_longest(before[old:old_end], after[new:new_end])
        rows += [[_side(left, kind, words), _side(right, kind, words)] for left, right in pairs]
    return table([words("before"), words("after")], rows, class_="beside")


def _side(sent: _Sent | None, kind: str, words: PageLabels) -> Node:
    if sent is None:
        return None
    item, message = sent
    head = f"{_place(item, words)} · {words('{tokens:,} tokens', tokens=item.tokens)}"
    return tag(
        "div",
        tag("span", head, class_="quiet"),
        tag("p", item.text, dir="auto"),
        None
        if kind == "equal"
        else tag(
            "details", tag("summary", words("the whole message")), message_block(message, words)
        ),
        class_="same" if kind == "equal" else "changed",
        data_digest=item.digest,
    )


def _token_of(
    found: CallDiff, view: OpenedConversation, both: tuple[Explanation, Explanation]
) -> int:
    """Return the number of tokens of the second prompt before the first difference."""
    first = found.first
    if first is None or not first.character:
        return found.same_tokens
    message = both[1].messages[first.index]
    text = message.text + "".join(f"{call.name}({call.arguments})" for call in message.calls)
    return found.same_tokens + view.session.counter.count_text(text[: first.character])


def _first(first: FirstDifference, token: int, words: PageLabels) -> Element:
    place = words(
        "message {index}, character {character}, about token {token:,} of the prompt",
        index=first.index,
        character=first.character,
        token=token,
    )
    same, old, new, ending = _parts(first.text_before, first.text_after)
    return tag(
        "div",
        tag("p", place, data_index=first.index, data_character=first.character, data_token=token),
        tag("p", words("before"), " · ", _place(first.before, words), class_="quiet"),
        tag("pre", same, tag("del", old), ending, dir="auto"),
        tag("p", words("after"), " · ", _place(first.after, words), class_="quiet"),
        tag("pre", same, tag("ins", new), ending, dir="auto"),
        class_="first-difference",
    )


def _parts(before: str, after: str) -> tuple[str, str, str, str]:
    """Split two texts into the beginning and ending that both have, and the different middle of each."""
    same = _beginning(before, after)
    old, new = before[len(same) :], after[len(same) :]
    ending = _beginning(old[::-1], new[::-1])[::-1]
    return same, old.removesuffix(ending), new.removesuffix(ending), ending


def _beginning(one: str, other: str) -> str:
    pairs = zip(one, other, strict=False)
    return "".join(old for old, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _place(item: SentItem | None, words: PageLabels) -> str:
    if item is None:
        return "-"
    section = words.known(item.section)
    place = f"{section} #{item.seq}" if item.seq else section
    return place if item.label == item.section else f"{place} · {words.known(item.label)}"


def _items(items: Sequence[SentItem], kind: str, words: PageLabels) -> Element:
    if not items:
        return tag("p", "-")
    rows: list[list[Node]] = [
        [
            str(item.index),
            words.known(item.section),
            f"#{item.seq}" if item.seq else "-",
            words.known(item.label),
            f"{item.tokens:,}",
            tag("span", item.text, class_="excerpt", dir="auto"),
        ]
        for item in items
    ]
    heads = ("message", "section", "seq", "role", "tokens", "text")
    return table([words(head) for head in heads], rows, class_=kind)
