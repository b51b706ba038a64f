"""Screen of the checkpoints (fold summaries): each with the range it covers, its size, and a link to the originals."""

from __future__ import annotations

import asyncio

from turnfold.inspect import FIDELITY_MEANING, fidelity_of_all
from turnfold.records import Checkpoint
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    entry_range,
    facts,
    moment,
    session_trail,
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

__all__ = ("checkpoints",)


_MOST_CHECKED = 1_000
"""Most entries whose facts are compared with a summary; if it covers more, no share of facts is shown."""


@screen("/sessions/{session}/checkpoints")
async def checkpoints(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render the page with all checkpoints (fold summaries) of a session; the one in use comes first."""
    words, view = request.words, await request.open()
    name, live = view.session.id, await view.live()
    stored = await view.session.checkpoints()
    articles: list[Node] = []
    previous = 0
    for each in stored:
        fork = _fork(name, request.caller.tenant, each, words)
        articles.append(await _article(view, each, previous, words, fork, live=each is stored[-1]))
        previous = each.upto
    dropped = [each.id for each in await view.session.checkpoints(dropped=True)]
    if dropped:
        told = words("dropped, and shown to no model since: {ids}", ids=", ".join(dropped))
        articles.insert(0, tag("p", told))
    return RenderedScreen(
        title=f"{words('checkpoints')} · {name}",
        session=name,
        tab="checkpoints",
        about="Summaries that replace older entries in calls; each covers everything up to its last entry.",
        trail=session_trail(words, name),
        body=(
            tag("p", FIDELITY_MEANING[words.language] if stored else words("no checkpoints yet")),
            *reversed(articles),
        ),
        live=live,
    )


async def _article(
    view: OpenedConversation,
    checkpoint: Checkpoint,
    previous: int,
    words: PageLabels,
    fork: Element,
    *,
    live: bool,
) -> Element:
    name = view.session.id
    before = await _tokens_upto(view, checkpoint.upto)
    after = view.session.counter.count_text(checkpoint.text)
    total = await _fidelity_of_all(view, checkpoint) if live else None
    originals = address("sessions", name, "log", after=previous, upto=checkpoint.upto)
    span = entry_range(previous + 1, checkpoint.upto, words)
    saved = words(
        "{ratio:.1f} times shorter: {before:,} tokens to {after:,}",
        ratio=before / after if after else 0.0,
        before=before,
        after=after,
    )
    return tag(
        "article",
        tag(
            "h2",
            words("summary up to entry {seq:,}", seq=checkpoint.upto),
            " ",
            tag("span", words("in use"), class_="chip change-added") if live else None,
        ),
        facts(
            [
                (words("source range"), tag("a", span, href=originals, class_="row")),
                (words("size"), saved),
                (
                    words("written by"),
                    words.known(checkpoint.model) or words("extraction, without a model"),
                ),
                (words("fidelity of what this fold read"), f"{checkpoint.fidelity:.0%}"),
                *(
                    [(words("fidelity of all entries it covers"), f"{total:.0%}")]
                    if total is not None
                    else []
                ),
                (
                    words("source: of all it covers, the least trusted"),
                    words.known(checkpoint.trust),
                ),
                (words("created"), moment(checkpoint.created)),
                (words("id"), tag("code", checkpoint.id)),
            ]
        ),
        tag("pre", checkpoint.text, dir="auto", class_="summary"),
        tag("p", tag("a", words("originals"), href=originals)),
        fork,
        id=f"checkpoint-{checkpoint.id}",
        data_upto=checkpoint.upto,
    )


def _fork(name: str, tenant: str, checkpoint: Checkpoint, words: PageLabels) -> Element:
    """Return a block with the command that forks the session at this checkpoint (summary), to be copied."""
    new = f"{name}-from-{checkpoint.upto}"
    command = as_command("fork", name, new, "--at", str(checkpoint.upto), "--tenant", tenant)
    note = words("Pages are read-only. Run this where the store is; name it with --store.")
    missing = words("the name has invisible characters: type it by hand")
    return to_copy(words("fork from here"), command, words, note=note, missing=missing)


async def _fidelity_of_all(view: OpenedConversation, checkpoint: Checkpoint) -> float | None:
    """Return the share of the facts of all covered entries that a summary states; None if there are too many."""
    if checkpoint.upto > _MOST_CHECKED:
        return None
    entries = await view.session.history(limit=checkpoint.upto)
    return await asyncio.to_thread(fidelity_of_all, checkpoint, entries)


async def _tokens_upto(view: OpenedConversation, seq: int) -> int:
    """Return the tokens of all log entries up to `seq`, which the summaries up to this checkpoint cover."""
    [entry] = await view.session.history(after=seq - 1, limit=1)
    return entry.running
