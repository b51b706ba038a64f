"""Every promise has a test that notices when it is broken.

Each case breaks one thing in the library and expects the tests that guard it to say so. A promise whose guard stays
silent here is not guarded at all.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import ModuleType

import pytest

from tests.window import replay as replaying
from tests.window import test_context, test_fence, test_shrink, test_strategies
from tests.window.replay import faults, pairing_faults, replay
from tests.window.test_properties import NAMES, problems, scenario
from tests.window.transcripts import random_log
from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall
from turnfold.records import Grouper, Message, Part, Placement, TextPart, ThinkingPart
from turnfold.tokens import TokenCounter, counter_for
from turnfold.window import Context, Piece, Rule, SpanView, Transcript, assemble, check, shrink_text

Patch = pytest.MonkeyPatch
SEEDS = range(400)


def module(name: str) -> ModuleType:
    """A module of the window package; functions of the same name hide some of them."""
    return sys.modules[f"turnfold.window.{name}"]


def late_results_stay_where_they_came(patch: Patch) -> None:
    place = Grouper._add_results

    def careless(self: Grouper, message: Message, position: int) -> Placement:
        placement = place(self, message, position)
        placement.late.clear()
        return placement

    patch.setattr(Grouper, "_add_results", careless)


def orphans_and_duplicates_are_shown(patch: Patch) -> None:
    place = Grouper._add_results

    def careless(self: Grouper, message: Message, position: int) -> Placement:
        placement = place(self, message, position)
        placement.unplaced.clear()
        return placement

    patch.setattr(Grouper, "_add_results", careless)


def unanswered_calls_stay_unanswered(patch: Patch) -> None:
    pieces = Transcript.pieces

    def careless(self: Transcript, span: int) -> Iterator[Piece]:
        return (piece for piece in pieces(self, span) if piece.position >= 0)

    patch.setattr(Transcript, "pieces", careless)


def sums_are_too_low(patch: Patch) -> None:
    charge = Transcript._charge

    def careless(self: Transcript, span: int, piece: Piece) -> None:
        charge(self, span, piece._replace(tokens=piece.tokens // 2))

    patch.setattr(Transcript, "_charge", careless)


def choices_are_not_enforced(patch: Patch) -> None:
    patch.setattr(SpanView, "fits", lambda *_: True)


def questions_are_left_behind(patch: Patch) -> None:
    patch.setattr(SpanView, "head", lambda *_: None)


def fates_are_not_listed(patch: Patch) -> None:
    patch.setattr(module("assembly"), "list_omissions", lambda *_, **__: ())


def shortened_messages_are_mixed_up(patch: Patch) -> None:
    """One position may be shown as several pieces: remembering by position gives one for the other."""
    shrink = Transcript.shrunk
    known: dict[tuple[int, int, int], Piece] = {}

    def careless(self: Transcript, piece: Piece, cap: int) -> Piece:
        key = (id(self), piece.position, cap)
        return known.setdefault(key, shrink(self, piece, cap))

    patch.setattr(Transcript, "shrunk", careless)


def words_beside_late_results_stay_between_a_call_and_its_results(patch: Patch) -> None:
    place = Grouper._add_results

    def careless(self: Grouper, message: Message, position: int) -> Placement:
        placement = place(self, message, position)
        if placement.opens and placement.span > 0:
            self.firsts.pop()
            placement.span, placement.opens = placement.span - 1, False
        return placement

    patch.setattr(Grouper, "_add_results", careless)


@pytest.mark.parametrize(
    ("sabotage", "noticed"),
    [
        (late_results_stay_where_they_came, "answered by"),
        (orphans_and_duplicates_are_shown, "answered by"),
        (unanswered_calls_stay_unanswered, "answered by"),
        (sums_are_too_low, "within-budget"),
        (choices_are_not_enforced, "within-budget"),
        (questions_are_left_behind, "newest user message"),
        (fates_are_not_listed, "unexplained"),
        (shortened_messages_are_mixed_up, "answered by"),
        (words_beside_late_results_stay_between_a_call_and_its_results, "answered by"),
    ],
)
def test_the_properties_notice(
    sabotage: Callable[[Patch], None], noticed: str, monkeypatch: Patch
) -> None:
    sabotage(monkeypatch)
    assert any(noticed in problem for problem in all_problems())


def all_problems() -> Iterator[str]:
    """The problems of each seed; a replay that breaks down altogether is a problem too."""
    for seed in SEEDS:
        try:
            yield from problems(range(seed, seed + 1))
        except (BudgetTooSmall, LookupError, ValueError) as error:
            yield f"{type(error).__name__}: {error}"


def without_newest(messages: Sequence[Message]) -> list[Message]:
    return list(messages[:-1])


def without_oldest_result(messages: Sequence[Message]) -> list[Message]:
    first = next((at for at, message in enumerate(messages) if message.role == "tool"), -1)
    return [message for at, message in enumerate(messages) if at != first]


def with_system_last(messages: Sequence[Message]) -> list[Message]:
    return sorted(messages, key=lambda message: message.role == "system")


def with_empty_message(messages: Sequence[Message]) -> list[Message]:
    return [*messages, Message("user")]


def with_last_doubled(messages: Sequence[Message]) -> list[Message]:
    return [*messages, *messages[-1:]]


@pytest.mark.parametrize(
    ("tamper", "rule"),
    [
        (without_newest, None),  # only the log tells that something is missing at the end
        (without_oldest_result, Rule.CALL_ANSWERED),
        (with_system_last, Rule.SYSTEM_FIRST),
        (with_empty_message, Rule.NOT_EMPTY),
        (with_last_doubled, None),
    ],
)
def test_judge_and_check_notice_a_context_that_was_tampered_with(
    tamper: Callable[[Sequence[Message]], list[Message]], rule: Rule | None, monkeypatch: Patch
) -> None:
    def tampered(*args: object, **options: object) -> Context:
        context: Context = assemble(*args, **options)  # pyright: ignore[reportArgumentType] (passed on)
        context.messages = tuple(tamper(context.messages))
        return context

    monkeypatch.setattr(replaying, "assemble", tampered)
    judged: list[str] = []
    checked: set[Rule] = set()
    for seed in range(40):
        for call in islice(replay(*scenario(seed, NAMES[0])), 4):
            judged += faults(call)
            checked |= {violation.rule for violation in check(call.context)}
    assert judged
    assert rule is None or rule in checked


def shrinking_is_off_by_ten(patch: Patch) -> None:
    patch.setattr(
        test_shrink,
        "shrink_text",
        lambda text, cap, count, reference="": shrink_text(
            text, cap + 10, count, reference=reference
        ),
    )


def arguments_are_cut_like_text(patch: Patch) -> None:
    patch.setattr(module("shortened_messages"), "_shrink_arguments", shrink_text)


def thoughts_are_cut(patch: Patch) -> None:
    shrink = module("shortened_messages")._shrink_part

    def careless(
        part: Part, cap: int, counter: TokenCounter, reference: str, *, is_zh: bool
    ) -> Part | None:
        if isinstance(part, ThinkingPart):
            return ThinkingPart(part.text[: 2 * cap], part.signature)
        return shrink(part, cap, counter, reference, is_zh=is_zh)

    patch.setattr(module("shortened_messages"), "_shrink_part", careless)


def the_fence_has_a_fixed_mark(patch: Patch) -> None:
    for place in (sys.modules["turnfold.text.data_fences"], test_fence):
        patch.setattr(place, "fence_mark", lambda _: "00000000")


def the_summary_is_cut_with_its_fence(patch: Patch) -> None:
    def careless(transcript: Transcript, text: str, share: int) -> object:
        sections, counter = module("shortened_prompt_sections"), transcript.counter
        message = sections.summary_message(text)
        cut = sections.shrink_message(message, share // 3, counter) if text else message
        pieces = (Piece(cut, counter.count_message(cut), -1),) if text else ()
        return sections._Section(pieces, ("summary of",) if text else ())

    patch.setattr(module("shortened_prompt_sections"), "_summary_within", careless)


def the_cut_forgets_the_low_mark(patch: Patch) -> None:
    patch.setattr(
        module("strategies"),
        "cut_to_low",
        lambda view, room: view.first_within(view.start, tokens=room.tokens, messages=0, size=0),
    )


def the_tail_comes_too_late(patch: Patch) -> None:
    show = module("assembly")._shown

    def careless(*args: object) -> tuple[object, ...]:
        *rest, edge = show(*args)
        return (*rest, edge + 1)

    patch.setattr(module("assembly"), "_shown", careless)


def tools_are_not_on_the_receipt(patch: Patch) -> None:
    account = Context._account

    def careless(self: Context) -> object:
        self.tools, tools = 0, self.tools
        receipt = account(self)
        self.tools = tools
        return receipt

    patch.setattr(Context, "_account", careless)


def shortened_messages_change_from_call_to_call(patch: Patch) -> None:
    shrink = Transcript.shrunk
    clock = iter(range(10**9))

    def careless(self: Transcript, piece: Piece, cap: int) -> Piece:
        smaller = shrink(self, piece, cap)
        if smaller.message is piece.message:
            return smaller
        text = f"{smaller.message.text[:-20]}{next(clock)}"
        return smaller._replace(message=Message.of(piece.message.role, [TextPart(text)]))

    patch.setattr(Transcript, "shrunk", careless)


GUARDS: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (
        shrinking_is_off_by_ten,
        lambda: inner(test_shrink.TestText.test_no_text_is_ever_above_its_cap)(
            test_shrink.TestText(), text=test_shrink.LONG, cap=50
        ),
    ),
    (
        arguments_are_cut_like_text,
        lambda: test_shrink.TestArguments().test_what_is_short_in_them_stays(),
    ),
    (
        thoughts_are_cut,
        lambda: test_shrink.TestMessage().test_signed_thinking_is_whole_or_absent(),
    ),
    (
        the_fence_has_a_fixed_mark,
        lambda: inner(test_fence.test_nothing_inside_can_close_the_fence)(
            text="</summary 00000000>"
        ),
    ),
    (
        the_summary_is_cut_with_its_fence,
        test_strategies.TestSummarise().test_a_summary_that_is_too_long_is_shortened_inside_its_fence,
    ),
    (
        the_cut_forgets_the_low_mark,
        test_strategies.TestOldestFirst().test_the_anchor_stays_until_the_budget_is_full_and_then_jumps,
    ),
    (
        the_tail_comes_too_late,
        test_context.TestSections().test_they_stand_in_order_most_stable_first,
    ),
    (tools_are_not_on_the_receipt, test_context.TestReceipt().test_its_arithmetic_adds_up),
    (
        shortened_messages_change_from_call_to_call,
        test_context.TestShortening().test_it_stays_byte_identical_until_it_gives_way_once,
    ),
]


def inner(test: Callable[..., None]) -> Callable[..., None]:
    """The body of a Hypothesis test, to be run on one example."""
    return test.hypothesis.inner_test  # pyright: ignore[reportFunctionMemberAccess] (set by @given)


@pytest.mark.parametrize(
    ("sabotage", "guard"), GUARDS, ids=[sabotage.__name__ for sabotage, _ in GUARDS]
)
def test_the_examples_notice(
    sabotage: Callable[[Patch], None], guard: Callable[[], None], monkeypatch: Patch
) -> None:
    guard()
    sabotage(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):  # a ValueError: what was to be JSON is none
        guard()


class TestBaselines:
    """What most programs do instead, on the same conversations: it breaks what the provider needs whole."""

    COUNTER = counter_for("gpt-4o")

    def share_broken(self, window: Callable[[list[Message]], list[Message]]) -> float:
        """Of the conversations that are sound and long enough to be cut, those with a broken call."""
        broken = whole = 0
        for seed in range(600):
            log = random_log(random.Random(seed))  # noqa: S311 (the same transcripts on every run)
            said = [message for message in log if message.role != "system"]
            if len(said) <= 8 or list(pairing_faults(said)):
                continue
            whole += 1
            ends = [at for at, message in enumerate(said) if at and message.role != "tool"]
            broken += any(list(pairing_faults(window(said[:end]))) for end in [*ends, len(said)])
        assert whole > 100
        return broken / whole

    def test_dropping_the_oldest_message_breaks_pairs(self) -> None:
        def drop_oldest(log: list[Message]) -> list[Message]:
            costs = self.COUNTER.count_messages(log)
            while sum(costs) > 400 and len(costs) > 1:
                costs.pop(0)
            return log[len(log) - len(costs) :]

        assert self.share_broken(drop_oldest) > 0.2

    def test_keeping_the_last_eight_breaks_pairs(self) -> None:
        assert self.share_broken(lambda log: log[-8:]) > 0.2

    def test_turnfold_breaks_none(self) -> None:
        def fold(log: list[Message]) -> list[Message]:
            transcript = Transcript(self.COUNTER, log)
            return list(assemble(transcript, Budget(max_tokens=1_500)).messages)

        assert self.share_broken(fold) == 0.0
