"""`turnfold chat`: a chat with a model; without a model, notes that can be searched.

Without a model, the input is stored, and the answer quotes matching earlier messages with their seq; that needs no
network and no key, and no context is built. A line with token figures follows each answer of a model.

A line that begins with a slash and a word is a command (`/help` lists them). In a terminal lines can be edited, and the
arrow keys bring back earlier user messages. These are read from the session; no history file is written.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from rich.console import Console
from rich.text import Text

from turnfold.agent import Agent, Event, Sending, TextCame
from turnfold.budget import Budget
from turnfold.cli.chinese_labels import (
    colon,
    is_chinese,
    known_label,
    label,
    message_text,
    translated,
    with_singulars,
)
from turnfold.cli.exit_codes import ExitCode, error_text
from turnfold.cli.export_and_import import removing_new_store
from turnfold.cli.store_and_session_lookup import (
    LAST,
    Opened,
    address_of,
    counter_of,
    default_store,
    encryption_keys,
    file_of,
    find_session,
    open_at,
    time_zone,
)
from turnfold.cli.tables_and_progress_bars import printable, without_controls
from turnfold.errors import InvalidOption, NotFound, StoreError, TurnfoldError
from turnfold.memory import Memory, Session
from turnfold.models import ChatModel
from turnfold.records import Message, user
from turnfold.rules import StandingRule
from turnfold.runtime import drive
from turnfold.stores import is_blank, shown_address
from turnfold.text import distinct_terms
from turnfold.tokens import TokenCounter
from turnfold.window import Outcome, Receipt

__all__ = (
    "Answerer",
    "ChatCommands",
    "ModelAnswers",
    "Quoted",
    "Quotes",
    "budget_line",
    "pick_model",
    "say_once",
    "shown_answer",
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
    if base_url and not base_url.startswith(("http://", "https://")):
        raise InvalidOption(
            f"--base-url {shown_address(base_url)} has no scheme: use http://{shown_address(base_url)}"
        )
    if chosen.startswith("claude") and base_url is None:
        from turnfold.models import Anthropic

        _require_key(chosen, "ANTHROPIC_API_KEY", environment)
        return Anthropic(chosen)
    from turnfold.models import OpenAIChat

    if base_url is None:
        _require_key(chosen, "OPENAI_API_KEY", environment)
    # Local servers need no key, but the SDK refuses to start without one.
    key = environment.get("OPENAI_API_KEY") or ("none" if base_url else None)
    return OpenAIChat(chosen, base_url=base_url, api_key=key)


def _require_key(model: str, name: str, environment: Mapping[str, str]) -> None:
    """Raise `InvalidOption` if the provider's SDK has no credentials, before anything is typed.

    An SDK may find credentials other than the key `name`: in a variable whose name begins the same, or in the folder of
    Anthropic's profiles.
    """
    provider = name.partition("_")[0]
    credentials = ("KEY", "TOKEN", "PROFILE", "CONFIG_DIR", "ID")
    if any(
        value and each.startswith(f"{provider}_") and each.endswith(credentials)
        for each, value in environment.items()
    ):
        return
    if provider == "ANTHROPIC" and (Path.home() / ".config" / "anthropic").exists():
        return
    raise InvalidOption(
        f"{model} needs a key: set {name}, or name a server of your own with --base-url; without --model, chat works "
        "offline"
    )


@dataclass(frozen=True, slots=True)
class Quoted:
    """An earlier message that matches the user's input, quoted in a chat without a model."""

    seq: int
    role: str
    text: str


@dataclass(slots=True)
class ModelAnswers:
    """Answers a chat with a model, through the agent loop."""

    memory: Memory
    model: ChatModel
    system: str
    on_text: Callable[[str], None]
    client_id: str = ""
    """Client id of the message that was last sent to the model."""
    _receipts: list[Receipt] = field(default_factory=list[Receipt])

    @property
    def receipt(self) -> Receipt | None:
        """Receipt (context report) of the last call."""
        return self._receipts[-1] if self._receipts else None

    def answer(self, conversation: str, text: str) -> str:
        """Send a message to the model and return the answer, after streaming it to `on_text`."""
        agent = Agent(self.memory, self.model, system=self.system, on_event=self._on_event)
        self.client_id = _unanswered(self.memory.session(conversation), text) or _new_id()
        return agent.run(conversation, text, client_id=self.client_id).text

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TextCame):
            self.on_text(event.text)
        elif isinstance(event, Sending):
            self._receipts[:] = [event.context.receipt]


@dataclass(slots=True)
class Quotes:
    """Answers a chat without a model: stores the input and quotes matching earlier messages."""

    memory: Memory
    limit: int = 3
    client_id: str = ""
    """Client id of the message that was stored last."""
    quoted: tuple[Quoted, ...] = ()
    """The messages that the last answer quoted."""

    @property
    def receipt(self) -> None:
        """None: no model is called, so there is no context report."""

    def answer(self, conversation: str, text: str) -> str:
        """Store the user's message, and return the earlier messages that match it as text."""
        session = self.memory.session(conversation)
        found = session.recall(text, limit=self.limit) if text.strip() else []
        self.client_id = _new_id()
        session.user(text, client_id=self.client_id)
        self.quoted = tuple(Quoted(hit.seq, hit.message.role, hit.message.text) for hit in found)
        return "\n".join(
            f"#{each.seq} {known_label(each.role)}{colon()}{each.text}" for each in self.quoted
        )


Answerer = ModelAnswers | Quotes


def _new_id() -> str:
    return f"{_CLIENT}{uuid.uuid4().hex}"


def _unanswered(session: Session, text: str) -> str:
    """Return the client id of the newest message if it is the same text and the model failed to answer it.

    Sending it again then continues that turn instead of storing the text a second time. Empty if there is none.
    """
    newest = session.history(after=max(session.status().entries - 1, 0), limit=1)
    if not newest or newest[0].message != user(text) or not newest[0].client_id.startswith(_CLIENT):
        return ""
    return newest[0].client_id


_NO_MODEL = (
    "No model is configured. Name one with --model (and --base-url for a server of your own, for example "
    "--model qwen3 --base-url http://localhost:11434/v1), or set TURNFOLD_MODEL.\n"
    "Until then this works offline: what you type is kept, and matching passages are quoted. Each start is a session "
    "of its own; turnfold chat @last goes on in the last one."
)
_PROMPT = "> "
_CLIENT = "chat-"
"""Beginning of the client ids of messages that a chat with a model sends."""
_COMMAND = re.compile(r"[/／](?:[^\W\d_]*|[?？])")
"""Matches a line's first word if it is a command: a slash and letters of any script, or a slash alone."""
_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("/", "/?", "/？", "/帮助", "/命令"), "/help"),
    **dict.fromkeys(("/log", "/messages", "/show", "/历史", "/记录"), "/history"),
    **dict.fromkeys(("/budget", "/status", "/tokens", "/上下文", "/预算"), "/context"),
    **dict.fromkeys(("/find", "/search", "/召回", "/搜索", "/查找"), "/recall"),
    **dict.fromkeys(("/remember", "/固定", "/记住"), "/pin"),
    **dict.fromkeys(("/规则",), "/rules"),
    **dict.fromkeys(("/compact", "/summarize", "/折叠", "/压缩"), "/fold"),
    **dict.fromkeys(("/resume", "/switch", "/会话", "/切换"), "/session"),
    **dict.fromkeys(("/clear", "/reset", "/新建", "/新会话"), "/new"),
    **dict.fromkeys(("/bye", "/exit", "/q", "/退出", "/结束", "/再见"), "/quit"),
}
"""Other names that users type for a command, those of other chats and Chinese ones among them -> the command."""
_OUTSIDE = frozenset(
    "audit checkpoints delete diff eval explain export fork lint replay top unpin".split()
)
"""Commands of the shell that users also look for in the chat; the answer names the whole command."""
_ALIKE = 0.7
"""Similarity (0 to 1) from which an unknown chat command such as /exlain is taken for a mistyped known one; /explain
and /pin have 0.67."""
_REMEMBERED = 400
"""Number of newest log entries whose user messages can be brought back with the arrow keys."""


def talk(
    *,
    model: str | None,
    base_url: str | None,
    store: str | None,
    session: str | None,
    system: str,
    tokens: int | None,
) -> None:
    """Run a chat on the terminal until the input ends."""
    console = Console(highlight=False, soft_wrap=True)
    chosen = pick_model(model, base_url)
    _check_budget(chosen, tokens, system, "")
    address = address_of(store) if store else default_store()
    with (
        removing_new_store(address, keep=False),  # if nothing was said
        _memory(store, chosen, tokens, session) as memory,
    ):
        conversation = _conversation(memory, session)
        answerer = _answerer(memory, chosen, system, console)
        if chosen is None:
            console.print(Text(translated(_NO_MODEL), style="yellow"))
        shown = {"base-url": base_url, "store": store}
        addresses = {name: shown_address(each) if each else None for name, each in shown.items()}
        commands = ChatCommands(memory, console, conversation, store=addresses["store"])
        commands.announce()
        failed = False
        for line in _lines(console, commands):
            if not commands.run(line):
                text = line.removeprefix("/") if line.startswith("//") else line
                if not _one_turn(console, answerer, commands.conversation, text):
                    failed = True
            if commands.ended:
                break
        conversation = commands.conversation
        if not memory.session(conversation).status().entries:
            return
        again = _resume_command(conversation, {"model": model, **addresses})
        console.print(Text("\n" + translated(f"to continue: {again}"), style="dim"))
    if failed and not sys.stdin.isatty():
        # A program that pipes messages sees that one of them was not answered.
        raise SystemExit(ExitCode.FAILED)


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
    """Send one message, and return the answer as JSON; without a model, the token figures are 0.

    `stored` is the seq under which the message is stored.
    """
    chosen = pick_model(model, base_url)
    _check_budget(chosen, tokens, system, text)
    with _memory(store, chosen, tokens, session) as memory:
        conversation = _conversation(memory, session)
        answerer = (
            Quotes(memory)
            if chosen is None
            else ModelAnswers(memory, chosen, system, on_text=lambda _: None)
        )
        try:
            answer = answerer.answer(conversation, text)
        except StoreError:
            raise
        except TurnfoldError:
            if session is None and memory.session(conversation).status().entries:
                addresses = {"base-url": base_url, "store": store}
                given = {name: shown_address(each) for name, each in addresses.items() if each}
                budget = None if tokens is None else str(tokens)
                again = _resume_command(
                    conversation,
                    {"model": model, **given, "system": system, "budget": budget, "once": text},
                )
                told = translated(f"the message is stored; to send it again: {again}")
                sys.stderr.write(f"{shown_answer(told)}\n")
            raise
        receipt = answerer.receipt
        stored = memory.session(conversation).by_client_id(answerer.client_id)
        return json.dumps(
            {
                "session": conversation,
                "model": chosen.name if chosen else None,
                "answer": answer,
                "stored": stored[0].seq if stored else None,
                "tokens": receipt.tokens if receipt else 0,
                "allowed": receipt.allowed if receipt else 0,
                "messages": receipt.messages if receipt else 0,
                "prefix_share": receipt.prefix_share if receipt else 1.0,
                "changes": [str(change) for change in receipt.changes] if receipt else [],
            },
            ensure_ascii=False,
        )


def budget_line(receipt: Receipt) -> str:
    """Return one line about a call: tokens used and allowed, messages left out, share of the last prompt repeated."""
    if not is_chinese():
        share = f", {receipt.prefix_share:.0%} of the last prompt kept" if receipt.previous else ""
        return with_singulars(f"{receipt}{share}")
    counts = [
        f"{known_label(str(outcome))} {receipt.count(outcome):,}"
        for outcome in (Outcome.FOLDED, Outcome.DROPPED, Outcome.SHRUNK)
        if receipt.count(outcome) or outcome is Outcome.DROPPED
    ]
    line = (
        f"{receipt.tokens:,} / {receipt.allowed:,} token（{known_label(str(receipt.certainty))}）"
    )
    line = "，".join((f"{line}；{receipt.messages:,} 条消息", *counts))
    if receipt.wired and (changed := sum(change.times for change in receipt.changes)):
        line += f"；为 {receipt.wired.provider} 改动 {changed:,} 处"
    if receipt.previous:
        line += f"，与上次提示词相同的开头占 {receipt.prefix_share:.0%}"
    return line


def shown_answer(text: str) -> str:
    """Return an answer without characters that could control the terminal; emoji joined by U+200D are not split."""
    return without_controls(text, keep="\n\t\u200d")


def _error_line(error: TurnfoldError) -> str:
    return error_text(error) if is_chinese() else f"{type(error).__name__}: {error}"


def _resume_command(conversation: str, given: Mapping[str, str | None]) -> str:
    """Return the `turnfold chat` command that continues this session later, with its store."""
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in given.items() if value)
    return f"turnfold chat {shlex.quote(conversation)}{options}"


def _memory(
    store: str | None, model: ChatModel | None, tokens: int | None, session: str | None
) -> Memory:
    budget = Budget(max_tokens=tokens) if tokens is not None else None
    name = model.name if model and _is_known(model.name) else ""
    address = address_of(store) if store else default_store()
    counter = None if name or session is None else _counter_of(address, session)
    if model and not name:
        counter = _told_counter(model.name)
    return Memory(
        address,
        model=name,
        counter=counter,
        budget=budget,
        time_zone=time_zone(),
        encryption_key=encryption_keys(),
    )


def _told_counter(model: str) -> TokenCounter:
    """Return the counter of a model whose window is not known; say so if the model itself is not known."""
    from turnfold.tokens import counter_for, find_model

    if find_model(model) is None:
        hint = translated(f"turnfold: model {model!r} is not known: its tokens are estimates")
        sys.stderr.write(f"{hint}\n")
    return counter_for(model)


def _check_budget(model: ChatModel | None, tokens: int | None, system: str, text: str) -> None:
    """Raise `BudgetTooSmall` if not even the instructions and the text fit, before anything is stored."""
    if tokens is None:
        return
    name = model.name if model and _is_known(model.name) else ""
    with Memory(model=name, budget=Budget(max_tokens=tokens)) as memory:
        session = memory.session("budget")
        if system:
            session.system(system)
        session.user(text)
        session.preview()


def _counter_of(address: str, name: str) -> TokenCounter | None:
    """Return the token counter by which an existing session was counted, so that its entries are not counted again.

    Returns None if the store does not exist yet.
    """
    path = file_of(address)
    if path is not None and is_blank(path):
        return None
    with open_at(address, "default") as opened:
        conversation = find_session(opened, name) if name == LAST else name
        return counter_of(drive(opened.store.head(opened.scope, conversation)))


def _is_known(name: str) -> bool:
    from turnfold.tokens import find_model

    info = find_model(name)
    return info is not None and info.context_window is not None


def _answerer(memory: Memory, model: ChatModel | None, system: str, console: Console) -> Answerer:
    if model is None:
        return Quotes(memory)
    return ModelAnswers(
        memory,
        model,
        system,
        on_text=lambda text: console.print(shown_answer(text), end="", markup=False),
    )


def _one_turn(console: Console, answerer: Answerer, conversation: str, line: str) -> bool:
    """Print the answer to a message; return False if the model failed and there is no answer."""
    try:
        answer = answerer.answer(conversation, line)
    except StoreError:
        raise  # messages cannot be stored, so the chat must end
    except TurnfoldError as error:
        console.print(Text(_error_line(error), style="red"))
        return False
    except KeyboardInterrupt:
        console.print(Text("\n" + translated("(stopped; your message is stored)"), style="yellow"))
        return True
    if isinstance(answerer, Quotes):
        shown = shown_answer(answer) or translated("(no matching earlier message; stored)")
        console.print(Text(shown))
    else:
        console.print()
    if answerer.receipt is not None:
        console.print(Text(budget_line(answerer.receipt), style="dim"))
    return True


def _conversation(memory: Memory, name: str | None) -> str:
    """Return the id of the session with this name, of the session changed last (`@last`), or of a new one (no name)."""
    if name != LAST:
        return name or uuid.uuid4().hex[:8]
    return find_session(Opened(memory.store, memory.scope, "this store"), name)


def _number(rule: StandingRule) -> str:
    """Return the number of the message that states a rule; the rule's id if it was added by hand."""
    return f"#{rule.seq or rule.id}"


class ChatCommands:
    """Slash commands of a chat, and the id of its current session."""

    def __init__(
        self, memory: Memory, console: Console, conversation: str, *, store: str | None = None
    ) -> None:
        self._memory = memory
        self._console = console
        self._store = store
        self.conversation = conversation
        self.ended = False
        self.table: Mapping[str, tuple[str, str, Callable[[str], None]]] = {
            "/help": ("", label("this list"), self._help),
            "/history": ("[N]", label("the last N messages, 10 by default"), self._history),
            "/context": ("", label("what the next call would send, in tokens"), self._context),
            "/recall": ("WORDS", label("earlier messages that match"), self._recall),
            "/pin": ("TEXT", label("show a text in every call"), self._pin),
            "/rules": ("", label("your rules that still apply"), self._rules),
            "/drop": ("N", label("drop a rule, by the number that /rules shows"), self._drop),
            "/fold": ("", label("fold older turns now"), self._fold),
            "/session": (
                "ID",
                label("go on in another session; @last is the one changed last"),
                self._switch,
            ),
            "/new": ("", label("begin a new session"), self._begin),
            "/quit": ("", label("end the chat, as Ctrl-D does"), self._quit),
        }

    def run(self, line: str) -> bool:
        """Run a line that is a slash command and return True; return False for a message, which may begin with `//`."""
        word, *rest = line.split(maxsplit=1) or [""]
        if not _COMMAND.fullmatch(word):
            return False
        name = f"/{word[1:].lower()}"
        found = self.table.get(_ALIASES.get(name, name))
        if found is None:
            self._say(self._unknown(name))
            return True
        try:
            found[2]("".join(rest).strip())
        except StoreError:
            raise
        except TurnfoldError as error:
            self._console.print(Text(_error_line(error), style="red"))
        return True

    def _unknown(self, name: str) -> str:
        """Return what to say about a command that does not exist here."""
        if name[1:] in _OUTSIDE:
            store = f" --store {shlex.quote(self._store)}" if self._store else ""
            outside = f"turnfold {name[1:]} {shlex.quote(self.conversation)}{store}"
            return f"no command {name} in a chat; outside of it: {outside}"
        near = get_close_matches(name, self.table, n=1, cutoff=_ALIKE)
        hint = f"did you mean {_ALIASES.get(near[0], near[0])}? " if near else ""
        return f"no command {name}: {hint}/help lists them; // begins a message with a slash"

    def announce(self) -> None:
        """Print the id and the number of entries of the current session."""
        entries = self._session.status().entries
        if not entries:
            self._say(f"new session {self.conversation}; /help lists commands, Ctrl-D ends it")
            return
        number = with_singulars(f"{entries:,} entries")
        self._say(f"session {self.conversation} ({number}); /help lists commands, Ctrl-D ends it")

    def said(self) -> list[str]:
        """Return the user's last messages, oldest first, for the arrow keys."""
        newest = self._session.status().entries
        entries = self._session.history(after=max(newest - _REMEMBERED, 0))
        return [each.message.text for each in entries if each.message.role == "user"]

    @property
    def _session(self) -> Session:
        return self._memory.session(self.conversation)

    def _say(self, text: str) -> None:
        self._console.print(Text(translated(text), style="dim"))

    def _quote(self, seq: int, message: Message) -> None:
        text = f"#{seq} {known_label(message.role)}{colon()}{printable(message_text(message))}"
        self._console.print(Text(text, style="dim"))

    def _help(self, _: str) -> None:
        for name, (argument, use, _run) in self.table.items():
            self._console.print(Text(f"  {f'{name} {argument}':<16}{use}", style="dim"))

    def _history(self, text: str) -> None:
        if text and not text.isdecimal():
            raise InvalidOption("/history takes a number of messages, for example: /history 20")
        number = int(text) if text else 10
        newest = self._session.status().entries
        for entry in self._session.history(after=max(newest - number, 0)):
            self._quote(entry.seq, entry.message)

    def _context(self, _: str) -> None:
        self._say(budget_line(self._session.preview().receipt))

    def _recall(self, text: str) -> None:
        if not text:
            raise InvalidOption("/recall needs words to search for, for example: /recall spare key")
        hits = self._session.recall(text)
        for hit in hits:
            self._quote(hit.seq, hit.message)
        wanted = distinct_terms(text)
        pins = [pin for pin in self._session.pins().values() if wanted & distinct_terms(pin)]
        for pin in pins:  # these are in no message, so recall cannot find them
            self._console.print(Text(f"{label('pinned')}{colon()}{printable(pin)}", style="dim"))
        if not hits and not pins:
            self._say("nothing earlier matches")

    def _pin(self, text: str) -> None:
        if not text:
            raise InvalidOption("/pin needs a text, for example: /pin answer in two sentences")
        self._session.pin(text)
        self._say("pinned: every call shows it from your next message on")

    def _rules(self, _: str) -> None:
        rules = self._session.rules()
        for rule in rules:
            text = f"{_number(rule)} {label(rule.kind)}{colon()}{printable(rule.full_text)}"
            self._console.print(Text(text, style="dim"))
        if not rules:
            self._say("no rules yet")

    def _drop(self, text: str) -> None:
        found = [
            each for each in self._session.rules() if text.lstrip("#") in (each.id, str(each.seq))
        ]
        if not found:
            raise NotFound(f"no active rule {text} in this session: /rules lists them")
        for rule in found:
            self._session.drop_rule(rule.id)
            self._say(f"rule dropped: {printable(rule.full_text)}")

    def _fold(self, _: str) -> None:
        made = self._session.fold()
        self._say(f"folded up to #{made.upto}" if made else "nothing to fold")

    def _switch(self, text: str) -> None:
        if not text:
            raise InvalidOption("/session needs an id: /session @last; /new begins a new session")
        self._begin(text)

    def _begin(self, text: str) -> None:
        self.conversation = _conversation(self._memory, text or None)
        self.announce()

    def _quit(self, _: str) -> None:
        self.ended = True


def _lines(console: Console, commands: ChatCommands) -> Iterator[str]:
    if sys.stdin.isatty() and sys.stdout.isatty():
        yield from _edited_lines(commands)
        return
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # invalid bytes become replacement characters
    while True:
        if sys.stdin.isatty():
            console.print(_PROMPT, end="")
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            return
        if not line:
            return
        if line.strip():
            yield line.rstrip("\n")


def _edited_lines(commands: ChatCommands) -> Iterator[str]:
    """Yield lines that the user types on a terminal, with editing, history and completion of commands."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import InMemoryHistory

    completer = WordCompleter(list(commands.table), sentence=True)
    reader: PromptSession[str] = PromptSession(
        history=InMemoryHistory(commands.said()),
        completer=completer,
        complete_while_typing=False,
    )
    while True:
        try:
            line = reader.prompt(_PROMPT)
        except KeyboardInterrupt:
            continue  # the line is dropped, as in a shell
        except EOFError:
            return
        if line.strip():
            yield line
