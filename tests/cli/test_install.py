"""The first commands of a newcomer: the wheel in an empty environment, with no extra and with the extra `cli`.

Each command works, or ends with one line that names the extra to install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT, shown
from tests.house.test_docs import DOCUMENTS
from tools.docs_pages import fences

pytestmark = pytest.mark.slow

UV = Path(sys.executable).parent / "uv"


def installed(folder: Path, wanted: str) -> Path:
    """Install the wheel of this tree with an extra in a new environment; return the folder of its programs."""
    source = folder / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = str(venv / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet"]
    if UV.exists():
        install = [str(UV), "pip", "install", "--quiet", "--python", python]
    done = subprocess.run(
        [*install, f"{source}{wanted}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"turnfold{wanted} cannot be installed here: {done.stderr[-300:]}")
    return venv / "bin"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("bare"), "")


@pytest.fixture(scope="module")
def with_cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("cli"), "[cli]")


def run(
    program: Path, *arguments: str, home: Path, lang: str = "C.UTF-8"
) -> subprocess.CompletedProcess[str]:
    """Run a program as a new user: an empty home, no variables of this project, no input."""
    kept = {"PATH": os.environ["PATH"], "LANG": lang, "HOME": str(home), "PYTHONUTF8": "1"}
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        check=False,
        cwd=home,
        encoding="utf-8",
        env={**kept, "XDG_DATA_HOME": str(home / "data"), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


def test_the_library_alone_names_the_extra_of_its_command(bare: Path, tmp_path: Path) -> None:
    done = run(bare / "turnfold", "demo", home=tmp_path)
    assert done.returncode == 4
    [line] = done.stderr.splitlines()
    assert line.endswith("pip install 'turnfold[cli]'")


SCRIPTED = """
from turnfold import Agent, Memory
from turnfold.testing import ScriptedModel, audit
with Memory("sqlite:///chat.db") as memory:
    print(Agent(memory, ScriptedModel(["Clear. 晴。"])).run("s1", "Weather? 天气？").text)
try:
    from turnfold.testing import StoreConformance
except ImportError as missing:
    print(missing)
"""


def test_the_scripted_model_needs_neither_pytest_nor_hypothesis(bare: Path, tmp_path: Path) -> None:
    done = run(bare / "python", "-c", SCRIPTED, home=tmp_path)
    assert done.stderr == ""
    answer, missing = done.stdout.splitlines()
    assert answer == "Clear. 晴。"
    assert missing.endswith("needs the package 'hypothesis': pip install 'turnfold[testing]'")


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("ui --no-browser", "service"),
        ("serve", "service"),
        ("serve --mcp", "service"),
        ("mcp", "mcp"),
        ("mcp --http", "mcp"),
        ("chat --model gpt-4o --once hello", "openai"),
        ("chat --model claude-sonnet-4-5 --once hello", "anthropic"),
        ("sessions --store postgresql://localhost/none", "postgres"),
    ],
)
def test_a_command_without_its_extra_ends_with_one_line(
    command: str, extra: str, with_cli: Path, tmp_path: Path
) -> None:
    seeded = run(with_cli / "turnfold", "chat", "--once", "hello", home=tmp_path)
    assert seeded.returncode == 0
    done = run(with_cli / "turnfold", *command.split(), home=tmp_path)
    assert done.returncode == 4
    [line] = done.stderr.splitlines()
    assert line.endswith(f"pip install 'turnfold[{extra}]'")


@pytest.mark.parametrize(
    "command",
    [
        "demo --json",
        "chat --once hello",
        "chat --store chat.db --once hello",
        "doctor",
        "tokens list --file tokens.json",
        "eval",
    ],
)
def test_a_command_works_with_the_extra_cli_alone(
    command: str, with_cli: Path, tmp_path: Path
) -> None:
    done = run(with_cli / "turnfold", *command.split(), home=tmp_path)
    told = [line for line in done.stderr.splitlines() if not line.startswith("to continue: ")]
    assert (done.returncode, told) == (0, [])


@pytest.mark.parametrize(
    "command", ["sessions", "show @last", "top", "context @last", "search hello"]
)
def test_without_a_store_a_command_says_how_to_make_one(
    command: str, with_cli: Path, tmp_path: Path
) -> None:
    done = run(with_cli / "turnfold", *command.split(), home=tmp_path)
    assert done.returncode == 3
    [line] = done.stderr.splitlines()
    assert "`turnfold chat` and `turnfold import` create one" in line


NEEDS = {
    "README.md": "openai",
    "docs/en/integrations/agent-framework.md": "agent_framework",
    "docs/en/integrations/google-adk.md": "google",
    "docs/en/integrations/langchain.md": "langchain",
    "docs/en/integrations/litellm.md": "litellm",
    "docs/en/integrations/llama-index.md": "llama_index",
    "docs/en/integrations/openai-agents.md": "agents",
    "docs/en/integrations/own-loop.md": "openai",
    "docs/en/integrations/pydantic-ai.md": "pydantic_ai",
    "docs/en/integrations/strands.md": "strands",
    "docs/en/operate/security.md": "cryptography",
    "docs/en/recipes/testing.md": "openai",
}
"""Pages whose blocks use a package that turnfold does not install, which they say: page -> the first of these."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=shown)
def test_the_blocks_of_a_page_run_on_a_bare_install(path: Path, bare: Path, tmp_path: Path) -> None:
    blocks = [each.text for each in fences(path.read_text("utf-8")) if each.language == "python"]
    if not blocks:
        pytest.skip("it has no Python")
    if path == ROOT / "README.md":  # the last needs no key and nothing of those before it
        assert run_code(bare, blocks[-1], tmp_path).stderr == ""
    done = run_code(bare, "\n".join(blocks), tmp_path)
    package = NEEDS.get(shown(path))
    if package is None:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert f"'{package}'" in done.stderr.splitlines()[-1]


def run_code(bare: Path, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "page.py").write_text(code, encoding="utf-8")
    return run(bare / "python", "page.py", home=folder)


def test_every_help_is_shown(with_cli: Path, tmp_path: Path) -> None:
    first = run(with_cli / "turnfold", "--help", home=tmp_path).stdout
    names = [line.split()[1] for line in first.splitlines() if line.startswith("│ ")]
    commands = [name for name in names if name.isalpha()]
    assert len(commands) > 20
    for name in commands:
        done = run(with_cli / "turnfold", name, "--help", home=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), name


@pytest.mark.parametrize(
    ("extras", "command"),
    [
        ("[cli,service,mcp]", ("serve",)),
        ("[cli,service,mcp]", ("ui", "--no-browser")),
        ("[cli,proxy]", ("proxy", "--upstream", "http://127.0.0.1:9")),
    ],
)
def test_a_documented_install_starts_what_listens(
    extras: str, command: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("listening")
    program = installed(folder, extras) / "turnfold"
    store = f"sqlite:///{folder / 'chat.db'}"
    code = f"from turnfold import Memory; Memory({store!r}).session('a').user('hello')"
    subprocess.run([program.with_name("python"), "-c", code], check=True)
    words = [*command, "--store", store, "--port", "0"]
    started = subprocess.Popen(
        [program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder
    )
    assert started.stdout is not None
    try:
        told = ""
        while "http://" not in told and (line := started.stdout.readline()):
            told += line
        assert "http://127.0.0.1:" in told
        assert "Traceback" not in told
    finally:
        started.terminate()
        started.communicate(timeout=60)
