"""Two hundred hostile texts on every screen of a real browser: nothing runs, nothing leaves; and two sabotages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.chromium import Watched, browsing
from tests.inspector.seeded import hostile_addresses, inspected, seed_hostile, store_at
from tests.service.running import Running
from turnfold.service import ServiceOptions
from turnfold.service.inspector import html as markup
from turnfold.service.inspector import routes as serving

pytestmark = pytest.mark.slow

OPEN_ALL = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  for (const each of document.querySelectorAll("#lure")) each.click();
  for (const each of document.querySelectorAll("[onmouseover]")) each.dispatchEvent(new Event("mouseover"));
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, list[str]]]:
    store = store_at(tmp_path_factory.mktemp("hostile"))
    seed_hostile(store)
    with inspected(ServiceOptions(store=store, tenant="acme")) as service:
        yield service, hostile_addresses(store)


def look(watched: Watched, addresses: list[str]) -> int:
    """Look at every screen, open everything; how many scripts ran."""
    ran = 0
    for where in addresses:
        for language in ("", f"{'&' if '?' in where else '?'}lang=zh"):
            watched.page.goto(where + language, wait_until="load")
            watched.page.evaluate(OPEN_ALL)
            watched.page.wait_for_timeout(50)  # room for something that should not happen
            ran += watched.page.evaluate("window.ran || 0")
    return ran


def test_nothing_runs_and_nothing_leaves(served: tuple[Running, list[str]]) -> None:
    service, addresses = served
    with browsing(service.url) as watched:
        assert look(watched, addresses) == 0
        assert watched.wanted == watched.outside == []
        assert watched.dialogs == []
        assert watched.said == []
        assert len(addresses) > 15


def test_with_the_policy_alone_nothing_runs(
    served: tuple[Running, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should escaping ever fail, the headers still hold: what is asked for is refused by the browser."""
    service, addresses = served
    monkeypatch.setattr(markup, "escape", _without_what_navigates)
    with browsing(service.url) as watched:
        assert look(watched, addresses[2:4]) == 0
        assert watched.outside == []
        assert watched.wanted != []
        assert any("Content Security Policy" in each for each in watched.said)


def test_without_either_things_run_and_leave(
    served: tuple[Running, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, addresses = served
    monkeypatch.setattr(markup, "escape", _without_what_navigates)
    monkeypatch.setattr(serving, "HEADERS", {})
    with browsing(service.url) as watched:
        assert look(watched, [each for each in addresses if "/log" in each][:1]) > 0
        assert watched.outside != []


def _without_what_navigates(text: str) -> str:
    """No escaping, but for what would take the page away before it can be looked at."""
    return text.replace("<meta", "&lt;meta").replace("<base", "&lt;base").replace("id=lure", "")
