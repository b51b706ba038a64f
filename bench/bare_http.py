"""Keep-alive connections with nothing around them: what is timed is the service that answers, not a client."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

__all__ = ("BareConnections",)


class BareConnections:
    """One connection for each asker to one service."""

    def __init__(self, url: str, *, token: str = "", accepted: tuple[int, ...] = (200,)) -> None:
        parts = urlsplit(url)
        self._accepted = accepted
        self._where = parts.hostname, parts.port
        self._headers = "host: localhost\r\ncontent-type: application/json\r\n"
        if token:
            self._headers += f"authorization: Bearer {token}\r\n"
        self._links: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, asker: str, method: str, path: str, body: object) -> bytes:
        """Send one request and read its answer; a status that is not accepted is an error of the benchmark."""
        if asker not in self._links:
            self._links[asker] = await asyncio.open_connection(*self._where)
        reader, writer = self._links[asker]
        content = json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}"
        writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        size = next(
            line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        found = await reader.readexactly(int(size.split(b":")[1]))
        assert int(answer[9:12]) in self._accepted, answer + found
        return found

    def close(self) -> None:
        """Let go of all of them; the next request opens a new one."""
        for _, writer in self._links.values():
            writer.close()
        self._links.clear()
