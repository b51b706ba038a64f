"""What becomes of a part that the provider it goes to cannot take as it is.

Text is never lost for being in an unusual block: documents, search results, compaction summaries, code and its output
become text. What is not text (a picture for a model without eyes, a file kept at another provider) gives way to a
short note, so that the model knows something was there.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from turnfold.records import AudioPart, FilePart, ImagePart
from turnfold.wire.values import JsonObject, list_at, object_at, object_of, text_at, texts_in

__all__ = ("Data", "arguments_object", "data_of", "media_note", "words_of")


class Data(NamedTuple):
    """What a `data:` address carries."""

    media_type: str
    base64: str


def data_of(url: str) -> Data | None:
    """The content of a `data:` address in base64; None for any other address."""
    head, comma, body = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return Data(head.removeprefix("data:").removesuffix(";base64").split(";", 1)[0], body)


def media_note(part: ImagePart | AudioPart | FilePart, why: str) -> str:
    """What stands where a picture, a sound or a file could not be sent."""
    kind = type(part).__name__.removesuffix("Part").lower()
    name = getattr(part, "filename", "") or getattr(part, "url", "")
    named = f" {name}" if name and not name.startswith("data:") else ""
    return f"[{kind}{named} not shown: {why}]"


def arguments_object(arguments: str) -> tuple[JsonObject, bool]:
    """Arguments as the object some providers ask for, and whether the text was one already, or nothing at all."""
    if not arguments:
        return {}, True
    try:
        found = object_of(json.loads(arguments, parse_constant=_refuse))
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, RecursionError):
        found = None
    return (found, True) if found is not None else ({"input": arguments}, False)


def words_of(block: JsonObject) -> str:
    """The text in a block that no other provider knows; empty when there is none to be shown."""
    match text_at(block, "type"):
        case "refusal":
            return text_at(block, "refusal")
        case "document":
            return "\n".join(
                [*_title(block), *texts_in(_document_text(object_at(block, "source")))]
            )
        case "search_result":
            blocks = (object_of(each) or {} for each in list_at(block, "content"))
            return "\n".join([*_title(block), *(text_at(each, "text") for each in blocks)])
        case "compaction":
            return text_at(block, "content")
        case "gemini":
            return _gemini_words(object_at(block, "part"))
        case kind if kind.endswith("_output"):
            return _output_words(block)
        case _:
            return ""


def _title(block: JsonObject) -> list[str]:
    return [text for key in ("title", "source", "context") if (text := text_at(block, key))]


def _document_text(source: JsonObject) -> object:
    if source.get("type") == "text":
        return source.get("data")
    content = source.get("content")
    if isinstance(content, str):
        return content
    return [(object_of(each) or {}).get("text") for each in list_at(source, "content")]


def _output_words(item: JsonObject) -> str:
    """What a shell, a patch or a program answered; a screenshot has no words."""
    said: list[str] = []
    for key in ("output", "result"):
        given = item.get(key)
        said += [given] if isinstance(given, str) else []
        for each in map(object_of, list_at(item, key)):
            said += [text_at(each or {}, name) for name in ("stdout", "stderr", "text")]
    return "\n".join(text for text in said if text)


def _gemini_words(part: JsonObject) -> str:
    code = object_at(part, "executableCode") or object_at(part, "executable_code")
    result = object_at(part, "codeExecutionResult") or object_at(part, "code_execution_result")
    return text_at(code, "code") or text_at(result, "output")


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} has no JSON form")
