"""Source files that tools returned are folded to what they define, not to single lines of code."""

from __future__ import annotations

import pytest

from turnfold import Budget, Memory, assistant, tool, user
from turnfold.fold import Passage, extract_summary, passages_of
from turnfold.fold.source_outline import outlined
from turnfold.records import ToolCall

PYTHON = """import re

MOST_TRIES = 5
_TIMEOUT: float = 2.5  # seconds


class Upload:
    def start(self, name): ...
    async def retry(self): ...


def checksum(data):
    total = 0
    return total
"""
TYPESCRIPT = """import x from "y";
export interface Cart {
  id: string;
}
export const LIMIT = 30;
export const total = (cart: Cart): number => 0;
export default async function pay(c: Cart) {
  return c;
}
"""
GO = """package pkg

type Store struct {
	n int
}

func (s *Store) Get(k string) int {
	return s.n
}

func New() *Store {
	return nil
}
"""
ELIXIR = """defmodule Hotel.Room do
  @nights 14

  def free?(room) do
    room.free
  end

  defp price(room) do
    room.price
  end
end
"""
RUST = """pub const MAX: usize = 8;

pub struct Page {
    n: u32,
}

impl Page {
    pub fn turn(&mut self) {
        self.n += 1;
    }
}
"""
SAMPLES = {
    "app/upload.py": (PYTHON, "MOST_TRIES = 5, _TIMEOUT = 2.5, Upload, start, retry, checksum"),
    "web/cart.ts": (TYPESCRIPT, "LIMIT = 30, Cart, total, pay"),
    "pkg/store.go": (GO, "Store, Get, New"),
    "lib/room.ex": (ELIXIR, "@nights = 14, Hotel.Room, free?, price"),
    "src/lib.rs": (RUST, "MAX = 8, Page, turn"),
}


def _listed(text: str, first: int = 1, mark: str = "→") -> str:
    return "\n".join(f"{at:6d}{mark}{line}" for at, line in enumerate(text.splitlines(), first))


def _outline(file: str, text: str, *, root: str = "", chinese: bool = False) -> str:
    return outlined(Passage("tool:read", text, 1, file=file), root=root, chinese=chinese).text


@pytest.mark.parametrize("file", SAMPLES)
def test_the_outline_has_the_definitions_in_order_and_constants_with_values(file: str) -> None:
    text, names = SAMPLES[file]
    last = len(text.splitlines())
    assert _outline(file, text) == f"{file} (lines 1-{last}) defines {names}"
    assert _outline(file, _listed(text)) == f"{file} (lines 1-{last}) defines {names}"
    assert _outline(file, _listed(text, 301, "\t")).startswith(f"{file} (lines 301-{300 + last})")


def test_in_chinese_and_without_the_common_folder() -> None:
    file = "/srv/shop/app/upload.py"
    assert _outline(file, PYTHON, root="/srv/shop", chinese=True) == (
        "app/upload.py（第 1-14 行）定义了 MOST_TRIES = 5、_TIMEOUT = 2.5、Upload、start、retry、checksum"
    )


def test_many_definitions_are_counted() -> None:
    text = "\n".join(f"def step_{number:03d}(): ..." for number in range(120))
    found = _outline("a.py", text)
    assert found.startswith("a.py (lines 1-120) defines step_000, step_001, ")
    assert len(found) < 320
    named = found.count("step_")
    assert found.endswith(f" and {120 - named} more")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("notes.md", "# Plan\n" + "The launch is on 4 May.\n" * 12),
        ("data.json", "{\n" + '  "a": 1,\n' * 12 + "}"),
        ("app/upload.py", "File does not exist."),
        ("app/upload.py", "def few(): ...\n" * 7),
        ("style.css", ".a { color: red; }\n" * 20),
        ("", PYTHON),
    ],
    ids=["prose", "data", "error", "short", "nothing defined", "no file"],
)
def test_everything_else_stays_as_it_is(file: str, text: str) -> None:
    assert _outline(file, text) == text


def test_the_outline_stays_when_its_summary_is_folded_again() -> None:
    messages = [
        user("Why does the upload stop?"),
        assistant(tool_calls=[ToolCall("c1", "read", '{"file_path": "app/upload.py"}')]),
        tool(
            _listed(PYTHON + "".join(f"x = compute(x, {at})\n" for at in range(200))),
            tool_call_id="c1",
        ),
    ]
    count = len
    summary = extract_summary(passages_of(messages, first=1), limit=700, count=count)
    assert "tool:read: app/upload.py (lines 1-214) defines MOST_TRIES = 5, " in summary
    assert "compute" not in summary
    assert extract_summary([], limit=700, count=count, previous=summary) == summary


def test_a_long_tool_loop_knows_what_was_in_the_files_it_read() -> None:
    memory = Memory(model="gpt-4o", budget=Budget(max_tokens=4_000), recall="off")
    session = memory.session("s")
    session.user("How are the parts stored?")
    for number in range(12):
        lines = [f"class Part{number}Store:", f"    def load_{number}(self): ..."]
        lines += [f"    value = other_{line}(value, {number})" for line in range(60)]
        read = ToolCall(f"c{number}", "read", f'{{"path": "app/part_{number}.py"}}')
        session.add(assistant(tool_calls=[read]))
        session.add(tool(_listed("\n".join(lines)), tool_call_id=read.id))
        session.context()
    summary = session.context().messages[0].text
    assert "part_3.py (lines 1-62) defines Part3Store, load_3" in summary
    assert "value = other" not in summary
