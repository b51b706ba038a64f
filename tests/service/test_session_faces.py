"""One set of expectations for every kind of session: embedded or remote, blocking or awaiting, from TypeScript too."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.service.node_client import node_memory
from tests.service.running import running
from turnfold import AsyncMemory, AsyncRemoteMemory, Budget, Checkpoint, Memory, RemoteMemory
from turnfold.errors import InvalidOption, NotFound, SummaryFailed
from turnfold.rules import StandingRule
from turnfold.service import ServiceOptions
from turnfold.wire import anthropic, gemini, openai_chat, openai_responses

BUDGET = Budget(max_tokens=4_000)
FACES = ("blocking", "awaiting", "remote", "awaiting remote", "remote by TypeScript")


class Face:
    """A session whose methods are called the same way, whether they block or are awaited."""

    def __init__(self, session: Any, runner: asyncio.Runner) -> None:
        self.session = session
        self._runner = runner

    def call(self, name: str, *given: object, **options: object) -> Any:
        """Call a method of the session and return its result."""
        return finished(self._runner, getattr(self.session, name)(*given, **options))


def finished(runner: asyncio.Runner, answer: Any) -> Any:
    return runner.run(answer) if inspect.iscoroutine(answer) else answer


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as started:
        yield started


@pytest.fixture(scope="module", params=FACES)
def memory(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    runner: asyncio.Runner,
) -> Iterator[Any]:
    store = f"sqlite:///{tmp_path_factory.mktemp('faces') / 'talk.db'}"
    with ExitStack() as stack:
        if "remote" in request.param:
            options = ServiceOptions(store=store, budget=BUDGET, fold="manual")
            url = stack.enter_context(running(options)).url
            kinds = {"awaiting remote": AsyncRemoteMemory, "remote by TypeScript": node_memory}
            memory = kinds.get(request.param, RemoteMemory)(url)
        else:
            kind = AsyncMemory if request.param == "awaiting" else Memory
            memory = kind(store, budget=BUDGET, fold="manual")
        stack.callback(lambda: finished(runner, memory.close()))
        yield memory


@pytest.fixture
def face(memory: Any, runner: asyncio.Runner, request: pytest.FixtureRequest) -> Face:
    return Face(memory.session(request.node.name), runner)


def talk(face: Face, turns: int) -> None:
    for number in range(1, turns + 1):
        face.call("user", f"question {number}, 订单 BJ-{number}", client_id=f"q{number}")
        face.call("assistant", f"answer {number}", client_id=f"a{number}")


def test_fold_folds_all_but_the_newest_turns(face: Face) -> None:
    talk(face, 3)
    made = face.call("fold", keep_turns=1)
    assert isinstance(made, Checkpoint)
    assert (made.upto, made.model) == (4, "")
    assert "BJ-1" in made.text
    assert face.call("checkpoints") == [made]
    assert face.call("status").covered == 4
    assert face.call("fold", keep_turns=1) is None


def test_fold_takes_the_summary_of_the_caller(face: Face) -> None:
    talk(face, 2)
    made = face.call("fold", summary="两个订单：BJ-1, BJ-2。", keep_turns=0)
    assert (made.upto, made.text, made.model) == (4, "两个订单：BJ-1, BJ-2。", "caller")
    assert "两个订单" in face.call("context").messages[0].text


def test_fold_refuses_what_cannot_be(face: Face) -> None:
    talk(face, 2)
    with pytest.raises(InvalidOption, match="keep_turns=-1 must not be negative"):
        face.call("fold", keep_turns=-1)
    with pytest.raises(SummaryFailed):
        face.call("fold", summary="  ", keep_turns=0)
    assert face.call("checkpoints") == []


def test_a_checkpoint_is_dropped_and_kept_for_audit(face: Face) -> None:
    talk(face, 3)
    first = face.call("fold", summary="第一 first", keep_turns=2)
    second = face.call("fold", summary="zxqbad 坏摘要", keep_turns=1)
    assert "zxqbad" in face.call("context").messages[0].text
    for name in ("", "none"):
        with pytest.raises(NotFound):
            face.call("drop_checkpoint", name)
    assert face.call("drop_checkpoint", second.id) == [second]
    assert face.call("checkpoints") == [first]
    assert face.call("checkpoints", dropped=True) == [second]
    assert face.call("status").checkpoint == first.id
    shown = "".join(message.text for message in face.call("context").messages)
    assert ("zxqbad" in shown, "第一 first" in shown) == (False, True)


LAID_DOWN = {
    "en": ("Never push to the main branch directly.", "Answer in one sentence."),
    "zh": ("我对花生过敏。", "用一句话回答。"),
}


@pytest.mark.parametrize(("said", "added"), LAID_DOWN.values(), ids=LAID_DOWN.keys())
def test_rules_are_listed_added_and_dropped(face: Face, said: str, added: str) -> None:
    assert face.call("rules") == []
    face.call("user", said)
    face.call("assistant", "以后都要先问我。 Always ask me first.")
    [heard] = face.call("rules")
    assert isinstance(heard, StandingRule)
    assert (heard.text, heard.seq, heard.state) == (said, 1, "active")
    rule = face.call("add_rule", f"  {added} ", kind="preference")
    assert (rule.text, rule.kind, rule.seq) == (added, "preference", 0)
    assert face.call("rules") == [heard, rule]
    assert face.call("add_rule", added, kind="preference") == rule
    assert face.call("rules") == [heard, rule], "added again, it is kept once"
    dropped = face.call("drop_rule", heard.id)
    assert (dropped.id, dropped.text, dropped.state) == (heard.id, said, "dropped")
    assert face.call("rules") == [rule]
    face.call("user", "Go on. 继续。")
    assert any(added in message.text for message in face.call("context").messages)


def test_each_kind_of_rule_can_be_added(face: Face) -> None:
    kinds = ("rule", "prohibition", "decision", "preference", "task", "fact")
    for number, kind in enumerate(kinds):
        face.call("add_rule", f"Sentence {number}. 第 {number} 句。", kind=kind)
    assert [rule.kind for rule in face.call("rules")] == list(kinds)


@pytest.mark.parametrize("unknown", ["0123456789abcdef", "", "a/b 规则?#%2F"], ids=repr)
def test_an_unknown_rule_is_not_dropped(face: Face, unknown: str) -> None:
    face.call("add_rule", "用中文回答。")
    with pytest.raises(NotFound) as error:
        face.call("drop_rule", unknown)
    assert (
        str(error.value)
        == f"no active rule has the id {unknown!r}: session.rules() lists the active rules"
    )
    assert len(face.call("rules")) == 1


@pytest.mark.parametrize(
    "text", ["x" * 301, "长" * 301, " \n", ""], ids=["en", "zh", "space", "empty"]
)
def test_a_rule_that_is_too_long_or_empty_is_refused(face: Face, text: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        face.call("add_rule", text)
    assert str(caught.value) == (
        "a rule may have at most 300 characters, this one has 301: shorten it or use pin()"
        if text.strip()
        else "a rule must not be empty: give its text"
    )
    assert face.call("rules") == []
    assert len(face.call("add_rule", "长" * 300).text) == 300


def found(face: Face, given: object) -> list[tuple[int, str]]:
    return [(entry.seq, entry.client_id) for entry in face.call("by_client_id", given)]


def test_entries_are_read_by_one_client_id(face: Face) -> None:
    talk(face, 2)
    [entry] = face.call("by_client_id", "q2")
    assert (entry.seq, entry.message.text) == (3, "question 2, 订单 BJ-2")
    assert found(face, "nobody") == []


def test_entries_are_read_by_several_client_ids_in_log_order(face: Face) -> None:
    talk(face, 2)
    face.call("fold", keep_turns=0)  # folded entries are found all the same
    assert found(face, ["a2", "q1", "nobody", "a2"]) == [(1, "q1"), (4, "a2")]
    assert found(face, (name for name in ("q2", "a1"))) == [(2, "a1"), (3, "q2")]
    assert found(face, []) == []


def test_messages_added_together_have_numbered_client_ids(face: Face) -> None:
    messages = [{"role": "user", "content": "一"}, {"role": "assistant", "content": "two"}]
    face.call("add", messages, client_id="both")
    assert found(face, "both") == []
    assert found(face, ["both.2", "both.1"]) == [(1, "both.1"), (2, "both.2")]


def test_more_client_ids_than_one_request_takes(face: Face) -> None:
    talk(face, 2)
    unknown = [f"unknown {number}" for number in range(1_200)]
    assert found(face, ["a2", *unknown, "q1"]) == [(1, "q1"), (4, "a2")]


@pytest.mark.parametrize("given", [7, None, b"q1", ["q1", 7], [["q1"]]], ids=repr)
def test_a_client_id_that_is_no_text_is_refused(face: Face, given: object) -> None:
    with pytest.raises(InvalidOption, match="a client id must be a string, got"):
        face.call("by_client_id", given)


@pytest.mark.parametrize("name", ["", "x" * 600], ids=["empty", "long"])
def test_a_client_id_that_no_store_could_hold_is_refused(face: Face, name: str) -> None:
    with pytest.raises(InvalidOption, match="client id must be 1 to 512 characters, got"):
        face.call("by_client_id", name)


def test_a_client_id_with_a_nul_is_refused_for_the_nul(face: Face) -> None:
    with pytest.raises(
        InvalidOption, match="client id must not contain NUL: remove the one at character 3"
    ):
        face.call("by_client_id", "key\0")


def test_each_has_one_name(face: Face) -> None:
    assert not {"checkpoint", "find"} & set(dir(face.session))


SCHEMA = {
    "type": "function",
    "function": {
        "name": "look_outside",
        "parameters": {"properties": {"city": {"type": "string"}}},
    },
}


@pytest.mark.parametrize("provider", [anthropic, gemini, openai_chat, openai_responses])
def test_a_request_has_the_tools_that_its_context_was_counted_with(
    face: Face, provider: Any
) -> None:
    face.call("user", "How is the weather? 天气怎么样？")
    context = face.call("context", tools=[SCHEMA])
    assert context.receipt.tools > 0
    written = provider.request(context, model="m").kwargs
    assert written == provider.request(context, model="m", tools=[SCHEMA]).kwargs
    assert "look_outside" in str(written)
    assert "look_outside" not in str(provider.request(face.call("context"), model="m").kwargs)
