"""A quiet tenant of a service, alone and beside a hostile one that sends what costs the most to search and to count.

The hostile tenant asks from a process of its own, over six connections, for as long as the quiet one is measured: long
messages of words that no vocabulary has, never the same twice, and searches for as many words as the service takes.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter

from bench.bare_http import BareConnections
from turnfold.service import TokenFile, new_token

__all__ = ("quiet_turns",)

CONNECTIONS = 6
_LETTERS = "abcdefghijklmnop"


def quiet_turns(folder: Path, *, seconds: float) -> tuple[list[float], list[float]]:
    """Return the seconds of each turn of the quiet tenant: alone, and beside the hostile one."""
    tokens: dict[str, str] = {}
    for name in ("quiet", "hostile"):
        tokens[name], line = new_token(name, name, ["read", "write"], now=time.time())
        TokenFile(folder / "tokens.json").add(line)
    with _service(folder) as url:
        asyncio.run(_turns(url, tokens["quiet"], 2.0))  # until everything is warm
        alone = asyncio.run(_turns(url, tokens["quiet"], seconds))
        words = ["-m", "bench.service_tenants", url, tokens["hostile"]]
        hostile = subprocess.Popen([sys.executable, *words])  # noqa: S603 (words written here)
        try:
            time.sleep(2.0)
            beside = asyncio.run(_turns(url, tokens["quiet"], seconds))
            assert hostile.poll() is None, "the hostile tenant has ended"
        finally:
            hostile.terminate()
            hostile.wait()
    return alone, beside


@contextmanager
def _service(folder: Path) -> Iterator[str]:
    store, tokens = f"sqlite:///{folder / 'chat.db'}", str(folder / "tokens.json")
    words = ["serve", "--store", store, "--port", "0", "--tokens-file", tokens]
    process = subprocess.Popen(  # noqa: S603 (words written here)
        [sys.executable, "-m", "turnfold", *words], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if "listening on " in line)
        yield line.split("listening on ")[1].strip()
    finally:
        process.terminate()
        process.communicate()


async def _turns(url: str, token: str, seconds: float) -> list[float]:
    links, found = BareConnections(url, token=token), list[float]()
    end = perf_counter() + seconds
    while perf_counter() < end:
        begin = perf_counter()
        await links.ask("q", "POST", "/v1/sessions/q/user", {"content": "Where is the parcel?"})
        await links.ask("q", "POST", "/v1/sessions/q/assistant", {"content": "包裹在路上。"})
        await links.ask("q", "POST", "/v1/sessions/q/context", {})
        found.append(perf_counter() - begin)
        await asyncio.sleep(0.01)
    links.close()
    return found


async def _attack(url: str, token: str) -> None:
    links, chance, numbers = BareConnections(url, token=token), random.Random(7), count()  # noqa: S311 (no secret)

    def words(many: int) -> str:
        return " ".join("".join(chance.choices(_LETTERS, k=6)) for _ in range(many))

    said = words(100_000)

    async def ask(asker: int) -> None:
        path = f"/v1/sessions/h{asker}"
        while True:
            text = f"{next(numbers)} {said}"
            await links.ask(f"h{asker}", "POST", f"{path}/user", {"content": text})
            await links.ask(f"h{asker}", "POST", "/v1/search", {"query": words(1_400)})
            await links.ask(f"h{asker}", "POST", f"{path}/context", {"query": words(1_400)})
            await links.ask(f"h{asker}", "POST", f"{path}/user", {"content": "1%" * 450_000})

    await asyncio.gather(*map(ask, range(CONNECTIONS)))


if __name__ == "__main__":
    asyncio.run(_attack(*sys.argv[1:]))
