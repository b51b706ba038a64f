"""LangGraph: `PostgresSaver` on a pool of connections, as its documentation sets it up for production.

Every checkpoint stores the messages of its thread as one value, however many of them are new.
"""

from __future__ import annotations

from langgraph.checkpoint.postgres import PostgresSaver
from psycopg import Connection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from bench.contender import Appended, Settings
from bench.peers.langgraph_sqlite import APPENDED_NOTE, SaverAppender

__all__ = ("APPENDED",)

NEEDS = (
    "langchain-core==1.7.2",
    "langgraph==1.2.20",
    "langgraph-checkpoint-postgres==3.2.0",
    "langgraph-checkpoint-sqlite==3.1.2",
    "psycopg[binary]==3.3.8",
)

_CONNECTIONS = 16


class _Appender(SaverAppender):
    def __init__(self, url: str) -> None:
        self._pool: ConnectionPool[Connection[DictRow]] = ConnectionPool(
            url,
            max_size=_CONNECTIONS,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
            open=True,
        )
        saver = PostgresSaver(self._pool)
        saver.setup()
        super().__init__(saver)

    def settings(self) -> Settings:
        with self._pool.connection() as connection:
            [row] = connection.execute("SHOW synchronous_commit").fetchall()
        return Settings("server", 2 if row["synchronous_commit"] == "on" else 0)

    def close(self) -> None:
        self._pool.close()


APPENDED = (
    Appended(
        name="LangGraph PostgresSaver",
        package="langgraph-checkpoint-postgres",
        open=_Appender,
        note=f"on a pool of {_CONNECTIONS} connections: {APPENDED_NOTE}",
        largest=1_500,
        served=True,
    ),
)
