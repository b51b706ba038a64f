"""Screen of the checkpoints: each summary with the range it covers, its size, and a link to the originals."""

from __future__ import annotations

from turnfold.records import Checkpoint
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    facts,
    moment,
    session_trail,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.page import as_command, to_copy
from turnfold.service.inspector.screen import (
    NoQuery,
    OpenedConversation,
    RenderedScreen,
    ScreenRequest,
    screen,
)

__all__ = ("checkpoints",)


@screen("/sessions/{session}/checkpoints")
async def checkpoints(request: ScreenRequest[NoQuery]) -> RenderedScreen:
    """Render all checkpoints, the live one first."""
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
        trail=session_trail(words, name),
        body=tuple(reversed(articles)) or (tag("p", words("no checkpoints yet")),),
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
    originals = address("sessions", name, "log", after=previous, upto=checkpoint.upto)
    span = words("entries {first:,} to {last:,}", first=previous + 1, last=checkpoint.upto)
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
            tag("code", checkpoint.id),
            " ",
            tag("span", words("live"), class_="chip") if live else None,
        ),
        facts(
            [
                (words("source range"), tag("a", span, href=originals, class_="row")),
                (words("size"), saved),
                (words("model"), checkpoint.model or "-"),
                (words("fidelity"), f"{checkpoint.fidelity:.0%}"),
                (words("trust"), checkpoint.trust),
                (words("created"), moment(checkpoint.created)),
            ]
        ),
        tag("pre", checkpoint.text, dir="auto", class_="summary"),
        tag("p", tag("a", words("originals"), href=originals)),
        fork,
        id=f"checkpoint-{checkpoint.id}",
        data_upto=checkpoint.upto,
    )


def _fork(name: str, tenant: str, checkpoint: Checkpoint, words: PageLabels) -> Element:
    """Return the command that forks the session at this checkpoint; a page itself changes nothing."""
    new = f"{name}-from-{checkpoint.upto}"
    command = as_command("fork", name, new, "--at", str(checkpoint.upto), "--tenant", tenant)
    note = words("Pages are read-only. Run this where the store is; name it with --store.")
    missing = words("the name has invisible characters: type it by hand")
    return to_copy(words("fork from here"), command, words, note=note, missing=missing)


async def _tokens_upto(view: OpenedConversation, seq: int) -> int:
    """Return the tokens of the log up to an entry; a summary covers all of it, with the summary before it."""
    [entry] = await view.session.history(after=seq - 1, limit=1)
    return entry.running
