"""Findings for programs without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnfold.memory.drive import drive
from turnfold.memory.findings import AsyncFindings
from turnfold.recall.findings import FindingRule
from turnfold.records.findings import Finding

__all__ = ("Findings",)


class Findings:
    """Results of tool calls, remembered by tool and arguments."""

    def __init__(self, awaiting: AsyncFindings) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncFindings:
        """The same for code that awaits; its coroutines never suspend."""
        return self._awaiting

    @property
    def rules(self) -> Mapping[str, FindingRule]:
        """The rules of this handle, by tool; a tool without one is remembered only where `note` is called for it."""
        return self._awaiting.rules

    def use(self, rules: Iterable[FindingRule], *, most: int | None = None) -> None:
        """Follow these rules from now on, and keep at most `most` findings. Rules are code: a process sets its own."""
        self._awaiting.use(rules, most=most)

    def note(
        self,
        call: object,
        result: object,
        *,
        score: float | None = None,
        seq: int = 0,
        asked: int | None = None,
    ) -> Finding | None:
        """Remember what a call answered; None where that is an error, or not worth it by its rule (relevance, size).

        None also where the arguments have no one meaning (no JSON, a name twice): such calls cannot be compared.

        `call` is a `ToolCall` or a shape tool calls are written in. `seq` is the log entry that holds the result
        (0: it is in no entry); while that entry is shown, the finding is not shown a second time. `asked` is the
        newest seq when the call was made (by default: now). It shows in the tail from the next user turn on.
        """
        return drive(self._awaiting.note(call, result, score=score, seq=seq, asked=asked))

    def get(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> Finding | None:
        """What this very call answered, if it still holds."""
        return drive(self._awaiting.get(tool, arguments))

    def serve(self, call: object) -> Finding | None:
        """What a call may be answered with instead of being made: only where its rule says so, and it still holds.

        `turnfold.recall.findings.served_text` writes it as a result that says where it comes from.
        """
        return drive(self._awaiting.serve(call))

    def ran(self, tool: str) -> None:
        """A tool runs now, or ran: what it makes stale is stale. Say it before the tool starts and when it is done."""
        drive(self._awaiting.ran(tool))

    def list(self) -> tuple[Finding, ...]:
        """Everything that holds now: tables of contents, then by relevance, then the newest."""
        return drive(self._awaiting.list())

    def text(self, *, tokens: int, question: str = "") -> str:
        """Everything that holds now as a model is shown it: fenced, in at most `tokens`, cut at boundaries.

        What the `question` speaks of comes first. For programs that build their own prompt; `context` has it already.
        """
        return drive(self._awaiting.text(tokens=tokens, question=question))

    def drop(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> int:
        """Forget what a call answered, or all a tool answered where no arguments are given; how many were forgotten."""
        return drive(self._awaiting.drop(tool, arguments))

    def clear_query(self) -> int:
        """The question is over: forget everything but tables of contents; how many were forgotten."""
        return drive(self._awaiting.clear_query())

    def clear(self) -> int:
        """Forget everything; how many were forgotten."""
        return drive(self._awaiting.clear())
