"""What a provider reports about a call, in one form.

OpenAI counts cached tokens within the prompt, Anthropic beside it, Gemini under other names. `Usage.of` takes any of
them, as the SDK's object or as a dictionary, and says how many tokens the prompt had in all and how many of them the
provider had cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from turnfold.errors import InvalidOption

__all__ = ("Usage",)

_INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count")
_OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count")
_DETAILS = ("input_tokens_details", "prompt_tokens_details")
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tokens of one call as the provider counted them."""

    input: int
    """Everything the prompt had, cached or not."""
    output: int = 0
    cached: int = 0
    """Tokens of the prompt that came from the provider's cache."""

    @classmethod
    def of(cls, reported: object) -> Usage:
        """The usage an SDK's answer carries; the answer itself, its `usage`, or a dictionary of either."""
        if isinstance(reported, Usage):
            return reported
        inner = _field(reported, "usage") or _field(reported, "usage_metadata")
        source = reported if inner is None else inner
        given = _first(source, _INPUT)
        if given is None:
            raise InvalidOption(
                f"{type(reported).__name__} reports no prompt tokens; give an answer's usage, or "
                "Usage(input=..., output=..., cached=...)"
            )
        read, created = (_number(_field(source, name)) or 0 for name in _BESIDE)
        within = [_number(_field(_field(source, name), "cached_tokens")) for name in _DETAILS]
        within.append(_number(_field(source, "cached_content_token_count")))
        cached = read or next((number for number in within if number), 0)
        return cls(input=given + read + created, output=_first(source, _OUTPUT) or 0, cached=cached)


def _first(source: object, names: tuple[str, ...]) -> int | None:
    found = (_number(_field(source, name)) for name in names)
    return next((number for number in found if number is not None), None)


def _number(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


def _field(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return cast("object", getattr(value, name, None))
