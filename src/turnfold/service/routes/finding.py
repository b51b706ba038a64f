"""What the tools of a session found, remembered by tool and arguments.

Rules are code and live in the process that calls the tools, so whoever notes a result says which rules it goes by; they
hold for that request alone.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.memory.findings import AsyncFindings
from turnfold.recall.findings import FindingRule
from turnfold.records.findings import RESULT
from turnfold.service.answers import (
    CountAnswer,
    DoneAnswer,
    FindingAnswer,
    FindingsAnswer,
    TextAnswer,
)
from turnfold.service.bodies import Count, Nothing
from turnfold.service.operations import Asked, NoQuery, Operation, operation
from turnfold.service.tokens import Right

__all__ = ("OPERATIONS",)

_FINDINGS: Final = "/v1/sessions/{session}/findings"
_Tool = Annotated[str, Meta(min_length=1, max_length=512)]


class _Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class RuleForm(_Body):
    """How the results of one tool are remembered."""

    tool: _Tool
    kind: str = RESULT
    ttl: float = 0.0
    invalidated_by: tuple[str, ...] = ()
    min_relevance: float = 0.0
    largest: Annotated[int, Meta(ge=1, le=1 << 31)] = 200_000


class NoteBody(_Body):
    """What a call answered."""

    call: dict[str, object]
    """The tool call, as chat APIs write it."""
    result: str
    score: float | None = None
    seq: Count = 0
    asked: Count | None = None
    rules: list[RuleForm] = []
    most: Annotated[int, Meta(ge=1, le=10_000)] | None = None


class RanBody(_Body):
    """A tool that runs."""

    tool: _Tool
    rules: list[RuleForm] = []


class DropBody(_Body):
    """What to forget: one call, or all of a tool."""

    tool: _Tool
    arguments: str | dict[str, object] | None = None


class ForgetBody(_Body):
    """Whether tables of contents stay."""

    query_only: bool = False


class TextBody(_Body):
    """What it may cost."""

    tokens: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
    question: str = ""


@operation("GET", _FINDINGS, right=Right.READ, answer=FindingsAnswer)
async def findings(asked: Asked[Nothing, NoQuery]) -> FindingsAnswer:
    """List everything that holds now: tables of contents, then by relevance, then the newest."""
    return FindingsAnswer(findings=list(await asked.session.findings.list()))


@operation("POST", _FINDINGS, right=Right.WRITE, body=NoteBody, answer=FindingAnswer, grows=True)
async def note_finding(asked: Asked[NoteBody, NoQuery]) -> FindingAnswer:
    """Remember what a call answered; null where it is not worth it by its rule."""
    body = asked.body
    kept = _following(asked, body.rules, most=body.most)
    found = await kept.note(
        body.call, body.result, score=body.score, seq=body.seq, asked=body.asked
    )
    return FindingAnswer(finding=found)


@operation("POST", f"{_FINDINGS}/ran", right=Right.WRITE, body=RanBody, answer=DoneAnswer)
async def tool_ran(asked: Asked[RanBody, NoQuery]) -> DoneAnswer:
    """Say that a tool runs now, or ran: what it makes stale is stale."""
    await _following(asked, asked.body.rules).ran(asked.body.tool)
    return DoneAnswer(done=True)


@operation(
    "POST", f"{_FINDINGS}/drop", right=Right.WRITE, body=DropBody, answer=CountAnswer, keyed=True
)
async def drop_findings(asked: Asked[DropBody, NoQuery]) -> CountAnswer:
    """Forget what a call answered, or all a tool answered where no arguments are given."""
    body = asked.body
    return CountAnswer(count=await asked.session.findings.drop(body.tool, body.arguments))


@operation(
    "POST", f"{_FINDINGS}/clear", right=Right.WRITE, body=ForgetBody, answer=CountAnswer, keyed=True
)
async def clear_findings(asked: Asked[ForgetBody, NoQuery]) -> CountAnswer:
    """Forget everything; with `query_only`, everything but tables of contents."""
    kept = asked.session.findings
    forget = kept.clear_query if asked.body.query_only else kept.clear
    return CountAnswer(count=await forget())


@operation("POST", f"{_FINDINGS}/text", right=Right.READ, body=TextBody, answer=TextAnswer)
async def findings_text(asked: Asked[TextBody, NoQuery]) -> TextAnswer:
    """Read everything that holds now as a model is shown it, in at most `tokens`."""
    body = asked.body
    found = asked.session.findings
    return TextAnswer(text=await found.text(tokens=body.tokens, question=body.question))


def _following(
    asked: Asked[NoteBody, NoQuery] | Asked[RanBody, NoQuery],
    rules: list[RuleForm],
    *,
    most: int | None = None,
) -> AsyncFindings:
    """Findings under the rules of one request: on a handle of its own, for others have rules too."""
    if not rules and most is None:
        return asked.session.findings
    found = asked.state.fresh_session(asked.caller.tenant, asked.session.id).findings
    found.use([_rule(each) for each in rules], most=most)
    return found


def _rule(form: RuleForm) -> FindingRule:
    return FindingRule(
        form.tool,
        kind=form.kind,
        ttl=form.ttl,
        invalidated_by=form.invalidated_by,
        min_relevance=form.min_relevance,
        largest=form.largest,
    )


OPERATIONS: tuple[Operation, ...] = (
    findings,
    note_finding,
    tool_ran,
    drop_findings,
    clear_findings,
    findings_text,
)
