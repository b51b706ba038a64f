"""Who answers in the terminal: a model where there is one, the memory itself where there is none.

Without a model the chat is a notebook that can be asked: what is typed is kept, and a question is answered by quoting
what was said before, with its place. That needs no network and no key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from turnfold.agent import Agent, Event, Sending, TextCame
from turnfold.errors import InvalidOption
from turnfold.memory import Memory
from turnfold.models import Anthropic, ChatModel, OpenAIChat
from turnfold.window import Receipt

__all__ = ("Answerer", "ModelAnswers", "Quoted", "Quotes", "pick_model")


def pick_model(
    name: str | None, base_url: str | None, environment: Mapping[str, str] = os.environ
) -> ChatModel | None:
    """The model to talk to: the one named, or TURNFOLD_MODEL's; None when neither is."""
    chosen = name or environment.get("TURNFOLD_MODEL", "")
    if not chosen:
        if base_url:
            raise InvalidOption("--base-url says where the model is, not which: give --model too")
        return None
    if chosen.startswith("claude") and base_url is None:
        return Anthropic(chosen)
    # Servers on one's own machine ask for no key, and the SDK refuses to start without one.
    key = environment.get("OPENAI_API_KEY") or ("none" if base_url else None)
    return OpenAIChat(chosen, base_url=base_url, api_key=key)


@dataclass(frozen=True, slots=True)
class Quoted:
    """What the memory said before, with its place."""

    seq: int
    role: str
    text: str


@dataclass(slots=True)
class ModelAnswers:
    """Answers by a model, through the agent loop."""

    memory: Memory
    model: ChatModel
    system: str
    on_text: Callable[[str], None]
    _receipts: list[Receipt] = field(default_factory=list[Receipt])

    @property
    def receipt(self) -> Receipt | None:
        """The account of the last call."""
        return self._receipts[-1] if self._receipts else None

    def answer(self, conversation: str, text: str) -> str:
        """Say it to the model; the answer, after its pieces went to `on_text`."""
        agent = Agent(self.memory, self.model, system=self.system, on_event=self._heard)
        return agent.run(conversation, text).text

    def _heard(self, event: Event) -> None:
        if isinstance(event, TextCame):
            self.on_text(event.text)
        elif isinstance(event, Sending):
            self._receipts[:] = [event.context.receipt]


@dataclass(slots=True)
class Quotes:
    """Answers without a model: keeps what is typed, quotes what matches it."""

    memory: Memory
    limit: int = 3
    receipt: Receipt | None = None
    quoted: tuple[Quoted, ...] = ()
    """What the last answer quoted."""

    def answer(self, conversation: str, text: str) -> str:
        """What was said before that matches; it is kept for later all the same."""
        session = self.memory.session(conversation)
        found = session.recall(text, limit=self.limit) if text.strip() else []
        session.user(text)
        self.receipt = session.context().receipt
        self.quoted = tuple(Quoted(hit.seq, hit.message.role, hit.message.text) for hit in found)
        return "\n".join(f"#{each.seq} {each.role}: {each.text}" for each in self.quoted)


Answerer = ModelAnswers | Quotes
