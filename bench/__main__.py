"""Run the benchmarks: `python -m bench [name ...] [--quick] [--json FILE] [--write]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.hosts import Guests
from bench.report import Report, as_markdown, as_text

BESIDE_PEERS = (
    "imports",
    "memory",
    "window",
    "context",
    "prefix",
    "cost",
    "stores_read",
    "appends",
    "stores_servers",
    "whole_run",
    "summaries",
    "finding",
    "counting",
    "checkpoints",
)
"""Those that ask peers, each in its own environment."""
BENCHES = (
    *BESIDE_PEERS,
    "floors",
    "sessions",
    "coverage",
    "findings",
    "search",
    "streaming",
    "snapshots",
    "encryption",
    "service",
    "proxy",
)
_OURS = ("apsw", "msgspec", "splintr-rs", "tiktoken", "turnfold")
_LAST_SECTION = "## What is not measured\n"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def main() -> None:
    """Read the command line, run, print, and write what was asked for."""
    options = _options()
    if options.list:
        print("\n".join(f"{name:14} {_bench(name).QUESTION}" for name in BENCHES))
        return
    with Guests(only=frozenset(options.peer)) as guests:
        names = options.names or BENCHES
        circumstances = _circumstances(guests, names, quick=options.quick)
        print(circumstances, flush=True)
        reports: list[Report] = []
        failed: list[str] = []
        for name in names:
            try:
                reports.append(_reported(name, guests, quick=options.quick))
            except ModuleNotFoundError as error:
                print(
                    f"{name} needs the package {error.name}: pip install {error.name}", flush=True
                )
                failed.append(name)
                continue
            except Exception:
                traceback.print_exc()
                failed.append(name)
                continue
            if options.json:  # after each: hours of figures must not be lost to the last of them
                _write_json(options.json, reports, circumstances)
            if options.write:
                # A part of the benches says nothing of the circumstances of the others.
                _write_page(reports[-1:], "" if options.names else circumstances)
    if failed:
        sys.exit(f"did not finish: {', '.join(failed)}")


def _reported(name: str, guests: Guests, *, quick: bool) -> Report:
    begin = time.perf_counter()
    asked = (guests,) if name in BESIDE_PEERS else ()
    report: Report = _bench(name).run(*asked, quick=quick)
    print(f"\n{as_text(report)}\n({time.perf_counter() - begin:.0f} s)", flush=True)
    return report


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(BENCHES)}; all by default"
    )
    parser.add_argument("--list", action="store_true", help="say what each one answers, and stop")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="FILE", help="only these of bench/peers"
    )
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


def _circumstances(guests: Guests, names: Sequence[str], *, quick: bool) -> str:
    """The machine and every version, peers' only where a bench asks them."""
    found = {name: _installed(name) for name in _OURS}
    if set(names) & set(BESIDE_PEERS):
        found |= guests.versions()
    packages = ", ".join(f"{name} {number}" for name, number in sorted(found.items()))
    cores = f"{os.cpu_count()} cores"
    kind = "quick run" if quick else "full run"
    return f"{kind}, {cores}, {platform.machine()}, Python {platform.python_version()}; {packages}"


def _installed(name: str) -> str:
    """The version of a package, or that it is not installed: only some benches need all of them."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _write_json(path: Path, reports: list[Report], circumstances: str) -> None:
    content = {
        "circumstances": circumstances,
        "benches": {
            report.name: {
                "targets": [[each.verdict, each.claim, each.measured] for each in report.targets],
                "figures": report.figures,
            }
            for report in reports
        },
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def _write_page(reports: list[Report], circumstances: str) -> None:
    """Draw the pictures and replace what stands between the markers; a benchmark new to the page gets a section."""
    from bench.plots import draw  # only who writes the page needs what draws

    page = PAGE.read_text(encoding="utf-8")
    for report in reports:
        draw(report, PAGE.parent / "images")
        if _marker(report.name) not in page:
            page = _with_section(page, report)
    sections = {report.name: as_markdown(report) for report in reports}
    if circumstances:
        sections["circumstances"] = f"{circumstances}."
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
