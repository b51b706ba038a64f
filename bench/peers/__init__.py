"""One file per peer; each runs in an environment and a process of its own (`bench.hosts`).

To add a peer: one file here, `NEEDS` with its pinned requirements, and the tuples of `bench.contender` it can offer.
"""
