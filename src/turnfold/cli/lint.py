"""`turnfold lint`: checks a history against the rules of its provider, and repairs it.

It finds faults such as a tool result without its call, an empty block, or an id of another provider. The file is a
request body, a list of messages, or JSON Lines with one message per line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from turnfold.errors import InvalidOption
from turnfold.wire import Fault, guess_provider, lint, repair

__all__ = ("PROVIDERS", "Linted", "lint_file", "read_payload")


PROVIDERS = ("anthropic", "gemini", "openai_chat", "openai_responses")


class Linted:
    """The faults of a history, and the repaired history."""

    __slots__ = ("changes", "faults", "mended", "provider")

    def __init__(self, provider: str, payload: object) -> None:
        self.provider = provider
        self.faults: tuple[Fault, ...] = lint(payload, provider)
        done = repair(payload, provider)
        self.mended = done.payload
        """The repaired payload."""
        self.changes = tuple(map(str, done.changes))
        """Changes the repair made."""

    def as_json(self) -> str:
        """Return faults and changes as JSON."""
        return json.dumps(
            {
                "provider": self.provider,
                "faults": [
                    {"rule": f.rule, "path": f.path, "detail": f.detail, "source": f.reference}
                    for f in self.faults
                ],
                "changes": list(self.changes),
            },
            ensure_ascii=False,
        )


def lint_file(path: Path, provider: str | None) -> Linted:
    """Check a file against the rules of a provider; by default the detected one."""
    if provider is not None and provider not in PROVIDERS:
        raise InvalidOption(f"provider {provider!r} is not one of {', '.join(PROVIDERS)}")
    payload = read_payload(path)
    return Linted(provider or guess_provider(payload), payload)


def read_payload(path: Path) -> object:
    """Read a request body or a list of messages, from JSON or JSON Lines."""
    text = path.read_text("utf-8")
    try:
        return cast("object", json.loads(text))
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            return [cast("object", json.loads(line)) for line in lines]
        except (ValueError, RecursionError) as error:
            raise InvalidOption(f"{path} is neither JSON nor JSON Lines: {error}") from None
    except RecursionError:
        raise InvalidOption(f"{path} is nested too deeply to be read as a history") from None
