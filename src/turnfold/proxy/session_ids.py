"""Finds the id of the session that a request belongs to, in its path, headers or body.

Agent programs already send such an id, each in a header or body field of its own. An id that the user configured (in
the path or in the header X-Turnfold-Session) is preferred.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

import msgspec

from turnfold.wire import JsonObject, object_of, text_at

__all__ = ("SESSION_HEADER", "session_id", "split_path")


SESSION_HEADER: Final = "x-turnfold-session"
_PREFIX: Final = re.compile(r"/s/([^/]+)(/.*)")
_HEADERS: Final = (
    "session-id",  # Codex
    "session_id",  # Codex before it changed the spelling; pi
    "x-litellm-session-id",  # OpenHands, and other programs that use LiteLLM
    "x-session-id",
    "x-session-affinity",  # opencode
)
_CLAUDE_CODE: Final = "x-claude-code-session-id"
_CLAUDE_CODE_AGENT: Final = "x-claude-code-agent-id"
_USER_ID_SESSION: Final = re.compile(r"_session_([0-9A-Za-z-]+)$")
_LONGEST: Final = 200
"""The most characters of an id that is used unchanged; a longer one is replaced by its digest."""


def split_path(path: str) -> tuple[str, str]:
    """Split `/s/<id>/rest` into the session id and the path without it; the id is empty if there is no such prefix."""
    found = _PREFIX.fullmatch(path)
    return (unquote(found[1]), found[2]) if found else ("", path)


def session_id(given: str, headers: Mapping[str, str], fields: Mapping[str, msgspec.Raw]) -> str:
    """Return the id of the session that a request names; `given` is the id in its path.

    The result is empty if there is none.
    """
    own = given or headers.get(SESSION_HEADER, "")
    if own:
        return _name(own)
    claude = headers.get(_CLAUDE_CODE, "") or _from_user_id(_field(fields, "metadata"))
    if claude:
        agent = headers.get(_CLAUDE_CODE_AGENT, "")
        return _name(f"{claude}/{agent}" if agent else claude)
    named = next(filter(None, (headers.get(name, "") for name in _HEADERS)), "")
    return _name(named or _in_body(fields))


def _in_body(fields: Mapping[str, msgspec.Raw]) -> str:
    found = [_text(fields, "litellm_session_id")]
    metadata = _field(fields, "metadata")
    found += [text_at(metadata, name) for name in ("litellm_session_id", "session_id")]
    found.append(_text(fields, "prompt_cache_key"))  # Codex, OpenHands
    return next(filter(None, found), "")


def _from_user_id(metadata: JsonObject) -> str:
    """Return the session id in Claude Code's `metadata.user_id`: JSON, or `user_..._session_<id>` before 2.1.78."""
    user = text_at(metadata, "user_id")
    if user.startswith("{"):
        try:
            return text_at(object_of(msgspec.json.decode(user)) or {}, "session_id")
        except msgspec.DecodeError:
            return ""
    found = _USER_ID_SESSION.search(user)
    return found[1] if found else ""


def _field(fields: Mapping[str, msgspec.Raw], name: str) -> JsonObject:
    return object_of(msgspec.json.decode(fields[name])) or {} if name in fields else {}


def _text(fields: Mapping[str, msgspec.Raw], name: str) -> str:
    found: object = msgspec.json.decode(fields[name]) if name in fields else ""
    return found if isinstance(found, str) else ""


def _name(given: str) -> str:
    """Return an id that can name a conversation: unchanged, or its digest if it is too long or not printable."""
    if len(given) <= _LONGEST and given.isprintable():
        return given
    return f"digest:{blake2b(given.encode('utf-8', 'surrogatepass'), digest_size=20).hexdigest()}"
