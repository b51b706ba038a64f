"""Anthropic's Messages interface for tests: real sockets on loopback, answers by script, every prompt kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from uuid import uuid4

Body = dict[str, Any]
Block = dict[str, Any]
Script = Callable[[Body], list[Block]]


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def call(name: str, arguments: dict[str, Any], *, call_id: str) -> Block:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


class MessagesApi:
    """Runs while it is entered; `url` is where, `prompts` the bodies that came."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.prompts: list[Body] = []

    def __enter__(self) -> Self:
        self._http = _Http(("127.0.0.1", 0), _Exchange)
        self._http.api = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def of_the_conversation(self) -> list[Body]:
        """The prompts that offer tools: the program asks for titles and the like on the side."""
        return [body for body in self.prompts if body.get("tools")]


class _Http(ThreadingHTTPServer):
    api: MessagesApi
    daemon_threads = True


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the client's acknowledgement
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass

    def do_GET(self) -> None:
        self._send(b"{}", "application/json")

    def do_HEAD(self) -> None:
        self._send(b"", "application/json")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if not self.path.startswith("/v1/messages"):
            self._send(b"{}", "application/json")
        elif "count_tokens" in self.path:
            self._send(b'{"input_tokens": 100}', "application/json")
        else:
            self.server.api.prompts.append(body)
            blocks = self.server.api.script(body)
            if body.get("stream"):
                self._send(_stream(body, blocks), "text/event-stream")
            else:
                message = {**_opening(body), "content": blocks, "stop_reason": _why(blocks)}
                self._send(json.dumps(message).encode(), "application/json")

    def _send(self, content: bytes, media: str) -> None:
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _opening(body: Body) -> Body:
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "claude"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def _why(blocks: list[Block]) -> str:
    return "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"


def _stream(body: Body, blocks: list[Block]) -> bytes:
    events: list[Body] = [{"type": "message_start", "message": _opening(body)}]
    for index, block in enumerate(blocks):
        if block["type"] == "tool_use":
            opened = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            opened = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": _why(blocks), "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}})
    events.append({"type": "message_stop"})
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "".join(lines).encode()
