"""What do other proxies make of recorded conversations? Run it with `python -m bench.proxy_peers`.

The recorded traces are sent call by call, as an agent sends them, through each proxy to a provider that gives the
recorded answers and keeps what arrived: what it costs with the provider's cache, which requests a provider would
refuse, what is kept nowhere, what was added, and how much later the first token arrives than through a plain
pass-through. Each peer has an environment of its own (`make proxy-peers`); one that is not installed is left out.

LiteLLM shortens requests by its own `trim_messages`, called in the hook that its proxy offers for that. Its router can
also compact a request to the window of the chosen deployment: a Claude model summarises all turns but the newest, which
is a request of its own; these are charged too. Headroom knows no budget: it compresses tool results. All run without
access to the network, Headroom therefore without the models that it downloads for prose.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from statistics import fmean, median
from typing import Any

import httpx2

from bench.conversations import data_folder
from bench.cost import charged
from bench.lanes.replay import Sent
from bench.proxy import _PLAIN, Place, _measured, _process
from bench.report import Report, Table, as_text, duration
from turnfold import Memory, wire
from turnfold.records import Message
from turnfold.tokens import PriceTable, TokenCounter, counter_for, shipped_prices

Body = dict[str, Any]
_ROOT = Path(__file__).resolve().parents[1]
_PATIENCE = 600.0
_TURNFOLD, _LITELLM, _HEADROOM = "turnfold proxy", "LiteLLM, trim_messages", "Headroom"
_ROUTER = "LiteLLM, compact-to-fit"
_COMPACTOR = "claude-sonnet-5"
_SUMMARY_CHARACTERS = 4_000
"""Length of the summary that the provider gives, of the words of the prompt; about 1,000 tokens."""
_TRIGGER = 0.9
"""Share of a deployment's window from which LiteLLM compacts; the output it may give is taken from it."""
_TRIM = """
import os
from litellm.integrations.custom_logger import CustomLogger
from litellm.utils import trim_messages


class Trim(CustomLogger):
    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        if data.get("messages"):
            data["messages"] = trim_messages(data["messages"], max_tokens=int(os.environ["BUDGET"]))
        return data


trim = Trim()
"""


@dataclass(frozen=True)
class Source:
    """Recorded conversations of one interface."""

    files: tuple[str, ...]
    provider: str
    path: str
    model: str
    """As the client names it; its price is charged."""
    budget: int


SOURCES = (
    Source(
        ("tau_bench_openai", "tau2_bench_openai"),
        "openai_chat",
        "/v1/chat/completions",
        "gpt-5.4",
        6_000,
    ),
    Source(("claude_code_anthropic",), "anthropic", "/v1/messages", "claude-sonnet-5", 32_000),
)


@dataclass
class Outcome:
    """What one proxy did with the conversations of a source."""

    calls: list[Sent] = field(default_factory=list[Sent])
    missing: int = 0
    """Requests that did not arrive."""
    faults: int = 0
    """Faults that a provider refuses and the client's own request has not: broken pairs of calls and results."""
    over: int = 0
    lost: int = 0
    """Messages that are neither in the last request of a conversation nor kept by the proxy."""
    added: set[str] = field(default_factory=set[str])
    """Names of tools that the client did not send."""
    compactions: list[Sent] = field(default_factory=list[Sent])
    """Requests of a proxy itself, for summaries."""

    def price(self, source: Source, prices: PriceTable) -> float:
        """Price of 1,000 usable calls, with the requests for summaries."""
        usable = sum(one.usable for one in self.calls)
        own = charged(self.calls, source.model, prices)
        if not self.compactions or not usable:
            return own
        return own + charged(self.compactions, _COMPACTOR, prices) * len(self.compactions) / usable


class Provider:
    """Gives the recorded answers; keeps the last request that arrived."""

    def __init__(self) -> None:
        self.answer: Body = {}
        self.arrived: Body | None = None
        self.compactions: list[tuple[Body, Body]] = []
        """(request, answer) of each request for a compaction since the last call of the client."""
        self.count: Callable[[Body], int] = lambda _: 1
        """Counts the tokens that the answer reports."""

    def answered(self, body: Body, path: str) -> Body:
        """The answer to a request, which is kept."""
        if body.get("compaction"):
            told = _compacted(body)
            self.compactions.append((body, told))
            return told
        if "count_tokens" not in path:
            self.arrived = body
        usage = self.answer["usage"]
        name = "input_tokens" if "input_tokens" in usage else "prompt_tokens"
        return {**self.answer, "usage": {**usage, name: self.count(body)}}

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve until the end of the block; gives the address."""
        provider = self

        class Exchange(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name)
                del format, args

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                body: Body = json.loads(raw)
                content = json.dumps(provider.answered(body, self.path)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def _compacted(body: Body) -> Body:
    """What Anthropic answers to a request for a compaction."""
    words = json.dumps(body["messages"], ensure_ascii=False)
    block = {"type": "compaction", "content": words[:_SUMMARY_CHARACTERS], "signature": "c2ln"}
    whole = {"id": "c", "type": "message", "role": "assistant", "model": body["model"]}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {**whole, "content": [block], "stop_reason": "compaction", "usage": usage}


def _free_port() -> int:
    with socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def _started(command: Sequence[str], port: int, env: Mapping[str, str]) -> Iterator[Place]:
    """Start a server that prints no address; gives it when it listens."""
    process = subprocess.Popen(  # noqa: S603 (written here)
        command,
        env={**os.environ, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        limit = time.monotonic() + _PATIENCE
        while True:
            try:
                httpx2.get(url, trust_env=False, verify=False, timeout=2)
                break
            except httpx2.TransportError:
                if process.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError(f"{command[0]} does not listen") from None
                time.sleep(0.5)
        yield Place(url, (~process.pid << 3) | 2)
    finally:
        process.kill()
        process.wait()


def _program(environment: str, name: str) -> Path | None:
    found = _ROOT / environment / "bin" / name
    return found if found.is_file() else None


@contextmanager
def _turnfold(upstream: str, budget: int, folder: Path) -> Iterator[Place]:
    words = ("--upstream", upstream, "--store", f"{folder}/chat.db", "--port", "0")
    with _process("turnfold", "proxy", *words, "--budget", str(budget)) as place:
        yield place


@contextmanager
def _litellm(upstream: str, budget: int, folder: Path) -> Iterator[Place]:
    (folder / "trim.py").write_text(_TRIM)
    models = [
        {"model_name": source.model, "litellm_params": _deployment(source.model, upstream)}
        for source in SOURCES
    ]
    models.append({**models[0], "model_name": "gpt-4o"})
    with _litellm_with(models, budget, folder, callbacks="trim.trim") as place:
        yield place


@contextmanager
def _litellm_router(upstream: str, budget: int, folder: Path) -> Iterator[Place]:
    deployment = _deployment(_COMPACTOR, upstream)
    info = {"max_input_tokens": 1_000_000, "max_output_tokens": 128_000}
    models: list[Body] = [
        {"model_name": "compactor", "litellm_params": deployment, "model_info": info}
    ]
    for source in SOURCES:
        output = _MOST_OUTPUT[source.provider]
        window = {"max_input_tokens": round((budget + output) / _TRIGGER)}
        own, tiers = f"own-{source.model}", ("SIMPLE", "MEDIUM", "COMPLEX", "REASONING")
        deployment = _deployment(source.model, upstream)
        info = {**window, "max_output_tokens": output}
        models.append({"model_name": own, "litellm_params": deployment, "model_info": info})
        routing = {
            "tiers": dict.fromkeys(tiers, own),
            "context_compaction": {"model": "compactor", "trigger_ratio": _TRIGGER},
        }
        router = {
            "model": "auto_router/complexity_router",
            "complexity_router_config": routing,
            "complexity_router_default_model": own,
        }
        models.append({"model_name": source.model, "litellm_params": router})
        if source is SOURCES[0]:
            models.append({"model_name": "gpt-4o", "litellm_params": router})
    with _litellm_with(models, budget, folder) as place:
        yield place


_MOST_OUTPUT = {"openai_chat": 512, "anthropic": 4_096}
"""Tokens that an answer may have: what a request to Anthropic names, and what the router is told for others."""


def _deployment(model: str, upstream: str) -> Body:
    """A model in LiteLLM's words, at our provider."""
    if model.startswith("claude"):
        return {"model": f"anthropic/{model}", "api_base": upstream, "api_key": "none"}
    return {"model": f"openai/{model}", "api_base": f"{upstream}/v1", "api_key": "none"}


@contextmanager
def _litellm_with(
    models: Sequence[Body], budget: int, folder: Path, **settings: str
) -> Iterator[Place]:
    program = _program(".venv-proxy-litellm", "litellm")
    if program is None:
        raise FileNotFoundError("LiteLLM")
    config = {"model_list": models, "litellm_settings": {**settings, "telemetry": False}}
    (folder / "config.json").write_text(json.dumps(config))
    port = _free_port()
    words = ["--config", str(folder / "config.json"), "--port", str(port), "--host", "127.0.0.1"]
    env = {"BUDGET": str(budget), "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": str(folder)}
    env["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"
    with _started([str(program), *words], port, env) as place:
        yield place


@contextmanager
def _headroom(upstream: str, budget: int, folder: Path) -> Iterator[Place]:
    del budget  # it has none
    program = _program(".venv-proxy-headroom", "headroom")
    if program is None:
        raise FileNotFoundError("Headroom")
    port = _free_port()
    words = ["proxy", "--port", str(port), "--no-rate-limit"]
    words += ["--openai-api-url", upstream, "--anthropic-api-url", upstream]
    env = {"HEADROOM_OFFLINE": "1", "HOME": str(folder)}
    with _started([str(program), *words], port, env) as place:
        yield place


CONTENDERS = {
    _TURNFOLD: _turnfold,
    _LITELLM: _litellm,
    _ROUTER: _litellm_router,
    _HEADROOM: _headroom,
}


def _traces(source: Source, sample: int) -> list[list[Body]]:
    """The longest conversations of each file."""
    found: list[list[Body]] = []
    for name in source.files:
        path = data_folder() / "traces" / f"{name}.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            traces: list[list[Body]] = [json.loads(line)["messages"] for line in lines]
        found += sorted(traces, key=lambda trace: len(json.dumps(trace)), reverse=True)[:sample]
    return found


def _names(trace: Sequence[Body]) -> list[str]:
    calls = [call["function"]["name"] for one in trace for call in one.get("tool_calls") or ()]
    blocks = [
        block for one in trace if isinstance(one["content"], list) for block in one["content"]
    ]
    calls += [block["name"] for block in blocks if block.get("type") == "tool_use"]
    return sorted(set(calls))


def _request(source: Source, messages: list[Body], names: Sequence[str]) -> Body:
    schema = {"type": "object", "properties": {}}
    if source.provider == "anthropic":
        tools = [{"name": name, "input_schema": schema} for name in names]
        return {"model": source.model, "max_tokens": 4_096, "messages": messages, "tools": tools}
    tools = [
        {"type": "function", "function": {"name": name, "parameters": schema}} for name in names
    ]
    return {"model": source.model, "messages": messages, "tools": tools}


def _answer(source: Source, message: Body) -> Body:
    if source.provider == "anthropic":
        content = message["content"]
        content = content if isinstance(content, list) else [{"type": "text", "text": content}]
        whole = {"id": "m", "type": "message", "role": "assistant", "model": source.model}
        usage = {"input_tokens": 1, "output_tokens": 1}
        return {**whole, "content": content, "stop_reason": "end_turn", "usage": usage}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": source.model}
    return {**whole, "choices": [choice], "usage": usage}


class _Account:
    """Counts what arrived at the provider."""

    def __init__(self, source: Source, outcome: Outcome) -> None:
        self._source, self._outcome = source, outcome
        self._counter = counter_for("gpt-4o")
        """One counter for all prices."""
        self._own = counter_for(source.model)
        """The counter by which turnfold keeps its budget."""
        self._before: list[tuple[str, int]] = []

    def add(self, trace: int, given: Body, sent: Body | None, answer: Body) -> None:
        """Take one request; None if nothing arrived."""
        outcome, source = self._outcome, self._source
        if sent is None:
            outcome.missing += 1
            self._before = []
            return
        own = {_rule(fault) for fault in wire.lint(given, source.provider)}
        faults = [each for each in wire.lint(sent, source.provider) if _rule(each) not in own]
        outcome.faults += len(faults)
        asked = _text_of(given["messages"][-1])
        usable = not faults and asked[-200:] in json.dumps(sent["messages"], ensure_ascii=False)
        pieces = list(self._pieces(sent))
        same = [one for one, other in zip(pieces, self._before, strict=False) if one == other]
        shared = next(
            (n for n, (a, b) in enumerate(zip(pieces, self._before, strict=False)) if a != b),
            len(same),
        )
        prompt = sum(tokens for _, tokens in pieces) + self._counter.reply
        outcome.over += _whole(source, sent, self._own) > source.budget
        outcome.added |= {_tool_name(one) for one in sent.get("tools") or ()} - {
            _tool_name(one) for one in given["tools"]
        }
        outcome.calls.append(
            Sent(
                trace=trace,
                prompt=prompt,
                system=pieces[0][1],
                repeated=sum(tokens for _, tokens in pieces[:shared]),
                answer=self._tokens(answer),
                usable=usable,
                inside=False,
            )
        )
        self._before = pieces

    def add_compaction(self, trace: int, body: Body, answer: Body) -> None:
        """Take a request of the proxy for a summary; nothing of it is in the provider's cache."""
        messages = wire.anthropic.accept_all(body)
        system = sum(self._counter.count_message(one) for one in messages if one.role == "system")
        tools = self._counter.count_tools(body.get("tools") or [])
        prompt = sum(map(self._counter.count_message, messages)) + tools + self._counter.reply
        text = answer["content"][0]["content"]
        self._outcome.compactions.append(
            Sent(
                trace=trace,
                prompt=prompt,
                system=system + tools,
                repeated=0,
                answer=self._counter.count_text(text),
                usable=True,
                inside=False,
            )
        )

    def _pieces(self, body: Body) -> Iterator[tuple[str, int]]:
        """Tools and system prompt, and each message: its text and its tokens."""
        tools = body.get("tools") or []
        head = json.dumps([tools, body.get("system")], sort_keys=True)
        system = (
            wire.anthropic.accept_all({"system": body["system"], "messages": []})
            if body.get("system")
            else []
        )
        yield head, self._counter.count_tools(tools) + sum(map(self._counter.count_message, system))
        for message in body["messages"]:
            bare = json.dumps(_without_marks(message), sort_keys=True)
            yield bare, self._tokens(message)

    def _tokens(self, message: Body) -> int:
        module = getattr(wire, self._source.provider)
        found: Message = module.accept(message)
        return self._counter.count_message(found)


def _whole(source: Source, body: Body, counter: TokenCounter) -> int:
    """The tokens of a whole request."""
    messages = getattr(wire, source.provider).accept_all(body, model=source.model)
    return counter.count(messages, tools=body.get("tools") or ()).tokens


def _without_marks(value: Any) -> Any:  # noqa: ANN401 (JSON)
    """A message without cache marks, which move from call to call and do not end what is cached."""
    if isinstance(value, dict):
        return {key: _without_marks(one) for key, one in value.items() if key != "cache_control"}
    return [_without_marks(one) for one in value] if isinstance(value, list) else value


def _text_of(message: Body) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return json.dumps(content, ensure_ascii=False)[1:-1]
    last = content[-1]
    inner = last.get("text") or last.get("content") or ""
    inner = inner if isinstance(inner, str) else (inner[-1].get("text", "") if inner else "")
    return json.dumps(inner, ensure_ascii=False)[1:-1]


def _rule(fault: object) -> str:
    return str(fault).partition(" at ")[0]


def _tool_name(tool: Body) -> str:
    return str(tool.get("name") or tool.get("function", {}).get("name"))


def _replayed(name: str, source: Source, sample: int) -> Outcome:
    outcome, provider = Outcome(), Provider()
    provider.count = partial(_whole, source, counter=counter_for(source.model))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(provider.running())
        place = stack.enter_context(CONTENDERS[name](upstream, source.budget, folder))
        client = stack.enter_context(httpx2.Client(trust_env=False, verify=False, timeout=120))
        for number, trace in enumerate(_traces(source, sample)):
            account, last, names = _Account(source, outcome), 0, _names(trace)
            sent: Body | None = None
            headers = {"x-turnfold-session": f"t{number}", "x-api-key": "none"}
            headers |= {"authorization": "Bearer none", "anthropic-version": "2023-06-01"}
            for at in range(1, len(trace)):
                if trace[at]["role"] != "assistant" or trace[at - 1]["role"] not in (
                    "user",
                    "tool",
                ):
                    continue
                given = _request(source, trace[:at], names)
                provider.answer, provider.arrived = _answer(source, trace[at]), None
                client.post(f"{place.url}{source.path}", json=given, headers=headers)
                sent, last = provider.arrived, at
                account.add(number, given, sent, trace[at])
                while provider.compactions:
                    account.add_compaction(number, *provider.compactions.pop())
            kept = len(sent["messages"]) if sent else 0
            if name == _TURNFOLD:
                kept = max(kept, _stored(folder, f"t{number}", trace[:last]))
            outcome.lost += max(0, last - kept)
    return outcome


def _stored(folder: Path, session: str, messages: Sequence[Body]) -> int:
    """How many of the messages are in the log of a session."""
    with Memory(f"sqlite:///{folder}/chat.db") as memory:
        names = [info.conversation for info in memory.conversations()]
        own = [name for name in names if name == session or name.startswith(f"{session}~")]
        logs = [memory.session(name).history() for name in own]
    longest = max(logs, key=len)
    system = sum(one["role"] == "system" for one in messages)
    # The answer to the last request is in the log as well.
    return system + sum(entry.message.role != "system" for entry in longest) - 1


def _later(name: str, rounds: int) -> tuple[float, float]:
    """How much later the first byte arrives than through a plain pass-through, and the processor time of a request."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = stack.enter_context(_process("bench.proxy", "provider"))
        plain = stack.enter_context(_process("bench.proxy", "plain", provider.url))
        place = stack.enter_context(CONTENDERS[name](provider.url, 1_000_000, folder))
        if name == _TURNFOLD:
            place = place._replace(url=f"{place.url}/s/one")
        found = _measured({_PLAIN: plain, name: place}, 60, rounds, loop=False)
    pairs = zip(found[_PLAIN], found[name], strict=True)
    return median(b.seconds - a.seconds for a, b in pairs), median(
        one.worked for one in found[name]
    )


def report(sample: int, rounds: int, only: str = "") -> Report:
    """Replay everything through everybody that is installed, or through those whose name begins with `only`."""
    contenders = [name for name in CONTENDERS if name.lower().startswith(only.lower())]
    made = Report("proxy_peers", "What do other proxies make of recorded conversations?")
    prices = shipped_prices()
    for source in SOURCES:
        rows: list[list[str]] = []
        for name in contenders:
            try:
                outcome = _replayed(name, source, sample)
            except FileNotFoundError:
                continue
            calls = outcome.calls
            price = outcome.price(source, prices)
            made.figures[f"{source.provider} {name}"] = {"price": price, "lost": outcome.lost}
            rows.append(
                [
                    name,
                    f"{price:.2f}",
                    f"{fmean(one.prompt for one in calls):,.0f}" if calls else "-",
                    f"{sum(one.usable for one in calls)} of {len(calls) + outcome.missing}",
                    str(outcome.faults),
                    str(outcome.over),
                    str(outcome.lost),
                    ", ".join(sorted(outcome.added)) or "0",
                    str(len(outcome.compactions)),
                ]
            )
            print(source.provider, rows[-1], file=sys.stderr, flush=True)
        columns = ("proxy", f"{prices.currency} per 1,000 calls", "tokens per call", "usable")
        columns += ("faults", "over budget", "lost messages", "added tools", "own model calls")
        title = f"{source.provider}: prices of {source.model}, {source.budget:,} tokens"
        made.tables.append(Table(title, columns, rows))
    rows = []
    for name in contenders:
        try:
            later, worked = _later(name, rounds)
        except FileNotFoundError:
            continue
        rows.append([name, duration(later), duration(worked)])
    columns = ("proxy", "later", "processor")
    made.tables.append(Table("first byte of a streamed answer, 60 messages", columns, rows))
    return made


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.proxy_peers", description=__doc__)
    parser.add_argument("--sample", type=int, default=9, help="conversations of each file")
    parser.add_argument("--rounds", type=int, default=60, help="requests for the first byte")
    parser.add_argument("--only", default="", help="the beginning of the name of one proxy")
    options = parser.parse_args()
    print(as_text(report(options.sample, options.rounds, options.only)))


if __name__ == "__main__":
    main()
