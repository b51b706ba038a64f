"""Screen that compares two calls: where the second stops repeating the first, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile, zip_longest
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.inspect import (
    CallDiff,
    FirstDifference,
    SentItem,
    diff_calls,
    recent_calls,
    sent_items,
)
from turnfold.memory import Explanation
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    call_number,
    facts,
    session_trail,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen import (
    OpenedConversation,
    RenderedScreen,
    ScreenRequest,
    screen,
)

__all__ = ("diff",)


_OFFERED: Final = 200
_LONGEST_RUN: Final = 4
"""More equal messages in a row than this are shown as one line."""
_CallName = Annotated[str, Meta(min_length=1, max_length=512)]


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    before: _CallName
    after: _CallName


@screen("/sessions/{session}/diff", query=_Query)
async def diff(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the difference of two calls."""
    words, query, view = request.words, request.query, await request.open()
    name = view.session.id
    first = await view.session.explain(query.before)
    second = await view.session.explain(query.after)
    found = diff_calls(first, second)
    offered = [each.call for each in await recent_calls(view.session, most=_OFFERED)]
    return RenderedScreen(
        title=f"{words('compare')} {call_number(query.before)} → {call_number(query.after)}",
        session=name,
        tab="timeline",
        trail=session_trail(words, name),
        body=(
            _selection_form(name, offered, query, words),
            *_sections(found, view, (first, second), words),
        ),
    )


def _selection_form(name: str, calls: Sequence[str], query: _Query, words: PageLabels) -> Element:
    def select(field: str, chosen: str) -> Element:
        options = [
            tag("option", call_number(call), value=call, selected=call == chosen)
            for call in sorted({*calls, chosen})
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
    yield tag(
        "p",
        words(
            "identical: {messages} messages, {tokens:,} tokens; the {rest:,} after them are not cached",
            messages=found.same,
            tokens=found.same_tokens,
            rest=found.rebilled,
        ),
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
    changed = {name: tokens for name, tokens in found.sections.items() if tokens}
    if changed:
        yield facts((words.known(name), f"{tokens:+,}") for name, tokens in changed.items())
    yield tag("h2", words("side by side"))
    yield _beside(sent_items(both[0]), sent_items(both[1]), words)
    for label, items, kind in (("gone", found.gone, "gone"), ("new", found.new, "new")):
        yield tag("h2", f"{words(label)} ({len(items):,})")
        yield _items(items, kind, words)


def _beside(before: Sequence[SentItem], after: Sequence[SentItem], words: PageLabels) -> Element:
    """Return the messages of both calls in two columns, equal ones in one row; long equal runs are one line."""
    matcher = SequenceMatcher(
        None, [item.digest for item in before], [item.digest for item in after], autojunk=False
    )
    rows: list[list[Node]] = []
    for kind, old, old_end, new, new_end in matcher.get_opcodes():
        if kind == "equal" and old_end - old > _LONGEST_RUN:
            label = words("{messages:,} identical messages", messages=old_end - old)
            rows.append([tag("span", label, class_="quiet"), ""])
            continue
        pairs = zip_longest(before[old:old_end], after[new:new_end])
        rows += [[_side(left, kind, words), _side(right, kind, words)] for left, right in pairs]
    return table([words("before"), words("after")], rows, class_="beside")


def _side(item: SentItem | None, kind: str, words: PageLabels) -> Node:
    if item is None:
        return None
    place = words.known(item.section) + (f" #{item.seq}" if item.seq else "")
    return tag(
        "div",
        tag("span", f"{place} · {words.known(item.label)} · {item.tokens:,}", class_="quiet"),
        tag("p", item.text, dir="auto"),
        class_="same" if kind == "equal" else "changed",
        data_digest=item.digest,
    )


def _token_of(
    found: CallDiff, view: OpenedConversation, both: tuple[Explanation, Explanation]
) -> int:
    """Return where the prompts part, in tokens from the start of the second one."""
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
    both = zip(first.text_before, first.text_after, strict=False)
    same = "".join(old for old, _ in takewhile(lambda pair: pair[0] == pair[1], both))
    return tag(
        "div",
        tag("p", place, data_index=first.index, data_character=first.character, data_token=token),
        tag("p", words("before"), " ", _place(first.before), class_="quiet"),
        tag("pre", same, tag("del", first.text_before[len(same) :]), dir="auto"),
        tag("p", words("after"), " ", _place(first.after), class_="quiet"),
        tag("pre", same, tag("ins", first.text_after[len(same) :]), dir="auto"),
        class_="first-difference",
    )


def _place(item: SentItem | None) -> str:
    if item is None:
        return "-"
    place = f"{item.section} #{item.seq}" if item.seq else item.section
    return place if item.label == item.section else f"{place} {item.label}"


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
