"""Talking in the terminal: kept, resumed, useful without a model, and honest about what it costs."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.house.source_tree import SOURCE
from tests.models.strict_server import Refuse, Say, StrictServer
from turnfold import Memory
from turnfold.cli.app import app
from turnfold.cli.chat import ModelAnswers, Quotes, budget_line, pick_model
from turnfold.cli.store_and_session_lookup import default_store
from turnfold.errors import InvalidOption
from turnfold.models import OpenAIChat
from turnfold.runtime import drive
from turnfold.testing import ScriptedModel
from turnfold.tokens import counter_for

RUN = CliRunner()


def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'chat.db'}"


def test_without_a_model_it_says_how_to_get_one_and_quotes_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    store = ["--store", address(tmp_path), "--session", "notes"]
    first = RUN.invoke(app, ["chat", *store], input="门禁密码是 4471\nsomething else entirely\n")
    assert first.exit_code == 0, first.output
    assert "--model" in first.output
    assert "no matching earlier message" in first.output
    again = RUN.invoke(app, ["chat", *store], input="密码是多少\n")
    assert "session notes (2 entries)" in again.output
    assert "#1 user: 门禁密码是 4471" in again.output
    assert "tokens" not in again.output  # nothing was sent, so there is nothing to report
    with Memory(address(tmp_path)) as memory:
        assert memory.session("notes").calls() == []


def test_without_a_model_a_session_keeps_its_token_counter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    with Memory(address(tmp_path), model="gpt-4o") as memory:
        memory.session("notes").user("the code is ZX-1")
    for name in ("notes", "@last"):
        said = RUN.invoke(
            app, ["chat", "--store", address(tmp_path), "--session", name, "--once", "noted"]
        )
        assert said.exit_code == 0, said.output
        assert "recounting" not in said.stderr
    with Memory(address(tmp_path)) as memory:
        head = drive(memory.store.head(memory.scope, "notes"))
    assert (head.seq, head.counter) == (3, "o200k_base+openai+openai-tiles")


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", "no model is set, so this shows earlier messages that match; --model NAME answers"),
        ("zh", "没有设置模型，这里显示的是匹配的旧消息；要得到回答，请用 --model 名称"),
    ],
)
def test_one_note_without_a_model_says_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, told: str
) -> None:
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    monkeypatch.setenv("TURNFOLD_LANG", language)
    at = ["chat", "--store", address(tmp_path), "--once"]
    assert told in RUN.invoke(app, [*at, "the gate code is 4471"]).stderr
    again = RUN.invoke(app, [*at, "gate code", "--session", "@last"])
    assert "4471" in again.stdout
    assert told not in again.stderr
    missed = RUN.invoke(app, [*at, "umbrella", "--session", "@last"])
    assert told in missed.stderr
    assert told not in RUN.invoke(app, [*at, "gate code", "--json"]).output


@pytest.mark.parametrize(
    ("language", "text"), [("en", "(no matching earlier message; stored)"), ("zh", "已保存")]
)
def test_one_note_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, text: str
) -> None:
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    monkeypatch.setenv("TURNFOLD_LANG", language)
    said = RUN.invoke(app, ["chat", "--store", address(tmp_path), "--once", "a note"])
    assert text in said.output


def test_a_chat_in_which_nothing_was_said_cannot_be_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    silent = RUN.invoke(app, ["chat", "--store", address(tmp_path)], input="/quit\n")
    assert "to continue" not in silent.output
    assert list(tmp_path.iterdir()) == []  # a chat without a word leaves no file


def test_a_quoted_message_cannot_steer_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    with Memory(address(tmp_path)) as memory:
        memory.session("notes").user("the door code\x1b[2J is\n4471\x07")
    store = ["--store", address(tmp_path), "--session", "notes"]
    shown = RUN.invoke(app, ["chat", *store], input="door code\n").output
    assert "#1 user: the door code [2J is\n4471" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown
    once = RUN.invoke(app, ["chat", *store, "--once", "door code"]).output
    assert "\x1b" not in once


def test_one_turn_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    store = ["--store", address(tmp_path), "--session", "notes"]
    RUN.invoke(app, ["chat", *store, "--once", "the code is ZX-1"])
    found = RUN.invoke(app, ["chat", *store, "--once", "which code?", "--json"])
    told = json.loads(found.output)
    assert told["answer"] == "#1 user: the code is ZX-1"
    assert told["session"] == "notes"
    assert told["model"] is None
    assert (told["tokens"], told["allowed"], told["messages"]) == (0, 0, 0)  # nothing was sent
    assert told["stored"] == 2  # the seq of the text
    alone = RUN.invoke(app, ["chat", *store, "--json"])
    assert alone.exit_code == 2


def test_a_model_answers_piece_by_piece_and_the_session_is_kept(tmp_path: Path) -> None:
    pieces: list[str] = []
    with Memory(address(tmp_path)) as memory:
        answers = ModelAnswers(
            memory, ScriptedModel(["Hello! 你好！", "Still here."]), "Be kind.", pieces.append
        )
        assert answers.answer("one", "hi") == "Hello! 你好！"
        assert "".join(pieces) == "Hello! 你好！"
        assert answers.receipt is not None
        assert "tokens" in budget_line(answers.receipt)
        answers.answer("one", "there?")
        assert answers.receipt is not None
        assert "of the last prompt kept" in budget_line(answers.receipt)
    with Memory(address(tmp_path)) as memory:
        assert len(memory.session("one").history()) == 5
        assert "#2 user: hi" in Quotes(memory).answer("one", "hi there")


def test_which_model_is_talked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert pick_model(None, None, {}) is None
    local = pick_model("qwen3", "http://localhost:1/v1", {})
    assert isinstance(local, OpenAIChat)
    assert local.name == "qwen3"
    named = pick_model(None, "http://localhost:1/v1", {"TURNFOLD_MODEL": "llama"})
    assert named is not None
    assert named.name == "llama"
    with pytest.raises(InvalidOption, match="needs --model"):
        pick_model(None, "http://localhost:1/v1", {})


@pytest.mark.parametrize(
    ("model", "key"), [("gpt-4o", "OPENAI_API_KEY"), ("claude-sonnet-4-5", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_told_before_anything_is_typed(
    model: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    words = ["chat", "--model", model, "--store", address(tmp_path)]
    for typed in (words, [*words, "--once", "hi"]):
        done = RUN.invoke(app, typed, input="hello\n")
        assert done.exit_code == 2
        assert f"{model} needs a key: set {key}" in done.output
        assert "entries" not in done.output
    assert not (tmp_path / "chat.db").exists()
    chinese = RUN.invoke(app, words, env={"LC_ALL": "zh_CN.UTF-8"})
    assert f"{model} 需要密钥：请设置 {key}" in chinese.output
    assert pick_model(model, None, {key: "k"}) is not None
    assert pick_model(model, "http://localhost:1/v1", {}) is not None


def test_chats_are_kept_in_the_users_folder(tmp_path: Path) -> None:
    assert default_store({"TURNFOLD_STORE": "sqlite:///x.db"}) == "sqlite:///x.db"
    found = default_store({"XDG_DATA_HOME": str(tmp_path)})
    assert found == f"sqlite:///{(tmp_path / 'turnfold' / 'chat.db').as_posix()}"
    assert (tmp_path / "turnfold").is_dir()


def test_what_cannot_work_is_told_in_a_line(tmp_path: Path) -> None:
    bad = RUN.invoke(app, ["chat", "--store", "nowhere://x", "--once", "hi"])
    assert bad.exit_code == 2
    assert "unknown store" in bad.output
    assert "Traceback" not in bad.output
    assert not list(tmp_path.iterdir())


def test_bytes_that_are_no_text_do_not_end_the_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNFOLD_MODEL", raising=False)
    store = ["--store", address(tmp_path), "--session", "notes"]
    said = RUN.invoke(
        app, ["chat", *store], input=b"half a \xe4\xb8 character\n\xe4\xbd\xa0\xe5\xa5\xbd\n"
    )
    assert said.exit_code == 0, said.output
    with Memory(address(tmp_path)) as memory:
        texts = [entry.message.text for entry in memory.session("notes").history()]
    assert texts == ["half a \ufffd character", "你好"]


def test_an_error_in_a_turn_is_told_and_the_chat_goes_on(tmp_path: Path) -> None:
    with StrictServer([Refuse(401, "bad key"), Say("hello again")]) as server:
        given = ["--model", "m", "--base-url", f"{server.url}/v1", "--store", address(tmp_path)]
        talked = RUN.invoke(app, ["chat", *given, "--session", "花 园"], input="one\ntwo\n")
        assert talked.exit_code == 4, talked.output  # the input is not a terminal
        assert "ModelFailed: m refused the call (HTTP 401" in talked.output
        assert "hello again" in talked.output
        assert f"turnfold chat '花 园' {' '.join(given)}" in talked.output
        assert server.rejected == []


def test_a_message_that_failed_is_sent_again_and_stored_once(tmp_path: Path) -> None:
    """By the same command, or by the same line of a chat; after an answer the same text is a new message."""
    failing = [Refuse(401, "bad key"), Refuse(401, "bad key"), Say("hello"), Say("hello again")]
    with StrictServer(failing) as server:
        given = ["--model", "m", "--base-url", f"{server.url}/v1", "--store", address(tmp_path)]
        once = ["chat", "one", *given, "--once", "are you there? 在吗？", "--system", "Be kind."]
        assert RUN.invoke(app, once).exit_code == 4
        line = RUN.invoke(app, ["chat", "one", *given], input="are you there? 在吗？\n")
        assert line.exit_code == 4
        assert RUN.invoke(app, once).stdout.strip() == "hello"
        assert RUN.invoke(app, once).stdout.strip() == "hello again"
    with Memory(address(tmp_path)) as memory:
        roles = [entry.message.role for entry in memory.session("one").history()]
    assert roles == ["system", "user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("text", ["hi", "It's 20 °C: what now? 怎么办？", "--help"])
def test_the_command_that_sends_a_failed_message_again_is_whole(tmp_path: Path, text: str) -> None:
    """Run as it is told: the same model, store, instructions, budget and text, which is not stored twice."""
    with StrictServer([Refuse(401, "bad key"), Say("hello")]) as server:
        given = ["--model", "m", "--base-url", f"{server.url}/v1", "--store", address(tmp_path)]
        given += ["--system", "Be kind.", "--budget", "900"]
        failed = RUN.invoke(app, ["chat", *given, f"--once={text}"])
        [told] = re.findall(r"to send it again: turnfold (.+)", failed.stderr)
        again = shlex.split(told)
        assert RUN.invoke(app, again).stdout.strip() == "hello"
    with Memory(address(tmp_path)) as memory:
        history = memory.session(again[1]).history()
        assert [entry.message.role for entry in history] == ["system", "user", "assistant"]
        assert history[1].message.text == text


def test_a_chat_in_a_deleted_session_ends_as_not_found(tmp_path: Path) -> None:
    with Memory(address(tmp_path)) as memory:
        memory.session("gone").user("hi")
        memory.delete("gone")
    for words in (["--once", "hi"], []):
        ended = RUN.invoke(
            app, ["chat", "gone", *words, "--store", address(tmp_path)], input="hi\n"
        )
        assert ended.exit_code == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--once", ""], "--once needs a text"),
        (["--once", "  "], "--once needs a text"),
        (["--once", "hi", "--budget", "5"], "tokens"),
        (["--once", "hi", "--budget", "0"], "max_tokens"),
        (["--budget", "5"], "tokens"),
        (["--once", "hi", "--base-url", "127.0.0.1:9"], "has no scheme: use http://127.0.0.1:9"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_stored(
    tmp_path: Path, words: list[str], told: str
) -> None:
    base = [] if "--base-url" in words else ["--base-url", "http://127.0.0.1:9/v1"]
    given = ["--model", "m", *base, "--store", address(tmp_path)]
    done = RUN.invoke(app, ["chat", "one", *given, *words], input="hello\n")
    assert (done.exit_code, isinstance(done.exception, SystemExit)) == (2, True), done.output
    assert told in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_stopping_an_answer_keeps_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: ModelAnswers, conversation: str, text: str) -> str:
        self.memory.session(conversation).user(text)
        if text == "one":
            raise KeyboardInterrupt
        return text

    monkeypatch.setattr(ModelAnswers, "answer", stopped)
    given = ["--model", "m", "--base-url", "http://localhost:1/v1", "--store", address(tmp_path)]
    talked = RUN.invoke(app, ["chat", *given, "--session", "s"], input="one\ntwo\n")
    assert talked.exit_code == 0, talked.output
    assert "(stopped; your message is stored)" in talked.output
    with Memory(address(tmp_path)) as memory:
        assert len(memory.session("s").history()) == 2


def test_what_the_provider_is_not_sent_is_told(tmp_path: Path) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    with Memory(address(tmp_path)) as memory:
        session = memory.session("s")
        session.user("hello")
        session.add({"role": "assistant", "content": [thought, {"type": "text", "text": "hi"}]})
    with StrictServer([Say("again"), Say("and again")]) as server:
        given = ["--model", "m", "--base-url", f"{server.url}/v1", "--store", address(tmp_path)]
        talked = RUN.invoke(app, ["chat", *given, "--session", "s"], input="one\n")
        assert "1 changed for openai_chat" in talked.output
        told = RUN.invoke(app, ["chat", *given, "--session", "s", "--once", "two", "--json"])
    [change] = json.loads(told.stdout)["changes"]
    assert change.startswith("1 left out: Chat Completions accepts no thinking")


# --------------------------------------------------------------------------------------------- commands


def chatting(tmp_path: Path, text: str, *more: str) -> str:
    store = ["--store", str(tmp_path / "chat.db"), *more]
    done = RUN.invoke(app, ["chat", *store], input=text, env={"TURNFOLD_MODEL": ""})
    assert done.exit_code == 0, done.output
    return done.output


def test_slash_commands_are_run_and_not_said(tmp_path: Path) -> None:
    said = (
        "The key is under the blue crate. 钥匙在蓝色箱子下面。\n/history\n/context\n/recall crate\n/pin 先问\n"
        "/rules\n/fold\n//etc is a folder\n/etc/hosts is a file\n/histroy\n/explain\n/quit\nnever said\n"
    )
    output = chatting(tmp_path, said, "--session", "notes")
    assert "#1 user: The key is under the blue crate." in output
    assert "did you mean /history?" in output
    assert f"outside of it: turnfold explain notes --store {tmp_path / 'chat.db'}" in output
    assert "pinned" in output
    assert "nothing to fold" in output
    with Memory(address(tmp_path)) as memory:
        session = memory.session("notes")
        assert [entry.message.text for entry in session.history()] == [
            "The key is under the blue crate. 钥匙在蓝色箱子下面。",
            "/etc is a folder",
            "/etc/hosts is a file",
        ]
        assert list(session.pins().values()) == ["先问"]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("/exit", ""),
        ("/Quit", ""),
        ("/退出", ""),
        ("／exit", ""),
        ("/", "/history [N]"),
        ("/?", "/history [N]"),
        ("/帮助", "/history [N]"),
        ("/search crate", "#1 user: the blue crate"),
        ("/搜索 crate", "#1 user: the blue crate"),
        ("/recall zebra", "nothing earlier matches"),
        ("/compact", "nothing to fold"),
        ("/pin", "/pin needs a text"),
        ("/history many", "/history takes a number"),
        ("/top", "turnfold top s"),
        ("/xyz", "no command /xyz: /help lists them"),
    ],
)
def test_names_that_users_try_are_commands_too(tmp_path: Path, typed: str, told: str) -> None:
    """None of them is stored as a message, and those that end a chat end it."""
    output = chatting(tmp_path, f"the blue crate\n{typed}\nafter\n", "--session", "s")
    assert told in output
    with Memory(address(tmp_path)) as memory:
        texts = [each.message.text for each in memory.session("s").history()]
    assert texts == ["the blue crate", "after"][: 2 if told else 1]


def test_a_pinned_text_is_recalled_too(tmp_path: Path) -> None:
    said = "/pin 会员号是 B-2\n/recall 会员号\n/recall 电话\nhello\n"
    output = chatting(tmp_path, said, "--session", "s")
    assert output.count("pinned: 会员号是 B-2") == 1
    assert output.count("nothing earlier matches") == 1


def test_a_rule_is_dropped_by_its_number(tmp_path: Path) -> None:
    said = "Never call me before 9 am.\nhello\n/rules\n/drop 7\n/drop\n/drop #1\n/rules\n"
    output = chatting(tmp_path, said, "--session", "s")
    assert "#1 prohibition: Never call me before 9 am." in output
    assert "no active rule 7 in this session: /rules lists them" in output
    assert "rule dropped: Never call me before 9 am." in output
    assert "no rules yet" in output


def test_the_commands_named_outside_a_chat_exist(tmp_path: Path) -> None:
    names = "audit checkpoints delete diff eval explain export fork lint replay top unpin".split()
    output = chatting(tmp_path, "".join(f"/{name}\n" for name in names), "--session", "s")
    for name in names:
        assert f"turnfold {name} s --store" in output
        assert RUN.invoke(app, [name, "--help"]).exit_code == 0


def test_help_lists_every_command_in_the_readers_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    english = chatting(tmp_path, "/help\n")
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    chinese = chatting(tmp_path, "/help\n")
    for (
        name
    ) in "/help /history /context /recall /pin /rules /drop /fold /session /new /quit".split():
        assert f"  {name}" in english
        assert f"  {name}" in chinese
    assert "begin a new session" in english
    assert "开始新会话" in chinese


def test_the_last_session_is_gone_on_with(tmp_path: Path) -> None:
    chatting(tmp_path, "one\n", "--session", "first")
    chatting(tmp_path, "two\n", "--session", "second")
    assert "session second (1 entry)" in chatting(tmp_path, "", "--session", "@last")
    moved = chatting(tmp_path, "/session first\nthree\n/new\n", "--session", "@last")
    assert "session first (1 entry)" in moved
    assert "new session" in moved
    with Memory(address(tmp_path)) as memory:
        assert len(memory.session("first").history()) == 2
    unnamed = chatting(tmp_path, "/session\nfour\n", "--session", "second")
    assert "/session needs an id" in unnamed
    with Memory(address(tmp_path)) as memory:
        assert [each.message.text for each in memory.session("second").history()] == ["two", "four"]
    empty = RUN.invoke(app, ["chat", "--store", "sqlite://", "--session", "@last", "--once", "x"])
    assert empty.exit_code == 3


def test_in_a_terminal_lines_are_edited_and_brought_back(tmp_path: Path) -> None:
    """A real terminal: what was typed is mended with Backspace, and the arrow brings back an earlier message."""
    with Memory(address(tmp_path)) as memory:
        memory.session("notes").user("said yesterday 昨天说的")
    mine, theirs = pty.openpty()
    command = [sys.executable, "-m", "turnfold", "chat", "--store", str(tmp_path / "chat.db")]
    changes = {"TERM": "xterm", "PYTHONPATH": str(SOURCE), "PROMPT_TOOLKIT_NO_CPR": "1"}
    environment = {**os.environ, "TURNFOLD_MODEL": "", **changes}
    chat = subprocess.Popen(
        [*command, "--session", "notes"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    seen = ""

    def until(text: str, times: int) -> None:
        nonlocal seen
        while seen.count(text) < times:
            seen += os.read(mine, 4096).decode("utf-8", "replace")

    ready = "\x1b[?2004h"  # sent before each line is read
    until(ready, 1)
    os.write(mine, b"hellp\x7fo\r")
    until(ready, 2)
    os.write(mine, b"\x1b[A\x1b[A\r")
    until(ready, 3)
    os.write(mine, b"\x04")
    until("to continue:", 1)
    assert chat.wait(30) == 0
    os.close(mine)
    with Memory(address(tmp_path)) as memory:
        texts = [entry.message.text for entry in memory.session("notes").history()]
    assert texts == ["said yesterday 昨天说的", "hello", "said yesterday 昨天说的"]


def test_a_chat_takes_the_session_as_an_argument_and_names_a_new_one(tmp_path: Path) -> None:
    store = ["--store", address(tmp_path)]
    first = RUN.invoke(app, ["chat", *store, "--once", "the spare key is at the desk"])
    name = first.stderr.splitlines()[-1].removeprefix("to continue: turnfold chat ").strip()
    again = RUN.invoke(app, ["chat", name, *store, "--once", "where is the spare key?"])
    assert "the spare key is at the desk" in again.stdout
    assert again.stderr == ""
    twice = RUN.invoke(app, ["chat", name, "--session", name, *store, "--once", "hi"])
    assert twice.exit_code == 2


@pytest.mark.parametrize(("model", "told"), [("glm-9", False), ("phi4", True), ("glm-4.6", False)])
def test_a_model_is_counted_by_its_family_and_an_unknown_one_is_said_to_be_estimated(
    model: str, *, told: bool, tmp_path: Path
) -> None:
    with StrictServer([Say("hello")]) as server:
        given = ["--model", model, "--base-url", f"{server.url}/v1", "--store", address(tmp_path)]
        done = RUN.invoke(app, ["chat", "one", *given, "--once", "你好"])
    assert done.exit_code == 0, done.output
    assert (f"model '{model}' is not known: its tokens are estimates" in done.stderr) is told
    with Memory(address(tmp_path)) as memory:
        assert memory.session("one").calls()[0].counter == counter_for(model).name
