"""Anthropic's context edits: requested beside compaction, kept with the answer, and no reason to count less."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.models.strict_server import Line, Refuse, Say
from tests.models.test_native_compaction import CLAUDE, Talk, held
from turnfold import Budget, wire
from turnfold.errors import InvalidOption
from turnfold.models import Anthropic
from turnfold.records import user
from turnfold.testing.model_replies import Body

TOOL_USES = {
    "type": "clear_tool_uses_20250919",
    "trigger": {"type": "input_tokens", "value": 3_000},
    "keep": {"type": "tool_uses", "value": 2},
}
BOTH = (TOOL_USES, "clear_thinking")
ORDERED = [{"type": "clear_thinking_20251015"}, TOOL_USES]
APPLIED = {
    "type": "clear_tool_uses_20250919",
    "cleared_tool_uses": 8,
    "cleared_input_tokens": 50_000,
}


def answering(body: Body) -> Line:
    """A model whose provider clears old tool results from every prompt."""
    return Say("Noted. 好。", applied_edits=(APPLIED,) if "context_management" in body else ())


def edits_of(body: Body) -> list[Any]:
    return list(body["context_management"]["edits"])


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_edits_are_asked_for_in_the_interfaces_order_and_what_was_done_is_stored(
    *, streamed: bool
) -> None:
    async def use(talk: Talk) -> None:
        [answer] = await talk.ask(1, 1)
        [seen] = talk.server.seen
        assert edits_of(seen.body) == ORDERED
        assert seen.headers["anthropic-beta"] == "context-management-2025-06-27"
        assert answer.usage is not None
        assert answer.usage.cleared == 50_000
        entry = (await talk.session.history())[-1]
        assert entry.message.origin is not None
        assert json.loads(entry.message.origin.envelope)["context_management"] == {
            "applied_edits": [APPLIED]
        }
        manifest = (await talk.session.explain("@last")).manifest
        assert manifest.usage == msgspec.structs.replace(answer.usage, cleared=msgspec.UNSET)

    held(CLAUDE, use, answering, streamed=streamed, context_edits=BOTH)


def test_edits_come_before_the_compaction_that_a_memory_asks_for() -> None:
    async def use(talk: Talk) -> None:
        await talk.ask(1, 1)
        thinking, tools, compaction = edits_of(talk.server.seen[0].body)
        assert [thinking, tools] == ORDERED
        assert compaction["type"] == "compact_20260112"
        betas = "context-management-2025-06-27,compact-2026-01-12"
        assert talk.server.seen[0].headers["anthropic-beta"] == betas

    options = {"budget": Budget(max_tokens=80_000), "compaction": "native"}
    held(CLAUDE, use, answering, memory_options=options, context_edits=BOTH)


def test_with_edits_alone_turnfold_folds_as_without_them() -> None:
    """Clearing is no compaction: nothing stands for the messages that leave the window."""

    def folded(*edits: str) -> list[int]:
        found: list[int] = []

        async def use(talk: Talk) -> None:
            for number in range(12):
                await talk.session.user(f"{number} " + "a parcel on the shelf " * 1_600)
                await talk.answer()
            found.extend(each.upto for each in await talk.session.checkpoints())

        options = {"budget": Budget(max_tokens=80_000), "compaction": "auto", "recall": "off"}
        held(CLAUDE, use, answering, memory_options=options, context_edits=edits)
        return found

    plain = folded()
    assert plain
    assert folded("clear_tool_uses") == plain


def test_a_server_that_knows_no_edits_is_asked_once() -> None:
    def script(body: Body) -> Line:
        if "context_management" in body:
            return Refuse(400, "context_management: Extra inputs are not permitted")
        return Say("Noted. 好。")

    async def use(talk: Talk) -> None:
        answers = await talk.ask(1, 3)
        assert [each.message.text for each in answers] == ["Noted. 好。"] * 3
        asking = ["context_management" in seen.body for seen in talk.server.seen]
        assert asking == [True, False, False, False]

    held(CLAUDE, use, script, context_edits=BOTH)


@pytest.mark.parametrize("cleared", [True, False])
def test_what_was_cleared_does_not_make_turnfold_count_less(*, cleared: bool) -> None:
    async def use(talk: Talk) -> None:
        edited = {"context_management": {"applied_edits": [APPLIED]}} if cleared else {}
        for number in range(12):
            await talk.session.user(f"{number} " + "a parcel on the shelf 架子上的包裹 " * 80)
            context = await talk.session.context()
            used = {"input_tokens": context.tokens // 2, "output_tokens": 3}
            await talk.session.record_usage({"usage": used, **edited})
            await talk.session.assistant("Noted. 好。")
        factor = (await talk.session.context()).counter.name
        assert ("*0.5000" in factor) is not cleared

    options = {"budget": Budget(max_tokens=200_000), "model": "claude-opus-5"}
    held(CLAUDE, use, answering, memory_options=options)


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        (("clear_everything",), "has 'clear_everything': give 'clear_thinking' or"),
        (({"type": "compact_20260112"},), "asks for compaction"),
        (({"keep": 3},), "or such an object"),
        (("clear_thinking", {"type": "clear_thinking_20251015"}), "two edits of the kind"),
    ],
)
def test_other_edits_are_refused(edits: Any, why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        Anthropic("claude-opus-5", api_key="k", context_edits=edits)


def test_the_wire_format_alone_writes_them_too() -> None:
    written = wire.anthropic.request([user("hi")], edits=("clear_thinking",)).kwargs
    assert written["extra_body"] == {"context_management": {"edits": ORDERED[:1]}}
    assert not wire.asks_to_compact(written)
