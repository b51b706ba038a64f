"""Operations on the findings of a session: tool results remembered by tool and arguments.

The rules for findings are code in the client process that calls the tools. So a request carries the rules, without
their code; they apply to that request only.
"""

from __future__ import annotations

import msgspec

from turnfold import api
from turnfold.api import (
    ClearFindingsBody,
    CountAnswer,
    DoneAnswer,
    DropFindingsBody,
    FindingAnswer,
    FindingsAnswer,
    FindingsTextBody,
    NoQuery,
    NoteFindingBody,
    Nothing,
    RuleForm,
    TextAnswer,
    ToolRanBody,
)
from turnfold.findings import AsyncFindings, FindingRule
from turnfold.service.operation_table import OperationRequest, OperationTable

__all__ = ("TABLE",)

TABLE = OperationTable()


@TABLE.bind(api.operations.FINDINGS)
async def findings(request: OperationRequest[Nothing, NoQuery]) -> FindingsAnswer:
    return FindingsAnswer(findings=list(await request.session.findings.list()))


@TABLE.bind(api.operations.NOTE_FINDING)
async def note_finding(request: OperationRequest[NoteFindingBody, NoQuery]) -> FindingAnswer:
    body = request.body
    found = await _with_rules(request, body.rules, most=body.most).note(
        body.call, body.result, score=body.score, seq=body.seq, asked=body.asked
    )
    return FindingAnswer(finding=found)


@TABLE.bind(api.operations.TOOL_RAN)
async def tool_ran(request: OperationRequest[ToolRanBody, NoQuery]) -> DoneAnswer:
    await _with_rules(request, request.body.rules).ran(request.body.tool)
    return DoneAnswer(done=True)


@TABLE.bind(api.operations.DROP_FINDINGS)
async def drop_findings(request: OperationRequest[DropFindingsBody, NoQuery]) -> CountAnswer:
    body = request.body
    return CountAnswer(count=await request.session.findings.drop(body.tool, body.arguments))


@TABLE.bind(api.operations.CLEAR_FINDINGS)
async def clear_findings(request: OperationRequest[ClearFindingsBody, NoQuery]) -> CountAnswer:
    stored = request.session.findings
    forget = stored.clear_query if request.body.query_only else stored.clear
    return CountAnswer(count=await forget())


@TABLE.bind(api.operations.FINDINGS_TEXT)
async def findings_text(request: OperationRequest[FindingsTextBody, NoQuery]) -> TextAnswer:
    body = request.body
    text = await request.session.findings.text(tokens=body.tokens, question=body.question)
    return TextAnswer(text=text)


def _with_rules(
    request: OperationRequest[NoteFindingBody, NoQuery] | OperationRequest[ToolRanBody, NoQuery],
    rules: list[RuleForm],
    *,
    most: int | None = None,
) -> AsyncFindings:
    """Return the session's findings (remembered tool results), with the finding rules of this request only."""
    if not rules and most is None:
        return request.session.findings
    found = request.state.fresh_session(request.caller.tenant, request.session.id).findings
    found.use([FindingRule(**msgspec.structs.asdict(rule)) for rule in rules], most=most)
    return found
