"""Which reader a file needs, told from its first few values, so that nobody has to know what wrote it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final, cast

from turnfold.errors import InvalidExport, InvalidOption
from turnfold.memory.importing.chatgpt import chatgpt_histories
from turnfold.memory.importing.claude_code import claude_code_histories, is_claude_code
from turnfold.memory.importing.json_stream import Value, opened, values
from turnfold.memory.importing.pieces import Found
from turnfold.memory.importing.provider_histories import BODIES, PROVIDERS, provider_histories
from turnfold.stores.transfer_lines import FORMAT
from turnfold.wire.guessing import guess_provider

__all__ = ("FORMATS", "TURNFOLD", "detect", "read_histories")

TURNFOLD: Final = "turnfold"
FORMATS: Final = (TURNFOLD, *PROVIDERS, "chatgpt", "claude-code")
_LOOKED_AT = 50
_OURS = {"openai_chat": "openai", "openai_responses": "openai-responses"}


def detect(path: Path) -> str:
    """The format of a file; an `InvalidExport` where it is none of those known."""
    with opened(path) as file:
        head = [each.value for each in islice(values(file), _LOOKED_AT) if isinstance(each, Value)]
    objects = [cast("dict[str, object]", value) for value in head if isinstance(value, dict)]
    if objects and objects[0].get("format") == FORMAT:
        return TURNFOLD
    if any("mapping" in one for one in objects):
        return "chatgpt"
    if any(map(is_claude_code, objects)):
        return "claude-code"
    bodies = [one for one in objects if any(key in one for key in BODIES) and "role" not in one]
    if bodies:
        guesses = {guess_provider(one) for one in bodies} - {"openai_chat"}
        guess = guesses.pop() if len(guesses) == 1 else "openai_chat"
        return _OURS.get(guess, guess)
    if any("role" in one or "type" in one for one in objects):
        guess = guess_provider(list[object](objects))
        return _OURS.get(guess, guess)
    raise InvalidExport(
        "no conversation in it that can be told by its look",
        line=1,
        remedy=f"Name its format: one of {', '.join(FORMATS)}",
    )


def read_histories(path: Path, format_name: str, *, branches: bool) -> Found:
    """The conversations of a foreign file, read from its beginning to its end."""
    name = path.name.split(".")[0] or "imported"
    with opened(path) as file:
        found = values(file)
        if format_name == "chatgpt":
            yield from chatgpt_histories(found, name, branches=branches)
        elif format_name == "claude-code":
            yield from claude_code_histories(found, name)
        elif format_name in PROVIDERS:
            yield from provider_histories(found, format_name, name)
        else:
            raise InvalidOption(f"format {format_name!r} is none of {', '.join(FORMATS)}")
