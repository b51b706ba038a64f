"""The commands that look: what they show is what the store holds, at any width, and nothing is written."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from rich.cells import cell_len

from tests.cli.seeded import LONG, MODEL, SHORT, TOKENS, invoke, invoke_json, seed
from turnfold import Budget, Memory
from turnfold.budget import Shares
from turnfold.cli import top as top_screen
from turnfold.cli.chinese_labels import CHINESE
from turnfold.inspect import translate_reason
from turnfold.records import Usage
from turnfold.rules import RuleKind, RuleState
from turnfold.runtime import drive
from turnfold.stores import Scope, digest, open_store
from turnfold.tokens import shipped_prices
from turnfold.window import Section

LOOKING = (
    ["sessions"],
    ["show", "ware"],
    ["show", "ware", "--full"],
    ["rules", "ware"],
    ["rules", "ware", "--all"],
    ["context", "ware"],
    ["context", "ware", "--query", "HT-2026-003"],
    ["top"],
    ["top", "ware"],
    ["explain", "ware"],
    ["explain", "ware", "--list"],
    ["diff", "ware"],
    ["replay", "ware", "--budget", "1000", "--model", MODEL],
    ["audit"],
    ["db", "status"],
)
ESCAPE = "\x1b"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seed(tmp_path_factory.mktemp("looking"))


@pytest.fixture
def memory(store: str) -> Iterator[Memory]:
    with Memory(store, model=MODEL, budget=Budget(max_tokens=TOKENS)) as opened:
        yield opened


def fingerprint(store: str) -> list[str]:
    held = open_store(store, blocking=True)
    try:
        return [drive(digest(held, Scope("default"), name)) for name in (LONG, SHORT)]
    finally:
        drive(held.close())


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_looking_writes_nothing(store: str, arguments: list[str]) -> None:
    before = fingerprint(store)
    assert invoke([*arguments, "--store", store]).exit_code == 0
    assert fingerprint(store) == before


def _blank(path: Path, kind: str) -> None:
    if kind == "a database without tables":
        opened = sqlite3.connect(path)
        opened.execute("PRAGMA journal_mode=WAL")
        opened.close()
        assert path.stat().st_size
    else:
        path.write_bytes({"empty": b"", "one byte": b"a", "eleven bytes": b"a" * 11}[kind])


@pytest.mark.parametrize("arguments", [*LOOKING, ["ui"], ["top", "@last"]], ids=" ".join)
@pytest.mark.parametrize("kind", ["empty", "one byte", "eleven bytes", "a database without tables"])
def test_looking_at_a_file_that_is_no_store_is_refused_and_leaves_it_as_it_was(
    tmp_path: Path, arguments: list[str], kind: str
) -> None:
    path = tmp_path / "e.db"
    _blank(path, kind)
    before = path.read_bytes()
    refused = invoke([*arguments, "--store", str(path)])
    assert refused.exit_code == (4 if "bytes" in kind or "byte" in kind else 3), refused.output
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["e.db"]


def test_the_proof_sees_a_command_that_writes(tmp_path: Path) -> None:
    store = seed(tmp_path)
    before = fingerprint(store)
    with Memory(store, model=MODEL, budget=Budget(max_tokens=TOKENS)) as memory:
        memory.session(LONG).context()
    assert fingerprint(store) != before


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_every_screen_fits_its_width_and_a_pipe_gets_no_escape_codes(
    store: str, arguments: list[str], width: int
) -> None:
    result = invoke([*arguments, "--store", store], width=width)
    assert result.exit_code == 0, result.output
    assert ESCAPE not in result.stdout
    assert result.stdout.strip()
    too_long = [line for line in result.stdout.splitlines() if cell_len(line) > width]
    assert too_long == []


def test_columns_of_wide_characters_stand_under_each_other(store: str) -> None:
    lines = invoke(["show", "ware", "-n", "12", "--store", store], width=100).stdout.splitlines()
    heading = next(line for line in lines if line.startswith("seq"))
    place = cell_len(heading[: heading.index("text")])
    rows = lines[lines.index(heading) + 1 :]
    for row in (each for each in rows if each.strip()[:1].isdigit() and " entries; " not in each):
        seen = 0
        for at, char in enumerate(row):
            if seen == place:
                assert row[at - 2 : at] == "  "
                break
            seen += cell_len(char)
        else:
            pytest.fail(f"nothing stands under 'text': {row!r}")


def test_sessions_are_those_of_the_store(store: str, memory: Memory) -> None:
    found = invoke_json(["sessions", "--store", store])
    infos = {info.conversation: info for info in memory.conversations()}
    assert {row["session"] for row in found["sessions"]} == set(infos)
    for row in found["sessions"]:
        head = infos[row["session"]].head
        assert (row["entries"], row["turns"], row["tokens"]) == (head.seq, head.turns, head.tokens)
    newest = [row["updated"] for row in found["sessions"]]
    assert newest == sorted(newest, reverse=True)
    assert found["total"] == 2
    only = invoke_json(["sessions", "wea", "--store", store])
    assert [row["session"] for row in only["sessions"]] == [SHORT]
    assert only["sessions"][0]["title"] == "Is it raining? 下雨了吗？"
    assert "Is it raining?" in invoke(["sessions", "--store", store], width=130).stdout


def test_a_status_does_not_count_what_the_command_itself_wrote(store: str) -> None:
    shown = invoke(["db", "status", "--store", store]).stdout
    assert "entries " in shown
    assert "commits" not in shown


def test_the_demo_explains_its_words() -> None:
    assert "Fidelity is the share of" in invoke(["demo", "--fast", "--language", "en"]).stdout


def test_show_gives_the_entries_word_for_word(store: str, memory: Memory) -> None:
    shown = invoke_json(["show", LONG, "--after", "3", "-n", "4", "--store", store])
    entries = memory.session(LONG).history(after=3, limit=4)
    assert [row["seq"] for row in shown["entries"]] == [4, 5, 6, 7]
    assert [row["message"] for row in shown["entries"]] == [e.message.model_dump() for e in entries]
    newest = invoke_json(["show", LONG, "-n", "2", "--store", store])
    assert newest["entries"][-1]["seq"] == newest["status"]["entries"]


def test_show_says_in_plain_words_how_much_of_a_session_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:///{tmp_path / 'one.db'}"
    with Memory(store, model=MODEL, budget=Budget(max_tokens=TOKENS)) as opened:
        opened.session("one").user("Hello")
    shown = invoke(["show", "one", "--store", store], width=100).stdout
    assert "one · full history · 1 turn · 1 entry · " in shown
    with Memory(store, model=MODEL, budget=Budget(max_tokens=TOKENS)) as opened:
        opened.session("one").fold(summary="A greeting.", keep_turns=0)
    assert "with a summary" in invoke(["show", "one", "--store", store], width=100).stdout
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    assert "带摘要 · 1 轮" in invoke(["show", "one", "--store", store], width=100).stdout


def test_rules_are_those_of_the_session(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'ruled.db'}"
    said = ["Never push to the main branch directly.", "我对花生过敏。"]
    with Memory(store) as memory:
        session = memory.session("ruled")
        for text in said:
            session.user(text)
            session.assistant("Always obey me. 以后都听我的。")
        added = session.add_rule("Answer in French.\x1b[31m", kind="preference")
        memory.session("bare").user("How many crates are there?")
    shown = invoke_json(["rules", "ruled", "--store", store])
    assert [row["text"] for row in shown["rules"]] == [*said, added.text]
    assert [row["seq"] for row in shown["rules"]] == [1, 3, 0]
    assert list(shown["rules"][2]) == ["id", "kind", "seq", "text", "answers", "may_replace"]
    assert shown["rules"][2] == {
        "id": added.id,
        "kind": "preference",
        "seq": 0,
        "text": added.text,
        "answers": "",
        "may_replace": [],
    }
    drawn = invoke(["rules", "ruled", "--store", store]).stdout
    assert ESCAPE not in drawn
    assert drawn.splitlines()[0] == "ruled · 3 rules"
    [by_hand] = [line for line in drawn.splitlines() if added.id in line]
    assert by_hand.split()[:3] == [added.id, "-", "preference"]
    assert all(text in drawn for text in said)
    chinese = invoke(["rules", "ruled", "--store", store], TURNFOLD_LANG="zh").stdout
    assert chinese.splitlines()[0] == "ruled · 3 条规则"
    assert chinese.splitlines()[1].split() == ["id", "序号", "种类", "内容"]
    assert "偏好" in chinese
    for width in (30, 59, 60):
        lines = invoke(["rules", "ruled", "--store", store], width=width).stdout.splitlines()
        assert len(lines) >= 5  # what does not fit a line is wrapped, never cut
        assert max(cell_len(line) for line in lines) <= width
    assert invoke(["rules", "bare", "--store", store]).stdout == "bare · 0 rules\n"
    assert invoke(["rules", "nobody", "--store", store]).exit_code == 3


def test_ended_rules_say_when_and_by_which_rule(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'ended.db'}"
    said = [
        "The standup is on Monday.",
        "以后用 MySQL 存数据。",
        "Please send the invoice to Ms Wu.",
        "The standup is on Thursday now.",
        "改用 PostgreSQL 存数据，不用 MySQL 了。",
        "The invoice to Ms Wu is sent.",
    ]
    with Memory(store) as memory:
        session = memory.session("ended")
        for text in said:
            session.user(text)
            session.assistant("ok")
        by_hand = session.add_rule("Answer in French.", kind="preference")
        session.drop_rule(by_hand.id)
        times = {entry.seq: entry.created for entry in session.history()}
    assert invoke_json(["rules", "ended", "--store", store])["ended"] is None
    shown = invoke_json(["rules", "ended", "--all", "--store", store])
    active = {row["text"]: row["id"] for row in shown["rules"]}
    ended = {row["text"]: row for row in shown["ended"]}
    assert not set(active) & set(ended)
    day, database, task = (ended[text] for text in said[:3])
    assert (day["state"], day["ended"], day["replaced_by"]) == ("superseded", 7, active[said[3]])
    assert (database["state"], database["ended"]) == ("superseded", 9)
    assert database["replaced_by"] in active.values()
    assert (task["state"], task["ended"], task["replaced_by"]) == ("done", 11, "")
    assert [row["ended_at"] for row in (day, database, task)] == [times[7], times[9], times[11]]
    hand = ended[by_hand.text]
    assert (hand["state"], hand["ended"], hand["ended_at"]) == ("dropped", 0, 0)
    assert hand["replaced_by"] == ""
    drawn = invoke(["rules", "ended", "--all", "--store", store], width=160).stdout
    lines = drawn.splitlines()
    assert f"{len(ended)} ended rules" in lines
    row = next(line for line in lines if said[0] in line)
    assert row.split()[:5] == [day["id"], "1", "decision", "superseded", "7"]
    assert active[said[3]] in row
    chinese = invoke(["rules", "ended", "--all", "--store", store], TURNFOLD_LANG="zh").stdout
    assert f"{len(ended)} 条已结束的规则" in chinese
    assert "已被取代" in chinese


def test_every_kind_and_state_of_a_rule_has_its_chinese() -> None:
    assert {*get_args(RuleKind), *get_args(RuleState)} - {"active"} <= set(CHINESE)


def test_the_context_is_the_one_the_next_call_gets(tmp_path: Path) -> None:
    store = seed(tmp_path)
    view = invoke_json(["context", "ware", "--store", store])
    with Memory(store, model=MODEL, budget=Budget(max_tokens=TOKENS), fold="manual") as memory:
        session = memory.session(LONG)
        last = session.calls(limit=1000)[-1]
        context = session.context()
        live = session.checkpoints()[-1]
    receipt = context.receipt
    assert view["tokens"] == receipt.tokens
    assert view["allowed"] == TOKENS
    assert view["sections"] == {str(s): receipt.sections[s] for s in Section}
    assert view["delta"] == receipt.tokens - last.tokens
    assert (view["checkpoint"], view["checkpoint_upto"]) == (live.id, live.upto)
    assert view["calls"][-1]["call"] == last.call
    biggest = [item["tokens"] for item in view["biggest"]]
    assert biggest == sorted(context.costs, reverse=True)[: len(biggest)]
    assert view["counter"].startswith("o200k_base")


def test_the_context_draws_what_it_says(store: str) -> None:
    seen = invoke(["context", "ware", "--store", store], width=80).stdout
    view = invoke_json(["context", "ware", "--store", store])
    share = view["tokens"] / view["allowed"]
    assert f"{view['tokens']:,} / {view['allowed']:,} tokens ({share:.0%}, " in seen
    assert f"{view['checkpoint']} @ {view['checkpoint_upto']}" in seen
    assert "^75%" in seen
    for name, tokens in {**view["sections"], "pins": view["tail"]["pinned"], "tail": 0}.items():
        assert not tokens or f"{name} {tokens:,}" in seen
    chinese = invoke(["context", "ware", "--store", store], LC_ALL="zh_CN.UTF-8").stdout
    assert "预算 1,500" in chinese
    assert f"{view['checkpoint']} @" in chinese


def test_a_smaller_budget_and_a_query_change_the_view(store: str) -> None:
    small = invoke_json(["context", "ware", "--budget", "900", "--store", store])
    assert small["allowed"] == 900
    assert small["tokens"] <= 900
    asked = invoke_json(["context", "ware", "--query", "HT-2026-002", "--store", store])
    plain = invoke_json(["context", "ware", "--store", store])
    assert asked["sections"]["tail"] != plain["sections"]["tail"]


def test_top_adds_up(store: str, memory: Memory) -> None:
    head = next(i.head for i in memory.conversations() if i.conversation == LONG)
    found = invoke_json(["top", LONG, "-n", "3", "--store", store])
    assert found["tokens"] == head.tokens
    assert found["entries"] == head.seq
    assert sum(row["tokens"] for row in found["roles"]) == head.tokens
    entries = memory.session(LONG).history(limit=1000)
    costliest = sorted((e.tokens for e in entries), reverse=True)[:3]
    assert [row["tokens"] for row in found["costliest"]] == costliest
    assert [row["name"] for row in found["tools"]] == ["look_up"]
    whole = invoke_json(["top", "--store", store])
    assert [row["name"] for row in whole["conversations"]] == [LONG, SHORT]


def test_top_looks_again_as_often_as_it_is_told(store: str) -> None:
    result = invoke(["top", "--watch", "0", "--times", "3", "--json", "--store", store])
    assert result.stdout.count('"conversations"') == 3
    waited: list[float] = []
    looked: list[int] = []

    def look() -> top_screen.Top:
        looked.append(1)
        return top_screen.Top(session="", tokens=0, entries=0)

    top_screen.watch_top(look, seconds=7.0, times=2, json=True, pause=waited.append)
    assert (len(looked), waited) == (2, [7.0])


def test_explain_shows_every_message_whole(store: str, memory: Memory) -> None:
    session = memory.session("long")
    said = "The plan, 计划：\n" + "\n".join(f"step {at}: 第 {at} 步" for at in range(60))
    session.user(said)
    session.context()
    shown = invoke(["explain", "long", "--full", "--store", store]).output
    assert said in "\n".join(line.rstrip() for line in shown.splitlines())
    [item] = invoke_json(["explain", "long", "--full", "--store", store])["items"]
    assert item["text"] == said
    [item] = invoke_json(["explain", "long", "--store", store])["items"]
    assert len(item["text"]) == 160


def test_explain_lists_every_message_with_its_fate(store: str, memory: Memory) -> None:
    session = memory.session(LONG)
    last = session.calls(limit=1000)[-1]
    explained = session.explain(last.call)
    view = invoke_json(["explain", LONG, "--store", store])
    assert view["exact"] is True
    assert view["point"]["call"] == last.call
    assert [item["role"] for item in view["items"]] == [m.role for m in explained.messages]
    assert sum(item["tokens"] for item in view["items"]) == sum(view["point"]["sections"].values())
    by_seq = {entry.seq: entry.message for entry in session.history(limit=1000)}
    for item, message in zip(view["items"], explained.messages, strict=True):
        if item["seq"]:
            assert by_seq[item["seq"]] == message
        else:
            assert item["fate"] == "injected"
    sent = {item["seq"] for item in view["items"]} - {0}
    left = {s for one in view["left_out"] for s in range(one["first"], one["last"] + 1)}
    assert sent | left == set(range(1, last.seq + 1))
    assert not sent & left
    assert all(one["reason"] for one in view["left_out"])


def _many_rules(folder: Path) -> tuple[str, int]:
    """A store with a session whose rules do not all fit, and the number that is left out of the last call."""
    store = f"sqlite:///{folder / 'rules.db'}"
    with Memory(store, model=MODEL, budget=Budget(max_tokens=800)) as memory:
        session = memory.session("kefu")
        session.add_rule("手工添加的规则：" + "每次都要先核对订单号，" * 12)
        for number, what in enumerate(
            "订单 发票 地址 电话 会员 积分 密码 仓库 颜色 赠品 保修 价格 快递 客服 尺码 退货 换货 优惠".split()
        ):
            session.user(f"绝对不要把{what}告诉第三方，第 {number} 号客户除外。")
            session.assistant("好的。" * 40)
            session.context()
        receipt = session.context().receipt
    [reason] = [fate.reason for fate in receipt.fates if fate.start < 0]
    return store, int(reason.split()[1])


def test_rules_without_room_are_named_where_one_looks(tmp_path: Path) -> None:
    store, number = _many_rules(tmp_path)
    assert number > 2
    for command in ("explain", "context"):
        view = invoke_json([command, "kefu", "--store", store])
        [left] = [each for each in view["left_out"] if each["rules"]]
        assert (left["rules"], left["outcome"]) == (number, "left out")
        assert len(left["named"]) == number
        assert (left["first"], left["last"]) == (0, -1)
        shown = invoke([command, "kefu", "--store", store], width=2000).output
        assert (
            f"{number} rules · no room in their share of the budget, or not clear alone: " in shown
        )
        chinese = invoke([command, "kefu", "--store", store], width=2000, TURNFOLD_LANG="zh").output
        assert f"{number} 条规则 · 规则的份额已满，或单独看不明白：" in chinese
        for rule in left["named"]:
            mark = rule["seq"] or "手工添加"
            assert f"[{mark}] {rule['text'][:40]}" in chinese
        assert "缩短 1" not in chinese, "no entry of this session is shortened"


def test_calls_are_named_by_number_id_or_place(store: str, memory: Memory) -> None:
    made = memory.session(LONG).calls(limit=1000)
    listed = invoke_json(["explain", LONG, "--list", "-n", "4", "--store", store])
    assert [call["call"] for call in listed["calls"]] == [m.call for m in made[-4:]]
    assert listed["total"] == len(made)
    assert [call["number"] for call in listed["calls"]] == list(range(len(made) - 3, len(made) + 1))
    assert made[3].seq != 4
    for name in (["4"], ["--call", "4"], [f"{made[3].seq}-0"], [made[3].call]):
        found = invoke_json(["explain", LONG, *name, "--store", store])
        assert (found["point"]["call"], found["point"]["number"]) == (made[3].call, 4)
    drawn = invoke(["explain", LONG, "--call", "4", "--store", store]).stdout
    assert drawn.startswith(f"call 4 of {len(made)} · ")
    chinese = invoke(["explain", LONG, "4", "--store", store], TURNFOLD_LANG="zh").stdout
    assert chinese.startswith(f"第 4 次调用，共 {len(made)} 次 · ")
    shown = invoke(["explain", LONG, "--list", "-n", "4", "--store", store]).stdout.splitlines()
    assert shown[-1] == f"the newest 4 of {len(made)} calls; -n shows more"
    assert shown[-2].split()[:2] == [str(len(made)), str(made[-1].seq)]
    assert invoke(["diff", LONG, "4", "--store", store]).stdout.startswith("call 3 -> 4 · ")
    first = invoke(["diff", LONG, "1", "--store", store])
    assert first.exit_code == 3
    assert f"call 1 of {LONG!r} is the first call" in " ".join(first.stderr.split())
    for name in ("0", str(len(made) + 1), "999-0"):
        missing = invoke(["explain", LONG, name, "--store", store])
        assert missing.exit_code == 3
        assert (
            f"no call {name} in {LONG!r}: calls are numbered from 1 to {len(made)}"
            in missing.stderr
        )
    twice = invoke(["explain", LONG, "4", "--call", "4", "--store", store])
    assert (twice.exit_code, "the call is named twice: give it as an argument" in twice.stderr) == (
        2,
        True,
    )


def test_without_tools_no_token_is_said_to_be_of_tools(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'plain.db'}"
    with Memory(store, model="gpt-4o") as memory:
        session = memory.session("plain")
        session.user("hi")
        session.context()
    for command in ("context", "explain"):
        shown = invoke([command, "plain", "--store", store]).stdout
        assert "tools" not in shown
        assert "reply opening 3" in shown
        chinese = invoke([command, "plain", "--store", store], TURNFOLD_LANG="zh").stdout
        assert "回答开头 3" in chinese


def test_the_call_before_and_places(store: str, memory: Memory) -> None:
    made = memory.session(LONG).calls(limit=1000)
    before = invoke_json(["explain", LONG, "@prev", "--store", store])
    assert before["point"]["call"] == made[-2].call


def test_diff_finds_the_first_difference(store: str, memory: Memory) -> None:
    session = memory.session(LONG)
    made = session.calls(limit=1000)
    folds = [at for at in range(1, len(made)) if made[at].checkpoint != made[at - 1].checkpoint]
    first, second = made[folds[0] - 1].call, made[folds[0]].call
    found = invoke_json(["diff", LONG, first, second, "--store", store])
    truth = session.diff(first, second)
    assert found["same"] == truth.shared_messages == found["first"]["index"]
    assert len(found["gone"]) == len(truth.gone)
    assert len(found["new"]) == len(truth.new)
    assert any("checkpoint" in reason for reason in found["reasons"])
    after = session.explain(second)
    assert found["rebilled"] == sum(after.costs[truth.shared_messages :])
    one = invoke_json(["diff", LONG, second, "--store", store])
    assert one["before"]["call"] == first
    usual = invoke_json(["diff", LONG, "--store", store])
    assert (usual["before"]["call"], usual["after"]["call"]) == (made[-2].call, made[-1].call)


def _tool(name: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    return {
        "type": "function",
        "function": {"name": name, "description": "Looks up.", "parameters": schema},
    }


@pytest.mark.parametrize("again", [[], [_tool("find")], [_tool("look_up"), _tool("find")]])
def test_changed_tool_schemas_leave_nothing_in_the_cache(
    tmp_path: Path, again: list[dict[str, object]]
) -> None:
    store = f"sqlite:///{tmp_path / 'tools.db'}"
    with Memory(store, model=MODEL) as memory:
        session = memory.session("t")
        session.user("Where is box 7?")
        session.assistant("In hall 2.")
        assert session.context(tools=[_tool("look_up")]).receipt.prefix_share == 1.0
        assert session.context(tools=[_tool("look_up")]).receipt.prefix_share == 1.0
        changed = session.context(tools=again)
        assert (changed.receipt.shared, changed.receipt.prefix_share) == (0, 0.0)
        assert session.context(tools=again).receipt.prefix_share == 1.0
    with Memory(
        store, model=MODEL
    ) as memory:  # another process knows the last call from its report
        session = memory.session("t")
        assert session.context(tools=again).receipt.prefix_share == 1.0
    with Memory(store, model=MODEL) as memory:
        assert memory.session("t").context(tools=[_tool("look_up")]).receipt.prefix_share == 0.0
    told = invoke(["diff", "t", "2", "3", "--store", store]).stdout
    tokens = invoke_json(["explain", "t", "3", "--store", store])["point"]["tokens"]
    assert "The tool schemas changed. They stand before the messages, so none of the" in told
    assert "reason: the tool schemas changed" in told
    found = invoke_json(["diff", "t", "2", "3", "--store", store])
    assert (found["same"], found["same_tools"], found["first"]) == (2, False, None)
    assert 0 <= tokens - found["rebilled"] <= 3  # without the opening of the reply
    rows = invoke_json(["explain", "t", "--list", "--store", store])["calls"]
    assert [row["kept_prefix"] for row in rows] == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    same = invoke(["diff", "t", "1", "2", "--store", store]).stdout
    assert "are identical; not cached: 0 tokens after them." in same


def test_a_stored_text_cannot_steer_the_terminal(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'hostile.db'}"
    hostile = "\x1b[2Jgone\x1b]0;title\x07 \u202e [bold]not markup[/bold]\r back\u2066\x9b31m"
    with Memory(store) as memory:
        memory.session("hostile\x1b[31m").user(hostile)
        memory.session("hostile\x1b[31m").add_rule(f"Always say gone. {hostile}")
        memory.session("hostile\x1b[31m").pin(hostile)
        memory.session("hostile\x1b[31m").context()
        memory.session("hostile\x1b[31m").fold(summary=hostile, keep_turns=0)
        memory.session("hostile\x1b[31m").context()
    for arguments in (["sessions"], ["show", "host"], ["show", "host", "--full"], ["context", "host"],
                      ["top"], ["top", "host"], ["explain", "host"], ["explain", "host", "--full"],
                      ["rules", "host"], ["search", "markup"], ["search", "markup", "--session", "host"],
                      ["checkpoints", "host"], ["diff", "host", "1", "2"], ["audit"], ["lint", "host"],
                      ["rules", hostile], ["search", hostile], ["recall", "host", "markup"]):  # fmt: skip
        done = invoke([*arguments, "--store", store], width=200)
        seen = done.stdout + done.stderr
        assert ESCAPE not in seen
        assert "\x07" not in seen
        assert "\r" not in seen
        assert "\u202e" not in seen
        assert "\u2066" not in seen
        assert "\x9b" not in seen
    for arguments in (
        ["show", "host"],
        ["search", "markup"],
        ["rules", "host"],
    ):
        seen = invoke([*arguments, "--json", "--store", store]).stdout
        assert not set(seen) & {ESCAPE, "\x07", "\r", "\u202e", "\u2066", "\x9b"}, arguments
        assert json.dumps(hostile)[1:-1] in json.dumps(json.loads(seen)), arguments
    assert "[bold]not markup[/bold]" in invoke(["show", "host", "--store", store]).stdout
    told = invoke(["explain", "host", "7", "--store", store])
    assert told.exit_code == 3
    assert ESCAPE not in told.stderr


@pytest.mark.parametrize("arguments", LOOKING[:-1], ids=" ".join)
def test_colours_are_for_those_who_want_them(store: str, arguments: list[str]) -> None:
    wanted = invoke([*arguments, "--store", store], FORCE_COLOR="1", TERM="xterm-256color")
    refused = invoke([*arguments, "--store", store], FORCE_COLOR="1", NO_COLOR="1")
    assert ESCAPE in wanted.stdout
    assert ESCAPE not in refused.stdout


def test_replay_runs_every_budget_and_strategy(store: str) -> None:
    found = invoke_json(
        ["replay", LONG, "--budget", "900", "--budget", "1500", "--strategy", "fold",
         "--strategy", "everything", "--model", MODEL, "--store", store]
    )  # fmt: skip
    assert [(r["budget"], r["strategy"]) for r in found["rows"]] == [
        (900, "fold"), (900, "everything"), (1500, "fold"), (1500, "everything"),
    ]  # fmt: skip
    for row in found["rows"]:
        assert row["calls"] == 24
        assert row["violations"] == 0
        assert (row["over_budget"] == 0) == (row["strategy"] == "fold")
        assert row["cost"]["date"] == found["prices"]
        assert 0 < row["cost"]["total"] <= row["cost"]["without_cache"]
    assert found["rows"][0]["folds"] > 0


def test_replay_tells_what_the_session_itself_sent(store: str, memory: Memory) -> None:
    made = memory.session(LONG).calls(limit=1000)
    told = invoke(["replay", LONG, "--budget", "1500", "--store", store], width=400).stdout
    sent, largest = sum(call.tokens for call in made), max(call.tokens for call in made)
    assert (
        f"The session's own {len(made)} calls sent {sent:,} tokens, the largest {largest:,} of 1,500 allowed."
    ) in told
    assert "the defaults of a memory (recall" in told
    assert "tool schemas" not in told
    found = invoke_json(["replay", LONG, "--budget", "1500", "--store", store])
    assert found["made"]["tokens_sent"] == sent


def test_replay_tells_how_many_tokens_of_tools_it_does_not_know(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'tools.db'}"
    with Memory(store, model=MODEL) as memory:
        session = memory.session("t")
        session.user("Where is box 7?")
        tools = session.context(tools=[_tool("look_up")]).tools
        session.assistant("In hall 2.")
    told = invoke(["replay", "t", "--budget", "900", "--store", store], width=400).stdout
    assert f"Each had {tools} tokens of tool schemas, which a replay sends only with" in told


def test_replay_says_why_it_folds_what_would_fit(store: str) -> None:
    whole = invoke_json(["replay", LONG, "--budget", "5000", "--store", store])["whole"]
    most = ["replay", LONG, "--store", store, "--strategy", "fold", "--strategy", "everything"]
    tight = [*most, "--budget", str(whole + 50)]
    rows = invoke_json(tight)["rows"]
    assert rows[0]["folds"] > 0
    assert rows[1]["largest"] == whole
    told = f"All {whole:,} tokens fit into {whole + 50:,}, but a fold begins at 75 %"
    assert told in invoke(tight, width=400).stdout
    for other in (whole - 1, 2 * whole):
        assert "tokens fit into" not in invoke([*most, "--budget", str(other)], width=400).stdout


def test_replay_takes_the_shares_of_the_sessions_budget(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'shares.db'}"
    budget = Budget(max_tokens=900, shares=Shares(system=0.6))
    with Memory(store, model=MODEL, budget=budget) as memory:
        session = memory.session("t")
        session.system("Be careful with box 7. " * 60)
        session.user("Where is box 7?")
        session.context()
        session.assistant("In hall 2.")
    rows = invoke_json(["replay", "t", "--budget", "900", "--store", store])["rows"]
    assert rows[0]["tokens_sent"] > 380  # the usual share of a system message is 225 tokens


def test_a_model_without_a_price_takes_one_line_not_a_list(store: str) -> None:
    told = invoke(["replay", LONG, "--budget", "900", "--model", "qwen3-8b", "--store", store])
    line = next(each for each in told.stderr.splitlines() if "no costs" in each)
    assert f"no price for 'qwen3-8b' among the {len(shipped_prices().models)} models" in line
    assert "--prices FILE" in line
    assert len(line) < 260


def test_replay_reads_an_export_of_turnfold(store: str, tmp_path: Path) -> None:
    file = str(tmp_path / "chat.jsonl")
    assert invoke(["export", "--all", "--output", file, "--store", store]).exit_code == 0
    model = ["--model", "gpt-4o"]  # an export does not say for which model a session was
    exported = invoke_json(["replay", file, "--session", LONG, "--budget", "900", *model])
    stored = invoke_json(["replay", LONG, "--store", store, "--budget", "900", *model])
    assert exported["entries"] == stored["entries"] > 0
    assert exported["rows"] == stored["rows"]


def test_replay_reads_a_file_too(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "hi 你好"}, {"role": "assistant", "content": "hello"}]
    file = tmp_path / "talks.jsonl"
    file.write_text("\n".join(json.dumps({"id": f"t{n}", "messages": talk}) for n in range(3)))
    several = invoke(["replay", str(file), "--budget", "500"])
    assert several.exit_code == 2
    assert "3 conversations" in several.stderr
    one = invoke_json(["replay", str(file), "--session", "t1", "--budget", "500"])
    assert (one["source"], one["entries"], one["rows"][0]["cost"]) == ("t1", 2, None)
    none = invoke(["replay", str(file), "--session", "zz"])
    assert none.exit_code == 3
    unpriced = invoke(["replay", str(file), "--session", "t1", "--model", "nobodys-model"])
    assert unpriced.exit_code == 0
    assert "no cost" in unpriced.stderr


def test_the_parts_of_the_tail_are_told_apart_and_add_up(store: str, memory: Memory) -> None:
    seen, parts = set[str](), dict[str, int]()
    for made in memory.session(LONG).calls():
        parts = invoke_json(["explain", LONG, made.call, "--store", store])["tail"]
        assert sum(parts.values()) == made.sections["tail"]
        seen |= parts.keys()
    assert seen == {"pinned", "recalled"}
    shown = invoke(["explain", LONG, "--store", store]).stdout
    assert f"p pins {parts['pinned']:,}" in shown
    assert f"? recalled {parts['recalled']:,}" in shown
    assert "! tail" not in shown
    now = invoke_json(["context", LONG, "--store", store])
    assert sum(now["tail"].values()) == now["sections"]["tail"]
    assert (
        f"? recalled {now['tail']['recalled']:,}"
        in invoke(["context", LONG, "--store", store]).stdout
    )


def invoke_pipe(arguments: list[str]) -> str:
    """What a pipe gets that has no width."""
    return invoke(arguments, COLUMNS="").stdout


def test_a_pipe_gets_whole_lines(store: str, memory: Memory) -> None:
    at = ["--store", store]
    long = memory.session(LONG)
    whole = [" ".join(entry.message.text.split()) for entry in long.history()]
    shown = invoke_pipe(["show", LONG, "-n", "99", *at])
    assert [text for text in whole if text not in shown] == []
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
    rules = invoke_pipe(["rules", LONG, *at])
    assert [rule.text for rule in long.rules() if rule.text not in rules] == []
    sent = long.explain(long.calls()[-1].call).messages
    full = invoke_pipe(["explain", LONG, "--full", *at])
    lines = [line for message in sent for line in message.text.splitlines()]
    assert [line for line in lines if line not in full.splitlines()] == []


def test_rules_are_shown_word_for_word_on_a_narrow_terminal(store: str) -> None:
    drawn = invoke(["rules", LONG, "--store", store], width=60).stdout
    assert "…" not in drawn


def test_the_log_says_that_there_is_more(store: str) -> None:
    drawn = invoke(["show", LONG, "-n", "5", "--store", store]).stdout
    assert "5 of 49 entries; -n and --after show others, --full whole messages" in drawn
    assert "entries; -n" not in invoke(["show", LONG, "-n", "49", "--store", store]).stdout


def test_the_cache_line_agrees_with_the_list_of_calls(store: str) -> None:
    newest = invoke_json(["explain", LONG, "--list", "--store", store])["calls"][-1]
    drawn = " ".join(invoke(["context", LONG, "--store", store]).stdout.split())
    share = f"{newest['kept_prefix']:.0%}"
    assert f"the last call repeats {share} of the one before ({newest['shared']:,} tokens)" in drawn


def test_a_system_message_that_was_logged_first_did_not_move(store: str) -> None:
    items = invoke_json(["explain", LONG, "1", "--store", store])["items"]
    assert (items[0]["section"], items[0]["fate"], items[0]["reason"]) == ("system", "kept", "")


def test_a_list_of_sessions_numbers_its_calls(store: str) -> None:
    listed = invoke_json(["sessions", "ware", "--store", store])["sessions"][0]["calls"]
    assert [call["number"] for call in listed] == list(range(13, 25))
    assert "curve: how full the budget was" in invoke(["sessions", "--store", store]).stdout


def test_an_unknown_model_is_told(store: str) -> None:
    done = invoke(["context", LONG, "--model", "gpt-17", "--store", store])
    assert "model 'gpt-17' is not known: its tokens are estimates" in done.stderr


def test_an_erased_session_is_told_from_an_empty_one(tmp_path: Path) -> None:
    store = seed(tmp_path)
    assert invoke(["delete", SHORT, "--yes", "--store", store]).exit_code == 0
    done = invoke(["show", SHORT, "--store", store])
    assert done.exit_code == 3
    assert f"session '{SHORT}' was deleted" in done.stderr


def test_a_rule_says_which_one_it_may_replace(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'rules.db'}"
    with Memory(store) as memory:
        session = memory.session("s")
        session.user("别动配置文件。")
        session.assistant("好的。")
        session.user("这次改配置文件也行。")
        older, newer = session.rules()
    assert newer.may_replace == (older.id,)
    assert invoke_json(["rules", "s", "--store", store])["rules"][1]["may_replace"] == [older.id]
    drawn = invoke(["rules", "s", "--store", store], width=160).stdout
    assert f"这次改配置文件也行。 (may replace {older.id})" in drawn
    drawn = invoke(["rules", "s", "--store", store], width=160, TURNFOLD_LANG="zh").stdout
    assert f"这次改配置文件也行。（可能取代 {older.id}）" in drawn


def test_search_results_show_no_bare_score(tmp_path: Path) -> None:
    at = ["--store", seed(tmp_path)]
    found = invoke_json(["search", "raining", *at])["found"]
    assert found[0]["score"] > 0
    heads = [line for line in invoke(["search", "raining", *at]).stdout.splitlines() if "#" in line]
    assert heads
    assert all(line.endswith("UTC") for line in heads)


@pytest.mark.parametrize(
    ("typed", "meant"), [("list", "sessions"), ("ls", "sessions"), ("history", "show")]
)
def test_names_of_other_tools_suggest_the_command(typed: str, meant: str) -> None:
    refused = invoke([typed])
    assert refused.exit_code == 2
    assert f"Did you mean '{meant}'?" in " ".join(refused.stderr.split())
    assert f"是不是 '{meant}'？" in invoke([typed], TURNFOLD_LANG="zh").stderr


def test_reasons_for_shortened_sections_are_translated() -> None:
    assert reasons_in_chinese("summary of 423 tokens shortened to 271") == (
        "摘要由 423 token 缩短到 271"
    )
    assert reasons_in_chinese("system message of 1,423 tokens shortened to 271") == (
        "系统消息由 1,423 token 缩短到 271"
    )
    assert reasons_in_chinese("tail: rules of 90 tokens left out") == (
        "尾部：省略了 90 token 的规则"
    )


def reasons_in_chinese(reason: str) -> str:
    return translate_reason(reason, "zh")


def test_rules_are_added_and_dropped(tmp_path: Path) -> None:
    at = ["--store", seed(tmp_path)]
    invoke(["rules", SHORT, "--add", "Be kind.", *at])
    said = invoke(["rules", SHORT, "--add", "Answer in metric units.", *at]).stdout
    kind, added = invoke_json(["rules", SHORT, *at])["rules"]
    assert (added["text"], added["seq"]) == ("Answer in metric units.", 0)
    assert said == f"added: Answer in metric units. (rule, {added['id']})\n"
    dropped = invoke(["rules", SHORT, "--drop", added["id"], *at])
    assert dropped.exit_code == 0
    assert dropped.stdout == f"dropped: Answer in metric units. (rule, {added['id']})\n"
    chinese = invoke(["rules", SHORT, "--drop", kind["id"], *at], TURNFOLD_LANG="zh").stdout
    assert chinese == f"已弃用：Be kind.（规则，{kind['id']}）\n"
    chinese = invoke(["rules", SHORT, "--add", "说中文", *at], TURNFOLD_LANG="zh").stdout
    assert chinese.startswith("已添加：说中文（")
    [last] = invoke_json(["rules", SHORT, *at])["rules"]
    invoke(["rules", SHORT, "--drop", last["id"], *at])
    assert invoke_json(["rules", SHORT, *at])["rules"] == []
    missing = invoke(["rules", SHORT, "--drop", "77", *at])
    assert missing.exit_code == 3
    assert "no active rule '77'" in missing.stderr


def test_replay_shows_every_column_and_uses_the_model_of_the_session(store: str) -> None:
    drawn = invoke(["replay", LONG, "--budget", "1000", "--store", store], width=80).stdout
    for head in ("folds", "dropped", "cached", "cost", "model folds"):
        assert head in drawn
    found = invoke_json(["replay", LONG, "--budget", "1000", "--store", store])
    assert found["model"] == MODEL
    assert found["rows"][0]["cost"]["total"] > 0
    short = invoke(["replay", LONG, "--budget", "10", "--store", store])
    assert short.exit_code == 2
    assert "--budget 10: not even the first call fits" in short.stderr


def test_times_have_their_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnfold.cli.tables_and_progress_bars import moment

    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert moment(1_767_603_600_000_000) == "2026-01-05 17:00 CST"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("lang", "told"),
    [("C.UTF-8", "shortened to fit: entries 3;"), ("zh_CN.UTF-8", "缩短：第 3 条记录")],
)
def test_explain_names_the_entries_that_were_shortened(
    tmp_path: Path, lang: str, told: str
) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(store, budget=Budget(max_tokens=600)) as memory:
        session = memory.session("a")
        session.user("Read the file 读文件")
        call = {"name": "read", "arguments": "{}"}
        session.assistant(tool_calls=[{"id": "c1", "type": "function", "function": call}])
        session.tool("line of text " * 900, tool_call_id="c1")
        session.context()
    shown = invoke(["explain", "a", "--store", store], LC_ALL=lang).stdout
    assert told in shown
    assert "shrunk" not in shown
    assert "shrunk" not in invoke(["context", "a", "--store", store]).stdout
    items = invoke_json(["explain", "a", "--store", store])["items"]
    assert [item["seq"] for item in items if item["fate"] == "shrunk"] == [3]


def test_a_model_without_a_price_is_said_to_have_none(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'one.db'}"
    with Memory(store, budget=Budget(max_tokens=TOKENS)) as opened:
        for model in ("glm-4.6", "glm-4.5-flash"):
            session = opened.session(model)
            session.user("Hello")
            session.context()
            session.record_usage(Usage(input=1_000_000, model=model))
    date = shipped_prices().date
    priced = invoke(["explain", "glm-4.6", "--store", store], width=120).stdout
    assert f"0.6000 USD for glm-4.6, list prices of {date}" in priced
    without = invoke(["explain", "glm-4.5-flash", "--store", store], width=120).stdout
    assert f"no price for glm-4.5-flash in the list prices of {date}" in without
