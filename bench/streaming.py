"""How much memory does it take to send a long context?

Every way runs in a process of its own that makes the same context, writes it for OpenAI's Chat interface and hands the
body to a sink that keeps nothing. The peak of the whole process, beyond what it held before the context was made, is
what a server pays per call under way; what Python itself allocated while serialising is told beside it.
"""

from __future__ import annotations

import base64
import json
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.report import Report, Table, Target
from turnfold import wire
from turnfold.records import ImagePart, Message, TextPart

__all__ = ("QUESTION", "run")

QUESTION = "memory it takes to serialise a context of 20 MB"
MEGABYTE = 1_000_000
SIZE = 20 * MEGABYTE
SPARE = 8 * MEGABYTE
_PICTURE = 300_000
_ENGLISH = (
    "The order was shipped on 12 May and should arrive within three working days. ",
    'def total(rows):\n    return sum(row["price"] * row["count"] for row in rows)\n',
)
_CHINESE = "请帮我查一下昨天的订单，收货地址改成杭州市西湖区文三路 90 号，谢谢。"
KINDS = {"English": _ENGLISH, "English and Chinese": (*_ENGLISH, _CHINESE)}


def run(*, quick: bool) -> Report:
    """Weigh each way in fresh processes, for each kind of text."""
    size = SIZE // 4 if quick else SIZE
    report = Report("streaming", QUESTION)
    for kind in KINDS:
        found = {way: _child(kind, way, size) for way in WAYS}
        allocated = {way: _child(kind, way, size, traced=True)["traced"] for way in WAYS}
        [body] = {measured["body"] for measured in found.values()}  # the very same bytes
        held = min(measured["context"] for measured in found.values())
        report.tables.append(_table(kind, found, allocated, held=held, body=body))
        peak, allowed = found[STREAMED]["peak"], held * 11 // 10 + SPARE
        report.targets.append(
            Target(
                f"{kind}, streamed: at most 1.1 times the context and 8 MB, the context included",
                f"{peak / MEGABYTE:.1f} of {allowed / MEGABYTE:.1f} MB",
                peak <= allowed,
            )
        )
        report.figures[kind] = {
            way: {**found[way], "traced": allocated[way], "held": held} for way in WAYS
        }
    return report


def _table(
    kind: str,
    found: dict[str, dict[str, int]],
    allocated: dict[str, int],
    *,
    held: int,
    body: int,
) -> Table:
    def figures(amount: int) -> tuple[str, str]:
        return f"{amount / MEGABYTE:.1f} MB", f"{amount / held:.2f}"

    return Table(
        f"{kind}: a context that takes {held / MEGABYTE:.1f} MB, its body {body / MEGABYTE:.1f} MB",
        ["way", "peak", "contexts", "allocated", "contexts"],
        [
            [way, *figures(measured["peak"]), *figures(allocated[way])]
            for way, measured in found.items()
        ],
        [
            "peak: the most the process held, beyond what it held before the context was made",
            "allocated: the most Python allocated while serialising (tracemalloc, in another process)",
        ],
    )


def _child(kind: str, way: str, size: int, *, traced: bool = False) -> dict[str, int]:
    command = [sys.executable, "-m", "bench.streaming", kind, way, str(size), str(int(traced))]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, capture_output=True, check=True, cwd=root, encoding="utf-8")  # noqa: S603 (this file)
    return json.loads(done.stdout)


def _streamed(kwargs: dict[str, object]) -> int:
    return sum(map(len, wire.chunks(kwargs)))


def _at_once(kwargs: dict[str, object]) -> int:
    text = json.dumps(kwargs, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8"))


STREAMED = "streamed: wire.chunks"
WAYS: dict[str, Callable[[dict[str, object]], int]] = {
    STREAMED: _streamed,
    "weighed only: wire.body_bytes": wire.body_bytes,
    "at once: json.dumps, then encode": _at_once,
}


def _measured(kind: str, way: str, size: int, *, traced: bool) -> dict[str, int]:
    """One way, in this process."""
    serialise = WAYS[way]
    serialise({"messages": [{"role": "user", "content": "warm 暖"}]})
    before = _held("VmRSS")
    kwargs = wire.openai_chat.request(list(_messages(KINDS[kind], size))).kwargs
    context = _held("VmRSS") - before
    if traced:
        tracemalloc.start()
    body = serialise(kwargs)
    allocated = tracemalloc.get_traced_memory()[1] if traced else 0
    return {
        "body": body,
        "context": context,
        "peak": _held("VmHWM") - before,
        "traced": allocated,
    }


def _messages(sentences: Sequence[str], size: int) -> Iterator[Message]:
    """Messages that take about `size` bytes, no two texts alike; the same on every machine."""
    rng = random.Random(7)  # noqa: S311 (the same texts each time)
    made = number = 0
    while made < size:
        role = "assistant" if number % 2 else "user"
        text = TextPart("".join(rng.choices(sentences, k=100)) + str(number))
        made += sys.getsizeof(text.text)
        number += 1
        if role == "assistant" or number % 50 != 1:
            yield Message.of(role, [text])
            continue
        data = base64.b64encode(rng.randbytes(_PICTURE)).decode()
        made += len(data)
        yield Message.of(role, [text, ImagePart(f"data:image/png;base64,{data}", "low")])


def _held(field: str) -> int:
    """Bytes this process holds (VmRSS) or held at most (VmHWM), as Linux tells it.

    The usual `ru_maxrss` would do for the second, but it remembers the process that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise RuntimeError(
            "this benchmark reads /proc/self/status, which this system does not have"
        )
    return int(found[1]) * 1024


if __name__ == "__main__":
    _kind, _way, _size, _traced = sys.argv[1:]
    print(json.dumps(_measured(_kind, _way, int(_size), traced=_traced == "1")))
