"""The line to PostgreSQL as something that breaks: a proxy that loses a commit, or the reply to one."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo

__all__ = ("Wire",)


class Wire:
    """A proxy before the server that can lose a commit, or the reply to one, and counts round trips."""

    def __init__(self, url: str) -> None:
        self._target = conninfo_to_dict(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.url = make_conninfo(url, host=host, port=port)
        self.lose = ""
        """"request": the next commit never arrives; "reply": it does, but its reply never comes back."""
        self.silent = False
        """Whether nothing passes any more, in either direction, and nobody hangs up: a network that drops packets."""
        self.mute = False
        """Whether the server is asked as ever and none of its answers comes back."""
        self.bursts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = str(self._target.get("host", "localhost")), self._target.get("port", 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, int(port or 5432)))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _serve(self, client: socket.socket) -> None:
        with closing(client), closing(self._connect()) as server:
            back = threading.Thread(target=self._carry_back, args=(server, client), daemon=True)
            self._answered = True
            back.start()
            with suppress(OSError):
                while data := client.recv(1 << 16):
                    self.bursts += self._answered
                    self._answered = False
                    if self.silent:
                        continue
                    if self.lose == "request" and b"COMMIT\0" in data:
                        self.lose = ""
                        break
                    server.sendall(data)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            back.join()

    def _carry_back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                self._answered = True
                if self.silent or self.mute:
                    continue
                if self.lose == "reply" and b"COMMIT\0" in data:
                    self.lose = ""
                    break
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
