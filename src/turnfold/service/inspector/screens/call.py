"""Screen of one call: the messages sent, the entries left out with the reasons, and the request for a provider."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, Literal, TypeAlias

import msgspec

from turnfold import wire
from turnfold.inspect import (
    CallPoint,
    CallView,
    LeftOutRule,
    SentItem,
    call_numbers,
    call_view,
    with_tail_parts,
)
from turnfold.memory import Explanation
from turnfold.records import encode_message
from turnfold.service.inspector.charts import budget_bar, legend, parts_of
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    checkpoint_link,
    entry_range,
    facts,
    json_block,
    message_block,
    moment,
    session_trail,
    sized,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.page import as_command, as_curl, as_pytest, to_copy
from turnfold.service.inspector.screen_types import (
    OpenedConversation,
    RenderedScreen,
    ScreenRequest,
    screen,
)
from turnfold.wire import WireFormat

__all__ = ("call",)


_Form: TypeAlias = Literal["neutral", "openai", "anthropic", "raw"]
_FORMS: Final[tuple[tuple[_Form, str], ...]] = (
    ("neutral", "neutral"),
    ("openai", "OpenAI"),
    ("anthropic", "Anthropic"),
    ("raw", "raw"),
)


_PROVIDERS: Final[tuple[tuple[Literal["openai", "anthropic"], str, WireFormat], ...]] = (
    ("openai", "OpenAI", wire.openai_chat),
    ("anthropic", "Anthropic", wire.anthropic),
)


_NUMBER: Final = re.compile("[0-9]{1,9}")
"""Matches the number of a call, such as 12, which the address of the screen may have in place of the call's id."""
_MOST_RECALLED: Final = 12
"""Number of recalled entries that are listed; a call may have some hundred."""


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    form: _Form = "neutral"


@screen("/sessions/{session}/calls/{call}", query=_Query)
async def call(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the page of one model call: messages sent, entries left out, the request for a provider."""
    words, view = request.words, await request.open()
    given = request.params["call"]
    explained = await view.session.explain(int(given) if _NUMBER.fullmatch(given) else given)
    numbers = await call_numbers(view.session)
    rules = await view.session.rules(ended=True)
    seen = await view.config.runtime.compute(partial(call_view, explained, numbers, rules=rules))
    name = view.session.id
    point = seen.point
    parts = with_tail_parts(parts_of(point), seen.tail)
    return RenderedScreen(
        title=f"{_number(seen, words)} · {words('what the model saw')}",
        session=name,
        tab="timeline",
        trail=session_trail(words, name),
        about="What one model call sent: click a line for the whole message.",
        body=chain(
            (
                _figures(seen, view, words),
                budget_bar(parts, point.allowed, words),
                legend(parts, words, free=max(point.allowed - point.tokens, 0)),
                _neighbours(name, point, list(numbers), words),
                _forms(name, point.call, request.query.form, words),
            ),
            _sent(request.query.form, seen, explained, name, words),
            (tag("h2", words("copy this call")),),
            _copies(request, explained, name),
        ),
    )


def _copies(request: ScreenRequest[_Query], explained: Explanation, name: str) -> Iterator[Element]:
    """Return blocks to copy: the call as a command, as curl requests to providers, and as a pytest test."""
    words, tenant, call_id = request.words, request.caller.tenant, explained.manifest.call
    where = words("Run it where the store is; set TURNFOLD_STORE.")
    command = as_command("explain", name, call_id, "--tenant", tenant)
    missing = words("the name has invisible characters: type it by hand")
    yield to_copy(words("copy as a command"), command, words, note=where, missing=missing)
    called = explained.manifest.called_model
    missing = words("it contains media or long texts, which are too long to copy")
    for provider, label, wire_format in _PROVIDERS:
        model = called if called.startswith("claude") == (provider == "anthropic") else ""
        body = wire_format.request(explained.messages, max_bytes=0).kwargs
        text = as_curl(provider, body, model)
        note = words("Tool schemas are not stored, so they are missing.")
        if not model:
            note = f"{words('Replace MODEL with your model.')} {note}"
        title = words("copy as curl for {provider}", provider=label)
        yield to_copy(title, text, words, note=note, missing=missing)
    yield to_copy(words("copy as pytest"), as_pytest(explained, name, tenant), words, note=where)


def _figures(seen: CallView, view: OpenedConversation, words: PageLabels) -> Element:
    point = seen.point
    share = point.tokens / point.allowed if point.allowed else 0.0
    proof = (
        "verified: exactly the messages sent"
        if seen.exact
        else "not verified to be the messages sent"
    )
    rows: list[tuple[str, Node]] = [
        (
            words("counted"),
            f"{point.tokens:,} / {point.allowed:,} ({share:.0%}), {words.known(point.certainty)}",
        ),
        (words("reported"), _reported(point, words)),
        (
            words("model"),
            point.model or words("not known"),
        ),
        (
            words("repeated from the previous call"),
            words(
                "{share:.0%} of that call, {tokens:,} tokens",
                share=point.kept_prefix,
                tokens=point.shared,
            ),
        ),
        (words("checkpoint"), checkpoint_link(view.session.id, point.checkpoint, words)),
        (words("verification"), words(proof)),
        (words("created"), moment(point.created)),
        (words("counter"), tag("code", point.counter)),
        (words("id of the call"), tag("code", point.call)),
    ]
    if seen.window:
        rows.append((words("window"), f"{seen.window:,} · {words('reserve')} {seen.reserve:.0%}"))
    if seen.recalled:
        rows.append((words("recalled (entry, score)"), _recalled(seen, view.session.id, words)))
    if point.cache_missed:
        note = "nothing was cached, although the first {shared:,} tokens are the same as in the previous call"
        rows.append((words("warnings"), words(note, shared=point.shared)))
    if not view.known_counter:
        note = "token counts differ from the recorded ones: the counter {counter} is unknown here"
        rows.append((words("warnings"), words(note, counter=view.head.counter)))
    return facts(rows)


def _recalled(seen: CallView, name: str, words: PageLabels) -> Element:
    """Return links to the first recalled entries, and the number of the others."""
    links: list[Node] = []
    for seq, score in seen.recalled[:_MOST_RECALLED]:
        href = f"{address('sessions', name, 'log', after=seq - 1, upto=seq)}#entry-{seq}"
        links += [tag("a", f"#{seq}", href=href), f" {score:.1f}", ", "]
    more = len(seen.recalled) - _MOST_RECALLED
    return tag(
        "span", links[:-1], f" {words('… and {more:,} more', more=more)}" if more > 0 else None
    )


def _reported(point: CallPoint, words: PageLabels) -> str:
    if point.reported_input is None:
        return words("not recorded: session.record_usage() stores it")
    return words(
        "the provider counted {reported:,} ({cached:,} cached); turnfold's count differs by {off:+.1%}",
        reported=point.reported_input,
        cached=point.reported_cached or 0,
        off=point.tokens / point.reported_input - 1 if point.reported_input else 0.0,
    )


def _number(seen: CallView, words: PageLabels) -> str:
    return words("call {number:,} of {calls:,}", number=seen.point.number, calls=seen.calls)


def _neighbours(name: str, point: CallPoint, calls: Sequence[str], words: PageLabels) -> Element:
    """Return links to the calls before and after this one."""
    links: list[Node] = []
    if point.number > 1:
        before = calls[point.number - 2]
        diff = address("sessions", name, "diff", before=before, after=point.call)
        back = address("sessions", name, "calls", before)
        links += [" · ", tag("a", words("previous call"), href=back, rel="prev")]
        links += [" · ", tag("a", words("compare with the call before"), href=diff)]
    if point.number < len(calls):
        href = address("sessions", name, "calls", calls[point.number])
        links += [" · ", tag("a", words("next call"), href=href, rel="next")]
    return tag("p", links[1:])


def _forms(name: str, call_id: str, chosen: str, words: PageLabels) -> Element:
    return tag(
        "nav",
        [
            tag(
                "a",
                words.known(label),
                href=address("sessions", name, "calls", call_id, form=form),
                aria_current="page" if form == chosen else None,
            )
            for form, label in _FORMS
        ],
        class_="tabs forms",
    )


def _sent(
    form: _Form, seen: CallView, explained: Explanation, name: str, words: PageLabels
) -> Iterator[Node]:
    if form == "neutral":
        yield tag("h2", words("sent, in this order"))
        heads = ("message", "section", "entry", "role", "tokens", "text")
        yield tag("div", [tag("span", words(head)) for head in heads], class_="items-head sent")
        yield tag("ol", list(_items(seen, explained, words)), class_="items sent")
        yield tag("h2", words("left out"))
        yield _left_out(seen, name, words)
        return
    if form == "raw":
        lines = [encode_message(message) for message in explained.messages]
        yield tag("p", f"{len(lines):,} {words('messages')}, {sized(sum(map(len, lines)))}")
        yield tag("div", [json_block(msgspec.json.decode(line), words) for line in lines])
        return
    provider = wire.openai_chat if form == "openai" else wire.anthropic
    request = provider.request(explained.messages, max_bytes=0)
    note = "Tool schemas are not stored with a call, only what they cost: {tokens:,} tokens."
    if seen.point.tools:
        yield tag("p", words(note, tokens=seen.point.tools), class_="note")
    if request.changes:
        yield tag("ul", [tag("li", str(change)) for change in request.changes], class_="changes")
    yield json_block(request.kwargs, words)


def _items(seen: CallView, explained: Explanation, words: PageLabels) -> Iterator[Element]:
    sent, repeated = 0, True
    for item, message in zip(seen.items, explained.messages, strict=True):
        sent += item.tokens
        is_new = repeated and sent > seen.point.shared
        repeated = sent <= seen.point.shared
        note = words(
            "above: the same as in the previous call, so the provider can read it from its cache; below: new"
        )
        yield tag(
            "li",
            tag("p", note, class_="cache-end") if is_new and item.index else None,
            tag(
                "details",
                tag("summary", _line(item, words), class_="row"),
                message_block(message, words),
                tag("p", words("digest"), " ", tag("code", item.digest), class_="quiet"),
            ),
            class_=f"item part-edge-{item.section}",
            data_seq=item.seq,
            data_fate=item.fate,
            data_tokens=item.tokens,
        )


def _line(item: SentItem, words: PageLabels) -> list[Node]:
    changed = item.fate != "kept"
    return [
        tag("span", f"{item.index}", class_="quiet number"),
        tag("span", tag("span", words.known(item.section), class_=f"chip part-{item.section}")),
        tag("span", f"#{item.seq}" if item.seq else "", class_="quiet"),
        _speaker(item, words),
        tag("span", f"{item.tokens:,}", class_="number"),
        tag(
            "span",
            tag("span", words.known(item.fate), class_=f"chip fate-{item.fate}")
            if changed
            else None,
            tag("span", words.reason(item.reason), class_="reason") if item.reason else None,
            tag("span", item.text, class_="excerpt", dir="auto"),
            class_="said",
        ),
    ]


def _speaker(item: SentItem, words: PageLabels) -> Element:
    """Return the author of a message: its role, or the tool that it calls (→) or is a result of (←)."""
    if item.label in (item.role, item.section):
        return tag("strong", words.known(item.label))
    if item.role == "tool":
        return tag("strong", f"← {item.label}", title=words("result of a tool"))
    return tag("strong", f"→ {item.label}", title=words("call of a tool"))


def _left_out(seen: CallView, name: str, words: PageLabels) -> Element:
    if not seen.left_out:
        return tag("p", words("every entry of the log is in this call"))
    rows: list[list[Node]] = []
    for left in seen.left_out:
        fate = tag(
            "span", words.known(left.outcome), class_=f"chip fate-{left.outcome.replace(' ', '-')}"
        )
        if not left.entries:
            rules = words("{rules:,} rules", rules=left.rules) if left.rules else words("tail")
            named = [_rule(rule, words) for rule in left.named]
            reason = words.reason(left.reason)
            about = tag("div", reason, tag("ul", named)) if named else reason
            rows.append([rules, fate, about])
            continue
        href = address("sessions", name, "log", after=left.first - 1, upto=left.last)
        span = entry_range(left.first, left.last, words)
        rows.append([tag("a", span, href=href, class_="row"), fate, words.reason(left.reason)])
    heads = [words(head) for head in ("entries", "fate", "reason")]
    return table(heads, rows, class_="left-out")


def _rule(rule: LeftOutRule, words: PageLabels) -> Element:
    mark = f"[{rule.seq}]" if rule.seq else f"[{words('by hand')}]"
    return tag("li", mark, " ", tag("span", rule.text, dir="auto"))
