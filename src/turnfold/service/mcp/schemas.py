"""Arguments and results of the MCP tools, one struct each; the JSON schemas that clients get are made from them.

Models read the class docstrings and the field descriptions to decide what to call, so these say what a field does, in
English and in Chinese. Invalid arguments are refused with their place and the reason, so that a model can correct them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeVar, cast

import msgspec
from msgspec import Meta

from turnfold.errors import InvalidOption

__all__ = (
    "Arguments",
    "FoldArguments",
    "FoldReply",
    "FoundItem",
    "ListArguments",
    "RecallArguments",
    "RecalledPassages",
    "RememberAnswer",
    "RememberArguments",
    "SearchArguments",
    "SearchFound",
    "SessionArguments",
    "SessionItem",
    "SessionStanding",
    "SessionsAnswer",
    "read_arguments",
    "schema_of",
)


_REFERENCE: Final = "#/$defs/{name}"
_LONGEST_TEXT: Final = 100_000

_Session = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        description="Id of a session, as list_sessions names it. Default: the session of this server. "
        "会话，默认为本服务器的会话",
    ),
]
_Query = Annotated[
    str, Meta(min_length=1, max_length=2_000, description="Words to look for. 关键词")
]
_Seq = Annotated[int, Meta(ge=1, le=(1 << 62))]


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of a tool call."""


class SessionArguments(Arguments, kw_only=True):
    """The session to use; the server's default if no session is named."""

    session: _Session | msgspec.UnsetType = msgspec.UNSET


class RecallArguments(SessionArguments, kw_only=True):
    """The content to recall, by words, turns, a range of the log, or the id of a workspace snapshot."""

    query: _Query | msgspec.UnsetType = msgspec.UNSET
    turn_numbers: (
        Annotated[
            list[Annotated[int, Meta(ge=0, le=(1 << 62))]],
            Meta(min_length=1, max_length=50, description="Turns to show whole. 轮次"),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    first_seq: (
        Annotated[_Seq, Meta(description="First entry of a range of the log. 起始记录")]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    last_seq: (
        Annotated[_Seq, Meta(description="Last entry of that range. 末尾记录")] | msgspec.UnsetType
    ) = msgspec.UNSET
    offset: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=(1 << 53),
                description="Character of entry first_seq to continue from. 从该记录的第几个字符继续",
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    ref: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=64,
                description="Id of a workspace snapshot (ctx_...). 工作区快照编号",
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    max_tokens: (
        Annotated[
            int,
            Meta(
                ge=64, description="Most tokens to return; at most this server's limit. token 上限"
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class SearchArguments(SessionArguments, kw_only=True):
    """Words to search for, and the session to search."""

    query: _Query
    session: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=512,
                description="Look in this session alone. Default: in all. 仅在此会话中查找，默认查找全部",
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    limit: Annotated[int, Meta(ge=1, le=50, description="Most results. 结果数上限")] = 10


class RememberArguments(SessionArguments, kw_only=True):
    """The text to store, and whether to pin it."""

    text: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=_LONGEST_TEXT,
            description="What to keep, understandable by itself. 要记住的内容，须能独立理解",
        ),
    ]
    pin: Annotated[
        bool,
        Meta(
            description="Also show it word for word in every later call of that session. 是否置顶"
        ),
    ] = False


class ListArguments(Arguments, kw_only=True):
    """The page of the list of sessions to return."""

    after: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=512,
                description="Continue after this session: `next` of the previous page. 从此会话之后继续",
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="Most sessions. 会话数上限")] = 50


class FoldArguments(SessionArguments, kw_only=True):
    """Number of newest turns to keep unfolded, and the summary that replaces the older turns."""

    summary: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=_LONGEST_TEXT,
                description="Your own summary of the older turns, kept word for word. Default: the server makes one. "
                "摘要，默认自动生成",
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    keep_turns: (
        Annotated[
            int,
            Meta(ge=0, le=10_000, description="Newest turns that stay as they are. 保留的最近轮数"),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class _Answer(msgspec.Struct):
    pass


class RecalledPassages(_Answer, kw_only=True):
    """Recalled text, fenced (marked as data)."""

    session: str
    text: str
    tokens: int


class FoundItem(_Answer, kw_only=True):
    """One search result."""

    session: str
    kind: str
    """`entry` for a message, `checkpoint` for a summary."""
    seq: int
    turn: int
    role: str
    snippet: str
    score: float


class SearchFound(_Answer, kw_only=True):
    """The search results, best first."""

    found: list[FoundItem]
    cut: int
    """Number of further results that do not fit the response."""
    hint: str


class RememberAnswer(_Answer, kw_only=True):
    """The place where the remembered text was stored."""

    session: str
    seq: int
    repeated: bool
    """True if the same text was already stored."""
    pinned: str
    """Key of the pin that was made; empty if the text was not pinned."""


class SessionItem(_Answer, kw_only=True):
    """One session of the list."""

    session: str
    entries: int
    turns: int
    tokens: int
    folded: bool
    updated: str


class SessionsAnswer(_Answer, kw_only=True):
    """A page of the sessions, in the order of their ids."""

    sessions: list[SessionItem]
    next: str
    """Value of `after` for the next page; empty on the last page."""


class SessionStanding(_Answer, kw_only=True):
    """The status of a session, and the size of its next context."""

    session: str
    mode: str
    entries: int
    turns: int
    tokens: int
    """Tokens of the whole log of the session."""
    folded_upto: int
    checkpoints: int
    pins: int
    next_call: dict[str, int]
    """Tokens of the next call by section; empty if its context cannot be built."""
    next_tokens: int
    allowed: int
    problem: str
    """Error that prevents building the context of the next call; empty if there is none."""


class FoldReply(_Answer, kw_only=True):
    """The result of a fold (compaction)."""

    session: str
    folded: bool
    """False if there was nothing to fold (compact)."""
    checkpoint: str
    upto: int
    summary_tokens: int


_Read = TypeVar("_Read", bound=Arguments)


def read_arguments(kind: type[_Read], given: Mapping[str, object]) -> _Read:
    """Decode the arguments of an MCP tool call to the struct `kind`; raises `InvalidOption` if they do not fit."""
    present = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(present, kind, strict=False)
    except UnicodeError:
        raise InvalidOption(
            "an argument contains a lone surrogate, which is not valid text"
        ) from None
    except (msgspec.ValidationError, RecursionError) as error:
        known = ", ".join(kind.__struct_fields__)
        raise InvalidOption(f"{error}; the arguments are: {known}") from None


def schema_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return the JSON schema of a struct, with the types it refers to in `$defs`."""
    _, components = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    parts = cast("dict[str, dict[str, object]]", components)
    whole = dict(parts.pop(kind.__name__))
    whole.pop("title", None)
    return whole | ({"$defs": parts} if parts else {})
