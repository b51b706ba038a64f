"""Anthropic's memory tool, with its files stored in a session.

The model keeps notes in files under `/memories` and reads them in later conversations. Commands and results are those
of the file-system implementation in Anthropic's SDK. Here all files are one document of a session: they are encrypted,
redacted, exported and erased with it, no path leads anywhere else, and a command takes effect whole or not at all, also
if two conversations write at the same time. A directory exists as long as there is a file in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import msgspec

from turnfold.agent.function_tools import Tool, ToolRefused
from turnfold.errors import Conflict, InvalidOption
from turnfold.memory import AsyncSession, Session
from turnfold.records import Document
from turnfold.runtime import drive
from turnfold.stores import redaction_of

__all__ = ("memory_tool",)


_ROOT: Final = "/memories"
_KIND: Final = "memory-files"
_KEY: Final = "files"
_NATIVE: Final = {"type": "memory_20250818", "name": "memory"}
_DESCRIPTION: Final = (
    "Keep notes that last beyond this conversation, in files under /memories. Look at /memories first. "
    "在 /memories 下的文件里保存跨会话的笔记；先查看 /memories。"
)
_LONGEST_PATH: Final = 512
_LINE_WIDTH: Final = 6
_MAX_TRIES: Final = 64
"""Attempts to store one change of a file; an attempt fails if another writer was first."""


class _Command(msgspec.Struct, tag_field="command", forbid_unknown_fields=True, kw_only=True):
    """Base of the commands that a model can send to the memory tool."""


class _View(_Command, tag="view"):
    path: str
    view_range: tuple[int, int] | None = None


class _Create(_Command, tag="create"):
    path: str
    file_text: str


class _Replace(_Command, tag="str_replace"):
    path: str
    old_str: str
    new_str: str = ""


class _Insert(_Command, tag="insert"):
    path: str
    insert_line: int
    insert_text: str


class _Delete(_Command, tag="delete"):
    path: str


class _Rename(_Command, tag="rename"):
    old_path: str
    new_path: str


_Commands = _View | _Create | _Replace | _Insert | _Delete | _Rename
_Files = dict[str, str]
"""Path of a file below the root -> its text."""


class _Stored(msgspec.Struct, frozen=True):
    """The stored document with all files of the memory tool: format version, and text by path."""

    v: int = 1
    files: _Files = {}


def memory_tool(
    session: AsyncSession | Session,
    *,
    native: bool = True,
    max_file_bytes: int = 100_000,
    max_bytes: int = 1_000_000,
) -> Tool:
    """Return the memory tool with its files in `session`; usually each user has a separate session for them.

    With `native=False` it is described as a function, for models of other providers. A command that would make a file
    larger than `max_file_bytes`, or all files together larger than `max_bytes`, is refused.
    """
    awaiting = getattr(session, "awaiting", session)
    if not isinstance(awaiting, AsyncSession):
        raise InvalidOption(
            f"memory_tool() got {type(session).__name__}: give a session of Memory or AsyncMemory, to hold its files"
        )
    if not 0 < max_file_bytes <= max_bytes:
        raise InvalidOption(
            f"max_file_bytes={max_file_bytes:,} must be above 0 and at most max_bytes={max_bytes:,}"
        )
    files = _MemoryFiles(awaiting, max_file_bytes, max_bytes)

    def run(**given: object) -> str:
        return drive(files.run(**given))

    call: Callable[..., object] = files.run if awaiting is session else run
    return Tool("memory", _DESCRIPTION, _PARAMETERS, call, native=_NATIVE if native else None)


class _MemoryFiles:
    """The memory tool's files in one session, and the commands on them."""

    def __init__(self, session: AsyncSession, max_file_bytes: int, max_bytes: int) -> None:
        self._store = session.config.store
        self._place = session.config.scope, session.id
        self._max_file_bytes = max_file_bytes
        self._max_bytes = max_bytes

    async def run(self, **given: object) -> str:
        """Run one command of the memory tool and return its result; raises `ToolRefused` with a text for the model."""
        if redaction := redaction_of(self._store):
            given = await redaction.value(*self._place, given)
        try:
            command = msgspec.convert(given, cast("type[_Commands]", _Commands))
        except msgspec.ValidationError as error:
            raise ToolRefused(f"this is not a command of the memory tool: {error}") from None
        for _ in range(_MAX_TRIES):
            document = await self._store.get_document(*self._place, _KIND, _KEY)
            known = msgspec.json.decode(document.body, type=_Stored).files if document else {}
            files = dict(known)
            result = _carry_out(files, command)
            if files == known:
                return result
            self._check_size(files)
            changed = Document(_KIND, _KEY, msgspec.json.encode(_Stored(files=files)), 0)
            try:
                await self._store.put_document(
                    *self._place, changed, expect=document.version if document else 0
                )
            except Conflict:  # another writer was first
                continue
            return result
        raise ToolRefused(
            f"other writers changed the memory files {_MAX_TRIES} times in a row; nothing was written: try again"
        )

    def _check_size(self, files: _Files) -> None:
        sizes = {name: len(text.encode()) for name, text in files.items()}
        largest = max(sizes, key=lambda name: sizes[name], default="")
        if largest and sizes[largest] > self._max_file_bytes:
            raise ToolRefused(
                f"{_ROOT}/{largest} would have {sizes[largest]:,} bytes; "
                f"a file may have at most {self._max_file_bytes:,}"
            )
        if sum(sizes.values()) > self._max_bytes:
            raise ToolRefused(
                f"the files would have {sum(sizes.values()):,} bytes together; they may have at most "
                f"{self._max_bytes:,}: delete or shorten some first"
            )


def _carry_out(files: _Files, command: _Commands) -> str:
    """Carry out a command by changing the dictionary `files`, and return the result of the command."""
    match command:
        case _View():
            return _view(files, command)
        case _Create():
            key = _key(command.path)
            if _is_there(files, key):
                raise ToolRefused(f"File {command.path} already exists")
            _check_parents(files, key)
            files[key] = command.file_text
            return f"File created successfully at: {command.path}"
        case _Replace():
            return _replace(files, command)
        case _Insert():
            return _insert(files, command)
        case _Delete():
            _move(files, _key(command.path), None, command.path, "delete")
            return f"Successfully deleted {command.path}"
        case _Rename():
            old, new = _key(command.old_path), _key(command.new_path)
            if old and _is_there(files, new):
                raise ToolRefused(f"The destination {command.new_path} already exists")
            _move(files, old, new, command.old_path, "rename")
            return f"Successfully renamed {command.old_path} to {command.new_path}"


def _key(path: str) -> str:
    """Return a path of the memory tool below /memories, without `.` and `..`; empty for /memories itself.

    Raises `ToolRefused` for a path outside of /memories.
    """
    if path != _ROOT and not path.startswith(f"{_ROOT}/"):
        raise ToolRefused(f"Path must start with {_ROOT}, got: {path}")
    parts: list[str] = []
    for part in path.removeprefix(_ROOT).split("/"):
        if part == ".." and not parts:
            raise ToolRefused(f"Path {path} would escape {_ROOT} directory")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if len(path) > _LONGEST_PATH or not path.isprintable():
        raise ToolRefused(
            f"a path may have at most {_LONGEST_PATH} characters, and all must be printable: {path[:80]!r}"
        )
    return "/".join(parts)


def _under(files: _Files, key: str) -> list[str]:
    """Return the names of the files in a directory, at any depth."""
    return [name for name in files if not key or name.startswith(f"{key}/")]


def _is_there(files: _Files, key: str) -> bool:
    return not key or key in files or bool(_under(files, key))


def _check_parents(files: _Files, key: str) -> None:
    """Raise `ToolRefused` if a directory of the path is a file."""
    parts = key.split("/")
    for length in range(1, len(parts)):
        if (parent := "/".join(parts[:length])) in files:
            raise ToolRefused(f"The path {_ROOT}/{parent} is a file, not a directory")


def _text_at(files: _Files, path: str) -> tuple[str, str]:
    """Return the path below /memories and the text of a file; raises `ToolRefused` if there is no such file."""
    key = _key(path)
    if not _is_there(files, key):
        raise ToolRefused(f"The path {path} does not exist. Please provide a valid path.")
    if key not in files:
        raise ToolRefused(f"The path {path} is not a file.")
    return key, files[key]


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(
        f"{number:>{_LINE_WIDTH}}\t{line}" for number, line in enumerate(lines, start=first)
    )


def _view(files: _Files, command: _View) -> str:
    path = command.path
    if _key(path) not in files and _is_there(files, _key(path)):
        return _listing(files, path)
    _, text = _text_at(files, path)
    lines, first = text.split("\n"), 1
    if command.view_range is not None:
        first, last = max(1, command.view_range[0]), command.view_range[1]
        lines = lines[first - 1 : None if last == -1 else last]
    return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first)}"


def _listing(files: _Files, path: str) -> str:
    """Return the files and directories in a directory, two levels deep, with their sizes."""
    key, sizes = _key(path), dict[tuple[str, ...], int]()
    for name in _under(files, key):
        parts = tuple(name[len(key) :].lstrip("/").split("/"))
        size = len(files[name].encode())
        for depth in range(min(len(parts), 2) + 1):
            if any(part.startswith(".") for part in parts[:depth]):
                break
            shown = parts[:depth] if depth == len(parts) else (*parts[:depth], "")
            sizes[shown] = sizes.get(shown, 0) + size
    sizes.setdefault(("",), 0)
    shown_path = path.rstrip("/")
    lines = [f"{_size(sizes.pop(('',)))}\t{shown_path}"]
    lines += [
        f"{_size(size)}\t{shown_path}/{'/'.join(parts)}" for parts, size in sorted(sizes.items())
    ]
    header = (
        f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    )
    return "\n".join([header, *lines])


def _size(size: int) -> str:
    unit = min(max(size.bit_length() - 1, 0) // 10, 3)
    value = size / 1024**unit
    return f"{value:.0f}{'BKMG'[unit]}" if value.is_integer() else f"{value:.1f}{'BKMG'[unit]}"


def _replace(files: _Files, command: _Replace) -> str:
    key, text = _text_at(files, command.path)
    old = command.old_str
    places = [at for at in range(len(text)) if text.startswith(old, at)] if old else []
    if not places:
        raise ToolRefused(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}."
        )
    if text.count(old) > 1:
        lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in places)
        raise ToolRefused(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    files[key] = text.replace(old, command.new_str)
    line = text.count("\n", 0, places[0])
    first = max(0, line - 2)
    shown = _numbered(files[key].split("\n")[first : line + 3], first + 1)
    return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{shown}"


def _insert(files: _Files, command: _Insert) -> str:
    key, text = _text_at(files, command.path)
    lines = text.removesuffix("\n").split("\n") if text else []
    if not 0 <= command.insert_line <= len(lines):
        raise ToolRefused(
            f"Invalid `insert_line` parameter: {command.insert_line}. It should be within the range [0, {len(lines)}]."
        )
    lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
    files[key] = "\n".join(lines).removesuffix("\n") + "\n"
    return f"The file {command.path} has been edited."


def _move(files: _Files, old: str, new: str | None, path: str, verb: str) -> None:
    """Move a file or directory of the memory tool to `new`, or delete it if `new` is None."""
    if not old:
        raise ToolRefused(f"Cannot {verb} the {_ROOT} directory itself")
    if not _is_there(files, old):
        raise ToolRefused(f"The path {path} does not exist")
    if new is not None and new.startswith(f"{old}/"):
        raise ToolRefused(f"Cannot {verb} {path} into itself")
    if new is not None:
        _check_parents(files, new)
    for name in [old] if old in files else _under(files, old):
        text = files.pop(name)
        if new is not None:
            files[new + name.removeprefix(old)] = text


def _text(description: str) -> dict[str, object]:
    return {"type": "string", "description": description}


_PARAMETERS: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
        },
        "path": _text("File or directory under /memories, for all commands but rename."),
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "view: first and last line; -1 for the end.",
        },
        "file_text": _text("create: the text of the new file."),
        "old_str": _text("str_replace: text that occurs once."),
        "new_str": _text("str_replace: text in its place."),
        "insert_line": {"type": "integer", "description": "insert: line to insert after; 0 first."},
        "insert_text": _text("insert: the text."),
        "old_path": _text("rename: the path now."),
        "new_path": _text("rename: the new path."),
    },
    "required": ["command"],
    "additionalProperties": False,
}
