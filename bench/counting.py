"""How far off are the counts of everybody, is exact counting as fast as the raw tokenizer, what does a memo save?

Errors are measured beside peers (`bench.counted`); times beside raw tiktoken, which is what peers that count exactly
are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from bench.counted import beside_peers
from bench.hosts import Guests
from bench.raw_tiktoken import count_text as raw_count
from bench.report import Report, Table, Target
from bench.timing import Samples, ratio, take_turns
from bench.workload import transcript
from turnfold import Message, TokenMemory
from turnfold.tokens import TokenCounter, counter_for

__all__ = ("QUESTION", "run")

QUESTION = "token counts: how far off, and the time of exact ones beside raw tiktoken"
SHORT = 2_000
LONG_BYTES = 5_000_000
MODEL = "gpt-4o"


def run(guests: Guests, *, quick: bool) -> Report:
    """Everybody's errors; the time of short messages, one long text, messages counted before, and the worst case."""
    rounds = 5 if quick else 15
    report = Report("counting", QUESTION)
    rows: list[list[str]] = []
    for measure in (_short, _long, _seen, _strange):
        title, samples, wanted = measure(rounds)
        raw = samples["raw tiktoken"]
        for name, each in samples.items():
            rows.append([f"{title}: {name}", each.shown(), str(ratio(raw, each))])
            report.figures[f"{title}: {name}"] = each.figures()
        name = next(name for name in samples if name != "raw tiktoken")
        measured = ratio(raw, samples[name])
        if wanted:
            claim = f"{title}, {name}: >= {wanted}x raw tiktoken"
            report.targets.append(Target(claim, str(measured), measured.middle >= wanted))
    columns = ["counted", "time", "times raw tiktoken"]
    notes = [
        "all counts are compared and equal; median (10th to 90th percentile) of a pass over all texts"
    ]
    tables, targets, figures = beside_peers(guests)
    report.tables = [*tables, Table("Counting, in processor time", columns, rows, notes)]
    report.targets += targets
    report.figures |= figures
    return report


def _texts(*, passes: int = 1) -> list[list[str]]:
    """As many lists of texts, no text twice in any of them."""
    items = transcript(SHORT * 2 * passes, seed=11)
    texts = [item.text for item in items if item.role in ("user", "assistant") and item.text]
    distinct = list(dict.fromkeys(texts))
    return [distinct[start : start + SHORT] for start in range(0, SHORT * passes, SHORT)]


def _short(rounds: int) -> tuple[str, dict[str, Samples], float]:
    """Texts nobody has counted before, with the tokenizer's own cache of words emptied before each pass."""
    fresh = _texts(passes=rounds + 1)
    counter = counter_for(MODEL)
    framing = counter.count_message(Message("user", ""))
    turns = {
        "count_message": iter([[Message("user", text) for text in texts] for texts in fresh]),
        "count_text": iter(fresh),
        "raw tiktoken": iter(fresh),
    }
    counts = {
        "count_message": counter.count_message,
        "count_text": counter.count_text,
        "raw tiktoken": raw_count,
    }
    works = {name: _pass_over(turn, counts[name]) for name, turn in turns.items()}
    samples = take_turns(works, rounds=rounds, before=lambda: _forget_words(counter))
    for text in (text for texts in fresh for text in texts):  # afterwards: nothing was seen before
        counted = counter.count_message(Message("user", text)) - framing
        assert raw_count(text) == counter.count_text(text) == counted
    return f"{SHORT:,} short messages never seen", samples, 1


def _pass_over(turns: Iterator[Sequence[Any]], count: Callable[[Any], int]) -> Callable[[], object]:
    return lambda: [count(each) for each in next(turns)]


def _forget_words(counter: TokenCounter) -> None:
    encode = getattr(counter.text, "_encode", None)
    if encode is not None:
        encode.__self__.clear_cache()


def _strange(rounds: int) -> tuple[str, dict[str, Samples], float]:
    """Words that do not exist: the worst case, in which no cache and no vocabulary helps."""
    random = Random(5)  # noqa: S311 (repeatable, not secret)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(random.choices(letters, k=random.randint(4, 12))) for _ in range(SHORT * 20)]
    texts = [" ".join(words[start : start + 20]) for start in range(0, len(words), 20)]
    counter = counter_for(MODEL)
    works = {
        "count_text": lambda: [counter.count_text(text) for text in texts],
        "raw tiktoken": lambda: [raw_count(text) for text in texts],
    }
    samples = take_turns(works, rounds=rounds, before=lambda: _forget_words(counter))
    assert all(raw_count(text) == counter.count_text(text) for text in texts)
    return f"{SHORT:,} texts of invented words", samples, 0


def _long_text() -> str:
    """Mixed prose, tables and code. Never long runs of spaces, on which tiktoken gives up."""
    pieces: list[str] = []
    size = 0
    for seed in range(1_000):
        for item in transcript(2_000, seed=100 + seed):
            pieces.append(item.text)
            size += len(item.text.encode()) + 1
            if size >= LONG_BYTES:
                return "\n".join(pieces)
    raise AssertionError(size)


def _long(rounds: int) -> tuple[str, dict[str, Samples], float]:
    text = _long_text()
    counter = counter_for(MODEL)
    assert raw_count(text) == counter.count_text(text)
    works = {
        "count_text": lambda: counter.count_text(text),
        "raw tiktoken": lambda: raw_count(text),
    }
    samples = take_turns(works, rounds=max(rounds // 2, 3), before=lambda: _forget_words(counter))
    return f"one text of {LONG_BYTES // 1_000_000} MB", samples, 1


def _seen(rounds: int) -> tuple[str, dict[str, Samples], float]:
    [texts] = _texts()
    messages = [Message("user", text) for text in texts]
    memory = TokenMemory("bench", model_name=MODEL)
    counted = memory.count_messages_batch(messages)
    framing = memory.count_message_tokens(Message("user", ""))
    assert [count - framing for count in counted] == [raw_count(text) for text in texts]
    works = {
        "count_messages_batch": lambda: memory.count_messages_batch(messages),
        "raw tiktoken": lambda: [raw_count(text) for text in texts],
    }
    return f"{len(texts):,} messages seen before", take_turns(works, rounds=rounds), 10
