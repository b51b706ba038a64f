"""WHAT IS REMEMBERED: immutable values and how they group, with one canonical JSON form."""

from __future__ import annotations

from turnfold.records.accept import as_message, as_messages
from turnfold.records.canonical import SCHEMA_VERSION, decode_message, encode_message
from turnfold.records.entries import Checkpoint, Document, Entry, NewEntry
from turnfold.records.findings import Finding
from turnfold.records.messages import ROLES, Message, Role, assistant, system, tool, user
from turnfold.records.origin import Origin
from turnfold.records.parts import (
    AudioPart,
    ContentPart,
    Detail,
    FilePart,
    ImagePart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.records.spans import Grouper, Misplaced, Placement, Span, group_spans
from turnfold.records.usage import Usage

__all__ = (
    "ROLES",
    "SCHEMA_VERSION",
    "AudioPart",
    "Checkpoint",
    "ContentPart",
    "Detail",
    "Document",
    "Entry",
    "FilePart",
    "Finding",
    "Grouper",
    "ImagePart",
    "Message",
    "Misplaced",
    "NewEntry",
    "OpaquePart",
    "Origin",
    "Part",
    "Placement",
    "Role",
    "Span",
    "TextPart",
    "ThinkingPart",
    "ToolCall",
    "ToolResult",
    "Usage",
    "as_message",
    "as_messages",
    "assistant",
    "decode_message",
    "encode_message",
    "group_spans",
    "system",
    "tool",
    "user",
)
