"""Counts are exact: equal to other tokenizers with the same vocabulary, on text of every kind."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.house.source_tree import SOURCE
from tests.sizes import examples
from tests.tokens.reference_tokenizers import bpe_count, tiktoken_count
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.tokens import ENCODINGS, Certainty, Encoding

OPENAI = ("cl100k_base", "o200k_base")
PIECES = [
    *("hello world", "The quick brown fox", "don't", "DON'T we'LL", "naïve café", "ñandú", "x" * 40, "aaaa"),
    *("你好，世界", "今天的會議記錄", "日本語テスト", "한국어 문장", "Привет мир", "مرحبا بالعالم", "𠮷野家", "ﬁ"),
    *("🙂", "👩‍👩‍👧‍👦", "🇨🇳", "é", "e\u0301", "\u200b", "\u00a0", "\u3000", "…", "——", "\ufeff"),
    *("def f(x):\n    return x+1\n", '{"a": [1, 2.5, null]}', "SELECT * FROM t WHERE id = 42;", "</div>"),
    *("0", "12345678", "3.14159", "2024-06-01T12:00:00Z", "https://example.org/a?b=c&d=%20"),
    *("  ", "\n\n", "\t", " \n ", "\r\n", "    ", "\n \n"),
    *("<|endoftext|>", "<|im_start|>user", "<|im_end|>", "<|fim_prefix|>", "<|start|>", "[INST]", "<bos>"),
]  # fmt: skip


def mixed_texts(number: int) -> list[str]:
    chance = random.Random(7)  # noqa: S311 - the same texts in every run
    ranges = [(32, 126), (0x4E00, 0x9FFF), (0xA0, 0x2FFF), (0x1F300, 0x1F6FF), (0, 0xD7FF)]
    texts = ["".join(chance.choices(PIECES, k=chance.randint(1, 12))) for _ in range(number)]
    for _ in range(number // 2):
        picked = [chance.choice(ranges) for _ in range(chance.randint(1, 40))]
        texts.append("".join(chr(chance.randint(*bounds)) for bounds in picked))
    return texts


@pytest.mark.parametrize("name", OPENAI)
def test_openai_counts_equal_tiktokens(name: str) -> None:
    mine, theirs = Encoding(name), tiktoken_count(name)
    texts = mixed_texts(2000)
    assert len(texts) == 3000
    assert [text for text in texts if mine.count(text) != theirs(text)] == []


@pytest.mark.parametrize("name", OPENAI)
@examples(300)
@given(text=st.text(max_size=60))
def test_openai_counts_equal_tiktokens_on_any_text(name: str, text: str) -> None:
    assert Encoding(name).count(text) == tiktoken_count(name)(text)


@pytest.mark.parametrize("name", OPENAI)
def test_a_third_tokenizer_agrees(name: str) -> None:
    mine, theirs = Encoding(name), bpe_count(name)
    assert {text: mine.count(text) for text in PIECES} == {text: theirs(text) for text in PIECES}


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_control_marks_in_a_text_are_plain_text(name: str) -> None:
    counter = Encoding(name)
    for mark in (
        "<|endoftext|>",
        "<|im_start|>",
        "<|eot_id|>",
        "<｜User｜>",
        "<start_of_turn>",
        "[INST]",
    ):
        assert counter.count(mark) > 1, mark
        assert counter.count(f"a {mark} b") > 3, mark


GOLDEN = {
    "Fold the old turns, keep the new ones.": {
        "cl100k_base": 10, "o200k_base": 10, "gpt_oss": 10, "llama3": 10, "qwen3": 10, "deepseek_v3": 10,
        "gemma2": 10, "gemma3": 10, "mistral_v3": 11, "glm4": 10, "kimi_k2": 10,
    },
    "先把旧的对话折叠起来，再接着往下说。": {
        "cl100k_base": 24, "o200k_base": 17, "gpt_oss": 17, "llama3": 16, "qwen3": 12, "deepseek_v3": 11,
        "gemma2": 13, "gemma3": 13, "mistral_v3": 17, "glm4": 11, "kimi_k2": 11,
    },
    "def fold(turns: list[str]) -> str:\n    return '\\n'.join(turns[-8:])\n": {
        "cl100k_base": 22, "o200k_base": 22, "gpt_oss": 22, "llama3": 22, "qwen3": 22, "deepseek_v3": 23,
        "gemma2": 25, "gemma3": 25, "mistral_v3": 25, "glm4": 22, "kimi_k2": 24,
    },
    "3.14159 + 2,718,281.828 = ?": {
        "cl100k_base": 15, "o200k_base": 15, "gpt_oss": 15, "llama3": 15, "qwen3": 24, "deepseek_v3": 15,
        "gemma2": 24, "gemma3": 24, "mistral_v3": 24, "glm4": 18, "kimi_k2": 15,
    },
    "👩‍👩‍👧 naïve café – <|endoftext|>": {
        "cl100k_base": 23, "o200k_base": 19, "gpt_oss": 19, "llama3": 21, "qwen3": 17, "deepseek_v3": 18,
        "gemma2": 14, "gemma3": 14, "mistral_v3": 24, "glm4": 21, "kimi_k2": 19,
    },
    "e\u0301tude": {
        "cl100k_base": 4, "o200k_base": 4, "gpt_oss": 4, "llama3": 3, "qwen3": 1, "deepseek_v3": 4,
        "gemma2": 3, "gemma3": 3, "mistral_v3": 5, "glm4": 3, "kimi_k2": 4,
    },
}  # fmt: skip
"""Llama, Qwen, DeepSeek and Mistral as the vocabularies in their own packages count; the others as measured."""


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_every_family_counts_as_written_down(name: str) -> None:
    counter = Encoding(name)
    assert counter.certainty is Certainty.EXACT
    assert counter.name == name
    assert {text: counter.count(text) for text in GOLDEN} == {
        text: counts[name] for text, counts in GOLDEN.items()
    }
    assert counter.count("") == 0


def test_qwen_composes_characters_before_it_counts() -> None:
    qwen = Encoding("qwen3")
    assert qwen.count("e\u0301tude") == qwen.count("étude") == 1
    apart = unicodedata.normalize("NFD", "한국어")
    assert (len(apart), qwen.count(apart), qwen.count("한국어")) == (8, 3, 3)


def test_an_unknown_vocabulary_names_the_known_ones() -> None:
    with pytest.raises(
        InvalidOption, match="unknown encoding 'p50k'; known: cl100k_base, deepseek_v3"
    ):
        Encoding("p50k")


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_a_lone_surrogate_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(InvalidRecord, match=r"lone surrogate at character 2 .* errors='replace'"):
        Encoding(name).count("ab\ud800")


def test_a_vocabulary_is_loaded_on_the_first_count_and_once() -> None:
    """Threads that count at the same moment must not load it each."""
    program = (
        "import sys, threading\n"
        "from turnfold.tokens import tokenizer\n"
        "counters = [tokenizer.Encoding('llama3') for _ in range(8)]\n"
        "assert 'splintr' not in sys.modules and not tokenizer._loaded\n"
        "import splintr\n"
        "loads, load = [], splintr.Tokenizer.from_pretrained\n"
        "class Watched:\n"
        "    @staticmethod\n"
        "    def from_pretrained(name):\n"
        "        loads.append(name)\n"
        "        return load(name)\n"
        "splintr.Tokenizer = Watched\n"
        "threads = [threading.Thread(target=counter.count, args=('hi',)) for counter in counters]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        "print(loads)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={"PYTHONPATH": str(SOURCE)},
    )
    assert (finished.stdout.strip(), finished.returncode) == ("['llama3']", 0), finished.stderr


def test_threads_get_the_same_counts() -> None:
    counter, texts = Encoding("o200k_base"), mixed_texts(200)
    alone = [counter.count(text) for text in texts]
    found: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: found.append([counter.count(text) for text in texts]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4
