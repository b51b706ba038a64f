"""`turnfold lint`: checks a history against the rules of its provider, and repairs it.

It finds faults such as a tool result without its call, an empty block, or an id of another provider. The file is a
request body or a list of messages, as JSON or JSON Lines, or any other file that `turnfold import` reads. Of the
latter, each conversation is converted to a request for the provider, without repairs, and that request is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from turnfold import wire
from turnfold.cli.replay import read_file, require_messages
from turnfold.cli.store_and_session_lookup import file_or_session, log_pages, open_session
from turnfold.errors import InvalidExport, InvalidOption, NotFound
from turnfold.importers import TURNFOLD, detect
from turnfold.wire import Fault, guess_provider, lint, object_of, objects_of, repair

__all__ = ("PROVIDERS", "Linted", "lint_file", "lint_session", "read_payload")


_WRITERS: Final[Mapping[str, wire.WireFormat]] = {
    "anthropic": wire.anthropic,
    "gemini": wire.gemini,
    "openai_chat": wire.openai_chat,
    "openai_responses": wire.openai_responses,
}
PROVIDERS = tuple(_WRITERS)
_PROGRAMS: Final[Mapping[str, str]] = {
    "chatgpt": "openai_chat",
    "claude-code": "anthropic",
    "langchain": "openai_chat",
    "mem0": "openai_chat",
    "openai-agents": "openai_responses",
    TURNFOLD: "openai_chat",
}
"""Import format that no provider defines -> the provider whose rules apply by default."""
_BODIES = ("messages", "contents", "input")


class Linted:
    """The faults found in a history, and the repaired history."""

    __slots__ = ("changes", "conversation", "faults", "mended", "provider")

    def __init__(self, provider: str, payload: object, conversation: str = "") -> None:
        self.provider = provider
        self.conversation = conversation
        """Id of the conversation, if the file has several conversations."""
        self.faults: tuple[Fault, ...] = lint(payload, provider)
        done = repair(payload, provider)
        self.mended = done.payload
        """The repaired payload."""
        self.changes = tuple(map(str, done.changes))
        """Changes that the repair made."""

    def as_fields(self) -> dict[str, object]:
        """Return the faults of the history, and the changes of its repair, as JSON values."""
        fields: dict[str, object] = {
            "provider": self.provider,
            "faults": [
                {"rule": f.rule, "path": f.path, "detail": f.detail, "source": f.reference}
                for f in self.faults
            ],
            "changes": list(self.changes),
        }
        return {"conversation": self.conversation, **fields} if self.conversation else fields


def lint_file(path: Path, provider: str | None) -> list[Linted]:
    """Check the conversations of a file against the rules of a provider; by default the provider is detected."""
    require_provider(provider)
    require_messages(path)
    try:
        written_by = detect(path)
    except (InvalidExport, InvalidOption):
        written_by = ""  # read_payload() raises an error that says what is wrong
    if written_by in _PROGRAMS:
        return list(_imported(path, provider or _PROGRAMS[written_by]))
    payload = read_payload(path)
    bodies = objects_of(payload)
    if bodies and all("role" not in one and any(key in one for key in _BODIES) for one in bodies):
        return [
            Linted(provider or guess_provider(one), one, _name(one, at))
            for at, one in enumerate(bodies, 1)
        ]
    if not bodies and not {"role", *_BODIES} & (object_of(payload) or {}).keys():
        raise NotFound(
            f"there are no messages in {path}: give a request body, a list of messages, or a file that "
            "`turnfold import` can read"
        )
    return [Linted(provider or guess_provider(payload), payload)]


def lint_session(store: str | None, tenant: str, name: str, provider: str | None) -> list[Linted]:
    """Check a stored session as a request for a provider, without repairs."""
    chosen = provider or "openai_chat"
    require_provider(chosen)
    with file_or_session(name), open_session(store, tenant, name, calls=1) as at:
        messages = [entry.message for page in log_pages(at.session) for entry in page]
        return [
            Linted(chosen, _WRITERS[chosen].request(messages, repair=False).kwargs, at.session.id)
        ]


def require_provider(provider: str | None) -> None:
    """Raise `InvalidOption` if a provider is named that is not known."""
    if provider is not None and provider not in PROVIDERS:
        raise InvalidOption(f"provider {provider!r} is not one of {', '.join(PROVIDERS)}")


def _name(body: Mapping[str, object], at: int) -> str:
    named = body.get("id") or body.get("conversation_id")
    return named if isinstance(named, str) else f"#{at}"


def _imported(path: Path, provider: str) -> Iterator[Linted]:
    write = _WRITERS[provider].request
    for name, messages in read_file(path, "auto").items():
        payload = write([each.message for each in messages], repair=False).kwargs
        yield Linted(provider, payload, name)


def read_payload(path: Path) -> object:
    """Read a request body or a list of messages, from JSON or JSON Lines."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"{path} is not text in UTF-8 (byte {error.start}): save it as UTF-8"
        ) from None
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
