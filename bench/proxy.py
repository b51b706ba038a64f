"""How much later does the first token arrive through the proxy?

A provider that answers at once, a plain pass-through (Starlette and httpx2, which reads and stores nothing) and
`turnfold proxy` on SQLite, each in a process of its own. The same client asks both for streamed answers in turns, with
histories that grow, and measures the time to the first byte of the body, and the processor time of each request. What
differs is what turnfold does: reading the history, appending to the log, building the context, and writing the body
where it is shortened. Then the calls of recorded agents, of which the provider gives the recorded answers.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles
from time import clock_gettime, perf_counter, sleep
from typing import Any, NamedTuple

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from bench.conversations import data_folder
from bench.report import Report, Table, duration
from turnfold import wire

__all__ = ("QUESTION", "run")

QUESTION = "How much later does the first token arrive through the proxy?"
PATH = "/v1/chat/completions"
WORDS = "the trains to Lyon run every two hours 去里昂的火车每两小时一班 "
LARGE, SMALL = 1_000_000, 8_000
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
_PLAIN, _OURS = "plain pass-through", "turnfold proxy"
RECORDED = (
    ("tau_bench_openai", 6_000),
    ("tau2_bench_openai", 6_000),
    ("claude_code_anthropic", 32_000),
)
"""Files of recorded conversations, and a budget that most of them exceed."""


def run(*, quick: bool) -> Report:
    """Measure both in turns, for several lengths of a history."""
    report = Report("proxy", QUESTION)
    sizes, rounds = ((20, 200), 15) if quick else ((20, 200, 1_000), 60)
    cases = [(f"{size:,} messages, fits: sent as it came", size, LARGE, False) for size in sizes]
    for size in sizes[1:]:
        cases.append((f"{size:,} messages, shortened, in a tool loop", size, SMALL, True))
        cases.append((f"{size:,} messages, shortened, a new question", size, SMALL, False))
    found: dict[str, dict[str, list[Measured]]] = {}
    for title, size, budget, loop in cases:
        with _servers(budget) as places:
            found[title] = _measured(places, size, rounds, loop=loop)
    for name, budget in RECORDED:
        found |= _recorded(name, budget, 1 if quick else 3)
    rows: list[list[str]] = []
    for title, measured in found.items():
        plain, ours = measured[_PLAIN], measured[_OURS]
        later = [b.seconds - a.seconds for a, b in zip(plain, ours, strict=True)]
        times = [duration(median(one.seconds for one in some)) for some in (plain, ours)]
        worked = [duration(median(one.worked for one in some)) for some in (plain, ours)]
        high = duration(quantiles(later, n=10)[-1])
        rows.append([title, *times, duration(median(later)), high, *worked])
        report.figures[title] = {
            "later": median(later),
            **{name: [list(one) for one in some] for name, some in measured.items()},
        }
    columns = ("history", _PLAIN, _OURS, "later", "later, p90", f"processor, {_PLAIN}", f"{_OURS}")
    notes = (
        "Medians; `later` is the difference of two requests that were sent one after the other, in changing order.",
        "Each request continues the history by a question or a tool result; every write is synced.",
        "Processor: time of the server's process for a whole request, all of its threads.",
    )
    report.tables.append(Table("time to the first byte of a streamed answer", columns, rows, notes))
    return report


class Measured(NamedTuple):
    """One request."""

    seconds: float
    """To the first byte of the body."""
    worked: float
    """Processor seconds of the server."""


class Place(NamedTuple):
    """A server that is asked."""

    url: str
    clock: int
    """Clock of the processor time of its process."""


def _measured(
    places: dict[str, Place], size: int, rounds: int, *, loop: bool
) -> dict[str, list[Measured]]:
    """Ask both with the same histories."""
    found: dict[str, list[Measured]] = {name: [] for name in places}
    history: list[dict[str, object]] = [
        {"role": role, "content": f"{number}: {WORDS * 3}"}
        for number in range(size // 2)
        for role in ("user", "assistant")
    ]
    history.append({"role": "user", "content": f"0: {WORDS}"})
    more = {"tools": [TOOL]} if loop else {}
    with httpx2.Client(trust_env=False, verify=False, timeout=120) as client:
        for number in range(-3, rounds):  # the first three warm up
            body = {"model": "gpt-4o", "stream": True, "messages": history, **more}
            content = json.dumps(body, ensure_ascii=False).encode()
            for name, place in sorted(places.items(), reverse=number % 2 == 0):
                one = _asked(client, place, content)
                if number >= 0:
                    found[name].append(one)
            history += _continued(history[-1], number, loop=loop)
    return found


def _recorded(name: str, budget: int, sample: int) -> dict[str, dict[str, list[Measured]]]:
    """Send the calls of the longest recorded conversations; those that begin a turn and those in a loop apart."""
    path = data_folder() / "traces" / f"{name}.jsonl.gz"
    if not path.is_file():
        return {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        traces = sorted((json.loads(line)["messages"] for line in lines), key=_size)[-sample:]
    kinds = {role: f"{name}, {len(traces)} recorded, {kind}" for role, kind in _KINDS.items()}
    found: dict[str, dict[str, list[Measured]]] = {
        title: {_PLAIN: [], _OURS: []} for title in kinds.values()
    }
    with _servers(budget) as places, httpx2.Client(trust_env=False, verify=False) as client:
        for number, trace in enumerate(traces):
            accepted = wire.anthropic.accept_all(trace) if "anthropic" in name else None
            chat: list[Any] = (
                list(wire.openai_chat.request(accepted).kwargs["messages"]) if accepted else trace
            )
            own = {
                each: place._replace(url=place.url.replace("/s/one", f"/s/{number}"))
                for each, place in places.items()
            }
            for at in range(1, len(chat)):
                title = kinds.get(chat[at - 1]["role"])
                if chat[at]["role"] != "assistant" or title is None:
                    continue
                body = {
                    "model": "gpt-4o",
                    "stream": True,
                    "messages": chat[:at],
                    "recorded": chat[at],
                }
                content = json.dumps(body, ensure_ascii=False).encode()
                for each, place in sorted(own.items(), reverse=at % 4 < 2):
                    found[title][each].append(_asked(client, place, content))
    return found


_KINDS = {"user": "begins a turn", "tool": "in a tool loop"}


def _size(trace: list[Any]) -> int:
    return len(json.dumps(trace))


def _asked(client: httpx2.Client, place: Place, content: bytes) -> Measured:
    worked, begin = clock_gettime(place.clock), perf_counter()
    with client.stream("POST", f"{place.url}{PATH}", content=content) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        passed = perf_counter() - begin
        for _ in pieces:
            pass
    assert answer.status_code == 200
    sleep(0.02)  # what the server does after the response belongs to it as well
    return Measured(passed, clock_gettime(place.clock) - worked)


def _continued(last: dict[str, object], number: int, *, loop: bool) -> list[dict[str, object]]:
    """The answer of the provider, and what the client says next."""
    answer = {"role": "assistant", **_answer(str(last["content"]), loop=loop)}
    text = f"{number + 9}: {WORDS}"
    if not loop:
        return [answer, {"role": "user", "content": text}]
    name = f"call_{str(last['content']).partition(':')[0]}"
    return [answer, {"role": "tool", "tool_call_id": name, "content": text}]


def _answer(asked: str, *, loop: bool) -> dict[str, Any]:
    if not loop:
        return {"content": "They do."}
    function = {"name": "look", "arguments": "{}"}
    call = {"id": f"call_{asked.partition(':')[0]}", "type": "function", "function": function}
    return {"content": None, "tool_calls": [call]}


@contextmanager
def _servers(budget: int) -> Iterator[dict[str, Place]]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        provider = stack.enter_context(_process("bench.proxy", "provider"))
        plain = stack.enter_context(_process("bench.proxy", "plain", provider.url))
        words = ("proxy", "--upstream", provider.url, "--store", f"{folder}/chat.db", "--port", "0")
        ours = stack.enter_context(_process("turnfold", *words, "--budget", str(budget)))
        yield {_PLAIN: plain, _OURS: ours._replace(url=f"{ours.url}/s/one")}


@contextmanager
def _process(module: str, *words: str) -> Iterator[Place]:
    """Start a server in a process of its own, which prints its address."""
    command = [sys.executable, "-m", module, *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603 (written here)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "listening on http" in line)
        clock = (~process.pid << 3) | 2  # Linux: the processor time of another process
        yield Place(line.split("listening on ")[1].strip(), clock)
    finally:
        process.kill()
        process.communicate()


async def _provide(request: Request) -> StreamingResponse:
    body = json.loads(await request.body())
    last = str(body["messages"][-1]["content"])
    told = body.get("recorded") or _answer(last, loop="tools" in body)
    calls = [{"index": n, **call} for n, call in enumerate(told.get("tool_calls") or [])]

    async def events() -> AsyncGenerator[bytes]:
        first = {"content": told.get("content"), **({"tool_calls": calls} if calls else {})}
        for delta, stop in ((first, None), ({}, "tool_calls" if calls else "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": stop}
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
