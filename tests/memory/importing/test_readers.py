"""What other programs wrote, as conversations: nothing lost, nothing doubled, nothing invented."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.house.source_tree import ROOT
from tests.memory.importing.samples import (
    chatgpt_talk,
    claude_code_lines,
    write_json,
    write_lines,
)
from tests.sizes import examples
from turnfold import Budget, Memory, TurnfoldError
from turnfold.errors import Conflict, InvalidExport, InvalidOption
from turnfold.importers import (
    ConversationStart,
    IgnoredItem,
    Imported,
    ImportedMessage,
    UnreadableItem,
    detect,
    import_file,
    json_stream,
    read_histories,
)
from turnfold.importers.claude_code import claude_code_histories
from turnfold.importers.json_stream import Value
from turnfold.inspect import audit
from turnfold.records import Message, NewEntry, OpaquePart, ThinkingPart
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, export_to
from turnfold.wire import anthropic, lint, openai_chat

SCOPE = Scope("default")
TRACES = ROOT.parent / "shared" / "data" / "traces"


def land(store: MemoryStore, path: Path, **options: object) -> Imported:
    return drive(import_file(store, SCOPE, path, **options))  # type: ignore[arg-type]


def talks(path: Path, *, branches: bool = False) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    at = ""
    for piece in read_histories(path, detect(path), branches=branches):
        assert not isinstance(piece, UnreadableItem), piece
        if isinstance(piece, ConversationStart):
            at = piece.conversation
            found[at] = []
        elif isinstance(piece, ImportedMessage):
            found[at].append(piece.message)
    return found


def test_a_chatgpt_export_gives_the_branch_on_the_screen(tmp_path: Path) -> None:
    path = write_json(tmp_path / "conversations.json", [chatgpt_talk(), chatgpt_talk("talk-2")])
    assert detect(path) == "chatgpt"
    found = talks(path)
    assert list(found) == ["talk-1", "talk-2"]
    own, asked, called, answered, thought, said = found["talk-1"]
    assert (own.role, own.text) == ("system", "I like tea.\n\nBe brief.")
    assert asked.text == "这张图里有什么？"
    assert isinstance(asked.parts[1], OpaquePart)
    assert json.loads(asked.parts[1].json)["asset_pointer"] == "file-service://x"
    assert (called.calls[0].name, json.loads(called.calls[0].arguments)) == (
        "python",
        {"input": "print(1)"},
    )
    assert called.metadata["model"] == "gpt-5"
    assert answered.results[0].call_id == called.calls[0].id
    assert answered.text == "1\ndone"
    assert isinstance(thought.parts[0], ThinkingPart)
    assert said.text == "一只猫。 And tea."
    assert own.metadata["title"] == "猫"


def test_branches_that_were_left_are_counted_or_imported(tmp_path: Path) -> None:
    path = write_json(tmp_path / "conversations.json", [chatgpt_talk()])
    pieces = list(read_histories(path, "chatgpt", branches=False))
    left = [piece for piece in pieces if piece == IgnoredItem("message on an abandoned branch")]
    assert len(left) == 2
    found = talks(path, branches=True)
    assert [message.text for message in found["talk-1~2"]][1:] == ["What is 2+3?", "5"]


_MANY_PIECES = """
import sys
from turnfold.importers.chatgpt import chatgpt_histories
from turnfold.importers.claude_code import claude_code_histories
from turnfold.importers.json_stream import Value
many, text = 40_000, {"content_type": "text", "parts": ["x"]}
if sys.argv[1] == "chatgpt":
    nodes = {"r": {"message": {"author": {"role": "assistant"}, "recipient": "python", "content": text}}}
    for at in range(many):
        message = {"author": {"role": "tool", "name": "python"}, "content": text}
        nodes[f"t{at}"] = {"parent": f"t{at - 1}" if at else "r", "message": message}
    value = Value(1, {"id": "a", "mapping": nodes, "current_node": f"t{many - 1}"})
    pieces = list(chatgpt_histories(iter([value]), "a", branches=False))
    parts = len(pieces[-1].message.results[0].content)
else:
    def line(at):
        block = {"type": "tool_use", "id": f"c{at // 2}", "name": "f", "input": {}}
        message = {"id": "m", "role": "assistant", "content": [block]}
        return Value(at, {"type": "assistant", "uuid": f"u{at}", "sessionId": "s", "message": message})
    pieces = list(claude_code_histories((line(at) for at in range(2 * many)), "a"))
    parts = len(pieces[-1].message.calls)
assert (len(pieces), parts) == (3 if sys.argv[1] == "chatgpt" else 2, many), (len(pieces), parts)
"""


@pytest.mark.parametrize("program", ["chatgpt", "claude-code"])
def test_an_answer_in_very_many_pieces_is_joined_once(program: str) -> None:
    """In a process of its own, which is stopped: joining it anew for every piece took an hour."""
    subprocess.run([sys.executable, "-c", _MANY_PIECES, program], check=True, timeout=60)


def test_branches_that_repeat_their_beginning_without_end_are_told(tmp_path: Path) -> None:
    """A file of two megabytes became a hundred million messages: half of its nodes leave the other half, one by one."""
    nodes: dict[str, object] = {}
    for at in range(3_000):
        parent = f"n{at - 1}" if at else None
        said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["x"]}}
        for key in (f"n{at}", f"leaf{at}"):
            nodes[key] = {"parent": parent, "message": said}
    talk = {"id": "comb", "mapping": nodes, "current_node": "n2999"}
    path = write_json(tmp_path / "conversations.json", [talk])
    pieces = list(read_histories(path, "chatgpt", branches=True))
    assert len(pieces) < 150_000
    assert isinstance(pieces[-1], UnreadableItem)
    assert "repeat their beginnings more than 20 times" in pieces[-1].problem
    with pytest.raises(InvalidExport, match="import it without branches"):
        land(MemoryStore(), path, branches=True, trial=True)
    assert land(MemoryStore(), path).entries == 3_000


def test_an_export_that_unpacks_a_thousandfold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "_UNPACKED_FREELY", 1 << 20)
    path = tmp_path / "own.jsonl.gz"
    store, exported = MemoryStore(), io.BytesIO()
    said = [NewEntry(Message("user", "a" * 900_000)) for _ in range(8)]
    drive(store.append(SCOPE, "s", said))
    drive(export_to(store, SCOPE, exported))
    path.write_bytes(gzip.compress(exported.getvalue()))
    assert path.stat().st_size < 20_000
    with pytest.raises(InvalidExport, match="more than 200 times"):
        land(MemoryStore(), path, format_name="turnfold")
    monkeypatch.undo()
    assert land(MemoryStore(), path).entries == 8


def test_a_tree_that_runs_in_a_circle_ends(tmp_path: Path) -> None:
    talk = chatgpt_talk()
    talk["mapping"]["root"]["parent"] = "said"  # type: ignore[index]
    assert len(talks(write_json(tmp_path / "conversations.json", [talk]))["talk-1"]) == 6


def test_times_of_the_export_are_kept(tmp_path: Path) -> None:
    store = MemoryStore()
    land(store, write_json(tmp_path / "conversations.json", [chatgpt_talk()]))
    entries = drive(store.read(SCOPE, "talk-1"))
    assert entries[1].created == 1_700_000_000_500_000
    assert entries[1].client_id == "ask"
    [info] = drive(store.conversations(SCOPE))
    assert info.created == 1_700_000_000_000_000


def test_the_blocks_of_one_answer_are_one_message_again(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s-1.jsonl", claude_code_lines())
    assert detect(path) == "claude-code"
    found = talks(path)
    assert list(found) == ["s-1", "s-1/agent-a77"]
    asked, answer, first, second, last = found["s-1"]
    assert asked.text == "请修复 utils.py"
    assert [call.name for call in answer.calls] == ["Read", "Bash"]
    assert isinstance(answer.parts[0], ThinkingPart)
    assert [m.results[0].call_id for m in (first, second)] == ["t1", "t2"]
    assert last.text == "改好了。"
    with Memory("sqlite://") as memory:
        session = memory.session("s-1")
        session.add(found["s-1"])
        made = anthropic.request(session.context(), model="claude-sonnet-4-5")
    assert lint(made.kwargs, "anthropic") == ()
    assert not [change for change in made.changes if change.lost]


def test_blocks_of_different_answers_stay_apart() -> None:
    lines = claude_code_lines()
    for number, line in enumerate(lines):
        if isinstance(line, dict) and line.get("type") == "assistant":
            line["message"]["id"] = f"own-{number}"
    pieces = claude_code_histories((Value(n, line) for n, line in enumerate(lines, 1)), "x")
    assert (
        sum(
            isinstance(piece, ImportedMessage) and piece.message.role == "assistant"
            for piece in pieces
        )
        == 6
    )


def test_events_that_nobody_said_are_counted(tmp_path: Path) -> None:
    done = land(MemoryStore(), write_lines(tmp_path / "s-1.jsonl", claude_code_lines()))
    assert done.ignored == {"line of type summary": 1, "line of type file-history-snapshot": 1}
    assert done.entries == 7


@pytest.mark.parametrize("shape", ["messages", "body", "bodies", "pretty"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_history_in_every_shape(tmp_path: Path, shape: str, provider: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}
    said = [
        Message("user", "查天气"),
        Message("assistant", "", tool_calls=[call]),
        Message("tool", "sunny", tool_call_id="c1"),
        Message("assistant", "晴天"),
    ]
    module = openai_chat if provider == "openai" else anthropic
    body = dict(module.request(said, cache=False).kwargs)
    if provider == "anthropic":
        body["system"] = "Be kind."
    items = body["messages"]
    assert isinstance(items, list)
    path = tmp_path / "talk.json"
    match shape:
        case "messages":
            write_lines(path, items)
        case "body":
            write_lines(path, [body])
        case "bodies":
            write_lines(path, [{**body, "id": f"n{n}"} for n in range(3)])
        case _:
            write_json(path, body, indent=2)
    assert detect(path) == provider
    found = talks(path)
    assert list(found) == (["n0", "n1", "n2"] if shape == "bodies" else ["talk"])
    for messages in found.values():
        assert [m.text for m in messages if m.role != "system"] == [m.text for m in said]


def test_a_conflict_writes_nothing_not_even_the_rest(tmp_path: Path) -> None:
    store = MemoryStore()
    path = tmp_path / "talks.jsonl"
    hello = {"messages": [{"role": "user", "content": "hello"}]}
    write_lines(path, [{**hello, "id": "a"}])
    land(store, path)
    other = {"messages": [{"role": "user", "content": "else"}]}
    write_lines(path, [{**hello, "id": "new"}, {**other, "id": "a"}])
    with pytest.raises(Conflict):
        land(store, path)
    assert [info.conversation for info in drive(store.conversations(SCOPE))] == ["a"]


def test_a_conversation_that_went_on_here_is_left_alone(tmp_path: Path) -> None:
    store = MemoryStore()
    path = write_lines(tmp_path / "talk.jsonl", [{"role": "user", "content": "hello"}])
    land(store, path)
    with Memory(store) as memory:
        memory.session("talk").assistant("hi")
        memory.session("talk").context()
    assert land(store, path).already == 1


def test_the_same_name_twice_in_a_file_is_told(tmp_path: Path) -> None:
    body = {"id": "twice", "messages": [{"role": "user", "content": "hello"}]}
    path = write_lines(tmp_path / "talks.jsonl", [body, body])
    with pytest.raises(InvalidExport, match="is already on line 1"):
        land(MemoryStore(), path)
    done = land(MemoryStore(), path, skip_bad=True)
    assert (done.new, done.entries, done.bad_total) == (1, 1, 1)
    with pytest.raises(InvalidOption, match="several conversations"):
        land(MemoryStore(), path, conversation="one")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["role", "content", "type", "message", "mapping", "messages", "id", "text",
                         "tool_calls", "parts", "author", "parent", "uuid", "sessionId", "current_node"]),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(JSON, min_size=1, max_size=4),
    st.sampled_from(
        ["auto", "openai", "openai-responses", "anthropic", "gemini", "chatgpt", "claude-code"]
    ),
)
def test_whatever_is_in_a_file_it_is_read_or_told(
    tmp_path: Path, found: list[object], name: str
) -> None:
    path = write_lines(tmp_path / "any.jsonl", found)
    store = MemoryStore()
    try:
        done = land(store, path, format_name=name, skip_bad=True)
    except TurnfoldError:
        assert drive(store.conversations(SCOPE)) == []
        return
    heads = [info.head.seq for info in drive(store.conversations(SCOPE))]
    assert sum(heads) == done.entries


@pytest.mark.skipif(not TRACES.is_dir(), reason="the shared traces are not beside this checkout")
@pytest.mark.parametrize(
    "name", ["claude_code_anthropic", pytest.param("tau_bench_openai", marks=pytest.mark.slow)]
)
def test_real_traces_come_in_whole(name: str) -> None:
    path = TRACES / f"{name}.jsonl.gz"
    store = MemoryStore()
    done = land(store, path)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        traces = [json.loads(line) for line in file]
    assert done.conversations == tuple(trace["trace_id"] for trace in traces)
    module = anthropic if name.endswith("anthropic") else openai_chat
    for trace in traces[::20]:
        said = [entry.message for entry in drive(store.read(SCOPE, trace["trace_id"]))]
        assert (
            module.request(said, repair=False, cache=False).kwargs["messages"] == trace["messages"]
        )
    assert land(store, path).already == len(traces)
    with Memory(store, budget=Budget(max_tokens=60_000)) as memory:
        assert audit(memory.session(traces[0]["trace_id"])) == []
