"""Requests of frameworks that send their whole history: stored once, followed when it changes, fitted to the budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.adapters.tool_loops import PAGE, cost, faults
from turnfold import AsyncMemory, Budget, Memory, Message, wire
from turnfold.adapters._common import (
    HistoryView,
    ThreadBridge,
    fitted_history,
    original_fields,
    with_original_form,
)
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Origin, TextPart
from turnfold.redaction import find_secrets
from turnfold.runtime import drive
from turnfold.wire import JsonObject

SMALL = Budget(max_tokens=2_000)


def said(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def answered(text: str) -> JsonObject:
    return {"role": "assistant", "content": text}


def called(number: int) -> list[JsonObject]:
    function = {"name": "look", "arguments": f'{{"at": {number}}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    result: JsonObject = {
        "role": "tool",
        "tool_call_id": f"c{number}",
        "content": f"{number}: {PAGE}",
    }
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, result]


def view_of(session: Any, *, continues: bool = True) -> HistoryView:
    accept = wire.openai_chat.accept
    return HistoryView(
        session.awaiting, accept, adapter="the test", recall=False, continues=continues
    )


def texts(fitted: Any) -> list[str]:
    return [message.text for message in fitted.messages]


def fit(view: HistoryView, history: list[JsonObject], **more: Any) -> Any:
    return drive(view.fit(history, system=["Be brief."], **more))


def test_a_loop_stays_in_budget_and_is_stored_once() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        session = memory.session("s")
        view = view_of(session)
        history = [said("Look at everything. 看看所有的地方。")]
        for number in range(25):
            fitted = fit(view, history)
            sent = [Message("system", fitted.system[0]), *fitted.messages]
            assert cost(session, sent, ()) <= SMALL.tokens
            assert list(faults(sent)) == []
            history += called(number)
        assert session.status().checkpoint
        log = [entry.message for entry in session.history() if entry.message.role != "system"]
        assert wire.openai_chat.request(log, repair=False).kwargs["messages"] == history[:49]


def test_nothing_is_read_again_while_a_history_only_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[int] = []
    follow = fitted_history.follow_history

    async def counted(*args: Any, **more: Any) -> Any:
        followed.append(1)
        return await follow(*args, **more)

    monkeypatch.setattr(fitted_history, "follow_history", counted)
    with Memory("sqlite://") as memory:
        view = view_of(memory.session("s"))
        history = [said("a")]
        for number in range(5):
            fit(view, history)
            history += called(number)
        assert followed == []
        fit(view, [said("b"), *history[1:]])
        assert followed == [1]


def test_a_new_view_continues_the_log_or_follows_what_it_is_given() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        first = [said("I am Ann."), answered("hi")]
        drive(view_of(session).store(first))
        assert texts(fit(view_of(session), [said("Who am I?")])) == ["I am Ann.", "hi", "Who am I?"]
        whole = [*first, said("Who am I?"), answered("Ann"), said("And now?")]
        assert texts(fit(view_of(session), whole)) == [
            "I am Ann.",
            "hi",
            "Who am I?",
            "Ann",
            "And now?",
        ]
        assert len([one for one in session.history() if one.message.role != "system"]) == 5
        alone = view_of(session, continues=False)
        assert texts(fit(alone, [said("Who am I?")])) == ["Who am I?"]
        other = [said("I am Bob."), answered("hi"), said("Who am I?")]
        assert texts(fit(view_of(session), other)) == ["I am Bob.", "hi", "Who am I?"]


def test_results_of_calls_that_waited_continue_the_log() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        call, result = called(1)
        drive(view_of(session).store([said("Look."), call]))
        fitted = fit(view_of(session), [result])
        assert [message.role for message in fitted.messages] == ["user", "assistant", "tool"]


def test_messages_without_a_client_id_are_followed_too() -> None:
    with Memory("sqlite://") as memory:
        session = memory.session("s")
        for text in ("yes", "yes", "no"):
            session.user(text)
            session.assistant(f"heard {text}")
        given = [said("yes"), answered("heard yes"), said("no"), answered("heard no"), said("so?")]
        assert texts(fit(view_of(session), given)) == [
            "yes",
            "heard yes",
            "yes",
            "heard yes",
            "no",
            "heard no",
            "so?",
        ]
        left = [said("yes"), answered("heard yes"), said("what?")]
        assert texts(fit(view_of(session), left))[-3:] == ["yes", "heard yes", "what?"]
        assert "no" not in texts(fit(view_of(session), [said("more")]))


def test_two_runs_at_once_each_send_their_own_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def both() -> list[list[str]]:
        with Memory("sqlite://") as memory:
            session = memory.session("s")
            drive(view_of(session).store([said("Hello."), answered("Hi.")]))
            one, two = view_of(session), view_of(session)
            drive(one.store([said("one")]))
            drive(two.store([said("two")]))
            drive(two.store([said("two"), *called(2)[:1]]))
            first = texts(fit(one, [said("one")]))
            second = texts(fit(two, [said("two"), *called(2)]))
            return [first, second]

    first, second = both()
    assert first == ["Hello.", "Hi.", "one"]
    assert second[-1].startswith("2: ")
    monkeypatch.setattr(fitted_history, "_own_messages", lambda context, _: context.messages[1:])
    assert both()[0] != first


def test_requests_that_begin_at_once_with_one_history_each_send_their_own() -> None:
    async def work() -> None:
        async with AsyncMemory("sqlite://") as memory:
            session, begun = memory.session("s"), [said("begin"), answered("yes 是")]
            await HistoryView(session, wire.openai_chat.accept, recall=False).fit(begun, system=[])
            for _ in range(5):
                views = [HistoryView(session, wire.openai_chat.accept, recall=False) for _ in "ABC"]
                fitted = await asyncio.gather(
                    *(
                        view.fit([*begun, said(one)], system=[])
                        for view, one in zip(views, "ABC", strict=True)
                    )
                )
                assert [texts(one) for one in fitted] == [["begin", "yes 是", x] for x in "ABC"]

    asyncio.run(work())


def test_what_is_sent_besides_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    hint = Message("user", PAGE * 6)
    history = [said("Look."), *(one for number in range(15) for one in called(number))]

    def tokens() -> int:
        with Memory("sqlite://", budget=SMALL) as memory:
            session = memory.session("s")
            fitted = fit(view_of(session), history, added=[hint])
            sent = [Message("system", fitted.system[0]), *fitted.messages, hint]
            return cost(session, sent, ())

    assert tokens() <= SMALL.tokens
    monkeypatch.setattr(fitted_history, "remaining_tokens", lambda *_, **__: 0)
    assert tokens() > SMALL.tokens
    monkeypatch.undo()
    with Memory("sqlite://", budget=SMALL) as memory:
        view = view_of(memory.session("s"))
        with pytest.raises(InvalidOption, match="adds 1 messages"):
            fit(view, history, added=[Message("user", PAGE * 40)])


def test_a_memory_that_redacts_is_refused() -> None:
    with (
        Memory("sqlite://", redact=find_secrets) as memory,
        pytest.raises(InvalidOption, match="the test cannot use a memory with redact="),
    ):
        view_of(memory.session("s"))


def test_an_awaiting_memory_stays_in_its_loop() -> None:
    async def opened() -> tuple[ThreadBridge, AsyncMemory]:
        memory = AsyncMemory("sqlite://")
        return ThreadBridge(memory, own_loops="agent(...)"), memory

    async def use(bridge: ThreadBridge, memory: AsyncMemory) -> None:
        await bridge(memory.session("s").status())

    async def main() -> None:
        bridge, memory = await opened()
        await use(bridge, memory)
        work = asyncio.to_thread(asyncio.run, use(bridge, memory))
        with pytest.raises(InvalidOption, match=r"agent\(\.\.\.\) runs an event loop of its own"):
            await work
        await memory.close()

    asyncio.run(main())


def test_the_form_of_a_message_is_what_its_record_lacks() -> None:
    fields: JsonObject = {"content": [{"text": "海", "mark": 1}], "id": "x"}
    written: JsonObject = {"content": [{"text": "海"}]}
    record = with_original_form(Message("user", "海"), written, fields, provider="p")
    assert original_fields(record, written, provider="p", framework="P") == fields
    assert original_fields(record, written, provider="q", framework="Q") == written
    same = with_original_form(Message("user", "海"), written, written, provider="p")
    assert same.origin == Origin("p")
    forged = Message.of("user", (TextPart("海"),), origin=Origin("p", form='{"=":5}'))
    with pytest.raises(InvalidRecord, match=r"origin\.form"):
        original_fields(forged, written, provider="p", framework="P")
