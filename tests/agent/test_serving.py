"""An agent that has fetched something does not fetch it again, and what it learned is in front of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bench.research import RULES, Library, research
from tests.agent.scripts import calling
from tests.models.strict_server import Call, Say, StrictServer
from turnfold import Budget, Memory, OpenAIChat
from turnfold import findings as pure
from turnfold.agent import Agent, Event, ToolDone, as_tool
from turnfold.agent.loop import ToolCache
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule
from turnfold.memory import RecallMode
from turnfold.testing import ScriptedModel

WIDE = Budget(max_tokens=8_000)
TOC = json.dumps(
    {"title": "安规 2024", "children": [{"title": "第一章 绝缘", "page": 85}]}, ensure_ascii=False
)
SERVED = FindingRule("get_toc", kind="toc", serve=True)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now


class Shop:
    """Tools that count how often they really ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def get_toc(self, reg_id: str = "angui") -> str:
        """The table of contents."""
        self.ran.append(f"get_toc {reg_id}")
        return TOC

    def price(self, item: str) -> str:
        """The price of an item."""
        self.ran.append(f"price {item}")
        return f"{item}: {len(self.ran)} 元"

    def set_price(self, item: str) -> str:
        """Change a price."""
        self.ran.append(f"set_price {item}")
        return "done"

    @property
    def tools(self) -> list[Any]:
        return [self.get_toc, self.price, self.set_price]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> Iterator[Memory]:
    with Memory("sqlite://", budget=WIDE, clock=clock) as opened:
        yield opened


def run(
    memory: Memory, shop: Shop, script: list[object], *, conversation: str = "one", **options: Any
) -> tuple[list[Event], ScriptedModel]:
    events: list[Event] = []
    model = ScriptedModel([*script, "done"])
    agent = Agent(memory, model, tools=shop.tools, on_event=events.append, **options)
    agent.run(conversation, "问题")
    return events, model


def step(name: str, number: int = 1, **arguments: object) -> object:
    return calling((f"c{number}", name, json.dumps(arguments)))


def results(events: list[Event]) -> list[tuple[str, bool]]:
    return [(each.result, each.served) for each in events if isinstance(each, ToolDone)]


# -------------------------------------------------------------------------------------- answered from memory


def test_an_identical_call_is_answered_from_memory_and_says_so(memory: Memory) -> None:
    shop = Shop()
    script = [
        step("get_toc", 1, reg_id="angui"),
        calling(("c2", "get_toc", '{ "reg_id":"\\u0061ngui" }')),
    ]
    events, _ = run(memory, shop, script, findings=[SERVED])
    assert shop.ran == ["get_toc angui"]
    [first, second] = results(events)
    assert first == (TOC, False)
    line = "[来自记忆：相同的调用已于第 1 轮执行，时间 2023-11-14 22:13 UTC]"
    assert second == (f"{line}\n{TOC}", True)
    log = [entry.message for entry in memory.session("one").history()]
    assert [message.text for message in log if message.role == "tool"] == [TOC, f"{line}\n{TOC}"]


def test_other_arguments_another_tool_and_no_rule_are_called(memory: Memory) -> None:
    shop = Shop()
    script = [
        step("get_toc", 1),
        step("get_toc", 2, reg_id="b"),
        step("price", 3, item="a"),
        step("price", 4, item="a"),
    ]
    run(memory, shop, script, findings=[SERVED, FindingRule("price")])
    assert len(shop.ran) == 4
    run(memory, shop, [step("get_toc", 5)])  # an agent without rules serves nothing
    assert len(shop.ran) == 5


def test_a_tool_brings_its_own_rule(memory: Memory) -> None:
    shop = Shop()
    tool = as_tool(shop.get_toc, remember=SERVED)
    model = ScriptedModel([step("get_toc", 1), step("get_toc", 2), "done"])
    Agent(memory, model, tools=[tool]).run("one", "问题")
    assert len(shop.ran) == 1
    assert as_tool(tool) is tool
    for wrong in ([SERVED], [FindingRule("get_toc")]):
        with pytest.raises(InvalidOption, match="two finding rules"):
            Agent(memory, model, tools=[tool], findings=wrong)
    with pytest.raises(InvalidOption, match="has a finding rule for"):
        Agent(memory, model, tools=[as_tool(shop.price, remember=SERVED)])


def test_never_for_a_tool_with_side_effects(memory: Memory) -> None:
    with pytest.raises(InvalidOption, match="side effects"):
        FindingRule("set_price", serve=True, side_effects=True)
    shop = Shop()
    script = [step("set_price", 1, item="a"), step("set_price", 2, item="a")]
    run(memory, shop, script, findings=[FindingRule("set_price", side_effects=True)])
    assert shop.ran == ["set_price a"] * 2


def test_never_when_it_has_expired(memory: Memory, clock: Clock) -> None:
    shop = Shop()
    rule = FindingRule("price", serve=True, ttl=60)
    run(memory, shop, [step("price", 1, item="a"), step("price", 2, item="a")], findings=[rule])
    assert len(shop.ran) == 1
    clock.now += 60_000_000
    run(memory, shop, [step("price", 3, item="a")], findings=[rule])
    assert len(shop.ran) == 2


def test_never_when_another_tool_has_changed_it(memory: Memory) -> None:
    shop = Shop()
    rule = FindingRule("price", serve=True, invalidated_by=("set_price",))
    together = calling(("c5", "price", '{"item":"a"}'), ("c6", "set_price", '{"item":"a"}'))
    script = [
        step("price", 1, item="a"),
        step("price", 2, item="a"),  # from memory
        step("set_price", 3, item="a"),
        step("price", 4, item="a"),
        together,  # from memory, or from the tool: nobody can tell which came first
        step("price", 7, item="a"),
    ]
    events, _ = run(memory, shop, script, findings=[rule], parallel=1)
    assert [served for _, served in results(events)] == [
        False,
        True,
        False,
        False,
        True,
        False,
        False,
    ]


def test_a_change_that_fails_may_have_changed_something(memory: Memory) -> None:
    shop = Shop()

    def set_price(item: str) -> None:
        """Fails half way."""
        raise RuntimeError(item)

    rule = FindingRule("price", serve=True, invalidated_by=("set_price",))
    script = [
        step("price", 1, item="a"),
        step("set_price", 2, item="a"),
        step("price", 3, item="a"),
        "done",
    ]
    Agent(memory, ScriptedModel(script), tools=[shop.price, set_price], findings=[rule]).run(
        "one", "?"
    )
    assert shop.ran == ["price a"] * 2


def test_never_across_conversations_or_tenants(tmp_path: Any) -> None:
    url, shop = f"sqlite:///{tmp_path / 'chat.db'}", Shop()
    for scope, conversation in (("a", "one"), ("b", "one"), ("a", "two")):
        with Memory(url, scope=scope) as memory:
            run(memory, shop, [step("get_toc")], conversation=conversation, findings=[SERVED])
    assert len(shop.ran) == 3
    with Memory(url, scope="a") as memory:
        run(memory, shop, [step("get_toc")], conversation="one", findings=[SERVED])
    assert len(shop.ran) == 3


def test_an_error_is_not_remembered(memory: Memory) -> None:
    tries: list[int] = []

    def get_toc() -> str:
        """Fails once."""
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("busy")
        return TOC

    script = [step("get_toc", 1), step("get_toc", 2), step("get_toc", 3), "done"]
    Agent(memory, ScriptedModel(script), tools=[get_toc], findings=[SERVED]).run("one", "?")
    assert len(tries) == 2


@pytest.mark.parametrize("arguments", ['{"reg_id": "a", "reg_id": "a"}', "[1]", "not json"])
def test_arguments_that_mean_nothing_are_left_to_the_tool(memory: Memory, arguments: str) -> None:
    shop = Shop()
    script: list[object] = [calling((f"c{at}", "get_toc", arguments)) for at in range(2)]
    events, _ = run(memory, shop, script, findings=[SERVED])
    assert not any(served for _, served in results(events))
    assert memory.session("one").findings.list() == ()


def test_parallel_calls_are_all_noted(memory: Memory) -> None:
    shop = Shop()
    batch = calling(*((f"c{at}", "price", json.dumps({"item": f"i{at}"})) for at in range(8)))
    run(memory, shop, [batch], findings=[FindingRule("price", serve=True)])
    assert len(memory.session("one").findings.list()) == 8


@pytest.mark.parametrize("sabotage", ["serve anything", "ignore time and changes", "no arguments"])
def test_these_tests_see_a_fault(
    sabotage: str, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    from turnfold.findings import store as findings
    from turnfold.findings import store as known_findings

    if sabotage == "ignore time and changes":
        monkeypatch.setattr(known_findings, "is_valid", lambda *_, **__: True)
    elif sabotage == "no arguments":
        monkeypatch.setattr(findings, "canonical_arguments", lambda _: "{}")
    else:
        monkeypatch.setattr(
            findings, "FindingRule", lambda name: pure.FindingRule(name, serve=True)
        )
        original = findings.AsyncFindings.get

        async def serve(self: Any, call: Any) -> Any:
            return await original(self, call.name, call.arguments)

        monkeypatch.setattr(findings.AsyncFindings, "serve", serve)
    broken = {
        "serve anything": test_never_for_a_tool_with_side_effects,
        "ignore time and changes": test_never_when_another_tool_has_changed_it,
        "no arguments": test_other_arguments_another_tool_and_no_rule_are_called,
    }[sabotage]
    with Memory("sqlite://", budget=WIDE, clock=clock) as memory, pytest.raises(AssertionError):
        broken(memory)


# ------------------------------------------------------------------------- the document's 验证方法


def test_the_second_question_skips_get_toc_and_the_memory_is_in_what_the_model_received() -> None:
    """目录缓存验证 and 内容记忆验证, against a strict provider on a real socket."""
    bodies: list[dict[str, Any]] = []

    def model(body: dict[str, Any]) -> Any:
        bodies.append(body)
        seen = json.dumps(body["messages"], ensure_ascii=False)
        if "绝缘电阻不小于 10 MΩ" in seen:
            return Say("不小于 10 MΩ。")
        if "第一章 绝缘" in seen:
            return Say(calls=(Call(f"c{len(bodies)}", "read_page_range", {"page": 85}),))
        return Say(calls=(Call(f"c{len(bodies)}", "get_toc", {"reg_id": "angui_2024"}),))

    ran: list[str] = []

    def get_toc(reg_id: str) -> str:
        """The table of contents."""
        ran.append(f"get_toc {reg_id}")
        return TOC

    def read_page_range(page: int) -> str:
        """A page."""
        ran.append(f"read_page_range {page}")
        return "绝缘电阻不小于 10 MΩ。"

    rules = [FindingRule("get_toc", kind="toc"), FindingRule("read_page_range", relevance=0.8)]
    with StrictServer(model) as server, Memory("sqlite://", budget=WIDE) as memory:
        client = OpenAIChat("gpt-4o", base_url=f"{server.url}/v1", api_key="k")
        agent = Agent(
            memory, client, tools=[get_toc, read_page_range], system="答。", findings=rules
        )
        assert agent.run("one", "绝缘电阻是多少？").text == "不小于 10 MΩ。"
        assert ran == ["get_toc angui_2024", "read_page_range 85"]
        memory.session(
            "one"
        ).clear()  # the document's reset(): the history is gone, the memory stays
        assert agent.run("one", "再说一次？").text == "不小于 10 MΩ。"
        assert server.rejected == []
    assert ran == ["get_toc angui_2024", "read_page_range 85"]
    system, *_, newest = bodies[-1]["messages"]
    assert system == {"role": "system", "content": "答。"}
    assert newest["content"] == "再说一次？"
    tail = bodies[-1]["messages"][-2]["content"]
    assert "# 已获取的相关信息\n" in tail
    assert "# 已缓存目录\n" in tail
    assert "第一章 绝缘 (page 85)" in tail


@pytest.mark.parametrize(
    ("afresh", "tokens", "hops", "recall", "least"),
    [
        (True, 12_000, 3, RecallMode.AUTOMATIC, 0.40),
        (False, 2_500, 2, RecallMode.OFF, 0.25),
        # Recalled passages bring results back too: half of the calls are not made even without findings.
        (False, 2_500, 2, RecallMode.AUTOMATIC, 0.10),
    ],
    ids=["afresh", "one long talk, folded, without recall", "one long talk, folded"],
)
def test_a_researcher_makes_fewer_calls_and_answers_the_same(
    *, afresh: bool, tokens: int, hops: int, recall: RecallMode, least: float
) -> None:
    questions = Library().questions(16, hops=hops)
    options: dict[str, Any] = {
        "afresh": afresh,
        "budget": Budget(max_tokens=tokens),
        "recall": recall,
    }
    without = research(questions, **options)
    remembering = research(questions, rules=RULES, **options)
    assert without.right
    assert remembering.answers == without.answers
    assert len(remembering.calls) <= (1 - least) * len(without.calls)


def test_the_researcher_saves_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings that are noted and not shown change nothing: what is saved is saved by what the model sees."""
    from turnfold.findings import store as known_findings

    monkeypatch.setattr(known_findings, "findings_text", lambda *_, **__: "")
    questions = Library().questions(8)
    assert sorted(research(questions, rules=RULES).calls) == sorted(research(questions).calls)


def test_an_agent_without_rules_asks_nothing_of_the_findings(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnfold.findings import AsyncFindings

    for name in ("serve", "note", "ran", "use"):
        monkeypatch.delattr(AsyncFindings, name)
    run(memory, Shop(), [step("get_toc")])
    assert ToolCache((), ())
