"""Every screen over plain HTTP: what is drawn is what the store holds, in both languages, under the strict headers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from tests.inspector.reading import Found, dangers, read_page
from tests.inspector.seeded import CONTENT, SUMMARY, TALK, inspected, seed, store_at
from tests.service.running import Running
from turnfold.budget import Budget
from turnfold.cli.app import app
from turnfold.inspect import SentItem, call_cost, call_point, call_view, diff_calls, sent_items
from turnfold.memory import Memory, Session, recalled_text
from turnfold.service import ServiceOptions
from turnfold.service.inspector.charts import lost_from_cache, parts_of, timeline
from turnfold.service.inspector.html import address, to_html
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.page import as_command
from turnfold.service.inspector.routes import ASSETS, HEADERS
from turnfold.service.inspector.screens.health import _MEANINGS
from turnfold.stores import Scope
from turnfold.telemetry import METRICS
from turnfold.tokens import load_prices, shipped_prices
from turnfold.wire import anthropic, openai_chat


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Session]]:
    store = store_at(tmp_path_factory.mktemp("screens"))
    seed(store)
    with (
        inspected(ServiceOptions(store=store, tenant="acme")) as service,
        Memory(store, scope="acme", fold="manual") as memory,
    ):
        yield service, memory.session(TALK)


@pytest.fixture
def client(served: tuple[Running, Session]) -> Iterator[httpx2.Client]:
    with served[0].client() as client:
        yield client


@pytest.fixture
def session(served: tuple[Running, Session]) -> Session:
    return served[1]


def stored_at(service: Running) -> str:
    """The address of the store behind a service."""
    return f"sqlite:///{asyncio.run(service.state.config.store.health()).details['path']}"


def page(client: httpx2.Client, where: str) -> Found:
    answer = client.get(where)
    assert answer.status_code == 200, answer.text
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert answer.headers["cache-control"] == "no-store"
    assert dangers(answer.text) == []
    return read_page(answer.text)


def rows(found: Found) -> list[list[str]]:
    return [[cell.text for cell in row.all("td")] for row in found.all("tr") if row.all("td")]


def screens(session: Session) -> list[str]:
    """An address of every screen."""
    calls = [each.call for each in session.calls()]
    at = ("sessions", TALK)
    return [
        address(),
        address("health"),
        address(*at),
        address(*at, "calls", calls[3]),
        address(*at, "calls", calls[3], form="openai"),
        address(*at, "calls", calls[3], form="anthropic"),
        address(*at, "calls", calls[3], form="raw"),
        address(*at, "diff", before=calls[8], after=calls[11]),
        address(*at, "log"),
        address(*at, "checkpoints"),
        address(*at, "rules"),
        address(*at, "memory"),
        address(*at, "costs", model="gpt-4o"),
        address(*at, "recall", query="parcel"),
        address(*at, "snapshots"),
        address(*at, "snapshots", 2),
        address(*at, "snapshots", 2, "file", path="notes/a b.txt"),
        address(*at, "snapshots", "diff", before=1, after=5),
    ]


def test_sessions_are_those_of_the_store(client: httpx2.Client, session: Session) -> None:
    found = rows(page(client, "/ui").one("tbody"))
    status = session.status()
    assert [row[0] for row in found] == ["second", TALK]
    assert found[1][1].startswith(f"{CONTENT}: question 1, 第 1 个问题。")
    assert found[1][2:5] == [f"{status.turns:,}", f"{status.entries:,}", f"{status.tokens:,}"]
    [narrowed] = rows(page(client, address(name="talk/")).one("tbody"))
    assert narrowed[0] == TALK
    none = page(client, address(name="nobody"))
    assert none.all("tbody") == []
    assert "no session has such a name" in none.one("main").text


def test_the_timeline_draws_every_call(client: httpx2.Client, session: Session) -> None:
    made = [call_point(each) for each in session.calls()]
    drawn = page(client, address("sessions", TALK)).one("svg", class_="timeline")
    bars = drawn.all("g", class_="call")
    assert [bar.attributes["data-call"] for bar in bars] == [call.call for call in made]
    for bar, call in zip(bars, made, strict=True):
        parts = {
            r.attributes["data-part"]: int(r.attributes["data-tokens"]) for r in bar.all("rect")
        }
        assert parts == {name: tokens for name, tokens in parts_of(call).items() if tokens}
        assert sum(parts.values()) == call.tokens
    marks = [each.attributes["data-mark"] for each in drawn.all(data_mark="")]
    landed = [b for a, b in pairwise(made) if a.checkpoint != b.checkpoint]
    cuts = [b for b in made[1:] if b.moved and b not in landed]
    assert marks.count("checkpoint") == len(landed) == 1
    assert marks.count("cut") == len(cuts) > 0
    lost = [lost_from_cache(a, b) for a, b in pairwise(made)]
    assert marks.count("cache") == sum(map(bool, lost)) == 0, "no provider caches so short prompts"
    assert len(drawn.all("line", class_="budget")) == len(made)
    labels = [each.text for each in drawn.all("text")]
    highest = max(max(call.allowed, call.tokens) for call in made)
    assert labels[:3] == ["0", f"{highest // 2:,}", f"{highest:,}"]
    assert labels[3:] == [f"{number}" for number in range(1, len(made) + 1, 8)]


def test_a_cache_break_is_one_only_where_it_costs_something(session: Session) -> None:
    call = call_point(session.calls()[-1])
    before, after = replace(call, tokens=4_000), replace(call, kept_prefix=0.5)
    assert lost_from_cache(None, after) == 0
    assert lost_from_cache(before, after) == 2_000
    assert lost_from_cache(before, replace(call, kept_prefix=1.0)) == 0
    assert lost_from_cache(before, replace(call, kept_prefix=0.98)) == 0, "less than a cache step"
    assert lost_from_cache(replace(call, tokens=1_000), after) == 0, "too short to be cached"
    usual = replace(before, sections={"window": 2_000, "tail": 1_500, "turn": 400})
    assert lost_from_cache(usual, after) == 0, (
        "every new question changes the tail, and moves the turn"
    )
    assert lost_from_cache(usual, replace(call, kept_prefix=0.4)) == 2_400, (
        "the window was lost too"
    )
    loop = replace(before, sections={"window": 3_600, "tail": 0, "turn": 400})
    assert lost_from_cache(loop, replace(call, kept_prefix=0.9)) == 400, (
        "nothing stands before the turn"
    )
    drawn = to_html(timeline([before, after], PageLabels("zh"), {call.call: address()}))
    assert "缓存中断：2,000 token 要重新付费" in drawn


def test_calls_are_numbered_from_the_first(client: httpx2.Client, session: Session) -> None:
    calls = session.calls()
    made = calls[3]
    assert made.seq != 4
    found = page(client, address("sessions", TALK, "calls", made.call))
    assert found.one("h1").text == f"call 4 of {len(calls)} · what the model saw"
    numbered = page(
        client, address("sessions", TALK, "calls", "4")
    )  # as `turnfold explain` takes it
    assert numbered.one("h1").text == found.one("h1").text
    assert client.get(address("sessions", TALK, "calls", "9999")).status_code == 404
    listed = rows(page(client, address("sessions", TALK)).one("table", class_="calls"))
    assert [row[0] for row in listed] == [str(number) for number in range(len(calls), 0, -1)]
    compared = address("sessions", TALK, "diff", before=calls[2].call, after=made.call)
    assert page(client, compared).one("h1").text == "compare 3 → 4"
    neighbours = {
        each.attributes["rel"]: each.attributes["href"] for each in found.all("a", rel="")
    }
    for rel, call in (("prev", calls[2]), ("next", calls[4])):
        assert neighbours[rel].endswith(call.call)
    newest = page(client, address("sessions", TALK, "calls", calls[-1].call))
    [links] = [each for each in newest.all("p") if each.text.startswith("previous call")]
    assert links.text == "previous call · compare with the call before"


@pytest.mark.parametrize("words", ["parcel question 7", "第 7 个问题"])
def test_words_are_found_in_all_sessions(
    client: httpx2.Client, session: Session, served: tuple[Running, Session], words: str
) -> None:
    with Memory(stored_at(served[0]), scope="acme") as memory:
        real = [each for each in memory.search(words, limit=50) if each.snippet.marks]
        assert memory.search("不存在的问", limit=50), "single characters match"
    found = page(client, address(text=words))
    drawn = rows(found.one("table", class_="hits"))
    assert [(row[0], row[1]) for row in drawn] == [
        (hit.conversation, f"#{hit.seq}") for hit in real
    ]
    assert found.all("mark")
    links = [a.attributes["href"] for a in found.one("table", class_="hits").all("a", class_="row")]
    shown = page(client, links[0].partition("#")[0]).one("ol", class_="items")
    assert [item.attributes["data-seq"] for item in shown.all("li")] == [str(real[0].seq)]
    for nowhere in ("xylophone", "不存在的问"):
        assert "nothing found" in page(client, address(text=nowhere)).text
    assert session.id == TALK


def test_the_list_is_sorted_as_asked(client: httpx2.Client, session: Session) -> None:
    assert session.status().turns > 1
    for sort, first in (
        ("session", "second"),
        ("turns", TALK),
        ("tokens", TALK),
        ("changed", "second"),
    ):
        found = page(client, address(sort=sort))
        assert rows(found.one("tbody"))[0][0] == first, sort
        offered = {a.attributes["href"] for a in found.one("thead").all("a")}
        assert address(sort=sort) not in offered
        assert len(offered) == 4
    assert client.get("/ui?sort=colour").status_code == 422


def test_the_timeline_pages(client: httpx2.Client, session: Session) -> None:
    made = [each.call for each in session.calls()]
    first = page(client, address("sessions", TALK, after="", most=5))
    assert [g.attributes["data-call"] for g in first.all("g", class_="call")] == made[:5]
    [on] = [a.attributes["href"] for a in first.all("a") if a.text == "next"]
    second = page(client, on)
    assert [g.attributes["data-call"] for g in second.all("g", class_="call")] == made[5:10]
    newest = page(client, address("sessions", TALK, most=5))
    assert [g.attributes["data-call"] for g in newest.all("g", class_="call")] == made[-5:]


def test_a_call_shows_what_the_model_saw(client: httpx2.Client, session: Session) -> None:
    for made in session.calls():
        explained = session.explain(made.call)
        seen = call_view(explained)
        found = page(client, address("sessions", TALK, "calls", made.call))
        items = found.one("ol", class_="items").all("li")
        keys = ("data-seq", "data-fate", "data-tokens")
        drawn = [tuple(item.attributes[key] for key in keys) for item in items]
        assert drawn == [(str(i.seq), i.fate, str(i.tokens)) for i in seen.items]
        for item, message in zip(items, explained.messages, strict=True):
            assert message.text in "".join(pre.text for pre in item.all("pre"))
        left = [row[0] for each in found.all("table", class_="left-out") for row in rows(each)]
        assert left == [f"entries {o.first} to {o.last}" for o in seen.left_out]
        assert f"{made.tokens:,} / {made.allowed:,}" in found.one("main").text
        assert "verified: exactly the messages sent" in found.one("main").text
    assert any(call_view(session.explain(each.call)).left_out for each in session.calls())


def test_counted_stands_beside_reported(client: httpx2.Client, session: Session) -> None:
    made = next(each for each in session.calls() if each.usage is not None)
    assert made.usage is not None
    said = page(client, address("sessions", TALK, "calls", made.call)).one("main").text
    off = made.tokens / made.usage.input - 1
    assert (
        f"the provider counted {made.usage.input:,} (0 cached); turnfold's count differs by {off:+.1%}"
        in said
    )


@pytest.mark.parametrize(("form", "wire"), [("openai", openai_chat), ("anthropic", anthropic)])
def test_a_call_as_its_provider_gets_it(
    client: httpx2.Client, session: Session, form: str, wire: object
) -> None:
    made = session.calls()[-1].call
    request = (openai_chat if wire is openai_chat else anthropic).request(
        session.explain(made).messages, max_bytes=0
    )
    found = page(client, address("sessions", TALK, "calls", made, form=form))
    assert json.loads(found.one("pre", class_="json").text) == request.kwargs


def test_media_is_shown_as_a_size(client: httpx2.Client, session: Session) -> None:
    [entry] = [e for e in session.history(limit=100) if len(e.message.parts) == 2]
    where = address("sessions", TALK, "log", after=entry.seq - 1, upto=entry.seq)
    found = page(client, where)
    assert found.one("p", class_="media").text == "4.4 kB of image, not loaded"
    assert "base64" not in found.text
    assert found.all("img") == []


def check_beside(drawn: Found, before: Sequence[SentItem], after: Sequence[SentItem]) -> None:
    """Every message that differs stands in its column, in order; equal ones are in both."""
    sides: list[list[str]] = [[], []]
    for row in drawn.one("tbody").all("tr"):
        cells = [cell.all("div", data_digest="") for cell in row.all("td")]
        if [div.attributes["class"] for cell in cells for div in cell] == ["same", "same"]:
            assert cells[0][0].one("p").text == cells[1][0].one("p").text
        for side, cell in zip(sides, cells, strict=True):
            side += [div.attributes["data-digest"] for div in cell]
    for side, items in zip(sides, (before, after), strict=True):
        digests = [item.digest for item in items]
        rest = iter(digests)
        assert all(digest in rest for digest in side), "out of order"
    new = {item.digest for item in after} - {item.digest for item in before}
    gone = {item.digest for item in before} - {item.digest for item in after}
    assert gone <= set(sides[0])
    assert new <= set(sides[1])


def test_two_calls_are_compared(client: httpx2.Client, session: Session) -> None:
    calls = session.calls()
    checked = 0
    for before, after in pairwise(calls):
        first, second = session.explain(before.call), session.explain(after.call)
        real = diff_calls(first, second)
        where = address("sessions", TALK, "diff", before=before.call, after=after.call)
        found = page(client, where)
        lead = found.one("p", class_="lead").attributes
        assert (lead["data-same"], lead["data-rebilled"]) == (str(real.same), str(real.rebilled))
        assert real.first is not None
        place = found.one("p", data_index="").attributes
        assert place["data-index"] == str(real.first.index)
        assert place["data-character"] == str(real.first.character)
        common = second.messages[real.first.index].text[: real.first.character]
        inside = session.counter.count_text(common) if common else 0
        if not second.messages[real.first.index].calls:
            assert place["data-token"] == str(real.same_tokens + inside)
            checked += 1
        old, new = found.one("div", class_="first-difference").all("pre")
        assert (old.text, new.text) == (real.first.text_before, real.first.text_after)
        assert not old.one("del").text or old.one("del").text[0] != (new.one("ins").text + " ")[0]
        ends = old.one("del").text[-1:], new.one("ins").text[-1:]
        assert "" in ends or ends[0] != ends[1], "the same ending is marked as changed"
        for reason in real.reasons:
            assert reason in found.text
        check_beside(found.one("table", class_="beside"), sent_items(first), sent_items(second))
        check_tails(found, first.manifest.tail, second.manifest.tail)
        for side, messages in zip(
            ("before", "after"), (first.messages, second.messages), strict=True
        ):
            for cell in found.one("table", class_="beside").all("td", data_head=side):
                for whole in cell.all("details"):
                    digest = cell.one("div", data_digest="").attributes["data-digest"]
                    items = sent_items(first if side == "before" else second)
                    [at] = [item.index for item in items if item.digest == digest]
                    assert all(part in whole.text for part in messages[at].text.split("\n"))
    assert checked > 5


def check_tails(found: Found, before: str, after: str) -> None:
    """Every line of the tail that only one call has is shown as gone or new, whole."""
    shown = found.all("pre", class_="lines")
    assert bool(shown) == (before != after)
    for name, sign, only, other in (("del", "- ", before, after), ("ins", "+ ", after, before)):
        lines = [each.text for pre in shown for each in pre.all(name)]
        assert all(line.startswith(sign) for line in lines)
        missing = set(only.splitlines()) - set(other.splitlines())
        assert missing <= {line.removeprefix(sign).removesuffix("\n") for line in lines}


def test_checkpoints_lead_to_their_originals(client: httpx2.Client, session: Session) -> None:
    [made] = session.checkpoints()
    found = page(client, address("sessions", TALK, "checkpoints"))
    article = found.one("article", data_upto=str(made.upto))
    assert article.one("pre", class_="summary").text == made.text
    assert SUMMARY in made.text
    [originals] = [a.attributes["href"] for a in article.all("a") if a.text == "originals"]
    log = page(client, originals).one("ol", class_="items")
    seqs = [int(item.attributes["data-seq"]) for item in log.all("li")]
    assert seqs == list(range(1, made.upto + 1))


def test_a_fork_from_a_checkpoint_is_a_command_that_works(
    client: httpx2.Client, session: Session, served: tuple[Running, Session]
) -> None:
    [made] = session.checkpoints()
    found = page(client, address("sessions", TALK, "checkpoints"))
    command = shlex.split(found.one("pre", class_="copied").text)
    assert command[:3] == ["turnfold", "fork", TALK]
    assert found.all("form", method="post") == [], "a page changes nothing"
    store = served[0].state.config.store
    before = [each.conversation for each in asyncio.run(store.conversations(Scope("acme")))]
    done = CliRunner().invoke(app, [*command[1:], "--store", stored_at(served[0])])
    assert done.exit_code == 0, done.output
    with Memory(stored_at(served[0]), scope="acme") as memory:
        new = memory.session(command[3])
        assert new.id not in before
        assert len(new.history(limit=1_000)) == made.upto
        memory.delete(new.id)


def test_a_call_is_taken_along_as_a_test_that_passes_and_can_fail(
    client: httpx2.Client, session: Session, served: tuple[Running, Session], tmp_path: Path
) -> None:
    made = session.calls()[3].call
    for_command, openai, anthropic_, test = (
        each.text
        for each in page(client, address("sessions", TALK, "calls", made)).all(
            "pre", class_="copied"
        )
    )
    assert shlex.split(for_command)[:4] == ["turnfold", "explain", TALK, made]
    for text, wire in ((openai, openai_chat), (anthropic_, anthropic)):
        words = shlex.split(text)
        body = json.loads(words[words.index("-d") + 1])
        sent = wire.request(session.explain(made).messages, max_bytes=0).kwargs
        called = session.explain(made).manifest.called_model if wire is openai_chat else ""
        assert body.pop("model") == (called or "MODEL")
        assert {**body, **json.loads(json.dumps(sent))} == body
    file = tmp_path / "test_taken.py"
    assert "名字" in test, "names are readable"
    for wanted, prefix, text in (
        (0, "", test),
        (0, "sqlite:///", test),  # the path of a file, as commands take it
        (1, "", test.replace("tokens == ", "tokens == 1")),
        (1, "", test.replace(made, session.calls()[4].call)),
    ):
        file.write_text(text, encoding="utf-8")
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
            env={
                **os.environ,
                "TURNFOLD_STORE": stored_at(served[0]).removeprefix(prefix),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # those installed here take seconds to load
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == wanted, ran.stdout


def test_what_cannot_be_seen_is_not_put_into_a_command() -> None:
    assert as_command("fork", "a b;rm -rf ~", "x") == "turnfold fork 'a b;rm -rf ~' x"
    for hidden in ("a\nb", "a\x1b[2Jb", "a\u202eb"):
        assert as_command("fork", hidden, "x") == ""


def test_the_lab_shows_what_a_score_is_made_of(client: httpx2.Client, session: Session) -> None:
    found = page(client, address("sessions", TALK, "recall", query="parcel customs", limit=8))
    table = found.one("table", class_="matches")
    heads = [head.text for head in table.all("th")]
    assert heads[3:7] == ["score", "by words", "by meaning", "by neighbours"]
    shown = [row[3:7] for row in rows(table)]
    assert shown
    assert all(score == words and meaning == "-" for score, words, meaning, _ in shown)
    assert any(float(beside) > 0 for *_, beside in shown)
    matched = {
        f"#{each.seq}": f"{each.score:.3f}" for each in session.recall("parcel customs", limit=8)
    }
    assert {row[0]: row[3] for row in rows(table)} == matched


def test_the_log_pages_through_every_entry(client: httpx2.Client, session: Session) -> None:
    where, seen = address("sessions", TALK, "log", after=0, limit=7), list[int]()
    while where:
        found = page(client, where)
        seen += [int(item.attributes["data-seq"]) for item in found.one("ol").all("li")]
        where = next((a.attributes["href"] for a in found.all("a", rel="next")), "")
    assert seen == [entry.seq for entry in session.history(limit=500)]


def test_recall_shows_matches_and_what_a_model_would_get(
    client: httpx2.Client, session: Session
) -> None:
    found = page(
        client, address("sessions", TALK, "recall", query="question 7", limit=6, tokens=150)
    )
    real = session.recall("question 7", limit=6)
    drawn = rows(found.one("table", class_="matches"))
    assert [row[0] for row in drawn] == [f"#{each.seq}" for each in real]
    assert [row[3] for row in drawn] == [f"{each.score:.3f}" for each in real]
    assert any(mark.text == "7" for mark in found.all("mark"))
    text = recalled_text(session.recall("question 7", tokens=150))
    assert found.one("pre", class_="summary").text == text
    assert int(found.one("p", data_cost="").attributes["data-cost"]) <= 150
    chinese = page(client, address("sessions", TALK, "recall", query="第 7 个问题"))
    assert chinese.all("mark")


def test_snapshots_and_their_difference(client: httpx2.Client, session: Session) -> None:
    listed = rows(page(client, address("sessions", TALK, "snapshots")).one("tbody"))
    assert [row[0] for row in listed] == ["1", "2", "5"]
    one = page(client, address("sessions", TALK, "snapshots", 2))
    assert rows(one.one("tbody")) == [
        [path, f"{size:,}"] for path, size in session.snapshots.files(2).items()
    ]
    file = page(client, address("sessions", TALK, "snapshots", 2, "file", path="notes/a b.txt"))
    assert file.one("pre", class_="file").text == "one\nthree\n"
    binary = page(client, address("sessions", TALK, "snapshots", 2, "file", path="blob.bin"))
    assert binary.one("p", class_="media").text == "4 B of bytes, not loaded"
    real = session.snapshots.diff(1, 5)
    found = page(client, address("sessions", TALK, "snapshots", "diff", before=1, after=5))
    drawn = {s.attributes["data-path"]: s for s in found.all("section", data_change="")}
    assert set(drawn) == {"", *(each.path for each in real.files)}
    for each in real.files:
        if each.patch:
            assert drawn[each.path].one("pre").text == each.patch
    assert [row for row in rows(found) if row[0] == "step"] == [["step", "1", "5"]]


def test_costs_are_those_of_the_calls_by_day_and_by_call(
    client: httpx2.Client, session: Session
) -> None:
    price = shipped_prices().price("gpt-4o")
    calls = session.calls()
    real = [call_cost(call, price) for call in calls]
    found = page(client, address("sessions", TALK, "costs", model="gpt-4o"))
    [by_day] = rows(found.one("table", class_="days"))
    assert by_day[1:5] == [
        f"{len(calls):,}",
        f"{sum(each.input for each in real):,}",
        f"{sum(each.cached for each in real):,}",
        f"{sum(each.output for each in real):,}",
    ]
    assert by_day[5] == f"≈ {sum(each.cost for each in real):,.4f}"
    listed = rows(found.one("table", class_="calls"))
    assert [row[0] for row in listed] == [str(number) for number in range(len(calls), 0, -1)]
    at, made = next((at, call) for at, call in enumerate(calls) if call.usage is not None)
    assert made.usage is not None
    exact = (made.usage.input * price.input + made.usage.output * price.output) / 1_000_000
    assert listed[len(calls) - 1 - at][4] == f"{exact:,.4f}"
    guessed = next(each for each in real if each.estimated)
    assert guessed.output == 0
    plain = rows(page(client, address("sessions", TALK, "costs")).one("table", class_="days"))
    assert plain[0][5] == "-", "without a model there is no price"
    assert client.get(address("sessions", TALK, "costs", model="nobody-1")).status_code == 422


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_prices_of_the_models_called_are_chosen(tmp_path: Path, language: str) -> None:
    store = store_at(tmp_path)
    with Memory(store, model="gpt-4o") as memory:
        session = memory.session("several models")
        for model in ("", "claude-sonnet-4-5-20250929", "a-model-of-ours"):
            session.user("hello")
            session.context()
            usage = {"input_tokens": 2_000, "output_tokens": 100}
            session.record_usage({"usage": usage, "model": model} if model else usage)
        called = [each.called_model for each in session.calls()]
    assert called == ["gpt-4o", "claude-sonnet-4-5-20250929", "a-model-of-ours"]
    prices = shipped_prices()
    costs = [
        (2_000 * each.input + 100 * each.output) / 1_000_000
        for each in map(prices.price, called[:2])
    ]
    with inspected(ServiceOptions(store=store)) as service, service.client() as client:
        found = page(client, address("sessions", "several models", "costs", lang=language))
        [chosen] = found.one("form", class_="search").all("option", selected="")
        assert chosen.attributes["value"] == "own"
        assert all(model in chosen.text for model in called[:2])
        listed = rows(found.one("table", class_="calls"))
        assert [row[4] for row in listed] == ["-", f"{costs[1]:,.4f}", f"{costs[0]:,.4f}"]
        assert rows(found.one("table", class_="days"))[0][5] == f"{sum(costs):,.4f}"
        notes = [each.text[:2] for each in found.all("p", class_="note")]
        assert notes == ["1 "]
        plain = page(client, address("sessions", "several models", "costs", model=""))
        assert {row[4] for row in rows(plain.one("table", class_="calls"))} == {"-"}
    command = ["explain", "several models", "--store", store, "@prev"]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "400", "TURNFOLD_LANG": language})
    assert f"{costs[1]:,.4f} USD" in done.output, done.output
    assert "claude-sonnet-4-5" in done.output


def test_a_price_table_of_your_own_prices_the_calls(tmp_path: Path) -> None:
    """The option `--prices` of `ui`, `serve` and `explain` takes the place of the list that comes with turnfold."""
    file = tmp_path / "yuan.json"
    file.write_text(
        '{"currency": "CNY", "date": "2026-11-19", "models": {"ours-1": {"input": 4, "output": 8}},'
        ' "caches": {"none": {}}}'
    )
    store = store_at(tmp_path)
    with Memory(store, model="gpt-4o") as memory:
        session = memory.session("talk")
        session.user("hello")
        session.context()
        usage = {"input_tokens": 2_000, "output_tokens": 500}
        session.record_usage({"usage": usage, "model": "ours-1"})
    options = ServiceOptions(store=store, prices=load_prices(file))
    with inspected(options) as service, service.client() as client:
        found = page(client, address("sessions", "talk", "costs"))
        assert rows(found.one("table", class_="days"))[0][5] == "0.0120"
        assert "CNY" in found.one("form", class_="search").text
    command = ["explain", "talk", "--store", store, "--prices", str(file)]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "400", "TURNFOLD_LANG": "en"})
    assert "0.0120 CNY for ours-1, list prices of 2026-11-19" in done.output, done.output


def test_health_tells_the_backend_and_the_figures(client: httpx2.Client, session: Session) -> None:
    del session
    found = page(client, "/ui/health")
    assert "sqlite" in found.text
    answered = rows(found.all("table")[-1])
    assert ["inspector_health", "200"] in [
        row[1:3] for row in [*answered, *rows(page(client, "/ui/health"))]
    ]
    assert ["reads and writes done", "jobs"] in [row[:2] for row in rows(found.all("table")[0])]


def test_every_figure_of_the_health_page_says_what_it_counts() -> None:
    counted = {each.name for each in METRICS if each.kind == "count"}
    assert counted <= {*_MEANINGS}


def test_a_rule_shows_what_it_may_replace_and_the_command_that_drops_it(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    with Memory(store, scope="acme") as memory:
        told = memory.session("shop")
        told.user("I want two bottles of water.")
        told.user("Actually, make it three.")
        first, second = told.rules()
    assert second.may_replace == (first.id,)
    with (
        inspected(ServiceOptions(store=store, tenant="acme")) as service,
        service.client() as client,
    ):
        found = page(client, address("sessions", "shop", "rules"))
    [table] = found.all("table")
    before, after = (row[-1] for row in rows(table))
    assert "may replace #1" in after
    assert "may replace" not in before
    assert f"turnfold rules shop --drop {second.id} --tenant acme" in after


def test_every_screen_speaks_both_languages(client: httpx2.Client, session: Session) -> None:
    for where in screens(session):
        client.get(where)  # the health page lists which pages were asked for
        english = page(client, where)
        joined = f"{where}{'&' if '?' in where else '?'}lang=zh"
        chinese = page(client, joined)
        assert english.one("html").attributes["lang"] == "en"
        assert chinese.one("html").attributes["lang"] == "zh"
        assert len(chinese.all()) == len(english.all())
        assert untranslated(chinese) == [], where
        client.cookies.clear()


def untranslated(found: Found) -> list[str]:
    """Labels of a Chinese page that are English; stored texts and names in code are not labels."""
    names = ("th", "dt", "h1", "h2", "summary", "label", "button", "option")
    labels = [each for name in names for each in found.all(name)]
    labels += [each for each in found.all("dd") if not (each.all(dir="auto") or each.all("li"))]
    for kind in ("chip", "about", "quiet", "note", "lead", "legend", "tabs", "cache-end"):
        labels += found.all(class_=kind)
    stored = {"pre", "code", "strong", "time"}
    wrong: list[str] = []
    for each in labels:
        if each.all(class_="excerpt") or each.name in stored:
            continue
        text = each.text
        for inside in (piece for name in stored for piece in each.all(name)):
            text = text.replace(inside.text, "")
        for known in sorted((*shipped_prices().models, TALK, CONTENT, *NAMES), key=len)[::-1]:
            text = text.replace(known, "")
        wrong += [text] if re.search("[a-z]{3,}", text) else []
    return wrong


NAMES = (
    *("token", "OpenAI", "Anthropic", "curl", "pytest", "English", "turnfold", "Enter"),
    *(
        "--store",
        "session.record_usage()",
        "sqlite",
        "client_id",
        "look_up",
        "notes/a b.txt",
        "blob.bin",
    ),
)
"""Names of things, which are the same in both languages."""


def test_english_on_a_chinese_page_would_be_noticed() -> None:
    for text in ("<th>by words</th>", '<span class="chip">estimate</span>', "<dt>trust</dt>"):
        assert len(untranslated(read_page(text))) > 0
    assert untranslated(read_page("<th>分数</th><span class='chip'>估计</span>")) == []


def test_pins_state_and_findings_are_those_of_the_session(
    client: httpx2.Client, session: Session
) -> None:
    found = page(client, address("sessions", TALK, "memory"))
    assert rows(found.one("table", class_="pins")) == [["rule", "never promise a day"]]
    assert json.loads(found.one("pre", class_="json").text) == session.state.all()
    [finding] = session.findings.list()
    [row] = rows(found.one("table", class_="findings"))
    assert row[:4] == ["#4", 'look_up({"n":1})', "0.75", "row 1"]
    assert row[5] != "never"
    assert finding.expires
    nothing = page(client, address("sessions", "second", "memory"))
    assert [each.text for each in nothing.one("main").all("p")[1:]] == ["none"] * 3


def test_checkpoints_are_named_by_their_last_entry(client: httpx2.Client, session: Session) -> None:
    [made] = session.checkpoints()
    found = page(client, address("sessions", TALK))
    [link, *_] = found.all("a", title=made.id)
    assert link.text == f"up to entry {made.upto}"
    where, _, name = link.attributes["href"].partition("#")
    assert page(client, where).all("article", id=name)


def test_columns_of_figures_are_aligned_and_cells_name_their_column(client: httpx2.Client) -> None:
    found = page(client, address()).one("table", class_="sessions")
    heads = {th.text.rstrip(" ↓"): th.attributes.get("class") for th in found.all("th")}
    figures = [name for name, kind in heads.items() if kind == "figure"]
    assert figures == ["turns", "entries", "tokens"]
    first = found.one("tbody").all("tr")[0].all("td")
    assert [cell.attributes["data-head"] for cell in first] == list(heads)


def test_a_call_marks_where_the_repeated_beginning_ends(
    client: httpx2.Client, session: Session
) -> None:
    made = next(each for each in session.calls()[2:] if 0 < each.shared < each.tokens)
    found = page(client, address("sessions", TALK, "calls", made.call))
    items = found.one("ol", class_="items").all("li")
    [at] = [at for at, item in enumerate(items) if item.all(class_="cache-end")]
    tokens = [int(item.attributes["data-tokens"]) for item in items]
    assert sum(tokens[:at]) <= made.shared < sum(tokens[: at + 1])


def test_the_language_is_remembered_and_asked_of_the_browser(client: httpx2.Client) -> None:
    first = client.get("/ui", headers={"accept-language": "fr, zh-CN;q=0.9"})
    assert read_page(first.text).one("html").attributes["lang"] == "zh"
    client.get("/ui?lang=zh")
    assert read_page(client.get("/ui/health").text).one("html").attributes["lang"] == "zh"
    assert client.get("/ui?lang=fr").status_code == 422


def test_what_is_not_there_is_a_page_too(client: httpx2.Client, session: Session) -> None:
    for where, status in (
        ("/ui/nothing", 404),
        (address("sessions", "nobody"), 404),
        (address("sessions", TALK, "calls", "000000000001-0009"), 404),
        (address("sessions", TALK, "snapshots", 99), 404),
        (address("sessions", TALK, "snapshots", "x"), 422),
        (address("sessions", TALK, "log", after=10**9), 422),
        (address("sessions", TALK, "log", limit=10**9), 422),
        (f"{address('sessions', TALK)}?most=1&most=2", 422),
        (f"{address('sessions', TALK)}?unknown=1", 422),
        ("/ui/sessions/%FF", 422),
        ("/ui/assets/..%2Fserving.py", 404),
    ):
        answer = client.get(where)
        assert answer.status_code == status, where
        assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
        assert dangers(answer.text) == []
        told = client.get(where, headers={"accept-language": "zh"}).text
        assert re.search("[\u4e00-\u9fff]", read_page(told).one("h1").text), where
    assert client.post("/ui").status_code == 405
    assert client.head("/ui").status_code == 200
    assert client.head("/ui/events").status_code == 405
    assert session.status().entries


def test_assets_are_served_from_the_package(client: httpx2.Client) -> None:
    for name, kind in ASSETS.items():
        answer = client.get(address("assets", name))
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
        assert "outside" not in answer.text
        assert "//" not in answer.text.replace("http://www.w3.org/2000/svg", "").replace("// ", "")


def test_looking_changes_nothing(client: httpx2.Client, session: Session) -> None:
    before = session.status(), [each.call for each in session.calls()]
    for where in screens(session):
        page(client, where)
    assert (session.status(), [each.call for each in session.calls()]) == before


@pytest.mark.parametrize("where", ["", "log", "checkpoints"])
def test_a_call_made_after_the_page_arrives_on_its_stream(tmp_path: Path, where: str) -> None:
    store = store_at(tmp_path)
    with Memory(store, scope="acme") as memory:
        talk = memory.session("live")
        talk.user("hello")
        talk.context()
        with inspected(ServiceOptions(store=store, tenant="acme")) as service:
            for start in (address(), address("sessions", "live", *filter(None, [where]))):
                with service.client(timeout=60) as client:
                    live = page(client, start).one("main").attributes["data-live"]
                    talk.context()
                    made = talk.last_call
                    with client.stream("GET", live) as stream:
                        told = next(line for line in stream.iter_lines() if made in line)
                        assert told.startswith("id: ")


def test_rules_without_room_are_named_on_the_page_of_the_call(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    with Memory(store, scope="acme", model="gpt-4o", budget=Budget(max_tokens=800)) as memory:
        told = memory.session("kefu")
        for number, what in enumerate(
            "订单 发票 地址 电话 会员 积分 密码 仓库 颜色 赠品 保修 价格 快递 客服 尺码 退货 换货 优惠 "
            "生日 邮箱 余额 合同 工资 病历".split()
        ):
            told.user(f"绝对不要把{what}告诉第三方，第 {number} 号客户除外。")
            told.assistant("好的。" * 40)
            told.context()
        explained = told.explain()
        [left] = call_view(explained, rules=told.rules()).left_out[-1:]
    assert left.rules == len(left.named) > 2
    with (
        inspected(ServiceOptions(store=store, tenant="acme")) as service,
        service.client() as client,
    ):
        where = address("sessions", "kefu", "calls", explained.manifest.call)
        found = page(client, where)
    [table] = found.all("table", class_="left-out")
    assert rows(table)[-1][:2] == [f"{left.rules} rules", "left out"]
    listed = [item.text for item in table.all("li")]
    assert listed == [f"[{rule.seq}] {rule.text}" for rule in left.named]


def test_an_entry_without_a_client_id_shows_none(tmp_path: Path) -> None:
    with Memory(store_at(tmp_path)) as memory:
        memory.session("one").user("without 没有")
        memory.session("two").user("with 有", client_id="c-1")
    with inspected(ServiceOptions(store=store_at(tmp_path))) as service, service.client() as client:
        assert "client_id" not in client.get(address("sessions", "one", "log")).text
        assert "c-1" in client.get(address("sessions", "two", "log")).text
