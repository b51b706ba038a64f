"""`turnfold lint`: is this history one its provider takes, and if not, why and what would mend it.

For histories damaged by any tool: an orphaned result, an empty block, an id another provider made. Reads a request
body, a list of messages, or JSON Lines with one message a line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from turnfold.errors import InvalidOption
from turnfold.wire import Fault, lint, repair
from turnfold.wire.guessing import guess_provider

__all__ = ("PROVIDERS", "Linted", "guess_provider", "lint_file", "read_payload")

PROVIDERS = ("anthropic", "gemini", "openai_chat", "openai_responses")


class Linted:
    """What was found in a file."""

    __slots__ = ("changes", "faults", "mended", "provider")

    def __init__(self, provider: str, payload: object) -> None:
        self.provider = provider
        self.faults: tuple[Fault, ...] = lint(payload, provider)
        done = repair(payload, provider)
        self.mended = done.payload
        """The payload without its faults."""
        self.changes = tuple(map(str, done.changes))
        """What that took."""

    def as_json(self) -> str:
        """All of it, as JSON."""
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
    """Read a file and judge it by the rules of a provider, the likeliest where none is named."""
    if provider is not None and provider not in PROVIDERS:
        raise InvalidOption(f"provider {provider!r} is none of {', '.join(PROVIDERS)}")
    payload = read_payload(path)
    return Linted(provider or guess_provider(payload), payload)


def read_payload(path: Path) -> object:
    """A request body or a list of messages, from JSON or JSON Lines."""
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
        raise InvalidOption(f"{path} is nested too deeply to be a history") from None
