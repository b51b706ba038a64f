"""Threads of LangGraph with something left out, copied and deleted, while others write to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph

from tests.adapters.langgraph_savers import WORDS, homes_of, newest_words, put
from turnfold import Memory
from turnfold.adapters.langchain import TurnfoldSaver
from turnfold.adapters.langchain.checkpoints import deletion as moving
from turnfold.adapters.langchain.checkpoints.deletion import ThreadMover, _Move
from turnfold.adapters.langchain.checkpoints.documents import StoredCheckpoint, Typed
from turnfold.adapters.langchain.checkpoints.storage import CheckpointStorage, ThreadPlace, Threads
from turnfold.errors import Conflict, InvalidOption


def join(current: list[str] | None, written: Any) -> list[str]:
    return [*(current or []), *(word for words in written for word in words)]


class Talk(TypedDict):
    said: Annotated[list[str], DeltaChannel(join, snapshot_frequency=4)]
    plain: Annotated[list[str], add]


def echo(state: Talk) -> dict[str, list[str]]:
    del state
    return {"said": ["echo"], "plain": ["echo"]}


def talk(saver: BaseCheckpointSaver[Any], *, turns: int, run: str = "") -> Any:
    builder = StateGraph(Talk)
    builder.add_node("echo", echo)
    builder.add_edge(START, "echo")
    graph = builder.compile(checkpointer=saver)
    for turn in range(turns):
        word = f"{run}{turn}"
        config: Any = {"configurable": {"thread_id": "t"}, "metadata": {"run_id": f"{run}{turn}"}}
        graph.invoke({"said": [word], "plain": [word]}, config)
    return graph


def told(graph: Any) -> tuple[list[str], list[str]]:
    state = graph.get_state({"configurable": {"thread_id": "t"}}).values
    return state["said"], state["plain"]


def test_pruning_keeps_what_a_delta_channel_is_made_from() -> None:
    for turns in range(1, 8):
        with Memory("sqlite://") as memory:
            graph = talk(TurnfoldSaver(memory), turns=turns)
            before = told(graph)
            assert before[0] == before[1]
            saver = TurnfoldSaver(memory)
            count = len(list(saver.list({"configurable": {"thread_id": "t"}})))
            saver.prune(["t"])
            left = len(list(saver.list({"configurable": {"thread_id": "t"}})))
            assert told(talk(saver, turns=0)) == before
            assert left < count or turns < 4
            assert told(talk(saver, turns=1, run="more"))[0] == [*before[0], "more0", "echo"]


def test_sabotage_pruning_without_them_empties_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_delta_ancestors", lambda *_: [])
    with pytest.raises((AssertionError, KeyError)):
        test_pruning_keeps_what_a_delta_channel_is_made_from()


def test_runs_are_deleted_from_the_end_and_not_from_under_a_delta_channel() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        graph = talk(saver, turns=3)
        saver.delete_for_runs(["2"])
        assert told(graph)[0] == ["0", "echo", "1", "echo"]
        with pytest.raises(InvalidOption, match="delete run 1 as well, or keep run 0"):
            saver.delete_for_runs(["0"])
        assert told(graph)[0] == ["0", "echo", "1", "echo"]
        saver.delete_for_runs(["0", "1"])
        assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None


@pytest.mark.parametrize("at", range(4))
def test_what_is_written_while_a_thread_moves_is_kept(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory("sqlite://") as memory:
        saver, other = TurnfoldSaver(memory), TurnfoldSaver(memory)
        config = put(saver, WORDS[:10])
        config = put(saver, WORDS[:11], config)
        other.get_tuple(config)  # knows where the thread lives
        steps = 0
        place_put, erase = Threads.put, Threads.erase

        def meanwhile() -> None:
            nonlocal steps
            if steps == at:
                steps += 1
                named = put(other, WORDS[:12], config)
                other.put_writes(named, [("words", "late")], "task")
            else:
                steps += 1

        async def slow_put(self: Threads, place: ThreadPlace, *, expect: int) -> int:
            if self is saver._threads:
                meanwhile()
            return await place_put(self, place, expect=expect)

        async def slow_erase(self: Threads, *homes: str) -> None:
            if homes and self is saver._threads:
                meanwhile()
            await erase(self, *homes)

        monkeypatch.setattr(Threads, "put", slow_put)
        monkeypatch.setattr(Threads, "erase", slow_erase)
        saver.prune(["t"])
        assert steps >= 4
        fresh = TurnfoldSaver(memory)
        assert newest_words(fresh) == WORDS[:12]
        found = fresh.get_tuple({"configurable": {"thread_id": "t"}})
        assert found is not None
        assert found.pending_writes == [("task", "words", "late")]
        assert fresh.get_tuple(config) is not None
        assert len(homes_of(memory)) == 1


def test_sabotage_a_writer_that_does_not_look_afterwards_loses_what_it_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def careless(
        self: TurnfoldSaver, thread: str, write: Callable[[str], Awaitable[object]]
    ) -> None:
        await write(self._threads.known(thread) or await self._threads.home(thread))

    monkeypatch.setattr(TurnfoldSaver, "_write_to_home", careless)
    with pytest.raises(AssertionError):
        test_what_is_written_while_a_thread_moves_is_kept(2, monkeypatch)


def test_sabotage_a_mover_that_does_not_look_again_loses_what_came_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def careless(_: _Move) -> None:
        pass

    monkeypatch.setattr(_Move, "bring_late", careless)
    with pytest.raises(AssertionError):
        test_what_is_written_while_a_thread_moves_is_kept(1, monkeypatch)


@pytest.mark.parametrize("where", ["_finish_move", "erase"])
def test_a_prune_that_was_broken_off_leaves_the_thread_whole_and_the_next_cleans_up(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        put(saver, WORDS[:11], put(saver, WORDS[:10]))

        async def fails(_: object, *homes: object) -> None:
            if homes:
                raise RuntimeError("the power went")

        with monkeypatch.context() as patch:
            patch.setattr(ThreadMover if where == "_finish_move" else Threads, where, fails)
            with pytest.raises(RuntimeError):
                saver.prune(["t"])
        assert len(homes_of(memory)) == 2
        assert newest_words(TurnfoldSaver(memory)) == WORDS[:11]
        TurnfoldSaver(memory).prune(["t"])
        assert len(homes_of(memory)) == 1
        assert newest_words(TurnfoldSaver(memory)) == WORDS[:11]


def test_what_a_left_home_still_holds_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory("sqlite://") as memory:
        saver, other = TurnfoldSaver(memory), TurnfoldSaver(memory)
        put(saver, WORDS[:11], put(saver, WORDS[:10]))
        assert newest_words(other) == WORDS[:11]  # knows where the thread lives

        async def fails(_: object, *homes: object) -> None:
            if homes:
                raise RuntimeError("the power went")

        with monkeypatch.context() as patch:
            patch.setattr(Threads, "erase", fails)
            with pytest.raises(RuntimeError):
                saver.prune(["t"])
        put(saver, WORDS[:12])
        assert newest_words(other) == WORDS[:12]


def test_a_thread_that_moves_while_it_is_read_is_read_where_it_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Memory("sqlite://") as memory:
        saver, other = TurnfoldSaver(memory), TurnfoldSaver(memory)
        put(saver, WORDS[:11], put(saver, WORDS[:10]))
        read, moves = CheckpointStorage.values, ["one"]

        async def slow_read(
            self: CheckpointStorage, home: str, kept: StoredCheckpoint
        ) -> dict[str, Typed]:
            if moves.pop() if moves else "":
                saver.prune(["t"])
            return await read(self, home, kept)

        monkeypatch.setattr(CheckpointStorage, "values", slow_read)
        assert newest_words(other) == WORDS[:11]


def test_deleting_erases_every_home_and_the_name_may_come_back() -> None:
    with Memory("sqlite://") as memory:
        saver, other = TurnfoldSaver(memory), TurnfoldSaver(memory)
        config = put(saver, WORDS[:5])
        assert newest_words(other) == WORDS[:5]
        saver.delete_thread("t")
        assert homes_of(memory) == []
        assert newest_words(other) == []
        put(other, WORDS[:3], config)  # knew another home
        assert newest_words(saver) == WORDS[:3]


def test_a_copy_stands_alone_and_is_refused_over_another_thread() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        put(saver, WORDS[:11], put(saver, WORDS[:10]))
        saver.copy_thread("t", "copy")
        with pytest.raises(Conflict, match="copy"):
            saver.copy_thread("t", "copy")
        saver.delete_thread("t")
        found = TurnfoldSaver(memory).get_tuple({"configurable": {"thread_id": "copy"}})
        assert found is not None
        assert found.checkpoint["channel_values"]["words"] == WORDS[:11]
        saver.copy_thread("nobody", "nowhere")
        assert len(homes_of(memory)) == 1
