"""Two calls of a session: where the second stops repeating the first, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.memory.inspecting import CallDiff, FirstDifference, Item, diff_calls
from turnfold.memory.manifests import Explanation
from turnfold.memory.recent_calls import recent_calls
from turnfold.service.inspector.asked import Looked, Shown, Viewing, screen
from turnfold.service.inspector.markup import Element, Node, address, tag
from turnfold.service.inspector.pieces import facts, session_trail, table
from turnfold.service.inspector.words import Words

__all__ = ("diff",)

_OFFERED: Final = 200
_CallName = Annotated[str, Meta(min_length=1, max_length=512)]


class _Choice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    before: _CallName
    after: _CallName


@screen("/sessions/{session}/diff", choice=_Choice)
async def diff(view: Viewing[_Choice]) -> Shown:
    """The difference."""
    words, choice, looked = view.words, view.choice, await view.look()
    name = looked.session.id
    first = await looked.session.explain(choice.before)
    second = await looked.session.explain(choice.after)
    found = diff_calls(first, second)
    made = [each.call for each in await recent_calls(looked.session, most=_OFFERED)]
    return Shown(
        title=f"{words('compare')} {choice.before} → {choice.after}",
        session=name,
        tab="timeline",
        trail=session_trail(words, name),
        body=(
            _choosing(name, made, choice, words),
            *_drawn(found, looked, (first, second), words),
        ),
    )


def _choosing(name: str, made: Sequence[str], choice: _Choice, words: Words) -> Element:
    def select(field: str, chosen: str) -> Element:
        offered = sorted({*made, chosen})
        options = [tag("option", call, value=call, selected=call == chosen) for call in offered]
        return tag("label", words(field), " ", tag("select", options, name=field))

    return tag(
        "form",
        select("before", choice.before),
        select("after", choice.after),
        tag("button", words("compare"), type="submit"),
        method="get",
        action=address("sessions", name, "diff"),
        class_="search",
    )


def _drawn(
    found: CallDiff, looked: Looked, both: tuple[Explanation, Explanation], words: Words
) -> Iterator[Node]:
    yield tag(
        "p",
        words(
            "the same: {messages} messages, {tokens:,} tokens; no cache serves the {rest:,} behind them",
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
        yield _first(found.first, _token_of(found, looked, both), words)
    if found.reasons:
        yield tag("h2", words("why it changed"))
        yield tag("ul", [tag("li", reason) for reason in found.reasons])
    grown = {name: tokens for name, tokens in found.sections.items() if tokens}
    if grown:
        yield facts((words.known(name), f"{tokens:+,}") for name, tokens in grown.items())
    for label, items, kind in (("gone", found.gone, "gone"), ("new", found.new, "new")):
        yield tag("h2", f"{words(label)} ({len(items):,})")
        yield _items(items, kind, words)


def _token_of(found: CallDiff, looked: Looked, both: tuple[Explanation, Explanation]) -> int:
    """Where in the second prompt the two part, in tokens from its beginning."""
    first = found.first
    if first is None or not first.character:
        return found.same_tokens
    messages = both[1].messages
    message = messages[first.index]
    said = message.text + "".join(f"{call.name}({call.arguments})" for call in message.calls)
    return found.same_tokens + looked.session.counter.count_text(said[: first.character])


def _first(first: FirstDifference, token: int, words: Words) -> Element:
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
        tag("p", words("before"), " ", _named(first.before), class_="quiet"),
        tag("pre", same, tag("del", first.text_before[len(same) :]), dir="auto"),
        tag("p", words("after"), " ", _named(first.after), class_="quiet"),
        tag("pre", same, tag("ins", first.text_after[len(same) :]), dir="auto"),
        class_="first-difference",
    )


def _named(item: Item | None) -> str:
    if item is None:
        return "-"
    place = f"{item.section} #{item.seq}" if item.seq else item.section
    return place if item.label == item.section else f"{place} {item.label}"


def _items(items: Sequence[Item], kind: str, words: Words) -> Element:
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
