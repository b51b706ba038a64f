"""Where peers live: each in an environment and a process of its own, so that their requirements never meet.

`environments` makes an environment from what the peer's file says it needs, `host` is the process that runs in it,
`guests` is the side of the benchmarks: it starts hosts, asks them, and tells a failure from a slow answer.
"""

from __future__ import annotations

from bench.hosts.guests import Guests, Lane, Offered, PeerFailed

__all__ = ("Guests", "Lane", "Offered", "PeerFailed")
