"""A workspace brought back by turn, id, path and lines, keywords: the right one, within its tokens, on every store."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.workspaces import kept_store, made_files, snapshots_in, token_count
from tests.sizes import examples
from turnfold.records import Snapshot
from turnfold.stores import MemoryStore, Store
from turnfold.workspace_snapshots import Snapshots

__all__ = ("kept_store",)


def filled(store: Store) -> Snapshots:
    handle = snapshots_in(store)
    handle.take(
        Snapshot(
            context="Files: main.ts\nState: initialized",
            files={"main.ts": "import utils\n" * 3, "说明.md": "入口是主模块\n请求超时为四十秒"},
            state={"initialized": True},
            summary="分析了代码库结构",
        )
    )
    handle.take(
        Snapshot(
            context="Files: main.ts, benchmark.ts",
            files={
                "main.ts": "import utils\n" * 3,
                "benchmark.ts": "const timeout = 40_000\nrun()",
            },
            summary="发现性能瓶颈",
            insights=("the parser takes 80 %",),
        )
    )
    handle.take(
        Snapshot(context="Files: main.ts", files={"main.ts": "import fast"}, summary="实施了优化")
    )
    return handle


def test_by_turn_number_and_by_id(kept_store: Store) -> None:
    handle = filled(kept_store)
    two = handle.recall({"turnNumbers": [2]})
    assert two.turns == (2,)
    assert "Files: main.ts, benchmark.ts" in two.text
    assert "const timeout = 40_000\nrun()" in two.text
    assert not two.cut
    assert handle.recall({"context_ids": list(two.context_ids)}).text == two.text
    both = handle.recall({"turn_numbers": [3, 1]})
    assert both.turns == (3, 1)
    assert "[Turn 1]" in both.text
    assert "分析了代码库结构" in both.text


@pytest.mark.parametrize(
    ("words", "turn", "shown"),
    [
        (["benchmark"], 2, "const timeout"),
        (["超时"], 1, "请求超时为四十秒"),
        (["超時"], 1, "请求超时为四十秒"),
        (["瓶颈"], 2, "发现性能瓶颈"),
        (["parser"], 2, "benchmark.ts"),
        (["initialized"], 1, "State: initialized"),
        (["说明.md"], 1, "说明.md"),
    ],
)
def test_by_keywords_in_both_languages(
    kept_store: Store, words: list[str], turn: int, shown: str
) -> None:
    found = filled(kept_store).recall({"keywords": words})
    assert found.turns[:1] == (turn,)
    assert shown in found.text


def test_by_what_they_link_to(kept_store: Store) -> None:
    handle = snapshots_in(kept_store)
    first = handle.take(Snapshot(context="one", links=("TICKET-42", "工单-7")))
    handle.take(Snapshot(context="about TICKET-42 without a link"))
    third = handle.take(Snapshot(context="three", links=("TICKET-42", first.id)))
    assert set(handle.recall({"context_ids": ["TICKET-42"]}).turns) == {1, 3}
    assert handle.recall({"context_ids": ["工单-7"]}).context_ids == (first.id,)
    assert handle.recall({"context_ids": [first.id]}).turns == (1,)
    assert handle.recall({"context_ids": [third.id, "TICKET-1"]}).turns == (3,)


def test_by_path_and_lines() -> None:
    handle = snapshots_in(MemoryStore())
    text = "\n".join(f"line {number}" for number in range(1, 501))
    handle.take(Snapshot(files={"a.py": text, "b.py": "other"}, context="one\ntwo\nthree"))
    part = handle.recall({"turn_numbers": [1], "path": "a.py", "lines": [100, 102]})
    assert "lines 100 to 102 of 500\nline 100\nline 101\nline 102" in part.text
    assert "line 103" not in part.text
    assert not part.cut
    assert "two\nthree" in handle.recall({"turn_numbers": [1], "lines": [2, 9]}).text
    assert "other" in handle.recall({"path": "b.py"}).text  # the newest turn
    beyond = handle.recall({"path": "b.py", "lines": [7, 9]})
    assert "has 1 lines, none from 7 on" in beyond.text


def test_the_rest_of_a_cut_is_reached_by_the_questions_it_gives() -> None:
    handle = snapshots_in(MemoryStore())
    lines = [f"line {number} 第{number}行" for number in range(1, 301)]
    handle.take(Snapshot(files={"a.py": "\n".join(lines)}))
    asked: dict[str, object] = {"turn_numbers": [1], "path": "a.py"}
    seen: list[str] = []
    for _ in range(60):
        found = handle.recall(asked, tokens=400)
        assert found.tokens == token_count(found.text) <= 400
        seen += re.findall(r"^line \d+ 第\d+行$", found.text, re.MULTILINE)
        more = re.search(r"recall_context\((\{.*\})\)", found.text)
        assert found.cut == bool(more)
        if not more:
            break
        asked = json.loads(more[1])
    assert seen == lines


def test_what_is_not_there_is_said() -> None:
    handle = filled(MemoryStore())
    assert (
        "no workspace was kept of turn 9; the newest is turn 3"
        in handle.recall({"turn_numbers": [9]}).text
    )
    assert (
        "no context 'ctx_2_000000000000'"
        in handle.recall({"context_ids": ["ctx_2_000000000000"]}).text
    )
    assert "no context 'rubbish'" in handle.recall({"context_ids": ["rubbish"]}).text
    assert (
        "has no file 'x'; it has benchmark.ts, main.ts"
        in handle.recall({"turn_numbers": [2], "path": "x"}).text
    )
    assert "nothing was found for 'nowhere'" in handle.recall({"keywords": ["nowhere"]}).text
    assert "none was kept yet" in snapshots_in(MemoryStore()).recall({"path": "x"}).text
    mixed = handle.recall({"turn_numbers": [9, 2]})
    assert mixed.turns == (2,)
    assert "turn 9" in mixed.text


def test_of_a_large_workspace_the_files_are_named_and_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = snapshots_in(MemoryStore())
    handle.take(Snapshot(context="the view", files=made_files(60, 4_000)))
    read: list[str] = []
    contents = handle.awaiting._storage.contents

    async def noted(items: list[object]) -> list[bytes]:
        read.extend(getattr(item, "path", "") for item in items)
        return await contents(items)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(handle.awaiting._storage, "contents", noted)
    found = handle.recall({"turn_numbers": [1]}, tokens=2_000)
    assert read == [""]
    assert "the view" in found.text
    assert "src/part000.py (" in found.text
    assert "and 20 more" in found.text


@given(
    st.integers(64, 2_000),
    st.sampled_from(
        [
            {"turn_numbers": [1, 2, 3]},
            {"keywords": ["预算", "window"]},
            {"turn_numbers": [2], "path": "src/part001.md"},
            {"turn_numbers": [2], "path": "src/part001.md", "lines": [5, 400]},
            {"turn_numbers": [2], "keywords": ["快照"]},
            {"turn_numbers": [7, 8], "context_ids": ["x" * 400]},
        ]
    ),
)
@examples(60)
def test_never_more_than_allowed(tokens: int, asked: dict[str, object]) -> None:
    found = FULL.recall(asked, tokens=tokens)
    assert token_count(found.text) <= tokens
    assert found.tokens == token_count(found.text)
    assert found.text


FULL = snapshots_in(MemoryStore())
for _turn in range(3):
    FULL.take(
        Snapshot(
            context="视图 view\n" * 80, files=made_files(4, 6_000, seed=_turn), summary="总结" * 30
        )
    )


def test_text_that_was_too_much_to_index_is_told() -> None:
    handle = snapshots_in(MemoryStore())
    rows = "\n".join(f"row {number} 数据" for number in range(40_000))
    handle.take(Snapshot(files={"big.txt": f"needle\n{rows}"}))
    found = handle.recall({"keywords": ["needle"]})
    assert "characters of turn 1 are not indexed" in found.text
