"""The answers themselves, with no transport before them: for what a test asks a thousand times."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

pytest.importorskip("starlette", reason="the MCP server needs the extra 'mcp'")

from turnfold.api import Right
from turnfold.service import McpOptions, McpPermission, ServiceOptions, make_state
from turnfold.service.auth import Caller
from turnfold.service.mcp.methods import McpError, McpProtocol

__all__ = ("EVERYTHING", "Asking", "asking", "caller_of")

EVERYTHING = frozenset(Right)
_Result = TypeVar("_Result")


def caller_of(tenant: str, *rights: Right) -> Caller:
    return Caller(tenant, frozenset(rights) or EVERYTHING, "test")


class Asking:
    """Answers, and one loop to ask them in."""

    def __init__(self, answers: McpProtocol, runner: asyncio.Runner) -> None:
        self.answers = answers
        self._runner = runner

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self._runner.run(work)

    def ask(self, method: str, params: dict[str, Any], tenant: str = "default") -> dict[str, Any]:
        return self.run(self.answers.answer(method, caller_of(tenant), params))

    def call(self, tool: str, tenant: str = "default", **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments}, tenant)

    def read(self, uri: str, tenant: str = "default") -> str:
        [content] = self.ask("resources/read", {"uri": uri}, tenant)["contents"]
        return content["text"]

    def said(self, method: str, params: dict[str, Any], tenant: str = "default") -> str:
        """Whatever leaves, as one text: a result, or a refusal."""
        try:
            said: object = self.ask(method, params, tenant)
        except McpError as refusal:
            said = (refusal.code, refusal.message)
        return json.dumps(said, ensure_ascii=False).encode().decode()


@contextmanager
def asking(store: str, **options: Any) -> Iterator[Asking]:
    """Answers over a store, without a transport; the model may write everything unless `allow` says otherwise."""
    options.setdefault("allow", tuple(McpPermission))
    limits = options.pop("limits", None)
    service = ServiceOptions(store=store, **({"limits": limits} if limits else {}))
    with asyncio.Runner() as runner:
        state = make_state(service)
        try:
            yield Asking(McpProtocol(state, McpOptions(**options)), runner)
        finally:
            runner.run(state.close())
