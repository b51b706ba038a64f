"""Builds the documentation: `make docs`, or `python -m tools.docs_site` where Zensical is installed.

The pages are gathered under build/docs, the reference and the pages kept elsewhere in the project beside them, and
built into build/site: English at its root, Chinese under zh/. The gathering is ours because Zensical reads one folder
per language, and a page should stand where the project links to it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tools.docs_pages import (
    DOCS,
    LANGUAGES,
    ROOT,
    address,
    first_sentence,
    join_lines,
    pages,
    relink,
    site_place,
    title,
)
from tools.docs_reference import FOLDERS, reference_page

__all__ = (
    "SCRIPT_WORDS",
    "SEARCH_WORKER",
    "config_for",
    "gather",
    "in_chinese",
    "llms_text",
    "main",
    "navigation",
    "with_words",
)

STAGE = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
SEARCH_WORKER = Path(__file__).with_name("search_worker.js")
GENERATED_NOTE = {
    "en": "Written from the source by `tools/docs_reference.py`.",
    "zh": "由 `tools/docs_reference.py` 从源码生成；说明文字是源码里的英文。",
}
TABLES_HEAD = {
    "en": "# Benchmark tables",
    "zh": "# 基准测试的全部表格\n\n> 本页由 `python -m bench --write` 写成，说明为英文；"
    "中文概述见[基准测试](benchmarks.md)。",
}
SECTION_TITLES = {"start": {"en": "Get started", "zh": "开始使用"}}
"""Titles of the parts of the navigation that have no index page of their own."""
BRIGHTNESS = {
    "as the system": {"en": "Brightness: as the system", "zh": "明暗：跟随系统"},
    "light": {"en": "Brightness: light", "zh": "明暗：亮色"},
    "dark": {"en": "Brightness: dark", "zh": "明暗：暗色"},
}
"""Names of the choices of brightness."""
SCRIPT_WORDS = {
    '"Search"': '"搜索"',
    '"Filters"': '"筛选"',
    'children:"Tags"': 'children:"标签"',
    '"Close search"': '"关闭搜索"',
    '"Search results"': '"搜索结果"',
    '"No results"': '"没有结果"',
    '"Loading search\\u2026"': '"正在载入搜索……"',
    '?"result":"results"': '?"个结果":"个结果"',
}
"""Words that Zensical's script shows in English whatever the language of the site -> Chinese."""
SEARCHED_FOR = {"en": ("checkpoint", "budget", "预算"), "zh": ("检查点", "预算", "折叠")}
"""Words a search must be able to find: checked in the built index."""


def main() -> None:
    """Gather, build both languages, check what was built, and say where it is."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    base = yaml.safe_load((DOCS / "mkdocs.yml").read_text(encoding="utf-8"))
    for language in LANGUAGES:
        texts = gather(language)
        _write_pages(language, texts)
        config = STAGE.parent / f"mkdocs.{language}.yml"
        config.write_text(
            json.dumps(config_for(base, language, texts), ensure_ascii=False, indent=1),
            encoding="utf-8",
        )
        _zensical(config)
        _write_llms(language, base, texts)
        _finish_search(language)
        _translate_script(language)
    _join_twins()
    sys.stdout.write(
        f"the documentation is in {SITE.relative_to(ROOT)}: open index.html and zh/index.html\n"
    )


def gather(language: str) -> dict[str, str]:
    """Every page of a language by its name on the site, links moved to where they lead there."""
    sources = pages(language) | {"benchmark-tables.md": DOCS / "benchmarks.md"}
    texts = {
        name: join_lines(relink(path.read_text(encoding="utf-8"), site_place(name, path, sources)))
        for name, path in sources.items()
    }
    _, _, tables = texts["benchmark-tables.md"].partition("\n")
    texts["benchmark-tables.md"] = TABLES_HEAD[language] + "\n" + tables
    for folder in FOLDERS:
        texts[f"reference/{folder}.md"] = reference_page(
            folder, heading=f"turnfold.{folder}", note=GENERATED_NOTE[language]
        )
    return texts


def navigation(nav: list[Any], texts: dict[str, str], language: str = "en") -> list[Any]:
    """The navigation with titles: a page's is its first heading, a part's that of its index, or in SECTION_TITLES."""
    told: list[Any] = []
    for entry in nav:
        if isinstance(entry, str):
            told.append({title(texts[entry]): entry})
        else:
            [(part, inside)] = entry.items()
            known = SECTION_TITLES.get(part)
            heading = known[language] if known else title(texts[f"{part}/index.md"])
            told.append({heading: navigation(inside, texts, language)})
    return told


def _with_generated(nav: list[Any]) -> list[Any]:
    """The shared navigation and the pages that are made while building."""
    whole: list[Any] = []
    for entry in nav:
        if isinstance(entry, str):
            whole += [entry, "benchmark-tables.md"] if entry == "benchmarks.md" else [entry]
        else:
            [(part, inside)] = entry.items()
            made = [f"reference/{folder}.md" for folder in FOLDERS] if part == "reference" else []
            whole.append({part: [*_with_generated(inside), *made]})
    return whole


def config_for(base: dict[str, Any], language: str, texts: dict[str, str]) -> dict[str, Any]:
    """The settings of one language; JSON is YAML, so any MkDocs-like tool reads it."""
    return base | {
        "docs_dir": f"docs/{language}",
        "site_dir": "site" if language == "en" else f"site/{language}",
        "theme": base["theme"]
        | {"language": language, "palette": _palette(base["theme"]["palette"], language)},
        "extra": {
            "generator": False,
            "alternate": [
                {"name": "English", "link": "./" if language == "en" else "../", "lang": "en"},
                {"name": "中文", "link": "./zh/" if language == "en" else "./", "lang": "zh"},
            ],
        },
        "nav": navigation(_with_generated(base["nav"]), texts, language),
    }


def _palette(choices: list[dict[str, Any]], language: str) -> list[dict[str, Any]]:
    """The choices of brightness, each toggle named in the language by what a click on it brings."""
    names = [each["toggle"]["name"] for each in choices]
    following = dict(zip(names, [*names[1:], names[0]], strict=True))
    return [
        each
        | {
            "toggle": each["toggle"]
            | {"name": BRIGHTNESS[following[each["toggle"]["name"]]][language]}
        }
        for each in choices
    ]


def _write_pages(language: str, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = STAGE / language / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "images", STAGE / language / "images")


def _zensical(config: Path) -> None:
    command = [
        Path(sys.executable).parent / "zensical",
        "build",
        "--strict",
        "--clean",
        "-f",
        config,
    ]
    subprocess.run([str(part) for part in command], check=True, cwd=STAGE.parent)


def _place(language: str) -> Path:
    return SITE if language == "en" else SITE / language


def llms_text(base: dict[str, Any], texts: dict[str, str]) -> str:
    """What the site holds, for a reader that is a program: one line a page."""
    lines = [f"# {base['site_name']}", "", f"> {first_sentence(texts['index.md'])}", ""]
    lines += [
        f"- [{title(texts[name])}]({address(name) or './'}): {first_sentence(texts[name])}"
        for name in _flat(_with_generated(base["nav"]))
    ]
    return "\n".join(lines) + "\n"


def _flat(nav: list[Any]) -> list[str]:
    return [
        name
        for entry in nav
        for name in ([entry] if isinstance(entry, str) else _flat(next(iter(entry.values()))))
    ]


def _write_llms(language: str, base: dict[str, Any], texts: dict[str, str]) -> None:
    place = _place(language)
    (place / "llms.txt").write_text(llms_text(base, texts), encoding="utf-8")
    whole = [texts[name].strip() for name in _flat(base["nav"]) if not name.startswith("reference")]
    (place / "llms-full.txt").write_text("\n\n---\n\n".join(whole) + "\n", encoding="utf-8")


def with_words(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of a search index, with what people type for a page beside its first item."""
    table = yaml.safe_load((DOCS / "search_words.yml").read_text(encoding="utf-8"))
    phrases = {
        f"{page}/": "; ".join(phrase for line in lines for phrase in line.split(", "))
        for page, lines in table.items()
    }
    return [
        item | {"words": phrases[item["location"]]} if item["location"] in phrases else item
        for item in items
    ]


def _finish_search(language: str) -> None:
    """Put our own worker in the place of Zensical's, and see that its index holds what people look for."""
    path = _place(language) / "search.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    index["items"] = with_words(index["items"])
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")
    [worker] = (_place(language) / "assets/javascripts/workers").glob("search.*.js")
    shutil.copyfile(SEARCH_WORKER, worker)
    text = "\n".join(f"{item['title']} {item['text']}" for item in index["items"])
    if missing := [word for word in SEARCHED_FOR[language] if word not in text]:
        sys.exit(f"the search index of {language} lacks {', '.join(missing)}")


def in_chinese(script: str) -> str:
    """The script of a Chinese site, with the words that a reader sees in Chinese."""
    for english, chinese in SCRIPT_WORDS.items():
        if english not in script:
            sys.exit(f"the script of the site no longer has {english}: mend SCRIPT_WORDS")
        script = script.replace(english, chinese)
    return script


def _translate_script(language: str) -> None:
    if language != "zh":
        return
    [path] = (_place(language) / "assets/javascripts").glob("bundle.*.js")
    path.write_text(in_chinese(path.read_text(encoding="utf-8")), encoding="utf-8")


def _join_twins() -> None:
    """Let the switch of languages lead to the same page; left alone it leads to the first one."""
    for page in SITE.rglob("index.html"):
        inside = page.relative_to(SITE).parent
        name = inside.relative_to("zh") if inside.parts[:1] == ("zh",) else inside
        html = page.read_text(encoding="utf-8")
        for language in LANGUAGES:
            twin = os.path.relpath(_place(language) / name, page.parent)
            html = re.sub(
                rf'href="[^"]*" hreflang="{language}"',
                f'href="{twin}/" hreflang="{language}"',
                html,
            )
        page.write_text(html, encoding="utf-8")


if __name__ == "__main__":
    main()
