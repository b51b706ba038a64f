"""Checkpoint, fork, export, import, audit, db: what they change, what they refuse, and with which code they end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.seeded import LONG, MODEL, SHORT, invoke, invoke_json, seed
from turnfold import Budget, Memory, user
from turnfold.cli import audit_and_db as maintenance
from turnfold.importers import FORMATS
from turnfold.inspect import auditor as auditing
from turnfold.records import NewEntry
from turnfold.runtime import drive
from turnfold.stores import Scope, digest, open_store
from turnfold.stores.sqlite.engine import SqliteEngine
from turnfold.stores.sqlite.schema import MIGRATIONS
from turnfold.stores.sqlite.write_queue import Connection
from turnfold.wire import lint


@pytest.fixture
def store(tmp_path: Path) -> str:
    return seed(tmp_path)


def digests(store: str) -> dict[str, str]:
    held = open_store(store, blocking=True)
    try:
        scope = Scope("default")
        names = [info.conversation for info in drive(held.conversations(scope))]
        return {name: drive(digest(held, scope, name)) for name in names}
    finally:
        drive(held.close())


def test_a_checkpoint_by_hand_folds_and_the_log_stays(store: str) -> None:
    with Memory(store, model=MODEL) as memory:
        before = memory.session(LONG).history(limit=1000)
    made = invoke_json(["fold", "ware", "--keep-turns", "1", "--store", store])
    with Memory(store, model=MODEL) as memory:
        session = memory.session(LONG)
        assert session.checkpoints()[-1].id == made["checkpoint"]["id"]
        assert session.history(limit=1000) == before
    again = invoke(["fold", "ware", "--keep-turns", "1", "--store", store])
    assert again.exit_code == 0
    assert "nothing to fold" in again.stdout


def test_a_summary_may_be_given_as_text_file_or_input(store: str, tmp_path: Path) -> None:
    file = tmp_path / "summary.txt"
    file.write_text("From a file: 定金 4471.50 欧元", encoding="utf-8")
    made = invoke_json(
        ["fold", "ware", "--keep-turns", "3", "--summary", f"@{file}", "--store", store]
    )
    assert made["checkpoint"]["text"] == "From a file: 定金 4471.50 欧元"
    missing = invoke(["fold", "ware", "--summary", "@nowhere.txt", "--store", store])
    assert missing.exit_code == 3


def test_a_checkpoint_is_listed_and_dropped(store: str) -> None:
    summary = "zxqbad 坏摘要"
    at = ["--store", store]
    with Memory(store, model=MODEL) as memory:
        before = [each.id for each in memory.session(LONG).checkpoints()]
    made = invoke_json(["fold", "ware", "--keep-turns", "1", "--summary", summary, *at])
    name = made["checkpoint"]["id"]
    listed = invoke_json(["checkpoints", "ware", *at])
    assert [each["id"] for each in listed["checkpoints"]] == [*before, name]
    assert summary in invoke(["checkpoints", "ware", *at]).stdout
    gone = invoke(["checkpoints", "ware", "--drop", name, *at])
    assert (gone.exit_code, "dropped" in gone.stdout, summary in gone.stdout) == (0, True, True)
    assert summary not in invoke(["checkpoints", "ware", *at]).stdout
    audited = invoke_json(["checkpoints", "ware", "--dropped", *at])
    assert [each["id"] for each in audited["checkpoints"]] == [name]
    assert invoke(["checkpoints", "ware", "--drop", name, *at]).exit_code == 3


def test_a_fork_is_counted_like_its_original(store: str) -> None:
    made = invoke_json(["fork", "ware", "branch", "--at", "9", "--store", store])
    assert (made["forked_from"], made["entries"]) == (LONG, 9)
    with Memory(store, model=MODEL) as memory:
        ours = [(e.message, e.tokens) for e in memory.session("branch").history()]
        theirs = [(e.message, e.tokens) for e in memory.session(LONG).history(limit=9)]
        heads = {i.conversation: i.head.counter for i in memory.conversations()}
    assert ours == theirs
    assert heads["branch"] == heads[LONG]
    assert invoke(["fork", "ware", "branch", "--store", store]).exit_code == 4
    assert invoke(["fork", "ware", "other", "--at", "9999", "--store", store]).exit_code == 2


def test_an_entry_is_pinned_shown_and_unpinned(store: str) -> None:
    with Memory(store, model=MODEL) as memory:
        entry = memory.session(LONG).history(after=1, limit=1)[0]
    made = invoke_json(["pin", "ware", "--entry", "2", "--store", store])
    assert made["pins"]["entry-2"] == f"(entry 2, user) {entry.message.text}"
    both = invoke(["pin", "ware", "a text", "--entry", "2", "--store", store])
    assert both.exit_code == 2
    text = invoke_json(["pin", "ware", "用中文回答", "--key", "zh", "--store", store])
    assert text["pins"]["zh"] == "用中文回答"
    for key in ("entry-2", "zh"):
        left = invoke_json(["unpin", "ware", key, "--store", store])
        assert key not in left["pins"]
    assert invoke(["unpin", "ware", "zh", "--store", store]).exit_code == 3


def test_one_entry_or_the_whole_session_is_deleted(store: str) -> None:
    def at(words: str) -> list[str]:
        return [*words.split(), "--store", store]

    assert invoke_json(["fork", "ware", "gone", "--store", store])["session"] == "gone"
    unasked = invoke(at("delete gone --entry 3"))
    assert (unasked.exit_code, "--yes" in unasked.stderr) == (2, True)
    assert invoke(at("delete gon --entry 3 --yes")).exit_code == 2  # no prefix of an id
    assert invoke(at("delete gone --reason x --yes")).exit_code == 2
    shown = invoke([*at("delete gone --entry 3 --yes"), "--reason", "asked 用户要求"])
    assert shown.exit_code == 0
    assert "deleted: 1 entry" in shown.stdout
    assert "forks are not changed" in shown.stdout
    with Memory(store, model=MODEL) as memory:
        log = [entry.message.text for entry in memory.session("gone").history()]
        original = [entry.message.text for entry in memory.session(LONG).history()]
    assert log == [*original[:2], "[erased: asked 用户要求]", *original[3:]]
    beyond = invoke(at("delete gone --entry 99999 --yes"))
    assert beyond.exit_code == 3
    assert "`turnfold show SESSION` lists the entries" in beyond.stderr
    [erased] = invoke_json(at("delete gone --yes"))["conversations"]
    assert erased["entries"] > 3
    again = invoke(at("delete gone --yes"))
    assert (again.exit_code, again.stdout) == (0, "was already erased: nothing of it was left\n")
    assert invoke_json(["sessions", "--store", store])


def test_our_own_export_comes_back_the_same(store: str, tmp_path: Path) -> None:
    file, other = tmp_path / "all.jsonl", str(tmp_path / "other.db")
    done = invoke(["export", "--all", "-o", str(file), "--store", store])
    assert done.exit_code == 0, done.output
    assert "2 sessions" in done.stderr
    assert invoke_json(["import", str(file), "--store", other])["new"] == 2
    assert digests(f"sqlite:///{other}") == digests(store)
    assert invoke_json(["import", str(file), "--store", other])["already"] == 2
    packed = tmp_path / "all.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert invoke_json(["import", str(packed), "--store", other])["already"] == 2


@pytest.mark.parametrize("name", ["turnfold", "openai"])
def test_an_export_replaces_a_file_only_with_force(tmp_path: Path, name: str) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("mine")
    export = ["export", "--all", "--format", name, "-o", str(file), "--store", seed(tmp_path)]
    refused = invoke(export)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert file.read_text() == "mine"
    assert invoke([*export, "--force"]).exit_code == 0
    assert file.read_text() != "mine"


def test_the_standard_output_gets_the_export_and_nothing_else(store: str) -> None:
    result = invoke(["export", SHORT, "--store", store])
    lines = [json.loads(line) for line in result.stdout_bytes.splitlines()]
    assert lines[0]["format"] == "turnfold-export"
    assert lines[-1]["line"] == "footer"


@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "gemini"])
def test_an_export_for_a_provider_is_one_it_takes_and_reads_back(
    store: str, tmp_path: Path, name: str
) -> None:
    file, other = tmp_path / f"{name}.jsonl", str(tmp_path / f"{name}.db")
    arguments = ["export", LONG, SHORT, "--format", name, "-o", str(file), "--store", store]
    done = invoke_json(arguments)
    assert done["sessions"] == [LONG, SHORT]
    bodies = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    provider = {"openai": "openai_chat", "openai-responses": "openai_responses"}.get(name, name)
    for body in bodies:
        del body["conversation_id"]
        assert lint(body, provider) == ()
    found = invoke_json(["import", str(file), "--store", other])
    assert (found["format"], found["conversations"]) == (name, [LONG, SHORT])
    with Memory(store) as memory, Memory(f"sqlite:///{other}") as copied:
        theirs = [e.message.text for e in copied.session(LONG).history(limit=1000)]
        ours = [e.message.text for e in memory.session(LONG).history(limit=1000)]
    assert theirs == ours


def test_markdown_holds_every_word(store: str) -> None:
    seen = invoke(["export", LONG, "--format", "markdown", "--store", store]).stdout
    with Memory(store) as memory:
        for entry in memory.session(LONG).history(limit=1000):
            assert entry.message.text in seen


def test_a_failed_export_leaves_no_file(store: str, tmp_path: Path) -> None:
    for name in ("nowhere", ""):
        arguments = [
            "export",
            *([name] if name else []),
            "-o",
            str(tmp_path / "x"),
            "--store",
            store,
        ]
        assert invoke(arguments).exit_code == (3 if name else 2)
    assert invoke(["export", SHORT, "--format", "pdf", "--store", store]).exit_code == 2
    assert not (tmp_path / "x").exists()


def test_bad_lines_are_named_and_nothing_is_imported(tmp_path: Path) -> None:
    file, other = tmp_path / "talk.jsonl", tmp_path / "new.db"
    good = [json.dumps({"role": "user", "content": f"第 {n} 句"}) for n in range(4)]
    lines = [good[0], '{"role": "us', good[1], '{"content": "no role"}', good[2], "[1, 2]", good[3]]
    file.write_text("\n".join(lines), encoding="utf-8")
    refused = invoke(["import", str(file), "--format", "openai", "--store", str(other)])
    assert refused.exit_code == 1
    for line in (2, 4, 6):
        assert f"line {line}:" in refused.stderr
    assert "Nothing was imported" in refused.stderr
    assert not other.exists()
    skipped = invoke(["import", str(file), "--skip-bad", "--store", str(other), "--json"])
    assert skipped.exit_code == 1
    done = json.loads(skipped.stdout)
    assert (done["entries"], done["bad_total"]) == (4, 3)
    assert [bad["line"] for bad in done["bad"]] == [2, 4, 6]
    with Memory(f"sqlite:///{other}") as memory:
        assert len(memory.session("talk").history()) == 4


def test_what_an_import_cannot_read_is_told_once(tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "new.db")]
    empty, bot = tmp_path / "empty.json", tmp_path / "bot.json"
    empty.write_text("")
    bot.write_text('[{"role": "bot", "content": "x"}]')
    told = invoke(["import", str(tmp_path), *store])
    assert (told.exit_code, told.stderr) == (2, f"turnfold: {tmp_path} is a folder: give a file\n")
    told = invoke(["import", str(empty), *store])
    assert (told.exit_code, "empty.json is empty: give" in told.stderr) == (2, True)
    noise = tmp_path / "noise.db"
    noise.write_bytes(bytes(range(128, 256)))
    told = invoke(["import", str(noise), *store])
    assert (told.exit_code, "the format of noise.db is not known" in told.stderr) == (2, True)
    told = invoke(["import", str(bot), *store])
    assert told.exit_code == 1
    assert told.stderr.startswith("turnfold: line 1: bot.json cannot be imported: role: unknown")
    assert told.stderr.count("line 1") == 1
    assert "give the sessions to export, or --all" in invoke(["export", *store]).stderr


@pytest.mark.parametrize("given", ["import os\n", '{"role": "user"\n'])
def test_a_failed_import_leaves_no_new_store(tmp_path: Path, given: str) -> None:
    file, kept = tmp_path / "e.py", tmp_path / "kept.db"
    file.write_text(given, encoding="utf-8")
    done = invoke(["import", str(file), "--store", str(tmp_path / "new.db")])
    assert done.exit_code != 0
    assert [each.name for each in tmp_path.iterdir()] == ["e.py"]
    with Memory(f"sqlite:///{kept}") as memory:
        memory.session("a").user("hi")
    assert invoke(["import", str(file), "--store", str(kept)]).exit_code != 0
    with Memory(f"sqlite:///{kept}") as memory:  # a store that was there before stays
        assert len(memory.session("a").history()) == 1


def test_a_dry_run_leaves_no_new_store(tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    file.write_text('[{"role": "user", "content": "你好"}]', encoding="utf-8")
    words = ["import", str(file), "--session", "a", "--store", str(tmp_path / "new.db")]
    assert invoke_json([*words, "--dry-run"])["new"] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["talk.json"]
    assert invoke_json(words)["new"] == 1
    assert (tmp_path / "new.db").exists()


def test_texts_of_a_system_message_are_paragraphs_in_markdown(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'a.db'}"
    parts = [{"type": "text", "text": "Be exact."}, {"type": "text", "text": "Earlier parts."}]
    split = [{"type": "text", "text": "It is "}, {"type": "text", "text": "blue."}]
    with Memory(store) as memory:
        memory.session("s").add({"role": "system", "content": parts})
        memory.session("s").add({"role": "assistant", "content": split})
    done = invoke(["export", "s", "--format", "markdown", "--store", store])
    assert "\nBe exact.\n\nEarlier parts.\n" in done.stdout
    assert "\nIt is blue.\n" in done.stdout


@pytest.mark.parametrize("name", ["all.jsonl", "notes.md", "old.db"])
def test_a_file_in_the_place_of_a_session_names_the_option(tmp_path: Path, name: str) -> None:
    """Of an export the output is meant, of other commands a store or a file of another program."""
    store = seed(tmp_path)
    done = invoke(["export", "@last", name, "--store", store])
    assert done.exit_code == 2
    assert f"'{name}' is no session: to write the export to that file, put --output" in done.stderr
    shown = invoke(["show", name, "--store", store])
    assert shown.exit_code == 3
    assert f"`--store {name}` opens a store" in shown.stderr
    assert "looks like a file" not in invoke(["show", "nobody", "--store", store]).stderr


@pytest.mark.parametrize("packed", [False, True])
def test_a_dry_run_of_an_export_says_what_the_import_would_do(
    tmp_path: Path, *, packed: bool
) -> None:
    """New, there already, deleted here, or different: the same as the import that follows, and nothing is written."""
    store, source = f"sqlite:///{tmp_path / 'new.db'}", seed(tmp_path)
    file = tmp_path / "all.jsonl"
    assert invoke(["export", "--all", "--store", source, "-o", str(file)]).exit_code == 0
    if packed:
        file.with_name("all.jsonl.gz").write_bytes(gzip.compress(file.read_bytes()))
        file = file.with_name("all.jsonl.gz")
    words = ["import", str(file), "--store", store]
    tried = invoke_json([*words, "--dry-run"])
    assert not (tmp_path / "new.db").exists()
    done = invoke_json(words)
    assert (tried["written"], done["written"]) == (False, True)
    assert tried["new"] == done["new"] > 1
    assert tried["entries"] == done["entries"] > 10
    again = invoke_json([*words, "--dry-run"])
    assert (again["already"], again["new"], again["entries"]) == (done["new"], 0, 0)
    with Memory(store) as memory:
        names = [each.conversation for each in memory.conversations()]
        memory.delete(names[0])
    gone = json.loads(invoke([*words, "--dry-run", "--json"]).stdout)
    assert (gone["erased"], gone["already"]) == ([names[0]], len(names) - 1)
    with Memory(store) as memory:
        memory.session(names[1]).user("one more")
    refused = invoke([*words, "--dry-run"])
    assert refused.exit_code == invoke(words).exit_code == 4
    assert f"conversation '{names[1]}' is already in the store and differs" in refused.stderr


def test_a_dry_run_of_a_damaged_export_says_where(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    assert invoke(["export", "--all", "--store", seed(tmp_path), "-o", str(file)]).exit_code == 0
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:-2]), encoding="utf-8")
    done = invoke(["import", str(file), "--dry-run", "--store", str(tmp_path / "new.db")])
    assert done.exit_code == 1
    assert not (tmp_path / "new.db").exists()


def test_a_deleted_session_does_not_keep_the_rest_of_its_file_out(tmp_path: Path) -> None:
    file, own = tmp_path / "ft.jsonl", tmp_path / "own.jsonl"
    store, other = f"sqlite:///{tmp_path / 'new.db'}", f"sqlite:///{tmp_path / 'other.db'}"
    lines = [
        json.dumps({"messages": [{"role": "user", "content": f"第 {n} 句"}]}) for n in (1, 2, 3)
    ]
    file.write_text("\n".join(lines[:2]), encoding="utf-8")
    assert invoke_json(["import", str(file), "--store", store])["new"] == 2
    assert invoke(["export", "--all", "--store", store, "-o", str(own)]).exit_code == 0
    assert invoke(["delete", "ft-2", "--yes", "--store", store]).exit_code == 0
    file.write_text("\n".join(lines), encoding="utf-8")
    for trial in (["--dry-run"], []):
        again = invoke(["import", str(file), "--json", "--store", store, *trial])
        assert again.exit_code == 1
        done = json.loads(again.stdout)
        assert (done["erased"], done["conversations"], done["already"]) == (["ft-2"], ["ft-3"], 1)
        assert done["entries"] == 1
    shown = invoke(["import", str(file), "--store", store])
    assert shown.exit_code == 1
    assert "left out, because it was deleted from this store: ft-2" in shown.stdout
    with Memory(store) as memory:
        assert [each.conversation for each in memory.conversations()] == ["ft", "ft-3"]
    with Memory(other) as memory:  # turnfold's own export, the same
        memory.session("ft-2").user("hello")
        memory.delete("ft-2")
    restored = invoke(["import", str(own), "--json", "--store", other])
    assert restored.exit_code == 1
    assert (json.loads(restored.stdout)["erased"], json.loads(restored.stdout)["new"]) == (
        ["ft-2"],
        1,
    )


def test_a_file_that_grew_is_imported_again(tmp_path: Path) -> None:
    file, store = tmp_path / "talk.jsonl", f"sqlite:///{tmp_path / 'new.db'}"
    said = [
        json.dumps({"role": role, "content": f"{role} {n}"})
        for n in range(3)
        for role in ("user", "assistant")
    ]
    file.write_text("\n".join(said[:4]))
    trial = invoke_json(["import", str(file), "--dry-run", "--store", store])
    assert (trial["entries"], trial["written"]) == (4, False)
    assert not (tmp_path / "new.db").exists()
    assert invoke_json(["import", str(file), "--store", store])["new"] == 1
    file.write_text("\n".join(said))
    grown = invoke_json(["import", str(file), "--store", store])
    assert (grown["continued"], grown["entries"]) == (["talk"], 2)
    assert invoke_json(["import", str(file), "--store", store])["already"] == 1
    with Memory(store) as memory:
        assert [e.message.text for e in memory.session("talk").history()][-1] == "assistant 2"
    file.write_text("\n".join([said[1], *said]))
    other = invoke(["import", str(file), "--store", store])
    assert other.exit_code == 4
    assert "differs from entry 1 on" in other.stderr
    renamed = invoke_json(["import", str(file), "--session", "again", "--store", store])
    assert renamed["conversations"] == ["again"]


def test_every_format_is_offered(tmp_path: Path) -> None:
    helped = invoke(["import", "--help"], width=200).stdout
    assert all(name in helped for name in FORMATS)
    assert invoke(["import", str(tmp_path / "no.json"), "--store", "x.db"]).exit_code == 3
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    assert invoke(["import", str(empty), "--store", str(tmp_path / "e.db")]).exit_code == 2


def test_an_audit_finds_nothing_until_something_is_wrong(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = invoke_json(["audit", "--store", store])
    assert (found["faults"], len(found["sessions"])) == (0, 2)
    assert found["entries"] == sum(one["entries"] for one in found["sessions"])

    def lies(*_arguments: object, **_options: object) -> list[auditing.AuditFault]:
        return [
            auditing.AuditFault(auditing.AuditRule.DENSE, 3, "found where entry 2 was expected")
        ]

    monkeypatch.setattr(maintenance, "audit", lies)
    result = invoke(["audit", "weather", "--store", store])
    assert result.exit_code == 1
    assert f"{SHORT}: dense at entry 3" in result.stdout


def test_an_audit_sees_a_log_that_was_tampered_with(store: str, tmp_path: Path) -> None:
    engine = SqliteEngine(str(tmp_path / "seeded.db"), blocking=True)
    drive(engine.write(lambda c: c.execute("DELETE FROM entry WHERE seq = 3").fetchall()))
    drive(engine.close())
    result = invoke(["audit", LONG, "--store", store])
    assert result.exit_code == 1, result.output


def test_the_store_is_where_it_is_said_to_be(store: str, tmp_path: Path) -> None:
    assert invoke(["db", "path", "--store", store]).stdout.strip() == str(tmp_path / "seeded.db")
    assert invoke(["db", "path"], TURNFOLD_STORE=store).stdout.strip() == str(
        tmp_path / "seeded.db"
    )
    home = invoke(["db", "path"], XDG_DATA_HOME=str(tmp_path / "data")).stdout.strip()
    assert home == str(tmp_path / "data" / "turnfold" / "chat.db")
    assert not (tmp_path / "data").exists()
    guarded = "postgresql://dana:s3cret@db.example/turns"
    assert "s3cret" not in invoke(["db", "path", "--store", guarded, "--json"]).output


def test_status_tells_the_schema_without_changing_it(store: str, tmp_path: Path) -> None:
    found = invoke_json(["db", "status", "--store", store])
    assert found["conversations"] == 2
    assert found["file"]["applied"] == [name for name, _ in MIGRATIONS]
    assert (found["file"]["journal_mode"], found["file"]["synchronous"]) == ("wal", 2)
    old = tmp_path / "old.db"
    engine = SqliteEngine(str(old), blocking=True)

    def first_release(connection: Connection) -> None:
        name, script = MIGRATIONS[0]
        connection.execute("CREATE TABLE migration (name TEXT PRIMARY KEY) STRICT")
        connection.execute(script)
        connection.execute("INSERT INTO migration (name) VALUES (?)", (name,))

    drive(engine.write(first_release))
    drive(engine.close())
    for _ in range(2):  # looking does not bring it up to date
        behind = invoke(["db", "status", "--store", str(old), "--json"])
        assert behind.exit_code == 1
        told = json.loads(behind.stdout)
        assert told["file"]["missing"] == [name for name, _ in MIGRATIONS[1:]]
    added = invoke_json(["db", "migrate", "--store", str(old)])["added"]
    assert added == [name for name, _ in MIGRATIONS[1:]]
    assert invoke_json(["db", "status", "--store", str(old)])["file"]["missing"] == []
    assert "up to date" in invoke(["db", "migrate", "--store", str(old)]).stdout


def test_a_backup_is_the_same_store(store: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    done = invoke_json(["db", "backup", str(copy), "--store", store])
    assert done["size"] == copy.stat().st_size
    assert digests(f"sqlite:///{copy}") == digests(store)
    assert invoke(["db", "backup", str(copy), "--store", store]).exit_code == 2


def test_names_that_are_not_there_or_not_alone(store: str) -> None:
    held = open_store(store, blocking=True)
    drive(held.append(Scope("default"), "weather-2", [NewEntry(user("hi"))]))
    drive(held.close())
    several = invoke(["show", "weather", "--store", store])
    assert several.exit_code == 2
    assert "weather-1, weather-2" in several.stderr
    assert invoke(["show", "weather-1", "--store", store]).exit_code == 0
    nobody = invoke(["show", "nobody", "--store", store])
    assert nobody.exit_code == 3
    assert "turnfold sessions" in nobody.stderr
    assert invoke(["show", "ware", "--store", store, "--tenant", "other"]).exit_code == 3
    assert invoke(["explain", "ware", "999999", "--store", store]).exit_code == 3
    assert invoke(["explain", "ware", "what", "--store", store]).exit_code == 2
    assert invoke(["explain", "weather-1", "--store", store]).exit_code == 3
    assert invoke(["show", "@last", "--store", store]).stdout.startswith("weather-2")


@pytest.mark.parametrize("command", ["sessions", "top", "audit"])
def test_a_mistyped_store_is_told_and_not_made(tmp_path: Path, command: str) -> None:
    missing = tmp_path / "typo.db"
    result = invoke([command, "--store", str(missing)])
    assert result.exit_code == 3
    assert "typo.db" in result.stderr
    assert "Traceback" not in result.output
    assert not missing.exists()


def test_a_store_that_is_none(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    foreign.write_bytes(b"not a database at all" * 100)
    for command in (["sessions"], ["db", "status"]):
        result = invoke([*command, "--store", str(foreign)])
        assert result.exit_code == 4
        assert "Traceback" not in result.output
    assert invoke(["sessions", "--store", "mysql://x"]).exit_code == 2


def test_explain_says_that_a_stable_beginning_was_not_cached(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'cold.db'}"
    with Memory(store, budget=Budget(max_tokens=20_000)) as memory:
        session = memory.session("one")
        session.user("parcel 包裹 " * 1_500)
        session.context()
        session.assistant("on its way")
        session.context()
        session.record_usage({"input_tokens": 6_000, "cache_read_input_tokens": 0})
    shown = " ".join(invoke(["explain", "one", "--store", store]).stdout.split())
    assert "nothing was cached, although" in shown
    assert invoke_json(["explain", "one", "--store", store])["point"]["cache_missed"] is True


def test_nothing_is_announced_for_a_session_that_is_not_there(tmp_path: Path) -> None:
    store = seed(tmp_path)
    done = invoke(["delete", "nosuch", "--store", store])
    assert done.exit_code == 3
    assert "this erases" not in done.stderr
    chinese = invoke(["delete", LONG, "--store", store], TURNFOLD_LANG="zh")
    assert f"需要确认：这会永久删除会话 '{LONG}'，请加上 --yes" in chinese.stderr


def test_a_file_of_no_known_format_is_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("import os\n")
    done = invoke(["import", str(path), "--store", str(tmp_path / "new.db")])
    assert done.exit_code == 2
    assert done.stderr.count("line 1") == 1
    assert "name it with --format" in done.stderr


def test_an_empty_pin_names_the_options_of_the_command(tmp_path: Path) -> None:
    store = seed(tmp_path)
    done = invoke(["pin", SHORT, "--store", store])
    assert done.exit_code == 2
    assert "give the text to pin, or --entry" in done.stderr


def test_one_is_written_in_the_singular(tmp_path: Path) -> None:
    store = seed(tmp_path)
    assert f"{SHORT}: 1 pin\n" in invoke(["pin", SHORT, "Be kind.", "--store", store]).stdout
    invoke(["rules", SHORT, "--add", "Be kind.", "--store", store])
    assert "1 rule\n" in invoke(["rules", SHORT, "--store", store]).stdout
    assert "1 条规则" in invoke(["rules", SHORT, "--store", store], TURNFOLD_LANG="zh").stdout


def test_a_rule_without_text_is_refused(store: str) -> None:
    done = invoke(["rules", SHORT, "--add", "", "--store", store])
    assert done.exit_code == 2
    assert "a rule must not be empty: give its text" in done.stderr


def test_a_call_of_a_session_without_calls(store: str) -> None:
    done = invoke(["explain", SHORT, "7", "--store", store])
    assert done.exit_code == 3
    assert f"no call 7 in {SHORT!r}: it has no calls yet" in done.stderr


MISSING = {
    "export": ["export", SHORT, "-o", "{file}"],
    "export of another format": ["export", SHORT, "--format", "openai", "-o", "{file}"],
    "db backup": ["db", "backup", "{file}"],
    "lint": ["lint", SHORT, "--mend", "{file}"],
    "tokens": ["tokens", "create", "web", "--tenant", "a", "--file", "{file}"],
}


@pytest.mark.parametrize("name", MISSING)
def test_a_folder_that_does_not_exist_is_named_with_the_remedy(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = tmp_path / "no" / "such.json"
    command = [word.replace("{file}", str(file)) for word in MISSING[name]]
    at = [] if name == "tokens" else ["--store", store]
    done = invoke([*command, *at])
    assert (done.exit_code, isinstance(done.exception, SystemExit)) == (2, True), done.output
    assert str(file.parent) in done.stderr
    assert "does not exist; create it first" in done.stderr
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    assert "不存在；请先创建它" in invoke([*command, *at]).stderr


def test_a_folder_in_place_of_a_file_is_named(store: str, tmp_path: Path) -> None:
    done = invoke(["export", SHORT, "--format", "openai", "-o", str(tmp_path), "--store", store])
    assert (done.exit_code, isinstance(done.exception, SystemExit)) == (2, True), done.output
    assert f"cannot use {tmp_path}: Is a directory" in done.stderr
    assert list(tmp_path.parent.glob("*.part")) == []


def test_markdown_on_the_standard_output_is_no_json(store: str, tmp_path: Path) -> None:
    export = ["export", SHORT, "--format", "markdown", "--json", "--store", store]
    refused = invoke(export)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--json prints JSON only" in refused.stderr
    done = invoke_json([*export, "-o", str(tmp_path / "short.md")])
    assert done["format"] == "markdown"


def test_a_moved_session_keeps_its_token_counter(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path / 'source.db'}"
    with Memory(source, model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
        session = memory.session("notes")
        session.user("The spare key hangs in the shed. 备用钥匙挂在棚子里。")
        session.context()
        head = drive(memory.store.head(memory.scope, "notes"))
    file = tmp_path / "notes.jsonl"
    invoke(["export", "notes", "--output", str(file), "--store", source])
    packed = tmp_path / "notes.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    for number, moved in enumerate((file, packed)):
        target = f"sqlite:///{tmp_path / f'target{number}.db'}"
        told = invoke(["import", str(moved), "--store", target]).stdout
        assert "tokens are counted with o200k_base+openai+openai-tiles" in told
        with Memory(target) as memory:
            arrived = drive(memory.store.head(memory.scope, "notes"))
        assert (arrived.counter, arrived.tokens) == (head.counter, head.tokens)
    named = f"sqlite:///{tmp_path / 'named.db'}"
    told = invoke(["import", str(file), "--store", named, "--model", "gpt-4"]).stdout
    assert "tokens are counted with cl100k_base" in told  # what --model names comes first
