"""WHAT IS SENT: four wire formats to and from records, the rules they must keep, the body as a stream of bytes.

Each format is a module with the same three functions: `request` writes a context as the arguments of the official
SDK's call, `accept` and `accept_all` read what such a call returns, or a whole history. No SDK is needed for either.
"""

from __future__ import annotations

from turnfold.wire import anthropic, gemini, openai_chat, openai_responses
from turnfold.wire.linting import lint
from turnfold.wire.repairing import Repaired, repair
from turnfold.wire.request import Action, Change, Request
from turnfold.wire.rules import RULES, Fault
from turnfold.wire.size_guard import WireFormat, fitted
from turnfold.wire.streaming import body_bytes, chunks

__all__ = (
    "RULES",
    "Action",
    "Change",
    "Fault",
    "Repaired",
    "Request",
    "WireFormat",
    "anthropic",
    "body_bytes",
    "chunks",
    "fitted",
    "gemini",
    "lint",
    "openai_chat",
    "openai_responses",
    "repair",
)
