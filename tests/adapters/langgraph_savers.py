"""Checkpoints made by hand, and what a saver has of them."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint

from turnfold import Memory


def put(saver: BaseCheckpointSaver[Any], words: list[str], parent: Any = None) -> Any:
    config: Any = parent or {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    checkpoint: Any = {
        **empty_checkpoint(),
        "channel_values": {"words": words},
        "channel_versions": {"words": len(words)},
    }
    return saver.put(config, checkpoint, {}, {"words": len(words)})


def newest_words(saver: BaseCheckpointSaver[Any]) -> list[str]:
    found = saver.get_tuple({"configurable": {"thread_id": "t"}})
    return found.checkpoint["channel_values"]["words"] if found else []


WORDS = [f"word {number} " * 20 for number in range(40)]


def homes_of(memory: Memory) -> list[str]:
    names = [info.conversation for info in memory.conversations()]
    return [name for name in names if not name.endswith(":threads")]
