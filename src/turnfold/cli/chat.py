"""`turnfold chat`: a chat with a model; without a model, notes that can be searched.

Without a model, the input is stored, and the answer quotes matching earlier messages with their seq; that needs no
network and no key. A line with token figures follows each answer.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from turnfold.agent import Agent, Event, Sending, TextCame
from turnfold.budget import Budget
from turnfold.cli.store import address_of, default_store
from turnfold.errors import InvalidOption, StoreError, TurnfoldError
from turnfold.memory import Memory
from turnfold.models import ChatModel
from turnfold.stores import shown_address
from turnfold.window import Receipt

__all__ = (
    "Answerer",
    "ModelAnswers",
    "Quoted",
    "Quotes",
    "budget_line",
    "pick_model",
    "say_once",
    "talk",
)


def pick_model(
    name: str | None, base_url: str | None, environment: Mapping[str, str] = os.environ
) -> ChatModel | None:
    """Return the named model, or that of TURNFOLD_MODEL; None if neither is set."""
    chosen = name or environment.get("TURNFOLD_MODEL", "")
    if not chosen:
        if base_url:
            raise InvalidOption("--base-url needs --model, because it names only the server")
        return None
    if chosen.startswith("claude") and base_url is None:
        from turnfold.models import Anthropic

        return Anthropic(chosen)
    from turnfold.models import OpenAIChat

    # Local servers need no key, but the SDK refuses to start without one.
    key = environment.get("OPENAI_API_KEY") or ("none" if base_url else None)
    return OpenAIChat(chosen, base_url=base_url, api_key=key)


@dataclass(frozen=True, slots=True)
class Quoted:
    """An earlier message that matches the input."""

    seq: int
    role: str
    text: str


@dataclass(slots=True)
class ModelAnswers:
    """Answers with a model, through the agent loop."""

    memory: Memory
    model: ChatModel
    system: str
    on_text: Callable[[str], None]
    _receipts: list[Receipt] = field(default_factory=list[Receipt])

    @property
    def receipt(self) -> Receipt | None:
        """Receipt (context report) of the last call."""
        return self._receipts[-1] if self._receipts else None

    def answer(self, conversation: str, text: str) -> str:
        """Send a message to the model and return the answer, after streaming it to `on_text`."""
        agent = Agent(self.memory, self.model, system=self.system, on_event=self._on_event)
        return agent.run(conversation, text).text

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TextCame):
            self.on_text(event.text)
        elif isinstance(event, Sending):
            self._receipts[:] = [event.context.receipt]


@dataclass(slots=True)
class Quotes:
    """Answers without a model: stores the input and quotes matching earlier messages."""

    memory: Memory
    limit: int = 3
    receipt: Receipt | None = None
    quoted: tuple[Quoted, ...] = ()
    """The messages that the last answer quoted."""

    def answer(self, conversation: str, text: str) -> str:
        """Return matching earlier messages, and store the input."""
        session = self.memory.session(conversation)
        found = session.recall(text, limit=self.limit) if text.strip() else []
        session.user(text)
        self.receipt = session.context().receipt
        self.quoted = tuple(Quoted(hit.seq, hit.message.role, hit.message.text) for hit in found)
        return "\n".join(f"#{each.seq} {each.role}: {each.text}" for each in self.quoted)


Answerer = ModelAnswers | Quotes


_NO_MODEL = (
    "No model is configured. Name one with --model (and --base-url for a server of your own, for example "
    "--model qwen3 --base-url http://localhost:11434/v1), or set TURNFOLD_MODEL.\n"
    "Until then this works offline: what you type is kept, and matching passages are quoted. "
    "未配置模型：输入会被保存，并引用匹配的旧内容。"
)
_PROMPT = "> "


def talk(
    *,
    model: str | None,
    base_url: str | None,
    store: str | None,
    session: str | None,
    system: str,
    tokens: int | None,
) -> None:
    """Chat until the input ends."""
    console = Console(highlight=False, soft_wrap=True)
    chosen = pick_model(model, base_url)
    conversation = session or uuid.uuid4().hex[:8]
    with _memory(store, chosen, tokens) as memory:
        answerer = _answerer(memory, chosen, system, console)
        if chosen is None:
            console.print(Text(_NO_MODEL, style="yellow"))
        known = memory.session(conversation).status().entries
        console.print(
            Text(f"session {conversation} ({known} entries); Ctrl-D ends it", style="dim")
        )
        for line in _lines(console):
            _one_turn(console, answerer, conversation, line)
        shown = {"base-url": base_url, "store": store}
        addresses = {name: shown_address(each) if each else None for name, each in shown.items()}
        again = _resume_command(conversation, {"model": model, **addresses})
        console.print(Text(f"\nto continue: {again}", style="dim"))


def say_once(
    text: str,
    *,
    model: str | None,
    base_url: str | None,
    store: str | None,
    session: str | None,
    system: str,
    tokens: int | None,
) -> str:
    """Run one turn and return the result as JSON."""
    chosen = pick_model(model, base_url)
    conversation = session or uuid.uuid4().hex[:8]
    with _memory(store, chosen, tokens) as memory:
        answerer = (
            Quotes(memory)
            if chosen is None
            else ModelAnswers(memory, chosen, system, on_text=lambda _: None)
        )
        answer = answerer.answer(conversation, text)
        receipt = answerer.receipt
        return json.dumps(
            {
                "session": conversation,
                "model": chosen.name if chosen else None,
                "answer": answer,
                "tokens": receipt.tokens if receipt else 0,
                "allowed": receipt.allowed if receipt else 0,
                "messages": receipt.messages if receipt else 0,
                "prefix_share": receipt.prefix_share if receipt else 1.0,
                "changes": [str(change) for change in receipt.changes] if receipt else [],
            },
            ensure_ascii=False,
        )


def budget_line(receipt: Receipt) -> str:
    """Return the token figures of a call in one line."""
    share = f", {receipt.prefix_share:.0%} of the last prompt kept" if receipt.previous else ""
    return f"{receipt}{share}"


def _resume_command(conversation: str, given: Mapping[str, str | None]) -> str:
    """Return the command that continues a session, with its store."""
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items() if value)
    return f"turnfold chat{options} --session {shlex.quote(conversation)}"


def _memory(store: str | None, model: ChatModel | None, tokens: int | None) -> Memory:
    budget = Budget(max_tokens=tokens) if tokens else None
    name = model.name if model and _is_known(model.name) else ""
    return Memory(address_of(store) if store else default_store(), model=name, budget=budget)


def _is_known(name: str) -> bool:
    from turnfold.tokens import find_model

    return find_model(name) is not None


def _answerer(memory: Memory, model: ChatModel | None, system: str, console: Console) -> Answerer:
    if model is None:
        return Quotes(memory)
    return ModelAnswers(
        memory, model, system, on_text=lambda text: console.print(text, end="", markup=False)
    )


def _one_turn(console: Console, answerer: Answerer, conversation: str, line: str) -> None:
    try:
        answer = answerer.answer(conversation, line)
    except StoreError:
        raise  # nothing can be stored: end instead of pretending to
    except TurnfoldError as error:
        console.print(Text(f"{type(error).__name__}: {error}", style="red"))
        return
    except KeyboardInterrupt:
        console.print(Text("\n(stopped; your message is stored)", style="yellow"))
        return
    if isinstance(answerer, Quotes):
        console.print(Text(answer or "(no matching earlier message; stored)"))
    else:
        console.print()
    if answerer.receipt is not None:
        console.print(Text(budget_line(answerer.receipt), style="dim"))


def _lines(console: Console) -> Iterator[str]:
    interactive = sys.stdin.isatty()
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # invalid bytes become replacement characters
    while True:
        if interactive:
            console.print(_PROMPT, end="")
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            return
        if not line:
            return
        if line.strip():
            yield line.rstrip("\n")
