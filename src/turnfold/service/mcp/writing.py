"""The tools that change something: remember, and fold what is old."""

from __future__ import annotations

import json
from hashlib import blake2b

import msgspec

from turnfold.errors import InvalidOption
from turnfold.records import assistant
from turnfold.service.mcp.declaring import tool
from turnfold.service.mcp.forms import (
    CheckpointArguments,
    CheckpointMade,
    RememberArguments,
    Remembered,
)
from turnfold.service.mcp.visiting import Reply, Visit
from turnfold.service.problems import given_by_the_caller
from turnfold.service.tokens import Right

__all__ = ("checkpoint", "remember")


@tool(
    "Remember",
    "Keep something for later: a decision, a fact, a preference, a result. It is found again by search_memory and "
    "recall_context; with pin it is shown in every later call of the session. The same text is kept once. "
    "记住一项决定、事实、偏好或结果，供日后检索；可置顶。",
    right=Right.WRITE,
    arguments=RememberArguments,
    answer=Remembered,
    grows=True,
)
async def remember(visit: Visit, asked: RememberArguments) -> Reply:
    """One more entry, as the model's own words: a note must not speak with the user's voice."""
    if not asked.text.strip():
        raise InvalidOption("nothing to remember: the text is empty")
    session = visit.named(asked.session)
    digest = blake2b(asked.text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    done = await session.add(assistant(asked.text), client_id=f"remember:{digest}")
    visit.state.quota.wrote(visit.caller.tenant, session.id, done.head.tokens)
    pinned = await session.pin(asked.text) if asked.pin else ""
    value = Remembered(session=session.id, seq=done.first, repeated=done.repeated, pinned=pinned)
    named = json.dumps(session.id, ensure_ascii=False)
    known = "It was there already" if done.repeated else "Kept"
    also = " and pinned" if pinned else ""
    return Reply(value, f"{known}: entry {done.first} of session {named}{also}.")


@tool(
    "Checkpoint",
    "Fold the older turns of a session behind a summary, so that its next calls are shorter. Nothing is lost: "
    "recall_context brings the originals back. Give your own summary, or let one be made. "
    "将较早的轮次折叠为摘要，原文仍可取回。",
    right=Right.WRITE,
    arguments=CheckpointArguments,
    answer=CheckpointMade,
    idempotent=False,
)
async def checkpoint(visit: Visit, asked: CheckpointArguments) -> Reply:
    """A fold, now."""
    session = await visit.known(asked.session)
    summary = None if isinstance(asked.summary, msgspec.UnsetType) else asked.summary
    keep = None if isinstance(asked.keep_turns, msgspec.UnsetType) else asked.keep_turns
    with given_by_the_caller(summary):
        made = await session.checkpoint(summary, keep_turns=keep)
    value = CheckpointMade(
        session=session.id,
        folded=made is not None,
        checkpoint=made.id if made else "",
        upto=made.upto if made else 0,
        summary_tokens=visit.count(made.text) if made else 0,
    )
    if made is None:
        return Reply(value, "There was nothing to fold: the newest turns stay as they are.")
    return Reply(
        value,
        f"Folded up to entry {made.upto:,} into {value.summary_tokens:,} tokens: checkpoint {made.id}.",
    )
