"""The invented conversation that the demo replays; it is part of the package.

A shop moves its warehouse within two weeks; the operations lead and an agent plan it in English and Chinese. The rules
she sets ("never ...", "不要……") are marked in the `metadata` of their message, which is stored and never sent: the
replay pins those sentences verbatim.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import cast

from turnfold.records import Message, as_messages

__all__ = (
    "Sample",
    "load_sample",
    "pinned_by",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A conversation and the tools its agent has."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, object], ...]

    @property
    def talk(self) -> int:
        """Number of messages other than system messages."""
        return sum(message.role != "system" for message in self.messages)

    @property
    def calls(self) -> int:
        """Number of model calls: one per assistant message."""
        return sum(message.role == "assistant" for message in self.messages)

    @property
    def turns(self) -> int:
        """Number of user messages."""
        return sum(message.role == "user" for message in self.messages)

    @property
    def rules(self) -> tuple[str, ...]:
        """The sentences that the demo pins for the whole conversation, in order."""
        return tuple(rule for message in self.messages for rule in pinned_by(message))


def load_sample() -> Sample:
    """Load the conversation and the tool schemas shipped with turnfold."""
    folder = files("turnfold.cli.demo")
    lines = folder.joinpath("conversation.jsonl").read_text(encoding="utf-8").splitlines()
    tools = json.loads(folder.joinpath("tools.json").read_text(encoding="utf-8"))
    return Sample(
        messages=tuple(as_messages(json.loads(line) for line in lines)),
        tools=tuple(cast("list[dict[str, object]]", tools)),
    )


def pinned_by(message: Message) -> list[str]:
    """Return the sentences of a message to pin for the whole conversation."""
    return cast("list[str]", message.metadata.get("pin", []))
