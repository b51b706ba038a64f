"""Detects the format of a history file from its first values, and reads it with the right reader."""

from __future__ import annotations

from codecs import getincrementaldecoder
from itertools import islice
from pathlib import Path
from typing import Final

from turnfold.errors import InvalidExport, InvalidOption
from turnfold.importers.chatgpt import chatgpt_histories
from turnfold.importers.claude_code import claude_code_histories, is_claude_code
from turnfold.importers.histories import (
    BODIES,
    PROVIDERS,
    is_langchain,
    is_mem0,
    is_sqlite,
    langchain_histories,
    mem0_histories,
    provider_histories,
    session_table,
    table_values,
)
from turnfold.importers.json_stream import Value, open_text, read_fields, read_values
from turnfold.importers.reader_events import HistoryEvents, UnreadableItem
from turnfold.stores import FORMAT
from turnfold.wire import guess_provider

__all__ = (
    "FORMATS",
    "TURNFOLD",
    "detect",
    "read_histories",
)


TURNFOLD: Final = "turnfold"
FORMATS: Final = (
    TURNFOLD,
    *PROVIDERS,
    "chatgpt",
    "claude-code",
    "langchain",
    "mem0",
    "openai-agents",
)
_SAMPLE = 50
_FORMAT_NAMES = {"openai_chat": "openai", "openai_responses": "openai-responses"}


def detect(path: Path) -> str:
    """Return the format of a file; raises `InvalidOption` if it is unknown."""
    if is_sqlite(path):
        return session_table(path)
    head = _head(path)
    found = [each for each in head if isinstance(each, Value) and isinstance(each.value, dict)]
    objects = [read_fields(each.value) for each in found]
    if objects and objects[0].get("format") == FORMAT:
        return TURNFOLD
    if any("mapping" in one for one in objects):
        return "chatgpt"
    if any(map(is_claude_code, objects)):
        return "claude-code"
    if any(map(is_langchain, objects)):
        return "langchain"
    if any(map(is_mem0, objects)):
        return "mem0"
    bodies = [one for one in objects if any(key in one for key in BODIES) and "role" not in one]
    if bodies:
        guesses = {guess_provider(one) for one in bodies} - {"openai_chat"}
        guess = guesses.pop() if len(guesses) == 1 else "openai_chat"
        return _FORMAT_NAMES.get(guess, guess)
    if any("role" in one or "type" in one for one in objects):
        guess = guess_provider(list[object](objects))
        return _FORMAT_NAMES.get(guess, guess)
    problem = next(
        (str(each) for each in head if isinstance(each, UnreadableItem)),
        "it has neither messages nor conversations",
    )
    raise _unknown_format(path, problem)


def _head(path: Path) -> list[Value | UnreadableItem]:
    """Return the first values of a file."""
    try:
        with open_text(path) as file:
            return list(islice(read_values(file), _SAMPLE))
    except InvalidExport as error:  # its beginning is not even text
        if isinstance(error.__cause__, UnicodeDecodeError) and _is_chinese_encoding(path):
            raise  # its format does not matter before it is converted
        raise _unknown_format(path, str(error)) from None


def _is_chinese_encoding(path: Path) -> bool:
    """Return True if a file begins with text in GBK or GB 18030, rather than with binary data."""
    with path.open("rb") as file:
        start = file.read(4096)
    try:
        getincrementaldecoder("gb18030")().decode(start)
    except UnicodeDecodeError:
        return False
    return b"\0" not in start


def _unknown_format(path: Path, problem: str) -> InvalidOption:
    return InvalidOption(
        f"the format of {path.name} is not known ({problem}). If it is one of the following, name it with --format: "
        f"{', '.join(FORMATS)}"
    )


def read_histories(path: Path, format_name: str, *, branches: bool) -> HistoryEvents:
    """Yield the conversations of a file in the format `format_name` as events, in order."""
    name = path.name.split(".")[0] or "imported"
    if is_sqlite(path):
        yield from _table_histories(path, format_name, name)
        return
    with open_text(path) as file:
        found = read_values(file)
        if format_name == "chatgpt":
            yield from chatgpt_histories(found, name, branches=branches)
        elif format_name == "claude-code":
            yield from claude_code_histories(found, name)
        elif format_name == "langchain":
            yield from langchain_histories(found, name)
        elif format_name == "mem0":
            yield from mem0_histories(found, name)
        elif format_name in PROVIDERS:
            yield from provider_histories(found, format_name, name)
        elif format_name == "openai-agents":
            raise InvalidOption(
                f"{path.name} is not a SQLite file; the format openai-agents needs the database file of SQLiteSession"
            )
        else:
            raise InvalidOption(f"unknown format {format_name!r}; use one of {', '.join(FORMATS)}")


def _table_histories(path: Path, format_name: str, name: str) -> HistoryEvents:
    """Yield the conversations in a SQLite file's table of messages as events."""
    found = session_table(path)
    if found != format_name:
        raise InvalidOption(
            f"{path.name} has sessions in the format {found}, not {format_name}; use the format {found}"
        )
    values = table_values(path, found)
    if found == "langchain":
        return langchain_histories(values, name)
    return provider_histories(values, "openai-responses", name)
