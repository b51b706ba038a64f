"""`Memory(compaction=...)`: the provider is asked to compact, and folds keep what it compacted for everybody else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from turnfold import AsyncMemory, Budget, InvalidOption, Memory, RemoteMemory, wire
from turnfold.memory import CompactionMode, Session
from turnfold.records import Message, Usage, has_compaction
from turnfold.window import Context

KINDS = [Memory, AsyncMemory]
CLAUDE, GPT = "claude-opus-5", "gpt-5.4"
WORD = "天蓝-ALPHA-7"
SAID = "第 {0} 批货 batch {0} is on its way to shelf {0}. " * 20


@dataclass
class Compacting:
    """A provider that compacts at the tokens it is asked to, roughly counted; speaks OpenAI's Responses."""

    model: str = GPT
    willing: bool = True
    items: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def request(self, context: Any, *, tools: Any = (), max_bytes: int | None = None) -> Any:
        return wire.openai_responses.request(
            context, model=self.model, tools=tools, max_bytes=max_bytes
        )

    def answer(self, context: Context) -> Message:
        kwargs = self.request(context).kwargs
        [asked] = kwargs["context_management"]
        used = context.counter.count_text(json.dumps(kwargs["input"], ensure_ascii=False))
        said = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Noted. 好。"}],
        }
        output = [said]
        if self.willing and used >= asked["compact_threshold"]:
            item = {
                "type": "compaction",
                "id": f"cmp_{len(self.items)}",
                "encrypted_content": "eA==",
            }
            self.items.append(item)
            output = [item, said]
        return wire.openai_responses.accept({"model": self.model, "output": output})


def talk(session: Session, provider: Compacting, turns: int) -> list[Context]:
    """Hold so many turns; return the contexts."""
    contexts: list[Context] = []
    for number in range(turns):
        word = f" The code word is {WORD}. 记住代号 {WORD}。" if number == 0 else ""
        session.user(SAID.format(number) + word)
        contexts.append(session.context(to=provider))
        session.add(provider.answer(contexts[-1]))
    return contexts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["turnfold", "native", "auto"])
def test_compaction_has_three_modes(kind: type[Any], mode: str) -> None:
    for given in (mode, CompactionMode(mode)):
        assert f"compaction={mode!r}" in repr(kind("sqlite://", compaction=given))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", ["never", "", "NATIVE", True, None], ids=repr)
def test_another_mode_is_refused(kind: type[Any], given: Any) -> None:
    with pytest.raises(
        InvalidOption, match=r"compaction=.* is not one of 'turnfold', 'native', 'auto'"
    ):
        kind("sqlite://", compaction=given)


def test_a_remote_memory_has_no_such_option() -> None:
    remote: Any = RemoteMemory
    with pytest.raises(TypeError, match="compaction"):
        remote("http://localhost:1", compaction="native")


def test_by_default_nobody_is_asked() -> None:
    with Memory("sqlite://", budget=Budget(max_tokens=100_000)) as memory:
        session = memory.session("s")
        session.user("hello")
        context = session.context()
        assert context.native is None
        for model, module in ((CLAUDE, wire.anthropic), (GPT, wire.openai_responses)):
            assert "context_management" not in str(module.request(context, model=model).kwargs)


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_the_provider_is_asked_below_the_tokens_of_a_fold(mode: str) -> None:
    with Memory(
        "sqlite://", budget=Budget(max_tokens=100_000), compaction=mode, threshold=0.8
    ) as memory:
        session = memory.session("s")
        session.user("hello")
        context = session.context()
        [asked] = wire.openai_responses.request(context, model=GPT).kwargs["context_management"]
        assert asked["compact_threshold"] == 72_000
        edits = wire.anthropic.request(context, model=CLAUDE).kwargs["extra_body"]
        assert edits["context_management"]["edits"][0]["trigger"]["value"] == 72_000
        # A limit of this call alone does not change what is asked for.
        again = session.context(max_tokens=50_000)
        assert again.native == context.native


def test_a_budget_too_small_for_the_provider_is_refused_with_native_only() -> None:
    for mode in ("native", "auto"):
        with Memory("sqlite://", budget=Budget(max_tokens=60_000), compaction=mode) as memory:
            session = memory.session("s")
            session.user("hello")
            context = session.context()
            if mode == "native":
                with pytest.raises(InvalidOption, match=r"50,000 input tokens or more.* 40,500"):
                    wire.anthropic.request(context, model=CLAUDE)
            else:
                assert "extra_body" not in wire.anthropic.request(context, model=CLAUDE).kwargs


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_folds_follow_the_items_of_the_provider(mode: str) -> None:
    """Item after item: the window keeps the newest, the fold covers exactly what it covers, within the budget."""
    budget = Budget(max_tokens=4_000)
    provider = Compacting()
    with Memory(
        "sqlite://", budget=budget, compaction=mode, model="gpt-4o", recall="off"
    ) as memory:
        session = memory.session("s")
        contexts = talk(session, provider, 24)
        assert len(provider.items) == 3
        assert all(context.tokens <= budget.tokens for context in contexts)
        places = [entry.seq for entry in session.history(limit=60) if has_compaction(entry.message)]
        assert [each.upto for each in session.checkpoints()] == [seq - 1 for seq in places]
        session.user("And now?")
        context = session.context(to=provider)
        sent = provider.request(context).kwargs["input"]
        assert sent[0] == provider.items[-1]  # it stayed in the window
        # Anybody else gets our summary and the plain log, within the same budget.
        others = wire.openai_chat if mode == "auto" else wire.openai_responses
        plain = json.dumps(others.request(context, model="another").kwargs, ensure_ascii=False)
        assert "cmp_" not in plain
        assert WORD in plain


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_a_provider_that_never_compacts_loses_nothing(mode: str) -> None:
    """The fold waits for the provider until the window is full, and then covers what leaves it."""
    budget = Budget(max_tokens=4_000)
    provider = Compacting(willing=False)
    with Memory(
        "sqlite://", budget=budget, compaction=mode, model="gpt-4o", recall="off"
    ) as memory:
        session = memory.session("s")
        contexts = talk(session, provider, 18)
        assert max(context.tokens for context in contexts) <= budget.tokens
        assert all(each.anchor.position <= each.anchor.covered + 1 for each in contexts)
        assert contexts[-1].anchor.covered > 0
        assert any(WORD in message.text for message in contexts[-1].messages)


def test_with_auto_a_provider_that_cannot_is_folded_for_as_ever() -> None:
    covered: dict[str, list[int]] = {}
    for mode in ("turnfold", "auto"):
        with Memory(
            "sqlite://", budget=Budget(max_tokens=4_000), compaction=mode, model="gpt-4o"
        ) as memory:
            session = memory.session("s")
            covered[mode] = []
            for number in range(14):
                session.user(SAID.format(number))
                context = session.context(to=wire.openai_chat)
                covered[mode].append(context.anchor.covered)
                session.assistant("Noted. 好。")
    assert covered["auto"] == covered["turnfold"]
    assert covered["auto"][-1] > 0


def test_an_item_of_a_provider_that_is_no_longer_used_does_not_stop_folds() -> None:
    budget = Budget(max_tokens=4_000)
    provider = Compacting()
    with Memory(
        "sqlite://", budget=budget, compaction="auto", model="gpt-4o", recall="off"
    ) as memory:
        session = memory.session("s")
        talk(session, provider, 10)
        assert provider.items
        before = len(session.checkpoints())
        for number in range(20):
            session.user(SAID.format(100 + number))
            context = session.context(to=wire.openai_chat)
            assert context.tokens <= budget.tokens
            session.assistant("Noted. 好。")
        assert len(session.checkpoints()) > before + 1
        covered = session.checkpoints()[-1].upto
        assert covered > 2 * 12


@pytest.mark.parametrize("mode", ["turnfold", "native"])
def test_what_is_reported_of_a_request_from_an_item_on_corrects_no_count(mode: str) -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "eA=="}
    with Memory("sqlite://", budget=Budget(max_tokens=8_000), compaction=mode) as memory:
        session = memory.session("s")
        for number in range(8):
            session.user(SAID.format(number))
            context = session.context()
            session.record_usage(Usage(input=context.tokens // (4 if number > 3 else 1), output=1))
            if number == 3:
                session.add(wire.openai_responses.accept({"model": GPT, "output": [item]}))
            else:
                session.assistant("Noted. 好。")
        assert memory.calibration.observations == 4
