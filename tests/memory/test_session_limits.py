"""Sessions at their edges: notes of one call, logs with nothing to fold, and what another handle made room for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.talking import SMALL
from turnfold import Budget, Memory
from turnfold.errors import BudgetTooSmall, InvalidOption


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", budget=SMALL) as opened:
        yield opened


def test_notes_of_a_call_are_fenced_counted_and_never_in_the_log(
    memory: Memory,
) -> None:
    session = memory.session("one")
    session.user("what now?")
    plain = session.context()
    noted = session.context(
        notes={"plan": "步骤一：检查日志", "empty": ""}, workspace="a.py: 3 lines"
    )
    [tail] = [m for m in noted.messages if "步骤一" in m.text]
    assert "<plan " in tail.text
    assert "empty" not in tail.text
    assert tail.text.index("<plan ") < tail.text.index("<workspace ")
    assert noted.tokens > plain.tokens
    assert session.explain().exact
    assert len(session.history()) == 1
    assert session.context().messages == plain.messages


@pytest.mark.parametrize("name", ["", "a b", "x>", "计划", "n" * 65])
def test_a_note_whose_name_could_break_its_fence_is_refused(memory: Memory, name: str) -> None:
    session = memory.session("one")
    session.user("what now?")
    with pytest.raises(InvalidOption, match="invalid note name"):
        session.context(notes={name: "text"})
    assert session.calls() == []


def test_a_log_of_system_messages_alone_has_nothing_to_fold(memory: Memory) -> None:
    session = memory.session("one")
    session.system("Be brief.")
    assert session.fold(keep_turns=0) is None
    assert session.fold(summary="nothing was said", keep_turns=0) is None
    assert session.checkpoints() == []
    session.user("Hello")
    folded = session.fold(summary="A greeting.", keep_turns=0)
    assert folded is not None
    assert folded.upto == 2


def test_what_did_not_fit_for_one_handle_fits_once_another_made_room(memory: Memory) -> None:
    mine, theirs = memory.session("one"), memory.session("one")
    mine.user("Hello")
    mine.context()
    with Memory(memory.store, budget=Budget(max_tokens=100_000)) as roomy:
        key = roomy.session("one").pin("word " * 2_000)
    theirs.user("And now?")
    with pytest.raises(BudgetTooSmall):
        mine.context()
    theirs.unpin(key)
    theirs.user("And now again?")
    assert mine.context().messages[-1].text == "And now again?"


def test_passages_give_way_to_a_smaller_limit_in_the_same_turn() -> None:
    with Memory(model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
        session = memory.session("x")
        for turn in range(60):
            session.user(f"Where is the crate of harbour {turn}? " + "tides and pilots " * 12)
            session.assistant(f"The crate of harbour {turn} is at gate {turn * 7}. " * 4)
        question = "Where is the crate of harbour 3? And the tides and pilots?"
        session.user(question)
        assert session.context().tokens > 1_200
        assert session.explain(session.last_call).manifest.recalled
        for limit in (1_000, 600, 300):
            context = session.context(max_tokens=limit)
            assert context.receipt.allowed == min(limit, context.budget.tokens)
            assert context.tokens <= limit
            assert context.messages[-1].text == question


def test_an_image_that_is_left_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    with Memory(model="gemini-2.5-pro", budget=Budget(max_tokens=4_000)) as memory:
        session = memory.session("x")
        session.user([{"type": "text", "text": "这是什么？"}, picture])
        contexts = [session.context() for _ in range(2)]
    assert "[图片放不进预算，已省略，存为 #1]" in str(contexts[-1].messages[-1].parts[-1])
    [fate] = contexts[-1].receipt.fates
    assert fate.leaves_out_media
    [record] = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "message #1 is left out" in record.getMessage()
    assert "; left out: image" in record.getMessage()
    assert vars(record)["event"] == "media_left_out"


def test_a_system_message_that_is_shortened_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Memory(model="gpt-4o", budget=Budget(max_tokens=1_000)) as memory:
        session = memory.session("x")
        session.system("Be careful. 请小心。")
        session.user("Hello")
        session.context()
        assert not caplog.records
        session.system("Rule of the house. " * 1_000)
        for _ in range(3):
            session.user("Hello again")
            session.context()
        [record] = [each for each in caplog.records if each.levelname == "WARNING"]
        assert "sent shortened" in record.getMessage()
        assert "600" in record.getMessage()
