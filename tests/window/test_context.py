"""What one call sends: its sections, its receipt, and that it is the same wherever it is built."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import REBUILT_LOGS, examples
from tests.window.replay import Setting, refusal_faults, replay
from tests.window.test_properties import NAMES, scenario
from tests.window.transcripts import CharacterText, answers, asks, random_log
from turnfold.budget import Budget, Shares
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.records import Message, assistant, decode_message, encode_message, system, user
from turnfold.tokens import Certainty, TokenCounter, counter_for
from turnfold.window import (
    Anchor,
    Choice,
    Context,
    Omission,
    Outcome,
    Section,
    Transcript,
    assemble,
    check,
    fits,
    summary_message,
)
from turnfold.window.shortened_messages import SMALLEST_CAP

CHEAP = TokenCounter(CharacterText())
EXACT = counter_for("gpt-4o")
TOOLS = [{"name": "look_up", "parameters": {"type": "object"}}]
LOOP = [user("first"), assistant("fine"), user("second"), asks("a"), answers("a")]


def built(
    log: list[Message],
    tokens: int = 10_000,
    *,
    anchor: Anchor | None = None,
    tail: tuple[Message, ...] = (),
) -> Context:
    context = assemble(
        Transcript(EXACT, log), Budget(max_tokens=tokens), anchor=anchor, tail=tail, tools=TOOLS
    )
    assert check(context) == ()
    return context


class TestSections:
    def test_they_stand_in_order_most_stable_first(self) -> None:
        note = user("remember the milk")
        anchor = Anchor(summary="earlier: hello", covered=0)
        log = [LOOP[0], system("be brief"), *LOOP[1:]]
        context = built(log, anchor=anchor, tail=(note,))
        assert {section: context.section(section) for section in Section} == {
            Section.SYSTEM: (log[1],),
            Section.SUMMARY: (summary_message("earlier: hello"),),
            Section.WINDOW: (log[0], log[2]),
            Section.TAIL: (note,),
            Section.TURN: tuple(log[3:]),
        }
        assert sum((context.section(section) for section in Section), ()) == context.messages

    def test_the_tail_never_parts_a_question_from_its_loop(self) -> None:
        loop = [m for n in range(30) for m in (asks(f"{n}"), answers(f"{n}"))]
        note = user("remember the milk")
        context = built([user("old"), assistant("yes"), user("go"), *loop], 600, tail=(note,))
        assert context.messages[0] is note
        assert context.messages[1].text == "go"
        assert context.head == 2

    @pytest.mark.parametrize(
        "message", [system("s"), asks("a"), answers("a"), Message("user")], ids=repr
    )
    def test_a_tail_no_provider_would_take_is_refused(self, message: Message) -> None:
        with pytest.raises(InvalidOption, match=r"tail\[1\]"):
            built(LOOP, tail=(user("fine"), message))

    def test_without_a_log_there_is_only_what_is_fixed(self) -> None:
        assert built([system("be brief")]).messages == (system("be brief"),)
        assert built([]).messages == ()


class TestReceipt:
    def test_its_arithmetic_adds_up(self) -> None:
        context = built([system("be brief"), *LOOP], tail=(user("note"),))
        receipt = context.receipt
        counted = EXACT.count(context.messages, tools=TOOLS).tokens
        assert sum(receipt.sections.values()) + receipt.tools + receipt.reply == receipt.tokens
        assert receipt.tokens == counted == context.tokens
        assert receipt.tools == EXACT.count_tools(TOOLS)
        assert receipt.reply == EXACT.reply
        for section in Section:
            cost = sum(map(EXACT.count_message, context.section(section)))
            assert receipt.sections[section] == cost

    def test_it_says_in_a_line_what_was_sent(self) -> None:
        plain = assemble(Transcript(EXACT, LOOP[:2]), Budget(max_tokens=8_000))
        assert str(plain.receipt) == "13 of 8,000 tokens (exact); 2 messages, 0 dropped"
        assert repr(plain) == f"<Context {plain.receipt}>"
        long = [user("word " * 5_000), assistant("yes"), user("go on " * 2_000)]
        shrunk = assemble(Transcript(EXACT, long), Budget(max_tokens=1_000))
        assert str(shrunk.receipt).endswith("(exact); 1 message, 2 dropped, 1 shortened")

    def test_it_is_as_certain_as_its_weakest_term(self) -> None:
        budget = Budget(max_tokens=8_000)
        exact = assemble(Transcript(EXACT, LOOP[:2]), budget)
        bound = assemble(Transcript(EXACT, LOOP[:2]), budget, tools=TOOLS)
        looped = assemble(Transcript(EXACT, LOOP), budget)
        estimate = assemble(Transcript(CHEAP, LOOP), budget)
        found = [context.receipt.certainty for context in (exact, bound, looped, estimate)]
        assert found == [
            Certainty.EXACT,
            Certainty.BOUND,
            Certainty.BOUND,
            Certainty.ESTIMATE,
        ]

    def test_every_fate_has_its_place_and_its_reason(self) -> None:
        log = [
            user("q"),
            asks("a", "b"),
            Message("assistant"),
            answers("a"),
            answers("a"),
            answers("x"),
        ]
        fates = {(fate.start, fate.outcome): fate.reason for fate in built(log).fates}
        assert fates == {
            (1, Outcome.ADDED): "no result for call 'b' of 'look_up' in the log",
            (2, Outcome.DROPPED): "it has no content: the provider would refuse it",
            (
                3,
                Outcome.MOVED,
            ): "its call comes earlier: sent right after it, as the provider requires",
            (
                4,
                Outcome.DROPPED,
            ): "second result for a call already answered: the provider would refuse it",
            (5, Outcome.DROPPED): "tool result without a call: the provider would refuse it",
        }

    def test_a_message_sent_in_part_is_neither_whole_nor_gone(self) -> None:
        context = built([user("q"), asks("a"), answers("a", "lost")])
        [fate] = context.fates
        assert fate.outcome is Outcome.SHRUNK
        assert fate.reason == "tool result without a call: the provider would refuse it"
        assert [result.call_id for result in context.messages[2].results] == ["a"]

    def test_a_result_whose_call_is_no_longer_shown_is_dropped(self) -> None:
        log = [user("q"), asks("a"), user("never mind"), answers("a")]
        context = built(log, anchor=Anchor(position=2))
        assert context.messages == (log[2],)
        assert Omission(3, 4, Outcome.DROPPED, "its call is before the anchor") in context.fates

    def test_the_question_of_a_running_turn_is_not_said_to_be_dropped(self) -> None:
        log = [
            user("old"),
            user("go"),
            *(m for n in range(9) for m in (asks(f"{n}"), answers(f"{n}"))),
        ]
        context = built(log, 300)
        assert context.head == 1
        dropped = [fate for fate in context.fates if fate.outcome is Outcome.DROPPED]
        assert [(fate.start, fate.stop) for fate in dropped] == [
            (0, 1),
            (2, context.anchor.position),
        ]

    def test_a_shortened_system_message_and_tail_are_on_it(self) -> None:
        log = [system("rule " * 2_000), user("hello")]
        context = built(log, 1_000, tail=(user("note " * 900),))
        reasons = [fate.reason for fate in context.fates if fate.outcome is Outcome.SHRUNK]
        assert [reason.split(" of ")[0] for reason in reasons] == ["system message", "tail message"]
        assert context.receipt.sections[Section.SYSTEM] <= 600
        assert context.receipt.sections[Section.TAIL] <= 150

    def test_an_equal_system_message_is_not_taken_for_a_shortened_one(self) -> None:
        transcript = Transcript(EXACT, [system("be brief"), user("hi")])
        assemble(transcript, Budget(max_tokens=100))
        transcript.system[:] = [system("be brief")]
        assert assemble(transcript, Budget(max_tokens=100)).fates == ()

    def test_it_says_how_much_of_the_previous_prompt_is_repeated(self) -> None:
        transcript = Transcript(EXACT, LOOP[:1])
        first = assemble(transcript, Budget(max_tokens=1_000))
        assert first.receipt.prefix_share == 1.0
        transcript.add(LOOP[1])
        second = assemble(transcript, Budget(max_tokens=1_000), previous=first)
        assert (second.receipt.shared, second.receipt.prefix_share) == (sum(first.costs), 1.0)
        transcript.add(LOOP[2])
        third = assemble(transcript, Budget(max_tokens=1_000), anchor=Anchor(2), previous=second)
        assert (third.receipt.shared, third.receipt.prefix_share) == (0, 0.0)


class TestShortening:
    LONG = "head of it " + "and so on " * 3_000 + "tail of it"

    def test_an_oversized_newest_message_keeps_head_and_tail_with_a_reference(self) -> None:
        context = built([user("hi"), assistant("hello"), user(self.LONG)], 1_000)
        *earlier, message = context.messages
        assert [one.text for one in earlier] == ["hi", "hello"]
        assert message.text.startswith("head of it")
        assert message.text.endswith("tail of it")
        assert "stored as #2" in message.text
        # A quarter of the budget stays free for what follows.
        assert 500 < context.receipt.sections[Section.TURN] <= 750

    def test_it_stays_byte_identical_until_it_gives_way_once(self) -> None:
        log = [user(self.LONG)]
        log += [m for n in range(12) for m in (asks(f"{n}", said="let me see"), answers(f"{n}"))]
        calls = [call.context for call in replay(log, Setting(EXACT, Budget(max_tokens=1_000)))]
        assert len(calls) > 10
        opened = [call.messages[0] for call in calls]
        longer, shorter = dict.fromkeys(opened)
        assert opened == [longer] * opened.count(longer) + [shorter] * opened.count(shorter)
        assert EXACT.count_message(shorter) <= 260
        assert EXACT.count_message(longer) > 600
        assert shorter.text.startswith("head of it")
        assert sum(call.moved for call in calls) < 4

    def test_what_is_shortened_gives_way_before_earlier_messages_leave(self) -> None:
        log = [user("read it"), asks("a"), answers("a", text=self.LONG)]
        context = built(log, 1_000)
        transcript = Transcript(EXACT, [*log, asks("b"), answers("b", text="and so on " * 120)])
        after = assemble(transcript, Budget(max_tokens=1_000), anchor=context.anchor)
        assert [message.role for message in after.messages] == ["user", *["assistant", "tool"] * 2]
        assert not after.moved
        assert after.costs[2] < context.costs[2] // 2
        assert after.costs[4] == EXACT.count_message(transcript.messages[4])

    def test_a_long_result_of_the_newest_call_is_shortened_and_its_call_is_not(self) -> None:
        log = [user("read it"), asks("a", arguments='{"path": "x"}'), answers("a", text=self.LONG)]
        context = built(log, 1_000)
        assert context.messages[:2] == tuple(log[:2])
        assert context.messages[2].results[0].call_id == "a"
        assert context.messages[2].text.endswith("tail of it")

    def test_the_longest_parts_give_way_first(self) -> None:
        log = [user("read all"), asks("a", "b"), answers("a"), answers("b", text=self.LONG)]
        context = built(log, 600)
        assert context.messages[2] is log[2]
        assert [fate.start for fate in context.fates if fate.outcome is Outcome.SHRUNK] == [3]

    def test_a_long_system_message_gives_way_to_a_newest_turn_that_needs_the_room(self) -> None:
        ids = [f"call_{n}" for n in range(10)]
        log = [system("rule " * 2_000), user("go"), asks(*ids), *map(answers, ids)]
        context = built(log, 600)
        assert context.receipt.sections[Section.SYSTEM] < 200


class TestTooSmall:
    def refused(self, log: list[Message], **numbers: int) -> BudgetTooSmall:
        budget = Budget(max_tokens=numbers.pop("max_tokens", 10_000), **numbers)  # pyright: ignore[reportArgumentType] (only numbers)
        with pytest.raises(BudgetTooSmall) as caught:
            assemble(Transcript(EXACT, log), budget)
        assert list(refusal_faults(caught.value)) == []
        return caught.value

    def test_the_error_shows_its_arithmetic(self) -> None:
        refusal = self.refused([system("be brief"), user("a question " * 50)], max_tokens=18)
        assert refusal.parts == {
            "system": 6,
            "reply opening": 3,
            "newest turn, no part above 8 tokens": 11,
        }
        assert str(refusal).startswith(
            "mandatory parts need 20 tokens (system: 6 + reply opening: 3 + newest turn, no part above 8 tokens: 11) "
            "but the budget allows 18. "
        )

    def test_a_share_that_is_too_small_names_the_budget_that_would_do(self) -> None:
        log = [system("be brief " * 30), user("a question")]
        refusal = self.refused(log, max_tokens=15)
        assert (refusal.needed, refusal.allowed, refusal.budget) == (12, 9, 15)
        assert str(refusal) == (
            "mandatory parts need 12 tokens (framing of 1 system message: 4 + text, each part cut to 8 tokens: 8) but "
            "their share of the budget of 15 is 9: a budget of 20 has room for them. They cannot be cut further: raise "
            "the budget, raise Shares(system=...), or send fewer"
        )
        assert self.refused(log, max_tokens=19).budget == 19
        assert assemble(Transcript(EXACT, log), Budget(max_tokens=24)).tokens <= 24

    def test_too_many_messages_that_cannot_be_split(self) -> None:
        log = [system("s"), user("q"), asks("a", "b"), answers("a"), answers("b")]
        refusal = self.refused(log, max_messages=4)
        assert (refusal.unit, refusal.needed, refusal.allowed) == ("messages", 5, 4)
        assert refusal.parts == {"system": 1, "newest turn": 4}

    def test_system_messages_alone_can_be_too_many(self) -> None:
        refusal = self.refused([system("a"), system("b"), user("q")], max_messages=2)
        assert refusal.parts == {"system": 2, "conversation": 1}

    def test_too_many_bytes(self) -> None:
        refusal = self.refused([user("q" * 500)], max_bytes=40)
        assert (refusal.unit, refusal.allowed) == ("bytes", 40)

    def test_the_callers_own_notes_take_no_bytes(self) -> None:
        noted = Message("user", "q", metadata={"note": "n" * 500})
        budget = Budget(max_tokens=100, max_bytes=60)
        assert assemble(Transcript(EXACT, [noted]), budget).messages == (noted,)

    def test_fixed_parts_that_cannot_be_shortened_to_their_share(self) -> None:
        many = [system(f"rule {n}") for n in range(50)]
        refusal = self.refused([*many, user("q")], max_tokens=300)
        assert refusal.allowed == 180
        assert "Shares(system=...)" in refusal.remedy

    def test_fits_says_no_where_assemble_would_refuse(self) -> None:
        transcript = Transcript(EXACT, [system("a"), system("b"), user("q")])
        assert not fits(transcript, Budget(max_tokens=100, max_messages=2), Anchor())
        assert fits(transcript, Budget(max_tokens=100, max_messages=3), Anchor())

    @examples(60)
    @given(st.integers(1, 12), st.integers(0, 400), st.integers(0, 3), st.integers(0, 1))
    def test_no_budget_is_refused_that_has_room_for_the_least(
        self, calls: int, words: int, rules: int, questions: int
    ) -> None:
        """The least is what must be sent, each part cut to the smallest cap. It is enough, system share allowing."""
        ids = [f"call_{n}" for n in range(calls)]
        log = [system("rule " * words) for _ in range(rules)]
        log += [*[user("why " * words)] * questions, asks(*ids)]
        log += [answers(call_id, text="so " * words) for call_id in ids]
        least = CHEAP.reply + sum(
            CHEAP.count_message(message) - max(CHEAP.count_text(message.text) - SMALLEST_CAP, 0)
            for message in log
        )
        shares = Shares(system=0.9, summary=0.04, tail=0.04)
        transcript = Transcript(CHEAP, log)
        # Squeezed, the system keeps an eighth of its share, or its least.
        enough = Budget(max_tokens=int(least / (1 - 0.9 / 8)) + 2, shares=shares)
        assert assemble(transcript, enough).tokens <= enough.tokens
        with pytest.raises(BudgetTooSmall):
            # Shortened texts may end a few tokens below the cap, never half of what is needed.
            assemble(transcript, Budget(max_tokens=least // 2, shares=shares))

    def test_doubling_the_budget_ends_every_refusal(self) -> None:
        for seed in range(150):
            rng = random.Random(seed)  # noqa: S311 (the same transcripts on every run)
            transcript = Transcript(CHEAP, random_log(rng))
            tokens = 8
            refusals: list[BudgetTooSmall] = []
            while True:
                try:
                    context = assemble(transcript, Budget(max_tokens=tokens))
                    break
                except BudgetTooSmall as refusal:
                    refusals.append(refusal)
                    tokens *= 2
            assert check(context) == ()
            assert len(refusals) < 14
            assert [fault for refusal in refusals for fault in refusal_faults(refusal)] == []


class TestTheSameEverywhere:
    """A context is a function of log, anchor and budget: no process remembers anything that matters."""

    @pytest.mark.parametrize("name", [name for name in NAMES if name != "hostile"])
    @pytest.mark.parametrize("logs", REBUILT_LOGS.values())
    def test_a_fresh_transcript_gives_the_same_context(self, name: str, logs: int) -> None:
        for seed in range(logs):
            log, setting = scenario(seed, name)
            before = Anchor()
            for call in replay(log, setting):
                copies = [decode_message(encode_message(message)) for message in call.log]
                again = assemble(
                    Transcript(setting.counter, copies),
                    call.setting.budget,
                    anchor=before,
                    strategy=setting.strategy,
                    tools=setting.tools,
                    tail=setting.tail,
                )
                assert again.messages == call.context.messages
                assert again.anchor == call.context.anchor
                assert again.fates == call.context.fates
                before = call.context.anchor

    @pytest.mark.parametrize("name", [name for name in NAMES if name != "hostile"])
    @pytest.mark.parametrize("logs", REBUILT_LOGS.values())
    def test_asking_again_with_the_new_anchor_changes_nothing(self, name: str, logs: int) -> None:
        for seed in range(logs):
            log, setting = scenario(seed, name)
            for call in replay(log, setting):
                again = call.setting.call(Transcript(call.setting.counter, call.log), call.context)
                assert again.messages == call.context.messages
                assert again.anchor == call.context.anchor
                assert not again.moved

    def test_another_process_builds_the_same_bytes(self) -> None:
        root = Path(__file__).resolve().parents[2]
        script = (
            "import hashlib, json\n"
            "from tests.window.replay import replay\n"
            "from tests.window.test_properties import TURNS, scenario\n"
            "digest = hashlib.sha256()\n"
            "for seed in range(60):\n"
            "    for call in replay(*scenario(seed, TURNS[seed % len(TURNS)])):\n"
            "        sent = [message.model_dump() for message in call.context.messages]\n"
            "        digest.update(json.dumps(sent).encode() + str(call.context.anchor).encode())\n"
            "print(digest.hexdigest())\n"
        )
        paths = {"PYTHONPATH": f"{root / 'src'}:{root}"}
        seen = {
            subprocess.run(
                [sys.executable, "-c", script],
                env={**paths, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
                encoding="utf-8",
            ).stdout
            for seed in ("1", "2")
        }
        assert len(seen) == 1
        assert len(seen.pop()) == 65

    def test_the_previous_context_only_serves_to_measure(self) -> None:
        log = [user("hi"), assistant("hello"), user("again")]
        other = built([user("something else")])
        budget = Budget(max_tokens=1_000)
        alone = assemble(Transcript(EXACT, log), budget)
        after = assemble(Transcript(EXACT, log), budget, previous=other)
        assert (alone.messages, alone.anchor) == (after.messages, after.anchor)
        assert (alone.receipt.previous, after.receipt.shared) == (0, 0)

    def test_an_anchor_from_elsewhere_still_shows_the_newest_span(self) -> None:
        context = assemble(
            Transcript(EXACT, LOOP), Budget(max_tokens=1_000), anchor=Anchor(position=99)
        )
        assert context.messages == (LOOP[2], *LOOP[3:])
        assert check(context) == ()


def test_a_strategy_cannot_leave_the_newest_question_out() -> None:
    transcript = Transcript(EXACT, LOOP)
    context = assemble(transcript, Budget(max_tokens=1_000), strategy=lambda *_: Choice(99))
    assert context.messages == (LOOP[2], LOOP[3], LOOP[4])
    assert json.dumps([message.model_dump() for message in context.messages])
