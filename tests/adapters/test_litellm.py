"""The LiteLLM proxy with memory: requests of clients that send their whole history, and LiteLLM's own client."""

from __future__ import annotations

import asyncio
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

os.environ.setdefault(
    "LITELLM_LOCAL_MODEL_COST_MAP", "True"
)  # it asks the network for it otherwise
pytest.importorskip(
    "litellm", reason="the extra litellm is not installed; it has an environment of its own"
)

from tests.adapters.tool_loops import PAGE, check_requests, cost, faults
from tests.models.strict_server import Say, StrictServer
from turnfold import Budget, Memory, Message, wire
from turnfold.adapters.litellm import TurnfoldHook
from turnfold.errors import InvalidOption, MissingExtra
from turnfold.redaction import find_secrets
from turnfold.tokens import counter_for

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SMALL = Budget(max_tokens=3_000)
ANN = SimpleNamespace(user_id="ann", token="hash", api_key="hash")  # noqa: S106 (a hash, in a test)
LOOK: dict[str, object] = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
}
STEPS = 60


def called(number: int) -> list[Any]:
    """An answer of a model that looks at two places, and what it saw."""
    names = [f"c{number}a", f"c{number}b"]
    calls = [
        {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for name in names
    ]
    results = [
        {"role": "tool", "tool_call_id": name, "content": f"{name}: {PAGE}"} for name in names
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def passed(hook: TurnfoldHook, messages: list[Any], key: Any = ANN, **more: Any) -> Any:
    """A request as the proxy passes it on."""
    data = {"model": "gpt-4o", "messages": messages, **more}
    return asyncio.run(hook.async_pre_call_hook(key, None, data, "acompletion"))


def texts(data: Any) -> list[Any]:
    return [message["content"] for message in data["messages"]]


def test_sixty_steps_with_folding_stay_in_budget_and_nothing_is_lost() -> None:
    with Memory("sqlite://", budget=SMALL) as memory:
        hook = TurnfoldHook(memory, recall=False)
        history: list[Any] = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look at everything. 看看所有的地方。"},
        ]
        requests: list[list[Message]] = []
        for number in range(STEPS + 1):
            given = [dict(message) for message in history]
            data = passed(hook, history, tools=[LOOK], litellm_session_id="s")
            assert (data["model"], data["tools"], history) == ("gpt-4o", [LOOK], given)
            requests.append(wire.openai_chat.accept_all(data["messages"]))
            history += called(number)
        check_requests(memory, "ann/s", requests, [LOOK])
        log = [entry.message for entry in memory.session("ann/s").history()]
        kept = wire.openai_chat.request(
            [message for message in log if message.role != "system"], repair=False
        )
        assert kept.kwargs["messages"] == history[1:-3]
        assert (
            cost(memory.session("ann/s"), wire.openai_chat.accept_all(history), ()) > SMALL.tokens
        )


def test_while_everything_fits_the_request_stays_as_it_is() -> None:
    history = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "Look."}], "name": "ann"},
        *called(1),
        {"role": "system", "content": "The tide is high."},
        {"role": "assistant", "content": "Seen.", "reasoning_content": "hm"},
        {"role": "user", "content": "And again?"},
    ]
    with Memory("sqlite://") as memory:
        assert passed(TurnfoldHook(memory), history)["messages"] == history


def test_a_strict_server_accepts_what_litellm_sends() -> None:
    import litellm

    with StrictServer([Say("done")]) as server, Memory("sqlite://", budget=SMALL) as memory:
        history: list[Any] = [{"role": "user", "content": "Look."}]
        for number in range(10):
            history += called(number)
        data = passed(TurnfoldHook(memory), history, tools=[LOOK])
        ask: Any = litellm.acompletion
        data |= {"model": "openai/gpt-4o", "api_base": f"{server.url}/v1", "api_key": "k"}
        answer = asyncio.run(ask(**data))
        assert answer.choices[0].message.content == "done"
        assert server.rejected == []
        [seen] = server.seen
        assert list(faults(wire.openai_chat.accept_all(seen.body["messages"]))) == []


def test_users_and_sessions_do_not_see_each_other_and_a_new_start_is_one() -> None:
    first = [
        {"role": "user", "content": "I am Ann."},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "Hello"},
    ]
    again = [{"role": "user", "content": "Hello"}]
    with Memory("sqlite://") as memory:
        hook = TurnfoldHook(memory)
        passed(hook, first, litellm_session_id="s")
        for key, session in (
            (ANN, {"litellm_session_id": "s"}),
            (ANN, {"metadata": {"session_id": "other"}}),
            (SimpleNamespace(user_id="bob"), {"litellm_session_id": "s"}),
            (SimpleNamespace(user_id=None, token="t"), {"litellm_session_id": "s"}),  # noqa: S106
            (None, {}),
        ):
            assert texts(passed(hook, again, key, **session)) == ["Hello"]
        assert texts(passed(hook, first, litellm_session_id="s")) == ["I am Ann.", "hi", "Hello"]
        places = {one.conversation for one in memory.conversations()}
        assert {"ann/s", "ann/other", "bob/s", "t/s"} <= places
        assert any(place.startswith("anonymous/begins:") for place in places)


def test_a_conversation_without_an_id_is_known_by_its_beginning() -> None:
    with Memory("sqlite://") as memory:
        hook = TurnfoldHook(memory)
        history = [{"role": "user", "content": "Hello 你好"}]
        passed(hook, history)
        passed(hook, [*history, {"role": "assistant", "content": "hi"}, *history])
        [place] = [one.conversation for one in memory.conversations()]
        assert len(memory.session(place).history()) == 3


def test_requests_of_other_interfaces_stay_as_they_are() -> None:
    with Memory("sqlite://") as memory:
        hook = TurnfoldHook(memory)
        others: list[tuple[str, Any]] = [
            ("aembedding", {"input": "x"}),
            ("acompletion", {"messages": []}),
        ]
        for kind, data in others:
            assert asyncio.run(hook.async_pre_call_hook(ANN, None, data, kind)) is None
        assert list(memory.conversations()) == []


def test_a_memory_that_redacts_is_refused() -> None:
    with Memory("sqlite://", redact=find_secrets) as memory:
        hook = TurnfoldHook(memory)
        with pytest.raises(InvalidOption, match="TurnfoldHook cannot use"):
            passed(hook, [{"role": "user", "content": "Hello"}])


def test_without_litellm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("turnfold.adapters.litellm")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(MissingExtra, match=r"turnfold\[litellm\]"):
        __import__("turnfold.adapters.litellm")


def test_tokens_are_counted_as_the_model_of_the_request_counts_them() -> None:
    with Memory("sqlite://") as memory:
        passed(TurnfoldHook(memory), [{"role": "user", "content": "Hello"}])
        [conversation] = [info.conversation for info in memory.conversations()]
        [call] = memory.session(conversation).calls()
        assert call.counter == counter_for("gpt-4o").name
