"""What an agent's tools found is in front of it at the next question, and is not fetched again."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.adapters.pydantic_agents import prompt_records, user_words, with_memory
from turnfold import AgentMemory, AsyncMemory, Budget
from turnfold.adapters.pydantic_ai import turnfold_capability
from turnfold.findings import FindingRule
from turnfold.memory import AsyncSession

TOC = "第一章 港口\n第二章 潮汐\nChapter 3 Pilots"
ROOM = Budget(max_tokens=12_000)


class Librarian:
    """An agent that asks for the table of contents, unless it sees it; a stubborn one asks whenever it is asked."""

    def __init__(self, session: AsyncSession, rules: list[FindingRule], *, stubborn: bool) -> None:
        self.fetched = 0
        self.breaks = False
        self.prompts: list[list[ModelMessage]] = []
        self._stubborn = stubborn
        self.agent = Agent(
            FunctionModel(self._answer),
            capabilities=[turnfold_capability(session, findings=rules)],
        )

        def get_toc(reg_id: str) -> str:
            """The table of contents of a book."""
            self.fetched += 1
            return f"{reg_id}: {TOC}"

        def edit(reg_id: str) -> str:
            """Change a book; it may fail when half of it is done."""
            if self.breaks:
                raise OSError("disk full")
            return f"{reg_id} changed"

        for function in (get_toc, edit):
            self.agent.tool_plain(function)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        self.prompts.append(messages)
        newest = messages[-1].parts[-1]
        if isinstance(newest, ToolReturnPart):
            return ModelResponse([TextPart("There are 3 chapters.")])
        if "Change" in str(getattr(newest, "content", "")):
            return ModelResponse([ToolCallPart("edit", {"reg_id": "angui_2024"})])
        seen = any("第二章 潮汐" in record.text for record in prompt_records(messages))
        if seen and not self._stubborn:
            return ModelResponse([TextPart("There are 3 chapters, as I know.")])
        return ModelResponse([ToolCallPart("get_toc", {"reg_id": "angui_2024"})])


RULES = [FindingRule("get_toc", kind="toc", serve=True, invalidated_by=("edit",))]


def test_the_second_query_skips_the_table_of_contents_even_when_it_was_folded() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        asked = Librarian(session, RULES, stubborn=False)
        await asked.agent.run("How many chapters?")
        await session.clear()
        await asked.agent.run("How many were there?")
        assert asked.fetched == 1
        assert "第二章 潮汐" in "".join(user_words(asked.prompts[-1]))

    with_memory(work, budget=ROOM)


def test_an_agent_memory_is_kept_up_to_date() -> None:
    """Document 004: PydanticAI Agent（已集成）"""
    known = AgentMemory()
    calls = [
        ToolCallPart("get_toc", {"reg_id": "angui_2024"}),
        ToolCallPart("smart_search", {"query": "绝缘"}),
        ToolCallPart("read_page_range", {"reg_id": "angui_2024", "start_page": 85}),
    ]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        done = sum(isinstance(part, ToolReturnPart) for each in messages for part in each.parts)
        return ModelResponse([calls[done] if done < len(calls) else TextPart("10 MΩ")])

    async def work(memory: AsyncMemory) -> None:
        capability = turnfold_capability(memory.session("s"), findings=known)
        agent = Agent(FunctionModel(answer), capabilities=[capability])

        def get_toc(reg_id: str) -> dict[str, object]:
            return {"title": reg_id, "children": [{"title": "第一章 总则"}]}

        def smart_search(query: str) -> list[dict[str, object]]:
            hit = {"content": f"{query}电阻不小于 10 MΩ", "source": "angui_2024 P85"}
            return [{**hit, "score": 0.9}, {**hit, "source": "angui_2024 P9", "score": 0.1}]

        def read_page_range(reg_id: str, start_page: int) -> str:
            return f"{reg_id} 第 {start_page} 页"

        agent.tool_plain(get_toc)
        agent.tool_plain(smart_search)
        agent.tool_plain(read_page_range)
        assert (await agent.run("绝缘电阻是多少？")).output == "10 MΩ"

    with_memory(work, budget=ROOM)
    assert known.known_chapters == ["第一章 总则"]
    assert [(each.content, each.source) for each in known.relevant_chunks] == [
        ("绝缘电阻不小于 10 MΩ", "angui_2024 P85"),
        ("angui_2024 第 85 页", "angui_2024 P85"),
    ]


def test_what_the_window_still_shows_is_not_shown_a_second_time() -> None:
    async def work(memory: AsyncMemory) -> None:
        asked = Librarian(memory.session("s"), RULES, stubborn=False)
        await asked.agent.run("How many chapters?")
        await asked.agent.run("How many were there?")
        words = "\n".join(record.text for record in prompt_records(asked.prompts[-1]))
        assert words.count("第二章 潮汐") == 1

    with_memory(work, budget=ROOM)


def test_sabotage_without_rules_the_table_is_fetched_again() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        asked = Librarian(session, [], stubborn=False)
        await asked.agent.run("How many chapters?")
        await session.clear()
        await asked.agent.run("How many were there?")
        assert asked.fetched == 2

    with_memory(work, budget=ROOM)


def test_a_call_made_again_is_answered_from_memory_and_says_so_until_it_is_stale() -> None:
    async def work(memory: AsyncMemory) -> None:
        session = memory.session("s")
        asked = Librarian(session, RULES, stubborn=True)
        first = await asked.agent.run("How many chapters?")
        again = await asked.agent.run("How many?")
        assert asked.fetched == 1
        [before] = [
            part
            for one in first.all_messages()
            for part in one.parts
            if isinstance(part, ToolReturnPart)
        ]
        [after] = [
            part
            for one in again.all_messages()
            for part in one.parts
            if isinstance(part, ToolReturnPart)
        ]
        assert str(after.content).endswith(str(before.content))
        assert str(after.content) != str(before.content)
        await asked.agent.run("Change it.")
        await asked.agent.run("How many now?")
        assert asked.fetched == 2

    with_memory(work, budget=ROOM)


def test_a_change_that_fails_makes_what_was_found_stale_all_the_same() -> None:
    async def work(memory: AsyncMemory) -> None:
        asked = Librarian(memory.session("s"), RULES, stubborn=True)
        await asked.agent.run("How many chapters?")
        asked.breaks = True
        with pytest.raises(OSError, match="disk full"):
            await asked.agent.run("Change it.")
        await asked.agent.run("How many now?")
        assert asked.fetched == 2

    with_memory(work, budget=ROOM)


def test_another_conversation_knows_nothing_of_it() -> None:
    async def work(memory: AsyncMemory) -> None:
        for name in ("one", "two"):
            asked = Librarian(memory.session(name), RULES, stubborn=True)
            await asked.agent.run("How many chapters?")
            assert asked.fetched == 1

    with_memory(work, budget=ROOM)
