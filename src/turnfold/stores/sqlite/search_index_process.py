"""A process that makes the index rows of long texts, so that a service does not share its interpreter lock with them.

The terms of a message of 100,000 words take a second of computing. In a thread of the service every other request of
that second would wait for the interpreter lock again and again. The process is started for the first long text, serves
one request at a time, and ends with the service: when its socket is closed. It is an optimization only: if it cannot
be started, or does not answer, the calling thread makes the rows itself.

Requests and answers are MessagePack, each with its length before it.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from turnfold.stores.sqlite.search_index import IndexRows
from turnfold.stores.sqlite.search_index_batches import (
    IndexPlan,
    IndexStep,
    WaitingTexts,
    rows_to_add,
)

__all__ = ("IndexProcess",)

_log = logging.getLogger(__name__)
_LENGTH: Final = 8
_ANSWER_SECONDS: Final = 300.0
"""Seconds to wait for an answer: a hundred times what the longest step takes on an idle machine."""
_Request: TypeAlias = tuple[str, list[WaitingTexts]]
_Answer: TypeAlias = list[tuple[list[IndexStep], IndexRows]]


class IndexProcess:
    """Handle of the process; its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._failed = False

    def batches(self, tenant: str, waiting: Sequence[WaitingTexts]) -> _Answer | None:
        """Return the batches that index these texts, without their terms; None if the process cannot make them."""
        own = {each.key: each.versions for each in waiting}
        sent = [each._replace(versions=dict.fromkeys(each.versions, ())) for each in waiting]
        if not self._lock.acquire(blocking=False):
            return None  # it works for another tenant, whose texts may take long
        try:
            if self._failed:
                return None
            try:
                answer = msgspec.msgpack.decode(
                    self._ask(msgspec.msgpack.encode((tenant, sent))), type=_Answer
                )
            except (OSError, UnicodeError, msgspec.MsgspecError) as error:
                self._end()
                self._failed = isinstance(error, OSError)
                _log.warning(
                    "the search index process failed (%s); texts are indexed without it",
                    type(error).__name__,
                    extra={"event": "index_process"},
                )
                return None
        finally:
            self._lock.release()
        return [
            ([each.with_versions(own[each.key]) for each in steps], rows) for steps, rows in answer
        ]

    def close(self) -> None:
        """End the process; whoever waits for its answer makes the rows itself."""
        self._failed = True
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            self._end()

    def _ask(self, request: bytes) -> bytes:
        connection = self._socket or self._start()
        _send(connection, request)
        return _receive(connection)

    def _start(self) -> socket.socket:
        own, other = socket.socketpair()
        self._socket = own
        own.settimeout(_ANSWER_SECONDS)
        with other:
            # A session of its own: Ctrl-C in a terminal is for the service, which ends this process.
            self._process = subprocess.Popen(  # noqa: S603 (words written here)
                [sys.executable, "-P", "-m", __name__, str(other.fileno())],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        return own

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _send(connection: socket.socket, content: bytes) -> None:
    connection.sendall(len(content).to_bytes(_LENGTH, "big"))
    connection.sendall(content)


def _receive(connection: socket.socket) -> bytes:
    return _exactly(connection, int.from_bytes(_exactly(connection, _LENGTH), "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        piece = connection.recv(min(size - len(got), 1 << 20))
        if not piece:
            raise ConnectionError(
                f"the other process closed the connection after {len(got)} of {size} bytes"
            )
        got += piece
    return bytes(got)


def _serve(connection: socket.socket) -> None:
    while True:
        tenant, waiting = msgspec.msgpack.decode(_receive(connection), type=_Request)
        plan = IndexPlan(tenant)
        for each in waiting:
            plan.add(each)
        answer: _Answer = [
            ([each.without_terms() for each in steps], rows_to_add(steps, tenant))
            for steps in plan.batches
        ]
        _send(connection, msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    with suppress(ConnectionError):
        _serve(socket.socket(fileno=int(sys.argv[1])))
