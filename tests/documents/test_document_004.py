"""Document 004: an `AgentMemory` in an agent, its prompts put together by the document's own lines."""

from __future__ import annotations

import json
import logging

import pytest

from tests.agent.scripts import calling
from turnfold import AgentMemory, Memory
from turnfold.agent import Agent
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule
from turnfold.memories import AgentMemoryConfig
from turnfold.testing import ScriptedModel

TOC = {"title": "安规 2024", "children": [{"title": "第一章 总则"}, {"title": "第二章 绝缘"}]}
HITS = [
    {"content": "绝缘电阻不小于 10 MΩ。", "reg_id": "angui_2024", "page_num": 85, "score": 0.9},
    {"content": "无关的附录", "reg_id": "angui_2024", "page_num": 300, "score": 0.2},
]


class Regulations:
    """The document's tools."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def get_toc(self, reg_id: str) -> dict[str, object]:
        """Return the table of contents."""
        self.called.append(f"get_toc {reg_id}")
        return TOC

    def smart_search(self, query: str) -> dict[str, object]:
        """Search the regulations."""
        self.called.append(f"smart_search {query}")
        return {"results": HITS}

    def read_page_range(self, reg_id: str, start_page: int, end_page: int) -> str:
        """Read pages."""
        self.called.append(f"read_page_range {start_page}")
        return f"{reg_id}: 第 {start_page} 至 {end_page} 页的内容"


SCRIPT = [
    calling(("c1", "get_toc", '{"reg_id": "angui_2024"}')),
    calling(("c2", "smart_search", '{"query": "绝缘电阻"}')),
    calling(
        ("c3", "read_page_range", '{"reg_id": "angui_2024", "start_page": 85, "end_page": 86}')
    ),
    "不小于 10 MΩ",
    calling(("c4", "get_toc", '{"reg_id": "angui_2024"}')),
    "第二章",
]


def run(memory: AgentMemory | tuple[FindingRule, ...], tools: Regulations) -> ScriptedModel:
    model = ScriptedModel(SCRIPT)
    with Memory() as store:
        given = [tools.get_toc, tools.smart_search, tools.read_page_range]
        agent = Agent(store, model, tools=given, findings=memory)
        agent.run("s", "绝缘电阻是多少？")
        agent.run("s", "在哪一章？")
    return model


def sent(model: ScriptedModel, number: int) -> str:
    return "\n".join(message.text for message in model.asked[number].messages)


def test_an_agent_keeps_the_memory_up_to_date(caplog: pytest.LogCaptureFixture) -> None:
    """数据流: get_toc → toc_cache, smart_search → 高分结果, read_page_range → 页面摘要"""
    memory = AgentMemory()
    with caplog.at_level(logging.DEBUG, logger="turnfold.memories.agent_memory"):
        model = run(memory, Regulations())
    assert memory.get_cached_toc("angui_2024") == TOC
    assert memory.known_chapters == ["第一章 总则", "第二章 绝缘"]
    assert [(each.source, each.chunk_type) for each in memory.relevant_chunks] == [
        ("angui_2024 P85", "search_result"),
        ("angui_2024 P85-86", "page_content"),
    ]
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:3] == [
        "[Memory] 缓存目录: angui_2024",
        "[Memory] 添加搜索结果: 2 条",
        "[Memory] 添加页面内容: angui_2024 P85-86",
    ]
    shown = sent(model, 4)
    assert "第二章 绝缘" in shown, "the next question is shown the table of contents"
    assert "10 MΩ" in shown


def test_the_threshold_is_per_hit_and_not_per_call() -> None:
    """memory_min_relevance: 低于此值的内容不记忆"""
    memory = AgentMemory()
    found = {rule.tool: rule for rule in memory.finding_rules()}["smart_search"]
    kept = found.kept_of({"query": "x"}, json.dumps({"results": HITS}))
    assert kept is not None
    assert json.loads(kept) == HITS[:1]
    assert found.kept_of({}, json.dumps(HITS[1:])) is None
    with Memory() as store:
        session = store.session("s")
        session.findings.use(memory.finding_rules())
        call = {
            "id": "c",
            "type": "function",
            "function": {"name": "smart_search", "arguments": "{}"},
        }
        finding = session.findings.note(call, json.dumps({"results": HITS}))
        assert finding is not None
        assert "无关的附录" not in finding.content
        assert session.findings.note(call, json.dumps({"results": HITS[1:]})) is None


@pytest.mark.parametrize("serve", [False, True])
def test_a_repeated_call_for_the_contents(*, serve: bool) -> None:
    """目录查询: 首次调用后缓存，后续跳过"""
    tools = Regulations()
    run(AgentMemory().finding_rules(serve=serve), tools)
    assert tools.called.count("get_toc angui_2024") == (1 if serve else 2)


@pytest.mark.parametrize("result", ["not json", "[1]", '{"results": [{"score": 2}]}', '{"a": 1}'])
def test_a_result_that_cannot_be_read_stops_no_agent(result: str) -> None:
    memory = AgentMemory()
    rules = {rule.tool: rule for rule in memory.finding_rules()}
    assert rules["get_toc"].kept_of({}, result) == result
    assert rules["smart_search"].kept_of({}, result) == result
    assert rules["read_page_range"].kept_of({}, result) == result
    assert memory.toc_cache == {}


def test_update_memory_by_hand() -> None:
    """_update_memory(tool_name, result_content)"""
    memory = AgentMemory()
    memory.update("get_toc", json.dumps({**TOC, "reg_id": "angui_2024"}))
    memory.update("get_toc", json.dumps(TOC), {"reg_id": "wengui"})
    memory.update("smart_search", json.dumps({"results": HITS}))
    memory.update("read_page_range", "第 85 页", {"reg_id": "angui_2024", "start_page": 85})
    memory.update("unknown", "x")
    assert list(memory.toc_cache) == ["angui_2024", "wengui"]
    assert [chunk.content for chunk in memory.relevant_chunks] == [HITS[0]["content"], "第 85 页"]


@pytest.mark.parametrize("name", ["get_toc", "mcp__rules__get_toc"])
@pytest.mark.parametrize("form", ["text", "value", "blocks", "mcp result"])
def test_a_result_in_any_form_under_the_name_an_sdk_gives_the_tool(name: str, form: str) -> None:
    """if hasattr(event, "type") and ... == "tool_result": self._update_memory(tool_name, content)"""
    text = json.dumps(TOC)
    blocks = [{"type": "text", "text": text}]
    forms = {"text": text, "value": TOC, "blocks": blocks, "mcp result": {"content": blocks}}
    memory = AgentMemory()
    memory.update(name, forms[form], {"reg_id": "angui_2024"})
    assert memory.get_cached_toc("angui_2024") == TOC


def test_a_rule_finds_the_tool_of_an_mcp_server_and_keeps_servers_apart() -> None:
    rules = [FindingRule("get_toc", serve=True, invalidated_by=("upload",))]
    with Memory() as store:
        session = store.session("s")
        session.findings.use(rules)

        def call(tool: str) -> dict[str, object]:
            return {"id": "c", "name": tool, "arguments": "{}"}

        session.findings.note(call("mcp__one__get_toc"), "第一章")
        found = session.findings.serve(call("mcp__one__get_toc"))
        assert found is not None
        assert found.content == "第一章"
        for other in ("mcp__two__get_toc", "get_toc", "mcp__one__get", "mcp____get_toc"):
            assert session.findings.serve(call(other)) is None, other
        session.user("next")
        session.findings.ran("mcp__one__upload")
        assert session.findings.serve(call("mcp__one__get_toc")) is None


def test_a_memory_that_is_turned_off_keeps_nothing_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """memory_enabled: 是否启用 Agent 记忆系统"""
    memory = AgentMemory.from_config(AgentMemoryConfig(memory_enabled=False))
    call = {"id": "c", "name": "get_toc", "arguments": {"reg_id": "angui_2024"}}
    with Memory() as store, caplog.at_level(logging.DEBUG, logger="turnfold.memories.agent_memory"):
        session = store.session("s")
        session.findings.use(memory.finding_rules())
        assert session.findings.note(call, json.dumps(TOC)) is None
        assert session.findings.note({**call, "name": "read_page_range"}, "第 85 页") is None
        assert session.findings.list() == ()
        memory.add_search_results(HITS)
        memory.add_page_content("x", "angui_2024 P1")
        assert not caplog.records
        memory.enabled = True
        assert session.findings.note(call, json.dumps(TOC)) is not None
    assert list(memory.toc_cache) == ["angui_2024"]
    assert memory.relevant_chunks == []


def test_hints_are_separated_by_a_blank_line() -> None:
    """_build_system_prompt()"""
    memory = AgentMemory()
    memory.cache_toc("angui_2024", TOC)
    memory.add_search_results(HITS)
    base_prompt = "你是电力规程助手。"
    toc_hint = memory.get_toc_cache_hint()
    if toc_hint:
        base_prompt += toc_hint
    memory_context = memory.get_memory_context()
    if memory_context:
        base_prompt += f"\n\n{memory_context}"
    assert base_prompt == (
        "你是电力规程助手。\n\n# 已缓存目录\n以下规程目录已获取: angui_2024\n无需再次调用 get_toc()\n\n"
        "# 已获取的相关信息\n## [1] angui_2024 P85\n绝缘电阻不小于 10 MΩ。"
    )


def test_the_values_of_the_constructor_win_over_those_of_the_class() -> None:
    memory = AgentMemory(
        max_chunks=3, min_relevance=0.7, language="en", enabled=False, context_tokens=50
    )
    assert (memory.max_chunks, memory.min_relevance) == (3, 0.7)
    assert (memory.language, memory.enabled, memory.context_tokens) == ("en", False, 50)
    memory.cache_toc("r", TOC)
    assert memory.toc_cache == {}
    with pytest.raises(InvalidOption, match="max_chunks=0"):
        AgentMemory(max_chunks=0)
