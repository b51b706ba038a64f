"""What --json prints is a promise to programs: a field that is renamed or lost fails here before it fails there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.seeded import LONG, MODEL, invoke, invoke_json, seed
from turnfold import Memory
from turnfold.cli.app import app

POINT = frozenset(
    "call number seq created tokens allowed certainty counter sections tools messages kept_prefix shared moved "
    "checkpoint folded dropped shrunk reported_input reported_cached reported_output cache_missed model".split()
)
ITEM = frozenset("index section seq role label tokens fate reason digest text".split())
LEFT_OUT = frozenset("first last outcome reason rules named".split())
ROW = frozenset("name tokens entries share".split())
COST = frozenset("currency date model total without_cache read written fresh output folds".split())

SHAPES: tuple[tuple[str, str], ...] = (
    ("sessions", "store tenant total sessions"),
    ("show ware", "status entries"),
    ("rules ware", "session rules ended"),
    ("rules ware --all", "session rules ended"),
    (
        "context ware",
        (
            "conversation counter window reserve allowed tokens free certainty sections tools reply messages roles "
            "delta fold_at folded dropped shrunk checkpoint checkpoint_upto checkpoints cache calls biggest left_out "
            "tail fold_failures fold_error"
        ),
    ),
    ("top", "session tokens entries conversations roles tools costliest"),
    ("explain ware", "point exact window reserve items left_out recalled calls tail"),
    ("explain ware --list", "session total calls"),
    (
        "diff ware",
        "before after same same_tokens rebilled same_tools first gone new sections reasons",
    ),
    ("replay ware --budget 900", "source entries turns counter model prices rows whole made"),
    (
        "eval ware --budget 900",
        "conversations entries questions rules_from counter model prices currency rows skipped",
    ),
    ("audit", "store tenant rules sessions entries faults"),
    ("doctor", "ok findings"),
    ("db path", "store exists"),
    ("db status", "store backend ok conversations entries details warnings file"),
    ("db migrate", "store added"),
    ("fold ware --keep-turns 1", "session checkpoint"),
    ("fork ware copy", "session forked_from entries"),
    ("pin ware --entry 2 --key k", "session pins"),
    ("unpin ware k", "session pins"),
    (
        "delete weather-1 --entry 1 --yes",
        "conversation entries checkpoints documents already mentions",
    ),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seed(tmp_path_factory.mktemp("shapes"))


@pytest.mark.parametrize(("command", "fields"), SHAPES)
def test_a_command_has_the_fields_it_promises(store: str, command: str, fields: str) -> None:
    assert list(invoke_json([*command.split(), "--store", store])) == fields.split()


def test_the_parts_have_theirs(store: str) -> None:
    def ask(command: str) -> Any:
        return invoke_json([*command.split(), "--store", store])

    seen = ask("context ware")
    explained, compared = ask("explain ware"), ask("diff ware")
    for point in (seen["calls"][0], explained["point"], compared["before"], compared["after"]):
        assert set(point) == POINT
    for item in (seen["biggest"][0], explained["items"][0], compared["new"][0]):
        assert set(item) == ITEM
    assert set(explained["left_out"][0]) == LEFT_OUT
    assert set(seen["cache"]) == {"calls", "tokens", "broken_by", "reason"}
    top = ask("top ware")
    for rows in (top["roles"], top["tools"], ask("top")["conversations"]):
        assert set(rows[0]) == ROW
    priced = ask(f"replay ware --budget 900 --model {MODEL}")
    assert set(priced["rows"][0]["cost"]) == COST
    shown = ask("show ware")["entries"][0]
    assert set(shown) == {"seq", "turn", "role", "tokens", "created", "client_id", "message"}


def test_every_command_that_shows_something_can_say_it_in_json() -> None:
    without = {"serve", "proxy", "tokens", "ui", "mcp", "db"}
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        if name in without:
            continue
        helped = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
        assert "--json" in helped, name


@pytest.mark.parametrize("name", ["only-state", "only-system", "only-assistant"])
def test_a_session_with_hardly_anything_in_it(tmp_path: Path, name: str) -> None:
    store = f"sqlite:///{tmp_path / 'bare.db'}"
    with Memory(store) as memory:
        memory.session("only-state").state.set("x", 1)
        memory.session("only-system").system("Be kind. 友善。")
        memory.session("only-assistant").assistant("hello")
    for command, code in (
        ("show", 0), ("rules", 0), ("context", 0), ("top", 0), ("explain --list", 0), ("explain", 3), ("diff", 3),
        ("replay", 2), ("audit", 0), ("export --format anthropic", 0), ("export", 0), ("fold", 0),
    ):  # fmt: skip
        verb, *options = command.split()
        result = invoke([verb, name, *options, "--store", store])
        assert result.exit_code == code, (command, result.output)
        assert "Traceback" not in result.output
    assert invoke(["show", LONG, "--store", store]).exit_code == 3
