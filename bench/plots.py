"""The figures of a report as pictures for the documentation: lines that grow, bars side by side.

The same figures give the same file, byte for byte: no date, no random names in it.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report import Plot, Report

__all__ = ("draw",)

_OURS = "#0b7285"
_OTHERS = ("#868e96", "#e8590c", "#9c36b5", "#2f9e44", "#c2255c", "#f08c00", "#5c940d", "#364fc7")
_SETTINGS = {
    "svg.hashsalt": "turnfold",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(report: Report, folder: Path) -> None:
    """Write every picture of a report into the folder."""
    for plot in report.plots:
        with mpl.rc_context(_SETTINGS):
            figure = Figure(figsize=(8.2, _height(plot)), layout="constrained")
            axes = figure.subplots()
            axes.set_title(plot.title, loc="left", fontsize=10, fontweight="bold")
            (_bars if plot.bars else _lines)(axes, plot)
            figure.savefig(folder / plot.file, metadata={"Date": None, "Creator": "turnfold bench"})


def _height(plot: Plot) -> float:
    return 1.2 + 0.27 * len(plot.series) if plot.bars else 4.6


def _colours(plot: Plot) -> dict[str, str]:
    others = [name for name in plot.series if not name.startswith("turnfold")]
    colours = {name: _OTHERS[index % len(_OTHERS)] for index, name in enumerate(others)}
    return {name: colours.get(name, _OURS) for name in plot.series}


def _lines(axes: Axes, plot: Plot) -> None:
    styles = iter(("-", "--", ":", "-.") * 3)
    for name, colour in _colours(plot).items():
        points = sorted(plot.series[name].items())
        style = next(styles) if colour == _OURS else "-"
        width = 2.2 if colour == _OURS else 1.1
        axes.plot(*zip(*points, strict=True), style, color=colour, label=name, lw=width, marker=".")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.grid(visible=True, which="major", color="#e9ecef")
    axes.figure.legend(loc="outside lower left", ncols=2, fontsize=7, frameon=False)


def _bars(axes: Axes, plot: Plot) -> None:
    names = list(plot.series)
    values = [next(iter(plot.series[name].values())) for name in names]
    colours = _colours(plot)
    bars = axes.barh(names, values, color=[colours[name] for name in names], height=0.7)
    axes.bar_label(bars, [plot.shown(value) for value in values], padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    if plot.logarithmic:
        axes.set_xscale("log")
    axes.set_xlabel(plot.x)
    axes.tick_params(axis="y", labelsize=8)
