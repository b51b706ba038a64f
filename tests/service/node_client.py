"""The TypeScript client in a process of Node, as a transport of the Python client: one suite tests both."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote

import pytest

from tests.house.source_tree import ROOT
from turnfold import AsyncRemoteMemory
from turnfold.api import OPERATIONS
from turnfold.client.transport import HttpReply, RequestSender
from turnfold.errors import StoreUnavailable

__all__ = ("CLIENT", "need_client", "node_memory")

CLIENT = ROOT / "clients" / "typescript"


def need_client() -> None:
    """Skip the test if the client is not built."""
    if not (CLIENT / "dist" / "index.js").exists():
        pytest.skip("the TypeScript client is not built; make test-typescript builds it")


def node_memory(url: str) -> AsyncRemoteMemory:
    """Return a memory that sends its requests through the TypeScript client."""
    need_client()
    return AsyncRemoteMemory.over(RequestSender(NodeTransport(url), retries=0, backoff=0))


class NodeTransport:
    """Names the operation of each request, and leaves everything else to the client."""

    def __init__(self, url: str) -> None:
        self._node = subprocess.Popen(
            ["node", str(CLIENT / "test" / "bridge.mjs"), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str], content: bytes
    ) -> HttpReply:
        assert self._node.stdin
        assert self._node.stdout
        where, _, query = path.partition("?")
        request: dict[str, object] = {**_operation(method, where), "query": dict(parse_qsl(query))}
        if content:
            request["body"] = json.loads(content)
        if "idempotency-key" in headers:
            request["key"] = unquote(headers["idempotency-key"])
        self._node.stdin.write(json.dumps(request) + "\n")
        self._node.stdin.flush()
        answer = json.loads(self._node.stdout.readline())
        if answer["status"] == 0:
            raise StoreUnavailable(answer["body"]["detail"])
        return HttpReply(answer["status"], json.dumps(answer["body"]).encode())

    async def pause(self, seconds: float) -> None:
        raise AssertionError(f"no attempt is repeated here, after {seconds} s")

    async def close(self) -> None:
        assert self._node.stdin
        assert self._node.stdout
        self._node.stdin.close()
        self._node.wait(60)
        self._node.stdout.close()


def _operation(method: str, where: str) -> dict[str, object]:
    for each in OPERATIONS:
        pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", each.path)
        if each.method == method and (found := re.fullmatch(pattern, where)):
            names = {name: unquote(value) for name, value in found.groupdict().items()}
            return {"name": each.name, "path": names}
    raise AssertionError(f"no operation has {method} {where}")
