"""The addresses of what can be read: `memory://sessions`, and below a session its summary, log, calls and snapshots.

Ids are percent-encoded whole, so an id may hold slashes, spaces or Chinese and still be one part of the path. An
address that says anything unknown is refused, never guessed at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from turnfold.errors import InvalidOption, NotFound
from turnfold.stores.protocol import check_name

__all__ = ("TEMPLATES", "Address", "read_address")

_SCHEME: Final = "memory://"
_SESSIONS: Final = "sessions"
_LARGEST: Final = 1 << 62
_LONGEST: Final = 16_384
TEMPLATES: Final = {
    "memory://{session}/summary{?start}": (
        "summary",
        "The live summary of a session: what its older turns were folded into. 会话摘要",
    ),
    "memory://{session}/log{?after,start}": (
        "log",
        "The log of a session, word for word, page by page. 会话记录",
    ),
    "memory://{session}/context/{call}{?start}": (
        "context",
        "What one call of a session sent to the model, and its account. 某次调用的上下文",
    ),
    "memory://{session}/snapshot/{turn}": (
        "snapshot",
        "The workspace of a session as it was at a turn. 某一轮的工作区快照",
    ),
}
_KNOWN: Final = {"summary": 0, "log": 0, "context": 1, "snapshot": 1}
"""What there is below a session, and how many names follow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One thing that can be read, from some place on."""

    kind: str
    session: str = ""
    name: str = ""
    """The call or the turn."""
    after: str = ""
    """The session or the entry a page begins after."""
    start: int = 0
    """The character a long text is shown from."""

    def __str__(self) -> str:
        parts = [_SESSIONS] if self.kind == _SESSIONS else [quote(self.session, safe=""), self.kind]
        if self.name:
            parts.append(quote(self.name, safe=""))
        said = {"after": self.after, "start": str(self.start) if self.start else ""}
        asked = "&".join(f"{key}={quote(value, safe='')}" for key, value in said.items() if value)
        return f"{_SCHEME}{'/'.join(parts)}{'?' if asked else ''}{asked}"


def read_address(text: str) -> Address:
    """The address a text names; `NotFound` for one that names nothing."""
    scheme, rest = text[: len(_SCHEME)], text[len(_SCHEME) :]
    if scheme != _SCHEME or len(text) > _LONGEST or "#" in rest:
        raise _unknown()
    path, _, query = rest.partition("?")
    names = [_plain(part) for part in path.split("/")]
    if names == [_SESSIONS]:
        return Address(kind=_SESSIONS, after=_asked(query, {"after"}).get("after", ""))
    if len(names) < 2 or _KNOWN.get(names[1]) != len(names) - 2:
        raise _unknown()
    check_name(names[0], "session")
    kind = names[1]
    allowed = {"log": {"after", "start"}, "snapshot": set[str]()}.get(kind, {"start"})
    asked = _asked(query, allowed)
    _whole(asked.get("after", "0"), "after")
    return Address(
        kind=kind,
        session=names[0],
        name="".join(names[2:]),
        after=asked.get("after", ""),
        start=_whole(asked.get("start", "0"), "start"),
    )


def _asked(query: str, allowed: set[str]) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError:
        raise InvalidOption("what stands behind the ? of this address cannot be read") from None
    given = dict(pairs)
    unknown = sorted(given.keys() - allowed)
    if unknown or len(given) < len(pairs):
        takes = ", ".join(sorted(allowed)) or "nothing"
        raise InvalidOption(f"this address takes {takes}, each once, behind its ?")
    return given


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > _LARGEST:
        raise InvalidOption(f"{name} is a whole number, 0 to {_LARGEST}")
    return int(text)


def _plain(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise InvalidOption("what stands percent-encoded in this address is not UTF-8") from None


def _unknown() -> NotFound:
    known = ", ".join(("memory://sessions", *TEMPLATES))
    return NotFound(f"nothing has this address; there are: {known}")
