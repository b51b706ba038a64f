"""The coverage benchmark shows what `turnfold.evaluation` measures, and nothing it measured itself."""

from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path

import pytest

from bench import coverage
from bench.conversations import talks
from turnfold.evaluation import evaluate, sample_set


@pytest.fixture
def locomo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The set that comes with turnfold, where the benchmark looks for LoCoMo."""
    folder = tmp_path / "conversations"
    folder.mkdir()
    sample = files("turnfold.evaluation").joinpath("sample.jsonl").read_bytes()
    (folder / "locomo.jsonl.gz").write_bytes(gzip.compress(sample))
    monkeypatch.setenv("TURNFOLD_DATA", str(tmp_path))


@pytest.mark.usefixtures("locomo")
def test_the_benchmark_reads_sets_as_the_package_does() -> None:
    assert list(talks("locomo")) == sample_set()


@pytest.mark.slow
@pytest.mark.usefixtures("locomo")
def test_the_table_holds_the_figures_of_the_package() -> None:
    rows = coverage._evaluated(quick=False)
    [table] = [coverage._context_table(rows)]
    ours = evaluate(sample_set(), budgets=[1_000], peers={}).rows[0]
    shown = (ours.coverage, ours.recall_at_5, ours.precision_at_5, ours.atoms_kept)
    assert table.rows[0][:5] == ["turnfold, budget 1,000", *(f"{each:.3f}" for each in shown)]
    assert [row[0] for row in table.rows][:4] == [
        "turnfold, budget 1,000",
        'turnfold, recall="off", budget 1,000',
        "recency, budget 1,000",
        "bm25, budget 1,000",
    ]
    evidence = [float(row[1]) for row in table.rows[:4]]
    assert evidence[0] > evidence[1]
    assert table.rows[2][2] == "-"  # a recency window finds nothing by itself
