"""`Usage`: the token usage that a provider reports for a call, in one form for all providers.

OpenAI counts cached tokens as part of the prompt, Anthropic separately, Gemini under other names. `Usage.of` takes any
of them, as the SDK's object or as a dictionary, and gives the tokens of the whole prompt and how many of them were
cached.
"""

from __future__ import annotations

import msgspec

from turnfold.errors import InvalidOption
from turnfold.records.block_conversion import get_field

__all__ = ("Usage",)


_INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount")
_OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount")
_WITHIN = ("usage", "usage_metadata", "usageMetadata")
_MODEL = ("model", "model_version", "modelVersion")
_DETAILS = ("input_tokens_details", "prompt_tokens_details")
_GEMINI_CACHED = ("cached_content_token_count", "cachedContentTokenCount")
_CACHE_INPUT = ("cache_read_input_tokens", "cache_creation_input_tokens")


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Token usage of one model call, as the provider counted it."""

    input: int
    """Tokens of the whole prompt, cached or not."""
    output: int = 0
    cached: int = 0
    """Tokens of the prompt that came from the provider's cache."""
    model: str = ""
    """The model that answered, where the response names it."""

    @classmethod
    def of(cls, reported: object) -> Usage:
        """Read the usage from an SDK's response, from its `usage` object, or from a dictionary of either."""
        if isinstance(reported, Usage):
            return reported
        source = next(filter(None, (get_field(reported, name) for name in _WITHIN)), reported)
        prompt = _first(source, _INPUT)
        if prompt is None:
            raise InvalidOption(
                f"{type(reported).__name__} has no prompt tokens; pass a response's usage, or "
                "Usage(input=..., output=..., cached=...)"
            )
        read, created = (_number(get_field(source, name)) or 0 for name in _CACHE_INPUT)
        within = [_number(get_field(get_field(source, name), "cached_tokens")) for name in _DETAILS]
        within += [_number(get_field(source, name)) for name in _GEMINI_CACHED]
        cached = read or next((number for number in within if number), 0)
        output = _first(source, _OUTPUT) or 0
        named = next(filter(None, (get_field(reported, name) for name in _MODEL)), "")
        model = named if isinstance(named, str) else ""
        return cls(input=prompt + read + created, output=output, cached=cached, model=model)


def _first(source: object, names: tuple[str, ...]) -> int | None:
    found = (_number(get_field(source, name)) for name in names)
    return next((number for number in found if number is not None), None)


def _number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None
