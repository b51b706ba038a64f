"""The shared prefix is measured against the call before, whichever process or handle made it."""

from __future__ import annotations

from pathlib import Path

from turnfold import Budget, Memory

SMALL = Budget(max_tokens=2_000)


def test_a_new_process_compares_with_the_stored_call(tmp_path: Path) -> None:
    told: dict[bool, list[tuple[int, int]]] = {}
    for again in (False, True):  # with a new memory for each turn, and with one for all
        memory = Memory(f"sqlite:///{tmp_path / str(again)}.db", model="gpt-4o", budget=SMALL)
        shares: list[tuple[int, int]] = []
        for turn in range(40):
            if again:
                memory.close()
                memory = Memory(
                    f"sqlite:///{tmp_path / str(again)}.db", model="gpt-4o", budget=SMALL
                )
            session = memory.session("talk")
            session.user(
                f"Question {turn}: how many crates were on ship {turn * 7}? 第 {turn} 艘船呢？"
            )
            receipt = session.context().receipt
            shares.append((receipt.shared, receipt.previous))
            session.assistant(f"There were {turn} crates of lemons on board. 一共 {turn} 箱。" * 3)
        memory.close()
        told[again] = shares
    assert told[True] == told[False]
    assert told[True][0] == (0, 0)
    assert any(shared < previous for shared, previous in told[True]), "a fold changed the prefix"


def test_a_second_handle_compares_with_the_call_of_the_first() -> None:
    with Memory("sqlite://", model="gpt-4o", budget=SMALL) as memory:
        first, second = memory.session("talk"), memory.session("talk")
        first.system("You are careful.")
        first.user("Hello. 你好。")
        tokens = first.context().receipt.tokens
        second.assistant("Good day.")
        second.user("How are you?")
        receipt = second.context().receipt
        assert 0 < receipt.shared == receipt.previous < tokens
