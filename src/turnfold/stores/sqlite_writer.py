"""The connection a SQLite file is written with: transactions, and the jobs of a group run within one.

Jobs of one kind run in one go; should that fail, each runs again, in a savepoint of its own like all others that share
a transaction. (A savepoint copies every page that changes in it.)
"""

from __future__ import annotations

import apsw

from turnfold.stores.sqlite_failures import known
from turnfold.stores.sqlite_jobs import ONCE, SINGLE, Connection, Job, TryAlone, split

__all__ = ("Writer",)

_WAITING = "PRAGMA synchronous=FULL"
_NOT_WAITING = "PRAGMA synchronous=NORMAL"
_NOT_ORDINARY = (TryAlone, apsw.ConstraintError)


class Writer:
    """A connection that writes; one thread at a time uses it."""

    def __init__(self, connection: Connection) -> None:
        self._writer = connection
        self._waits: bool | None = True  # whether a commit waits for the disk; None: not sure
        self._version = -1
        self.doubts = 0
        """Grows with each rollback, and each commit of another connection: what a job wrote may be gone or changed."""

    def _begin(self) -> None:
        if self._writer.in_transaction:  # what an earlier failure could not undo
            self._undo()
        self._writer.execute("BEGIN IMMEDIATE")
        if self._writer.data_version() != self._version:
            self.doubts += 1

    def _wait(self, *, waits: bool) -> None:
        """Wait for the disk at commits from now on, or no longer."""
        if self._writer.in_transaction:
            self._undo()
        self._waits = None
        if waits:
            self._writer.execute(_WAITING).fetchall()
        else:
            self._writer.execute(_NOT_WAITING).fetchall()
        self._waits = waits

    def _run(self, group: list[Job]) -> None:
        same, others = (group, []) if len(group) == 1 else split(group)
        if not self._run_together(same, only=not others):
            self._begin()
            others = group
        for job in others:
            self._attempt(job)

    def _run_together(self, jobs: list[Job], *, only: bool) -> bool:
        """Run the first jobs of a transaction; whether that went well: if not, all is undone and they run alone."""
        if not jobs:
            return True
        kind = jobs[0].kind
        try:
            results = kind.together(self._writer, [job.item for job in jobs])
        except Exception as error:
            self._undo()
            if (
                kind is SINGLE
                or kind is ONCE
                or (len(jobs) == 1 and only and not isinstance(error, _NOT_ORDINARY))
            ):
                jobs[0].failure = known(error)
                return True
            return False
        for job, result in zip(jobs, results, strict=True):
            job.result = result
        return True

    def _attempt(self, job: Job) -> None:
        """Run a job; if it fails, everything it did is undone."""
        self._writer.execute("SAVEPOINT job")
        try:
            job.result = job.kind.alone(self._writer, job.item)
        except Exception as error:
            self._undo_savepoint()
            job.failure = known(error)
        else:
            self._writer.execute("RELEASE job")

    def _undo_savepoint(self) -> None:
        self.doubts += 1
        self._writer.execute("ROLLBACK TO job; RELEASE job")

    def _undo(self) -> None:
        self.doubts += 1
        self._roll_back()

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")
