"""What a message costs: its text, its media, its calls, and the framing around them.

Counts are additive: a provider separates messages by marks that no token crosses, so the cost of a context is the sum
of the costs of its messages plus one reply opening. Everything above (running sums, windows, receipts) rests on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.records.json_text import freeze, thaw_object
from turnfold.tokens.clip import clip
from turnfold.tokens.counts import Certainty, Count, TextCounter, weakest
from turnfold.tokens.framing import GENERIC as GENERIC_FRAMING
from turnfold.tokens.framing import Framing
from turnfold.tokens.media import (
    GENERIC as GENERIC_IMAGES,
)
from turnfold.tokens.media import (
    ImageRule,
    audio_tokens,
    file_tokens,
    image_size_of_url,
)

__all__ = ("TokenCounter",)

_MARKS: Final = frozenset({"cache_control", "role", "type"})
_LONG_TEXT: Final = 16_384
"""Characters from which the count of a text is worth remembering while its message is shortened."""


class TokenCounter:
    """Counts messages and tool schemas for one model family.

    `name` identifies everything that can change a count; caches and stored sums are keyed by it.
    """

    __slots__ = ("_count", "certainty", "framing", "images", "name", "text")

    def __init__(
        self,
        text: TextCounter,
        *,
        framing: Framing = GENERIC_FRAMING,
        images: ImageRule = GENERIC_IMAGES,
    ) -> None:
        self.text = text
        self.framing = framing
        self.images = images
        self.name = f"{text.name}+{framing.name}+{images.name}"
        self.certainty = weakest(text.certainty, framing.certainty)
        """How far the count of plain messages can be trusted."""
        self._count = text.count

    @property
    def reply(self) -> int:
        """Tokens that open the model's answer, once per call."""
        return self.framing.reply

    @property
    def is_additive(self) -> bool:
        """Whether a message costs what its parts do; a driver prices it as a whole, so nothing follows for a part."""
        return type(self).count_message is TokenCounter.count_message

    def count_text(self, text: str) -> int:
        """Tokens of a bare text, without framing."""
        return self._count(text)

    def count_message(self, message: Message) -> int:
        """Tokens of one message, framing included."""
        parts = message.parts
        total = self.framing.message
        if message.name is not None:
            total += self._count(message.name) + self.framing.author
        if message.extra:
            total += self._count_beside(message.extra)
        if len(parts) == 1 and type(parts[0]) is TextPart and not parts[0].extra:
            return total + self._count(parts[0].text)
        return total + sum(map(self.count_part, parts))

    def count_messages(self, messages: Iterable[Message]) -> list[int]:
        """Tokens of each message."""
        return [self.count_message(message) for message in messages]

    def count_part(self, part: Part) -> int:
        """Tokens of one part, without the message around it."""
        if isinstance(part, OpaquePart):
            return self._count(part.json)
        beside = self._count_beside(part.extra) if part.extra else 0
        match part:
            case TextPart():
                return beside + self._count(part.text)
            case ToolCall():
                said = self._count(part.id) + self._count(part.name) + self._count(part.arguments)
                return beside + said + self.framing.call
            case ToolResult():
                said = self._count(part.call_id) + sum(map(self.count_part, part.content))
                return beside + said + self.framing.result
            case ThinkingPart():
                return beside + self._count(part.text) + self._count(part.redacted)
            case ImagePart() | AudioPart() | FilePart():
                return beside + self._count_media(part)

    def _count_media(self, part: ImagePart | AudioPart | FilePart) -> int:
        match part:
            case ImagePart():
                return self.images.tokens(detail=part.detail, size=image_size_of_url(part.url))
            case AudioPart():
                return audio_tokens(seconds=None, size_bytes=len(part.data) * 3 // 4)
            case FilePart():
                size = len(part.url) * 3 // 4 if part.url.startswith("data:") else None
                return file_tokens(media_type=part.media_type, size_bytes=size, pages=None)

    def _count_beside(self, extra: str) -> int:
        """Fields turnfold does not model are sent as they came: priced as their JSON."""
        said = _said(extra)
        return self._count(freeze(said, path="extra")) if said else 0

    def count_tools(self, tools: Sequence[Mapping[str, object]]) -> int:
        """Tokens of the tool schemas sent with a call: their compact JSON, priced from above."""
        if not tools:
            return 0
        total = self.framing.toolset
        for index, schema in enumerate(tools):
            total += self._count(freeze(dict(schema), path=f"tools[{index}]")) + self.framing.schema
        return total

    def certainty_of(self, message: Message) -> Certainty:
        """How far the count of this message can be trusted."""
        parts, base = message.parts, self.certainty
        if len(parts) == 1 and type(parts[0]) is TextPart and not (parts[0].extra or message.extra):
            return base
        if _is_guesswork(parts) or _said(message.extra):
            return Certainty.ESTIMATE
        if all(type(part) is TextPart for part in parts):
            return base
        return weakest(base, Certainty.BOUND)

    def count(
        self, messages: Iterable[Message], *, tools: Sequence[Mapping[str, object]] = ()
    ) -> Count:
        """Tokens of a whole call: messages, tool schemas and reply opening, with its certainty."""
        total = self.reply + self.count_tools(tools)
        certainty = Certainty.BOUND if tools else Certainty.EXACT
        certainty = weakest(certainty, self.certainty)
        for message in messages:
            total += self.count_message(message)
            certainty = weakest(certainty, self.certainty_of(message))
        return Count(total, certainty)

    def for_message(self, message: Message, tokens: int) -> TokenCounter:
        """A counter of texts and parts with the same answers that counts no long text of `message` twice.

        `tokens` is what this counter gave for the whole message. Costs are additive, so what the rest of the message
        leaves of it is the cost of its longest text, which therefore need not be counted again at all.
        """
        texts = [text for text in _texts_of(message.parts) if len(text) >= _LONG_TEXT]
        if not texts:
            return self
        known = _RememberedTexts(self.text, texts)
        counter = TokenCounter(known, framing=self.framing, images=self.images)
        longest = max(texts, key=len)
        if self.is_additive and texts.count(longest) == 1:
            known.counts[longest] = 0
            left = tokens - counter.count_message(message)
            known.counts[longest] = left if left > 0 else None
        return counter

    def clip(self, text: str, limit: int) -> str:
        """A beginning of `text`, cut between characters, that costs at most `limit` tokens and uses them up."""
        return clip(text, limit, self._count)

    def __repr__(self) -> str:
        return f"TokenCounter({self.name!r})"


class _RememberedTexts:
    """A text counter that counts each of some long texts at most once."""

    __slots__ = ("_count", "certainty", "counts", "name")

    def __init__(self, inner: TextCounter, texts: Iterable[str]) -> None:
        self.name = inner.name
        self.certainty = inner.certainty
        self._count = inner.count
        self.counts: dict[str, int | None] = dict.fromkeys(texts)

    def count(self, text: str) -> int:
        """Tokens of `text`."""
        if len(text) < _LONG_TEXT or text not in self.counts:
            return self._count(text)
        known = self.counts[text]
        if known is None:
            known = self.counts[text] = self._count(text)
        return known


def _texts_of(parts: Iterable[Part]) -> Iterator[str]:
    """The texts of the parts that are counted as they are."""
    for part in parts:
        match part:
            case TextPart():
                yield part.text
            case ToolCall():
                yield part.arguments
            case ToolResult():
                yield from _texts_of(part.content)
            case ThinkingPart():
                yield from (part.text, part.redacted)
            case OpaquePart():
                yield part.json
            case ImagePart() | AudioPart() | FilePart():
                pass


def _is_guesswork(parts: Sequence[Part]) -> bool:
    """Whether a provider's price is not known: for media, thoughts, whatever is not modelled, and joined texts.

    Two texts in a row may cost a token more than each alone, or less, as the provider joins them.
    """
    texts = 0
    for part in parts:
        match part:
            case TextPart():
                texts += 1
            case ToolCall():
                pass
            case ToolResult():
                if _is_guesswork(part.content):
                    return True
            case _:
                return True
        if part.extra and _said(part.extra):
            return True
    return texts > 1


def _said(extra: str) -> dict[str, object]:
    """What of the fields beside a message or part reaches the model: not the empty ones, nor marks for the provider."""
    fields = thaw_object(extra)
    return {key: value for key, value in fields.items() if value and key not in _MARKS}
