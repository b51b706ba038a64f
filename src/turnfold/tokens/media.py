"""What images, sound and files cost, by the rules their providers publish.

No tokenizer counts a picture. Each rule below names the document it was read from and is priced from
above: where the document leaves something open (the model tier, the size, the rounding), the dearer
reading is taken. A table is text and is counted as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from turnfold.errors import InvalidOption
from turnfold.tokens.estimate import estimate_text
from turnfold.tokens.image_headers import image_size, image_size_of_url

__all__ = (
    "ANTHROPIC_AREA",
    "GEMINI_TILES",
    "GENERIC",
    "OPENAI_PATCHES",
    "OPENAI_PATCHES_MINI",
    "OPENAI_TILES",
    "OPENAI_TILES_MINI",
    "ImageRule",
    "audio_tokens",
    "file_tokens",
    "image_size",
    "image_size_of_url",
    "table_tokens",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRule:
    """How a provider prices an image."""

    name: str
    origin: str
    """The document the rule was read from."""
    price: Callable[[int, int], int]
    """Tokens of an image of this width and height at full detail."""
    most: int
    """What the dearest image costs: the price of one whose size is not known."""
    low: int | None = None
    """What `detail="low"` costs; None where asking for it changes nothing."""

    def tokens(
        self, *, detail: Literal["low", "high", "auto"] | None, size: tuple[int, int] | None
    ) -> int:
        """Tokens of one image. Without a detail, or with `auto`, the provider may choose the high one."""
        if size is not None and min(size) <= 0:
            raise InvalidOption(
                f"an image cannot be {size[0]} x {size[1]} pixels; give None instead"
            )
        if detail == "low" and self.low is not None:
            return self.low
        return self.most if size is None else self.price(*size)


def _cells(width: int, height: int, *, side: int) -> int:
    """How many squares it takes to cover an image."""
    return _ceil_div(width, side) * _ceil_div(height, side)


def _shrunk(width: int, height: int, *, factor: float) -> tuple[int, int]:
    """The image scaled down by the factor; never up, and never to less than a pixel."""
    factor = min(1.0, factor)
    return max(1, round(width * factor)), max(1, round(height * factor))


def _openai_tiles(width: int, height: int, *, base: int, tile: int) -> int:
    fitted = _shrunk(width, height, factor=2048 / max(width, height))
    fitted = _shrunk(*fitted, factor=768 / min(fitted))
    return base + tile * _cells(*fitted, side=512)


def _openai_patches(width: int, height: int, *, percent: int) -> int:
    return _ceil_div(min(1536, _cells(width, height, side=32)) * percent, 100)


def _anthropic_area(width: int, height: int) -> int:
    fitted = _shrunk(width, height, factor=2576 / max(width, height))
    by_area = _ceil_div(fitted[0] * fitted[1], 750)
    return min(4784, max(by_area, _cells(*fitted, side=28)))


def _gemini_tiles(width: int, height: int) -> int:
    fitted = _shrunk(width, height, factor=3072 / max(width, height))
    if max(fitted) <= 384:
        return 1120
    side = min(768, max(256, math.floor(min(fitted) / 1.5)))
    return max(1120, 258 * _cells(*fitted, side=side))


OPENAI_TILES: Final = ImageRule(
    name="openai-tiles",
    origin="OpenAI, 'Images and vision', calculating costs: fit into 2048 x 2048, shorter side down to "
    "768, then 85 + 170 a tile of 512 x 512 (gpt-4o, gpt-4.1); gpt-5 (70 + 140) and the o-series "
    "(75 + 150) are cheaper. At most 8 tiles.",
    price=partial(_openai_tiles, base=85, tile=170),
    most=85 + 8 * 170,
    low=85,
)
OPENAI_TILES_MINI: Final = ImageRule(
    name="openai-tiles-mini",
    origin="OpenAI, 'Images and vision', calculating costs: as the tile rule, 2833 + 5667 a tile "
    "(gpt-4o-mini, whose images are made as dear as those of gpt-4o).",
    price=partial(_openai_tiles, base=2833, tile=5667),
    most=2833 + 8 * 5667,
    low=2833,
)
OPENAI_PATCHES: Final = ImageRule(
    name="openai-patches",
    origin="OpenAI, 'Images and vision', calculating costs: patches of 32 x 32, at most 1536, times the "
    "model's factor, here the largest, 2.46 (gpt-4.1-nano, gpt-5-nano). An image scaled down to the "
    "cap is priced at the cap. The detail changes nothing.",
    price=partial(_openai_patches, percent=246),
    most=3779,
)
OPENAI_PATCHES_MINI: Final = ImageRule(
    name="openai-patches-mini",
    origin="OpenAI, 'Images and vision', calculating costs: as the patch rule with the factor 1.72 of "
    "o4-mini, which also covers 1.62 of gpt-4.1-mini and gpt-5-mini.",
    price=partial(_openai_patches, percent=172),
    most=2642,
)
ANTHROPIC_AREA: Final = ImageRule(
    name="anthropic-area",
    origin="Anthropic, 'Vision': width * height / 750, or patches of 28 x 28 in the newer text, after "
    "scaling to the model's limit: 2576 pixels and 4784 tokens for the high-resolution models, 1568 "
    "and about 1,600 for the others. The higher limit and the dearer formula are taken.",
    price=_anthropic_area,
    most=4784,
)
GEMINI_TILES: Final = ImageRule(
    name="gemini-tiles",
    origin="Google, 'Understand and count tokens' and 'Image understanding': 258 up to 384 x 384, above "
    "it 258 a tile of min(width, height) / 1.5, held between 256 and 768, of the image scaled to 3072 "
    "(Gemini 2); 'Media resolution': 1120 an image, 280 at low (Gemini 3). The dearer is taken.",
    price=_gemini_tiles,
    most=24 * 258,
    low=280,
)

_ANY_PROVIDER: Final = (OPENAI_TILES, OPENAI_PATCHES, ANTHROPIC_AREA, GEMINI_TILES)


def _dearest(width: int, height: int) -> int:
    return max(rule.price(width, height) for rule in _ANY_PROVIDER)


GENERIC: Final = ImageRule(
    name="generic-images",
    origin="the dearest of the rules above, without gpt-4o-mini's, which would price a photograph like "
    "a novel; most providers know no low detail, so it changes nothing",
    price=_dearest,
    most=max(rule.most for rule in _ANY_PROVIDER),
)

_AUDIO_TOKENS_A_SECOND: Final = 32
"""Google, 'Audio understanding': 32 tokens a second. OpenAI's realtime guide has 10 for what is heard."""
_AUDIO_BYTES_A_SECOND: Final = 4_000
"""32 kbit/s, the low end of compressed speech; anything better recorded is shorter for its bytes."""

_PDF_TOKENS_A_PAGE: Final = 3_000 + 1_600
"""Anthropic, 'PDF support': 1,500 to 3,000 tokens of text a page, and the page once more as an image.
OpenAI sends text and image too; Google counts 258 (Gemini 2) or 560 (Gemini 3) a page."""
_PDF_BYTES_A_PAGE: Final = 20_000
"""A lean page of typeset text; pages with pictures hold more bytes, so fewer pages are there."""
_MOST_PDF_PAGES: Final = 100
"""Anthropic, 'PDF support': the most pages of one request."""
_UNKNOWN_PAGES: Final = 10
"""A document of which nothing is known counts as this many pages: a convention, not a bound."""
_TEXT_BYTES_A_TOKEN: Final = 2
"""English has 4 and more, Chinese 3 to 4, code 3; only keys and base64 have fewer than 2."""


def audio_tokens(*, seconds: float | None, size_bytes: int | None) -> int:
    """Tokens of a recording, by its length or, where that is unknown, by the longest its bytes allow."""
    if seconds is not None:
        if not (math.isfinite(seconds) and seconds >= 0):
            raise InvalidOption(f"a recording cannot last {seconds} seconds")
        return math.ceil(seconds * _AUDIO_TOKENS_A_SECOND)
    if size_bytes is None:
        raise InvalidOption(
            "the tokens of a recording need its seconds or its size_bytes; got neither"
        )
    return _ceil_div(
        _checked(size_bytes, "size_bytes") * _AUDIO_TOKENS_A_SECOND, _AUDIO_BYTES_A_SECOND
    )


def file_tokens(*, media_type: str, size_bytes: int | None, pages: int | None) -> int:
    """Tokens of a document: by its pages, else by its bytes, else as ten dear pages.

    An image or recording sent as a file is priced as what it is; whatever is not a PDF, as text.
    """
    if pages is not None:
        return _checked(pages, "pages") * _PDF_TOKENS_A_PAGE
    kind = media_type.strip().lower()
    if kind.startswith("image/"):
        return GENERIC.most
    if size_bytes is None:
        return _UNKNOWN_PAGES * _PDF_TOKENS_A_PAGE
    _checked(size_bytes, "size_bytes")
    if kind.startswith("audio/"):
        return audio_tokens(seconds=None, size_bytes=size_bytes)
    if kind.partition(";")[0].rstrip() == "application/pdf":
        found = max(1, _ceil_div(size_bytes, _PDF_BYTES_A_PAGE))
        return min(_MOST_PDF_PAGES, found) * _PDF_TOKENS_A_PAGE
    return _ceil_div(size_bytes, _TEXT_BYTES_A_TOKEN)


def table_tokens(
    rows: Iterable[Iterable[object]], *, count: Callable[[str], int] = estimate_text
) -> int:
    """Tokens of a table, as the Markdown a model is shown: every cell, its bars and its line ends.

    Without the model's own `count` it is an estimate that errs upward, like the estimate of its text.
    """
    lines = ["| " + " | ".join(map(str, row)) + " |\n" for row in rows]
    return count("".join(lines))


def _ceil_div(amount: int, unit: int) -> int:
    return -(-amount // unit)


def _checked(value: int, name: str) -> int:
    if value < 0:
        raise InvalidOption(f"{name} must not be negative, got {value}")
    return value
