"""Is what a question needs inside `session.context()` and `session.recall()`, beside BM25 and the encoder alone?

Every way gets the same tokens (1,000, 2,000 and 4,000). The figure is the mean share of a question's evidence whose
text is shown word for word. A context also pays for its summary, window and question; a log is replayed with a context
every few messages, and each question is asked of a copy of it. BM25 and the encoder take whole messages in the order
of their scores, leave out what does not fit, and pay for text and role, not for headings. A long message is as near to
a question as its nearest part, for the encoder alone too.

Questions are split by a digest of their text: numbers are chosen on the half `choose`, the half `held` is to report.

    TURNFOLD_DATA=... python -m bench.recall_halves [--half held] [--sets locomo,...] [--questions 60] [--logs 2]

`--vectors` is a SQLite file in which vectors are kept from run to run. To compare two checkouts, run it in each.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby, islice
from pathlib import Path
from statistics import fmean
from typing import Any, Self, cast

from bench.conversations import data_folder, exact, talks
from bench.implicit_cues import CUES
from bench.recall_sets import SETS, Okapi
from turnfold import Budget, Memory, Message
from turnfold.errors import BudgetTooSmall, MissingExtra
from turnfold.evaluation import EvalConversation
from turnfold.memory import Session, recalled_text
from turnfold.memory.embedding_index import parts_of
from turnfold.models import Embedder, LocalEmbedder
from turnfold.stores import SqliteStore
from turnfold.text import search_terms, terms_of

__all__ = ("main",)

LIMITS = (1_000, 2_000, 4_000)
_FRAMING = 8
"""Tokens of a message around its text, at most."""
_CALL_EVERY = 20
"""A context is built after every so many messages of a replayed log."""
_TABLE = "create table if not exists vectors (key blob primary key, row blob)"
_MINUTE = 60_000_000
_HOUR = 60 * _MINUTE


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the texts that its answer rests on."""

    question: str
    evidence: tuple[str, ...]

    @property
    def digest(self) -> int:
        """A number that depends on the question only."""
        return int.from_bytes(hashlib.sha256(self.question.encode()).digest()[:8], "big")


@dataclass(slots=True)
class Log:
    """Messages, their times, and questions about them."""

    name: str
    messages: Sequence[Message]
    times: Sequence[int]
    asked: list[Asked]


# --------------------------------------------------------------------------------------------------------- sets


def _plain(conversations: Callable[[], Iterable[EvalConversation]]) -> Iterator[Log]:
    for talk in conversations():
        asked = [
            Asked(
                each.question, tuple(talk.messages[seq - 1].text for seq in sorted(each.evidence))
            )
            for each in talk.questions
        ]
        if asked:
            yield Log(talk.name, talk.messages, talk.times, asked)


def _joined() -> Iterator[Log]:
    """Logs of about 90,000 tokens: four LoCoMo talks in turns, some ten messages joined to a long one."""
    every = list(talks("locomo"))
    chance = random.Random(3)  # noqa: S311 (joining messages, not secrets)
    for first in range(0, 8, 4):
        group = every[first : first + 4]
        runs: list[tuple[int, str]] = []
        for talk in group:
            at = 0
            while at < len(talk.messages):
                many = chance.randint(5, 16)
                texts = [each.text for each in talk.messages[at : at + many]]
                runs.append((talk.times[at], "\n".join(texts)))
                at += many
        runs.sort()
        messages = [
            Message("user" if number % 2 == 0 else "assistant", text)
            for number, (_, text) in enumerate(runs)
        ]
        asked = [each for log in _plain(lambda group=group: group) for each in log.asked]
        yield Log(f"joined {first}", messages, [at for at, _ in runs], asked)


def _trace_texts(name: str, most: int) -> Iterator[list[str]]:
    with gzip.open(data_folder() / "traces" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number == most:
                return
            texts = [
                text for each in json.loads(line)["messages"] for text in _texts(each["content"])
            ]
            yield [text for text in texts if text.strip()]


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in cast("list[dict[str, Any]]", content):
            if part.get("type") == "text":
                yield part["text"]
            elif part.get("type") == "tool_result":
                yield "\n".join(_texts(part["content"]))


def _traces() -> Iterator[Log]:
    """Coding traces, and customer service joined to as long logs; a fact is asked for by half of its words."""
    coding = [texts for texts in _trace_texts("claude_code_anthropic", 9) if len(texts) > 100]
    service = [text for texts in _trace_texts("tau2_bench_openai", 120) for text in texts]
    chance = random.Random(4)  # noqa: S311
    for number, texts in enumerate([*coding, service[:700], service[700:1400]]):
        unique = list(dict.fromkeys(text[:12_000] for text in texts))
        messages = [
            Message("user" if at % 2 == 0 else "assistant", text) for at, text in enumerate(unique)
        ]
        asked: list[Asked] = []
        for text in unique:
            if exact().count_text(text) < 250:
                continue
            lines = [line.strip() for line in re.split(r"\n|(?<=[.!?]) ", text)]
            fit = [line for line in lines if 6 <= len(search_terms(line)) <= 25]
            if not fit:
                continue
            fact = chance.choice(fit)
            words = [word for word in re.findall(r"\w+", fact) if search_terms(word)]
            if sum(fact in other for other in unique) == 1:
                asked.append(Asked(" ".join(words[chance.randrange(2) :: 2]), (fact,)))
        times = [at * _MINUTE for at in range(len(messages))]
        yield Log(f"trace {number}", messages, times, asked)


def _distant() -> Iterator[Log]:
    """Questions of LoCoMo and MemoryBank: the tenth of each set whose words are rarest in their evidence."""
    for name in ("locomo", "memorybank_en", "memorybank_zh"):
        step = 2 if name == "locomo" else 1
        logs = list(_plain(lambda name=name, step=step: list(talks(name))[1::step]))
        shares = sorted(_overlap(each) for log in logs for each in log.asked)
        most = shares[len(shares) // 10]
        for log in logs:
            log.asked = [each for each in log.asked if _overlap(each) <= most]
            if log.asked:
                yield log


def _overlap(asked: Asked) -> float:
    """The share of the question's words in the message of its evidence that has most of them."""
    terms = set(search_terms(asked.question))
    held = (len(terms & set(terms_of(text))) for text in asked.evidence)
    return max(held, default=0) / max(len(terms), 1)


def _cues() -> Iterator[Log]:
    """Invented remarks among LoCoMo and MemoryBank talks."""
    yield from _with_cues(list(talks("locomo"))[1:8:2], CUES["en"])
    everyone = list(talks("memorybank_zh"))
    yield from _with_cues(everyone[:2], CUES["zh"][:10], everyone[2:8])
    yield from _with_cues(everyone[8:10], CUES["zh"][10:], everyone[10:])


def _with_cues(
    hosts: Sequence[EvalConversation],
    cues: Sequence[tuple[str, str]],
    more: Sequence[EvalConversation] = (),
) -> Iterator[Log]:
    chance = random.Random(6)  # noqa: S311
    for number, host in enumerate(hosts):
        own = cues[number :: len(hosts)]
        messages = [message for talk in (host, *more) for message in talk.messages]
        speaker = re.match(r"(\w+): ", messages[0].text)
        named = f"{speaker[1]}: " if speaker else ""
        asked: list[Asked] = []
        for said, question in own:
            place = chance.randrange(len(messages) * 4 // 5)
            messages.insert(place, Message("user", named + said))
            asked.append(Asked(question, (said,)))
        times = [at * _HOUR for at in range(len(messages))]
        yield Log(f"cues {host.name}", messages, times, asked)


CASES: dict[str, Callable[[], Iterator[Log]]] = {
    "locomo": partial(_plain, lambda: list(talks("locomo"))[1::2]),
    "memorybank_en": partial(_plain, partial(talks, "memorybank_en")),
    "memorybank_zh": partial(_plain, partial(talks, "memorybank_zh")),
    "bfcl_memory": partial(_plain, partial(talks, "bfcl_memory")),
    "kdconv": partial(_plain, SETS["KdConv, replies"]),
    "cmtmedqa": partial(_plain, SETS["CMtMedQA, replies"]),
    "among_long": partial(_plain, lambda: list(SETS["LoCoMo among long answers"]())[1:6:2]),
    "among_long_zh": partial(_plain, SETS["MemoryBank, Chinese, among long answers"]),
    "joined": _joined,
    "traces": _traces,
    "distant": _distant,
    "cues": _cues,
}


def _half(logs: Iterable[Log], half: str, questions: int, most: int | None = None) -> list[Log]:
    """Keep the questions of a half, a fixed random choice of them, about the first `most` logs."""
    kept = list(islice(logs, most))
    parity = ("choose", "held").index(half)
    every = sorted(
        (each.digest // 2, number, at)
        for number, log in enumerate(kept)
        for at, each in enumerate(log.asked)
        if each.digest % 2 == parity
    )[:questions]
    chosen = {(number, at) for _, number, at in every}
    for number, log in enumerate(kept):
        log.asked = [each for at, each in enumerate(log.asked) if (number, at) in chosen]
    return [log for log in kept if log.asked]


# --------------------------------------------------------------------------------------------------------- ways


@dataclass(slots=True)
class KeptVectors:
    """An embedder that keeps the vectors it has made."""

    inner: Embedder
    path: str
    known: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """Name of the embedder inside."""
        return self.inner.name

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors, those that are known from memory or file."""
        import numpy as np

        missing = [text for text in dict.fromkeys(texts) if text not in self.known]
        with sqlite3.connect(self.path, timeout=60) as file:
            file.execute(_TABLE)
            for text in missing:
                key = hashlib.sha256(text.encode(errors="replace")).digest()
                row = file.execute("select row from vectors where key = ?", [key]).fetchone()
                if row:
                    self.known[text] = np.frombuffer(row[0], dtype="<f4")
            missing = [text for text in missing if text not in self.known]
        for first in range(0, len(missing), 64):
            some = missing[first : first + 64]
            rows = np.asarray(self.inner.embed(some), dtype="<f4")
            self.known.update(zip(some, rows, strict=True))
            with sqlite3.connect(self.path, timeout=60) as file:
                file.execute(_TABLE)  # each connection to `:memory:` is another file
                file.executemany(
                    "insert or ignore into vectors values (?, ?)",
                    [
                        (hashlib.sha256(text.encode(errors="replace")).digest(), row.tobytes())
                        for text, row in zip(some, rows, strict=True)
                    ],
                )
        return [self.known[text] for text in texts]


Way = Callable[[Log, Embedder | None], Iterator[tuple[int, float]]]
"""Yields (limit, share of the evidence shown) for every question and limit."""


def _shown(text: str, asked: Asked) -> float:
    flat = " ".join(text.split())
    return fmean(" ".join(each.split()) in flat for each in asked.evidence)


def _walked(texts: Sequence[str], costs: Sequence[int], ranked: Iterable[int], limit: int) -> str:
    taken: list[str] = []
    for at in ranked:
        if costs[at] <= limit:
            limit -= costs[at]
            taken.append(texts[at])
    return "\n".join(taken)


def _bm25(log: Log, embedder: Embedder | None) -> Iterator[tuple[int, float]]:  # noqa: ARG001
    texts = [message.text for message in log.messages]
    costs = [exact().count_message(message) for message in log.messages]
    okapi = Okapi.of(texts)
    for each in log.asked:
        ranked = [seq - 1 for seq in okapi.ranked(each.question)]
        for limit in LIMITS:
            yield limit, _shown(_walked(texts, costs, ranked, limit), each)


def _encoder(log: Log, embedder: Embedder | None) -> Iterator[tuple[int, float]]:
    import numpy as np

    if embedder is None:
        return
    texts = [message.text for message in log.messages]
    costs = [exact().count_message(message) for message in log.messages]
    rows = [np.asarray(embedder.embed([text[part] for part in parts_of(text)])) for text in texts]
    for each in log.asked:
        query = np.asarray(embedder.embed([each.question])[0])
        near = [-float((row @ query).max()) for row in rows]
        ranked = sorted(range(len(texts)), key=near.__getitem__)
        for limit in LIMITS:
            yield limit, _shown(_walked(texts, costs, ranked, limit), each)


def _recall(log: Log, embedder: Embedder | None) -> Iterator[tuple[int, float]]:
    with _Replay(log, embedder, 0) as replay:
        session = replay.session(replay.path)
        for each in log.asked:
            for limit in LIMITS:
                found = session.recall(each.question, tokens=limit - _FRAMING)
                yield limit, _shown(recalled_text(found), each)


def _context(log: Log, embedder: Embedder | None) -> Iterator[tuple[int, float]]:
    for limit in LIMITS:
        with _Replay(log, embedder, limit) as replay:
            for each in log.asked:
                yield limit, _shown(replay.asked(each.question), each)


class _Replay:
    """A log in a SQLite file; with a budget, contexts were built while it grew."""

    def __init__(self, log: Log, embedder: Embedder | None, budget: int) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self.path, self._embedder, self._budget = self._folder / "log.db", embedder, budget
        self._now, self._open = 0, list[Memory]()
        session = self.session(self.path)
        pairs = zip(log.times or [0] * len(log.messages), log.messages, strict=True)
        done = 0
        for at, group in groupby(pairs, key=lambda pair: pair[0]):
            self._now = at
            waiting = [message for _, message in group]
            while waiting:
                some, waiting = waiting[:_CALL_EVERY], waiting[_CALL_EVERY:]
                session.add(some)
                if budget and done // _CALL_EVERY < (done + len(some)) // _CALL_EVERY:
                    self._context(session)
                done += len(some)
        if embedder is not None:
            session.index_meaning()
        if budget:
            self._open.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in self._open:
            memory.close()
        shutil.rmtree(self._folder)

    def session(self, path: Path) -> Session:
        """Open the log."""
        store = SqliteStore(str(path), counter=exact(), blocking=True, clock=lambda: self._now)
        budget = Budget(max_tokens=self._budget) if self._budget else None
        memory = Memory(
            store, model="gpt-4o", embedder=self._embedder, budget=budget, clock=lambda: self._now
        )
        self._open.append(memory)
        return memory.session("log")

    def asked(self, question: str) -> str:
        """Return the text of the context in which a question is asked, in a copy of the log."""
        copy = self._folder / "copy.db"
        for end in ("", "-wal", "-shm"):
            Path(f"{copy}{end}").unlink(missing_ok=True)
            if Path(f"{self.path}{end}").exists():
                shutil.copyfile(f"{self.path}{end}", f"{copy}{end}")
        session = self.session(copy)
        session.user(question)
        try:
            return self._context(session)
        finally:
            self._open.pop().close()

    @staticmethod
    def _context(session: Session) -> str:
        try:
            context = session.context()
        except BudgetTooSmall:
            return ""
        return "\n".join(message.text for message in context.messages)


WAYS: dict[str, tuple[Way, bool]] = {
    "BM25": (_bm25, False),
    "recall": (_recall, False),
    "context": (_context, False),
    "encoder": (_encoder, True),
    "recall+": (_recall, True),
    "context+": (_context, True),
}
"""Each way, and whether it has the encoder."""


@cache
def _embedder(path: str) -> Embedder | None:
    try:
        return KeptVectors(LocalEmbedder(), path)
    except MissingExtra:
        return None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("choose", "held"), default="held")
    parser.add_argument("--sets", default=",".join(CASES))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--logs", type=int, help="most logs of a set (default: all)")
    parser.add_argument("--vectors", default=":memory:")
    options = parser.parse_args()
    print(f"| {options.half} half | way | questions | 1,000 | 2,000 | 4,000 | seconds |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in options.sets.split(","):
        logs = _half(CASES[name](), options.half, options.questions, options.logs)
        for way in options.ways.split(","):
            measure, by_meaning = WAYS[way]
            embedder = _embedder(options.vectors) if by_meaning else None
            if by_meaning and embedder is None:
                continue
            began = time.process_time()
            got = [each for log in logs for each in measure(log, embedder)]
            means = [fmean(share for at, share in got if at == limit) for limit in LIMITS]
            cells = " | ".join(f"{mean:.3f}" for mean in means)
            took = time.process_time() - began
            print(f"| {name} | {way} | {len(got) // 3} | {cells} | {took:.0f} |", flush=True)


if __name__ == "__main__":
    main()
