"""Two ids that look alike never meet, and one id is never two: in stores, and in addresses of service and inspector.

Ids are compared as they are: no store, cache, address or listing changes their case or their Unicode form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.encryption.test_no_key import KEY, postgres_url
from tests.inspector.seeded import inspected
from tests.odd_ids import ALIKE, odd_ids
from tests.service.running import Running
from tests.sizes import examples
from tests.stores.redis_server import shared_url
from turnfold import Memory
from turnfold.client import RemoteMemory
from turnfold.service import ServiceOptions

PLACES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "sqlite": lambda folder: {"store": f"sqlite:///{folder}/chat.db"},
    "redis": lambda folder: {"store": f"sqlite:///{folder}/chat.db", "cache": shared_url()},
    "postgres": lambda _: {"store": postgres_url()},
    "encrypted": lambda _: {"store": "sqlite://", "encryption_key": KEY},
}


@pytest.mark.parametrize("place", PLACES)
def test_every_id_has_its_own(tmp_path: Path, place: str) -> None:
    """Conversations, client ids, names of documents and tenants."""
    with Memory(**PLACES[place](tmp_path)) as memory:
        for each in ALIKE:
            memory.session(each).user(f"said {each!r}", client_id="same")
            memory.session("one").user(f"said {each!r}", client_id=each)
            memory.session("one").state.set(f"key {each}"[:200], each)
            Memory(memory.store, scope=f"t{each}"[:500]).session("one").user(each[:500])
        assert {info.conversation for info in memory.conversations(limit=500)} == {"one", *ALIKE}
        for each in ALIKE:
            assert [m.message.text for m in memory.session(each).history()] == [f"said {each!r}"]
        assert len(memory.session("one").history(limit=500)) == len(ALIKE)
        for each in ALIKE[:-2]:
            assert memory.session("one").state.get(f"key {each}") == each
            theirs = Memory(memory.store, scope=f"t{each}").session("one").history()
            assert [m.message.text for m in theirs] == [each]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("ids")
    with inspected(ServiceOptions(store=f"sqlite:///{folder / 'chat.db'}")) as service:
        yield service


@examples(60)
@given(ids=st.lists(odd_ids(), min_size=2, max_size=4, unique=True))
@example(ids=list(ALIKE))
def test_every_id_has_an_address_of_its_own(served: Running, ids: list[str]) -> None:
    with RemoteMemory(served.url) as remote, served.client() as http:
        for each in ids:
            remote.session(each).user(f"said {ALIKE.index(each) if each in ALIKE else each!r}")
        for each in ids:
            texts = {entry.message.text for entry in remote.session(each).history()}
            assert len(texts) == 1
            encoded = "".join(f"%{byte:02x}" for byte in each.encode())  # every letter of it
            for spelled in (encoded, encoded.upper()):
                answer = http.get(f"/v1/sessions/{spelled}/messages")
                got = answer.json()["entries"]
                assert {entry["message"]["content"] for entry in got} == texts
            assert links_of(http, each), each


def links_of(http: httpx2.Client, name: str) -> bool:
    """Whether the page of a session leads to itself, by the address that the inspector makes of its id."""
    target = f"/ui/sessions/{quote(name, safe='')}"
    if set(name) == {"."}:
        target = f"/ui/sessions/{'%2E' * len(name)}"
    return http.get(target).status_code == 200


OVERLONG = [
    "%c0%af",
    "%c0%ae%c0%ae",
    "%e0%80%af",
    "%f0%80%80%af",
    "%ed%a0%80",
    "%ff",
    "%80",
    "a%00",
    "%00",
]


@pytest.mark.parametrize("encoded", OVERLONG)
def test_an_address_that_is_no_text_names_nothing(served: Running, encoded: str) -> None:
    with served.client() as http:
        for target in (f"/v1/sessions/{encoded}/messages", f"/ui/sessions/{encoded}"):
            assert http.get(target).status_code in (400, 422), target
