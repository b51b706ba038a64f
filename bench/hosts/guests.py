"""The benchmarks' side of the hosts: start them, ask them, and tell a failure from a slow answer.

A peer that does not install, does not start, raises or dies is reported with its words; it never gets a time for it.
"""

from __future__ import annotations

import pickle
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from tempfile import TemporaryFile
from typing import IO, Any, Self

from bench.hosts.environments import ROOT, EnvironmentFailed, peer_names, python_of

__all__ = ("Guests", "Lane", "Offered", "PeerFailed")

PATIENCE = 900.0
"""Seconds a request may take; a bench asks for no work that is expected to take longer."""
_NUMBERS = count()


class PeerFailed(Exception):
    """A peer could not do what it was asked, in its own words."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One way of one peer to do one thing."""

    peer: str
    kind: str
    name: str
    package: str
    facts: dict[str, Any] = field(hash=False)
    """Everything else its file says of it: `ours`, `note`, `keeps_history`, ..."""

    @property
    def ours(self) -> bool:
        """Whether this is turnfold."""
        return bool(self.facts.get("ours"))


class _Host:
    """A running process of one peer."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115 (closed by stop)
        try:
            python = python_of(peer)
        except EnvironmentFailed as failed:
            raise PeerFailed(f"not installed: {failed}") from failed
        self._process = subprocess.Popen(  # noqa: S603 (our own module)
            [python, "-m", "bench.hosts.host", peer],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.offers: dict[str, Any] = self.ask("offers")

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, verb: str, *arguments: object) -> Any:  # noqa: ANN401 (what the lane's method gives)
        """The answer to one request."""
        self.send(verb, *arguments)
        return self.receive()

    def send(self, verb: str, *arguments: object) -> None:
        """A request whose answer is received later."""
        requests = self._process.stdin
        assert requests is not None
        try:
            pickle.dump((verb, arguments), requests)
            requests.flush()
        except OSError as gone:
            raise self._gone() from gone

    def receive(self) -> Any:  # noqa: ANN401 (what the lane's method gives)
        """The answer to the request that was sent."""
        answers = self._process.stdout
        assert answers is not None
        try:
            if not select.select([answers], [], [], PATIENCE)[0]:
                self.stop()
                raise PeerFailed(f"no answer within {PATIENCE:.0f} s")
            good, answer = pickle.load(answers)  # noqa: S301 (from our own child process)
        except (EOFError, OSError) as gone:
            raise self._gone() from gone
        if not good:
            shown, trace = answer
            failure = PeerFailed(shown.splitlines()[0][:300])
            failure.add_note(trace)
            raise failure
        return answer

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._errors.close()

    def _gone(self) -> PeerFailed:
        code = self._process.wait()
        return PeerFailed(f"its process ended with {code}: {self._last_words()}")

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "no message"


class Lane:
    """One contender at one task, in its host."""

    def __init__(self, host: _Host, offered: Offered, task: str, settings: dict[str, Any]) -> None:
        self.offered = offered
        self._host = host
        self._number = next(_NUMBERS)
        host.ask("open", self._number, offered.kind, offered.name, task, settings)

    def ask(self, method: str, *given: object) -> Any:  # noqa: ANN401 (what the lane's method gives)
        """Call a method of the lane."""
        return self._host.ask("ask", self._number, method, given)

    def begin(self, method: str, *given: object) -> None:
        """Call a method of the lane and do not wait for it; nothing else may be asked of its host until `end`."""
        self._host.send("ask", self._number, method, given)

    def end(self) -> Any:  # noqa: ANN401 (what the lane's method gives)
        """The answer of what was begun."""
        return self._host.receive()

    def close(self) -> None:
        """Let go of what it holds."""
        self._host.ask("close", self._number)


class Guests:
    """Every peer that takes part; hosts start when they are first asked for."""

    def __init__(self, only: frozenset[str] = frozenset()) -> None:
        self._only = only
        self._hosts: dict[str, _Host] = {}
        self.failures: dict[str, str] = {}
        """Peers that could not be installed or started, and why."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self._hosts.values():
            host.stop()

    def offered(self, kind: str) -> list[Offered]:
        """Everybody who offers this, ours first."""
        found = [
            Offered(peer, kind, facts["name"], facts["package"], facts)
            for peer in self._names()
            if (host := self._host(peer)) is not None
            for facts in host.offers["offered"][kind]
        ]
        return sorted(found, key=lambda each: not each.ours)

    def lane(self, offered: Offered, task: str, /, **settings: object) -> Lane:
        """A lane (`bench.lanes.<task>`) in the host of whoever offers it; starts the host anew if it died."""
        host = self._host(offered.peer)
        if host is None:
            raise PeerFailed(self.failures[offered.peer])
        return Lane(host, offered, task, settings)

    @contextmanager
    def crew(
        self, offered: Offered, task: str, settings: Sequence[dict[str, Any]], /
    ) -> Iterator[list[Lane]]:
        """A lane for each of the settings, every one in a process of its own."""
        hosts: list[_Host] = []
        try:
            hosts.extend(_Host(offered.peer) for _ in settings)
            yield [
                Lane(host, offered, task, each) for host, each in zip(hosts, settings, strict=True)
            ]
        finally:
            for host in hosts:
                host.stop()

    def restart(self, peer: str) -> None:
        """Kill a peer's process as a power switch would; the next lane starts another."""
        if host := self._hosts.pop(peer, None):
            host.stop()

    def imports(self) -> list[tuple[str, str]]:
        """Statements a fresh interpreter runs, each with the interpreter of its peer; ours first."""
        return [
            (statement, python_of(peer))
            for peer in self._names()
            if (host := self._host(peer)) is not None
            for statement in host.offers["imports"]
        ]

    def versions(self) -> dict[str, str]:
        """The version of every package that takes part."""
        found: dict[str, str] = {}
        for peer in self._names():
            if host := self._host(peer):
                found |= host.offers["versions"]
        return dict(sorted(found.items()))

    @contextmanager
    def frozen_heaps(self) -> Iterator[None]:
        """Keep what is held between calls out of the way of every collector while somebody is timed."""
        for host in self._hosts.values():
            host.ask("freeze")
        try:
            yield
        finally:
            for host in self._hosts.values():
                if host.alive:
                    host.ask("thaw")

    def notes(self) -> list[str]:
        """A line for each peer that could not take part."""
        return [f"left out: {peer}, {why}" for peer, why in sorted(self.failures.items())]

    def _names(self) -> list[str]:
        return [name for name in peer_names() if not self._only or name in self._only]

    def _host(self, peer: str) -> _Host | None:
        if peer in self._hosts and not self._hosts[peer].alive:
            self._hosts.pop(peer).stop()
        if peer not in self._hosts and peer not in self.failures:
            try:
                self._hosts[peer] = _Host(peer)
            except PeerFailed as failed:
                self.failures[peer] = str(failed)
        return self._hosts.get(peer)
