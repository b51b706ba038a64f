"""The findings of a conversation as one process last saw them.

Part of what a session follows: read again only when the store changed under it, and brought up to date by hand when the
session itself writes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from turnfold.memory.notes import FindingsNote, read_note
from turnfold.recall.findings import findings_text, for_question, holds, ranked, shown_whole
from turnfold.records import Document
from turnfold.records.findings import Finding, decode_finding

__all__ = ("KnownFindings", "TailFindings")


@dataclass(slots=True)
class KnownFindings:
    """Findings by key, each with the version of its document."""

    version: int = 0
    """Of the note that says there are findings; 0 before the first."""
    ran: dict[str, int] = field(default_factory=dict[str, int])
    """The newest seq when each tool that makes findings stale ran last."""
    kept: dict[str, tuple[Finding, int]] = field(default_factory=dict[str, tuple[Finding, int]])

    @classmethod
    def of(cls, note: Document | None, documents: Iterable[Document]) -> KnownFindings:
        """What the store holds."""
        return cls(
            version=note.version if note else 0,
            ran=dict(read_note(note, FindingsNote).ran),
            kept={
                each.key: (decode_finding(each.body, path=f"finding/{each.key}"), each.version)
                for each in documents
            },
        )

    def all(self) -> list[Finding]:
        """Every one of them, whether it holds or not."""
        return [finding for finding, _ in self.kept.values()]

    def holding(self, now: int) -> list[Finding]:
        """Those that hold now, the most useful first."""
        return ranked(each for each in self.all() if holds(each, now=now, ran=self.ran))

    def shown_at(
        self, turn: int, *, now: int, anchor: int, cut: Mapping[int, int]
    ) -> list[Finding]:
        """Those to show in the turn that begins at `turn`: noted before anything answered it, and not to be read above.

        From `anchor` on the log is shown word for word, except the entries that are `cut`.
        """
        return [
            finding
            for finding in self.holding(now)
            if finding.since <= turn and (finding.seq < anchor or finding.seq in cut)
        ]


@dataclass(frozen=True, slots=True)
class TailFindings:
    """Findings for the tail of a turn: those the question speaks of, and all of them."""

    every: Sequence[Finding]
    matching: Sequence[Finding]
    question: str
    count: Callable[[str], int]

    @classmethod
    def of(
        cls, found: Sequence[Finding], question: str, count: Callable[[str], int]
    ) -> TailFindings:
        """The findings in the order the question gives them."""
        if not found:
            return cls((), (), question, count)
        every, matching = for_question(found, question)
        return cls(every, matching, question, count)

    def whole(self, block: str) -> list[Finding]:
        """Those that a block made by `text` shows word for word."""
        return shown_whole(self.every, block) if block else []

    def text(self, tokens: int, measure: Callable[[str], int], *, matching: bool = False) -> str:
        """They in their fence, so that `measure` of it is at most `tokens`; empty where none fits."""
        shown = self.matching if matching else self.every
        if not shown:
            return ""
        return findings_text(
            shown, tokens=tokens, count=self.count, measure=measure, question=self.question
        )
