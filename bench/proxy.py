"""How much later does the first token arrive through the proxy?

A provider that answers at once, a plain pass-through (Starlette and httpx2, which reads and stores nothing) and
`turnfold proxy` on SQLite, each in a process of its own. The same client asks both for streamed answers in turns, with
histories that grow, and measures the time to the first byte of the body. What differs is what turnfold does: reading
the history, appending to the log, building the context, and writing the body where it is shortened.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles
from time import perf_counter

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from bench.report import Report, Table, duration

__all__ = ("QUESTION", "run")

QUESTION = "How much later does the first token arrive through the proxy?"
PATH = "/v1/chat/completions"
WORDS = "the trains to Lyon run every two hours 去里昂的火车每两小时一班 "
LARGE, SMALL = 1_000_000, 8_000
_PLAIN, _OURS = "plain pass-through", "turnfold proxy"


def run(*, quick: bool) -> Report:
    """Measure both in turns, for several lengths of a history."""
    report = Report("proxy", QUESTION)
    sizes, rounds = ((20, 200), 15) if quick else ((20, 200, 1_000), 60)
    rows: list[list[str]] = []
    for title, budget in (("fits: sent as it came", LARGE), ("does not fit: shortened", SMALL)):
        for size in sizes:
            if budget == SMALL and size < 200:
                continue
            with _servers(budget) as places:
                seconds = _measured(places, size, rounds)
            later = median(b - a for a, b in zip(*seconds.values(), strict=True))
            cells = [duration(median(seconds[name])) for name in (_PLAIN, _OURS)]
            high = duration(quantiles(seconds[_OURS], n=20)[-1])
            rows.append([f"{size:,} messages, {title}", *cells, duration(later), high])
            report.figures[f"{size} {budget}"] = {"later": later, **seconds}
    columns = ("history", _PLAIN, _OURS, "later", f"{_OURS}, p95")
    notes = (
        "Medians; `later` is the median of the differences of requests that were sent one after the other.",
        "Each request continues the history by a question and its answer; every write is synced.",
    )
    report.tables.append(Table("time to the first byte of a streamed answer", columns, rows, notes))
    return report


def _measured(places: dict[str, str], size: int, rounds: int) -> dict[str, list[float]]:
    """Ask both with the same histories; gives the seconds of each request."""
    seconds: dict[str, list[float]] = {name: [] for name in places}
    history = [
        {"role": role, "content": f"{number}: {WORDS * 3}"}
        for number in range(size // 2)
        for role in ("user", "assistant")
    ]
    with httpx2.Client(trust_env=False, verify=False, timeout=120) as client:
        for number in range(-3, rounds):  # the first three warm up
            history.append({"role": "user", "content": f"question {number}: {WORDS}"})
            body = {"model": "gpt-4o", "stream": True, "messages": history}
            content = json.dumps(body, ensure_ascii=False).encode()
            for name, url in places.items():
                begin = perf_counter()
                with client.stream("POST", f"{url}{PATH}", content=content) as answer:
                    pieces = answer.iter_raw()
                    next(pieces)
                    passed = perf_counter() - begin
                    for _ in pieces:
                        pass
                assert answer.status_code == 200
                if number >= 0:
                    seconds[name].append(passed)
            history.append({"role": "assistant", "content": "They do."})
    return seconds


@contextmanager
def _servers(budget: int) -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        provider = stack.enter_context(_process("bench.proxy", "provider"))
        plain = stack.enter_context(_process("bench.proxy", "plain", provider))
        words = ("proxy", "--upstream", provider, "--store", f"{folder}/chat.db", "--port", "0")
        ours = stack.enter_context(_process("turnfold", *words, "--budget", str(budget)))
        yield {_PLAIN: plain, _OURS: f"{ours}/s/one"}


@contextmanager
def _process(module: str, *words: str) -> Iterator[str]:
    """Start a server in a process of its own; gives its address, which it prints."""
    command = [sys.executable, "-m", module, *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603 (written here)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "listening on http" in line)
        yield line.split("listening on ")[1].strip()
    finally:
        process.kill()
        process.communicate()


async def _provide(request: Request) -> StreamingResponse:
    await request.body()

    async def events() -> AsyncGenerator[bytes]:
        for text, stop in (("They ", None), ("do.", "stop")):
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": stop}
            chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
            yield f"data: {json.dumps(chunk)}\n\n".encode()

    return StreamingResponse(events(), media_type="text/event-stream")


def _pass_through(upstream: str) -> Starlette:
    client = httpx2.AsyncClient(trust_env=False, verify=False, timeout=120)

    async def passed(request: Request) -> StreamingResponse:
        content = await request.body()
        sent = client.build_request("POST", f"{upstream}{request.url.path}", content=content)
        response = await client.send(sent, stream=True)
        return StreamingResponse(response.aiter_raw(), response.status_code)

    return Starlette(routes=[Route(PATH, passed, methods=["POST"])])


def _serve(app: Starlette) -> None:
    config = uvicorn.Config(app, port=0, log_level="error")
    server = uvicorn.Server(config)

    async def announced() -> None:
        serving = asyncio.ensure_future(server.serve())
        while not server.started:  # noqa: ASYNC110 (it has no event to wait for)
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        print(f"listening on http://127.0.0.1:{port}", file=sys.stderr, flush=True)
        await serving

    asyncio.run(announced())


if __name__ == "__main__":
    if sys.argv[1] == "provider":
        _serve(Starlette(routes=[Route(PATH, _provide, methods=["POST"])]))
    else:
        _serve(_pass_through(sys.argv[2]))
