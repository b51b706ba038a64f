"""A small library of rules and a researcher who reads in it, to see what a memory of findings saves.

The researcher is no language model but decides as one should: only by what stands in its prompt. A limit it can read
there it does not look up; a page number it can read there it does not ask the table of contents for. So every call it
saves was saved by what the memory put before its eyes, and every answer can be checked.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from turnfold import Budget, Memory, Message, assistant
from turnfold.agent import Agent, Event, Sending, ToolDone
from turnfold.findings import FindingRule
from turnfold.memory import RecallMode
from turnfold.testing import ScriptedModel

__all__ = ("RULES", "Library", "Outcome", "Question", "research")

RULES = (FindingRule("get_toc", kind="toc"), FindingRule("read_page"))
_THINGS = (
    "绝缘电阻",
    "耐受电压",
    "短路电流",
    "接地电阻",
    "泄漏电流",
    "温升",
    "局部放电",
    "介质损耗",
)
_BEGINNING, _SECOND = 1_700_000_000_000_000, 1_000_000
"""Microseconds since 1970, and of a second."""
_FILLER = (
    "运行单位应当按照规定的周期进行检查，并保存完整的记录。The record is kept for five years. "
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the topics whose limits answer it."""

    text: str
    topics: tuple[str, ...]


@dataclass(slots=True)
class Library:
    """Books of chapters with one page each; a page gives the limits of a few topics."""

    books: int = 3
    chapters: int = 6
    per_page: int = 4
    calls: list[str] = field(default_factory=list[str])
    """Every tool call that was really made."""
    limits: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for book in range(self.books):
            for chapter in range(self.chapters):
                for number in range(self.per_page):
                    topic = self._topic(book, chapter, number)
                    self.limits[topic] = f"{book * 100 + chapter * 10 + number}.{number + 1}"

    @staticmethod
    def _topic(book: int, chapter: int, number: int) -> str:
        return f"T{book}{chapter}{number}"

    def get_toc(self, reg_id: str) -> str:
        """The table of contents of a book: its topics, and the page of each."""
        self.calls.append(f"get_toc {reg_id}")
        book = int(reg_id.removeprefix("book_"))
        chapters: list[object] = []
        for chapter in range(self.chapters):
            topics = [
                {
                    "title": f"{self._topic(book, chapter, number)} {_THINGS[number]}",
                    "page": chapter + 1,
                }
                for number in range(self.per_page)
            ]
            chapters.append({"title": f"第 {chapter + 1} 章", "children": topics})
        return json.dumps({"reg_id": reg_id, "children": chapters}, ensure_ascii=False)

    def read_page(self, reg_id: str, page: int) -> str:
        """A page of a book."""
        self.calls.append(f"read_page {reg_id} {page}")
        book = int(reg_id.removeprefix("book_"))
        lines: list[str] = []
        for number in range(self.per_page):
            topic = self._topic(book, page - 1, number)
            lines.append(f"{topic} {_THINGS[number]}的限值为 {self.limits[topic]} kV。{_FILLER}")
        return "\n".join(lines)

    def questions(self, count: int, *, hops: int = 2, seed: int = 4) -> list[Question]:
        """Questions that need several places each; some places are needed again, as they are in real work."""
        dice = random.Random(seed)  # noqa: S311 (a run that can be repeated)
        asked: list[Question] = []
        popular = sorted(dice.sample(sorted(self.limits), max(len(self.limits) // 4, hops)))
        for number in range(count):
            pool = popular if number % 4 else sorted(self.limits)
            topics = tuple(dice.sample(pool, hops))
            asked.append(Question(f"{' 与 '.join(topics)} 的限值各是多少？", topics))
        return asked


class Researcher:
    """Decides by what it reads in the prompt, and by nothing else."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, messages: Sequence[Message]) -> object:
        """The next tool calls, or the answer."""
        asked = next(
            m.text for m in reversed(messages) if m.role == "user" and "各是多少" in m.text
        )
        topics = re.findall(r"T\d+", asked.rsplit("\n", 1)[-1])
        prompt = "\n".join(message.text for message in messages)
        known = {topic: _limit(prompt, topic) for topic in topics}
        if all(known.values()):
            return "；".join(f"{topic} {limit} kV" for topic, limit in known.items())
        wanted = [self._next(prompt, topic) for topic, limit in known.items() if not limit]
        return assistant(tool_calls=[self._call(*each) for each in dict.fromkeys(wanted)])

    def _next(self, prompt: str, topic: str) -> tuple[str, str]:
        book = f"book_{topic[1]}"
        page = re.search(rf'{topic} [^"\n(]*(?:", "page": | \(page )(\d+)', prompt)
        if page is None:
            return "get_toc", json.dumps({"reg_id": book})
        return "read_page", json.dumps({"reg_id": book, "page": int(page[1])})

    def _call(self, name: str, arguments: str) -> object:
        self._calls += 1
        return {"id": f"call_{self._calls}", "function": {"name": name, "arguments": arguments}}


def _limit(prompt: str, topic: str) -> str:
    found = re.search(rf"{topic} \S+的限值为 ([\d.]+) kV", prompt)
    return found[1] if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an agent did."""

    answers: list[str]
    calls: list[str]
    """The tool calls that were made."""
    served: int
    """Calls that were answered from memory instead."""
    prompts: int
    """Times the model was asked."""
    tokens: int
    """Tokens of all its prompts."""
    right: bool
    """Whether every answer names the limits of the library."""


def research(
    questions: Sequence[Question],
    *,
    rules: Sequence[FindingRule] = (),
    budget: Budget | None = None,
    afresh: bool = True,
    recall: RecallMode = RecallMode.AUTOMATIC,
    library: Callable[[], Library] = Library,
) -> Outcome:
    """Answer the questions in one conversation; `afresh` starts over before each, as document 004's `reset()` does."""
    books, events = library(), list[Event]()
    # A clock of its own: the time of a passage is part of the prompt, and so of what fits.
    clock = partial(next, count(_BEGINNING, _SECOND))
    budget = budget or Budget(max_tokens=12_000)
    with Memory("sqlite://", budget=budget, recall=recall, clock=clock) as memory:
        model = ScriptedModel([Researcher()], repeat=True)
        tools = [books.get_toc, books.read_page]
        agent = Agent(
            memory,
            model,
            tools=tools,
            findings=rules,
            on_event=events.append,
            parallel=1,  # the order in which threads finish would change what is shown
        )
        answers: list[str] = []
        for question in questions:
            if afresh:
                memory.session("research").clear()
            answers.append(agent.run("research", question.text).text)
    sent = [event.context.tokens for event in events if isinstance(event, Sending)]
    expected = [
        "；".join(f"{topic} {books.limits[topic]} kV" for topic in question.topics)
        for question in questions
    ]
    return Outcome(
        answers=answers,
        calls=books.calls,
        served=sum(isinstance(event, ToolDone) and event.served for event in events),
        prompts=len(sent),
        tokens=sum(sent),
        right=answers == expected,
    )
