"""Run the benchmarks: `python -m bench [name ...] [--quick] [--json FILE] [--write]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.peers import versions
from bench.report import Report, as_markdown, as_text

BENCHES = (
    "imports",
    "memory",
    "counting",
    "prefix",
    "window",
    "stores_append",
    "stores_read",
    "stores_servers",
    "context",
    "sessions",
    "coverage",
    "findings",
    "search",
    "streaming",
    "snapshots",
    "service",
)
_LAST_SECTION = "## What is not measured\n"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def main() -> None:
    """Read the command line, run, print, and write what was asked for."""
    options = _options()
    if options.list:
        print("\n".join(f"{name:14} {_bench(name).QUESTION}" for name in BENCHES))
        return
    print(_circumstances(quick=options.quick), flush=True)
    reports: list[Report] = []
    for name in options.names or BENCHES:
        begin = time.perf_counter()
        report = _bench(name).run(quick=options.quick)
        print(f"\n{as_text(report)}\n({time.perf_counter() - begin:.0f} s)", flush=True)
        reports.append(report)
    if options.json:
        _write_json(options.json, reports, quick=options.quick)
    if options.write:
        _write_page(reports)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(BENCHES)}; all by default"
    )
    parser.add_argument("--list", action="store_true", help="say what each one answers, and stop")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/benchmarks.md"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    if options.write and options.quick:
        parser.error("--write wants the figures of a full run: leave --quick out")
    return options


def _bench(name: str) -> Any:  # noqa: ANN401 (a module with QUESTION and run)
    return import_module(f"bench.{name}")


def _circumstances(*, quick: bool) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in versions().items())
    cores = f"{os.cpu_count()} cores"
    kind = "quick run" if quick else "full run"
    return f"{kind}, {cores}, {platform.machine()}, Python {platform.python_version()}; {packages}"


def _write_json(path: Path, reports: list[Report], *, quick: bool) -> None:
    content = {
        "circumstances": _circumstances(quick=quick),
        "benches": {
            report.name: {
                "targets": [[each.verdict, each.claim, each.measured] for each in report.targets],
                "figures": report.figures,
            }
            for report in reports
        },
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def _write_page(reports: list[Report]) -> None:
    """Replace what stands between the markers of each benchmark that was run; a new one gets a section."""
    page = PAGE.read_text(encoding="utf-8")
    for report in reports:
        if _marker(report.name) not in page:
            page = _with_section(page, report)
    sections = {report.name: as_markdown(report) for report in reports}
    sections["circumstances"] = f"{_circumstances(quick=False)}."
    for name, text in sections.items():
        start, end = _marker(name), _marker(name, end=True)
        head, found, rest = page.partition(start)
        _, closed, tail = rest.partition(end)
        if not (found and closed):
            sys.exit(f"{PAGE.name} has no section {start} ... {end}")
        page = f"{head}{start}\n\n{text}\n\n{end}{tail}"
    PAGE.write_text(page, encoding="utf-8")


def _marker(name: str, *, end: bool = False) -> str:
    return f"<!-- {'/' if end else ''}bench:{name} -->"


def _with_section(page: str, report: Report) -> str:
    """The page with an empty section for a benchmark, before what is not measured."""
    section = (
        f"## {report.name}: {report.question}\n\n"
        f"`.venv-bench/bin/python -m bench {report.name}`\n\n"
        f"{_marker(report.name)}\n\n{_marker(report.name, end=True)}\n\n"
    )
    before, found, after = page.partition(_LAST_SECTION)
    return f"{before}{section}{found}{after}" if found else f"{page.rstrip()}\n\n{section}"


if __name__ == "__main__":
    main()
