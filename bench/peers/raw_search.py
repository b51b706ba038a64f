"""SQLite's own full-text search, with no library around it: what one gets by writing the three lines oneself."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.contender import Find, Found, Item

__all__ = ("FOUND", "NEEDS")

NEEDS = None

_SELECT = "SELECT text FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?"


def _opened(
    tokenizer: str, shortest: int
) -> Callable[[Path, Sequence[Item]], tuple[Find, Callable[[], object]]]:
    def opened(path: Path, items: Sequence[Item]) -> tuple[Find, Callable[[], object]]:
        file = sqlite3.connect(path)
        file.execute(f"CREATE VIRTUAL TABLE said USING fts5(text, tokenize='{tokenizer}')")
        file.executemany("INSERT INTO said VALUES (?)", ((item.text,) for item in items))
        file.commit()

        def find(question: str, limit: int) -> list[str]:
            words = [word for word in re.findall(r"\w+", question) if len(word) >= shortest]
            wanted = " OR ".join(f'"{word}"' for word in words)
            rows = file.execute(_SELECT, (wanted, limit)) if wanted else ()
            return [text for (text,) in rows]

        return find, file.close

    return opened


FOUND = (
    Found(
        name="raw FTS5, unicode61",
        package="",
        open=_opened("unicode61", 1),
        note="any of the words, by bm25; a Chinese sentence is one word",
        raw=True,
    ),
    Found(
        name="raw FTS5, trigram",
        package="",
        open=_opened("trigram", 3),
        note="any of the words of three characters or more, as parts of a text, by bm25",
        raw=True,
    ),
)
