"""Claude is estimated from above although its vocabularies are not public, and each generation by its own.

The counts stand here as an independent reconstruction of Claude's tokenizers gave them; it says that it agreed with the
provider's counting on hundreds of thousands of texts it was checked with.
"""

from __future__ import annotations

import pytest

from tests.tokens.invented_texts import BY_CLASS
from turnfold.tokens import Encoding, EstimateProfile, counter_for, estimate_text
from turnfold.tokens.estimate_profile import CLAUDE_3, CLAUDE_4_7

RECONSTRUCTED: dict[str, tuple[list[int], list[int]]] = {
    "Chinese chat": ([22, 38, 31, 34, 41, 32], [22, 38, 31, 34, 41, 32]),
    "Chinese consultation": ([47, 55, 59, 58], [47, 55, 59, 58]),
    "English chat": ([21, 18, 24, 21, 21], [32, 29, 26, 33, 32]),
    "English service": ([24, 28, 18, 21], [30, 31, 26, 29]),
    "tool calls": ([29, 32, 24, 25, 21], [34, 42, 27, 28, 25]),
    "tool results": ([70, 124, 87, 45], [87, 136, 105, 54]),
    "code": ([114, 84, 63, 71, 112, 87], [130, 105, 101, 84, 132, 112]),
    "mixed": (
        [33, 37, 38, 25, 35, 41, 24, 50, 32, 35],
        [36, 41, 43, 27, 41, 47, 32, 58, 38, 43],
    ),
}
"""Of each invented text, up to Opus 4.6 and from Opus 4.7 on."""

GENERATIONS = [(0, CLAUDE_3), (1, CLAUDE_4_7)]


@pytest.mark.parametrize("name", RECONSTRUCTED)
@pytest.mark.parametrize(("generation", "profile"), GENERATIONS, ids=["to 4.6", "from 4.7"])
def test_no_class_is_under(name: str, generation: int, profile: EstimateProfile) -> None:
    true = RECONSTRUCTED[name][generation]
    estimates = [estimate_text(text, profile=profile) for text in BY_CLASS[name]]
    pairs = list(zip(estimates, true, strict=True))
    assert sum(true) <= sum(estimates) <= 1.35 * sum(true)
    assert [pair for pair in pairs if pair[0] < 0.95 * pair[1]] == []


def test_a_multiple_of_a_public_vocabulary_would_not_do() -> None:
    """What was counted before: it is under for Chinese in both generations and for English in the newer."""
    count = Encoding("o200k_base").count
    for name, generation in (("Chinese chat", 0), ("English chat", 1)):
        scaled = sum(1.35 * count(text) for text in BY_CLASS[name])
        assert scaled < sum(RECONSTRUCTED[name][generation])


@pytest.mark.parametrize(
    "name",
    """claude-3-5-sonnet-20240620 claude-3.7-sonnet us.anthropic.claude-3-5-sonnet-20240620-v1:0 claude-opus-4
    claude-opus-4-20250514 claude-sonnet-4@20250514 claude-opus-4-1-20250805 claude-sonnet-4-5
    anthropic/claude-haiku-4.5 claude-haiku-4-5-20251001 claude-opus-4-6 claude-sonnet-4.6""".split(),
)
def test_an_older_model_is_counted_as_such(name: str) -> None:
    assert counter_for(name).text.name == "estimate-claude-3"


@pytest.mark.parametrize(
    "name",
    """claude claude-opus-4-7 anthropic/claude-opus-4.7 claude-opus-4-8-20260601 claude-opus-4-10 claude-opus-5
    claude-sonnet-5 claude-next""".split(),
)
def test_a_newer_or_unclear_one_is_counted_as_the_dearer(name: str) -> None:
    assert counter_for(name).text.name == "estimate-claude-4.7"
