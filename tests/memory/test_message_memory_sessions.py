"""Document 000's memory in a file is a session that `Memory` and the command line see; older files open unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.memory.conversations import asks, chat
from tests.memory.saved import NumberedSummaries, stored
from turnfold import (
    Conflict,
    InvalidRecord,
    Memory,
    Message,
    MessageMemory,
    MessageMemoryConfig,
    TruncateStrategy,
    assistant,
    system,
    tool,
    user,
)
from turnfold.inspect import audit
from turnfold.records import Document, NewEntry, encode_message
from turnfold.runtime import drive
from turnfold.stores import Scope, SqliteStore
from turnfold.window import Outcome

OLD = Scope("local")


def opened(path: Path, **options: object) -> MessageMemory:
    return MessageMemory(MessageMemoryConfig(db_path=path, **options))  # pyright: ignore[reportArgumentType] - by name


def test_a_path_alone_keeps_the_conversation_under_the_name_default(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    for options in ({}, {"enable_persistence": True}, {"session_id": "default"}):
        with opened(path, **options) as memory:
            memory.add(user("你好"))
    with Memory(f"sqlite:///{path}") as memory:
        assert [each.conversation for each in memory.conversations()] == ["default"]
        assert [each.message for each in memory.session("default").history()] == [user("你好")] * 3
    with opened(path, enable_persistence=False) as memory:
        assert memory.get_messages() == []
        memory.add(user("nowhere"))
    assert len(stored(path, "default")) == 3


def test_a_session_on_the_same_file_shows_the_same_conversation(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with opened(path, session_id="s") as memory, Memory(f"sqlite:///{path}") as other:
        session = other.session("s")
        memory.set_system("careful 谨慎")
        memory.add(user("<0> hello"))
        assert session.context().messages == (system("careful 谨慎"), user("<0> hello"))
        session.assistant("<1> 你好")
        session.system("be brief")
        memory.add(user("<2> and on"))
        said = [user("<0> hello"), assistant("<1> 你好"), user("<2> and on")]
        assert memory.get_messages() == [system("be brief"), *said]
        assert memory.get_messages_within_budget() == list(session.context().messages)
        memory.clear()
        assert session.context().messages == (system("be brief"),)
        session.user("<3> again")
        session.clear()
        assert memory.get_messages() == [system("be brief")]
        assert [each.message.text for each in session.history()][-1] == "<3> again"


def test_what_a_session_folded_is_shown_as_its_summary(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with opened(path, session_id="s") as memory, Memory(f"sqlite:///{path}") as other:
        for message in chat(6):
            memory.add(message)
        other.session("s").fold(summary="They spoke about tea. 茶", keep_turns=1)
        kept = memory.get_messages()
        assert "They spoke about tea. 茶" in kept[0].text
        assert kept[1:] == chat(6)[-2:]
        memory.add(user("<12> more"))
        assert memory.get_messages() == [*kept, user("<12> more")]


def test_a_summary_of_the_memory_is_a_checkpoint_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    config = MessageMemoryConfig(
        session_id="s", db_path=path, max_tokens=300, strategy=TruncateStrategy.SUMMARIZE
    )
    with MessageMemory(config, summarizer=NumberedSummaries()) as memory:
        for message in chat(30):
            memory.add(message)
        kept = memory.get_messages()
    with Memory(f"sqlite:///{path}", recall="off") as other:
        session = other.session("s")
        checkpoints = session.checkpoints()
        assert len(checkpoints) > 2
        assert checkpoints[-1].text in kept[0].text
        context = session.context()
        assert list(context.messages[1:]) == kept[1:], "the entries after the checkpoint"
        assert checkpoints[-1].text in context.messages[0].text
        assert context.receipt.count(Outcome.FOLDED) == checkpoints[-1].upto
        assert audit(session) == []


def test_the_command_line_lists_it(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with opened(path, session_id="订单") as memory:
        memory.add(user("hello"))
    command = [sys.executable, "-m", "turnfold", "sessions", "--store", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8")
    assert "订单" in done.stdout or json.dumps("订单")[1:-1] in done.stdout


# ----------------------------------------------------------------------------- files of earlier releases


def write_old(path: Path, said: Sequence[Message], state: dict[str, object] | None) -> None:
    """Write a session as the release before did: its own tenant, and a state document."""
    store = SqliteStore(path, blocking=True)
    for message in said:
        drive(store.append(OLD, "s", [NewEntry(message)]))
    if state is not None:
        body = json.dumps(
            {"v": 1, "limits": "", "complete": True, "anchor": {}, "windows": []} | state,
            ensure_ascii=False,
        ).encode()
        drive(store.put_document(OLD, "s", Document("message-memory", "state", body, 0)))
    drive(store.close())


def raw(*messages: Message) -> list[object]:
    return [json.loads(encode_message(message)) for message in messages]


LOOP = [user("<0> go")]
for number in range(8):
    LOOP += [asks(number, f"c{number}"), tool(f"<{number}> 结果", tool_call_id=f"c{number}")]

CASES: dict[str, tuple[Sequence[Message], dict[str, object] | None, list[Message]]] = {
    "messages alone": (chat(2), None, chat(2)),
    "added system messages": (
        [system("一"), *chat(1), system("two")],
        None,
        [system("一"), system("two"), *chat(1)],
    ),
    "a system message that was set": (
        chat(1),
        {"seq": 2, "system": raw(system("rules 规则")), "held": [[1, 2]]},
        [system("rules 规则"), *chat(1)],
    ),
    "set, then added": (
        [*chat(1), system("two")],
        {"seq": 2, "system": raw(system("one")), "held": [[1, 2]]},
        [system("one"), system("two"), *chat(1)],
    ),
    "cleared": (chat(2), {"seq": 4, "system": raw(system("s")), "held": []}, [system("s")]),
    "cleared, then added": (
        [*chat(2), user("<9> new")],
        {"seq": 4, "system": [], "held": []},
        [user("<9> new")],
    ),
    "released": (
        chat(4),
        {"seq": 8, "system": [], "held": [[5, 8]], "complete": False},
        chat(4)[4:],
    ),
    "released in the middle of a turn": (
        LOOP,
        {
            "seq": 17,
            "system": [],
            "held": [[1, 1], [14, 17]],
            "complete": False,
            "anchor": {"position": 1},
        },
        [LOOP[0], *LOOP[13:]],
    ),
    "folded": (
        chat(4),
        {
            "seq": 8,
            "system": [],
            "held": [[5, 8]],
            "complete": False,
            "anchor": {"position": 0, "covered": 0, "summary": "茶 and tea", "reason": "x"},
            "windows": [[300, {"position": 2, "reason": "y"}]],
        },
        chat(4)[4:],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_of_an_earlier_release_opens_as_it_was(tmp_path: Path, case: str) -> None:
    said, state, expected = CASES[case]
    path = tmp_path / "chat.db"
    write_old(path, said, state)
    before: list[Message] = []
    for _ in range(2):
        with opened(path, session_id="s") as memory:
            kept = memory.get_messages()
            if case == "folded":
                assert "茶 and tea" in kept.pop(0).text
                assert memory.get_messages_within_budget(300)[-2:] == chat(4)[6:]
            assert kept == expected
            before = memory.get_messages()
    with opened(path, session_id="s") as memory:
        memory.add(user("<77> 还在"))
        assert memory.get_messages()[:-1] == before
    log = [message for message in stored(path, "s") if message.role != "system"]
    assert log == [*(message for message in said if message.role != "system"), user("<77> 还在")]
    with Memory(f"sqlite:///{path}") as other:
        assert audit(other.session("s")) == []
        if case.startswith("cleared"):
            shown = [each for each in other.session("s").context().messages if each.role == "user"]
            assert shown == [*(each for each in expected if each.role == "user"), user("<77> 还在")]
    if state is not None:
        with Memory(f"sqlite:///{path}", scope="local") as old:
            assert old.conversations() == [], "there is one copy, which one deletion erases"


def test_a_session_that_is_in_the_file_twice_is_not_mixed_up(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with Memory(f"sqlite:///{path}") as other:
        other.session("s").user("another conversation")
    write_old(path, chat(1), {"seq": 2, "system": [], "held": [[1, 2]]})
    with pytest.raises(Conflict, match="'s'"):
        opened(path, session_id="s")
    with opened(path, session_id="t") as memory:
        assert memory.count() == 0


def test_a_session_of_another_tenant_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with Memory(f"sqlite:///{path}", scope="local") as other:
        other.session("s").user("not of a message memory")
        other.session("s").context()
    with opened(path, session_id="s") as memory:
        assert memory.get_messages() == []
    with Memory(f"sqlite:///{path}", scope="local") as other:
        assert len(other.session("s").history()) == 1


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"seq": 9, "system": [], "held": [[7, 9]]}, "backup"),
        ({"v": 99, "seq": 1, "system": [], "held": []}, "Upgrade"),
        ({"seq": "x", "system": [], "held": []}, "not a saved state"),
    ],
)
def test_an_old_state_that_cannot_be_read_is_a_typed_error_and_stays(
    tmp_path: Path, state: dict[str, object], says: str
) -> None:
    path = tmp_path / "chat.db"
    write_old(path, chat(1), state)
    for _ in range(2):
        with pytest.raises(InvalidRecord, match=says):
            opened(path, session_id="s")
