"""What is done inside a peer's process: one file per task, each with a `Lane` that prepares, times and judges.

Nothing here imports turnfold or a peer: a lane is given a contender of the peer's file and drives it like any other.
Conversations are made here from their seed, so that none is sent between processes.
"""
