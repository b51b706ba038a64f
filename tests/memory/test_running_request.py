"""While a tool loop runs, its request is shown once: neither the summary nor recalled passages repeat it."""

from __future__ import annotations

import pytest

from turnfold import Budget, Memory, Session
from turnfold.window import Section

REQUESTS = {
    "en": "Rename the class Harbour to Port in billing, keep its tests green, and leave the folder vendor untouched.",
    "zh": "把 billing 里的 Harbour 类改名为 Port，保证它的测试通过，而且不要改动 vendor 文件夹。",
}
RESULT = "harbour_{0} is defined here, the billing module imports it and line {0} uses it again. "


def loop(session: Session, steps: range) -> None:
    for step in steps:
        call = {
            "id": f"c{step}",
            "function": {"name": "read", "arguments": f'{{"file":"{step}.py"}}'},
        }
        session.assistant(tool_calls=[call])
        session.tool(RESULT.format(step) * 8, tool_call_id=f"c{step}")
        session.context()


def texts(session: Session, section: Section) -> str:
    return "\n".join(message.text for message in session.context().section(section))


@pytest.mark.parametrize("language", REQUESTS)
def test_a_request_is_said_once_while_its_turn_runs(language: str) -> None:
    request = REQUESTS[language]
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
        session = memory.session("loop")
        session.user(request)
        loop(session, range(30))
        assert session.checkpoints()
        whole = "\n".join(message.text for message in session.context().messages)
        assert whole.count(request) == 1
        assert "Port" not in texts(session, Section.SUMMARY) + texts(session, Section.TAIL)


@pytest.mark.parametrize("language", REQUESTS)
def test_the_request_of_an_ended_turn_is_in_the_summary(language: str) -> None:
    with Memory("sqlite://", model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
        session = memory.session("loop")
        session.user(REQUESTS[language])
        loop(session, range(30))
        session.assistant("Done.")
        session.user("Now read the rest.")
        loop(session, range(30, 60))
        assert "Harbour" in texts(session, Section.SUMMARY)
        assert "Port" in texts(session, Section.SUMMARY)
