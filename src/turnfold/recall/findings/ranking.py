"""Which findings hold, which come first, and which make room for others.

Every process must choose alike, so the order is total: tables of contents, then by relevance, then the newest, then by
key; in front of the model also by what the user asks now. Nothing here asks a clock; the time is handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from turnfold.recall.findings.matching import held_by, known_folded
from turnfold.recall.terms import asked_terms
from turnfold.records.findings import TOC, Finding

__all__ = ("for_question", "holds", "merged", "ranked", "surplus")


def holds(finding: Finding, *, now: int, ran: Mapping[str, int]) -> bool:
    """Whether a finding may be shown and served: not expired, and nothing that makes it stale ran since the call.

    `ran` has the newest seq when each tool ran last. A tool that ran beside the call may have changed what it read, so
    the same seq counts as since.
    """
    if finding.expires and now >= finding.expires:
        return False
    return all(ran.get(tool, -1) < finding.asked for tool in finding.invalidated_by)


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Findings, the most useful first."""
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[bool, float, int, str]:
    return finding.kind != TOC, -finding.score, -finding.since, finding.key


def for_question(findings: Sequence[Finding], question: str) -> tuple[list[Finding], list[Finding]]:
    """Findings, the most useful for a question first: tables of contents, then by relevance and by what they share.

    A tool scored its result for the question of then. How much of what is asked now stands in it counts as much, in
    parts of what the best of them holds. The second answer are only those that hold something of it.
    """
    texts = [known_folded(f"{each.arguments}\n{each.content}") for each in findings]
    shared = held_by(texts, asked_terms(question))
    most = max(shared, default=0.0) or 1.0
    held = {each.key: much / most for each, much in zip(findings, shared, strict=True)}

    def rank(finding: Finding) -> tuple[bool, float]:
        return finding.kind != TOC, -round(finding.score + held[finding.key], 9)

    every = sorted(ranked(findings), key=rank)
    return every, [each for each in every if held[each.key]]


def merged(known: Finding | None, new: Finding) -> Finding:
    """What is kept of two results of the same call: the newer by the log, whatever its score.

    The same answer again is as relevant as it ever was.
    """
    if known is None:
        return new
    if known.asked > new.asked:
        return known
    if known.content == new.content:
        return msgspec.structs.replace(new, score=max(known.score, new.score))
    return new


def surplus(
    findings: Iterable[Finding], *, most: int, now: int, ran: Mapping[str, int]
) -> list[Finding]:
    """What to forget: everything that holds no more, then the least useful beyond `most`."""
    holding: list[Finding] = []
    gone: list[Finding] = []
    for finding in findings:
        (holding if holds(finding, now=now, ran=ran) else gone).append(finding)
    return [*gone, *ranked(holding)[most:]]
