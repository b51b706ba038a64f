"""Reasons are told in the language of the reader, and a reason whose wording changed is noticed."""

from __future__ import annotations

import re
import string
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.house.source_tree import SOURCE
from tests.inspector.reading import read_page
from tests.inspector.seeded import TALK, inspected, seed, store_at
from turnfold.cli.app import app
from turnfold.inspect import REASONS, call_view, diff_calls, translate_reason
from turnfold.memory import Memory
from turnfold.service import ServiceOptions
from turnfold.service.inspector.html import address

HAN = re.compile(r"[\u4e00-\u9fff]")
WRITERS = [
    *(
        "window/strategies.py",
        "window/context.py",
        "window/assembly.py",
        "window/shortened_prompt_sections.py",
    ),
    *(
        "memory/live_window.py",
        "memory/cached_conversation.py",
        "memory/call_log.py",
        "inspect/views.py",
    ),
]


@pytest.mark.parametrize("english", REASONS)
def test_every_reason_is_one_that_is_given_and_has_its_figures(english: str) -> None:
    written = "\n".join((SOURCE / "turnfold" / name).read_text("utf-8") for name in WRITERS)
    fixed = [text for text, *_ in string.Formatter().parse(english) if text.strip()]
    fixed = [text for text in fixed if text not in (" messages", " turns")]
    # Some are put together from two texts: "1 rule" and "left out", "tokens" and "shortened to".
    joints = r"(?<=tail: )1 rule | rules |(?<= tokens )(?=left|shortened)|(?<=^left out: )"
    fixed = [piece for text in fixed for piece in re.split(joints, text)]
    assert [text for text in fixed if text.strip() and text not in written] == []
    names = {name for _, name, *_ in string.Formatter().parse(english) if name}
    assert {name for _, name, *_ in string.Formatter().parse(REASONS[english]) if name} == names
    shown = english.format(**dict.fromkeys(names, "7"))
    assert translate_reason(shown, "zh") == REASONS[english].format(**dict.fromkeys(names, "7"))
    assert translate_reason(shown, "en") == shown


def test_an_unknown_reason_is_shown_as_it_is_and_known_parts_are_translated() -> None:
    assert translate_reason("something else", "zh") == "something else"
    assert translate_reason("over budget; something else", "zh") == "超出预算；something else"


def test_the_reasons_of_real_calls_are_chinese_in_the_inspector_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(tmp_path)
    seed(store)
    with Memory(store, scope="acme") as memory:
        session = memory.session(TALK)
        explained = [session.explain(call.call) for call in session.calls()]
        call = explained[-1].manifest.call
    views = [call_view(each) for each in explained]
    reasons = {item.reason for view in views for item in view.items if item.reason}
    reasons |= {left.reason for view in views for left in view.left_out}
    reasons |= {reason for a, b in pairwise(explained) for reason in diff_calls(a, b).reasons}
    assert len(reasons) > 4
    assert [reason for reason in reasons if not HAN.search(translate_reason(reason, "zh"))] == []
    with (
        inspected(ServiceOptions(store=store, tenant="acme")) as service,
        service.client() as client,
    ):
        where = address("sessions", TALK, "calls", call, lang="zh")
        page = read_page(client.get(where).text)
    [left] = page.all("table", class_="left-out")
    told = [row.all("td")[2].text for row in left.all("tr") if row.all("td")]
    assert told == [translate_reason(each.reason, "zh") for each in views[-1].left_out]
    monkeypatch.setenv("TURNFOLD_LANG", "zh")
    command = ["explain", TALK, call, "--store", store, "--tenant", "acme"]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "400"})
    assert done.exit_code == 0, done.output
    for each in told:
        assert each in done.output
