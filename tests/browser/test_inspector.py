"""The inspector in a real browser: every screen by its keys and links, checked against the store; live; both themes."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Page, Watched, browsing, expect, picture
from tests.house.source_tree import ROOT
from tests.inspector.seeded import CONTENT, TALK, inspected, seed, store_at
from tests.service.running import Running, make_tokens
from turnfold.budget import Budget
from turnfold.cli.demo.report import MODEL, report
from turnfold.inspect import call_point, call_view, diff_calls
from turnfold.memory import Memory, Session
from turnfold.service import ServiceOptions
from turnfold.service.inspector.charts import parts_of
from turnfold.service.inspector.html import address

pytestmark = pytest.mark.slow
DATA = ROOT.parent / "shared" / "data"
DARK = "rgb(20, 22, 26)"
LIGHT = "rgb(251, 251, 250)"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An invented session, and the sample of `turnfold demo`, which is long and in two languages."""
    folder = tmp_path_factory.mktemp("browser")
    made = store_at(folder)
    report(6_000, keep=folder / "chat.db")
    seed(made, tenant="default")
    return made


@pytest.fixture(scope="module")
def served(store: str) -> Iterator[Running]:
    with inspected(ServiceOptions(store=store)) as service:
        yield service


@pytest.fixture
def watched(served: Running) -> Iterator[Watched]:
    with browsing(served.url) as watched:
        yield watched
        assert watched.wanted == watched.outside == []
        assert watched.said == []
        assert watched.dialogs == []


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page


@pytest.fixture
def session(store: str) -> Iterator[Session]:
    with Memory(store, model=MODEL) as memory:
        yield memory.session("warehouse")


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_text_contents()


def test_sessions_open_by_keys(page: Page, store: str, tmp_path: Path) -> None:
    page.goto("/ui")
    with Memory(store) as memory:
        infos = sorted(memory.conversations(), key=lambda info: -info.updated)
    assert texts(page, "tbody a.row") == [info.conversation for info in infos]
    expect(page.locator("#live")).to_have_class(re.compile(r"\bon\b"))
    picture(page, "sessions", tmp_path)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("tbody a.row").first).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("ware")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui?name=ware*")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/sessions/warehouse")
    expect(page.locator("h1")).to_have_text("warehouse")


def test_the_timeline_is_drawn_to_scale(page: Page, session: Session, tmp_path: Path) -> None:
    page.goto(address("sessions", "warehouse", most=60))
    calls = [call_point(each) for each in session.calls(limit=1000)][-60:]
    bars = page.locator("svg.timeline g.call")
    assert [bar.get_attribute("data-call") for bar in bars.all()] == [call.call for call in calls]
    heights = page.evaluate(
        """() => [...document.querySelectorAll("svg.timeline g.call")].map(
            (bar) => [...bar.querySelectorAll("rect")].map((r) => [r.dataset.part, r.getBBox().height]))"""
    )
    scale = max(
        sum(high for _, high in bar) / call.tokens for bar, call in zip(heights, calls, strict=True)
    )
    for bar, call in zip(heights, calls, strict=True):
        for part, high in bar:
            assert high == pytest.approx(parts_of(call)[part] * scale, abs=0.2)
    picture(page, "timeline", tmp_path)
    bars.nth(10).click()
    page.wait_for_url(f"**/calls/{calls[10].call}")


def test_a_call_shows_what_the_model_saw(page: Page, session: Session, tmp_path: Path) -> None:
    made = session.calls(limit=1000)[-3].call
    page.goto(address("sessions", "warehouse", "calls", made))
    seen = call_view(session.explain(made))
    rows = page.locator("ol.items > li")
    assert [row.get_attribute("data-tokens") for row in rows.all()] == [
        str(item.tokens) for item in seen.items
    ]
    picture(page, "call", tmp_path)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(rows.first.locator("pre")).to_be_visible()
    expect(rows.first.locator("pre")).to_have_text(session.explain(made).messages[0].text)
    for form in ("OpenAI", "Anthropic", "raw"):
        page.get_by_role("link", name=form, exact=True).click()
        expect(page.locator("nav.forms a[aria-current]")).to_have_text(form)
        said = json.loads(page.locator("pre.json").first.inner_text())
        assert said
    page.go_back()
    expect(page.locator("nav.forms a[aria-current]")).to_have_text("Anthropic")


def test_two_calls_are_compared(page: Page, session: Session, tmp_path: Path) -> None:
    calls = session.calls(limit=1000)
    at = next(
        i for i in range(len(calls) - 1, 0, -1) if calls[i].checkpoint != calls[i - 1].checkpoint
    )
    page.goto(address("sessions", "warehouse", "calls", calls[at].call))
    page.get_by_role("link", name="compare with the call before").click()
    real = diff_calls(session.explain(calls[at - 1].call), session.explain(calls[at].call))
    assert real.first is not None
    expect(page.locator("p.lead")).to_have_attribute("data-rebilled", str(real.rebilled))
    expect(page.locator("[data-index]")).to_have_attribute("data-index", str(real.first.index))
    picture(page, "diff", tmp_path)
    page.select_option("select[name=before]", calls[0].call)
    page.get_by_role("button", name="compare").click()
    page.wait_for_url(re.compile(f"before={calls[0].call}"))


def test_checkpoints_lead_to_originals(page: Page, session: Session, tmp_path: Path) -> None:
    page.goto(address("sessions", "warehouse", "checkpoints"))
    made = session.checkpoints()
    articles = page.locator("article")
    assert articles.count() == len(made)
    assert articles.first.locator("pre.summary").text_content() == made[-1].text
    picture(page, "checkpoints", tmp_path)
    articles.first.get_by_role("link", name="originals").click()
    page.wait_for_url("**/log?*")
    seqs = [int(li.get_attribute("data-seq") or 0) for li in page.locator("ol.items > li").all()]
    assert seqs == list(range(made[-2].upto + 1, made[-1].upto + 1))


def test_the_recall_lab_finds_chinese_and_english(
    page: Page, session: Session, tmp_path: Path
) -> None:
    page.goto(address("sessions", "warehouse", "recall"))
    for query in ("Stowage price", "锂电池"):
        page.keyboard.press("/")
        page.keyboard.type(query)
        page.keyboard.press("Enter")
        expect(page.locator("table.matches")).to_be_visible()
        found = [f"#{each.seq}" for each in session.recall(query, limit=10)]
        assert texts(page, "table.matches a.row") == found
        assert page.locator("mark").count() > 0
        picture(page, "recall", tmp_path)
        page.mouse.click(5, 5)


def test_the_recall_lab_shows_what_a_score_is_made_of(page: Page) -> None:
    page.goto(address("sessions", "warehouse", "recall", query="Stowage price"))
    heads = texts(page, "table.matches th")
    assert heads[3:7] == ["score", "by words", "by meaning", "by neighbours"]
    cells = page.locator("table.matches tbody tr").first.locator("td").all_text_contents()
    assert cells[3] == cells[4]
    assert cells[5] == "-"


def test_a_call_and_a_fork_are_taken_along(
    watched: Watched, session: Session, tmp_path: Path
) -> None:
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, made = watched.page, session.calls(limit=1000)[-3].call
    page.goto(address("sessions", "warehouse", "calls", made))
    for label, begins in (
        ("copy as a command", f"turnfold explain warehouse {made}"),
        ("copy as curl for OpenAI", "curl -sS"),
        ("copy as pytest", "import os"),
    ):
        block = page.locator("details.to-copy", has_text=label)
        expect(block.locator("pre")).not_to_be_visible()
        block.locator("summary").click()
        block.get_by_role("button", name="copy").click()
        expect(block.locator("button")).to_have_text("copied")
        taken = page.evaluate("navigator.clipboard.readText()")
        assert taken.startswith(begins)
        assert taken.strip() == block.locator("pre").text_content().strip()
    picture(page, "copied", tmp_path)
    page.goto(address("sessions", "warehouse", "checkpoints"))
    page.locator("details.to-copy summary").first.click()
    upto = session.checkpoints()[-1].upto
    command = page.locator("pre.copied").first.text_content()
    assert command.strip() == (
        f"turnfold fork warehouse warehouse-from-{upto} --at {upto} --tenant default"
    )
    assert page.locator("main form[method=post]").count() == 0


def test_where_a_browser_keeps_its_clipboard_the_text_is_selected(
    page: Page, session: Session
) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined});")
    page.goto(address("sessions", "warehouse", "calls", session.calls(limit=1000)[-3].call))
    block = page.locator("details.to-copy", has_text="copy as pytest")
    block.locator("summary").click()
    block.get_by_role("button", name="copy").click()
    assert page.evaluate("getSelection().toString()").startswith("import os")


def test_snapshots_are_compared(page: Page, tmp_path: Path) -> None:
    page.goto(address("sessions", TALK, "snapshots"))
    assert texts(page, "tbody a.row") == ["1", "2", "5"]
    page.get_by_role("link", name="compare").first.click()
    page.wait_for_url("**/snapshots/diff?*")
    patch = page.locator("section[data-path='notes/a b.txt']")
    assert "-two\n" in texts(page, "section[data-path='notes/a b.txt'] del")
    assert "+three\n" in texts(page, "section[data-path='notes/a b.txt'] ins")
    expect(patch).to_be_visible()
    picture(page, "snapshots", tmp_path)


def test_health_and_the_log(page: Page, session: Session) -> None:
    page.goto(address("health"))
    expect(page.locator("main")).to_contain_text("sqlite")
    page.goto(address("sessions", "warehouse", "log"))
    assert page.locator("ol.items > li").count() == min(session.status().entries, 100)


def test_dark_and_light_and_chinese(page: Page, tmp_path: Path) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(address("sessions", "warehouse"))
    expect(page.locator("body")).to_have_css("background-color", DARK)
    page.get_by_role("link", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page.locator("nav.tabs a").first).to_have_text("时间线")
    picture(page, "timeline.zh", tmp_path)
    page.click("#brightness")
    expect(page.locator("body")).to_have_css("background-color", LIGHT)
    page.goto(address("health"))
    expect(page.locator("h1")).to_have_text("健康")
    expect(page.locator("body")).to_have_css("background-color", LIGHT)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [390, 1000, 1440])
def test_every_screen_fits_its_width(page: Page, store: str, language: str, width: int) -> None:
    with Memory(store) as memory:
        calls = [each.call for each in memory.session(TALK).calls()]
        long = [each.call for each in memory.session("warehouse").calls(limit=1000)][-9:]
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme="dark" if language == "zh" else "light")
    at, other = ("sessions", TALK), ("sessions", "warehouse")
    for where in (
        address(lang=language),
        address(text="order 订单"),
        address("health"),
        address(*other),
        address(*other, "calls", long[-1]),
        address(*other, "diff", before=long[0], after=long[-1]),
        *(address(*at, tab) for tab in ("log", "checkpoints", "rules", "memory", "costs")),
        *(address(*at, "calls", calls[-1], form=form) for form in ("openai", "raw")),
        address(*other, "recall", query="Stowage price"),
        address(*at, "snapshots"),
        address(*at, "snapshots", 2),
        address(*at, "snapshots", "diff", before=1, after=5),
    ):
        page.goto(where)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, where
        clipped = """[...document.querySelectorAll(".table")]
            .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.textContent)"""
        assert page.evaluate(clipped) == [], where
        times = texts(page, "time")
        broken = """[...document.querySelectorAll("td time")].filter((shown) => {
            const day = document.createRange();
            day.setStart(shown.firstChild, 0);
            day.setEnd(shown.firstChild, 10);
            return day.getClientRects().length > 1;
        }).length"""
        assert page.evaluate(broken) == 0, f"a date is broken over two lines: {where}"
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+", each) for each in times)


def test_calls_arrive_while_somebody_looks(page: Page, store: str) -> None:
    with Memory(store, budget=Budget(max_tokens=900)) as memory:
        session = memory.session("live talk")
        session.user(CONTENT)
        session.context()
        page.goto(address("sessions", "live talk"))
        expect(page.locator("#live")).to_have_class(re.compile(r"\bon\b"))
        expect(page.locator("g.call")).to_have_count(1)
        page.evaluate("document.body.dataset.same = 'page'")
        for count in (2, 3):
            session.assistant(f"answer {count}")
            session.user("<script>window.ran = 1</script>")
            session.context()
            expect(page.locator("g.call")).to_have_count(count)
        assert page.evaluate("document.body.dataset.same") == "page"  # it was not loaded again
        assert page.evaluate("window.ran") is None


def test_somebody_signs_in(store: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    made = make_tokens(file, ("reader", "default", ["read"]))
    options = ServiceOptions(store=store, tokens_file=file)
    with inspected(options) as service, browsing(service.url) as watched:
        page = watched.page
        page.goto("/ui")
        expect(page.locator("h1")).to_have_text("sign in")
        page.fill("input[name=token]", made["reader"])
        page.keyboard.press("Enter")
        expect(page.locator("tbody a.row").first).to_be_visible()
        page.locator("a.row", has_text="warehouse").click()
        expect(page.locator("#live")).to_have_class(re.compile(r"\bon\b"))
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="sign out").click()
        expect(page.locator("h1")).to_have_text("sign in")
        assert watched.outside == []


@pytest.mark.skipif(not DATA.exists(), reason="the real conversations are not beside this checkout")
def test_real_conversations_are_drawn(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    with Memory(store, budget=Budget(max_tokens=16_000), fold="inline") as memory:
        for path in sorted((DATA / "traces").glob("*.jsonl.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                trace = json.loads(next(lines))
            session = memory.session(f"{path.name.split('.')[0]}")
            for message in trace["messages"]:
                session.add([message])
                if message["role"] == "user":
                    session.context()
    with inspected(ServiceOptions(store=store)) as service, browsing(service.url) as watched:
        with Memory(store) as memory:
            for info in memory.conversations():
                session = memory.session(info.conversation)
                calls = session.calls(limit=1000)
                watched.page.goto(address("sessions", info.conversation, most=2000))
                assert watched.page.locator("g.call").count() == len(calls) > 0
                watched.page.goto(address("sessions", info.conversation, "calls", calls[-1].call))
                sent = watched.page.locator("ol.items > li")
                assert sent.count() == calls[-1].messages
                watched.page.goto(address("sessions", info.conversation, "checkpoints"))
                assert watched.page.locator("article").count() == len(session.checkpoints())
        assert (watched.wanted, watched.said) == ([], [])
