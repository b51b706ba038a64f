"""The documentation site: two languages that say the same, links that lead somewhere, nothing that does not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.house.doc_claims import (
    missing_commands,
    missing_imports,
    missing_names,
    missing_paths,
    missing_tests,
)
from tests.house.doc_twins import block_faults, twin_faults
from tests.house.source_tree import ROOT, shown
from tools.docs_pages import (
    DOCS,
    LANGUAGES,
    first_sentence,
    join_lines,
    links,
    pages,
    relink,
    site_place,
    title,
)
from tools.docs_reference import FOLDERS, OVERVIEW, exported, find, overview_page, reference_page
from tools.docs_site import (
    SCRIPT_WORDS,
    config_for,
    gather,
    in_chinese,
    llms_text,
    navigation,
)
from turnfold import Memory

ENGLISH_PAGES, CHINESE_PAGES = pages("en"), pages("zh")
ALL_PAGES = [*ENGLISH_PAGES.values(), *CHINESE_PAGES.values()]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


OTHER_TERMS = {
    r"词元": "token",
    r"(?<!访问)令牌": "访问令牌",
    r"服务方|供应商|提供商": "服务商",
    r"检视": "检查器",
    r"回忆|找回": "召回",
    r"抹去|擦除": "抹除",
    r"分叉": "分支",
    r"标识": "id",
    r"可信级别|最不可信的来源|可信程度": "准确程度 of a count, 来源 of a summary",
    r"召回的?片段": "召回的段落",
    r"基础地址": "base URL",
    r"摘要值|指纹": "哈希值",
    r"截短": "缩短",
    r"(?<=[、和])发现(?=[、，。）])": "工具所得",
    r"(?<!目录)提示(?=的开头|中用来|太长|还是|拼完)": "提示词",
}
"""Words that a Chinese page does not use -> the one term for the thing."""


def other_terms(document: str) -> list[str]:
    return [
        f"{found.group()}: write {term}"
        for pattern, term in OTHER_TERMS.items()
        for found in re.finditer(pattern, document)
    ]


def dead_links(path: Path, document: str) -> Iterator[str]:
    for link in links(document):
        target, _, part = link.target.partition("#")
        if part:
            yield f"{link.target}: a place on another page is spelled differently in the two languages"
        if not (path.parent / target).resolve().is_file():
            yield link.target


def nav_names(nav: list[object]) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            for inside in entry.values():
                yield from nav_names([inside] if isinstance(inside, str) else inside)


def test_both_languages_have_the_same_pages() -> None:
    assert sorted(ENGLISH_PAGES) == sorted(CHINESE_PAGES)
    assert len(ENGLISH_PAGES) > 40


@pytest.mark.parametrize("name", sorted(ENGLISH_PAGES))
def test_twins_show_the_same(name: str) -> None:
    english, chinese = text_of(ENGLISH_PAGES[name]), text_of(CHINESE_PAGES[name])
    assert list(twin_faults(english, chinese)) == []


@pytest.mark.parametrize("path", [*CHINESE_PAGES.values(), ROOT / "README.zh-CN.md"], ids=shown)
def test_chinese_pages_use_one_term_for_a_thing(path: Path) -> None:
    assert other_terms(text_of(path)) == []


@pytest.mark.parametrize(
    "name",
    [
        *("cli/chinese_help.py", "cli/chinese_labels.py", "cli/chinese_library_errors.py"),
        *("cli/chinese_messages.py", "inspect/chinese_reasons.py", "service/inspector/labels.py"),
    ],
)
def test_what_commands_and_pages_show_uses_the_same_terms(name: str) -> None:
    assert other_terms(text_of(ROOT / "src/turnfold" / name)) == []


def test_the_rule_sees_another_term() -> None:
    assert other_terms("访问令牌与 token，由服务商计数") == []
    assert other_terms("固定项、状态和发现，发现问题") == ["发现: write 工具所得"]
    assert other_terms("令牌与词元") == ["词元: write token", "令牌: write 访问令牌"]


@pytest.mark.parametrize("path", ALL_PAGES, ids=shown)
def test_links_lead_somewhere(path: Path) -> None:
    assert list(dead_links(path, text_of(path))) == []


@pytest.mark.parametrize("path", [*ALL_PAGES, DOCS / "benchmarks.md"], ids=shown)
def test_pages_name_only_what_exists(path: Path) -> None:
    document = text_of(path)
    assert [
        *missing_names(document),
        *missing_imports(document),
        *missing_paths(document),
        *missing_tests(document),
        *missing_commands(document),
    ] == []


def test_every_page_is_in_the_navigation() -> None:
    nav = yaml.safe_load(text_of(DOCS / "mkdocs.yml"))["nav"]
    assert sorted(nav_names(nav)) == sorted(ENGLISH_PAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_on_the_site_every_link_leads_to_a_page(language: str) -> None:
    known = pages(language)
    for name, path in known.items():
        moved = relink(text_of(path), site_place(name, path, known))
        for link in links(moved):
            meant = (Path(name).parent / link.target).as_posix()
            there = Path(re.sub(r"[^/]+/\.\./", "", meant)).as_posix()
            assert there in known or there.startswith("images/"), f"{name}: {link.target}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_reference_shows_every_public_name(folder: str) -> None:
    module = f"turnfold.{folder}"
    assert [name for name in exported(module) if find(module, name) is None] == []
    page = reference_page(folder, heading=module, note="")
    assert [name for name in exported(module) if f"\n## {name}\n" not in page] == []


def test_the_reference_has_a_page_for_every_folder() -> None:
    folders = {path.parent.name for path in (ROOT / "src" / "turnfold").glob("*/__init__.py")}
    assert folders - {*FOLDERS} == {"adapters", "cli"}  # these two have pages of their own


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_site_is_put_together(language: str) -> None:
    """Everything but the last step, which needs Zensical and an environment of its own."""
    base = yaml.safe_load(text_of(DOCS / "mkdocs.yml"))
    texts = gather(language)
    config = config_for(base, language, texts)
    shown_pages = sorted(nav_names(config["nav"]))
    assert shown_pages == sorted(texts)
    assert {f"reference/{folder}.md" for folder in FOLDERS} < set(shown_pages)
    assert config["theme"]["language"] == language
    brightness = {"en": "Brightness: ", "zh": "明暗："}[language]
    palette = config["theme"]["palette"]
    assert [each["media"] for each in palette] == [
        "(prefers-color-scheme)",
        "(prefers-color-scheme: light)",
        "(prefers-color-scheme: dark)",
    ]
    assert all(each["toggle"]["name"].startswith(brightness) for each in palette)
    assert base["theme"].get("language") is None  # the shared settings are not changed on the way
    lines = llms_text(base, texts).splitlines()
    assert len([line for line in lines if line.startswith("- [")]) == len(texts)
    assert [line for line in lines if "(integrations/llama-index/)" in line]
    assert lines[2] == f"> {first_sentence(texts['index.md'])}"


def test_the_script_of_the_chinese_site_speaks_chinese() -> None:
    shown = 'a("aria-label":"Filters",b?"result":"results",children:"Tags")'
    script = "".join(SCRIPT_WORDS).join((shown, ""))
    assert [word for word in SCRIPT_WORDS if word in in_chinese(script)] == []
    assert '"筛选",b?"个结果":"个结果"' in in_chinese(script)
    with pytest.raises(SystemExit, match="no longer has"):
        in_chinese(shown)  # of another release


def test_a_page_that_the_navigation_names_and_nobody_wrote_is_seen() -> None:
    with pytest.raises(KeyError, match=r"gone\.md"):
        navigation(["index.md", "gone.md"], {"index.md": PAGE})
    told = navigation([{"part": ["part/index.md"]}], {"part/index.md": PAGE})
    assert told == [{"Title": [{"Title": "part/index.md"}]}]


PAGE = "# Title\n\nSays **what** it is. And more.\n\n## Part\n\n```python\nx = 1\n```\n"
TWIN = "# 标题\n\n说明。\n\n## 部分\n\n```python\nx = 1\n```\n"


def test_the_rules_see_twins_that_differ() -> None:
    assert list(twin_faults(PAGE, TWIN)) == []
    assert list(twin_faults(PAGE, TWIN.replace("##", "###"))) == ["the headings differ"]
    [fault] = twin_faults(PAGE, TWIN.replace("x = 1", "x = 2"))
    assert fault == "the code of line 7 differs"
    [only] = twin_faults(PAGE.replace("it is.", "`it` is."), TWIN)
    assert only == "names that only one of them has: ['it']"
    assert list(twin_faults(PAGE, PAGE)) == ["the Chinese page is not in Chinese"]


CODE = """# Plan the trip
ask = session.user("Three days in Beijing, please", client_id="turn-1")
for day in range(3):
    print(f"Day {day:>2}: {ask.text}", day)  # one line for each
"""
TRANSLATED = """# 安排行程
ask = session.user(
    "请安排北京三天的行程", client_id="turn-1"
)
for day in range(3):
    print(f"第 {day:>2} 天：{ask.text}", day)  # 每天一行
"""


@pytest.mark.parametrize(
    ("was", "changed"),
    [
        ("range(3)", "range(4)"),
        ("session.user(", "session.assistant("),
        ("client_id=", "message_id="),
        ('"turn-1"', '"turn-2"'),
        ("{day:>2}", "{day:>3}"),
        ("{ask.text}", "{ask}"),
        ("for day in range(3):\n", "if day := 3:\n"),
        ('    print(f"第 {day:>2} 天：{ask.text}", day)', "    pass"),
        ('", day)', '")'),
        ("\n)\n", "\n)\nmemory.close()\n"),
    ],
)
def test_the_rule_sees_another_program_and_lets_a_translation_pass(was: str, changed: str) -> None:
    pages = [f"# T\n\n```python\n{code}```\n" for code in (CODE, TRANSLATED)]
    assert list(block_faults(*pages)) == []
    assert TRANSLATED.count(was) == 1
    other = TRANSLATED.replace(was, changed)
    assert len(list(block_faults(pages[0], f"# T\n\n```python\n{other}```\n"))) == 1


@pytest.mark.parametrize(
    ("was", "changed"),
    [("8000", "9000"), ("demo", "top"), ("turnfold demo --budget 8000  # 演示\n", "")],
)
def test_the_rule_sees_another_command(was: str, changed: str) -> None:
    english = '```sh\nturnfold demo --budget 8000   # the demo\necho "Hello"\n```\n'
    chinese = '```sh\nturnfold demo --budget 8000  # 演示\necho "你好"\n```\n'
    assert list(block_faults(english, chinese)) == []
    assert len(list(block_faults(english, chinese.replace(was, changed)))) == 1


def test_the_rule_sees_a_block_that_is_missing_or_of_another_language() -> None:
    page = f"```python\n{CODE}```\n"
    assert len(list(block_faults(page, page + page))) == 1
    assert len(list(block_faults(page, page.replace("python", "py")))) == 1


def test_the_rules_see_a_dead_link(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# Other\n", encoding="utf-8")
    good = "[a](other.md) `[b](gone.md)` [c](https://example.org/x) [d](#part)\n"
    assert list(dead_links(page, good)) == []
    assert list(dead_links(page, "[a](gone.md)")) == ["gone.md"]
    assert len(list(dead_links(page, "[a](other.md#part)"))) == 1
    assert list(dead_links(page, f"```\n{good}[x](gone.md)\n```\n")) == []


def test_links_are_moved_to_the_site() -> None:
    source = DOCS / "metrics.md"
    known = {"operate/metrics.md": source, "index.md": DOCS / "en" / "index.md"}
    place = site_place("operate/metrics.md", source, known)
    moved = relink("[why](en/index.md) [code](../bench/judge.py) ![p](images/demo.svg)", place)
    assert moved == "[why](../index.md) code ![p](../images/demo.svg)"


def test_chinese_lines_are_joined_and_code_is_not() -> None:
    assert join_lines("等列表超出\n窗口，\n就丢掉") == "等列表超出窗口，就丢掉"
    untouched = "一\n\n二\n- 三\nfour\n| 五 |\n\n```python\n# 六\n七 = 八\n九\n十\n```\n"
    assert join_lines(untouched) == untouched


def test_what_a_page_says_first() -> None:
    assert (title(PAGE), first_sentence(PAGE)) == ("Title", "Says what it is.")
    assert first_sentence(TWIN) == "说明。"
    with pytest.raises(ValueError, match="no heading"):
        title("no heading here")


def test_the_page_of_public_names_is_current() -> None:
    written = OVERVIEW.read_text(encoding="utf-8")
    assert written == overview_page(), "write it anew: python -m tools.docs_reference"
    for folder in FOLDERS:
        assert f"\n## turnfold.{folder}\n" in written
    assert "  - `user(" in written


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_of_options_is_that_of_the_signature(language: str) -> None:
    page = (DOCS / language / "concepts" / "memory.md").read_text(encoding="utf-8")
    assert _options_of(page) == _options_of_memory()


def test_a_wrong_default_in_the_table_is_noticed() -> None:
    page = (DOCS / "en" / "concepts" / "memory.md").read_text(encoding="utf-8")
    assert _options_of(page.replace("| `0.75` |", "| `0.8` |")) != _options_of_memory()
    assert Memory().budget.tokens == 12_000
    assert Memory(model="gpt-4o").budget.tokens == 96_000


def _options_of(page: str) -> list[tuple[str, ...]]:
    """The name, type and default of each option in the table of a page."""
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \| `(.+?)` \| .+ \|$", page, re.MULTILINE)
    return [(name, kind.replace(r"\|", "|"), default) for name, kind, default in rows]


def _options_of_memory() -> list[tuple[str, ...]]:
    found = find("turnfold.memory", "Memory")
    assert found is not None
    assert isinstance(found.node, ast.ClassDef)
    [init] = [
        each
        for each in found.node.body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    ]
    given = [
        *zip(init.args.args[1:], init.args.defaults, strict=True),
        *zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True),
    ]
    return [
        (arg.arg, ast.unparse(arg.annotation), ast.unparse(value))
        for arg, value in given
        if arg.annotation is not None and value is not None
    ]
