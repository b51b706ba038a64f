"""Count the tokens of messages: their text, media and tool calls, and the framing around them.

Counts are additive: a provider separates messages by marks that no token crosses, so a context costs the sum of its
messages plus the tokens that open the reply. Running sums, windows and receipts depend on that.

Framing is the tokens that a provider adds around roles, names, calls and tools. Each set of constants names its source.
Plain chat framing is published for OpenAI and can be read in the chat templates of the open families. If one constant
holds for every role and release, plain messages are counted exactly; if roles or releases differ, the largest is used.
How a closed model writes tool calls and schemas is not published; these constants are upper bounds, and with them a
count is an upper bound too.

Large batches are counted in a process-wide thread pool, off the event loop. It is made on first use, so importing
turnfold starts no thread; `shutdown_token_executor()` stops it, and the next batch starts a new one.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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
    freeze,
    thaw_object,
)
from turnfold.text import clip
from turnfold.tokens.certainty import Certainty, Count, TextCounter, weakest
from turnfold.tokens.estimate import FORMULA_FRAMING, formula_tokens
from turnfold.tokens.media import GENERIC as GENERIC_IMAGES
from turnfold.tokens.media import ImageRule, audio_tokens, file_tokens, image_size_of_url
from turnfold.tokens.tokenizer import Encoding

__all__ = (
    "ANTHROPIC",
    "DEEPSEEK",
    "GEMMA",
    "GENERIC",
    "GLM",
    "KIMI",
    "LLAMA",
    "MISTRAL",
    "OPENAI",
    "QWEN",
    "Framing",
    "TokenCounter",
    "UpperBoundCounter",
    "cautious_counter",
    "formula_message_tokens",
    "shutdown_token_executor",
    "token_executor",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """Numbers of tokens that one provider or model family adds around texts, calls, results and tools."""

    name: str
    origin: str
    """The provider's document or template from which the token numbers of this framing were read."""
    message: int
    """Tokens around every message, its role included."""
    reply: int
    """Tokens that open the model's answer, including any start-of-text mark; added once per call."""
    author: int = 1
    """Tokens that an author's name costs in addition to the name itself."""
    call: int = 12
    """Tokens around each tool call."""
    result: int = 10
    """Tokens around each tool result."""
    schema: int = 16
    """Tokens around each tool schema."""
    toolset: int = 16
    """Tokens added once to a call that has tools."""
    certainty: Certainty = Certainty.EXACT
    """Certainty of the counts of plain messages; with tool calls, results or schemas it is BOUND at best."""

    def scaled(self, factor: float) -> Framing:
        """Return these framing tokens, each number multiplied by `factor` and rounded up."""
        prices = {
            price: math.ceil(getattr(self, price) * factor)
            for price in ("message", "reply", "author", "call", "result", "schema", "toolset")
        }
        return replace(self, name=f"{self.name}*{factor:g}", certainty=Certainty.ESTIMATE, **prices)


OPENAI = Framing(
    name="openai",
    origin="OpenAI Cookbook, 'How to count tokens with tiktoken': 3 per message + the role's one token, 1 per name, "
    "3 for the reply. Calls and results: the published harmony format (<|start|>assistant to=functions.NAME"
    "<|channel|>commentary json<|message|>...<|call|>), priced from above. Schemas: their JSON, which is longer than "
    "the TypeScript-like form the models are shown.",
    message=4,
    reply=3,
)
LLAMA = Framing(
    name="llama",
    origin="Llama 3 prompt format: <|start_header_id|>role<|end_header_id|>\\n\\n ... <|eot_id|>; <|begin_of_text|> "
    "once. A server that adds the date to the system message adds to this.",
    message=5,
    reply=5,
)
QWEN = Framing(
    name="qwen",
    origin="Qwen chat template (ChatML): <|im_start|>role\\n ... <|im_end|>\\n; calls inside <tool_call> tags",
    message=5,
    reply=3,
    call=16,
)
DEEPSEEK = Framing(
    name="deepseek",
    origin="DeepSeek chat templates: one role mark for the user, none for the system, a role mark and an end mark for "
    "the assistant and, from V3.1 on, </think> before it answers; a start mark once",
    message=3,
    reply=3,
    call=20,
    certainty=Certainty.BOUND,
)
GEMMA = Framing(
    name="gemma",
    origin="Gemma chat template: <start_of_turn>role\\n ... <end_of_turn>\\n; <bos> once. A system message goes into "
    "the first turn and costs less. Gemini's framing is not published; its own counter adds none.",
    message=5,
    reply=4,
    certainty=Certainty.BOUND,
)
MISTRAL = Framing(
    name="mistral",
    origin="Mistral Tekken instruct format: [INST] ... [/INST], [SYSTEM_PROMPT] ... [/SYSTEM_PROMPT], or only ... </s> "
    "for the assistant; <s> once",
    message=2,
    reply=1,
    certainty=Certainty.BOUND,
)
GLM = Framing(
    name="glm",
    origin="GLM-4 chat templates: <|role|>\\n per message and, from 4.5 on, <think></think>\\n before the assistant "
    "answers; [gMASK]<sop> once",
    message=5,
    reply=7,
    certainty=Certainty.BOUND,
)
KIMI = Framing(
    name="kimi",
    origin="Kimi K2 chat templates: <|im_role|>role<|im_middle|> ... <|im_end|>, with <think></think> before the "
    "assistant answers from K2.5 on",
    message=6,
    reply=5,
    call=16,
    certainty=Certainty.BOUND,
)
ANTHROPIC = Framing(
    name="anthropic",
    origin="Anthropic, 'Tool use with Claude': 346 tokens of tool-use system prompt when tools are present; the rest "
    "is not published and priced from above",
    message=6,
    reply=6,
    toolset=346,
    certainty=Certainty.ESTIMATE,
)
GENERIC = Framing(
    name="generic",
    origin="the largest framing of the known families",
    message=6,
    reply=7,
    call=20,
    toolset=346,
    certainty=Certainty.ESTIMATE,
)


_NOT_SENT: Final = frozenset({"cache_control", "role", "type"})
"""Extra fields of a message that the provider gets but the model does not see as text, so that they are not counted."""
_LONG_TEXT: Final = 16_384
"""Least characters of a text whose count `for_message` keeps, so that the text is counted only once while its message
is shortened."""


class TokenCounter:
    """Counts the tokens of messages and tool schemas for one model family.

    Counters that may give different counts have different names; caches and stored sums are keyed by `name`.
    """

    __slots__ = ("_count", "certainty", "framing", "images", "name", "text")

    def __init__(
        self,
        text: TextCounter,
        *,
        framing: Framing = GENERIC,
        images: ImageRule = GENERIC_IMAGES,
    ) -> None:
        self.text = text
        self.framing = framing
        self.images = images
        self.name = f"{text.name}+{framing.name}+{images.name}"
        self.certainty = weakest(text.certainty, framing.certainty)
        """Certainty of the count of plain messages."""
        self._count = text.count

    @property
    def reply(self) -> int:
        """Number of tokens that open the model's answer; they are added once per call."""
        return self.framing.reply

    @property
    def is_additive(self) -> bool:
        """True if a message costs the sum of its parts; False for a `DriverCounter`, which counts whole messages."""
        return type(self).count_message is TokenCounter.count_message

    def count_text(self, text: str) -> int:
        """Return the tokens of a bare text, without framing."""
        return self._count(text)

    def count_message(self, message: Message) -> int:
        """Return the tokens of one message, framing included."""
        parts = message.parts
        total = self.framing.message
        if message.name is not None:
            total += self._count(message.name) + self.framing.author
        if message.extra:
            total += self._count_extra(message.extra)
        if len(parts) == 1 and type(parts[0]) is TextPart and not parts[0].extra:
            return total + self._count(parts[0].text)
        return total + sum(map(self.count_part, parts))

    def count_messages(self, messages: Iterable[Message]) -> list[int]:
        """Return the number of tokens of each message, framing included."""
        return [self.count_message(message) for message in messages]

    def count_part(self, part: Part) -> int:
        """Return the number of tokens of one message part, without the framing of the message."""
        if isinstance(part, OpaquePart):
            return self._count(part.json)
        extra = self._count_extra(part.extra) if part.extra else 0
        match part:
            case TextPart():
                return extra + self._count(part.text)
            case ToolCall():
                texts = (part.id, part.name, part.arguments)
                return extra + sum(map(self._count, texts)) + self.framing.call
            case ToolResult():
                content = sum(map(self.count_part, part.content))
                return extra + self._count(part.call_id) + content + self.framing.result
            case ThinkingPart():
                return extra + self._count(part.text) + self._count(part.redacted)
            case ImagePart():
                size = image_size_of_url(part.url)
                return extra + self.images.tokens(detail=part.detail, size=size)
            case AudioPart():
                return extra + audio_tokens(seconds=None, size_bytes=len(part.data) * 3 // 4)
            case FilePart():
                size = len(part.url) * 3 // 4 if part.url.startswith("data:") else None
                media_type = part.media_type
                return extra + file_tokens(media_type=media_type, size_bytes=size, pages=None)

    def _count_extra(self, extra: str) -> int:
        """Return the tokens of fields that turnfold does not model, counted as the JSON that is sent."""
        fields = _model_fields(extra)
        return self._count(freeze(fields, path="extra")) if fields else 0

    def count_tools(self, tools: Sequence[Mapping[str, object]]) -> int:
        """Return the tokens of the tool schemas sent with a call, counted as compact JSON, which is an upper bound."""
        if not tools:
            return 0
        total = self.framing.toolset
        for index, schema in enumerate(tools):
            total += self._count(freeze(dict(schema), path=f"tools[{index}]")) + self.framing.schema
        return total

    def certainty_of(self, message: Message) -> Certainty:
        """Return how certain the token count of this message is: exact, an upper bound, or an estimate."""
        parts, base = message.parts, self.certainty
        if len(parts) == 1 and type(parts[0]) is TextPart and not (parts[0].extra or message.extra):
            return base
        if _is_guesswork(parts) or _model_fields(message.extra):
            return Certainty.ESTIMATE
        if all(type(part) is TextPart for part in parts):
            return base
        return weakest(base, Certainty.BOUND)

    def count(
        self, messages: Iterable[Message], *, tools: Sequence[Mapping[str, object]] = ()
    ) -> Count:
        """Return the tokens of a whole call, with their certainty: messages, tool schemas and reply opening."""
        total = self.reply + self.count_tools(tools)
        certainty = Certainty.BOUND if tools else Certainty.EXACT
        certainty = weakest(certainty, self.certainty)
        for message in messages:
            total += self.count_message(message)
            certainty = weakest(certainty, self.certainty_of(message))
        return Count(total, certainty)

    def for_message(self, message: Message, tokens: int) -> TokenCounter:
        """Return a counter with the same results that does not count the long texts of `message` repeatedly.

        `tokens` is this counter's count of the whole message. Counts add up, so the count of the longest text is
        `tokens` minus that of the rest, and that text is not counted at all.
        """
        texts = [text for text in _texts_of(message.parts) if len(text) >= _LONG_TEXT]
        if not texts:
            return self
        memoized = _MemoizedTexts(self.text, texts)
        counter = TokenCounter(memoized, framing=self.framing, images=self.images)
        longest = max(texts, key=len)
        if self.is_additive and texts.count(longest) == 1:
            memoized.counts[longest] = 0
            left = tokens - counter.count_message(message)
            memoized.counts[longest] = left if left > 0 else None
        return counter

    def clip(self, text: str, limit: int) -> str:
        """Return about the longest beginning of `text` that has at most `limit` tokens, cut between two characters."""
        return clip(text, limit, self._count)

    def __repr__(self) -> str:
        return f"TokenCounter({self.name!r})"


class _MemoizedTexts:
    """A text counter that counts each of the long texts passed to it at most once."""

    __slots__ = ("_count", "certainty", "counts", "name")

    def __init__(self, inner: TextCounter, texts: Iterable[str]) -> None:
        self.name = inner.name
        self.certainty = inner.certainty
        self._count = inner.count
        self.counts: dict[str, int | None] = dict.fromkeys(texts)

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`, from the cache if it is one of the long texts."""
        if len(text) < _LONG_TEXT or text not in self.counts:
            return self._count(text)
        tokens = self.counts[text]
        if tokens is None:
            tokens = self.counts[text] = self._count(text)
        return tokens


def _texts_of(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the texts in message parts that the counter counts unchanged."""
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
    """Return True if the tokens of these parts can only be estimated: media, thinking, unmodelled parts, several texts.

    Two texts in a row may have a token more or less together than alone, depending on how the provider joins them.
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
        if part.extra and _model_fields(part.extra):
            return True
    return texts > 1


def _model_fields(extra: str) -> dict[str, object]:
    """Return the extra fields that the model sees: not empty, and not meant for the provider alone."""
    fields = thaw_object(extra)
    return {key: value for key, value in fields.items() if value and key not in _NOT_SENT}


class UpperBoundCounter:
    """Counts texts for an unknown model: takes the larger of the rule of thumb and the count by o200k_base.

    The rule of thumb is above most vocabularies on prose, and far above recent ones on Chinese; on numbers, code and
    JSON it is too low. The vocabulary o200k_base counts those well, but older vocabularies need more for Chinese.
    """

    __slots__ = ("_exact",)

    name = "cautious"
    certainty = Certainty.ESTIMATE

    def __init__(self) -> None:
        self._exact = Encoding("o200k_base")

    def count(self, text: str) -> int:
        """Return the tokens of `text`; too many rather than too few."""
        return max(formula_tokens(text) - FORMULA_FRAMING, self._exact.count(text))


def cautious_counter() -> TokenCounter:
    """Return a counter for use when no model is named; its counts are rather too high than too low."""
    return TokenCounter(UpperBoundCounter(), framing=OPENAI)


def formula_message_tokens(message: Message) -> int:
    """Return the tokens of a whole message by the rule of thumb: its text and tool calls, and 4 for its structure."""
    if not message.parts:
        return 0
    calls = "".join(call.name + call.arguments for call in message.calls)
    return formula_tokens(message.text + calls)


_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def token_executor() -> ThreadPoolExecutor:
    """Return the thread pool for counting, started if it is not running."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(
                max_workers=min(4, os.cpu_count() or 1), thread_name_prefix="turnfold-tokens"
            )
        return _pool


def shutdown_token_executor(*, wait: bool = True) -> None:
    """Stop the counting threads. Counting afterwards is allowed and starts them again."""
    global _pool
    with _lock:
        pool, _pool = _pool, None
    if pool is not None:
        pool.shutdown(wait=wait)


def _reset_pool() -> None:
    """Drop the thread pool after a fork, because its threads do not exist in the child process."""
    global _lock, _pool
    _lock, _pool = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pool)
