"""How far counts are off the truth: everybody's way to count, on texts of many kinds, against two vocabularies.

The error of a kind is that of all its texts together, with its sign: below zero means that a window believed to fit
does not. The worst is that of the one text it under-counts most, of those with at least twenty tokens. What claims to
be no less than any model counts is held against every vocabulary at hand, because the model may have any of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from random import Random

from bench.conversations import data_folder, talks
from bench.hosts import Guests, Offered, PeerFailed
from bench.phrases import chinese, english, log_line, record, snippet
from bench.raw_tiktoken import loaded
from bench.report import Table, Target
from turnfold.tokens import ENCODINGS as VOCABULARIES
from turnfold.tokens import Encoding

__all__ = ("beside_peers", "texts_by_kind")

ENCODINGS = ("o200k_base", "cl100k_base")
MANY = 120
_SHORTEST = 20
_SAME = frozenset({"gpt_oss"})
"""Counts as another one does: o200k_base."""
_EMOJI = "😀 🚀 ❤️ 👩‍💻 🇳🇴 🧑🏽‍🍳 ✅ 🎉 🤔 🐼 ☕ 🏳️‍🌈 👍🏿 🧩".split()
_SCRIPTS = (
    "明日の朝は早いので、今夜は早めに寝ます。天気が良ければ公園を走ります。",
    "내일 아침 일찍 출발하니까 오늘은 일찍 자려고 해요. 날씨가 좋으면 공원을 걸을게요.",
    "سأرسل لك ملخص الاجتماع غدا صباحا، يرجى مراجعته قبل يوم الجمعة.",
    "कल सुबह मैं आपको बैठक का सारांश भेजूँगा, कृपया उसे देख लीजिए।",
    "พรุ่งนี้เช้าผมจะส่งสรุปการประชุมให้ กรุณาตรวจสอบก่อนวันศุกร์",
    "Завтра утром я пришлю вам краткое изложение встречи, посмотрите его до пятницы.",
)
_RECORDED = {"kdconv_zh": "recorded Chinese", "locomo": "recorded English"}

Texts = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class _Errors:
    """Of one way to count, against one vocabulary."""

    by_kind: dict[str, float]
    worst: float
    """The worst under-count of a single text; 0 where there is none."""
    wrong: int
    """Texts whose count is not the true one."""


def texts_by_kind() -> Texts:
    """Invented texts, and recorded ones where they are at hand."""
    random = Random(17)  # noqa: S311 (repeatable, not secret)
    made = {
        "Chinese": lambda: "".join(chinese(random) for _ in range(random.randint(1, 5))),
        "English": lambda: " ".join(english(random) for _ in range(random.randint(1, 5))),
        "code": lambda: "\n".join(snippet(random) for _ in range(random.randint(1, 3))),
        "JSON": lambda: json.dumps([record(random) for _ in range(random.randint(1, 4))], ensure_ascii=False),
        "logs": lambda: "\n".join(log_line(random) for _ in range(random.randint(1, 6))),
        "emoji": lambda: " ".join(f"{random.choice(_EMOJI) * random.randint(1, 4)} {english(random)[:20]}"
                                  for _ in range(random.randint(2, 6))),
        "other scripts": lambda: " ".join(random.sample(_SCRIPTS, random.randint(1, 3))),
        "keys": lambda: " ".join(random.randbytes(random.randint(8, 32)).hex() if random.random() < 0.5
                                 else str(random.randrange(10**18)) for _ in range(random.randint(1, 6))),
    }  # fmt: skip
    texts = {kind: [make() for _ in range(MANY)] for kind, make in made.items()}
    for name, kind in _RECORDED.items():
        if (data_folder() / "conversations" / f"{name}.jsonl.gz").exists():
            said = chain.from_iterable(talk.messages for talk in talks(name))
            texts[kind] = [message.text for message in islice(said, MANY * 5) if message.text]
    return texts


def beside_peers(guests: Guests) -> tuple[list[Table], list[Target], dict[str, object]]:
    """Everybody's errors against both vocabularies."""
    texts = texts_by_kind()
    flat = [text for each in texts.values() for text in each]
    counts: dict[str, list[int]] = {}
    everybody: list[Offered] = []
    failures: list[str] = []
    for each in guests.offered("counted"):
        try:
            lane = guests.lane(each, "counting")
            counts[each.name] = lane.ask("counts", flat)
            lane.close()
            everybody.append(each)
        except PeerFailed as failed:
            failures.append(f"failed: {each.name}: {failed}")
    tables: list[Table] = []
    targets: list[Target] = []
    figures: dict[str, object] = {}
    for encoding in ENCODINGS:
        true = [len(loaded(encoding)(text)) for text in flat]
        errors = {each.name: _errors(texts, counts[each.name], true) for each in everybody}
        tables.append(_table(f"Errors of counts against {encoding}", errors))
        targets += _targets(encoding, everybody, errors, len(flat))
        figures |= {
            f"{encoding}, {name}": {**one.by_kind, "worst": one.worst}
            for name, one in errors.items()
        }
    tables[0] = _with_notes(tables[0], everybody, [*failures, *guests.notes()])
    for each in everybody:
        if each.ours and each.facts["claims"] == "bound" and not each.facts["encoding"]:
            found = _against_all(texts, flat, counts[each.name])
            tables.append(_table(f"{each.name}, against every vocabulary", found, "vocabulary"))
            targets.append(_above_all(each.name, found))
            figures[f"every vocabulary, {each.name}"] = {
                name: {**one.by_kind, "worst": one.worst} for name, one in found.items()
            }
    return tables, targets, figures


def _against_all(texts: Texts, flat: Sequence[str], counted: Sequence[int]) -> dict[str, _Errors]:
    """The errors of one way to count against each vocabulary that comes with the tokenizer."""
    found: dict[str, _Errors] = {}
    for name in VOCABULARIES:
        if name not in _SAME:
            count = Encoding(name).count
            found[name] = _errors(texts, counted, [count(text) for text in flat])
    return found


def _above_all(name: str, found: Mapping[str, _Errors]) -> Target:
    lowest, kind, vocabulary = min(
        (error, kind, vocabulary)
        for vocabulary, one in found.items()
        for kind, error in one.by_kind.items()
    )
    worst, where = min((one.worst, vocabulary) for vocabulary, one in found.items())
    shown = f"lowest {lowest:+.1%} ({kind}, {vocabulary}), worst text {worst:+.1%}"
    shown += f" ({where})" if worst < 0 else ""
    claim = f"{name}: errs upward only against each of {len(found)} vocabularies"
    return Target(claim, shown, lowest >= 0 and worst >= 0)


def _errors(texts: Texts, counted: Sequence[int], true: Sequence[int]) -> _Errors:
    by_kind: dict[str, float] = {}
    start = 0
    for kind, each in texts.items():
        end = start + len(each)
        by_kind[kind] = sum(counted[start:end]) / sum(true[start:end]) - 1
        start = end
    pairs = list(zip(counted, true, strict=True))
    under = [said / real - 1 for said, real in pairs if real >= _SHORTEST]
    return _Errors(by_kind, min(0.0, *under), sum(said != real for said, real in pairs))


def _table(title: str, errors: Mapping[str, _Errors], first: str = "counted") -> Table:
    kinds = list(next(iter(errors.values())).by_kind)
    rows = [
        [name, *(f"{one.by_kind[kind]:+.0%}" for kind in kinds), f"{one.worst:+.0%}"]
        for name, one in errors.items()
    ]
    return Table(title, [first, *kinds, "worst text"], rows)


def _with_notes(table: Table, everybody: Sequence[Offered], more: Sequence[str]) -> Table:
    notes = [
        "all texts of a kind together, and the one text of twenty tokens or more that is under-counted most",
        *(f"{each.name}: {each.facts['note']}" for each in everybody if each.facts["note"]),
        "OpenAI Agents, LangGraph and Google ADK count nothing before a call",
        *more,
    ]
    return Table(table.title, table.columns, table.rows, notes)


def _targets(
    encoding: str, everybody: Sequence[Offered], errors: Mapping[str, _Errors], texts: int
) -> Iterator[Target]:
    for each in everybody:
        one = errors[each.name]
        claims, of = each.facts["claims"], each.facts["encoding"]
        if each.ours and claims == "exact" and of == encoding:
            claim = f"{each.name}: no error against {encoding} in {texts:,} texts"
            yield Target(claim, f"{one.wrong} wrong", one.wrong == 0)
        if each.ours and claims == "bound" and of == encoding:
            low = min(one.by_kind.items(), key=lambda kind: kind[1])
            claim = f"{each.name}: errs upward only against {encoding}"
            shown = f"lowest {low[1]:+.1%} ({low[0]}), worst text {one.worst:+.1%}"
            yield Target(claim, shown, low[1] >= 0 and one.worst >= 0)
