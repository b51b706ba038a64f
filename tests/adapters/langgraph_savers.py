"""Checkpoints made by hand, and what a saver has of them."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint

from turnfold import Memory
from turnfold.adapters.langchain.checkpoints.documents import (
    CHECKPOINT,
    BodyCodec,
    BodySeal,
    DocumentPlace,
)
from turnfold.records import Document
from turnfold.runtime import drive

BODIES = BodyCodec(BodySeal(key=None, max_bytes=1 << 30))
"""Makes bodies like the saver's own, with a good checksum: anybody can."""


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
    names = [info.conversation for info in memory.conversations(internal=True)]
    return [name for name in names if not name.endswith(":threads")]


def place_of(home: str, document: Document) -> DocumentPlace:
    return DocumentPlace(home, document.kind, document.key)


def checkpoint_documents(memory: Memory, home: str) -> list[Document]:
    """The documents of the checkpoints of a thread, newest first."""
    return list(drive(memory.awaiting.store.documents(memory.awaiting.scope, home, CHECKPOINT)))


def put_body(memory: Memory, home: str, document: Document, body: bytes) -> None:
    """Write a document as somebody does who has the database."""
    new = Document(document.kind, document.key, body, 0)
    drive(memory.awaiting.store.put_document(memory.awaiting.scope, home, new))
