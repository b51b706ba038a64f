"""Messages as a summariser reads them: who spoke and what was said, tool calls and results included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ToolResult,
)
from turnfold.summary.extract import Passage, extract_summary
from turnfold.summary.speakers import is_role, tool_name
from turnfold.window import Summarizer, plain_name

__all__ = ("extractive_summarizer", "passages_of")


def passages_of(messages: Iterable[Message], *, first: int = 0) -> list[Passage]:
    """One passage per thing said, called or answered; `first` is the log position of the first message."""
    passages: list[Passage] = []
    names: dict[str, str] = {}
    for position, message in enumerate(messages, first):
        speaker = _speaker(message)
        said = _said(message.parts)
        if said.strip():
            passages.append(Passage(speaker, said, position))
        for call in message.calls:
            names[call.id] = call.name
            passages.append(
                Passage(f"{speaker} calls {tool_name(call.name)}", call.arguments, position)
            )
        for part in message.parts:
            if isinstance(part, ToolResult) and (answered := _said(part.content)).strip():
                name = tool_name(names.get(part.call_id, message.name or ""))
                passages.append(Passage(f"tool:{name}" if name else "tool", answered, position))
    return passages


def _speaker(message: Message) -> str:
    """Whose words a message holds: the name it carries, with its role where the name reads like that of a role."""
    name = plain_name(message.name) if message.name else ""
    if not name:
        return message.role
    # Who is called "system" must not speak as the system, nor a line "Ann calls pay" as a call of Ann's.
    return f"{message.role} ({name})" if is_role(name) else name


def _said(parts: Iterable[Part]) -> str:
    """The text of the parts, with a mark for what has none: a message that was only a picture was said too."""
    said: list[str] = []
    for part in parts:
        match part:
            case TextPart():
                said.append(part.text)
            case FilePart() if part.filename:
                said.append(f"[file {part.filename}]")
            case ImagePart() | AudioPart() | FilePart() | OpaquePart():
                said.append(f"[{type(part).__name__.removesuffix('Part').lower()}]")
            case _:
                pass
    return "\n".join(said)


def extractive_summarizer(count: Callable[[str], int]) -> Summarizer:
    """The summariser that needs no model, as a window strategy takes it."""

    def summarise(messages: Sequence[Message], *, previous: str, limit: int) -> str:
        return extract_summary(passages_of(messages), limit=limit, count=count, previous=previous)

    return summarise
