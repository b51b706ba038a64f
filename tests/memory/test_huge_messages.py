"""A message of megabytes is counted once, when it is stored, and costs a context no more than what is shown of it."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from turnfold import Budget, Memory, Session
from turnfold.fold.summary_input import LONGEST_READ
from turnfold.tokens import Certainty, Encoding, TokenCounter, counter_for
from turnfold.window import Transcript

SIZE = 1_000_000
BUDGET = 2_000


def repeated(text: str) -> str:
    return (text * (SIZE // len(text) + 1))[:SIZE]


HUGE: dict[str, Callable[[], str]] = {
    "prose": lambda: repeated("The build of 3 May failed again; Alice must never restart it. "),
    "Chinese": lambda: repeated(
        "今天的会议决定，把发布日期推迟到九月三日。所有测试必须在此之前完成！"
    ),
    "Chinese without a sign": lambda: repeated(
        "今天的会议决定把发布日期推迟到九月三日所有测试必须完成"
    ),
    "one word": lambda: "".join(random.Random(1).choices("abcdefghijklmnop", k=SIZE)),  # noqa: S311 - repeatable
    "base64": lambda: base64.b64encode(random.Random(1).randbytes(SIZE * 3 // 4)).decode(),  # noqa: S311 - as above
    "percentages": lambda: repeated("1%"),
    "emoji": lambda: repeated("😀👍🏽🎉"),
    "JSON": lambda: "[" + ", ".join(f'{{"id": {n}, "ok": true}}' for n in range(SIZE // 24)) + "]",
    "line ends": lambda: "\n" * SIZE + "x",
}


class Reading:
    """The counter of gpt-4o, which knows how much it was given to count."""

    name = "reading"
    certainty = Certainty.EXACT

    def __init__(self) -> None:
        self._count = Encoding("o200k_base").count
        self.characters = self.longest = 0

    def count(self, text: str) -> int:
        self.characters += len(text)
        self.longest = max(self.longest, len(text))
        return self._count(text)

    def forget(self) -> None:
        self.characters = self.longest = 0


def opened(reading: Reading, *, fold: str = "inline") -> Memory:
    budget = Budget(max_tokens=BUDGET)
    return Memory("sqlite://", counter=TokenCounter(reading), budget=budget, fold=fold)


def as_user(session: Session, text: str) -> None:
    session.user(text)


def as_tool(session: Session, text: str) -> None:
    session.user("Read it.")
    call = {"id": "c1", "function": {"name": "read", "arguments": "{}"}}
    session.assistant(tool_calls=[call])
    session.tool(text, tool_call_id="c1")


@pytest.mark.parametrize("say", [as_user, as_tool])
@pytest.mark.parametrize("kind", ["prose", "Chinese", "one word"])
def test_it_is_counted_when_it_is_stored_and_not_again(
    kind: str, say: Callable[[Session, str], None]
) -> None:
    reading = Reading()
    text = HUGE[kind]()
    with opened(reading) as memory:
        session = memory.session("huge")
        say(session, text)
        assert reading.longest == len(text)
        reading.forget()
        shown = session.context()
        session.assistant("Seen.")
        session.user("And now?")
        session.context()
    total = f"{Encoding('o200k_base').count(text):,}"
    whole = f"全文共 {total} token" if kind == "Chinese" else f"{total} tokens in full"
    assert any(whole in message.text for message in shown.messages)
    assert shown.tokens <= BUDGET
    # What is shown is a few thousand characters; a search for the place to cut counts about twenty such stretches.
    assert reading.longest <= LONGEST_READ
    assert reading.characters < len(text) / 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(HUGE))
def test_whatever_it_is_made_of(kind: str) -> None:
    reading = Reading()
    text = HUGE[kind]()
    with opened(reading) as memory:
        session = memory.session("huge")
        session.user("Hello.")
        as_tool(session, text)
        reading.forget()
        assert session.context().tokens <= BUDGET
        for number in range(3):
            session.assistant(f"Answer {number}.")
            session.user(f"Question {number}?")
        assert session.context().tokens <= BUDGET
        folded = session.fold(keep_turns=1)
        assert folded is not None
        assert session.context().tokens <= BUDGET
        if text.strip():
            assert "not read" in folded.text or "未读" in folded.text
    assert reading.longest < len(text)


@pytest.mark.parametrize("kind", ["prose", "Chinese", "base64"])
def test_a_fold_says_what_it_has_not_read(kind: str) -> None:
    text = HUGE[kind]()
    with opened(Reading(), fold="manual") as memory:
        session = memory.session("huge")
        as_tool(session, text)
        session.assistant("Seen.")
        session.user("And now?")
        folded = session.fold(keep_turns=1)
    assert folded is not None
    # Both ends are cut between words, so a few characters more may be left out than there are too many.
    left_out = len(text) - LONGEST_READ
    said = [f"{left_out + more:,}" for more in range(400)]
    assert any(number in folded.text for number in said)


def test_a_model_is_told_too_and_its_summary_says_so() -> None:
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return "They read a log."

    budget = Budget(max_tokens=BUDGET)
    with Memory(
        "sqlite://", model="gpt-4o", budget=budget, summarizer=ask, fold="manual"
    ) as memory:
        session = memory.session("huge")
        as_tool(session, HUGE["prose"]())
        session.assistant("Seen.")
        session.user("And now?")
        folded = session.fold(keep_turns=1)
    assert folded is not None
    assert sum("characters not read" in prompt for prompt in prompts) == 1
    assert sum(map(len, prompts)) < 2 * LONGEST_READ
    assert "characters not read" in folded.text


def test_without_what_is_known_of_it_it_would_be_counted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Transcript, "counter_of", lambda self, _: self.counter)
    reading = Reading()
    with opened(reading) as memory:
        session = memory.session("huge")
        session.user(HUGE["prose"]())
        reading.forget()
        session.context()
    assert reading.characters > 2 * SIZE


def test_the_count_that_is_stored_is_exact() -> None:
    text = HUGE["one word"]()
    with Memory("sqlite://", model="gpt-4o") as memory:
        session = memory.session("huge")
        session.user(text)
        [entry] = session.history()
    whole = counter_for("gpt-4o")
    assert entry.tokens == whole.count_message(entry.message)


@pytest.mark.parametrize("recall", ["automatic", "always"])
def test_unasked_recall_looks_for_the_ends_of_a_pasted_file(
    recall: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(budget=Budget(max_tokens=BUDGET)) as memory:
        session = memory.session("pasted")
        session.user("The deploy of Hydra-77 failed with E4711. 部署失败。")
        for number in range(60):
            session.assistant(f"Noted, step {number}. " * 20)
            session.user(f"Go on with step {number}.")
        session.context()
        asked: list[int] = []
        search = session.store.search

        async def watched(scope: Any, terms: Sequence[str], **options: Any) -> Any:
            asked.append(len(terms))
            return await search(scope, terms, **options)

        monkeypatch.setattr(session.store, "search", watched)
        words = "".join(random.Random(1).choices("abcdefgh ", k=SIZE))  # noqa: S311 - repeatable
        session.user(f"Look at this: {words} Is it the deploy of Hydra-77 with E4711?")
        shown = session.context(recall=recall)
    assert asked
    assert max(asked) < 5_000
    assert any("Hydra-77 failed" in message.text for message in shown.messages)
