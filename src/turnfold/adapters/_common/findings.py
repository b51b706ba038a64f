"""Stores findings (remembered tool results) for adapters that log a result some time after its tool ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnfold.findings import FindingRule, result_text, rule_for
from turnfold.memory import AsyncSession
from turnfold.records import Message, ToolCall
from turnfold.wire import writable

__all__ = ("PendingResults", "as_finding_text", "note_result")


async def note_result(
    session: AsyncSession,
    call: ToolCall,
    result: str,
    *,
    seq: int,
    asked: int,
    failed: bool = False,
) -> None:
    """Remember a tool's result as a finding if a rule of findings covers the tool and it did not fail.

    Findings (remembered results) that the tool's run makes stale are marked. `seq` is the log position of the result,
    `asked` that of the newest entry when the call was made.
    """
    if failed or rule_for(session.findings.rules, call.name) is None:
        await session.findings.ran(call.name)
    else:
        await session.findings.note(call, result, seq=seq, asked=asked)


def as_finding_text(shown: str, value: object) -> str:
    """Return the text to remember for a tool result: `shown`, or JSON if `shown` is the `str()` of a dict or list."""
    is_repr = type(value) in (dict, list) and shown == str(value)
    return str(writable(result_text(value) if is_repr else shown))


@dataclass(slots=True)
class _PendingCall:
    """A tool call that has started and whose result is not in the log yet."""

    call: ToolCall
    asked: int
    """Seq (log position) of the newest entry when the tool was called."""
    value: object = None
    """Return value of the tool."""
    may_be_withheld: bool = False
    """True if the framework may log a note in place of the value."""
    failed: bool = False


class PendingResults:
    """The tool calls of a conversation that have started, but whose results are not in the log yet."""

    def __init__(self, session: AsyncSession, rules: Sequence[FindingRule] = ()) -> None:
        self._session = session
        self._calls: dict[str, _PendingCall] = {}
        self.has_rules = bool(rules)
        if rules:
            session.findings.use(rules)

    async def started(self, call: ToolCall) -> None:
        """Record that a tool call starts; findings (remembered results) that it may change are marked as stale."""
        await self._session.findings.ran(call.name)
        asked = (await self._session.status()).entries
        self._calls[call.id] = _PendingCall(call, asked)

    async def ended(self, call_id: str, value: object, *, may_be_withheld: bool) -> None:
        """Record the value that a tool returned.

        Findings (remembered results) that it may have changed are marked as stale.

        If the framework may log a note in place of the value, only a result that is the value itself is remembered.
        """
        if pending := self._calls.get(call_id):
            pending.value, pending.may_be_withheld = value, may_be_withheld
            await self._session.findings.ran(pending.call.name)

    def failed(self, call_id: str) -> None:
        """Record that a tool call failed, so that its result is not remembered as a finding."""
        if pending := self._calls.get(call_id):
            pending.failed = True

    async def logged(self, first: int, records: Sequence[Message]) -> None:
        """Remember the tool results in messages just appended to the log; `first` is the seq of the first message."""
        for seq, record in enumerate(records, first):
            for result in record.results:
                if pending := self._calls.pop(result.call_id, None):
                    withheld = pending.may_be_withheld and result.text != str(pending.value)
                    await note_result(
                        self._session,
                        pending.call,
                        as_finding_text(result.text, pending.value),
                        seq=seq,
                        asked=pending.asked,
                        failed=pending.failed or result.is_error or withheld,
                    )
