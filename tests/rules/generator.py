"""Make conversations with known rules: templates with values, in English and Chinese, among talk and quoted text.

Every template and every value belongs to one of two halves by its hash. The patterns of `turnfold.rules` were written
with the half "develop" in view; what is claimed of them is measured on the half "report".
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

__all__ = (
    "HALVES",
    "Change",
    "NaturalMessage",
    "NaturalSentence",
    "Planted",
    "changes",
    "half_of",
    "planted",
    "quoted_messages",
    "read_messages",
    "read_pairs",
    "read_sentences",
    "talk",
)

Half = Literal["develop", "report"]
HALVES: tuple[Half, ...] = ("develop", "report")


@dataclass(frozen=True)
class Planted:
    """A sentence that lays something down."""

    text: str
    kind: str
    language: str


@dataclass(frozen=True)
class Change:
    """A sentence, a later one that replaces it, and words that only the newer or the older one has."""

    before: str
    after: str
    new: str
    old: str
    language: str


@dataclass(frozen=True)
class NaturalSentence:
    """A sentence of a natural message, with the kinds that fit it; none if it lays nothing down."""

    start: int
    end: int
    text: str
    kinds: tuple[str, ...]
    is_open: bool
    """True if it may be taken for a rule or not."""


@dataclass(frozen=True)
class NaturalMessage:
    """A message as people write them, with its sentences in order."""

    text: str
    sentences: tuple[NaturalSentence, ...]


def half_of(text: str) -> Half:
    return "develop" if blake2b(text.encode(), digest_size=2).digest()[0] % 2 else "report"


def _half(items: Sequence[str], half: Half) -> list[str]:
    """Return the items of a half; all of them if it has none, so that no template is left without values."""
    return [item for item in items if half_of(item) == half] or list(items)


_DATA = tomllib.loads((Path(__file__).parent / "templates.toml").read_text("utf-8"))
VALUES: dict[str, list[str]] = _DATA["values"]
TEMPLATES: dict[tuple[str, str], list[str]] = {
    (each["kind"], each["language"]): each["texts"] for each in _DATA["templates"]
}
CHANGES: dict[str, list[tuple[str, str]]] = {
    each["language"]: [(before, after) for before, after in each["pairs"]]
    for each in _DATA["changes"]
}
FITTING: dict[str, list[tuple[list[str], list[str]]]] = {
    language: [
        (each["attributes"], each["values"])
        for each in _DATA["fitting"]
        if each["language"] == language
    ]
    for language in ("en", "zh")
}
"""Attributes with values that they can have: nobody changes a price to a weekday."""
LANGUAGES: dict[str, list[str]] = _DATA["languages"]
TALK: dict[str, list[str]] = _DATA["talk"]
QUOTES: dict[str, list[str]] = _DATA["quotes"]


def _fill(template: str, half: Half, rng: random.Random) -> str:
    for name, values in VALUES.items():
        chosen = rng.choice(_half(values, half))
        template = template.replace(f"{{{name}}}", chosen)
        template = template.replace(f"{{{name.capitalize()}}}", chosen[:1].upper() + chosen[1:])
    return template


def planted(half: Half, *, seed: int = 1, each: int = 4) -> Iterator[Planted]:
    """Yield sentences that lay something down: each template of a half with several values of that half."""
    rng = random.Random(seed)  # noqa: S311 - samples, not secrets
    for (kind, language), templates in TEMPLATES.items():
        for template in _half(templates, half):
            texts = {_fill(template, half, rng) for _ in range(each)}
            yield from (Planted(text, kind, language) for text in sorted(texts))


def changes(half: Half, *, seed: int = 1, each: int = 4) -> Iterator[Change]:
    """Yield a sentence and a later one that replaces it."""
    rng = random.Random(seed)  # noqa: S311 - samples, not secrets
    for language, pairs in CHANGES.items():
        for before, after in pairs:
            if half_of(before + after) != half:
                continue
            for _ in range(each):
                yield _change(before, after, language, half, rng)


def _change(before: str, after: str, language: str, half: Half, rng: random.Random) -> Change:
    name = "attribute" if language == "en" else "属性"
    attribute = rng.choice(_half(VALUES[name], half))
    value, other = rng.sample(
        next(values for named, values in FITTING[language] if attribute in named), 2
    )
    first, second = rng.sample(LANGUAGES[language], 2)
    filled = [
        text.replace("{value}", value).replace("{other}", other).replace("{值}", value).replace("{另}", other)
        .replace("{language2}", second).replace("{language}", first).replace("{语2}", second).replace("{语}", first)
        .replace(f"{{{name}}}", attribute)
        for text in (before, after)
    ]  # fmt: skip
    return Change(filled[0], filled[1], other, value, language)


def talk(half: Half) -> list[str]:
    """Return messages of a half that lay nothing down."""
    return [text for texts in TALK.values() for text in _half(texts, half)]


def quoted_messages(half: Half, *, seed: int = 1) -> Iterator[str]:
    """Yield messages that quote a rule of somebody else."""
    rng = random.Random(seed)  # noqa: S311 - samples, not secrets
    said = {
        language: [p.text for p in planted(half) if p.language == language] for language in QUOTES
    }
    for language, frames in QUOTES.items():
        for frame in frames:
            for text in rng.sample(said[language], 4):
                yield frame.format(text)


def read_sentences(name: str, language: str) -> dict[str, list[str]]:
    """Return freely worded sentences by kind."""
    found: dict[str, list[str]] = {}
    path = Path(__file__).parent / "sentences" / f"{name}_{language}.txt"
    kind = ""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        else:
            found.setdefault(kind, []).append(line)
    return found


def read_pairs(name: str, language: str, kind: str) -> list[tuple[str, str]]:
    """Return the pairs of a kind: what was said first, and what was said later about it."""
    pairs = (line.split(" => ") for line in read_sentences(name, language)[kind])
    return [(first, later) for first, later in pairs]


_KINDS = {
    "r": "rule",
    "p": "prohibition",
    "d": "decision",
    "e": "preference",
    "t": "task",
    "f": "fact",
}


def read_messages(name: str, language: str, half: Half | None = None) -> list[NaturalMessage]:
    """Return messages of several sentences, each labelled by the letters of the kinds that fit it.

    `-` labels a sentence that lays nothing down, `?` one that may be read either way.
    """
    path = Path(__file__).parent / "sentences" / f"{name}_{language}.txt"
    found: list[NaturalMessage] = []
    for block in path.read_text("utf-8").strip().split("\n\n"):
        text = ""
        sentences: list[NaturalSentence] = []
        for line in block.splitlines():
            labels, _, said = line.partition(" ")
            text += " " if text and language == "en" else ""
            kinds = tuple(_KINDS[label] for label in labels if label in _KINDS)
            sentence = NaturalSentence(len(text), len(text) + len(said), said, kinds, labels == "?")
            sentences.append(sentence)
            text += said
        if half is None or half_of(text) == half:
            found.append(NaturalMessage(text, tuple(sentences)))
    return found
