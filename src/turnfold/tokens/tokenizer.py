"""Exact token counts, offline, with the vocabularies in the wheel of the tokenizer library splintr.

Nothing is downloaded, so counting also works behind a firewall or in a container. This is the only module that imports
splintr, and it does so at the first count.

Content is always encoded as ordinary text: `<|endoftext|>` in a user's message counts as thirteen characters, not as a
control token. Otherwise a user could exceed the budget on purpose.

A long text is encoded in sections (see `_count_long`): one word of 50 MB would otherwise take 3 to 5 GB of memory and
block every other thread meanwhile. The count is the same.

The library holds the interpreter lock while it encodes a text, but not while it encodes a list of texts.
`count_without_lock` makes use of that.
"""

from __future__ import annotations

import re
import sys
import threading
import unicodedata
from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.text import normal_form
from turnfold.tokens.certainty import Certainty

__all__ = (
    "ENCODINGS",
    "Encoding",
    "count_without_lock",
)


if TYPE_CHECKING:
    from splintr import AnyTokenizer


ENCODINGS: dict[str, str] = {
    "cl100k_base": "GPT-3.5, GPT-4",
    "o200k_base": "GPT-4o and later, o-series",
    "gpt_oss": "gpt-oss (o200k_harmony)",
    "llama3": "Llama 3.x",
    "qwen3": "Qwen 2.5 and 3",
    "deepseek_v3": "DeepSeek V3, R1",
    "gemma2": "Gemma 1 and 2, Gemini 1.5",
    "gemma3": "Gemma 3, Gemini 2 and 3",
    "mistral_v3": "Mistral Nemo and later (Tekken)",
    "glm4": "GLM 4",
    "kimi_k2": "Kimi K2",
}
"""Vocabularies with exact counts, and the models that use them."""

_BPE_FAMILY = "BPE"
"""Family of tokenizers for which splintr lists all control tokens."""
_ID_BYTES = 4
_loaded: dict[str, AnyTokenizer] = {}
_loading = threading.Lock()
_without_lock = False
"""True if long texts are encoded without holding the interpreter lock."""
_LONG_TEXT: Final = 4_096
"""From this many characters on, a text is encoded without holding Python's interpreter lock, so that other threads run
meanwhile."""

_STRETCH: Final = 65_536
"""Number of characters of a section: a text of more than two sections is encoded section by section."""
_JOINT: Final = 512
"""A long text is encoded in sections that overlap; this is the number of tokens at the end of one in which the start of
the next is chosen."""
_TRIES: Final = 4
"""Most places that are tried as the start of the next section of a long text; then the section is made longer instead.
"""
_CACHED_PIECE: Final = 256
_CACHED_CHARACTERS: Final = 16_000_000
"""The tokenizer caches 65,536 pieces of any length. After this many characters of texts longer than `_CACHED_PIECE`,
its cache is cleared, because a piece may be as long as its text."""
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_SPACES: Final = re.compile(r"\s+")


class Encoding:
    """Exact counter for one vocabulary. Cheap to make; the vocabulary is loaded on the first count."""

    __slots__ = (
        "_bytes_of",
        "_cached",
        "_clear_cache",
        "_encode",
        "_encode_flat",
        "_encode_lists",
        "_normalise",
        "_openings",
        "name",
    )

    certainty = Certainty.EXACT

    def __init__(self, name: str) -> None:
        if name not in ENCODINGS:
            raise InvalidOption(f"unknown encoding {name!r}; known: {', '.join(sorted(ENCODINGS))}")
        self.name = name
        self._encode: Callable[[str], list[int]] | None = None
        self._encode_flat: Callable[[str], bytes] | None = None
        self._encode_lists: Callable[[list[str]], tuple[bytes, bytes]] | None = None
        self._openings: tuple[str, ...] = ()
        self._bytes_of: Callable[[int], bytes] = _not_loaded
        self._clear_cache: Callable[[], object] = _nothing
        self._cached = 0
        # Qwen's tokenizer composes characters before splitting them; without it counts are off.
        self._normalise = name == "qwen3"

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`; raises `InvalidRecord` for a lone surrogate."""
        if not text:
            return 0
        encode = self._encode or self._load()
        if self._normalise and not text.isascii():
            text = normal_form("NFC", text)
        try:
            if len(text) > _CACHED_PIECE:
                self._limit_cache(len(text))
                if len(text) > 2 * _STRETCH:
                    return self._count_long(text)
            for opening in self._openings:
                if opening in text:
                    return len(encode(text))
            flat = self._flat(text)
            return len(encode(text)) if flat is None else len(flat) // _ID_BYTES
        except UnicodeEncodeError:
            raise InvalidRecord(
                f"lone surrogate at character {_first_surrogate(text)} of a text to count",
                remedy="Decode the bytes with errors='replace', or replace the character",
            ) from None

    def _count_long(self, text: str) -> int:
        """Return the number of tokens of a long `text`, encoded section by section.

        Sections overlap. A section begins at a boundary between two tokens of the previous section, and both must give
        the same tokens for the text they share; then joining them at that boundary gives the encoding of the whole:
        tokens are the encoding of a text if and only if each two neighbours are the encoding of their own text. If no
        such boundary is found, a longer section is encoded, in the end the whole text.
        """
        total = at = 0
        length, runs = _STRETCH, _Runs(text)
        ids = self._ids(text[:length])
        while at + length < len(text):
            for place, kept in self._joints(text, at + length, ids, runs):
                following = self._ids(text[place : place + _STRETCH])
                agreed = ids[kept : len(ids) - _JOINT // 4]
                if following[: len(agreed)] == agreed:
                    total, at, length, ids = total + kept, place, _STRETCH, following
                    break
            else:
                length *= 2
                ids = self._ids(text[at : at + length])
        return total + len(ids)

    def _joints(
        self, text: str, end: int, ids: array[int], runs: _Runs
    ) -> Iterator[tuple[int, int]]:
        """Yield places in `text` before `end` to start the next section, best first, with their indexes in `ids`."""
        first = len(ids) - _JOINT
        if first < _JOINT:
            return  # too few tokens to compare, as in a run of spaces: a longer section is needed
        tokens = [self._bytes_of(token) for token in ids[first:]]
        tail = b"".join(tokens)
        # Gemma encodes a space as U+2581, and decodes U+2581 as a space.
        shown = text[max(0, end - len(tail)) : end].replace("\u2581", " ").encode()
        if not shown.endswith(tail):
            return
        offsets = accumulate(map(len, tokens[: _JOINT // 2]))
        # Only tokens that begin at the beginning of a character: a token may begin inside a multi-byte character.
        places = [
            (end - len(tail[offset:].decode()), kept)
            for kept, offset in enumerate(offsets, first + 1)
            if tail[offset] & 0xC0 != 0x80
        ]
        sure = [place for place in places if _is_always_cut(text, place[0])]
        inside = (place for place in places if _kind(text[place[0] - 1]) == _kind(text[place[0]]))
        yield from sure[:_TRIES] or (
            place for place in islice(inside, _TRIES) if runs.continues_at(place[0])
        )

    def _ids(self, text: str) -> array[int]:
        """Return the token ids of `text`."""
        special = any(opening in text for opening in self._openings)
        flat = None if special else self._flat(text)
        if flat is None:
            return array("I", (self._encode or self._load())(text))
        ids = array("I")
        ids.frombytes(flat)
        if sys.byteorder == "big":
            ids.byteswap()  # the tokenizer writes them little-endian
        return ids

    def _flat(self, text: str) -> bytes | None:
        """Return the token ids of `text` as bytes; None if the tokenizer does not offer that."""
        if self._encode_flat is None:
            return None
        if _without_lock and len(text) >= _LONG_TEXT and self._encode_lists is not None:
            return self._encode_lists([text])[0]
        return self._encode_flat(text)

    def _limit_cache(self, characters: int) -> None:
        """Count the characters that were encoded, and clear the tokenizer's cache before it holds too many."""
        self._cached += characters
        if self._cached > _CACHED_CHARACTERS:
            self._cached = characters
            self._clear_cache()

    def _load(self) -> Callable[[str], list[int]]:
        # Flat ids are bytes instead of a list of Python numbers, which takes a quarter to a half of the time. But that
        # call encodes spelled-out control tokens as such, so it is used only for texts that cannot contain one, and
        # only for families whose control tokens are all known.
        tokenizer = _tokenizer(self.name)
        if tokenizer.family == _BPE_FAMILY:
            self._openings = tuple(sorted({token[:2] for token in tokenizer.special_tokens()}))
            self._encode_flat = tokenizer.encode_flat
            self._encode_lists = tokenizer.encode_batch_flat
            self._clear_cache = tokenizer.clear_cache
        self._bytes_of = tokenizer.decode_token_bytes
        self._encode = tokenizer.encode_ordinary
        return self._encode

    def __repr__(self) -> str:
        return f"Encoding({self.name!r})"


def count_without_lock() -> None:
    """Encode long texts without the interpreter lock from now on, so that other threads can run.

    For a service: the library starts threads of its own, one for each processor.
    """
    global _without_lock
    _without_lock = True


def _tokenizer(name: str) -> AnyTokenizer:
    with _loading:
        tokenizer = _loaded.get(name)
        if tokenizer is None:
            from splintr import Tokenizer

            tokenizer = _loaded[name] = Tokenizer.from_pretrained(name)
        return tokenizer


def _not_loaded(token: int) -> bytes:
    raise AssertionError(f"token {token} requested before the vocabulary is loaded")


def _nothing() -> None:
    """Do nothing; used in place of `clear_cache` for tokenizers without a cache."""


def _is_always_cut(text: str, at: int) -> bool:
    """Return True if every tokenizer that splits texts into words splits this one before index `at`."""
    before, after = _kind(text[at - 1]), _kind(text[at])
    if before == after:
        return False
    if "digit" in (before, after):
        return True
    return text[at] == " " or (before == "letter" and after == "sign" and text[at] not in "'\u2019")


class _Runs:
    """Finds runs (words, signs or spaces) in one text that end at the same place wherever in them a section begins.

    Tokenizers split runs differently, so only plain runs are used. Not plain are: digits, which are grouped from the
    first one; combining marks, which go with the character before them; ASCII words that go on with other letters;
    words without capitals that go on with one; and spaces mixed with line ends.
    """

    __slots__ = ("_plain", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._plain = range(0)
        """The range of the last run found, so that a word of 50 MB is scanned only once."""

    def continues_at(self, at: int) -> bool:
        """Return True if a plain run (of words, signs or spaces) continues at index `at`."""
        if at in self._plain:
            return True
        before, after = self._text[at - 1], self._text[at]
        kind = _kind(after)
        if kind == "sign":
            return not before == after == "/"  # a slash may follow a line end within a run of signs
        if kind in ("digit", "mark"):
            return False
        end = self._end_of_letters(at) if kind == "letter" else self._end_of_spaces(at)
        self._plain = range(at, end)
        return at < end

    def _end_of_spaces(self, at: int) -> int:
        run = _SPACES.match(self._text, at)
        return run.end() if run is not None and run[0] == len(run[0]) * self._text[at] else at

    def _end_of_letters(self, at: int) -> int:
        text, first = self._text, self._text[at]
        run = _LETTERS.match(text, at)
        if run is None or _kind(text[run.end() : run.end() + 1] or " ") == "mark":
            return at
        if first.isascii():
            return run.end() if run[0].isascii() else at
        has_capitals = first.lower() != first.upper()
        return run.end() if has_capitals or run[0] == run[0].lower() else at


def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    if character.isalpha():
        return "letter"
    if character.isnumeric():
        return "digit"
    return "mark" if unicodedata.category(character).startswith("M") else "sign"


def _first_surrogate(text: str) -> int:
    """Return the index of the first character that UTF-8 cannot encode; -1 if there is none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return -1
