"""The chat itself: lines in, answers out, the budget line under each."""

from __future__ import annotations

import json
import shlex
import sys
import uuid
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from turnfold.budget import Budget
from turnfold.cli.chat.answering import Answerer, ModelAnswers, Quotes, pick_model
from turnfold.cli.store_address import default_store
from turnfold.errors import StoreError, TurnfoldError
from turnfold.memory import Memory
from turnfold.models import ChatModel
from turnfold.stores.addresses import shown_address
from turnfold.window import Receipt

__all__ = ("budget_line", "default_store", "say_once", "talk")

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
    """Talk until the input ends."""
    console = Console(highlight=False, soft_wrap=True)
    chosen = pick_model(model, base_url)
    conversation = session or uuid.uuid4().hex[:8]
    with _memory(store, chosen, tokens) as memory:
        answerer = _answerer(memory, chosen, system, console)
        if chosen is None:
            console.print(Text(_NO_MODEL, style="yellow"))
        known = memory.session(conversation).status().entries
        console.print(
            Text(f"session {conversation} ({known} entries); ends with Ctrl-D", style="dim")
        )
        for line in _lines(console):
            _one_turn(console, answerer, conversation, line)
        shown = {"base-url": base_url, "store": store}
        addresses = {name: shown_address(each) if each else None for name, each in shown.items()}
        again = _to_go_on(conversation, {"model": model, **addresses})
        console.print(Text(f"\nto go on: {again}", style="dim"))


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
    """One turn, as JSON."""
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
    """What the call spent, in a line."""
    share = f", {receipt.prefix_share:.0%} of the last prompt kept" if receipt.previous else ""
    return f"{receipt}{share}"


def _to_go_on(conversation: str, given: Mapping[str, str | None]) -> str:
    """The command that goes on with a session: where it is kept belongs to it."""
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items() if value)
    return f"turnfold chat{options} --session {shlex.quote(conversation)}"


def _memory(store: str | None, model: ChatModel | None, tokens: int | None) -> Memory:
    budget = Budget(max_tokens=tokens) if tokens else None
    name = model.name if model and _is_known(model.name) else ""
    return Memory(store or default_store(), model=name, budget=budget)


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
        raise  # nothing can be kept: better to end than to seem to listen
    except TurnfoldError as error:
        console.print(Text(f"{type(error).__name__}: {error}", style="red"))
        return
    except KeyboardInterrupt:
        console.print(Text("\n(stopped; what you said is kept)", style="yellow"))
        return
    if isinstance(answerer, Quotes):
        console.print(Text(answer or "(nothing like it was said before; kept)"))
    else:
        console.print()
    if answerer.receipt is not None:
        console.print(Text(budget_line(answerer.receipt), style="dim"))


def _lines(console: Console) -> Iterator[str]:
    interactive = sys.stdin.isatty()
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # bytes that are no text are shown as such
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
