"""The memory tool does what the file-system implementation in Anthropic's SDK does, and keeps its files in a store."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from turnfold import AsyncMemory, InvalidOption, Memory, RemoteMemory, assistant, wire
from turnfold.agent import Agent, AsyncAgent, Tool, memory_tool
from turnfold.agent.function_tools import ToolRefused
from turnfold.redaction import find_secrets
from turnfold.stores import MemoryStore
from turnfold.testing import ScriptedModel

NAMES = ["a", "b.txt", "笔记.md", ".hidden"]
paths = st.lists(st.sampled_from(NAMES), min_size=0, max_size=3).map(
    lambda parts: "/".join(["/memories", *parts])
)
odd_paths = st.sampled_from(
    ["/memories/a/../b.txt", "/memories/./a", "/etc/passwd", "/memories/../../etc", "memories/a"]
)
texts = st.sampled_from(["", "one\ntwo\nthree\n", "one", "一\n二\n\n", "one one\r\n", "x" * 1500])
places = paths | odd_paths
commands = st.one_of(
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": places},
        optional={"view_range": st.sampled_from([[1, 2], [2, -1], [0, 9], [3, 1]])},
    ),
    st.fixed_dictionaries({"command": st.just("create"), "path": places, "file_text": texts}),
    st.fixed_dictionaries(
        {
            "command": st.just("str_replace"),
            "path": places,
            "old_str": st.sampled_from(["one", "二", "o", "\n", "absent"]),
            "new_str": st.sampled_from(["1", "", "more\nlines"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("insert"),
            "path": places,
            "insert_line": st.integers(-1, 4),
            "insert_text": st.sampled_from(["new\n", "新", "", "a\nb\n\n"]),
        }
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": places}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": places, "new_path": places}),
)


def without_folder_sizes(text: str) -> str:
    """A listing without the sizes of directories, which a file system chooses."""
    head, *lines = text.split("\n")
    if not head.startswith("Here're"):
        return text
    return "\n".join([head, lines[0].partition("\t")[2], *map(_line, lines[1:])])


def _line(line: str) -> str:
    return line.partition("\t")[2] if line.endswith("/") else line


def prune(root: Path) -> None:
    """Remove empty directories: here a directory is what has files in it."""
    for folder in sorted(root.rglob("*"), reverse=True):
        if folder.is_dir():
            with suppress(OSError):
                folder.rmdir()


@given(st.lists(commands, max_size=12))
@examples(200)
def test_every_command_does_what_the_reference_does(script: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder, Memory(MemoryStore()) as memory:
        reference = BetaLocalFilesystemMemoryTool(folder)
        tool = memory_tool(memory.session("memories"))
        for command in script:
            try:
                expected = str(reference.call(command))
                failed = False
            except ToolError as error:
                expected, failed = str(error.content), True
            except (
                OSError
            ):  # a path below a file, a folder into itself: the reference has no text for it
                expected, failed = "", True
            prune(reference.memory_root)
            try:
                found, refused = str(tool.call(**command)), False
            except ToolRefused as error:
                found, refused = str(error), True
            assert refused == failed, (command, expected, found)
            if expected:
                assert without_folder_sizes(found) == without_folder_sizes(expected), command


def test_a_file_that_is_not_there_is_missed_before_its_new_place_is_looked_at() -> None:
    with Memory("sqlite://") as memory:
        tool = memory_tool(memory.session("memories"))
        tool.call(command="create", path="/memories/a", file_text="")
        with pytest.raises(ToolRefused, match="The path /memories/b/a does not exist"):
            tool.call(command="rename", old_path="/memories/b/a", new_path="/memories/a/a")
        with pytest.raises(ToolRefused, match="Cannot rename the /memories directory itself"):
            tool.call(command="rename", old_path="/memories", new_path="/memories/a/a")
        with pytest.raises(ToolRefused, match="/memories/a is a file, not a directory"):
            tool.call(command="create", path="/memories/a/a", file_text="")


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../secret",
        "/memories/a/../../secret",
        "/memories/../memories/a",
        "/memoriesX/a",
        "/",
        "",
        "/memories/\x00",
        "/memories/" + "x" * 600,
    ],
)
def test_no_path_leads_out(path: str) -> None:
    with Memory("sqlite://") as memory:
        tool = memory_tool(memory.session("memories"))
        for command in (
            {"command": "view", "path": path},
            {"command": "create", "path": path, "file_text": "x"},
            {"command": "rename", "old_path": "/memories/a", "new_path": path},
        ):
            with pytest.raises(ToolRefused):
                tool.call(**command)


@pytest.mark.parametrize(
    "command",
    [
        {},
        {"command": "format"},
        {"command": "view"},
        {"command": "view", "path": 3},
        {"command": "view", "path": "/memories", "view_range": [1]},
        {"command": "create", "path": "/memories/a"},
        {"command": "delete", "path": "/memories/a", "force": True},
    ],
    ids=str,
)
def test_what_is_no_command_is_refused_with_the_reason(command: dict[str, Any]) -> None:
    reason = r"not a command of the memory tool: .+"
    with Memory("sqlite://") as memory, pytest.raises(ToolRefused, match=reason):
        memory_tool(memory.session("memories")).call(**command)


def test_sizes_are_limited() -> None:
    with Memory("sqlite://") as memory:
        tool = memory_tool(memory.session("memories"), max_file_bytes=10, max_bytes=15)
        tool.call(command="create", path="/memories/a", file_text="一二三")
        with pytest.raises(
            ToolRefused, match=r"/memories/b would have 12 bytes; a file may have at most 10"
        ):
            tool.call(command="create", path="/memories/b", file_text="一二三四")
        with pytest.raises(
            ToolRefused, match=r"would have 17 bytes together; they may have at most 15"
        ):
            tool.call(command="create", path="/memories/b", file_text="12345678")
        with pytest.raises(ToolRefused):
            tool.call(command="insert", path="/memories/a", insert_line=0, insert_text="四")
        assert "一二三" in str(tool.call(command="view", path="/memories/a"))
        for wrong, most in ((0, 10), (20, 10)):
            with pytest.raises(InvalidOption, match="max_file_bytes"):
                memory_tool(memory.session("m"), max_file_bytes=wrong, max_bytes=most)


def test_files_are_those_of_the_session_and_go_with_it(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'files.db'}"
    with Memory(address) as memory:
        memory_tool(memory.session("user-42")).call(
            command="create", path="/memories/likes.md", file_text="green tea 绿茶"
        )
    with Memory(address) as memory:
        view = {"command": "view", "path": "/memories"}
        assert "likes.md" in str(memory_tool(memory.session("user-42")).call(**view))
        assert "likes.md" not in str(memory_tool(memory.session("user-43")).call(**view))
        assert memory.session("user-42").history() == []
        memory.delete("user-42")
        assert b"green tea" not in (tmp_path / "files.db").read_bytes()


def test_files_are_encrypted_with_the_session(tmp_path: Path) -> None:
    file = tmp_path / "files.db"
    for _ in range(2):
        with Memory(f"sqlite:///{file}", encryption_key=b"k" * 32) as memory:
            tool = memory_tool(memory.session("user-42"))
            with suppress(ToolRefused):  # it is there the second time
                tool.call(command="create", path="/memories/a.md", file_text="green tea")
            assert "green tea" in str(tool.call(command="view", path="/memories/a.md"))
    assert b"green tea" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())


def test_writers_at_the_same_time_lose_nothing() -> None:
    async def inside() -> str:
        async with AsyncMemory("sqlite://") as memory:
            tools = [memory_tool(memory.session("memories")) for _ in range(8)]

            async def create(number: int, tool: Tool) -> None:
                made: Any = tool.call(
                    command="create", path=f"/memories/{number}", file_text=str(number)
                )
                await made

            await asyncio.gather(*(create(*each) for each in enumerate(tools)))
            listing: Any = tools[0].call(command="view", path="/memories")
            return str(await listing)

    assert [f"/memories/{number}" in asyncio.run(inside()) for number in (0, 7)] == [True, True]


def test_secrets_are_redacted_before_they_are_stored() -> None:
    secret = "sk-proj-" + "a1B2" * 10
    with Memory("sqlite://", redact=find_secrets) as memory:
        tool = memory_tool(memory.session("memories"))
        tool.call(command="create", path="/memories/keys", file_text=f"key: {secret}\n")
        assert secret not in str(tool.call(command="view", path="/memories/keys"))


def test_a_remote_session_is_refused() -> None:
    session: Any = RemoteMemory("http://127.0.0.1:1").session("s")
    with pytest.raises(InvalidOption, match="got RemoteSession"):
        memory_tool(session)


def test_claude_gets_its_own_tool_and_others_a_function() -> None:
    with Memory("sqlite://") as memory:
        native = memory_tool(memory.session("m")).schema
        function = memory_tool(memory.session("m"), native=False).schema
    tools = wire.anthropic.request([], tools=[native]).kwargs["tools"]
    assert tools == [{"type": "memory_20250818", "name": "memory"}]
    chat = wire.openai_chat.request([], tools=[native])
    assert "a tool of anthropic, which openai_chat does not have" in str(chat.changes[0])
    [written] = wire.openai_chat.request([], tools=[function]).kwargs["tools"]
    assert written["function"]["parameters"]["properties"]["command"]["enum"][0] == "view"


def script(*commands: dict[str, Any]) -> ScriptedModel:
    calls = [
        {"id": f"c{at}", "function": {"name": "memory", "arguments": json.dumps(command)}}
        for at, command in enumerate(commands)
    ]
    return ScriptedModel([*(assistant(tool_calls=[call]) for call in calls), "Done. 好。"])


NOTE = {"command": "create", "path": "/memories/trip.md", "file_text": "Beijing 北京\n"}
LOOK = {"command": "view", "path": "/memories/trip.md"}
LOST = {"command": "view", "path": "/memories/gone.md"}


def test_an_agent_uses_it_with_and_without_an_event_loop() -> None:
    with Memory("sqlite://") as memory:
        tool = memory_tool(memory.session("notes"))
        agent = Agent(memory, script(NOTE, LOOK, LOST), tools=[tool])
        assert agent.run("talk", "Remember the trip.").text == "Done. 好。"
        results = [
            each.message.text
            for each in memory.session("talk").history()
            if each.message.role == "tool"
        ]

    async def awaited() -> list[str]:
        async with AsyncMemory("sqlite://") as memory:
            tool = memory_tool(memory.session("notes"))
            await AsyncAgent(memory, script(NOTE, LOOK, LOST), tools=[tool]).run("talk", "Go.")
            entries = await memory.session("talk").history()
            return [each.message.text for each in entries if each.message.role == "tool"]

    assert results == asyncio.run(awaited())
    assert results[0] == "File created successfully at: /memories/trip.md"
    assert "     1\tBeijing 北京" in results[1]
    assert results[2].startswith("error: The path /memories/gone.md does not exist")
