"""On real conversations the extract keeps more facts than cutting does; no figure is fixed here."""

from __future__ import annotations

import pytest

from bench.extract_fidelity import data_folder, kept_shares, read_set

needs_data = pytest.mark.skipif(
    not data_folder().is_dir(), reason="needs real conversations: set TURNFOLD_DATA to their folder"
)


def quarters(text: str) -> int:
    return (len(text) + 3) // 4


@needs_data
@pytest.mark.parametrize("share", [0.1, 0.2])
@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("conversations/cmtmedqa_zh", 20),
        ("conversations/locomo", 2),
        ("traces/tau_bench_openai", 6),
    ],
)
def test_the_extract_keeps_more_facts_than_the_first_or_last_tokens(
    name: str, sample: int, share: float
) -> None:
    rows = [kept_shares(passages, share, quarters) for passages in read_set(name, sample)]
    extract, first, last = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    assert extract > 1.3 * max(first, last)
