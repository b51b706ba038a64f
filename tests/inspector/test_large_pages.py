"""Pages of huge conversations stay small, and making them stops no other request."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from tests.inspector.reading import read_page
from tests.inspector.seeded import inspected, store_at
from turnfold.budget import Budget
from turnfold.memory import Memory
from turnfold.records import Snapshot
from turnfold.service import ServiceOptions
from turnfold.service.inspector import routes
from turnfold.service.inspector.html import COPIED, address, document, tag
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.page import as_curl, to_copy
from turnfold.service.inspector.screens.diff import _changes

MOST = 6_000_000
"""A page has at most 4,000,000 characters, and little beside them."""
NOTE = "the page is too long: the rest is not shown"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Messages, tool arguments, lines and snapshots of megabytes, with two calls that send most of them."""
    store = store_at(tmp_path_factory.mktemp("large"))
    with Memory(store, budget=Budget(max_tokens=100_000_000)) as memory:
        session = memory.session("large")
        for number in range(10):
            session.user(f"{number} " + "<&> " * 240_000)
            session.assistant([{"type": "text", "text": "ok " * 330_000}])
            if number > 7:
                session.context()
        session.snapshots.take(Snapshot(files={"a.txt": "a\n" * 60_000}, context="c " * 400_000))
        session.snapshots.take(Snapshot(files={"a.txt": "b\n" * 60_000}, context="d " * 400_000))
    return store


def pages(store: str) -> list[str]:
    with Memory(store, budget=Budget(max_tokens=100_000_000)) as memory:
        session = memory.session("large")
        first, second = (call.call for call in session.calls())
        turns = [head.turn for head in session.snapshots.heads()]
    where = ("sessions", "large")
    return [
        address(*where, "log", after=0, limit=500),
        *(address(*where, "calls", second, form=form) for form in ("neutral", "raw", "openai", "anthropic")),
        address(*where, "diff", before=first, after=second),
        *(address(*where, "snapshots", turn) for turn in turns),
        address(*where, "snapshots", "diff", before=turns[0], after=turns[1]),
        address(*where, "recall", query="9"),
        address(*where),
    ]  # fmt: skip


def test_pages_are_small_and_made_in_a_thread(large: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[str]()

    def note(module: ModuleType, name: str) -> None:
        real = getattr(module, name)

        def noted(*given: Any, **more: Any) -> Any:
            threads.append(threading.current_thread().name)
            return real(*given, **more)

        monkeypatch.setattr(module, name, noted)

    note(routes, "document")
    note(sys.modules["turnfold.service.inspector.screens.memory"], "snippet")
    for name in ("call_view", "diff_calls"):
        note(sys.modules[f"turnfold.service.inspector.screens.{name[:4]}"], name)
    with inspected(ServiceOptions(store=large)) as service, service.client(timeout=60) as client:
        [loop] = [
            one.name
            for one in threading.enumerate()
            if one.name.startswith("Thread-") and "run" in one.name
        ]
        wanted = pages(large)
        for page in wanted:
            answer = client.get(page)
            assert answer.status_code == 200, page
            assert len(answer.text) < MOST, page
            read_page(answer.text)
    assert len(threads) == len(wanted) + 4 + 1 + 1
    assert loop not in threads


def test_a_page_of_the_log_ends_early_and_leads_on(large: str) -> None:
    """500 entries of a megabyte were read at once."""
    with inspected(ServiceOptions(store=large)) as service, service.client(timeout=60) as client:
        seen, where = list[str](), address("sessions", "large", "log", after=0)
        for _ in range(20):
            page = read_page(client.get(where).text)
            shown = page.all("li", data_seq="")
            assert 0 < len(shown) < 6
            seen += [each.attributes["data-seq"] for each in shown]
            following = page.all("a", rel="next")
            if not following:
                break
            where = following[0].attributes["href"]
    assert seen == [str(seq) for seq in range(1, 21)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_that_is_cut_says_so_once(language: Any) -> None:
    note = PageLabels(language)(NOTE)
    rows = [tag("li", "&" * 1_000, tag("code", "x")) for _ in range(6_000)]
    html = document(tag("body", tag("ul", rows), tag("footer", "end")), cut=note).decode()
    assert html.count(note) == 1
    assert len(html) < 25_000_000  # each & is written with five characters
    assert read_page(html.removeprefix("<!DOCTYPE html>")).one("body").text.startswith("&")
    assert document(tag("p", "short"), cut=note).decode() == "<!DOCTYPE html>\n<p>short</p>"


def test_many_elements_without_text_are_cut_too() -> None:
    html = document(tag("ul", [tag("li")] * 1_000_000), cut=NOTE)
    assert len(html) < 1_000_000


def test_a_command_is_copied_whole_or_not_at_all() -> None:
    words = PageLabels("en")
    command = "turnfold " + "x" * 300_000
    block = to_copy("copy", command, words, note="")
    for before in range(3_500_000, 4_100_000, 50_000):
        html = document(tag("main", tag("p", "a" * before), block), cut=NOTE).decode()
        page = read_page(html.removeprefix("<!DOCTYPE html>\n"))
        for copied in page.all("pre", class_=COPIED):
            assert copied.text == command
    assert as_curl("openai", {"messages": [{"content": "a" * 19_000}] * 50}) == ""
    assert as_curl("openai", {"messages": [{"content": "a" * 19_000}] * 5}) != ""


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("abc", "abc", ["equal"]), ("", "", []), ("", "ab", ["insert"]), ("ab", "", ["delete"]),
        ("axc", "ayc", ["equal", "replace", "equal"]), ("aaa", "aa", ["equal", "delete"]),
        ("aa", "aaa", ["equal", "insert"]), ("abcd", "acd", ["equal", "delete", "equal"]),
    ],
)  # fmt: skip
def test_changes_are_those_of_both_lists(old: str, new: str, kinds: list[str]) -> None:
    found = list(_changes(old, new))
    assert [kind for kind, *_ in found] == kinds
    assert "".join(old[a:b] for _, a, b, _, _ in found) == old
    assert "".join(new[a:b] for _, _, _, a, b in found) == new


def test_equal_lines_without_end_are_not_compared_with_each_other() -> None:
    """Each of 50,000 equal lines was compared with each other one: an hour of a processor."""
    # Without the limit, this small case fails in a second instead of not ending.
    old, new = ["x", *["a"] * 2_100, "y"], ["z", *["a"] * 2_101, "w"]
    assert list(_changes(old, new)) == [("replace", 0, 2_102, 0, 2_103)]
    old, new = ["x", *["a"] * 50_000, "y"], ["z", *["a"] * 50_001, "w"]
    assert list(_changes(old, new)) == [("replace", 0, 50_002, 0, 50_003)]
