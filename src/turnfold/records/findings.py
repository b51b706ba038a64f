"""Findings: remembered tool results, with everything needed to use them later.

A finding holds the call and its arguments, the result, its relevance, when and where in the conversation it was made,
until when it is valid and which tools invalidate it. The functions that decide this for a tool may exist in one process
only, so their decision is stored with the finding, and every process follows it.
"""

from __future__ import annotations

import math
from hashlib import blake2b

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records.frozen_json import check_text, decode_struct

__all__ = (
    "NEUTRAL",
    "RESULT",
    "TOC",
    "Finding",
    "check_score",
    "decode_finding",
    "encode_finding",
    "finding_key",
)


NEUTRAL = 0.5
"""Relevance of a tool result for which no score is given."""
RESULT = "result"
"""Kind of an ordinary tool result, which belongs to one question and is dropped when the question is over."""
TOC = "toc"
"""Kind of a table of contents of a source, which is shown first and kept when the question is over."""


class Finding(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A remembered tool result."""

    v: int = 1
    tool: str
    arguments: str
    """Arguments of the tool call as canonical JSON: equal calls have equal text."""
    content: str
    """The whole tool result."""
    kind: str = RESULT
    score: float = NEUTRAL
    """Relevance of the result, 0 to 1."""
    turn: int = 0
    """The turn of the conversation in which the tool was called."""
    seq: int = 0
    """Seq (log position) of the entry with the result; 0 if the result was not logged."""
    since: int = 0
    """The newest seq (log position) when the finding was recorded: a finding (remembered tool result) is shown from the
    next user turn on."""
    asked: int = 0
    """The newest seq (log position) when the tool was called; the finding (remembered tool result) is stale if an
    invalidating tool ran after that."""
    call: str = ""
    """Id of the tool call."""
    created: int = 0
    """Time at which the finding (remembered tool result) was recorded, in microseconds since 1970."""
    expires: int = 0
    """Time from which the finding (remembered tool result) is no longer valid, in microseconds since 1970; 0 for never.
    """
    invalidated_by: tuple[str, ...] = ()
    """Tools that make the finding (remembered tool result) stale when they run."""

    def __post_init__(self) -> None:
        if not self.tool:
            raise InvalidRecord(
                "the finding has no tool name", path="tool", remedy="Give the name of the tool"
            )
        check_score(self.score, path="score")
        check_text(self.content, path="content")

    @property
    def key(self) -> str:
        """Key of this remembered result's document in the store; the same tool and arguments have the same key."""
        return finding_key(self.tool, self.arguments)


def finding_key(tool: str, arguments: str) -> str:
    """Return the key under which a conversation remembers a tool call; `arguments` must be canonical JSON."""
    # The length before the name makes the text unique for each pair of name and arguments.
    named = f"{len(tool)}:{tool}{arguments}"
    return blake2b(named.encode("utf-8"), digest_size=16).hexdigest()


def check_score(score: object, *, path: str) -> float:
    """Return a relevance score if it is a number from 0 to 1; raises `InvalidRecord` otherwise, also for NaN."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise InvalidRecord(f"must be a number from 0 to 1, not {type(score).__name__}", path=path)
    if not math.isfinite(score) or not 0.0 <= score <= 1.0:
        raise InvalidRecord(
            f"the relevance is {score}; it must be between 0 and 1",
            path=path,
            remedy="Scale the tool's score before recording it",
        )
    return float(score)


def encode_finding(finding: Finding) -> bytes:
    """Encode a finding (remembered tool result) as JSON for the store."""
    return msgspec.json.encode(finding)


def decode_finding(body: bytes, *, path: str) -> Finding:
    """Decode a finding (remembered tool result) from its stored JSON; raises `InvalidRecord` if it is damaged."""
    return decode_struct(body, Finding, name="finding", path=path)
