"""Draws the pictures of the demo in docs/images anew: `python tools/demo_images.py`.

A picture is the terminal as it looks while the demo runs: the folds so far, one call in its frame, and the table it
ends with. Fonts are named, never fetched, so the picture loads nothing from anywhere.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from turnfold.budget import Budget
from turnfold.cli.demo.charts import Drawing
from turnfold.cli.demo.replay import Sample, Step, load_sample, replay
from turnfold.cli.demo.report import MODEL, ending_of
from turnfold.cli.demo.texts import TEXTS, LabelCode
from turnfold.tokens import TokenCounter, counter_for

__all__ = ("draw_images",)

IMAGES = Path(__file__).parent.parent / "docs" / "images"
NAMES: dict[LabelCode, str] = {"en": "demo.svg", "zh": "demo.zh.svg"}
FRAMED = 27
"""The call whose frame is shown."""
TOKENS = 6_000
FONTS = (
    "'Fira Code', 'SF Mono', Menlo, Consolas, 'Noto Sans Mono CJK SC', 'PingFang SC', "
    "'Microsoft YaHei', monospace"
)


def draw_images(folder: Path = IMAGES) -> None:
    """Write one picture per language."""
    sample, budget, counter = load_sample(), Budget(max_tokens=TOKENS), counter_for(MODEL)
    steps = list(replay(sample, budget, counter))
    for language, name in NAMES.items():
        picture = _picture(language, sample, steps, budget, counter)
        (folder / name).write_text(picture, encoding="utf-8")


def _picture(
    language: LabelCode, sample: Sample, steps: list[Step], budget: Budget, counter: TokenCounter
) -> str:
    texts = TEXTS[language]
    drawing = Drawing(texts, plain=False, sample=sample, budget=budget.tokens, model=MODEL)
    screen = Console(
        file=io.StringIO(), record=True, width=100, force_terminal=True, highlight=False,
        color_system="standard", legacy_windows=False,
    )  # fmt: skip
    screen.print(Text.assemble(("$", "bold green"), " make demo"))
    screen.print(drawing.opening(sum(map(counter.count_message, sample.messages))))
    screen.print()
    newest = None
    for step in steps[:FRAMED]:
        newest = (step.number, step.fold) if step.fold else newest
        for event in drawing.events(step):
            screen.print(event)
    screen.print(drawing.frame(steps[FRAMED - 1], newest))
    screen.print()
    screen.print(ending_of(sample, steps, budget, counter, texts))
    unique = f"turnfold-{language}"
    return screen.export_svg(title="turnfold demo", code_format=_format(), unique_id=unique)


def _format() -> str:
    """The usual frame without the fonts it would fetch."""
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    plain = re.sub(r"\s*<!--.*?-->", "", plain)
    return plain.replace("Fira Code, monospace", FONTS)


if __name__ == "__main__":
    draw_images()
