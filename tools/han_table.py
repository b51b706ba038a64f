"""Write the table that folds traditional Chinese characters to simplified ones, for search.

    python tools/han_table.py TSCharacters.txt

The source is the character table of OpenCC (Apache-2.0, github.com/BYVoid/OpenCC, data/dictionary/TSCharacters.txt):
on each line a traditional character, a tab, and its simplified forms, the usual one first. Search needs one form per
character, so the usual one is taken; rare characters outside the basic plane are left as they are.
"""

from __future__ import annotations

import argparse
import unicodedata
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "src" / "turnfold" / "recall" / "simplified.py"
PAIRS_ON_A_LINE = 23
HEAD = '''"""Traditional Chinese characters as their simplified forms, so that either script finds the other.

Search only needs both spellings of a word to become one, so a table of single characters is enough.
Written by tools/han_table.py from the character table of OpenCC (Apache-2.0); not by hand.
"""

from __future__ import annotations

__all__ = ("SIMPLIFIED",)

_PAIRS = """
'''
FOOT = '''""".replace("\\n", "")

SIMPLIFIED = dict(zip(map(ord, _PAIRS[::2]), _PAIRS[1::2], strict=True))
"""For `str.translate`: traditional to simplified."""
'''


def pairs_of(source: str) -> dict[str, str]:
    """Character to character; no value is a key, so that folding twice is folding once."""
    first: dict[str, str] = {}
    for line in source.splitlines():
        traditional, _, forms = line.partition("\t")
        simplified = forms.split(" ")[0]
        single = len(traditional) == len(simplified) == 1 and traditional != simplified
        if single and all(map(_is_plain, (traditional, simplified))):
            first[traditional] = simplified
    return {key: _end(value, first) for key, value in first.items() if _end(value, first) != key}


def _is_plain(character: str) -> bool:
    """Whether it is in the basic plane, and what normalising leaves as it is."""
    return character < "\U00010000" and unicodedata.normalize("NFKC", character) == character


def _end(character: str, table: dict[str, str]) -> str:
    seen = {character}
    while (following := table.get(character, character)) not in seen:
        character = following
        seen.add(character)
    return character


def main() -> None:
    """Read the table named on the command line, write the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    pairs = pairs_of(parser.parse_args().source.read_text(encoding="utf-8"))
    cells = [key + value for key, value in sorted(pairs.items())]
    lines = [
        "".join(cells[at : at + PAIRS_ON_A_LINE]) for at in range(0, len(cells), PAIRS_ON_A_LINE)
    ]
    TARGET.write_text(HEAD + "\n".join(lines) + "\n" + FOOT, encoding="utf-8")


if __name__ == "__main__":
    main()
