"""Peers: the baselines, libraries where they are installed, an error that names the package, and plug-ins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from turnfold import Message, assistant, system, tool, user
from turnfold.errors import InvalidOption, MissingExtra
from turnfold.evaluation import (
    Bm25Peer,
    RecencyPeer,
    evaluate,
    find_peers,
    peer_names,
    sample_set,
)
from turnfold.tokens import counter_for
from turnfold.window import check

COUNTER = counter_for("gpt-4o")
LIBRARIES = {
    "langchain-trim": ("langchain_core", "pip install 'turnfold[langchain]'"),
    "langchain-summary": ("langchain", "pip install 'turnfold[langchain]'"),
    "llama-index": ("llama_index", "pip install 'turnfold[llama-index]'"),
    "agent-framework": ("agent_framework", "pip install agent-framework-core"),
    "pydantic-ai-harness": ("pydantic_ai_harness", "pip install pydantic-ai-harness"),
    "compaction-guard": ("compaction_guard", "pip install compaction-guard"),
}


def talk(turns: int) -> list[Message]:
    """A system message, and turns with a tool call and a few numbers each."""
    messages = [system("You count apples. 你数苹果。")]
    for turn in range(turns):
        call = {
            "id": f"c{turn}",
            "type": "function",
            "function": {"name": "count", "arguments": "{}"},
        }
        messages += [
            user(f"How many apples are in basket {turn}? 第 {turn} 个篮子里有几个苹果？"),
            assistant("", tool_calls=[call]),
            tool(f"{turn + 20} apples", tool_call_id=f"c{turn}"),
            assistant(f"There are {turn + 20} apples in basket {turn}."),
        ]
    return messages


def test_the_recency_window_starts_at_a_user_message() -> None:
    log = talk(30)[:-1]
    sent = RecencyPeer(COUNTER).context(log, 300)
    assert sent[0] == log[0]
    assert sent[1].role == "user"
    assert list(sent[1:]) == log[-len(sent) + 1 :]
    assert COUNTER.count(sent).tokens <= 300
    older = log[-len(sent) - 3 :]  # with the turn before it would not fit
    assert COUNTER.count([log[0], *older]).tokens > 300


def test_inside_a_long_turn_the_baselines_keep_calls_with_their_results() -> None:
    log = [message for message in talk(30) if message.role != "user"]
    log.insert(1, user("Count all the apples."))
    for peer in (RecencyPeer(COUNTER), Bm25Peer(COUNTER)):
        for end in range(60, len(log)):
            sent = peer.context(log[:end], 200)
            assert len(sent) > 2
            assert COUNTER.count(sent).tokens <= 200
            if log[end - 1].role == "tool":
                assert check(sent) == ()
    assert RecencyPeer(COUNTER).context(log[:4], 20) == log[:1]


def test_bm25_finds_the_words_of_the_question_in_both_languages() -> None:
    log = [
        user("The gate code is 4711."),
        assistant("Noted, the code."),
        user("我对花生过敏。"),
        assistant("记住了。"),
        user("The weather is fine."),
    ]
    peer = Bm25Peer(COUNTER)
    assert peer.search(log, "What is the code of the gate?", 5)[0] == 1
    assert peer.search(log, "我对什么过敏？", 5)[0] == 3
    assert peer.search(log, "umbrella", 5) == []
    asked = [*log, assistant("Yes."), user("Which gate code?")]
    quoted, question = peer.context(asked, 200)
    assert quoted.text.splitlines()[1:] == [
        "user: The gate code is 4711.",
        "assistant: Noted, the code.",
    ]
    assert question == asked[-1]
    assert COUNTER.count(peer.context(asked, 40)).tokens <= 40


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_sends_valid_contexts_or_is_named_as_missing(name: str) -> None:
    module, command = LIBRARIES[name]
    if find_spec(module) is None:
        with pytest.raises(MissingExtra, match=name) as caught:
            find_peers([name])
        assert command in str(caught.value)
        return
    log = talk(24)  # two of them count no tool calls, and are over the budget
    peer = find_peers([name])[name](COUNTER)
    sent: Sequence[Message] = ()
    for at in range(2, len(log), 4):
        sent = peer.context(log[:at], 500)
        assert check(sent) == ()
        assert sent[0] == log[0]
        assert log[at - 1] in sent
        assert COUNTER.count(sent).tokens <= 500 or name in ("llama-index", "pydantic-ai-harness")
    assert log[5] not in sent
    written = [message.text for message in sent if message not in log]
    assert len(written) == (name == "langchain-summary")  # there are no rules for compaction-guard
    assert all("apples" in text for text in written)


def test_an_installed_package_adds_a_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "my_peers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-peers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[turnfold.peers]\nlast-one = my_peers:LastOne\n")
    (tmp_path / "my_peers.py").write_text(
        "class LastOne:\n"
        "    name = 'last-one'\n"
        "    def __init__(self, counter):\n"
        "        pass\n"
        "    def context(self, messages, budget):\n"
        "        return messages[-1:]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert peer_names()[-1] == "last-one"
    conversation = sample_set()[0]
    short = type(conversation)(name="short", messages=conversation.messages[:5])
    _, row = evaluate([short], budgets=[1_000], peers=find_peers(["last-one"])).rows
    assert (row.method, row.calls, row.usable, row.kept_prefix) == ("last-one", 2, 2, 0.0)
    sys.modules.pop("my_peers")


def test_an_unknown_peer_is_refused_with_the_names_that_are_known() -> None:
    with pytest.raises(
        InvalidOption, match="unknown peer 'mem9'; use recency, bm25, langchain-trim"
    ):
        find_peers(["mem9"])
