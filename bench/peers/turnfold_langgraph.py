"""turnfold as LangGraph's saver: `TurnfoldSaver` on a SQLite file, in an environment that has both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from bench.checkpoint_bytes import held_by
from bench.contender import Checkpointed
from turnfold import Memory
from turnfold.adapters.langchain import TurnfoldSaver

__all__ = ("CHECKPOINTED", "NEEDS")

NEEDS = ("langchain==1.4.7", "langgraph==1.2.20", "langgraph-checkpoint==4.3.1", "--editable=.")


@contextmanager
def _saver(path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    with Memory(f"sqlite:///{path}") as memory:
        yield TurnfoldSaver(memory)


CHECKPOINTED = (
    Checkpointed(
        name="turnfold TurnfoldSaver",
        package="turnfold",
        hold=held_by(_saver),
        note="each version of a channel as its difference from an earlier one",
        ours=True,
    ),
)
