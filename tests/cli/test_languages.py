"""The command speaks English and Chinese: the help of every command and option, wrong calls, and errors."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.cells import cell_len
from starlette.datastructures import Headers
from typer.testing import CliRunner

from tests.cli.seeded import LONG, SHORT, seed
from tests.house.source_tree import ROOT
from turnfold import Memory, errors
from turnfold.api import BudgetBody
from turnfold.cli.app import app
from turnfold.cli.chinese_help import COMMANDS, ERRORS, OPTIONS
from turnfold.cli.chinese_labels import problem_label, translated
from turnfold.cli.chinese_library_errors import LIBRARY_ERRORS
from turnfold.cli.chinese_messages import FAULTS, MESSAGES, PROBLEMS
from turnfold.cli.exit_codes import error_text
from turnfold.errors import NotFound
from turnfold.models.failures import Failure, error_of
from turnfold.service import BodyMemory, Limits, check_framing
from turnfold.text import language_of

CHINESE = re.compile(r"[\u4e00-\u9fff]")
SENTENCE = re.compile(r"\b[A-Z]?[a-z]+(?: [a-z]+){3,}")
"""Four plain words in a row: English that nobody translated."""


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words it is called by, groups too."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield path, command
        for name, each in getattr(command, "commands", {}).items():
            yield from walk(each, (*path, name))

    yield from walk(typer.main.get_command(app), ())


ALL = dict(commands())


def run(*words: str, language: str) -> str:
    wide = {"TURNFOLD_LANG": language, "COLUMNS": "400", "TERMINAL_WIDTH": "400", "NO_COLOR": "1"}
    done = CliRunner().invoke(app, list(words), env=wide)
    return done.stdout + (done.stderr or "")


def first_paragraph(text: str) -> str:
    return text.split("\n\n", maxsplit=1)[0].replace("\n", " ")


def test_all_commands_are_here() -> None:
    assert len(ALL) > 30
    assert {("serve",), ("db", "backup"), ("tokens", "create")} <= set(ALL)


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "turnfold")
def test_every_command_has_its_help_in_both_languages(path: tuple[str, ...]) -> None:
    command = ALL[path]
    english = first_paragraph(command.help)
    assert not CHINESE.search(english)
    assert CHINESE.search(COMMANDS[english])
    for each in command.params:
        assert CHINESE.search(OPTIONS[each.help]), each.name
        assert not CHINESE.search(each.help), each.name


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "turnfold")
def test_help_is_drawn_in_one_language(path: tuple[str, ...]) -> None:
    command = ALL[path]
    said, asked = run(*path, "--help", language="zh"), run(*path, "--help", language="en")
    drawn = " ".join(said.split())
    assert " ".join(first_paragraph(COMMANDS[first_paragraph(command.help)]).split()) in drawn
    assert "选项" in said
    assert not SENTENCE.search(said.replace("claude mcp add turnfold -- turnfold mcp", "")), said
    for each in command.params:
        if not getattr(each, "hidden", False):
            assert OPTIONS[each.help] in drawn, each.name
            assert each.help in " ".join(asked.split()), each.name
    assert first_paragraph(command.help) in " ".join(asked.split())
    assert not CHINESE.search(asked), asked
    # Types of Python such as <bool>, <list[str]> or <int range> [x>=1] are no words of a reader.
    assert re.findall(r"<[\w|]+(?:\[\w+\])?(?: range)?>|\[x[<>]=", said + asked) == []


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "turnfold")
def test_no_help_is_cut_at_80_columns(
    path: tuple[str, ...], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    narrow = {"TURNFOLD_LANG": language, "COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"}
    drawn = CliRunner().invoke(app, [*path, "--help"], env=narrow).stdout
    assert "…" not in drawn, drawn
    assert [line for line in drawn.splitlines() if cell_len(line) > 80] == []
    assert ("用法：" if language == "zh" else "Usage: ") in drawn
    assert ("用法：" in drawn) != ("Usage: " in drawn)
    options = "[选项]" if language == "zh" else "[OPTIONS]"
    [arguments] = [line.split(options)[1] for line in drawn.splitlines() if options in line]
    assert arguments.upper() == arguments
    assert "{" not in arguments


@pytest.mark.parametrize(
    ("language", "titles"),
    [
        ("en", "Start | Look | Check and measure | Change | Move data | Serve"),
        ("zh", "开始 | 查看 | 检查与测量 | 更改 | 数据进出 | 服务"),
    ],
)
def test_the_commands_stand_in_groups(language: str, titles: str) -> None:
    """Options, then the groups; no command stands outside of them, where typer draws `Commands`."""
    drawn = run("--help", language=language)
    heads = re.findall(r"^╭─ (.+?) ─+╮$", drawn, re.MULTILINE)
    assert heads[1:] == titles.split(" | ")
    names = re.findall(r"^│ ([a-z]+) ", drawn, re.MULTILINE)
    assert sorted(names) == sorted(path[0] for path in ALL if len(path) == 1)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_group_without_a_command_shows_its_help(language: str) -> None:
    drawn = run("db", language=language)
    assert drawn.strip() == run("db", "--help", language=language).strip()


def test_no_translation_is_left_over() -> None:
    assert {first_paragraph(each.help) for each in ALL.values()} == set(COMMANDS)
    asked = {p.help for each in ALL.values() for p in each.params}
    assert set(OPTIONS) - asked == {"Show this message and exit."}


def test_an_option_without_its_chinese_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPTIONS, "Tenant whose sessions to use.")
    with pytest.raises(KeyError, match="Tenant whose sessions"):
        test_every_command_has_its_help_in_both_languages(("sessions",))
    with pytest.raises(AssertionError, match="Tenant whose sessions"):
        test_help_is_drawn_in_one_language(("sessions",))


@pytest.mark.parametrize(
    ("words", "chinese"),
    [
        (("show",), "缺少参数"),
        (("show",), "它的 id，或用 @last 指最新的一个"),
        (("show", "x", "--nonsense"), "没有这个选项"),
        (("show", "x", "--limit", "many"), "参数的值不对"),
        (("show", "x", "--limit", "17o"), "这里是 '17o'"),
        (("nonsense",), "命令用法有误"),
        (("db", "nonsense"), "命令用法有误"),
        (("sohw",), "是不是 'show'？"),
        (("show", "x", "--limitt", "3"), "相近的有：--limit"),
        (
            ("--store", "chat.db", "sessions"),
            "--store 要写在命令之后：turnfold sessions --store ...",
        ),
        (("--limit", "3", "show"), "--limit 要写在命令之后：turnfold sessions --limit ..."),
        (("db", "--store", "chat.db"), "--store 要写在命令之后：turnfold db "),
        (("db", "--json", "check"), "--json 要写在命令之后：turnfold db "),
        (("db", "--database", "x"), "--database 要写在命令之后：turnfold db "),
        (("show", "x", "y"), "多出的参数：y"),
        (("show", "x", "--limit"), "后面要有值"),
        (("show", "x", "--limit", "0"), "至少为 1，这里是 '0'"),
    ],
)
def test_a_wrong_call_is_told_in_both_languages(words: tuple[str, ...], chinese: str) -> None:
    said, asked = run(*words, language="zh"), run(*words, language="en")
    assert said.count(chinese) == 1
    assert "错误" in said
    assert not re.search("[a-z]{3,} [a-z]{2,}", said.replace("turnfold", "")), said
    assert not CHINESE.search(asked)
    for language in ("zh", "en"):
        done = CliRunner().invoke(app, list(words), env={"TURNFOLD_LANG": language})
        assert done.exit_code == 2


def test_a_file_in_another_encoding_is_refused_with_the_way_on(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_bytes('[{"role": "user", "content": "改签"}]'.encode("gbk"))
    words = ("import", str(file), "--store", str(tmp_path / "a.db"))
    said, asked = run(*words, language="zh"), run(*words, language="en")
    assert "不是 UTF-8 文本：请另存为 UTF-8" in said.replace("\n", "")
    assert "iconv -f GBK -t UTF-8 old.json > utf8-old.json" in said
    assert "line 1: " not in said
    assert "is not text in UTF-8: save it as UTF-8" in asked
    assert "--format" not in said + asked


def test_the_usage_line_is_chinese() -> None:
    assert "用法：turnfold [选项] 命令 [参数]..." in run("--help", language="zh")


def test_an_error_is_a_chinese_sentence_or_names_its_kind_in_chinese(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = ("sessions", "--store", str(tmp_path / "none.db"))
    said, asked = run(*nowhere, language="zh"), run(*nowhere, language="en")
    assert f"turnfold: {tmp_path / 'none.db'} 处没有存储。" in said
    assert f"turnfold: no store at {tmp_path / 'none.db'}." in asked
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    for name in errors.__all__:
        kind = getattr(errors, name)
        error = kind.__new__(kind)
        Exception.__init__(error, "why")
        assert error_text(error).endswith("：why"), name
    assert {*ERRORS} <= set(errors.__all__)


NARROW = re.compile(r"[\u4e00-\u9fff）][;:,] |[\u4e00-\u9fff] \(\S*[\u4e00-\u9fff]")
"""Punctuation of English after a Chinese word."""


@pytest.mark.parametrize(
    "words",
    [
        ("explain", LONG),
        ("explain", LONG, "@prev"),
        ("diff", LONG),
        ("eval",),
        ("eval", LONG),
        ("doctor",),
        ("context", LONG),
        ("checkpoints", LONG),
        ("db", "status"),
        ("replay", LONG, "--model", "gpt-4o"),
    ],
    ids=" ".join,
)
def test_labels_in_chinese_have_chinese_punctuation(tmp_path: Path, words: tuple[str, ...]) -> None:
    said = run(*words, "--store", seed(tmp_path), language="zh")
    own = "\n".join(line for line in said.splitlines() if not STORED.search(line))
    assert not NARROW.search(own), NARROW.findall(own)


STORED = re.compile(r"合同号|冷库|搬仓库|下雨|细节")
"""Words of the stored conversation."""


def test_the_first_call_is_not_compared_with_one_before_it(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'one.db'}"
    with Memory(store, model="gpt-4o") as memory:
        session = memory.session("one")
        for text in ("hello", "and again"):
            session.user(text)
            session.context()
            shown = run("context", "one", "--store", store, language="en")
            assert ("of the one before" in shown) == (text == "and again")


def test_a_server_that_cannot_be_reached_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most often the address is wrong or the server does not run: waiting does not help."""
    failure = Failure(message="Connection error.", code="connection")
    message = str(error_of(failure, model="qwen3", attempts=3))
    assert "Check the base URL and that the server runs" in message
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    assert "请检查 base URL" in translated(message)


def test_every_column_of_an_evaluation_is_explained(tmp_path: Path) -> None:
    shown = run("eval", "--store", str(tmp_path / "none.db"), language="en")
    for column in ("rules", "stale", "atoms", "evidence", "R@5, P@5", "prefix", "used", "per call"):
        assert f"{column}: " in shown, column


def test_errors_of_an_import_are_one_sentence_in_one_language(tmp_path: Path) -> None:
    store, file = str(tmp_path / "a.db"), tmp_path / "one.json"
    for text in ("4,200 yuan", "5,000 yuan"):
        file.write_text(json.dumps([{"role": "user", "content": text}]))
        words = ("import", str(file), "--session", "trip", "--store", store)
        said = run(*words, language="zh").replace("\n", "")
    assert "turnfold: 会话 'trip' 已在存储中" in said
    assert "--session" in said
    file.write_text('{"a": 1}')
    said = run("import", str(file), "--store", store, language="zh").replace("\n", "")
    assert "认不出 one.json 的格式（里面既没有消息，也没有会话）" in said
    said = run("delete", "--user", "u", "--store", store, language="zh").replace("\n", "")
    assert said.startswith("turnfold: 需要确认")


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"TURNFOLD_LANG": "zh", "LC_ALL": "en_GB.UTF-8"}, "zh"),
        ({"TURNFOLD_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"TURNFOLD_LANG": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "zh_TW.UTF-8"}, "zh"),
        ({}, "en"),
        ({"TURNFOLD_LANG": "中文", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"TURNFOLD_LANG": "klingon", "LANG": "C"}, "en"),
    ],
)
def test_the_variable_decides_before_the_locale(environment: dict[str, str], language: str) -> None:
    assert language_of(environment) == language


def test_an_unknown_language_is_told() -> None:
    env = {"TURNFOLD_LANG": "中文", "LC_ALL": "zh_CN.UTF-8"}
    done = CliRunner().invoke(app, ["--help"], env=env)
    assert "用法" in done.stdout
    done = CliRunner().invoke(app, ["sessions", "--store", "none.db"], env=env)
    assert "turnfold: TURNFOLD_LANG='中文' 既不是 zh 也不是 en，不起作用\n" in done.stderr
    fine = CliRunner().invoke(app, ["sessions", "--store", "none.db"], env={"TURNFOLD_LANG": "zh"})
    assert "TURNFOLD_LANG" not in fine.stderr


def reported() -> Iterator[str]:
    """Every fault and repair that `turnfold lint` may report, with {} for the values."""
    for path in sorted((ROOT / "src/turnfold/wire").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            repairs = node.func.attr in ("left_out", "moved", "converted", "added")
            if (
                repairs
                and path.stem.endswith(("lint_and_repair", "pairing"))
                and len(node.args) > 1
            ):
                yield skeleton(node.args[1]) or ""
            if node.func.attr == "add_fault" and len(node.args) == 3:
                yield skeleton(node.args[2]) or ""


def test_faults_and_repairs_are_told_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    known = {re.sub(r"{\w+}", "{}", each) for each in FAULTS}
    found = set(reported())
    assert len(found) > 100
    assert found - known == set()
    for english in (*FAULTS, *PROBLEMS):
        names = re.findall(r"{(\w+)}", english)
        chinese = problem_label(english.format(**dict.fromkeys(names, "7")))
        assert CHINESE.search(chinese), english
        assert not SENTENCE.search(chinese), chinese
    told = "messages[0] converted: the result for 'x' has no unanswered call: sent as text"
    assert problem_label(told) == "messages[0] 转换：'x' 的结果没有等待它的调用：作为文本发送"


WRONG = (
    "replay k --strategy foo", "replay k --model qwen-foo", "serve --port 99999", "serve --host 0.0.0.0",
    "proxy --upstream notaurl", "checkpoints k --drop zz", "import bad.jsonl", "import bad.jsonl --skip-bad",
    "import bad.jsonl --format foo", "delete --user wang --yes", "sessions --store mysql://x/y",
    "import foo.jsonl", "import cut.json", "import cut.json --format openai", "import list.json",
    "context k --budget 4", "context system --budget 10",
)  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_what_goes_wrong_is_told_in_chinese(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:///{tmp_path / 'kefu.db'}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNFOLD_STORE", store)
    with Memory(store) as memory:
        for name in ("k", "system"):
            session = memory.session(name)
            if name == "system":
                session.system("你是客服。" * 20)
            session.user("你好，请帮我查一下订单。")
            session.assistant("好的。")
    lines = ('{"role":"user","content":"hi"}', "no", '{"role":"wizard","content":"x"}')
    Path("bad.jsonl").write_text("\n".join(lines), "utf-8")
    Path("foo.jsonl").write_text('{"role":"foo","content":"x"}\n', "utf-8")
    Path("cut.json").write_text('[{"role":"user","content":"x"', "utf-8")
    Path("list.json").write_text('[{"role":"user","content":"x"},\n', "utf-8")
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    done = CliRunner().invoke(app, words.split(), env={"COLUMNS": "400", "NO_COLOR": "1"})
    error = done.exception  # printed by the command's own main()
    said = error_text(error) if isinstance(error, errors.TurnfoldError) else done.output
    assert CHINESE.search(said)
    assert not SENTENCE.search(said.split("：Expecting value")[0]), said
    if "system" in words:
        assert "预算 10 中它们的份额只有 " in said
        asked = run(*words.split(), language="en")
        assert "their share of the budget of 10 is " in asked


def skeleton(node: ast.expr) -> str | None:
    """A written text with {} for everything that is put into it; None if it is made elsewhere."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=pieces):
            return "".join(skeleton(each) or "{}" for each in pieces)
        case ast.IfExp(body=body, orelse=other):
            return skeleton(body) or skeleton(other)
        case _:
            return None


def sentences() -> Iterator[tuple[str, str]]:
    """Every sentence the commands show by itself: (place, text). Errors, checks of doctor, lines of chat, echoes."""
    for path in sorted((ROOT / "src/turnfold/cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            shown: list[ast.expr] = []
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                shown = node.exc.args[:1]
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func).split(".")[-1]
                if called == "CheckResult":
                    shown = [k.value for k in node.keywords if k.arg in ("detail", "remedy")]
                elif called in ("_say", "translated"):
                    shown = node.args[:1]
            for each in shown:
                text = skeleton(each)
                if text is not None and re.search("[A-Za-z]{3}.* ", text.replace("{}", "")):
                    yield f"{path.name}:{each.lineno}", text


OF_THEIR_OWN = {
    "{}: {}": "an error of another program",
    "{}{}: {} {}": "the faults of a history, recognised by their last word",
    "{} x {}, {}, {}": "the size, encoding and colours of a terminal",
    "chmod 600 {}": "a command",
    "pip install 'turnfold[{}]'": "a command",
    "warning: {}": "made of a translated warning",
    "{}: {}{}": "an unknown command, recognised with and without a hint",
    "no command {}: {}/help lists them; // begins a message with a slash": "the same",
    "session {} ({}); /help lists commands, Ctrl-D ends it": "with the number of entries",
    "session {} has {}, so there is no {}": "with the number of calls",
    "no call {} in {}{}": "with and without calls near it",
    "{} {}": "an address, and whether it answers",
    "SQLite {} (apsw {})": "names",
}
"""Sentences that are recognised in another form than they are written in, or that need no Chinese."""


def test_every_sentence_of_a_command_has_its_chinese() -> None:
    known = {re.sub(r"{\w+}", "{}", each) for each in MESSAGES}
    found = list(sentences())
    assert len(found) > 70
    missing = [(at, text) for at, text in found if text not in known and text not in OF_THEIR_OWN]
    assert missing == []


@pytest.mark.parametrize("english", MESSAGES, ids=lambda each: each[:40])
def test_chinese_sentences_have_the_same_figures(
    english: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = re.findall(r"{(\w+)}", english)
    assert sorted(names) == sorted(re.findall(r"{(\w+)}", MESSAGES[english]))
    assert CHINESE.search(MESSAGES[english])
    values = {name: f"'x{at} 值'" for at, name in enumerate(names)}
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    assert translated(english.format(**values)) == MESSAGES[english].format(**values)
    monkeypatch.setenv("TURNFOLD_LANG", "en")
    assert translated(english.format(**values)) == english.format(**values)


def test_a_sentence_without_its_chinese_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(dict_of(MESSAGES), "not confirmed, so nothing was deleted")
    with pytest.raises(AssertionError, match="not confirmed, so nothing was deleted"):
        test_every_sentence_of_a_command_has_its_chinese()


def dict_of(table: Mapping[str, str]) -> dict[str, str]:
    assert isinstance(table, dict)
    return table


def test_the_output_of_commands_is_in_one_language(tmp_path: Path) -> None:
    store = seed(tmp_path)
    at = ("--store", store)
    for words in (
        ("doctor", *at),
        ("sessions", *at),
        ("show", SHORT, *at),
        ("context", LONG, *at),
        ("explain", LONG, *at),
        ("explain", LONG, "--list", *at),
        ("diff", LONG, *at),
        ("top", *at),
        ("top", LONG, *at),
        ("rules", LONG, *at),
        ("audit", *at),
        ("db", "status", *at),
        ("db", "migrate", *at),
        ("search", "xylophone", *at),
        ("recall", LONG, "合同", *at),
        ("show", "nobody", *at),
        ("explain", SHORT, "99", *at),
        ("unpin", LONG, "nothing", *at),
        ("delete", *at),
    ):
        said = run(*words, language="zh")
        said = said.replace(store.removeprefix("sqlite:///"), "")
        said = SENT.sub("", said)
        assert CHINESE.search(said), words
        assert not PLAIN.search(said), (words, PLAIN.search(said), said)
        for term in ("置顶", "钉住", "词元", "提供商"):
            assert term not in said


PLAIN = re.compile(r"(?<![\w/`'\"-])[a-z]{3,}(?: [a-z]{2,}){2,}(?![\w/`'\"-])")
"""Three plain words in a row."""
SENT = re.compile(
    "(Pinned for this conversation|Summary of the earlier|Earlier passages|Step [0-9]+ is|shelf|You plan|Never move).*"
)
"""What is stored or sent to a model, to the end of its line."""


def test_a_chat_is_in_one_language(tmp_path: Path) -> None:
    typed = (
        "记住备用钥匙在前台\n/help\n/history\n/context\n/recall 备用钥匙\n/recall\n/pin 不要打电话\n/rules\n"
        "/fold\n/contxt\n/session nobody\n/new\n备用钥匙在哪里？\n/quit\n"
    )
    store = str(tmp_path / "chat.db")
    environment = {"COLUMNS": "400", "NO_COLOR": "1", "TURNFOLD_MODEL": ""}
    said = {
        language: CliRunner()
        .invoke(
            app,
            ["chat", "--store", store],
            input=typed,
            env={**environment, "TURNFOLD_LANG": language},
        )
        .output
        for language in ("zh", "en")
    }
    chinese = said["zh"].replace(store, "")
    assert not PLAIN.search(chinese), (PLAIN.search(chinese), chinese)
    for each in (
        "没有配置模型",
        "已设为固定项",
        "没有命令 /contxt：是不是 /context？",
        "用户：记住",
    ):
        assert each in chinese, (each, chinese)
    for each in ("No model is configured", "pinned:", "did you mean /context?", "user: 记住"):
        assert each in said["en"], (each, said["en"])


@pytest.mark.parametrize(
    ("language", "told"), [("zh", "[已删除：客户要求]"), ("en", "[erased: 客户要求]")]
)
def test_an_erased_message_is_told_in_the_readers_language(
    tmp_path: Path, language: str, told: str
) -> None:
    store = f"sqlite:///{tmp_path / 'a.db'}"
    with Memory(store) as memory:
        memory.session("s").user("secret")
        memory.session("s").erase(1, reason="客户要求")
    assert told in run("show", "s", "--store", store, language=language)
    assert told in run("show", "s", "--full", "--store", store, language=language)


@pytest.mark.parametrize(
    ("language", "told"),
    [("zh", "把程序的 base URL 设为"), ("en", "set the base URL of your program to")],
)
def test_the_proxy_says_how_to_use_it(
    monkeypatch: pytest.MonkeyPatch, language: str, told: str
) -> None:
    def listening(_: object, *, on_listening: Callable[[str], None]) -> None:
        on_listening("http://127.0.0.1:8789")

    monkeypatch.setattr("turnfold.proxy.run_proxy", listening)
    said = run("proxy", "--upstream", "https://api.openai.com/v1", language=language)
    assert f"{told} http://127.0.0.1:8789/s/SESSION/v1" in said


def test_words_of_a_store_and_of_a_reason_are_chinese(tmp_path: Path) -> None:
    at = ("--store", seed(tmp_path))
    said = run("doctor", *at, language="zh")
    assert all(word in said for word in ("提交 ", "后台任务 ", "路径 "))
    assert "commits" not in said
    moved = run("context", LONG, *at, language="zh")
    assert "（检查点 " in moved
    empty = str(tmp_path / "empty.db")
    with Memory(f"sqlite:///{empty}"):
        pass
    assert "租户 default" in run("sessions", "--store", empty, language="zh")


def test_errors_of_the_library_name_commands(tmp_path: Path) -> None:
    store = seed(tmp_path)
    said = run("checkpoints", LONG, "--drop", "nothing", "--store", store, language="en")
    assert "`turnfold checkpoints` lists all checkpoints" in said
    assert "checkpoints()" not in said


def test_errors_about_rules_and_calls_name_the_command() -> None:
    with Memory() as memory:
        session = memory.session("one")
        with pytest.raises(NotFound) as rule:
            session.drop_rule("nothing")
        with pytest.raises(NotFound) as call:
            session.explain("nothing")
    assert error_text(rule.value).endswith(": `turnfold rules` lists the active rules")
    assert error_text(call.value).endswith(": `turnfold explain SESSION --list` lists the calls")


MET_BY_USERS = (
    "budget.py", "importers", "models/failures.py", "proxy/options.py", "proxy/upstream.py", "redaction.py",
    "service/audit_log.py", "service/auth.py", "service/server.py", "stores/addresses.py", "stores/encryption/keys.py",
    "stores/encryption/refuse_encrypted.py", "stores/export_format.py", "stores/postgres/schema.py",
    "stores/postgres/timeouts.py", "stores/postgres/transactions.py", "stores/protocol.py",
    "stores/redis/guarded_client.py", "stores/sqlite", "tokens/prices.py",
)  # fmt: skip
"""Modules whose errors users of commands meet."""
OF_PROGRAMS = {
    "max_output={} must be at least 1 token",
    "retries={} must not be negative: 0 turns retries off",
    "first={}, the seconds of the first pause, must be above 0",
    "longest={}, the seconds of the longest pause, must be at least first={}",
    "patience={}, the longest wait in seconds, must not be negative",
    "other processes changed the wrapped key {} {} times in a row: try again",
    "conversation ids that begin with {} are reserved for keys: use another id",
    (
        "conversation {} has another data key by now: the store was restored or failed over. Delete the conversation "
        "and start it again"
    ),
    (
        "the data was deleted, but the write-ahead log, which may contain its bytes, could not be truncated ({}): "
        "delete again"
    ),
    (
        "the conversation has changed {} times, the most that a SQLite store can count: export it and import it under "
        "another id"
    ),
    "a stored checkpoint of conversation {} cannot be decoded ({}): the storage is damaged",
}
"""Errors that only programs meet, or that have never been met."""
OF_CLIENTS = {
    "no complete response from the provider: {}",
    "the path of a request must begin with / and contain no #",
    "the path is percent-encoded too often: encode it once",
    ("the path contains . or .. as a segment, or a control character: write the path without them"),
    "redact={} must be a function from text to the secrets in it, such as turnfold.redaction.find_secrets",
    (
        "the detector of redact= returned {} for a text of {} characters; it must return (kind in lower-case words, "
        "start, end)"
    ),
    "the right {} is required; the token has: {}",
    "unknown or expired token: ask the operator of the service for a new one",
    "unknown token: use the token, or the newest sign-in link, that the command printed",
    "this link was used already, or an earlier run of the service printed it: open the newest link",
    "the Host header names an unknown host: allow it with --allow-host",
    "the page's origin is not allowed: allow it with --allow-origin",
    "a token is required: send Authorization: Bearer tf_...",
}
"""Errors that a server sends to its clients, and errors of programs that bring a detector of their own."""
OTHERWISE = {
    "{} gave no answer {} ({}). Try again later",
    "{} {} ({}). {}",
    "unknown store {}; known: {}.{}",
    "{} items in {} cannot be read: {}{}",
    "{} cannot be imported: {}",
    "{} has no messages in the format {}",
    "unknown format {}; use one of auto, {}",
    "conversation {} {}",
    "conversation {} is encrypted{}, and no key was given. {}",
    "the store is encrypted, and no key was given to write to conversation {}. {}",
    "the store has encrypted conversations, which cannot be searched. {}, and search one conversation at a time",
    "nothing was written: {}",
}
"""Errors that are recognised in another form than they are written in."""


def errors_of(module: str) -> Iterator[tuple[str, str]]:
    """Every error that is made in a module or package of the library: (place, text)."""
    place = ROOT / "src/turnfold" / module
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in errors.__all__:
                    if (text := skeleton(first)) is not None:
                        yield f"{path.name}:{node.lineno}", text
                case _:
                    pass


def test_every_error_that_users_of_commands_meet_has_its_chinese() -> None:
    known = (
        {re.sub(r"{\w+}", "{}", each) for each in MESSAGES} | OF_PROGRAMS | OF_CLIENTS | OTHERWISE
    )
    found = [each for module in MET_BY_USERS for each in errors_of(module)]
    assert len(found) > 100
    assert [(at, text) for at, text in found if text not in known] == []


def test_no_translation_of_an_error_is_left_over() -> None:
    """A key that no error has any more would never be found."""
    source = "".join(
        text for path in (ROOT / "src/turnfold").rglob("*.py") for text in written(path)
    )
    longest = {
        english: max(re.split(r"{\w+}|\)\. |[;,] |s$", english), key=len).strip()
        for english in LIBRARY_ERRORS
    }
    shown = {"`turnfold sessions` lists all conversations", "leave out --dry-run"}
    missing = [
        english
        for english, piece in longest.items()
        if piece not in source and not any(each in english for each in shown)
    ]
    assert missing == []


def written(path: Path) -> Iterator[str]:
    """The texts in a module, without the translations."""
    if "chinese" not in path.name:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{node.value}\n"


def refused(run: Callable[[], object]) -> errors.TurnfoldError:
    """The error that a call raises."""
    with pytest.raises(errors.TurnfoldError) as caught:
        run()
    return caught.value


def take_body(memory: BodyMemory, size: int) -> None:
    with memory.hold("a") as take:
        take(size)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            error_of(Failure(message="Incorrect API key", status=401), model="glm-4.6", attempts=1),
            "glm-4.6 拒绝了调用（HTTP 401: Incorrect API key）。原样再发也会失败",
        ),
        (
            error_of(
                Failure(message="busy", status=503, retry_after=9), model="glm-4.6", attempts=3
            ),
            "glm-4.6 没有回答，试了 3 次；它要求等 9 秒（HTTP 503: busy）。请稍后再试",
        ),
        (
            error_of(Failure(message="maximum context length", status=413), model="k", attempts=1),
            "k 拒绝了提示词，因为太长",
        ),
        (
            errors.InvalidExport(
                "the file ends before its footer", line=7, remedy="Export it again"
            ),
            "第 7 行：文件在结束行之前就断了。请重新导出",
        ),
        (
            refused(lambda: Limits().check_answer(100_000_000)),
            "响应会超过 67,108,864 字节；请一次少取一些",
        ),
        (
            refused(BudgetBody(max_tokens=10_000_001).budget),
            "预算 10,000,001 个 token 超过服务的上限：请最多给 10,000,000",
        ),
        (
            refused(lambda: take_body(BodyMemory(64), 65)),
            "这个租户正在运行的请求，请求体合计 65 字节，上限是 64 字节：请稍后再试",
        ),
        (
            refused(lambda: check_framing(Headers(raw=[(b"host", b"a"), (b"host", b"b")]))),
            "请求头 host 出现了不止一次：请只发送一次",
        ),
    ],
)
def test_errors_of_models_and_files_are_told_in_chinese(
    error: errors.TurnfoldError, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    assert told in error_text(error)
    monkeypatch.setenv("TURNFOLD_LANG", "en")
    assert error_text(error) == str(error)
