"""A store whose connections fail at a chosen statement, as a full or broken disk would make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from turnfold.stores import SqliteStore
from turnfold.stores.sqlite.write_queue import Connection, Cursor

__all__ = ("Faulty",)


class _Watched:
    """A connection that lets its owner decide about every statement before and after it runs."""

    def __init__(self, inner: Connection, around: Callable[[str, bool], None]) -> None:
        self.inner, self._around = inner, around

    @property
    def filename(self) -> str:
        return self.inner.filename

    @property
    def in_transaction(self) -> bool:
        return self.inner.in_transaction

    def execute(self, statements: str, bindings: Sequence[object] = (), /) -> Cursor:
        self._around(statements, False)  # noqa: FBT003 (before)
        return self._ran(statements, self.inner.execute(statements, bindings))

    def executemany(self, statements: str, bindings: Iterable[Sequence[object]], /) -> Cursor:
        self._around(statements, False)  # noqa: FBT003 (before)
        return self._ran(statements, self.inner.executemany(statements, bindings))

    def _ran(self, statements: str, answer: Any) -> Cursor:
        try:
            self._around(statements, True)  # noqa: FBT003 (after)
        except BaseException:
            # Rows half read stay open as long as somebody keeps the error, which is a fault to survive as well.
            if not statements.startswith("SELECT"):
                answer.close()
            raise
        return answer

    def last_insert_rowid(self) -> int:
        return self.inner.last_insert_rowid()

    def data_version(self) -> int:
        return self.inner.data_version()

    def total_changes(self) -> int:
        return self.inner.total_changes()

    def read(self, schema: str, which: int, offset: int, amount: int, /) -> tuple[bool, bytes]:
        return self.inner.read(schema, which, offset, amount)

    def close(self) -> None:
        self.inner.close()


class Faulty:
    """While entered, the statement chosen by number or by its beginning raises, before (or after) it took effect.

    `times` faults follow one another from there on. `statements` tells what was run.
    """

    def __init__(
        self,
        store: SqliteStore,
        where: int | str,
        *,
        error: Callable[[str], BaseException],
        late: bool = False,
        times: int = 1,
    ) -> None:
        self._engine: Any = store._engine
        self._where, self._error, self._late, self._left = where, error, late, times
        self.statements: list[str] = []
        self.struck = 0

    def __enter__(self) -> Self:
        engine = self._engine
        engine._writer = _Watched(engine._writer, self._around)
        readers = engine._readers
        readers.idle = [_Watched(reader, self._around) for reader in readers.idle]
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        engine = self._engine
        engine._writer = engine._writer.inner
        readers = engine._readers
        readers.idle = [getattr(reader, "inner", reader) for reader in readers.idle]

    def _around(self, statement: str, after: bool) -> None:  # noqa: FBT001 (one caller)
        if not after:
            self.statements.append(statement)
        if after is self._late and self._left and self._chosen(statement):
            self._left -= 1
            self.struck += 1
            raise self._error("a fault that was planted")

    def _chosen(self, statement: str) -> bool:
        if isinstance(self._where, str):
            return statement.startswith(self._where)
        return len(self.statements) >= self._where
