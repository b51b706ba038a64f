"""Findings without an event loop; written by tools/faces.py, do not edit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnfold.findings.finding_rules import FindingRule
from turnfold.findings.store import AsyncFindings
from turnfold.records import Finding
from turnfold.runtime import drive

__all__ = ("Findings",)


class Findings:
    """Stores, returns and drops the findings of a conversation: tool results, by tool and arguments."""

    def __init__(self, awaiting: AsyncFindings) -> None:
        self._awaiting = awaiting

    @property
    def awaiting(self) -> AsyncFindings:
        """The asynchronous form of this object; its coroutines never suspend."""
        return self._awaiting

    @property
    def rules(self) -> Mapping[str, FindingRule]:
        """The finding rules of this session object (which tool results are remembered), by tool name.

        Results of other tools are remembered only by `note`. A rule for `get_toc` also applies to the tool of an MCP
        server, `mcp__rules__get_toc`.
        """
        return self._awaiting.rules

    def use(self, rules: Iterable[FindingRule], *, most: int | None = None) -> None:
        """Set the finding rules (which tool results are remembered), and the most findings to store.

        Rules are code and are not stored: each process must set them.
        """
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
        """Remember the result of a call; return None if it is not remembered.

        Errors are not remembered, nor results that the rule excludes (relevance, size), nor calls whose arguments are
        ambiguous (not JSON, a name twice) and cannot be compared.

        `call` is a `ToolCall` or a tool call in a provider's format. `seq` is the log entry with the result (0: none);
        while that entry is in the window, the finding is not shown again. `asked` is the newest seq when the call was
        made (default: now). The finding is shown from the next user turn on.
        """
        return drive(self._awaiting.note(call, result, score=score, seq=seq, asked=asked))

    def get(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> Finding | None:
        """Return the stored result of a call with these arguments; None if there is none that is still valid."""
        return drive(self._awaiting.get(tool, arguments))

    def serve(self, call: object) -> Finding | None:
        """Return a stored result to use instead of calling the tool; None unless its rule has `serve` and it is valid.

        `turnfold.findings.served_text` renders it as a tool result that says it comes from memory.
        """
        return drive(self._awaiting.serve(call))

    def ran(self, tool: str) -> None:
        """Mark the findings (remembered tool results) that a run of this tool makes stale.

        Call this before and after the tool runs.
        """
        drive(self._awaiting.ran(tool))

    def list(self) -> tuple[Finding, ...]:
        """Return the remembered tool results that are neither expired nor stale.

        Tables of contents come first, then the most relevant results.
        """
        return drive(self._awaiting.list())

    def text(self, *, tokens: int, question: str = "") -> str:
        """Return the valid findings (remembered tool results) as fenced text (marked as data) in at most `tokens`.

        Those about `question` come first.

        For applications that build their own prompt; `context` already includes this text.
        """
        return drive(self._awaiting.text(tokens=tokens, question=question))

    def drop(self, tool: str, arguments: str | Mapping[str, object] | None = None) -> int:
        """Delete the stored result of a call, or all results of a tool if `arguments` is None.

        Returns the number deleted.
        """
        return drive(self._awaiting.drop(tool, arguments))

    def clear_query(self) -> int:
        """Delete all findings (remembered tool results) except tables of contents; return the number deleted.

        Call this method when a question is answered. Tables of contents are useful for later questions too.
        """
        return drive(self._awaiting.clear_query())

    def clear(self) -> int:
        """Delete all findings (remembered tool results) of the conversation; return the number deleted."""
        return drive(self._awaiting.clear())
