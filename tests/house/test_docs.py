"""Documentation that does not run is wrong sooner or later, and two languages drift apart."""

from __future__ import annotations

import gc
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.doc_twins import HAN, block_faults, comments_of, program_of, strings_of
from tests.house.source_tree import ROOT, shown
from tests.models.strict_server import Say, StrictServer
from tools.docs_pages import fences, heading_levels, pages

ENGLISH = ROOT / "README.md"
CHINESE = ROOT / "README.zh-CN.md"
DOCUMENTS = [
    ENGLISH,
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "zh" not in path.parts),
]
TWINS = {ENGLISH: CHINESE} | {path: pages("zh")[name] for name, path in pages("en").items()}


def python_program(path: Path) -> list[object]:
    """What a page runs: equal for two pages that differ in comments and prose alone."""
    blocks = fences(path.read_text(encoding="utf-8"))
    return [program_of(block) for block in blocks if block.language == "python"]


TRANSLATED = [
    chinese
    for english, chinese in TWINS.items()
    if python_program(english) != python_program(chinese)
]
"""Chinese pages with strings of their own; the others need not run a second time."""

OTHER_ENVIRONMENTS = {
    "integrations/agent-framework.md": "agent_framework",
    "integrations/google-adk.md": "google.adk",
    "integrations/litellm.md": "litellm",
    "integrations/llama-index.md": "llama_index.core",
    "integrations/strands.md": "strands",
}
"""Pages whose blocks run in an environment of their own (`make test-llama-index`, `make test-agent-frameworks`):
page -> the package they need."""


ABOUT_CHINESE = {
    "docs/en/concepts/recall.md": "how Chinese is divided into words for search",
    "docs/en/guides/findings.md": "the documented texts of `AgentMemory` are Chinese",
    "docs/en/guides/recall.md": "a conversation in two languages",
}
"""English pages whose blocks have Chinese in them: page -> why."""


def is_english(text: str) -> bool:
    """Whether a string is a sentence or a phrase in English, and no name, address or piece of code."""
    return not HAN.search(text) and bool(re.search(r"[A-Za-z']+,? [a-z']+,? [a-z]+", text))


def run_python_blocks(document: str, *, name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the blocks in order in one module, as a reader would; say how many there were.

    The module is a real one because classes look themselves up in it; the blank lines in front
    make a traceback name the line of the document.
    """
    module = ModuleType("documentation")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    blocks = [fence for fence in fences(document) if fence.language == "python"]
    for block in blocks:
        code = compile("\n" * block.line + block.text, name, "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 - our own documentation
    return len(blocks)


CLIENTS_OF_AGENTS: list[object] = []
"""Clients of event loops that have ended: kept, because collecting one warns of its open connection."""


@pytest.fixture
def model_server(no_certificates: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A local model server at the addresses that the official SDKs read from the environment."""
    del no_certificates
    with StrictServer(lambda _: Say("Day one: the Forbidden City. 第一天去故宫。")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
        if agents := sys.modules.get("agents.models.openai_provider"):
            # The SDK keeps one client for the process; a page has an event loop of its own.
            CLIENTS_OF_AGENTS.append(vars(agents).get("_http_client"))
            vars(agents)["_http_client"] = None
        yield
        assert server.rejected == []


@pytest.mark.usefixtures("only_own_garbage", "model_server")
@pytest.mark.parametrize("path", [*DOCUMENTS, *TRANSLATED], ids=shown)
def test_every_python_block_runs_and_twice_in_the_same_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package := OTHER_ENVIRONMENTS.get("/".join(path.parts[-2:])):
        pytest.importorskip(package)
        warnings.simplefilter("ignore", DeprecationWarning)  # of such a package itself
    monkeypatch.chdir(tmp_path)
    document = path.read_text(encoding="utf-8")
    count = run_python_blocks(document, name=shown(path), monkeypatch=monkeypatch)
    if list(tmp_path.iterdir()):  # a reader runs it again, and finds what the first run left
        run_python_blocks(document, name=shown(path), monkeypatch=monkeypatch)
    monkeypatch.chdir(ROOT)
    gc.collect()  # what a page leaves open is told here, and not in whatever test comes next
    assert count or path not in {ENGLISH, CHINESE}, "the first page shows no Python"


@pytest.mark.parametrize("path", TWINS.values(), ids=shown)
def test_chinese_pages_have_chinese_comments_and_strings(path: Path) -> None:
    document = path.read_text(encoding="utf-8")
    comments = [comment for fence in fences(document) for comment in comments_of(fence)]
    assert [comment for comment in comments if not HAN.search(comment)] == []
    assert [text for text in strings_of(document) if is_english(text)] == []


@pytest.mark.parametrize("path", TWINS, ids=shown)
def test_english_pages_have_chinese_only_where_they_are_about_it(path: Path) -> None:
    blocks = fences(path.read_text(encoding="utf-8"))
    has_chinese = any(HAN.search(block.text) for block in blocks)
    assert has_chinese == (shown(path) in ABOUT_CHINESE)


def test_the_first_pages_are_short() -> None:
    for page in (ENGLISH, CHINESE):
        assert len(page.read_text(encoding="utf-8").splitlines()) <= 130


def test_both_first_pages_show_the_same() -> None:
    english, chinese = (path.read_text(encoding="utf-8") for path in (ENGLISH, CHINESE))
    assert list(block_faults(english, chinese)) == []
    assert heading_levels(english) == heading_levels(chinese)


SAMPLE = """# Title

```python
from __future__ import annotations
x = 1
```

## Part

- in a list:

  ```python
  y = x + {added}
  ```

```sh
not python
```
"""


def test_blocks_of_a_document_share_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    document = SAMPLE.format(added="1")
    assert run_python_blocks(document, name="sample.md", monkeypatch=monkeypatch) == 2
    assert vars(sys.modules["documentation"])["y"] == 2


def test_the_rule_sees_a_broken_block(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NameError) as caught:
        run_python_blocks(SAMPLE.format(added="z"), name="sample.md", monkeypatch=monkeypatch)
    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1) == ("sample.md", 13)


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("You are a careful travel agent.", True),
        ("Day {}: what should we see?", True),
        ("我们住莲花酒店（Lotus Hotel by the lake）", False),
        ("sqlite:///chat.db", False),
        ("gpt-4o", False),
        ("booked hotel", False),
        ("[redacted: email 1]", False),
    ],
)
def test_the_rule_sees_english_sentences(text: str, *, english: bool) -> None:
    assert is_english(text) is english


def test_the_rule_sees_pages_that_differ() -> None:
    assert heading_levels(SAMPLE) == ["h1", "h2"]
    assert [fence.language for fence in fences(SAMPLE)] == ["python", "python", "sh"]
    assert fences(SAMPLE) != fences(SAMPLE.replace("x = 1", "x = 2"))
    assert heading_levels(SAMPLE) != heading_levels(SAMPLE.replace("## Part", "### Part"))


INSTALL = re.compile(r"\bpip install\b[^\n`#]*")
BARE_NAME = re.compile(r"(?<![\w./-])turnfold(?:\[[\w,-]*\])?(?![\w./-])")
INSTALL_PAGES = [
    *DOCUMENTS,
    *TWINS.values(),
    *sorted(path for path in (ROOT / "examples").iterdir() if path.is_file()),
    ROOT / "deploy" / "turnfold.service",
]


def bare_installs(text: str) -> list[str]:
    """The install lines that ask a package index for turnfold, where it is not published yet."""
    return [found[0] for found in INSTALL.finditer(text) if BARE_NAME.search(found[0])]


@pytest.mark.parametrize("path", INSTALL_PAGES, ids=shown)
def test_every_install_line_works_in_a_clone(path: Path) -> None:
    assert bare_installs(path.read_text(encoding="utf-8")) == []


def test_the_rule_sees_a_package_that_is_not_published() -> None:
    lines = """pip install turnfold openai
/opt/turnfold/bin/pip install --no-deps turnfold
`pip install 'turnfold[cli]'`
pip install ".[cli]" openai  # turnfold in the clone
pip install -r /opt/turnfold/requirements.txt"""
    assert len(bare_installs(lines)) == 3


HALF_WIDTH = re.compile(r"(?<=[\u4e00-\u9fff])[,;:!?](?=[\u4e00-\u9fff])")
CHINESE_TEXTS = [*TWINS.values(), *sorted((ROOT / "src" / "turnfold").rglob("chinese_*.py"))]


@pytest.mark.parametrize("path", CHINESE_TEXTS, ids=shown)
def test_punctuation_between_chinese_characters_is_full_width(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [
        text[max(0, found.start() - 8) : found.end() + 8] for found in HALF_WIDTH.finditer(text)
    ] == []


def test_the_rule_sees_half_width_punctuation() -> None:
    assert len(HALF_WIDTH.findall("会话,记录;写法:好 12:30,见 README: 是")) == 3
