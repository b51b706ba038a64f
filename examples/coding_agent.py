"""A coding agent with an undo history: every turn keeps a snapshot of the files, and files are read once.

    python -m examples.coding_agent ./project "Rename utils.add to plus. 把 utils.add 改名为 plus"
    python -m examples.coding_agent ./project --diff
    python -m examples.coding_agent ./project --restore 1

Needs `pip install ".[openai]"` and OPENAI_API_KEY. Reading a file that has not been written since is answered
from memory (a finding, a remembered tool result). Snapshots are taken before the first turn and after every turn;
`--diff` shows what the last turn changed, `--restore N` writes the files of snapshot N back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from turnfold import Budget, Memory, OpenAIChat, Session
from turnfold.agent import Agent, as_tool
from turnfold.findings import FindingRule
from turnfold.records import Snapshot

MODEL = os.environ.get("TURNFOLD_MODEL", "gpt-4o")
STORE = os.environ.get("TURNFOLD_STORE", "sqlite:///coding.db")
SESSION = "coding"


def files_of(folder: Path) -> dict[str, str]:
    """Return the text files of the folder by their path."""
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in {".md", ".py", ".toml", ".txt"}
    }


def tools_of(folder: Path) -> tuple[Callable[..., str], Callable[..., str], Callable[..., str]]:
    """Return the functions that the model may call; a path outside the folder is an error to it."""

    def inside(path: str) -> Path:
        place = (folder / path).resolve()
        if not place.is_relative_to(folder.resolve()):
            raise ValueError(f"{path} is outside the project")
        return place

    def list_files() -> str:
        """List the files of the project."""
        return "\n".join(files_of(folder))

    def read_file(path: str) -> str:
        """Read a file of the project."""
        return inside(path).read_text("utf-8")

    def write_file(path: str, content: str) -> str:
        """Write a file of the project."""
        inside(path).write_text(content, "utf-8")
        return f"wrote {path}"

    return list_files, read_file, write_file


def work(memory: Memory, model: OpenAIChat, folder: Path, said: str) -> str:
    """Do one turn, and keep the files as they are afterwards."""
    list_files, read_file, write_file = tools_of(folder)
    once = FindingRule("read_file", serve=True, invalidated_by=("write_file",))
    tools = [as_tool(list_files), as_tool(read_file, remember=once), as_tool(write_file)]
    session = memory.session(SESSION)
    if not session.snapshots.newest():
        session.snapshots.take(Snapshot(files=files_of(folder), summary="as it was found"))
    agent = Agent(memory, model, tools=tools, system="You are a careful programmer.")
    answer = agent.run(SESSION, said).text
    session.snapshots.take(Snapshot(files=files_of(folder), summary=answer))
    return answer


def restore(session: Session, folder: Path, turn: int) -> str:
    """Write the files of a snapshot back; files that it does not have stay."""
    paths = session.snapshots.files(turn)
    for path in paths:
        (folder / path).write_text(str(session.snapshots.read(turn, path)), "utf-8")
    return f"restored {len(paths)} files of snapshot {turn}"


def main(arguments: Sequence[str]) -> None:
    """Run one command."""
    if not arguments:
        sys.exit(__doc__)
    place, *words = arguments
    folder = Path(place)
    with Memory(STORE, budget=Budget(max_tokens=16_000)) as memory:
        session = memory.session(SESSION)
        match words:
            case ["--diff"]:
                turn = session.snapshots.newest()
                print(session.snapshots.diff(turn - 1, turn).text if turn > 1 else "no turn yet")
            case ["--restore", turn]:
                print(restore(session, folder, int(turn)))
            case [said]:
                print(work(memory, OpenAIChat(MODEL), folder, said))
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
