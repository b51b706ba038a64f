"""Screens of what a session remembers: pins, state and findings (remembered tool results), rules, a trial of recall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from turnfold.memory import ScoreParts, recalled_text
from turnfold.records import Finding
from turnfold.rules import StandingRule
from turnfold.search import Recalled, snippet
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    json_block,
    marked,
    moment,
    session_trail,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.page import as_command, to_copy
from turnfold.service.inspector.screen_types import (
    NoQuery,
    OpenedConversation,
    RenderedScreen,
    ScreenRequest,
    screen,
)
from turnfold.text import search_terms

__all__ = (
    "memory",
    "recall",
    "rules",
)


@screen("/sessions/{session}/rules")
async def rules(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render the page with a session's rules (standing instructions of the user), active rules first."""
    words, view = request.words, await request.open()
    name = view.session.id
    found = await view.session.rules(ended=True)
    ordered = sorted(found, key=lambda rule: rule.state != "active")
    heads = ("entry", "kind", "state", "text")
    by_id = {rule.id: rule for rule in found}
    tenant = request.caller.tenant
    rows = [_row(rule, by_id, name, tenant, words) for rule in ordered]
    return RenderedScreen(
        title=f"{words('rules')} · {name}",
        session=name,
        tab="rules",
        about="Instructions of the user, word for word; calls show active ones once their messages left the window.",
        trail=session_trail(words, name),
        body=(
            table([words(head) for head in heads], rows)
            if rows
            else tag("p", words("no rules yet")),
        ),
        live=await view.live(),
    )


def _row(
    rule: StandingRule,
    by_id: Mapping[str, StandingRule],
    name: str,
    tenant: str,
    words: PageLabels,
) -> list[Node]:
    state: list[Node] = [tag("span", words(rule.state), class_=f"chip rule-{rule.state}")]
    if rule.ended:
        state += [
            f" {words('by entry')} ",
            tag("a", f"#{rule.ended}", href=_entry(name, rule.ended)),
        ]
    text: list[Node] = [tag("span", rule.full_text, dir="auto")]
    if others := [by_id[each] for each in rule.may_replace if each in by_id]:
        links = [_said(each, name) for each in others]
        parted = [node for link in links for node in (", ", link)][1:]
        text.append(tag("p", words("may replace"), " ", *parted, class_="note"))
    if rule.state == "active":
        text.append(_drop(rule, name, tenant, words))
    return [_said(rule, name), words(rule.kind), tag("span", *state), tag("div", *text)]


def _said(rule: StandingRule, name: str) -> Node:
    """Return a link to the entry that states a rule; the rule's id if it was added by hand."""
    if not rule.seq:
        return tag("code", rule.id)
    return tag("a", f"#{rule.seq}", href=_entry(name, rule.seq), class_="row")


def _drop(rule: StandingRule, name: str, tenant: str, words: PageLabels) -> Element:
    """Return a block with the command that drops a rule, to be copied."""
    command = as_command("rules", name, "--drop", rule.id, "--tenant", tenant)
    note = words("Pages are read-only. Run this where the store is; name it with --store.")
    missing = words("the name has invisible characters: type it by hand")
    return to_copy(words("drop this rule"), command, words, note=note, missing=missing)


def _entry(name: str, seq: int) -> str:
    return address("sessions", name, "log", after=seq - 1, upto=seq)


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(max_length=4000)] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    tokens: Annotated[int, Meta(ge=1, le=100_000)] = 800


@screen("/sessions/{session}/recall", query=_Query)
async def recall(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the page that tries a recall: the entries that match a query, with scores, and the text for the model."""
    words, query, view = request.words, request.query, await request.open()
    name = view.session.id
    found, shown, parts = list[Recalled](), list[Recalled](), dict[int, ScoreParts]()
    if query.query.strip():
        found = await view.session.recall(query.query, limit=query.limit)
        shown = await view.session.recall(query.query, tokens=query.tokens)
        parts = await view.score_parts(query.query)

    def body() -> Iterator[Node]:
        yield _form(name, query, words)
        if query.query.strip():
            yield _matches(found, parts, name, query.query, words)
            yield from _shown(shown, view, query.tokens, words)

    return RenderedScreen(
        title=f"{words('recall')} · {name}",
        session=name,
        tab="recall",
        about="Try a recall in this session: the entries it finds, and the text that the model would get.",
        trail=session_trail(words, name),
        body=body(),
    )


def _shown(
    shown: list[Recalled], view: OpenedConversation, tokens: int, words: PageLabels
) -> Iterator[Node]:
    text = recalled_text(shown)
    cost = view.session.counter.count_text(text)
    yield tag("h2", words("as a context would show it"))
    yield tag("p", f"{cost:,} / {words('{tokens:,} tokens', tokens=tokens)}", data_cost=cost)
    yield tag("pre", text or words("nothing found"), dir="auto", class_="summary")


def _form(name: str, query: _Query, words: PageLabels) -> Element:
    return tag(
        "form",
        tag("input", type="search", name="query", value=query.query, placeholder=words("query"),
            aria_label=words("query"), maxlength=4000),
        tag("label", words("results"), " ",
            tag("input", type="number", name="limit", min=1, max=100, value=query.limit)),
        tag("label", words("tokens shown to the model"), " ",
            tag("input", type="number", name="tokens", min=1, max=100_000, value=query.tokens)),
        tag("button", words("search"), type="submit"),
        method="get",
        action=address("sessions", name, "recall"),
        class_="search",
    )  # fmt: skip


def _matches(
    found: list[Recalled], parts: Mapping[int, ScoreParts], name: str, query: str, words: PageLabels
) -> Element:
    if not found:
        return tag("p", words("nothing found"))
    terms = search_terms(query)
    rows: list[list[Node]] = [
        [
            tag("a", f"#{each.seq}", class_="row",
                href=f"{address('sessions', name, 'log', after=each.seq - 1, upto=each.seq)}#entry-{each.seq}"),
            f"{each.turn}",
            words.known(each.message.role),
            f"{each.score:.3f}",
            *_parts(parts.get(each.seq)),
            tag("span", list(marked(snippet(each.message.text, terms))), dir="auto"),
            moment(each.created),
        ]
        for each in found
    ]  # fmt: skip
    heads = (
        "entry", "turn", "role", "score", "by words", "by meaning", "by neighbours", "text", "created",
    )  # fmt: skip
    return table([words(head) for head in heads], rows, class_="matches")


def _parts(known: ScoreParts | None) -> list[Node]:
    """Return table cells with the parts of an entry's recall score; a dash for an unknown part."""
    if known is None:
        return ["-", "-", "-"]
    meaning = "-" if known.meaning is None else f"{known.meaning:.3f}"
    return [f"{known.words:.3f}", meaning, f"{known.neighbours:.3f}"]


@screen("/sessions/{session}/memory")
async def memory(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render the page with a session's pins, state and valid findings (remembered tool results)."""
    words, view = request.words, await request.open()
    name = view.session.id
    pins = await view.session.pins()
    state = await view.session.state.all()
    findings = await view.session.findings.list()
    return RenderedScreen(
        title=f"{words('pins & findings')} · {name}",
        session=name,
        tab="memory",
        trail=session_trail(words, name),
        about="Pins, state and findings, which calls show in their tail beside rules and recalled entries.",
        body=(
            tag("h2", words("pins")),
            _pins(pins, words),
            tag("h2", words("state")),
            json_block(state, words) if state else tag("p", words("none")),
            tag("h2", words("findings (remembered tool results)")),
            *_findings(findings, name, words),
        ),
        live=await view.live(),
    )


def _pins(pins: Mapping[str, str], words: PageLabels) -> Node:
    if not pins:
        return tag("p", words("none"))
    rows: list[list[Node]] = [
        [tag("code", key), tag("span", text, dir="auto")] for key, text in pins.items()
    ]
    return table([words("name"), words("text")], rows, class_="pins")


def _findings(findings: tuple[Finding, ...], name: str, words: PageLabels) -> Iterator[Node]:
    if not findings:
        yield tag("p", words("none"))
        return
    rows: list[list[Node]] = []
    for each in findings:
        href = f"{address('sessions', name, 'log', after=each.seq - 1, upto=each.seq)}#entry-{each.seq}"
        rows.append(
            [
                tag("a", f"#{each.seq}", href=href, class_="row") if each.seq else "-",
                tag("code", f"{each.tool}({each.arguments})"),
                f"{each.score:.2f}",
                tag("span", each.content[:400], class_="excerpt", dir="auto"),
                moment(each.created),
                moment(each.expires) if each.expires else words("never"),
            ]
        )
    heads = ("entry", "tool", "score", "text", "created", "expires")
    yield table([words(head) for head in heads], rows, class_="findings")
