"""The ready detector: measured on a labelled corpus, and on shapes that broke it once."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

from tests.redaction.labelled_corpus import DEVELOP, REPORT, samples
from turnfold.errors import InvalidOption
from turnfold.memory import Memory
from turnfold.redaction import Detector, Redactor, Secret, find_secrets


def measured(find: Callable[[str], Iterable[Secret]], half: int) -> tuple[float, float, int]:
    """Return recall, precision and the number of secrets: a find counts only with its exact place and kind."""
    right = missed = wrong = 0
    for sample in samples(half):
        found, wanted = {tuple(each) for each in find(sample.text)}, set(sample.secrets)
        right += len(found & wanted)
        missed += len(wanted - found)
        wrong += len(found - wanted)
    return right / (right + missed), right / max(right + wrong, 1), right + missed


@pytest.mark.parametrize("half", [DEVELOP, REPORT])
def test_recall_and_precision(half: int) -> None:
    recall, precision, secrets = measured(find_secrets, half)
    assert recall >= 0.95
    assert precision >= 0.99
    assert secrets > 350


def test_the_corpus_notices_a_worse_detector() -> None:
    def without_phones(text: str) -> list[Secret]:
        return [each for each in find_secrets(text) if each.kind != "phone"]

    def eager(text: str) -> list[Secret]:
        return [
            *find_secrets(text),
            *(Secret("phone", *match.span()) for match in re.finditer(r"\b\d{13}\b", text)),
        ]

    assert measured(without_phones, REPORT)[0] < 0.95
    assert measured(eager, REPORT)[1] < 0.99


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("电话１３８００１３８０００。", "phone", "１３８００１３８０００"),
        ("write to ｊｏｅ＠example.com", "email", "ｊｏｅ＠example.com"),
        ("card 4111111111111111", "card number", "4111111111111111"),
        ("https://joe:s3cret99@example.com/", "password", "s3cret99"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0", "private key", None),
    ],
)
def test_shapes(text: str, kind: str, value: str | None) -> None:
    [found] = find_secrets(text)
    assert found.kind == kind
    assert text[found.start : found.end] == (text if value is None else value)


@pytest.mark.parametrize(
    "value", ["abc" * 60 + "1", "Abc" * 60 + "1", "ab_cd-" * 30 + "1", "a.b_" * 45 + "1"]
)
def test_a_long_word_as_a_value_is_judged_in_time(value: str) -> None:
    """In a process of its own: trying every way to cut the letters into words would never end."""
    judged_in_time(f"password={value}")


def test_many_long_numbers_are_judged_in_time() -> None:
    """A run of digits was cut into six groups in every way there is, once for each plus sign."""
    judged_in_time(f"+{'1' * 80}x " * 1_200)


def judged_in_time(text: str) -> None:
    script = "import sys; from turnfold.redaction import find_secrets; find_secrets(sys.argv[1])"
    subprocess.run([sys.executable, "-c", script, text], check=True, timeout=60)


@pytest.mark.parametrize(
    "value", ["correctHorse", "correct_horse Battery-staple", "CorrectHorseBattery", "aB"]
)
def test_words_as_a_value_are_no_secret(value: str) -> None:
    assert list(find_secrets(f'password="{value}"')) == []


def test_overlapping_finds_leave_nothing_of_either() -> None:
    redactor = Redactor(lambda _: [Secret("b", 2, 8), Secret("a", 0, 5)])
    assert redactor.secrets("0123456789") == [Secret("a", 0, 8)]


def test_labels_are_not_searched_again() -> None:
    redactor = Redactor(lambda text: [Secret("word", 0, len(text))] if text else [])
    assert redactor.secrets("[redacted: email 1]") == []
    assert redactor.secrets("[redacted: phone 13800138000]") != []


@pytest.mark.parametrize(
    "found",
    [
        ("email", 3, 2),
        ("email", 0, 99),
        ("Email", 0, 2),
        ("a]b", 0, 2),
        ("email 1", 0, 2),
        ("", 0, 1),
    ],
)
def test_a_detector_that_returns_nonsense_is_named(found: tuple[str, int, int]) -> None:
    with pytest.raises(InvalidOption, match="the detector of redact= returned"):
        Redactor(lambda _: [Secret(*found)]).secrets("some text")


@pytest.mark.parametrize("given", ["emails", 7, True])
def test_an_option_that_is_no_detector_is_refused(given: Detector) -> None:
    with pytest.raises(InvalidOption, match="must be a function"):
        Memory(redact=given)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(InvalidOption, match="3 bytes"):
        Redactor(key=b"abc")
