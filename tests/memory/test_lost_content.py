"""What is given to a session is sent to the model, or the program is told that it is not."""

from __future__ import annotations

import logging
import re

import pytest

from turnfold import Memory, wire
from turnfold.errors import InvalidRecord
from turnfold.records import ToolCall
from turnfold.wire import lint


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "contents": "Where is the key?"},
        {"role": "user", "text": "钥匙在哪里？"},
        {"role": "system", "prompt": "Be brief."},
        {"role": "tool", "tool_call_id": "c1", "output": "21"},
        {"role": "assistant", "message": "On the shelf."},
    ],
)
def test_content_under_another_key_is_refused(message: dict[str, object]) -> None:
    with Memory() as memory:
        session = memory.session("a")
        for given in (message, [{"role": "user", "content": "hi"}, message]):
            with pytest.raises(InvalidRecord, match=r'Write the text under "content"'):
                session.add(given)
        assert session.history() == []


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user"},
        {"role": "user", "content": "", "id": "m1"},
        {"role": "assistant", "content": None, "refusal": "I will not."},
        {"role": "assistant", "audio": {"id": "audio_1"}},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "user", "parts": [{"text": "hi"}]},
    ],
)
def test_fields_of_providers_are_kept(message: dict[str, object]) -> None:
    with Memory() as memory:
        session = memory.session("a")
        session.add(message)
        assert len(session.history()) == 1


@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_an_empty_user_message_is_stored_and_sent_as_the_provider_allows(provider: str) -> None:
    with Memory() as memory:
        session = memory.session("a")
        session.user("")
        assert session.history()[0].message.text == ""
        request = getattr(wire, provider).request(session.context())
        assert lint(request.kwargs, provider=provider) == ()


def test_a_result_without_a_call_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with Memory() as memory, caplog.at_level(logging.WARNING, "turnfold"):
        session = memory.session("会话")
        session.user("hi")
        session.assistant(tool_calls=[ToolCall("c1", "clock", "{}")])
        session.tool("12:00", tool_call_id="c1")
        session.context()
        assert caplog.messages == []
        session.tool("13:00", tool_call_id="nope")
        context = session.context()
        session.context()
    [warning] = caplog.messages
    assert re.match(
        r"entry 4 of conversation [0-9a-f]{16} is a tool result without a call", warning
    )
    assert "tool_call_id must be" in warning
    assert "13:00" not in str(context.messages)
