"""A place to try what a recall finds: the matches with their scores, and the text a model would be shown for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from turnfold.memory.recalling import ScoreParts
from turnfold.memory.tail import recalled_text
from turnfold.recall import Recalled, asked_terms
from turnfold.recall.snippets import Snippet, snippet
from turnfold.service.inspector.asked import Shown, Viewing, screen
from turnfold.service.inspector.markup import Element, Node, address, tag
from turnfold.service.inspector.pieces import moment, session_trail, table
from turnfold.service.inspector.words import Words

__all__ = ("recall",)


class _Choice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=4000)] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    tokens: Annotated[int, Meta(ge=1, le=100_000)] = 800


@screen("/sessions/{session}/recall", choice=_Choice)
async def recall(view: Viewing[_Choice]) -> Shown:
    """The recall lab."""
    words, choice, looked = view.words, view.choice, await view.look()
    name = looked.session.id
    body: list[Node] = [_form(name, choice, words)]
    if choice.query.strip():
        found = await looked.session.recall(choice.query, limit=choice.limit)
        shown = await looked.session.recall(choice.query, tokens=choice.tokens)
        text = recalled_text(shown)
        cost = looked.session.counter.count_text(text)
        parts = await looked.score_parts(choice.query)
        body.append(_matches(found, parts, name, choice.query, words))
        body.append(tag("h2", words("as a context would show it")))
        body.append(tag("p", f"{cost:,} / {choice.tokens:,} {words('tokens')}", data_cost=cost))
        body.append(tag("pre", text or words("nothing found"), dir="auto", class_="summary"))
    return Shown(
        title=f"{words('recall')} · {name}",
        session=name,
        tab="recall",
        trail=session_trail(words, name),
        body=tuple(body),
    )


def _form(name: str, choice: _Choice, words: Words) -> Element:
    return tag(
        "form",
        tag("input", type="search", name="query", value=choice.query, placeholder=words("query"),
            aria_label=words("query"), maxlength=4000),
        tag("label", words("how many"), " ",
            tag("input", type="number", name="limit", min=1, max=100, value=choice.limit)),
        tag("label", words("tokens shown to the model"), " ",
            tag("input", type="number", name="tokens", min=1, max=100_000, value=choice.tokens)),
        tag("button", words("search"), type="submit"),
        method="get",
        action=address("sessions", name, "recall"),
        class_="search",
    )  # fmt: skip


def _matches(
    found: list[Recalled], parts: Mapping[int, ScoreParts], name: str, query: str, words: Words
) -> Element:
    if not found:
        return tag("p", words("nothing found"))
    terms = asked_terms(query)
    rows: list[list[Node]] = [
        [
            tag("a", f"#{each.seq}", class_="row",
                href=f"{address('sessions', name, 'log', after=each.seq - 1, upto=each.seq)}#entry-{each.seq}"),
            f"{each.turn}",
            words.known(each.message.role),
            f"{each.score:.3f}",
            *_parts(parts.get(each.seq)),
            tag("span", list(_marked(snippet(each.message.text, terms))), dir="auto"),
            moment(each.created),
        ]
        for each in found
    ]  # fmt: skip
    heads = (
        "entry", "turn", "role", "score", "by words", "by meaning", "by neighbours", "text", "created",
    )  # fmt: skip
    return table([words(head) for head in heads], rows, class_="matches")


def _parts(known: ScoreParts | None) -> list[Node]:
    """What a score is made of; a dash for what nobody knows."""
    if known is None:
        return ["-", "-", "-"]
    meaning = "-" if known.meaning is None else f"{known.meaning:.3f}"
    return [f"{known.words:.3f}", meaning, f"{known.beside:.3f}"]


def _marked(shown: Snippet) -> Iterator[Node]:
    if shown.before:
        yield "…"
    at = 0
    for start, stop in shown.marks:
        yield shown.text[at:start]
        yield tag("mark", shown.text[start:stop])
        at = stop
    yield shown.text[at:]
    if shown.after:
        yield "…"
