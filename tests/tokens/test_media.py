"""Images, sound and files cost what their providers publish, or more; no header breaks the reader."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Literal
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import InvalidOption
from turnfold.tokens import Encoding, ImageRule, audio_tokens, file_tokens, table_tokens
from turnfold.tokens.media import (
    ANTHROPIC_AREA,
    GEMINI_TILES,
    GENERIC,
    OPENAI_PATCHES,
    OPENAI_PATCHES_MINI,
    OPENAI_TILES,
    OPENAI_TILES_MINI,
    image_size,
    image_size_of_url,
)

RULES = (
    ANTHROPIC_AREA,
    GEMINI_TILES,
    GENERIC,
    OPENAI_PATCHES,
    OPENAI_PATCHES_MINI,
    OPENAI_TILES,
    OPENAI_TILES_MINI,
)
DETAILS: tuple[Literal["low", "high", "auto"] | None, ...] = ("low", "high", "auto", None)
sides = st.integers(min_value=1, max_value=20_000)


def name_of(rule: ImageRule) -> str:
    return rule.name


# ------------------------------------------------------------------------------------- images


@pytest.mark.parametrize(
    ("rule", "size", "tokens"),
    [
        (OPENAI_TILES, (1024, 1024), 765),  # the two examples of the guide
        (OPENAI_TILES, (2048, 4096), 1105),
        (OPENAI_TILES, (512, 512), 255),
        (OPENAI_TILES, (512, 513), 425),  # small images are not enlarged
        (OPENAI_TILES, (2049, 513), 1445),  # billed so, and so is the next
        (OPENAI_TILES, (2050, 513), 765),
        (OPENAI_TILES_MINI, (128, 64), 8500),
        (OPENAI_TILES_MINI, (1024, 1024), 25_501),
        (OPENAI_PATCHES, (128, 64), 20),  # 8 patches x 2.46
        (OPENAI_PATCHES, (1024, 1024), 2520),
        (OPENAI_PATCHES, (4000, 1474), 3779),  # scaled down: billed at the cap
        (OPENAI_PATCHES_MINI, (1024, 1024), 1762),
        (OPENAI_PATCHES_MINI, (1920, 1080), 2642),
        (ANTHROPIC_AREA, (200, 200), 64),  # 64 patches; by area it would be 54
        (ANTHROPIC_AREA, (1000, 1000), 1334),
        (ANTHROPIC_AREA, (1568, 728), 1523),
        (ANTHROPIC_AREA, (1928, 1928), 4784),
        (ANTHROPIC_AREA, (8000, 100), 184),  # shrunk to 2576 x 32: 92 x 2 patches
        (GEMINI_TILES, (200, 200), 1120),
        (GEMINI_TILES, (960, 540), 1548),  # the example of the guide: 6 tiles of 360
        (GEMINI_TILES, (3072, 3072), 4128),
        (GEMINI_TILES, (10_000, 1000), 6192),  # shrunk to 3072 x 307, in tiles of 256
        (GENERIC, (200, 200), 1120),
        (GENERIC, (1024, 1024), 2520),
        (GENERIC, (1928, 1928), 4784),
    ],
)
def test_an_image_costs_what_is_documented(
    rule: ImageRule, size: tuple[int, int], tokens: int
) -> None:
    assert rule.tokens(detail="high", size=size) == tokens
    assert rule.tokens(detail="high", size=(size[1], size[0])) == tokens
    assert rule.tokens(detail="auto", size=size) == tokens
    assert rule.tokens(detail=None, size=size) == tokens


@pytest.mark.parametrize(
    ("rule", "most", "low"),
    [
        (OPENAI_TILES, 1445, 85),
        (OPENAI_TILES_MINI, 48_169, 2833),
        (OPENAI_PATCHES, 3779, 3779),  # no low detail: the price stays
        (OPENAI_PATCHES_MINI, 2642, 2642),
        (ANTHROPIC_AREA, 4784, 4784),
        (GEMINI_TILES, 6192, 280),
        (GENERIC, 6192, 6192),
    ],
)
def test_an_unknown_size_costs_the_documented_maximum(rule: ImageRule, most: int, low: int) -> None:
    assert rule.tokens(detail=None, size=None) == most
    assert rule.tokens(detail="high", size=None) == most
    assert rule.tokens(detail="low", size=None) == low


@pytest.mark.parametrize("rule", RULES, ids=name_of)
@given(width=sides, height=sides)
def test_no_image_costs_more_than_the_maximum(rule: ImageRule, width: int, height: int) -> None:
    tokens = rule.tokens(detail="high", size=(width, height))
    assert 0 < tokens <= rule.most
    assert rule.tokens(detail="low", size=(width, height)) <= max(tokens, rule.low or 0)


@given(width=sides, height=sides, detail=st.sampled_from(DETAILS))
def test_the_generic_rule_is_above_all_others(
    width: int, height: int, detail: Literal["low", "high", "auto"] | None
) -> None:
    size = (width, height)
    dearest = max(
        rule.tokens(detail=detail, size=size)
        for rule in RULES
        if rule not in {GENERIC, OPENAI_TILES_MINI}
    )
    assert GENERIC.tokens(detail=detail, size=size) >= dearest


@pytest.mark.parametrize("size", [(0, 10), (10, 0), (-1, 10)])
def test_an_impossible_size_is_an_error(size: tuple[int, int]) -> None:
    with pytest.raises(InvalidOption, match=f"{size[0]} x {size[1]} pixels"):
        GENERIC.tokens(detail="low", size=size)


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.origin for rule in RULES)


# ------------------------------------------------------------------------------------ headers


def png(width: int, height: int) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0)


def jpeg(width: int, height: int, *, frame: int = 0xC0, padding: int = 0) -> bytes:
    segments = b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9)
    while padding > 0:
        length = min(padding, 65_533)
        segments += b"\xff\xe1" + struct.pack(">H", length + 2) + bytes(length)
        padding -= length
    start = b"\xff\xff" + bytes([frame]) + struct.pack(">HBHHB", 17, 8, height, width, 3)
    return segments + b"\xff\xc4" + struct.pack(">H", 4) + b"\0\0" + start + bytes(9)


def bmp(width: int, height: int) -> bytes:
    return b"BM" + bytes(12) + struct.pack("<Iii", 40, width, height)


def old_bmp(width: int, height: int) -> bytes:
    return b"BM" + bytes(12) + struct.pack("<IHH", 12, width, height)


def webp(chunk: bytes, body: bytes) -> bytes:
    return (
        b"RIFF"
        + struct.pack("<I", 12 + len(body))
        + b"WEBP"
        + chunk
        + struct.pack("<I", len(body))
        + body
    )


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\x10\x02\0\x9d\x01\x2a" + struct.pack("<HH", width | 1 << 14, height))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", width - 1 | (height - 1) << 14))


def webp_extended(width: int, height: int) -> bytes:
    sizes = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    return webp(b"VP8X", bytes(4) + sizes)


FORMATS = {
    writer.__name__: writer
    for writer in (png, gif, jpeg, bmp, old_bmp, webp_lossy, webp_lossless, webp_extended)
}


@pytest.mark.parametrize("name", FORMATS)
@given(
    width=st.integers(min_value=1, max_value=16_383),
    height=st.integers(min_value=1, max_value=16_383),
    rest=st.binary(max_size=40),
)
def test_every_format_says_its_size(name: str, width: int, height: int, rest: bytes) -> None:
    assert image_size(FORMATS[name](width, height) + rest) == (width, height)


def test_sizes_at_the_limits_of_their_formats() -> None:
    assert image_size(png(2**31 - 1, 70_000)) == (2**31 - 1, 70_000)
    assert image_size(jpeg(65_535, 1, frame=0xC2)) == (65_535, 1)
    assert image_size(webp_extended(1 << 24, 65_537)) == (1 << 24, 65_537)
    assert image_size(webp_lossless(16_384, 16_384)) == (16_384, 16_384)
    assert image_size(bmp(640, -480)) == (640, 480)


@pytest.mark.parametrize("name", FORMATS)
def test_a_cut_header_has_no_size_but_raises_nothing(name: str) -> None:
    whole = FORMATS[name](640, 480)
    for length in range(len(whole)):
        assert image_size(whole[:length]) in {None, (640, 480)}
    assert image_size(whole[:9]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        png(0, 10),
        gif(10, 0),
        bmp(-5, 5),
        png(9, 9).replace(b"IHDR", b"CgBI"),
        b"\xff\xd8\x00\x00\x00\x00",
        b"\xff\xd8\xff\xe0\x00\x01" + bytes(40),  # a segment shorter than its own length
        b"\xff\xd8" + b"\xff" * 500,
        webp(b"VP8?", bytes(30)),
    ],
)
def test_what_is_no_such_image_has_no_size(data: bytes) -> None:
    assert image_size(data) is None


MAGIC = [
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    b"GIF89a",
    b"\xff\xd8",
    b"\xff\xd8\xff",
    b"BM",
    b"RIFF\0\0\0\0WEBP",
]
MAGIC += [b"RIFF\0\0\0\0WEBP" + chunk for chunk in (b"VP8 ", b"VP8L", b"VP8X")]


@given(st.binary(max_size=200), st.sampled_from([b"", *MAGIC]))
def test_garbage_raises_nothing(data: bytes, magic: bytes) -> None:
    size = image_size(magic + data)
    assert size is None or min(size) > 0


# --------------------------------------------------------------------------------------- URLs


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("name", FORMATS)
def test_a_data_url_says_its_size(name: str) -> None:
    assert image_size_of_url(data_url(FORMATS[name](321, 123) + bytes(50))) == (321, 123)


@pytest.mark.parametrize(
    "url",
    [
        "DATA:image/png;charset=x;BASE64," + base64.b64encode(png(7, 9)).decode(),
        "data:;base64," + base64.encodebytes(png(7, 9)).decode(),
        "data:image/png;base64," + base64.b64encode(png(7, 9)).decode().rstrip("="),
        "data:image/png," + quote_from_bytes(png(7, 9)),
    ],
)
def test_spellings_of_a_data_url(url: str) -> None:
    assert image_size_of_url(url) == (7, 9)


def test_the_other_alphabet_of_base64_is_read_too() -> None:
    url = "data:image/gif;base64," + base64.urlsafe_b64encode(gif(0xFBFF, 0xFFFE)).decode()
    assert {"-", "_"} & set(url)
    assert image_size_of_url(url) == (0xFBFF, 0xFFFE)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://example.org/a.png",
        "file:abc123",
        "data:image/png;base64",
        "data:image/png;base64,",
        "data:image/png;base64,!!!!",
        "data:image/png;base64,\u4f60\u597d",
        "data:" + "x" * 5000 + ",",
    ],
)
def test_an_address_without_image_has_no_size(url: str) -> None:
    assert image_size_of_url(url) is None


def test_only_the_beginning_of_a_data_url_is_decoded() -> None:
    """What follows the beginning is not even base64; a reader of the whole would find no image."""
    url = data_url(png(640, 480) + bytes(1_000_000)) + "not base64!" * 1000
    assert image_size_of_url(url) == (640, 480)
    assert image_size_of_url(data_url(jpeg(640, 480, padding=150_000))) == (640, 480)
    assert image_size_of_url(data_url(jpeg(640, 480, padding=400_000))) is None


@given(st.text(max_size=60))
def test_any_url_is_read_without_error(tail: str) -> None:
    for head in ("", "data:", "data:image/png;base64,", "data:image/png,"):
        size = image_size_of_url(head + tail)
        assert size is None or min(size) > 0


# ------------------------------------------------------------------------- recordings and files


def test_a_recording_costs_by_its_seconds_or_else_by_its_bytes() -> None:
    assert audio_tokens(seconds=60, size_bytes=None) == 1920
    assert audio_tokens(seconds=0.5, size_bytes=10**9) == 16
    assert audio_tokens(seconds=0, size_bytes=None) == 0
    assert audio_tokens(seconds=None, size_bytes=4_000) == 32
    assert audio_tokens(seconds=None, size_bytes=1) == 1


def test_a_recording_by_its_bytes_is_not_under_its_true_length() -> None:
    for bytes_a_second in (4_000, 8_000, 16_000, 32_000, 176_400):
        assert audio_tokens(seconds=None, size_bytes=90 * bytes_a_second) >= audio_tokens(
            seconds=90, size_bytes=None
        )


@pytest.mark.parametrize(
    ("seconds", "size_bytes"), [(None, None), (-1.0, None), (float("nan"), 5), (None, -1)]
)
def test_a_recording_without_length_is_an_error(
    seconds: float | None, size_bytes: int | None
) -> None:
    with pytest.raises(InvalidOption):
        audio_tokens(seconds=seconds, size_bytes=size_bytes)


@pytest.mark.parametrize(
    ("media_type", "size_bytes", "pages", "tokens"),
    [
        ("application/pdf", None, 3, 13_800),
        ("application/pdf", 10**9, 3, 13_800),  # known pages decide
        ("application/pdf", None, 0, 0),
        ("application/pdf", 1, None, 4_600),
        ("Application/PDF; x=y", 20_001, None, 9_200),
        ("application/pdf", 10**9, None, 460_000),
        ("application/pdf", None, None, 46_000),
        ("text/plain", 999, None, 500),
        ("text/csv", 0, None, 0),
        ("application/json", None, None, 46_000),
        ("image/png", None, None, 6192),
        ("audio/mpeg", 8_000, None, 64),
    ],
)
def test_a_file_costs_by_pages_or_else_by_bytes(
    media_type: str, size_bytes: int | None, pages: int | None, tokens: int
) -> None:
    assert file_tokens(media_type=media_type, size_bytes=size_bytes, pages=pages) == tokens


@pytest.mark.parametrize(("size_bytes", "pages"), [(-1, None), (None, -1)])
def test_a_negative_file_is_an_error(size_bytes: int | None, pages: int | None) -> None:
    with pytest.raises(InvalidOption, match="negative"):
        file_tokens(media_type="application/pdf", size_bytes=size_bytes, pages=pages)


def test_a_table_costs_what_its_markdown_costs() -> None:
    rows = [("name", "价格", "count"), ("pump", 4_200, 3), ("阀门", 18.5, 120)]
    shown = "| name | 价格 | count |\n| pump | 4200 | 3 |\n| 阀门 | 18.5 | 120 |\n"
    assert table_tokens(rows, count=Encoding("o200k_base").count) == Encoding("o200k_base").count(
        shown
    )
    assert table_tokens(rows) >= table_tokens(rows, count=Encoding("o200k_base").count)
    assert table_tokens([]) == 0
