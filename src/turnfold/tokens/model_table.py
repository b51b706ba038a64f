"""The table of models: tokenizer or estimate, framing, image rule and context window of each.

Names are matched by their longest known beginning, after dropping a router's prefix (`openai/gpt-4o`), so dated
releases need no row of their own; a version number must match whole, because the next one may count differently.
Windows are the providers' published ones, the smallest if a name covers several. They were last compared in August 2026
with the model cards of open models and these pages: platform.openai.com/docs/models, docs.z.ai/guides/overview/pricing,
docs.claude.com/en/docs/about-claude/models, ai.google.dev/gemini-api/docs/models, platform.moonshot.ai/docs/pricing,
alibabacloud.com/help/en/model-studio/models, api-docs.deepseek.com/quick_start/pricing, docs.mistral.ai.

A row of a whole family (`glm`, `qwen`) has no window: the next model of a family is counted like its sisters, but may
read ten times as much. Models that are not in the table are counted with `ENVELOPE`, which is above every known
vocabulary. In both cases the window must be given, because a guess could be wrong. `register_model` adds or replaces
rows for the whole process, with a closer profile if more is known.

One name may stand for models with different vocabularies: `deepseek-r1` is DeepSeek's own model at a provider, and a
smaller Qwen or Llama in Ollama, where the tag tells which (`:7b`, `:70b`). Without a tag, and with one that has been
two models (`:8b`), the count is an estimate.

Claude's vocabularies are not public. By an independent reconstruction of its counts, Chinese costs 50 % more than in
o200k_base; English costs 10 % more up to Opus 4.6, and 50 % more from Opus 4.7 on. A name that may be either counts as
the newer.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from turnfold.errors import InvalidOption, UnknownModel
from turnfold.tokens import counter as frame
from turnfold.tokens import media
from turnfold.tokens.calibration import ScaledCounter
from turnfold.tokens.certainty import TextCounter
from turnfold.tokens.counter import Framing, TokenCounter, cautious_counter
from turnfold.tokens.estimate import TextEstimator
from turnfold.tokens.estimate_profile import (
    CLAUDE_3,
    CLAUDE_4_7,
    ENVELOPE,
    PROFILES,
    EstimateProfile,
)
from turnfold.tokens.media import ImageRule
from turnfold.tokens.tokenizer import Encoding

__all__ = (
    "ModelInfo",
    "context_window_for",
    "counter_for",
    "counter_named",
    "find_model",
    "register_model",
)


_KIN_FACTOR = 1.1
"""Factor for counts with the vocabulary of a related model, if the model's own vocabulary is older, newer or not
public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """One row of the table of models: how tokens are counted for the model, and its context window."""

    context_window: int | None
    """Most tokens that the model reads; None if unknown: a memory then needs a budget of its own."""
    encoding: str | None = None
    """Name of the model's vocabulary in `ENCODINGS`; None if it is not public."""
    factor: float = 1.0
    """Factor for counts with a vocabulary that only resembles the model's own."""
    profile: EstimateProfile = ENVELOPE
    """Tokens per class of text, from which counts are estimated; used if `encoding` is None (no public vocabulary)."""
    framing: Framing = frame.GENERIC
    images: ImageRule = media.GENERIC

    def __post_init__(self) -> None:
        if self.context_window is not None and self.context_window <= 0:
            raise InvalidOption(f"context_window={self.context_window} must be at least 1 token")
        if self.encoding is not None:
            Encoding(self.encoding)  # raises for an unknown name

    def counter(self) -> TokenCounter:
        """Return a token counter for the model, from this row's encoding or estimate profile."""
        text: TextCounter
        if self.encoding is None:
            text = TextEstimator(profile=self.profile)
        elif self.factor == 1.0:
            text = Encoding(self.encoding)
        else:
            text = ScaledCounter(Encoding(self.encoding), self.factor)
        return TokenCounter(text, framing=self.framing, images=self.images)


def _openai(
    window: int, *, encoding: str = "o200k_base", images: ImageRule = media.OPENAI_TILES
) -> ModelInfo:
    return ModelInfo(context_window=window, encoding=encoding, framing=frame.OPENAI, images=images)


def _open(window: int | None, encoding: str, framing: Framing) -> ModelInfo:
    return ModelInfo(context_window=window, encoding=encoding, framing=framing)


def _kin(window: int | None, encoding: str, framing: Framing) -> ModelInfo:
    return ModelInfo(context_window=window, encoding=encoding, factor=_KIN_FACTOR, framing=framing)


def _claude(profile: EstimateProfile) -> ModelInfo:
    return ModelInfo(
        context_window=200_000,
        profile=profile,
        framing=frame.ANTHROPIC,
        images=media.ANTHROPIC_AREA,
    )


def _older_claudes() -> Iterator[str]:
    """Yield the names of Claude models before Opus 4.7, as Anthropic and routers write them."""
    yield from ("claude-3", "claude-3.", "claude-opus-4-20250514", "claude-sonnet-4-20250514")
    for tier in ("opus", "sonnet", "haiku"):
        yield f"claude-{tier}-4"
        yield from (f"claude-{tier}-4{mark}{minor}" for mark in "-." for minor in "0156")


def _distilled_llamas() -> Iterator[str]:
    """Yield the names of Llama models distilled from DeepSeek R1, as Ollama and DeepSeek write them."""
    yield from ("deepseek-r1-distill-llama", "deepseek-r1:70b", "deepseek-r1:8b-llama-distill")


def _distilled_qwens() -> Iterator[str]:
    """Yield the names of Qwen models distilled from DeepSeek R1, as Ollama and DeepSeek write them."""
    yield from ("deepseek-r1-distill-qwen", "deepseek-r1-0528-qwen3", "deepseek-r1:8b-0528-qwen3")
    yield from (f"deepseek-r1:{size}b" for size in ("1.5", "7", "14", "32"))


def _gemini(encoding: str, *, factor: float = 1.0, window: int | None = 1_048_576) -> ModelInfo:
    return ModelInfo(
        context_window=window,
        encoding=encoding,
        factor=factor,
        framing=frame.GEMMA,
        images=media.GEMINI_TILES,
    )


_models: dict[str, ModelInfo] = {
    "gpt-3.5": _openai(16_385, encoding="cl100k_base"),
    "gpt-3.5-turbo-0301": _openai(4_096, encoding="cl100k_base"),
    "gpt-3.5-turbo-0613": _openai(4_096, encoding="cl100k_base"),
    "gpt-3.5-turbo-instruct": _openai(4_096, encoding="cl100k_base"),
    "gpt-35": _openai(4_096, encoding="cl100k_base"),
    "gpt-4": _openai(8_192, encoding="cl100k_base"),
    "gpt-4-32k": _openai(32_768, encoding="cl100k_base"),
    "gpt-4-turbo": _openai(128_000, encoding="cl100k_base"),
    "gpt-4-1106": _openai(128_000, encoding="cl100k_base"),
    "gpt-4-0125": _openai(128_000, encoding="cl100k_base"),
    "gpt-4-vision": _openai(128_000, encoding="cl100k_base"),
    "gpt-4o": _openai(128_000),
    "gpt-4o-mini": _openai(128_000, images=media.OPENAI_TILES_MINI),
    "chatgpt-4o": _openai(128_000),
    "gpt-4.1": _openai(1_047_576),
    "gpt-4.1-mini": _openai(1_047_576, images=media.OPENAI_PATCHES_MINI),
    "gpt-4.1-nano": _openai(1_047_576, images=media.OPENAI_PATCHES),
    "gpt-4.5": _openai(128_000),
    "gpt-5": _openai(400_000),
    "gpt-5.": _openai(400_000),
    "gpt-5-chat": _openai(128_000),
    "gpt-5-mini": _openai(400_000, images=media.OPENAI_PATCHES_MINI),
    "gpt-5-nano": _openai(400_000, images=media.OPENAI_PATCHES),
    "o1": _openai(200_000),
    "o1-mini": _openai(128_000),
    "o1-preview": _openai(128_000),
    "o3": _openai(200_000),
    "o4-mini": _openai(200_000, images=media.OPENAI_PATCHES_MINI),
    "gpt-oss": _openai(131_072, encoding="gpt_oss"),
    "text-embedding-3": _openai(8_191, encoding="cl100k_base"),
    "text-embedding-ada-002": _openai(8_191, encoding="cl100k_base"),
    "claude": _claude(CLAUDE_4_7),
    "claude-opus-4-": _claude(CLAUDE_4_7),
    "claude-sonnet-4-": _claude(CLAUDE_4_7),
    "claude-haiku-4-": _claude(CLAUDE_4_7),
    **dict.fromkeys(_older_claudes(), _claude(CLAUDE_3)),
    "gemini": _gemini("gemma3", factor=_KIN_FACTOR, window=None),
    "gemini-flash": _gemini("gemma3", factor=_KIN_FACTOR),
    "gemini-pro-latest": _gemini("gemma3", factor=_KIN_FACTOR),
    "gemini-1.0": _gemini("gemma2", window=30_720),
    "gemini-pro": _gemini("gemma2", window=12_288),
    "gemini-1.5": _gemini("gemma2"),
    "gemini-2.0": _gemini("gemma3"),
    "gemini-2.5": _gemini("gemma3"),
    "gemini-3": _gemini("gemma3"),
    "gemini-3.1-pro": _gemini("gemma3", factor=_KIN_FACTOR),
    "gemma": _kin(None, "gemma3", frame.GEMMA),
    "gemma-4": _kin(131_072, "gemma3", frame.GEMMA),
    "gemma-2": _open(8_192, "gemma2", frame.GEMMA),
    "gemma2": _open(8_192, "gemma2", frame.GEMMA),
    "gemma-3": _open(131_072, "gemma3", frame.GEMMA),
    "gemma-3-1b": _open(32_768, "gemma3", frame.GEMMA),
    "gemma3": _open(32_768, "gemma3", frame.GEMMA),
    "llama-3": _open(8_192, "llama3", frame.LLAMA),
    "llama-3.1": _open(131_072, "llama3", frame.LLAMA),
    "llama-3.2": _open(131_072, "llama3", frame.LLAMA),
    "llama-3.3": _open(131_072, "llama3", frame.LLAMA),
    "llama3": _open(8_192, "llama3", frame.LLAMA),
    "llama3.1": _open(131_072, "llama3", frame.LLAMA),
    "llama3.2": _open(131_072, "llama3", frame.LLAMA),
    "llama3.3": _open(131_072, "llama3", frame.LLAMA),
    "meta-llama-3": _open(8_192, "llama3", frame.LLAMA),
    "meta-llama-3.1": _open(131_072, "llama3", frame.LLAMA),
    "qwen": _kin(None, "qwen3", frame.QWEN),
    "qwen-flash": _open(1_000_000, "qwen3", frame.QWEN),
    "qwen-long": _kin(10_000_000, "qwen3", frame.QWEN),
    "qwen-plus": _open(131_072, "qwen3", frame.QWEN),
    "qwen-plus-latest": _open(1_000_000, "qwen3", frame.QWEN),
    "qwen-max": _open(32_768, "qwen3", frame.QWEN),
    "qwen-turbo": _open(131_072, "qwen3", frame.QWEN),
    "qwq": _open(32_768, "qwen3", frame.QWEN),
    "qwen2": _open(32_768, "qwen3", frame.QWEN),
    "qwen2.5": _open(32_768, "qwen3", frame.QWEN),
    "qwen3": _open(32_768, "qwen3", frame.QWEN),
    "qwen3-max": _open(262_144, "qwen3", frame.QWEN),
    "qwen3-next": _open(262_144, "qwen3", frame.QWEN),
    "qwen3-coder": _open(262_144, "qwen3", frame.QWEN),
    "qwen3-coder-plus": _open(1_000_000, "qwen3", frame.QWEN),
    "qwen3-coder-flash": _open(1_000_000, "qwen3", frame.QWEN),
    "qwen3-vl": _open(131_072, "qwen3", frame.QWEN),
    "qwen3.5": _kin(262_144, "qwen3", frame.QWEN),
    "qwen3.5-plus": _kin(1_000_000, "qwen3", frame.QWEN),
    "qwen3.5-flash": _kin(1_000_000, "qwen3", frame.QWEN),
    "qwen3.6": _kin(262_144, "qwen3", frame.QWEN),
    "qwen3.6-plus": _kin(1_000_000, "qwen3", frame.QWEN),
    "qwen3.7-max": _kin(1_000_000, "qwen3", frame.QWEN),
    "qwen3.7-plus": _kin(1_000_000, "qwen3", frame.QWEN),
    "deepseek": _kin(None, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-chat": _open(131_072, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-reasoner": _open(131_072, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-v3": _open(65_536, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-v3.": _open(131_072, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-v4": _kin(1_000_000, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-v4.1": _kin(1_000_000, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-flash": _kin(1_000_000, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-coder": ModelInfo(context_window=None, framing=frame.DEEPSEEK),
    "deepseek-coder-v2": _kin(None, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-llm": ModelInfo(context_window=None, framing=frame.DEEPSEEK),
    "deepseek-r1": _kin(65_536, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-r1-0528": _open(65_536, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-r1-zero": _open(65_536, "deepseek_v3", frame.DEEPSEEK),
    "deepseek-r1:671b": _open(65_536, "deepseek_v3", frame.DEEPSEEK),
    **dict.fromkeys(_distilled_llamas(), _open(65_536, "llama3", frame.DEEPSEEK)),
    **dict.fromkeys(_distilled_qwens(), _open(65_536, "qwen3", frame.DEEPSEEK)),
    "mistral": _kin(None, "mistral_v3", frame.MISTRAL),
    "mistral-7b": ModelInfo(context_window=8_192, framing=frame.MISTRAL),
    "mistral:": ModelInfo(context_window=8_192, framing=frame.MISTRAL),
    "mistral-large": _kin(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-large-3": _kin(262_144, "mistral_v3", frame.MISTRAL),
    "mistral-large-2512": _kin(262_144, "mistral_v3", frame.MISTRAL),
    "mistral-medium": _kin(32_768, "mistral_v3", frame.MISTRAL),
    "mistral-medium-3": _kin(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-medium-2505": _kin(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-medium-2508": _kin(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-medium-latest": _kin(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-large-2402": _kin(32_768, "mistral_v3", frame.MISTRAL),
    "mistral-nemo": _open(131_072, "mistral_v3", frame.MISTRAL),
    "open-mistral-nemo": _open(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-small": _kin(32_768, "mistral_v3", frame.MISTRAL),
    "mistral-small-latest": _kin(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-small-2501": _open(32_768, "mistral_v3", frame.MISTRAL),
    "mistral-small-2503": _open(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-small-2506": _open(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-small-24b": _open(32_768, "mistral_v3", frame.MISTRAL),
    "mistral-small-3": _open(32_768, "mistral_v3", frame.MISTRAL),
    "mistral-small-3.1": _open(131_072, "mistral_v3", frame.MISTRAL),
    "mistral-small-3.2": _open(131_072, "mistral_v3", frame.MISTRAL),
    "ministral": _open(131_072, "mistral_v3", frame.MISTRAL),
    "codestral": _kin(32_768, "mistral_v3", frame.MISTRAL),
    "codestral-2508": _kin(256_000, "mistral_v3", frame.MISTRAL),
    "glm": _kin(None, "glm4", frame.GLM),
    "glm-4": _open(131_072, "glm4", frame.GLM),
    "glm4": _open(131_072, "glm4", frame.GLM),
    "glm-4.5": _open(131_072, "glm4", frame.GLM),
    "glm-4.6": _kin(200_000, "glm4", frame.GLM),
    "glm-4.7": _kin(200_000, "glm4", frame.GLM),
    "glm-5": _kin(200_000, "glm4", frame.GLM),
    "glm-5.1": _kin(200_000, "glm4", frame.GLM),
    "glm-5.2": _kin(1_000_000, "glm4", frame.GLM),
    "kimi": _kin(None, "kimi_k2", frame.KIMI),
    "kimi-latest": _kin(131_072, "kimi_k2", frame.KIMI),
    "kimi-latest-8k": _kin(8_192, "kimi_k2", frame.KIMI),
    "kimi-latest-32k": _kin(32_768, "kimi_k2", frame.KIMI),
    "kimi-k2": _open(131_072, "kimi_k2", frame.KIMI),
    "kimi-k2-0905": _open(262_144, "kimi_k2", frame.KIMI),
    "kimi-k2-instruct-0905": _open(262_144, "kimi_k2", frame.KIMI),
    "kimi-k2-thinking": _open(262_144, "kimi_k2", frame.KIMI),
    "kimi-k2-turbo": _open(262_144, "kimi_k2", frame.KIMI),
    "kimi-k2.5": _kin(262_144, "kimi_k2", frame.KIMI),
    "kimi-k2.6": _kin(262_144, "kimi_k2", frame.KIMI),
    "kimi-k3": _kin(1_048_576, "kimi_k2", frame.KIMI),
    "moonshot": _kin(None, "kimi_k2", frame.KIMI),
    "moonshot-v1-8k": _kin(8_192, "kimi_k2", frame.KIMI),
    "moonshot-v1-32k": _kin(32_768, "kimi_k2", frame.KIMI),
    "moonshot-v1-128k": _kin(131_072, "kimi_k2", frame.KIMI),
    "moonshot-v1-auto": _kin(131_072, "kimi_k2", frame.KIMI),
}
_lock = threading.Lock()
_VENDORS = re.compile(r"^(?:[a-z]+\.)+")
_VERSION_GOES_ON = re.compile(r"[0-9a-z]|\.[0-9]")
"""Matches if a version number continues after a known name: the .5 of `gpt-4.5`, the o of `gpt-4o`, the 0 of
`llama-30b`."""


def register_model(name: str, info: ModelInfo) -> None:
    """Add a model, or all models whose names begin with `name`, to the table of this process."""
    key = _normal(name)
    if not key:
        raise InvalidOption(f"the model's name is {name!r}: give the name that the provider uses")
    with _lock:
        _models[key] = info


def find_model(name: str) -> ModelInfo | None:
    """Look up a model by the longest known beginning of its name; returns None if no beginning is known."""
    wanted = _normal(name)
    with _lock:
        key = max((key for key in _models if _begins(wanted, key)), key=len, default=None)
        return _models[key] if key is not None else None


def counter_for(model: str) -> TokenCounter:
    """Return the token counter of a model: exact if its vocabulary is public, otherwise an estimate."""
    info = find_model(model)
    return info.counter() if info is not None else TokenCounter(TextEstimator())


def counter_named(name: str) -> TokenCounter | None:
    """Return the counter with this name (`TokenCounter.name`, stored with counts); None if no known counter has it."""
    with _lock:
        of_models = [info.counter() for info in dict.fromkeys(_models.values())]
    estimates = [TokenCounter(TextEstimator(profile=profile)) for profile in PROFILES]
    counters = (cautious_counter(), *estimates, *of_models)
    return next((counter for counter in counters if counter.name == name), None)


def context_window_for(model: str) -> int:
    """Return the published context window of a model, in tokens.

    Raises `UnknownModel` if the model is not in the table, or only its family is.
    """
    info = find_model(model)
    if info is None or info.context_window is None:
        raise UnknownModel(
            f"the context window of {model!r} is not known: add the model with "
            "turnfold.tokens.register_model"
        )
    return info.context_window


def _normal(name: str) -> str:
    """Return a model's name as the table has it, without router, cloud vendor (`us.anthropic.`) and `ft:`."""
    own = name.strip().lower().rsplit("/", 1)[-1].removeprefix("ft:")
    return _VENDORS.sub("", own)


def _begins(name: str, key: str) -> bool:
    if not name.startswith(key):
        return False
    return not (key[-1].isdigit() and _VERSION_GOES_ON.match(name, len(key)))
