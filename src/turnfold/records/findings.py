"""A tool result worth keeping, with everything needed to trust it later.

What was called, with which arguments, what it answered, how relevant the tool itself thought it was, when and where in
the conversation that happened, until when it holds and which tools make it stale. The rules of a tool are code and live
in a process; what they decided about this result stands here, so that every process decides the same.
"""

from __future__ import annotations

import math
from hashlib import blake2b

import msgspec

from turnfold.errors import InvalidRecord
from turnfold.records.json_text import check_text

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
"""The relevance of a result nobody has scored."""
RESULT = "result"
"""Kind of a result that belongs to a question; forgotten with it."""
TOC = "toc"
"""Kind of a table of contents: shown first, kept when the question is over."""


class Finding(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What a tool answered to a call."""

    v: int = 1
    tool: str
    arguments: str
    """Canonical JSON: equal calls have equal text."""
    content: str
    """The answer, whole."""
    kind: str = RESULT
    score: float = NEUTRAL
    """Relevance, 0 to 1."""
    turn: int = 0
    """The turn of the conversation it was found in."""
    seq: int = 0
    """The log entry that holds the answer; 0 where it was not logged."""
    since: int = 0
    """The newest seq when it was noted: it shows from the next user turn on."""
    asked: int = 0
    """The newest seq when the call was made: what is changed from then on makes it stale."""
    call: str = ""
    """Id of the call."""
    created: int = 0
    """Microseconds since 1970."""
    expires: int = 0
    """Microseconds since 1970 from which it holds no more; 0 for never."""
    invalidated_by: tuple[str, ...] = ()
    """Tools that make it stale when they run."""

    def __post_init__(self) -> None:
        if not self.tool:
            raise InvalidRecord("a finding without the name of its tool", path="tool")
        check_score(self.score, path="score")
        check_text(self.content, path="content")

    @property
    def key(self) -> str:
        """What it is stored under: the same call, the same key."""
        return finding_key(self.tool, self.arguments)


def finding_key(tool: str, arguments: str) -> str:
    """The name of a call within a conversation; `arguments` are canonical."""
    named = (
        f"{len(tool)}:{tool}{arguments}"  # its length before the name: no two calls give one text
    )
    return blake2b(named.encode("utf-8"), digest_size=16).hexdigest()


def check_score(score: object, *, path: str) -> float:
    """A relevance as a number from 0 to 1; anything else is refused, NaN included."""
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise InvalidRecord(f"{type(score).__name__}, not a number", path=path)
    if not math.isfinite(score) or not 0.0 <= score <= 1.0:
        raise InvalidRecord(
            f"a relevance of {score}; it must lie between 0 and 1",
            path=path,
            remedy="Scale the tool's score before it is noted",
        )
    return float(score)


def encode_finding(finding: Finding) -> bytes:
    """The JSON of a finding."""
    return msgspec.json.encode(finding)


def decode_finding(body: bytes, *, path: str) -> Finding:
    """A finding from its JSON; anything else is refused."""
    try:
        finding = msgspec.json.decode(body, type=Finding)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InvalidRecord(f"not a finding: {error}", path=path) from None
    if finding.v != 1:
        raise InvalidRecord(
            f"finding version {finding.v}; this release reads version 1",
            path=path,
            remedy="Upgrade turnfold",
        )
    return finding
