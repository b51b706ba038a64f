"""What was folded: each summary with the range it stands for, what it saved, and the way to the originals."""

from __future__ import annotations

from turnfold.records import Checkpoint
from turnfold.service.inspector.asked import Looked, NoChoice, Shown, Viewing, screen
from turnfold.service.inspector.copying import as_command, to_copy
from turnfold.service.inspector.markup import Element, Node, address, tag
from turnfold.service.inspector.pieces import facts, moment, session_trail
from turnfold.service.inspector.words import Words

__all__ = ("checkpoints",)


@screen("/sessions/{session}/checkpoints")
async def checkpoints(view: Viewing[NoChoice]) -> Shown:
    """All of them, the live one first."""
    words, looked = view.words, await view.look()
    name, live = looked.session.id, await looked.live()
    made = await looked.session.checkpoints()
    drawn: list[Node] = []
    previous = 0
    for each in made:
        fork = _fork(name, view.caller.tenant, each, words)
        drawn.append(await _one(looked, each, previous, words, fork, live=each is made[-1]))
        previous = each.upto
    return Shown(
        title=f"{words('checkpoints')} · {name}",
        session=name,
        tab="checkpoints",
        trail=session_trail(words, name),
        body=tuple(reversed(drawn)) or (tag("p", words("no checkpoints yet")),),
        live=live,
    )


async def _one(
    looked: Looked, made: Checkpoint, previous: int, words: Words, fork: Element, *, live: bool
) -> Element:
    name = looked.session.id
    before = await _running(looked, made.upto)
    after = looked.session.counter.count_text(made.text)
    originals = address("sessions", name, "log", after=previous, upto=made.upto)
    span = words("entries {first:,} to {last:,}", first=previous + 1, last=made.upto)
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
            tag("code", made.id),
            " ",
            tag("span", words("live"), class_="chip") if live else None,
        ),
        facts(
            [
                (words("source range"), tag("a", span, href=originals, class_="row")),
                (words("size"), saved),
                (words("model"), made.model or "-"),
                (words("fidelity"), f"{made.fidelity:.0%}"),
                (words("trust"), made.trust),
                (words("created"), moment(made.created)),
            ]
        ),
        tag("pre", made.text, dir="auto", class_="summary"),
        tag("p", tag("a", words("originals"), href=originals)),
        fork,
        id=f"checkpoint-{made.id}",
        data_upto=made.upto,
    )


def _fork(name: str, tenant: str, made: Checkpoint, words: Words) -> Element:
    """The way to go on from here in another direction, as a command: a page changes nothing."""
    new = f"{name}-from-{made.upto}"
    command = as_command("fork", name, new, "--at", str(made.upto), "--tenant", tenant)
    note = words("Pages only read. Run this where the store is; --store names it.")
    missing = words("its name holds what cannot be seen: name it by hand")
    return to_copy(words("fork from here"), command, words, note=note, missing=missing)


async def _running(looked: Looked, seq: int) -> int:
    """What the log costs up to an entry: a summary stands for all of it, with the summary before it."""
    [entry] = await looked.session.history(after=seq - 1, limit=1)
    return entry.running
