"""What a page says when it cannot show everything: how much there is, what is missing, and the way to the rest."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import httpx2
import pytest

from tests.inspector.reading import read_page
from tests.inspector.seeded import inspected, seed, store_at
from turnfold.memory import Memory
from turnfold.records import Snapshot
from turnfold.service import ServiceOptions
from turnfold.service.inspector import screen_types as asked
from turnfold.service.inspector.html import address, to_html
from turnfold.service.inspector.labels import Language, PageLabels
from turnfold.service.inspector.page import as_curl
from turnfold.service.inspector.screens import SCREENS
from turnfold.stores import LANGGRAPH_HOMES, new_home

PICTURE = "data:image/png;base64," + "A" * 30_000


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx2.Client]:
    store = store_at(tmp_path)
    with Memory(store) as memory:
        for name in ("a", "ab", "abc", "b"):
            memory.session(name).user(f"hello {name}")
        memory.session(new_home(LANGGRAPH_HOMES.prefix("a"))).user("kept by an adapter")
        session = memory.session("a")
        session.user([{"type": "image_url", "image_url": {"url": PICTURE}}])
        session.context()
        session.snapshots.take(Snapshot(files={"long.txt": "0123456789" * 3}))
    with inspected(ServiceOptions(store=store)) as service, service.client() as client:
        yield client


def home_of(name: str) -> ModuleType:
    """The module of a screen; the package has the screen itself under that name."""
    [screen] = [each for each in SCREENS if each.name == name]
    return sys.modules[screen.render.__module__]


def names(client: httpx2.Client, where: str) -> list[str]:
    return [link.text for link in read_page(client.get(where).text).all("a", class_="row")]


def test_a_list_that_is_cut_says_so(client: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(names(client, address(most=2))) == 2
    assert "2 of 4" in client.get(address(most=2)).text
    module = home_of("sessions")
    monkeypatch.setattr(module, "_PAGE", 1)
    assert sorted(names(client, address())) == ["a", "ab", "abc", "b"]
    for prefix, found in (
        ("a", ["a", "ab", "abc"]),
        ("ab", ["ab", "abc"]),
        ("abcd", []),
        ("b", ["b"]),
    ):
        assert sorted(names(client, address(name=prefix))) == found
    monkeypatch.setattr(module, "_READ_MOST", 2)
    assert "only the first 2 sessions by name" in client.get(address()).text


def test_conversations_of_adapters_are_listed_only_if_asked_for(client: httpx2.Client) -> None:
    assert sorted(names(client, address())) == ["a", "ab", "abc", "b"]
    assert names(client, address(name="lang")) == []
    [home] = names(client, address(name="langgraph:"))
    assert home.startswith("langgraph:a:")


def test_figures_by_a_counter_nobody_knows_are_marked(
    client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    [link] = read_page(client.get(address("sessions", "a")).text).all("a", class_="row")
    where = link.attributes["href"]
    assert "token counts differ from the recorded ones" not in client.get(where).text
    monkeypatch.setattr(asked, "_counter", lambda _: None)
    assert "token counts differ from the recorded ones" in client.get(where).text


@pytest.mark.parametrize("form", ["openai", "anthropic", "raw"])
def test_media_in_json_is_shown_as_its_length(client: httpx2.Client, form: str) -> None:
    [link] = read_page(client.get(address("sessions", "a")).text).all("a", class_="row")
    said = client.get(f"{link.attributes['href']}?form={form}").text
    assert "A" * 300 not in said
    assert "characters, not shown" in said


def test_a_long_file_is_shown_page_by_page(
    client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = home_of("snapshots")
    monkeypatch.setattr(module, "_LONGEST", 12)
    where, seen = address("sessions", "a", "snapshots", 1, "file", path="long.txt"), ""
    while where:
        page = read_page(client.get(where).text)
        seen += page.one("pre", class_="file").text
        where = next((a.attributes["href"] for a in page.all("a") if a.text == "next"), "")
    assert seen == "0123456789" * 3


def test_calls_far_from_one_another_lead_to_each_other(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    with Memory(store) as memory:
        session = memory.session("far")
        for _ in range(4):
            session.add([{"role": "user", "content": "more"}] * 150)
            session.context()
            session.context()
        made = [each.call for each in session.calls()]
    assert len(made) == 8
    seen: list[str] = []
    with inspected(ServiceOptions(store=store)) as service, service.client() as client:
        for rel, start in (("next", made[0]), ("prev", made[-1])):
            where = address("sessions", "far", "calls", start)
            while where:
                seen.append(where.rpartition("/")[2])
                links = read_page(client.get(where).text).all("a", rel=rel)
                where = links[0].attributes["href"] if links else ""
    assert seen == [*made, *reversed(made)]


def test_a_wrong_address_is_told_in_the_language_of_the_reader(client: httpx2.Client) -> None:
    chinese = {"accept-language": "zh-CN"}
    assert "没有会话 &#x27;nosuch&#x27;" in client.get("/ui/sessions/nosuch", headers=chinese).text
    assert "没有这个页面" in client.get("/ui/nosuch", headers=chinese).text
    missing = client.get("/ui/sessions/a/calls/nosuch", headers=chinese).text
    assert "会话 &#x27;a&#x27; 中没有调用 &#x27;nosuch&#x27;" in missing
    english = client.get("/ui/sessions/a/calls/nosuch").text
    assert "no call &#x27;nosuch&#x27; in session &#x27;a&#x27;" in english
    assert "calls()" not in english


def test_a_known_model_is_named_in_the_command_to_copy() -> None:
    body: dict[str, object] = {"messages": [{"role": "user", "content": "Hello 你好"}]}
    assert '"model": "gpt-4o"' in as_curl("openai", body, "gpt-4o")
    assert '"model": "MODEL"' in as_curl("openai", body)


def test_a_command_to_copy_is_readable_and_hides_nothing() -> None:
    """Chinese and emoji as they are; characters that a reader cannot see are escaped, and the JSON stays the same."""
    said = "你好 😀 \u202eabc\u200b\u2028 \U000e0041 'quoted'"
    body: dict[str, object] = {"messages": [{"role": "user", "content": said}]}
    command = as_curl("openai", body)
    assert "你好 😀 \\u202eabc\\u200b\\u2028 \\udb40\\udc41" in command
    content = shlex.split(command.replace("\\\n", ""))[-1]
    assert content.isprintable()
    assert json.loads(content)["messages"] == body["messages"]


@pytest.mark.parametrize(("language", "more"), [("en", "… and 68 more"), ("zh", "……还有 68 条")])
def test_a_long_list_of_recalled_entries_is_cut(language: Language, more: str) -> None:
    shown = vars(home_of("call"))["_recalled"]
    seen = SimpleNamespace(recalled=[(seq, 0.5) for seq in range(1, 81)])
    text = to_html(shown(seen, "a", PageLabels(language)))
    assert text.count("<a ") == 12
    assert more in text
    seen.recalled = seen.recalled[:12]
    assert "…" not in to_html(shown(seen, "a", PageLabels(language)))


def test_a_wrong_parameter_is_told_in_the_language_of_the_page(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    seed(store)
    with (
        inspected(ServiceOptions(store=store, tenant="acme")) as service,
        service.client() as client,
    ):
        told = {
            asked: read_page(client.get(f"/ui?{asked}").text).all(class_="refused")[0].text
            for asked in ("q=1", "q=1&lang=zh", "most=x", "most=x&lang=zh")
        }
    assert told == {
        "q=1": "unknown parameter q; the parameters are: name, most, sort, text",
        "q=1&lang=zh": "没有参数 q；可用的参数：name, most, sort, text",
        "most=x": "invalid query parameters: Expected `int`, got `str` - at `$.most`",
        "most=x&lang=zh": "参数 most 的值不可用",
    }
