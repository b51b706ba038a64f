"""Messages as a summariser reads them: who spoke and what was said, tool calls and results included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

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
from turnfold.summary.extract import LONGEST_READ, Passage, as_read, extract_summary
from turnfold.summary.speakers import is_role, tool_name
from turnfold.window import Summarizer, plain_name
from turnfold.window.shrink import common_cap

__all__ = ("extractive_summarizer", "passages_of")


def passages_of(
    messages: Iterable[Message], *, first: int = 0, longest: int = LONGEST_READ
) -> list[Passage]:
    """One passage per thing said, called or answered; `first` is the log position of the first message.

    Of a message of more than `longest` characters each passage says what of it is not read; 0 for all of it.
    """
    passages: list[Passage] = []
    names: dict[str, str] = {}
    for position, message in enumerate(messages, first):
        of_message = list(_passages(message, position, names))
        if longest and sum(len(passage.text) for passage in of_message) > longest:
            most = max(common_cap([len(passage.text) for passage in of_message], longest), 1)
            of_message = [as_read(passage, most) for passage in of_message]
        passages.extend(of_message)
    return passages


def _passages(message: Message, position: int, names: dict[str, str]) -> Iterator[Passage]:
    """The passages of one message; `names` are the tools that were called so far, by the id of the call."""
    speaker = _speaker(message)
    said = _said(message.parts)
    if said.strip():
        yield Passage(speaker, said, position)
    for call in message.calls:
        names[call.id] = call.name
        yield Passage(f"{speaker} calls {tool_name(call.name)}", call.arguments, position)
    for part in message.parts:
        if isinstance(part, ToolResult) and (answered := _said(part.content)).strip():
            name = tool_name(names.get(part.call_id, message.name or ""))
            yield Passage(f"tool:{name}" if name else "tool", answered, position)


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
