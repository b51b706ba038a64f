"""A long text is encoded in stretches of bounded length, and its count is that of the whole."""

from __future__ import annotations

import random
import subprocess
import sys
import unicodedata
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold.errors import InvalidRecord
from turnfold.text import normal_form, words
from turnfold.tokens import ENCODINGS, Encoding, tokenizer

RUNS = (
    "abcdefghij", "ABCdef", "今天的会议决定把发布", "0123456789", " ", "\n", " \n\t", "!?.,;", "éèüß", "😀👍🏽🎉",
    "\u0301\u0323", "'s't'll", "a中A", "A", "\r\n/!", "▁ ", "กขค", "हिन्दी", "عربي", "\u200d", '"{}[]:,', "<|", "亚洲AV",
)  # fmt: skip


def mixture(seed: int, length: int) -> str:
    """Runs of all kinds in any order, short and long: whatever a tokenizer may cut otherwise than we think."""
    draw = random.Random(seed)  # noqa: S311 - the same noise in every run
    found = ""
    while len(found) < length:
        found += "".join(draw.choices(draw.choice(RUNS), k=draw.choice((1, 1, 2, 3, 5, 20, 700))))
    return found[:length]


def repeated(text: str, length: int) -> str:
    return (text * (length // len(text) + 1))[:length]


def noise(alphabet: str, length: int) -> str:
    return "".join(random.Random(1).choices(alphabet, k=length))  # noqa: S311 - as above


ADVERSARIAL = {
    "one word": noise("abcdefghijklmnopqrstuvwxyz", 3_000),
    "one letter": "a" * 3_000,
    "percentages": repeated("1%", 3_000),
    "Chinese without a sign": repeated(
        "今天的会议决定把发布日期推迟到九月三日所有测试必须完成", 3_000
    ),
    "Chinese": repeated("今天的会议，决定把发布日期推迟到九月三日。", 3_000),
    "rare characters": "".join(map(chr, range(0x4E00, 0x4E00 + 3_000))),
    "emoji": repeated("😀👍🏽🎉", 3_000),
    "spaces": " " * 9_000 + "x",
    "line ends": "\n" * 9_000,
    "spaces and tabs": repeated(" \t", 3_000),
    "base64": noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 3_000),
    "digits": "7" * 3_000,
    "signs": repeated("=-", 3_000),
    "slashes": "!\n" + "/" * 3_000 + "!!",
    "marks": "e" + "\u0301" * 3_000,
    "marks after signs": "!!" + repeated("\u0323\u0301", 3_000) + "s's",
    "a word after a sign that goes on in another script": "!" + "abcfhj" * 500 + "chéü",
    "line ends after a sign": "!" + "\n" * 3_000 + " \n \nx",
    "capitals after Chinese": "a" + "中" * 3_000 + "亚洲AV中",
    "control tokens": repeated("<|endoftext|>", 3_000),
    "empty bytes": "\0" * 3_000,
    "prose": repeated("It's 10:30 - Alice doesn't know what 3.5% of US$4,200 is. ", 3_000),
}


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_the_count_is_that_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*ADVERSARIAL.values(), *(mixture(seed, 6_000) for seed in range(6))]
    whole = [Encoding(name).count(text) for text in texts]
    monkeypatch.setattr(tokenizer, "_STRETCH", 1_024)
    monkeypatch.setattr(tokenizer, "_JOINT", 32)
    assert [Encoding(name).count(text) for text in texts] == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_the_count_of_many_mixtures_is_that_of_the_whole(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [mixture(seed, 60_000) for seed in range(100, 150)]
    whole = [Encoding(name).count(text) for text in texts]
    monkeypatch.setattr(tokenizer, "_STRETCH", 2_048)
    monkeypatch.setattr(tokenizer, "_JOINT", 32)
    assert [Encoding(name).count(text) for text in texts] == whole


class Recorder:
    """An encoder that notes how long the texts are that it is given."""

    def __init__(self, encoding: Encoding) -> None:
        encoding.count("load it")
        self._encode = encoding._encode_flat
        encoding._encode_flat = self
        self.lengths: list[int] = []

    def __call__(self, text: str) -> bytes:
        assert self._encode is not None
        self.lengths.append(len(text))
        return self._encode(text)


@pytest.mark.parametrize(
    "sample",
    [
        "one word",
        "one letter",
        "percentages",
        "Chinese without a sign",
        "emoji",
        "base64",
        "prose",
        "signs",
    ],
)
def test_no_more_than_a_stretch_is_encoded_at_a_time(sample: str) -> None:
    text = repeated(ADVERSARIAL[sample], 400_000)
    encoding = Encoding("o200k_base")
    recorder = Recorder(encoding)
    assert encoding.count(text) > 10_000
    assert max(recorder.lengths) == 65_536
    assert sum(recorder.lengths) < 1.2 * len(text)


@pytest.mark.parametrize("sample", ["digits", "marks", "spaces and tabs"])
def test_what_cannot_be_cut_safely_is_encoded_at_once(sample: str) -> None:
    text = repeated(ADVERSARIAL[sample], 400_000)
    encoding = Encoding("o200k_base")
    recorder = Recorder(encoding)
    encoding.count(text)
    assert max(recorder.lengths) == len(text)
    assert sum(recorder.lengths) < 3 * len(text)


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("o200k_base", "marks after signs"),
        ("deepseek_v3", "a word after a sign that goes on in another script"),
    ],
)
def test_cutting_anywhere_would_give_another_count(
    name: str, sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sabotage: tokens that agree do not make a place safe where a run depends on what it begins with."""
    whole = Encoding(name).count(ADVERSARIAL[sample])
    monkeypatch.setattr(tokenizer, "_STRETCH", 1_024)
    monkeypatch.setattr(tokenizer, "_JOINT", 32)
    monkeypatch.setattr(tokenizer, "_is_always_cut", lambda *_: True)
    assert Encoding(name).count(ADVERSARIAL[sample]) == whole - 1


def test_the_surrogate_that_is_named_is_the_one_of_the_text() -> None:
    with pytest.raises(InvalidRecord, match="lone surrogate at character 300000 of"):
        Encoding("o200k_base").count("a " * 150_000 + "\ud83d")


@pytest.mark.parametrize("marks", [130, 300, 1_000])
@pytest.mark.parametrize("base", ["e", "é", "ệ", "中", ""])
def test_many_marks_compose_to_the_same(base: str, marks: int) -> None:
    text = f"plain {base}{repeated(chr(0x301) + chr(0x323) + chr(0x344), marks)} and on"
    assert normal_form("NFC", text) == unicodedata.normalize("NFC", text)
    assert normal_form("NFKC", text) == unicodedata.normalize("NFKC", text)


JOINING = "a b'e\u0301\u0323\u1100\u1161\u11a8\uac00\u09c7\u09be\ufdfa\u3316\uff76\uff9e\u1112們’s"


@given(st.text(JOINING, max_size=30), st.integers(0, 5))
def test_a_text_in_pieces_has_the_same_normal_form(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plain = words.plain_text(text)
        patch.setattr(words, "_LONG_TEXT", size)
        for form in ("NFC", "NFKC"):
            assert normal_form(form, text) == unicodedata.normalize(form, text)
        assert words.plain_text(text) == plain


@pytest.mark.parametrize("more", ["", "們", "’s"])
def test_no_call_normalises_more_than_a_piece(monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    longest: list[int] = []

    class Watched:
        combining = staticmethod(unicodedata.combining)

        @staticmethod
        def normalize(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
            longest.append(len(text))
            return unicodedata.normalize(form, text)

    monkeypatch.setattr(words, "unicodedata", Watched)
    found = words.plain_text("\ufdfa" * 100_000 + more)
    assert len(found) == 1_800_000 + len(more.removesuffix("’s"))
    assert max(longest) == 20_000


def test_marks_come_sorted_to_who_would_move_each_past_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[str] = []

    class Watched:
        combining = staticmethod(unicodedata.combining)
        category = staticmethod(unicodedata.category)

        @staticmethod
        def normalize(form: Literal["NFC", "NFD"], text: str) -> str:
            given.append(text)
            return text if len(text) > 1 else unicodedata.normalize(form, text)

    monkeypatch.setattr(f"{normal_form.__module__}.unicodedata", Watched)
    Encoding("qwen3").count("e" + "\u0301\u0323" * 50_000)
    [text] = [text for text in given if len(text) > 1]
    classes = [unicodedata.combining(mark) for mark in text[1:]]
    assert all(before <= after for before, after in pairwise(classes))


def test_the_tokenizers_cache_does_not_keep_every_long_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokenizer, "_CACHED_CHARACTERS", 10_000)
    encoding = Encoding("o200k_base")
    encoding.count("load it")
    cleared: list[int] = []
    encoding._clear_cache = lambda: cleared.append(1)
    for _ in range(100):
        encoding.count("short")
    assert not cleared
    for _ in range(25):
        encoding.count("x" * 1_000)
    assert len(cleared) == 2


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_a_count_without_the_lock_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*ADVERSARIAL.values(), *(mixture(seed, 6_000) for seed in range(6))]
    texts += [repeated(ADVERSARIAL["prose"], 300_000)]
    whole = [Encoding(name).count(text) for text in texts]
    monkeypatch.setattr(tokenizer, "_without_lock", True)
    assert [Encoding(name).count(text) for text in texts] == whole


COUNTED_IN_A_FORK = """
import os, signal, threading
from turnfold.tokens import Encoding, count_without_lock
count_without_lock()
text, other = "Where is the parcel? " * 20_000, threading.Event()
encoding = Encoding("o200k_base")
encoding.count("load")
lists, locked = encoding._encode_lists, []
def watched(texts):
    locked.append(len(texts[0]))
    return lists(texts)
encoding._encode_lists = watched
tokens = encoding.count(text)
assert locked and max(locked) == 65_536, locked
child = os.fork()
if not child:
    signal.alarm(20)  # for a count that would never return
    os._exit(0 if encoding.count(text) == tokens and Encoding("qwen3").count(text) else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_of_a_process_that_counts_without_the_lock_counts_too() -> None:
    subprocess.run([sys.executable, "-c", COUNTED_IN_A_FORK], check=True, timeout=60)
