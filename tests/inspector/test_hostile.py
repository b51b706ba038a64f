"""Two hundred hostile texts, stored everywhere something can be stored, and every screen that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.inspector.hostile import PAYLOADS
from tests.inspector.reading import dangers, read_page
from tests.inspector.seeded import hostile_addresses, inspected, seed_hostile, store_at
from tests.service.running import Running
from turnfold.service import ServiceOptions
from turnfold.service.inspector import html as markup


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, list[str]]]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    store = store_at(folder)
    seed_hostile(store)
    with inspected(ServiceOptions(store=store, tenant="acme")) as service:
        yield service, hostile_addresses(store)


def shown(client: httpx2.Client, addresses: list[str]) -> list[str]:
    pages: list[str] = []
    for where in addresses:
        answer = client.get(where)
        assert answer.status_code == 200, (where, answer.text[:400])
        pages.append(answer.text)
    return pages


def test_every_payload_is_shown_as_the_text_it_is(served: tuple[Running, list[str]]) -> None:
    service, addresses = served
    with service.client() as client:
        pages = shown(client, addresses)
    assert [danger for page in pages for danger in dangers(page)] == []
    said = "".join(read_page(page).text for page in pages)
    for payload in PAYLOADS:
        seen = payload.replace("\u202e", "[U+202E]").replace("\x00", "\ufffd")
        assert said.count(seen) >= 3, payload


@pytest.mark.slow  # shows that the tests above can fail
def test_without_escaping_most_screens_would_be_dangerous(
    served: tuple[Running, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, addresses = served
    monkeypatch.setattr(markup, "escape", str)
    with service.client() as client:
        pages = shown(client, addresses)
    assert (
        sum(bool(dangers(page)) for page in pages) >= len(pages) - 2
    )  # health and raw figures hold no text
