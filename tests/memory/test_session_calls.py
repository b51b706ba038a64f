"""The tail of a context, and the record of every call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.talking import SMALL, talk
from turnfold import Budget, Memory, Message, assistant, system, user
from turnfold.errors import BudgetTooSmall, InvalidOption, InvalidRecord, NotFound
from turnfold.inspect import call_point
from turnfold.memory import Session
from turnfold.memory.call_log import CALL, read_manifest
from turnfold.records import Document, Usage
from turnfold.runtime import drive
from turnfold.stores import Scope
from turnfold.window import Section


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'chat.db'}"


@pytest.fixture
def memory(address: str) -> Iterator[Memory]:
    with Memory(address, budget=SMALL) as opened:
        yield opened


# ----------------------------------------------------------------------------- tail: pins, state, recall


def test_pins_are_shown_word_for_word_before_the_newest_turn(memory: Memory) -> None:
    session = memory.session("one")
    key = session.pin("报价必须含税。")
    session.user("how much?")
    context = session.context()
    [tail] = context.section(Section.TAIL)
    assert "报价必须含税。" in tail.text
    assert context.messages[-1] == user("how much?")
    assert session.pins() == {key: "报价必须含税。"}
    assert session.unpin(key)
    assert not session.unpin(key)
    assert session.context().section(Section.TAIL) == (tail,)  # until the turn is over
    session.assistant("7 per ton, tax included")
    session.user("thanks")
    assert session.context().section(Section.TAIL) == ()


def test_the_tail_stands_still_while_a_tool_loop_runs(memory: Memory) -> None:
    session = memory.session("one")
    session.state.set("step", 1)
    session.user("go")
    before = session.context().section(Section.TAIL)
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    session.assistant(tool_calls=[call])
    session.state.set("step", 2)
    session.pin("a rule that came late")
    session.tool("done", tool_call_id="c")
    during = session.context()
    assert during.section(Section.TAIL) == before
    assert during.receipt.prefix_share == 1.0
    session.user("next")
    [tail] = session.context().section(Section.TAIL)
    assert '"step": 2' in tail.text
    assert "a rule that came late" in tail.text


def test_a_pin_that_cannot_be_shown_whole_is_refused_with_the_arithmetic(memory: Memory) -> None:
    session = memory.session("one")
    session.pin("be brief")
    with pytest.raises(
        BudgetTooSmall, match=r"1 current pin: [0-9,]+ \+ this pin: [0-9,]+\)"
    ) as no:
        session.pin("a long rule " * 200)
    assert sum(no.value.parts.values()) == no.value.needed > no.value.allowed
    assert no.value.allowed == memory.budget.share("tail")
    session.pin("请用中文回答" * 3, key="b")
    with pytest.raises(BudgetTooSmall, match="2 current pins"):
        session.pin("规则" * 400, key="c")
    assert list(session.pins().values()) == ["be brief", "请用中文回答" * 3]
    session.user("hi")
    assert "- be brief\n" in session.context().section(Section.TAIL)[0].text


def test_a_pin_in_the_place_of_another_counts_alone(memory: Memory) -> None:
    session = memory.session("one")
    words = "rule " * (memory.budget.share("tail") // 2)
    session.pin(words, key="a")
    session.pin(f"{words}indeed", key="a")
    with pytest.raises(BudgetTooSmall):
        session.pin(words, key="b")
    assert session.unpin("a")
    session.pin(words, key="b")


def test_a_call_with_less_room_than_the_pins_need_is_an_error(memory: Memory) -> None:
    session = memory.session("one")
    session.pin("a long rule " * 20)
    session.user("hi")
    with pytest.raises(BudgetTooSmall, match="unpin some"):
        session.context(budget=Budget(max_tokens=200))
    assert session.context().section(Section.TAIL)


def test_a_state_too_large_for_its_place_is_shortened(memory: Memory) -> None:
    session = memory.session("one")
    session.pin("be brief")
    session.state.set("log", "步骤完成。" * 2_000)
    session.user("hi")
    context = session.context()
    [tail] = context.section(Section.TAIL)
    assert "- be brief\n" in tail.text
    assert context.receipt.sections[Section.TAIL] <= memory.budget.share("tail")
    assert [fate.reason.split()[:2] for fate in context.fates if fate.start < 0] == [
        ["tail:", "state"]
    ]
    assert session.explain(session.last_call).exact


def test_the_state_is_shared_and_changes_do_not_undo_one_another(address: str) -> None:
    with Memory(address) as ours, Memory(address) as theirs:
        left, right = ours.session("one").state, theirs.session("one").state
        left.set("a", 1)
        right.update({"b": [1, {"c": "中"}]})
        left.set("d", None)
        assert right.all() == {"a": 1, "b": [1, {"c": "中"}], "d": None}
        assert right.remove("a")
        assert not right.remove("a")
        assert left.get("a", "gone") == "gone"


def test_what_was_folded_is_found_again(memory: Memory) -> None:
    session = memory.session("one")
    session.user("The vault code is ZX-4471, do not tell anyone.")
    session.assistant("Understood.")
    talk(session, 40)
    best = session.recall("vault code")[0]
    assert best.message.text.startswith("The vault code")
    assert best.seq == 1
    session.user("What was the vault code again?")
    [tail] = session.context("vault code").section(Section.TAIL)
    assert "The vault code is ZX-4471" in tail.text
    assert "[turn " in tail.text
    assert session.context("vault code").section(Section.TAIL) == (tail,)
    assert session.context().section(Section.TAIL) == (tail,)


# ------------------------------------------------------------------------------------------------- calls


def test_every_call_is_kept_and_can_be_explained(memory: Memory) -> None:
    session = memory.session("one")
    session.system("rules")
    session.pin("a rule")
    sent: list[tuple[Message, ...]] = []
    for number in range(1, 30):
        talk(session, 1, first=number)
        sent.append(session.context().messages)
    calls = session.calls()
    assert len(calls) == len(sent)
    for call, messages in zip(calls, sent, strict=True):
        explained = session.explain(call.call)
        assert explained.exact
        assert explained.messages == messages
    assert session.explain().manifest == calls[-1]
    assert [call.call for call in session.calls(after=calls[1].call, limit=2)] == [
        calls[2].call,
        calls[3].call,
    ]


def test_calls_differ_for_reasons(memory: Memory) -> None:
    session = memory.session("one")
    session.system("old rules")
    session.user("hi")
    session.context()
    session.system("new rules")
    session.context()
    first, second = session.calls()
    changed = session.diff(first.call, second.call)
    assert changed.shared_messages == 0
    assert changed.gone == (system("old rules"),)
    assert changed.new == (system("new rules"),)
    assert changed.reasons == ("the system messages were replaced",)


def test_a_manifest_stays_small_however_long_the_prompt(address: str) -> None:
    with Memory(address, budget=Budget(max_tokens=100_000)) as memory:
        session = memory.session("one")
        session.add([user("hi") if n % 2 else assistant("well") for n in range(1, 3_000)])
        session.context()
        [document] = drive(session._awaiting._store.documents(Scope("default"), "one", "call"))
        assert len(document.body) < 1_500
        assert session.explain().exact


def test_usage_is_noted_with_its_call(memory: Memory) -> None:
    session = memory.session("one")
    session.user("hi")
    with pytest.raises(InvalidOption, match="no call"):
        session.record_usage({"prompt_tokens": 9})
    session.context()
    session.record_usage(
        {
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            }
        }
    )
    assert session.calls()[0].usage == Usage(input=9, output=2, cached=4)
    session.record_usage({"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 1})
    assert session.calls()[0].usage == Usage(input=8, output=1, cached=3)
    assert memory.calibration.observations == 2
    assert memory.calibration.ratio == pytest.approx(
        memory.calibration.reported / memory.calibration.counted
    )
    assert memory.meter.values["count_ratio"].count == 2
    with pytest.raises(InvalidOption, match="has no prompt tokens"):
        session.record_usage({"total": 3})


LONG = Budget(max_tokens=20_000)


class Clock:
    now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now


def two_calls(memory: Memory, *, words: int = 1_500, pause: int = 0, clock: Clock) -> Session:
    """Two calls of a turn, the second of which begins as the first."""
    session = memory.session("one")
    session.user("parcel 包裹 " * words)
    session.context()
    call = {"id": "c", "function": {"name": "track", "arguments": "{}"}}
    session.assistant(tool_calls=[call])
    session.tool("on its way", tool_call_id="c")
    clock.now += pause
    session.context()
    return session


@pytest.mark.parametrize(
    ("usage", "options", "missed"),
    [
        ({"cached_tokens": 0}, {}, True),
        ({"cached_tokens": 2_048}, {}, False),
        ({"cached_tokens": 0}, {"words": 100}, False),  # too short for a provider's cache
        ({"cached_tokens": 0}, {"pause": 301_000_000}, False),  # it has expired
    ],
)
def test_a_stable_beginning_that_was_not_cached_is_told(
    usage: dict[str, int], options: dict[str, int], *, missed: bool
) -> None:
    clock = Clock()
    with Memory(budget=LONG, clock=clock) as memory:
        session = two_calls(memory, clock=clock, **options)
        first, second = session.calls()
        details = {"prompt_tokens": second.tokens, "prompt_tokens_details": usage}
        told = session.record_usage(details)
        assert told.cache_missed is missed
        assert session.calls()[1].cache_missed is missed
        assert session.explain().manifest.cache_missed is missed
        assert call_point(told).cache_missed is missed
        # The first call of a conversation has nothing that could be cached.
        assert session.record_usage(details, call=first.call).cache_missed is False
        assert memory.meter.counts["cache_misses"] == missed


def test_a_report_of_a_newer_release_names_the_remedy() -> None:
    newer = Document(CALL, "c1", b'{"v": 2, "call": "c1", "invented": [1]}', 1)
    with pytest.raises(
        InvalidRecord, match=r"version 2, but this release reads version 1\. Upgrade"
    ):
        read_manifest(newer)
    for damaged in (b'{"v": 1, "call": "c1", "invented": [1]}', b'{"v": "x"}', b"[", b"\xff"):
        with pytest.raises(InvalidRecord, match="is damaged"):
            read_manifest(Document(CALL, "c1", damaged, 1))


def test_a_call_is_given_by_its_number(memory: Memory) -> None:
    session = memory.session("one")
    for number in range(3):
        session.user(f"question {number}")
        session.context()
    calls = session.calls()
    for number, call in enumerate(calls, 1):
        assert session.explain(number).manifest == call
    assert session.diff(1, 3) == session.diff(calls[0].call, calls[2].call)
    with pytest.raises(NotFound, match=r"no call 17 in 'one': calls are numbered from 1 to 3"):
        session.explain(17)
    with pytest.raises(
        InvalidOption, match="call=0 must be at least 1: calls are numbered from 1, the oldest"
    ):
        session.explain(0)


def test_without_a_call_of_its_own_a_session_explains_the_newest_stored_one(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(address) as memory:
        session = memory.session("one")
        with pytest.raises(NotFound, match=r"session 'one' has no calls yet: session\.context\(\)"):
            session.explain()
        session.user("first 第一")
        session.context()
        session.add([assistant(f"answer {number}") for number in range(70)])
    with Memory(address) as memory:  # as in a new process: the only call is 70 entries back
        session = memory.session("one")
        assert session.explain().messages[-1].text == "first 第一"
        with Memory(address) as other:
            other.session("one").user("second")
            other.session("one").context()
        assert [session.explain(name).manifest.seq for name in (None, "@last", 1)] == [72, 72, 1]
        assert session.diff(1, "@last").new[-1].text == "second"
        session.context()
        assert session.explain().manifest.call == session.last_call


def test_a_call_is_given_by_its_name(memory: Memory) -> None:
    session = memory.session("one")
    session.user("hello 你好")
    session.context()
    with pytest.raises(
        InvalidOption, match=r"call=1\.5 must be the name or the number of a call: session\.calls"
    ):
        session.explain(1.5)  # pyright: ignore[reportArgumentType] (that is the mistake)
    assert session.explain(session.calls()[-1].call).messages[0].text == "hello 你好"
