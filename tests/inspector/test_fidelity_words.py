"""The figure named fidelity has one name and one meaning in the demo, in `checkpoints` and on the inspector's page."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.inspector.reading import read_page
from tests.inspector.seeded import inspected
from turnfold import Budget, Memory
from turnfold.cli.app import app
from turnfold.cli.demo.replay import CONVERSATION, Step, load_sample, replay
from turnfold.cli.demo.report import ending_of
from turnfold.cli.demo.texts import TEXTS
from turnfold.inspect import FIDELITY_MEANING, fidelity_of_all
from turnfold.service import ServiceOptions
from turnfold.service.inspector.html import address
from turnfold.tokens import counter_for

COUNTER = counter_for("gpt-4o")
NAMES = {
    "en": ("of what this fold read", "of all entries it covers"),
    "zh": ("对本次折叠所读内容的保真度", "对其覆盖的全部记录"),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Step]]:
    """A file that the demo left, and its calls up to the third fold."""
    file = tmp_path_factory.mktemp("demo") / "demo.db"
    steps: list[Step] = []
    for step in replay(load_sample(), Budget(max_tokens=6_000), COUNTER, keep=file):
        steps.append(step)
        if sum(each.fold is not None for each in steps) == 3:
            break
    return file, steps


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_is_explained_with_the_same_words_wherever_it_is_shown(
    kept: tuple[Path, list[Step]], language: str
) -> None:
    file, steps = kept
    store = f"sqlite:///{file}"
    with Memory(store) as memory:
        session = memory.session(CONVERSATION)
        newest = session.checkpoints()[-1]
        whole = fidelity_of_all(newest, session.history(limit=newest.upto))
    assert whole < newest.fidelity
    words = TEXTS["zh" if language == "zh" else "en"]
    out = io.StringIO()
    ending = ending_of(load_sample(), steps, Budget(max_tokens=6_000), COUNTER, words)
    Console(file=out, width=2_000).print(ending)
    done = CliRunner().invoke(
        app,
        ["checkpoints", CONVERSATION, "--store", store],
        env={"COLUMNS": "2000", "TURNFOLD_LANG": language},
    )
    with inspected(ServiceOptions(store=store)) as service, service.client() as client:
        place = address("sessions", CONVERSATION, "checkpoints", lang=language)
        page = read_page(client.get(place).text).text
    of_fold, of_all = NAMES[language]
    for shown in (out.getvalue(), done.output, page):
        assert FIDELITY_MEANING[language] in shown
        assert of_all in shown
        assert f"{whole:.0%}" in shown
    for shown in (words.folded, words.folded_again, done.output, page):
        assert of_fold in shown
