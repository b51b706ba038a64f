"""The official client in whatever major version is installed, over a process or over HTTP, in one shape for tests.

The interpreter of the server may be another (`TURNFOLD_MCP_SERVER`): so each version of the client can be put before
each version of the server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

from tests.house.source_tree import ROOT

try:
    MAJOR = int(version("mcp").partition(".")[0])
except PackageNotFoundError:
    pytest.skip("the MCP server needs the extra 'mcp'", allow_module_level=True)

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared import exceptions

__all__ = ("ERAS", "MAJOR", "SERVER", "Refused", "Talk", "http_talk", "stdio_talk", "words_of")

ERAS = ("handshake",) if MAJOR < 2 else ("handshake", "modern")
"""How a client begins: by a handshake, or, from version 2 on, without one."""
SERVER = os.environ.get("TURNFOLD_MCP_SERVER", sys.executable)
_ERROR: Any = exceptions.McpError if MAJOR < 2 else exceptions.MCPError  # pyright: ignore[reportAttributeAccessIssue]


class Refused(Exception):
    """An error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


class Talk:
    """A client, with every answer as it stands on the wire."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def ask(self, what: str, *values: Any, **options: Any) -> dict[str, Any]:
        try:
            found = await getattr(self._session, what)(*values, **options)
        except _ERROR as error:
            raise Refused(error.error.code, error.error.message) from None
        return found.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool that does what it is asked."""
        answer = await self.ask("call_tool", tool, arguments)
        assert not answer["isError"], answer
        return answer["structuredContent"]

    async def refused(self, tool: str, **arguments: Any) -> str:
        """What a tool says that does not."""
        answer = await self.ask("call_tool", tool, arguments)
        assert answer["isError"], answer
        assert "structuredContent" not in answer
        return words_of(answer)

    async def read(self, uri: str) -> str:
        [content] = (await self.ask("read_resource", uri))["contents"]
        return content["text"]


def words_of(answer: Mapping[str, Any]) -> str:
    """The text of an answer."""
    return "\n".join(each["text"] for each in answer["content"])


@asynccontextmanager
async def stdio_talk(era: str, *words: str, server: str = SERVER) -> AsyncIterator[Talk]:
    """A client of `turnfold mcp` in a process of its own."""
    parameters = StdioServerParameters(
        command=server,
        args=["-m", "turnfold", "mcp", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=ROOT,
    )
    async with _talk(era, lambda: stdio_client(parameters), parameters) as talk:
        yield talk


@asynccontextmanager
async def http_talk(era: str, url: str, token: str = "") -> AsyncIterator[Talk]:
    """A client of a server at an address."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with AsyncExitStack() as held:
        client = await held.enter_async_context(_http_client(headers))

        def streams() -> AbstractAsyncContextManager[Any]:
            return streamable_http_client(url, http_client=client)

        yield await held.enter_async_context(_talk(era, streams, None))


def _http_client(headers: Mapping[str, str]) -> Any:
    if MAJOR < 2:
        import httpx as library
    else:
        import httpx2 as library
    # Without certificates, which take longer to load than most tests take.
    return library.AsyncClient(headers=dict(headers), trust_env=False, verify=False, timeout=60)


@asynccontextmanager
async def _talk(
    era: str, streams: Callable[[], AbstractAsyncContextManager[Any]], target: Any
) -> AsyncIterator[Talk]:
    if era == "modern":
        from mcp.client.client import Client

        async with Client(target or streams()) as client:
            yield Talk(client)
        return
    async with streams() as (incoming, outgoing, *_), ClientSession(incoming, outgoing) as session:
        await session.initialize()
        yield Talk(session)
