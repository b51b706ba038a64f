"""Who may have a part back.

A signature, an encrypted thought or a provider's own block means something only to the provider and the model that
wrote it; anywhere else it is refused, or worse, believed. One rule for all formats: the same provider and the same
model get it back as it came; where the model was never told, or is not named now, the provider alone decides.
"""

from __future__ import annotations

import re

from turnfold.records import Message, OpaquePart, ThinkingPart
from turnfold.records.json_text import thaw_object
from turnfold.wire.request import Notes
from turnfold.wire.values import JsonObject, text_at

__all__ = ("Writing", "same_model")

_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{3,8})$")
_SHAPE = frozenset({"type"})
"""Fields that say how a block was spelt, not what it holds."""
_ANTHROPIC_BLOCKS = re.compile(
    r"document|search_result|compaction|container_upload|server_tool_use|mcp_tool_use|tool_reference|\w+_tool_result"
)


def same_model(one: str, other: str) -> bool:
    """Whether two names are the same model; an alias is the same as its dated snapshot, no name is any model."""
    one, other = _bare(one), _bare(other)
    if not one or not other or one == other:
        return True
    return _SNAPSHOT.sub("", one) == other or _SNAPSHOT.sub("", other) == one


def _bare(model: str) -> str:
    return model.rsplit("/", 1)[-1].removesuffix("-latest")


class Writing(Notes):
    """One request being written: for whom, and what had to be changed."""

    __slots__ = ("_own", "model", "provider")

    def __init__(self, provider: str, model: str, *, own: bool = False) -> None:
        super().__init__()
        self.provider = provider
        self.model = model
        self._own = own
        """Whether everything is its own: a message just read is written back to be compared."""

    def owns(self, message: Message) -> bool:
        """Whether the message was written by this provider and model, or for this provider."""
        origin = message.origin
        return self._own or (
            origin is not None
            and origin.provider == self.provider
            and same_model(origin.model, self.model)
        )

    def may_have(self, part: ThinkingPart | OpaquePart, message: Message) -> bool:
        """Whether a signed or unmodelled part may be sent."""
        if self._own:
            return True
        origin = message.origin
        provider = part.provider or (origin.provider if origin else _guessed_provider(part))
        model = part.model or (origin.model if origin else _told_model(message))
        return provider == self.provider and same_model(model, self.model)

    def unclaimed(self, part: OpaquePart, message: Message) -> bool:
        """Whether nobody said whose block it is, and it looks like nobody's in particular."""
        return not part.provider and message.origin is None and not _guessed_provider(part)

    def beside(
        self, extra: str, *, message: Message, known: frozenset[str] | None, path: str
    ) -> JsonObject:
        """The unmodelled fields that may be sent; of a message from nowhere, only `known` ones (None: all).

        A field that is null, false or empty says nothing, and is not missed.
        """
        fields = thaw_object(extra)
        if not fields or self.owns(message):
            return fields
        if message.origin is not None:
            known = frozenset()
        kept = fields if known is None else {key: fields[key] for key in fields if key in known}
        dropped = sorted(key for key in fields.keys() - kept.keys() - _SHAPE if fields[key])
        if dropped:
            self.left_out(path, f"{self.provider} does not know the fields {', '.join(dropped)}")
        return kept


def _guessed_provider(part: ThinkingPart | OpaquePart) -> str:
    """Of a block that did not say: signed thoughts and a few block types are Anthropic's alone."""
    if isinstance(part, ThinkingPart):
        return "anthropic"
    kind = text_at(thaw_object(part.json), "type")
    if kind == "refusal":
        return "openai_chat"
    return "anthropic" if _ANTHROPIC_BLOCKS.fullmatch(kind) else ""


def _told_model(message: Message) -> str:
    """The model in a response that was kept whole, fields and all."""
    return text_at(thaw_object(message.extra), "model")
